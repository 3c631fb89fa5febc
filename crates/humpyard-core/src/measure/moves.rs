//! Flows that move between cores, and the bytes that their packets fetch from another cache.

use super::summary::{CacheSummary, MoveSummary, fraction};
use crate::id::{CoreId, FlowId, IdVec};
use crate::packet::Packet;
use crate::policy::{CoreDistance, Topology};

/// Counts packets served by another core than the previous packet of their flow. O(levels of the
/// topology) for a packet that moves, O(1) for others. Allocates only when it is built.
#[derive(Debug)]
pub struct Moves {
    /// `None`: the present cores have no topology.
    topology: Option<Topology>,
    /// How far apart cores are that part at each level, by level from 1.
    apart: [CoreDistance; LEVELS],
    /// The core that served the last packet of each flow, or [`NOWHERE`].
    last: IdVec<FlowId, CoreId>,
    /// By [`CoreDistance::index`].
    moved: [MoveSummary; CoreDistance::ALL.len()],
    packets: u64,
    bytes: u64,
}

/// No core: a topology has fewer.
const NOWHERE: CoreId = CoreId(u16::MAX);
/// Levels whose distance is kept; all deeper levels count like the last of them.
const LEVELS: usize = 8;

impl Moves {
    /// Returns the counter for this many flows on the cores of a topology; no flow has been served
    /// yet.
    pub fn new(topology: Topology, flows: usize) -> Self {
        Self {
            apart: distances(&topology),
            topology: Some(topology),
            last: IdVec::from_fn(flows, |_| NOWHERE),
            moved: [MoveSummary::default(); CoreDistance::ALL.len()],
            packets: 0,
            bytes: 0,
        }
    }

    /// Records that a packet goes to a core. Returns the distance from the core that served the
    /// flow's previous packet, if that was another core.
    #[inline]
    pub fn on_dispatch(&mut self, core: CoreId, packet: &Packet) -> Option<CoreDistance> {
        let topology = self.topology.as_ref()?;
        let bytes = u64::from(packet.length);
        self.packets += 1;
        self.bytes += bytes;
        let last = core::mem::replace(&mut self.last[packet.flow], core);
        if last == core || last == NOWHERE {
            return None;
        }
        let level = topology.parting(last, core)?;
        let apart = self.apart[level.min(LEVELS) - 1];
        let moved = &mut self.moved[apart.index()];
        moved.packets += 1;
        moved.bytes += bytes;
        Some(apart)
    }

    /// Ends a flow; its id may be used again.
    pub fn on_flow_end(&mut self, flow: FlowId) {
        self.last[flow] = NOWHERE;
    }

    /// Changes the topology. If it differs, no flow counts as served by any of its cores.
    pub(super) fn change(&mut self, topology: Option<&Topology>) {
        if self.topology.as_ref() == topology {
            return;
        }
        if let Some(topology) = topology {
            self.apart = distances(topology);
        }
        self.topology = topology.cloned();
        self.last.iter_mut().for_each(|last| *last = NOWHERE);
    }

    /// Sums up several counters, each of its own flows. `None`: there are none.
    pub(super) fn summary_of<'a>(mut several: impl Iterator<Item = &'a Self>) -> Option<CacheSummary> {
        let first = several.next()?;
        let (mut moved, mut packets, mut bytes) = (first.moved, first.packets, first.bytes);
        for one in several {
            moved.iter_mut().zip(&one.moved).for_each(|(sum, other)| {
                sum.packets += other.packets;
                sum.bytes += other.bytes;
            });
            packets += one.packets;
            bytes += one.bytes;
        }
        let [shared_l2, same_socket, other_socket] = moved;
        let moves = shared_l2.packets + same_socket.packets + other_socket.packets;
        let bytes_away = same_socket.bytes + other_socket.bytes;
        Some(CacheSummary {
            moves,
            moves_per_packet: fraction(moves, packets),
            bytes_away,
            bytes_away_fraction: fraction(bytes_away, bytes),
            shared_l2,
            same_socket,
            other_socket,
        })
    }
}

fn distances(topology: &Topology) -> [CoreDistance; LEVELS] {
    core::array::from_fn(|at| topology.core_distance((at + 1).min(topology.depth())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(flow: u32, length: u32) -> Packet {
        Packet { flow: FlowId(flow), length, ..Packet::default() }
    }

    fn summary(moves: &Moves) -> CacheSummary {
        Moves::summary_of(core::iter::once(moves)).expect("one")
    }

    fn e5355() -> Topology {
        Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).unwrap()
    }

    #[test]
    fn moves_are_counted_by_how_far_they_go() {
        let mut moves = Moves::new(e5355(), 2);
        let mut went = |core, flow, length| moves.on_dispatch(CoreId(core), &packet(flow, length));
        assert_eq!(went(0, 0, 100), None, "the first of its flow");
        assert_eq!(went(0, 0, 100), None, "the same core");
        assert_eq!(went(1, 0, 200), Some(CoreDistance::SharedL2));
        assert_eq!(went(4, 1, 1000), None, "another flow");
        assert_eq!(went(3, 0, 300), Some(CoreDistance::SameSocket));
        assert_eq!(went(7, 0, 400), Some(CoreDistance::OtherSocket));
        assert_eq!(went(0, 1, 500), Some(CoreDistance::OtherSocket));
        let summary = summary(&moves);
        assert_eq!((summary.moves, summary.bytes_away), (4, 1200));
        assert_eq!((summary.moves_per_packet, summary.bytes_away_fraction), (4.0 / 7.0, 1200.0 / 2600.0));
        assert_eq!(summary.shared_l2, MoveSummary { packets: 1, bytes: 200 });
        assert_eq!(summary.other_socket, MoveSummary { packets: 2, bytes: 900 });
    }

    #[test]
    fn a_flow_that_ends_or_meets_other_cores_has_been_nowhere() {
        let mut moves = Moves::new(e5355(), 1);
        moves.on_dispatch(CoreId(0), &packet(0, 1));
        moves.on_flow_end(FlowId(0));
        assert_eq!(moves.on_dispatch(CoreId(7), &packet(0, 1)), None);
        moves.change(Some(&Topology::flat(2)));
        assert_eq!(moves.on_dispatch(CoreId(1), &packet(0, 1)), None);
        assert_eq!(moves.on_dispatch(CoreId(0), &packet(0, 1)), Some(CoreDistance::SameSocket));
        moves.change(None);
        assert_eq!(moves.on_dispatch(CoreId(300), &packet(0, 1)), None);
        assert_eq!((summary(&moves).moves, moves.packets), (1, 4));
    }
}
