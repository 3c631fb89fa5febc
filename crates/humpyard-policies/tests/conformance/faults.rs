//! Faulty policies: each check of the suite detects the policy that violates it.

use core::cell::Cell;
use std::rc::Rc;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::mix;
use humpyard_core::id::{ClientId, CoreId, Id, IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{
    Allocate, BuildError, Cause, Estimate, Family, Machine, Move, Policy, Promise, Share, Steer, Target, View,
};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::{Time, Weight, Work};
use humpyard_testkit::Scenario;
use humpyard_testkit::conformance::{Subject, Trial};

use crate::counting::count_allocations;

/// The fault of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// No fault: the policy keeps all promises.
    None,
    /// Sharing: it forgets heads that follow others.
    ForgetsHeads,
    /// Sharing: it does not serve a client that is alone.
    LeavesTheLast,
    /// Sharing: a second question gets another pick.
    IsFickle,
    /// Sharing: it picks clients that were not offered.
    PicksAnyone,
    /// Sharing: its counts do not add up.
    Miscounts,
    /// Sharing: it allocates when packets arrive.
    Allocates,
    /// Sharing: questions change its later picks.
    CountsQuestions,
    /// Sharing: after this many runs it decides differently.
    RemembersRuns(u32),
    /// Steering: it sends each packet to the next core.
    Sprays,
    /// Steering: it depends on the number of cores, so all flows move when a core goes.
    CountsCores,
    /// Steering: it steers to a core that may not serve the packet.
    Trespasses,
    /// Steering: it steers to a queue that it did not request.
    Overreaches,
    /// Steering: it promises that no core is idle, but does not check the cores.
    PromisesTooMuch,
    /// Allocation: it gives all cores to the first service but one to each other.
    Hoards,
    /// Allocation: it gives the last service no core.
    Abandons,
    /// Allocation: cores go to the first service and never come back.
    NeverReturns,
    /// It leaves cores idle while packets of other services wait.
    LeavesCoresIdle,
    /// It gives idle cores to new packets, but never gives a core that has completed a packet to waiting ones.
    KeepsCores,
    /// Allocation: it moves cores although it declares that it does not.
    MovesUnasked,
    /// Estimation: it estimates no work.
    Nothing,
    /// Estimation: each further question gets a greater answer.
    Grows,
}

/// Serves the client of the lowest id.
#[derive(Debug)]
struct Sharing {
    fault: Fault,
    /// The number of runs of the subject that have begun.
    runs: Rc<Cell<u32>>,
    /// The number of runs that had begun before this one.
    run: Option<u32>,
    offered: IdSet<ClientId>,
    clients: usize,
    questions: u64,
    count: usize,
    arrivals: Vec<ClientId>,
}

impl Sharing {
    fn offer(&mut self, id: ClientId) {
        self.offered.insert(id);
        self.count += 1;
    }
}

impl Policy for Sharing {
    fn check(&self) {
        assert_eq!(self.count, self.offered.len(), "heads offered do not add up");
    }
}

impl Share for Sharing {
    fn on_arrival(&mut self, _: Time, id: ClientId, _: &Packet, _: u32) {
        if self.run.is_none() {
            self.run = Some(self.runs.replace(self.runs.get() + 1));
        }
        if self.fault == Fault::Allocates {
            self.arrivals.push(id);
        }
    }
    fn on_wake(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.offer(id);
    }
    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        if self.fault != Fault::ForgetsHeads {
            self.offer(id);
        }
    }
    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.questions += 1;
        let highest = match self.fault {
            Fault::IsFickle => self.questions.is_multiple_of(2),
            Fault::CountsQuestions => self.questions.div_ceil(2).is_multiple_of(2),
            Fault::RemembersRuns(many) => self.run >= Some(many),
            _ => false,
        };
        match self.fault {
            Fault::LeavesTheLast if self.offered.len() == 1 => None,
            Fault::PicksAnyone if !self.offered.is_empty() => (0..self.clients).next_back().map(ClientId::from_index),
            _ if highest => self.offered.iter().last(),
            _ => self.offered.first(),
        }
    }
    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, _: &Packet) {
        self.offered.remove(id);
        if self.fault != Fault::Miscounts {
            self.count -= 1;
        }
    }
    fn on_idle(&mut self, _: Time, _: ClientId) {}
    fn on_client_end(&mut self, _: Time, _: ClientId) {}
    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}
}

/// Rendezvous hashing, with a fault.
#[derive(Debug)]
struct Steering {
    fault: Fault,
    packets: usize,
}

impl Policy for Steering {}

impl Steer for Steering {
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        self.packets += 1;
        let count = view.eligible.len();
        let highest = view.eligible.iter().copied().max_by_key(|core| mix(packet.key ^ mix(u64::from(core.0))));
        match self.fault {
            Fault::Sprays => Target::Core(view.eligible[self.packets % count]),
            Fault::CountsCores => Target::Core(view.eligible[packet.key as usize % count]),
            Fault::Trespasses => Target::Core(CoreId(0)),
            Fault::Overreaches => Target::Shared,
            _ => Target::Core(highest.expect("a core is eligible")),
        }
    }
}

/// Assigns cores to services in turn, with a fault.
#[derive(Debug)]
struct Allocation {
    fault: Fault,
    services: usize,
}

impl Policy for Allocation {}

impl Allocate for Allocation {
    fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>) {
        let cores = allocation.len();
        for (core, service) in allocation.iter_mut().enumerate() {
            let index = match self.fault {
                Fault::Hoards => (core + self.services).saturating_sub(cores),
                Fault::Abandons => core % (self.services - 1).max(1),
                _ => core % self.services,
            };
            *service = ServiceId::from_index(index);
        }
    }

    fn moves(&self) -> bool {
        matches!(self.fault, Fault::NeverReturns | Fault::LeavesCoresIdle | Fault::KeepsCores)
    }

    fn reassign(&mut self, _: Time, cause: Cause, machine: &Machine) -> Option<Move> {
        let moves = matches!(self.fault, Fault::NeverReturns | Fault::MovesUnasked);
        let first = ServiceId(0);
        if let (Fault::KeepsCores, Cause::Arrival(to)) = (self.fault, cause) {
            let spare = |&id: &ServiceId| id != to && machine.service(id).idle > machine.service(id).waiting;
            let other = machine.services().ids().find(spare).filter(|_| machine.service(to).backlog() > 0)?;
            return machine.idle(other).next().map(|core| Move { core, to });
        }
        let core = match cause {
            Cause::Arrival(service) if moves && service == first => machine
                .cores()
                .iter()
                .position(|core| core.service != first && core.is_movable() && machine.service(core.service).cores > 1),
            _ => None,
        };
        core.map(|core| Move { core: CoreId::from_index(core), to: first })
    }
}

/// Estimates the length, with a fault.
#[derive(Debug)]
struct Estimation {
    fault: Fault,
    questions: Cell<u64>,
}

impl Policy for Estimation {}

impl Estimate for Estimation {
    fn estimate(&self, packet: &Packet) -> Work {
        self.questions.set(self.questions.get() + 1);
        match self.fault {
            Fault::Nothing => 0,
            Fault::Grows => self.questions.get(),
            _ => u64::from(packet.length),
        }
    }
}

/// A policy of this family with this fault, and faultless partners.
struct Faulty {
    family: Family,
    fault: Fault,
    runs: Rc<Cell<u32>>,
}

impl Faulty {
    fn new(family: Family, fault: Fault) -> Self {
        Self { family, fault, runs: Rc::default() }
    }
}

impl Subject for Faulty {
    type Steer = Steering;
    type Share = Sharing;
    type Allocate = Allocation;
    type Estimate = Estimation;

    fn family(&self) -> Family {
        self.family
    }

    fn promises(&self) -> &'static [Promise] {
        match (self.family, self.fault) {
            // Without this, another check would fail before the account.
            (_, Fault::ForgetsHeads) | (Family::Estimate, _) => &[],
            (Family::Share, _) | (_, Fault::PromisesTooMuch | Fault::LeavesCoresIdle | Fault::KeepsCores) => {
                &[Promise::WorkConserving]
            }
            (_, Fault::Sprays) => &[Promise::FlowOrder],
            (_, Fault::CountsCores) => &[Promise::MinimalDisruption],
            (Family::Steer, _) => &[Promise::FlowOrder, Promise::MinimalDisruption],
            (Family::Allocate, _) => &[Promise::Isolation],
        }
    }

    fn steer(&self, _: &SchedulerConfig) -> Result<Option<Steering>, BuildError> {
        Ok((self.family == Family::Steer).then_some(Steering { fault: self.fault, packets: 0 }))
    }

    fn share(&self, config: &SchedulerConfig) -> Result<Sharing, BuildError> {
        Ok(Sharing {
            fault: self.fault,
            runs: Rc::clone(&self.runs),
            run: None,
            offered: IdSet::new(config.clients),
            clients: config.clients,
            questions: 0,
            count: 0,
            arrivals: Vec::new(),
        })
    }

    fn allocate(&self, config: &SchedulerConfig) -> Result<Option<Allocation>, BuildError> {
        if self.family != Family::Allocate && self.fault != Fault::Trespasses {
            return Ok(None);
        }
        let services = config.services.len();
        if services > config.cores {
            return Err(BuildError::set_up("too few cores"));
        }
        Ok(Some(Allocation { fault: self.fault, services }))
    }

    fn estimate(&self, _: &SchedulerConfig) -> Result<Option<Estimation>, BuildError> {
        let estimation = Estimation { fault: self.fault, questions: Cell::new(0) };
        Ok((self.family == Family::Estimate).then_some(estimation))
    }
}

/// Returns the first violation that the suite finds in the scenarios.
fn found(family: Family, fault: Fault) -> Option<String> {
    let corpus = Scenario::corpus();
    corpus.iter().find_map(|scenario| {
        let (subject, history) = (&Faulty::new(family, fault), &scenario.history);
        Trial { subject, history, allocations: Some(count_allocations) }.hold().err()
    })
}

#[test]
fn faultless_policies_pass() {
    for family in [Family::Steer, Family::Share, Family::Allocate, Family::Estimate] {
        assert_eq!(found(family, Fault::None), None, "{family:?}");
    }
}

#[test]
fn every_check_catches_who_breaks_it() {
    for (family, fault, message) in [
        (Family::Share, Fault::ForgetsHeads, "packets wait and no core is given them"),
        (Family::Share, Fault::LeavesTheLast, "heads wait and none is picked"),
        (Family::Share, Fault::IsFickle, "asked again, the policy picks another client"),
        (Family::Share, Fault::PicksAnyone, "was picked, and its head was not offered"),
        (Family::Share, Fault::Miscounts, "heads offered do not add up"),
        (Family::Share, Fault::Allocates, "allocations after construction"),
        (Family::Share, Fault::CountsQuestions, "a second run decides otherwise"),
        (Family::Share, Fault::RemembersRuns(1), "a second run decides otherwise"),
        (Family::Share, Fault::RemembersRuns(2), "a replay decides otherwise"),
        (Family::Steer, Fault::Sprays, "left out of the order of their flow"),
        (Family::Steer, Fault::CountsCores, "without core"),
        (Family::Steer, Fault::Trespasses, "is not one of"),
        (Family::Steer, Fault::Overreaches, "is wider than the policy's reach"),
        (Family::Steer, Fault::PromisesTooMuch, "work is not conserved"),
        (Family::Allocate, Fault::Hoards, "guaranteed cores at the start"),
        (Family::Allocate, Fault::Abandons, "has no core at the start"),
        (Family::Allocate, Fault::NeverReturns, "has 1 of 2 guaranteed cores"),
        (Family::Allocate, Fault::LeavesCoresIdle, "waits, and a core of service"),
        (Family::Allocate, Fault::KeepsCores, "has nothing to serve, and packets of service"),
        (Family::Allocate, Fault::MovesUnasked, "a policy that moves no cores moves core"),
        (Family::Estimate, Fault::Nothing, "a packet is estimated to be no work"),
        (Family::Estimate, Fault::Grows, "asked again, the estimator answers otherwise"),
    ] {
        let found = found(family, fault).unwrap_or_else(|| panic!("{fault:?} passes"));
        let first = found.lines().take(3).collect::<Vec<_>>().join("; ");
        assert!(found.contains(message), "{fault:?} is caught otherwise: {first}");
    }
}
