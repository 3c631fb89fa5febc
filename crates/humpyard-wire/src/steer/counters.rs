//! Counters that a program of the kernel keeps by bucket and by flow.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::HashMap;
use std::fs;
use std::io;

use humpyard_traffic::TrafficError;

use super::buckets::Counted;
use super::{Hashing, KEY_BYTES};
use crate::bpf::{Map, MapShape};
use crate::interface::refused;

/// Types of maps: an array with a value for each processor, and one that forgets the keys used longest ago.
const ARRAY_BY_PROCESSOR: u32 = 6;
const LATEST_BY_KEY: u32 = 9;
/// Flows that are kept in mind at once; those seen longest ago are forgotten.
const FLOWS: u32 = 4096;
/// Bytes of a number of packets and one of bytes.
const COUNT_BYTES: usize = 16;

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PacketCount {
    /// Packets.
    pub packets: u64,
    /// Bytes of frames.
    pub bytes: u64,
}

/// A flow, as far as it was looked at: one frame in [`FLOW_SAMPLE`](super::FLOW_SAMPLE).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowCount {
    /// Where its packets come from.
    pub source: IpAddr,
    /// Where they go.
    pub destination: IpAddr,
    /// The ports; 0 where the protocol has none, and for fragments.
    pub ports: (u16, u16),
    /// The protocol of IP.
    pub protocol: u8,
    /// Its bucket.
    pub bucket: u32,
    /// Frames of it that were looked at.
    pub count: PacketCount,
    /// Frames of all flows of its bucket that were looked at. `None`: unknown, for the kernel has forgotten flows.
    pub of_bucket: Option<u64>,
}

/// The counters, and what they are of.
#[derive(Debug)]
pub(super) struct Counters {
    port: String,
    hashing: Hashing,
    buckets: Map,
    flows: Map,
    /// By receive queue, where they are counted, and how many there are.
    queues: Option<(Map, usize)>,
    /// Values of each entry, one for each processor that there can be.
    processors: usize,
}

impl Counters {
    /// The shapes of the maps of both counters: by bucket, and by flow.
    pub(super) const fn shapes(hashing: Hashing) -> [MapShape; 2] {
        let buckets = MapShape {
            name: "humpyard_count",
            map_type: ARRAY_BY_PROCESSOR,
            key_bytes: 4,
            value_bytes: COUNT_BYTES as u32,
            entries: hashing.buckets() as u32,
        };
        let flows = MapShape {
            name: "humpyard_flows",
            map_type: LATEST_BY_KEY,
            key_bytes: KEY_BYTES as u32,
            entries: FLOWS,
            ..buckets
        };
        [buckets, flows]
    }

    /// Counters of their own, for this many receive queues, too.
    pub(super) fn new(port: &str, hashing: Hashing, queues: usize) -> Result<Self, TrafficError> {
        let [buckets, flows] = Self::shapes(hashing);
        let by_queue = MapShape { name: "humpyard_queues", entries: queues as u32, ..buckets };
        let make = || Ok((Map::shaped(buckets)?, Map::shaped(flows)?, Map::shaped(by_queue)?));
        let (buckets, flows, by_queue) =
            make().map_err(|error| refused(port, "making counters in the kernel", &error))?;
        Ok(Self { queues: Some((by_queue, queues)), ..Self::of(port, hashing, [buckets, flows])? })
    }

    /// Counters of these two maps.
    pub(super) fn of(port: &str, hashing: Hashing, [buckets, flows]: [Map; 2]) -> Result<Self, TrafficError> {
        let processors = possible_processors().map_err(|error| refused(port, "asking for the processors", &error))?;
        Ok(Self { port: port.to_owned(), hashing, buckets, flows, queues: None, processors })
    }

    /// By which a program knows them.
    pub(super) fn described(&self) -> Counted {
        Counted {
            buckets: self.buckets.descriptor(),
            queues: self.queues.as_ref().map(|(queues, _)| queues.descriptor()),
            flows: self.flows.descriptor(),
        }
    }

    /// How the user names what is counted.
    pub(super) fn port(&self) -> &str {
        &self.port
    }

    pub(super) const fn hashing(&self) -> Hashing {
        self.hashing
    }

    pub(super) const fn processors(&self) -> usize {
        self.processors
    }

    /// What came for bucket b on processor p is at b * [`Counters::processors`] + p.
    pub(super) fn counts(&self) -> Result<Vec<PacketCount>, TrafficError> {
        self.read(&self.buckets, self.hashing.buckets())
    }

    /// What came by queue q on processor p is at q * [`Counters::processors`] + p. Nothing where they are not counted.
    pub(super) fn queue_counts(&self) -> Result<Vec<PacketCount>, TrafficError> {
        self.queues.as_ref().map_or(Ok(Vec::new()), |(map, queues)| self.read(map, *queues))
    }

    fn read(&self, map: &Map, entries: usize) -> Result<Vec<PacketCount>, TrafficError> {
        let values = map
            .read_array(entries, COUNT_BYTES * self.processors)
            .map_err(|error| refused(&self.port, "reading the counters", &error))?;
        Ok(values.chunks_exact(COUNT_BYTES).map(count).collect())
    }

    /// The flows of which most frames were looked at since the last call, at most `most`.
    pub(super) fn heavy_flows(&self, most: usize) -> Result<Vec<FlowCount>, TrafficError> {
        let mut flows = self.flows_since().map_err(|error| refused(&self.port, "reading the flows", &error))?;
        add_buckets(&mut flows);
        flows.sort_by(|one, other| {
            other.count.packets.cmp(&one.count.packets).then_with(|| one.source.cmp(&other.source))
        });
        flows.truncate(most);
        Ok(flows)
    }

    fn flows_since(&self) -> io::Result<Vec<FlowCount>> {
        let mut flows = Vec::new();
        for key in self.flows.keys(FLOWS as usize)? {
            let mut value = [0; COUNT_BYTES];
            if self.flows.read(&key, &mut value)? {
                self.flows.remove(&key)?;
                flows.push(flow(&key, count(&value)));
            }
        }
        Ok(flows)
    }
}

/// The processors that the kernel has a value for, online or not: `0-3`, `0,2-5`.
pub(super) fn possible_processors() -> io::Result<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit([',', '-']).next().and_then(|number| number.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or_else(|| io::Error::other(format!("no list of processors: {text}")))
}

/// A number in the order of bytes of this machine.
pub(super) fn number(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    if cfg!(target_endian = "big") {
        all[8 - bytes.len()..].copy_from_slice(bytes)
    } else {
        all[..bytes.len()].copy_from_slice(bytes)
    }
    u64::from_ne_bytes(all)
}

fn count(value: &[u8]) -> PacketCount {
    PacketCount { packets: number(&value[..8]), bytes: number(&value[8..COUNT_BYTES]) }
}

/// Adds how many frames of their buckets were looked at.
fn add_buckets(flows: &mut [FlowCount]) {
    // The kernel begins to forget before there are as many as it has room for.
    if flows.len() > FLOWS as usize / 2 {
        return;
    }
    let mut looked_at: HashMap<u32, u64> = HashMap::new();
    flows.iter().for_each(|flow| *looked_at.entry(flow.bucket).or_default() += flow.count.packets);
    flows.iter_mut().for_each(|flow| flow.of_bucket = looked_at.get(&flow.bucket).copied());
}

/// Reads a 5-tuple and a bucket as the program writes them.
fn flow(key: &[u8], count: PacketCount) -> FlowCount {
    let address = |at: usize| {
        if key[37] == 4 {
            IpAddr::V4(Ipv4Addr::new(key[at], key[at + 1], key[at + 2], key[at + 3]))
        } else {
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&key[at..at + 16]).expect("16 bytes")))
        }
    };
    let port = |at: usize| u16::from_be_bytes([key[at], key[at + 1]]);
    FlowCount {
        source: address(0),
        destination: address(16),
        ports: (port(32), port(34)),
        protocol: key[36],
        bucket: number(&key[38..KEY_BYTES]) as u32,
        count,
        of_bucket: None,
    }
}
