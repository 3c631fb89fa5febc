//! Commands of the command line, called instead of typed.

use core::sync::atomic::AtomicBool;
use std::rc::Rc;
use std::sync::Arc;

use humpyard_cli::{Answer, Caller, call};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::simulate::keywords;
use crate::supervise::{Watch, supervised};

/// Watches a command for Python.
struct Watcher(Arc<Watch>);

impl Caller for Watcher {
    fn stop(&self) -> Arc<AtomicBool> {
        self.0.shared_stop()
    }

    fn progress(&self, done: u64, part: Option<f64>, what: &str) {
        self.0.see(done, part, what);
    }
}

/// Does a command, by its words behind `humpyard`: its document, its remarks, and whether all checks held.
#[pyfunction]
pub(crate) fn command(
    py: Python<'_>,
    words: Vec<String>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, Vec<String>, bool)> {
    let answer = supervised(py, progress, |watch| call(words, Rc::new(Watcher(Arc::clone(watch)))))?;
    let Answer { document, said, is_success } = answer.map_err(|refused| PyValueError::new_err(named(&refused)))?;
    Ok((document, said.iter().map(|line| named(line.trim_start_matches("humpyard: "))).collect(), is_success))
}

/// A text that names options as they are typed, with keywords instead.
fn named(text: &str) -> String {
    keywords(text.trim_end_matches("; see `--help`"), "--")
}
