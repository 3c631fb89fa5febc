//! `mmpp`: Poisson arrivals whose rate alternates between two values, independently for each service.

use std::sync::Arc;

use humpyard_core::params;
use humpyard_core::random::{Random, Seed};

use super::model::{Generator, Merged, Model};
use super::numbered::{Draw, ServiceFlows};
use super::profile::{OpenedSource, Opener, Profile};
use super::services::{Gateway, LENGTH_MAX, Mix, Progress, Service};
use super::sketch::Writer;

params! {
    /// Parameters of Poisson arrivals modulated by two states.
    pub(super) struct MmppParams {
        /// How many packets there are.
        packets: u64 = 100_000, unit "packets";
        /// Mean rate of arrivals, all services together.
        pps: u64 = 707_000, in 1..=100_000_000, unit "packets/s";
        /// Rate in the upper state over that in the lower one.
        ratio: f64 = 3.5, in 1.0..=1_000.0;
        /// Mean time in the lower state.
        low: f64 = 40.0, in 0.001..=100_000.0, unit "ms";
        /// Mean time in the upper state.
        high: f64 = 10.0, in 0.001..=100_000.0, unit "ms";
        /// Flows of each service, each as likely as any other.
        flows: u64 = 64, in 1..=65_536, unit "flows";
        /// Share of the packets that are UDP.
        udp: f64 = 0.11, in 0.0..=1.0;
        /// Share of the packets that are ICMP.
        icmp: f64 = 0.01, in 0.0..=1.0;
        /// Share of the packets that are IPv6.
        ipv6: f64 = 0.5, in 0.0..=1.0;
    }
}

pub(super) struct Mmpp;

impl Profile for Mmpp {
    const NAME: &'static str = "mmpp";
    const SUMMARY: &'static str = "Poisson arrivals whose rate switches between two states: waves of overload";
    const SOURCE: &'static str = "The Markov-modulated Poisson process of queueing theory. Each of six services (TCP, UDP, ICMP \
         over IPv4 and IPv6) has a lower and an upper rate and stays in either for an exponential time; at high load the \
         peaks exceed what the cores can do.";
    type Params = MmppParams;

    fn open(params: &MmppParams, seed: Seed, description: String, _: Opener) -> OpenedSource {
        let mix = Mix { udp: params.udp, icmp: params.icmp, ipv6: params.ipv6 };
        let stays = [params.low * 1e6, params.high * 1e6];
        let part_high = params.high / (params.low + params.high);
        let low = params.pps as f64 / 1e9 / (1.0 + part_high * (params.ratio - 1.0));
        let services = mix.services("mmpp", seed);
        let models = services.iter().enumerate().map(|(index, &service)| {
            let rates = [low * service.share, low * params.ratio * service.share];
            Modulated::new((index, service), rates, stays, params.flows as usize, seed)
        });
        let writer = Writer::new(LENGTH_MAX as usize, 0);
        Generator::open_as(Merged::new(models), Arc::new(ServiceFlows(services)), params.packets, writer, description)
    }
}

/// One service.
struct Modulated {
    /// The index of the service.
    index: usize,
    service: Service,
    random: Random,
    /// Rates in both states, in packets per ns.
    rates: [f64; 2],
    /// Mean times in both states, in ns.
    stays: [f64; 2],
    state: usize,
    until_ns: f64,
    now_ns: f64,
    flows: Vec<Progress>,
}

impl Modulated {
    fn new((index, service): (usize, Service), rates: [f64; 2], stays: [f64; 2], flows: usize, seed: Seed) -> Self {
        let mut random = seed.stream(&format!("traffic/mmpp/{}", service.name()));
        let state = usize::from(random.unit() * (stays[0] + stays[1]) < stays[1]);
        let until_ns = random.exponential(stays[state]);
        let flows = vec![Progress::default(); flows];
        Self { index, service, random, rates, stays, state, until_ns, now_ns: 0.0, flows }
    }
}

impl Model for Modulated {
    type Packet = Draw;

    fn next(&mut self) -> Option<Draw> {
        if self.rates[0] <= 0.0 {
            return None;
        }
        loop {
            // Exponential gaps have no memory: a gap that ends in another state is drawn again there.
            let at_ns = self.now_ns + self.random.exponential(1.0 / self.rates[self.state]);
            if at_ns >= self.until_ns {
                self.now_ns = self.until_ns;
                self.state = 1 - self.state;
                self.until_ns += self.random.exponential(self.stays[self.state]);
                continue;
            }
            self.now_ns = at_ns;
            let flow = self.random.below(self.flows.len() as u64);
            let length = self.service.length(&mut self.random);
            let number = Gateway::number(self.index, flow);
            return Some(self.flows[flow as usize].draw(at_ns as u64, length, number, &self.service));
        }
    }
}
