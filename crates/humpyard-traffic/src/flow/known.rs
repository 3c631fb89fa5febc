//! Finds flows by the numbers that their source gives them. A packet of a flow with a known number needs
//! neither its headers parsed nor a hash.

use humpyard_core::id::{ChainId, ClientId, FlowId, Id, ServiceId};
use humpyard_core::packet::Packet;

/// The entry of a number: all that the packets of its flow have in common, in half a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Known {
    number: u64,
    key: u64,
    /// The flow, plus one. 0: the entry is empty.
    flow: u32,
    client: ClientId,
    rss: u32,
    service: ServiceId,
    chain: ChainId,
}

impl Known {
    fn new(number: u64, packet: &Packet) -> Self {
        let &Packet { key, flow, client, rss, service, chain, .. } = packet;
        Self { number, key, flow: flow.0 + 1, client, rss, service, chain }
    }
}

/// The live flows by the numbers of their source. Dense numbers have a place for every flow of the table. If
/// numbers share a place, it has the latest one.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownFlows {
    entries: Vec<Known>,
    /// The number of each flow.
    numbers: Vec<u64>,
}

impl KnownFlows {
    /// Returns a packet of the live flow with this number; its length is not set.
    #[inline(always)]
    pub(super) fn find(&self, number: u64) -> Option<Packet> {
        let entry = self.entries.get(self.place(number))?;
        if entry.number != number || entry.flow == 0 {
            return None;
        }
        let &Known { key, client, rss, service, chain, .. } = entry;
        let flow = FlowId(entry.flow - 1);
        Some(Packet { key, flow, client, rss, service, chain, ..Packet::default() })
    }

    /// Returns the live flow with this number.
    #[inline]
    pub(super) fn find_flow(&self, number: u64) -> Option<u32> {
        let entry = self.entries.get(self.place(number))?;
        (entry.number == number && entry.flow > 0).then(|| entry.flow - 1)
    }

    /// Stores that the number means the flow of this packet. The flow's packets must equal this one, except for
    /// their lengths and whether they change the connection. The first call allocates memory for `capacity`
    /// flows.
    pub(super) fn add(&mut self, number: u64, packet: &Packet, capacity: usize) {
        if self.entries.is_empty() {
            self.entries = vec![Known::default(); capacity.next_power_of_two()];
            self.numbers = vec![0; capacity];
        }
        // Another number of the same flow would outlive the flow.
        self.remove(packet.flow);
        let place = self.place(number);
        self.entries[place] = Known::new(number, packet);
        self.numbers[packet.flow.index()] = number;
    }

    /// Removes a flow that has ended.
    pub(super) fn remove(&mut self, flow: FlowId) {
        let Some(&number) = self.numbers.get(flow.index()) else { return };
        let place = self.place(number);
        if self.entries[place].flow == flow.0 + 1 {
            self.entries[place] = Known::default();
        }
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & self.entries.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(flow: u32) -> Packet {
        let service = ServiceId(flow as u16 + 7);
        Packet {
            flow: FlowId(flow),
            key: 5,
            client: ClientId(6),
            rss: 8,
            service,
            chain: ChainId(9),
            ..Packet::default()
        }
    }

    #[test]
    fn numbers_are_known_while_their_flows_live() {
        let mut known = KnownFlows::default();
        assert_eq!(known.find(0), None);
        known.remove(FlowId(3));
        known.add(0, &Packet { length: 64, changes_connection: true, ..packet(2) }, 3);
        assert_eq!((known.find(0), known.find(1), known.find(4)), (Some(packet(2)), None, None));
        assert_eq!((known.find_flow(0), known.find_flow(1), known.find_flow(4)), (Some(2), None, None));
        known.add(4, &packet(1), 3);
        assert_eq!((known.find(0), known.find(4)), (None, Some(packet(1))), "they share a place");
        known.remove(FlowId(2));
        assert_eq!(known.find(4), Some(packet(1)), "another flow has its place");
        known.remove(FlowId(1));
        assert_eq!(known.find(4), None);
    }

    /// Two numbers may mean the same flow: the table keeps the latest.
    #[test]
    fn a_flow_has_one_number() {
        let mut known = KnownFlows::default();
        known.add(0, &packet(0), 4);
        known.add(1, &packet(0), 4);
        assert_eq!((known.find(0), known.find(1)), (None, Some(packet(0))));
        known.remove(FlowId(0));
        assert_eq!(known.find(1), None);
    }
}
