//! Looks at an interface, sample by sample.

use core::sync::atomic::{AtomicBool, Ordering};
use std::fs;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use humpyard_core::random::Seed;
use humpyard_wire::{
    BucketCounters, FLOW_SAMPLE, FlowCount, HandOver, Hashing, PacketCount, ProcessorCount, processors, receive_masks,
};

use crate::LabError;
use humpyard_traffic::steer_record::{
    BucketSample, HandedSample, HeavyFlow, ProcessorSample, QueueSample, RecordHead, SteerRecord, SteerSample,
};

/// Flows that a sample names.
pub(super) const HEAVY_FLOWS: usize = 16;
/// How often the flows are read: each takes three system calls.
pub(super) const FLOWS_EVERY: Duration = Duration::from_secs(1);
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

/// Looks at an interface and changes nothing. `on_sample` is called with each sample; `record` gets the lines of the
/// record.
///
/// # Errors
/// If the interface cannot be observed, or the record not written.
pub fn observe(
    options: &ObserveOptions,
    stop: &AtomicBool,
    mut record: Option<&mut dyn Write>,
    on_sample: &mut dyn FnMut(&RecordHead, &SteerSample),
) -> Result<SteerRecord, LabError> {
    let hashing = Hashing { bits: options.bucket_bits, seed: options.seed, inner: options.inner };
    let counters = BucketCounters::observe(&options.interface, hashing)?;
    let mut head =
        RecordHead::new(&options.interface, counters.processors(), hashing.buckets(), options.every, FLOW_SAMPLE);
    (head.native, (head.queues, head.rps)) = (counters.is_native(), queues(&options.interface));
    let mut keep = |line: Result<String, serde_json::Error>| {
        let line = line.expect("a record is numbers and texts");
        let written = record.as_mut().map_or(Ok(()), |record| writeln!(record, "{line}"));
        written.map_err(|error| LabError::option(format!("the record cannot be written: {error}")))
    };
    keep(serde_json::to_string(&head))?;
    let begin = Instant::now();
    let mut last = Look::at(&counters)?;
    let (mut samples, mut flows_due) = (Vec::new(), FLOWS_EVERY);
    let index = index_of(&options.interface);
    while wait(begin, options, samples.len(), stop) {
        check_there(&options.interface, index)?;
        let look = Look::at(&counters)?;
        let elapsed = begin.elapsed();
        let is_last = options.longest.is_some_and(|longest| elapsed >= longest);
        let flows = if is_last || elapsed >= flows_due { counters.heavy_flows(HEAVY_FLOWS)? } else { Vec::new() };
        if elapsed >= flows_due {
            flows_due = elapsed + FLOWS_EVERY;
        }
        let (flows, time_ns) = (flows.iter().map(heavy).collect(), elapsed.as_nanos() as u64);
        let sample = SteerSample { time_ns, flows, ..look.since(&last, head.processors) };
        keep(serde_json::to_string(&sample))?;
        on_sample(&head, &sample);
        samples.push(sample);
        last = look;
    }
    Ok(SteerRecord { head, samples })
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
        Ok(Self { buckets, queues: Vec::new(), processors, handed: None })
    }

    fn processor(&self, number: u32) -> Option<&ProcessorCount> {
        self.processors.iter().find(|count| count.processor == number)
    }

    /// Returns what happened since another look, of counters by bucket and by this many processors.
    pub(super) fn since(&self, last: &Self, processors: usize) -> SteerSample {
        let processor = |now: &ProcessorCount, before: &ProcessorCount| {
            let ns = |now: Duration, before: Duration| now.saturating_sub(before).as_nanos() as u64;
            ProcessorSample {
                processor: now.processor,
                softirq_ns: ns(now.softirq, before.softirq),
                system_ns: ns(now.system, before.system),
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

pub(super) fn heavy(found: &FlowCount) -> HeavyFlow {
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
        packets: found.count.packets * FLOW_SAMPLE,
        bytes: found.count.bytes * FLOW_SAMPLE,
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
