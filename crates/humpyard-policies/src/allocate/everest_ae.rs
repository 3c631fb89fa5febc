//! Everest-AE: the moves of `everest` first, then eager moves to any queue.
//!
//! **Idea.** A service whose queue is longer than its cores serve in time comes first, and takes a
//! core by force if necessary. Then every service with packets waiting takes an idle core, as with
//! `cohort-e`. A service gives up a core as soon as its queue is empty.
//!
//! **Source.** Everest (paper everest), section 5.1 and table 4: its work-conserving variant.
//!
//! **Promises.** Isolation, as `everest`. Work conserving: no core stays idle while a waiting
//! packet has not requested one.
//!
//! **Cost.** O(1). O(services) when a packet must wait, or when a core is given up while packets
//! wait. O(services · log c) when a core is forced.
//!
//! **Invariants.** No core is marked.
//!
//! **Departures.** The victim is the core idle longest, because this policy has no marks, which the
//! paper's table mentions. `force=false` avoids force, which serves better if a switch takes half
//! the tolerance or more.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::params;
use humpyard_core::policy::{Allocate, Auto, Build, BuildError, Cause, Family, Info, Machine, Move, Policy, Promise};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

use super::eager::{Eager, by_queue};
use super::engine::{Engine, ExtraReclaim, Moment};
use super::idle::{latest_idle, longest_idle_but};

params! {
    /// Parameters of Everest-AE.
    pub struct EverestAeParams {
        /// Whether a service whose queue is too long takes cores by force.
        force: bool = true;
        /// When a service in overload may take a core beyond its need and guarantee.
        extra_reclaim: ExtraReclaim = ExtraReclaim::OncePerSwitchTime;
        /// The time over which the rate of arrivals is measured; `auto` is the switch cost.
        window: Auto = Auto::Auto, unit "ns";
    }
}

/// Everest-AE.
#[derive(Debug)]
pub struct EverestAe {
    /// Limits of queues, and shares in overload.
    engine: Engine,
    /// The services with packets waiting.
    eager: Eager,
    /// Whether services take cores by force.
    forces: bool,
}

impl Build for EverestAe {
    type Params = EverestAeParams;
    const INFO: Info = Info {
        name: "everest-ae",
        family: Family::Allocate,
        summary: "any queue gets an idle core, and first, if need be by force, those that outgrow their tolerance",
        source: "Everest-AE of the Everest paper, section 5.1 and table 4",
        promises: &[Promise::Isolation, Promise::WorkConserving],
        complexity: "O(services) while packets wait",
    };
    const VARIANTS: &'static [&'static str] = &["extra-reclaim=literal", "extra-reclaim=never"];

    fn new(params: &EverestAeParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self {
            engine: Engine::new("everest-ae", params.extra_reclaim, params.window, config)?,
            eager: Eager::new("everest-ae", config)?,
            forces: params.force,
        })
    }
}

impl Policy for EverestAe {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        self.engine.check();
        assert!(self.engine.marks_nothing(), "a core is marked");
    }
}

impl Allocate for EverestAe {
    fn heeds_oldest(&self) -> bool {
        false
    }

    fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>) {
        self.engine.initial(allocation);
    }

    fn moves(&self) -> bool {
        true
    }

    #[inline]
    fn on_arrival(&mut self, now: Time, service: ServiceId) {
        self.eager.on_arrival();
        self.engine.count_arrival(now, service);
    }

    #[inline]
    fn reassign(&mut self, now: Time, cause: Cause, machine: &Machine) -> Option<Move> {
        let moment = Moment::new(now, machine);
        match cause {
            Cause::Arrival(service) if moment.backlog(service) == 0 => None,
            Cause::Arrival(service) => self.take(moment, service),
            Cause::Idle(core) => self.release(moment, core),
            Cause::Completion(_) | Cause::Timeout => None,
        }
    }

    #[inline]
    fn place(&mut self, service: ServiceId, idle: &IdSet<CoreId>, machine: &Machine) -> CoreId {
        latest_idle(service, idle, machine)
    }
}

impl EverestAe {
    /// Handles a packet that has arrived and must wait: it takes one idle core, and more if the
    /// queue is too long.
    fn take(&mut self, moment: Moment<'_>, to: ServiceId) -> Option<Move> {
        let order = self.eager.take(moment.machine, to);
        if order.is_some() || !self.engine.is_eligible(moment, to) {
            return order;
        }
        let core = match longest_idle_but(moment.machine, to) {
            Some((_, core)) => core,
            None if self.forces => self.engine.force(moment, to)?,
            None => return None,
        };
        Some(self.eager.give(moment.machine, core, to))
    }

    /// Moves a core without packets to serve to the queue furthest beyond its limit. Without such a
    /// queue, it goes to the service with the most waiting packets for its cores.
    #[inline]
    fn release(&mut self, moment: Moment<'_>, core: CoreId) -> Option<Move> {
        if self.eager.has_no_seekers() || !moment.machine.core(core).is_movable() {
            return None;
        }
        let engine = &self.engine;
        let waiting = self.eager.beneficiaries(moment.machine, core);
        let beyond = waiting.clone().filter(|&id| engine.is_eligible(moment, id));
        let to = beyond.max_by_key(|&id| (engine.excess(moment, id), core::cmp::Reverse(id)));
        let to = to.or_else(|| by_queue(moment.machine, waiting))?;
        Some(self.eager.give(moment.machine, core, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing::{Bench, Scenario, service, us};
    use alloc::vec;
    use alloc::vec::Vec;

    /// In this bench c = 9.
    fn bench(params: &EverestAeParams, cores: &[u16]) -> Bench<EverestAe> {
        let busy: Vec<u16> = (0..cores.len() as u16).collect();
        Bench::new(params, &vec![service(10_000, 100, 333_333); 3], cores).busy(&busy)
    }

    #[test]
    fn a_long_queue_takes_as_many_idle_cores_as_it_needs() {
        let mut bench = bench(&EverestAeParams::default(), &[0, 1, 1, 1, 2, 2]);
        for core in [3, 1, 2] {
            bench.idle(us(1), core);
        }
        assert_eq!(bench.arrival(us(2), 0, 1), [(1, 0)], "one for a packet that waits");
        assert_eq!(bench.arrival(us(2), 0, 19), [(2, 0)], "one is enough: Qlim is 27 then");
        let mut bench = self::bench(&EverestAeParams::default(), &[0, 1, 1, 1, 2, 2]);
        for core in [3, 1, 2] {
            bench.idle(us(1), core);
        }
        assert_eq!(bench.arrival(us(2), 0, 28), [(1, 0), (2, 0), (3, 0)], "28 > 27: three more");
    }

    #[test]
    fn a_long_queue_forces_a_core_and_a_short_one_does_not() {
        let cores = [0, 1, 1, 1, 2, 2];
        for (force, moves) in [(true, vec![(1, 0)]), (false, vec![])] {
            let mut bench = bench(&EverestAeParams { force, ..EverestAeParams::default() }, &cores);
            assert_eq!(bench.arrival(us(1), 0, 9), [], "within its limit");
            assert_eq!(bench.arrival(us(1), 0, 10), moves, "B needs none of its cores, and has most");
        }
    }

    #[test]
    fn the_queue_beyond_its_limit_has_the_core_that_is_given_up() {
        let mut bench = bench(&EverestAeParams { force: false, ..EverestAeParams::default() }, &[0, 1, 1, 1, 2, 2, 2]);
        // B is within its limit of 27 and needs the most cores; C is beyond its 27.
        bench.arrival(us(1), 1, 27);
        bench.arrival(us(1), 2, 28);
        assert_eq!(bench.idle(us(2), 0), [(0, 2)]);
        bench.waits(us(3), 2, 1);
        bench.waits(us(3), 0, 0);
        let mut bench = self::bench(&EverestAeParams::default(), &[0, 0, 1, 2]);
        bench.arrival(us(1), 1, 3);
        bench.arrival(us(1), 2, 4);
        assert_eq!(bench.idle(us(2), 0), [(0, 2)], "none is beyond: in proportion to queues");
    }

    /// The worked example of `everest`, eagerly. The idle core of B moves with the first waiting
    /// packet and is ready at 50. As many packets are in time as with a later move.
    #[test]
    fn the_worked_example() {
        let services = [service(10_000, 100, 666_667), service(10_000, 100, 333_333)];
        for (packets, late) in [(25, 0), (26, 1), (28, 3), (30, 5)] {
            let arrivals = vec![(Time::ZERO, ServiceId(0)); packets];
            let outcome = Scenario { cores: 3, services: &services, arrivals: &arrivals }.run::<EverestAe>();
            assert_eq!((outcome.late, outcome.switches), (late, 1), "{packets} packets");
        }
    }
}
