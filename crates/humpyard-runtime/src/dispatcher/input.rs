//! What comes in: frames are read, classified, and arrive at the mechanism.

use core::sync::atomic::Ordering;
use std::time::Instant;

use humpyard_core::frame::Frame;
use humpyard_core::id::{ClientId, FlowId};
use humpyard_core::mechanism::Arrival;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::{Time, Weight};
use humpyard_traffic::source::Polled;

use super::{BATCH, Dispatcher, Held, PROGRESS_EVERY, TIMED_EVERY, ns};
use crate::live::Overload;
use crate::outcome::RunError;
use crate::wait::{Next, SLEEP_MAX};

impl<S: Steer, Q: Share, A: Allocate> Dispatcher<'_, S, Q, A> {
    /// The frames that have arrived: at most a batch, but in virtual time all of an instant.
    pub(super) fn take_in(&mut self) -> Result<bool, RunError> {
        let now = self.now.read();
        let mut any = false;
        loop {
            let taken = self.take_batch(now)?;
            any |= taken > 0;
            if taken < BATCH || !self.now.is_virtual() {
                return Ok(any);
            }
        }
    }

    fn take_batch(&mut self, now: Time) -> Result<usize, RunError> {
        if self.is_over(now) {
            self.end_reading()?;
        }
        self.live.input.look_at_calendar(now);
        let most = self.room_for_port().map_or(BATCH, |room| BATCH.min(room as usize));
        for taken in 0..most {
            if self.live.overload == Overload::Wait && self.must_wait() {
                return Ok(taken);
            }
            let next = if self.next.is_some() { self.next.take() } else { self.read(now)? };
            let Some((arrival, frame)) = next else { return Ok(taken) };
            if arrival > now {
                if self.over {
                    self.skip(frame)?;
                    continue;
                }
                self.next = Some((arrival, frame));
                return Ok(taken);
            }
            self.overdue_max = self.overdue_max.max(now.since(arrival));
            self.arrive(now, arrival, frame)?;
        }
        Ok(most)
    }

    /// Nothing more is read, and what has not arrived does not. What was dealt out is taken.
    fn end_reading(&mut self) -> Result<(), RunError> {
        self.over = true;
        self.reading &= self.live.input.is_dealt();
        match self.next.take() {
            Some((_, frame)) => self.skip(frame),
            None => Ok(()),
        }
    }

    /// A frame was read that does not arrive before the end.
    fn skip(&mut self, frame: Frame) -> Result<(), RunError> {
        self.skipped += 1;
        self.discard(frame)
    }

    /// Whether the next frame has to wait until there is room.
    pub(super) fn must_wait(&self) -> bool {
        match self.live.overload {
            Overload::Wait => self.live.measured.scheduler().is_full() || self.link_must_wait(),
            Overload::Drop => self.room_for_port() == Some(0),
        }
    }

    /// Frames that may be taken from a port, so that what is held and what waits there is as much
    /// as may be held, at most: beyond that the port drops what comes, which costs nothing, where
    /// to read and drop a frame costs nearly as much as to forward it. `None` where the input is no
    /// port, or a frame that comes may push another out and so has to be looked into.
    fn room_for_port(&self) -> Option<u64> {
        if !self.live.leaves_to_port() {
            return None;
        }
        let waiting = self.live.input.waiting()?.min(self.live.held_by_port());
        Some(self.live.measured.scheduler().room().saturating_sub(waiting))
    }

    /// Reads the next frame and gives it with its arrival; none when there is none now, or no more.
    fn read(&mut self, now: Time) -> Result<Option<(Time, Frame)>, RunError> {
        let mut frame = self.spare.pop().unwrap_or_default();
        (frame.port, frame.answer) = (0, false);
        (frame.queued, frame.mark) = (None, None);
        while self.reading {
            match self.live.input.poll(&mut frame) {
                Ok(Polled::Frame) => {
                    let arrival = self.live.input.arrival(now, self.begin, frame.time);
                    return Ok(Some((arrival, frame)));
                }
                Ok(Polled::NotYet) if self.now.is_virtual() => {
                    // Time cannot go on until it is known what comes next.
                    self.wait_for_source()?;
                    self.reading = !self.is_over(now);
                }
                Ok(Polled::NotYet) => break,
                Ok(Polled::End) => self.reading = false,
                Err(damage) => {
                    self.damage = Some(damage);
                    self.reading = false;
                }
            }
        }
        self.spare.push(frame);
        Ok(None)
    }

    fn wait_for_source(&mut self) -> Result<(), RunError> {
        if self.patience.wait() == Next::Sleep {
            self.flush()?;
            self.doorbell.sleep(SLEEP_MAX, &self.live.input.descriptors(), || false);
        }
        Ok(())
    }

    /// Whether the run is to end before the source does.
    fn is_over(&mut self, now: Time) -> bool {
        self.interrupted |= self.live.stop.load(Ordering::Relaxed);
        self.interrupted || self.live.longest.is_some_and(|longest| now.since(self.begin).as_ns() >= ns(longest))
    }

    /// A flow is over, or a client is gone.
    fn end(&mut self, now: Time, flow: Option<FlowId>, client: Option<ClientId>) {
        if let Some(flow) = flow {
            let packets = self.live.measured.packets_of(flow);
            self.heaviest.add(self.live.classifier.flows().last_ended(), packets);
            self.live.measured.on_flow_end(now, flow);
            if let Some(link) = &mut self.live.link {
                link.on_flow_end(now, flow);
            }
        }
        if let Some(client) = client {
            self.live.measured.on_client_end(now, client);
            if let Some(link) = &mut self.live.link {
                link.on_client_end(now, client);
            }
        }
    }

    /// A client has another weight at the link, if there is one.
    pub(super) fn set_link_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        if let Some(link) = &mut self.live.link {
            link.set_weight(now, client, weight);
        }
    }

    fn arrive(&mut self, now: Time, arrival: Time, mut frame: Frame) -> Result<(), RunError> {
        while let Some(expired) = self.live.classifier.next_expired(frame.time) {
            self.end(now, Some(expired.flow), expired.client);
        }
        let classified = self.live.classifier.classify(&frame)?;
        self.end(now, classified.ended_flow, classified.ended_client);
        if let Some(weight) = classified.weight {
            self.live.measured.set_weight(now, classified.packet.client, weight);
        }
        if let Some(weight) = classified.link_weight {
            self.set_link_weight(now, classified.packet.client, weight);
        }
        frame.mark = classified.fwmark;
        let mut packet = classified.packet;
        packet.arrival = arrival;
        packet.estimate = self.crew.work(&packet).unwrap_or(0);
        let timed = self.arrivals.is_multiple_of(TIMED_EVERY).then(Instant::now);
        let answer = self.live.measured.on_arrival(now, &packet);
        self.record(timed);
        self.arrivals += 1;
        if let Some(watched) = &mut self.live.watched {
            watched.on_arrival(self.arrivals, || self.live.classifier.flows().key(packet.flow));
        }
        self.follow_up(now)?;
        match answer {
            Arrival::Queued(slot) => {
                let number = self.live.input.number().unwrap_or(self.arrivals);
                self.held[slot] = Held { number, frame };
            }
            Arrival::Dropped(_) => {
                self.live.classifier.release(&packet);
                self.discard(frame)?;
            }
        }
        if self.arrivals.is_multiple_of(PROGRESS_EVERY) {
            // Where packets come and go all the time, nobody waits and notices that a worker is
            // gone.
            self.crew.check()?;
            (self.live.progress)(self.arrivals, self.live.input.progress());
            self.tell_load();
        }
        Ok(())
    }
}
