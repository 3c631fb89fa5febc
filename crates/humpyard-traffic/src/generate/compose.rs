//! `compose`: combines the arrival times of one source, the flow sizes of a law, and the packets of a real
//! capture.

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::params;
use humpyard_core::random::{Random, Seed};
use std::collections::HashMap;

use super::addresses::Addresses;
use super::laws::FlowSize;
use super::packet::{Endpoint, Side};
use super::profile::{OpenedSource, Opener, Profile};
use super::rewrite;
use super::specification::Specification;
use crate::error::TrafficError;
use crate::header::{FlowKey, Headers};
use crate::source::{Polled, Source};

/// Most captured bytes and packets of the payloads kept.
const PAYLOAD_BYTES_MAX: usize = 64 << 20;
const PAYLOAD_PACKETS_MAX: usize = 1 << 20;

params! {
    /// Parameters of composed traffic.
    pub(super) struct ComposeParams {
        /// When packets come: a source, of which the times count alone.
        arrivals: Specification = Specification("gen:poisson".into());
        /// How many packets flows have: `constant:packets=`, `geometric:mean=`, `pareto:shape=;mean=;max=`, or `capture` for as many as in the payloads.
        flows: Specification = Specification("pareto:shape=1.3;mean=10;max=5000".into());
        /// What packets carry, and how long they are: a capture, or another source.
        payloads: Specification = Specification("gen:messages:packets=20000".into());
        /// How many flows go on at a time.
        concurrent: u64 = 256, in 1..=1_048_576, unit "flows";
    }
}

pub(super) struct Compose;

impl Profile for Compose {
    const NAME: &'static str = "compose";
    const SUMMARY: &'static str = "arrival times of one source, flow sizes of a law, packets of a real capture";
    const SOURCE: &'static str = "Every arrival is the next packet of one of the flows that go on, each as likely; a flow that has had \
         its packets is followed by a new one. A flow is a connection of the capture, drawn anew for each: its packets in order, \
         both ways, from the start again where the law asks for more. The client's address is the flow's own (10.0.0.0/8, or \
         fd00:0:0:1::/64; the first 2^24 - 2 flows differ), and checksums follow; all else is as captured. Flows are in their midst \
         when the traffic begins. Of the capture the first 64 MiB or 2^20 packets are kept in memory.";
    type Params = ComposeParams;

    fn open(params: &ComposeParams, seed: Seed, description: String, open: Opener) -> OpenedSource {
        let options = ComposeOptions {
            arrivals: params.arrivals.text(),
            flows: params.flows.text(),
            payloads: params.payloads.text(),
            concurrent: params.concurrent,
        };
        Ok(Box::new(Composed { description, ..composed(&options, seed, open)? }))
    }
}

/// The parts of composed traffic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ComposeOptions {
    /// The source of the arrival times; its packets are not used.
    pub arrivals: String,
    /// The law of packets per flow: `constant:packets=..`, `geometric:mean=..`,
    /// `pareto:shape=..,mean=..,max=..`, or `capture` for the sizes in the payloads.
    pub flows: String,
    /// The source of payloads and lengths: a capture, or another source.
    pub payloads: String,
    /// Flows at a time: at least 1.
    pub concurrent: u64,
}

/// Composes traffic from sources that `open` opens.
pub(crate) fn composed(options: &ComposeOptions, seed: Seed, open: Opener) -> Result<Composed, TrafficError> {
    let sizes = match options.flows.as_str() {
        "capture" => None,
        law => Some(FlowSize::parse(law)?),
    };
    let arrivals = open(&options.arrivals, seed)?;
    let payloads = Payloads::load(&mut *open(&options.payloads, seed)?)?;
    let ComposeOptions { arrivals: times, flows, payloads: capture, .. } = options;
    let mut composed = Composed {
        description: format!("arrivals of {times}, flows of {flows}, payloads of {capture}"),
        arrivals,
        sizes,
        payloads,
        random: seed.stream("traffic/compose"),
        addresses: Addresses::new(seed, "compose"),
        flows: Vec::new(),
        opened: 0,
    };
    composed.flows = (0..options.concurrent.max(1)).map(|_| composed.resume()).collect();
    Ok(composed)
}

/// Composed traffic.
pub(crate) struct Composed {
    description: String,
    arrivals: Box<dyn Source + Send>,
    /// `None`: the sizes of the capture.
    sizes: Option<FlowSize>,
    payloads: Payloads,
    random: Random,
    addresses: Addresses,
    flows: Vec<Flow>,
    opened: u64,
}

/// An active flow.
struct Flow {
    /// The host number of the client.
    client: u32,
    connection: usize,
    /// The index of the connection's next packet.
    at: usize,
    left: u64,
}

impl Composed {
    /// Returns a flow that has already started.
    fn resume(&mut self) -> Flow {
        // A random packet selects its connection with a probability proportional to its length.
        let packet = self.random.below(self.payloads.packets.len() as u64) as usize;
        let connection = self.payloads.packets[packet].connection;
        let packets = &self.payloads.connections[connection];
        let at = packets.partition_point(|&other| (other as usize) < packet);
        let left = match self.sizes {
            None => (packets.len() - at) as u64,
            Some(law) => law.draw_residual(&mut self.random),
        };
        self.client(connection, at, left)
    }

    /// Starts a flow.
    fn begin(&mut self) -> Flow {
        let connection = self.random.below(self.payloads.connections.len() as u64) as usize;
        let left = match self.sizes {
            None => self.payloads.connections[connection].len() as u64,
            Some(law) => law.draw(&mut self.random),
        };
        self.client(connection, 0, left)
    }

    fn client(&mut self, connection: usize, at: usize, left: u64) -> Flow {
        let client = self.addresses.client_host(self.opened);
        self.opened += 1;
        Flow { client, connection, at, left }
    }

    /// Fills the frame, except for its time, with the next packet of a flow.
    fn fill(&mut self, frame: &mut Frame) {
        let whose = self.random.below(self.flows.len() as u64) as usize;
        let flow = &mut self.flows[whose];
        let packets = &self.payloads.connections[flow.connection];
        let packet = &self.payloads.packets[packets[flow.at] as usize];
        packet.copy(&self.payloads.bytes, frame);
        let client = flow.client;
        rewrite::addresses(frame, &packet.headers, |source, destination| {
            write_client(if packet.from_client { source } else { destination }, client);
        });
        flow.at = (flow.at + 1) % packets.len();
        flow.left -= 1;
        if flow.left == 0 {
            self.flows[whose] = self.begin();
        }
    }
}

/// Writes the address of a client.
fn write_client(address: &mut [u8], host: u32) {
    let client = Endpoint { side: Side::Client, host, port: 0 };
    match address.len() {
        4 => address.copy_from_slice(&client.ipv4()),
        _ => address.copy_from_slice(&client.ipv6()),
    }
}

impl Source for Composed {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        let more = self.arrivals.next(frame)?;
        if more {
            self.fill(frame);
        } else if let Some(damage) = self.payloads.damage.take() {
            return Err(damage);
        }
        Ok(more)
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        let polled = self.arrivals.poll(frame)?;
        match polled {
            Polled::Frame => self.fill(frame),
            Polled::End => self.payloads.damage.take().map_or(Ok(()), Err)?,
            Polled::NotYet => {}
        }
        Ok(polled)
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn progress(&self) -> Option<f64> {
        self.arrivals.progress()
    }
}

/// The packets of a capture, by connection.
struct Payloads {
    bytes: Vec<u8>,
    packets: Vec<Packet>,
    /// Numbers of the packets of each connection, in order.
    connections: Vec<Vec<u32>>,
    /// The damage of the capture behind these packets, reported at the end.
    damage: Option<TrafficError>,
}

struct Packet {
    start: usize,
    length: usize,
    wire_length: u32,
    link: LinkType,
    headers: Headers,
    connection: usize,
    /// Whether the sender of the connection's first packet sends it.
    from_client: bool,
}

impl Packet {
    fn copy(&self, bytes: &[u8], frame: &mut Frame) {
        frame.data.clear();
        frame.data.extend_from_slice(&bytes[self.start..self.start + self.length]);
        frame.wire_length = self.wire_length;
        frame.link = self.link;
    }
}

impl Payloads {
    fn load(source: &mut dyn Source) -> Result<Self, TrafficError> {
        let mut payloads = Self { bytes: Vec::new(), packets: Vec::new(), connections: Vec::new(), damage: None };
        let mut known: HashMap<FlowKey, usize> = HashMap::new();
        let mut firsts: Vec<FlowKey> = Vec::new();
        let mut frame = Frame::default();
        while payloads.has_room(&frame) {
            match source.next(&mut frame) {
                Ok(true) => {}
                Ok(false) => break,
                // The packets before the damage are valid.
                Err(error) if error.is_damage() => {
                    payloads.damage = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
            let headers = Headers::parse(&frame);
            if headers.ip_offset.is_none() {
                continue;
            }
            let connection = *known.entry(headers.key.connection()).or_insert_with(|| {
                firsts.push(headers.key);
                payloads.connections.push(Vec::new());
                firsts.len() - 1
            });
            payloads.connections[connection].push(payloads.packets.len() as u32);
            let from_client = firsts[connection] == headers.key;
            let (start, length) = (payloads.bytes.len(), frame.data.len());
            payloads.bytes.extend_from_slice(&frame.data);
            let (wire_length, link) = (frame.wire_length, frame.link);
            payloads.packets.push(Packet { start, length, wire_length, link, headers, connection, from_client });
        }
        if payloads.packets.is_empty() {
            return Err(TrafficError::unusable(source.description(), "there is no IP packet to take payloads from"));
        }
        Ok(payloads)
    }

    fn has_room(&self, frame: &Frame) -> bool {
        self.packets.len() < PAYLOAD_PACKETS_MAX && self.bytes.len() + frame.data.len() < PAYLOAD_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::packet::tests::{assert_sound, frames};
    use super::*;
    use crate::opening::open;

    #[test]
    fn times_are_those_of_the_arrivals_and_lengths_those_of_the_payloads() {
        let composed = frames("gen:compose:arrivals=gen:onoff:packets=5k;pps=1M,payloads=gen:messages:packets=800", 3);
        let arrivals = frames("gen:onoff:packets=5k,pps=1M", 3);
        let payloads = frames("gen:messages:packets=800", 3);
        assert_eq!(composed.len(), 5_000);
        let lengths: std::collections::BTreeSet<u32> = payloads.iter().map(|frame| frame.wire_length).collect();
        for (frame, arrival) in composed.iter().zip(&arrivals) {
            assert_eq!(frame.time, arrival.time);
            assert!(lengths.contains(&frame.wire_length));
            assert_sound(frame);
        }
    }

    #[test]
    fn flows_have_the_sizes_of_the_law_and_the_packets_of_one_connection() {
        let payloads = "payloads=gen:messages:packets=4000;elephant=0";
        let composed =
            frames(&format!("gen:compose:arrivals=gen:poisson:packets=60k,flows=constant:packets=6,{payloads}"), 1);
        let mut packets: BTreeMap<FlowKey, Vec<usize>> = BTreeMap::new();
        for (at, frame) in composed.iter().enumerate() {
            packets.entry(Headers::parse(frame).key.connection()).or_default().push(at);
        }
        assert!(packets.len().abs_diff(10_000 + 128) < 200, "{}", packets.len());
        let sixes = packets.values().filter(|packets| packets.len() == 6).count();
        assert!(sixes > 9_500, "{sixes}");
        assert!(packets.values().all(|packets| packets.len() <= 6));
        // TCP's sequence numbers continue from the connection's start.
        let whole: Vec<&Vec<usize>> = packets.values().filter(|packets| packets.len() == 6).collect();
        let opened = whole.iter().filter(|packets| {
            let frame = &composed[packets[0]];
            let packet = etherparse::LaxSlicedPacket::from_ethernet(&frame.data).unwrap();
            matches!(packet.transport, Some(etherparse::TransportSlice::Tcp(tcp)) if tcp.syn() && !tcp.ack())
        });
        assert!(opened.count() > 4_000);
    }

    #[test]
    fn the_captures_own_sizes_can_be_kept() {
        let payloads = "gen:poisson:packets=700;flows=7";
        let composed =
            frames(&format!("gen:compose:arrivals=gen:poisson:packets=40k,flows=capture,payloads={payloads}"), 1);
        let mut packets: BTreeMap<FlowKey, u64> = BTreeMap::new();
        composed.iter().for_each(|frame| *packets.entry(Headers::parse(frame).key).or_default() += 1);
        let most = *packets.values().max().unwrap();
        assert!((110..=140).contains(&most), "{most}");
    }

    #[test]
    fn what_cannot_be_composed_says_why() {
        for (specification, expected) in [
            ("gen:compose:flows=paerto", "no law of flow sizes `paerto`; did you mean `pareto`?"),
            ("gen:compose:payloads=/no/such.pcap", "/no/such.pcap: there is no such file"),
            ("gen:compose:arrivals=gen:poison", "no traffic profile `poison`"),
            ("gen:compose:payloads=gen:poisson:packets=0", "there is no IP packet to take payloads from"),
            ("gen:compose:concurrent=0", "`concurrent` takes 1 to 1048576"),
        ] {
            let error = open(specification, Seed(1)).err().expect(specification).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
