//! Sharing policies written in Python.

use ::humpyard::config::SchedulerConfig;
use ::humpyard::id::{ClientId, CoreId, Id};
use ::humpyard::packet::Packet;
use ::humpyard::policy::{BuildError, Policy, Share};
use ::humpyard::storage::IdSet;
use ::humpyard::unit::{Time, Weight, Work};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::Prototype;
use super::handler::{Handler, Object, attached, check, explained};
use super::values::PacketValue;

/// A sharing policy written in Python.
#[derive(Debug)]
pub(super) struct PythonShare {
    merges_clients: bool,
    prefers_cores: bool,
    clients: usize,
    /// By client, as the object sees them.
    weights: Py<PyList>,
    /// The heads that may be served, by client, as the object sees them.
    heads: Py<PyDict>,
    /// The clients whose heads may be served.
    offered: IdSet<ClientId>,
    pick: Handler,
    place: Option<Handler>,
    on_arrival: Option<Handler>,
    on_wake: Option<Handler>,
    on_head: Option<Handler>,
    on_dispatch: Option<Handler>,
    on_completion: Option<Handler>,
    on_push_out: Option<Handler>,
    on_foreign_completion: Option<Handler>,
    on_idle: Option<Handler>,
    on_client_end: Option<Handler>,
    set_weight: Option<Handler>,
    explain: Option<Handler>,
    check: Option<Handler>,
}

impl PythonShare {
    pub(super) fn new(
        py: Python<'_>,
        prototype: &Prototype,
        config: &SchedulerConfig,
    ) -> PyResult<Result<Self, BuildError>> {
        let object = Object::new(py, prototype, "Share")?;
        let weights = (0..config.clients).map(|client| config.weight(ClientId::from_index(client)).get());
        let weights = PyList::new(py, weights.collect::<Vec<u32>>())?;
        let heads = PyDict::new(py);
        object.set("weights", &weights)?;
        object.set("heads", &heads)?;
        object.start(config)?;
        Ok(Ok(Self {
            merges_clients: object.is("merges_clients")?,
            prefers_cores: object.is("prefers_cores")?,
            clients: config.clients,
            weights: weights.unbind(),
            heads: heads.unbind(),
            offered: IdSet::new(config.clients),
            pick: object.any_handler("pick")?,
            place: object.handler("place")?,
            on_arrival: object.handler("on_arrival")?,
            on_wake: object.handler("on_wake")?,
            on_head: object.handler("on_head")?,
            on_dispatch: object.handler("on_dispatch")?,
            on_completion: object.handler("on_completion")?,
            on_push_out: object.handler("on_push_out")?,
            on_foreign_completion: object.handler("on_foreign_completion")?,
            on_idle: object.handler("on_idle")?,
            on_client_end: object.handler("on_client_end")?,
            set_weight: object.handler("set_weight")?,
            explain: object.handler("explain")?,
            check: object.handler("check")?,
        }))
    }

    /// The head of a client may be served.
    fn offer(&mut self, now: Time, client: ClientId, head: &Packet, is_waking: bool) {
        self.offered.insert(client);
        let handler = if is_waking { &self.on_wake } else { &self.on_head };
        attached(|py| {
            let head = Py::new(py, PacketValue(*head))?;
            self.heads.bind(py).set_item(client.0, &head)?;
            handler.as_ref().map_or(Ok(()), |handler| handler.tell(py, (now.as_ns(), client.0, head)))
        });
    }

    /// Whether this is a client whose head may be served.
    fn is_offered(&self, client: u32) -> bool {
        ClientId(client).index() < self.clients && self.offered.contains(ClientId(client))
    }

    /// The head of a client may not be served any more, if it might.
    fn withdraw(&mut self, py: Python<'_>, client: ClientId) -> PyResult<()> {
        if self.offered.contains(client) {
            self.offered.remove(client);
            self.heads.bind(py).del_item(client.0)?;
        }
        Ok(())
    }
}

impl Policy for PythonShare {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        check(self.check.as_ref());
    }
}

impl Share for PythonShare {
    fn merges_clients(&self) -> bool {
        self.merges_clients
    }

    fn prefers_cores(&self) -> bool {
        self.prefers_cores
    }

    fn on_arrival(&mut self, now: Time, client: ClientId, packet: &Packet, waiting: u32) {
        if let Some(handler) = &self.on_arrival {
            attached(|py| handler.tell(py, (now.as_ns(), client.0, PacketValue(*packet), waiting)));
        }
    }

    fn on_wake(&mut self, now: Time, client: ClientId, head: &Packet) {
        self.offer(now, client, head, true);
    }

    fn on_head(&mut self, now: Time, client: ClientId, head: &Packet) {
        self.offer(now, client, head, false);
    }

    fn pick(&mut self, now: Time, core: CoreId) -> Option<ClientId> {
        if self.offered.is_empty() {
            return None;
        }
        attached(|py| {
            let picked = self.pick.ask(py, (now.as_ns(), core.0), |answer| answer.extract::<Option<u32>>())?;
            match picked {
                Some(client) if !self.is_offered(client) => {
                    Err(self.pick.answered(&client.to_string(), "which has no packet that may be served"))
                }
                picked => Ok(picked.map(ClientId)),
            }
        })
    }

    fn place(&mut self, now: Time, idle: &IdSet<CoreId>) -> CoreId {
        let Some(handler) = &self.place else { return idle.first().expect("a core is idle") };
        attached(|py| {
            let cores: Vec<u16> = idle.iter().map(|core| core.0).collect();
            let core = handler.ask(py, (now.as_ns(), cores), |answer| answer.extract::<u16>())?;
            if idle.iter().any(|member| member == CoreId(core)) {
                return Ok(CoreId(core));
            }
            Err(handler.answered(&core.to_string(), "which is no core that has room"))
        })
    }

    fn on_dispatch(&mut self, now: Time, core: CoreId, client: ClientId, sent: &Packet) {
        attached(|py| {
            self.withdraw(py, client)?;
            let Some(handler) = &self.on_dispatch else { return Ok(()) };
            handler.tell(py, (now.as_ns(), core.0, client.0, PacketValue(*sent)))
        });
    }

    fn on_completion(&mut self, now: Time, core: CoreId, client: ClientId, sent: &Packet, used: Work) {
        if let Some(handler) = &self.on_completion {
            attached(|py| handler.tell(py, (now.as_ns(), core.0, client.0, PacketValue(*sent), used)));
        }
    }

    fn on_push_out(&mut self, now: Time, client: ClientId, packet: &Packet, waiting: u32) {
        if let Some(handler) = &self.on_push_out {
            attached(|py| handler.tell(py, (now.as_ns(), client.0, PacketValue(*packet), waiting)));
        }
    }

    fn on_foreign_completion(&mut self, now: Time, core: CoreId, client: ClientId, sent: &Packet, used: Work) {
        if let Some(handler) = &self.on_foreign_completion {
            attached(|py| handler.tell(py, (now.as_ns(), core.0, client.0, PacketValue(*sent), used)));
        }
    }

    fn on_idle(&mut self, now: Time, client: ClientId) {
        attached(|py| {
            self.withdraw(py, client)?;
            self.on_idle.as_ref().map_or(Ok(()), |handler| handler.tell(py, (now.as_ns(), client.0)))
        });
    }

    fn on_client_end(&mut self, now: Time, client: ClientId) {
        if let Some(handler) = &self.on_client_end {
            attached(|py| handler.tell(py, (now.as_ns(), client.0)));
        }
    }

    fn set_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        attached(|py| {
            self.weights.bind(py).set_item(client.index(), weight.get())?;
            self.set_weight.as_ref().map_or(Ok(()), |handler| handler.tell(py, (now.as_ns(), client.0, weight.get())))
        });
    }

    fn explain(&self, client: ClientId) -> Option<String> {
        explained(self.explain.as_ref(), (client.0,))
    }
}
