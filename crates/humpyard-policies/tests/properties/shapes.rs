//! Generators of shapes, and functions that play their histories.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::mechanism::{ExitOrder, FlowOrder, Limits, Scheduler, WhenFull};
use humpyard_core::policy::{Allocate, BuildError, Family, Promise, Share, Steer};
use humpyard_core::unit::{Time, WorkUnit};
use humpyard_policies::registry;
use humpyard_policies::spec::PolicySpec;
use humpyard_testkit::{Event, History, Log, Observer, Player, Shape, explain};
use proptest::prelude::*;
use proptest::test_runner::Config;

/// Runs `cases` cases, ten times as many with `PROPTEST_CASES=2560`. Failures are not stored in
/// files; their histories are printed.
pub(crate) fn cases(cases: u32) -> Config {
    let config = Config::default();
    Config { cases: (cases * config.cases).div_ceil(256), failure_persistence: None, ..config }
}

/// Room for more packets than a history has. Checks after each event look at all of it.
pub(crate) const ROOM: usize = 512;

/// Generates all features of the mechanism beyond [`any_shape`]: contexts, chains, exits, packets pushed out.
pub(crate) fn every_shape() -> impl Strategy<Value = Shape> {
    let exit = prop_oneof![
        3 => Just(None),
        1 => (1..=40u32, 0..=200_000u64)
            .prop_map(|(packets, timeout)| Some(ExitOrder { packets, timeout: Time::from_ns(timeout) }))
    ];
    let when_full = prop_oneof![Just(WhenFull::Tail), Just(WhenFull::LongestQueue)];
    (any_shape(), 1..=2usize, any::<bool>(), exit, when_full).prop_map(|(shape, contexts, chains, exit, when_full)| {
        Shape {
            contexts: if shape.cores % contexts == 0 { contexts } else { 1 },
            chains,
            exit,
            limits: shape.limits.with_when_full(when_full),
            ..shape
        }
    })
}

/// Generates cores, limits, units, orders, and errors of all sizes.
pub(crate) fn any_shape() -> impl Strategy<Value = Shape> {
    let machine = (1..=4usize, 1..=3usize, 1..=3usize, prop_oneof![Just(FlowOrder::Hold), Just(FlowOrder::Free)]);
    let limits = (
        prop_oneof![Just(ROOM), 1..=40usize],
        prop_oneof![Just(u32::MAX), 1..=20u32],
        prop_oneof![Just(u32::MAX), 1..=10u32],
    );
    let work = (
        prop_oneof![Just(WorkUnit::Nanoseconds), Just(WorkUnit::Bytes), Just(WorkUnit::Packets)],
        prop_oneof![Just(0u32), Just(500u32), Just(1000u32)],
        prop_oneof![Just(1u32), Just(10u32), Just(1000u32)],
    );
    (seeds(), 1..=8usize, 1..=200usize, any::<bool>(), machine, limits, work).prop_map(
        |(seed, clients, events, weights_change, machine, limits, work)| Shape {
            seed,
            clients,
            events,
            weights_change,
            cores: machine.0,
            services: machine.1,
            in_flight: machine.2,
            flow_order: machine.3,
            packets: limits.0,
            limits: Limits::default().with_queue(limits.1).with_client(limits.2),
            unit: work.0,
            error_permille: if work.0 == WorkUnit::Nanoseconds { work.1 } else { 0 },
            weight_max: work.2,
            ..Shape::default()
        },
    )
}

/// Returns the registered policies of a family, with their variants.
pub(crate) fn specs(family: Family) -> Vec<String> {
    let entries = registry::entries().into_iter().filter(|entry| entry.info.family == family);
    entries.flat_map(|entry| entry.specs()).collect()
}

/// Returns the registered policies of a family, with their defaults alone: for tests of every pair.
pub(crate) fn names(family: Family) -> Vec<&'static str> {
    let infos = registry::entries().into_iter().map(|entry| entry.info);
    infos.filter(|info| info.family == family).map(|info| info.name).collect()
}

/// Returns the promises of the registered policy of this spec.
pub(crate) fn promises(spec: &str) -> &'static [Promise] {
    let name = spec.split(':').next().expect("a spec has a name");
    registry::find(name).expect("a registered policy").info.promises
}

/// Returns the registered policies of a family that promise this, with their variants.
pub(crate) fn promising(family: Family, promise: Promise) -> Vec<String> {
    specs(family).into_iter().filter(|spec| promises(spec).contains(&promise)).collect()
}

/// Whether the sharing policy of this spec treats its queue as one client: then flows may overtake
/// on several cores.
pub(crate) fn merges_clients(share: &str) -> bool {
    let spec: PolicySpec = share.parse().expect("a registered policy");
    spec.build_share(&SchedulerConfig::default()).expect("a policy for one core").merges_clients()
}

/// Generates seeds without shrinking: a smaller seed is not simpler.
pub(crate) fn seeds() -> impl Strategy<Value = u64> {
    any::<u64>().no_shrink()
}

/// Returns the history with all packets at the start, when virtual time is 0, and no other event:
/// clients stay until they have been served.
pub(crate) fn from_the_start(mut history: History) -> History {
    history.events.retain(|(_, event)| matches!(event, Event::Arrive { .. }));
    history.events.iter_mut().for_each(|(time, _)| *time = Time::ZERO);
    history
}

/// Plays the history twice to fresh schedulers, and expects the same decisions.
pub(crate) fn play_twice<S: Steer, Q: Share, A: Allocate>(
    history: &History,
    build: impl Fn(&History) -> Result<Scheduler<S, Q, A>, BuildError>,
) -> Result<Log, TestCaseError> {
    let log = play(history, &build, &mut ())?;
    let again = play(history, &build, &mut ())?;
    prop_assert!(log == again, "the same history gave other decisions");
    Ok(log)
}

/// Plays the history to a fresh scheduler.
pub(crate) fn play<S: Steer, Q: Share, A: Allocate>(
    history: &History,
    build: impl Fn(&History) -> Result<Scheduler<S, Q, A>, BuildError>,
    observer: &mut impl Observer,
) -> Result<Log, TestCaseError> {
    let mut scheduler = build(history).expect("the set-up is valid");
    explain(history, || Player::new(history).run(&mut scheduler, observer)).map_err(TestCaseError::fail)
}
