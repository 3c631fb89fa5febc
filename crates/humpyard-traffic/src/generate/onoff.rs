//! `onoff`: each service has a few sources, whose on and off times are heavy-tailed.

use core::array::from_fn;
use std::sync::Arc;

use humpyard_core::params;
use humpyard_core::random::{Random, Seed};

use super::laws::BoundedPareto;
use super::model::{Generator, Merged, Part};
use super::numbered::{Draw, ServiceFlows};
use super::profile::{OpenedSource, Opener, Profile};
use super::protocol::Protocol;
use super::services::{Gateway, LENGTH_MAX, Mix, Progress, Service};
use super::sketch::Writer;

/// The longest on or off time of a source, in ns.
const SPAN_MAX_NS: f64 = 2e9;

params! {
    /// Parameters of sources that are on and off.
    pub(super) struct OnoffParams {
        /// How many packets there are.
        packets: u64 = 100_000, unit "packets";
        /// Mean rate of arrivals, all services together.
        pps: u64 = 707_000, in 1..=100_000_000, unit "packets/s";
        /// Sources of each TCP service; UDP has a third as many, ICMP a sixth.
        sources: u64 = 24, in 1..=4_096, unit "sources";
        /// Mean time for which a source is on.
        on: f64 = 4.0, in 0.001..=1_000.0, unit "ms";
        /// Mean time for which a source is off.
        off: f64 = 12.0, in 0.001..=1_000.0, unit "ms";
        /// Tail exponent of both.
        shape: f64 = 1.5, in 1.05..=5.0;
        /// Share of the packets that are UDP.
        udp: f64 = 0.11, in 0.0..=1.0;
        /// Share of the packets that are ICMP.
        icmp: f64 = 0.01, in 0.0..=1.0;
        /// Share of the packets that are IPv6.
        ipv6: f64 = 0.5, in 0.0..=1.0;
    }
}

pub(super) struct Onoff;

impl Profile for Onoff {
    const NAME: &'static str = "onoff";
    const SUMMARY: &'static str = "bursts from sources that are on and off for heavy-tailed times: self-similar";
    const SOURCE: &'static str = "Willinger, Taqqu, Sherman, Wilson. Self-similarity through high-variability. 1997. Each of six \
         services (TCP, UDP, ICMP over IPv4 and IPv6) has its own sources; times on and off follow Pareto laws capped at 2 s, \
         packets come at Poisson instants while a source is on, and each time on is a flow. It stands for the traffic of a \
         university's link in the Everest paper. The sources are in the midst of their times when the traffic begins.";
    type Params = OnoffParams;

    fn open(params: &OnoffParams, seed: Seed, description: String, _: Opener) -> OpenedSource {
        let mix = Mix { udp: params.udp, icmp: params.icmp, ipv6: params.ipv6 };
        let spans = [params.off, params.on].map(|mean| BoundedPareto::with_mean(params.shape, mean * 1e6, SPAN_MAX_NS));
        let services = mix.services("onoff", seed);
        let models = services.iter().enumerate().map(|(index, &service)| {
            let sources = match service.protocol {
                Protocol::Tcp => params.sources,
                Protocol::Udp => (params.sources / 3).max(1),
                Protocol::Icmp => (params.sources / 6).max(1),
            };
            Switching::new((index, service), params.pps as f64 * service.share / 1e9, sources, spans, seed)
        });
        let writer = Writer::new(LENGTH_MAX as usize, 0);
        Generator::open_as(Merged::new(models), Arc::new(ServiceFlows(services)), params.packets, writer, description)
    }
}

/// The sources of one service.
struct Switching {
    /// The index of the service.
    index: usize,
    service: Service,
    random: Random,
    /// Laws of the off and on times, in ns.
    spans: [BoundedPareto; 2],
    /// Rate of an active source, in packets per ns.
    rate: f64,
    now_ns: f64,
    sources: Vec<Span>,
    /// The sources that are on.
    on: Vec<usize>,
    /// The mean gap between packets with these sources on, in ns.
    gap_ns: f64,
    /// The next source to switch, and the time.
    switching: (usize, f64),
    flows: u64,
}

/// An on or off period of a source.
struct Span {
    is_on: bool,
    until_ns: f64,
    /// The number of its flow among those of the service.
    flow: u64,
    progress: Progress,
}

impl Switching {
    fn new((index, service): (usize, Service), rate: f64, sources: u64, spans: [BoundedPareto; 2], seed: Seed) -> Self {
        let random = seed.stream(&format!("traffic/onoff/{}", service.name()));
        let [off, on] = spans.map(|span| span.mean());
        let part_on = on / (on + off);
        let rate = rate / (sources as f64 * part_on);
        let mut switching = Self {
            index,
            service,
            random,
            spans,
            rate,
            now_ns: 0.0,
            sources: Vec::new(),
            on: Vec::new(),
            gap_ns: f64::INFINITY,
            switching: (0, 0.0),
            flows: 0,
        };
        for at in 0..sources as usize {
            let is_on = switching.random.unit() < part_on;
            let until_ns = spans[usize::from(is_on)].draw_residual(&mut switching.random);
            switching.sources.push(Span { is_on, until_ns, flow: 0, progress: Progress::default() });
            if is_on {
                switching.begin(at);
            }
        }
        switching.find_next();
        switching
    }

    /// Starts a flow of a source.
    fn begin(&mut self, at: usize) {
        self.on.push(at);
        self.sources[at].flow = self.flows;
        self.sources[at].progress = Progress { next: self.random.bits() as u32 };
        self.flows += 1;
    }

    /// Computes the gap and the next switch from the sources that are on.
    fn find_next(&mut self) {
        let sources = self.sources.iter().enumerate().map(|(at, source)| (at, source.until_ns));
        self.switching = sources.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, f64::INFINITY));
        self.gap_ns = 1.0 / (self.rate * self.on.len() as f64);
    }

    /// Switches the next source on or off.
    fn switch(&mut self) {
        let (at, now_ns) = self.switching;
        self.now_ns = now_ns;
        let is_on = !self.sources[at].is_on;
        let span = self.spans[usize::from(is_on)].draw(&mut self.random);
        self.sources[at].is_on = is_on;
        self.sources[at].until_ns = now_ns + span;
        if is_on {
            self.begin(at);
        } else {
            self.on.retain(|&other| other != at);
        }
        self.find_next();
    }
}

/// Packets drawn at once: few are wasted when a switch interrupts them.
const AT_ONCE: usize = 16;

impl Part for Switching {
    type Packet = Draw;

    fn draw(&mut self, packets: &mut Vec<Draw>) {
        packets.reserve_exact(AT_ONCE);
        while self.rate > 0.0 && packets.is_empty() {
            if self.on.is_empty() {
                // Skips the gap that the switch interrupts.
                self.random.bits();
                self.switch();
            } else {
                self.draw_until_switch(packets);
            }
        }
    }
}

impl Switching {
    /// Adds the next packets, up to the one at which a source switches. Draws all random numbers first: then
    /// the gaps are independent, and the processor computes several at once.
    fn draw_until_switch(&mut self, packets: &mut Vec<Draw>) {
        // A copy stays in registers.
        let (mut random, sources) = (self.random.clone(), self.on.len() as u64);
        let mut bits = [0; AT_ONCE];
        let mut after: [Random; AT_ONCE] = from_fn(|_| random.clone());
        let (mut whose, mut lengths) = ([0; AT_ONCE], [0; AT_ONCE]);
        for at in 0..AT_ONCE {
            bits[at] = random.bits();
            after[at] = random.clone();
            whose[at] = random.below(sources) as usize;
            lengths[at] = self.service.length(&mut random);
        }
        let gaps_ns = bits.map(|bits| Random::exponential_of(bits, self.gap_ns));
        for at in 0..AT_ONCE {
            // Exponential gaps have no memory: a gap that a switch interrupts is drawn again.
            if self.now_ns + gaps_ns[at] >= self.switching.1 {
                self.random = after[at].clone();
                self.switch();
                return;
            }
            self.now_ns += gaps_ns[at];
            packets.push(self.packet(whose[at], lengths[at]));
        }
        self.random = random;
    }

    /// Returns the current packet, of one of the sources that are on.
    #[inline(always)]
    fn packet(&mut self, whose: usize, length: u32) -> Draw {
        let source = &mut self.sources[self.on[whose]];
        let flow = Gateway::number(self.index, source.flow);
        // A signed number converts in fewer instructions.
        let time_ns = self.now_ns as i64 as u64;
        source.progress.draw(time_ns, length, flow, &self.service)
    }
}
