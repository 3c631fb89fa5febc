//! What comes back from cores, and goes out, or ends.

use core::mem;

use humpyard_core::cost::Span;
use humpyard_core::frame::Frame;
use humpyard_core::id::{CoreId, Id, Slot};
use humpyard_core::mechanism::{Completed, Effect};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::Time;
use humpyard_services::{DropReason, Mark, Verdict};

use super::{Dispatcher, WaitingOut};
use crate::outcome::{RunError, ServicePanic};
use crate::worker::{Done, Panicked};

impl<S: Steer, Q: Share, A: Allocate> Dispatcher<'_, S, Q, A> {
    /// Everything that cores have done by now: packets and switches.
    pub(super) fn take_back(&mut self, now: Time) -> Result<bool, RunError> {
        let mut any = false;
        while let Some((core, done)) = self.crew.take(now) {
            self.settle(now, core, done)?;
            any = true;
        }
        Ok(any)
    }

    fn settle(&mut self, now: Time, core: CoreId, done: Done) -> Result<(), RunError> {
        match done {
            Done::Served { slot, frame, verdict, mark, span } => {
                let completed = self.on_served(now, core, slot, frame, verdict, mark, span)?;
                if !self.made[core].is_empty() {
                    self.send_made(now, core, &completed)?;
                }
            }
            Done::Panicked(panicked) => {
                let Panicked { slot, frame, span, message } = *panicked;
                let number = self.held[slot].number;
                let completed = self.live.measured.on_end(now, core, slot, span.finished, span.busy);
                self.live.classifier.release(&completed.packet);
                let service = completed.packet.service;
                self.on_panic(ServicePanic { packet: number, service, message }, &frame)?;
                self.discard(frame)?;
            }
            Done::Generated(frame) => {
                self.made[core].push(frame);
            }
            Done::Switched => self.live.measured.on_switched(now, core),
        }
        self.follow_up(now)
    }

    /// A service has found out something about the flow of its packet: what comes of it holds from now on.
    fn on_mark(&mut self, now: Time, packet: &Packet, mark: Mark) {
        if let Some(weight) = self.live.classifier.mark(packet, mark.service, mark.weight) {
            self.live.measured.set_weight(now, packet.client, weight);
            self.set_link_weight(now, packet.client, weight);
        }
        if let Some(fwmark) = mark.fwmark {
            self.live.classifier.set_fwmark(packet, fwmark);
        }
    }

    /// A packet was served: it goes on, out, to wait for earlier ones of its flow, or it ends here. Returns which.
    #[expect(clippy::too_many_arguments, reason = "they are what a worker gives back")]
    fn on_served(
        &mut self,
        now: Time,
        core: CoreId,
        slot: Slot,
        mut frame: Frame,
        verdict: Verdict,
        mark: Option<Mark>,
        span: Span,
    ) -> Result<Completed, RunError> {
        let measured = &mut self.live.measured;
        if verdict != Verdict::Forward {
            let completed = measured.on_end(now, core, slot, span.finished, span.busy);
            self.live.classifier.release(&completed.packet);
            self.out.on_verdict(verdict);
            self.discard(frame)?;
            return Ok(completed);
        }
        let completed = measured.on_completion(now, core, slot, span.finished, span.busy);
        if let Some(mark) = mark {
            frame.mark = mark.fwmark.or(frame.mark);
            self.on_mark(now, &completed.packet, mark);
        }
        if completed.onward.is_some() {
            self.held[slot].frame = frame;
            return Ok(completed);
        }
        self.out.on_verdict(verdict);
        if let Some(place) = completed.exit {
            if self.waiting_out.len() <= place.index() {
                self.waiting_out.resize_with(place.index() + 1, WaitingOut::default);
            }
            self.waiting_out[place.index()].frame = frame;
        } else {
            self.leave(now, &completed.packet, frame)?;
        }
        Ok(completed)
    }

    /// Sends what services made of this packet, which was just handed over, or keeps it behind the packet if that waits at the exit.
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

    /// A frame that was held goes out.
    pub(super) fn send(&mut self, mut frame: Frame) -> Result<(), RunError> {
        self.out.on_exit();
        self.live.sink.take(&mut frame)?;
        self.spare.push(frame);
        Ok(())
    }

    /// A frame that came in does not go out.
    pub(super) fn discard(&mut self, frame: Frame) -> Result<(), RunError> {
        self.live.sink.discard(&frame)?;
        self.spare.push(frame);
        Ok(())
    }

    /// What follows from the last call of the mechanism: packets that are gone, packets that leave, switches that begin.
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
                let frame = mem::take(&mut self.held[dropped.slot].frame);
                self.discard(frame)?;
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

    /// Counts a packet at which its service panicked, and puts its frame aside.
    fn on_panic(&mut self, panic: ServicePanic, frame: &Frame) -> Result<(), RunError> {
        self.out.on_verdict(Verdict::Drop(DropReason::ServicePanicked));
        if let Some(quarantine) = &mut self.live.quarantine {
            quarantine.write(frame)?;
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
