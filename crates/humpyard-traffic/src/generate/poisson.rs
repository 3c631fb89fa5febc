//! `poisson`: packets of one length at Poisson arrival times, from uniformly drawn flows.

use std::sync::Arc;

use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;
use humpyard_core::{choice, params};

use super::addresses::Addresses;
use super::model::{Generator, Model, one_by_one};
use super::numbered::{Draw, DrawnFlows, ServiceFlows};
use super::packet::Version;
use super::poisson_clock::PoissonClock;
use super::profile::{OpenedSource, Opener, Profile};
use super::protocol::Protocol;
use super::services::{Gateway, LENGTH_MAX, Mix, Progress, Service};
use super::sketch::{Sketch, Transport, Writer};
use crate::source::Numbered;

/// The services of the Everest paper.
const SERVICES: Mix = Mix { udp: 0.11, icmp: 0.01, ipv6: 0.5 };

params! {
    /// Parameters of Poisson traffic.
    pub(super) struct PoissonParams {
        /// How many flows there are, each as likely as any other.
        flows: u64 = 64, in 1..=268_435_456, unit "flows";
        /// Mean rate of arrivals.
        pps: u64 = 1_000_000, in 1..=1_000_000_000, unit "packets/s";
        /// How many packets there are.
        packets: u64 = 100_000, unit "packets";
        /// Length of a packet on the wire, Ethernet header included, frame checksum not.
        length: u64 = 64, in 64..=9_000, unit "bytes";
        /// IPv4, IPv6, or every other flow in IPv6.
        version: Versions = Versions::V4;
        /// UDP packets of this length and version, or the services of a gateway with theirs.
        mix: Mixture = Mixture::Udp;
    }
}

choice! {
    /// The kinds of packets.
    pub(super) enum Mixture {
        /// UDP.
        Udp = "udp",
        /// TCP, UDP and ICMP over IPv4 and IPv6.
        Services = "services",
    }
}

choice! {
    /// The IP versions of the flows.
    pub(super) enum Versions {
        /// Only IPv4.
        V4 = "4",
        /// Only IPv6.
        V6 = "6",
        /// Every other flow is IPv6.
        Mixed = "mixed",
    }
}

pub(super) struct Poisson {
    random: Random,
    clock: PoissonClock,
    flows: u64,
    length: u32,
    /// Services, each with the sum of the shares up to it. Empty: UDP alone.
    services: Vec<(f64, Service)>,
    /// Next sequence numbers of the flows of each service.
    progress: Vec<Progress>,
}

/// UDP flows, of which every other may have another IP version.
struct UdpFlows {
    versions: [Version; 2],
    addresses: Addresses,
}

impl DrawnFlows for UdpFlows {
    fn sketch(&self, draw: &Draw) -> Sketch {
        let version = self.versions[(draw.flow % 2) as usize];
        let ends = self.addresses.ends(draw.flow, Protocol::Udp);
        Sketch { text: draw.text, ..Sketch::new(draw.time_ns, draw.length, version, ends, Transport::Udp) }
    }

    fn text(&self, draw: &Draw) -> u32 {
        draw.text
    }
}

/// Sequence numbers kept; further flows share them.
const PROGRESS_MAX: u64 = 65_536;

impl Profile for Poisson {
    const NAME: &'static str = "poisson";
    const SUMMARY: &'static str = "packets of one length at Poisson instants, flows drawn uniformly";
    const SOURCE: &'static str = "The Poisson arrivals of queueing theory: gaps are exponential and independent, and so is \
                                  the choice of the flow. The baseline with neither bursts nor heavy flows, as UDP packets \
                                  over IPv4, IPv6 or both; or as the six services of the Everest paper (TCP 88 %, UDP 11 %, \
                                  ICMP 1 %, half of each over IPv6), each with this number of flows and with lengths of its own.";
    type Params = PoissonParams;

    fn open(params: &PoissonParams, seed: Seed, description: String, _: Opener) -> OpenedSource {
        let gateway = (params.mix == Mixture::Services).then(|| SERVICES.services("poisson", seed));
        let mut up_to = 0.0;
        let mut sum = |service: Service| {
            up_to += service.share;
            (up_to, service)
        };
        let services: Vec<_> = gateway.into_iter().flatten().map(&mut sum).collect();
        let kept = services.len() * params.flows.min(PROGRESS_MAX) as usize;
        let length = params.length as usize;
        let model = Self {
            random: seed.stream("traffic/poisson"),
            clock: PoissonClock::new(1e9 / params.pps as f64),
            flows: params.flows,
            length: params.length as u32,
            services,
            progress: vec![Progress::default(); kept],
        };
        let writer = Writer::new(length.max(LENGTH_MAX as usize), length);
        if let Some(services) = gateway {
            return Generator::open_as(model, Arc::new(ServiceFlows(services)), params.packets, writer, description);
        }
        let versions = match params.version {
            Versions::V4 => [Version::V4; 2],
            Versions::V6 => [Version::V6; 2],
            Versions::Mixed => [Version::V4, Version::V6],
        };
        let flows = UdpFlows { versions, addresses: Addresses::new(seed, "poisson") };
        Generator::open_as(model, Arc::new(flows), params.packets, writer, description)
    }
}

impl Poisson {
    /// Returns a packet of one of the services.
    fn of_service(&mut self, time_ns: u64) -> Draw {
        let draw = self.random.unit();
        let last = self.services.len() - 1;
        let at = self.services.iter().position(|&(up_to, _)| draw < up_to).unwrap_or(last);
        let service = &self.services[at].1;
        let flow = self.random.below(self.flows);
        let length = service.length(&mut self.random);
        let kept = self.progress.len() / self.services.len();
        let number = Gateway::number(at, flow);
        self.progress[at * kept + flow as usize % kept].draw(time_ns, length, number, service)
    }
}

/// Packets drawn at once.
const AT_ONCE: usize = 64;

impl Poisson {
    /// Adds the next packets, at most [`AT_ONCE`], which are UDP. Draws all random bits first: then the gaps
    /// are independent, and the processor computes several at once.
    fn next_udp(&mut self, packets: &mut Vec<Numbered>, count: usize) {
        let (mut bits, mut flows) = ([0; AT_ONCE], [0; AT_ONCE]);
        for (bits, flow) in bits.iter_mut().zip(&mut flows).take(count) {
            *bits = self.random.bits();
            *flow = self.random.below(self.flows);
            // Skips the draw of the text's offset, which is not needed.
            self.random.below(u64::from(self.length));
        }
        let gaps = bits.map(|bits| self.clock.gap_of(bits));
        let length = self.length;
        packets.extend(gaps.iter().zip(&flows).take(count).map(|(&gap_ns, &flow)| {
            let time = Time::from_ns(self.clock.advance(gap_ns));
            Numbered { time, flow, length }
        }));
    }
}

impl Model for Poisson {
    type Packet = Draw;

    #[inline]
    fn next(&mut self) -> Option<Draw> {
        let time_ns = self.clock.tick(&mut self.random);
        if !self.services.is_empty() {
            return Some(self.of_service(time_ns));
        }
        let flow = self.random.below(self.flows);
        let text = self.random.below(u64::from(self.length)) as u32;
        Some(Draw { time_ns, flow, length: self.length, sequence: 0, text })
    }

    fn next_numbered(&mut self, packets: &mut Vec<Numbered>, most: usize) -> bool {
        if !self.services.is_empty() {
            return one_by_one(|| self.next(), packets, most);
        }
        for start in (0..most).step_by(AT_ONCE) {
            self.next_udp(packets, AT_ONCE.min(most - start));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use humpyard_core::frame::Frame;

    use super::super::packet::tests::{all_of, assert_sound};
    use crate::header::{Headers, Network};
    use crate::opening::open;

    use super::*;

    fn run(specification: &str, seed: u64) -> Vec<Frame> {
        let mut source = open(specification, Seed(seed)).unwrap();
        let frames = all_of(&mut *source);
        assert_eq!(source.progress(), Some(1.0));
        frames
    }

    #[test]
    fn packets_are_sound_and_of_the_asked_length() {
        for (version, length) in [("4", 64), ("6", 64), ("mixed", 777), ("6", 9000)] {
            let frames = run(&format!("gen:poisson:packets=50,version={version},length={length}"), 1);
            assert_eq!(frames.len(), 50);
            for frame in &frames {
                assert_sound(frame);
                assert_eq!(frame.data.len(), length);
            }
        }
    }

    #[test]
    fn rate_and_flows_are_as_asked() {
        let frames = run("gen:poisson:packets=40000,flows=16,pps=2M,version=mixed", 2);
        let end_ns = frames.last().unwrap().time.as_ns();
        assert!((end_ns as f64 / 20e6 - 1.0).abs() < 0.03, "{end_ns}");
        let mut flows = BTreeMap::new();
        for frame in &frames {
            *flows.entry(Headers::parse(frame).key).or_insert(0u32) += 1;
        }
        assert_eq!(flows.len(), 16);
        assert_eq!(flows.keys().filter(|key| key.network == Network::Ipv6).count(), 8);
        assert!(flows.values().all(|&packets| packets.abs_diff(2_500) < 250), "{flows:?}");
        // The gaps vary as much as their mean: Poisson.
        let gaps: Vec<f64> =
            frames.windows(2).map(|pair| pair[1].time.since(pair[0].time).as_ns() as f64 / 500.0).collect();
        let variance = gaps.iter().map(|gap| (gap - 1.0) * (gap - 1.0)).sum::<f64>() / gaps.len() as f64;
        assert!((variance - 1.0).abs() < 0.06, "{variance}");
    }

    #[test]
    fn a_seed_gives_one_sequence() {
        assert_eq!(run("gen:poisson:packets=100", 3), run("gen:poisson:packets=100", 3));
        assert_ne!(run("gen:poisson:packets=100", 3), run("gen:poisson:packets=100", 4));
    }
}
