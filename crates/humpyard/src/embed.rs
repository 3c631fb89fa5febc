//! The mechanism for hosts in other languages: every argument is checked, and misuse is an error,
//! not an assertion.
//!
//! The C library and the Python module use this. Their ids come from outside, and no panic may
//! cross the language border. A Rust program does not need it, and uses
//! [`Scheduler`](crate::mechanism::Scheduler) itself.
//!
//! ```
//! use humpyard::config::SchedulerConfig;
//! use humpyard::embed::{Embedded, weights};
//! use humpyard::packet::Packet;
//! use humpyard::unit::Time;
//!
//! let config = SchedulerConfig::new(1).with_clients(weights(&[3, 1], 2)?);
//! let mut scheduler = Embedded::new("gr3", 1514, config)?;
//! scheduler.arrive(Time::ZERO, Packet { length: 100, ..Packet::default() })?;
//! let refusal = scheduler.set_weight(Time::ZERO, 2, 5).unwrap_err();
//! assert_eq!(refusal.to_string(), "no client 2: there are 2, numbered from 0");
//! # Ok::<(), humpyard::embed::Refusal>(())
//! ```

mod burst;

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::cost::LinearCost;
use humpyard_core::id::{ClientId, CoreId, FlowId, Id, Slot};
use humpyard_core::mechanism::{Account, Arrival, Completed, Dispatch, Dropped, Effect, Switch, WhenFull};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{BuildError, BuildErrorKind, Topology};
use humpyard_core::unit::{Time, Weight, WorkUnit};
use humpyard_policies::spec::{AnyScheduler, PolicySpec};

use humpyard_topology::parse_topology;

/// The kind of a refusal; its text has the details.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RefusalKind {
    /// Such a scheduler cannot be built, for this reason.
    Build(BuildErrorKind),
    /// An argument is invalid: an id out of range, for example.
    Argument,
    /// The call contradicts earlier calls: time goes back, or the packet is not in service.
    Order,
    /// The scheduler failed internally, now or before; it accepts no more calls.
    Broken,
}

impl RefusalKind {
    /// Returns the kind's name for other languages, in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Build(kind) => kind.name(),
            Self::Argument => "argument",
            Self::Order => "order",
            Self::Broken => "broken",
        }
    }
}

/// Why a call was refused. Nothing has changed, unless the scheduler is broken.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// The kind of refusal.
    pub kind: RefusalKind,
    message: String,
}

impl Refusal {
    /// Returns the refusal of an invalid argument.
    pub fn argument(message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Argument, message: message.into() }
    }

    fn order(message: String) -> Self {
        Self { kind: RefusalKind::Order, message }
    }

    /// Returns this refusal of one packet as a refusal of its burst: the text begins with the
    /// packet's number, from 0.
    #[must_use]
    pub fn of_packet(self, number: usize) -> Self {
        Self { message: format!("packet {number} of the burst: {}", self.message), ..self }
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

/// Converts a panic to a refusal. State that the call was changing must not be used any more.
///
/// # Errors
/// The error of the call, or its panic.
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

const NO_WEIGHT: &str = "a weight is from 1, not 0";

/// Returns the weights of the first of this many clients.
///
/// # Errors
/// More weights than clients, and a weight of 0.
pub fn weights(given: &[u32], clients: usize) -> Result<Vec<Weight>, Refusal> {
    if given.len() > clients {
        return Err(BuildError::set_up(format!("{} weights for {clients} clients", given.len())).into());
    }
    let weight = |&weight| Weight::new(weight).ok_or_else(|| BuildError::set_up(NO_WEIGHT).into());
    given.iter().map(weight).collect()
}

/// Returns the topology that a text describes, as [`parse_topology`] reads it.
///
/// # Errors
/// The text describes no topology.
pub fn topology(text: &str) -> Result<Topology, Refusal> {
    parse_topology(text).map_err(|error| BuildError::set_up(error.to_string()).into())
}

/// Returns the services of a scheduler, named by their numbers, and the estimate of each. An
/// estimate of all zeros means the default of the unit. An empty list means one service that has
/// all cores.
pub fn services(
    given: impl Iterator<Item = (ServiceConfig, LinearCost)>,
    unit: WorkUnit,
) -> (Vec<ServiceConfig>, Vec<LinearCost>) {
    let usual = LinearCost::usual(unit);
    let known = |(number, (service, estimate)): (usize, (ServiceConfig, LinearCost))| {
        let estimate = if estimate == LinearCost::default() { usual } else { estimate };
        (ServiceConfig { name: number.to_string(), ..service }, estimate)
    };
    let (services, estimates): (Vec<_>, Vec<_>) = given.enumerate().map(known).unzip();
    if services.is_empty() { (vec![ServiceConfig::default()], vec![usual]) } else { (services, estimates) }
}

/// Refuses an id out of range.
#[inline]
fn within(what: &str, id: usize, count: usize) -> Result<(), Refusal> {
    if id < count {
        return Ok(());
    }
    Err(Refusal::argument(format!("no {what} {id}: there are {count}, numbered from 0")))
}

/// A scheduler that checks what [`Scheduler`](crate::mechanism::Scheduler) assumes.
///
/// Every call costs as much as the mechanism's call, plus O(1) to check its arguments. Only a
/// refusal allocates.
#[derive(Debug)]
pub struct Embedded {
    scheduler: AnyScheduler,
    now: Time,
    services: usize,
    /// Length of the longest packet.
    longest: u32,
    /// The longest busy time that counts; longer ones count as this.
    busy_max: Time,
    /// By slot: whether its packet is in service.
    in_service: Vec<bool>,
    /// Packets held of each client and of each flow.
    of_client: Vec<u32>,
    of_flow: Vec<u32>,
    /// By core: whether the host was asked to switch it, and has not reported the end of the
    /// switch.
    switching: Vec<bool>,
    /// Switches that the host has not fetched yet.
    switches: VecDeque<Switch>,
    /// The internal failure, if there was one.
    failure: Option<String>,
}

impl Embedded {
    /// The most there may be of anything that has a place in memory.
    pub const PLACES_MAX: usize = 1 << 24;

    /// The most a packet is charged, as a multiple of the estimate of the longest packet. Policies
    /// let a client pay off its debt in small steps, and a debt of a century would never end.
    pub const DEBT_MAX: u64 = 1 << 20;

    /// Builds a scheduler with these policies, in the syntax of [`PolicySpec`]: `gr3`,
    /// `ps-hrw:beta=0.1`, `steer=hrw/share=drr`.
    ///
    /// `longest` is the length of the longest packet, in bytes; the scheduler refuses longer ones.
    /// This sets [`SchedulerConfig::longest`]; [`SchedulerConfig::rendezvous`] is set for this
    /// machine. Hosts cannot use push-out, chains, an exit or split flows.
    ///
    /// # Errors
    /// A name or parameter is unknown, or the configuration is invalid.
    pub fn new(policy: &str, longest: u32, config: SchedulerConfig) -> Result<Self, Refusal> {
        caught(|| Self::build(policy, longest, config))
    }

    fn build(policy: &str, longest: u32, config: SchedulerConfig) -> Result<Self, Refusal> {
        let policy: PolicySpec = policy.parse()?;
        config.check_within(Self::PLACES_MAX)?;
        let is_tail = config.limits.when_full == WhenFull::Tail;
        if !is_tail || !config.chains.is_empty() || config.exit.is_some() || config.split.is_some() {
            let message = "packets pushed out, chains, an exit and split flows are for drivers of `Scheduler` itself";
            return Err(Refusal::argument(message));
        }
        let work = config.estimates.iter().map(|cost| cost.work(longest)).max().unwrap_or(1);
        let config = SchedulerConfig { longest: work, rendezvous: humpyard_simd::rendezvous(), ..config };
        let scheduler = policy.build(&config)?;
        if scheduler.quantum().is_some() {
            let message = format!("`{policy}` has a quantum: only drivers of `Scheduler` itself can give packets back");
            return Err(Refusal::argument(message));
        }
        Ok(Self {
            scheduler,
            now: Time::ZERO,
            services: config.services.len(),
            longest,
            busy_max: Time::from_ns(work.saturating_mul(Self::DEBT_MAX)),
            in_service: vec![false; config.packets],
            of_client: vec![0; config.clients],
            of_flow: vec![0; config.flows],
            switching: vec![false; config.cores],
            switches: VecDeque::with_capacity(config.cores),
            failure: None,
        })
    }

    /// Takes an arriving packet; its time of arrival is `now`. It is queued in a slot, or dropped
    /// for a stated reason.
    ///
    /// # Errors
    /// The client, flow or service does not exist, the packet is too long, or time goes back.
    pub fn arrive(&mut self, now: Time, packet: Packet) -> Result<Arrival, Refusal> {
        self.guarded(|this| {
            this.check_packet(&packet)?;
            this.advance(now)?;
            Ok(this.admit(now, packet))
        })
    }

    /// Returns a core that may have a packet waiting for it; see
    /// [`Scheduler::next_core`](crate::mechanism::Scheduler::next_core).
    ///
    /// # Errors
    /// Time goes back.
    pub fn next_core(&mut self, now: Time) -> Result<Option<CoreId>, Refusal> {
        self.guarded(|this| {
            this.advance(now)?;
            Ok(this.scheduler.next_core(now))
        })
    }

    /// Returns the packet that a core serves next. `None`: no packet waits that it may serve.
    ///
    /// # Errors
    /// The core does not exist, or time goes back.
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

    /// Completes the packet in this slot; its core was busy with it for `busy`. The slot may be
    /// used again.
    ///
    /// If work is in nanoseconds, the packet is charged `busy`, limited by [`Embedded::DEBT_MAX`].
    ///
    /// # Errors
    /// The packet in the slot is not in service, or time goes back.
    pub fn complete(&mut self, now: Time, slot: u32, busy: Time) -> Result<Completed, Refusal> {
        self.guarded(|this| {
            this.check_time(now)?;
            this.take_back(slot)?;
            this.now = now;
            Ok(this.finish(now, slot, busy))
        })
    }

    /// Sets the weight of a client, from 1.
    ///
    /// # Errors
    /// The client does not exist, the weight is 0, or time goes back.
    pub fn set_weight(&mut self, now: Time, client: u32, weight: u32) -> Result<(), Refusal> {
        self.guarded(|this| {
            within("client", ClientId(client).index(), this.of_client.len())?;
            let weight = Weight::new(weight).ok_or_else(|| Refusal::argument(NO_WEIGHT))?;
            this.advance(now)?;
            this.scheduler.set_weight(now, ClientId(client), weight);
            Ok(())
        })
    }

    /// Ends a client. Its id may be used again; the new client inherits only the weight.
    ///
    /// # Errors
    /// The client does not exist or has packets here, or time goes back.
    pub fn end_client(&mut self, now: Time, client: u32) -> Result<(), Refusal> {
        self.guarded(|this| {
            let client = ClientId(client);
            ended("client", client.index(), &this.of_client)?;
            this.advance(now)?;
            this.scheduler.on_client_end(now, client);
            Ok(())
        })
    }

    /// Ends a flow. Its id may be used again.
    ///
    /// # Errors
    /// The flow does not exist or has packets here, or time goes back.
    pub fn end_flow(&mut self, now: Time, flow: u32) -> Result<(), Refusal> {
        self.guarded(|this| {
            let flow = FlowId(flow);
            ended("flow", flow.index(), &this.of_flow)?;
            this.advance(now)?;
            this.scheduler.on_flow_end(now, flow);
            Ok(())
        })
    }

    /// Returns when a policy needs [`Embedded::on_timeout`]. `None`: no timer is set. Call it after
    /// every other call.
    ///
    /// # Errors
    /// The scheduler is broken.
    pub fn next_timeout(&mut self) -> Result<Option<Time>, Refusal> {
        self.guarded(|this| Ok(this.scheduler.next_timeout()))
    }

    /// Handles that the time of [`Embedded::next_timeout`] has come.
    ///
    /// # Errors
    /// Time goes back.
    pub fn on_timeout(&mut self, now: Time) -> Result<(), Refusal> {
        self.guarded(|this| {
            this.advance(now)?;
            this.scheduler.on_timeout(now);
            Ok(())
        })
    }

    /// Returns a core that begins to switch to another service. Call it after every other call
    /// until it returns `None`. When the cost of the switch has passed, the host calls
    /// [`Embedded::switched`].
    ///
    /// # Errors
    /// The scheduler is broken.
    pub fn next_switch(&mut self) -> Result<Option<Switch>, Refusal> {
        self.guarded(|this| {
            let switch = this.switches.pop_front();
            if let Some(switch) = &switch {
                this.switching[switch.core.index()] = true;
            }
            Ok(switch)
        })
    }

    /// Ends the core's switch to its new service; the core is ready.
    ///
    /// # Errors
    /// The core does not exist or has no switch under way, or time goes back.
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

    /// Returns the account of all packets so far.
    ///
    /// # Errors
    /// The scheduler is broken.
    pub fn account(&mut self) -> Result<Account, Refusal> {
        self.guarded(|this| Ok(*this.scheduler.account()))
    }

    /// Makes a call, unless one has failed inside before.
    fn guarded<T>(&mut self, call: impl FnOnce(&mut Self) -> Result<T, Refusal>) -> Result<T, Refusal> {
        if let Some(failure) = &self.failure {
            return Err(Refusal::broken(failure));
        }
        let settled = |this: &mut Self| {
            let answer = call(this);
            this.settle();
            answer
        };
        catch_unwind(AssertUnwindSafe(|| settled(self))).unwrap_or_else(|panic| {
            let failure = text_of(&*panic);
            self.failure = Some(failure.to_owned());
            Err(Refusal::broken(failure))
        })
    }

    /// Keeps the switches that follow from a call until the host fetches them. A packet that was
    /// held back may find its queue full and be dropped.
    #[inline(always)]
    fn settle(&mut self) {
        while let Some(effect) = self.scheduler.next_effect() {
            self.follow(effect);
        }
    }

    /// Keeps one effect. Apart from the calls that rarely have one.
    #[inline(never)]
    fn follow(&mut self, effect: Effect) {
        match effect {
            Effect::Switch(switch) => self.switches.push_back(switch),
            Effect::Dropped(Dropped { packet, .. }) => {
                self.of_client[packet.client.index()] -= 1;
                self.of_flow[packet.flow.index()] -= 1;
            }
            Effect::Left(_) => unreachable!("there is no exit"),
        }
    }

    fn advance(&mut self, now: Time) -> Result<(), Refusal> {
        self.check_time(now)?;
        self.now = now;
        Ok(())
    }

    /// Rejects time that goes back.
    #[inline]
    fn check_time(&self, now: Time) -> Result<(), Refusal> {
        if now < self.now {
            return Err(Refusal::order(format!("time goes back from {:?} to {now:?}", self.now)));
        }
        Ok(())
    }

    /// Rejects a packet of an unknown client, flow or service, and a packet longer than the
    /// longest.
    #[inline]
    fn check_packet(&self, packet: &Packet) -> Result<(), Refusal> {
        within("client", packet.client.index(), self.of_client.len())?;
        within("flow", packet.flow.index(), self.of_flow.len())?;
        within("service", packet.service.index(), self.services)?;
        let (length, longest) = (packet.length, self.longest);
        if length > longest {
            return Err(Refusal::argument(format!("{length} bytes are more than the longest packet's {longest}")));
        }
        Ok(())
    }

    /// Hands a packet that was checked to the scheduler.
    #[inline(always)]
    fn admit(&mut self, now: Time, packet: Packet) -> Arrival {
        let arrival = self.scheduler.on_arrival(now, &Packet { arrival: now, ..packet });
        if let Arrival::Queued(_) = arrival {
            self.of_client[packet.client.index()] += 1;
            self.of_flow[packet.flow.index()] += 1;
        }
        arrival
    }

    /// Marks a slot as no longer in service; rejects a slot that is not in service.
    #[inline]
    fn take_back(&mut self, slot: u32) -> Result<(), Refusal> {
        let count = self.in_service.len();
        match self.in_service.get_mut(Slot(slot).index()) {
            Some(in_service @ true) => *in_service = false,
            Some(false) => return Err(Refusal::order(format!("slot {slot} has no packet in service"))),
            None => within("slot", Slot(slot).index(), count)?,
        }
        Ok(())
    }

    /// Completes the packet of a slot that was taken back.
    #[inline(always)]
    fn finish(&mut self, now: Time, slot: u32, busy: Time) -> Completed {
        let completed = self.scheduler.on_completion(now, Slot(slot), busy.min(self.busy_max));
        self.of_client[completed.packet.client.index()] -= 1;
        self.of_flow[completed.packet.flow.index()] -= 1;
        completed
    }
}

/// Refuses to end a client or flow that has packets here.
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
        let mut scheduler = Embedded::new("gr3", 1514, SchedulerConfig::default()).unwrap();
        let failed = scheduler.guarded::<()>(|_| panic!("a count of {}", -1)).unwrap_err();
        assert_eq!(failed.kind, RefusalKind::Broken);
        assert_eq!(failed.to_string(), "the scheduler failed inside and takes no calls any more: a count of -1");
        assert_eq!(scheduler.arrive(Time::ZERO, Packet::default()).unwrap_err(), failed);
        assert_eq!(scheduler.account().unwrap_err(), failed);
    }
}
