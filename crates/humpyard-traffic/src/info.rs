//! Statistics of a source: what `humpyard trace info` shows.

use std::collections::BTreeMap;
use std::string::{String, ToString};

use humpyard_core::frame::Frame;
use humpyard_core::id::Id;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use serde::Serialize;

use crate::burstiness::{Burstiness, VarianceTime};
use crate::capture::link_number;
use crate::error::TrafficError;
use crate::flow::FlowTable;
use crate::header::{FlowKey, Headers, protocol_name};
use crate::pace::CaptureClock;
use crate::source::Source;
use crate::tunnel::Tunnels;

/// Number of heaviest flows in the list.
const TOP_FLOWS: usize = 10;
/// In quantiles, longer packets count as this long, in bytes.
const LENGTH_MAX: usize = 65_536;
/// Lower limits of the length classes, in bytes.
const LENGTH_CLASSES: [u32; 8] = [0, 64, 128, 256, 512, 1_024, 1_519, 9_001];

/// Statistics of a source.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Info {
    /// The description of the source.
    pub input: String,
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Bytes captured.
    pub captured_bytes: u64,
    /// Packets captured only in part.
    pub truncated_packets: u64,
    /// Time of the first packet, in ns (since 1970 in a capture). `None`: there are no packets.
    pub first_time_ns: Option<u64>,
    /// Time of the last packet, in ns. `None`: there are no packets.
    pub last_time_ns: Option<u64>,
    /// Time from the earliest to the latest packet, in ns.
    pub duration_ns: u64,
    /// Packets whose time is before that of the previous packet.
    pub backward_jumps: u64,
    /// The greatest step back among them, in ns.
    pub backward_jump_max_ns: u64,
    /// Packets per second of the duration. `None`: the duration is 0.
    pub mean_rate_pps: Option<f64>,
    /// Bits on the wire per second of the duration. `None`: the duration is 0.
    pub mean_rate_bps: Option<f64>,
    /// Packets by number of the link type.
    pub link_types: BTreeMap<u16, u64>,
    /// IPv4 packets.
    pub ipv4_packets: u64,
    /// IPv6 packets.
    pub ipv6_packets: u64,
    /// Packets that are not IP, or invalid.
    pub other_packets: u64,
    /// Fragments.
    pub fragments: u64,
    /// IP packets by name of the protocol.
    pub protocols: BTreeMap<String, u64>,
    /// Flows: 5-tuples; for packets that are not IP, type and hardware addresses.
    pub flows: u64,
    /// Connections: both directions of a flow together.
    pub connections: u64,
    /// Whether the numbers of flows and connections, and the list of top flows, are exact. They are not if
    /// there were more flows than the limit: a flow that comes back after its eviction is counted again.
    pub flows_exact: bool,
    /// The flows with the most packets, heaviest first.
    pub top_flows: Vec<TopFlow>,
    /// Packets per flow. `None`: there are no packets.
    pub flow_sizes: Option<FlowSizes>,
    /// Lengths of packets on the wire.
    pub lengths: Lengths,
    /// Burstiness of the arrivals. `None`: the source is too short.
    pub burstiness: Option<Burstiness>,
    /// Where and how the source is damaged; the other fields describe the packets before the damage. `None`: it
    /// is not damaged.
    pub damage: Option<String>,
}

/// Packets per flow. A flow that comes back after its eviction counts as another one.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct FlowSizes {
    /// The mean.
    pub mean: f64,
    /// The median. Quantiles are off by at most 1 %.
    pub p50: u64,
    /// The 90 % quantile.
    pub p90: u64,
    /// The 99 % quantile.
    pub p99: u64,
    /// The most packets of a flow.
    pub maximum: u64,
    /// The heaviest tenth of the flows has this share of all packets.
    pub heaviest_tenth_share: f64,
}

/// One of the heaviest flows.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct TopFlow {
    /// The flow, as text.
    pub flow: String,
    /// Its packets.
    pub packets: u64,
    /// Its bytes on the wire.
    pub bytes: u64,
    /// Its share of all packets.
    pub packet_share: f64,
}

/// Lengths of packets on the wire, in bytes; in the quantiles, longer ones count as 65536.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Lengths {
    /// The shortest packet.
    pub minimum: u32,
    /// The mean.
    pub mean: f64,
    /// Half of the packets are at most this long.
    pub p50: u32,
    /// Nine of ten packets are at most this long.
    pub p90: u32,
    /// 99 of 100 packets are at most this long.
    pub p99: u32,
    /// The longest packet.
    pub maximum: u32,
    /// Packets by class of lengths.
    pub histogram: Vec<LengthClass>,
}

/// Packets of one class of lengths.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct LengthClass {
    /// The shortest length of the class, in bytes.
    pub from: u32,
    /// The longest length of the class, in bytes. `None`: there is no limit.
    pub to: Option<u32>,
    /// Packets of the class.
    pub packets: u64,
}

/// How flows are distinguished.
#[derive(Clone, Copy, Debug)]
pub struct InfoOptions {
    /// Most flows at a time.
    pub flows: usize,
    /// Idle timeout: a flow ends without a packet for this time, and the next packet with its key belongs to
    /// another flow. `None`: no timeout.
    pub timeout: Option<Time>,
    /// The tunnels to look into.
    pub tunnels: Tunnels,
}

/// Reads the source to its end, and returns its statistics, with at most `flows_max` flows at a time.
///
/// Damage is not an error: it is part of the result.
///
/// # Errors
/// If the limit of flows is invalid, or the source fails for another reason than damage.
pub fn info(source: &mut dyn Source, flows_max: usize) -> Result<Info, TrafficError> {
    info_with(source, &InfoOptions { flows: flows_max, timeout: None, tunnels: Tunnels::NONE })
}

/// Like [`info`], with an idle timeout, or inside tunnels.
///
/// # Errors
/// Those of [`info`], and if the timeout is invalid.
pub fn info_with(source: &mut dyn Source, options: &InfoOptions) -> Result<Info, TrafficError> {
    let mut tally = Tally::new(options)?;
    let mut frame = Frame::default();
    let damage = loop {
        match source.next(&mut frame) {
            Ok(true) => tally.add(&frame)?,
            Ok(false) => break None,
            Err(error) if error.is_damage() => break Some(error.to_string()),
            Err(error) => return Err(error),
        }
    };
    Ok(tally.finish(source.description(), damage))
}

/// The counts of one flow.
#[derive(Clone, Copy, Default)]
struct FlowTally {
    packets: u64,
    bytes: u64,
}

struct Tally {
    packets: u64,
    bytes: u64,
    captured_bytes: u64,
    truncated: u64,
    first: Option<Time>,
    last: Time,
    earliest: Time,
    latest: Time,
    backward_jumps: u64,
    backward_jump_max: Time,
    link_types: BTreeMap<u16, u64>,
    versions: [u64; 3],
    fragments: u64,
    protocols: Vec<u64>,
    tunnels: Tunnels,
    clock: CaptureClock,
    flows: FlowTable,
    connections: FlowTable,
    of_flow: Vec<FlowTally>,
    top: Vec<(FlowTally, FlowKey)>,
    sizes: BTreeMap<u64, u64>,
    variance_time: VarianceTime,
    lengths: Vec<u64>,
    length_min: u32,
    length_max: u32,
    classes: [u64; LENGTH_CLASSES.len()],
}

impl Tally {
    fn new(options: &InfoOptions) -> Result<Self, TrafficError> {
        let &InfoOptions { flows, timeout, tunnels } = options;
        Ok(Self {
            packets: 0,
            bytes: 0,
            captured_bytes: 0,
            truncated: 0,
            first: None,
            last: Time::ZERO,
            earliest: Time::MAX,
            latest: Time::ZERO,
            backward_jumps: 0,
            backward_jump_max: Time::ZERO,
            link_types: BTreeMap::new(),
            versions: [0; 3],
            fragments: 0,
            protocols: vec![0; 256],
            tunnels,
            clock: CaptureClock::default(),
            flows: FlowTable::new(flows, Seed(0))?.with_timeout(timeout)?,
            connections: FlowTable::of("connections", flows, Seed(0))?.with_timeout(timeout)?,
            of_flow: Vec::new(),
            top: Vec::with_capacity(TOP_FLOWS + 1),
            sizes: BTreeMap::new(),
            variance_time: VarianceTime::new(),
            lengths: vec![0; LENGTH_MAX + 1],
            length_min: u32::MAX,
            length_max: 0,
            classes: [0; LENGTH_CLASSES.len()],
        })
    }

    fn add(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        self.packets += 1;
        self.bytes += u64::from(frame.wire_length);
        self.captured_bytes += frame.data.len() as u64;
        self.truncated += u64::from((frame.data.len() as u64) < u64::from(frame.wire_length));
        *self.link_types.entry(link_number(frame.link)).or_default() += 1;
        self.add_time(frame.time);
        self.variance_time.add(frame.time);
        self.add_length(frame.wire_length);
        let headers = Headers::parse_inside(frame, self.tunnels);
        let version = headers.version();
        self.versions[version.map_or(2, |version| usize::from(version == 6))] += 1;
        self.fragments += u64::from(headers.fragment);
        if version.is_some() {
            self.protocols[usize::from(headers.key.protocol)] += 1;
        }
        self.end_flows(frame.time);
        self.add_to_flow(&headers.key, frame.wire_length)
    }

    /// Ends the flows and connections whose idle timeout is over.
    fn end_flows(&mut self, time: Time) {
        let now = self.clock.elapsed(time, false);
        while let Some((flow, key)) = self.flows.next_expired(now) {
            let tally = core::mem::take(&mut self.of_flow[flow.index()]);
            count(&mut self.top, &mut self.sizes, tally, &key);
        }
        while self.connections.next_expired(now).is_some() {}
    }

    fn add_time(&mut self, time: Time) {
        if self.first.is_none() {
            self.first = Some(time);
        } else if time < self.last {
            self.backward_jumps += 1;
            self.backward_jump_max = self.backward_jump_max.max(self.last.since(time));
        }
        self.last = time;
        self.earliest = self.earliest.min(time);
        self.latest = self.latest.max(time);
    }

    fn add_length(&mut self, length: u32) {
        self.lengths[(length as usize).min(LENGTH_MAX)] += 1;
        self.length_min = self.length_min.min(length);
        self.length_max = self.length_max.max(length);
        self.classes[LENGTH_CLASSES.partition_point(|&from| from <= length) - 1] += 1;
    }

    fn add_to_flow(&mut self, key: &FlowKey, length: u32) -> Result<(), TrafficError> {
        // Reads the key of the flow that ends before it is overwritten.
        let found = self.flows.classify_noting(key, |ended, old| {
            let tally = self.of_flow[ended.index()];
            count(&mut self.top, &mut self.sizes, tally, old);
            self.of_flow[ended.index()] = FlowTally::default();
        })?;
        self.flows.release(found.flow);
        let connection = self.connections.classify(&key.connection())?;
        self.connections.release(connection.flow);
        if found.flow.index() == self.of_flow.len() {
            self.of_flow.push(FlowTally::default());
        }
        let tally = &mut self.of_flow[found.flow.index()];
        tally.packets += 1;
        tally.bytes += u64::from(length);
        Ok(())
    }

    fn finish(mut self, input: &str, damage: Option<String>) -> Info {
        for (flow, key) in self.flows.flows() {
            let tally = self.of_flow[flow.index()];
            count(&mut self.top, &mut self.sizes, tally, &key);
        }
        let duration_ns = self.latest.since(self.earliest).as_ns();
        let per_second = |amount: u64| (duration_ns > 0).then(|| amount as f64 * 1e9 / duration_ns as f64);
        let [ipv4_packets, ipv6_packets, other_packets] = self.versions;
        Info {
            input: input.to_string(),
            packets: self.packets,
            bytes: self.bytes,
            captured_bytes: self.captured_bytes,
            truncated_packets: self.truncated,
            first_time_ns: self.first.map(Time::as_ns),
            last_time_ns: self.first.map(|_| self.last.as_ns()),
            duration_ns,
            backward_jumps: self.backward_jumps,
            backward_jump_max_ns: self.backward_jump_max.as_ns(),
            mean_rate_pps: per_second(self.packets),
            mean_rate_bps: per_second(self.bytes.saturating_mul(8)),
            lengths: self.lengths(),
            flow_sizes: self.flow_sizes(),
            burstiness: self.variance_time.burstiness(),
            link_types: self.link_types,
            ipv4_packets,
            ipv6_packets,
            other_packets,
            fragments: self.fragments,
            protocols: (0..=u8::MAX)
                .zip(self.protocols)
                .filter(|&(_, packets)| packets > 0)
                .map(|(protocol, packets)| (protocol_name(protocol).into_owned(), packets))
                .collect(),
            flows: self.flows.seen(),
            connections: self.connections.seen(),
            flows_exact: self.flows.evicted() == 0,
            top_flows: self
                .top
                .iter()
                .map(|(tally, key)| TopFlow {
                    flow: key.to_string(),
                    packets: tally.packets,
                    bytes: tally.bytes,
                    packet_share: tally.packets as f64 / self.packets as f64,
                })
                .collect(),
            damage,
        }
    }

    fn flow_sizes(&self) -> Option<FlowSizes> {
        let flows: u64 = self.sizes.values().sum();
        let maximum = self.top.first()?.0.packets;
        let quantile = |percent: u64| {
            let wanted = (u128::from(flows) * u128::from(percent)).div_ceil(100) as u64;
            let mut below = 0;
            let found = self.sizes.iter().find(|&(_, &count)| {
                below += count;
                below >= wanted
            });
            found.map_or(0, |(&packets, _)| packets.min(maximum))
        };
        let mut left = flows.div_ceil(10);
        let heaviest = self.sizes.iter().rev().map(|(&packets, &count)| {
            let of_these = count.min(left);
            left -= of_these;
            packets * of_these
        });
        Some(FlowSizes {
            mean: self.packets as f64 / flows as f64,
            p50: quantile(50),
            p90: quantile(90),
            p99: quantile(99),
            maximum,
            heaviest_tenth_share: (heaviest.sum::<u64>() as f64 / self.packets as f64).min(1.0),
        })
    }

    fn lengths(&self) -> Lengths {
        let uppers = LENGTH_CLASSES.iter().skip(1).map(|&next| Some(next - 1)).chain([None]);
        Lengths {
            minimum: self.length_min.min(self.length_max),
            mean: if self.packets == 0 { 0.0 } else { self.bytes as f64 / self.packets as f64 },
            p50: self.quantile(50),
            p90: self.quantile(90),
            p99: self.quantile(99),
            maximum: self.length_max,
            histogram: LENGTH_CLASSES
                .iter()
                .zip(uppers)
                .zip(self.classes)
                .map(|((&from, to), packets)| LengthClass { from, to, packets })
                .collect(),
        }
    }

    /// Returns the smallest length that at least this percentage of the packets do not exceed.
    fn quantile(&self, percent: u64) -> u32 {
        let wanted = (u128::from(self.packets) * u128::from(percent)).div_ceil(100);
        let mut below = 0u128;
        let found = self.lengths.iter().position(|&packets| {
            below += u128::from(packets);
            below >= wanted
        });
        found.map_or(0, |length| length as u32)
    }
}

/// Rounds a number of packets to a class, to keep the classes few: exact up to 256, then 128 steps per
/// doubling.
const fn size_class(packets: u64) -> u64 {
    let shift = (64 - packets.leading_zeros()).saturating_sub(8);
    packets >> shift << shift
}

/// Counts a flow that has ended: its size, and its rank among the heaviest.
fn count(top: &mut Vec<(FlowTally, FlowKey)>, sizes: &mut BTreeMap<u64, u64>, tally: FlowTally, key: &FlowKey) {
    rank(top, tally, key);
    *sizes.entry(size_class(tally.packets)).or_default() += 1;
}

/// Enters a flow into the list of the heaviest. Among equal ones, the smaller key comes first.
fn rank(top: &mut Vec<(FlowTally, FlowKey)>, tally: FlowTally, key: &FlowKey) {
    let heavier = |other: &(FlowTally, FlowKey)| {
        (other.0.packets, other.0.bytes, core::cmp::Reverse(other.1))
            > (tally.packets, tally.bytes, core::cmp::Reverse(*key))
    };
    let at = top.partition_point(heavier);
    if at < TOP_FLOWS {
        top.insert(at, (tally, *key));
        top.truncate(TOP_FLOWS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opening::open;

    #[test]
    fn a_generated_source_is_described_exactly() {
        let mut source = open("gen:poisson:packets=5000,flows=16,length=200,version=mixed", Seed(1)).unwrap();
        let info = info(&mut source, 1_000).unwrap();
        assert_eq!((info.packets, info.bytes, info.captured_bytes), (5_000, 1_000_000, 1_000_000));
        assert_eq!((info.flows, info.connections, info.flows_exact), (16, 16, true));
        assert_eq!(info.ipv4_packets + info.ipv6_packets, 5_000);
        assert_eq!((info.other_packets, info.fragments, info.truncated_packets), (0, 0, 0));
        assert_eq!(info.protocols, BTreeMap::from([("udp".to_string(), 5_000)]));
        assert_eq!(info.link_types, BTreeMap::from([(1, 5_000)]));
        assert_eq!((info.lengths.minimum, info.lengths.p50, info.lengths.maximum), (200, 200, 200));
        assert_eq!(info.lengths.histogram[2], LengthClass { from: 128, to: Some(255), packets: 5_000 });
        assert_eq!(info.top_flows.len(), 10);
        assert!(info.top_flows.windows(2).all(|pair| pair[0].packets >= pair[1].packets));
        assert!((info.mean_rate_pps.unwrap() / 1e6 - 1.0).abs() < 0.1);
        assert_eq!(info.backward_jumps, 0);
    }

    #[test]
    fn too_many_flows_are_said_and_heavy_ones_still_found() {
        let mut source = open("gen:messages:packets=20000,elephant=0.3", Seed(1)).unwrap();
        let info = info(&mut source, 50).unwrap();
        assert!(!info.flows_exact);
        assert!(info.top_flows[0].packet_share > 0.25, "{:?}", info.top_flows[0]);
    }

    #[test]
    fn nothing_is_described_as_nothing() {
        let mut source = open("gen:poisson:packets=0", Seed(1)).unwrap();
        let info = info(&mut source, 10).unwrap();
        assert_eq!((info.packets, info.first_time_ns, info.mean_rate_pps), (0, None, None));
        assert_eq!((info.lengths.minimum, info.lengths.p99), (0, 0));
    }

    #[test]
    fn clocks_that_jump_back_are_counted() {
        struct Jumps(Vec<u64>);
        impl Source for Jumps {
            fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
                frame.time = Time::from_ns(self.0.pop().unwrap_or_default());
                Ok(frame.time > Time::ZERO)
            }
            fn description(&self) -> &str {
                "jumps"
            }
        }
        let info = info(&mut Jumps(vec![9, 3, 8, 10]), 10).unwrap();
        assert_eq!((info.backward_jumps, info.backward_jump_max_ns, info.duration_ns), (2, 5, 7));
        assert_eq!((info.first_time_ns, info.last_time_ns), (Some(10), Some(9)));
    }

    #[test]
    fn flows_that_come_back_after_the_timeout_are_others() {
        let count = |timeout| {
            let mut source = open("gen:poisson:packets=4000,flows=4,pps=1000", Seed(1)).unwrap();
            let options = InfoOptions { flows: 100, timeout, tunnels: Tunnels::NONE };
            info_with(&mut source, &options).unwrap()
        };
        let (whole, cut) = (count(None), count(Some(Time::from_ns(8_000_000))));
        assert_eq!((whole.flows, whole.connections), (4, 4));
        assert!(cut.flows > 100 && cut.flows == cut.connections && cut.flows_exact, "{}", cut.flows);
        assert!(cut.top_flows[0].packets < whole.top_flows[0].packets);
    }
}
