//! What the machine took in a run: the time in which packets waited and that nobody was charged for.

use core::time::Duration;

use humpyard_core::id::Id;
use humpyard_core::mechanism::{Arrival, Completed, Dispatch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use crate::harness::{Sees, Watched};

/// What was seen of a run of one worker, which has one packet at a time.
#[derive(Debug)]
pub(super) struct Seen {
    /// Of any time this part is left out of what was taken at once.
    part: f64,
    hand_over: Time,
    /// The most that is charged, in times the estimate.
    most: f64,
    /// Packets that are there and not done.
    waiting: u64,
    /// Up to when it is known what was taken.
    known: Time,
    /// What was taken at once up to then, and at most, beside the part, in ns.
    level: f64,
    highest: f64,
    /// Time in which packets waited, and what of it was charged, in ns.
    lasted: f64,
    charged: f64,
    /// The most by which a packet was charged less than its estimate, as a part of that.
    error: f64,
    /// When packets were done, and what had been charged for all of them by then, in ns.
    done: Vec<(Time, f64)>,
    /// The most that was charged for packets that were begun between when another was due and when it reached the
    /// scheduler, in ns.
    unseen: f64,
    /// When each accepted packet reached the scheduler.
    reached: Vec<Time>,
    dispatched: Time,
    /// What the parts of delay sum up to by service, in ns.
    parts: Vec<[f64; 4]>,
    /// Packets that were dropped, by service.
    dropped: Vec<u64>,
    /// What each packet took by service, in ns.
    busy: Vec<Vec<f64>>,
}

impl Seen {
    /// What was taken at once at most.
    pub(super) fn at_once(&self) -> Duration {
        Duration::from_nanos(self.highest.ceil() as u64)
    }

    /// The part of the time that was taken.
    pub(super) fn part(&self) -> f64 {
        if self.lasted > 0.0 { 1.0 - self.charged / self.lasted } else { 0.0 }
    }

    /// The most by which a packet was charged less than its estimate, as a part of that.
    pub(super) fn error(&self) -> f64 {
        self.error
    }

    /// Of the packets of a service, the mean times until they reached the scheduler, in its queue, in the ring, and in
    /// service, in ns.
    pub(super) fn parts(&self, service: usize) -> [f64; 4] {
        self.parts[service].map(|sum| sum / self.busy[service].len().max(1) as f64)
    }

    /// The most that was done, of packets that were begun meanwhile, while one was due and the dispatcher had not seen
    /// it, in ns.
    pub(super) fn unseen(&self) -> f64 {
        self.unseen
    }

    /// Packets of a service that were dropped.
    pub(super) fn dropped(&self, service: usize) -> u64 {
        self.dropped[service]
    }

    /// What half of the packets of a service took at most, in ns.
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
        // The first that was done after it was due may have been begun before.
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

/// Watches a run with these services, whose policy charges each packet what handing it over takes, and in all at most
/// `most` times its estimate.
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
        // Charged 90 for its work and 10 for being handed over, of 100 that passed: a fourth of them may be taken.
        seen.complete(&packet(0, 1_000), ns(1_100), ns(90));
        assert_eq!((seen.at_once(), seen.part(), seen.error()), (Duration::ZERO, 0.0, 0.0));
        // Interrupted for 900: charged 150 at most. Of 1,000 that passed 250 may be taken.
        seen.complete(&packet(1, 1_010), ns(2_100), ns(990));
        assert_eq!(seen.at_once(), Duration::from_nanos(600));
        assert!((seen.part() - 850.0 / 1_100.0).abs() < 1e-12);
        // It was due before both, of which one was begun since.
        seen.arrive(ns(2_150), &packet(2, 1_020));
        assert_eq!(seen.unseen(), 150.0);
        seen.complete(&packet(2, 1_020), ns(2_200), ns(90));
        // Nobody waited, so nothing was taken.
        seen.arrive(ns(9_000), &packet(3, 9_000));
        seen.complete(&packet(3, 9_000), ns(9_100), ns(80));
        assert_eq!(seen.at_once(), Duration::from_nanos(600));
        assert!((seen.error() - 0.1).abs() < 1e-12);
        assert_eq!((seen.parts(0)[3], seen.median(0)), ((2.0 * 90.0 + 990.0 + 80.0) / 4.0, 90.0));
    }
}
