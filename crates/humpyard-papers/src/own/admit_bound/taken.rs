//! Measures the time that the machine took in a run: time in which packets waited, and which no packet was
//! charged for.

use core::time::Duration;

use humpyard_core::id::Id;
use humpyard_core::mechanism::{Arrival, Completed, Dispatch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use crate::harness::{Sees, Watched};

/// The observations of a run with one worker, which has one packet at a time.
#[derive(Debug)]
pub(super) struct Seen {
    /// This part of any time does not count as taken at once.
    part: f64,
    hand_over: Time,
    /// Greatest charge of a packet, relative to its estimate.
    most: f64,
    /// Packets that have arrived and are not done.
    waiting: u64,
    /// The time up to which the taken time is known.
    known: Time,
    /// Time taken at once up to now, and its maximum, without the part, in ns.
    level: f64,
    highest: f64,
    /// Time in which packets waited, and the charged part of it, in ns.
    lasted: f64,
    charged: f64,
    /// Greatest difference of a charge below the estimate, relative to the estimate.
    error: f64,
    /// Completion times of packets, with the sum of all charges by then, in ns.
    done: Vec<(Time, f64)>,
    /// Greatest charge for packets that were started after another packet was due and before it reached the
    /// scheduler, in ns.
    unseen: f64,
    /// The time at which each accepted packet reached the scheduler.
    reached: Vec<Time>,
    dispatched: Time,
    /// Sums of the parts of delay by service, in ns.
    parts: Vec<[f64; 4]>,
    /// Dropped packets, by service.
    dropped: Vec<u64>,
    /// Processing time of each packet by service, in ns.
    busy: Vec<Vec<f64>>,
}

impl Seen {
    /// Returns the greatest time taken at once.
    pub(super) fn at_once(&self) -> Duration {
        Duration::from_nanos(self.highest.ceil() as u64)
    }

    /// Returns the part of the time that was taken.
    pub(super) fn part(&self) -> f64 {
        if self.lasted > 0.0 { 1.0 - self.charged / self.lasted } else { 0.0 }
    }

    /// Returns the greatest difference of a charge below the estimate, relative to the estimate.
    pub(super) fn error(&self) -> f64 {
        self.error
    }

    /// Returns the mean times of a service's packets, in ns: until they reached the scheduler, in its queue, in
    /// the ring, and in service.
    pub(super) fn parts(&self, service: usize) -> [f64; 4] {
        self.parts[service].map(|sum| sum / self.busy[service].len().max(1) as f64)
    }

    /// Returns the greatest work, in ns, on packets that were started while another packet was due and the
    /// dispatcher had not seen it.
    pub(super) fn unseen(&self) -> f64 {
        self.unseen
    }

    /// Returns the dropped packets of a service.
    pub(super) fn dropped(&self, service: usize) -> u64 {
        self.dropped[service]
    }

    /// Returns the median processing time of a service's packets, in ns.
    pub(super) fn median(&self, service: usize) -> f64 {
        let mut busy = self.busy[service].clone();
        busy.sort_unstable_by(f64::total_cmp);
        busy.get(busy.len() / 2).copied().unwrap_or(0.0)
    }

    fn arrive(&mut self, now: Time, packet: &Packet) {
        if self.waiting == 0 && packet.arrival > self.known {
            (self.known, self.level) = (packet.arrival, 0.0);
        }
        self.waiting += 1;
        self.reached.push(now);
        // The first packet done after this one was due may have been started before.
        let first = self.done.partition_point(|&(finished, _)| finished <= packet.arrival);
        if let Some(&(_, before)) = self.done.get(first) {
            self.unseen = self.unseen.max(self.charged - before);
        }
    }

    fn complete(&mut self, packet: &Packet, finished: Time, busy: Time) {
        let estimate = packet.estimate as f64;
        let charged = ((busy + self.hand_over).as_ns() as f64).min(self.most * estimate);
        let lasted = finished.since(self.known).as_ns() as f64;
        self.level = self.level.max(0.0) + (1.0 - self.part) * lasted - charged;
        self.highest = self.highest.max(self.level);
        self.lasted += lasted;
        self.charged += charged;
        self.error = self.error.max(1.0 - charged / estimate);
        self.done.push((finished, self.charged));
        self.known = finished;
        self.waiting -= 1;
        let reached = self.reached[packet.sequence as usize];
        let begun = Time::from_ns(finished.as_ns().saturating_sub(busy.as_ns()));
        let service = packet.service.index();
        let parts = [reached.since(packet.arrival), self.dispatched.since(reached), begun.since(self.dispatched), busy];
        self.parts[service].iter_mut().zip(parts).for_each(|(sum, part)| *sum += part.as_ns() as f64);
        self.busy[service].push(busy.as_ns() as f64);
    }
}

/// Watches a run with these services. Its policy charges each packet the time of its hand-over, and in all at
/// most `most` times its estimate.
pub(super) fn watch(part: f64, hand_over: Duration, most: f64, services: usize) -> Watched<Seen> {
    Watched::new(Seen {
        part,
        hand_over: Time::from_ns(hand_over.as_nanos() as u64),
        most,
        waiting: 0,
        known: Time::ZERO,
        level: 0.0,
        highest: 0.0,
        lasted: 0.0,
        charged: 0.0,
        error: 0.0,
        done: Vec::new(),
        unseen: 0.0,
        reached: Vec::new(),
        dispatched: Time::ZERO,
        parts: vec![[0.0; 4]; services],
        dropped: vec![0; services],
        busy: vec![Vec::new(); services],
    })
}

impl Sees for Seen {
    fn on_arrival(&mut self, now: Time, packet: &Packet, arrival: Arrival) {
        match arrival {
            Arrival::Queued(_) => self.arrive(now, packet),
            Arrival::Dropped(_) => self.dropped[packet.service.index()] += 1,
        }
    }

    fn on_dispatch(&mut self, now: Time, _: &Dispatch) {
        self.dispatched = now;
    }

    fn on_completion(&mut self, completed: &Completed, finished: Time, busy: Time) {
        self.complete(&completed.packet, finished, busy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(ns: u64) -> Time {
        Time::from_ns(ns)
    }

    fn packet(sequence: u64, arrival: u64) -> Packet {
        Packet { sequence, arrival: ns(arrival), estimate: 100, ..Packet::default() }
    }

    #[test]
    fn what_nobody_is_charged_for_was_taken() {
        watch(0.25, Duration::from_nanos(10), 1.5, 1).with(what_was_taken);
    }

    fn what_was_taken(seen: &mut Seen) {
        seen.arrive(ns(1_004), &packet(0, 1_000));
        seen.arrive(ns(1_010), &packet(1, 1_010));
        seen.dispatched = ns(1_006);
        // Of 100 ns, 90 are charged for work and 10 for the hand-over; a fourth of them may be taken.
        seen.complete(&packet(0, 1_000), ns(1_100), ns(90));
        assert_eq!((seen.at_once(), seen.part(), seen.error()), (Duration::ZERO, 0.0, 0.0));
        // Interrupted for 900 ns: at most 150 are charged. Of 1,000 ns, 250 may be taken.
        seen.complete(&packet(1, 1_010), ns(2_100), ns(990));
        assert_eq!(seen.at_once(), Duration::from_nanos(600));
        assert!((seen.part() - 850.0 / 1_100.0).abs() < 1e-12);
        // It was due before both, and one of them was started since.
        seen.arrive(ns(2_150), &packet(2, 1_020));
        assert_eq!(seen.unseen(), 150.0);
        seen.complete(&packet(2, 1_020), ns(2_200), ns(90));
        // No packet waited, so no time was taken.
        seen.arrive(ns(9_000), &packet(3, 9_000));
        seen.complete(&packet(3, 9_000), ns(9_100), ns(80));
        assert_eq!(seen.at_once(), Duration::from_nanos(600));
        assert!((seen.error() - 0.1).abs() < 1e-12);
        assert_eq!((seen.parts(0)[3], seen.median(0)), ((2.0 * 90.0 + 990.0 + 80.0) / 4.0, 90.0));
    }
}
