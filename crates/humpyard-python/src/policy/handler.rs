//! Handlers of an object in Python.

use std::panic::resume_unwind;

use ::humpyard::config::SchedulerConfig;
use ::humpyard::unit::Time;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::Prototype;
use super::values::ConfigValue;

/// Why a run cannot go on: what a panic carries from a handler to the caller of the run.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A handler raised this.
    Raised(PyErr),
    /// A handler answered what cannot be: the handler, its answer, and what is wrong with it.
    Answered(String),
}

impl Trouble {
    /// Ends the run. No panic hook is called.
    pub(super) fn end(self) -> ! {
        resume_unwind(Box::new(self))
    }
}

impl From<PyErr> for Trouble {
    fn from(raised: PyErr) -> Self {
        Self::Raised(raised)
    }
}

impl From<Trouble> for PyErr {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Raised(raised) => raised,
            Trouble::Answered(message) => PyValueError::new_err(message),
        }
    }
}

/// An object whose handlers are being looked for.
pub(super) struct Object<'py> {
    object: Bound<'py, PyAny>,
    base: Bound<'py, PyAny>,
    owner: Box<str>,
}

impl<'py> Object<'py> {
    /// Makes an object of the family whose base class has this name.
    pub(super) fn new(py: Python<'py>, prototype: &Prototype, base: &str) -> PyResult<Self> {
        let base = py.import("humpyard.policies")?.getattr(base)?;
        Ok(Self { object: prototype.object(py)?, base, owner: prototype.owner.clone() })
    }

    pub(super) fn set(&self, attribute: &str, value: &Bound<'py, PyAny>) -> PyResult<()> {
        self.object.setattr(attribute, value)
    }

    pub(super) fn is(&self, attribute: &str) -> PyResult<bool> {
        self.object.getattr(attribute)?.extract()
    }

    /// Calls `start`.
    pub(super) fn start(&self, config: &SchedulerConfig) -> PyResult<()> {
        self.object.call_method1("start", (ConfigValue(config.clone()),)).map(drop)
    }

    /// Finds a handler. `None`: the class does not override that of its base class.
    pub(super) fn handler(&self, name: &'static str) -> PyResult<Option<Handler>> {
        let method = self.object.getattr(name)?;
        let is_inherited = match method.getattr("__func__") {
            Ok(function) => function.is(&self.base.getattr(name)?),
            Err(_) => false,
        };
        let owner = self.owner.clone();
        Ok((!is_inherited).then(|| Handler { method: method.unbind(), owner, name }))
    }

    /// Finds a handler, whether the class overrides it or not.
    pub(super) fn any_handler(&self, name: &'static str) -> PyResult<Handler> {
        Ok(Handler { method: self.object.getattr(name)?.unbind(), owner: self.owner.clone(), name })
    }

    /// Finds the handlers of time.
    pub(super) fn timer(&self) -> PyResult<Timer> {
        Ok(Timer { next: self.handler("next_timeout")?, told: self.handler("on_timeout")?, last: None })
    }
}

/// A method of an object.
#[derive(Debug)]
pub(super) struct Handler {
    method: Py<PyAny>,
    owner: Box<str>,
    name: &'static str,
}

impl Handler {
    /// Calls the handler, and lets `read` have its answer.
    pub(super) fn ask<'py, A: PyCallArgs<'py>, T>(
        &self,
        py: Python<'py>,
        arguments: A,
        read: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> Result<T, Trouble> {
        let answer = self.method.bind(py).call1(arguments).map_err(Trouble::Raised)?;
        read(&answer).map_err(|_| self.wrong(&answer))
    }

    fn wrong(&self, answer: &Bound<'_, PyAny>) -> Trouble {
        let shown = answer.repr().map_or_else(|_| "what cannot be shown".to_owned(), |shown| shown.to_string());
        self.answered(&shown, &format!("which is not {}", accepted(self.name)))
    }

    /// What is wrong with an answer.
    pub(super) fn answered(&self, answer: &str, why: &str) -> Trouble {
        Trouble::Answered(format!("{}.{} answered {answer}, {why}", self.owner, self.name))
    }

    /// Tells the handler of an event.
    pub(super) fn tell<'py, A: PyCallArgs<'py>>(&self, py: Python<'py>, arguments: A) -> Result<(), Trouble> {
        self.method.bind(py).call1(arguments).map(drop).map_err(Trouble::Raised)
    }

    /// Calls the handler without arguments.
    pub(super) fn call0<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Trouble> {
        self.method.bind(py).call0().map_err(Trouble::Raised)
    }
}

/// What a handler may answer, in words.
fn accepted(name: &str) -> &'static str {
    match name {
        "pick" => "the number of a client, or None",
        "steer" => "the number of a core, or None",
        "place" => "the number of a core",
        "reassign" => "a pair of a core and a service, or None",
        "initial" => "a list of a service for each core",
        "estimate" => "a number from 1 to 2**64 - 1",
        "next_timeout" => "a time in nanoseconds, or None",
        _ => "a text, or None",
    }
}

/// Calls handlers with the interpreter attached; ends the run if one of them cannot go on.
pub(super) fn attached<T>(call: impl FnOnce(Python<'_>) -> Result<T, Trouble>) -> T {
    Python::attach(call).unwrap_or_else(|trouble| trouble.end())
}

/// Calls `check`, if the class has it.
pub(super) fn check(handler: Option<&Handler>) {
    if let Some(handler) = handler {
        attached(|py| handler.call0(py).map(drop));
    }
}

/// Calls `explain`, if the class has it.
pub(super) fn explained<A: for<'py> PyCallArgs<'py>>(handler: Option<&Handler>, arguments: A) -> Option<String> {
    let handler = handler?;
    attached(|py| handler.ask(py, arguments, |answer| answer.extract::<Option<String>>()))
}

/// The handlers of time.
#[derive(Debug)]
pub(super) struct Timer {
    next: Option<Handler>,
    told: Option<Handler>,
    /// When the policy was last told of the time.
    last: Option<Time>,
}

impl Timer {
    pub(super) fn keeps_time(&self) -> bool {
        self.next.is_some()
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let next = self.next.as_ref()?;
        attached(|py| {
            let answer = next.call0(py)?;
            let at = answer.extract::<Option<u64>>().map_err(|_| next.wrong(&answer))?.map(Time::from_ns);
            match at {
                Some(at) if self.last.is_some_and(|last| at <= last) => {
                    let why = "and was told of that time already: it stays until it is another, or None";
                    Err(next.answered(&at.as_ns().to_string(), why))
                }
                at => Ok(at),
            }
        })
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        self.last = Some(now);
        if let Some(told) = &self.told {
            attached(|py| told.tell(py, (now.as_ns(),)));
        }
    }
}
