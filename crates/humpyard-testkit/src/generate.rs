//! Random histories by swarm testing: each history leaves out some kinds of events.

use humpyard_core::config::ServiceConfig;
use humpyard_core::cost::LinearCost;
use humpyard_core::hash::mix;
use humpyard_core::id::{ChainId, ClientId, FlowId, Id, ServiceId};
use humpyard_core::packet::{Packet, Part};
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::{Time, Weight, WorkUnit};

use crate::history::{Event, History};
use crate::shape::Shape;

const FLOWS_PER_CLIENT: usize = 2;

/// A kind of event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One packet of any client.
    Lone,
    /// One packet of the client that sends most.
    Hot,
    /// Several packets at one instant, of any clients.
    Burst,
    /// Several packets of one client at one instant.
    Train,
    /// A pause in which queues may drain, then one packet.
    Lull,
    /// Another weight for a client.
    Weight,
    /// The end of a client.
    End,
}

const KINDS: [Kind; 7] = [Kind::Lone, Kind::Hot, Kind::Burst, Kind::Train, Kind::Lull, Kind::Weight, Kind::End];

/// One client's habits.
struct Habit {
    length_max: u32,
    /// The constant excess of its packets' costs over their estimates, in thousandths.
    bias_permille: i64,
    services: [ServiceId; FLOWS_PER_CLIENT],
}

/// Number of chains in a history that has chains.
const CHAINS: usize = 3;

/// Up to three services.
fn chain(shape: &Shape, random: &mut Random) -> Vec<ServiceId> {
    (0..1 + random.below(3)).map(|_| ServiceId(random.below(shape.services as u64) as u16)).collect()
}

struct Generator<'a> {
    shape: &'a Shape,
    random: Random,
    now: u64,
    events: Vec<(Time, Event)>,
    estimates: Vec<LinearCost>,
    habits: Vec<Habit>,
    chains: Vec<Vec<ServiceId>>,
    /// The relative frequency of each kind of event; usually some are zero.
    swarm: [u64; KINDS.len()],
    hot: ClientId,
    mean_gap: u64,
    /// Whether costs have the same error each time, or a random one.
    biased: bool,
    /// Whether each client's packets have one length.
    uniform: bool,
    weight_max: u64,
}

impl History {
    /// The history of this shape: the same for the same shape, on every machine.
    pub fn generate(shape: &Shape) -> Self {
        let mut generator = Generator::new(shape);
        let weights = (0..shape.clients).map(|_| generator.weight()).collect();
        while generator.events.len() < shape.events {
            generator.happen();
        }
        generator.events.truncate(shape.events);
        // Tolerances of some packets, so that queues outgrow them; switches from instant to longer than that.
        let packet_time = |estimate: &LinearCost| estimate.work(shape.length_max / 2 + 1);
        let services = generator.estimates.iter().zip([0, 1, 4, 40].into_iter().cycle()).map(|(estimate, packets)| {
            ServiceConfig {
                name: "service".to_owned(),
                packet_time: Time::from_ns(packet_time(estimate)),
                switch_cost: Time::from_ns(packets * packet_time(estimate)),
                tolerance: Time::from_ns(8 * packet_time(estimate)),
                guarantee_millionths: 1_000_000 / shape.services as u32,
            }
        });
        let services = services.collect();
        Self {
            cores: shape.cores,
            contexts: shape.contexts,
            chains: generator.chains,
            exit: shape.exit,
            split: shape.split,
            in_flight: shape.in_flight,
            weights,
            longest: longest(&generator.estimates, shape.length_max),
            estimates: generator.estimates,
            packets: shape.packets,
            limits: shape.limits,
            flow_order: shape.flow_order,
            unit: shape.unit,
            flows: shape.clients * FLOWS_PER_CLIENT,
            seed: Seed(shape.seed),
            events: generator.events,
            services,
        }
    }
}

impl<'a> Generator<'a> {
    fn new(shape: &'a Shape) -> Self {
        let mut random = Seed(shape.seed).stream("testkit/history");
        let estimates: Vec<LinearCost> = (0..shape.services).map(|_| estimate(shape, &mut random)).collect();
        let load_percent = 40 + random.below(210);
        let mean_work = longest(&estimates, shape.length_max) / 3 + 1;
        Self {
            shape,
            now: 0,
            events: Vec::with_capacity(shape.events),
            swarm: swarm(shape, &mut random),
            hot: ClientId(random.below(shape.clients as u64) as u32),
            mean_gap: mean_work * 100 / (load_percent * shape.cores as u64) + 1,
            biased: random.below(2) == 0,
            uniform: random.below(3) == 0,
            weight_max: 1 + random.below(u64::from(shape.weight_max)),
            chains: if shape.chains { (0..CHAINS).map(|_| chain(shape, &mut random)).collect() } else { Vec::new() },
            habits: (0..shape.clients).map(|_| habit(shape, &mut random)).collect(),
            estimates,
            random,
        }
    }

    fn happen(&mut self) {
        if self.random.below(4) > 0 {
            self.now += self.random.below(2 * self.mean_gap);
        }
        let client = self.client();
        match self.kind() {
            Kind::Lone => self.arrive(client),
            Kind::Hot => self.arrive(self.hot),
            Kind::Burst => {
                for _ in 0..2 + self.random.below(7) {
                    let client = self.client();
                    self.arrive(client);
                }
            }
            Kind::Train => {
                for _ in 0..2 + self.random.below(15) {
                    self.arrive(client);
                }
            }
            Kind::Lull => {
                self.now += self.random.below(40 * self.mean_gap * self.shape.cores as u64);
                self.arrive(client);
            }
            Kind::Weight => {
                let weight = self.weight();
                self.push(Event::SetWeight(client, weight));
            }
            Kind::End => self.push(Event::EndClient(client)),
        }
    }

    fn kind(&mut self) -> Kind {
        let mut at = self.random.below(self.swarm.iter().sum());
        for (kind, frequency) in KINDS.into_iter().zip(self.swarm) {
            if at < frequency {
                return kind;
            }
            at -= frequency;
        }
        unreachable!("a number below the sum falls to some kind")
    }

    fn arrive(&mut self, client: ClientId) {
        let flow = self.random.below(FLOWS_PER_CLIENT as u64) as usize;
        let flow_id = client.index() * FLOWS_PER_CLIENT + flow;
        let habit = &self.habits[client.index()];
        let (service, length_max) = (habit.services[flow], habit.length_max);
        let length = if self.uniform { length_max } else { 1 + self.random.below(u64::from(length_max)) as u32 };
        let key = mix(self.shape.seed ^ mix(flow_id as u64));
        let packet = Packet {
            arrival: Time::from_ns(self.now),
            key,
            rss: key as u32,
            flow: FlowId::from_index(flow_id),
            client,
            length,
            service: self.chains.first().map_or(service, |_| self.chains[flow_id % CHAINS][0]),
            chain: ChainId::from_index(if self.chains.is_empty() { 0 } else { flow_id % CHAINS }),
            part: [Part::Whole, Part::First, Part::Middle, Part::Last][(key >> 8) as usize % 4],
            ..Packet::default()
        };
        let busy = self.busy(client, self.estimates[service.index()].work(length));
        self.push(Event::Arrive { packet, busy });
    }

    fn busy(&mut self, client: ClientId, estimate: u64) -> Time {
        let range = i64::from(self.shape.error_permille);
        let drawn = self.random.below(2 * range as u64 + 1) as i64 - range;
        let error = if self.biased { self.habits[client.index()].bias_permille } else { drawn };
        Time::from_ns(estimate * (1000 + error) as u64 / 1000)
    }

    fn push(&mut self, event: Event) {
        self.events.push((Time::from_ns(self.now), event));
    }

    fn client(&mut self) -> ClientId {
        ClientId(self.random.below(self.shape.clients as u64) as u32)
    }

    fn weight(&mut self) -> Weight {
        Weight::new(1 + self.random.below(self.weight_max) as u32).expect("at least 1")
    }
}

fn swarm(shape: &Shape, random: &mut Random) -> [u64; KINDS.len()] {
    let mut swarm = KINDS.map(|kind| {
        let frequency = if random.below(3) == 0 { 0 } else { 1 + random.below(8) };
        if kind == Kind::Weight && !shape.weights_change { 0 } else { frequency }
    });
    if swarm[..5].iter().all(|&frequency| frequency == 0) {
        swarm[0] = 1;
    }
    swarm
}

fn habit(shape: &Shape, random: &mut Random) -> Habit {
    let range = i64::from(shape.error_permille);
    Habit {
        length_max: 1 + random.below(u64::from(shape.length_max)) as u32,
        bias_permille: random.below(2 * range as u64 + 1) as i64 - range,
        services: core::array::from_fn(|_| ServiceId(random.below(shape.services as u64) as u16)),
    }
}

fn estimate(shape: &Shape, random: &mut Random) -> LinearCost {
    match shape.unit {
        WorkUnit::Bytes => LinearCost::BYTES,
        WorkUnit::Packets => LinearCost::PACKETS,
        WorkUnit::Nanoseconds => {
            LinearCost { fixed: random.below(300), per_byte_milli: 200 + random.below(2000), cold: 0 }
        }
    }
}

fn longest(estimates: &[LinearCost], length_max: u32) -> u64 {
    estimates.iter().map(|estimate| estimate.work(length_max)).max().expect("at least one service")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_history_is_a_prefix() {
        let long = Shape { seed: 3, weights_change: true, ..Shape::default() };
        let (long, short) = (History::generate(&long), History::generate(&Shape { events: 50, ..long }));
        assert_eq!(long.events.len(), 200);
        assert_eq!(long.events[..50], short.events);
        assert_eq!(long.weights, short.weights);
    }

    #[test]
    fn time_goes_forward_and_costs_stay_within_the_error() {
        for seed in 0..50 {
            let shape = Shape { seed, error_permille: 500, services: 3, ..Shape::default() };
            let history = History::generate(&shape);
            assert!(history.events.is_sorted_by_key(|(time, _)| *time));
            for (time, event) in &history.events {
                if let Event::Arrive { packet, busy } = event {
                    assert_eq!(packet.arrival, *time);
                    let estimate = history.estimates[packet.service.index()].work(packet.length);
                    assert!(estimate <= history.longest);
                    assert!((estimate / 2..=estimate * 3 / 2).contains(&busy.as_ns()), "{estimate} {busy:?}");
                }
            }
        }
    }

    #[test]
    fn swarms_leave_kinds_out() {
        let count = |seed| {
            let shape = Shape { seed, weights_change: true, ..Shape::default() };
            let events = History::generate(&shape).events;
            events.iter().filter(|(_, event)| matches!(event, Event::EndClient(_))).count()
        };
        let counts: Vec<usize> = (0..30).map(count).collect();
        assert!(counts.contains(&0) && counts.iter().any(|&count| count > 20), "{counts:?}");
    }
}
