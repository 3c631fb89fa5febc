//! What a way of packets to processors would do with a record, as the simulator has it.

use core::sync::atomic::AtomicBool;
use std::sync::Arc;

use humpyard_core::cost::MovePenalties;
use humpyard_core::id::{CoreId, Id};
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_policies::spec::PolicySpec;
use humpyard_sim::{Kernel, Timing};
use serde::Serialize;

use super::replay::{Moves, Replay};
use crate::choice::host::Host;
use crate::choice::order::OrderChoice;
use crate::config::RunConfig;
use crate::control::Control;
use crate::costs::{CostLine, Costs};
use crate::parts;
use crate::run::{Feed, simulated};
use crate::{LabError, ServiceChoice};

/// Packets that may wait for a processor that the kernel gives them to, as `net.core.netdev_max_backlog` has it by
/// default. As many may wait for a processor to receive them.
const BACKLOG: u32 = 1000;
/// Packets that may wait for a processor that the program gives them to.
const CPU_MAP: u32 = humpyard_wire::CPU_MAP_SIZE;

/// What a policy would have done.
#[derive(Clone, PartialEq, Serialize, Debug)]
#[non_exhaustive]
pub struct Foreseen {
    /// The policy; `now`: what there is.
    pub policy: String,
    /// The load of the busiest processor over the mean.
    pub imbalance: f64,
    /// By processor, in the order of [`Diagnosis::processors`](super::Diagnosis::processors): the time that packets
    /// take, as a part of its time.
    pub busy_fractions: Vec<f64>,
    /// Half of all packets wait and are served in this time, in ns.
    pub p50_ns: u64,
    /// 99 of 100 packets are, in ns.
    pub p99_ns: u64,
    /// Packets dropped, as a part of all.
    pub dropped_fraction: f64,
    /// How often a bucket goes to another processor than before.
    pub moves: u64,
    /// Packets that overtake another of their bucket, as a part of all.
    pub reordered_fraction: f64,
    /// How much less 99 of 100 packets take than now: 0.2 is 20 % less, negative is more.
    pub margin: f64,
}

/// How packets get to processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// The processor that receives a packet takes it all the way.
    Stays,
    /// The kernel gives it to a processor (RPS).
    Backlog,
    /// The program gives it to a processor.
    CpuMap,
}

/// Processors, and what packets cost them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processors {
    pub(super) count: usize,
    /// What a packet costs the processor that takes it through the kernel.
    pub(super) cost_ns: f64,
    /// What it costs the processor that receives it, beside that, where it is given on.
    pub(super) hand_over_ns: f64,
    /// What it costs a processor that has received to go on with packets that were given to it.
    pub(super) resume_ns: f64,
}

impl Foreseen {
    /// Compares it with what there is, by which 99 of 100 packets take this time.
    pub(super) fn beside(self, p99_ns: u64) -> Self {
        Self { margin: 1.0 - self.p99_ns as f64 / p99_ns.max(1) as f64, ..self }
    }
}

impl Processors {
    /// Replays a record under a policy. `None`: it was stopped.
    ///
    /// # Errors
    /// What the policy refuses.
    pub(super) fn foreseen(
        &self,
        replay: &Replay,
        policy: PolicySpec,
        way: Way,
        seed: Seed,
        stop: &AtomicBool,
    ) -> Result<Option<Foreseen>, LabError> {
        let config = RunConfig { policy, ..self.configuration(replay, way, seed) };
        let receive = Time::from_ns((self.hand_over_ns * replay.stands_for as f64).round() as u64);
        let kernel = Kernel::new(Arc::clone(&replay.receiver), receive, waiting(BACKLOG, replay) as usize)
            .with_resume(Time::from_ns((self.resume_ns * replay.stands_for as f64).round() as u64));
        let received = kernel.received();
        let moves = Moves::default();
        let mut progress = |_, _| {};
        let mut control = Control::new(stop, &mut progress);
        control.observer = Some(Box::new(moves.clone()));
        let result = simulated(&config, &mut control, |control| {
            let pacer = parts::pacer(&config, config.cores, control)?.ok_or_else(parts::no_line_rate)?;
            let timing = Timing::default().with_kernel((way != Way::Stays).then_some(kernel));
            Ok(Feed { pacer, source: parts::source(&config)?, timing })
        })?;
        if result.interrupted {
            return Ok(None);
        }
        let busy_fractions = (0..self.count).map(CoreId::from_index).map(|processor| {
            let receiving = received.time(processor).as_ns() as f64 / result.summary.duration_ns.max(1) as f64;
            result.summary.cores_detail[processor.index()].utilization + receiving
        });
        let busy_fractions: Vec<f64> = busy_fractions.collect();
        let (sum, most) = busy_fractions.iter().fold((0.0, 0.0_f64), |(sum, most), &busy| (sum + busy, most.max(busy)));
        let dropped = received.lost() + result.packets.dropped.values().sum::<u64>();
        let arrived = received.lost() + result.packets.arrived;
        Ok(Some(Foreseen {
            policy: String::new(),
            imbalance: if sum > 0.0 { most * busy_fractions.len() as f64 / sum } else { 1.0 },
            busy_fractions,
            p50_ns: result.summary.delay_ns.p50,
            p99_ns: result.summary.delay_ns.p99,
            dropped_fraction: dropped as f64 / arrived.max(1) as f64,
            moves: moves.count(),
            reordered_fraction: result.summary.order.fraction,
            margin: 0.0,
        }))
    }

    fn configuration(&self, replay: &Replay, way: Way, seed: Seed) -> RunConfig {
        let mut config = RunConfig::new(Host::Sim, "", replay.now.clone());
        let most = if way == Way::CpuMap { CPU_MAP } else { BACKLOG };
        config.table = Some(replay.table.clone());
        config.cores = self.count;
        config.seed = seed;
        config.buffer = 2 * most as usize * self.count;
        // Each packet that waits may be of a flow of its own, and there is always room for one more.
        config.flows = config.buffer + 1;
        // The kernel puts nothing in order again.
        config.flow_order = OrderChoice::Free;
        config.limits.queue = waiting(most, replay);
        let line = CostLine { fixed_ns: self.cost_ns * replay.stands_for as f64, ..CostLine::default() };
        config.costs = Costs {
            name: "record".to_owned(),
            source: "the record of the interface".to_owned(),
            switch_upper_ns: None,
            moves: MovePenalties::default(),
            lines: config.services.iter().map(|service: &ServiceChoice| (service.name.clone(), line.clone())).collect(),
            machine: None,
        };
        config
    }
}

/// How many packets of the replay may wait where this many of the record may.
fn waiting(most: u32, replay: &Replay) -> u32 {
    most.div_ceil(replay.stands_for as u32).max(1)
}

#[cfg(test)]
mod tests {
    use humpyard_traffic::steer_record::SteerRecord;

    use super::super::diagnosis::tests::record;
    use super::super::replay::rps;
    use super::*;

    /// 40 buckets of 100 packets in 100 ms, all of which come to the first of four processors.
    fn one_queue() -> SteerRecord {
        let buckets: Vec<_> = (0..40).map(|bucket| (25 * bucket, 0, 100)).collect();
        record(&buckets, [0.4, 0.0, 0.0, 0.0])
    }

    fn foreseen(hand_over_ns: f64, way: Way) -> Foreseen {
        let replay = Replay::of(&one_queue(), Seed(1)).unwrap();
        let policy = if way == Way::Stays { replay.now.clone() } else { rps(Seed(1)).unwrap() };
        let processors = Processors { count: 4, cost_ns: 10_000.0, hand_over_ns, resume_ns: 0.0 };
        processors.foreseen(&replay, policy, way, Seed(1), &AtomicBool::new(false)).unwrap().unwrap()
    }

    /// 40,000 packets a second: 40 % of a processor's time to serve them, and 8 % to hand them over at 2 us.
    #[test]
    fn who_receives_pays_for_handing_over() {
        let near = |found: f64, expected: f64| (found - expected).abs() < 0.005;
        let stays = foreseen(2_000.0, Way::Stays);
        assert!(near(stays.busy_fractions[0], 0.4) && stays.busy_fractions[1..] == [0.0; 3], "{stays:?}");
        let [free, paid] = [0.0, 2_000.0].map(|hand_over_ns| foreseen(hand_over_ns, Way::Backlog));
        let sum = |foreseen: &Foreseen| foreseen.busy_fractions.iter().sum::<f64>();
        assert!(near(sum(&free), 0.4) && near(sum(&paid), 0.48), "{free:?} {paid:?}");
        assert!(near(paid.busy_fractions[0] - free.busy_fractions[0], 0.08), "{free:?} {paid:?}");
        assert!(paid.p50_ns > free.p50_ns + 1_900, "{free:?} {paid:?}");
    }

    #[test]
    fn there_may_be_many_processors() {
        let replay = Replay::of(&one_queue(), Seed(1)).unwrap();
        let processors = Processors { count: 256, cost_ns: 10_000.0, hand_over_ns: 400.0, resume_ns: 1_000.0 };
        let foreseen = |way| {
            let policy = rps(Seed(1)).unwrap();
            processors.foreseen(&replay, policy, way, Seed(1), &AtomicBool::new(false)).unwrap().unwrap()
        };
        for way in [Way::Backlog, Way::CpuMap] {
            assert_eq!(foreseen(way).busy_fractions.len(), 256);
        }
    }

    /// At 30 us a packet the processor that receives them hands 33,000 of 40,000 over, and serves none.
    #[test]
    fn who_cannot_receive_more_loses_packets() {
        let foreseen = foreseen(30_000.0, Way::Backlog);
        assert!(foreseen.busy_fractions[0] > 0.98, "{foreseen:?}");
        // Those of the first processor wait there until the end; 1,000 may.
        assert!((0.15..0.45).contains(&foreseen.dropped_fraction), "{foreseen:?}");
    }
}
