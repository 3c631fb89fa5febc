//! Where the frames of a dispatcher come from, and when they arrive.

use std::os::fd::BorrowedFd;

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;
use humpyard_traffic::pace::{ClockJumps, Pacer};
use humpyard_traffic::source::{Polled, Received, Source};

use crate::lane::Inlet;

/// Where the frames of a dispatcher come from, and when they arrive.
pub struct Input(Kind);

enum Kind {
    /// It reads them itself.
    Source { source: Box<dyn Source + Send>, pacer: Option<Pacer> },
    /// A reader deals them out.
    Dealt(Inlet),
}

impl Input {
    /// The frames of a source, which arrive as the pacer says; without one as fast as they are taken.
    pub fn new(source: Box<dyn Source + Send>, pacer: Option<Pacer>) -> Self {
        Self(Kind::Source { source, pacer })
    }

    /// Frames that a reader deals out.
    pub(crate) const fn dealt(inlet: Inlet) -> Self {
        Self(Kind::Dealt(inlet))
    }

    /// Whether a reader deals them out: what it has dealt is to be taken, even when the run is to end.
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

    /// When the frame given last arrives, which was captured at this time, in a run that began at `begin`.
    #[inline]
    pub(crate) fn arrival(&mut self, now: Time, begin: Time, captured: Time) -> Time {
        let due = match &mut self.0 {
            Kind::Source { pacer, .. } => pacer.as_mut().map(|pacer| pacer.arrival(captured)),
            Kind::Dealt(inlet) => inlet.due(),
        };
        due.map_or(now, |due| begin + due)
    }

    /// The number in the input of the frame given last, from 1, if others read it too.
    #[inline]
    pub(crate) fn number(&self) -> Option<u64> {
        match &self.0 {
            Kind::Source { .. } => None,
            Kind::Dealt(inlet) => Some(inlet.number()),
        }
    }

    /// Whether a frame is there that was dealt out, or will never be.
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
            Kind::Source { pacer, .. } => pacer.as_ref().map(Pacer::jumps).unwrap_or_default(),
            Kind::Dealt(_) => ClockJumps::default(),
        }
    }
}
