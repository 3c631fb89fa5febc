//! The part of the packets that one of several dispatchers gets.
//!
//! Each dispatcher is simulated by itself, with the packets of its connections. Dispatchers share the reader alone,
//! which takes all packets in their order and deals them out.

use humpyard_core::unit::Time;
use humpyard_traffic::{Headers, Spread};

/// The packets of one dispatcher, or of one worker without a dispatcher.
#[derive(Clone, Debug)]
pub struct Part {
    spread: Spread,
    /// Whether the dispatcher gets the packets of a place, by place of the spread.
    takes: Vec<bool>,
    /// The reader's time for a packet, in ns.
    deal: f64,
    /// Time that a packet takes from the reader to the dispatcher, in ns. Packets on the way do not keep the reader.
    on_the_way: f64,
    /// When the reader has dealt out all packets so far, in ns.
    dealt: f64,
}

impl Part {
    /// Returns the part that has these places of a spread. Its reader takes no time.
    pub fn new(spread: Spread, takes: Vec<bool>) -> Self {
        Self { spread, takes, deal: 0.0, on_the_way: 0.0, dealt: 0.0 }
    }

    /// Sets the time that the reader takes for each packet of the input, and that a packet is on the way to its
    /// dispatcher, in ns.
    #[must_use]
    pub fn with_reader(self, deal: f64, on_the_way: f64) -> Self {
        Self { deal, on_the_way, ..self }
    }

    /// Records the next packet of the input. Returns when the dispatcher can take it. `None`: another dispatcher gets
    /// it.
    pub(crate) fn next(&mut self, arrival: Time, headers: &Headers) -> Option<Time> {
        // A time of 2^53 ns, 104 days, is exact.
        self.dealt = self.dealt.max(arrival.as_ns() as f64) + self.deal;
        let is_mine = self.takes.get(self.spread.dispatcher_of(headers)).is_some_and(|&takes| takes);
        is_mine.then(|| Time::from_ns((self.dealt + self.on_the_way) as u64))
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;
    use humpyard_traffic::Tunnels;

    use super::*;

    #[test]
    fn the_reader_takes_one_packet_after_the_other() {
        let ns = Time::from_ns;
        let spread = Spread::new(2, Tunnels::NONE, Seed(1));
        let headers = Headers::default();
        let mine = spread.dispatcher_of(&headers);
        let part = |takes: usize| Part::new(spread.clone(), (0..2).map(|place| place == takes).collect());
        let mut at_once = part(mine);
        assert_eq!([5, 5, 9].map(|at| at_once.next(ns(at), &headers)), [5, 5, 9].map(|at| Some(ns(at))));
        let mut read = part(mine).with_reader(10.5, 0.0);
        assert_eq!([0, 5, 100].map(|at| read.next(ns(at), &headers)), [10, 21, 110].map(|at| Some(ns(at))));
        let mut sent = part(mine).with_reader(10.5, 50.0);
        assert_eq!([0, 5, 100].map(|at| sent.next(ns(at), &headers)), [60, 71, 160].map(|at| Some(ns(at))));
        assert_eq!(part(1 - mine).next(ns(5), &headers), None);
    }
}
