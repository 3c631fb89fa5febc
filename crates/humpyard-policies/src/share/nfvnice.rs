//! NFVnice: services share the cores by the work that arrives for them, and a packet whose chain is full is dropped
//! before any service has worked on it.
//!
//! **Idea.** The clients are the services. Each has a weight in proportion to how many packets arrive for it and to
//! how long they take, so that all of them keep up, or fall behind alike. Where a queue of a chain is almost full,
//! packets of that chain are dropped when they come in: what would be dropped later costs no service any work.
//!
//! **Source.** Kulkarni, Zhang, Hwang, Rajagopalan, Ramakrishnan, Wood, Arumaithurai, Fu. NFVnice: dynamic backpressure
//! and scheduling for NFV service chains. SIGCOMM 2017. RIVALS.
//!
//! ```text
//! every `update`:     weight_i = priority_i * arrivals_i * time_i / sum of arrivals_j * time_j
//!                     arrivals in the last `window`, time = median service time in it
//! packet comes in:    drop it if a service of its chain is full
//! service i is full:  once more than `high` of its room is taken, until less than `low` of it is, or nothing
//! ```
//!
//! **Promises.** Every service with waiting packets is served eventually.
//!
//! **Cost.** O(log s) in the services; O(chains of the service) when a service becomes full or free; O(s) at an update.
//!
//! **Invariants.** `full` counts the full services of each chain. The sum of `waiting` is what the queue holds.
//!
//! **Departures.**
//! - Virtual time (`sfq`) shares the cores, where the paper sets shares of Linux's scheduler.
//! - A service without a measured packet counts with the estimate of the packet that arrived last.
//! - With a queue for each core, each queue has weights and backpressure of its own.
//! - Nothing holds back a service whose next service is full; the paper's services yield then.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, Id, IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight, Work};

use super::sfq::{Sfq, SfqParams};

params! {
    /// Parameters of NFVnice.
    pub struct NfvNiceParams {
        /// The time between two settings of the weights.
        update: u64 = 10_000_000, in 1_000..=1_000_000_000, unit "ns";
        /// The time over which arrivals are counted and service times measured; at most a thousand updates.
        window: u64 = 100_000_000, in 1_000..=2_000_000_000, unit "ns";
        /// A service is full once more than this part of its room is taken.
        high: f64 = 0.8, in 0.0..=1.0;
        /// It is full until less than this part of its room is taken.
        low: f64 = 0.6, in 0.0..=1.0;
    }
}

/// Service times of one service that are kept for the median.
const SAMPLES: usize = 64;
/// Most updates in a window.
const UPDATES_MAX: u64 = 1_000;
/// What the weights of services with priority 1 add up to.
const WEIGHTS: u128 = 1_000_000;

/// What is known of one service.
#[derive(Debug)]
struct ServiceLoad {
    priority: Weight,
    /// Arrivals, by the part of the window between two updates.
    arrivals: Vec<u32>,
    /// Service times with the time when each was measured, the oldest overwritten first.
    samples: Vec<(Time, Work)>,
    next_sample: usize,
    /// The estimate of the packet that arrived last.
    estimate: Work,
    /// Packets waiting.
    waiting: u32,
    is_full: bool,
    /// The chains that the service is in.
    chains: Vec<usize>,
}

/// NFVnice.
#[derive(Debug)]
pub struct NfvNice {
    /// Shares the cores by weight.
    fair: Sfq,
    update: u64,
    window: Time,
    /// When weights are set next, and the part of the window until then.
    next_update: Time,
    part: usize,
    /// More packets than this fill a service, and fewer than that free it again.
    high: u32,
    low: u32,
    services: IdVec<ClientId, ServiceLoad>,
    /// By chain: its services that are full, each as often as the chain has it.
    full: Vec<u32>,
    /// Service times while a median is found.
    sorted: Vec<Work>,
}

impl Build for NfvNice {
    type Params = NfvNiceParams;
    const INFO: Info = Info {
        name: "nfvnice",
        family: Family::Share,
        summary: "services by the work that arrives for them; packets whose chain is full are dropped as they come in",
        source: "Kulkarni et al. NFVnice. SIGCOMM 2017",
        promises: &[Promise::Served],
        complexity: "O(log n); O(n) at an update",
    };
    const VARIANTS: &'static [&'static str] = &["update=10000,window=100000", "high=0,low=0"];

    fn new(params: &NfvNiceParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let NfvNiceParams { update, window, high, low } = *params;
        if low > high {
            return Err(BuildError::set_up(format!("nfvnice: low={low} is above high={high}")));
        }
        let updates = window.div_ceil(update);
        if updates > UPDATES_MAX {
            let message = format!("nfvnice: a window has at most {UPDATES_MAX} updates, not {updates}");
            return Err(BuildError::set_up(message));
        }
        let room = u64::from(config.limits.client.min(config.limits.queue)).min(config.packets as u64);
        let part_of_room = |part: f64| (room as f64 * part) as u32;
        let chains_of = |service: usize| {
            let has = |chain: &[ServiceId]| chain.iter().filter(|hop| hop.index() == service).count();
            config.chains.iter().enumerate().flat_map(|(at, chain)| vec![at; has(chain)]).collect()
        };
        let load = |id: ClientId| ServiceLoad {
            priority: config.weight(id),
            arrivals: vec![0; updates as usize],
            samples: Vec::with_capacity(SAMPLES),
            next_sample: 0,
            estimate: 0,
            waiting: 0,
            is_full: false,
            chains: chains_of(id.index()),
        };
        let services = config.services.len();
        let by_service = SchedulerConfig { clients: services, ..config.clone() };
        Ok(Self {
            fair: Sfq::new(&SfqParams {}, &by_service)?,
            update,
            window: Time::from_ns(window),
            next_update: Time::from_ns(update),
            part: 0,
            high: part_of_room(high),
            low: part_of_room(low),
            services: IdVec::from_fn(services, load),
            full: vec![0; config.chains.len()],
            sorted: Vec::with_capacity(SAMPLES),
        })
    }
}

impl Policy for NfvNice {
    fn check(&self) {
        self.fair.check();
        for (chain, &full) in self.full.iter().enumerate() {
            let counted = self.services.iter().filter(|service| service.is_full);
            let counted = counted.flat_map(|service| &service.chains).filter(|&&at| at == chain).count();
            assert_eq!(full as usize, counted, "full services of chain {chain}");
        }
    }
}

impl Share for NfvNice {
    fn serves_services(&self) -> bool {
        true
    }

    fn admits(&mut self, _: Time, packet: &Packet) -> bool {
        match self.full.get(packet.chain.index()) {
            Some(&full) => full == 0,
            None => true,
        }
    }

    fn on_arrival(&mut self, now: Time, id: ClientId, packet: &Packet, waiting: u32) {
        self.advance(now);
        let service = &mut self.services[id];
        service.arrivals[self.part] += 1;
        service.estimate = packet.estimate;
        self.set_waiting(id, waiting + 1);
        self.fair.on_arrival(now, id, packet, waiting);
    }

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.fair.on_wake(now, id, head);
    }

    fn on_head(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.fair.on_head(now, id, head);
    }

    fn pick(&mut self, now: Time, core: CoreId) -> Option<ClientId> {
        self.fair.pick(now, core)
    }

    fn on_dispatch(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet) {
        self.set_waiting(id, self.services[id].waiting - 1);
        self.fair.on_dispatch(now, core, id, sent);
    }

    fn on_completion(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet, used: Work) {
        self.advance(now);
        self.measure(now, id, used);
        self.fair.on_completion(now, core, id, sent, used);
    }

    fn on_push_out(&mut self, now: Time, id: ClientId, packet: &Packet, waiting: u32) {
        self.set_waiting(id, waiting);
        self.fair.on_push_out(now, id, packet, waiting);
    }

    fn on_idle(&mut self, now: Time, id: ClientId) {
        self.fair.on_idle(now, id);
    }

    fn on_client_end(&mut self, now: Time, id: ClientId) {
        self.fair.on_client_end(now, id);
    }

    fn set_weight(&mut self, now: Time, id: ClientId, weight: Weight) {
        self.services[id].priority = weight;
        self.fair.set_weight(now, id, weight);
        self.set_weights(now);
    }

    fn explain(&self, id: ClientId) -> Option<String> {
        let service = &self.services[id];
        let state = if service.is_full { "full: its chains let no packet in" } else { "not full" };
        Some(format!("{}; {} packets wait for this service, which is {state}", self.fair.explain(id)?, service.waiting))
    }
}

impl NfvNice {
    /// Sets weights and begins a new part of the window, if it is time to.
    fn advance(&mut self, now: Time) {
        if now < self.next_update {
            return;
        }
        self.set_weights(now);
        let passed = 1 + now.since(self.next_update).as_ns() / self.update;
        let parts = self.services.iter().map(|service| service.arrivals.len()).next().unwrap_or(1);
        for _ in 0..passed.min(parts as u64) {
            self.part = (self.part + 1) % parts;
            for service in self.services.iter_mut() {
                service.arrivals[self.part] = 0;
            }
        }
        self.next_update += Time::from_ns(passed.saturating_mul(self.update));
    }

    /// Weights each service by its priority and its part of all work that arrives.
    fn set_weights(&mut self, now: Time) {
        let all: u128 = self.services.ids().map(|id| self.load(now, id)).sum();
        if all == 0 {
            return;
        }
        for id in self.services.ids() {
            let share = u128::from(self.services[id].priority.get()) * self.load(now, id) * WEIGHTS / all;
            let weight = u32::try_from(share).unwrap_or(u32::MAX).max(1);
            self.fair.set_weight(now, id, Weight::new(weight).unwrap_or(Weight::ONE));
        }
    }

    /// Returns the work that arrived for a service in the window: packets times their median service time.
    fn load(&mut self, now: Time, id: ClientId) -> u128 {
        let service = &self.services[id];
        let arrivals: u64 = service.arrivals.iter().map(|&count| u64::from(count)).sum();
        let is_recent = |&&(at, _): &&(Time, Work)| now.since(at) <= self.window;
        self.sorted.clear();
        self.sorted.extend(service.samples.iter().filter(is_recent).map(|&(_, used)| used));
        self.sorted.sort_unstable();
        let time = self.sorted.get(self.sorted.len() / 2).copied().unwrap_or(service.estimate);
        u128::from(arrivals) * u128::from(time)
    }

    /// Keeps a service time, unless as many as fit are newer than the window.
    fn measure(&mut self, now: Time, id: ClientId, used: Work) {
        let service = &mut self.services[id];
        let before = (service.next_sample + SAMPLES - 1) % SAMPLES;
        let newest = service.samples.get(before).map(|&(at, _)| at);
        if newest.is_some_and(|at| now.since(at).as_ns() < self.window.as_ns() / SAMPLES as u64) {
            return;
        }
        if service.samples.len() < SAMPLES {
            service.samples.push((now, used));
        } else {
            service.samples[service.next_sample] = (now, used);
        }
        service.next_sample = (service.next_sample + 1) % SAMPLES;
    }

    /// Notes how many packets wait for a service, and whether it is full.
    fn set_waiting(&mut self, id: ClientId, waiting: u32) {
        let service = &mut self.services[id];
        service.waiting = waiting;
        let is_full = if service.is_full { waiting >= self.low.max(1) } else { waiting > self.high };
        if is_full == service.is_full {
            return;
        }
        service.is_full = is_full;
        for &chain in &service.chains {
            if is_full {
                self.full[chain] += 1;
            } else {
                self.full[chain] -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use humpyard_core::config::ServiceConfig;
    use humpyard_core::cost::LinearCost;
    use humpyard_core::id::ChainId;
    use humpyard_core::mechanism::Limits;

    fn config(services: usize, room: u32, chains: Vec<Vec<ServiceId>>) -> SchedulerConfig {
        let services = (vec![ServiceConfig::default(); services], vec![LinearCost::BYTES; services]);
        SchedulerConfig::new(1)
            .with_services(services.0, services.1)
            .with_limits(Limits::default().with_client(room))
            .with_chains(chains)
            .with_packets(1024)
    }

    fn packet(service: u16) -> Packet {
        Packet { service: ServiceId(service), estimate: 1, ..Packet::default() }
    }

    fn weight(policy: &NfvNice, id: u32) -> u32 {
        policy.fair.weight(ClientId(id))
    }

    /// Returns the weights after the first update. `loads` has the ns between packets of a service and the ns that each
    /// takes.
    fn weights(loads: &[(u64, u64)], priorities: &[u32]) -> Vec<u32> {
        let mut policy = NfvNice::new(&NfvNiceParams::default(), &config(loads.len(), 64, Vec::new())).unwrap();
        for (id, &priority) in priorities.iter().enumerate() {
            policy.set_weight(Time::ZERO, ClientId(id as u32), Weight::new(priority).unwrap());
        }
        for ns in (0..10_001_000).step_by(500) {
            let now = Time::from_ns(ns);
            for (service, &(gap, used)) in loads.iter().enumerate() {
                let (id, sent) = (ClientId(service as u32), packet(service as u16));
                if ns % gap != 0 {
                    continue;
                }
                policy.on_arrival(now, id, &sent, 0);
                policy.on_wake(now, id, &sent);
                assert_eq!(policy.pick(now, CoreId(0)), Some(id));
                policy.on_dispatch(now, CoreId(0), id, &sent);
                policy.on_completion(now, CoreId(0), id, &sent, used);
                policy.on_idle(now, id);
                policy.check();
            }
        }
        loads.iter().enumerate().map(|(id, _)| weight(&policy, id as u32)).collect()
    }

    /// RIVALS: packets at 1 and 2 M/s that take 500 and 250 ns have weights 1:1.
    #[test]
    fn weights_are_rate_times_cost() {
        assert_eq!(weights(&[(1_000, 500), (500, 250)], &[]), [500_000, 500_000]);
        assert_eq!(weights(&[(1_000, 500), (500, 250)], &[3, 1]), [1_500_000, 500_000]);
        assert_eq!(weights(&[(1_000, 750), (500, 125)], &[]), [750_000, 250_000]);
        // A single packet has arrived for the second, of 10,001 for the first: 5 * 125 of 7,500,875 in millionths.
        assert_eq!(weights(&[(1_000, 750), (20_000_000, 125)], &[1, 5]), [999_983, 83]);
    }

    #[test]
    fn a_chain_is_closed_from_high_to_low() {
        let chains = vec![vec![ServiceId(0), ServiceId(1)], vec![ServiceId(0)], vec![ServiceId(1)]];
        let mut policy = NfvNice::new(&NfvNiceParams::default(), &config(2, 10, chains)).unwrap();
        let second = ClientId(1);
        let admits = |policy: &mut NfvNice| {
            [0, 1, 2].map(|chain| policy.admits(Time::ZERO, &Packet { chain: ChainId(chain), ..packet(0) }))
        };
        for waiting in 0..9 {
            assert_eq!(admits(&mut policy), [true; 3], "{waiting} packets of 10 wait");
            policy.on_arrival(Time::ZERO, second, &packet(1), waiting);
            if waiting == 0 {
                policy.on_wake(Time::ZERO, second, &packet(1));
            }
        }
        // More than 8 wait, until fewer than 6 do.
        for waiting in (6..9).rev() {
            assert_eq!(admits(&mut policy), [false, true, false], "the chains with the second service are closed");
            policy.on_dispatch(Time::ZERO, CoreId(0), second, &packet(1));
            policy.on_head(Time::ZERO, second, &packet(1));
            assert_eq!(policy.services[second].waiting, waiting);
            policy.check();
        }
        assert_eq!(admits(&mut policy), [false, true, false]);
        policy.on_dispatch(Time::ZERO, CoreId(0), second, &packet(1));
        assert_eq!(admits(&mut policy), [true; 3], "5 wait");
        policy.check();
    }

    #[test]
    fn what_is_long_ago_counts_no_more() {
        let mut policy = NfvNice::new(&NfvNiceParams::default(), &config(2, 64, Vec::new())).unwrap();
        let serve = |policy: &mut NfvNice, ms: u64, id: u32| {
            let (now, sent) = (Time::from_ns(ms * 1_000_000), packet(id as u16));
            policy.on_arrival(now, ClientId(id), &sent, 0);
            policy.on_wake(now, ClientId(id), &sent);
            policy.on_dispatch(now, CoreId(0), ClientId(id), &sent);
            policy.on_completion(now, CoreId(0), ClientId(id), &sent, 100);
            policy.on_idle(now, ClientId(id));
        };
        serve(&mut policy, 1, 0);
        serve(&mut policy, 2, 1);
        serve(&mut policy, 11, 1);
        assert_eq!([0, 1].map(|id| weight(&policy, id)), [500_000, 500_000], "one packet each until 10 ms");
        serve(&mut policy, 500, 1);
        serve(&mut policy, 511, 1);
        assert_eq!([0, 1].map(|id| weight(&policy, id)), [1, 1_000_000]);
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = |params| NfvNice::new(&params, &config(1, 64, Vec::new())).unwrap_err().to_string();
        let usual = NfvNiceParams::default;
        assert_eq!(refused(NfvNiceParams { high: 0.5, ..usual() }), "nfvnice: low=0.6 is above high=0.5");
        let many = NfvNiceParams { update: 1_000, ..usual() };
        assert_eq!(refused(many), "nfvnice: a window has at most 1000 updates, not 100000");
    }
}
