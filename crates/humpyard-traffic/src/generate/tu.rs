//! `tu`: connections like those of the TU trace.

use humpyard_core::params;
use humpyard_core::random::Seed;

use super::connections::{Connections, LENGTH_MAX, Trace};
use super::model::Generator;
use super::profile::{OpenedSource, Opener, Profile};

params! {
    /// Parameters of connections like those of the TU trace.
    pub(super) struct TuParams {
        /// How many packets there are: by default as many as in the trace.
        packets: u64 = 1_320_000, unit "packets";
        /// Mean rate of arrivals; the trace's own is not known.
        pps: u64 = 100_000, in 1..=100_000_000, unit "packets/s";
        /// How many connections go on at a time.
        connections: u64 = 1_500, in 1..=1_048_576, unit "connections";
    }
}

pub(super) struct Tu;

impl Profile for Tu {
    const NAME: &'static str = "tu";
    const SUMMARY: &'static str = "TCP connections as in the TU trace: 12 packets each, 758 bytes a packet";
    const SOURCE: &'static str = "Stands for the trace TU of the PS-HRW paper, table 2: 1.32 million packets of 110,000 connections, 1 GB. \
         Lengths of connections are bounded Pareto (1.3, up to 5000 packets); bursts of 1 to 6 packets at the speed of a \
         10 Gbit/s link begin at Poisson instants; packets have 64, 576 or 1400 bytes in proportions that give the mean. \
         The first data of either end is an HTTP message. Connections are in their midst when the traffic begins.";
    type Params = TuParams;

    fn open(params: &TuParams, seed: Seed, description: String, _: Opener) -> OpenedSource {
        let trace = Trace {
            name: Self::NAME,
            connection_packets: 12.0,
            mean_bytes: 758.0,
            middle: 0.07,
            pps: params.pps,
            connections: params.connections,
        };
        Generator::open(Connections::new(&trace, seed), params.packets, LENGTH_MAX, description)
    }
}
