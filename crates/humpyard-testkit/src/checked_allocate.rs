//! An allocation policy under watch.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, Id, IdVec, ServiceId};
use humpyard_core::policy::{Allocate, Cause, Machine, Move, Policy, Promise};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

/// The state of one service.
#[derive(Clone, Copy, Debug)]
struct Service {
    /// Cores that its guarantee is worth in any way of rounding.
    guaranteed: u32,
    /// The number of waiting packets from which the service needs all its guaranteed cores to be in
    /// time.
    needing: u64,
}

/// An allocation policy whose contract is asserted at every call.
///
/// * Time never goes back.
/// * At the start every service has a core.
/// * Only a policy that moves cores orders moves: of movable cores, to another service.
/// * It places packets on idle cores.
/// * If it promises isolation, each service has its guaranteed cores at the start. Later a packet
///   may arrive for a service with fewer cores and enough waiting packets to need them all. If no
///   core is on the move, the policy then takes a core from a service with more than its guarantee.
/// * If it promises to conserve work, a packet that must wait takes an idle core of another
///   service, if there is one. A core with nothing to serve goes to a service with waiting packets,
///   if there is one.
#[derive(Debug)]
pub struct CheckedAllocate<A> {
    allocate: A,
    isolates: bool,
    conserves_work: bool,
    services: IdVec<ServiceId, Service>,
    now: Time,
    /// Whether the packet that arrived last has moved a core.
    moved: bool,
}

impl<A: Allocate> CheckedAllocate<A> {
    /// Returns a checked policy with these promises, built for this run.
    pub fn new(allocate: A, promises: &[Promise], config: &SchedulerConfig) -> Self {
        let services = config.services.iter().zip(guaranteed_cores(config)).map(|(service, guaranteed)| {
            let in_time = service.tolerance.as_ns() / service.packet_time.as_ns().max(1);
            Service { guaranteed, needing: in_time.max(1).saturating_mul(u64::from(guaranteed)) }
        });
        Self {
            allocate,
            isolates: promises.contains(&Promise::Isolation),
            conserves_work: promises.contains(&Promise::WorkConserving),
            services: services.collect(),
            now: Time::ZERO,
            moved: false,
        }
    }

    fn advance(&mut self, now: Time) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
    }

    /// Checks isolation, after an arrival for this service for which the policy ordered no move.
    fn verify_isolation(&self, id: ServiceId, machine: &Machine) {
        let (state, service) = (machine.service(id), &self.services[id]);
        if state.cores >= service.guaranteed || u64::from(state.backlog()) <= service.needing {
            return;
        }
        let at_rest = machine.cores().iter().all(|core| core.service == id || core.is_movable());
        let above = |&other: &ServiceId| machine.service(other).cores > self.services[other].guaranteed;
        if let Some(other) = machine.services().ids().filter(|_| at_rest).find(above) {
            panic!(
                "service {id} has {} of {} guaranteed cores, {} packets wait, and service {other} keeps {} of {}",
                state.cores,
                service.guaranteed,
                state.backlog(),
                machine.service(other).cores,
                self.services[other].guaranteed
            );
        }
    }
}

impl<A: Allocate> CheckedAllocate<A> {
    /// Checks that no idle core was left unused, after an arrival for this service for which the
    /// policy ordered no move.
    fn verify_taken(&self, id: ServiceId, machine: &Machine) {
        let spare = |&other: &ServiceId| machine.service(other).idle > machine.service(other).waiting;
        let other = machine.services().ids().filter(|&other| other != id).find(spare);
        if machine.service(id).backlog() > 0
            && !self.moved
            && let Some(other) = other
        {
            panic!("a packet of service {id} waits, and a core of service {other} is idle");
        }
    }

    /// Checks that no waiting packets were left, after this core became idle and the policy ordered
    /// no move.
    fn verify_released(&self, core: CoreId, machine: &Machine) {
        let state = machine.core(core);
        let waits = |&other: &ServiceId| machine.service(other).backlog() > 0;
        let other = machine.services().ids().filter(|&other| other != state.service).find(waits);
        if state.is_movable()
            && let Some(other) = other
        {
            panic!("core {core} has nothing to serve, and packets of service {other} wait");
        }
    }
}

/// Returns the whole cores of each guarantee: rounded down, but at least one. If these are too
/// many, services with the most cores give some up.
fn guaranteed_cores(config: &SchedulerConfig) -> Vec<u32> {
    let cores = config.cores as u64;
    let whole = |millionths: u32| (u64::from(millionths) * cores / 1_000_000).max(1) as u32;
    let mut guaranteed: Vec<u32> = config.services.iter().map(|service| whole(service.guarantee_millionths)).collect();
    while guaranteed.iter().sum::<u32>() > config.cores as u32 {
        *guaranteed.iter_mut().max().expect("a service") -= 1;
    }
    guaranteed
}

impl<A: Allocate> Policy for CheckedAllocate<A> {
    fn next_timeout(&self) -> Option<Time> {
        let timeout = self.allocate.next_timeout();
        assert!(timeout.is_none() || self.allocate.keeps_time(), "a policy that keeps no time wants to be told of it");
        timeout
    }

    fn on_timeout(&mut self, now: Time) {
        self.advance(now);
        self.allocate.on_timeout(now);
    }

    fn check(&self) {
        self.allocate.check();
    }
}

impl<A: Allocate> Allocate for CheckedAllocate<A> {
    fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>) {
        self.allocate.initial(allocation);
        for id in self.services.ids() {
            let cores = allocation.iter().filter(|&&service| service == id).count();
            assert!(cores > 0, "service {id} has no core at the start");
            let guaranteed = self.services[id].guaranteed;
            assert!(
                !self.isolates || cores >= guaranteed as usize,
                "service {id} has {cores} of {guaranteed} guaranteed cores at the start"
            );
        }
        assert!(allocation.iter().all(|service| service.index() < self.services.len()), "a core of no service");
    }

    fn moves(&self) -> bool {
        self.allocate.moves()
    }

    fn on_arrival(&mut self, now: Time, service: ServiceId) {
        self.advance(now);
        self.moved = false;
        self.allocate.on_arrival(now, service);
    }

    fn on_completion(&mut self, now: Time, core: CoreId, service: ServiceId, delay: Time) {
        self.advance(now);
        self.allocate.on_completion(now, core, service, delay);
    }

    fn reassign(&mut self, now: Time, cause: Cause, machine: &Machine) -> Option<Move> {
        self.advance(now);
        let ordered = self.allocate.reassign(now, cause, machine);
        match (ordered, cause) {
            (Some(Move { core, to }), _) => {
                assert!(self.allocate.moves(), "a policy that moves no cores moves core {core}");
                let state = machine.core(core);
                assert!(state.is_movable() && state.service != to, "core {core} cannot go to service {to}: {state:?}");
                self.moved = true;
            }
            (None, Cause::Arrival(service)) if self.allocate.moves() => {
                if self.isolates {
                    self.verify_isolation(service, machine);
                }
                if self.conserves_work {
                    self.verify_taken(service, machine);
                }
            }
            (None, Cause::Idle(core)) if self.conserves_work => self.verify_released(core, machine),
            (None, _) => {}
        }
        ordered
    }

    fn place(&mut self, service: ServiceId, idle: &IdSet<CoreId>, machine: &Machine) -> CoreId {
        let core = self.allocate.place(service, idle, machine);
        assert!(idle.contains(core), "core {core} is not idle");
        core
    }
}
