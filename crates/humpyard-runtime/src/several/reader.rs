//! The reader: takes frames from the source and deals them out to the dispatchers, each connection to one.

use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::measure::LostOutside;
use humpyard_core::unit::Time;
use humpyard_traffic::pace::{ClockJumps, Pacer};
use humpyard_traffic::source::{Polled, Source};
use humpyard_traffic::{Spread, TrafficError};
use rtrb::{Consumer, Producer, RingBuffer};

use super::{Common, RING};
use crate::RunError;
use crate::dispatcher::SLEEP_MAX;
use crate::loss::{self, WarmUp};
use crate::placement::Seat;
use crate::wait::{Doorbell, Next, Patience};
use crate::watch::{Snapshot, Watched};

/// Frames read, at most, before they are handed over: each time a dispatcher sees some costs both a cache line's way between
/// processors.
const ROUND: usize = 64;
/// A dispatcher gives buffers back so many at a time, and then tells that there is room.
const BACK: u64 = 32;

/// A frame on its way to a dispatcher.
#[derive(Debug)]
struct Dealt {
    /// When it arrives, since the start; none is when it is taken.
    due: Option<Time>,
    /// Its number in the input, from 1.
    number: u64,
    frame: Frame,
}

/// A dispatcher's end of the ring by which frames come.
pub(crate) struct Inlet {
    frames: Consumer<Dealt>,
    spare: Producer<Frame>,
    /// Set when no more frames will come.
    ended: Arc<AtomicBool>,
    reader: Arc<Doorbell>,
    due: Option<Time>,
    number: u64,
    taken: u64,
}

impl Inlet {
    #[inline]
    pub(crate) fn poll(&mut self, frame: &mut Frame) -> Polled {
        let Ok(dealt) = self.frames.pop() else { return self.none() };
        (self.due, self.number) = (dealt.due, dealt.number);
        let before = mem::replace(frame, dealt.frame);
        if before.data.capacity() > 0 {
            // A buffer that finds no room is one too many.
            let _ = self.spare.push(before);
        }
        self.taken += 1;
        if self.taken.is_multiple_of(BACK) {
            self.reader.ring();
        }
        Polled::Frame
    }

    #[cold]
    fn none(&self) -> Polled {
        // In this order: what came before the end is seen.
        let ended = self.ended.load(Ordering::Acquire);
        if ended && self.frames.is_empty() { Polled::End } else { Polled::NotYet }
    }

    pub(crate) const fn due(&self) -> Option<Time> {
        self.due
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ended.load(Ordering::Acquire) || !self.frames.is_empty()
    }
}

/// The reader's end.
struct Lane {
    frames: Producer<Dealt>,
    spare: Consumer<Frame>,
    /// Frames for this dispatcher that are not in the ring yet.
    dealt: Vec<Dealt>,
    /// Frames that went into the ring.
    count: u64,
    ended: Arc<AtomicBool>,
    dispatcher: Arc<Doorbell>,
}

impl Lane {
    /// Puts into the ring what has room; false if some has none.
    fn pass_on(&mut self) -> bool {
        if self.frames.is_abandoned() {
            // A dispatcher is gone before the end of its frames only where the run has failed.
            self.dealt.clear();
        }
        let room = self.frames.slots().min(self.dealt.len());
        if room > 0
            && let Ok(places) = self.frames.write_chunk_uninit(room)
        {
            places.fill_from_iter(self.dealt.drain(..room));
            self.count += room as u64;
            self.dispatcher.ring();
        }
        self.dealt.is_empty()
    }

    fn has_room(&self) -> bool {
        !self.dealt.is_empty() && (self.frames.slots() > 0 || self.frames.is_abandoned())
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.dispatcher.ring();
    }
}

/// A ring for frames to a dispatcher that sleeps on this doorbell.
fn lane(dispatcher: &Arc<Doorbell>, reader: &Arc<Doorbell>) -> (Lane, Inlet) {
    let (frames, taken) = RingBuffer::new(RING);
    let (returned, spare) = RingBuffer::new(RING);
    let ended = Arc::new(AtomicBool::new(false));
    let lane = Lane {
        frames,
        spare,
        dealt: Vec::with_capacity(ROUND),
        count: 0,
        ended: Arc::clone(&ended),
        dispatcher: Arc::clone(dispatcher),
    };
    let reader = Arc::clone(reader);
    (lane, Inlet { frames: taken, spare: returned, ended, reader, due: None, number: 0, taken: 0 })
}

/// Everything the reader holds.
pub(super) struct Reader<'a> {
    source: Box<dyn Source + Send>,
    pacer: Option<Pacer>,
    spread: Spread,
    lanes: Vec<Lane>,
    bell: Arc<Doorbell>,
    common: &'a Common,
    /// No frame is read that arrives later.
    longest: Option<Time>,
    watched: Option<Watched>,
    spare: Vec<Frame>,
    frames: u64,
    damage: Option<TrafficError>,
    warm_up: WarmUp,
}

/// What the reader leaves.
pub(super) struct HasRead {
    pub(super) source: Box<dyn Source + Send>,
    pub(super) jumps: ClockJumps,
    pub(super) damage: Option<TrafficError>,
    /// Frames that each dispatcher was given.
    pub(super) dealt: Vec<u64>,
    pub(super) warm_up: WarmUp,
}

impl<'a> Reader<'a> {
    /// A reader for dispatchers that sleep on these doorbells, and what each of them reads from.
    pub(super) fn new(
        source: Box<dyn Source + Send>,
        pacer: Option<Pacer>,
        spread: Spread,
        dispatchers: &[Arc<Doorbell>],
        common: &'a Common,
    ) -> Result<(Self, Vec<Inlet>), RunError> {
        let bell = Arc::new(Doorbell::new().map_err(RunError::Doorbell)?);
        let (lanes, inlets) = dispatchers.iter().map(|dispatcher| lane(dispatcher, &bell)).unzip();
        let reader = Self {
            source,
            pacer,
            spread,
            lanes,
            bell,
            common,
            longest: None,
            watched: None,
            spare: Vec::new(),
            frames: 0,
            damage: None,
            warm_up: WarmUp::new(Time::ZERO),
        };
        Ok((reader, inlets))
    }

    /// With an end to reading so long after the start.
    pub(super) fn until(self, longest: Option<Time>) -> Self {
        Self { longest, ..self }
    }

    /// With packets at the start that are not measured.
    pub(super) fn with_warm_up(self, time: Time) -> Self {
        Self { warm_up: WarmUp::new(time), ..self }
    }

    /// Watched: it tells what came by the interfaces.
    pub(super) fn watched(self, watched: Option<Watched>) -> Self {
        watched.as_ref().inspect(|watched| watched.begin(&self.bell));
        Self { watched, ..self }
    }

    /// Reads until the source is dry, or the run is to end.
    pub(super) fn read(mut self, seat: Seat) -> HasRead {
        let _seated = seat.take();
        self.common.begin();
        let mut patience = Patience::new(seat.shared);
        while !self.common.is_over() {
            let polled = self.round();
            let any = self.hand_over(&mut patience);
            if self.warm_up.lasts() && self.frames > 0 {
                // A look at a run is no reason to end it.
                let lost = || loss::received(&self.source.received().unwrap_or_default());
                self.warm_up.on_time(self.common.stopwatch.read(), lost);
            }
            self.answer();
            self.common.progress(self.frames, self.source.progress());
            match polled {
                Polled::End => break,
                Polled::NotYet if !any => {
                    if patience.wait() == Next::Sleep {
                        let ready = || self.common.is_over() || self.is_asked();
                        self.bell.sleep(SLEEP_MAX, &self.source.descriptors(), ready);
                    }
                }
                Polled::NotYet | Polled::Frame => patience.reset(),
            }
        }
        self.tell();
        let dealt = self.lanes.iter().map(|lane| lane.count).collect();
        let jumps = self.pacer.as_ref().map(Pacer::jumps).unwrap_or_default();
        HasRead { source: self.source, jumps, damage: self.damage, dealt, warm_up: self.warm_up }
    }

    /// Reads some frames, as long as there are any.
    fn round(&mut self) -> Polled {
        for lane in &mut self.lanes {
            let returned = lane.spare.slots();
            if let Ok(frames) = lane.spare.read_chunk(returned) {
                self.spare.extend(frames);
            }
        }
        for _ in 0..ROUND {
            let mut frame = self.spare.pop().unwrap_or_default();
            (frame.port, frame.answer) = (0, false);
            (frame.queued, frame.mark) = (None, None);
            let polled = self.source.poll(&mut frame).unwrap_or_else(|damage| {
                self.damage = Some(damage);
                Polled::End
            });
            if polled != Polled::Frame {
                self.spare.push(frame);
                return polled;
            }
            let due = self.pacer.as_mut().map(|pacer| pacer.arrival(frame.time));
            if due.is_some() && self.longest.is_some_and(|longest| due >= Some(longest)) {
                return Polled::End;
            }
            self.frames += 1;
            let dispatcher = self.spread.dispatcher(&frame);
            self.lanes[dispatcher].dealt.push(Dealt { due, number: self.frames, frame });
        }
        Polled::Frame
    }

    /// Hands over what was read, waiting for room; whether there was anything.
    fn hand_over(&mut self, patience: &mut Patience) -> bool {
        let any = self.lanes.iter().any(|lane| !lane.dealt.is_empty());
        loop {
            // Every lane, for none is to wait because another must.
            let waiting = self.lanes.iter_mut().map(Lane::pass_on).filter(|done| !done).count();
            if waiting == 0 {
                return any;
            }
            if patience.wait() == Next::Sleep {
                let ready = || self.lanes.iter().any(Lane::has_room) || self.is_asked();
                self.bell.sleep(SLEEP_MAX, &[], ready);
                self.answer();
            }
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

    /// Tells whoever watches what came by the interfaces.
    #[cold]
    fn tell(&mut self) {
        if let Some(watched) = &mut self.watched {
            // A look at a run is no reason to end it.
            let received = self.source.received().unwrap_or_default();
            let lost = LostOutside { before: self.warm_up.lost(loss::received(&received)), behind: 0 };
            watched.answer(Box::new(Snapshot { received, lost, ..Snapshot::default() }));
        }
    }
}
