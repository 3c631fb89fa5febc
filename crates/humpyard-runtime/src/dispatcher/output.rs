//! Output: packets come back from cores, and leave or end.

use core::mem;

use humpyard_core::cost::Span;
use humpyard_core::frame::Frame;
use humpyard_core::id::{CoreId, FlowId, Id, Slot};
use humpyard_core::mechanism::{Completed, Dispatch, Effect};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::Time;
use humpyard_services::{DropReason, Mark, Verdict};

use super::{Dispatcher, WaitingOut};
use crate::outcome::{RunError, ServicePanic};
use crate::worker::{Done, GivenBack, Panicked, Served};

impl<S: Steer, Q: Share, A: Allocate> Dispatcher<'_, S, Q, A> {
    /// Takes everything that cores have done by now: packets and switches.
    pub(super) fn take_back<const PLAIN: bool>(&mut self, now: Time) -> Result<bool, RunError> {
        let mut any = false;
        let mut results = mem::take(&mut self.results);
        while let Some(core) = self.crew.take(now, &mut self.held, &mut results) {
            results.iter_mut().try_for_each(|done| self.settle::<PLAIN>(now, core, done))?;
            results.clear();
            any = true;
        }
        self.results = results;
        Ok(any)
    }

    /// Processes one result of a core.
    #[inline]
    fn settle<const PLAIN: bool>(&mut self, now: Time, core: CoreId, done: &mut Done) -> Result<(), RunError> {
        match done {
            Done::Served(served) => self.on_served::<PLAIN>(now, core, served),
            Done::GivenBack(given_back) => {
                self.on_given_back(now, core, given_back);
                Ok(())
            }
            Done::Panicked(panicked) => self.on_panicked::<PLAIN>(now, core, panicked),
            Done::Generated(frame) => {
                self.made[core].push(mem::take(frame));
                Ok(())
            }
            Done::Switched => {
                self.live.measured.on_switched(now, core);
                self.follow_up(now)
            }
        }
    }

    /// Puts a packet back that its core has not finished, or lets the core go on with it, as the policy says.
    #[cold]
    fn on_given_back(&mut self, now: Time, core: CoreId, given_back: &GivenBack) {
        let GivenBack { slot, span } = *given_back;
        let busy = mem::take(&mut self.kept[core]) + span.busy;
        if self.live.measured.yields(now, slot) {
            self.live.measured.on_preemption(now, core, slot, busy, busy);
            return;
        }
        self.kept[core] = busy;
        let dispatch = Dispatch { slot, packet: self.live.measured.packet(slot), cold: false, moved: None };
        self.crew.give(now, core, &dispatch, &mut self.held);
        self.given.insert(core);
    }

    /// Ends a packet at which its service panicked.
    #[cold]
    fn on_panicked<const PLAIN: bool>(
        &mut self,
        now: Time,
        core: CoreId,
        panicked: &mut Panicked,
    ) -> Result<(), RunError> {
        let (slot, span, message) = (panicked.slot, panicked.span, mem::take(&mut panicked.message));
        let number = self.held[slot].number;
        let completed = self.completed::<PLAIN>(now, core, slot, span, true);
        self.live.classifier.release(&completed.packet);
        let service = completed.packet.service;
        self.on_panic(ServicePanic { packet: number, service, message }, slot)?;
        self.discard_held(slot)?;
        self.follow_up(now)
    }

    /// Applies a service's finding about the flow of its packet, from now on.
    fn on_mark(&mut self, now: Time, packet: &Packet, mark: Mark) {
        if let Some(weight) = self.live.classifier.mark(packet, mark.service, mark.weight) {
            self.live.measured.set_weight(now, packet.client, weight);
            self.set_link_weight(now, packet.client, weight);
        }
        if let Some(fwmark) = mark.fwmark {
            self.live.classifier.set_fwmark(packet, fwmark);
        }
    }

    /// Processes a packet that was served: it goes to its next service, leaves, waits for earlier
    /// packets of its flow, or ends here.
    #[inline]
    fn on_served<const PLAIN: bool>(&mut self, now: Time, core: CoreId, served: &Served) -> Result<(), RunError> {
        let Served { slot, verdict, mark, span } = *served;
        let ends = verdict != Verdict::Forward;
        let is_simple = PLAIN && !ends && mark.is_none() && self.made[core].is_empty();
        let completed = if is_simple {
            let (done, packet) = self.live.measured.on_plain_completion(now, core, slot, span, false);
            let flow = packet.flow;
            if done.leaves() {
                self.out.on_verdict(verdict);
                self.go(slot, flow)?;
                return self.follow_up(now);
            }
            done.of(*self.live.measured.packet(slot))
        } else {
            self.completed::<PLAIN>(now, core, slot, span, ends)
        };
        if completed.onward.is_none() {
            self.out.on_verdict(verdict);
        }
        if ends {
            self.live.classifier.release(&completed.packet);
            self.discard_held(slot)?;
        } else {
            if let Some(mark) = mark {
                let frame = &mut self.held[slot].frame;
                frame.mark = mark.fwmark.or(frame.mark);
                self.on_mark(now, &completed.packet, mark);
            }
            if completed.onward.is_none() {
                self.depart(now, slot, &completed)?;
            }
        }
        if !self.made[core].is_empty() {
            self.send_made(now, core, &completed)?;
        }
        self.follow_up(now)
    }

    /// Reports to the mechanism that a packet was served, or `ends` here.
    fn completed<const PLAIN: bool>(
        &mut self,
        now: Time,
        core: CoreId,
        slot: Slot,
        span: Span,
        ends: bool,
    ) -> Completed {
        let measured = &mut self.live.measured;
        if PLAIN {
            let (done, packet) = measured.on_plain_completion(now, core, slot, span, ends);
            return done.of(*packet);
        }
        let finished = span.finished;
        let busy = mem::take(&mut self.kept[core]) + span.busy;
        if ends {
            measured.on_end(now, core, slot, finished, busy)
        } else {
            measured.on_completion(now, core, slot, finished, busy)
        }
    }

    /// Sends the packet of this flow from its slot.
    #[inline(always)]
    fn go(&mut self, slot: Slot, flow: FlowId) -> Result<(), RunError> {
        self.live.classifier.release_flow(flow);
        self.out.on_exit();
        Ok(self.live.sink.take(&mut self.held[slot].frame)?)
    }

    /// Processes a packet that has gone through all its services: it leaves, or waits at the exit.
    fn depart(&mut self, now: Time, slot: Slot, completed: &Completed) -> Result<(), RunError> {
        if completed.exit.is_none() && self.live.link.is_none() {
            return self.go(slot, completed.packet.flow);
        }
        let frame = mem::take(&mut self.held[slot].frame);
        let Some(place) = completed.exit else { return self.leave(now, &completed.packet, frame) };
        if self.waiting_out.len() <= place.index() {
            self.waiting_out.resize_with(place.index() + 1, WaitingOut::default);
        }
        self.waiting_out[place.index()].frame = frame;
        Ok(())
    }

    /// Sends the frames that services made of this packet, which was just handed over. If the
    /// packet waits at the exit, they wait with it.
    fn send_made(&mut self, now: Time, core: CoreId, completed: &Completed) -> Result<(), RunError> {
        self.made[core].iter().for_each(|_| self.out.on_generated());
        let mut made = mem::take(&mut self.made[core]);
        match completed.exit {
            Some(place) => mem::swap(&mut self.waiting_out[place.index()].made, &mut made),
            None => self.leave_all_made(now, &completed.packet, &mut made)?,
        }
        self.made[core] = made;
        Ok(())
    }

    fn leave_all_made(&mut self, now: Time, packet: &Packet, made: &mut Vec<Frame>) -> Result<(), RunError> {
        made.drain(..).try_for_each(|frame| self.leave_made(now, packet, frame))
    }

    /// Sends a frame that is not in its slot.
    pub(super) fn send(&mut self, mut frame: Frame) -> Result<(), RunError> {
        self.out.on_exit();
        self.live.sink.take(&mut frame)?;
        self.keep_buffer(frame);
        Ok(())
    }

    /// Discards a frame that is not in its slot.
    pub(super) fn discard(&mut self, frame: Frame) -> Result<(), RunError> {
        self.live.sink.discard(&frame)?;
        self.keep_buffer(frame);
        Ok(())
    }

    /// Discards the frame in this slot, whose packet ends here.
    fn discard_held(&mut self, slot: Slot) -> Result<(), RunError> {
        Ok(self.live.sink.discard(&self.held[slot].frame)?)
    }

    /// Keeps a buffer for a frame to come.
    fn keep_buffer(&mut self, frame: Frame) {
        if self.spare.len() < self.held.len() {
            self.spare.push(frame);
        }
    }

    /// Processes the effects of the last call of the mechanism: dropped packets, packets that
    /// leave, switches that begin.
    #[inline]
    pub(super) fn follow_up(&mut self, now: Time) -> Result<(), RunError> {
        while let Some(effect) = self.live.measured.next_effect(now) {
            self.on_effect(now, &effect)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn on_effect(&mut self, now: Time, effect: &Effect) -> Result<(), RunError> {
        match effect {
            Effect::Dropped(dropped) => {
                self.live.classifier.release(&dropped.packet);
                self.discard_held(dropped.slot)?;
            }
            Effect::Left(exit) => {
                let WaitingOut { frame, mut made } = mem::take(&mut self.waiting_out[exit.place.index()]);
                self.leave(now, &exit.packet, frame)?;
                self.leave_all_made(now, &exit.packet, &mut made)?;
                self.waiting_out[exit.place.index()].made = made;
            }
            Effect::Switch(switch) => self.crew.switch(switch.core, now + switch.cost),
        }
        Ok(())
    }

    /// Counts a packet at which its service panicked, and puts its frame into the quarantine.
    fn on_panic(&mut self, panic: ServicePanic, slot: Slot) -> Result<(), RunError> {
        self.out.on_verdict(Verdict::Drop(DropReason::ServicePanicked));
        if let Some(quarantine) = &mut self.live.quarantine {
            quarantine.write(&self.held[slot].frame)?;
        }
        if self.panic.as_ref().is_none_or(|known| panic.packet < known.packet) {
            self.panic = Some(panic);
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), RunError> {
        self.live.sink.flush()?;
        if let Some(quarantine) = &mut self.live.quarantine {
            quarantine.flush()?;
        }
        Ok(())
    }
}
