//! The promises of steering policies for any set of cores.

use humpyard_core::id::{CoreId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{CoreView, Family, Promise, Steer, View};
use humpyard_core::unit::Time;
use humpyard_policies::spec::PolicySpec;
use humpyard_testkit::{History, Shape};
use proptest::prelude::*;
use proptest::sample::subsequence;

use crate::shapes::{cases, promising};

const CORES: usize = 16;

/// Returns the targets of packets with these keys and backlogs, under a fresh policy on 16 cores,
/// of which `eligible` are eligible.
fn targets(spec: &str, eligible: &[usize], packets: &[(u64, u32)]) -> Vec<CoreId> {
    let history = History::generate(&Shape { cores: CORES, events: 0, ..Shape::default() });
    let spec: PolicySpec = spec.parse().expect("a registered policy");
    let mut policy = spec.build_steer(&history.config()).expect("valid parameters").expect("it steers");
    let eligible: Vec<CoreId> = eligible.iter().copied().map(CoreId::from_index).collect();
    let steer = |&(key, backlog): &(u64, u32)| {
        let loaded = |core: CoreId| {
            let packets = backlog * (core.index() as u32 % 5);
            CoreView { packets, backlog: u64::from(packets) * core.index() as u64 }
        };
        let cores = IdVec::from_fn(CORES, loaded);
        let packet = Packet { key, rss: key as u32, ..Packet::default() };
        let core = policy
            .steer(Time::ZERO, &packet, &View { as_of: Time::ZERO, cores: &cores, eligible: &eligible })
            .core()
            .expect("a core");
        assert!(eligible.contains(&core), "core {core} is not one of {eligible:?}");
        core
    };
    packets.iter().map(steer).collect()
}

fn packets() -> impl Strategy<Value = Vec<(u64, u32)>> {
    prop::collection::vec((any::<u64>(), 0..50u32), 1..100)
}

/// Generates a set of cores, ascending.
fn some_cores(at_least: usize) -> impl Strategy<Value = Vec<usize>> {
    subsequence((0..CORES).collect::<Vec<_>>(), at_least..=CORES)
}

/// Checks that a connection stays on its core, whatever happens to other packets.
fn stays(spec: &str, eligible: &[usize], packets: &[(u64, u32)]) -> Result<(), TestCaseError> {
    let there = targets(spec, eligible, packets);
    let backwards: Vec<(u64, u32)> = packets.iter().rev().map(|&(key, backlog)| (key, 50 - backlog)).collect();
    let mut back = targets(spec, eligible, &backwards);
    back.reverse();
    prop_assert_eq!(there, back);
    Ok(())
}

/// Checks that without one core only its connections move.
fn moves_those_of(spec: &str, gone: usize, eligible: &[usize], packets: &[(u64, u32)]) -> Result<(), TestCaseError> {
    let left: Vec<usize> = eligible.iter().copied().filter(|&core| core != gone).collect();
    let before = targets(spec, eligible, packets);
    let after = targets(spec, &left, packets);
    for (before, after) in before.into_iter().zip(after) {
        let moved = after != before;
        prop_assert_eq!(moved, before.index() == gone, "from {} to {}, without {}", before, after, gone);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn static_steering_depends_on_the_connection_alone(eligible in some_cores(1), packets in packets()) {
        for spec in ["hrw", "conn", "conn:hash=mix"] {
            stays(spec, &eligible, &packets)?;
        }
    }

    #[test]
    fn rendezvous_moves_the_connections_of_the_core_that_goes_and_no_others(
        eligible in some_cores(2),
        place in any::<prop::sample::Index>(),
        packets in packets(),
    ) {
        let gone = eligible[place.index(eligible.len())];
        for spec in promising(Family::Steer, Promise::MinimalDisruption) {
            moves_those_of(&spec, gone, &eligible, &packets)?;
        }
        // Policies with queues in their bids also promise this while the queues do not change.
        moves_those_of("ahrw", gone, &eligible, &packets)?;
        moves_those_of("ahrw:form=log", gone, &eligible, &packets)?;
    }

    #[test]
    fn round_robin_visits_every_core_before_any_twice(eligible in some_cores(1), packets in packets()) {
        let found = targets("rr", &eligible, &packets);
        for round in found.chunks(eligible.len()) {
            let expected: Vec<CoreId> = eligible.iter().take(round.len()).copied().map(CoreId::from_index).collect();
            prop_assert_eq!(round, &expected[..]);
        }
    }
}
