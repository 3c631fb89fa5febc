//! How the work of decisions grows: steps are counted (`humpyard_core::steps`) and compared with
//! the complexity that each policy states. The count includes the steps of the mechanism, which
//! must not grow either.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::{iter, thread};

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::cost::LinearCost;
use humpyard_core::hash::mix;
use humpyard_core::id::{ClientId, CoreId, FlowId, Id, IdVec, ServiceId, Slot};
use humpyard_core::mechanism::{Effect, FlowOrder, Never, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Family, Policy, Share, Steer};
use humpyard_core::steps;
use humpyard_core::unit::{Time, Weight};
use humpyard_policies::registry::{Entry, entries};
use humpyard_policies::spec::PolicySpec;

/// The sizes of a run: the number of clients, cores or services, by the family.
const SIZES: [usize; 4] = [16, 128, 1024, 8192];
/// The most cores in these runs; the limit of the mechanism is slightly higher.
const CORES_MAX: usize = 1024;

/// The growth of steps with the size.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Growth {
    Constant,
    Logarithmic,
    Linear,
}

impl Growth {
    /// Returns the complexity that a policy states for a decision, or for a client that wakes. A
    /// clause for rarer events applies to variants whose parameters make them frequent.
    fn claimed(complexity: &str, waking: bool, variant: bool) -> Self {
        let mut clauses = complexity.split([',', ';']).map(str::trim);
        let usual = clauses.next().unwrap_or_default();
        let rare = clauses.find(|clause| variant || waking && clause.contains("to wake"));
        let clause = rare.map_or(usual, |rare| &rare[rare.find("O(").unwrap_or(0)..]);
        if clause.starts_with("O(1)") {
            Self::Constant
        } else if clause.starts_with("O(log n") {
            Self::Logarithmic
        } else {
            Self::Linear
        }
    }

    /// Returns the most steps at a size, if `least` steps were taken at the least size.
    fn bound(self, least: f64, size: usize) -> f64 {
        let ratio = size as f64 / SIZES[0] as f64;
        match self {
            Self::Constant => 1.5 * least + 4.0,
            Self::Logarithmic => 1.25 * least * (size as f64).log2() / (SIZES[0] as f64).log2(),
            Self::Linear => 1.25 * least * ratio,
        }
    }

    /// Whether these steps, by size, grow no faster than this.
    fn holds(self, steps: &[(usize, f64)]) -> bool {
        steps.iter().all(|&(size, taken)| taken <= self.bound(steps[0].1, size))
    }
}

/// A host with one packet size. Its clients always have packets, or one of them wakes at a time.
struct Host<S, Q, A> {
    scheduler: Scheduler<S, Q, A>,
    clients: usize,
    services: usize,
    now: Time,
    /// The time between packets: shorter with more cores, so that the load of each core stays the same.
    gap: Time,
    arrived: u64,
    in_service: Vec<Slot>,
    /// Cores in transit to another service, by arrival time.
    switching: VecDeque<(Time, CoreId)>,
}

impl<S: Steer, Q: Share, A: Allocate> Host<S, Q, A> {
    fn new(scheduler: Scheduler<S, Q, A>, clients: usize, cores: usize, services: usize) -> Self {
        let gap = Time::from_ns(16_000 / cores as u64);
        Self {
            scheduler,
            clients,
            services,
            now: Time::ZERO,
            gap,
            arrived: 0,
            in_service: Vec::new(),
            switching: VecDeque::new(),
        }
    }

    fn arrive(&mut self, client: usize) {
        let random = mix(self.arrived);
        self.arrived += 1;
        let service = ServiceId::from_index(random as usize % self.services);
        let length = 64 + (random >> 32) as u32 % 1451;
        let (flow, client) = (FlowId::from_index(client), ClientId::from_index(client));
        let key = mix(u64::from(flow.0) + 1);
        self.scheduler.on_arrival(
            self.now,
            &Packet { arrival: self.now, key, flow, client, length, service, ..Packet::default() },
        );
        self.begin_switches();
    }

    /// Lets cores take packets, then completes the packet that came first. Returns its client.
    fn serve(&mut self) -> Option<ClientId> {
        self.now += self.gap;
        let now = self.now;
        while let Some((_, core)) = self.switching.front().copied().filter(|at| at.0 <= now) {
            self.switching.pop_front();
            self.scheduler.on_switched(self.now, core);
            self.begin_switches();
        }
        if self.scheduler.next_timeout().is_some_and(|timeout| timeout <= self.now) {
            self.scheduler.on_timeout(self.now);
            self.begin_switches();
        }
        while let Some(core) = self.scheduler.next_core(self.now) {
            let Some(dispatch) = self.scheduler.next(self.now, core) else { continue };
            self.in_service.push(dispatch.slot);
            self.begin_switches();
        }
        if self.in_service.is_empty() {
            return None;
        }
        let slot = self.in_service.swap_remove(self.in_service.len() / 2);
        let completed = self.scheduler.on_completion(self.now, slot, Time::from_ns(1000));
        self.begin_switches();
        Some(completed.packet.client)
    }

    fn begin_switches(&mut self) {
        while let Some(Effect::Switch(switch)) = self.scheduler.next_effect() {
            self.switching.push_back((self.now + switch.cost, switch.core));
        }
    }

    /// Returns the mean steps per packet of clients that always have two packets waiting.
    fn busy(mut self) -> f64 {
        (0..2 * self.clients).for_each(|number| self.arrive(number % self.clients));
        self.mean_steps(|host, _| {
            if let Some(client) = host.serve() {
                host.arrive(client.index());
            }
        })
    }

    /// Returns the mean steps of a packet that wakes an idle client.
    fn waking(mut self) -> f64 {
        (0..self.clients / 2).for_each(|client| self.arrive(2 * client));
        self.mean_steps(|host, number| {
            host.serve();
            host.arrive(mix(number) as usize % host.clients);
        })
    }

    fn mean_steps(&mut self, mut packet: impl FnMut(&mut Self, u64)) -> f64 {
        let settling = self.clients as u64 * 2;
        (0..settling).for_each(|number| packet(self, number));
        let counted = settling.max(2000);
        steps::count(|| (settling..settling + counted).for_each(|number| packet(self, number))) as f64 / counted as f64
    }
}

/// Returns the configuration of a run of this many clients, cores and services.
fn config(clients: usize, cores: usize, services: usize) -> SchedulerConfig {
    let weights: Vec<Weight> = (0..clients).filter_map(|at| Weight::new(1 + mix(at as u64) as u32 % 1000)).collect();
    let service = ServiceConfig {
        packet_time: Time::from_ns(1000),
        switch_cost: Time::from_ns(10_000),
        tolerance: Time::from_ns(2_000_000),
        guarantee_millionths: 1_000_000 / services as u32,
        ..ServiceConfig::default()
    };
    let (services, estimates) = (vec![service; services], vec![LinearCost::BYTES; services]);
    SchedulerConfig {
        cores,
        clients,
        flows: clients,
        packets: 4 * clients + cores,
        weights,
        services,
        estimates,
        flow_order: FlowOrder::Hold,
        ..SchedulerConfig::default()
    }
}

fn steps_of(spec: &str, family: Family, size: usize, waking: bool) -> f64 {
    let spec: PolicySpec = spec.parse().expect("registered");
    let (clients, cores, services) = match family {
        Family::Share => (size, 1, 1),
        Family::Steer => (size, size, 1),
        _ => (size, 2 * size, size),
    };
    let scheduler = spec.build(&config(clients, cores, services)).expect("it fits");
    let host = Host::new(scheduler, clients, cores, services);
    if waking { host.waking() } else { host.busy() }
}

/// Checks that the policy keeps its stated complexity. `None`: it does; otherwise returns a
/// description of its growth.
fn check(entry: &Entry, spec: &str, waking: bool) -> Option<String> {
    let family = entry.info.family;
    let most = if family == Family::Share { usize::MAX } else { CORES_MAX };
    let sizes = SIZES.into_iter().filter(|&size| size <= most);
    let steps: Vec<(usize, f64)> = sizes.map(|size| (size, steps_of(spec, family, size, waking))).collect();
    let growth = Growth::claimed(entry.info.complexity, waking, spec != entry.info.name);
    let what = format!("{spec}, {}: {growth:?}, {steps:.1?}", if waking { "waking" } else { "busy" });
    (!growth.holds(&steps)).then_some(what)
}

#[test]
fn every_policy_grows_as_it_says() {
    let entries = entries();
    let deciding = entries.iter().filter(|entry| entry.info.family != Family::Estimate);
    let specs = deciding.flat_map(|entry| entry.specs().map(move |spec| (entry, spec)));
    let modes = specs.flat_map(|(entry, spec)| [false, true].map(|waking| (entry, spec.clone(), waking)));
    let modes: Vec<(&Entry, String, bool)> = modes.collect();
    let modes = Mutex::new(modes.into_iter());
    let faster = || -> Vec<String> {
        let next = || modes.lock().expect("no panic").next();
        iter::from_fn(next).filter_map(|(entry, spec, waking)| check(entry, &spec, waking)).collect()
    };
    // The runs take two minutes, so two threads share them. Each thread counts its own steps.
    let faster = thread::scope(|scope| {
        let others = scope.spawn(faster);
        [faster(), others.join().expect("no panic")].concat()
    });
    assert!(faster.is_empty(), "steps grow faster than is said:\n{}", faster.join("\n"));
}

/// Serves the busy client of the highest number, and scans all clients for it.
struct Scan(IdVec<ClientId, bool>);

impl Policy for Scan {}

impl Share for Scan {
    fn on_wake(&mut self, _: Time, client: ClientId, _: &Packet) {
        self.0[client] = true;
    }
    fn on_head(&mut self, _: Time, client: ClientId, _: &Packet) {
        self.0[client] = true;
    }
    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        let clients = &self.0;
        clients.ids().filter(|&client| clients[client]).max()
    }
    fn on_dispatch(&mut self, _: Time, _: CoreId, client: ClientId, _: &Packet) {
        self.0[client] = false;
    }
    fn on_idle(&mut self, _: Time, _: ClientId) {}
    fn on_client_end(&mut self, _: Time, _: ClientId) {}
    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}
}

#[test]
fn a_scan_is_found_out() {
    let steps = SIZES.map(|size| {
        let share = || Ok(Scan(IdVec::from_fn(size, |_| false)));
        let scheduler: Scheduler<Never, Scan, Never> =
            Scheduler::new(&config(size, 1, 1), None, None, share).expect("it fits");
        (size, Host::new(scheduler, size, 1, 1).busy())
    });
    let holds = [Growth::Linear, Growth::Logarithmic, Growth::Constant].map(|growth| growth.holds(&steps));
    assert_eq!(holds, [true, false, false], "{steps:?}");
}
