//! Commands of the command line, called instead of typed.

use core::sync::atomic::{AtomicBool, Ordering};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use ::humpyard::lab::LabError;
use ::humpyard::lab::recommend::{Elsewhere, TrialOutcome, TrialPlace};
use ::humpyard::traffic::PacketTable;
use humpyard_cli::{Answer, Caller, OwnPolicies, call};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::frames::table_of;
use crate::packets::{Packets, packets};
use crate::policy::{caught, own_policies};
use crate::simulate::keywords;
use crate::supervise::{Watch, supervised};

/// Watches a command for Python.
struct Watcher {
    watch: Arc<Watch>,
    elsewhere: Option<Arc<dyn Elsewhere>>,
    table: Option<PacketTable>,
    own: OwnPolicies,
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

    fn table(&self) -> Option<PacketTable> {
        self.table.clone()
    }

    fn policies(&self) -> OwnPolicies {
        self.own.clone()
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

/// Puts options of a table of packets behind the name of a command: its services, unless others are given, and their
/// rules.
fn add_options_of(packets: &Packets, words: &mut Vec<String>) {
    let has_services = words.iter().any(|word| word.starts_with("--services="));
    let services = (!packets.services.is_empty() && !has_services).then(|| packets.services.join(","));
    let services = services.into_iter().map(|services| format!("--services={services}"));
    let rules = packets.rules().into_iter().map(|rule| format!("--rule={rule}"));
    words.splice(1..1, services.chain(rules)).for_each(drop);
}

/// Does a command, by its words behind `humpyard`: its document, its remarks, and whether all checks held. Its packets
/// may be those of a table; `own` are policies written in Python that its words name, and what tells them from others.
#[pyfunction]
#[pyo3(signature = (words, progress, workers = None, table = None, own = (Vec::new(), String::new())))]
pub(crate) fn command(
    py: Python<'_>,
    mut words: Vec<String>,
    progress: Option<&Bound<'_, PyAny>>,
    workers: Option<Py<PyAny>>,
    table: Option<&Bound<'_, PyAny>>,
    own: (Vec<Bound<'_, PyAny>>, String),
) -> PyResult<(String, Vec<String>, bool)> {
    let packets = table.map(|table| packets(&table_of(table)?)).transpose()?;
    if let Some(packets) = &packets {
        add_options_of(packets, &mut words);
    }
    let table = packets.map(|packets| packets.table);
    let own = OwnPolicies { policies: own_policies(&own.0)?, code: own.1 };
    let workers = workers.map(|function| Arc::new(Workers { function, raised: Mutex::new(None) }));
    let answer = supervised(py, progress, |watch| {
        let elsewhere = workers.clone().map(|workers| workers as _);
        call(words, Rc::new(Watcher { watch: Arc::clone(watch), elsewhere, table, own }))
    })?;
    let raised = workers.and_then(|workers| workers.raised.lock().unwrap_or_else(PoisonError::into_inner).take());
    if let Some(raised) = raised {
        return Err(raised);
    }
    let Answer { document, said, is_success } = answer.map_err(|refused| PyValueError::new_err(named(&refused)))?;
    Ok((document, said.iter().map(|line| named(line.trim_start_matches("humpyard: "))).collect(), is_success))
}

/// Where the last trials of this worker took place, with the search: reading the input takes as long as a trial.
static LAST: Mutex<Option<(String, TrialPlace)>> = Mutex::new(None);

/// Makes trials of `recommend`, by the words of the command and the policies written in Python that they name: the
/// figures and scopes of each. Trials of the same search name it alike.
#[pyfunction]
pub(crate) fn recommend_trials(
    py: Python<'_>,
    search: String,
    words: Vec<String>,
    own: Vec<Bound<'_, PyAny>>,
    trials: Vec<String>,
) -> PyResult<Vec<(Vec<f64>, Vec<String>)>> {
    let last = || LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let own = OwnPolicies { policies: own_policies(&own)?, code: String::new() };
    let made = caught(py, || {
        let known = last().take().filter(|(of, _)| *of == search);
        let mut place = match known {
            Some((_, place)) => place,
            None => {
                let watcher = Watcher { watch: Arc::default(), elsewhere: None, table: None, own };
                humpyard_cli::recommend_place(words, Rc::new(watcher))?
            }
        };
        let outcomes = place.run(&trials).map_err(|error| error.to_string())?;
        *last() = Some((search, place));
        Ok(outcomes)
    })?;
    let outcomes = made.map_err(|refused: String| PyValueError::new_err(named(&refused)))?;
    Ok(outcomes.into_iter().map(|outcome| (outcome.numbers, outcome.scopes)).collect())
}

/// A text that names options as they are typed, with keywords instead.
fn named(text: &str) -> String {
    keywords(text.trim_end_matches("; see `--help`"), "--")
}
