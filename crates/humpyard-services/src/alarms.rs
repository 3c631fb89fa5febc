//! Alarms that detectors raise: a bounded list, which the instances of a service share, and the report of it.

use core::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

use humpyard_core::unit::Time;

use crate::service::Counter;

/// The alarms of a service, each once, in the order in which they were raised. Those beyond the most are not listed.
#[derive(Clone, Debug)]
pub(crate) struct Alarms<W> {
    /// What each is about, and when it was first raised.
    raised: Vec<(W, Time)>,
    most: usize,
}

impl<W: Display + PartialEq> Alarms<W> {
    /// A list of at most so many.
    pub(crate) fn new(most: usize) -> Self {
        Self { raised: Vec::with_capacity(most), most }
    }

    /// Raises an alarm, or the one that there is about the same: its number, and whether it is new. All that are not listed have
    /// the number behind the last.
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

/// What one instance has seen of the alarms.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// New alarms that it raised.
    raised: u64,
    /// Packets of each alarm, and last of all that are not listed.
    packets: Box<[u64]>,
}

impl Seen {
    /// Nothing yet, of at most so many alarms.
    pub(crate) fn new(most: usize) -> Self {
        Self { raised: 0, packets: vec![0; most + 1].into() }
    }

    /// As it was in the beginning.
    pub(crate) fn anew(&self) -> Self {
        Self::new(self.packets.len() - 1)
    }

    /// Raises an alarm, which so many packets led to; its number.
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

    /// More packets of an alarm.
    pub(crate) fn add(&mut self, number: usize, packets: u64) {
        self.packets[number] += packets;
    }

    /// The report: how many alarms, and of each that is listed what, since when and how many packets, in names that sort as the
    /// alarms were raised.
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

/// Locks what instances share. One that panicked while it held the lock left counts behind that are a packet off at most.
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
