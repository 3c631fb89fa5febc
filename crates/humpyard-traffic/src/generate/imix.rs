//! `imix`: the mix of packet lengths of router tests.

use humpyard_core::params;
use humpyard_core::policy::ParameterValue;
use humpyard_core::random::{Random, Seed};

use super::addresses::Addresses;
use super::model::{Generator, Model};
use super::packet::Version;
use super::poisson_clock::PoissonClock;
use super::profile::{OpenedSource, Opener, Profile};
use super::protocol::Protocol;
use super::sketch::{Sketch, Transport};

params! {
    /// Parameters of mixed lengths.
    pub(super) struct ImixParams {
        /// How many packets there are.
        packets: u64 = 100_000, unit "packets";
        /// Mean rate of arrivals.
        pps: u64 = 1_000_000, in 1..=1_000_000_000, unit "packets/s";
        /// Lengths on the wire, without the frame checksum, and how many packets have each.
        lengths: Lengths = Lengths(vec![(64, 7), (576, 4), (1_518, 1)]), unit "bytes";
        /// How many flows there are, each as likely as any other.
        flows: u64 = 64, in 1..=268_435_456, unit "flows";
        /// Share of the flows that are IPv6.
        ipv6: f64 = 0.0, in 0.0..=1.0;
    }
}

/// Lengths, each with its number of parts.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub(super) struct Lengths(Vec<(u32, u64)>);

impl ParameterValue for Lengths {
    const ACCEPTS: &'static str = "LENGTH*PARTS/LENGTH*PARTS/..., lengths from 64 to 9000";

    fn parse(text: &str) -> Option<Self> {
        let one = |text: &str| {
            let (length, parts) = text.split_once('*')?;
            let (length, parts) = (length.parse().ok()?, parts.parse().ok()?);
            ((64..=9_000).contains(&length) && (1..=1_000_000).contains(&parts)).then_some((length, parts))
        };
        let lengths: Option<Vec<_>> = text.split('/').map(one).collect();
        lengths.filter(|lengths| lengths.len() <= 64).map(Self)
    }

    fn show(&self) -> String {
        self.0.iter().map(|(length, parts)| format!("{length}*{parts}")).collect::<Vec<_>>().join("/")
    }
}

pub(super) struct Imix;

impl Profile for Imix {
    const NAME: &'static str = "imix";
    const SUMMARY: &'static str =
        "64, 576 and 1518 bytes as 7 to 4 to 1, at Poisson instants: what routers are tested with";
    const SOURCE: &'static str = "The Internet mix of router tests in its simplest form; test equipment varies lengths and parts, \
                                  and so can you. UDP over IPv4, IPv6 or both; lengths are drawn independently.";
    type Params = ImixParams;

    fn open(params: &ImixParams, seed: Seed, description: String, _: Opener) -> OpenedSource {
        let longest = params.lengths.0.iter().map(|&(length, _)| length).max().unwrap_or(0);
        let model = Mixed {
            random: seed.stream("traffic/imix"),
            addresses: Addresses::new(seed, "imix"),
            clock: PoissonClock::new(1e9 / params.pps as f64),
            parts: params.lengths.0.iter().map(|(_, parts)| parts).sum(),
            lengths: params.lengths.0.clone(),
            flows: params.flows,
            first_ipv6: params.flows - (params.flows as f64 * params.ipv6).round() as u64,
        };
        Generator::open(model, params.packets, longest as usize, description)
    }
}

struct Mixed {
    random: Random,
    addresses: Addresses,
    clock: PoissonClock,
    lengths: Vec<(u32, u64)>,
    parts: u64,
    flows: u64,
    /// The first IPv6 flow; all later ones are IPv6, too.
    first_ipv6: u64,
}

impl Mixed {
    fn length(&mut self) -> u32 {
        let mut part = self.random.below(self.parts);
        for &(length, parts) in &self.lengths {
            if part < parts {
                return length;
            }
            part -= parts;
        }
        self.lengths[0].0
    }
}

impl Model for Mixed {
    type Packet = Sketch;

    fn next(&mut self) -> Option<Sketch> {
        let time_ns = self.clock.tick(&mut self.random);
        let length = self.length();
        let flow = self.random.below(self.flows);
        let version = if flow < self.first_ipv6 { Version::V4 } else { Version::V6 };
        Some(Sketch::new(time_ns, length, version, self.addresses.ends(flow, Protocol::Udp), Transport::Udp))
    }
}
