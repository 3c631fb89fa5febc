//! The writer: takes the forwarded frames of the dispatchers in turn, and passes them to the sink.

use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use humpyard_core::frame::Frame;
use humpyard_core::measure::LostOutside;
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;
use humpyard_traffic::sink::Sink;
use rtrb::{Consumer, Producer, RingBuffer};

use super::common::Common;
use crate::RunError;
use crate::loss::{self, WarmUp};
use crate::placement::Seat;
use crate::wait::{Doorbell, Next, Patience, RING, SLEEP_MAX};
use crate::watch::{Snapshot, Watched};

/// Most frames that go into or out of a ring at a time.
const AT_A_TIME: usize = 32;

/// A dispatcher's end of the ring by which frames go to the writer.
struct Outlet {
    frames: Producer<Frame>,
    spare: Consumer<Frame>,
    /// Frames that are not in the ring yet.
    given: Vec<Frame>,
    /// Set when no more frames will come.
    ended: Arc<AtomicBool>,
    writer: Arc<Doorbell>,
    packets: u64,
}

impl Outlet {
    /// Puts the given frames into the ring, and waits for room: the writer always empties it,
    /// unless it has ended.
    fn pass_on(&mut self) {
        while !self.given.is_empty() {
            let room = self.frames.slots().min(self.given.len());
            if room == 0 {
                if self.frames.is_abandoned() {
                    return self.given.clear();
                }
                thread::yield_now();
            } else if let Ok(places) = self.frames.write_chunk_uninit(room) {
                places.fill_from_iter(self.given.drain(..room));
                self.writer.ring();
            }
        }
    }
}

impl Sink for Outlet {
    fn write(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        let mut copy = frame.clone();
        self.take(&mut copy)
    }

    fn take(&mut self, frame: &mut Frame) -> Result<(), TrafficError> {
        self.packets += 1;
        self.given.push(mem::replace(frame, self.spare.pop().unwrap_or_default()));
        if self.given.len() == AT_A_TIME {
            self.pass_on();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TrafficError> {
        self.send()
    }

    fn send(&mut self) -> Result<(), TrafficError> {
        self.pass_on();
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<u64, TrafficError> {
        self.pass_on();
        Ok(self.packets)
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.writer.ring();
    }
}

/// The writer's end.
struct Lane {
    frames: Consumer<Frame>,
    spare: Producer<Frame>,
    ended: Arc<AtomicBool>,
    written: u64,
}

/// A ring for frames to a writer that sleeps on this doorbell.
fn lane(writer: &Arc<Doorbell>) -> (Lane, Box<dyn Sink + Send>) {
    let (given, frames) = RingBuffer::new(RING);
    let (spare, returned) = RingBuffer::new(RING);
    let ended = Arc::new(AtomicBool::new(false));
    let outlet = Outlet {
        frames: given,
        spare: returned,
        given: Vec::with_capacity(AT_A_TIME),
        ended: Arc::clone(&ended),
        writer: Arc::clone(writer),
        packets: 0,
    };
    (Lane { frames, spare, ended, written: 0 }, Box::new(outlet))
}

/// Everything the writer holds.
pub(super) struct Writer<'a> {
    sink: Box<dyn Sink + Send>,
    lanes: Vec<Lane>,
    bell: Arc<Doorbell>,
    common: &'a Common,
    watched: Option<Watched>,
    failed: Option<TrafficError>,
    warm_up: WarmUp,
}

/// The results of the writer.
pub(super) struct HasWritten {
    pub(super) sink: Box<dyn Sink + Send>,
    /// Frames of each dispatcher that the sink took.
    pub(super) written: Vec<u64>,
    /// The error after which the sink took no more.
    pub(super) failed: Option<TrafficError>,
    pub(super) warm_up: WarmUp,
}

impl<'a> Writer<'a> {
    /// Returns a writer for `dispatchers` dispatchers, and the outlet of each.
    pub(super) fn new(
        sink: Box<dyn Sink + Send>,
        dispatchers: usize,
        common: &'a Common,
    ) -> Result<(Self, Vec<Box<dyn Sink + Send>>), RunError> {
        let bell = Arc::new(Doorbell::new().map_err(RunError::Doorbell)?);
        let (lanes, outlets) = (0..dispatchers).map(|_| lane(&bell)).unzip();
        let warm_up = WarmUp::new(Time::ZERO);
        Ok((Self { sink, lanes, bell, common, watched: None, failed: None, warm_up }, outlets))
    }

    /// Sets the warm-up, whose packets are not measured.
    pub(super) fn with_warm_up(self, time: Time) -> Self {
        Self { warm_up: WarmUp::new(time), ..self }
    }

    /// Sets the half that answers observers with the frames sent by the interfaces.
    pub(super) fn watched(self, watched: Option<Watched>) -> Self {
        watched.as_ref().inspect(|watched| watched.begin(&self.bell));
        Self { watched, ..self }
    }

    /// Writes until every dispatcher is done. When the sink fails the run is to end, and the
    /// remaining frames are not written.
    pub(super) fn write(mut self, seat: Seat) -> HasWritten {
        let _seated = seat.take();
        let mut patience = Patience::new(seat.shared);
        loop {
            // Read in this order, so that frames from before the end are seen.
            let ended = self.has_ended();
            let written = (0..self.lanes.len()).filter(|&lane| self.write_some(lane)).count();
            self.do_unless_failed(|sink| sink.send());
            if self.warm_up.lasts() && self.lanes.iter().any(|lane| lane.written > 0) {
                self.warm_up.on_time(self.common.stopwatch.read(), || loss::sent(&self.sink.sent()));
            }
            self.answer();
            if written > 0 {
                patience.reset();
            } else if ended {
                break;
            } else if patience.wait() == Next::Sleep {
                self.do_unless_failed(|sink| sink.flush());
                let ready = || self.lanes.iter().any(|lane| !lane.frames.is_empty()) || self.has_ended();
                self.bell.sleep(SLEEP_MAX, &[], || ready() || self.is_asked());
            }
        }
        self.tell();
        let written = self.lanes.iter().map(|lane| lane.written).collect();
        HasWritten { sink: self.sink, written, failed: self.failed, warm_up: self.warm_up }
    }

    fn has_ended(&self) -> bool {
        self.lanes.iter().all(|lane| lane.ended.load(Ordering::Acquire))
    }

    /// Writes some frames of a dispatcher; whether there were any.
    fn write_some(&mut self, lane: usize) -> bool {
        let waiting = self.lanes[lane].frames.slots().min(AT_A_TIME);
        for _ in 0..waiting {
            let Ok(frame) = self.lanes[lane].frames.pop() else { break };
            self.do_unless_failed(|sink| sink.write(&frame));
            let lane = &mut self.lanes[lane];
            lane.written += u64::from(self.failed.is_none());
            // If there is no room, this buffer is surplus.
            let _ = lane.spare.push(frame);
        }
        waiting > 0
    }

    fn do_unless_failed(&mut self, act: impl FnOnce(&mut (dyn Sink + Send)) -> Result<(), TrafficError>) {
        if self.failed.is_none()
            && let Err(error) = act(self.sink.as_mut())
        {
            self.failed = Some(error);
            self.common.end();
        }
    }

    fn is_asked(&self) -> bool {
        self.watched.as_ref().is_some_and(Watched::is_asked)
    }

    fn answer(&mut self) {
        if self.is_asked() {
            self.tell();
        }
    }

    /// Answers an observer with the frames sent by the interfaces.
    #[cold]
    fn tell(&mut self) {
        if let Some(watched) = &mut self.watched {
            let sent = self.sink.sent();
            let lost = LostOutside { before: 0, behind: self.warm_up.lost(loss::sent(&sent)) };
            watched.answer(Box::new(Snapshot { sent, lost, ..Snapshot::default() }));
        }
    }
}

/// A sink that several threads write to, rarely; its creator finishes it.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Box<dyn Sink + Send>>>);

impl Shared {
    pub(super) fn new(sink: Box<dyn Sink + Send>) -> Self {
        Self(Arc::new(Mutex::new(sink)))
    }

    /// Returns the sink. `None`: another thread still uses it.
    pub(super) fn into_inner(self) -> Option<Box<dyn Sink + Send>> {
        Some(Arc::into_inner(self.0)?.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sink for Shared {
    fn write(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(frame)
    }

    fn flush(&mut self) -> Result<(), TrafficError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }

    fn finish(self: Box<Self>) -> Result<u64, TrafficError> {
        Ok(0)
    }
}
