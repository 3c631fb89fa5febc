//! Which policies keep which order.

use humpyard_core::id::Id;
use humpyard_core::mechanism::{FlowOrder, Limits, Never, Scheduler};
use humpyard_core::policy::{Build, Family, Promise};
use humpyard_policies::share::fcfs::{Fcfs, FcfsParams};
use humpyard_policies::spec::PolicySpec;
use humpyard_testkit::{Event, FlowWatch, History, Log, Shape};
use proptest::prelude::*;

use crate::shapes::{ROOM, any_shape, cases, merges_clients, play, promising, specs};

fn out_of_order(spec: &str, history: &History) -> Result<u64, TestCaseError> {
    let spec: PolicySpec = spec.parse().expect("a valid spec");
    let mut watch = FlowWatch::new(history);
    play(history, |history| spec.build(&history.config()), &mut watch)?;
    Ok(watch.out_of_order())
}

fn starts_in_arrival_order(log: &Log) -> bool {
    log.decisions.is_sorted_by_key(|decision| decision.arrival)
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn fcfs_starts_packets_as_they_came(shape in any_shape()) {
        let history = History::generate(&shape);
        let log = play(&history, |history| {
            let config = history.config();
            let share = || Fcfs::new(&FcfsParams {}, &config);
            Scheduler::<Never, _, Never>::new(&config, None, None, share)
        }, &mut ())?;
        prop_assert!(starts_in_arrival_order(&log), "{history}");
    }

    #[test]
    fn a_flow_on_one_core_keeps_its_order(shape in any_shape()) {
        let history = History::generate(&shape);
        for steer in promising(Family::Steer, Promise::FlowOrder) {
            for share in specs(Family::Share) {
                let late = out_of_order(&format!("steer={steer}/share={share}"), &history)?;
                prop_assert_eq!(late, 0, "{} with {}\n{}", steer, share, history);
            }
        }
    }

    #[test]
    fn fair_sharing_keeps_flow_order_on_several_cores_where_told_to(shape in any_shape()) {
        let history = History::generate(&Shape { flow_order: FlowOrder::Hold, ..shape });
        for share in specs(Family::Share).into_iter().filter(|share| !merges_clients(share)) {
            prop_assert_eq!(out_of_order(&share, &history)?, 0, "{}\n{}", share, history);
        }
    }

    #[test]
    fn round_robin_balances_the_packets_of_a_service(shape in any_shape()) {
        // Without drops, each packet is dispatched by the core to which it was steered.
        let history = History::generate(&Shape { packets: ROOM, limits: Limits::default(), ..shape });
        let spec: PolicySpec = "rr".parse().expect("registered");
        let log = play(&history, |history| spec.build(&history.config()), &mut ())?;
        for service in 0..shape.services {
            prop_assert!(balanced(&history, &log, service), "service {service}\n{history}");
        }
    }
}

/// Whether, in any run of consecutive packets of the service, any two cores get counts that differ
/// by at most one.
fn balanced(history: &History, log: &Log, service: usize) -> bool {
    let mut steered: Vec<(usize, usize)> = log
        .decisions
        .iter()
        .filter(|decision| match history.events[decision.arrival].1 {
            Event::Arrive { packet, .. } => packet.service.index() == service,
            _ => false,
        })
        .map(|decision| (decision.arrival, decision.core.index()))
        .collect();
    steered.sort_unstable();
    let pairs = (0..history.cores).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs.into_iter().all(|(a, b)| {
        let ahead = steered.iter().scan(0i64, |ahead, &(_, core)| {
            *ahead += i64::from(core == a) - i64::from(core == b);
            Some(*ahead)
        });
        let (min, max) = ahead.fold((0, 0), |(min, max), ahead| (min.min(ahead), max.max(ahead)));
        max - min <= 1
    })
}

/// The check detects errors: spraying packets over cores does put flows out of order.
#[test]
fn round_robin_does_not_keep_order() {
    let late = (0..20).map(|seed| {
        let history = History::generate(&Shape { seed, cores: 4, ..Shape::default() });
        out_of_order("rr", &history).expect("a valid run")
    });
    assert!(late.sum::<u64>() > 0);
}
