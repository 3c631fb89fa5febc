//! Traffic models: what comes when, before it has bytes; and the sources made of them.

use humpyard_core::frame::Frame;

use super::profile::OpenedSource;
use super::sketch::{Sketch, Writer};
use crate::error::TrafficError;
use crate::header::Headers;
use crate::source::Source;
use crate::tunnel::Tunnels;

/// Says which packet comes next, for ever, in the order of their times.
pub(super) trait Model: Send + 'static {
    /// What it says of a packet: a [`Sketch`], or a [`Draw`](super::numbered::Draw) where flows have numbers.
    type Packet: Timed;

    /// The next packet; none if there never is one.
    fn next(&mut self) -> Option<Self::Packet>;
}

/// Something that comes at a time.
pub(super) trait Timed: Copy + Send {
    /// When it comes, in ns.
    fn time_ns(&self) -> u64;
}

impl Timed for Sketch {
    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

/// A source that makes packets of what a model says.
pub(super) struct Generator<M> {
    model: M,
    writer: Writer,
    description: String,
    packets: u64,
    made: u64,
}

impl<M: Model<Packet = Sketch>> Generator<M> {
    /// So many packets of a model, of up to so many bytes.
    pub(super) fn open(model: M, packets: u64, length_max: usize, description: String) -> OpenedSource {
        Self::open_with(model, packets, Writer::new(length_max, 0), description)
    }

    /// As [`Self::open`], with a writer of the model's own.
    pub(super) fn open_with(model: M, packets: u64, writer: Writer, description: String) -> OpenedSource {
        Ok(Box::new(Self { model, writer, description, packets, made: 0 }))
    }
}

impl<M: Model<Packet = Sketch>> Generator<M> {
    fn sketch(&mut self) -> Option<Sketch> {
        if self.made == self.packets {
            return None;
        }
        let sketch = self.model.next()?;
        self.made += 1;
        Some(sketch)
    }
}

impl<M: Model<Packet = Sketch>> Source for Generator<M> {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        let Some(sketch) = self.sketch() else { return Ok(false) };
        self.writer.write(&sketch, frame);
        Ok(true)
    }

    fn next_headers(
        &mut self,
        frame: &mut Frame,
        tunnels: Tunnels,
        headers: &mut Headers,
    ) -> Result<bool, TrafficError> {
        let Some(sketch) = self.sketch() else { return Ok(false) };
        sketch.heading(&mut self.writer, frame, tunnels, headers);
        Ok(true)
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn progress(&self) -> Option<f64> {
        Some(if self.packets == 0 { 1.0 } else { self.made as f64 / self.packets as f64 })
    }
}

/// Several models at a time, their packets in the order of time.
pub(super) struct Merged<M: Model> {
    models: Vec<M>,
    heads: Vec<Option<M::Packet>>,
    /// Times of the heads; the last there is where there is none.
    times: Vec<u64>,
}

impl<M: Model> Merged<M> {
    pub(super) fn new(models: impl IntoIterator<Item = M>) -> Self {
        let mut models: Vec<M> = models.into_iter().collect();
        let heads: Vec<Option<M::Packet>> = models.iter_mut().map(M::next).collect();
        let times = heads.iter().map(|head| head.map_or(u64::MAX, |head| head.time_ns())).collect();
        Self { models, heads, times }
    }
}

impl<M: Model> Model for Merged<M> {
    type Packet = M::Packet;

    fn next(&mut self) -> Option<M::Packet> {
        let earliest = (0..self.times.len()).min_by_key(|&at| self.times[at])?;
        let head = self.heads[earliest];
        self.heads[earliest] = self.models[earliest].next();
        self.times[earliest] = self.heads[earliest].map_or(u64::MAX, |head| head.time_ns());
        head
    }
}
