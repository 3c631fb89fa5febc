//! State-compute replication: packets in turn to all cores, and each packet brings what the others did to shared state.
//!
//! **Idea.** Every core keeps its own copy of all state, so no packet waits for a lock or for
//! another core's cache. A packet carries the history of the packets that went to the other cores
//! since its core's last one. The core first applies this history to its copy.
//!
//! **Source.** Xu et al. NSDI 2025. RIVALS.
//!
//! **Promises.** Of n consecutive packets of a service, any two of its cores get counts that differ by
//! at most one, however skewed flows are. With service time s and k cores, throughput is
//! k / (s + (k − 1) history). No order: the exit restores it (`--flow-order exit`).
//!
//! **Cost.** O(1).
//!
//! **Departures.** k is the number of all cores of the run, also where fewer may serve a service.
//! Each service has its own turn over the cores that may serve it. Only a simulation models the
//! history. In a program, the service itself must carry and apply it.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::Id;
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::Time;

params! {
    /// Parameters of state-compute replication.
    pub struct ScrParams {
        /// The time to apply what one other packet did to shared state.
        history: u64 = 10, in 0..=1_000_000, unit "ns";
    }
}

/// State-compute replication.
#[derive(Debug)]
pub struct Scr {
    /// The time to apply the history of all other cores.
    further_work: Time,
    /// By service: the index of the next packet's core among the cores that may serve it.
    next: Vec<usize>,
}

impl Build for Scr {
    type Params = ScrParams;
    const INFO: Info = Info {
        name: "scr",
        family: Family::Steer,
        summary: "each packet to the next core in turn, with the history of the packets on all other cores",
        source: "Xu et al. NSDI 2025",
        promises: &[Promise::Fair("packet counts of two cores differ by at most 1")],
        complexity: "O(1)",
    };

    fn new(params: &ScrParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let others = (config.cores as u64).saturating_sub(1);
        Ok(Self { further_work: Time::from_ns(others * params.history), next: vec![0; config.services.len()] })
    }
}

impl Policy for Scr {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Steer for Scr {
    fn further_work(&self) -> Time {
        self.further_work
    }

    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        let next = &mut self.next[packet.service.index()];
        let place = if *next < view.eligible.len() { *next } else { 0 };
        *next = place + 1;
        Target::Core(view.eligible[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{cores_of, keys, targets, targets_among};
    use crate::testing::config;

    fn further_work(history: u64, cores: usize) -> u64 {
        Scr::new(&ScrParams { history }, &config(cores, 1, &[])).unwrap().further_work().as_ns()
    }

    /// RIVALS: with 10 ns of history on 8 cores, a packet of 100 ns takes 170 ns, so 47.1 packets are
    /// done in a microsecond instead of 80.
    #[test]
    fn vector_of_the_specification() {
        assert_eq!(ScrParams::default().history, 10);
        let throughput = |history| 8.0e3 / (100 + further_work(history, 8)) as f64;
        assert!((throughput(10) - 47.1).abs() < 0.05 && throughput(0) == 80.0, "{}", throughput(10));
    }

    #[test]
    fn one_core_has_no_history() {
        assert_eq!([1, 2, 65_535].map(|cores| further_work(1_000_000, cores)), [0, 1_000_000, 65_534_000_000]);
    }

    #[test]
    fn one_flow_has_all_cores_in_turn() {
        assert_eq!(targets::<Scr>(&ScrParams::default(), 3, &[7; 7]), cores_of([0, 1, 2, 0, 1, 2, 0]));
        assert_eq!(targets_among::<Scr>(&ScrParams::default(), &cores_of([2, 5]), &keys(3)), cores_of([2, 5, 2]));
    }
}
