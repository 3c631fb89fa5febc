//! By how much a service makes packets longer or shorter.

use crate::service::Counter;

/// Packets and their bytes before and after: the expansion factor is the ratio of the two.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Expansion {
    packets: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Expansion {
    /// A frame of so many bytes has become one of so many.
    #[inline]
    pub(crate) fn record(&mut self, bytes_in: usize, bytes_out: usize) {
        self.packets += 1;
        self.bytes_in += bytes_in as u64;
        self.bytes_out += bytes_out as u64;
    }

    /// A frame was made beside those that came.
    #[inline]
    pub(crate) fn add(&mut self, bytes_out: usize) {
        self.bytes_out += bytes_out as u64;
    }

    /// As counters, the first called by what was done to packets.
    pub(crate) fn counters(&self, packets: &str) -> Vec<Counter> {
        vec![
            Counter::new(packets, self.packets),
            Counter::new("bytes_in", self.bytes_in),
            Counter::new("bytes_out", self.bytes_out),
        ]
    }
}
