//! Records of an interface, written by `humpyard steer --record`: lines of JSON, of which the first describes
//! the others. They count packets by bucket of connections; as a source, each bucket is a flow.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::sync::Arc;
use std::time::Duration;

use humpyard_core::frame::Frame;
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;
use serde::{Deserialize, Serialize};

use crate::error::TrafficError;
use crate::source::{Numbered, NumberedFlows, Source};
use crate::steer_samples::SampleStore;
use crate::table::{self, TableFlows};

/// The version of the format.
const VERSION: u32 = 1;
/// Most packets of a sample: no interface has more in a second.
const PACKETS_MAX: u64 = 1_000_000_000;
/// The extension of a record's name.
const ENDING: &str = ".jsonl";

/// The first line of a record.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct RecordHead {
    /// The version of the format: 1.
    pub humpyard_steer: u32,
    /// The interface.
    pub interface: String,
    /// Whether frames were counted in the driver, instead of behind it.
    pub native: bool,
    /// Receive queues of the interface.
    pub queues: usize,
    /// Whether the kernel then hands packets to other processors (RPS).
    pub rps: bool,
    /// Processors of the machine.
    pub processors: usize,
    /// Buckets of connections.
    pub buckets: usize,
    /// The time between two samples, in ns.
    pub every_ns: u64,
    /// One frame in this many was inspected for its flow.
    pub flow_sample: u64,
}

/// The counts between two readings.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct SteerSample {
    /// The end of the sample, in ns since the record began.
    pub time_ns: u64,
    /// Buckets with packets.
    pub buckets: Vec<BucketSample>,
    /// Receive queues with packets.
    #[serde(default)]
    pub queues: Vec<QueueSample>,
    /// By processor.
    pub processors: Vec<ProcessorSample>,
    /// The flows with the most packets.
    pub flows: Vec<HeavyFlow>,
    /// The packets handed to other processors. `None`: nothing steers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed: Option<HandedSample>,
    /// Threads of the kernel that take packets from the interface (threaded NAPI) and are visible: their time counts as
    /// softirq. `None`: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub napi_threads: Option<u32>,
}

/// Counts of packets handed to other processors.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct HandedSample {
    /// Packets lost because too many waited.
    pub missing: u64,
    /// Packets that arrived behind a later one of their bucket.
    pub overtaken: u64,
}

/// The packets of a bucket on a processor.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct BucketSample {
    /// The bucket, from 0.
    pub bucket: u32,
    /// The processor that took them from the interface.
    pub processor: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes of frames.
    pub bytes: u64,
}

/// The packets of a receive queue on a processor.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct QueueSample {
    /// The queue, from 0.
    pub queue: u32,
    /// The processor that took them from the interface.
    pub processor: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes of frames.
    pub bytes: u64,
}

/// The work of a processor.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct ProcessorSample {
    /// Its number.
    pub processor: u32,
    /// Time in interrupts and their deferred work, mostly for packets, in ns. It includes the threads that take packets
    /// from the interface (threaded NAPI).
    pub softirq_ns: u64,
    /// Time in the rest of the kernel, in ns.
    pub system_ns: u64,
    /// Time in programs, in ns.
    pub user_ns: u64,
    /// Idle time, in ns.
    pub idle_ns: u64,
    /// Packets that it took through the kernel, from all interfaces.
    pub packets: u64,
    /// Packets that it dropped because too many waited.
    pub dropped: u64,
}

/// A flow with many packets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct HeavyFlow {
    /// Its 5-tuple in readable form: `10.0.0.1:80 > 10.0.0.2:4000 tcp`.
    pub flow: String,
    /// The number of its protocol.
    pub protocol: u8,
    /// Its destination port; 0: it has none.
    pub port: u16,
    /// Packets, estimated from the inspected ones.
    pub packets: u64,
    /// Bytes, estimated in the same way.
    pub bytes: u64,
}

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SteerRecord {
    /// The description.
    pub head: RecordHead,
    /// Its samples, in the order of time.
    pub samples: Vec<SteerSample>,
}

impl RecordHead {
    /// Returns the head of a record of this version.
    pub fn new(interface: &str, processors: usize, buckets: usize, every: Duration, flow_sample: u64) -> Self {
        Self {
            humpyard_steer: VERSION,
            interface: interface.to_owned(),
            native: false,
            queues: 0,
            rps: false,
            processors,
            buckets,
            every_ns: u64::try_from(every.as_nanos()).unwrap_or(u64::MAX),
            flow_sample,
        }
    }
}

impl SteerRecord {
    /// Reads a whole record. Ignores an incomplete last line. Merges samples of a long record: [`SampleStore`].
    ///
    /// # Errors
    /// If the file cannot be read, or is no record: with the line.
    pub fn read(path: &str) -> Result<Self, TrafficError> {
        let mut reader = RecordReader::open(path)?;
        let mut samples = SampleStore::new(reader.head.clone());
        while let Some(sample) = reader.next_sample()? {
            samples.push(sample);
        }
        Ok(samples.finish())
    }

    /// Returns the active processors, ascending. The kernel may have numbers for more.
    pub fn processors(&self) -> Vec<u32> {
        let of = |sample: &SteerSample| sample.processors.iter().map(|one| one.processor).collect();
        let mut numbers: Vec<u32> = self.samples.first().map_or_else(Vec::new, of);
        numbers.sort_unstable();
        numbers
    }

    /// Returns the duration of the record.
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.samples.last().map_or(0, |sample| sample.time_ns))
    }
}

/// A packet of a bucket, at a random time: its real time within the sample is not known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SpreadPacket {
    /// Arrival time, in ns.
    pub time_ns: u64,
    /// Its bucket.
    pub bucket: u32,
    /// Its length, in bytes.
    pub bytes: u32,
}

/// The least and the greatest length of a frame, in bytes.
const FRAME_BYTES: (u64, u64) = (60, 65_535);

/// Appends the packets of a sample to `packets`, in the order of time, at uniformly random times in the
/// `length_ns` from `begin_ns` on. One packet represents `stands_for` packets.
pub fn spread(
    buckets: &[BucketSample],
    (begin_ns, length_ns): (u64, u64),
    stands_for: u64,
    random: &mut Random,
    packets: &mut Vec<SpreadPacket>,
) {
    let first = packets.len();
    for found in buckets {
        let bytes = (found.bytes / found.packets.max(1)).clamp(FRAME_BYTES.0, FRAME_BYTES.1) as u32;
        let rest = found.packets % stands_for;
        let count = found.packets / stands_for + u64::from(random.below(stands_for) < rest);
        let packet = |_| {
            let time_ns = begin_ns + random.below(length_ns.max(1));
            SpreadPacket { time_ns, bucket: found.bucket, bytes }
        };
        packets.extend((0..count).map(packet));
    }
    packets[first..].sort_unstable();
}

/// Reads a record line by line.
#[derive(Debug)]
pub struct RecordReader {
    path: String,
    head: RecordHead,
    lines: Lines<BufReader<File>>,
    /// The number of the last line read.
    line: u64,
    /// Bytes read, and bytes of the file.
    read: (u64, u64),
    /// The end of the previous sample.
    time_ns: Option<u64>,
}

impl RecordReader {
    /// Opens a record.
    ///
    /// # Errors
    /// If the file cannot be read, or is no record of this version.
    pub fn open(path: &str) -> Result<Self, TrafficError> {
        let refuse = |what: &str| TrafficError::unusable(path, what);
        let file = File::open(path).map_err(|error| refuse(&format!("the record cannot be read: {error}")))?;
        let metadata = file.metadata().ok();
        if metadata.as_ref().is_some_and(|metadata| metadata.is_dir()) {
            return Err(refuse("this is a directory: name a record of `humpyard steer --record`"));
        }
        let bytes = metadata.map_or(0, |metadata| metadata.len());
        let mut lines = BufReader::new(file).lines();
        // A file that is not text is no record, either.
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        let head: RecordHead = serde_json::from_str(&first)
            .map_err(|_| refuse("line 1: this is no record of `humpyard steer --record`"))?;
        if head.humpyard_steer != VERSION {
            let version = head.humpyard_steer;
            return Err(refuse(&format!("a record of version {version}: this humpyard reads version {VERSION}")));
        }
        let read = (first.len() as u64 + 1, bytes);
        Ok(Self { path: path.to_owned(), head, lines, line: 1, read, time_ns: None })
    }

    /// Returns the description of the record.
    pub const fn head(&self) -> &RecordHead {
        &self.head
    }

    /// Returns the next sample. `None`: the record has ended. Ignores an incomplete last line.
    ///
    /// # Errors
    /// If a line is no sample, or contradicts the description or the previous line; or if the record has no
    /// sample.
    pub fn next_sample(&mut self) -> Result<Option<SteerSample>, TrafficError> {
        let Some(text) = self.next_line()? else {
            return match self.time_ns {
                None => Err(self.refuse("the record has no sample: nothing is known of the interface")),
                Some(_) => Ok(None),
            };
        };
        match serde_json::from_str::<SteerSample>(&text) {
            Ok(sample) => {
                let wrong = check(&sample, &self.head, self.time_ns);
                if let Some(what) = wrong {
                    return Err(self.refuse(&format!("line {}: {what}", self.line)));
                }
                self.time_ns = Some(sample.time_ns);
                Ok(Some(sample))
            }
            Err(error) => {
                let what = format!("line {}: this is no sample: {error}", self.line);
                let is_last = self.next_line()?.is_none();
                if is_last && self.time_ns.is_some() { Ok(None) } else { Err(self.refuse(&what)) }
            }
        }
    }

    fn next_line(&mut self) -> Result<Option<String>, TrafficError> {
        let Some(line) = self.lines.next() else { return Ok(None) };
        self.line += 1;
        let line = line.map_err(|error| self.refuse(&format!("line {}: {error}", self.line)))?;
        self.read.0 += line.len() as u64 + 1;
        Ok(Some(line))
    }

    fn refuse(&self, what: &str) -> TrafficError {
        TrafficError::unusable(&self.path, what)
    }
}

/// Returns an error for a sample that ends no later than `before`, or has unknown buckets or processors.
fn check(sample: &SteerSample, head: &RecordHead, before: Option<u64>) -> Option<String> {
    if before.is_some_and(|before| before >= sample.time_ns) {
        return Some(format!("time_ns is {}, which is not behind the line before", sample.time_ns));
    }
    if sample.processors.is_empty() {
        return Some("no processor is named".to_owned());
    }
    let packets = sample.buckets.iter().fold(0_u64, |sum, found| sum.saturating_add(found.packets));
    if packets > PACKETS_MAX {
        return Some(format!("{packets} packets: a sample has {PACKETS_MAX} at most"));
    }
    let is_strange =
        |found: &&BucketSample| found.bucket as usize >= head.buckets || found.processor as usize >= head.processors;
    sample.buckets.iter().find(is_strange).map(|found| {
        format!(
            "bucket {} on processor {}: there are {} buckets and {} processors",
            found.bucket, found.processor, head.buckets, head.processors
        )
    })
}

/// Returns whether this is the name of a record.
pub(crate) fn is_record(source: &str) -> bool {
    source.ends_with(ENDING)
}

/// A source of the packets of a record, sample by sample. Each has a random time within its sample, and each bucket
/// is a flow.
#[derive(Debug)]
pub(crate) struct RecordSource {
    reader: RecordReader,
    random: Random,
    flows: Arc<TableFlows>,
    /// The packets of the current sample, and how many of them were returned.
    packets: Vec<SpreadPacket>,
    given: usize,
}

impl RecordSource {
    /// Opens a record.
    ///
    /// # Errors
    /// Those of [`RecordReader::open`].
    pub(crate) fn open(path: &str, seed: Seed) -> Result<Self, TrafficError> {
        Ok(Self {
            reader: RecordReader::open(path)?,
            random: seed.stream("steer/record"),
            flows: Arc::default(),
            packets: Vec::new(),
            given: 0,
        })
    }

    fn take(&mut self) -> Result<Option<SpreadPacket>, TrafficError> {
        while self.given == self.packets.len() {
            let begin_ns = self.reader.time_ns.unwrap_or(0);
            let Some(sample) = self.reader.next_sample()? else { return Ok(None) };
            self.packets.clear();
            self.given = 0;
            let when = (begin_ns, sample.time_ns - begin_ns);
            spread(&sample.buckets, when, 1, &mut self.random, &mut self.packets);
        }
        self.given += 1;
        Ok(Some(self.packets[self.given - 1]))
    }
}

impl Source for RecordSource {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        let Some(packet) = self.take()? else { return Ok(false) };
        let numbered = Numbered::from(packet);
        table::write(&self.flows, numbered, frame);
        Ok(true)
    }

    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>> {
        Some(Arc::clone(&self.flows) as _)
    }

    fn next_numbered(&mut self, packets: &mut Vec<Numbered>, most: usize) -> Result<bool, TrafficError> {
        for _ in 0..most {
            match self.take()? {
                Some(packet) => packets.push(packet.into()),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn description(&self) -> &str {
        &self.reader.path
    }

    fn progress(&self) -> Option<f64> {
        let (read, bytes) = self.reader.read;
        Some((read as f64 / bytes.max(1) as f64).min(1.0))
    }
}

impl From<SpreadPacket> for Numbered {
    fn from(packet: SpreadPacket) -> Self {
        let SpreadPacket { time_ns, bucket, bytes } = packet;
        Self { time: Time::from_ns(time_ns), flow: u64::from(bucket), length: bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a record of ten samples on four processors. In each sample, each of these buckets sends packets
    /// to a processor.
    fn record(buckets: &[(u32, u32, u64)]) -> SteerRecord {
        let processor = |processor| ProcessorSample {
            processor,
            softirq_ns: 50_000_000,
            system_ns: 0,
            user_ns: 0,
            idle_ns: 50_000_000,
            packets: 1,
            dropped: 0,
        };
        let bucket = |&(bucket, processor, packets): &(u32, u32, u64)| BucketSample {
            bucket,
            processor,
            packets,
            bytes: 500 * packets,
        };
        let sample = |number: u64| SteerSample {
            time_ns: 100_000_000 * number,
            buckets: buckets.iter().map(bucket).collect(),
            processors: (0..4).map(processor).collect(),
            ..SteerSample::default()
        };
        let head = RecordHead::new("eth0", 4, 1024, Duration::from_millis(100), 16);
        SteerRecord { head, samples: (1..=10).map(sample).collect() }
    }

    fn read(text: &str) -> Result<SteerRecord, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("eth0.jsonl");
        std::fs::write(&path, text).unwrap();
        SteerRecord::read(path.to_str().unwrap())
            .map_err(|error| error.to_string().replace(directory.path().to_str().unwrap(), ""))
    }

    fn text(record: &SteerRecord) -> String {
        let head = serde_json::to_string(&record.head).unwrap();
        let samples = record.samples.iter().map(|sample| serde_json::to_string(sample).unwrap());
        core::iter::once(head).chain(samples).map(|line| line + "\n").collect()
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_a_cut_line_left_out() {
        let record = record(&[(1, 0, 5), (7, 3, 2)]);
        let text = text(&record);
        assert_eq!(read(&text).unwrap(), record);
        let cut = read(&text[..text.len() - 20]).unwrap();
        assert_eq!(cut.samples.len(), record.samples.len() - 1);
    }

    #[test]
    fn what_is_no_record_is_refused_with_the_line() {
        let good = text(&record(&[(1, 0, 5)]));
        let strange = good.replacen("\"bucket\":1,", "\"bucket\":1024,", 1);
        let broken = good.replacen("{\"time_ns\":200000000", "{\"time\":2", 1);
        let backwards = good.replacen("\"time_ns\":200000000", "\"time_ns\":5", 1);
        let absurd = good.replacen("\"packets\":5,", "\"packets\":18446744073709551615,", 1);
        let later = good.replacen("\"humpyard_steer\":1", "\"humpyard_steer\":9", 1);
        let only_head = good.lines().next().unwrap();
        for (text, expected) in [
            ("", "line 1: this is no record of `humpyard steer --record`"),
            ("hello\n", "line 1: this is no record"),
            (only_head, "the record has no sample"),
            (&strange, "line 2: bucket 1024 on processor 0: there are 1024 buckets and 4 processors"),
            (&broken, "line 3: this is no sample"),
            (&backwards, "line 3: time_ns is 5"),
            (&later, "a record of version 9"),
            (&absurd, "line 2: 18446744073709551615 packets: a sample has 1000000000 at most"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.starts_with("/eth0.jsonl: ") && said.contains(expected) && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn what_is_no_text_is_no_record() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("eth0.pcap");
        std::fs::write(&path, [0xd4, 0xc3, 0xb2, 0xa1, 0xff, b'\n', 1]).unwrap();
        let said = SteerRecord::read(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(said.ends_with("line 1: this is no record of `humpyard steer --record`"), "{said}");
    }

    /// The source has all packets of all samples, in the order of time and within their samples. The same seed
    /// gives the same packets.
    #[test]
    fn a_record_is_a_source_of_its_packets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("eth0.jsonl");
        std::fs::write(&path, text(&record(&[(1, 0, 5), (7, 3, 2)]))).unwrap();
        let packets = |seed| {
            let mut source = crate::open(path.to_str().unwrap(), Seed(seed)).unwrap();
            let mut packets = Vec::new();
            source.next_numbered(&mut packets, 1000).unwrap();
            packets
        };
        let found = packets(1);
        assert_eq!(found.len(), 70);
        assert!(found.is_sorted_by_key(|packet| packet.time));
        for (at, sample) in (0_u64..).zip(found.chunks(7)) {
            let during = 100_000_000 * at..100_000_000 * (at + 1);
            assert!(sample.iter().all(|packet| during.contains(&packet.time.as_ns()) && packet.length == 500));
            assert_eq!(sample.iter().filter(|packet| packet.flow == 7).count(), 2);
        }
        assert_eq!(found, packets(1));
        assert_ne!(found, packets(2));
    }
}
