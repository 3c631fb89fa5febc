//! Allocation policies written in Python.

use ::humpyard::config::SchedulerConfig;
use ::humpyard::id::{CoreId, Id, IdVec, ServiceId};
use ::humpyard::policy::{Allocate, BuildError, Cause, Machine, Move, Policy};
use ::humpyard::storage::IdSet;
use ::humpyard::unit::Time;
use pyo3::prelude::*;

use super::Prototype;
use super::handler::{Handler, Object, Timer, Trouble, attached, check};
use super::values::{CauseValue, MachineValue};

/// An allocation policy written in Python.
#[derive(Debug)]
pub(super) struct PythonAllocate {
    services: usize,
    initial: Handler,
    reassign: Option<Handler>,
    place: Option<Handler>,
    on_arrival: Option<Handler>,
    on_completion: Option<Handler>,
    timer: Timer,
    check: Option<Handler>,
}

impl PythonAllocate {
    pub(super) fn new(
        py: Python<'_>,
        prototype: &Prototype,
        config: &SchedulerConfig,
    ) -> PyResult<Result<Self, BuildError>> {
        let services = config.services.len();
        if services > config.cores {
            return Ok(Err(BuildError::combination(format!(
                "{}: every service needs a core of its own, and there are {services} services on {} cores",
                prototype.owner, config.cores
            ))));
        }
        let object = Object::new(py, prototype, "Allocate")?;
        object.start(config)?;
        Ok(Ok(Self {
            services,
            initial: object.any_handler("initial")?,
            reassign: object.handler("reassign")?,
            place: object.handler("place")?,
            on_arrival: object.handler("on_arrival")?,
            on_completion: object.handler("on_completion")?,
            timer: object.timer()?,
            check: object.handler("check")?,
        }))
    }

    /// Returns why an order cannot be followed.
    fn refusal(&self, core: u16, to: u16, machine: &Machine) -> Option<&'static str> {
        let state = machine.cores().get(CoreId(core));
        match state {
            None => Some("and there is no such core"),
            Some(_) if usize::from(to) >= self.services => Some("and there is no such service"),
            Some(state) if state.service == ServiceId(to) => Some("and the core works for that service already"),
            Some(state) if !state.is_movable() => Some("and the core is on its way to a service"),
            Some(_) => None,
        }
    }

    /// Returns what is wrong with the services of the cores at the start.
    fn wrong_start(&self, services: &[u16], cores: usize) -> Option<Trouble> {
        let shown = format!("{services:?}");
        let missing = (0..self.services).find(|&service| !services.iter().any(|&given| usize::from(given) == service));
        if services.len() != cores {
            Some(self.initial.answered(&shown, &format!("and there are {cores} cores")))
        } else if services.iter().any(|&service| usize::from(service) >= self.services) {
            Some(self.initial.answered(&shown, &format!("and services are numbered from 0 to {}", self.services - 1)))
        } else {
            missing.map(|service| self.initial.answered(&shown, &format!("and service {service} has no core")))
        }
    }
}

impl Policy for PythonAllocate {
    fn keeps_time(&self) -> bool {
        self.timer.keeps_time()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.timer.next_timeout()
    }

    fn on_timeout(&mut self, now: Time) {
        self.timer.on_timeout(now);
    }

    fn check(&self) {
        check(self.check.as_ref());
    }
}

impl Allocate for PythonAllocate {
    fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>) {
        let cores = allocation.len();
        let services: Vec<u16> = attached(|py| {
            let services = self.initial.ask(py, (cores, self.services), |answer| answer.extract::<Vec<u16>>())?;
            self.wrong_start(&services, cores).map_or(Ok(services), Err)
        });
        *allocation = services.into_iter().map(ServiceId).collect();
    }

    fn moves(&self) -> bool {
        self.reassign.is_some()
    }

    fn on_arrival(&mut self, now: Time, service: ServiceId) {
        if let Some(handler) = &self.on_arrival {
            attached(|py| handler.tell(py, (now.as_ns(), service.0)));
        }
    }

    fn on_completion(&mut self, now: Time, core: CoreId, service: ServiceId, delay: Time) {
        if let Some(handler) = &self.on_completion {
            attached(|py| handler.tell(py, (now.as_ns(), core.0, service.0, delay.as_ns())));
        }
    }

    fn reassign(&mut self, now: Time, cause: Cause, machine: &Machine) -> Option<Move> {
        let handler = self.reassign.as_ref()?;
        attached(|py| {
            let arguments = (now.as_ns(), CauseValue::from(cause), MachineValue(machine.clone()));
            let answer = handler.ask(py, arguments, |answer| answer.extract::<Option<(u16, u16)>>())?;
            let Some((core, to)) = answer else { return Ok(None) };
            match self.refusal(core, to, machine) {
                None => Ok(Some(Move { core: CoreId(core), to: ServiceId(to) })),
                Some(why) => Err(handler.answered(&format!("({core}, {to})"), why)),
            }
        })
    }

    fn place(&mut self, service: ServiceId, idle: &IdSet<CoreId>, machine: &Machine) -> CoreId {
        let Some(handler) = &self.place else { return idle.first().expect("a core is idle") };
        attached(|py| {
            let cores: Vec<u16> = idle.iter().map(|core| core.index() as u16).collect();
            let arguments = (service.0, cores, MachineValue(machine.clone()));
            let core = handler.ask(py, arguments, |answer| answer.extract::<u16>())?;
            if idle.iter().any(|member| member == CoreId(core)) {
                return Ok(CoreId(core));
            }
            Err(handler.answered(&core.to_string(), "which is no idle core of the service"))
        })
    }
}
