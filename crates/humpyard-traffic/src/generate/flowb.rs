//! `flowb`: the connections of `flow`, with each service's time alternating between fast and slow.

use humpyard_core::params;
use humpyard_core::random::{Random, Seed};

use super::flow::{Flows, Start, services};
use super::laws::BoundedPareto;
use super::model::{Generator, Merged, Model};
use super::profile::{OpenedSource, Opener, Profile};
use super::services::{LENGTH_MAX, Mix};
use super::sketch::Sketch;

params! {
    /// Parameters of connections in bursts.
    pub(super) struct FlowbParams {
        /// How many packets there are.
        packets: u64 = 100_000, unit "packets";
        /// Mean rate of arrivals, all services together.
        pps: u64 = 707_000, in 1..=100_000_000, unit "packets/s";
        /// How fast time runs when it is slow; both speeds count relative to their mean.
        slow: f64 = 0.45, in 0.01..=1.0;
        /// How fast time runs when it is fast.
        fast: f64 = 1.35, in 1.0..=100.0;
        /// Tail exponent of the intervals of one speed.
        shape: f64 = 1.4, in 1.05..=5.0;
        /// The shortest interval.
        shortest: f64 = 2.0, in 0.01..=1_000.0, unit "ms";
        /// The longest interval.
        longest: f64 = 400.0, in 0.02..=100_000.0, unit "ms";
        /// Share of the packets that are UDP.
        udp: f64 = 0.11, in 0.0..=1.0;
        /// Share of the packets that are ICMP.
        icmp: f64 = 0.01, in 0.0..=1.0;
        /// Share of the packets that are IPv6.
        ipv6: f64 = 0.5, in 0.0..=1.0;
    }
}

pub(super) struct Flowb;

impl Profile for Flowb {
    const NAME: &'static str = "flowb";
    const SUMMARY: &'static str = "connections as of `flow`, each service fast and slow by turns: realistic and bursty";
    const SOURCE: &'static str = "As `flow`; the clock of each of the six services runs 0.45 or 1.35 times as fast as on average \
         for intervals of 2 to 400 ms (Pareto, 1.4), with either speed as likely.";
    type Params = FlowbParams;

    fn open(params: &FlowbParams, seed: Seed, description: String, _: Opener) -> OpenedSource {
        let mix = Mix { udp: params.udp, icmp: params.icmp, ipv6: params.ipv6 };
        let mean = 0.5 * (params.slow + params.fast);
        let speeds = [params.slow / mean, params.fast / mean];
        let minimum = params.shortest * 1e6;
        let intervals =
            BoundedPareto { shape: params.shape, minimum, maximum: (params.longest * 1e6).max(minimum * 1.001) };
        let warped = services(&mix, params.pps, Start::Midst, seed).map(|flows| {
            let random = seed.stream(&format!("traffic/flowb/{}", flows.name()));
            Warped::new(flows, speeds, intervals, random)
        });
        Generator::open(Merged::new(warped), params.packets, LENGTH_MAX as usize, description)
    }
}

/// A model whose clock changes its speed.
struct Warped {
    flows: Flows,
    random: Random,
    speeds: [f64; 2],
    intervals: BoundedPareto,
    speed: f64,
    /// The start and the end of the current interval, by the model's clock.
    from_ns: f64,
    to_ns: f64,
    /// The start of the interval, by the clock of the traffic.
    began_ns: f64,
}

impl Warped {
    fn new(flows: Flows, speeds: [f64; 2], intervals: BoundedPareto, mut random: Random) -> Self {
        let speed = speeds[random.below(2) as usize];
        let first = intervals.draw_residual(&mut random);
        Self { flows, random, speeds, intervals, speed, from_ns: 0.0, to_ns: first * speed, began_ns: 0.0 }
    }

    fn next_interval(&mut self) {
        self.began_ns += (self.to_ns - self.from_ns) / self.speed;
        self.from_ns = self.to_ns;
        self.speed = self.speeds[self.random.below(2) as usize];
        self.to_ns += self.intervals.draw(&mut self.random) * self.speed;
    }
}

impl Model for Warped {
    type Packet = Sketch;

    fn next(&mut self) -> Option<Sketch> {
        let mut sketch = self.flows.next()?;
        let time_ns = sketch.time_ns as f64;
        while time_ns >= self.to_ns {
            self.next_interval();
        }
        sketch.time_ns = (self.began_ns + (time_ns - self.from_ns) / self.speed) as u64;
        Some(sketch)
    }
}
