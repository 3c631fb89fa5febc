//! After construction, neither the policies nor the mechanism allocate, in random histories too.

use humpyard_core::mechanism::{ExitOrder, FlowOrder, Limits, Split, WhenFull};
use humpyard_core::policy::Family;
use humpyard_core::unit::Time;
use humpyard_policies::registry;
use humpyard_policies::spec::PolicySpec;
use humpyard_testkit::{History, Player, Shape};

use crate::counting::allocations;

fn histories() -> impl Iterator<Item = History> {
    (0..20).map(|seed| {
        let limits = if seed % 2 == 0 {
            Limits::default()
        } else {
            Limits::default().with_queue(12).with_client(5).with_when_full(WhenFull::LongestQueue)
        };
        let flow_order = if seed % 3 == 0 { FlowOrder::Free } else { FlowOrder::Hold };
        History::generate(&Shape {
            seed,
            cores: 3,
            clients: 8,
            services: 2,
            events: 1000,
            in_flight: 1 + seed as usize % 3,
            error_permille: 1000,
            weights_change: true,
            packets: if seed % 4 == 0 { 20 } else { 4096 },
            limits,
            chains: seed % 5 == 0,
            exit: (seed % 7 == 0).then_some(ExitOrder { packets: 8, timeout: Time::from_ns(50_000) }),
            flow_order,
            ..Shape::default()
        })
    })
}

/// Returns the number of allocations while the scheduler of this spec runs the history; the driver makes none.
fn allocations_of(spec: &str, history: &History) -> u64 {
    let spec: PolicySpec = spec.parse().expect("a registered name");
    let mut scheduler = spec.build(&history.config()).expect("a valid set-up");
    let player = Player::new(history).without_checks();
    let (log, made) = allocations(|| player.run(&mut scheduler, &mut ()));
    assert!(log.decisions.len() >= 20, "{} decisions are not much of a test", log.decisions.len());
    made
}

#[test]
fn no_event_allocates() {
    let mut specs: Vec<String> = registry::entries().into_iter().flat_map(|entry| entry.specs()).collect();
    specs.push("allocate=static/steer=hrw/share=sfq".into());
    specs.push("allocate=static/steer=h-cahrw".into());
    specs.push("allocate=static/steer=ps-hrw:beta=0".into());
    for history in histories() {
        for spec in &specs {
            assert_eq!(allocations_of(spec, &history), 0, "{spec} on {history}");
        }
    }
}

#[test]
fn splitting_flows_does_not_allocate() {
    let split = Some(Split { cores: 2, share_millionths: 50_000, window: Time::from_ns(100_000) });
    let exit = Some(ExitOrder { packets: 8, timeout: Time::from_ns(50_000) });
    let entries = registry::entries().into_iter().filter(|entry| entry.info.family == Family::Steer);
    let specs: Vec<String> = entries.flat_map(|entry| entry.specs()).collect();
    for mut history in histories().take(6) {
        (history.split, history.exit) = (split, exit);
        for spec in &specs {
            assert_eq!(allocations_of(spec, &history), 0, "{spec} on {history}");
        }
    }
}
