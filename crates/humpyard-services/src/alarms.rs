//! Alarms of detectors: a bounded list that the instances of a service share, and its report.

use core::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

use humpyard_core::unit::Time;

use crate::service::Counter;

/// The alarms of a service, each listed once, in the order in which they were raised. The list has a limit;
/// further alarms are not listed.
#[derive(Clone, Debug)]
pub(crate) struct Alarms<W> {
    /// The subject of each alarm, and the time of its first packet.
    raised: Vec<(W, Time)>,
    most: usize,
}

impl<W: Display + PartialEq> Alarms<W> {
    /// Returns an empty list for at most this many alarms.
    pub(crate) fn new(most: usize) -> Self {
        Self { raised: Vec::with_capacity(most), most }
    }

    /// Raises an alarm, unless there is one about the same subject. Returns its number, and whether it is new.
    /// All alarms that are not listed share the number after the last.
    pub(crate) fn raise(&mut self, what: W, first: Time) -> (usize, bool) {
        if let Some(number) = self.raised.iter().position(|(known, _)| *known == what) {
            return (number, false);
        }
        if self.raised.len() == self.most {
            return (self.most, true);
        }
        self.raised.push((what, first));
        (self.raised.len() - 1, true)
    }
}

/// The alarms that one instance has seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// New alarms raised by this instance.
    raised: u64,
    /// Packets of each alarm; the last entry counts the packets of alarms that are not listed.
    packets: Box<[u64]>,
}

impl Seen {
    /// Returns empty counts for at most this many alarms.
    pub(crate) fn new(most: usize) -> Self {
        Self { raised: 0, packets: vec![0; most + 1].into() }
    }

    /// Returns empty counts of the same size.
    pub(crate) fn anew(&self) -> Self {
        Self::new(self.packets.len() - 1)
    }

    /// Raises an alarm after this many packets. Returns its number.
    pub(crate) fn raise<W: Display + PartialEq>(
        &mut self,
        alarms: &mut Alarms<W>,
        what: W,
        first: Time,
        packets: u64,
    ) -> usize {
        let (number, new) = alarms.raise(what, first);
        self.raised += u64::from(new);
        self.add(number, packets);
        number
    }

    /// Counts more packets of an alarm.
    pub(crate) fn add(&mut self, number: usize, packets: u64) {
        self.packets[number] += packets;
    }

    /// Returns the report: the number of alarms, and for each listed alarm its subject, first time and packets.
    /// The names sort in the order of the alarms.
    pub(crate) fn counters<W: Display>(&self, alarms: &Alarms<W>) -> Vec<Counter> {
        let digits = alarms.most.to_string().len();
        let mut counters = vec![Counter::new("alarms", self.raised)];
        let unlisted = self.packets[alarms.most];
        if unlisted > 0 {
            counters.push(Counter::new("alarms_not_listed_packets", unlisted));
        }
        for (number, (what, first)) in alarms.raised.iter().enumerate() {
            let packets = self.packets[number];
            if packets > 0 {
                let (seconds, ns) = (first.as_ns() / 1_000_000_000, first.as_ns() % 1_000_000_000);
                let name = format!("alarm_{:0digits$} {what} at {seconds}.{ns:09}", number + 1);
                counters.push(Counter::new(name, packets));
            }
        }
        counters
    }
}

/// Locks data that instances share. If an instance panicked while it held the lock, counts are wrong by at most
/// one packet.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_raised_once_and_only_so_many_are_listed() {
        let mut alarms = Alarms::new(2);
        let (mut one, mut other) = (Seen::new(2), Seen::new(2));
        let first = Time::from_ns(1_000_000_005);
        assert_eq!(one.raise(&mut alarms, "a", first, 3), 0);
        assert_eq!(other.raise(&mut alarms, "b", first, 4), 1);
        assert_eq!(other.raise(&mut alarms, "a", Time::MAX, 5), 0);
        assert_eq!(one.raise(&mut alarms, "c", first, 6), 2);
        let expected = [("alarms", 2), ("alarms_not_listed_packets", 6), ("alarm_1 a at 1.000000005", 3)];
        assert_eq!(one.counters(&alarms), expected.map(|(name, count)| Counter::new(name, count)));
        let expected = [("alarms", 1), ("alarm_1 a at 1.000000005", 5), ("alarm_2 b at 1.000000005", 4)];
        assert_eq!(other.counters(&alarms), expected.map(|(name, count)| Counter::new(name, count)));
    }
}
