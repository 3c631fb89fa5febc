//! Throughput-optimal: all packets of the first service, then all of the second, and so on.
//!
//! **Idea.** A core is cold only when its service has no packet left, so each core fetches each
//! service at most once. No policy that must decide while packets arrive has fewer cold packets: it
//! is the reference for other policies.
//!
//! **Source.** T-Opt of the EFQ and LAP paper, section 5.1; PREDICTIVE section 7.
//!
//! **Promises.** Work conserving. If all packets wait from the start, the number of cold ones is at
//! most services times cores.
//!
//! **Cost.** O(log n).
//!
//! **Invariants.** `ready` holds the clients whose head may be served, by the service of the head.
//!
//! **Departures.** It is for the simulator, which lets all packets arrive at the start when this
//! policy is named. A live run does not know future packets and rejects it. If a client has packets
//! of several services, its front packets delay the others. Use one client for each service, and
//! free flow order.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Share, Ties};
use humpyard_core::unit::{Time, Weight};

use super::tag::Tag;
use super::tournament::Tournament;

params! {
    /// Parameters of the throughput-optimal order: none.
    pub struct TOptParams {}
}

/// The throughput-optimal order.
#[derive(Debug)]
pub struct TOpt {
    ready: Tournament<ClientId>,
}

impl Build for TOpt {
    type Params = TOptParams;
    const INFO: Info = Info {
        name: "t-opt",
        family: Family::Share,
        summary: "all packets of one service after the other, known beforehand: the simulator only",
        source: "EFQ and LAP paper, section 5.1",
        promises: &[Promise::WorkConserving],
        complexity: "O(log n)",
    };

    fn new(_: &TOptParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { ready: Tournament::new(config.clients, Ties::Lowest) })
    }
}

impl Policy for TOpt {}

impl Share for TOpt {
    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.on_head(now, id, head);
    }

    fn on_head(&mut self, _: Time, id: ClientId, head: &Packet) {
        self.ready.set(id, head.service.index() as Tag);
    }

    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.ready.first().map(|(_, id)| id)
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, id: ClientId, _: &Packet) {
        self.ready.remove(id);
    }

    fn on_idle(&mut self, _: Time, _: ClientId) {}

    fn on_client_end(&mut self, _: Time, _: ClientId) {}

    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::config::ServiceConfig;
    use humpyard_core::cost::LinearCost;
    use humpyard_core::id::ServiceId;
    use humpyard_core::mechanism::{FlowOrder, Never, Scheduler};

    /// Three services, 20 packets each, on two cores: each core is cold once per service, and
    /// services follow each other.
    #[test]
    fn services_go_one_after_the_other() {
        let config = SchedulerConfig {
            services: vec![ServiceConfig::default(); 3],
            estimates: vec![LinearCost::PACKETS; 3],
            flow_order: FlowOrder::Free,
            ..config(2, 3, &[])
        };
        let share = || TOpt::new(&TOptParams {}, &config);
        let mut scheduler = Scheduler::<Never, _, Never>::new(&config, None, None, share).unwrap();
        for number in 0..60 {
            let service = (number * 7 % 3) as u16;
            let packet = Packet { client: ClientId(service.into()), service: ServiceId(service), ..Packet::default() };
            scheduler.on_arrival(Time::ZERO, &packet);
        }
        let (mut order, mut cold) = (vec![], 0);
        for round in 0..30 {
            let now = Time::from_ns(round);
            let mut sent = Vec::new();
            while let Some(dispatch) = scheduler.next_core(now).and_then(|core| scheduler.next(now, core)) {
                order.push(dispatch.packet.service.0);
                cold += u32::from(dispatch.cold);
                sent.push(dispatch.slot);
            }
            sent.into_iter().for_each(|slot| {
                scheduler.on_completion(now, slot, Time::ZERO);
            });
        }
        assert!(order.len() == 60 && order.is_sorted(), "{order:?}");
        assert_eq!(cold, 6);
    }
}
