//! The intervals of a policy that adapts from time to time.

use humpyard_core::unit::Time;

/// An interval that begins with a packet. There is none while no packet arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    length: Time,
    end: Option<Time>,
    /// Whether a packet has arrived in this interval.
    is_busy: bool,
}

impl Interval {
    /// Creates intervals of this length.
    pub(super) fn new(length: Time) -> Self {
        Self { length, end: None, is_busy: false }
    }

    /// Returns the end of the current interval. `None`: there is no interval.
    pub(super) fn end(&self) -> Option<Time> {
        self.end
    }

    /// Records that a packet has arrived.
    #[inline]
    pub(super) fn on_packet(&mut self, now: Time) {
        self.is_busy = true;
        if self.end.is_none() {
            self.end = Some(now + self.length);
        }
    }

    /// Whether the interval is over. If it is, the next begins, unless no packet has arrived.
    pub(super) fn is_over(&mut self, now: Time) -> bool {
        let is_over = self.end.is_some_and(|end| now >= end);
        if is_over {
            self.end = self.is_busy.then_some(now + self.length);
            self.is_busy = false;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_begins_with_a_packet_and_the_next_if_there_was_one() {
        let at = Time::from_ns;
        let mut interval = Interval::new(at(10));
        assert_eq!((interval.end(), interval.is_over(at(100))), (None, false));
        interval.on_packet(at(103));
        interval.on_packet(at(104));
        assert_eq!((interval.end(), interval.is_over(at(112))), (Some(at(113)), false));
        assert!(interval.is_over(at(115)), "told late");
        assert_eq!(interval.end(), Some(at(125)));
        assert!(interval.is_over(at(125)) && !interval.is_over(at(125)));
        assert_eq!(interval.end(), None, "no packet came");
    }
}
