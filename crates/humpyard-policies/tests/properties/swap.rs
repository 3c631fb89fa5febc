//! One policy takes over from another while packets wait and are in service: every ordered pair of a family.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, FlowId, Id};
use humpyard_core::mechanism::FlowOrder;
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Family, Promise};
use humpyard_core::unit::{Time, Weight};
use humpyard_policies::spec::PolicySpec;
use humpyard_testkit::{FlowWatch, History, Player, Shape, explain};
use proptest::prelude::*;

use crate::shapes::{cases, every_shape, merges_clients, names, promising};

/// A specification of each layout of queues, with policies of each kind.
const LAYOUTS: [&str; 8] = [
    "drr",
    "gr3",
    "fcfs",
    "hrw",
    "steer=ps-hrw/share=sfq",
    "ml:full=hold",
    "allocate=everest/share=wfq",
    "allocate=static/steer=conn/share=wrr",
];

/// Plays a history in which `after` takes over from `before` half-way. Returns the number of
/// packets out of the order of their flow.
fn swapped(before: &str, after: &str, history: &History) -> Result<u64, TestCaseError> {
    let spec = |text: &str| text.parse::<PolicySpec>().expect("a registered policy");
    let (before, after) = (spec(before), spec(after));
    let mut watch = FlowWatch::new(history);
    explain(history, || {
        let config = history.config();
        let mut scheduler = before.build(&config).expect("a valid set-up");
        let half = history.events.len() / 2;
        Player::new(history).run_with(&mut scheduler, &mut watch, half, |now, scheduler| {
            after.take_over(now, &before, &config, scheduler).expect("it can take over");
        })
    })
    .map_err(|error| TestCaseError::fail(format!("{after} after {before}: {error}")))?;
    Ok(watch.out_of_order())
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn any_sharing_policy_takes_over_from_any_other(shape in every_shape()) {
        let history = History::generate(&Shape { services: shape.services.min(shape.cores), ..shape });
        let shares = names(Family::Share);
        for before in &shares {
            for after in &shares {
                let late = swapped(before, after, &history)?;
                let keeps = [before, after].into_iter().all(|&name| !merges_clients(name)) || history.cores == 1;
                // A chain is a loop through the queue, in which packets may overtake.
                if keeps && history.flow_order == FlowOrder::Hold && history.chains.is_empty() {
                    prop_assert_eq!(late, 0, "{} after {}\n{}", after, before, history);
                }
                swapped(&format!("steer=hrw/share={before}"), &format!("steer=hrw/share={after}"), &history)?;
                swapped(&format!("allocate=everest/share={before}"), &format!("allocate=everest/share={after}"), &history)?;
            }
        }
    }

    #[test]
    fn a_scheduler_of_any_layout_replaces_any_other(shape in every_shape(), cores in 1_usize..9) {
        let history = History::generate(&Shape { services: shape.services.min(shape.cores).min(cores), ..shape });
        for before in LAYOUTS {
            for after in LAYOUTS {
                let late = replaced(before, after, &history, cores)?;
                let keeps = |name: &str, cores: usize| {
                    cores == 1 || !(name == "fcfs" || name.starts_with("ml") || name.contains("ps-hrw") || name.contains("everest"))
                };
                let in_order = keeps(before, history.cores) && keeps(after, cores);
                if in_order && history.flow_order == FlowOrder::Hold && history.chains.is_empty() {
                    prop_assert_eq!(late, 0, "{} after {}\n{}", after, before, history);
                }
            }
        }
    }

    #[test]
    fn any_steering_policy_takes_over_from_any_other(shape in every_shape()) {
        let history = History::generate(&Shape { services: shape.services.min(shape.cores), ..shape });
        let keeping = promising(Family::Steer, Promise::FlowOrder);
        let keeps = |name: &str| keeping.iter().any(|spec| spec == name);
        prop_assert!(keeping.len() > 1);
        for before in names(Family::Steer) {
            for after in names(Family::Steer) {
                let late = swapped(before, after, &history)?;
                if keeps(before) && keeps(after) && history.chains.is_empty() {
                    prop_assert_eq!(late, 0, "{} after {}\n{}", after, before, history);
                }
            }
        }
        swapped("ml:full=bind", "ml:full=element", &history)?;
        swapped("ml:full=element", "ss", &history)?;
        swapped("ss", "ml:full=hold", &history)?;
    }

    #[test]
    fn any_allocation_takes_over_from_any_other(shape in every_shape()) {
        let history = History::generate(&Shape { services: shape.services.min(shape.cores), ..shape });
        for before in names(Family::Allocate) {
            for after in names(Family::Allocate) {
                swapped(before, after, &history)?;
                let late = swapped(&format!("allocate={before}/share=drr"), &format!("allocate={after}/share=drr"), &history)?;
                if history.flow_order == FlowOrder::Hold && history.chains.is_empty() {
                    prop_assert_eq!(late, 0, "{} after {}\n{}", after, before, history);
                }
            }
        }
    }
}

/// Plays the first half of a history. As soon as no packet is in service, replaces the scheduler by
/// one with other policies and other cores, and plays the rest.
fn replaced(before: &str, after: &str, history: &History, cores: usize) -> Result<u64, TestCaseError> {
    let spec = |text: &str| text.parse::<PolicySpec>().expect("a registered policy");
    let mut watch = FlowWatch::new(history);
    explain(history, || {
        let config = history.config();
        let mut scheduler = spec(before).build(&config).expect("a valid set-up");
        let half = history.events.len() / 2;
        Player::new(history).run_replacing(&mut scheduler, &mut watch, half, |now, scheduler| {
            let config = SchedulerConfig { cores, contexts: 1, speeds: Vec::new(), topology: None, ..config };
            let fresh = spec(after).build(&config).expect("a valid set-up");
            scheduler.replace(now, fresh).expect("it was made for the same packets");
            scheduler.check();
        })
    })
    .map_err(|error| TestCaseError::fail(format!("{after} on {cores} cores after {before}: {error}")))?;
    Ok(watch.out_of_order())
}

/// Weights set during a run hold under the policy that takes over.
#[test]
fn weights_outlast_a_swap() {
    let spec = |text: &str| text.parse::<PolicySpec>().expect("a registered policy");
    let (before, after) = (spec("drr"), spec("wrr"));
    let config = SchedulerConfig { clients: 2, packets: 200, ..SchedulerConfig::default() };
    let mut scheduler = before.build(&config).expect("a valid set-up");
    scheduler.set_weight(Time::ZERO, ClientId(1), Weight::new(3).expect("positive"));
    after.take_over(Time::ZERO, &before, &config, &mut scheduler).expect("it can take over");
    for client in [0, 1].repeat(60).into_iter().map(ClientId) {
        let packet = Packet { client, flow: FlowId(client.0), length: 100, estimate: 100, ..Packet::default() };
        scheduler.on_arrival(Time::ZERO, &packet);
    }
    let mut served = [0; 2];
    for _ in 0..64 {
        let given = scheduler.next(Time::ZERO, CoreId(0)).expect("packets wait");
        served[given.packet.client.index()] += 1;
        scheduler.on_completion(Time::ZERO, given.slot, Time::from_ns(100));
    }
    assert!((46..=50).contains(&served[1]), "{served:?}");
}

#[test]
fn policies_that_need_other_queues_are_refused() {
    let history = History::generate(&Shape { cores: 2, ..Shape::default() });
    let spec = |text: &str| text.parse::<PolicySpec>().expect("a registered policy");
    let refused = |before: &str, after: &str| {
        let (before, after) = (spec(before), spec(after));
        let mut scheduler = before.build(&history.config()).expect("a valid set-up");
        let now = Time::ZERO;
        after.take_over(now, &before, &history.config(), &mut scheduler).unwrap_err().to_string()
    };
    assert_eq!(
        refused("drr", "hrw"),
        "`hrw` cannot take over from `drr`: packets would wait in other queues; name policies of the same families"
    );
    assert!(refused("estimate=oracle/share=drr", "sfq").contains("name the same estimator"));
    assert!(refused("allocate=static/steer=hrw", "allocate=everest/steer=hrw").contains("cannot take over where"));
}
