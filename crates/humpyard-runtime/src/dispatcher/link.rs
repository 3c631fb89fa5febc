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
    /// Sends a packet that was held, or passes it to the link.
    pub(super) fn leave(&mut self, now: Time, packet: &Packet, frame: Frame) -> Result<(), RunError> {
        let Some(link) = &mut self.live.link else {
            self.live.classifier.release(packet);
            return self.send(frame);
        };
        // On a virtual clock the link computes the length itself, from a table, as the cores do
        // with times.
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

    /// Sends what a service made of this packet, or passes it to the link as a packet of the same
    /// client. On a virtual clock the link's table already includes its length, so it is sent
    /// directly.
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

    /// Sends the packets that have left the link by now. Returns whether there are any. On a real
    /// clock, later packets may have begun since.
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

    /// Returns the number of packets that may come in before the run, including the link, holds its
    /// maximum.
    pub(super) fn room_at_link(&self) -> u64 {
        if self.live.link.is_none() {
            return u64::MAX;
        }
        (self.live.packets as u64).saturating_sub(self.live.measured.account().held + self.out.held)
    }
}
