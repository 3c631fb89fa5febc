//! `poisson`: packets of one length at Poisson instants, their flows drawn uniformly.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use humpyard_core::frame::Frame;
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;

use super::packet::{Endpoint, HOPS, Parts, Side, Version};
use super::parameter::{Domain, Parameter, Values};
use super::{PoissonClock, Profile, text};
use crate::error::TrafficError;
use crate::source::Source;

/// Ethernet and UDP header.
const HEADER_BYTES: usize = 14 + 8;

pub(super) const PROFILE: Profile = Profile {
    name: "poisson",
    summary: "packets of one length at Poisson instants, flows drawn uniformly",
    description: "UDP packets over IPv4, IPv6 or both. Gaps are exponential and independent, so is the choice of the flow: \
                  the baseline with neither bursts nor heavy flows.",
    parameters: &[
        Parameter {
            name: "flows",
            domain: Domain::Integer { default: 64, minimum: 1, maximum: 1 << 28 },
            unit: "flows",
            doc: "how many flows there are, each as likely as any other",
        },
        Parameter {
            name: "pps",
            domain: Domain::Integer { default: 1_000_000, minimum: 1, maximum: 1_000_000_000 },
            unit: "packets/s",
            doc: "mean rate of arrivals",
        },
        Parameter {
            name: "packets",
            domain: Domain::Integer { default: 100_000, minimum: 0, maximum: u64::MAX },
            unit: "packets",
            doc: "how many packets there are",
        },
        Parameter {
            name: "length",
            domain: Domain::Integer { default: 64, minimum: 64, maximum: 9_000 },
            unit: "bytes",
            doc: "length of a packet on the wire, Ethernet header included, frame checksum not",
        },
        Parameter {
            name: "version",
            domain: Domain::Choice { default: "4", options: &["4", "6", "mixed"] },
            unit: "IP version",
            doc: "IPv4, IPv6, or every other flow in IPv6",
        },
    ],
    build: |values, seed, description| Box::new(Poisson::new(values, seed, description)),
};

struct Poisson {
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

impl Poisson {
    fn new(values: &Values, seed: Seed, description: String) -> Self {
        let length = values.integer("length") as usize;
        Self {
            description,
            random: seed.stream("traffic/poisson"),
            clock: PoissonClock::new(1e9 / values.integer("pps") as f64),
            flows: values.integer("flows"),
            length,
            versions: match values.choice("version") {
                "6" => [Version::V6; 2],
                "mixed" => [Version::V4, Version::V6],
                _ => [Version::V4; 2],
            },
            packets: values.integer("packets"),
            made: 0,
            text: text::prose(2 * length),
        }
    }

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
    use alloc::collections::BTreeMap;

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
