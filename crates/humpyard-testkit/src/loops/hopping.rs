//! The loop of a scheduler inside another program, whose packets circulate.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::mix;
use humpyard_core::id::{CoreId, FlowId};
use humpyard_core::mechanism::{Arrival, Never, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, Params, Share, Steer};
use humpyard_core::unit::{Time, WorkUnit};

/// A scheduler of one core. Each packet that the core serves arrives again at once, as a packet of the next flow: one hop.
pub struct Hopping<S, Q> {
    scheduler: Scheduler<S, Q, Never>,
    /// The hash of each flow.
    keys: Vec<u64>,
}

impl<S: Steer + Build, Q: Share + Build> Hopping<S, Q> {
    /// Makes a host in which this number of packets circulates, over as many flows. A power of two.
    ///
    /// # Panics
    /// If a policy rejects the configuration.
    pub fn new(packets: usize) -> Self {
        let config = SchedulerConfig {
            flows: packets,
            packets,
            in_flight: 32,
            unit: WorkUnit::Packets,
            ..SchedulerConfig::default()
        };
        let steer = policy::<S>(&config);
        let scheduler = Scheduler::new(&config, Some(steer), None, || Ok(policy::<Q>(&config))).expect("they fit");
        let mut host = Self { scheduler, keys: (0..packets as u64).map(mix).collect() };
        for flow in 0..packets as u32 {
            let packet = host.packet(flow);
            assert!(matches!(host.scheduler.on_arrival(Time::ZERO, &packet), Arrival::Queued(_)), "there is room");
        }
        host
    }

    fn packet(&self, flow: u32) -> Packet {
        let key = self.keys[flow as usize];
        Packet { flow: FlowId(flow), key, rss: key as u32, length: 64, ..Packet::default() }
    }

    /// Lets the next packet make a hop. Returns its flow.
    pub fn hop(&mut self) -> FlowId {
        assert_eq!(self.scheduler.next_core(Time::ZERO), Some(CoreId(0)), "packets circulate");
        let dispatch = self.scheduler.next(Time::ZERO, CoreId(0)).expect("packets circulate");
        let (slot, flow) = (dispatch.slot, dispatch.packet.flow);
        let packet = self.packet((flow.0 + 1) & (self.keys.len() as u32 - 1));
        let completed = self.scheduler.on_completion(Time::ZERO, slot, Time::ZERO);
        let arrival = self.scheduler.on_arrival(Time::ZERO, &packet);
        assert!(completed.exit.is_none() && arrival == Arrival::Queued(slot), "the packet arrives in its slot");
        flow
    }
}

/// Returns a policy with its default parameters.
fn policy<P: Build>(config: &SchedulerConfig) -> P {
    let params = P::Params::from_pairs(P::INFO.name, &[]).expect("defaults");
    P::new(&params, config).expect("they fit")
}
