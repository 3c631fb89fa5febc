//! Samples of a long record in bounded memory: neighbours are merged, so that fewer and longer samples are left.

use crate::steer_record::{HandedSample, HeavyFlow, RecordHead, SteerRecord, SteerSample};

/// The most samples that are kept.
const SAMPLES_MAX: usize = 6_000;
/// The most buckets, queues, processors and flows that are kept of all samples together: about 100 MB.
const ENTRIES_MAX: usize = 4_000_000;
/// The most flows of a merged sample; the lightest are left out.
const FLOWS_MAX: usize = 64;

/// The samples of a record. Once there are more than 6,000, or four million buckets in them, each two neighbours are
/// merged, and later samples are merged as they come: sums stay as they are, and the time between two samples doubles.
#[derive(Debug)]
pub struct SampleStore {
    head: RecordHead,
    samples: Vec<SteerSample>,
    /// The number of the interface's samples that each sample here has; the last one has `last` of them.
    together: u64,
    last: u64,
    entries: usize,
    /// The most samples and entries.
    most: (usize, usize),
}

impl SampleStore {
    /// Returns a store without samples.
    pub const fn new(head: RecordHead) -> Self {
        Self::with_room(head, (SAMPLES_MAX, ENTRIES_MAX))
    }

    const fn with_room(head: RecordHead, most: (usize, usize)) -> Self {
        Self { head, samples: Vec::new(), together: 1, last: 0, entries: 0, most }
    }

    /// Adds a sample that ends later than all others.
    pub fn push(&mut self, sample: SteerSample) {
        match self.samples.last_mut().filter(|_| self.last < self.together) {
            Some(last) => {
                self.entries -= entries(last);
                merge(last, sample);
                self.last += 1;
                self.entries += entries(last);
            }
            None => {
                self.entries += entries(&sample);
                self.samples.push(sample);
                self.last = 1;
            }
        }
        while self.samples.len() > 1 && (self.samples.len() > self.most.0 || self.entries > self.most.1) {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let mut samples = std::mem::take(&mut self.samples).into_iter();
        // The last of an even number is merged with a whole one.
        self.last += if samples.len().is_multiple_of(2) { self.together } else { 0 };
        while let Some(mut sample) = samples.next() {
            if let Some(next) = samples.next() {
                merge(&mut sample, next);
            }
            self.samples.push(sample);
        }
        self.entries = self.samples.iter().map(entries).sum();
        self.together *= 2;
    }

    /// Returns how many samples there are.
    pub const fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there is no sample yet.
    pub const fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Returns the record. Its head has the time between two samples that are left.
    pub fn finish(self) -> SteerRecord {
        let mut head = self.head;
        head.every_ns = head.every_ns.saturating_mul(self.together);
        SteerRecord { head, samples: self.samples }
    }
}

fn entries(sample: &SteerSample) -> usize {
    sample.buckets.len() + sample.queues.len() + sample.processors.len() + sample.flows.len()
}

/// Adds what came in the next sample.
fn merge(sample: &mut SteerSample, next: SteerSample) {
    sample.time_ns = next.time_ns;
    sample.napi_threads = next.napi_threads;
    add(
        &mut sample.buckets,
        next.buckets,
        |one| (one.bucket, one.processor),
        |sum, one| {
            sum.packets += one.packets;
            sum.bytes += one.bytes;
        },
    );
    add(
        &mut sample.queues,
        next.queues,
        |one| (one.queue, one.processor),
        |sum, one| {
            sum.packets += one.packets;
            sum.bytes += one.bytes;
        },
    );
    add(
        &mut sample.processors,
        next.processors,
        |one| one.processor,
        |sum, one| {
            sum.softirq_ns += one.softirq_ns;
            sum.system_ns += one.system_ns;
            sum.user_ns += one.user_ns;
            sum.idle_ns += one.idle_ns;
            sum.packets += one.packets;
            sum.dropped += one.dropped;
        },
    );
    add(
        &mut sample.flows,
        next.flows,
        |one| one.flow.clone(),
        |sum, one| {
            sum.packets += one.packets;
            sum.bytes += one.bytes;
        },
    );
    sample.flows.sort_by_key(|flow: &HeavyFlow| core::cmp::Reverse(flow.packets));
    sample.flows.truncate(FLOWS_MAX);
    sample.handed = match (sample.handed, next.handed) {
        (Some(one), Some(other)) => {
            let (missing, overtaken) = (one.missing + other.missing, one.overtaken + other.overtaken);
            Some(HandedSample { missing, overtaken })
        }
        (one, other) => one.or(other),
    };
}

/// Adds each of `more` to the one with its key.
fn add<T, K: Ord>(all: &mut Vec<T>, more: Vec<T>, key: impl Fn(&T) -> K, sum: impl Fn(&mut T, &T)) {
    all.extend(more);
    all.sort_by_key(&key);
    all.dedup_by(|later, earlier| {
        let is_same = key(later) == key(earlier);
        if is_same {
            sum(earlier, later);
        }
        is_same
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::steer_record::{BucketSample, ProcessorSample};

    fn head() -> RecordHead {
        RecordHead::new("eth0", 2, 1024, Duration::from_millis(100), 16)
    }

    /// A packet of one bucket in this many, and a flow now and then.
    fn sample(number: u64, buckets: u64) -> SteerSample {
        let bucket = (number % buckets) as u32;
        let processor = ProcessorSample {
            processor: 0,
            softirq_ns: 3,
            system_ns: 4,
            user_ns: 5,
            idle_ns: 6,
            packets: 1,
            dropped: number % 2,
        };
        let flow = HeavyFlow { flow: format!("flow {number}"), protocol: 6, port: 1, packets: number, bytes: 7 };
        SteerSample {
            time_ns: number * 100_000_000,
            buckets: vec![BucketSample { bucket, processor: 0, packets: 1, bytes: 500 }],
            processors: vec![processor],
            flows: if number.is_multiple_of(10) { vec![flow] } else { Vec::new() },
            ..SteerSample::default()
        }
    }

    /// A day, by samples of 100 ms.
    #[test]
    fn a_day_takes_no_more_room_than_ten_minutes() {
        let (all, mut store) = (864_000, SampleStore::new(head()));
        for number in 1..=all {
            store.push(sample(number, 50));
            assert!(store.len() <= SAMPLES_MAX && store.entries <= ENTRIES_MAX);
        }
        let record = store.finish();
        let together = record.head.every_ns / 100_000_000;
        assert_eq!(together, 256);
        assert_eq!(record.samples.len() as u64, all.div_ceil(together));
        assert_eq!(record.length(), Duration::from_secs(86_400));
        assert!(record.samples.is_sorted_by_key(|sample| sample.time_ns));
        assert_eq!(record.samples[0].time_ns, record.head.every_ns);
        let packets = |sample: &SteerSample| sample.buckets.iter().map(|found| found.packets).sum::<u64>();
        assert_eq!(record.samples.iter().map(packets).sum::<u64>(), all);
        assert!(record.samples[..100].iter().all(|sample| packets(sample) == 256 && sample.buckets.len() == 50));
        let softirq: u64 = record.samples.iter().map(|sample| sample.processors[0].softirq_ns).sum();
        assert_eq!((softirq, record.samples[0].processors[0].dropped), (3 * all, 128));
        assert_eq!(record.samples[0].flows[0].flow, "flow 250", "the heaviest comes first");
    }

    /// With many buckets there are fewer samples.
    #[test]
    fn buckets_have_bounded_room_too() {
        let mut store = SampleStore::with_room(head(), (1000, 90));
        (1..=500).for_each(|number| {
            store.push(sample(number, 20));
            assert!(store.entries <= 90, "{}", store.entries);
        });
        let record = store.finish();
        let packets = record.samples.iter().flat_map(|sample| &sample.buckets).map(|found| found.packets);
        assert_eq!(packets.sum::<u64>(), 500);
    }

    #[test]
    fn a_short_record_stays_as_it_is() {
        let mut store = SampleStore::new(head());
        (1..=600).for_each(|number| store.push(sample(number, 20)));
        let record = store.finish();
        assert_eq!((record.head, record.samples.len()), (head(), 600));
        assert_eq!(record.samples[599], sample(600, 20));
    }
}
