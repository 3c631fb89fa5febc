//! Finds flows by the numbers that their source gives them. A packet of a flow with a known number needs no look at its headers,
//! and no hash.

use humpyard_core::id::{FlowId, Id};

/// What is known of a number. All zero is nothing, so that memory never used is not taken.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    number: u64,
    /// The flow, plus one.
    flow: u32,
    /// What is noted beside it.
    note: u32,
}

/// The live flows by the numbers of their source. If numbers are dense, there is a place for every flow of the table. Of numbers
/// that share a place, the latest is known.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownFlows {
    entries: Vec<Known>,
    /// The number by which each flow is known.
    numbers: Vec<u64>,
}

impl KnownFlows {
    /// The live flow of this number, and what was noted beside it.
    #[inline]
    pub(super) fn find(&self, number: u64) -> Option<(u32, u32)> {
        let entry = self.entries.get(self.place(number))?;
        (entry.number == number && entry.flow > 0).then(|| (entry.flow - 1, entry.note))
    }

    /// Notes that the number means this flow. The first call takes memory for `capacity` flows.
    pub(super) fn add(&mut self, number: u64, flow: FlowId, note: u32, capacity: usize) {
        if self.entries.is_empty() {
            self.entries = vec![Known::default(); capacity.next_power_of_two()];
            self.numbers = vec![0; capacity];
        }
        // Another number of the same flow would outlive it.
        self.remove(flow);
        let place = self.place(number);
        self.entries[place] = Known { number, flow: flow.0 + 1, note };
        self.numbers[flow.index()] = number;
    }

    /// The flow has ended.
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

    #[test]
    fn numbers_are_known_while_their_flows_live() {
        let mut known = KnownFlows::default();
        assert_eq!(known.find(0), None);
        known.remove(FlowId(3));
        known.add(0, FlowId(2), 7, 3);
        assert_eq!((known.find(0), known.find(1), known.find(4)), (Some((2, 7)), None, None));
        known.add(4, FlowId(1), 8, 3);
        assert_eq!((known.find(0), known.find(4)), (None, Some((1, 8))), "they share a place");
        known.remove(FlowId(2));
        assert_eq!(known.find(4), Some((1, 8)), "another flow has its place");
        known.remove(FlowId(1));
        assert_eq!(known.find(4), None);
    }

    /// Two numbers may mean the same flow: it is known by the latest.
    #[test]
    fn a_flow_has_one_number() {
        let mut known = KnownFlows::default();
        known.add(0, FlowId(0), 0, 4);
        known.add(1, FlowId(0), 0, 4);
        assert_eq!((known.find(0), known.find(1)), (None, Some((0, 0))));
        known.remove(FlowId(0));
        assert_eq!(known.find(1), None);
    }
}
