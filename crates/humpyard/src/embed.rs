//! The mechanism for hosts in other languages: every argument is looked at, and what would be an assertion is an error.
//!
//! The C library and the Python module stand on this. Ids come from outside there, and no panic may cross the border. A Rust
//! program needs none of it: it uses [`Scheduler`](crate::mechanism::Scheduler) itself.
//!
//! ```
//! use humpyard::embed::{Config, Embedded};
//! use humpyard::packet::Packet;
//! use humpyard::unit::Time;
//!
//! let config = Config { clients: 2, weights: vec![3, 1], ..Config::default() };
//! let mut scheduler = Embedded::new("gr3", &config)?;
//! scheduler.arrive(Time::ZERO, Packet { length: 100, ..Packet::default() })?;
//! let refusal = scheduler.set_weight(Time::ZERO, 2, 5).unwrap_err();
//! assert_eq!(refusal.to_string(), "no client 2: there are 2, numbered from 0");
//! # Ok::<(), humpyard::embed::Refusal>(())
//! ```

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use humpyard_core::cost::LinearCost;
use humpyard_core::id::{ClientId, CoreId, FlowId, Id, Slot};
use humpyard_core::mechanism::{Account, Arrival, Completed, Dispatch, FlowOrder, Options, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{BuildError, BuildErrorKind, ServiceSetup, Setup, Ties, Topology};
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Weight, WorkUnit};
use humpyard_policies::spec::{AnyScheduler, PolicySpec};

use humpyard_topology::parse_topology;

/// What kind of refusal it is; the text says the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RefusalKind {
    /// There can be no such scheduler, for this reason.
    Build(BuildErrorKind),
    /// An argument is not what it may be: an id out of range, for example.
    Argument,
    /// The call does not go with those before: time goes back, or the packet is not in service.
    Order,
    /// The scheduler failed inside, now or before: it takes no calls any more.
    Broken,
}

impl RefusalKind {
    /// Returns its name for other languages, in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Build(kind) => kind.name(),
            Self::Argument => "argument",
            Self::Order => "order",
            Self::Broken => "broken",
        }
    }
}

/// Why a call was refused. Nothing has changed then, unless the scheduler is broken.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// What kind it is.
    pub kind: RefusalKind,
    message: String,
}

impl Refusal {
    /// An argument that is not what it may be.
    pub fn argument(message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Argument, message: message.into() }
    }

    fn order(message: String) -> Self {
        Self { kind: RefusalKind::Order, message }
    }

    fn broken(failure: &str) -> Self {
        let message = format!("the scheduler failed inside and takes no calls any more: {failure}");
        Self { kind: RefusalKind::Broken, message }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

impl From<BuildError> for Refusal {
    fn from(error: BuildError) -> Self {
        Self { kind: RefusalKind::Build(error.kind()), message: error.to_string() }
    }
}

/// Makes a panic a refusal. What the call was changing must not be used any more.
///
/// # Errors
/// What the call gives, and a panic.
pub fn caught<T, E: From<Refusal>>(call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(Refusal::broken(text_of(&*panic)).into()))
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "a panic without words",
    }
}

/// What is known of a service; see [`ServiceSetup`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    /// What a typical packet takes a core.
    pub packet_time: Time,
    /// What it takes a core to go over to this service.
    pub switch_cost: Time,
    /// The longest tolerable delay.
    pub tolerance: Time,
    /// The share of the cores it is guaranteed, in millionths.
    pub guarantee_millionths: u32,
    /// What a packet is believed to cost, in the unit of the run; none is a unit for each packet or byte, or a nanosecond for
    /// each byte.
    pub estimate: Option<LinearCost>,
}

impl Default for Service {
    /// A service that says nothing of itself, and is guaranteed nothing.
    fn default() -> Self {
        let ServiceSetup { packet_time, switch_cost, tolerance, .. } = ServiceSetup::ONLY;
        Self { packet_time, switch_cost, tolerance, guarantee_millionths: 0, estimate: None }
    }
}

impl Service {
    fn setup<'a>(&self, name: &'a str) -> ServiceSetup<'a> {
        let Self { packet_time, switch_cost, tolerance, guarantee_millionths, estimate: _ } = *self;
        ServiceSetup { name, packet_time, switch_cost, tolerance, guarantee_millionths }
    }
}

/// What a scheduler is made for: [`Setup`] and [`Options`], owned.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of cores, from 1.
    pub cores: usize,
    /// Contexts of each processing element, from 1: so many consecutive cores take turns computing.
    pub contexts: usize,
    /// Speed of the first cores, in thousandths of the speed that estimates hold for; the others have 1000.
    pub speeds: Vec<u32>,
    /// Which cores are near each other, as [`parse_topology`] reads it; none is all the same.
    pub topology: Option<String>,
    /// Number of clients.
    pub clients: usize,
    /// Number of flows.
    pub flows: usize,
    /// Most packets held at once, waiting or in service.
    pub packets: usize,
    /// Weights of the first clients, from 1; the others have 1.
    pub weights: Vec<u32>,
    /// The unit of work.
    pub unit: WorkUnit,
    /// Length of the longest packet, in bytes: a longer one is refused.
    pub longest: u32,
    /// The services; none is one that has all cores.
    pub services: Vec<Service>,
    /// Of how many services a core keeps the code, from 1: to go back to one of them takes it no time.
    pub services_per_core: u16,
    /// Most packets waiting in one queue.
    pub queue_limit: u32,
    /// Most packets waiting of one client in one queue.
    pub client_limit: u32,
    /// Whether the packets of one client may be in service on several cores at once.
    pub flow_order: FlowOrder,
    /// Packets that a core may be handed at a time, from 1.
    pub in_flight: u32,
    /// Which of two equals goes first.
    pub ties: Ties,
    /// Where random policies draw from.
    pub seed: u64,
}

impl Default for Config {
    /// As [`Setup`] and [`Options`]: one core, one client, one flow, room for 1024 packets, bytes.
    fn default() -> Self {
        let (setup, limits) = (Setup::default(), Options::default().limits);
        Self {
            cores: setup.cores,
            contexts: setup.contexts,
            speeds: Vec::new(),
            topology: None,
            clients: setup.clients,
            flows: setup.flows,
            packets: setup.packets,
            weights: Vec::new(),
            unit: setup.unit,
            longest: 1514,
            services: Vec::new(),
            services_per_core: 1,
            queue_limit: limits.queue,
            client_limit: limits.client,
            flow_order: FlowOrder::default(),
            in_flight: 1,
            ties: setup.ties,
            seed: setup.seed.0,
        }
    }
}

impl Config {
    /// The most there may be of anything that has a place in memory.
    pub const PLACES_MAX: usize = 1 << 24;

    /// A packet is charged at most so many times what the longest is believed to cost: policies let a client pay off its debt
    /// bit by bit, and one of a century would never end.
    pub const DEBT_MAX: u64 = 1 << 20;

    fn build(&self, policy: &str) -> Result<Embedded, Refusal> {
        let policy: PolicySpec = policy.parse()?;
        self.check()?;
        let topology = self.topology.as_deref().map(parse_topology).transpose();
        let topology = topology.map_err(|error| BuildError::set_up(error.to_string()))?;
        if let Some(cores) = topology.as_ref().map(Topology::cores).filter(|&cores| cores != self.cores) {
            return Err(BuildError::set_up(format!("the topology has {cores} cores, the run {}", self.cores)).into());
        }
        let weight = |&weight| Weight::new(weight).ok_or_else(|| BuildError::set_up(NO_WEIGHT));
        let weights = self.weights.iter().map(weight).collect::<Result<Vec<_>, _>>()?;
        let only = [Service { guarantee_millionths: ServiceSetup::ONLY.guarantee_millionths, ..Service::default() }];
        let services = if self.services.is_empty() { &only } else { self.services.as_slice() };
        let names: Vec<String> = (0..services.len()).map(|service| service.to_string()).collect();
        let estimates: Vec<LinearCost> = services.iter().map(|service| self.estimate(service)).collect();
        let services: Vec<ServiceSetup<'_>> =
            services.iter().zip(&names).map(|(service, name)| service.setup(name)).collect();
        let longest = estimates.iter().map(|cost| cost.work(self.longest)).max().unwrap_or(1);
        let setup = Setup {
            cores: self.cores,
            contexts: self.contexts,
            speeds: &self.speeds,
            topology: topology.as_ref(),
            flows: self.flows,
            clients: self.clients,
            packets: self.packets,
            unit: self.unit,
            longest,
            weights: &weights,
            estimates: &estimates,
            services: &services,
            services_per_core: usize::from(self.services_per_core),
            ties: self.ties,
            seed: Seed(self.seed),
            rendezvous: humpyard_simd::rendezvous(),
        };
        let mut options = Options::default().with_flow_order(self.flow_order);
        options.limits.queue = self.queue_limit;
        options.limits.client = self.client_limit;
        Ok(Embedded {
            scheduler: policy.build(&setup, options)?.with_in_flight(self.in_flight),
            now: Time::ZERO,
            services: estimates.len(),
            longest: self.longest,
            busy_max: Time::from_ns(longest.saturating_mul(Self::DEBT_MAX)),
            in_service: vec![false; self.packets],
            of_client: vec![0; self.clients],
            of_flow: vec![0; self.flows],
            switching: vec![false; self.cores],
            failure: None,
        })
    }

    /// Refuses what policies may take for granted, and what would ask for more memory than there is.
    fn check(&self) -> Result<(), BuildError> {
        for (what, count, most) in [
            ("cores", self.cores, usize::from(u16::MAX)),
            ("contexts", self.contexts, self.cores),
            ("clients", self.clients, Self::PLACES_MAX),
            ("flows", self.flows, Self::PLACES_MAX),
            ("packets", self.packets, Self::PLACES_MAX),
        ] {
            if !(1..=most).contains(&count) {
                return Err(BuildError::set_up(format!("there may be 1 to {most} {what}, not {count}")));
            }
        }
        let services = self.services.len().max(1);
        if services > usize::from(u16::MAX) || services.saturating_mul(self.cores) > Self::PLACES_MAX {
            return Err(BuildError::too_large(format!("{services} services on {} cores are too many", self.cores)));
        }
        for (what, count, whose, most) in [
            ("weights", self.weights.len(), "clients", self.clients),
            ("speeds", self.speeds.len(), "cores", self.cores),
        ] {
            if count > most {
                return Err(BuildError::set_up(format!("{count} {what} for {most} {whose}")));
            }
        }
        if self.services_per_core == 0 {
            return Err(BuildError::set_up("a core keeps the code of one service or more, not of 0"));
        }
        if self.speeds.contains(&0) {
            return Err(BuildError::set_up("a speed is from 1, not 0"));
        }
        let too_dear = |cost: &LinearCost| cost.fixed.max(cost.per_byte_milli).max(cost.cold) > u64::from(u32::MAX);
        if let Some(cost) = self.services.iter().filter_map(|service| service.estimate).find(too_dear) {
            return Err(BuildError::set_up(format!("the parts of an estimate are at most {}: {cost:?}", u32::MAX)));
        }
        Ok(())
    }

    fn estimate(&self, service: &Service) -> LinearCost {
        service.estimate.unwrap_or(match self.unit {
            WorkUnit::Packets => LinearCost::PACKETS,
            WorkUnit::Bytes | WorkUnit::Nanoseconds => LinearCost::BYTES,
        })
    }
}

const NO_WEIGHT: &str = "a weight is from 1, not 0";

/// Refuses an id that nothing has.
fn within(what: &str, id: usize, count: usize) -> Result<(), Refusal> {
    if id < count {
        return Ok(());
    }
    Err(Refusal::argument(format!("no {what} {id}: there are {count}, numbered from 0")))
}

/// A scheduler that refuses what [`Scheduler`](crate::mechanism::Scheduler) takes for granted.
///
/// Every call costs what that of the mechanism costs, and O(1) for looking at its arguments; only a refusal allocates.
#[derive(Debug)]
pub struct Embedded {
    scheduler: AnyScheduler,
    now: Time,
    services: usize,
    /// Length of the longest packet.
    longest: u32,
    /// Being busy for longer counts as being busy for so long.
    busy_max: Time,
    /// By slot: whether its packet is in service.
    in_service: Vec<bool>,
    /// Packets held of each client and of each flow.
    of_client: Vec<u32>,
    of_flow: Vec<u32>,
    /// By core: whether the host was told to let it switch, and has not said that it did.
    switching: Vec<bool>,
    /// What failed inside.
    failure: Option<String>,
}

impl Embedded {
    /// A scheduler with these policies, as [`PolicySpec`] reads them: `gr3`, `ps-hrw:beta=0.1`, `steer=hrw/share=drr`.
    ///
    /// # Errors
    /// Unknown names and parameters, and a set-up that cannot be.
    pub fn new(policy: &str, config: &Config) -> Result<Self, Refusal> {
        caught(|| config.build(policy))
    }

    /// A packet arrives; its time of arrival is `now`. It is queued in a slot, or dropped for a named reason.
    ///
    /// # Errors
    /// A client, flow or service that is not, a packet longer than the longest, and time that goes back.
    pub fn arrive(&mut self, now: Time, packet: Packet) -> Result<Arrival, Refusal> {
        self.guarded(|this| {
            within("client", packet.client.index(), this.of_client.len())?;
            within("flow", packet.flow.index(), this.of_flow.len())?;
            within("service", packet.service.index(), this.services)?;
            if packet.length > this.longest {
                let Packet { length, .. } = packet;
                return Err(Refusal::argument(format!(
                    "{length} bytes are more than the longest packet's {}",
                    this.longest
                )));
            }
            this.advance(now)?;
            let arrival = this.scheduler.on_arrival(now, &Packet { arrival: now, ..packet });
            if let Arrival::Queued(_) = arrival {
                this.of_client[packet.client.index()] += 1;
                this.of_flow[packet.flow.index()] += 1;
            }
            Ok(arrival)
        })
    }

    /// A core for which something may wait; see [`Scheduler::next_core`](crate::mechanism::Scheduler::next_core).
    ///
    /// # Errors
    /// Time that goes back.
    pub fn next_core(&mut self, now: Time) -> Result<Option<CoreId>, Refusal> {
        self.guarded(|this| {
            this.advance(now)?;
            Ok(this.scheduler.next_core(now))
        })
    }

    /// The packet that a core serves next; none if nothing waits that it may serve.
    ///
    /// # Errors
    /// A core that is not, and time that goes back.
    pub fn next(&mut self, now: Time, core: u16) -> Result<Option<Dispatch>, Refusal> {
        self.guarded(|this| {
            within("core", core.into(), this.switching.len())?;
            this.advance(now)?;
            let dispatch = this.scheduler.next(now, CoreId(core));
            if let Some(dispatch) = &dispatch {
                this.in_service[dispatch.slot.index()] = true;
            }
            Ok(dispatch)
        })
    }

    /// The packet in this slot is done; its core was busy with it for `busy`. The slot may be used for another.
    ///
    /// Where work is in nanoseconds, it is charged `busy`, but no more than [`Config::DEBT_MAX`] allows.
    ///
    /// # Errors
    /// A slot whose packet is not in service, and time that goes back.
    pub fn complete(&mut self, now: Time, slot: u32, busy: Time) -> Result<Completed, Refusal> {
        self.guarded(|this| {
            let slot = Slot(slot);
            within("slot", slot.index(), this.in_service.len())?;
            if !this.in_service[slot.index()] {
                return Err(Refusal::order(format!("slot {slot} has no packet in service")));
            }
            this.advance(now)?;
            let completed = this.scheduler.on_completion(now, slot, busy.min(this.busy_max));
            this.in_service[slot.index()] = false;
            this.of_client[completed.packet.client.index()] -= 1;
            this.of_flow[completed.packet.flow.index()] -= 1;
            Ok(completed)
        })
    }

    /// Gives a client another weight, from 1.
    ///
    /// # Errors
    /// A client that is not, a weight of 0, and time that goes back.
    pub fn set_weight(&mut self, now: Time, client: u32, weight: u32) -> Result<(), Refusal> {
        self.guarded(|this| {
            within("client", ClientId(client).index(), this.of_client.len())?;
            let weight = Weight::new(weight).ok_or_else(|| Refusal::argument(NO_WEIGHT))?;
            this.advance(now)?;
            this.scheduler.set_weight(now, ClientId(client), weight);
            Ok(())
        })
    }

    /// The client is gone. Its id may be used for another, which inherits nothing but the weight.
    ///
    /// # Errors
    /// A client that is not or that has packets here, and time that goes back.
    pub fn end_client(&mut self, now: Time, client: u32) -> Result<(), Refusal> {
        self.guarded(|this| {
            let client = ClientId(client);
            ended("client", client.index(), &this.of_client)?;
            this.advance(now)?;
            this.scheduler.on_client_end(now, client);
            Ok(())
        })
    }

    /// The flow is over. Its id may be used for another.
    ///
    /// # Errors
    /// A flow that is not or that has packets here, and time that goes back.
    pub fn end_flow(&mut self, now: Time, flow: u32) -> Result<(), Refusal> {
        self.guarded(|this| {
            let flow = FlowId(flow);
            ended("flow", flow.index(), &this.of_flow)?;
            this.advance(now)?;
            this.scheduler.on_flow_end(now, flow);
            Ok(())
        })
    }

    /// When a policy wants to be told of the time; none is never. To be asked after every other call.
    ///
    /// # Errors
    /// Only if the scheduler is broken.
    pub fn next_timeout(&mut self) -> Result<Option<Time>, Refusal> {
        self.guarded(|this| Ok(this.scheduler.next_timeout()))
    }

    /// The time that [`Embedded::next_timeout`] named has come.
    ///
    /// # Errors
    /// Time that goes back.
    pub fn on_timeout(&mut self, now: Time) -> Result<(), Refusal> {
        self.guarded(|this| {
            this.advance(now)?;
            this.scheduler.on_timeout(now);
            Ok(())
        })
    }

    /// A core that begins to go over to another service; to be asked after every other call until there is none. When its cost
    /// has passed the host calls [`Embedded::switched`].
    ///
    /// # Errors
    /// Only if the scheduler is broken.
    pub fn next_switch(&mut self) -> Result<Option<Switch>, Refusal> {
        self.guarded(|this| {
            let switch = this.scheduler.next_switch();
            if let Some(switch) = &switch {
                this.switching[switch.core.index()] = true;
            }
            Ok(switch)
        })
    }

    /// The core has gone over to its new service, and is ready.
    ///
    /// # Errors
    /// A core that is not or that was not told to switch, and time that goes back.
    pub fn switched(&mut self, now: Time, core: u16) -> Result<(), Refusal> {
        self.guarded(|this| {
            let core = CoreId(core);
            within("core", core.index(), this.switching.len())?;
            if !this.switching[core.index()] {
                return Err(Refusal::order(format!("core {core} is not switching")));
            }
            this.advance(now)?;
            this.switching[core.index()] = false;
            this.scheduler.on_switched(now, core);
            Ok(())
        })
    }

    /// What became of every packet so far.
    ///
    /// # Errors
    /// Only if the scheduler is broken.
    pub fn account(&mut self) -> Result<Account, Refusal> {
        self.guarded(|this| Ok(*this.scheduler.account()))
    }

    /// Makes a call, unless one has failed inside before.
    fn guarded<T>(&mut self, call: impl FnOnce(&mut Self) -> Result<T, Refusal>) -> Result<T, Refusal> {
        if let Some(failure) = &self.failure {
            return Err(Refusal::broken(failure));
        }
        catch_unwind(AssertUnwindSafe(|| call(self))).unwrap_or_else(|panic| {
            let failure = text_of(&*panic);
            self.failure = Some(failure.to_owned());
            Err(Refusal::broken(failure))
        })
    }

    fn advance(&mut self, now: Time) -> Result<(), Refusal> {
        if now < self.now {
            return Err(Refusal::order(format!("time goes back from {:?} to {now:?}", self.now)));
        }
        self.now = now;
        Ok(())
    }
}

/// Refuses what has packets here.
fn ended(what: &str, id: usize, held: &[u32]) -> Result<(), Refusal> {
    within(what, id, held.len())?;
    match held[id] {
        0 => Ok(()),
        held => Err(Refusal::order(format!("{what} {id} cannot end: {held} of its packets are here"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_that_failed_takes_no_calls_any_more() {
        let mut scheduler = Embedded::new("gr3", &Config::default()).unwrap();
        let failed = scheduler.guarded::<()>(|_| panic!("a count of {}", -1)).unwrap_err();
        assert_eq!(failed.kind, RefusalKind::Broken);
        assert_eq!(failed.to_string(), "the scheduler failed inside and takes no calls any more: a count of -1");
        assert_eq!(scheduler.arrive(Time::ZERO, Packet::default()).unwrap_err(), failed);
        assert_eq!(scheduler.account().unwrap_err(), failed);
    }
}
