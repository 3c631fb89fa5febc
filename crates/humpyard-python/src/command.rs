//! Commands of the command line, called instead of typed.

use core::sync::atomic::{AtomicBool, Ordering};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use ::humpyard::lab::LabError;
use ::humpyard::lab::recommend::{Elsewhere, TrialOutcome, TrialPlace};
use humpyard_cli::{Answer, Caller, call};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::simulate::keywords;
use crate::supervise::{Watch, supervised};

/// Watches a command for Python.
struct Watcher {
    watch: Arc<Watch>,
    elsewhere: Option<Arc<dyn Elsewhere>>,
}

impl Caller for Watcher {
    fn stop(&self) -> Arc<AtomicBool> {
        self.watch.shared_stop()
    }

    fn progress(&self, done: u64, part: Option<f64>, what: &str) {
        self.watch.see(done, part, what);
    }

    fn elsewhere(&self) -> Option<Arc<dyn Elsewhere>> {
        self.elsewhere.clone()
    }
}

/// A function of Python that has workers make trials: given their texts and a function that says whether to stop, it
/// yields the number, the figures and the scopes of each.
#[derive(Debug)]
struct Workers {
    function: Py<PyAny>,
    raised: Mutex<Option<PyErr>>,
}

impl Elsewhere for Workers {
    fn run(
        &self,
        trials: Vec<String>,
        stop: &AtomicBool,
        done: &mut dyn FnMut(usize, TrialOutcome) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let made = Python::attach(|py| {
            for one in self.function.bind(py).call1((trials,))?.try_iter()? {
                if stop.load(Ordering::Relaxed) {
                    return Ok(Ok(()));
                }
                // Nothing: it was only to be asked whether the search is to end.
                let Some((at, numbers, scopes)) = one?.extract::<Option<(usize, Vec<f64>, Vec<String>)>>()? else {
                    continue;
                };
                if let Err(error) = done(at, TrialOutcome { numbers, scopes }) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        });
        made.unwrap_or_else(|raised: PyErr| {
            let said = raised.to_string();
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
            Err(LabError::option(said))
        })
    }
}

/// Does a command, by its words behind `humpyard`: its document, its remarks, and whether all checks held.
#[pyfunction]
#[pyo3(signature = (words, progress, workers = None))]
pub(crate) fn command(
    py: Python<'_>,
    words: Vec<String>,
    progress: Option<&Bound<'_, PyAny>>,
    workers: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<String>, bool)> {
    let workers = workers.map(|function| Arc::new(Workers { function, raised: Mutex::new(None) }));
    let answer = supervised(py, progress, |watch| {
        let elsewhere = workers.clone().map(|workers| workers as _);
        call(words, Rc::new(Watcher { watch: Arc::clone(watch), elsewhere }))
    })?;
    let raised = workers.and_then(|workers| workers.raised.lock().unwrap_or_else(PoisonError::into_inner).take());
    if let Some(raised) = raised {
        return Err(raised);
    }
    let Answer { document, said, is_success } = answer.map_err(|refused| PyValueError::new_err(named(&refused)))?;
    Ok((document, said.iter().map(|line| named(line.trim_start_matches("humpyard: "))).collect(), is_success))
}

/// Where the last trials of this worker took place, with the words of the search: reading the input takes as long as a
/// trial.
static LAST: Mutex<Option<(Vec<String>, TrialPlace)>> = Mutex::new(None);

/// Makes trials of `recommend`, by the words of the command: the figures and scopes of each.
#[pyfunction]
pub(crate) fn recommend_trials(
    py: Python<'_>,
    words: Vec<String>,
    trials: Vec<String>,
) -> PyResult<Vec<(Vec<f64>, Vec<String>)>> {
    let last = || LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let made = py.detach(|| {
        let known = last().take().filter(|(of, _)| *of == words);
        let mut place = match known {
            Some((_, place)) => place,
            None => humpyard_cli::recommend_place(words.clone())?,
        };
        let outcomes = place.run(&trials).map_err(|error| error.to_string())?;
        *last() = Some((words, place));
        Ok(outcomes)
    });
    let outcomes = made.map_err(|refused: String| PyValueError::new_err(named(&refused)))?;
    Ok(outcomes.into_iter().map(|outcome| (outcome.numbers, outcome.scopes)).collect())
}

/// A text that names options as they are typed, with keywords instead.
fn named(text: &str) -> String {
    keywords(text.trim_end_matches("; see `--help`"), "--")
}
