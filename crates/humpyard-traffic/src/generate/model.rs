//! Traffic models: what comes when, before it has bytes; and the sources made of them.

use std::sync::Arc;

use humpyard_core::frame::Frame;

use super::profile::OpenedSource;
use super::sketch::{Sketch, Writer};
use crate::error::TrafficError;
use crate::header::Headers;
use crate::source::{Numbered, NumberedFlows, Source};
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

/// How packets of a model get headers.
pub(super) trait Looks<P>: Send + 'static {
    /// The packet with its headers.
    fn sketch(&self, packet: &P) -> Sketch;

    /// The flows, if the model gives their numbers.
    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>>;

    /// The packet by the number of its flow, if the model gives that.
    fn numbered(packet: &P) -> Option<Numbered>;
}

/// Packets whose model says everything of them.
pub(super) struct Complete;

impl Looks<Sketch> for Complete {
    #[inline]
    fn sketch(&self, packet: &Sketch) -> Sketch {
        *packet
    }

    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>> {
        None
    }

    fn numbered(_: &Sketch) -> Option<Numbered> {
        None
    }
}

/// A source that makes packets of what a model says.
pub(super) struct Generator<M, L> {
    model: M,
    looks: L,
    writer: Writer,
    description: String,
    packets: u64,
    made: u64,
}

impl<M: Model<Packet = Sketch>> Generator<M, Complete> {
    /// Opens a source that gives this number of packets of a model, of up to so many bytes.
    pub(super) fn open(model: M, packets: u64, length_max: usize, description: String) -> OpenedSource {
        Self::open_as(model, Complete, packets, Writer::new(length_max, 0), description)
    }
}

impl<M: Model, L: Looks<M::Packet>> Generator<M, L> {
    /// Opens a source that gives this number of packets of a model, which look like this.
    pub(super) fn open_as(model: M, looks: L, packets: u64, writer: Writer, description: String) -> OpenedSource {
        Ok(Box::new(Self { model, looks, writer, description, packets, made: 0 }))
    }

    #[inline]
    fn draw(&mut self) -> Option<M::Packet> {
        if self.made == self.packets {
            return None;
        }
        let packet = self.model.next()?;
        self.made += 1;
        Some(packet)
    }
}

impl<M: Model, L: Looks<M::Packet>> Source for Generator<M, L> {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        let Some(packet) = self.draw() else { return Ok(false) };
        self.writer.write(&self.looks.sketch(&packet), frame);
        Ok(true)
    }

    fn next_headers(
        &mut self,
        frame: &mut Frame,
        tunnels: Tunnels,
        headers: &mut Headers,
    ) -> Result<bool, TrafficError> {
        let Some(packet) = self.draw() else { return Ok(false) };
        self.looks.sketch(&packet).heading(&mut self.writer, frame, tunnels, headers);
        Ok(true)
    }

    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>> {
        self.looks.numbered_flows()
    }

    fn next_numbered(&mut self, packets: &mut Vec<Numbered>, most: usize) -> Result<bool, TrafficError> {
        for _ in 0..most {
            let Some(packet) = self.draw().and_then(|packet| L::numbered(&packet)) else { return Ok(false) };
            packets.push(packet);
        }
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
