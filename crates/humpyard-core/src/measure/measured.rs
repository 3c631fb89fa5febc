//! The mechanism with its measurements, for drivers.

use alloc::boxed::Box;

use super::{Measurements, Observer, Summary, Tally};
use crate::cost::Span;
use crate::id::{ClientId, CoreId, FlowId, Slot};
use crate::mechanism::{Account, Arrival, Completed, Dispatch, Done, Effect, Journal, Scheduler};
use crate::packet::Packet;
use crate::policy::{Allocate, BuildError, Share, Steer, Topology};
use crate::unit::{Time, Weight};

/// Packets of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowPackets {
    /// Packets that left after the warm-up.
    pub left: u64,
    /// Packets that were split.
    pub split: u64,
}

/// A scheduler that measures every event itself, so that all drivers measure the same way.
#[derive(Debug)]
pub struct Measured<S, Q, A> {
    scheduler: Scheduler<S, Q, A>,
    measurements: Measurements,
    observer: Option<Box<dyn Observer + Send>>,
    /// Whether the offered work of a packet is its estimate.
    estimates_are_costs: bool,
}

impl<S: Steer, Q: Share, A: Allocate> Measured<S, Q, A> {
    /// Returns this scheduler with these measurements of the same configuration.
    pub fn new(scheduler: Scheduler<S, Q, A>, measurements: Measurements) -> Self {
        let estimates_are_costs = measurements.offered_by().is_some_and(|costs| scheduler.estimates_by(costs));
        Self { scheduler, measurements, observer: None, estimates_are_costs }
    }

    /// Sets an observer of all later events.
    #[must_use]
    pub fn with_observer(mut self, observer: Box<dyn Observer + Send>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Writes a journal of every scheduler call from now on.
    #[must_use]
    pub fn with_journal(mut self, journal: Box<dyn Journal + Send>) -> Self {
        self.scheduler = self.scheduler.with_journal(journal);
        self
    }

    /// Whether the run has no rare feature that a driver's loop would check for every packet. These
    /// are [`Scheduler`]'s (chains, split flows, limits, several queues a core, a journal), an
    /// observer, contexts, a topology, and packets of a warm-up. In such a run a driver may call
    /// [`Measured::on_arrival_as`] and similar methods with `PLAIN`.
    pub fn is_plain(&self) -> bool {
        self.becomes_plain() && self.measurements.is_plain()
    }

    /// Whether [`Measured::is_plain`] holds once the packets of the warm-up are gone.
    pub fn becomes_plain(&self) -> bool {
        self.scheduler.is_plain() && self.observer.is_none() && self.measurements.becomes_plain()
    }

    /// From now on the driver makes calls with `PLAIN`; it has made others until now. [`Measured::is_plain`] must
    /// hold.
    pub fn begin_plain(&mut self) {
        for core in self.scheduler.cold_in_service() {
            self.measurements.on_cold_in_service(core);
        }
    }

    /// A packet arrives: [`Scheduler::on_arrival`].
    #[inline(always)]
    pub fn on_arrival(&mut self, now: Time, packet: &Packet) -> Arrival {
        self.on_arrival_as::<false>(now, packet)
    }

    /// As [`Measured::on_arrival`], compiled without rare features where `PLAIN`: [`Measured::is_plain`] must hold.
    #[inline(always)]
    pub fn on_arrival_as<const PLAIN: bool>(&mut self, now: Time, packet: &Packet) -> Arrival {
        let arrival = self.scheduler.on_arrival_as::<PLAIN>(now, packet);
        match arrival {
            Arrival::Queued(slot) if PLAIN && self.estimates_are_costs => {
                self.measurements.on_offer_of(packet.arrival, packet.length, self.scheduler.packet(slot).estimate);
            }
            _ => self.measurements.on_offer(packet.arrival, packet.length, packet.chain, packet.service),
        }
        match arrival {
            Arrival::Queued(_) if PLAIN => {
                self.measurements.on_plain_accept(packet.arrival, packet.client, packet.service);
            }
            Arrival::Queued(_) => self.measurements.on_accept(packet.arrival, packet.client, packet.service),
            Arrival::Dropped(_) => self.measurements.on_refuse(packet.arrival, packet.service),
        }
        if PLAIN {
            return arrival;
        }
        if let Some(observer) = &mut self.observer {
            observer.on_arrival(now, packet, arrival);
        }
        self.note_hold(now);
        arrival
    }

    /// Reports to the measurements whether packets are held back now, if they count that.
    #[inline(always)]
    fn note_hold(&mut self, now: Time) {
        if self.measurements.counts_holds() {
            self.measurements.on_hold(now, self.scheduler.holds_back());
        }
    }

    /// Returns a core that has room and may have a packet waiting for it: [`Scheduler::next_core`].
    #[inline(always)]
    pub fn next_core(&mut self, now: Time) -> Option<CoreId> {
        self.scheduler.next_core(now)
    }

    /// The core's switch is over: [`Scheduler::on_switched`].
    pub fn on_switched(&mut self, now: Time, core: CoreId) {
        self.scheduler.on_switched(now, core);
        if let Some(observer) = &mut self.observer {
            observer.on_switched(now, core);
        }
    }

    /// Returns when a policy, or a packet at the exit, needs a timeout:
    /// [`Scheduler::next_timeout`].
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        self.scheduler.next_timeout()
    }

    /// That time has come: [`Scheduler::on_timeout`].
    pub fn on_timeout(&mut self, now: Time) {
        self.scheduler.on_timeout(now);
        self.note_hold(now);
    }

    /// The packet that `core` serves next: [`Scheduler::next`].
    #[inline(always)]
    pub fn next(&mut self, now: Time, core: CoreId) -> Option<Dispatch> {
        self.lend_next(now, core).map(|dispatch| dispatch.copied())
    }

    /// As [`Measured::next`], but lends the packet.
    #[inline(always)]
    pub fn lend_next(&mut self, now: Time, core: CoreId) -> Option<Dispatch<&Packet>> {
        self.lend::<false>(now, core)
    }

    /// As [`Measured::lend_next`], for drivers that preempt: the packet may have had turns before.
    #[inline(always)]
    pub fn lend_next_turn(&mut self, now: Time, core: CoreId) -> Option<Dispatch<&Packet>> {
        self.lend::<true>(now, core)
    }

    /// Lends the core's next packet. `TURNS`: it may have had turns before.
    #[inline(always)]
    fn lend<const TURNS: bool>(&mut self, now: Time, core: CoreId) -> Option<Dispatch<&Packet>> {
        let (slot, cold) = self.scheduler.take(now, core)?;
        let packet = self.scheduler.packet(slot);
        let moved = if TURNS && self.scheduler.had_turn(slot) {
            self.measurements.on_turn(now, core, packet)
        } else {
            self.measurements.on_dispatch(now, core, packet, cold)
        };
        let dispatch = Dispatch { slot, packet, cold, moved };
        if let Some(observer) = &mut self.observer {
            observer.on_unqueue(slot, self.scheduler.queue_of_slot(slot));
            observer.on_dispatch(now, core, &dispatch.copied());
        }
        Some(dispatch)
    }

    /// Returns a core that has room, and lends its next packet: [`Measured::next_core`] and
    /// [`Measured::next`] in one, for runs in which [`Measured::is_plain`] holds. The packet is
    /// `None` if the core may serve nothing after all.
    #[inline(always)]
    pub fn lend_next_plain(&mut self, now: Time) -> Option<(CoreId, Option<Dispatch<&Packet>>)> {
        let (core, taken) = self.scheduler.take_plain(now)?;
        let Some((slot, cold)) = taken else { return Some((core, None)) };
        let packet = self.scheduler.packet(slot);
        self.measurements.on_plain_dispatch(packet);
        Some((core, Some(Dispatch { slot, packet, cold, moved: None })))
    }

    /// The packet in `slot` was done at `finished`, which may lie before `now`, after `core` was busy with it for `busy`.
    #[inline(always)]
    pub fn on_completion(&mut self, now: Time, core: CoreId, slot: Slot, finished: Time, busy: Time) -> Completed {
        let completed = self.scheduler.on_completion(now, slot, busy);
        self.record_completion(core, slot, &completed, finished, busy);
        completed
    }

    /// As [`Measured::on_completion`], compiled without rare features where `PLAIN`: [`Measured::is_plain`] must hold.
    #[inline(always)]
    pub fn on_completion_as<const PLAIN: bool>(
        &mut self,
        now: Time,
        core: CoreId,
        slot: Slot,
        finished: Time,
        busy: Time,
    ) -> Completed {
        if !PLAIN {
            return self.on_completion(now, core, slot, finished, busy);
        }
        let (done, packet) = self.on_plain_completion(now, core, slot, Span { finished, busy }, false);
        done.of(*packet)
    }

    /// As [`Measured::on_completion`], or as [`Measured::on_end`] if the packet `ends` here, for
    /// runs in which [`Measured::is_plain`] holds. Lends the packet, which [`Measured::packet`] also returns
    /// until the next call.
    #[inline(always)]
    pub fn on_plain_completion(
        &mut self,
        now: Time,
        core: CoreId,
        slot: Slot,
        span: Span,
        ends: bool,
    ) -> (Done, &Packet) {
        let Span { finished, busy } = span;
        let done = self.scheduler.on_plain_completion(now, slot, busy, ends);
        let packet = self.scheduler.packet(slot);
        self.measurements.record::<true>(core, packet, done, finished, busy);
        (done, packet)
    }

    /// Returns the packet in this slot, or the one that was there last.
    #[inline]
    pub fn packet(&self, slot: Slot) -> &Packet {
        self.scheduler.packet(slot)
    }

    /// The same for a packet that its service has consumed or dropped: [`Scheduler::on_end`].
    pub fn on_end(&mut self, now: Time, core: CoreId, slot: Slot, finished: Time, busy: Time) -> Completed {
        let completed = self.scheduler.on_end(now, slot, busy);
        self.record_completion(core, slot, &completed, finished, busy);
        completed
    }

    #[inline]
    fn record_completion(&mut self, core: CoreId, slot: Slot, completed: &Completed, finished: Time, busy: Time) {
        self.measurements.on_completion(core, completed, finished, busy);
        self.note_hold(finished);
        if let Some(observer) = &mut self.observer {
            observer.on_completion(core, slot, completed, finished, busy);
        }
    }

    /// Returns the time after which a core gives a packet back: [`Scheduler::quantum`].
    #[inline]
    pub fn quantum(&self) -> Option<Time> {
        self.scheduler.quantum()
    }

    /// Whether the packet's core gives it back after its quantum: [`Scheduler::yields`].
    pub fn yields(&mut self, now: Time, slot: Slot) -> bool {
        self.scheduler.yields(now, slot)
    }

    /// Whether the packet's core keeps it until something else happens: [`Scheduler::stays`].
    pub fn stays(&self, slot: Slot) -> bool {
        self.scheduler.stays(slot)
    }

    /// The packet in `slot` was served for `served` and is put back, unfinished: [`Scheduler::on_preemption`].
    /// `core` was busy for `busy` with its turn, saving its state included.
    pub fn on_preemption(&mut self, now: Time, core: CoreId, slot: Slot, served: Time, busy: Time) {
        let used = self.scheduler.on_preemption(now, slot, served, busy.since(served));
        self.measurements.on_preemption(core, self.scheduler.packet(slot), used, busy);
        if let Some(observer) = &mut self.observer {
            observer.on_preemption(now, core, slot, self.scheduler.packet(slot), busy);
        }
    }

    /// Whether an arrival or a dispatch can have effects at all: only rare features push packets
    /// out, and only allocations switch cores.
    #[inline(always)]
    pub fn may_follow<const PLAIN: bool>(&self) -> bool {
        !PLAIN || self.scheduler.allocates()
    }

    /// Returns the next effect of the last call, at `now`: [`Scheduler::next_effect`].
    #[inline(always)]
    pub fn next_effect(&mut self, now: Time) -> Option<Effect> {
        let effect = self.scheduler.next_effect()?;
        self.measure_effect(now, &effect);
        Some(effect)
    }

    #[inline(never)]
    fn measure_effect(&mut self, now: Time, effect: &Effect) {
        match effect {
            Effect::Dropped(dropped) => self.measurements.on_drop(&dropped.packet),
            Effect::Left(exit) => self.measurements.on_departure(&exit.packet, now),
            Effect::Switch(switch) => self.measurements.on_switch(switch.core),
        }
        match (&mut self.observer, effect) {
            (Some(observer), Effect::Dropped(dropped)) => observer.on_drop(dropped),
            (Some(observer), Effect::Left(exit)) => observer.on_departure(now, &exit.packet),
            (Some(observer), Effect::Switch(switch)) => observer.on_switch(switch),
            (None, _) => {}
        }
    }

    /// A packet that left at this time was lost behind the cores, at the link.
    pub fn on_loss_behind(&mut self, packet: &Packet, left: Time) {
        self.measurements.on_loss_behind(packet, left);
    }

    /// Gives a client another weight.
    pub fn set_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        self.scheduler.set_weight(now, client, weight);
        self.measurements.set_weight(client, weight);
    }

    /// Returns the scheduler, so that another policy can take over. The takeover itself is not
    /// measured.
    pub fn scheduler_mut(&mut self) -> &mut Scheduler<S, Q, A> {
        &mut self.scheduler
    }

    /// Replaces the scheduler, now with cores of this topology: see [`Scheduler::replace`]. Removed
    /// cores keep their figures.
    ///
    /// # Errors
    /// As [`Scheduler::replace`].
    ///
    /// # Panics
    /// If the topology has another number of cores.
    pub fn replace(
        &mut self,
        now: Time,
        fresh: Scheduler<S, Q, A>,
        topology: Option<&Topology>,
    ) -> Result<Scheduler<S, Q, A>, BuildError> {
        let cores = fresh.cores();
        assert!(topology.is_none_or(|topology| topology.cores() == cores), "a topology of other cores");
        let before = self.scheduler.replace(now, fresh)?;
        let costs = self.measurements.offered_by();
        self.estimates_are_costs = costs.is_some_and(|costs| self.scheduler.estimates_by(costs));
        self.measurements.add_cores(cores);
        self.measurements.change_topology(topology);
        Ok(before)
    }

    /// Ends a flow; its id may be used again.
    pub fn on_flow_end(&mut self, now: Time, flow: FlowId) {
        self.scheduler.on_flow_end(now, flow);
        self.measurements.on_flow_end(flow);
    }

    /// Ends a client, which is idle; its id may be used again.
    pub fn on_client_end(&mut self, now: Time, client: ClientId) {
        self.scheduler.on_client_end(now, client);
        self.measurements.on_client_end(client);
    }

    /// Packets of this flow since it began.
    pub fn packets_of(&self, flow: FlowId) -> FlowPackets {
        FlowPackets { left: self.measurements.departures(flow), split: self.scheduler.split_packets(flow) }
    }

    /// Converts the types of the policies: [`Scheduler::retype`].
    pub fn retype<S2, Q2, A2>(
        self,
        steer: impl FnOnce(S) -> S2,
        share: impl FnMut(Q) -> Q2,
        allocate: impl FnOnce(A) -> A2,
    ) -> Measured<S2, Q2, A2> {
        let Self { scheduler, measurements, observer, estimates_are_costs } = self;
        Measured { scheduler: scheduler.retype(steer, share, allocate), measurements, observer, estimates_are_costs }
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &Scheduler<S, Q, A> {
        &self.scheduler
    }

    /// Returns the account of all packets so far.
    pub fn account(&self) -> &Account {
        self.scheduler.account()
    }

    /// Returns the counts so far: [`Measurements::tally`].
    pub fn tally(&self) -> Tally {
        self.measurements.tally()
    }

    /// Returns the measurements, to be combined with those of other dispatchers:
    /// [`Measurements::summary_of`].
    pub fn measurements(&self) -> &Measurements {
        &self.measurements
    }

    /// Everything measured, once the run is over.
    pub fn summary(&self) -> Summary {
        self.measurements.summary(self.scheduler.account())
    }
}
