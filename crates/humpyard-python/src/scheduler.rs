//! The schedulers of humpyard, event by event, for programs in Python.
//!
//! A thin skin on [`humpyard::embed`]. Refusals are `Refused`, a `ValueError`, with its words and kind.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ::humpyard::config::{SchedulerConfig, ServiceConfig};
use ::humpyard::cost::LinearCost;
use ::humpyard::embed::{self, Embedded, Refusal, RefusalKind};
use ::humpyard::id::{ClientId, FlowId, ServiceId};
use ::humpyard::mechanism::{self, Arrival, DropReason, FlowOrder, Limits};
use ::humpyard::name::unknown;
use ::humpyard::packet::{Packet, Part};
use ::humpyard::policy::Ties;
use ::humpyard::random::Seed;
use ::humpyard::unit::{Time, WorkUnit};
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

pyo3::create_exception!(
    humpyard,
    Dropped,
    PyException,
    "An arriving packet was dropped. The argument is the reason: buffer_full, queue_full or client_full."
);

pyo3::create_exception!(
    humpyard,
    Refused,
    PyValueError,
    "A call was refused, and has changed nothing. `kind` is the reason: unknown_policy, unknown_parameter, syntax, \
     bad_value, combination, too_large and set_up for schedulers that cannot be; argument or order for calls."
);

/// What an argument may be called, and what it means.
type Choice<T> = &'static [(&'static str, T)];

const UNITS: Choice<WorkUnit> =
    &[("bytes", WorkUnit::Bytes), ("packets", WorkUnit::Packets), ("ns", WorkUnit::Nanoseconds)];
const TIES: Choice<Ties> = &[("lowest", Ties::Lowest), ("highest", Ties::Highest)];
const PARTS: Choice<Part> =
    &[("whole", Part::Whole), ("first", Part::First), ("middle", Part::Middle), ("last", Part::Last)];

fn choose<T: Copy>(what: &str, name: &str, choices: Choice<T>) -> PyResult<T> {
    let found = choices.iter().find(|(choice, _)| *choice == name);
    let names = choices.iter().map(|(choice, _)| *choice);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| error(Refusal::argument(unknown(what, name, names))))
}

/// The name of a part.
pub(crate) fn part_name(part: Part) -> &'static str {
    PARTS.iter().find(|(_, known)| *known == part).map_or("whole", |(name, _)| name)
}

/// The exception of a refusal.
pub(crate) fn error(refusal: Refusal) -> PyErr {
    if refusal.kind == RefusalKind::Broken {
        return PyRuntimeError::new_err(refusal.to_string());
    }
    let refused = Refused::new_err(refusal.to_string());
    let named = Python::attach(|python| refused.value(python).setattr("kind", refusal.kind.name()));
    named.err().unwrap_or(refused)
}

/// What is known of a service.
///
/// Times are in nanoseconds; a tolerance of None is any delay. A packet is believed to cost `fixed`, in the unit of work,
/// `per_byte_milli` thousandths for each byte, and `cold` where the core served another service before; all 0 is its bytes,
/// one packet, or a nanosecond for each byte. `guarantee_millionths` is the share of the cores that it is guaranteed.
#[pyclass(frozen, module = "humpyard")]
#[derive(Clone, Debug)]
struct Service {
    service: ServiceConfig,
    estimate: LinearCost,
}

#[pymethods]
impl Service {
    #[new]
    #[pyo3(signature = (*, packet_time_ns=0, switch_cost_ns=0, tolerance_ns=None, guarantee_millionths=0, fixed=0,
                        per_byte_milli=0, cold=0))]
    fn new(
        packet_time_ns: u64,
        switch_cost_ns: u64,
        tolerance_ns: Option<u64>,
        guarantee_millionths: u32,
        fixed: u64,
        per_byte_milli: u64,
        cold: u64,
    ) -> Self {
        let service = ServiceConfig {
            packet_time: Time::from_ns(packet_time_ns),
            switch_cost: Time::from_ns(switch_cost_ns),
            tolerance: tolerance_ns.map_or(Time::MAX, Time::from_ns),
            guarantee_millionths,
            ..ServiceConfig::default()
        };
        Self { service, estimate: LinearCost { fixed, per_byte_milli, cold } }
    }
}

/// A packet to be served.
#[pyclass(frozen, get_all, module = "humpyard")]
#[derive(Clone, Copy, Debug)]
struct Dispatch {
    /// Its slot, to be named when it is complete.
    slot: u32,
    /// Its flow.
    flow: u32,
    /// Whose share it is charged to.
    client: u32,
    /// Its length in bytes.
    length: u32,
    /// The hash of its connection.
    key: u64,
    /// The Toeplitz hash of its connection.
    rss: u32,
    /// What is to be done to it.
    service: u16,
    /// Which part of a longer unit it is: whole, first, middle or last.
    part: &'static str,
    /// Whether it begins or ends its connection.
    changes_connection: bool,
    /// The work that it is believed to be.
    estimate: u64,
    /// When it arrived, in nanoseconds.
    arrival: u64,
    /// Its number among the packets that were not dropped, from 0.
    sequence: u64,
    /// Whether the core's previous packet had another service, or there was none.
    cold: bool,
}

#[pymethods]
impl Dispatch {
    fn __repr__(&self) -> String {
        let Self { slot, flow, client, length, .. } = self;
        format!("<Dispatch slot={slot} flow={flow} client={client} length={length}>")
    }
}

impl From<mechanism::Dispatch> for Dispatch {
    fn from(dispatch: mechanism::Dispatch) -> Self {
        let packet = dispatch.packet;
        let part = part_name(packet.part);
        Self {
            slot: dispatch.slot.0,
            flow: packet.flow.0,
            client: packet.client.0,
            length: packet.length,
            key: packet.key,
            rss: packet.rss,
            service: packet.service.0,
            part,
            changes_connection: packet.changes_connection,
            estimate: packet.estimate,
            arrival: packet.arrival.as_ns(),
            sequence: packet.sequence,
            cold: dispatch.cold,
        }
    }
}

/// A core that goes over to another service.
#[pyclass(frozen, get_all, module = "humpyard")]
#[derive(Clone, Copy, Debug)]
struct Switch {
    /// The core, which serves nothing meanwhile.
    core: u16,
    /// The service it goes to.
    to: u16,
    /// How long it takes, in nanoseconds.
    cost: u64,
}

#[pymethods]
impl Switch {
    fn __repr__(&self) -> String {
        let Self { core, to, cost } = self;
        format!("<Switch core={core} to={to} cost={cost}>")
    }
}

/// Packets, their queues, and the policies that order them.
///
/// `policy` names policies, with parameters: gr3, ps-hrw:beta=0.1, steer=hrw/share=drr. Times are in nanoseconds and never go
/// back. What cannot be is a ValueError that says why, and changes nothing; an int that does not fit is an OverflowError.
#[pyclass(frozen, module = "humpyard")]
#[derive(Debug)]
struct Scheduler {
    policy: String,
    embedded: Mutex<Embedded>,
}

impl Scheduler {
    /// The scheduler, whichever thread had it last. Nothing waits for Python while it has it.
    fn embedded(&self) -> MutexGuard<'_, Embedded> {
        self.embedded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Scheduler {
    #[new]
    #[pyo3(signature = (policy, *, cores=1, contexts=1, speeds=None, topology=None, clients=None, flows=1, packets=1024,
                        weights=None, unit="bytes", longest=1514, services=None, services_per_core=1, queue_limit=None,
                        client_limit=None, free_order=false, ties="lowest", in_flight=1, seed=1))]
    #[expect(clippy::too_many_arguments, reason = "in Python they have names and defaults")]
    fn new(
        policy: String,
        cores: usize,
        contexts: usize,
        speeds: Option<Vec<u32>>,
        topology: Option<String>,
        clients: Option<usize>,
        flows: usize,
        packets: usize,
        weights: Option<Vec<u32>>,
        unit: &str,
        longest: u32,
        services: Option<Vec<PyRef<'_, Service>>>,
        services_per_core: u16,
        queue_limit: Option<u32>,
        client_limit: Option<u32>,
        free_order: bool,
        ties: &str,
        in_flight: u32,
        seed: u64,
    ) -> PyResult<Self> {
        let default = SchedulerConfig::default();
        let weights = weights.unwrap_or_default();
        let clients = clients.unwrap_or(weights.len().max(default.clients));
        let unit = choose("unit", unit, UNITS)?;
        let given = services.iter().flatten().map(|given| (given.service.clone(), given.estimate));
        let (services, estimates) = embed::services(given, unit);
        let limits = Limits::default()
            .with_queue(queue_limit.unwrap_or(default.limits.queue))
            .with_client(client_limit.unwrap_or(default.limits.client));
        let config = SchedulerConfig {
            cores,
            contexts,
            speeds: speeds.unwrap_or_default(),
            topology: topology.as_deref().map(embed::topology).transpose().map_err(error)?,
            clients,
            flows,
            packets,
            in_flight: in_flight.max(1),
            weights: embed::weights(&weights, clients).map_err(error)?,
            unit,
            services,
            estimates,
            services_per_core: services_per_core.into(),
            limits,
            flow_order: if free_order { FlowOrder::Free } else { FlowOrder::Hold },
            ties: choose("order of ties", ties, TIES)?,
            seed: Seed(seed),
            ..default
        };
        let embedded = Mutex::new(Embedded::new(&policy, longest, config).map_err(error)?);
        Ok(Self { policy, embedded })
    }

    /// A packet arrives: the slot that it is named by until it is complete. Raises Dropped if there is no room.
    #[pyo3(signature = (
        now, *, client=0, flow=0, key=0, length=0, rss=0, service=0, estimate=0, part="whole", changes_connection=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "in Python they have names and defaults")]
    fn arrive(
        &self,
        now: u64,
        client: u32,
        flow: u32,
        key: u64,
        length: u32,
        rss: u32,
        service: u16,
        estimate: u64,
        part: &str,
        changes_connection: bool,
    ) -> PyResult<u32> {
        let packet = Packet {
            client: ClientId(client),
            flow: FlowId(flow),
            key,
            length,
            rss,
            service: ServiceId(service),
            estimate,
            part: choose("part", part, PARTS)?,
            changes_connection,
            ..Packet::default()
        };
        match self.embedded().arrive(Time::from_ns(now), packet).map_err(error)? {
            Arrival::Queued(slot) => Ok(slot.0),
            Arrival::Dropped(reason) => Err(Dropped::new_err(reason.name())),
        }
    }

    /// A core that has room and for which something may wait, or None. Ask next for it, and then this again, until it is None.
    fn next_core(&self, now: u64) -> PyResult<Option<u16>> {
        let core = self.embedded().next_core(Time::from_ns(now)).map_err(error)?;
        Ok(core.map(|core| core.0))
    }

    /// The packet that a core serves next, or None if nothing waits that it may serve.
    fn next(&self, now: u64, core: u16) -> PyResult<Option<Dispatch>> {
        let dispatch = self.embedded().next(Time::from_ns(now), core).map_err(error)?;
        Ok(dispatch.map(Dispatch::from))
    }

    /// The packet in this slot is done, with which its core was busy for so long: what it is charged, in the unit of work.
    #[pyo3(signature = (now, slot, busy=0))]
    fn complete(&self, now: u64, slot: u32, busy: u64) -> PyResult<u64> {
        let completed = self.embedded().complete(Time::from_ns(now), slot, Time::from_ns(busy)).map_err(error)?;
        Ok(completed.used)
    }

    /// Gives a client another weight, from 1.
    fn set_weight(&self, now: u64, client: u32, weight: u32) -> PyResult<()> {
        self.embedded().set_weight(Time::from_ns(now), client, weight).map_err(error)
    }

    /// A client without packets here is gone. Its number may be used for another, which inherits nothing but the weight.
    fn end_client(&self, now: u64, client: u32) -> PyResult<()> {
        self.embedded().end_client(Time::from_ns(now), client).map_err(error)
    }

    /// A flow without packets here is over. Its number may be used for another.
    fn end_flow(&self, now: u64, flow: u32) -> PyResult<()> {
        self.embedded().end_flow(Time::from_ns(now), flow).map_err(error)
    }

    /// When a policy wants to be told of the time, or None. To be asked after every other call.
    fn next_timeout(&self) -> PyResult<Option<u64>> {
        let at = self.embedded().next_timeout().map_err(error)?;
        Ok(at.map(Time::as_ns))
    }

    /// The time has come that next_timeout named.
    fn on_timeout(&self, now: u64) -> PyResult<()> {
        self.embedded().on_timeout(Time::from_ns(now)).map_err(error)
    }

    /// A core that begins to go over to another service, or None. Where cores are allocated to services this is asked after
    /// every other call until it is None. When the cost has passed the program calls switched.
    fn next_switch(&self) -> PyResult<Option<Switch>> {
        let switch = self.embedded().next_switch().map_err(error)?;
        Ok(switch.map(|switch| Switch { core: switch.core.0, to: switch.to.0, cost: switch.cost.as_ns() }))
    }

    /// The core has gone over to its new service, and is ready.
    fn switched(&self, now: u64, core: u16) -> PyResult<()> {
        self.embedded().switched(Time::from_ns(now), core).map_err(error)
    }

    /// What became of every packet so far: arrived is the sum of the others, processed, held, and dropped by reason.
    fn account<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let account = self.embedded().account().map_err(error)?;
        let counts = [("arrived", account.arrived), ("processed", account.processed), ("held", account.held)];
        let dropped = DropReason::ALL.map(|reason| (reason.name(), account.dropped(reason)));
        counts.into_iter().chain(dropped).into_py_dict(py)
    }

    fn __repr__(&self) -> String {
        format!("<Scheduler {}>", self.policy)
    }
}

/// Declares the schedulers.
pub(crate) fn declare(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Dropped", module.py().get_type::<Dropped>())?;
    module.add("Refused", module.py().get_type::<Refused>())?;
    module.add_class::<Service>()?;
    module.add_class::<Dispatch>()?;
    module.add_class::<Switch>()?;
    module.add_class::<Scheduler>()
}
