//! The input of a dispatcher: the source of its frames, and when they arrive.

use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;
use humpyard_traffic::pace::{ClockJumps, Pacer};
use humpyard_traffic::source::{Polled, Received, Source};

use crate::lane::Inlet;

/// The input of a dispatcher: the source of its frames, and when they arrive.
pub struct Input(Kind);

/// When the frames of a source arrive.
enum Timing {
    /// When they are taken.
    Taken,
    /// When the pacer says.
    Paced(Pacer),
    /// When they came, by the machine's calendar, on which the run's clock began at `start`.
    Stamped { start: i128 },
}

enum Kind {
    /// The dispatcher reads them itself.
    Source { source: Box<dyn Source + Send>, timing: Timing },
    /// A reader deals them out.
    Dealt(Inlet),
}

impl Input {
    /// Returns the frames of a source, which arrive at the pacer's times; without a pacer, as fast
    /// as they are taken.
    pub fn new(source: Box<dyn Source + Send>, pacer: Option<Pacer>) -> Self {
        Self(Kind::Source { source, timing: pacer.map_or(Timing::Taken, Timing::Paced) })
    }

    /// Returns the frames of interfaces, with the times at which they came. A delay begins at that
    /// time, not when a frame is taken.
    pub fn stamped(source: Box<dyn Source + Send>) -> Self {
        Self(Kind::Source { source, timing: Timing::Stamped { start: 0 } })
    }

    /// Reads the calendar clock, which may have been set: the next frames have its times.
    pub(crate) fn look_at_calendar(&mut self, now: Time) {
        if let Kind::Source { timing: Timing::Stamped { start }, .. } = &mut self.0 {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            *start = since_epoch.as_nanos() as i128 - i128::from(now.as_ns());
        }
    }

    /// Frames that a reader deals out.
    pub(crate) const fn dealt(inlet: Inlet) -> Self {
        Self(Kind::Dealt(inlet))
    }

    /// Whether a reader deals out the frames. Dealt frames must be taken even when the run is to
    /// end.
    pub(crate) const fn is_dealt(&self) -> bool {
        matches!(self.0, Kind::Dealt(_))
    }

    #[inline]
    pub(crate) fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        match &mut self.0 {
            Kind::Source { source, .. } => source.poll(frame),
            Kind::Dealt(inlet) => Ok(inlet.poll(frame)),
        }
    }

    /// Whether all frames that it gives have arrived.
    pub(crate) const fn gives_arrived(&self) -> bool {
        matches!(self.0, Kind::Source { timing: Timing::Taken | Timing::Stamped { .. }, .. })
    }

    /// Fills these frames from the first on: [`Source::poll_burst`].
    pub(crate) fn poll_burst(&mut self, frames: &mut [Frame]) -> (usize, Result<Polled, TrafficError>) {
        match &mut self.0 {
            Kind::Source { source, .. } => source.poll_burst(frames),
            Kind::Dealt(_) => unreachable!("frames that are dealt out have numbers and times of their own"),
        }
    }

    /// When the frame given last arrives, which was captured at this time, in a run that began at
    /// `begin`.
    #[inline]
    pub(crate) fn arrival(&mut self, now: Time, begin: Time, captured: Time) -> Time {
        let due = match &mut self.0 {
            Kind::Source { timing: Timing::Paced(pacer), .. } => Some(pacer.arrival(captured)),
            Kind::Source { .. } => return self.arrivals(now, begin)(captured),
            Kind::Dealt(inlet) => inlet.due(),
        };
        due.map_or(now, |due| begin + due)
    }

    /// As [`Input::arrival`], for all frames of a source that returns only frames that have
    /// arrived.
    #[inline]
    pub(crate) fn arrivals(&self, now: Time, begin: Time) -> impl Fn(Time) -> Time + use<> {
        let start = match &self.0 {
            Kind::Source { timing: Timing::Stamped { start }, .. } => Some(*start),
            Kind::Source { .. } | Kind::Dealt(_) => None,
        };
        move |captured| {
            let Some(start) = start else { return now };
            let came = i128::from(captured.as_ns()) - start;
            Time::from_ns(came.clamp(i128::from(begin.as_ns()), i128::from(now.as_ns())) as u64)
        }
    }

    /// Returns the number in the input of the last frame, from 1, if other dispatchers read the
    /// input too.
    #[inline]
    pub(crate) fn number(&self) -> Option<u64> {
        match &self.0 {
            Kind::Source { .. } => None,
            Kind::Dealt(inlet) => Some(inlet.number()),
        }
    }

    /// Whether a dealt frame is ready, or none will come any more.
    pub(crate) fn is_ready(&self) -> bool {
        match &self.0 {
            Kind::Source { .. } => false,
            Kind::Dealt(inlet) => inlet.is_ready(),
        }
    }

    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match &self.0 {
            Kind::Source { source, .. } => source.descriptors(),
            Kind::Dealt(_) => Vec::new(),
        }
    }

    /// Returns the frames that have arrived and are not taken, if the source knows:
    /// [`Source::waiting`].
    pub(crate) fn waiting(&self) -> Option<u64> {
        match &self.0 {
            Kind::Source { source, .. } => source.waiting(),
            Kind::Dealt(_) => None,
        }
    }

    /// Lets about this number wait, at most: [`Source::hold`].
    pub(crate) fn hold(&mut self, frames: u64) {
        if let Kind::Source { source, .. } = &mut self.0 {
            source.hold(frames);
        }
    }

    pub(crate) fn progress(&self) -> Option<f64> {
        match &self.0 {
            Kind::Source { source, .. } => source.progress(),
            Kind::Dealt(_) => None,
        }
    }

    pub(crate) fn close(&mut self) -> Result<(), TrafficError> {
        match &mut self.0 {
            Kind::Source { source, .. } => source.close(),
            Kind::Dealt(_) => Ok(()),
        }
    }

    pub(crate) fn received(&mut self) -> Result<Vec<Received>, TrafficError> {
        match &mut self.0 {
            Kind::Source { source, .. } => source.received(),
            Kind::Dealt(_) => Ok(Vec::new()),
        }
    }

    pub(crate) fn jumps(&self) -> ClockJumps {
        match &self.0 {
            Kind::Source { timing: Timing::Paced(pacer), .. } => pacer.jumps(),
            Kind::Source { .. } | Kind::Dealt(_) => ClockJumps::default(),
        }
    }
}
