//! The record of an interface: lines of JSON, the first of which says what the others are of.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::LabError;

/// The version of records that is written and read.
const VERSION: u32 = 1;

/// The first line of a record.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct RecordHead {
    /// The version of the format: 1.
    pub humpyard_steer: u32,
    /// The interface.
    pub interface: String,
    /// Whether frames were counted in the driver, rather than behind it.
    pub native: bool,
    /// Receive queues of the interface.
    pub queues: usize,
    /// Whether the kernel hands packets on to other processors after that (RPS).
    pub rps: bool,
    /// Processors of the machine.
    pub processors: usize,
    /// Buckets of connections.
    pub buckets: usize,
    /// The time between two samples, in ns.
    pub every_ns: u64,
    /// One frame in this many was looked at for its flow.
    pub flow_sample: u64,
}

/// What happened between two looks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct SteerSample {
    /// The end of the sample, in ns since the record began.
    pub time_ns: u64,
    /// Buckets of which something came.
    pub buckets: Vec<BucketSample>,
    /// By processor.
    pub processors: Vec<ProcessorSample>,
    /// The flows of which most came.
    pub flows: Vec<HeavyFlow>,
}

/// What came for a bucket on a processor.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct BucketSample {
    /// The bucket, from 0.
    pub bucket: u32,
    /// The processor that took it from the interface.
    pub processor: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes of frames.
    pub bytes: u64,
}

/// What a processor did.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct ProcessorSample {
    /// Its number.
    pub processor: u32,
    /// Time in interrupts and in what the kernel defers of them, most of which is of packets, in ns.
    pub softirq_ns: u64,
    /// Time in the rest of the kernel, in ns.
    pub system_ns: u64,
    /// Time in programs, in ns.
    pub user_ns: u64,
    /// Time without work, in ns.
    pub idle_ns: u64,
    /// Packets that it took through the kernel, of all interfaces.
    pub packets: u64,
    /// Packets that it dropped, for too many waited.
    pub dropped: u64,
}

/// A flow of which much came.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct HeavyFlow {
    /// Its 5-tuple, for people: `10.0.0.1:80 > 10.0.0.2:4000 tcp`.
    pub flow: String,
    /// The number of its protocol.
    pub protocol: u8,
    /// Its destination port; 0: it has none.
    pub port: u16,
    /// Packets, estimated from those that were looked at.
    pub packets: u64,
    /// Bytes, estimated likewise.
    pub bytes: u64,
}

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SteerRecord {
    /// What it is of.
    pub head: RecordHead,
    /// Its samples, in the order of time.
    pub samples: Vec<SteerSample>,
}

impl RecordHead {
    /// Returns the head of a record of this version.
    pub(super) fn new(interface: &str, processors: usize, buckets: usize, every: Duration, flow_sample: u64) -> Self {
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
    /// Reads a record. A last line that was cut is left out.
    ///
    /// # Errors
    /// A file that cannot be read, and one that is no record: with the line.
    pub fn read(path: &str) -> Result<Self, LabError> {
        let refuse = |what: String| LabError::option(format!("{path}: {what}"));
        let file = File::open(path).map_err(|error| refuse(format!("the record cannot be read: {error}")))?;
        let mut lines = BufReader::new(file).lines();
        // What is no text is no record, either.
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        let head: RecordHead = serde_json::from_str(&first)
            .map_err(|_| refuse("line 1: this is no record of `humpyard steer --record`".to_owned()))?;
        if head.humpyard_steer != VERSION {
            return Err(refuse(format!(
                "a record of version {}: this humpyard reads version {VERSION}",
                head.humpyard_steer
            )));
        }
        let mut samples: Vec<SteerSample> = Vec::new();
        let mut cut = None;
        for (number, line) in (2..).zip(lines) {
            if let Some(error) = cut {
                return Err(refuse(error));
            }
            let line = line.map_err(|error| refuse(format!("line {number}: {error}")))?;
            match serde_json::from_str::<SteerSample>(&line) {
                Ok(sample) => samples.push(
                    check(sample, &head, samples.last()).map_err(|what| refuse(format!("line {number}: {what}")))?,
                ),
                Err(error) => cut = Some(format!("line {number}: this is no sample: {error}")),
            }
        }
        match samples.is_empty() {
            true => Err(refuse(
                cut.unwrap_or_else(|| "the record has no sample: nothing is known of the interface".to_owned()),
            )),
            false => Ok(Self { head, samples }),
        }
    }

    /// Returns the processors that were there, ascending. The kernel may have numbers for more.
    pub(super) fn processors(&self) -> Vec<u32> {
        let of = |sample: &SteerSample| sample.processors.iter().map(|one| one.processor).collect();
        let mut numbers: Vec<u32> = self.samples.first().map_or_else(Vec::new, of);
        numbers.sort_unstable();
        numbers
    }

    /// Returns how long the record is.
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.samples.last().map_or(0, |sample| sample.time_ns))
    }
}

/// Checks what a replay relies on.
fn check(sample: SteerSample, head: &RecordHead, before: Option<&SteerSample>) -> Result<SteerSample, String> {
    if before.is_some_and(|before| before.time_ns >= sample.time_ns) {
        return Err(format!("time_ns is {}, which is not behind the line before", sample.time_ns));
    }
    if sample.processors.is_empty() {
        return Err("no processor is named".to_owned());
    }
    let is_strange =
        |found: &&BucketSample| found.bucket as usize >= head.buckets || found.processor as usize >= head.processors;
    match sample.buckets.iter().find(is_strange) {
        Some(found) => Err(format!(
            "bucket {} on processor {}: there are {} buckets and {} processors",
            found.bucket, found.processor, head.buckets, head.processors
        )),
        None => Ok(sample),
    }
}

#[cfg(test)]
mod tests {
    use super::super::diagnosis::tests::record;
    use super::*;

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
        let record = record(&[(1, 0, 5), (7, 3, 2)], [0.5; 4]);
        let text = text(&record);
        assert_eq!(read(&text).unwrap(), record);
        let cut = read(&text[..text.len() - 20]).unwrap();
        assert_eq!(cut.samples.len(), record.samples.len() - 1);
    }

    #[test]
    fn what_is_no_record_is_refused_with_the_line() {
        let good = text(&record(&[(1, 0, 5)], [0.5; 4]));
        let strange = good.replacen("\"bucket\":1,", "\"bucket\":1024,", 1);
        let broken = good.replacen("{\"time_ns\":200000000", "{\"time\":2", 1);
        let backwards = good.replacen("\"time_ns\":200000000", "\"time_ns\":5", 1);
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
        ] {
            let said = read(text).unwrap_err();
            assert!(said.starts_with("/eth0.jsonl: ") && said.contains(expected) && !said.contains('\n'), "{said}");
        }
    }
}
