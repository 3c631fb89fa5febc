//! Cohort: a core serves a service until its queue is empty, and then the next service in turn that
//! has packets waiting.
//!
//! **Idea.** Packets of one kind are served in succession, so that code and data stay warm. Every
//! packet that must wait makes its service request a core. A service gives up a core when its queue
//! is empty, and never by force.
//!
//! **Source.** Larus, Parkes. Using cohort scheduling to enhance server performance. 2002; row
//! Cohort of table 4 of Everest (paper everest).
//!
//! **Promises.** Work conserving: no core stays idle while a waiting packet has not requested one.
//! No isolation: a service that never empties its queue keeps its cores.
//!
//! **Cost.** O(1); O(services) when a packet must wait, or when a core is given up while packets wait.
//!
//! **Invariants.** A core is moved only while it has no packet to serve.
//!
//! **Departures.** None. The table says round robin over the beneficiaries; the text says in
//! proportion, which is `cohort-e`.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::params;
use humpyard_core::policy::{Allocate, Build, BuildError, Cause, Family, Info, Machine, Move, Policy, Promise};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

use super::eager::{Eager, eager_handlers};
use super::idle::latest_idle;

params! {
    /// Parameters of Cohort: none.
    pub struct CohortParams {}
}

/// Cohort.
#[derive(Debug)]
pub struct Cohort {
    /// The services with packets waiting.
    eager: Eager,
    /// The service that received the latest core; the turn is with the next service.
    latest: ServiceId,
}

impl Build for Cohort {
    type Params = CohortParams;
    const INFO: Info = Info {
        name: "cohort",
        family: Family::Allocate,
        summary: "a core whose queue is empty goes to the next service with packets waiting, in turn",
        source: "Larus, Parkes 2002; table 4 of the Everest paper",
        promises: &[Promise::WorkConserving],
        complexity: "O(services) while packets wait",
    };

    fn new(_: &CohortParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { eager: Eager::new("cohort", config)?, latest: ServiceId(u16::MAX) })
    }
}

impl Policy for Cohort {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Allocate for Cohort {
    fn heeds_oldest(&self) -> bool {
        false
    }

    // Handlers: cores start by guarantee, each packet may take a core, and the core that became
    // idle last is asked first.
    eager_handlers!();

    #[inline]
    fn reassign(&mut self, _: Time, cause: Cause, machine: &Machine) -> Option<Move> {
        match cause {
            Cause::Arrival(service) => self.eager.take(machine, service),
            Cause::Idle(core) => self.release(machine, core),
            Cause::Completion(_) | Cause::Timeout => None,
        }
    }
}

impl Cohort {
    /// Moves a core without packets to serve to the next service in turn.
    #[inline]
    fn release(&mut self, machine: &Machine, core: CoreId) -> Option<Move> {
        if self.eager.has_no_seekers() || !machine.core(core).is_movable() {
            return None;
        }
        let latest = self.latest;
        let waiting = self.eager.beneficiaries(machine, core);
        let to = waiting.min_by_key(|&id| (id <= latest, id))?;
        self.latest = to;
        Some(self.eager.give(machine, core, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing::{Bench, Scenario, service, us};
    use alloc::vec;

    fn bench(cores: &[u16]) -> Bench<Cohort> {
        Bench::new(&CohortParams {}, &vec![service(10_000, 100, 250_000); 4], cores)
    }

    #[test]
    fn an_arriving_packet_takes_one_core_the_longest_idle() {
        let mut bench = bench(&[0, 1, 1, 2, 3]).busy(&[0, 1]);
        bench.machine.on_idle(us(3), CoreId(1));
        assert_eq!(bench.arrival(us(5), 0, 1), [(2, 0)], "idle since 0, lowest, and one is enough");
        assert_eq!(bench.arrival(us(6), 0, 2), [(3, 0)]);
        assert_eq!(bench.arrival(us(7), 2, 1), [(4, 2)], "a service without a core");
        assert_eq!(bench.arrival(us(8), 3, 1), [(1, 3)]);
        assert_eq!(bench.arrival(us(9), 0, 3), [], "none is idle");
    }

    #[test]
    fn cores_given_up_go_round() {
        let mut bench = bench(&[0, 0, 0, 0, 0, 1, 2, 3]).busy(&[0, 1, 2, 3, 4, 5, 6, 7]);
        for id in [1, 2, 3] {
            assert_eq!(bench.arrival(us(1), id, 9), []);
        }
        for (core, to) in [(0, 1), (1, 2), (2, 3), (3, 1)] {
            assert_eq!(bench.idle(us(2), core), [(core, to)]);
        }
        bench.waits(us(3), 2, 0);
        assert_eq!(bench.idle(us(3), 4), [(4, 3)], "nothing waits for 2 any more");
        bench.waits(us(3), 3, 0);
        bench.waits(us(3), 1, 0);
        assert_eq!(bench.idle(us(3), 7), [], "nothing waits");
    }

    /// No force: A, which comes late, gets a core only when a queue is empty.
    #[test]
    fn nobody_is_forced() {
        let services = vec![service(10_000, 100, 500_000); 2];
        let mut arrivals = vec![(Time::ZERO, ServiceId(1)); 100];
        arrivals.push((us(1), ServiceId(0)));
        let outcome = Scenario { cores: 2, services: &services, arrivals: &arrivals }.run::<Cohort>();
        assert_eq!(outcome.completions.iter().position(|&(_, service)| service == ServiceId(0)), Some(100));
        assert_eq!(outcome.switches, 3, "core 0 goes to B for its second packet, and both go back at once");
    }
}
