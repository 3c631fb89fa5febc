//! Flows that are split over several cores leave in order, with any steering policy for the others.

use std::collections::{BTreeMap, BTreeSet};

use humpyard_core::id::{CoreId, FlowId};
use humpyard_core::mechanism::{Event as Call, ExitOrder, FlowOrder, Scheduler, Split, WhenFull};
use humpyard_core::packet::Part;
use humpyard_core::policy::{BuildError, Family};
use humpyard_core::unit::{Time, WorkUnit};
use humpyard_policies::registry::AnyAllocate;
use humpyard_policies::spec::{AnyScheduler, PolicySpec};
use humpyard_testkit::{CheckedSteer, Event, FlowWatch, History, Log, Memory, Player, Shape, explain};
use proptest::prelude::*;

use crate::shapes::{ROOM, any_shape, cases, names, play, specs};

/// An exit at which no packet loses its turn through a limit or a timeout.
const PATIENT: ExitOrder = ExitOrder { packets: ROOM as u32, timeout: Time::from_ns(1 << 60) };

/// Every flow is an elephant.
const ALWAYS: Split = Split { cores: 2, share_millionths: 0, window: Time::from_ns(1) };

/// Generates splits: with elephants that begin and end, and with some that stay.
fn any_split() -> impl Strategy<Value = Split> {
    let share = prop_oneof![1 => Just(0u32), 4 => 10_000..=400_000u32];
    (2..=4u16, share, 1_000..=200_000u64).prop_map(|(cores, share_millionths, window)| Split {
        cores,
        share_millionths,
        window: Time::from_ns(window),
    })
}

fn split_shape() -> impl Strategy<Value = Shape> {
    let when_full = prop_oneof![Just(WhenFull::Tail), Just(WhenFull::LongestQueue)];
    (any_shape(), any_split(), any::<bool>(), 1..=2usize, when_full).prop_map(
        |(shape, split, chains, contexts, when_full)| Shape {
            contexts: if shape.cores % contexts == 0 { contexts } else { 1 },
            chains,
            exit: Some(PATIENT),
            split: Some(split),
            unit: WorkUnit::Nanoseconds,
            error_permille: 1000,
            limits: shape.limits.with_when_full(when_full),
            ..shape
        },
    )
}

/// Returns the history with whole packets alone, all of which may be split.
fn whole(mut history: History) -> History {
    for (_, event) in &mut history.events {
        if let Event::Arrive { packet, .. } = event {
            packet.part = Part::Whole;
        }
    }
    history
}

fn build(spec: &PolicySpec, history: &History) -> Result<AnyScheduler, BuildError> {
    spec.build(&history.config())
}

/// Returns the decisions, and the number of packets that left out of order.
fn watched(spec: &str, history: &History) -> Result<(Log, u64), TestCaseError> {
    let spec: PolicySpec = spec.parse().expect("a registered policy");
    let mut watch = FlowWatch::new(history);
    let log = play(history, |history| build(&spec, history), &mut watch)?;
    Ok((log, watch.out_of_order()))
}

/// Returns the cores that served packets of each flow.
fn cores_by_flow(history: &History, log: &Log) -> BTreeMap<FlowId, BTreeSet<CoreId>> {
    let mut cores: BTreeMap<FlowId, BTreeSet<CoreId>> = BTreeMap::new();
    for decision in &log.decisions {
        let Event::Arrive { packet, .. } = history.events[decision.arrival].1 else { unreachable!("only packets") };
        cores.entry(packet.flow).or_default().insert(decision.core);
    }
    cores
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn every_flow_leaves_in_order_under_every_policy(shape in split_shape()) {
        let history = History::generate(&shape);
        for history in [whole(history.clone()), history] {
            for steer in specs(Family::Steer) {
                let (_, late) = watched(&steer, &history)?;
                prop_assert_eq!(late, 0, "{}\n{}", steer, history);
            }
        }
    }

    #[test]
    fn the_order_of_the_queues_does_not_matter(shape in split_shape()) {
        let history = whole(History::generate(&shape));
        for share in specs(Family::Share) {
            let (_, late) = watched(&format!("steer=conn/share={share}"), &history)?;
            prop_assert_eq!(late, 0, "{}\n{}", share, history);
        }
    }

    #[test]
    fn an_exit_of_any_size_loses_no_packet(shape in split_shape(), packets in 1..=40u32, timeout in 0..=200_000u64) {
        let exit = Some(ExitOrder { packets, timeout: Time::from_ns(timeout) });
        let history = whole(History::generate(&Shape { exit, ..shape }));
        for steer in names(Family::Steer) {
            watched(steer, &history)?;
        }
    }

    #[test]
    fn policies_are_told_of_every_packet_though_not_asked(shape in split_shape()) {
        let history = whole(History::generate(&shape));
        for steer in specs(Family::Steer) {
            let spec: PolicySpec = steer.parse().expect("a registered policy");
            let checked = |history: &History| {
                let config = history.config();
                let steer = spec.build_steer(&config)?.expect("it steers");
                let steer = CheckedSteer::new(steer, history.cores).with_contexts(history.contexts).taking_over();
                let share = || spec.build_share(&config);
                Scheduler::<_, _, AnyAllocate>::new(&config, Some(steer), None, share)
            };
            play(&history, checked, &mut ())?;
        }
    }

    #[test]
    fn a_flow_has_no_more_cores_than_it_is_split_over(shape in split_shape(), cores in 2..=4u16) {
        // One service alone: with several, a flow has the cores of all of them.
        let split = Some(Split { cores, ..ALWAYS });
        let history = whole(History::generate(&Shape { split, cores: 4, contexts: 1, chains: false, services: 1, ..shape }));
        let (log, _) = watched("rr", &history)?;
        for (flow, used) in cores_by_flow(&history, &log) {
            prop_assert!(used.len() <= usize::from(cores), "flow {flow} on {used:?}\n{history}");
        }
    }

    #[test]
    fn without_an_elephant_all_is_as_without_splitting(shape in split_shape()) {
        let shape = Shape { packets: ROOM, ..shape };
        let never = Split { share_millionths: u32::MAX, window: Time::MAX, ..ALWAYS };
        let with = History::generate(&Shape { split: Some(never), ..shape });
        let without = History::generate(&Shape { split: None, ..shape });
        for steer in names(Family::Steer) {
            prop_assert_eq!(watched(steer, &with)?, watched(steer, &without)?, "{}\n{}", steer, without);
        }
    }

    #[test]
    fn a_journal_replays(shape in split_shape()) {
        let history = whole(History::generate(&shape));
        for steer in names(Family::Steer) {
            let spec: PolicySpec = steer.parse().expect("a registered policy");
            let memory = Memory::default();
            let mut scheduler = build(&spec, &history).expect("valid").with_journal(Box::new(memory.clone()));
            explain(&history, || Player::new(&history).run(&mut scheduler, &mut ())).map_err(TestCaseError::fail)?;
            let mut fresh = build(&spec, &history).expect("valid");
            for record in memory.take() {
                if let Err(divergence) = fresh.replay(&record) {
                    return Err(TestCaseError::fail(format!("{steer}: {divergence:?}\n{history}")));
                }
            }
        }
    }
}

fn crowded(seed: u64) -> Shape {
    Shape { seed, cores: 4, clients: 1, flow_order: FlowOrder::Free, error_permille: 1000, ..Shape::default() }
}

/// The tested property is not trivial: split flows do overtake unless they wait at the exit.
#[test]
fn split_flows_overtake_where_the_exit_has_no_patience() {
    let hasty = ExitOrder { packets: ROOM as u32, timeout: Time::ZERO };
    let late = |exit| {
        (0..20).map(move |seed| {
            let history = History::generate(&Shape { exit: Some(exit), split: Some(ALWAYS), ..crowded(seed) });
            watched("conn", &whole(history)).expect("a valid run").1
        })
    };
    assert!(late(hasty).sum::<u64>() > 0);
    assert_eq!(late(PATIENT).sum::<u64>(), 0);
}

/// Flows that one core each would serve have two, and are done sooner.
#[test]
fn an_elephant_has_the_work_of_several_cores() {
    for seed in 0..20 {
        let shape = Shape { exit: Some(PATIENT), ..crowded(seed) };
        let alone = whole(History::generate(&shape));
        let split = whole(History::generate(&Shape { split: Some(Split { cores: 4, ..ALWAYS }), ..shape }));
        let cores = |history: &History| {
            let (log, _) = watched("conn", history).expect("a valid run");
            cores_by_flow(history, &log).into_values().map(|cores| cores.len()).max()
        };
        assert_eq!((cores(&alone), cores(&split)), (Some(1), Some(4)));
    }
}

/// The account counts split packets, and elephants that begin again.
#[test]
fn elephants_and_their_packets_are_counted() {
    let history = whole(History::generate(&Shape { exit: Some(PATIENT), split: Some(ALWAYS), ..crowded(1) }));
    let spec: PolicySpec = "conn".parse().expect("registered");
    let memory = Memory::default();
    let mut scheduler = build(&spec, &history).expect("valid").with_journal(Box::new(memory.clone()));
    Player::new(&history).run(&mut scheduler, &mut ());
    let account = scheduler.split_account();
    assert_eq!(account.packets, scheduler.account().arrived, "every flow is split from its first packet on");
    let ends = memory.take().iter().filter(|record| matches!(record.event, Call::FlowEnd(_))).count() as u64;
    assert!((1..=2 + ends).contains(&account.elephants), "{} elephants, {ends} ends of flows", account.elephants);
}
