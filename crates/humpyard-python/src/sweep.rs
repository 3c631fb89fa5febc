//! Sweeps whose simulations others make: the executor of a Python program.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ::humpyard::lab::sweep::{Begun, CellRun, OpenSweep, Plan};
use ::humpyard::policies::spec::PolicySpec;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::cells::here;
use crate::policy::{caught, own_policies};
use crate::simulate::{document, error};
use crate::supervise::supervised;

/// A sweep that is not done: it knows which simulations are missing, and keeps those that come.
#[pyclass(frozen, module = "humpyard")]
#[derive(Debug)]
pub(crate) struct Sweep {
    /// `None`: it is finished.
    open: Mutex<Option<OpenSweep>>,
    /// The document of a sweep that an earlier call has done.
    done: Option<String>,
}

impl Sweep {
    fn with<T>(&self, of: impl FnOnce(&mut OpenSweep) -> T) -> PyResult<T> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_mut().map(of).ok_or_else(|| PyValueError::new_err("the sweep is finished"))
    }

    fn take(&self) -> PyResult<OpenSweep> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.take().ok_or_else(|| PyValueError::new_err("the sweep is finished"))
    }
}

#[pymethods]
impl Sweep {
    /// Begins the sweep of a plan, or goes on with it, in a directory. Errors name the plan as this file. `own` are
    /// policies written in Python that it names, and what tells them from others.
    #[new]
    fn new(py: Python<'_>, file: &str, text: &str, out: &str, own: (Vec<Bound<'_, PyAny>>, String)) -> PyResult<Self> {
        let plan = Plan::parse(file, text).map_err(error)?.with_own_policies(own_policies(&own.0)?, &own.1);
        if let Some(option) = plan.of_this_machine() {
            return Err(PyValueError::new_err(here(option)));
        }
        let begun =
            supervised(py, None, |watch| OpenSweep::begin(plan, Path::new(out), watch.stop()))?.map_err(error)?;
        Ok(match begun {
            Begun::Done(swept) => Self { open: Mutex::new(None), done: Some(document(&swept)?) },
            Begun::Open(open) => Self { open: Mutex::new(Some(*open)), done: None },
        })
    }

    /// The document of a sweep that an earlier call has done. None: something is missing.
    #[getter]
    fn done(&self) -> Option<&str> {
        self.done.as_deref()
    }

    /// The files that options name, with their SHA-256.
    #[getter]
    fn files(&self) -> PyResult<BTreeMap<String, String>> {
        self.with(|open| open.files().clone())
    }

    /// How many simulations are kept.
    #[getter]
    fn kept(&self) -> PyResult<usize> {
        self.with(|open| open.kept())
    }

    /// The cells and repetitions that are to be simulated next.
    fn missing(&self) -> PyResult<Vec<(usize, u32)>> {
        self.with(OpenSweep::missing)
    }

    /// Keeps simulations: each one's cell, repetition and figures.
    fn keep(&self, runs: Vec<(usize, u32, Vec<f64>)>) -> PyResult<()> {
        let keep = |open: &mut OpenSweep| {
            runs.into_iter()
                .try_for_each(|(cell, repetition, figures)| open.keep(CellRun { cell, repetition, figures }))
        };
        self.with(keep)?.map_err(error)
    }

    /// Writes the dataset and its manifest.
    fn finish(&self) -> PyResult<String> {
        document(&self.take()?.finish(false, None).map_err(error)?)
    }

    /// Leaves no file behind if nothing was kept.
    fn give_up(&self) -> PyResult<()> {
        self.take().map(OpenSweep::give_up)
    }
}

/// The plan of the last task of this worker: reading a large one takes longer than simulating a cell.
static LAST: Mutex<Option<(PlanText, Arc<Plan>)>> = Mutex::new(None);

/// What a plan is read from: the name of the sweep, its text, and the places of files that it names.
type PlanText = (String, String, BTreeMap<String, String>);

/// Reads a plan, unless it is that of the last task.
fn plan(of: PlanText, file: &str, own: Vec<PolicySpec>) -> PyResult<Arc<Plan>> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, plan)) = last.as_ref().filter(|(known, _)| *known == of) {
        return Ok(Arc::clone(plan));
    }
    let plan = Arc::new(Plan::parse(file, &of.1).map_err(error)?.with_files(&of.2).with_own_policies(own, ""));
    *last = Some((of, Arc::clone(&plan)));
    Ok(plan)
}

/// Simulates cells of a plan, whose files are at these places here, with the policies written in Python that it names:
/// each one's cell, repetition and figures. Cells of the same sweep name it alike.
#[pyfunction]
pub(crate) fn simulate_cells(
    py: Python<'_>,
    sweep: String,
    file: (String, String),
    own: Vec<Bound<'_, PyAny>>,
    cells: Vec<(usize, u32)>,
    places: BTreeMap<String, String>,
) -> PyResult<Vec<(usize, u32, Vec<f64>)>> {
    let stop = AtomicBool::new(false);
    let own = own_policies(&own)?;
    let (file, text) = file;
    caught(py, || {
        let plan = plan((sweep, text, places), &file, own)?;
        let simulate = |(cell, repetition)| {
            let run = CellRun::of(&plan, cell, repetition, &stop).map_err(error)?;
            debug_assert!(!stop.load(Ordering::Relaxed));
            let CellRun { cell, repetition, figures } = run.expect("nobody stops it");
            Ok((cell, repetition, figures))
        };
        cells.into_iter().map(simulate).collect()
    })?
}
