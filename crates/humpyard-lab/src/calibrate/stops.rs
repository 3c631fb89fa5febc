//! Finds how a thread was interrupted from the packets that it served.
//!
//! A thread that looks at the clock all the time sees how long it was stopped. A thread that serves
//! packets loses more: after a stop its caches and branch predictors are cold. Here packets come
//! evenly to a thread that is hardly loaded, so each that waits waited for a stop.

use super::machine::Stop;
use super::threads::{BURST, PacketTimes};

/// When a packet came and when its service ended, in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ServedPacket {
    pub(super) arrival: u64,
    pub(super) finished: u64,
}

/// Longest time between packets at which these show when a stop began, in ns.
pub(super) const APART_MAX: f64 = 5_000.0;
/// The beginning of a run, in which caches are cold, in ns.
const WARM_UP: u64 = 50_000_000;
/// Shortest stop, in ns.
const STOP: f64 = 1_000.0;

/// Returns when the thread was stopped that served these packets, and for how long. `half` has the times of such
/// a packet that waits for nothing, and `take_in` is the time to take one in.
pub(super) fn stops(served: &[ServedPacket], half: &PacketTimes, take_in: f64) -> Vec<Stop> {
    let begin = served.first().map_or(0, |packet| packet.arrival + WARM_UP);
    let first = served.partition_point(|packet| packet.finished < begin);
    let stop = |pair: &[ServedPacket]| {
        let [before, packet] = [pair[0], pair[1]];
        let free = before.finished.max(packet.arrival);
        let gap = packet.finished.saturating_sub(free) as f64;
        // The thread takes in all that has come, at most a burst, before it serves the first.
        let came = (packet.finished.saturating_sub(packet.arrival) as f64 / half.apart).min(BURST);
        let length = gap - half.delay - came * take_in;
        // A stop of an idle thread began at any time before the packet came.
        let idle = packet.arrival.saturating_sub(before.finished) / 2;
        (length > STOP).then(|| (free - idle - begin.min(free - idle), length as u64 + idle))
    };
    served[first..].windows(2).filter_map(stop).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns packets that come every us and take 500 ns each, of a thread that stops at these times.
    fn served(stops: &[Stop]) -> Vec<ServedPacket> {
        let mut free = 0;
        let packet = |number: u64| {
            let arrival = 1_000 * number;
            let mut finished = free.max(arrival) + 500;
            for &(begin, length) in stops {
                let begin = begin + WARM_UP;
                if (free..finished).contains(&begin) {
                    finished = finished.max(begin + length + 500);
                }
            }
            free = finished;
            ServedPacket { arrival, finished }
        };
        (0..100_000).map(packet).collect()
    }

    #[test]
    fn stops_are_found_from_the_packets_that_waited() {
        let half = PacketTimes { apart: 1_000.0, delay: 500.0, ..PacketTimes::default() };
        assert_eq!(stops(&served(&[]), &half, 0.0), []);
        let found = stops(&served(&[(4_000_200, 35_000), (8_000_700, 100_000)]), &half, 0.0);
        assert_eq!(found.len(), 2, "{found:?}");
        for (&(begin, length), expected) in found.iter().zip([(4_000_200, 35_000), (8_000_700, 100_000)]) {
            assert!(begin.abs_diff(expected.0) < 1_000 && length.abs_diff(expected.1) < 1_000, "{found:?}");
        }
        // Taking in a burst before the first of it is served is no stop.
        let shorter = stops(&served(&[(4_000_200, 35_000)]), &half, 100.0);
        assert_eq!(found[0].1 - shorter[0].1, 3_200);
    }
}
