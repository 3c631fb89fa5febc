//! Cores come and go under a steering policy that stays: which flows move, and whether order is kept.

use std::collections::BTreeMap;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::mix;
use humpyard_core::id::{CoreId, FlowId, Id};
use humpyard_core::mechanism::FlowOrder;
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Family, Promise, Topology};
use humpyard_core::unit::Time;
use humpyard_policies::spec::{AnyScheduler, PolicySpec};
use humpyard_testkit::{FlowWatch, History, Player, Shape, explain};
use proptest::prelude::*;

use crate::shapes::{cases, every_shape, names, promising};

const FLOWS: u32 = 4000;

/// A scheduler of eight cores in a tree; every flow sends one packet at a time through it.
struct Host {
    scheduler: AnyScheduler,
    /// Whether all flows send before any packet is served; otherwise each packet is served before
    /// the next arrives.
    together: bool,
}

impl Host {
    fn new(spec: &str, together: bool) -> Self {
        let tree = Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).expect("a tree");
        let flows = FLOWS as usize;
        let config = SchedulerConfig {
            cores: 8,
            flows,
            packets: flows,
            topology: Some(tree.clone()),
            ..SchedulerConfig::default()
        };
        let spec: PolicySpec = spec.parse().expect("a registered policy");
        Self { scheduler: spec.build(&config).expect("a valid set-up"), together }
    }

    /// Returns the core of each flow if packets are steered to these cores.
    fn targets(&mut self, cores: &[u16]) -> Vec<CoreId> {
        let cores: Vec<CoreId> = cores.iter().copied().map(CoreId).collect();
        self.scheduler.steer_among(Time::ZERO, &cores, false).expect("every service has cores");
        let mut found = BTreeMap::new();
        for flow in (0..FLOWS).map(FlowId) {
            let key = mix(u64::from(flow.0) ^ 0x5eed);
            let packet = Packet { flow, key, rss: key as u32, length: 100, ..Packet::default() };
            self.scheduler.on_arrival(Time::ZERO, &packet);
            if !self.together {
                self.serve(&mut found);
            }
        }
        self.serve(&mut found);
        self.scheduler.check();
        assert_eq!(found.len(), FLOWS as usize, "every flow is somewhere");
        assert!(found.values().all(|core| cores.contains(core)));
        found.into_values().collect()
    }

    /// Serves all packets that wait.
    fn serve(&mut self, found: &mut BTreeMap<FlowId, CoreId>) {
        while let Some(core) = self.scheduler.next_core(Time::ZERO) {
            if let Some(dispatch) = self.scheduler.next(Time::ZERO, core) {
                found.insert(dispatch.packet.flow, core);
                self.scheduler.on_completion(Time::ZERO, dispatch.slot, Time::ZERO);
            }
        }
    }
}

/// The flows that move and those that must move, when cores go and when they come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Moves {
    /// When cores go: the flows that move, and those on the cores that go.
    gone: (usize, usize),
    /// When cores come: the flows that move, and those that move to the cores that come.
    come: (usize, usize),
}

impl Moves {
    fn of(spec: &str, together: bool) -> Self {
        const CORES: [&[u16]; 5] = [
            &[0, 1, 2, 3, 4, 5, 6, 7],
            &[0, 1, 2, 3, 4, 5, 6],
            &[0, 1, 3, 4, 5, 6],
            &[0, 1, 3, 4, 5, 6, 7],
            &[0, 1, 2, 3, 4, 5, 6, 7],
        ];
        let mut host = Host::new(spec, together);
        let found: Vec<Vec<CoreId>> = CORES.iter().map(|cores| host.targets(cores)).collect();
        let mut moves = Self::default();
        for (step, cores) in CORES.windows(2).enumerate() {
            for (before, after) in found[step].iter().zip(&found[step + 1]) {
                let count = if cores[1].len() < cores[0].len() { &mut moves.gone } else { &mut moves.come };
                count.0 += usize::from(before != after);
                count.1 += usize::from(!cores[1].contains(&before.0) || !cores[0].contains(&after.0));
            }
        }
        moves
    }

    /// Returns the ratio of flows that move to flows that must.
    fn over_least(self) -> [f64; 2] {
        [self.gone, self.come].map(|(moved, least)| moved as f64 / least.max(1) as f64)
    }
}

/// Policies that promise minimal disruption move only the flows that must move, and so do policies
/// with a table or with sets of cores.
#[test]
fn no_more_flows_move_than_must() {
    let promising = promising(Family::Steer, Promise::MinimalDisruption);
    assert!(promising.len() > 3);
    for spec in promising.iter().map(String::as_str).chain(["conn", "conn:buckets=1024"]) {
        let moves = Moves::of(spec, false);
        assert_eq!(moves.over_least(), [1.0, 1.0], "{spec}: {moves:?}");
        assert!(
            moves.gone.1 > 800 && moves.come.1 > 800,
            "{spec}: a quarter of all is on two of eight cores: {moves:?}"
        );
    }
    // Sets of cores lose the cores that go, and include those that come when they are rebuilt. A
    // few connections have several cores, and move between them.
    for (spec, most) in [("ps-hrw", 1.03), ("ps-hrw:guard=true", 1.03), ("gps-hrw", 1.03), ("ap", 1.1)] {
        let moves = Moves::of(spec, true);
        assert!(moves.over_least()[0] < most && moves.come.0 < FLOWS as usize / 50, "{spec}: {moves:?}");
    }
}

/// A tree also moves flows that even out its groups: if the last of 8 cores goes, a seventh of half
/// of all flows leaves its socket. A hash modulo the cores moves nearly all.
#[test]
fn what_moves_more_is_known() {
    for (spec, least, most) in [("h-cahrw", 1.2, 2.2), ("conn:hash=mix", 5.0, 7.5)] {
        let found = Moves::of(spec, false);
        assert!(found.over_least().iter().all(|times| (least..most).contains(times)), "{spec}: {found:?}");
    }
}

proptest! {
    #![proptest_config(cases(24))]

    /// Any steering policy continues with fewer cores; flows keep their order if the policy keeps
    /// it or is asked to.
    #[test]
    fn cores_come_and_go_under_any_policy(shape in every_shape(), left in 1..=4_usize) {
        let history = History::generate(&Shape { services: shape.services.min(shape.cores), ..shape });
        let keeping = promising(Family::Steer, Promise::FlowOrder);
        let left: Vec<CoreId> = (0..history.cores).map(CoreId::from_index).rev().take(left).rev().collect();
        for name in names(Family::Steer) {
            let spec: PolicySpec = name.parse().expect("a registered policy");
            let mut watch = FlowWatch::new(&history);
            explain(&history, || {
                let mut scheduler = spec.build(&history.config()).expect("a valid set-up");
                let half = history.events.len() / 2;
                Player::new(&history).run_with(&mut scheduler, &mut watch, half, |now, scheduler| {
                    scheduler.steer_among(now, &left, true).expect("every service has cores");
                    assert!(scheduler.steer_among(now, &[], true).is_err());
                });
            })
            .map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
            let keeps = keeping.iter().any(|spec| spec == name) && history.flow_order == FlowOrder::Hold;
            if keeps && history.chains.is_empty() {
                prop_assert_eq!(watch.out_of_order(), 0, "{}\n{}", name, history);
            }
        }
    }
}
