//! The reader: takes frames from the source and deals them out to the dispatchers, each connection to one.

use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::measure::LostOutside;
use humpyard_core::unit::Time;
use humpyard_traffic::pace::{ClockJumps, Pacer};
use humpyard_traffic::source::{Polled, Source};
use humpyard_traffic::{Spread, TrafficError};

use super::common::Common;
use crate::RunError;
use crate::lane::{Dealt, Inlet, Lane, ROUND, lane};
use crate::loss::{self, WarmUp};
use crate::placement::Seat;
use crate::wait::{Doorbell, Next, Patience, SLEEP_MAX};
use crate::watch::{Snapshot, Watched};

/// Everything the reader holds.
pub(super) struct Reader<'a> {
    source: Box<dyn Source + Send>,
    pacer: Option<Pacer>,
    spread: Spread,
    lanes: Vec<Lane>,
    bell: Arc<Doorbell>,
    common: &'a Common,
    /// The latest arrival of a frame that is read.
    longest: Option<Time>,
    watched: Option<Watched>,
    spare: Vec<Frame>,
    frames: u64,
    damage: Option<TrafficError>,
    warm_up: WarmUp,
}

/// The results of the reader.
pub(super) struct HasRead {
    pub(super) source: Box<dyn Source + Send>,
    pub(super) jumps: ClockJumps,
    pub(super) damage: Option<TrafficError>,
    /// Frames that each dispatcher was given.
    pub(super) dealt: Vec<u64>,
    pub(super) warm_up: WarmUp,
}

impl<'a> Reader<'a> {
    /// Returns a reader for dispatchers that sleep on these doorbells, and the inlet of each.
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

    /// Sets the time since the start at which reading ends.
    pub(super) fn until(self, longest: Option<Time>) -> Self {
        Self { longest, ..self }
    }

    /// Sets the warm-up, whose packets are not measured.
    pub(super) fn with_warm_up(self, time: Time) -> Self {
        Self { warm_up: WarmUp::new(time), ..self }
    }

    /// Sets the half that answers observers with the frames received by the interfaces.
    pub(super) fn watched(self, watched: Option<Watched>) -> Self {
        watched.as_ref().inspect(|watched| watched.begin(&self.bell));
        Self { watched, ..self }
    }

    /// Reads until the source is exhausted, or the run is to end.
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

    /// Reads some frames, if there are any.
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

    /// Hands over the frames read, and waits for room. Returns whether there were any.
    fn hand_over(&mut self, patience: &mut Patience) -> bool {
        let any = self.lanes.iter().any(|lane| !lane.dealt.is_empty());
        loop {
            // Every lane, because a full lane must not delay the others.
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

    /// Answers an observer with the frames received by the interfaces.
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
