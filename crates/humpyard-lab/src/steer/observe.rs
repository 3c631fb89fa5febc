//! Looks at an interface, sample by sample.

use core::sync::atomic::{AtomicBool, Ordering};
use std::fs;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use humpyard_core::random::Seed;
use humpyard_wire::{
    BucketCounters, FLOW_SAMPLE, FlowCount, HandOver, Hashing, NapiThreads, PacketCount, ProcessorCount, ThreadTime,
    processors, receive_masks,
};

use humpyard_traffic::TrafficError;

use crate::LabError;
use humpyard_traffic::steer_record::{
    BucketSample, HandedSample, HeavyFlow, ProcessorSample, QueueSample, RecordHead, SteerRecord, SteerSample,
};
use humpyard_traffic::steer_samples::SampleStore;

/// Flows that a sample names.
const HEAVY_FLOWS: usize = 16;
/// How often the flows are read: each takes three system calls.
const FLOWS_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether to stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// How an interface is looked at.
#[derive(Clone, Debug)]
pub struct ObserveOptions {
    /// The interface.
    pub interface: String,
    /// The time between two samples.
    pub every: Duration,
    /// How long to look. `None`: until told to stop.
    pub longest: Option<Duration>,
    /// There are 2 to the power of this many buckets, 16 at most.
    pub bucket_bits: u32,
    /// Whether packets in tunnels are hashed by the packet inside.
    pub inner: bool,
    /// The key of the hash.
    pub seed: Seed,
}

/// Looks at an interface and changes nothing. Calls `on_sample` with each sample, and writes the lines of the record to
/// `record`, which has a name for errors. Merges samples of a long look in what it returns ([`SampleStore`]).
///
/// # Errors
/// If the interface cannot be observed, or the record not written.
pub fn observe(
    options: &ObserveOptions,
    stop: &AtomicBool,
    mut record: Option<(&str, &mut dyn Write)>,
    on_sample: &mut dyn FnMut(&RecordHead, &SteerSample),
) -> Result<SteerRecord, LabError> {
    let hashing = Hashing { bits: options.bucket_bits, seed: options.seed, inner: options.inner };
    let counters = BucketCounters::observe(&options.interface, hashing)?;
    let mut head =
        RecordHead::new(&options.interface, counters.processors(), hashing.buckets(), options.every, FLOW_SAMPLE);
    (head.native, (head.queues, head.rps)) = (counters.is_native(), queues(&options.interface));
    let mut keep = |line: Result<String, serde_json::Error>| {
        let line = line.expect("a record is numbers and texts");
        let Some((name, record)) = &mut record else { return Ok(()) };
        writeln!(record, "{line}")
            .map_err(|error| LabError::option(format!("--record: `{name}` cannot be written: {error}")))
    };
    keep(serde_json::to_string(&head))?;
    let begin = Instant::now();
    let mut threads = NapiThreads::of(&options.interface);
    let mut last = Look::at(&counters)?.with(&mut threads);
    let (mut store, mut taken) = (SampleStore::new(head.clone()), 0);
    let mut flows = HeavyFlows::new(&last, head.processors);
    let index = index_of(&options.interface);
    loop {
        let goes_on = wait(begin, options, taken, stop);
        // Ctrl-C cuts a sample short.
        if !goes_on && (taken == 0 || !stop.load(Ordering::Relaxed)) {
            break;
        }
        check_there(&options.interface, index)?;
        let look = Look::at(&counters)?.with(&mut threads);
        let elapsed = begin.elapsed();
        let is_last = !goes_on || options.longest.is_some_and(|longest| elapsed >= longest);
        let flows = flows.read(&look, elapsed, is_last, |most| counters.heavy_flows(most))?;
        let sample = SteerSample { time_ns: elapsed.as_nanos() as u64, flows, ..look.since(&last, head.processors) };
        keep(serde_json::to_string(&sample))?;
        on_sample(&head, &sample);
        store.push(sample);
        (last, taken) = (look, taken + 1);
        if !goes_on {
            break;
        }
    }
    Ok(store.finish())
}

/// Waits for the end of the next sample. `false`: it is over, with at least one sample unless it was stopped before.
pub(super) fn wait(begin: Instant, options: &ObserveOptions, samples: usize, stop: &AtomicBool) -> bool {
    let elapsed = begin.elapsed();
    if options.longest.is_some_and(|longest| elapsed >= longest) && samples > 0 {
        return false;
    }
    let end = begin + options.every * (samples as u32 + 1);
    let end = options.longest.map_or(end, |longest| end.min(begin + longest));
    while Instant::now() < end {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        sleep(PATIENCE.min(end.saturating_duration_since(Instant::now())));
    }
    !stop.load(Ordering::Relaxed)
}

/// All counters at one time.
#[derive(Clone)]
pub(super) struct Look {
    buckets: Vec<PacketCount>,
    queues: Vec<PacketCount>,
    processors: Vec<ProcessorCount>,
    handed: Option<HandOver>,
    threads: Vec<ThreadTime>,
    /// How many there are. `None`: the interface has no threads.
    napi_threads: Option<u32>,
}

impl Look {
    pub(super) fn at(counters: &BucketCounters) -> Result<Self, LabError> {
        let look = Self::of(counters.counts()?)?;
        Ok(Self { queues: counters.queue_counts()?, handed: counters.handed_over()?, ..look })
    }

    /// Counters by bucket, and what processors did until now.
    pub(super) fn of(buckets: Vec<PacketCount>) -> Result<Self, LabError> {
        let processors = processors()
            .map_err(|error| LabError::option(format!("the kernel does not tell what processors do: {error}")))?;
        Ok(Self { buckets, queues: Vec::new(), processors, handed: None, threads: Vec::new(), napi_threads: None })
    }

    /// Adds the time of the threads that take packets from the interface.
    pub(super) fn with(self, threads: &mut NapiThreads) -> Self {
        let times = threads.times();
        Self { threads: times, napi_threads: threads.visible(), ..self }
    }

    /// Returns the time that threads which take packets had on a processor since another look.
    fn threads_on(&self, processor: u32, last: &Self) -> Duration {
        let since = |now: &ThreadTime| {
            let before = last.threads.iter().find(|before| before.thread == now.thread)?;
            Some(now.time.saturating_sub(before.time))
        };
        self.threads.iter().filter(|now| now.processor == processor).filter_map(since).sum()
    }

    fn processor(&self, number: u32) -> Option<&ProcessorCount> {
        self.processors.iter().find(|count| count.processor == number)
    }

    /// Returns what happened since another look, of counters by bucket and by this many processors.
    pub(super) fn since(&self, last: &Self, processors: usize) -> SteerSample {
        let processor = |now: &ProcessorCount, before: &ProcessorCount| {
            let ns = |now: Duration, before: Duration| now.saturating_sub(before).as_nanos() as u64;
            let system_ns = ns(now.system, before.system);
            // Such threads are no deferred work for the kernel, which counts them with all others.
            let threads_ns = system_ns.min(self.threads_on(now.processor, last).as_nanos() as u64);
            ProcessorSample {
                processor: now.processor,
                softirq_ns: ns(now.softirq, before.softirq) + threads_ns,
                system_ns: system_ns - threads_ns,
                user_ns: ns(now.user, before.user),
                idle_ns: ns(now.idle, before.idle),
                packets: now.packets.saturating_sub(before.packets),
                dropped: now.dropped.saturating_sub(before.dropped),
            }
        };
        SteerSample {
            buckets: came(&self.buckets, &last.buckets, processors)
                .map(|(bucket, processor, packets, bytes)| BucketSample { bucket, processor, packets, bytes })
                .collect(),
            queues: came(&self.queues, &last.queues, processors)
                .map(|(queue, processor, packets, bytes)| QueueSample { queue, processor, packets, bytes })
                .collect(),
            processors: self
                .processors
                .iter()
                .filter_map(|now| Some(processor(now, last.processor(now.processor)?)))
                .collect(),
            handed: self.handed.zip(last.handed).map(|(now, before)| HandedSample {
                // A packet that was missed may have come since.
                missing: now.missing.saturating_sub(before.missing),
                overtaken: now.overtaken - before.overtaken,
            }),
            napi_threads: self.napi_threads,
            ..SteerSample::default()
        }
    }
}

/// Returns what has been counted since: number, processor, packets and bytes, of counters by number and processor.
fn came<'a>(
    now: &'a [PacketCount],
    before: &'a [PacketCount],
    processors: usize,
) -> impl Iterator<Item = (u32, u32, u64, u64)> + 'a {
    now.iter().zip(before).enumerate().filter_map(move |(at, (now, before))| {
        let packets = now.packets - before.packets;
        let (number, processor) = ((at / processors) as u32, (at % processors) as u32);
        (packets > 0).then_some((number, processor, packets, now.bytes - before.bytes))
    })
}

/// Reads the heaviest flows every second, and estimates what came of each: what was looked at of it, as a part of what
/// was looked at of its bucket, is its part of the bucket's packets.
pub(super) struct HeavyFlows {
    due: Duration,
    processors: usize,
    /// By bucket and processor, when flows were read before.
    last: Vec<PacketCount>,
}

impl HeavyFlows {
    pub(super) fn new(first: &Look, processors: usize) -> Self {
        Self { due: FLOWS_EVERY, processors, last: first.buckets.clone() }
    }

    /// Returns the heaviest flows, if they are due or this is the last look.
    pub(super) fn read(
        &mut self,
        look: &Look,
        elapsed: Duration,
        is_last: bool,
        heaviest: impl FnOnce(usize) -> Result<Vec<FlowCount>, TrafficError>,
    ) -> Result<Vec<HeavyFlow>, TrafficError> {
        if !is_last && elapsed < self.due {
            return Ok(Vec::new());
        }
        self.due = elapsed + FLOWS_EVERY;
        let found = heaviest(HEAVY_FLOWS)?;
        let flows = found.iter().map(|flow| heavy(flow, self.of_bucket(look, flow.bucket))).collect();
        self.last.clone_from(&look.buckets);
        Ok(flows)
    }

    /// What came for a bucket since flows were read before.
    fn of_bucket(&self, look: &Look, bucket: u32) -> PacketCount {
        let at = bucket as usize * self.processors..(bucket as usize + 1) * self.processors;
        let sum = |counts: &[PacketCount]| {
            let counts = counts.get(at.clone()).unwrap_or_default();
            counts.iter().fold((0, 0), |(packets, bytes), count| (packets + count.packets, bytes + count.bytes))
        };
        let ((packets, bytes), before) = (sum(&look.buckets), sum(&self.last));
        PacketCount { packets: packets - before.0, bytes: bytes - before.1 }
    }
}

/// Names a flow. Its bucket had `bucket`, which bounds what it can have had.
fn heavy(found: &FlowCount, bucket: PacketCount) -> HeavyFlow {
    let estimated = |looked_at: u64, came: u64| {
        let of_bucket = found.of_bucket.filter(|&of_bucket| of_bucket > 0);
        let scale = of_bucket.map_or(FLOW_SAMPLE as f64, |of_bucket| bucket.packets as f64 / of_bucket as f64);
        ((looked_at as f64 * scale).round() as u64).min(came)
    };
    let (source, destination) = found.ports;
    let protocol = match found.protocol {
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        47 => "gre".to_owned(),
        50 => "esp".to_owned(),
        number => format!("protocol {number}"),
    };
    let flow = match (source, destination) {
        (0, 0) => format!("{} > {} {protocol}", found.source, found.destination),
        _ => format!(
            "{} > {} {protocol}",
            core::net::SocketAddr::from((found.source, source)),
            core::net::SocketAddr::from((found.destination, destination))
        ),
    };
    HeavyFlow {
        flow,
        protocol: found.protocol,
        port: destination,
        packets: estimated(found.count.packets, bucket.packets),
        bytes: estimated(found.count.bytes, bucket.bytes),
    }
}

/// Returns the number by which the kernel knows an interface under every name.
pub(super) fn index_of(interface: &str) -> Option<u32> {
    fs::read_to_string(format!("/sys/class/net/{interface}/ifindex")).ok()?.trim().parse().ok()
}

/// Returns the name of the interface with this number.
pub(super) fn interface_of(index: Option<u32>) -> Option<String> {
    let names = fs::read_dir("/sys/class/net").ok()?.flatten().map(|entry| entry.file_name().into_string());
    names.flatten().find(|name| index.is_some() && index_of(name) == index)
}

/// Rejects an interface that is not the one with this number any more.
pub(super) fn check_there(interface: &str, index: Option<u32>) -> Result<(), LabError> {
    match index_of(interface) == index {
        true => Ok(()),
        false => Err(LabError::option(format!("{interface} is gone, or has another name: it is not watched any more"))),
    }
}

/// Returns how many receive queues an interface has, and whether the kernel hands packets on from any of them.
pub(super) fn queues(interface: &str) -> (usize, bool) {
    let is_set = |mask: &String| mask.contains(|digit: char| digit != '0' && digit.is_ascii_hexdigit());
    let masks = receive_masks(interface);
    (masks.len(), masks.iter().any(is_set))
}
