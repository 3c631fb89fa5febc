//! Estimation-based fair queueing, on the core that is warm for the packet.
//!
//! **Idea.** A core that served another service before must fetch the program of the new one.
//! [`efq`](super::efq) decides which packet is next. Of several idle cores, this policy takes the
//! one whose cache has its program. It spares the cores whose programs other packets need.
//!
//! **Source.** The EFQ and LAP paper; PREDICTIVE section 8.
//!
//! **Promises.** Those of `efq`: which packet goes next is the same.
//!
//! **Cost.** As `efq`; O(idle cores) if several are idle.
//!
//! **Invariants.** `cached` counts `warm`, and `waiting` counts the queue. A core picks the client
//! for which it was placed.
//!
//! **Departures.** If packets wait for the programs of all idle cores, the policy takes a core whose program
//! most cores have. Near saturation only one core is idle at a time, and there is no choice.

use core::cmp::Reverse;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Share};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::{Time, Weight, Work};

use super::efq::{Efq, EfqParams};

/// Estimation-based fair queueing, on the core that is warm for the packet.
#[derive(Debug)]
pub struct EfqWarm {
    efq: Efq,
    /// The service that each core served last: the core's cache has its program.
    warm: IdVec<CoreId, Option<ServiceId>>,
    /// By service: the number of cores whose cache has its program.
    cached: IdVec<ServiceId, u32>,
    /// By service: the number of packets that wait.
    waiting: IdVec<ServiceId, u32>,
    /// The service of the head of each client.
    head: IdVec<ClientId, ServiceId>,
}

impl Build for EfqWarm {
    type Params = EfqParams;
    const INFO: Info = Info {
        name: "efq-warm",
        family: Family::Share,
        summary: "as efq, on the idle core whose cache has the packet's program",
        source: "EFQ and LAP paper",
        promises: Efq::INFO.promises,
        complexity: "O(log n + N)",
    };

    fn new(params: &EfqParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self {
            efq: Efq::new(params, config)?,
            warm: IdVec::from_fn(config.cores, |_| None),
            cached: IdVec::from_fn(config.services.len(), |_| 0),
            waiting: IdVec::from_fn(config.services.len(), |_| 0),
            head: IdVec::from_fn(config.clients, |_| ServiceId(0)),
        })
    }
}

impl Policy for EfqWarm {
    fn check(&self) {
        self.efq.check();
        for service in self.cached.ids() {
            let cores = self.warm.iter().filter(|&&warm| warm == Some(service)).count();
            assert_eq!(cores, self.cached[service] as usize, "cores that are warm for service {service}");
        }
    }
}

impl Share for EfqWarm {
    fn on_arrival(&mut self, now: Time, id: ClientId, packet: &Packet, waiting: u32) {
        self.waiting[packet.service] += 1;
        self.efq.on_arrival(now, id, packet, waiting);
    }

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.head[id] = head.service;
        self.efq.on_wake(now, id, head);
    }

    fn on_head(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.head[id] = head.service;
        self.efq.on_head(now, id, head);
    }

    fn pick(&mut self, now: Time, core: CoreId) -> Option<ClientId> {
        self.efq.pick(now, core)
    }

    fn place(&mut self, now: Time, idle: &IdSet<CoreId>) -> CoreId {
        let next = self.efq.choose(now).map(|id| self.head[id]);
        let core = idle.iter().min_by_key(|&core| self.unfitness(core, next));
        core.expect("a core is idle")
    }

    fn on_dispatch(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet) {
        self.waiting[sent.service] -= 1;
        if let Some(before) = self.warm[core].replace(sent.service) {
            self.cached[before] -= 1;
        }
        self.cached[sent.service] += 1;
        self.efq.on_dispatch(now, core, id, sent);
    }

    fn on_completion(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet, used: Work) {
        self.efq.on_completion(now, core, id, sent, used);
    }

    fn on_push_out(&mut self, now: Time, id: ClientId, packet: &Packet, waiting: u32) {
        self.waiting[packet.service] -= 1;
        self.efq.on_push_out(now, id, packet, waiting);
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

impl EfqWarm {
    /// Returns how badly the core fits a packet of this service. From best to worst: warm for it,
    /// never used, warm for a service without waiting packets, all others.
    fn unfitness(&self, core: CoreId, service: Option<ServiceId>) -> (u8, Reverse<u32>) {
        match self.warm[core] {
            warm if warm == service => (0, Reverse(0)),
            None => (1, Reverse(0)),
            Some(warm) => (if self.waiting[warm] == 0 { 2 } else { 3 }, Reverse(self.cached[warm])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::config::ServiceConfig;
    use humpyard_core::cost::LinearCost;
    use humpyard_core::mechanism::{FlowOrder, Never, Scheduler};
    use humpyard_core::unit::WorkUnit;

    const NOW: Time = Time::ZERO;

    /// Four cores, whose last packets were of services 0, 0, 1 and none. No packet waits.
    fn used() -> EfqWarm {
        let config = SchedulerConfig { services: vec![ServiceConfig::default(); 4], ..config(4, 4, &[]) };
        let mut policy = EfqWarm::new(&EfqParams::default(), &config).unwrap();
        for (core, service) in [(0, 0), (1, 0), (2, 1)] {
            wait(&mut policy, service);
            serve(&mut policy, core);
        }
        policy
    }

    /// Lets a packet of this service, and of the client with the same number, wait.
    fn wait(policy: &mut EfqWarm, service: u16) {
        let (id, packet) = (ClientId(service.into()), packet(service));
        policy.on_arrival(NOW, id, &packet, 0);
        policy.on_wake(NOW, id, &packet);
    }

    fn packet(service: u16) -> Packet {
        Packet { estimate: 5, service: ServiceId(service), ..Packet::default() }
    }

    /// Lets the core serve the client that it picks.
    fn serve(policy: &mut EfqWarm, core: u16) -> ClientId {
        let id = policy.pick(NOW, CoreId(core)).unwrap();
        let sent = packet(id.0 as u16);
        policy.on_dispatch(NOW, CoreId(core), id, &sent);
        policy.on_completion(NOW, CoreId(core), id, &sent, 5);
        policy.on_idle(NOW, id);
        policy.check();
        id
    }

    fn placed(policy: &mut EfqWarm, idle: &[u16]) -> CoreId {
        let mut set = IdSet::new(4);
        idle.iter().for_each(|&core| set.insert(CoreId(core)));
        policy.place(NOW, &set)
    }

    #[test]
    fn a_warm_core_then_a_new_one_then_one_that_nobody_waits_for() {
        let mut policy = used();
        wait(&mut policy, 1);
        assert_eq!(placed(&mut policy, &[0, 1, 2, 3]), CoreId(2), "it is warm");
        assert_eq!(placed(&mut policy, &[0, 1, 3]), CoreId(3), "it was never used");
        assert_eq!(placed(&mut policy, &[0, 1]), CoreId(0), "both are warm for the same");

        let mut policy = used();
        wait(&mut policy, 2);
        assert_eq!(placed(&mut policy, &[1, 2]), CoreId(1), "two are warm for service 0, and one for service 1");
        wait(&mut policy, 0);
        assert_eq!(policy.pick(NOW, CoreId(1)), Some(ClientId(0)), "ties go to the lower id");
        assert_eq!(placed(&mut policy, &[1, 2]), CoreId(1));
        serve(&mut policy, 1);
        wait(&mut policy, 0);
        assert_eq!(policy.pick(NOW, CoreId(2)), Some(ClientId(2)));
        assert_eq!(placed(&mut policy, &[1, 2]), CoreId(2), "somebody waits for service 0");
    }

    #[test]
    fn the_client_a_core_was_placed_for_is_served() {
        let mut policy = used();
        wait(&mut policy, 3);
        wait(&mut policy, 1);
        for expected in [(CoreId(2), ClientId(1)), (CoreId(3), ClientId(3))] {
            let core = placed(&mut policy, &[0, 2, 3]);
            assert_eq!((core, serve(&mut policy, core.0)), expected);
        }
    }

    /// The mechanism counts as cold the packets that the policy means to avoid: if there are as
    /// many cores as services, each service stays on its core.
    #[test]
    fn as_many_services_as_cores_are_warm_from_the_second_packet_on() {
        let config = SchedulerConfig {
            services: vec![ServiceConfig::default(); 4],
            estimates: vec![LinearCost::PACKETS; 4],
            unit: WorkUnit::Packets,
            flow_order: FlowOrder::Free,
            ..config(4, 4, &[])
        };
        let share = || EfqWarm::new(&EfqParams::default(), &config);
        let mut scheduler = Scheduler::<Never, _, Never>::new(&config, None, None, share).unwrap();
        let mut cold = vec![];
        for round in 0..20u64 {
            let now = Time::from_ns(round);
            // The order differs each time.
            for client in (0..4).map(|client| (client * 3 + round as u32) % 4) {
                let service = ServiceId(client as u16);
                scheduler.on_arrival(now, &Packet { client: ClientId(client), service, ..Packet::default() });
            }
            let mut sent = Vec::new();
            while let Some(dispatch) = scheduler.next_core(now).and_then(|core| scheduler.next(now, core)) {
                cold.push(dispatch.cold);
                sent.push(dispatch.slot);
            }
            assert_eq!(sent.len(), 4);
            for slot in sent {
                scheduler.on_completion(now, slot, Time::ZERO);
            }
        }
        assert_eq!(cold.iter().filter(|&&cold| cold).count(), 4);
    }
}
