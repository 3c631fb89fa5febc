//! Traffic models, which determine packets before they have bytes, and the sources made from them.

use std::sync::Arc;

use humpyard_core::frame::Frame;

use super::profile::OpenedSource;
use super::sketch::{Sketch, Writer};
use crate::error::TrafficError;
use crate::header::Headers;
use crate::source::{Numbered, NumberedFlows, Source};
use crate::tunnel::Tunnels;

/// An endless sequence of packets, in the order of their times.
pub(super) trait Model: Send + 'static {
    /// Its description of a packet: a [`Sketch`], or a [`Draw`](super::numbered::Draw) if flows have numbers.
    type Packet: Timed;

    /// Returns the next packet. `None`: there will never be one.
    fn next(&mut self) -> Option<Self::Packet>;

    /// Adds the next packets by the numbers of their flows, at most `most`. Returns false if there will be no
    /// more packet, or the flows have no numbers.
    fn next_numbered(&mut self, packets: &mut Vec<Numbered>, most: usize) -> bool {
        one_by_one(|| self.next(), packets, most)
    }
}

/// Like [`Model::next_numbered`], for the packets that `next` returns.
#[inline]
pub(super) fn one_by_one<P: Timed>(
    mut next: impl FnMut() -> Option<P>,
    packets: &mut Vec<Numbered>,
    most: usize,
) -> bool {
    for _ in 0..most {
        let Some(packet) = next().and_then(|packet| packet.numbered()) else { return false };
        packets.push(packet);
    }
    true
}

/// An item with a time.
pub(super) trait Timed: Copy + Send {
    /// Returns its time, in ns.
    fn time_ns(&self) -> u64;

    /// Returns the packet by the number of its flow. `None`: the flow has no number.
    fn numbered(&self) -> Option<Numbered> {
        None
    }
}

impl Timed for Sketch {
    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

/// How packets of a model get headers.
pub(super) trait Looks<P>: Send + 'static {
    /// Returns the packet with its headers.
    fn sketch(&self, packet: &P) -> Sketch;

    /// Fills the frame of the packet.
    #[inline]
    fn write(&self, packet: &P, writer: &mut Writer, frame: &mut Frame) {
        writer.write(&self.sketch(packet), frame);
    }

    /// Returns the flows, if the model numbers them.
    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>>;
}

/// Packets with complete descriptions.
pub(super) struct Complete;

impl Looks<Sketch> for Complete {
    #[inline]
    fn sketch(&self, packet: &Sketch) -> Sketch {
        *packet
    }

    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>> {
        None
    }
}

/// A source that makes packets from a model.
pub(super) struct Generator<M, L> {
    model: M,
    looks: L,
    writer: Writer,
    description: String,
    packets: u64,
    made: u64,
}

impl<M: Model<Packet = Sketch>> Generator<M, Complete> {
    /// Opens a source of this many packets of a model, of up to `length_max` bytes.
    pub(super) fn open(model: M, packets: u64, length_max: usize, description: String) -> OpenedSource {
        Self::open_as(model, Complete, packets, Writer::new(length_max, 0), description)
    }
}

impl<M: Model, L: Looks<M::Packet>> Generator<M, L> {
    /// Opens a source of this many packets of a model, which get their headers from `looks`.
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
        self.looks.write(&packet, &mut self.writer, frame);
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
        let (before, left) = (packets.len(), self.packets - self.made);
        let enough = left.min(most as u64) as usize;
        let more = self.model.next_numbered(packets, enough);
        self.made += (packets.len() - before) as u64;
        Ok(more && enough == most)
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn progress(&self) -> Option<f64> {
        Some(if self.packets == 0 { 1.0 } else { self.made as f64 / self.packets as f64 })
    }

    fn packets_left(&self) -> Option<u64> {
        Some(self.packets - self.made)
    }
}

/// One of several sources of packets to merge: a model, or a source that draws several packets at once.
pub(super) trait Part: Send + 'static {
    /// Its description of a packet.
    type Packet: Timed;

    /// Adds the next packets, in the order of their times. Adds none if there will be no more packet.
    fn draw(&mut self, packets: &mut Vec<Self::Packet>);
}

impl<M: Model> Part for M {
    type Packet = M::Packet;

    fn draw(&mut self, packets: &mut Vec<M::Packet>) {
        packets.extend(self.next());
    }
}

/// Several parts, merged in the order of time.
pub(super) struct Merged<P: Part> {
    lanes: Vec<Lane<P>>,
    /// The times of the next packets and their lanes, in order; the greatest time means that there is no
    /// packet.
    order: Vec<(u64, usize)>,
}

/// A part, with the packets that it drew.
struct Lane<P: Part> {
    part: P,
    drawn: Vec<P::Packet>,
    /// The number of these packets that were returned.
    given: usize,
}

impl<P: Part> Lane<P> {
    fn new(part: P) -> Self {
        let mut lane = Self { part, drawn: Vec::new(), given: 0 };
        lane.draw();
        lane
    }

    #[inline(never)]
    fn draw(&mut self) {
        self.drawn.clear();
        self.given = 0;
        self.part.draw(&mut self.drawn);
    }

    /// Returns the time of its next packet, in ns; the greatest time means that there is no packet.
    #[inline]
    fn time_ns(&self) -> u64 {
        self.drawn.get(self.given).map_or(u64::MAX, P::Packet::time_ns)
    }

    #[inline]
    fn take(&mut self) -> Option<P::Packet> {
        let next = *self.drawn.get(self.given)?;
        self.given += 1;
        if self.given == self.drawn.len() {
            self.draw();
        }
        Some(next)
    }
}

impl<P: Part> Merged<P> {
    pub(super) fn new(parts: impl IntoIterator<Item = P>) -> Self {
        let lanes: Vec<_> = parts.into_iter().map(Lane::new).collect();
        let mut order: Vec<_> = lanes.iter().enumerate().map(|(at, lane)| (lane.time_ns(), at)).collect();
        order.sort_unstable();
        Self { lanes, order }
    }

    /// Moves the first entry of the order to its place for this new time, which is mostly near.
    #[inline]
    fn reorder(&mut self, time_ns: u64) {
        let [first, rest @ ..] = self.order.as_mut_slice() else { return };
        let entry = (time_ns, first.1);
        let mut place = first;
        for next in rest {
            if entry < *next {
                break;
            }
            *place = *next;
            place = next;
        }
        *place = entry;
    }
}

impl<P: Part> Model for Merged<P> {
    type Packet = P::Packet;

    #[inline(always)]
    fn next(&mut self) -> Option<P::Packet> {
        let &(_, earliest) = self.order.first()?;
        let lane = &mut self.lanes[earliest];
        let next = lane.take()?;
        let time_ns = lane.time_ns();
        self.reorder(time_ns);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::{Random, Seed};

    use super::super::numbered::Draw;
    use super::*;

    /// Packets with random gaps, up to a limit.
    struct Gaps {
        random: Random,
        gap: u64,
        time_ns: u64,
        left: u32,
        flow: u64,
    }

    impl Model for Gaps {
        type Packet = Draw;

        fn next(&mut self) -> Option<Draw> {
            self.left = self.left.checked_sub(1)?;
            self.time_ns += self.random.below(self.gap);
            Some(Draw { time_ns: self.time_ns, flow: self.flow, ..Draw::default() })
        }
    }

    /// Among equal times, the first model comes first; models end one after the other.
    #[test]
    fn merged_packets_come_in_the_order_of_time() {
        for models in [0, 1, 2, 6, 40] {
            let all = || {
                (0..models).map(|flow| Gaps {
                    random: Seed(flow).stream("test"),
                    gap: 1 + flow % 5,
                    time_ns: 0,
                    left: 50 + 7 * flow as u32,
                    flow,
                })
            };
            let mut expected: Vec<(u64, u64)> = Vec::new();
            for mut model in all() {
                expected.extend(std::iter::from_fn(|| model.next()).map(|draw| (draw.time_ns, draw.flow)));
            }
            expected.sort();
            let mut merged = Merged::new(all());
            let found: Vec<_> = std::iter::from_fn(|| merged.next()).map(|draw| (draw.time_ns, draw.flow)).collect();
            assert_eq!(found, expected);
            assert!(merged.next().is_none());
        }
    }
}
