//! Frames that are read together, and arrive one after the other.

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;
use humpyard_traffic::{Classifier, Digest, Headers};

use super::BATCH;

/// The frames read last, each with its metadata.
#[derive(Default)]
pub(super) struct Burst {
    frames: Vec<Frame>,
    read: Vec<Read>,
    /// The place of a frame that was read before it is due. Between two bursts it is the first.
    early: Option<usize>,
}

/// The metadata of a frame that was read.
#[derive(Default)]
pub(super) struct Read {
    /// When it arrives.
    pub(super) arrival: Time,
    /// Number of the frame among those that came in, from 1.
    pub(super) number: u64,
    /// Its headers, once they are parsed.
    pub(super) headers: Headers,
    /// The digest of its headers.
    pub(super) digest: Digest,
}

impl Burst {
    /// Returns an empty burst with room for a batch and one early frame.
    pub(super) fn new() -> Self {
        let frames = (0..=BATCH).map(|_| Frame::default()).collect();
        Self { frames, read: (0..=BATCH).map(|_| Read::default()).collect(), early: None }
    }

    /// Returns the frame at this place, and its metadata.
    #[inline]
    pub(super) fn at(&mut self, place: usize) -> (&mut Frame, &mut Read) {
        (&mut self.frames[place], &mut self.read[place])
    }

    /// Returns the first `frames` frames, to be filled.
    pub(super) fn frames(&mut self, frames: usize) -> &mut [Frame] {
        &mut self.frames[..frames]
    }

    /// Returns the first `frames` frames, each with its metadata.
    #[inline]
    pub(super) fn first(&mut self, frames: usize) -> impl Iterator<Item = (&mut Frame, &mut Read)> {
        self.frames[..frames].iter_mut().zip(&mut self.read)
    }

    /// Parses the headers of the first `frames` frames, then brings all their flows into the processor's caches.
    pub(super) fn digest(&mut self, classifier: &Classifier, frames: usize) {
        for (frame, Read { headers, digest, .. }) in self.first(frames) {
            headers.set_inside(frame, classifier.tunnels());
            *digest = classifier.digester().digest(headers);
        }
        classifier.look_ahead_digested(self.read[..frames].iter().map(|read| &read.digest));
    }

    /// Keeps the frame at this place until it is due.
    pub(super) const fn keep(&mut self, place: usize) {
        self.early = Some(place);
    }

    /// Returns when the frame arrives that was read before it is due.
    pub(super) fn next_arrival(&self) -> Option<Time> {
        self.early.map(|place| self.read[place].arrival)
    }

    /// Makes the frame that was read too early the first of the next burst. Returns whether there
    /// is one.
    pub(super) fn take_early(&mut self) -> bool {
        let Some(place) = self.early.take() else { return false };
        self.frames.swap(0, place);
        self.read.swap(0, place);
        true
    }
}
