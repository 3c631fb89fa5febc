//! Packets that ports lose after the warm-up, which are measured.

use humpyard_core::unit::Time;
use humpyard_traffic::sink::Sent;
use humpyard_traffic::source::Received;

/// Returns the packets that interfaces have lost so far on the way in.
pub(crate) fn received(ports: &[Received]) -> u64 {
    ports.iter().map(Received::lost).sum()
}

/// Returns the packets that interfaces have lost so far on the way out.
pub(crate) fn sent(ports: &[Sent]) -> u64 {
    ports.iter().map(Sent::lost).sum()
}

/// The warm-up of a thread that measures it alone: it lasts for a given time from the first packet
/// on.
#[derive(Debug)]
pub(crate) struct WarmUp {
    time: Time,
    first: Option<Time>,
    /// Packets lost when the warm-up ended. `None`: it is not over.
    before: Option<u64>,
}

impl WarmUp {
    /// Returns a warm-up of this length.
    pub(crate) fn new(time: Time) -> Self {
        Self { time, first: None, before: (time == Time::ZERO).then_some(0) }
    }

    /// Whether the warm-up is not over.
    pub(crate) const fn lasts(&self) -> bool {
        self.before.is_none()
    }

    /// Updates the warm-up after a packet has come; `lost` returns the packets lost so far.
    pub(crate) fn on_time(&mut self, now: Time, lost: impl FnOnce() -> u64) {
        let first = *self.first.get_or_insert(now);
        if self.lasts() && now.since(first) >= self.time {
            self.before = Some(lost());
        }
    }

    /// Returns the packets lost after the warm-up, from the number lost in all.
    pub(crate) fn lost(&self, lost: u64) -> u64 {
        self.before.map_or(0, |before| lost - before.min(lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_in_the_warm_up_does_not_count() {
        let mut none = WarmUp::new(Time::ZERO);
        none.on_time(Time::from_ns(3), || 9);
        assert_eq!((none.lasts(), none.lost(9)), (false, 9));
        let mut warm_up = WarmUp::new(Time::from_ns(10));
        for (now, lost, counts) in [(100, 4, 0), (109, 5, 0), (110, 6, 0), (120, 8, 2)] {
            warm_up.on_time(Time::from_ns(now), || lost);
            assert_eq!(warm_up.lost(lost), counts, "{now}");
        }
    }

    #[test]
    fn what_an_interface_refuses_is_lost_and_what_services_made_is_not() {
        let port = Sent { full: 1, too_long: 2, down: 4, made: 8, discarded: 16, ..Sent::default() };
        assert_eq!(sent(&[port.clone(), port]), 14);
        let port = Received { missed: 1, malformed: 2, left: 4, passed: 8, ..Received::default() };
        assert_eq!(received(&[port]), 3);
    }
}
