//! A clock driven by the times of packets.

use humpyard_core::unit::Time;

/// The greatest lateness of a packet: workers and interfaces reorder packets. A packet that is earlier than
/// others by more shows that the clock of the capture was set back.
const LATE_MAX: Time = Time::from_ns(1_000_000_000);

/// The time since the first packet, from the times of packets. It never goes back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketTime {
    /// The latest time of a packet since the clock was last set back.
    latest: Option<Time>,
    elapsed: Time,
}

impl PacketTime {
    /// Takes the time of a packet. Returns the time since the first packet. When the clock is set back, the
    /// time stands still.
    #[inline]
    pub(crate) fn advance(&mut self, time: Time) -> Time {
        let latest = self.latest.unwrap_or(time);
        self.elapsed += time.since(latest);
        if self.latest.is_none() || time > latest || latest.since(time) > LATE_MAX {
            self.latest = Some(time);
        }
        self.elapsed
    }

    /// Returns the time of the latest packet.
    pub(crate) fn latest(&self) -> Time {
        self.latest.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_and_stands_still_but_never_goes_back() {
        const SECOND: u64 = 1_000_000_000;
        let mut time = PacketTime::default();
        for (seconds, elapsed) in [(100, 0), (101, 1), (100, 1), (102, 2), (50, 2), (53, 5), (1_053, 1_005)] {
            assert_eq!(time.advance(Time::from_ns(seconds * SECOND)), Time::from_ns(elapsed * SECOND), "{seconds} s");
        }
        assert_eq!(time.advance(Time::MAX), time.advance(Time::ZERO));
    }
}
