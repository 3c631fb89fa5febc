//! Cohort-E: a core serves a service until its queue is empty, and then the service with the most
//! waiting packets for its cores.
//!
//! **Idea.** As `cohort`, but a released core goes to the service with the fewest cores in
//! proportion to its waiting packets.
//!
//! **Source.** Cohort scheduling (Larus, Parkes 2002) as Everest (paper everest) extends it, section 5.1 and table 4.
//!
//! **Promises.** Work conserving: no core stays idle while a waiting packet has not requested one.
//! No isolation: a service that never empties its queue keeps its cores.
//!
//! **Cost.** O(1); O(services) when a packet must wait, or when a core is given up while packets wait.
//!
//! **Invariants.** A core is moved only while it has no packet to serve.
//!
//! **Departures.** None.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::params;
use humpyard_core::policy::{Allocate, Build, BuildError, Cause, Family, Info, Machine, Move, Policy, Promise};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

use super::eager::{Eager, by_queue, eager_handlers};
use super::idle::latest_idle;

params! {
    /// Parameters of Cohort-E: none.
    pub struct CohortEParams {}
}

/// Cohort-E.
#[derive(Debug)]
pub struct CohortE {
    /// The services with packets waiting.
    eager: Eager,
}

impl Build for CohortE {
    type Params = CohortEParams;
    const INFO: Info = Info {
        name: "cohort-e",
        family: Family::Allocate,
        summary: "a core whose queue is empty goes to the service with fewest cores for what waits",
        source: "Cohort-E of the Everest paper, section 5.1 and table 4",
        promises: &[Promise::WorkConserving],
        complexity: "O(services) while packets wait",
    };

    fn new(_: &CohortEParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { eager: Eager::new("cohort-e", config)? })
    }
}

impl Policy for CohortE {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Allocate for CohortE {
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

impl CohortE {
    /// Moves a core without packets to serve to the service with the most waiting packets for its cores.
    #[inline]
    fn release(&mut self, machine: &Machine, core: CoreId) -> Option<Move> {
        if self.eager.has_no_seekers() || !machine.core(core).is_movable() {
            return None;
        }
        let to = by_queue(machine, self.eager.beneficiaries(machine, core))?;
        Some(self.eager.give(machine, core, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing::{Bench, Scenario, service, us};
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::config::ServiceConfig;
    use humpyard_core::random::Seed;

    #[test]
    fn a_core_given_up_goes_where_cores_are_fewest_for_what_waits() {
        let services = vec![service(10_000, 100, 250_000); 4];
        let cores = [0, 0, 0, 1, 1, 1, 2, 3];
        let mut bench: Bench<CohortE> =
            Bench::new(&CohortEParams {}, &services, &cores).busy(&[0, 1, 2, 3, 4, 5, 6, 7]);
        // Of 8 cores, 4, 2 and 2 are due to the services 1, 2 and 3, which have 3, 1 and 1.
        for (id, waiting) in [(1, 20), (2, 10), (3, 10)] {
            assert_eq!(bench.arrival(us(1), id, waiting), []);
        }
        for (core, to) in [(0, 1), (1, 2), (2, 3)] {
            assert_eq!(bench.idle(us(2), core), [(core, to)]);
        }
        bench.waits(us(3), 1, 0);
        // Now 4 and 4 are due to 2 and 3; the tie goes to the lower.
        assert_eq!(bench.idle(us(3), 3), [(3, 2)]);
    }

    /// t_sw = 0: no packet waits while a core idles, so all cores share one queue. As many packets
    /// are done, at the same times, as with a single service.
    #[test]
    fn without_switch_cost_it_is_pooled() {
        let service = ServiceConfig { switch_cost: Time::ZERO, ..service(10_000, 500, 166_666) };
        let mut random = Seed(7).stream("test");
        let mut now = 0.0;
        let arrivals: Vec<(Time, ServiceId)> = (0..3000)
            .map(|_| {
                now += random.exponential(2_100.0);
                (Time::from_ns(now as u64), ServiceId(random.below(6) as u16))
            })
            .collect();
        let pooled: Vec<(Time, ServiceId)> = arrivals.iter().map(|&(time, _)| (time, ServiceId(0))).collect();
        let times = |services: &[ServiceConfig], arrivals: &[(Time, ServiceId)]| -> Vec<Time> {
            let outcome = Scenario { cores: 6, services, arrivals }.run_with::<CohortE>(&CohortEParams {}, false);
            outcome.completions.into_iter().map(|(time, _)| time).collect()
        };
        let (several, one) = (times(&vec![service.clone(); 6], &arrivals), times(&[service], &pooled));
        let differs = several.iter().zip(&one).find(|(several, one)| several != one);
        assert_eq!((differs, several.len()), (None, arrivals.len()));
    }
}
