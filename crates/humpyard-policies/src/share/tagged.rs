//! The state of a client for policies by tags: the finish of its last packet in virtual time, and
//! the earliest start of the next.

use alloc::format;
use alloc::string::String;

use humpyard_core::unit::{Weight, Work};

use super::tag::{ExactTag, FRACTION, PackedTag, Tag};

/// One client, in 40 bytes.
///
/// The estimate is charged at dispatch and corrected at completion. A new weight holds for the
/// packets in service too: their estimates are charged again, so that completion settles the amount
/// that was charged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tagged {
    /// Finish tag F of its last packet.
    finish: ExactTag,
    /// The earliest start of its head: the virtual time when it arrived to an empty queue, else 0.
    earliest: PackedTag,
    weight: Weight,
    /// Estimated work of its packets in service, or [`IDLE`].
    in_service: Work,
}

/// The value of `in_service` of a client without packets.
const IDLE: Work = Work::MAX;

impl Tagged {
    /// Creates an idle client that was never served.
    pub(super) fn new(weight: Weight) -> Self {
        Self { finish: ExactTag::default(), earliest: PackedTag::default(), weight, in_service: IDLE }
    }

    pub(super) fn weight(&self) -> Weight {
        self.weight
    }

    /// Returns the finish tag of its last packet.
    #[inline]
    pub(super) fn finish(&self) -> Tag {
        self.finish.tag()
    }

    /// Whether it has packets.
    pub(super) fn is_busy(&self) -> bool {
        self.in_service != IDLE
    }

    /// Records that it has packets.
    #[inline]
    pub(super) fn wake(&mut self) {
        self.in_service = 0;
    }

    /// Records that it has no packets.
    #[inline]
    pub(super) fn idle(&mut self) {
        self.in_service = IDLE;
    }

    /// Records that a packet arrives to its empty queue at this virtual time.
    #[inline]
    pub(super) fn arrive(&mut self, now: Tag) {
        self.earliest = PackedTag::new(now);
    }

    /// Returns the start tag of its head: S = max(V at its arrival, F of the packet before).
    #[inline]
    pub(super) fn start(&self) -> ExactTag {
        let earliest = self.earliest.tag();
        if earliest > self.finish.tag() { ExactTag::at(earliest) } else { self.finish }
    }

    /// Explains to a reader where the client stands in virtual time.
    pub(super) fn explained(&self, virtual_time: Tag) -> String {
        let [start, now] = [self.start().tag(), virtual_time].map(|tag| tag >> FRACTION);
        let place = if start > now { "ahead of" } else { "not ahead of" };
        format!("the start tag of its next packet is {start}, {place} the virtual time {now}, in work per weight")
    }

    /// Returns the finish tag of its head if the head takes this work: S + work / w.
    #[inline]
    pub(super) fn finish_after(&self, work: Work) -> Tag {
        let mut finish = self.start();
        finish.add(work, self.weight);
        finish.tag()
    }

    /// Returns the work after which its head finishes at this tag: the inverse of
    /// [`Tagged::finish_after`].
    pub(super) fn work_until(&self, finish: Tag) -> Work {
        self.start().work_until(finish, self.weight)
    }

    /// Records that its head goes to a core.
    #[inline]
    pub(super) fn dispatch(&mut self, estimate: Work) {
        self.finish = self.start();
        self.finish.add(estimate, self.weight);
        self.earliest = PackedTag::default();
        self.in_service += estimate;
    }

    /// Records that a packet is done.
    #[inline]
    pub(super) fn complete(&mut self, used: Work, estimate: Work) {
        self.finish.settle(used, estimate, self.weight);
        self.in_service -= estimate;
    }

    /// Sets its weight.
    pub(super) fn set_weight(&mut self, weight: Weight) {
        let in_service = if self.is_busy() { self.in_service } else { 0 };
        self.finish.reweigh(in_service, self.weight, weight);
        self.weight = weight;
    }

    /// Records that it is gone. The next client with its id inherits only the weight.
    pub(super) fn end(&mut self) {
        self.finish = ExactTag::default();
    }
}
