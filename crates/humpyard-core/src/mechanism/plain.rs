//! Calls for runs without rare features, for a driver whose loop is compiled for such runs alone.

use super::answer::{Arrival, Done};
use super::limits::Limits;
use super::scheduler::Scheduler;
use crate::id::{CoreId, Slot};
use crate::packet::Packet;
use crate::policy::{Allocate, Share, Steer};
use crate::unit::Time;

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// As [`Scheduler::on_arrival`]. `PLAIN`: the caller knows that the run is plain.
    #[inline(always)]
    pub(crate) fn on_arrival_as<const PLAIN: bool>(&mut self, now: Time, packet: &Packet) -> Arrival {
        self.expect_settled();
        self.expect_plain::<PLAIN>();
        self.advance_as::<PLAIN>(now);
        if PLAIN || self.is_plain {
            return self.accept::<true>(now, packet);
        }
        self.accept_any(now, packet)
    }

    /// [`Scheduler::next_core`] and [`Scheduler::next`] in one call, for a run that the caller
    /// knows to be plain. The packet is `None` if the core may serve nothing after all.
    #[inline(always)]
    pub(crate) fn take_plain(&mut self, now: Time) -> Option<(CoreId, Option<(Slot, bool)>)> {
        self.expect_settled();
        self.expect_plain::<true>();
        // A core that moves is withdrawn from its queue, so this core does not move.
        let (queue, core) = self.find_core(now)?;
        self.advance_as::<true>(now);
        Some((core, self.dispatch::<true>(now, core, queue)))
    }

    /// As [`Scheduler::on_completion`], in a run that the caller knows to be plain; as
    /// [`Scheduler::on_end`] if `ends`.
    /// The packet can be read in its slot until the next call.
    #[inline(always)]
    pub(crate) fn on_plain_completion(&mut self, now: Time, slot: Slot, busy: Time, ends: bool) -> Done {
        self.expect_settled();
        self.expect_plain::<true>();
        self.advance_as::<true>(now);
        self.complete::<true>(now, slot, busy, ends)
    }

    /// Checks, where assertions are on, that a caller may treat the run as plain.
    #[inline(always)]
    pub(super) fn expect_plain<const PLAIN: bool>(&self) {
        debug_assert!(!PLAIN || self.is_plain, "the run has a rare feature");
    }

    /// Whether the run has none of the rare features: chains, split flows, limits of queues or
    /// clients, cores with several queues, clients that are services, preemption, a journal.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Returns the core of each cold packet in service.
    pub(crate) fn cold_in_service(&self) -> impl Iterator<Item = CoreId> + '_ {
        let entries = self.slab.in_service().map(|slot| self.slab.get(slot));
        entries.filter(|entry| entry.cold).filter_map(|entry| entry.core)
    }

    /// Whether cores are allocated to services.
    #[inline(always)]
    pub(crate) fn allocates(&self) -> bool {
        self.allocation.is_some()
    }

    /// As [`Scheduler::advance`]. `PLAIN`: the caller knows that time does not go back.
    #[inline(always)]
    pub(super) fn advance_as<const PLAIN: bool>(&mut self, now: Time) {
        if PLAIN {
            debug_assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
            self.now = now;
        } else {
            self.advance(now);
        }
    }

    /// Returns the value that [`Scheduler::is_plain`] must have.
    pub(super) fn finds_plain(&self) -> bool {
        let Limits { queue, client, .. } = self.plan.limits;
        let is_unlimited = queue == u32::MAX && client == u32::MAX && !self.plan.push_out;
        let is_narrow = self.cores.iter().all(|core| core.pulls == 1);
        let is_direct = self.plan.chains.is_empty() && self.split.is_none();
        let by_client = self.queues.iter().all(|queue| !queue.share.serves_services());
        is_unlimited && is_narrow && is_direct && by_client && self.turns.is_none() && self.journal.is_none()
    }
}
