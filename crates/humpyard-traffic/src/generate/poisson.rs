//! `poisson`: packets of one length at Poisson instants, their flows drawn uniformly.

use humpyard_core::frame::Frame;
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;
use humpyard_core::{choice, params};

use super::packet::{Endpoint, HOPS, Parts, Side, Version};
use super::{PoissonClock, Profile, text};
use crate::error::TrafficError;
use crate::source::Source;

/// Ethernet and UDP header.
const HEADER_BYTES: usize = 14 + 8;

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
    }
}

choice! {
    /// The IP versions of the flows.
    pub(super) enum Versions {
        /// IPv4 alone.
        V4 = "4",
        /// IPv6 alone.
        V6 = "6",
        /// Every other flow in IPv6.
        Mixed = "mixed",
    }
}

pub(super) struct Poisson {
    description: String,
    random: Random,
    clock: PoissonClock,
    flows: u64,
    length: usize,
    versions: [Version; 2],
    packets: u64,
    made: u64,
    text: Vec<u8>,
}

impl Profile for Poisson {
    const NAME: &'static str = "poisson";
    const SUMMARY: &'static str = "packets of one length at Poisson instants, flows drawn uniformly";
    const SOURCE: &'static str = "The Poisson arrivals of queueing theory: gaps are exponential and independent, and so is \
                                  the choice of the flow. The baseline with neither bursts nor heavy flows, as UDP packets \
                                  over IPv4, IPv6 or both.";
    type Params = PoissonParams;

    fn new(params: &PoissonParams, seed: Seed, description: String) -> Self {
        let length = params.length as usize;
        Self {
            description,
            random: seed.stream("traffic/poisson"),
            clock: PoissonClock::new(1e9 / params.pps as f64),
            flows: params.flows,
            length,
            versions: match params.version {
                Versions::V4 => [Version::V4; 2],
                Versions::V6 => [Version::V6; 2],
                Versions::Mixed => [Version::V4, Version::V6],
            },
            packets: params.packets,
            made: 0,
            text: text::prose(2 * length),
        }
    }
}

impl Poisson {
    /// The endpoints of a flow: as many addresses as fit, then as many ports.
    fn endpoints(flow: u64) -> (Endpoint, Endpoint) {
        let client = Endpoint { side: Side::Client, host: flow as u16, port: 10_000 + (flow >> 16) as u16 };
        (client, Endpoint { side: Side::Server, host: (flow % 251) as u16 + 1, port: 5_001 })
    }
}

impl Source for Poisson {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        if self.made == self.packets {
            return Ok(false);
        }
        self.made += 1;
        frame.time = Time::from_ns(self.clock.tick(&mut self.random));
        let flow = self.random.below(self.flows);
        let (source, destination) = Self::endpoints(flow);
        let version = self.versions[(flow % 2) as usize];
        let payload_bytes = self.length - HEADER_BYTES - version.header_bytes();
        let start = self.random.below(self.length as u64) as usize;
        let payload = &self.text[start..start + payload_bytes];
        Parts { source, destination, version, vlan: None, hops: HOPS, tcp: None, payload }.write(frame)?;
        Ok(true)
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn progress(&self) -> Option<f64> {
        Some(if self.packets == 0 { 1.0 } else { self.made as f64 / self.packets as f64 })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::packet::tests::assert_sound;
    use crate::header::{Headers, Network};
    use crate::source::{Source, open};

    use super::*;

    fn run(specification: &str, seed: u64) -> Vec<Frame> {
        let mut source = open(specification, Seed(seed)).unwrap();
        let mut frames = Vec::new();
        let mut frame = Frame::default();
        while source.next(&mut frame).unwrap() {
            frames.push(frame.clone());
        }
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
        // Gaps that vary as much as their mean: Poisson.
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

    #[test]
    fn many_flows_have_keys_of_their_own() {
        let key = |flow| Poisson::endpoints(flow);
        assert_ne!(key(0), key(1 << 16));
        assert_ne!(key(5), key(5 + (1 << 20)));
    }
}
