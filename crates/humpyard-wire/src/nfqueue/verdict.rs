//! Verdicts on the packets of a queue.

use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_traffic::TrafficError;
use humpyard_traffic::sink::{Sent, Sink};

use super::message::{Decision, PACKET_BYTES_MAX};
use super::{Desk, Queue};

/// What becomes of the packets of a queue.
pub(crate) struct QueueSink {
    queue: Arc<Queue>,
}

impl QueueSink {
    pub(super) const fn new(queue: Arc<Queue>) -> Self {
        Self { queue }
    }
}

impl Sink for QueueSink {
    fn write(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        let mut desk = self.queue.desk();
        let Desk { waiting, sent, batched, .. } = &mut *desk;
        let Some((id, before)) = frame.queued.and_then(|place| waiting.take(place)) else {
            sent.made += 1;
            return Ok(());
        };
        if frame.data.len() > PACKET_BYTES_MAX {
            sent.too_long += 1;
            return self.queue.decide(&mut desk, id, Decision::Drop, None, None);
        }
        let changed = (before != frame.data).then_some(frame.data.as_slice());
        batched.frames += 1;
        self.queue.decide(&mut desk, id, Decision::Accept, frame.mark, changed)
    }

    fn discard(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        let mut desk = self.queue.desk();
        let Some((id, _)) = frame.queued.and_then(|place| desk.waiting.take(place)) else { return Ok(()) };
        desk.batched.discarded += 1;
        self.queue.decide(&mut desk, id, Decision::Drop, None, None)
    }

    fn send(&mut self) -> Result<(), TrafficError> {
        self.queue.send(&mut self.queue.desk())
    }

    fn flush(&mut self) -> Result<(), TrafficError> {
        self.send()
    }

    fn close(&mut self) -> Result<(), TrafficError> {
        let mut desk = self.queue.desk();
        while let Some(id) = desk.waiting.take_any() {
            desk.batched.discarded += 1;
            self.queue.decide(&mut desk, id, Decision::Drop, None, None)?;
        }
        self.queue.send(&mut desk)
    }

    fn sent(&self) -> Vec<Sent> {
        vec![self.queue.desk().sent.clone()]
    }

    fn finish(self: Box<Self>) -> Result<u64, TrafficError> {
        Ok(self.queue.desk().sent.frames)
    }
}
