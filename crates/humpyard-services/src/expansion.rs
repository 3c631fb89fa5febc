//! Counts how much longer or shorter a service makes packets.

use crate::service::Counter;

/// Packets, and their bytes before and after: the expansion factor is the ratio of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Expansion {
    packets: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Expansion {
    /// Records a frame's length in bytes before and after.
    #[inline]
    pub(crate) fn record(&mut self, bytes_in: usize, bytes_out: usize) {
        self.packets += 1;
        self.bytes_in += bytes_in as u64;
        self.bytes_out += bytes_out as u64;
    }

    /// Adds a frame that the service generated.
    #[inline]
    pub(crate) fn add(&mut self, bytes_out: usize) {
        self.bytes_out += bytes_out as u64;
    }

    /// Returns the counters; `packets` names the first of them.
    pub(crate) fn counters(&self, packets: &str) -> Vec<Counter> {
        vec![
            Counter::new(packets, self.packets),
            Counter::new("bytes_in", self.bytes_in),
            Counter::new("bytes_out", self.bytes_out),
        ]
    }
}
