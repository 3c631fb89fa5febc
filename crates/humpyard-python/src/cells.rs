//! Simulations that the workers of an executor make, for commands that need many: runs of a comparison, and parts of
//! experiments.

use core::num::NonZeroUsize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;

use ::humpyard::lab::statistics::{PolicyStatistics, RunFigures};
use ::humpyard::lab::{self, Control, RunConfig};
use ::humpyard::papers::{self, ReproduceOptions, Scale};
use ::humpyard::random::Seed;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;

use crate::simulate::{Given, check, compared, document, error, remarks};
use crate::supervise::supervised;

/// A run of a comparison: its document, its policies as text, its headline figures, and remarks.
type ComparedRun = (String, String, Vec<f64>, Vec<String>);

/// The configuration of a comparison that other processes make.
///
/// # Errors
/// Options that are wrong, and those that would measure this machine, which the others are not.
fn configured(policies: &[Bound<'_, PyAny>], cores: usize, seed: u64, options: Given<'_>) -> PyResult<RunConfig> {
    let config = compared(policies, cores, seed, options, None)?.0;
    if let Some(option) = lab::of_this_machine(&config) {
        return Err(PyValueError::new_err(here(option)));
    }
    if config.reads_once() {
        return Err(PyValueError::new_err(
            "input is read by every run, which pipes and interfaces do not allow: use a file",
        ));
    }
    Ok(config)
}

/// What is wrong with an option by which a run goes by what was measured here.
pub(crate) fn here(option: &str) -> String {
    format!("{option} is what was measured on this machine, and an executor has others: name a file or a table")
}

/// Checks a comparison before it is begun.
#[pyfunction]
pub(crate) fn compare_check(
    policies: Vec<Bound<'_, PyAny>>,
    cores: usize,
    seed: u64,
    options: Given<'_>,
) -> PyResult<()> {
    configured(&policies, cores, seed, options.clone())?;
    for policy in policies {
        lab::check(&configured(&[policy], cores, seed, options.clone())?).map_err(error)?;
    }
    Ok(())
}

/// One run of a comparison, with the files of its options at these places here.
#[pyfunction]
pub(crate) fn compare_run(
    py: Python<'_>,
    policy: Bound<'_, PyAny>,
    cores: usize,
    seed: u64,
    options: Given<'_>,
    places: BTreeMap<String, String>,
) -> PyResult<ComparedRun> {
    let place = |value: String| places.get(&value).cloned().unwrap_or(value);
    let (texts, own) = options;
    let texts = texts.into_iter().map(|(name, values)| (name, values.into_iter().map(place).collect())).collect();
    let config = configured(&[policy], cores, seed, (texts, own))?;
    let result = supervised(py, None, |watch| lab::run(&config, &mut Control::new(watch.stop(), &mut |_, _| {})));
    let result = result?.map_err(error)?;
    check(&result)?;
    let RunFigures { policy, figures } = RunFigures::of(&result);
    let mut text = document(&result)?;
    let mut remarks = remarks(&config, &result);
    for (name, place) in places.iter().filter(|(name, place)| name != place) {
        let in_document = |text: &str| document(&text).map(|quoted| quoted[1..quoted.len() - 1].to_owned());
        text = text.replace(&in_document(place)?, &in_document(name)?);
        remarks.iter_mut().for_each(|remark| *remark = remark.replace(place, name));
    }
    Ok((text, policy, figures, remarks))
}

/// The keys of a comparison behind its runs.
#[derive(Serialize)]
struct BehindRuns {
    repetitions: u32,
    statistics: Vec<PolicyStatistics>,
}

/// The document of a comparison, from its runs in order: all policies, then the next repetition.
#[pyfunction]
pub(crate) fn compare_document(runs: Vec<ComparedRun>, policies: usize, repeat: u32) -> PyResult<String> {
    let figures: Vec<RunFigures> = runs
        .iter()
        .map(|(_, policy, figures, _)| RunFigures { policy: policy.clone(), figures: figures.clone() })
        .collect();
    let of = |policy: usize| {
        PolicyStatistics::of_figures(&figures.iter().skip(policy).step_by(policies).cloned().collect::<Vec<_>>())
    };
    let rest = BehindRuns { repetitions: repeat.max(1), statistics: (0..policies).filter_map(of).collect() };
    let runs: Vec<&str> = runs.iter().map(|(text, ..)| text.as_str()).collect();
    Ok(format!("{{\"runs\":[{}],{}", runs.join(","), &document(&rest)?[1..]))
}

/// Options of a reproduction. `names` are the experiments; no `out` is the usual directory.
fn reproduction(names: &[String], is_full: bool, seed: u64, out: Option<PathBuf>) -> PyResult<ReproduceOptions> {
    let scale = if is_full { Scale::Full } else { Scale::Quick };
    Ok(ReproduceOptions {
        experiments: papers::find(names).map_err(error)?,
        scale,
        seed: Seed(seed),
        directory: out.unwrap_or_else(|| scale.directory().into()),
        threads: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        judges_only: false,
    })
}

/// The parts of experiments that workers may run: each one's experiment and number.
#[pyfunction]
pub(crate) fn reproduce_parts(
    names: Vec<String>,
    is_full: bool,
    seed: u64,
    out: Option<PathBuf>,
) -> PyResult<Vec<(&'static str, usize)>> {
    papers::missing_parts(&reproduction(&names, is_full, seed, out)?).map_err(error)
}

/// Runs a part of an experiment. None: something keeps it from that, which the reproduction will say.
#[pyfunction]
pub(crate) fn reproduce_part(
    py: Python<'_>,
    name: String,
    part: usize,
    is_full: bool,
    seed: u64,
) -> PyResult<Option<String>> {
    let options = reproduction(&[name], is_full, seed, None)?;
    Ok(py.detach(|| papers::run_part(&options, part).ok()))
}

/// Keeps a part that a worker has run.
#[pyfunction]
pub(crate) fn reproduce_keep(
    names: Vec<String>,
    is_full: bool,
    seed: u64,
    out: Option<PathBuf>,
    part: (String, usize),
    text: &str,
) -> PyResult<()> {
    papers::keep_part(&reproduction(&names, is_full, seed, out)?, &part.0, part.1, text).map_err(error)
}
