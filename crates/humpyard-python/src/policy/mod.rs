//! Policies written in Python: classes derived from those of `humpyard.policies`, as policies of the mechanism.
//!
//! A handler that raises, or answers what cannot be, ends the run: the adaptor unwinds with [`Trouble`], which no panic
//! hook hears of, and [`caught`] makes an exception of it.
#![forbid(unsafe_code)]

mod allocate;
mod check;
mod estimate;
mod handler;
mod share;
mod steer;
mod values;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ::humpyard::config::SchedulerConfig;
use ::humpyard::embed::Refusal;
use ::humpyard::name::unknown;
use ::humpyard::policies::own::OwnPolicy;
use ::humpyard::policies::spec::PolicySpec;
use ::humpyard::policy::{BuildError, Family, Promise};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

use self::handler::Trouble;
use crate::scheduler::error;

/// The families, each with the name of its base class in `humpyard.policies`.
const BASES: [(&str, Family); 4] = [
    ("Share", Family::Share),
    ("Steer", Family::Steer),
    ("Allocate", Family::Allocate),
    ("Estimate", Family::Estimate),
];

/// The promises that a class may make, by their names in Python.
const PROMISES: [(&str, Promise); 5] = [
    ("work_conserving", Promise::WorkConserving),
    ("flow_order", Promise::FlowOrder),
    ("minimal_disruption", Promise::MinimalDisruption),
    ("isolation", Promise::Isolation),
    ("served", Promise::Served),
];

/// Reads which policies are meant: a text such as `drr` or `steer=hrw/share=drr`, a policy written in Python (an object
/// or its class), or a tuple of these.
///
/// # Errors
/// `Refused` for text that names no policies and for policies that do not go together; `TypeError` for anything else.
pub(crate) fn policy_spec(given: &Bound<'_, PyAny>) -> PyResult<PolicySpec> {
    if let Ok(text) = given.cast::<PyString>() {
        return refused(text.to_cow()?.parse());
    }
    if let Ok(parts) = given.cast::<PyTuple>() {
        let mut parts = parts.iter();
        let first = parts.next().ok_or_else(|| PyValueError::new_err("a tuple of policies names one at least"))?;
        return parts.try_fold(policy_spec(&first)?, |spec, part| refused(spec.with(policy_spec(&part)?)));
    }
    own_policy(given).map(PolicySpec::from)
}

/// Reads the policies written in Python that options name.
///
/// # Errors
/// As [`policy_spec`].
pub(crate) fn own_policies(given: &[Bound<'_, PyAny>]) -> PyResult<Vec<PolicySpec>> {
    given.iter().map(policy_spec).collect()
}

/// The text by which options name policies.
#[pyfunction]
fn policy_text(policy: &Bound<'_, PyAny>) -> PyResult<String> {
    policy_spec(policy).map(|spec| spec.to_string())
}

/// Calls `run` with the interpreter detached. The handlers of policies attach to it.
///
/// # Errors
/// The exception of a handler that raised, and `ValueError` for a handler that answered what cannot be.
pub(crate) fn caught<R: Send>(py: Python<'_>, run: impl FnOnce() -> R + Send) -> PyResult<R> {
    let ran = py.detach(|| catch_unwind(AssertUnwindSafe(run)));
    ran.map_err(|payload| raised(payload).unwrap_or_else(|payload| resume_unwind(payload)))
}

/// Returns the exception with which a handler ended a run, from what a panic carries.
///
/// # Errors
/// What the panic carries, if it is another one.
pub(crate) fn raised(payload: Box<dyn Any + Send>) -> Result<PyErr, Box<dyn Any + Send>> {
    payload.downcast::<Trouble>().map(|trouble| (*trouble).into())
}

fn refused<T>(result: Result<T, BuildError>) -> PyResult<T> {
    result.map_err(|refusal| error(Refusal::from(refusal)))
}

/// Reads one policy written in Python.
fn own_policy(given: &Bound<'_, PyAny>) -> PyResult<OwnPolicy> {
    let class = given.cast::<PyType>().cloned().unwrap_or_else(|_| given.get_type());
    let bases = given.py().import("humpyard.policies")?;
    let mut families = Vec::new();
    for (name, family) in BASES {
        if class.is_subclass(&bases.getattr(name)?)? {
            families.push(family);
        }
    }
    let [family] = families[..] else {
        let class = class.name()?;
        return Err(PyTypeError::new_err(if families.is_empty() {
            format!(
                "a policy is a name, an object or a class of Share, Steer, Allocate or Estimate, or a tuple of \
                 these; not `{class}`"
            )
        } else {
            format!("`{class}` is of several families of policies: write a class for each")
        }));
    };
    let name: Option<String> = class.getattr("name")?.extract()?;
    let name = name.map_or_else(|| class.name().map(|name| name.to_string()), Ok)?;
    let prototype = Prototype { given: given.clone().unbind(), owner: name.clone().into() };
    let own = refused(match family {
        Family::Share => OwnPolicy::share(&name, made(prototype, share::PythonShare::new)),
        Family::Steer => OwnPolicy::steer(&name, made(prototype, steer::PythonSteer::new)),
        Family::Allocate => OwnPolicy::allocate(&name, made(prototype, allocate::PythonAllocate::new)),
        Family::Estimate => OwnPolicy::estimate(&name, made(prototype, estimate::PythonEstimate::new)),
    })?;
    let own = own.simulated_only().promising(&promises(&class)?);
    let merges = family == Family::Share && class.getattr("merges_clients")?.extract()?;
    Ok(if merges { own.merging_clients() } else { own })
}

/// Reads what a class promises.
fn promises(class: &Bound<'_, PyType>) -> PyResult<Vec<Promise>> {
    let names: Vec<String> = class.getattr("promises")?.extract()?;
    let promise = |name: &String| {
        let found = PROMISES.iter().find(|(known, _)| known == name).map(|(_, promise)| *promise);
        found.ok_or_else(|| PyValueError::new_err(unknown("promise", name, PROMISES.map(|(known, _)| known))))
    };
    names.iter().map(promise).collect()
}

/// What a policy is made from: a class, or an object that is copied.
#[derive(Debug)]
struct Prototype {
    given: Py<PyAny>,
    owner: Box<str>,
}

impl Prototype {
    /// Makes an object that no other run has.
    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let given = self.given.bind(py);
        if given.is_instance_of::<PyType>() {
            given.call0()
        } else {
            py.import("copy")?.call_method1("deepcopy", (given,))
        }
    }
}

/// Makes policies of one class for runs.
fn made<P>(
    prototype: Prototype,
    make: fn(Python<'_>, &Prototype, &SchedulerConfig) -> PyResult<Result<P, BuildError>>,
) -> impl Fn(&SchedulerConfig) -> Result<P, BuildError> + Send + Sync {
    move |config| {
        Python::attach(|py| make(py, &prototype, config)).unwrap_or_else(|raised| Trouble::Raised(raised).end())
    }
}

/// Declares the values that handlers get, and the checks.
pub(crate) fn declare(module: &Bound<'_, PyModule>) -> PyResult<()> {
    values::declare(module)?;
    module.add_function(wrap_pyfunction!(policy_text, module)?)?;
    module.add_function(wrap_pyfunction!(check::check_policy, module)?)
}
