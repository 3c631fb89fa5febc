//! The counts so far, for observers of a running run. Counts never fall.

use alloc::string::String;
use alloc::vec::Vec;

use super::Histogram;
use crate::unit::Time;

/// All counts that cost nothing beyond the measurements.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Bytes processed.
    pub bytes: u64,
    /// From coming in to leaving.
    pub delay: DelayTally,
    /// Packets later than their service, or their chain of services, tolerates, and packets lost.
    pub late: u64,
    /// Packets lost before they left. They have no delay, and count in addition to those that have
    /// one.
    pub lost: u64,
    /// Packets that left after a later packet of their flow.
    pub out_of_order: u64,
    /// By core.
    pub cores: Vec<CoreTally>,
    /// By service.
    pub services: Vec<ServiceTally>,
}

/// Delays so far, without those of the warm-up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DelayTally {
    /// Their sum, in ns.
    pub sum: u128,
    /// For each used bucket, the greatest delay that it can hold, in ns, ascending, and its count
    /// ([`Histogram::buckets`]).
    pub buckets: Vec<(u64, u64)>,
}

impl Tally {
    /// Adds the counts of another dispatcher. Its cores follow those here; its services are the
    /// same.
    pub fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.delay.add(&other.delay);
        self.late += other.late;
        self.lost += other.lost;
        self.out_of_order += other.out_of_order;
        self.cores.extend(other.cores);
        if self.services.is_empty() {
            self.services = other.services;
            return;
        }
        for (service, other) in self.services.iter_mut().zip(&other.services) {
            service.packets += other.packets;
            service.bytes += other.bytes;
            service.delay.add(&other.delay);
            service.late += other.late;
            service.lost += other.lost;
            service.waiting += other.waiting;
        }
    }
}

impl DelayTally {
    /// Adds other delays.
    pub fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        for &(highest, count) in &other.buckets {
            match self.buckets.binary_search_by_key(&highest, |&(highest, _)| highest) {
                Ok(at) => self.buckets[at].1 += count,
                Err(at) => self.buckets.insert(at, (highest, count)),
            }
        }
    }

    /// The values of this histogram, in ns.
    pub fn of(histogram: &Histogram) -> Self {
        Self { sum: histogram.sum(), buckets: histogram.buckets() }
    }
}

/// One core so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreTally {
    /// Time busy with packets that are done.
    pub busy: Time,
    /// Packets served.
    pub packets: u64,
    /// Times it went to another service.
    pub switches: u64,
    /// Packets whose predecessor had another service.
    pub cold: u64,
}

/// One service so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServiceTally {
    /// Its name.
    pub name: String,
    /// Packets processed.
    pub packets: u64,
    /// Bytes processed.
    pub bytes: u64,
    /// From arrival to completion.
    pub delay: DelayTally,
    /// The delay beyond which a packet is late.
    pub tolerance: Time,
    /// Packets later than that, and packets dropped before the service was done with them.
    pub late: u64,
    /// Packets dropped before the service was done with them.
    pub lost: u64,
    /// Packets waiting now.
    pub waiting: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn tallies_of_two_dispatchers_add_up() {
        let service = |buckets: Vec<(u64, u64)>| ServiceTally {
            packets: 2,
            delay: DelayTally { sum: 5, buckets },
            ..ServiceTally::default()
        };
        let tally = |buckets| Tally {
            bytes: 7,
            cores: vec![CoreTally::default()],
            services: vec![service(buckets)],
            ..Tally::default()
        };
        let mut sum = Tally::default();
        sum.add(tally(vec![(3, 1), (9, 2)]));
        sum.add(tally(vec![(1, 1), (9, 4), (12, 1)]));
        assert_eq!((sum.bytes, sum.cores.len(), sum.services[0].packets), (14, 2, 4));
        assert_eq!(sum.services[0].delay, DelayTally { sum: 10, buckets: vec![(1, 1), (3, 1), (9, 6), (12, 1)] });
    }
}
