//! `messages`: conversations of requests and answers over UDP and TCP, with bursts, heavy tails and one heavy
//! flow, or several.

use etherparse::TcpHeader;
use humpyard_core::frame::Frame;
use humpyard_core::params;
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;

use super::addresses::Addresses;
use super::packet::{Endpoint, HOPS, Parts, Version};
use super::poisson_clock::PoissonClock;
use super::profile::{OpenedSource, Opener, Profile};
use super::protocol::Protocol;
use super::text;
use super::text::Application;
use crate::error::TrafficError;
use crate::source::Source;

/// Tail exponent of the packets per conversation, as measured on real links.
const SIZE_SHAPE: f64 = 1.3;
/// The most packets of a conversation.
const SIZE_MAX: f64 = 5_000.0;
/// Tail exponent and limits of the bytes per answer.
const ANSWER_SHAPE: f64 = 1.1;
const ANSWER_BYTES: (f64, f64) = (120.0, 6_000.0);
/// Bursts have 1 to this many packets, uniformly distributed.
const BURST_MAX: u64 = 6;
/// Time on the wire of a byte at 10 Gbit/s, in tenths of a ns.
const BYTE_TENTHS_NS: u64 = 8;
/// Number of servers, besides those of the heavy flows.
const SERVERS: u64 = 250;
/// The largest IP packet, in bytes.
const IP_BYTES_MAX: usize = 1_500;

params! {
    /// Parameters of conversations.
    pub(super) struct MessagesParams {
        /// How many conversations go on at a time, besides the heavy flows.
        flows: u64 = 256, in 1..=1_048_576, unit "conversations";
        /// How many packets there are.
        packets: u64 = 100_000, unit "packets";
        /// Mean rate of arrivals.
        pps: u64 = 200_000, in 1..=100_000_000, unit "packets/s";
        /// Share of the packets that belong to heavy flows.
        elephant: f64 = 0.15, in 0.0..=1.0;
        /// How many heavy flows have this share, each an equal part of it.
        elephants: u64 = 1, in 1..=65_536, unit "flows";
        /// Share of the conversations over UDP; the others are over TCP.
        udp: f64 = 0.4, in 0.0..=1.0;
        /// Share of the conversations over IPv6.
        ipv6: f64 = 0.4, in 0.0..=1.0;
        /// Share of the conversations with a VLAN tag.
        vlan: f64 = 0.1, in 0.0..=1.0;
        /// Share of the packets with one hop left, so that a router answers with ICMP.
        expiring: f64 = 0.002, in 0.0..=1.0;
    }
}

pub(super) struct Messages {
    description: String,
    addresses: Addresses,
    arrivals: Random,
    choices: Random,
    sizes: Random,
    expiry: Random,
    clock: PoissonClock,
    /// The earliest time of the next packet on the wire.
    free_ns: u64,
    /// The longest time of a packet on the wire: a fraction of the mean gap, so that a high rate is possible.
    wire_ns_max: u64,
    shares: Shares,
    packets: u64,
    made: u64,
    conversations: Vec<Conversation>,
    elephants: Vec<Conversation>,
    opened: u64,
    burst: Burst,
    prose: Vec<u8>,
    payload: Vec<u8>,
}

struct Shares {
    elephant: f64,
    udp: f64,
    ipv6: f64,
    vlan: f64,
    expiring: f64,
}

/// The current burst: its flow, and its remaining packets.
struct Burst {
    flow: BurstOf,
    left: u64,
}

/// The flow of a burst.
#[derive(Clone, Copy)]
enum BurstOf {
    Conversation(usize),
    Elephant(usize),
}

/// A conversation between two endpoints.
struct Conversation {
    number: u64,
    version: Version,
    vlan: Option<u16>,
    client: Endpoint,
    server: Endpoint,
    application: Application,
    /// The state of TCP. `None`: the conversation is over UDP.
    tcp: Option<Tcp>,
    /// Remaining packets.
    left: u64,
    message: Message,
}

/// A TCP conversation: the next sequence numbers of client and server, and the progress of its handshake.
struct Tcp {
    next: [u32; 2],
    opened: Opened,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Opened {
    Nothing,
    Syn,
    SynAck,
    All,
}

/// A message being sent.
#[derive(Default)]
struct Message {
    from_server: bool,
    /// Its number in the conversation, from 1; 0 before the first message.
    number: u32,
    length: usize,
    sent: usize,
    /// The offset of its text in the prose.
    text: usize,
}

impl Profile for Messages {
    const NAME: &'static str = "messages";
    const SUMMARY: &'static str =
        "short requests and answers over UDP and TCP, IPv4 and IPv6, in bursts, and one heavy flow";
    const SOURCE: &'static str = "Conversations of bounded Pareto length (1.3, up to 5000 packets), always the same number at a time; one that ends \
         is followed by a new one. Bursts of 1 to 6 packets start at Poisson instants, and inside a burst packets follow \
         each other at the speed of a 10 Gbit/s link. One TCP flow of full packets, or several, take a fixed share of \
         them. A few packets expire at the first router. TCP conversations open with a handshake and close with FIN; losses do not \
         occur.";
    type Params = MessagesParams;

    fn open(params: &MessagesParams, seed: Seed, description: String, _: Opener) -> OpenedSource {
        let pps = params.pps;
        let mean_burst = (BURST_MAX + 1) as f64 / 2.0;
        let addresses = Addresses::new(seed, "messages");
        let elephants = (0..params.elephants).map(|number| Conversation::elephant(&addresses, number)).collect();
        let mut source = Self {
            description,
            addresses,
            arrivals: seed.stream("traffic/messages/arrivals"),
            choices: seed.stream("traffic/messages/choices"),
            sizes: seed.stream("traffic/messages/sizes"),
            expiry: seed.stream("traffic/messages/expiry"),
            clock: PoissonClock::new(1e9 / pps as f64 * mean_burst),
            free_ns: 0,
            wire_ns_max: 500_000_000 / pps,
            shares: Shares {
                elephant: params.elephant,
                udp: params.udp,
                ipv6: params.ipv6,
                vlan: params.vlan,
                expiring: params.expiring,
            },
            packets: params.packets,
            made: 0,
            conversations: Vec::new(),
            elephants,
            opened: 0,
            burst: Burst { flow: BurstOf::Elephant(0), left: 0 },
            prose: text::prose(PROSE_START_MAX + ANSWER_BYTES.1 as usize),
            payload: Vec::with_capacity(IP_BYTES_MAX),
        };
        source.conversations = (0..params.flows).map(|_| source.open_conversation()).collect();
        Ok(Box::new(source))
    }
}

impl Messages {
    fn open_conversation(&mut self) -> Conversation {
        let number = self.opened;
        self.opened += 1;
        let random = &mut self.choices;
        let udp = random.unit() < self.shares.udp;
        let version = if random.unit() < self.shares.ipv6 { Version::V6 } else { Version::V4 };
        let vlan = (random.unit() < self.shares.vlan).then(|| 100 + random.below(4) as u16);
        let applications = if udp { Application::OVER_UDP } else { Application::OVER_TCP };
        let application = applications[random.below(applications.len() as u64) as usize];
        // No two simultaneous conversations have the same client; the heavy flows have the first ones.
        let first = self.elephants.len() as u64;
        let client = self.addresses.client(number + first, if udp { Protocol::Udp } else { Protocol::Tcp });
        let server = self.addresses.server(random.below(SERVERS), application.port());
        let tcp = (!udp).then(|| Tcp { next: [random.bits() as u32, random.bits() as u32], opened: Opened::Nothing });
        let least = if udp { 1.0 } else { 4.0 };
        Conversation {
            number,
            version,
            vlan,
            client,
            server,
            application,
            tcp,
            left: self.sizes.bounded_pareto(SIZE_SHAPE, least, SIZE_MAX) as u64,
            message: Message::default(),
        }
    }

    /// Returns the flow of the next packet, and its arrival time.
    fn schedule(&mut self) -> (BurstOf, u64) {
        if self.burst.left == 0 {
            let start_ns = self.clock.tick(&mut self.arrivals);
            self.free_ns = self.free_ns.max(start_ns);
            let is_elephant = self.choices.unit() < self.shares.elephant;
            let other = self.choices.below(self.conversations.len() as u64) as usize;
            self.burst.flow = match self.elephants.len() {
                _ if !is_elephant => BurstOf::Conversation(other),
                1 => BurstOf::Elephant(0),
                several => BurstOf::Elephant(self.choices.below(several as u64) as usize),
            };
            self.burst.left = 1 + self.arrivals.below(BURST_MAX);
        }
        self.burst.left -= 1;
        (self.burst.flow, self.free_ns)
    }
}

/// Upper limit of the offset at which a message's prose starts.
const PROSE_START_MAX: usize = 2_000;

impl Source for Messages {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        if self.made == self.packets {
            return Ok(false);
        }
        self.made += 1;
        let (whose, time_ns) = self.schedule();
        frame.time = Time::from_ns(time_ns);
        let hops = if self.expiry.unit() < self.shares.expiring { 1 } else { HOPS };
        let conversation = match whose {
            BurstOf::Conversation(index) => &mut self.conversations[index],
            BurstOf::Elephant(index) => &mut self.elephants[index],
        };
        conversation.packet(&mut self.sizes, &self.prose, &mut self.payload, hops, frame)?;
        let over = conversation.left == 0;
        if let BurstOf::Conversation(index) = whose
            && over
        {
            self.conversations[index] = self.open_conversation();
        }
        let wire_ns = u64::from(frame.wire_length) * BYTE_TENTHS_NS / 10;
        self.free_ns += wire_ns.min(self.wire_ns_max).max(1);
        Ok(true)
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn progress(&self) -> Option<f64> {
        Some(if self.packets == 0 { 1.0 } else { self.made as f64 / self.packets as f64 })
    }

    fn packets_left(&self) -> Option<u64> {
        Some(self.packets - self.made)
    }
}

impl Conversation {
    /// Returns a heavy flow: an endless answer, to a client of its own.
    fn elephant(addresses: &Addresses, number: u64) -> Self {
        let application = Application::Web;
        Self {
            number: 0,
            version: Version::V4,
            vlan: None,
            client: addresses.client(number, Protocol::Tcp),
            server: addresses.server(SERVERS + number, application.port()),
            application,
            tcp: Some(Tcp { next: [1, 1], opened: Opened::All }),
            left: u64::MAX,
            message: Message { from_server: true, number: 1, ..Message::default() },
        }
    }

    /// Returns the next packet.
    fn packet(
        &mut self,
        random: &mut Random,
        prose: &[u8],
        payload: &mut Vec<u8>,
        hops: u8,
        frame: &mut Frame,
    ) -> Result<(), TrafficError> {
        self.left -= 1;
        payload.clear();
        let opening = self.tcp.as_mut().and_then(Tcp::open);
        let (from_server, tcp) = match opening {
            Some((from_server, header)) => (from_server, Some(header)),
            None => {
                self.fill(random, prose, payload);
                (self.message.from_server, self.data_header(payload.len()))
            }
        };
        let (source, destination) = if from_server { (self.server, self.client) } else { (self.client, self.server) };
        Parts { source, destination, version: self.version, vlan: self.vlan, hops, tcp, payload }.write(frame)
    }

    /// Returns the header of a TCP segment with data.
    fn data_header(&mut self, bytes: usize) -> Option<TcpHeader> {
        let tcp = self.tcp.as_mut()?;
        let mut header = tcp.header(self.message.from_server);
        header.psh = self.message.sent == self.message.length;
        header.fin = self.left == 0;
        let sent = bytes as u32 + u32::from(header.fin);
        let next = &mut tcp.next[usize::from(self.message.from_server)];
        *next = next.wrapping_add(sent);
        Some(header)
    }

    /// Fills the payload with the next part of the message, or with the first part of the next message.
    fn fill(&mut self, random: &mut Random, prose: &[u8], payload: &mut Vec<u8>) {
        let room = IP_BYTES_MAX - self.version.header_bytes() - if self.tcp.is_some() { 20 } else { 8 };
        if self.message.sent == self.message.length {
            self.next_message(random, room, payload);
        }
        let message = &mut self.message;
        let bytes = room.min(message.length - message.sent);
        self.application.head(payload, message.from_server, self.number, message.number);
        let head = payload.len();
        // Removes the text before this part, and adds prose up to its length.
        payload.drain(..message.sent.min(head));
        payload.truncate(bytes);
        let start = message.text + message.sent.saturating_sub(head);
        payload.extend_from_slice(&prose[start..start + bytes - payload.len()]);
        message.sent += bytes;
    }

    fn next_message(&mut self, random: &mut Random, room: usize, scratch: &mut Vec<u8>) {
        let is_elephant = self.left > SIZE_MAX as u64;
        let number = self.message.number.wrapping_add(1);
        let from_server = is_elephant || (self.message.number > 0 && !self.message.from_server);
        let wanted = if is_elephant {
            room
        } else if from_server {
            random.bounded_pareto(ANSWER_SHAPE, ANSWER_BYTES.0, ANSWER_BYTES.1) as usize
        } else {
            20 + random.below(380) as usize
        };
        self.application.head(scratch, from_server, self.number, number);
        let length = wanted.max(scratch.len());
        // A datagram is one message.
        let length = if self.tcp.is_some() { length } else { length.min(room) };
        self.message =
            Message { from_server, number, length, sent: 0, text: random.below(PROSE_START_MAX as u64) as usize };
    }
}

impl Tcp {
    /// Returns the next segment of the handshake. `None`: the handshake is complete.
    fn open(&mut self) -> Option<(bool, TcpHeader)> {
        let from_server = self.opened == Opened::Syn;
        let mut header = self.header(from_server);
        self.opened = match self.opened {
            Opened::Nothing => {
                header.ack = false;
                header.acknowledgment_number = 0;
                Opened::Syn
            }
            Opened::Syn => Opened::SynAck,
            Opened::SynAck => Opened::All,
            Opened::All => return None,
        };
        if self.opened != Opened::All {
            header.syn = true;
            let next = &mut self.next[usize::from(from_server)];
            *next = next.wrapping_add(1);
        }
        Some((from_server, header))
    }

    fn header(&self, from_server: bool) -> TcpHeader {
        let mut header = TcpHeader::new(0, 0, self.next[usize::from(from_server)], 64_240);
        header.ack = true;
        header.acknowledgment_number = self.next[usize::from(!from_server)];
        header
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::packet::tests::{assert_sound, frames};
    use crate::header::{FlowKey, Headers, Kind, Network};

    use super::*;

    fn share(frames: &[Frame], of: impl Fn(&Headers, &Frame) -> bool) -> f64 {
        frames.iter().filter(|frame| of(&Headers::parse(frame), frame)).count() as f64 / frames.len() as f64
    }

    #[test]
    fn packets_are_sound_in_order_and_within_limits() {
        let frames = frames("gen:messages:packets=20000", 1);
        assert_eq!(frames.len(), 20_000);
        assert!(frames.windows(2).all(|pair| pair[0].time < pair[1].time));
        for frame in &frames {
            assert_sound(frame);
            assert!((64..=1_518).contains(&frame.data.len()), "{}", frame.data.len());
        }
    }

    #[test]
    fn the_mix_is_as_described() {
        let frames = frames("gen:messages:packets=60000", 2);
        let mut flows: BTreeMap<FlowKey, u32> = BTreeMap::new();
        for frame in &frames {
            *flows.entry(Headers::parse(frame).key).or_default() += 1;
        }
        let heaviest = f64::from(*flows.values().max().unwrap()) / frames.len() as f64;
        assert!((heaviest - 0.15).abs() < 0.01, "{heaviest}");
        assert!(flows.len() > 1_000, "{}", flows.len());
        for (name, found) in [
            ("tcp", share(&frames, |headers, _| headers.kind == Kind::Tcp)),
            ("udp", share(&frames, |headers, _| headers.kind == Kind::Udp)),
            ("ipv6", share(&frames, |headers, _| headers.key.network == Network::Ipv6)),
            ("vlan", share(&frames, |headers, _| headers.ip_offset == Some(18))),
        ] {
            assert!((0.04..0.9).contains(&found), "{name} {found}");
        }
        let expiring = share(&frames, |headers, frame| {
            let ip = headers.ip_offset.unwrap() as usize;
            frame.data[ip + if headers.version() == Some(4) { 8 } else { 7 }] == 1
        });
        assert!((expiring - 0.002).abs() < 0.001, "{expiring}");
        let end_ns = frames.last().unwrap().time.as_ns();
        assert!((end_ns as f64 / 300e6 - 1.0).abs() < 0.05, "{end_ns}");
    }

    #[test]
    fn heavy_flows_divide_their_share_equally() {
        let frames = frames("gen:messages:packets=60000,elephant=0.4,elephants=4", 2);
        let mut flows: BTreeMap<FlowKey, u32> = BTreeMap::new();
        for frame in &frames {
            *flows.entry(Headers::parse(frame).key).or_default() += 1;
        }
        let mut shares: Vec<f64> = flows.values().map(|&count| f64::from(count) / frames.len() as f64).collect();
        shares.sort_by(|first, second| second.total_cmp(first));
        assert!(shares[..4].iter().all(|share| (share - 0.1).abs() < 0.01), "{:?}", &shares[..5]);
        assert!(shares[4] < 0.05, "{:?}", &shares[..5]);
    }

    #[test]
    fn high_rates_are_kept() {
        for pps in [5_000_000u64, 100_000_000] {
            let frames = frames(&format!("gen:messages:packets=60000,pps={pps}"), 3);
            let rate = 60_000.0 * 1e9 / frames.last().unwrap().time.as_ns() as f64;
            assert!((rate / pps as f64 - 1.0).abs() < 0.06, "{rate} {pps}");
        }
    }

    #[test]
    fn tcp_streams_have_no_gaps() {
        let mut next: BTreeMap<FlowKey, u32> = BTreeMap::new();
        for frame in frames("gen:messages:packets=20000,udp=0,flows=20", 4) {
            let headers = Headers::parse(&frame);
            let packet = etherparse::LaxSlicedPacket::from_ethernet(&frame.data).unwrap();
            let Some(etherparse::TransportSlice::Tcp(tcp)) = packet.transport else { panic!("no TCP") };
            let length = tcp.payload().len() as u32 + u32::from(tcp.syn()) + u32::from(tcp.fin());
            if let Some(&expected) = next.get(&headers.key) {
                assert_eq!(tcp.sequence_number(), expected, "{}", headers.key);
            }
            next.insert(headers.key, tcp.sequence_number().wrapping_add(length));
            if tcp.fin() {
                next.remove(&headers.key);
            }
        }
    }

    #[test]
    fn extreme_shares_work() {
        for shares in ["elephant=1", "elephant=0,udp=1,ipv6=1,vlan=1,expiring=1,flows=1", "udp=0,ipv6=0,vlan=0"] {
            assert_eq!(frames(&format!("gen:messages:packets=3000,{shares}"), 5).len(), 3_000);
        }
    }

    #[test]
    fn a_seed_gives_one_sequence() {
        assert_eq!(frames("gen:messages:packets=2000", 6), frames("gen:messages:packets=2000", 6));
        assert_ne!(frames("gen:messages:packets=2000", 6), frames("gen:messages:packets=2000", 7));
    }
}
