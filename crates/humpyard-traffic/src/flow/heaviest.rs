//! The list of the heaviest flows, by key.

use humpyard_core::id::FlowId;
use humpyard_core::measure::FlowPackets;

use super::FlowTable;
use crate::header::FlowKey;

/// The flows with the most packets, in bounded memory: [`Heaviest::MOST`] of each kind.
///
/// A flow is added when it ends, or at the end of the run. If an evicted flow comes back, its packets add to
/// its earlier count, if that is still in the list; otherwise it counts as a new flow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Heaviest {
    /// By packets that left, most first.
    left: Vec<(FlowKey, u64)>,
    /// By packets that were split.
    split: Vec<(FlowKey, u64)>,
    /// Packets of all flows.
    all: FlowPackets,
}

impl Heaviest {
    /// Flows kept of each kind.
    pub const MOST: usize = 16;

    /// Adds a flow that has ended.
    pub fn add(&mut self, key: &FlowKey, packets: FlowPackets) {
        enter(&mut self.left, key, packets.left);
        enter(&mut self.split, key, packets.split);
        self.count(packets);
    }

    fn count(&mut self, packets: FlowPackets) {
        self.all.left += packets.left;
        self.all.split += packets.split;
    }

    /// Adds the live flows, at the end of a run.
    pub fn add_all(&mut self, flows: &FlowTable, packets: impl Fn(FlowId) -> FlowPackets) {
        flows.flows().for_each(|(flow, key)| self.add(&key, packets(flow)));
    }

    /// Adds the list of another dispatcher, which has other flows.
    pub fn merge(&mut self, other: &Self) {
        other.left.iter().for_each(|(key, packets)| enter(&mut self.left, key, *packets));
        other.split.iter().for_each(|(key, packets)| enter(&mut self.split, key, *packets));
        self.count(other.all);
    }

    /// Returns the packets of all flows, the heaviest and the others.
    pub fn all(&self) -> FlowPackets {
        self.all
    }

    /// Returns the flows with the most packets that left, most first. Among equal ones, the lower key comes
    /// first.
    pub fn left(&self) -> &[(FlowKey, u64)] {
        &self.left
    }

    /// Returns the flows with the most packets that were split, most first. Among equal ones, the lower key
    /// comes first.
    pub fn split(&self) -> &[(FlowKey, u64)] {
        &self.split
    }
}

/// Adds packets of a flow to a list of the heaviest.
fn enter(list: &mut Vec<(FlowKey, u64)>, key: &FlowKey, mut packets: u64) {
    if packets == 0 {
        return;
    }
    if let Some(known) = list.iter().position(|(known, _)| known == key) {
        packets += list.remove(known).1;
    }
    let place = list.partition_point(|(other, count)| *count > packets || (*count == packets && other < key));
    if place < Heaviest::MOST {
        list.truncate(Heaviest::MOST - 1);
        list.insert(place, (*key, packets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> FlowKey {
        FlowKey { source_port: port, ..FlowKey::default() }
    }

    fn ports(list: &[(FlowKey, u64)]) -> Vec<(u16, u64)> {
        list.iter().map(|(key, packets)| (key.source_port, *packets)).collect()
    }

    #[test]
    fn the_heaviest_are_kept_and_a_flow_that_comes_back_is_one() {
        let mut heaviest = Heaviest::default();
        for port in 1..=40 {
            heaviest.add(&key(port), FlowPackets { left: u64::from(port), split: u64::from(port == 7) });
        }
        let expected: Vec<(u16, u64)> = (25..=40).rev().map(|port| (port, u64::from(port))).collect();
        assert_eq!(ports(heaviest.left()), expected);
        assert_eq!(ports(heaviest.split()), [(7, 1)]);
        heaviest.add(&key(30), FlowPackets { left: 11, split: 0 });
        assert_eq!(ports(heaviest.left())[..2], [(30, 41), (40, 40)]);
        assert_eq!(heaviest.left().len(), Heaviest::MOST);
        heaviest.add(&key(99), FlowPackets::default());
        assert!(!ports(heaviest.left()).contains(&(99, 0)));
    }

    #[test]
    fn of_equals_the_lower_key_is_first_whatever_the_order() {
        let list = |order: &[u16]| {
            let mut heaviest = Heaviest::default();
            order.iter().for_each(|&port| heaviest.add(&key(port), FlowPackets { left: 5, split: 5 }));
            ports(heaviest.split())
        };
        assert_eq!(list(&[3, 1, 2]), [(1, 5), (2, 5), (3, 5)]);
        assert_eq!(list(&(0..50).rev().collect::<Vec<_>>()), list(&(0..50).collect::<Vec<_>>()));
        let mut sum = Heaviest::default();
        let of = |port| {
            let mut one = Heaviest::default();
            one.add(&key(port), FlowPackets { left: 1, split: 0 });
            one
        };
        sum.merge(&of(2));
        sum.merge(&of(1));
        assert_eq!((ports(sum.left()), sum.all().left), (vec![(1, 1), (2, 1)], 2));
    }
}
