//! `flow`: connections that send windows, as TCP does, and trains of datagrams.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use humpyard_core::random::{Random, Seed};
use humpyard_core::{choice, params};

use super::laws::{FlowSize, LogNormal};
use super::model::{Generator, Merged, Model};
use super::packet::Endpoint;
use super::profile::{OpenedSource, Opener, Profile};
use super::protocol::Protocol;
use super::services::{LENGTH_MAX, Mix, Progress, Service};
use super::sketch::{Segment, Sketch, Transport};

/// Tail exponent, minimum and maximum of the data packets per connection.
const DATA_SHAPE: f64 = 1.2;
const DATA_MIN: u64 = 3;
const DATA_MAX: u64 = 20_000;
/// The windows of a connection, in packets: one per round trip; the last one repeats.
const WINDOWS: [u64; 4] = [2, 4, 8, 16];
/// Round trips, in ns.
const ROUND_TRIP: LogNormal = LogNormal { median: 80e6, sigma: 0.8 };
/// The shortest round trip, in ns: longer than a window with its acknowledgments.
const ROUND_TRIP_MIN: f64 = 4.5e6;
/// The gap between two packets of a window, in ns: the speed of the slowest link on the way.
const SPACINGS_NS: [i64; 3] = [12_000, 30_000, 120_000];
/// Ethernet lengths of data packets, in bytes: most connections send full packets, the others short ones.
const DATA_BYTES: [u32; 4] = [1_514, 1_514, 1_514, 590];
/// Trains of datagrams: packets, and gaps in ns.
const UDP_SHAPE: f64 = 1.3;
const UDP_MEAN: f64 = 8.0;
const UDP_MAX: f64 = 5_000.0;
const UDP_GAPS: LogNormal = LogNormal { median: 10e6, sigma: 1.0 };
const ICMP_MEAN: f64 = 10.0;
const ICMP_GAPS: LogNormal = LogNormal { median: 1e6, sigma: 0.5 };

params! {
    /// Parameters of connections.
    pub(super) struct FlowParams {
        /// How many packets there are.
        packets: u64 = 100_000, unit "packets";
        /// Mean rate of arrivals, all services together.
        pps: u64 = 707_000, in 1..=100_000_000, unit "packets/s";
        /// What there is when traffic begins.
        start: Start = Start::Midst;
        /// Share of the packets that are UDP.
        udp: f64 = 0.11, in 0.0..=1.0;
        /// Share of the packets that are ICMP.
        icmp: f64 = 0.01, in 0.0..=1.0;
        /// Share of the packets that are IPv6.
        ipv6: f64 = 0.5, in 0.0..=1.0;
    }
}

choice! {
    /// The state of traffic at its begin.
    pub(super) enum Start {
        /// As many active flows as at any other time.
        Midst = "midst",
        /// No flows: the rate grows for minutes, as flows begin.
        Empty = "empty",
    }
}

pub(super) struct Flow;

impl Profile for Flow {
    const NAME: &'static str = "flow";
    const SUMMARY: &'static str =
        "connections with TCP's windows and heavy-tailed lengths: self-similar, smooth at 1 ms";
    const SOURCE: &'static str = "Flow-level traffic as in Barakat, Thiran, Iannaccone, Diot, Owezarski. Modeling Internet \
         backbone traffic at the flow level. 2003. TCP connections begin at Poisson instants, have 3 to 20,000 data packets \
         (Pareto, 1.2) and send 2, 4, 8, then 16 of them per round trip (log-normal, median 80 ms), 12, 30 or 120 us apart; \
         every two are acknowledged. UDP comes in trains (Pareto, 1.3) with log-normal gaps, ICMP in trains of about 10. \
         Traffic begins with the flows that are under way. Memory is that of the flows under way: about 9,000 at the default \
         rate, and as many more as the rate is higher.";
    type Params = FlowParams;

    fn open(params: &FlowParams, seed: Seed, description: String, _: Opener) -> OpenedSource {
        let mix = Mix { udp: params.udp, icmp: params.icmp, ipv6: params.ipv6 };
        let services = services(&mix, params.pps, params.start, seed);
        Generator::open(Merged::new(services), params.packets, LENGTH_MAX as usize, description)
    }
}

/// Returns the six services, each with flows of its kind.
pub(super) fn services(mix: &Mix, pps: u64, start: Start, seed: Seed) -> [Flows; 6] {
    mix.services("flow", seed).map(|service| Flows::new(service, pps as f64 * service.share / 1e9, start, seed))
}

/// The flows of one service.
pub(super) enum Flows {
    Connections(Connections),
    Trains(Trains),
}

impl Flows {
    /// Returns the name of the service.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Connections(connections) => connections.service.name(),
            Self::Trains(trains) => trains.service.name(),
        }
    }

    fn new(service: Service, rate: f64, start: Start, seed: Seed) -> Self {
        let random = seed.stream(&format!("traffic/flow/{}", service.name()));
        let trains = |sizes, gaps, random| Self::Trains(Trains::new(service, rate, sizes, gaps, random));
        let mut flows = match service.protocol {
            Protocol::Tcp => Self::Connections(Connections::new(service, rate, random)),
            Protocol::Udp => trains(FlowSize::pareto(UDP_SHAPE, UDP_MEAN, UDP_MAX), UDP_GAPS, random),
            Protocol::Icmp => trains(FlowSize::Geometric { mean: ICMP_MEAN }, ICMP_GAPS, random),
        };
        match &mut flows {
            _ if start == Start::Empty => {}
            Self::Connections(connections) => connections.resume_all(),
            Self::Trains(trains) => trains.resume_all(),
        }
        flows
    }
}

impl Model for Flows {
    type Packet = Sketch;

    fn next(&mut self) -> Option<Sketch> {
        match self {
            Self::Connections(connections) => connections.next(),
            Self::Trains(trains) => trains.next(),
        }
    }
}

/// A Poisson process of flow beginnings.
struct Beginnings {
    /// Mean time between two beginnings, in ns; infinite: there are none.
    mean_ns: f64,
    next_ns: f64,
}

impl Beginnings {
    fn new(rate: f64, random: &mut Random) -> Self {
        let mean_ns = 1.0 / rate;
        Self { mean_ns, next_ns: if mean_ns.is_finite() { random.exponential(mean_ns) } else { f64::INFINITY } }
    }

    /// Draws the number of active flows with this mean duration: a Poisson number.
    fn under_way(&self, mean_length_ns: f64, random: &mut Random) -> u64 {
        if !self.mean_ns.is_finite() {
            return 0;
        }
        let (mut flows, mut at) = (0, random.exponential(self.mean_ns));
        while at < mean_length_ns {
            flows += 1;
            at += random.exponential(self.mean_ns);
        }
        flows
    }

    /// Returns the next beginning. `None`: it is not before this time.
    fn before(&mut self, time_ns: u64, random: &mut Random) -> Option<u64> {
        if self.next_ns >= time_ns as f64 || !self.next_ns.is_finite() {
            return None;
        }
        let begins = self.next_ns;
        self.next_ns += random.exponential(self.mean_ns);
        Some(begins as u64)
    }
}

/// Active flows, each with the time of its next packet.
struct UnderWay<T> {
    places: Vec<T>,
    free: Vec<u32>,
    next: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<T> UnderWay<T> {
    fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new(), next: BinaryHeap::new() }
    }

    fn put(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.places[at as usize] = thing;
                at
            }
            None => {
                self.places.push(thing);
                (self.places.len() - 1) as u32
            }
        }
    }

    /// Returns the first entry of the heap, with its time.
    fn peek(&self) -> Option<(u64, u32)> {
        self.next.peek().map(|Reverse(first)| *first)
    }

    fn next_ns(&self) -> u64 {
        self.peek().map_or(u64::MAX, |(time_ns, _)| time_ns)
    }

    /// Sets the next time of the heap's first entry, or removes it.
    fn set_first(&mut self, again: Option<u64>) {
        let Some(mut first) = self.next.peek_mut() else { return };
        match again {
            Some(time_ns) => first.0.0 = time_ns,
            None => {
                PeekMut::pop(first);
            }
        }
    }
}

/// TCP connections. In the heap, entry 2n is the data of the connection at place n, and entry 2n+1 its
/// acknowledgments.
pub(super) struct Connections {
    service: Service,
    random: Random,
    beginnings: Beginnings,
    under_way: UnderWay<Connection>,
    opened: u64,
}

struct Connection {
    ends: (Endpoint, Endpoint),
    round_trip_ns: i64,
    spacing_ns: i64,
    /// Time from a data packet to its acknowledgment, in ns.
    turn_ns: i64,
    /// Data packets after the current window.
    left: u64,
    window: u64,
    /// Start of the current window, in ns; negative if the traffic began in its middle.
    began_ns: i64,
    data_bytes: u32,
    data_sent: u64,
    /// Acknowledged packets of the window, and the start of that window.
    acknowledged: u64,
    acknowledged_window: u64,
    acknowledging_from_ns: i64,
    first: bool,
    sequence: [u32; 2],
}

impl Connections {
    fn new(service: Service, rate: f64, mut random: Random) -> Self {
        let lengths = Lengths::new();
        let beginnings = Beginnings::new(rate / lengths.packets, &mut random);
        Self { service, random, beginnings, under_way: UnderWay::new(), opened: 0 }
    }

    /// Starts the connections that are active at time 0.
    fn resume_all(&mut self) {
        let lengths = Lengths::new();
        let mean_length_ns = lengths.rounds * ROUND_TRIP.mean();
        for _ in 0..self.beginnings.under_way(mean_length_ns, &mut self.random) {
            self.resume(&lengths);
        }
    }

    fn open(&mut self, packets: u64, round_trip_ns: f64, began_ns: i64) -> Connection {
        let random = &mut self.random;
        let round_trip_ns = round_trip_ns.max(ROUND_TRIP_MIN);
        let ends = self.service.ends(self.opened);
        self.opened += 1;
        Connection {
            ends,
            round_trip_ns: round_trip_ns as i64,
            spacing_ns: SPACINGS_NS[random.below(3) as usize],
            turn_ns: (round_trip_ns * 0.5 * random.unit()) as i64,
            left: packets - packets.min(WINDOWS[0]),
            window: packets.min(WINDOWS[0]),
            began_ns,
            data_bytes: DATA_BYTES[random.below(4) as usize],
            data_sent: 0,
            acknowledged: 0,
            acknowledged_window: 0,
            acknowledging_from_ns: 0,
            first: true,
            sequence: [random.bits() as u32, random.bits() as u32],
        }
    }

    /// Starts a connection.
    fn begin(&mut self, time_ns: u64) {
        let packets =
            (self.random.bounded_pareto(DATA_SHAPE, DATA_MIN as f64, DATA_MAX as f64 + 1.0) as u64).min(DATA_MAX);
        let round_trip_ns = ROUND_TRIP.draw(&mut self.random);
        let connection = self.open(packets, round_trip_ns, time_ns as i64);
        let at = self.under_way.put(connection);
        self.under_way.next.push(Reverse((time_ns, 2 * at)));
    }

    /// Starts a connection that is in its middle at time 0.
    fn resume(&mut self, lengths: &Lengths) {
        let packets = lengths.draw_by_rounds(&mut self.random);
        let round_trip_ns = ROUND_TRIP.biased().draw(&mut self.random).max(ROUND_TRIP_MIN);
        let gone = self.random.unit() * rounds(packets) as f64;
        let mut connection = self.open(packets, round_trip_ns, 0);
        for _ in 0..gone as u64 {
            connection.next_window();
        }
        connection.first = gone < 1.0;
        connection.began_ns = -((gone - gone.floor()) * round_trip_ns) as i64;
        let since = -connection.began_ns;
        // Packets sent and acknowledged before time 0.
        connection.data_sent = (since.div_euclid(connection.spacing_ns) as u64 + 1).min(connection.window);
        connection.acknowledged_window = connection.window;
        connection.acknowledging_from_ns = connection.began_ns;
        while connection.acknowledged < connection.window && connection.acknowledgment_ns() < 0 {
            connection.acknowledged += 2;
        }
        let acknowledges = connection.acknowledged < connection.window;
        let sends = connection.data_sent < connection.window || connection.left > 0;
        if connection.data_sent == connection.window && connection.left > 0 {
            connection.began_ns += connection.round_trip_ns;
            connection.next_window();
        }
        if !sends && !acknowledges {
            return;
        }
        let (data_ns, acknowledgment_ns) = (connection.data_ns(), connection.acknowledgment_ns());
        let at = self.under_way.put(connection);
        if sends {
            self.under_way.next.push(Reverse((data_ns as u64, 2 * at)));
        }
        if acknowledges {
            self.under_way.next.push(Reverse((acknowledgment_ns as u64, 2 * at + 1)));
        }
    }
}

impl Connection {
    /// Returns the time of the window's next data packet.
    fn data_ns(&self) -> i64 {
        self.began_ns + self.data_sent as i64 * self.spacing_ns
    }

    /// Returns the time of the next acknowledgment: after the second packet that it acknowledges.
    fn acknowledgment_ns(&self) -> i64 {
        self.acknowledging_from_ns + self.turn_ns + (self.acknowledged as i64 + 1) * self.spacing_ns
    }

    fn next_window(&mut self) {
        let at = WINDOWS.iter().position(|&window| window >= self.window).unwrap_or(WINDOWS.len() - 1);
        let window = WINDOWS[(at + 1).min(WINDOWS.len() - 1)].min(self.left);
        self.left -= window;
        self.window = window;
        self.data_sent = 0;
    }

    fn is_over(&self) -> bool {
        self.left == 0 && self.data_sent == self.window && self.acknowledged >= self.acknowledged_window
    }

    /// Returns the next data packet.
    fn data(&mut self, service: &Service) -> Sketch {
        let last = self.left == 0 && self.data_sent + 1 == self.window;
        let (syn, fin) = (self.first, last && !self.first);
        let flags = match (syn, fin) {
            (true, _) => Segment::SYN,
            (false, true) => Segment::ACK | Segment::FIN,
            (false, false) => Segment::ACK,
        };
        let length = if syn { 0 } else { self.data_bytes };
        let acknowledgment = if syn { 0 } else { self.sequence[1] };
        let segment = Segment { sequence: self.sequence[0], acknowledgment, flags };
        let time_ns = self.data_ns() as u64;
        let sketch = Sketch::new(time_ns, length, service.version, self.ends, Transport::Tcp(segment));
        let sent = sketch.payload_bytes() as u32 + u32::from(syn) + u32::from(fin);
        self.sequence[0] = self.sequence[0].wrapping_add(sent);
        self.first = false;
        self.data_sent += 1;
        sketch
    }

    /// Returns the next acknowledgment, in the other direction.
    fn acknowledgment(&mut self, service: &Service) -> Sketch {
        let segment = Segment { sequence: self.sequence[1], acknowledgment: self.sequence[0], flags: Segment::ACK };
        let (client, server) = self.ends;
        let time_ns = self.acknowledgment_ns() as u64;
        let sketch = Sketch::new(time_ns, 0, service.version, (server, client), Transport::Tcp(segment));
        self.acknowledged += 2;
        sketch
    }
}

impl Model for Connections {
    type Packet = Sketch;

    fn next(&mut self) -> Option<Sketch> {
        while let Some(begins) = self.beginnings.before(self.under_way.next_ns(), &mut self.random) {
            self.begin(begins);
        }
        let (_, entry) = self.under_way.peek()?;
        if entry % 2 == 0 { Some(self.data(entry)) } else { Some(self.acknowledgment(entry)) }
    }
}

impl Connections {
    /// Returns the next data packet of the connection of this entry, which is the first of the heap.
    fn data(&mut self, entry: u32) -> Sketch {
        let connection = &mut self.under_way.places[entry as usize / 2];
        let begins_window = connection.data_sent == 0;
        let sketch = connection.data(&self.service);
        let acknowledge = begins_window.then(|| {
            connection.acknowledged = 0;
            connection.acknowledged_window = connection.window;
            connection.acknowledging_from_ns = connection.began_ns;
            connection.acknowledgment_ns() as u64
        });
        if connection.data_sent == connection.window && connection.left > 0 {
            connection.began_ns += connection.round_trip_ns;
            connection.next_window();
        }
        let again = (connection.data_sent < connection.window).then(|| connection.data_ns() as u64);
        let over = acknowledge.is_none() && connection.is_over();
        self.under_way.set_first(again);
        if let Some(time_ns) = acknowledge {
            self.under_way.next.push(Reverse((time_ns, entry + 1)));
        } else if over {
            self.under_way.free.push(entry / 2);
        }
        sketch
    }

    /// Returns the next acknowledgment of the connection of this entry, which is the first of the heap.
    fn acknowledgment(&mut self, entry: u32) -> Sketch {
        let connection = &mut self.under_way.places[entry as usize / 2];
        let sketch = connection.acknowledgment(&self.service);
        let more = connection.acknowledged < connection.acknowledged_window;
        let again = more.then(|| connection.acknowledgment_ns() as u64);
        let over = !more && connection.is_over();
        self.under_way.set_first(again);
        if over {
            self.under_way.free.push(entry / 2);
        }
        sketch
    }
}

/// Returns the round trips for this many data packets.
fn rounds(packets: u64) -> u64 {
    match packets {
        0..=2 => 1,
        3..=6 => 2,
        7..=14 => 3,
        more => 3 + (more - 14).div_ceil(16),
    }
}

/// The law of connection lengths.
struct Lengths {
    /// Mean packets per connection, acknowledgments included.
    packets: f64,
    /// Mean round trips per connection.
    rounds: f64,
    /// For each length, the sum of probability times round trips over all lengths up to it.
    by_rounds: Vec<f64>,
}

impl Lengths {
    fn new() -> Self {
        let ratio = libm::pow(DATA_MIN as f64 / (DATA_MAX as f64 + 1.0), DATA_SHAPE);
        let up_to = |n: u64| (1.0 - libm::pow(DATA_MIN as f64 / n as f64, DATA_SHAPE)) / (1.0 - ratio);
        let (mut packets, mut all_rounds, mut by_rounds) = (0.0, 0.0, Vec::new());
        for n in DATA_MIN..=DATA_MAX {
            let likely = up_to(n + 1) - up_to(n);
            packets += likely * (n + n.div_ceil(2)) as f64;
            all_rounds += likely * rounds(n) as f64;
            by_rounds.push(all_rounds);
        }
        Self { packets, rounds: all_rounds, by_rounds }
    }

    /// Draws the data packets of a connection that is active at a random time.
    fn draw_by_rounds(&self, random: &mut Random) -> u64 {
        let draw = random.unit() * self.rounds;
        let at = self.by_rounds.partition_point(|&up_to| up_to < draw);
        DATA_MIN + at.min(self.by_rounds.len() - 1) as u64
    }
}

/// Trains of datagrams, or of echos.
pub(super) struct Trains {
    service: Service,
    random: Random,
    sizes: FlowSize,
    gaps: LogNormal,
    beginnings: Beginnings,
    under_way: UnderWay<Train>,
    opened: u64,
}

struct Train {
    ends: (Endpoint, Endpoint),
    left: u64,
    length: u32,
    progress: Progress,
}

impl Trains {
    fn new(service: Service, rate: f64, sizes: FlowSize, gaps: LogNormal, mut random: Random) -> Self {
        let beginnings = Beginnings::new(rate / sizes.mean(), &mut random);
        let under_way = UnderWay::new();
        Self { service, random, sizes, gaps, beginnings, under_way, opened: 0 }
    }

    /// Starts the trains that are active at time 0.
    fn resume_all(&mut self) {
        // A train of n packets is active for n gaps, including the one after its last packet.
        let mean_length_ns = self.sizes.mean() * self.gaps.mean();
        for _ in 0..self.beginnings.under_way(mean_length_ns, &mut self.random) {
            // The packets after the gap that contains time 0: one less than those from the gap on.
            let left = self.sizes.draw_residual(&mut self.random) - 1;
            let first_ns = self.gaps.biased().draw(&mut self.random) * self.random.unit();
            if left > 0 {
                self.begin(first_ns as u64, left);
            }
        }
    }

    fn begin(&mut self, time_ns: u64, left: u64) {
        let length = self.service.length(&mut self.random);
        let ends = self.service.ends(self.opened);
        let at = self.under_way.put(Train { ends, left, length, progress: Progress::default() });
        self.opened += 1;
        self.under_way.next.push(Reverse((time_ns, at)));
    }
}

impl Model for Trains {
    type Packet = Sketch;

    fn next(&mut self) -> Option<Sketch> {
        while let Some(begins) = self.beginnings.before(self.under_way.next_ns(), &mut self.random) {
            let packets = self.sizes.draw(&mut self.random);
            self.begin(begins, packets);
        }
        let (time_ns, at) = self.under_way.peek()?;
        let train = &mut self.under_way.places[at as usize];
        let sketch = train.progress.sketch(time_ns, train.length, train.ends, &self.service);
        train.left -= 1;
        let again = train.left > 0;
        let gap_ns = if again { self.gaps.draw(&mut self.random) as u64 } else { 0 };
        self.under_way.set_first(again.then_some(time_ns + gap_ns));
        if !again {
            self.under_way.free.push(at);
        }
        Some(sketch)
    }
}
