//! Estimation-based fair queueing while the cores keep up, locality-aware scheduling while they do not.
//!
//! **Idea.** Fair queueing bounds delays as long as packets do not pile up. Beyond that only
//! throughput helps, and cores that stay with one service have more of it. So this policy orders
//! clients as [`efq`](super::efq) does, until the waiting work per core exceeds a threshold. Then
//! it partitions the cores among services as [`lap`](super::lap) does, until the waiting work is
//! below a lower threshold.
//!
//! **Source.** The EFQ and LAP paper, section 6; PREDICTIVE section 9.
//!
//! **Promises.** Work conserving. Between two changes of mode, the waiting work moves from one threshold to the
//! other, so modes never chatter. The bounds of `efq` start again at each return to it.
//!
//! **Cost.** O(log n) for the structures of both; O(N) more for a decision by `lap` on N cores. A
//! return to `efq` is O(n log n).
//!
//! **Invariants.** Both structures are kept in both modes: the heads that may be served are in
//! `efq`, and in `offered` by their services. `work` is the waiting work of each service.
//!
//! **Departures.** The applications of `lap` are services here, and clients stay clients. Of a service, the
//! client with the oldest head is served. So the packets of a client keep their order, even with several
//! services. The threshold is in mean packet times: the mean of the estimates of packets that arrived, where
//! old ones count less. On return, every client starts at virtual time, which continues meanwhile, whether
//! `lap` had favoured or neglected it. All waiting packets are visible.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::{Time, Weight, Work};

use super::efq::{Efq, EfqParams};
use super::offered::Offered;
use super::partition::{Partition, Rule};

params! {
    /// Parameters of the combination.
    pub struct EfqLapParams {
        /// Waiting work for each core beyond which throughput comes first.
        high: u64 = 8, in 1..=1_000_000, unit "mean packet times";
        /// Waiting work for each core below which fairness comes first again: less than `high`.
        low: u64 = 2, in 0..=999_999, unit "mean packet times";
        /// As of `lap`: a core goes over to a service that needs this many cores more.
        hysteresis: u64 = 1, in 0..=1_000_000, unit "cores";
        /// As of `efq`: whether a client pays for what a cold core adds.
        charge_cold: bool = true;
    }
}

/// The goal that has priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Fairness: clients are ordered as by `efq`.
    Fair,
    /// Throughput: cores are partitioned as by `lap`.
    Local,
}

/// The number of packets after which earlier ones count half in the mean.
const MEAN_OF: u64 = 1 << 16;

/// The combination of fair queueing and locality-aware scheduling.
#[derive(Debug)]
pub struct EfqLap {
    high: u64,
    low: u64,
    mode: Mode,
    /// The number of changes of the mode.
    changes: u64,
    efq: Efq,
    partition: Partition<ServiceId>,
    offered: Offered,
    /// The estimated work that waits: of each service, and of all.
    work: IdVec<ServiceId, Work>,
    total: Work,
    /// The number of packets that arrived, and their estimates.
    packets: u64,
    estimates: Work,
}

impl Build for EfqLap {
    type Params = EfqLapParams;
    const INFO: Info = Info {
        name: "efq-lap",
        family: Family::Share,
        summary: "as efq while little work waits for each core, as lap while much does",
        source: "EFQ and LAP paper",
        promises: &[Promise::WorkConserving],
        complexity: "O(N + log n)",
    };
    const VARIANTS: &'static [&'static str] =
        &["high=1,low=0", "high=3,low=2,hysteresis=0", "charge-cold=false,high=4"];

    fn new(params: &EfqLapParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let &EfqLapParams { high, low, hysteresis, charge_cold } = params;
        if low >= high {
            return Err(BuildError::bad_value(alloc::format!(
                "efq-lap: `low` must be less than `high`, which is {high}, not {low}"
            )));
        }
        let services = config.services.len();
        Ok(Self {
            high,
            low,
            mode: Mode::Fair,
            changes: 0,
            efq: Efq::new(&EfqParams { charge_cold, ..EfqParams::default() }, config)?,
            partition: Partition::new(Rule::Deficit, hysteresis, config.cores, services),
            offered: Offered::new(services, config.clients),
            work: IdVec::from_fn(services, |_| 0),
            total: 0,
            packets: 0,
            estimates: 0,
        })
    }
}

impl Policy for EfqLap {
    fn check(&self) {
        self.efq.check();
        self.offered.check();
        self.partition.check(|service| self.work[service], self.total);
    }
}

impl Share for EfqLap {
    fn on_arrival(&mut self, now: Time, id: ClientId, packet: &Packet, waiting: u32) {
        self.efq.on_arrival(now, id, packet, waiting);
        self.count(packet.estimate);
        self.work[packet.service] += packet.estimate;
        self.total += packet.estimate;
        self.file(packet.service);
        self.turn(now);
    }

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.efq.on_wake(now, id, head);
        self.offer(id, head);
    }

    fn on_head(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.efq.on_head(now, id, head);
        self.offer(id, head);
    }

    fn pick(&mut self, now: Time, core: CoreId) -> Option<ClientId> {
        match self.mode {
            Mode::Fair => self.efq.pick(now, core),
            Mode::Local => self.offered.oldest(self.partition.choose(core, self.total)?),
        }
    }

    fn place(&mut self, _: Time, idle: &IdSet<CoreId>) -> CoreId {
        match self.mode {
            Mode::Fair => idle.first().expect("a core is idle"),
            Mode::Local => self.partition.place(idle),
        }
    }

    fn on_dispatch(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet) {
        match self.mode {
            Mode::Fair => self.efq.on_dispatch(now, core, id, sent),
            Mode::Local => self.efq.on_early_dispatch(now, core, id, sent),
        }
        let service = self.offered.take(id);
        self.partition.set_head(service, self.offered.oldest_head(service));
        self.leave(sent);
        self.partition.dispatch(core, sent.service);
        self.turn(now);
    }

    fn on_completion(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet, used: Work) {
        self.efq.on_completion(now, core, id, sent, used);
    }

    fn on_push_out(&mut self, now: Time, id: ClientId, packet: &Packet, waiting: u32) {
        self.efq.on_push_out(now, id, packet, waiting);
        self.leave(packet);
        self.turn(now);
    }

    fn on_idle(&mut self, now: Time, id: ClientId) {
        self.efq.on_idle(now, id);
    }

    fn on_client_end(&mut self, now: Time, id: ClientId) {
        self.efq.on_client_end(now, id);
    }

    fn set_weight(&mut self, now: Time, id: ClientId, weight: Weight) {
        self.efq.set_weight(now, id, weight);
    }
}

impl EfqLap {
    /// Returns the current mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the number of changes of the mode.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Adds a packet of this estimate to the mean.
    fn count(&mut self, estimate: Work) {
        if self.packets >= MEAN_OF {
            self.packets /= 2;
            self.estimates /= 2;
        }
        self.packets += 1;
        self.estimates += estimate;
    }

    /// Records that the head of the client may be served.
    fn offer(&mut self, id: ClientId, head: &Packet) {
        self.offered.offer(id, head.service, head.sequence);
        self.partition.set_head(head.service, self.offered.oldest_head(head.service));
        self.file(head.service);
    }

    /// Records that the packet no longer waits.
    fn leave(&mut self, packet: &Packet) {
        self.work[packet.service] -= packet.estimate;
        self.total -= packet.estimate;
        self.file(packet.service);
    }

    fn file(&mut self, service: ServiceId) {
        self.partition.set_work(service, self.work[service]);
    }

    /// Changes the mode if the waiting work per core has passed the threshold.
    fn turn(&mut self, now: Time) {
        let cores = self.partition.pulling().max(1) as u128;
        let waiting = u128::from(self.total) * u128::from(self.packets);
        let threshold = |times: u64| u128::from(times) * u128::from(self.estimates) * cores;
        match self.mode {
            Mode::Fair if waiting > threshold(self.high) => self.mode = Mode::Local,
            Mode::Local if waiting < threshold(self.low) || self.total == 0 => {
                self.mode = Mode::Fair;
                self.efq.begin_anew(now);
            }
            _ => return,
        }
        self.changes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::config::ServiceConfig;
    use humpyard_core::cost::LinearCost;
    use humpyard_core::id::Slot;
    use humpyard_core::mechanism::{FlowOrder, Never, Scheduler};
    use humpyard_core::random::Seed;
    use humpyard_core::unit::WorkUnit;

    const SERVICES: usize = 3;
    const BYTES: [LinearCost; SERVICES] = [LinearCost::BYTES; SERVICES];

    fn policy(params: &EfqLapParams, cores: usize, clients: usize) -> EfqLap {
        let config = SchedulerConfig {
            services: vec![ServiceConfig::default(); SERVICES],
            unit: WorkUnit::Nanoseconds,
            ..config(cores, clients, &[])
        };
        EfqLap::new(params, &config).unwrap()
    }

    fn packet(client: u32, sequence: u64, estimate: Work) -> Packet {
        let service = ServiceId((client as usize % SERVICES) as u16);
        Packet { client: ClientId(client), service, sequence, estimate, ..Packet::default() }
    }

    /// One core, packets of 10: the mode becomes local beyond four of them, and fair again below two.
    #[test]
    fn both_thresholds_are_passed() {
        let mut policy = policy(&EfqLapParams { high: 4, low: 2, ..EfqLapParams::default() }, 1, 6);
        let mut modes = vec![];
        for client in 0..6 {
            let packet = packet(client, client.into(), 10);
            policy.on_arrival(Time::ZERO, ClientId(client), &packet, 0);
            policy.on_wake(Time::ZERO, ClientId(client), &packet);
            policy.check();
            modes.push(policy.mode());
        }
        for _ in 0..6 {
            let id = policy.pick(Time::ZERO, CoreId(0)).unwrap();
            let sent = packet(id.0, id.0.into(), 10);
            policy.on_dispatch(Time::ZERO, CoreId(0), id, &sent);
            policy.on_completion(Time::ZERO, CoreId(0), id, &sent, 10);
            policy.on_idle(Time::ZERO, id);
            policy.check();
            modes.push(policy.mode());
        }
        let (fair, local) = (Mode::Fair, Mode::Local);
        assert_eq!(modes, [fair, fair, fair, fair, local, local, local, local, local, local, fair, fair]);
        assert_eq!(policy.changes(), 2);
    }

    /// A flow that was served ahead of its share in local mode does not wait until the others have caught up.
    #[test]
    fn who_was_favoured_is_not_locked_out() {
        let mut policy = policy(&EfqLapParams { high: 3, low: 1, ..EfqLapParams::default() }, 1, 2);
        let mut now = Time::ZERO;
        // Client 0 has many packets, and its service keeps the core; the only packet of client 1 waits.
        policy.on_arrival(now, ClientId(1), &packet(1, 0, 10), 0);
        let mut sequence = 1;
        for waiting in 0..20 {
            policy.on_arrival(now, ClientId(0), &packet(0, sequence, 10), waiting);
            sequence += 1;
        }
        policy.on_wake(now, ClientId(0), &packet(0, 1, 10));
        assert_eq!(policy.mode(), Mode::Local);
        for served in 0..20 {
            assert_eq!(policy.pick(now, CoreId(0)), Some(ClientId(0)), "its head alone was offered");
            let sent = packet(0, 1 + served, 10);
            policy.on_dispatch(now, CoreId(0), ClientId(0), &sent);
            now += Time::from_ns(10);
            policy.on_completion(now, CoreId(0), ClientId(0), &sent, 10);
            if served < 19 {
                policy.on_head(now, ClientId(0), &packet(0, 2 + served, 10));
            }
        }
        policy.on_wake(now, ClientId(1), &packet(1, 0, 10));
        assert_eq!(policy.pick(now, CoreId(0)), Some(ClientId(1)));
        policy.on_dispatch(now, CoreId(0), ClientId(1), &packet(1, 0, 10));
        assert_eq!(policy.mode(), Mode::Fair);
        policy.on_arrival(now, ClientId(0), &packet(0, sequence, 10), 0);
        policy.on_head(now, ClientId(0), &packet(0, sequence, 10));
        policy.check();
        assert_eq!(policy.pick(now, CoreId(0)), Some(ClientId(0)));
    }

    #[test]
    fn thresholds_that_cannot_be() {
        let params = EfqLapParams { high: 3, low: 3, ..EfqLapParams::default() };
        let refused = EfqLap::new(&params, &config(1, 1, &[])).unwrap_err().to_string();
        assert_eq!(refused, "efq-lap: `low` must be less than `high`, which is 3, not 3");
    }

    /// Packets arrive and leave in waves: none is lost or served twice, and the packets of each
    /// client keep their order.
    #[test]
    fn no_packet_is_lost_over_changes_of_mode() {
        for (seed, order) in [(1, FlowOrder::Hold), (2, FlowOrder::Free), (3, FlowOrder::Hold), (4, FlowOrder::Free)] {
            const CORES: usize = 3;
            let (high, low) = (6, 2);
            let config = SchedulerConfig {
                services: vec![ServiceConfig::default(); SERVICES],
                estimates: BYTES.to_vec(),
                packets: 400,
                longest: 100,
                unit: WorkUnit::Nanoseconds,
                flow_order: order,
                ..config(CORES, 20, &[])
            };
            let params = EfqLapParams { high, low, ..EfqLapParams::default() };
            let share = || EfqLap::new(&params, &config);
            let mut scheduler = Scheduler::<Never, _, Never>::new(&config, None, None, share).unwrap();
            let mut random = Seed(seed).stream("efq-lap/waves");
            let (mut came, mut served) = (0u64, vec![]);
            let mut in_service: Vec<Slot> = vec![];
            let mut now = Time::ZERO;
            for step in 0..6000u64 {
                now += Time::from_ns(random.below(60));
                // Waves: many packets arrive, then few.
                let wave = if step / 300 % 2 == 0 { 3 } else { 1 };
                for _ in 0..random.below(wave + 1) {
                    if came - (served.len() as u64) < 300 && step < 5500 {
                        let client = random.below(20) as u32;
                        let packet = Packet { length: 50 + random.below(50) as u32, ..packet(client, 0, 0) };
                        assert!(matches!(
                            scheduler.on_arrival(now, &packet),
                            humpyard_core::mechanism::Arrival::Queued(_)
                        ));
                        came += 1;
                    }
                }
                while in_service.len() < CORES
                    && let Some(core) = scheduler.next_core(now)
                    && let Some(dispatch) = scheduler.next(now, core)
                {
                    in_service.push(dispatch.slot);
                }
                for _ in 0..random.below(3) {
                    if !in_service.is_empty() {
                        let slot = in_service.remove(random.below(in_service.len() as u64) as usize);
                        let done = scheduler.on_completion(now, slot, Time::from_ns(50 + random.below(100)));
                        served.push((done.packet.client, done.packet.sequence));
                    }
                }
                if step % 16 == 0 {
                    scheduler.check();
                }
            }
            assert_eq!(served.len() as u64, came, "all that came");
            let mut once = served.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len() as u64, came, "each once");
            if order == FlowOrder::Hold {
                let mut last = [None; 20];
                for (client, sequence) in served {
                    let before = last[client.0 as usize].replace(sequence);
                    assert!(before < Some(sequence), "client {client}");
                }
            }
        }
    }

    /// From one change of mode to the next, the waiting work moves from one threshold to the other,
    /// for any arrivals.
    #[test]
    fn modes_do_not_chatter() {
        for (seed, high, low) in [(1, 8, 2), (2, 5, 4), (3, 1, 0), (4, 20, 1)] {
            const CORES: u64 = 4;
            let mut policy = policy(&EfqLapParams { high, low, ..EfqLapParams::default() }, CORES as usize, 30);
            let mut random = Seed(seed).stream("efq-lap/chatter");
            let mut waiting: Vec<(u32, u64)> = vec![];
            let (mut changes, mut seen) = (vec![], 0);
            for step in 0..20_000u64 {
                let now = Time::from_ns(10 * step);
                let wave = if step / 200 % 2 == 0 { 7 } else { 3 };
                let client = (step % 30) as u32;
                if random.below(10) < wave && !waiting.iter().any(|entry| entry.0 == client) {
                    let packet = packet(client, step, 10);
                    policy.on_arrival(now, ClientId(client), &packet, 0);
                    policy.on_wake(now, ClientId(client), &packet);
                    waiting.push((client, step));
                } else if let Some(id) = policy.pick(now, CoreId((step % CORES) as u16)) {
                    let at = waiting.iter().position(|entry| entry.0 == id.0).expect("it waits");
                    let (client, sequence) = waiting.remove(at);
                    let sent = packet(client, sequence, 10);
                    policy.on_dispatch(now, CoreId((step % CORES) as u16), id, &sent);
                    policy.on_completion(now, CoreId((step % CORES) as u16), id, &sent, 10);
                    policy.on_idle(now, id);
                }
                // The first change may come before all cores have taken packets.
                if policy.changes() > seen {
                    seen = policy.changes();
                    changes.extend((step > 1000).then_some(waiting.len() as u64));
                }
                policy.check();
            }
            for pair in changes.windows(2) {
                assert!(pair[0].abs_diff(pair[1]) >= CORES * (high - low), "{high} and {low}: {changes:?}");
            }
            assert!(high > 5 || changes.len() > 20, "{high} and {low}: {changes:?}");
        }
    }
}
