//! What handlers get: values that cannot be changed.

use ::humpyard::config::{SchedulerConfig, ServiceConfig};
use ::humpyard::id::{ClientId, CoreId, Id, ServiceId};
use ::humpyard::packet::Packet;
use ::humpyard::policy::{Activity, Cause, CoreState, CoreView, Machine, ServiceState, View};
use ::humpyard::unit::Time;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::scheduler::part_name;

/// A packet as policies see it, without its bytes.
#[pyclass(frozen, name = "Packet", module = "humpyard.policies")]
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketValue(pub(super) Packet);

#[pymethods]
impl PacketValue {
    /// When it arrived at this service, in nanoseconds.
    #[getter]
    fn arrival(&self) -> u64 {
        self.0.arrival.as_ns()
    }

    /// When it came in, in nanoseconds.
    #[getter]
    fn entered(&self) -> u64 {
        self.0.entered.as_ns()
    }

    /// Its number among the packets that were not dropped, from 0.
    #[getter]
    fn sequence(&self) -> u64 {
        self.0.sequence
    }

    /// A hash of its connection, the same in both directions.
    #[getter]
    fn key(&self) -> u64 {
        self.0.key
    }

    /// The Toeplitz hash of its connection, as a network card computes it.
    #[getter]
    fn rss(&self) -> u32 {
        self.0.rss
    }

    /// The work that it is believed to be, in the unit of the run.
    #[getter]
    fn estimate(&self) -> u64 {
        self.0.estimate
    }

    /// Its flow.
    #[getter]
    fn flow(&self) -> u32 {
        self.0.flow.0
    }

    /// The client whose share it is charged to.
    #[getter]
    fn client(&self) -> u32 {
        self.0.client.0
    }

    /// Its length in bytes.
    #[getter]
    fn length(&self) -> u32 {
        self.0.length
    }

    /// Its service.
    #[getter]
    fn service(&self) -> u16 {
        self.0.service.0
    }

    /// How many services of its chain it has been through.
    #[getter]
    fn hop(&self) -> u8 {
        self.0.hop
    }

    /// Which part of a longer unit it is: whole, first, middle or last.
    #[getter]
    fn part(&self) -> &'static str {
        part_name(self.0.part)
    }

    /// Whether it begins or ends its connection.
    #[getter]
    fn changes_connection(&self) -> bool {
        self.0.changes_connection
    }

    fn __repr__(&self) -> String {
        let Packet { sequence, flow, client, length, estimate, .. } = self.0;
        format!("<Packet sequence={sequence} flow={flow} client={client} length={length} estimate={estimate}>")
    }
}

/// What a steering policy may know of the cores.
#[pyclass(frozen, name = "View", module = "humpyard.policies")]
pub(super) struct ViewValue {
    as_of: Time,
    cores: Vec<CoreView>,
    eligible_ids: Vec<CoreId>,
    packets: PyOnceLock<Py<PyTuple>>,
    backlog: PyOnceLock<Py<PyTuple>>,
    eligible: PyOnceLock<Py<PyTuple>>,
}

impl ViewValue {
    pub(super) fn new(view: &View<'_>) -> Self {
        Self {
            as_of: view.as_of,
            cores: view.cores.as_slice().to_vec(),
            eligible_ids: view.eligible.to_vec(),
            packets: PyOnceLock::new(),
            backlog: PyOnceLock::new(),
            eligible: PyOnceLock::new(),
        }
    }
}

/// The tuple of these numbers, made when it is first asked for.
fn tuple<'py>(
    py: Python<'py>,
    kept: &PyOnceLock<Py<PyTuple>>,
    numbers: impl ExactSizeIterator<Item = u64>,
) -> PyResult<Bound<'py, PyTuple>> {
    let made = kept.get_or_try_init(py, || PyTuple::new(py, numbers).map(Bound::unbind))?;
    Ok(made.bind(py).clone())
}

#[pymethods]
impl ViewValue {
    /// When this was true, in nanoseconds.
    #[getter]
    fn as_of(&self) -> u64 {
        self.as_of.as_ns()
    }

    /// Packets in the queue of each core, and in service there.
    #[getter]
    fn packets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        tuple(py, &self.packets, self.cores.iter().map(|core| core.packets.into()))
    }

    /// The estimated work of these packets, in the unit of the run.
    #[getter]
    fn backlog<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        tuple(py, &self.backlog, self.cores.iter().map(|core| core.backlog))
    }

    /// The cores that may serve the packet in question, ascending.
    #[getter]
    fn eligible<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        tuple(py, &self.eligible, self.eligible_ids.iter().map(|core| core.0.into()))
    }

    fn __repr__(&self) -> String {
        format!("<View as_of={} cores={} eligible={}>", self.as_of.as_ns(), self.cores.len(), self.eligible_ids.len())
    }
}

/// What a service is, as policies know it.
#[pyclass(frozen, name = "ServiceConfig", module = "humpyard.policies")]
#[derive(Clone, Debug)]
pub(super) struct ServiceConfigValue(ServiceConfig);

#[pymethods]
impl ServiceConfigValue {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The time that a typical packet takes a core, in nanoseconds.
    #[getter]
    fn packet_time(&self) -> u64 {
        self.0.packet_time.as_ns()
    }

    /// The time that a core takes to go over to it, in nanoseconds.
    #[getter]
    fn switch_cost(&self) -> u64 {
        self.0.switch_cost.as_ns()
    }

    /// The longest tolerable delay, in nanoseconds. None: any delay.
    #[getter]
    fn tolerance(&self) -> Option<u64> {
        (self.0.tolerance != Time::MAX).then(|| self.0.tolerance.as_ns())
    }

    /// The share of the cores that it is guaranteed, from 0 to 1.
    #[getter]
    fn guarantee(&self) -> f64 {
        f64::from(self.0.guarantee_millionths) / 1e6
    }

    fn __repr__(&self) -> String {
        format!("<ServiceConfig {}>", self.0.name)
    }
}

/// The run that a policy is made for.
#[pyclass(frozen, name = "SchedulerConfig", module = "humpyard.policies")]
#[derive(Clone, Debug)]
pub(super) struct ConfigValue(pub(super) SchedulerConfig);

#[pymethods]
impl ConfigValue {
    /// The number of cores.
    #[getter]
    fn cores(&self) -> usize {
        self.0.cores
    }

    /// The number of clients, whose numbers count from 0.
    #[getter]
    fn clients(&self) -> usize {
        self.0.clients
    }

    /// The number of flows, whose numbers count from 0 and are used again.
    #[getter]
    fn flows(&self) -> usize {
        self.0.flows
    }

    /// Most packets held at once.
    #[getter]
    fn packets(&self) -> usize {
        self.0.packets
    }

    /// Most packets that a core is handed at a time.
    #[getter]
    fn in_flight(&self) -> u32 {
        self.0.in_flight
    }

    /// The weight of each client at the start.
    #[getter]
    fn weights(&self) -> Vec<u32> {
        (0..self.0.clients).map(|client| self.0.weight(ClientId::from_index(client)).get()).collect()
    }

    /// The speed of each core, relative to that for which estimates hold.
    #[getter]
    fn speeds(&self) -> Vec<f64> {
        (0..self.0.cores).map(|core| f64::from(self.0.speed(CoreId::from_index(core))) / 1e3).collect()
    }

    /// The unit of work: bytes, packets or ns.
    #[getter]
    fn unit(&self) -> &'static str {
        self.0.unit.name()
    }

    /// The estimated work of the longest packet.
    #[getter]
    fn longest(&self) -> u64 {
        self.0.longest
    }

    /// The services, by number.
    #[getter]
    fn services(&self) -> Vec<ServiceConfigValue> {
        self.0.services.iter().cloned().map(ServiceConfigValue).collect()
    }

    /// Where random policies draw from.
    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed.0
    }

    fn __repr__(&self) -> String {
        let SchedulerConfig { cores, clients, .. } = self.0;
        format!("<SchedulerConfig cores={cores} clients={clients} services={}>", self.0.services.len())
    }
}

/// What an allocation policy knows of a core.
#[pyclass(frozen, name = "CoreState", module = "humpyard.policies")]
#[derive(Clone, Copy, Debug)]
pub(super) struct CoreStateValue(CoreState);

#[pymethods]
impl CoreStateValue {
    /// The service it works for, or goes over to.
    #[getter]
    fn service(&self) -> u16 {
        self.0.service.0
    }

    /// What it does: idle, busy or switching.
    #[getter]
    fn activity(&self) -> &'static str {
        match self.0.activity {
            Activity::Idle(_) => "idle",
            Activity::Busy(_) => "busy",
            Activity::Switching => "switching",
        }
    }

    /// Since when it has been idle or busy, in nanoseconds. None: it is switching.
    #[getter]
    fn since(&self) -> Option<u64> {
        match self.0.activity {
            Activity::Idle(since) | Activity::Busy(since) => Some(since.as_ns()),
            Activity::Switching => None,
        }
    }

    /// Since when it has belonged to its service, in nanoseconds.
    #[getter]
    fn held_since(&self) -> u64 {
        self.0.held_since.as_ns()
    }

    /// Whether it may be moved now.
    #[getter]
    fn is_movable(&self) -> bool {
        self.0.is_movable()
    }

    fn __repr__(&self) -> String {
        format!("<CoreState service={} {}>", self.0.service, self.activity())
    }
}

/// What an allocation policy knows of a service.
#[pyclass(frozen, name = "ServiceState", module = "humpyard.policies")]
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceStateValue(ServiceState);

#[pymethods]
impl ServiceStateValue {
    /// Packets waiting.
    #[getter]
    fn waiting(&self) -> u32 {
        self.0.waiting
    }

    /// When the first of them arrived, in nanoseconds. None: no packet waits.
    #[getter]
    fn oldest(&self) -> Option<u64> {
        self.0.oldest.map(Time::as_ns)
    }

    /// Cores that belong to it, with those on their way.
    #[getter]
    fn cores(&self) -> u32 {
        self.0.cores
    }

    /// Those of them that are idle.
    #[getter]
    fn idle(&self) -> u32 {
        self.0.idle
    }

    /// Packets that wait although every idle core of the service takes one.
    #[getter]
    fn backlog(&self) -> u32 {
        self.0.backlog()
    }

    fn __repr__(&self) -> String {
        let ServiceState { waiting, cores, idle, .. } = self.0;
        format!("<ServiceState waiting={waiting} cores={cores} idle={idle}>")
    }
}

/// What an allocation policy knows of the machine.
#[pyclass(frozen, name = "Machine", module = "humpyard.policies")]
#[derive(Clone, Debug)]
pub(super) struct MachineValue(pub(super) Machine);

impl MachineValue {
    fn known_core(&self, core: u16) -> PyResult<CoreId> {
        let cores = self.0.cores().len();
        if usize::from(core) < cores {
            return Ok(CoreId(core));
        }
        Err(PyIndexError::new_err(format!("no core {core}: there are {cores}, numbered from 0")))
    }

    fn known_service(&self, service: u16) -> PyResult<ServiceId> {
        let services = self.0.services().len();
        if usize::from(service) < services {
            return Ok(ServiceId(service));
        }
        Err(PyIndexError::new_err(format!("no service {service}: there are {services}, numbered from 0")))
    }
}

#[pymethods]
impl MachineValue {
    /// Every core.
    #[getter]
    fn cores(&self) -> Vec<CoreStateValue> {
        self.0.cores().iter().copied().map(CoreStateValue).collect()
    }

    /// Every service.
    #[getter]
    fn services(&self) -> Vec<ServiceStateValue> {
        self.0.services().iter().copied().map(ServiceStateValue).collect()
    }

    /// What is known of a core.
    fn core(&self, core: u16) -> PyResult<CoreStateValue> {
        Ok(CoreStateValue(*self.0.core(self.known_core(core)?)))
    }

    /// What is known of a service.
    fn service(&self, service: u16) -> PyResult<ServiceStateValue> {
        Ok(ServiceStateValue(*self.0.service(self.known_service(service)?)))
    }

    /// The idle cores of a service, longest idle first.
    fn idle(&self, service: u16) -> PyResult<Vec<u16>> {
        Ok(self.0.idle(self.known_service(service)?).map(|core| core.0).collect())
    }

    /// The movable cores of a service, longest held first.
    fn held(&self, service: u16) -> PyResult<Vec<u16>> {
        Ok(self.0.held(self.known_service(service)?).map(|core| core.0).collect())
    }

    /// Whether a core keeps the code of a service, so that it takes no time to go there.
    fn keeps(&self, core: u16, service: u16) -> PyResult<bool> {
        Ok(self.0.keeps(self.known_core(core)?, self.known_service(service)?))
    }

    fn __repr__(&self) -> String {
        format!("<Machine cores={} services={}>", self.0.cores().len(), self.0.services().len())
    }
}

/// What happened that cores might move for.
#[pyclass(frozen, get_all, name = "Cause", module = "humpyard.policies")]
#[derive(Clone, Copy, Debug)]
pub(super) struct CauseValue {
    /// What: arrival, completion, idle or timeout.
    kind: &'static str,
    /// The service of the packet that arrived. None: something else happened.
    service: Option<u16>,
    /// The core that is done with a packet, or idle. None: something else happened.
    core: Option<u16>,
}

impl From<Cause> for CauseValue {
    fn from(cause: Cause) -> Self {
        let (kind, service, core) = match cause {
            Cause::Arrival(service) => ("arrival", Some(service.0), None),
            Cause::Completion(core) => ("completion", None, Some(core.0)),
            Cause::Idle(core) => ("idle", None, Some(core.0)),
            Cause::Timeout => ("timeout", None, None),
        };
        Self { kind, service, core }
    }
}

#[pymethods]
impl CauseValue {
    fn __repr__(&self) -> String {
        match (self.service, self.core) {
            (Some(service), _) => format!("<Cause {} service={service}>", self.kind),
            (_, Some(core)) => format!("<Cause {} core={core}>", self.kind),
            _ => format!("<Cause {}>", self.kind),
        }
    }
}

/// Declares the classes of these values.
pub(super) fn declare(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PacketValue>()?;
    module.add_class::<ViewValue>()?;
    module.add_class::<ServiceConfigValue>()?;
    module.add_class::<ConfigValue>()?;
    module.add_class::<CoreStateValue>()?;
    module.add_class::<ServiceStateValue>()?;
    module.add_class::<MachineValue>()?;
    module.add_class::<CauseValue>()
}
