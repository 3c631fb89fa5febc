//! Measurements: what happened to the packets, told in one pass and in bounded memory.
//!
//! Measurements stand beside the mechanism: a driver tells [`Measurements`] of arrivals, dispatches and completions, and
//! gets a [`Summary`] at the end. With equal events the summary is equal, to the last bit.

mod fairness;
mod histogram;
mod measured;
mod order;
mod summary;

pub use fairness::Fairness;
pub use histogram::Histogram;
pub use measured::Measured;
pub use order::Order;
pub use summary::{CoreSummary, Delay, FairnessSummary, Late, OrderSummary, ServiceSummary, Summary};

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::id::{ClientId, CoreId, FlowId, IdVec, ServiceId};
use crate::mechanism::{Account, Completed, Dispatch};
use crate::policy::Setup;
use crate::unit::{Time, Weight};

#[derive(Debug)]
struct Service {
    name: String,
    tolerance: Time,
    delay: Histogram,
    late: u64,
    bytes: u64,
    waiting: u32,
    waiting_max: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Core {
    busy: Time,
    packets: u64,
    cold: u64,
    switches: u64,
}

/// What happened so far.
#[derive(Debug)]
pub struct Measurements {
    services: IdVec<ServiceId, Service>,
    cores: IdVec<CoreId, Core>,
    order: Order,
    fairness: Fairness,
    first_arrival: Option<Time>,
    last_completion: Time,
}

impl Measurements {
    /// Measurements of a run with this set-up. All memory is allocated here.
    pub fn new(setup: &Setup<'_>) -> Self {
        let services = setup.services.iter().map(|service| Service {
            name: service.name.to_string(),
            tolerance: service.tolerance,
            delay: Histogram::new(),
            late: 0,
            bytes: 0,
            waiting: 0,
            waiting_max: 0,
        });
        Self {
            services: services.collect(),
            cores: IdVec::from_fn(setup.cores, |_| Core::default()),
            order: Order::new(setup.flows),
            fairness: Fairness::new(setup.clients, |client| setup.weight(client)),
            first_arrival: None,
            last_completion: Time::ZERO,
        }
    }

    /// A packet of this client and service was accepted.
    pub fn on_accept(&mut self, now: Time, client: ClientId, service: ServiceId) {
        self.first_arrival.get_or_insert(now);
        let service = &mut self.services[service];
        service.waiting += 1;
        service.waiting_max = service.waiting_max.max(service.waiting);
        self.fairness.on_arrival(client);
    }

    /// A packet went to a core.
    pub fn on_dispatch(&mut self, core: CoreId, dispatch: &Dispatch) {
        self.services[dispatch.packet.service].waiting -= 1;
        self.cores[core].cold += u64::from(dispatch.cold);
        self.order.on_dispatch(dispatch.packet.sequence);
    }

    /// A packet was done at `finished`, after `core` had been busy with it for `busy`.
    pub fn on_completion(&mut self, core: CoreId, completed: &Completed, finished: Time, busy: Time) {
        let packet = &completed.packet;
        let delay = finished.since(packet.arrival);
        let service = &mut self.services[packet.service];
        service.delay.record(delay.as_ns());
        service.late += u64::from(delay > service.tolerance);
        service.bytes += u64::from(packet.length);
        self.cores[core].busy += busy;
        self.cores[core].packets += 1;
        self.order.on_departure(packet.flow, packet.sequence, finished);
        self.fairness.on_service(packet.client, completed.used);
        self.last_completion = self.last_completion.max(finished);
    }

    /// A core began to go over to another service.
    pub fn on_switch(&mut self, core: CoreId) {
        self.cores[core].switches += 1;
    }

    /// A flow is over: its id may be used for another.
    pub fn on_flow_end(&mut self, flow: FlowId) {
        self.order.on_flow_end(flow);
    }

    /// A client is gone: its id may be used for another.
    pub fn on_client_end(&mut self, client: ClientId) {
        self.fairness.on_client_end(client);
    }

    /// A client has another weight.
    pub fn set_weight(&mut self, client: ClientId, weight: Weight) {
        self.fairness.set_weight(client, weight);
    }

    /// Everything, once the run is over.
    pub fn summary(&self, account: &Account) -> Summary {
        let mut delay = Histogram::new();
        for service in &self.services {
            delay.add(&service.delay);
        }
        let duration = self.first_arrival.map_or(Time::ZERO, |first| self.last_completion.since(first));
        let bytes = self.services.iter().map(|service| service.bytes).sum();
        let late = self.services.iter().map(|service| service.late).sum();
        let cold: u64 = self.cores.iter().map(|core| core.cold).sum();
        Summary {
            duration_ns: duration.as_ns(),
            bytes,
            throughput_pps: summary::per_second(account.processed, duration),
            throughput_bps: summary::per_second(bytes * 8, duration),
            delay_ns: Delay::of(&delay),
            late: Late::of(late, account.processed),
            order: self.order.summary(),
            jitter_ns: self.order.jitter_ns(),
            fairness: self.fairness.summary(),
            cores_detail: self.cores.iter().map(|core| core_summary(core, duration)).collect(),
            services: self.services.iter().map(service_summary).collect::<Vec<_>>(),
            cold_fraction: summary::fraction(cold, account.processed),
            switches: self.cores.iter().map(|core| core.switches).sum(),
        }
    }
}

fn core_summary(core: &Core, duration: Time) -> CoreSummary {
    CoreSummary {
        utilization: summary::fraction(core.busy.as_ns(), duration.as_ns()),
        packets: core.packets,
        switches: core.switches,
        cold: core.cold,
    }
}

fn service_summary(service: &Service) -> ServiceSummary {
    ServiceSummary {
        name: service.name.clone(),
        packets: service.delay.count(),
        bytes: service.bytes,
        delay_ns: Delay::of(&service.delay),
        tolerance_ns: service.tolerance.as_ns(),
        late: Late::of(service.late, service.delay.count()),
        queue_max: service.waiting_max,
    }
}
