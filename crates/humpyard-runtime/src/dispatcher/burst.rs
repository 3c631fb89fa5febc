//! Frames that are read together, and arrive one after the other.

use core::mem;

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;
use humpyard_traffic::{Classifier, Digest, Headers};

use super::BATCH;

/// The frames read last, each with its arrival.
pub(super) struct Burst {
    frames: Vec<ReadFrame>,
    /// The place of a frame that was read before it is due. Between two bursts it is the first.
    early: Option<usize>,
}

/// A frame that was read.
#[derive(Default)]
pub(super) struct ReadFrame {
    pub(super) frame: Frame,
    /// When it arrives.
    pub(super) arrival: Time,
    /// Its number in the input, from 1. `None`: nobody else reads the input.
    pub(super) number: Option<u64>,
    /// Its headers, once they are parsed.
    pub(super) headers: Headers,
    /// The digest of its headers.
    pub(super) digest: Digest,
}

impl Burst {
    /// Returns an empty burst with room for a batch and a frame that is early.
    pub(super) fn new() -> Self {
        Self { frames: (0..=BATCH).map(|_| ReadFrame::default()).collect(), early: None }
    }

    /// Returns the frame at this place.
    #[inline]
    pub(super) fn at(&mut self, place: usize) -> &mut ReadFrame {
        &mut self.frames[place]
    }

    /// Parses the headers of the first `frames` frames, then brings all their flows into the processor's caches.
    pub(super) fn digest(&mut self, classifier: &Classifier, frames: usize) {
        let frames = &mut self.frames[..frames];
        for ReadFrame { frame, headers, digest, .. } in &mut *frames {
            *headers = Headers::parse_inside(frame, classifier.tunnels());
            *digest = classifier.digester().digest(headers);
        }
        classifier.look_ahead_digested(frames.iter().map(|read| &read.digest));
    }

    /// Keeps the frame at this place until it is due.
    pub(super) const fn keep(&mut self, place: usize) {
        self.early = Some(place);
    }

    /// Returns when the frame arrives that was read before it is due.
    pub(super) fn next_arrival(&self) -> Option<Time> {
        self.early.map(|place| self.frames[place].arrival)
    }

    /// Takes the frame that was read too early as the first of the next burst. Returns whether there is one.
    pub(super) fn take_early(&mut self) -> bool {
        let Some(place) = self.early.take() else { return false };
        let (first, others) = self.frames.split_at_mut(1);
        if place > 0 {
            mem::swap(&mut first[0], &mut others[place - 1]);
        }
        true
    }
}
