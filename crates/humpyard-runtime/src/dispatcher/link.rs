//! The link behind the cores: frames wait there until it has sent them.

use core::mem;

use humpyard_core::frame::Frame;
use humpyard_core::mechanism::{Arrival, DropReason};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::Time;

use super::Dispatcher;
use crate::outcome::RunError;

impl<S: Steer, Q: Share, A: Allocate> Dispatcher<'_, S, Q, A> {
    /// A packet that was held goes out, or comes to the link.
    pub(super) fn leave(&mut self, now: Time, packet: &Packet, frame: Frame) -> Result<(), RunError> {
        let Some(link) = &mut self.live.link else {
            self.live.classifier.release(packet);
            return self.send(frame);
        };
        // By a virtual clock the link, which has lengths from a table as the cores have times, makes of it what it will.
        let length = if self.now.is_virtual() { packet.length } else { frame.wire_length };
        let packet = Packet { length, ..*packet };
        let arrival = link.on_processed(now, &packet, self.live.measured.scheduler_mut());
        while let Some(dropped) = self.live.link.as_mut().and_then(|link| link.next_dropped(now)) {
            let frame = mem::take(&mut self.on_link[dropped.slot]);
            self.drop_at_link(dropped.packet.arrival, &dropped.packet, frame, dropped.reason)?;
        }
        match arrival {
            Arrival::Queued(slot) => {
                self.on_link[slot] = frame;
                Ok(())
            }
            Arrival::Dropped(reason) => self.drop_at_link(now, &packet, frame, reason),
        }
    }

    /// What a service made of this packet goes out, or comes to the link as a packet of the same client. By a virtual clock it is in
    /// the lengths that the link has from its table, and goes out by itself.
    pub(super) fn leave_made(&mut self, now: Time, packet: &Packet, frame: Frame) -> Result<(), RunError> {
        if self.live.link.is_none() || self.now.is_virtual() {
            return self.send(frame);
        }
        self.live.classifier.hold(packet);
        self.leave(now, packet, frame)
    }

    /// A packet that came to the link at this time is dropped there.
    fn drop_at_link(&mut self, came: Time, packet: &Packet, frame: Frame, reason: DropReason) -> Result<(), RunError> {
        self.live.classifier.release(packet);
        self.live.measured.on_loss_behind(packet, came);
        self.out.on_drop_at_link(reason);
        self.discard(frame)
    }

    /// What has left the link by now; whether anything has. By a clock that did not wait, others have begun since.
    pub(super) fn finish_sending(&mut self, now: Time) -> Result<bool, RunError> {
        if self.live.link.is_none() {
            return Ok(false);
        }
        let mut any = false;
        while let Some((slot, packet)) = self.live.link.as_mut().and_then(|link| link.next_sent(now)) {
            self.live.classifier.release(&packet);
            let frame = mem::take(&mut self.on_link[slot]);
            self.send(frame)?;
            if !self.now.is_virtual() {
                self.feed_link(now);
            }
            any = true;
        }
        Ok(any)
    }

    /// Has the link send the next packet, if it can.
    pub(super) fn feed_link(&mut self, now: Time) {
        if let Some(link) = &mut self.live.link {
            link.send(now, self.live.measured.scheduler_mut());
        }
    }

    /// Packets that may come in before as many are on their way, those at the link among them, as may be held.
    pub(super) fn room_at_link(&self) -> u64 {
        if self.live.link.is_none() {
            return u64::MAX;
        }
        (self.live.packets as u64).saturating_sub(self.live.measured.account().held + self.out.held)
    }
}
