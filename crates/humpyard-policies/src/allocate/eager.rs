//! The common part of the eager policies. A packet that must wait takes an idle core of another
//! service at once. A core with an empty queue goes to a service that has packets waiting.

use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::policy::{BuildError, Machine, Move};
use humpyard_core::storage::IdSet;

use super::idle::longest_idle_but;
use super::r#static::{check_cores, deal, guaranteed_cores};

/// The services with packets waiting, and whether the latest packet may still take a core.
#[derive(Debug)]
pub(super) struct Eager {
    /// The guarantee of each service in whole cores.
    guaranteed: Vec<usize>,
    /// Whether the latest packet has not taken a core yet.
    may_take: bool,
    /// The services with packets waiting, and some that had packets waiting before.
    waiting: IdSet<ServiceId>,
}

/// The handlers that all eager policies share, for their `impl Allocate`. They need a field `eager`.
macro_rules! eager_handlers {
    () => {
        fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>) {
            self.eager.initial(allocation);
        }

        fn moves(&self) -> bool {
            true
        }

        #[inline]
        fn on_arrival(&mut self, _: Time, _: ServiceId) {
            self.eager.on_arrival();
        }

        #[inline]
        fn place(&mut self, service: ServiceId, idle: &IdSet<CoreId>, machine: &Machine) -> CoreId {
            latest_idle(service, idle, machine)
        }
    };
}
pub(super) use eager_handlers;

impl Eager {
    pub(super) fn new(policy: &str, config: &SchedulerConfig) -> Result<Self, BuildError> {
        check_cores(policy, config)?;
        let waiting = IdSet::new(config.services.len());
        Ok(Self { guaranteed: guaranteed_cores(config), may_take: false, waiting })
    }

    pub(super) fn initial(&self, allocation: &mut IdVec<CoreId, ServiceId>) {
        deal(&self.guaranteed, allocation);
    }

    #[inline]
    pub(super) fn on_arrival(&mut self) {
        self.may_take = true;
    }

    /// Returns the move of the core that has been idle longest in another service. It is for the
    /// packet that has just arrived and must wait; each packet takes one core.
    #[inline]
    pub(super) fn take(&mut self, machine: &Machine, to: ServiceId) -> Option<Move> {
        if machine.service(to).backlog() == 0 {
            return None;
        }
        self.waiting.insert(to);
        if !core::mem::take(&mut self.may_take) {
            return None;
        }
        let (_, core) = longest_idle_but(machine, to)?;
        Some(self.give(machine, core, to))
    }

    /// Whether no service has packets waiting.
    #[inline]
    pub(super) fn has_no_seekers(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Moves a core to a service.
    pub(super) fn give(&mut self, machine: &Machine, core: CoreId, to: ServiceId) -> Move {
        self.waiting.insert(machine.core(core).service);
        Move { core, to }
    }

    /// Returns the services that have packets waiting, without the service of the core.
    #[inline]
    pub(super) fn beneficiaries(
        &mut self,
        machine: &Machine,
        core: CoreId,
    ) -> impl Iterator<Item = ServiceId> + Clone + '_ {
        let mut next = self.waiting.first();
        while let Some(id) = next {
            next = self.waiting.after(id);
            if machine.service(id).backlog() == 0 {
                self.waiting.remove(id);
            }
        }
        let own = machine.core(core).service;
        Services { set: &self.waiting, next: self.waiting.first() }.filter(move |&id| id != own)
    }
}

/// The members of a set, in order.
#[derive(Clone)]
struct Services<'a> {
    set: &'a IdSet<ServiceId>,
    next: Option<ServiceId>,
}

impl Iterator for Services<'_> {
    type Item = ServiceId;

    #[inline]
    fn next(&mut self) -> Option<ServiceId> {
        let id = self.next?;
        self.next = self.set.after(id);
        Some(id)
    }
}

/// Returns the service whose queue needs the most cores beyond those it has, by its part of all
/// waiting packets: q/Σq·N − alloc. The greatest is found without a division.
#[inline]
pub(super) fn by_queue(machine: &Machine, services: impl Iterator<Item = ServiceId> + Clone) -> Option<ServiceId> {
    let backlog = |id: ServiceId| i64::from(machine.service(id).backlog());
    let (all, cores) = (services.clone().map(backlog).sum::<i64>(), machine.cores().len() as i64);
    let rank = |id: ServiceId| backlog(id) * cores - i64::from(machine.service(id).cores) * all;
    services.max_by_key(|&id| (rank(id), core::cmp::Reverse(id)))
}

/// Returns the guaranteed cores of a service beyond those it has, in millionths: G·N − alloc.
#[inline]
pub(super) fn beyond_guarantee(machine: &Machine, guarantee_millionths: u32, id: ServiceId) -> i64 {
    i64::from(guarantee_millionths) * machine.cores().len() as i64 - i64::from(machine.service(id).cores) * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing::packets_wait;
    use humpyard_core::unit::Time;

    /// Ten cores: A has 6, B 3 and C 1. 60, 30 and 30 packets wait: 5, 2.5 and 2.5 cores.
    #[test]
    fn in_proportion_to_queues() {
        let initial = [0, 0, 0, 0, 0, 0, 1, 1, 1, 2].map(ServiceId).into_iter().collect();
        let mut machine = Machine::new(&initial, 3);
        initial.ids().for_each(|core| machine.on_dispatch(Time::ZERO, core));
        for (id, waiting) in [(0, 60), (1, 30), (2, 30)] {
            packets_wait(&mut machine, ServiceId(id), waiting, Time::ZERO);
        }
        let services = || (0..3).map(ServiceId);
        assert_eq!(by_queue(&machine, services()), Some(ServiceId(2)), "2.5 - 1");
        packets_wait(&mut machine, ServiceId(0), 540, Time::ZERO);
        assert_eq!(by_queue(&machine, services()), Some(ServiceId(0)), "9 - 6");
        assert_eq!(by_queue(&machine, services().filter(|_| false)), None);
        assert_eq!(beyond_guarantee(&machine, 250_000, ServiceId(2)), 1_500_000);
    }
}
