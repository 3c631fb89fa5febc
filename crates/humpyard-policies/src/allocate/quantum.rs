//! Quantum: a core serves a service for a quantum of time, and then the service with the fewest
//! cores for its guarantee.
//!
//! **Idea.** Time slices, as in an operating system. When its quantum is over or its queue is empty, a core
//! goes to the waiting service furthest below its guarantee; that may be its present service.
//!
//! **Source.** The baseline of Everest (paper everest), section 5.1 and table 4.
//!
//! **Promises.** Work conserving: no core stays idle while a waiting packet has not requested one.
//!
//! **Cost.** O(1); O(services) when a packet must wait, a quantum ends, or a core is given up while
//! packets wait.
//!
//! **Invariants.** A core is moved only between two packets.
//!
//! **Departures.** The quantum counts from the end of the switch, and is checked when a packet is done.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::params;
use humpyard_core::policy::{Allocate, Auto, Build, BuildError, Cause, Family, Info, Machine, Move, Policy, Promise};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

use super::eager::{Eager, beyond_guarantee, eager_handlers};
use super::idle::latest_idle;

params! {
    /// Parameters of Quantum.
    pub struct QuantumParams {
        /// The least time for which a core serves a service that has packets; `auto` is five switch
        /// costs, and at least 100 us.
        quantum: Auto = Auto::Auto, unit "ns";
    }
}

/// Quantum.
#[derive(Debug)]
pub struct Quantum {
    /// The services with packets waiting.
    eager: Eager,
    /// The guarantee of each service, in millionths.
    guarantees: IdVec<ServiceId, u32>,
    /// The quantum of each service.
    quanta: IdVec<ServiceId, Time>,
    /// The time when the quantum of each core was last renewed.
    renewed: IdVec<CoreId, Time>,
}

impl Build for Quantum {
    type Params = QuantumParams;
    const INFO: Info = Info {
        name: "quantum",
        family: Family::Allocate,
        summary: "a core whose quantum is over, or queue empty, goes to the service furthest below its guarantee",
        source: "baseline of the Everest paper, table 4",
        promises: &[Promise::WorkConserving],
        complexity: "O(services) while packets wait",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=1"];

    fn new(params: &QuantumParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let quantum = |switch_cost: Time| match params.quantum {
            Auto::Auto => Time::from_ns(switch_cost.as_ns().saturating_mul(5)).max(QUANTUM_MIN),
            Auto::Given(quantum) => Time::from_ns(quantum),
        };
        Ok(Self {
            eager: Eager::new("quantum", config)?,
            guarantees: config.services.iter().map(|service| service.guarantee_millionths).collect(),
            quanta: config.services.iter().map(|service| quantum(service.switch_cost)).collect(),
            renewed: IdVec::from_fn(config.cores, |_| Time::ZERO),
        })
    }
}

/// The shortest default quantum.
const QUANTUM_MIN: Time = Time::from_ns(100_000);

impl Policy for Quantum {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Allocate for Quantum {
    fn heeds_oldest(&self) -> bool {
        false
    }

    // Handlers: cores start by guarantee, each packet may take a core, and the core that became
    // idle last is asked first.
    eager_handlers!();

    #[inline]
    fn reassign(&mut self, now: Time, cause: Cause, machine: &Machine) -> Option<Move> {
        match cause {
            Cause::Arrival(service) => self.eager.take(machine, service),
            Cause::Completion(core) => self.expire(now, machine, core),
            Cause::Idle(core) => self.release(machine, core),
            Cause::Timeout => None,
        }
    }
}

impl Quantum {
    /// Handles a core that has completed a packet: at the end of its quantum it moves, or begins
    /// another quantum. A core without packets to serve is given up in any case.
    #[inline]
    fn expire(&mut self, now: Time, machine: &Machine, core: CoreId) -> Option<Move> {
        let state = machine.core(core);
        let began = state.held_since.max(self.renewed[core]);
        let own = state.service;
        if now.since(began) < self.quanta[own] || !state.is_movable() || machine.service(own).waiting == 0 {
            return None;
        }
        let (to, lack) = self.furthest_below(machine, core)?;
        // The comparison gives its own service one core less.
        if lack <= beyond_guarantee(machine, self.guarantees[own], own) + CORE {
            self.renewed[core] = now;
            return None;
        }
        Some(self.eager.give(machine, core, to))
    }

    /// Moves a core that has no packet to serve.
    #[inline]
    fn release(&mut self, machine: &Machine, core: CoreId) -> Option<Move> {
        if self.eager.has_no_seekers() || !machine.core(core).is_movable() {
            return None;
        }
        let (to, _) = self.furthest_below(machine, core)?;
        Some(self.eager.give(machine, core, to))
    }

    /// Returns the other service with packets waiting that is furthest below its guarantee, and the
    /// distance in millionths of a core.
    fn furthest_below(&mut self, machine: &Machine, core: CoreId) -> Option<(ServiceId, i64)> {
        let lack = |id: ServiceId| beyond_guarantee(machine, self.guarantees[id], id);
        let waiting = self.eager.beneficiaries(machine, core).map(|id| (id, lack(id)));
        waiting.max_by_key(|&(id, lack)| (lack, core::cmp::Reverse(id)))
    }
}

/// One core, in millionths.
const CORE: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing::{Bench, Scenario, service, us};
    use alloc::vec;
    use alloc::vec::Vec;

    /// Of 8 cores, 2.4 are guaranteed to A, 4 to B and 1.6 to C.
    fn bench(cores: &[u16]) -> Bench<Quantum> {
        let services = [300_000, 500_000, 200_000].map(|guarantee| service(10_000, 100, guarantee));
        let params = QuantumParams { quantum: Auto::Given(100_000) };
        Bench::new(&params, &services, cores).busy(&(0..8).collect::<Vec<u16>>())
    }

    #[test]
    fn a_core_goes_at_the_end_of_its_quantum() {
        let mut bench = bench(&[0, 0, 0, 0, 1, 1, 1, 2]);
        for (id, waiting) in [(0, 5), (1, 5), (2, 5)] {
            assert_eq!(bench.arrival(us(1), id, waiting), []);
        }
        assert_eq!(bench.completion(us(99), 0, us(10)), [], "the quantum is not over");
        assert_eq!(bench.completion(us(100), 0, us(10)), [(0, 1)], "1 core below, against .6 for 2");
        assert_eq!(bench.completion(us(101), 1, us(10)), [(1, 2)], ".6 below");
        assert_eq!(bench.completion(us(102), 2, us(10)), [], "its own is .4 below without it, the others 0 and -.4");
        assert_eq!(bench.completion(us(150), 4, us(10)), [], "its own is 1 below without it");
        bench.waits(us(199), 1, 0);
        bench.waits(us(199), 2, 0);
        bench.arrival(us(199), 2, 1);
        assert_eq!(bench.completion(us(201), 2, us(10)), [], "its quantum began anew at 102");
    }

    #[test]
    fn its_own_service_wins_ties() {
        let services = vec![service(10_000, 100, 500_000); 2];
        let params = QuantumParams { quantum: Auto::Given(1) };
        let mut bench: Bench<Quantum> = Bench::new(&params, &services, &[0, 0, 0, 1, 1]).busy(&[0, 1, 2, 3, 4]);
        bench.arrival(us(1), 0, 1);
        bench.arrival(us(1), 1, 1);
        // A has 3 cores of 2.5, or 2 without this one; B has 2.
        assert_eq!(bench.completion(us(2), 0, us(1)), []);
        bench.waits(us(3), 0, 0);
        assert_eq!(bench.completion(us(3), 0, us(1)), [], "nothing waits for its own: it is idle first");
        assert_eq!(bench.idle(us(3), 0), [(0, 1)]);
    }

    /// B has both cores when A, silent so far, has packets. One core moves at the end of its
    /// quantum, 100 us, and arrives 50 us later.
    #[test]
    fn nobody_waits_for_longer_than_a_quantum() {
        let services = vec![service(10_000, 1_000, 500_000); 2];
        let mut arrivals = vec![(Time::ZERO, ServiceId(1)); 100];
        arrivals.extend(vec![(us(1), ServiceId(0)); 5]);
        let params = QuantumParams { quantum: Auto::Given(100_000) };
        let outcome =
            Scenario { cores: 2, services: &services, arrivals: &arrivals }.run_with::<Quantum>(&params, true);
        let of_a = outcome.completions.iter().filter(|&&(_, service)| service == ServiceId(0));
        assert!(of_a.map(|&(time, _)| time).eq([160, 170, 180, 190, 200].map(us)));
    }
}
