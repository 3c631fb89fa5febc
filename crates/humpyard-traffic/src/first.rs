//! The first packets of a source.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use humpyard_core::frame::Frame;

use crate::error::TrafficError;
use crate::header::Headers;
use crate::source::{Numbered, NumberedFlows, Polled, Received, Source};
use crate::tunnel::Tunnels;

/// A source that ends after this many packets.
pub struct First<S> {
    source: S,
    left: u64,
    all: u64,
}

impl<S: Source> First<S> {
    /// Returns a source of this source's first packets.
    pub const fn new(source: S, packets: u64) -> Self {
        Self { source, left: packets, all: packets }
    }

    /// Counts the packet to read next. Returns false if the limit is reached.
    fn take(&mut self) -> bool {
        let any = self.left > 0;
        self.left = self.left.saturating_sub(1);
        any
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Source> Source for First<S> {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        if self.take() { self.source.next(frame) } else { Ok(false) }
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        if self.left == 0 {
            return Ok(Polled::End);
        }
        let polled = self.source.poll(frame)?;
        self.left -= u64::from(polled == Polled::Frame);
        Ok(polled)
    }

    fn poll_burst(&mut self, frames: &mut [Frame]) -> (usize, Result<Polled, TrafficError>) {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(frames.len());
        let (filled, found) = self.source.poll_burst(&mut frames[..most]);
        self.left -= filled as u64;
        // This source ends here, even if the inner one has more packets.
        let is_over = filled == most && most < frames.len();
        (filled, if is_over { Ok(Polled::End) } else { found })
    }

    fn next_headers(
        &mut self,
        frame: &mut Frame,
        tunnels: Tunnels,
        headers: &mut Headers,
    ) -> Result<bool, TrafficError> {
        if self.take() { self.source.next_headers(frame, tunnels, headers) } else { Ok(false) }
    }

    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>> {
        self.source.numbered_flows()
    }

    fn next_numbered(&mut self, packets: &mut Vec<Numbered>, most: usize) -> Result<bool, TrafficError> {
        let before = packets.len();
        let there_is = self.source.next_numbered(packets, most.min(self.left as usize))?;
        self.left -= (packets.len() - before) as u64;
        Ok(there_is && self.left > 0)
    }

    fn description(&self) -> &str {
        self.source.description()
    }

    fn progress(&self) -> Option<f64> {
        let given = 1.0 - self.left as f64 / self.all.max(1) as f64;
        Some(self.source.progress().map_or(given, |read| read.max(given)))
    }

    fn packets_left(&self) -> Option<u64> {
        Some(self.source.packets_left().map_or(self.left, |left| left.min(self.left)))
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.source.descriptors()
    }

    fn waiting(&self) -> Option<u64> {
        self.source.waiting()
    }

    fn hold(&mut self, frames: u64) {
        self.source.hold(frames);
    }

    fn close(&mut self) -> Result<(), TrafficError> {
        self.source.close()
    }

    fn received(&mut self) -> Result<Vec<Received>, TrafficError> {
        self.source.received()
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;
    use humpyard_core::unit::Time;

    use super::*;
    use crate::open;

    type Read = fn(&mut dyn Source, &mut Frame) -> bool;

    const READS: [Read; 4] = [
        |source, frame| source.next(frame).expect("no damage"),
        |source, frame| source.poll(frame).expect("no damage") == Polled::Frame,
        |source, frame| source.next_headers(frame, Tunnels::NONE, &mut Headers::default()).expect("no damage"),
        |source, frame| source.poll_burst(core::slice::from_mut(frame)).0 == 1,
    ];

    fn times(source: &mut dyn Source, read: Read) -> Vec<Time> {
        let mut frame = Frame::default();
        let mut times = Vec::new();
        while read(source, &mut frame) {
            times.push(frame.time);
        }
        assert!(!read(source, &mut frame), "the end is the end");
        times
    }

    #[test]
    fn it_has_the_first_packets_and_no_more() {
        let poisson = || open("gen:poisson:packets=10", Seed(1)).expect("a source");
        let all = times(&mut poisson(), READS[0]);
        for read in READS {
            for packets in [0, 1, 9, 10] {
                let mut first = First::new(poisson(), packets);
                assert_eq!(times(&mut first, read), all[..packets as usize]);
                assert_eq!(first.progress(), Some(1.0));
            }
            assert_eq!(times(&mut First::new(poisson(), 11), read), all);
        }
    }
}
