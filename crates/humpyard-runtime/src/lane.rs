//! A ring by which a reader deals frames out to a dispatcher.

use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;
use humpyard_traffic::source::Polled;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::wait::{Doorbell, RING};

/// Frames read, at most, before they are handed over: each time a dispatcher sees some costs both a cache line's way
/// between processors.
pub(crate) const ROUND: usize = 64;
/// Buffers that a dispatcher returns at a time; it then signals that there is room.
const BACK: u64 = 32;

/// A frame on its way to a dispatcher.
#[derive(Debug)]
pub(crate) struct Dealt {
    /// When it arrives, since the start. `None`: it arrives when it is taken.
    pub(crate) due: Option<Time>,
    /// Its number in the input, from 1.
    pub(crate) number: u64,
    pub(crate) frame: Frame,
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
            // If there is no room, this buffer is surplus.
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
        // Read in this order, so that frames from before the end are seen.
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
pub(crate) struct Lane {
    frames: Producer<Dealt>,
    pub(crate) spare: Consumer<Frame>,
    /// Frames for this dispatcher that are not in the ring yet.
    pub(crate) dealt: Vec<Dealt>,
    /// Frames that went into the ring.
    pub(crate) count: u64,
    ended: Arc<AtomicBool>,
    dispatcher: Arc<Doorbell>,
}

impl Lane {
    /// Puts frames into the ring while there is room. Returns false if some do not fit.
    pub(crate) fn pass_on(&mut self) -> bool {
        if self.frames.is_abandoned() {
            // A dispatcher ends before its frames only if the run has failed.
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

    pub(crate) fn has_room(&self) -> bool {
        !self.dealt.is_empty() && (self.frames.slots() > 0 || self.frames.is_abandoned())
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.dispatcher.ring();
    }
}

/// Returns both ends of a ring for frames to a dispatcher that sleeps on this doorbell.
pub(crate) fn lane(dispatcher: &Arc<Doorbell>, reader: &Arc<Doorbell>) -> (Lane, Inlet) {
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
