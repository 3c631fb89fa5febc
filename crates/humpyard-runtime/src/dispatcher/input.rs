//! Input: frames are read and classified, and arrive at the mechanism.

use core::mem;
use core::sync::atomic::Ordering;
use std::time::Instant;

use humpyard_core::frame::Frame;
use humpyard_core::id::{ClientId, FlowId};
use humpyard_core::mechanism::Arrival;
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::{Time, Weight};
use humpyard_traffic::source::Polled;

use super::burst::Read;
use super::{BATCH, Dispatcher, PROGRESS_EVERY, ns};
use crate::live::Overload;
use crate::outcome::RunError;
use crate::wait::{Next, SLEEP_MAX};

impl<S: Steer, Q: Share, A: Allocate> Dispatcher<'_, S, Q, A> {
    /// Takes in the frames that have arrived: at most a batch; in virtual time, all frames of an
    /// instant.
    pub(super) fn take_in<const PLAIN: bool>(&mut self) -> Result<bool, RunError> {
        let now = self.now.read();
        let mut any = false;
        loop {
            if self.is_over(now) {
                self.end_reading()?;
            }
            let most = self.room();
            let taken = self.read_burst(now, most)?;
            let mut burst = mem::take(&mut self.burst);
            burst.digest(&self.live.classifier, taken);
            if let Some(watched) = &mut self.live.watched {
                let numbers = self.arrivals + 1..;
                burst
                    .first(taken)
                    .zip(numbers)
                    .for_each(|((_, read), number)| watched.on_arrival(number, &read.headers.key));
            }
            for (frame, read) in burst.first(taken) {
                self.arrive::<PLAIN>(now, frame, read)?;
                self.renew(frame);
            }
            self.burst = burst;
            any |= taken > 0;
            if (self.arrivals - taken as u64) / PROGRESS_EVERY != self.arrivals / PROGRESS_EVERY {
                self.report_progress()?;
            }
            if most == 0 || taken < most || !self.now.is_virtual() {
                return Ok(any);
            }
        }
    }

    /// Reads at most `most` frames that have arrived. Returns their number.
    fn read_burst(&mut self, now: Time, most: usize) -> Result<usize, RunError> {
        let mut read = 0;
        if most == 0 {
            return Ok(read);
        }
        self.live.input.look_at_calendar(now);
        if self.live.input.gives_arrived() && !self.now.is_virtual() {
            return Ok(self.read_arrived(now, most));
        }
        if self.burst.take_early() {
            read = self.admit(now, read)?;
            if self.burst.next_arrival().is_some() {
                return Ok(read);
            }
        }
        while read < most {
            if !self.read(now, read)? {
                break;
            }
            read = self.admit(now, read)?;
            if self.burst.next_arrival().is_some() {
                break;
            }
        }
        Ok(read)
    }

    /// Reads at most `most` frames of an input that returns only frames that have arrived. Returns
    /// their number.
    fn read_arrived(&mut self, now: Time, most: usize) -> usize {
        if !self.reading {
            return 0;
        }
        let (read, found) = self.live.input.poll_burst(self.burst.frames(most));
        match found {
            Ok(Polled::Frame | Polled::NotYet) => {}
            Ok(Polled::End) => self.reading = false,
            Err(damage) => {
                self.damage = Some(damage);
                self.reading = false;
            }
        }
        let arrival = self.live.input.arrivals(now, self.begin);
        let numbers = self.arrivals + 1..;
        let earliest = self.burst.first(read).zip(numbers).fold(now, |earliest, ((frame, read), number)| {
            (read.arrival, read.number) = (arrival(frame.time), number);
            earliest.min(read.arrival)
        });
        self.overdue_max = self.overdue_max.max(now.since(earliest));
        read
    }

    /// Counts the frame at this place as arrived, if it is due. Returns the number of arrived
    /// frames.
    #[inline]
    fn admit(&mut self, now: Time, place: usize) -> Result<usize, RunError> {
        let arrival = self.burst.at(place).1.arrival;
        if arrival <= now {
            self.overdue_max = self.overdue_max.max(now.since(arrival));
            return Ok(place + 1);
        }
        if self.over {
            self.skip(place)?;
        } else {
            self.burst.keep(place);
        }
        Ok(place)
    }

    /// Stops reading and skips the frame that is not due yet. Frames that a reader has dealt out are still taken.
    fn end_reading(&mut self) -> Result<(), RunError> {
        self.over = true;
        self.reading &= self.live.input.is_dealt();
        if self.burst.take_early() { self.skip(0) } else { Ok(()) }
    }

    /// A frame was read that does not arrive before the end.
    fn skip(&mut self, place: usize) -> Result<(), RunError> {
        self.skipped += 1;
        Ok(self.live.sink.discard(self.burst.at(place).0)?)
    }

    /// Whether the next frame must wait until there is room.
    pub(super) fn must_wait(&self) -> bool {
        self.room() == 0
    }

    /// Frames that may be taken in now, at most a batch.
    fn room(&self) -> usize {
        let room = match self.live.overload {
            Overload::Wait => self.live.measured.scheduler().room().min(self.room_at_link()),
            Overload::Drop => self.room_for_port().unwrap_or(u64::MAX),
        };
        room.min(BATCH as u64) as usize
    }

    /// Returns the number of frames that may be taken from a port. Held frames and frames waiting
    /// at the port together then stay within the limit. Beyond it the port drops arriving frames at
    /// no cost; reading and dropping a frame costs nearly as much as forwarding it. `None`: the
    /// input is no port, or an arriving frame may push out another and so must be read.
    fn room_for_port(&self) -> Option<u64> {
        if !self.live.leaves_to_port() {
            return None;
        }
        let waiting = self.live.input.waiting()?.min(self.live.held_by_port());
        Some(self.live.measured.scheduler().room().saturating_sub(waiting))
    }

    /// Reads the next frame into this place. Returns false if there is none now, or no more at all.
    #[inline]
    fn read(&mut self, now: Time, place: usize) -> Result<bool, RunError> {
        while self.reading {
            let (frame, read) = self.burst.at(place);
            match self.live.input.poll(frame) {
                Ok(Polled::Frame) => {
                    read.arrival = self.live.input.arrival(now, self.begin, frame.time);
                    read.number = self.live.input.number().unwrap_or(self.arrivals + place as u64 + 1);
                    return Ok(true);
                }
                Ok(Polled::NotYet) if self.now.is_virtual() => {
                    // Virtual time cannot advance until the next frame is known.
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
        Ok(false)
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

    /// Ends a flow or a client.
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

    /// Changes the weight of a client at the link, if there is one.
    pub(super) fn set_link_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        if let Some(link) = &mut self.live.link {
            link.set_weight(now, client, weight);
        }
    }

    /// Classifies a packet of an unknown flow: the flow begins, and another may end to make room.
    #[inline(never)]
    fn begin_flow(&mut self, now: Time, frame: &Frame, read: &Read) -> Result<Packet, RunError> {
        let classified = self.live.classifier.classify_new(&read.headers, &read.digest, frame.wire_length)?;
        if classified.ended_flow.is_some() || classified.ended_client.is_some() {
            self.end(now, classified.ended_flow, classified.ended_client);
        }
        if let Some(weight) = classified.weight {
            self.live.measured.set_weight(now, classified.packet.client, weight);
        }
        if let Some(weight) = classified.link_weight {
            self.set_link_weight(now, classified.packet.client, weight);
        }
        Ok(classified.packet)
    }

    /// Makes a frame that has gone as good as new, for the next to be read.
    #[inline]
    fn renew(&mut self, frame: &mut Frame) {
        if frame.data.capacity() == 0
            && let Some(spare) = self.spare.pop()
        {
            *frame = spare;
        }
        (frame.port, frame.answer) = (0, false);
        (frame.queued, frame.mark) = (None, None);
    }

    /// Lets a frame arrive.
    #[inline]
    fn arrive<const PLAIN: bool>(&mut self, now: Time, frame: &mut Frame, read: &Read) -> Result<(), RunError> {
        while let Some(expired) = self.live.classifier.next_expired(frame.time) {
            self.end(now, Some(expired.flow), expired.client);
        }
        let known = self.live.classifier.classify_known(&read.headers, &read.digest, frame.wire_length);
        let mut packet = if let Some((packet, fwmark)) = known {
            if fwmark.is_some() {
                frame.mark = fwmark;
            }
            packet
        } else {
            self.begin_flow(now, frame, read)?
        };
        packet.arrival = read.arrival;
        if !PLAIN {
            packet.estimate = self.crew.work(&packet).unwrap_or(0);
        }
        let timed = self.is_timed().then(Instant::now);
        let answer = self.live.measured.on_arrival_as::<PLAIN>(now, &packet);
        if let Some(started) = timed {
            self.decision.record(started.elapsed().as_nanos() as u64);
        }
        self.arrivals += 1;
        if self.live.measured.may_follow::<PLAIN>() {
            self.follow_up(now)?;
        }
        match answer {
            Arrival::Queued(slot) => {
                let held = &mut self.held[slot];
                held.number = read.number;
                mem::swap(&mut held.frame, frame);
            }
            Arrival::Dropped(_) => {
                self.live.classifier.release(&packet);
                self.live.sink.discard(frame)?;
            }
        }
        Ok(())
    }

    /// Reports the progress of the run, and checks the workers. If packets come and go all the
    /// time, the dispatcher never waits, and only this check notices that a worker has ended.
    #[inline(never)]
    fn report_progress(&mut self) -> Result<(), RunError> {
        self.crew.check()?;
        (self.live.progress)(self.arrivals, self.live.input.progress());
        self.tell_load();
        Ok(())
    }
}
