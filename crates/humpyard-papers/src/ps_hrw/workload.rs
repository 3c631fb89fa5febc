//! The work of the cores: the packets of a trace, or the groups of pictures of films, each with its work.

use std::collections::HashMap;

use humpyard_core::frame::Frame;
use humpyard_core::id::{FlowId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::random::{Random, Seed};
use humpyard_traffic::Tunnels;
use humpyard_traffic::header::{FlowKey, Headers, KeyHasher};
use humpyard_traffic::open;

use super::gop_costs::{self, GopCost};
use super::paper::{CORES, LOAD, QUICK_PACKETS};
use crate::harness::Scale;
use humpyard_lab::{Costs, LabError};

/// The kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Workload {
    /// Packets of a trace, by the name of its model, for an L7 filter.
    Trace(&'static str),
    /// Groups of pictures to transcode.
    Films,
}

/// Every workload.
pub(super) const ALL: [Workload; 4] =
    [Workload::Trace("mit"), Workload::Trace("tu"), Workload::Trace("nyp"), Workload::Films];
/// The workloads of the L7 filter.
pub(super) const L7: [Workload; 3] = [ALL[0], ALL[1], ALL[2]];
/// The workload of FFmpeg.
pub(super) const FFMPEG: [Workload; 1] = [ALL[3]];

/// The source of processing times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cost {
    /// The specification's model of the L7 filter, and of FFmpeg.
    Model,
    /// Measured times: of `l7-filter` for a packet, and of transcoding by libav for a group of pictures.
    Measured,
}

impl Cost {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Measured => "measured",
        }
    }
}

/// Most packets of a connection that the L7 filter matches together.
const BUFFER_PACKETS: u64 = 8;
/// Mean number of packets until a connection matches, beyond the first.
const MATCH_MEAN: f64 = 3.0;
/// Time of a packet whose connection has to be matched, in ns: fixed, and per byte of its buffer.
const MATCHING_NS: (u64, u64) = (1_000, 8);
/// Time of a packet whose connection has matched, or cannot match, in ns.
const MATCHED_NS: u64 = 1_500;
/// Time per byte of a packet that stands for a group of pictures, in ns: about 19 ms for a mean one.
const FILM_BYTE_NS: u64 = 13_000;
/// Port of films of the first format, and number of formats.
const FILM_PORT: u16 = 5_100;
const FORMATS: usize = gop_costs::RATES;
/// Mean length of a group's packet in bytes, by format, and its standard deviation over that mean: a log-normal
/// law of 0.3.
const FILM_BYTES: [f64; FORMATS] = [308.5, 367.3, 1_044.0, 3_902.7];
const FILM_VARIATION: f64 = 0.3069;
/// Groups arrive when they are due, or up to a step later. Otherwise the films would arrive in the same order
/// forever, in step with cores that are served in turn.
const JITTER: &str = ",jitter=1";
/// Number of films at a time.
const FILMS: f64 = 20.0;

/// Packets in the order of their arrival: each with its arrival time, and its work in ns as its estimate. Flows
/// are connections, numbered as they appear.
#[derive(Clone, Debug)]
pub(super) struct Offered {
    pub(super) packets: Vec<Packet>,
    pub(super) flows: usize,
}

impl Offered {
    /// Returns the bytes of all packets.
    pub(super) fn bytes(&self) -> u64 {
        self.packets.iter().map(|packet| u64::from(packet.length)).sum()
    }

    /// Returns the mean work of a packet, in ns.
    pub(super) fn mean_work(&self) -> f64 {
        let work: u64 = self.packets.iter().map(|packet| packet.estimate).sum();
        work as f64 / self.packets.len().max(1) as f64
    }
}

impl Workload {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Trace(name) => name,
            Self::Films => "ffmpeg",
        }
    }

    /// Returns its number of packets: at full scale, that of the trace.
    pub(super) fn packets(self, scale: Scale) -> u64 {
        let full = match self {
            Self::Trace("mit") => 340_000,
            Self::Trace("tu") => 1_320_000,
            Self::Trace(_) => 590_000,
            Self::Films => 200_000,
        };
        let quick = if self == Self::Films { 40_000 } else { QUICK_PACKETS };
        scale.pick(quick, full)
    }

    /// Returns this many packets, with arrival times such that all cores are busy for [`LOAD`] of the time, if
    /// packets take only their work.
    ///
    /// # Errors
    /// If the traffic model rejects a parameter.
    pub(super) fn offered(self, cost: Cost, packets: u64, seed: Seed) -> Result<Offered, LabError> {
        self.offered_at(LOAD, cost, packets, seed)
    }

    /// Like [`Self::offered`], at another load.
    ///
    /// # Errors
    /// If the traffic model rejects a parameter.
    pub(super) fn offered_at(self, load: f64, cost: Cost, packets: u64, seed: Seed) -> Result<Offered, LabError> {
        let at_any_rate = self.read(&self.source(packets, None), cost, seed)?;
        let gap_ns = at_any_rate.mean_work() / (load * CORES as f64);
        self.read(&self.source(packets, Some(gap_ns)), cost, seed)
    }

    /// Returns the traffic model with this mean time between packets; the rate changes only the times.
    fn source(self, packets: u64, gap_ns: Option<f64>) -> String {
        let rate = match (self, gap_ns) {
            (Self::Trace(_), None) => String::new(),
            (Self::Films, None) => JITTER.to_owned(),
            (Self::Trace(_), Some(gap)) => format!(",pps={:.0}", (1e9 / gap).clamp(1.0, 1e8)),
            (Self::Films, Some(gap)) => format!(",group={:.6}{JITTER}", (FILMS * gap / 1e6).clamp(1.0, 1e5)),
        };
        format!("gen:{}:packets={packets}{rate}", self.name())
    }

    fn read(self, source: &str, cost: Cost, seed: Seed) -> Result<Offered, LabError> {
        let mut source = open(source, seed)?;
        let hasher = KeyHasher::new(seed);
        let mut connections: HashMap<FlowKey, Connection> = HashMap::new();
        let mut random = seed.stream("ps-hrw/match");
        let price = Price::of(self, cost)?;
        let (mut frame, mut headers) = (Frame::default(), Headers::default());
        let mut packets = Vec::new();
        while source.next_headers(&mut frame, Tunnels::NONE, &mut headers)? {
            let number = connections.len();
            let connection = connections.entry(headers.key.connection()).or_insert_with(|| {
                let hashes = hasher.steering(&headers.key);
                Connection::new(
                    Packet { flow: FlowId::from_index(number), key: hashes.key, rss: hashes.rss, ..Packet::default() },
                    format_of(&headers.key),
                    &mut random,
                )
            });
            let length = frame.wire_length;
            let estimate = price.of_packet(connection, length);
            packets.push(Packet { arrival: frame.time, length, estimate, ..connection.first });
        }
        Ok(Offered { packets, flows: connections.len() })
    }
}

/// Returns the target format of a film, by its port.
fn format_of(key: &FlowKey) -> usize {
    let ports = [key.source_port, key.destination_port];
    let formats = ports.map(|port| usize::from(port.wrapping_sub(FILM_PORT)));
    formats.into_iter().find(|&format| format < FORMATS).unwrap_or(0)
}

/// The state of a connection, for the L7 filter or a film.
struct Connection {
    /// The common fields of its packets.
    first: Packet,
    packets: u64,
    bytes: u64,
    /// The number of the packet with which it matches.
    match_point: u64,
    /// Its target format, if it is a film.
    format: usize,
}

impl Connection {
    fn new(first: Packet, format: usize, random: &mut Random) -> Self {
        let match_point = 1 + random.exponential(MATCH_MEAN) as u64;
        Self { first, packets: 0, bytes: 0, match_point: match_point.min(BUFFER_PACKETS), format }
    }
}

/// The source of packet times.
enum Price {
    L7,
    Film,
    /// The cost of a service of this project.
    Linear(humpyard_core::cost::LinearCost),
    /// The cost with libav, by codec and format.
    Transcoded(Vec<[GopCost; FORMATS]>),
}

impl Price {
    fn of(workload: Workload, cost: Cost) -> Result<Self, LabError> {
        Ok(match (cost, workload) {
            (Cost::Measured, Workload::Films) => Self::Transcoded(gop_costs::measured()),
            (Cost::Measured, Workload::Trace(_)) => Self::Linear(Costs::table("measured")?.cost("l7-filter")?),
            (Cost::Model, Workload::Films) => Self::Film,
            (Cost::Model, Workload::Trace(_)) => Self::L7,
        })
    }

    /// Returns the work of the connection's next packet, in ns.
    fn of_packet(&self, connection: &mut Connection, length: u32) -> u64 {
        connection.packets += 1;
        connection.bytes += u64::from(length);
        match self {
            Self::L7 if connection.packets <= connection.match_point => {
                MATCHING_NS.0 + MATCHING_NS.1 * connection.bytes
            }
            Self::L7 => MATCHED_NS,
            Self::Film => FILM_BYTE_NS * u64::from(length),
            Self::Linear(cost) => cost.work(length),
            Self::Transcoded(costs) => {
                // Films use each codec in turn. The model varies by a log-normal law; the measured times vary
                // less.
                let GopCost { mean_ns, variation } =
                    costs[connection.first.flow.index() % costs.len()][connection.format];
                let beside = f64::from(length) / FILM_BYTES[connection.format] - 1.0;
                (mean_ns * (1.0 + variation / FILM_VARIATION * beside)) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(workload: Workload, packets: u64) -> Offered {
        workload.offered(Cost::Model, packets, Seed(1)).unwrap()
    }

    #[test]
    fn packets_come_as_fast_as_the_load_says() {
        for workload in ALL {
            let offered = offered(workload, 20_000);
            let span = offered.packets.last().unwrap().arrival.since(offered.packets[0].arrival).as_ns();
            let load = offered.mean_work() * offered.packets.len() as f64 / (CORES as f64 * span as f64);
            assert!((load / LOAD - 1.0).abs() < 0.1, "{workload:?}: {load}");
            assert!(offered.packets.is_sorted_by_key(|packet| packet.arrival));
        }
    }

    #[test]
    fn a_buffer_is_matched_as_it_grows_until_it_matches() {
        let first = Packet::default();
        let mut connection = Connection { first, packets: 0, bytes: 0, match_point: 2, format: 0 };
        let works = [100, 50, 1000].map(|length| Price::L7.of_packet(&mut connection, length));
        assert_eq!(works, [1_800, 2_200, 1_500]);
        let points: Vec<u64> = {
            let mut random = Seed(1).stream("test");
            (0..10_000).map(|_| Connection::new(first, 0, &mut random).match_point).collect()
        };
        assert!(points.iter().all(|point| (1..=8).contains(point)) && points.contains(&1) && points.contains(&8));
    }

    #[test]
    fn connections_are_the_same_in_both_directions() {
        let offered = offered(ALL[0], 20_000);
        assert!(offered.flows > 1_000 && offered.flows < 20_000 / 4, "{}", offered.flows);
        let keys: std::collections::BTreeSet<u64> = offered.packets.iter().map(|packet| packet.key).collect();
        assert_eq!(keys.len(), offered.flows);
    }

    #[test]
    fn films_weigh_what_their_formats_take() {
        let offered = offered(Workload::Films, 20_000);
        let mut means: Vec<f64> = (0..offered.flows as u32)
            .map(|film| {
                let works: Vec<f64> = offered
                    .packets
                    .iter()
                    .filter(|packet| packet.flow.0 == film)
                    .map(|packet| packet.estimate as f64)
                    .collect();
                works.iter().sum::<f64>() / works.len() as f64 / (100.0 * FILM_BYTE_NS as f64)
            })
            .collect();
        means.sort_by(f64::total_cmp);
        assert_eq!(means.len() as f64, FILMS);
        for (of_format, expected) in means.chunks(5).zip([3.1, 3.7, 10.4, 39.0]) {
            let found = of_format.iter().sum::<f64>() / 5.0;
            assert!((found / expected - 1.0).abs() < 0.05, "{found}, not {expected}");
        }
    }

    /// Codecs alternate, and the port gives the format, so each result is the mean of the measured times of a
    /// format.
    #[test]
    fn groups_take_what_was_measured() {
        let offered = Workload::Films.offered(Cost::Measured, 40_000, Seed(1)).unwrap();
        let costs = gop_costs::measured();
        for film in 0..offered.flows {
            let works: Vec<f64> = offered
                .packets
                .iter()
                .filter(|packet| packet.flow.index() == film)
                .map(|packet| packet.estimate as f64)
                .collect();
            let count = works.len() as f64;
            let mean = works.iter().sum::<f64>() / count;
            let deviation = (works.iter().map(|work| (work - mean).powi(2)).sum::<f64>() / count).sqrt();
            let of_codec = costs[film % costs.len()];
            let fits = of_codec.iter().any(|cost| {
                (mean / cost.mean_ns - 1.0).abs() < 0.03 && (deviation / mean / cost.variation - 1.0).abs() < 0.1
            });
            assert!(fits, "film {film}: {mean} ns, {deviation}, of {of_codec:?}");
        }
    }
}
