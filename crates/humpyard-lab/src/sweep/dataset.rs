//! What a sweep leaves: a dataset with a row for each simulation, and a manifest that says what it was made of.

use core::num::NonZeroUsize;
use core::time::Duration;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use humpyard_traffic::capture::PartialFile;
use serde::{Deserialize, Serialize};

use super::axes::{Axes, Values};
use super::kept::failure;
use super::plan::{Identity, Plan};
use super::runs::CellRun;
use super::until::Repeat;
use crate::LabError;
use crate::environment::{Environment, sha256};
use crate::result::RunResult;
use crate::statistics::FIGURES;
use crate::table::{Column, Kind, Row, Table, Value};

/// The names of both files, in the directory of the sweep.
pub const DATASET: &str = "runs.parquet";
/// See [`DATASET`].
pub const MANIFEST: &str = "manifest.json";

/// Counts of packets and flows, which stand before the headline figures.
const COUNTS: [&str; 4] = ["packets_in", "packets_processed", "packets_dropped", "flows"];

/// The figures of a simulation, a column each.
pub const COLUMNS_OF_RUNS: [&str; COUNTS.len() + FIGURES.len()] = columns_of_runs();

const fn columns_of_runs() -> [&'static str; COUNTS.len() + FIGURES.len()] {
    let mut columns = [""; COUNTS.len() + FIGURES.len()];
    let mut at = 0;
    while at < columns.len() {
        columns[at] = if at < COUNTS.len() { COUNTS[at] } else { FIGURES[at - COUNTS.len()].key };
        at += 1;
    }
    columns
}

/// The columns that stand before those of the figures, beside those of what varies.
pub(super) const CELL: &str = "cell";
pub(super) const REPETITION: &str = "repetition";
pub(super) const SEED: &str = "seed";

/// Returns the figures of a run, in the order of [`COLUMNS_OF_RUNS`].
pub(super) fn figures_of(result: &RunResult) -> Vec<f64> {
    let packets = &result.packets;
    let counts = [packets.arrived, packets.processed, packets.dropped_total(), result.flows];
    counts.iter().map(|&count| count as f64).chain(FIGURES.iter().map(|figure| figure.of(result))).collect()
}

/// Writes a row for each run.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn write(plan: &Plan, runs: &[CellRun], path: &Path) -> Result<(), LabError> {
    let table = table(plan, runs);
    let failed = |error: io::Error| failure(path, &error);
    let mut file = PartialFile::create(path).map_err(failed)?;
    table.write_parquet(&mut file).map_err(|error| failed(io::Error::other(error)))?;
    file.finish_lasting().map_err(failed)
}

/// Reads what [`write`] wrote.
///
/// # Errors
/// A directory without a dataset, and a file that is none.
pub(crate) fn read(directory: &Path) -> Result<Table, LabError> {
    let path = directory.join(DATASET);
    let file = fs::File::open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LabError::option(format!(
            "`{}` has no {DATASET}: name the directory of a sweep that is over",
            directory.display()
        )),
        _ => failure(&path, &error),
    })?;
    Table::read_parquet(file).map_err(|error| LabError::option(format!("`{}`: {error}", path.display())))
}

fn table(plan: &Plan, runs: &[CellRun]) -> Table {
    let kinds = kinds(plan);
    let column = |name: String, kind| Column { name: name.into(), kind };
    let varied = plan.varied().zip(&kinds).map(|(name, &kind)| column(name.replace('-', "_"), kind));
    let columns = [Column::integer(CELL)].into_iter().chain(varied);
    let columns = columns.chain([Column::integer(REPETITION), Column::integer(SEED)]);
    let counts = COUNTS.map(Column::integer).into_iter();
    let columns = columns.chain(counts).chain(FIGURES.iter().map(|figure| Column::real(figure.key)));
    let mut table = Table::with_columns(columns.collect());
    runs.iter().for_each(|run| table.push(row(plan, run, &kinds)));
    table
}

fn row(plan: &Plan, run: &CellRun, kinds: &[Kind]) -> Row {
    let cell = plan.cell(run.cell);
    let varied = cell.settings.iter().zip(kinds).map(|(&(_, values), &kind)| value(values, kind));
    let place = [Value::from(run.repetition), Value::from(plan.seed(run.repetition))];
    let (counts, figures) = run.figures.split_at(COUNTS.len());
    let counts = counts.iter().map(|&count| Value::Integer(count as i64));
    let figures = figures.iter().map(|&figure| Value::Real(figure));
    [Value::from(run.cell)].into_iter().chain(varied).chain(place).chain(counts).chain(figures).collect()
}

/// Returns what the columns of what varies hold: numbers if all their values are.
fn kinds(plan: &Plan) -> Vec<Kind> {
    plan.axes()
        .iter()
        .flat_map(|axes| {
            (0..axes.names.len()).map(move |at| {
                let values = || axes.steps.iter().map(move |step| step[at].as_slice());
                let all = |is_such: fn(&str) -> bool| values().all(|values| matches!(values, [one] if is_such(one)));
                if all(|text| text.parse::<i64>().is_ok()) {
                    Kind::Integer
                } else if all(|text| text.parse::<f64>().is_ok()) {
                    Kind::Real
                } else {
                    Kind::Text
                }
            })
        })
        .collect()
}

/// Returns what an option is set to.
fn value(values: &[String], kind: Kind) -> Value {
    let one = || values.first().map_or("", String::as_str);
    match kind {
        Kind::Integer => Value::Integer(one().parse().unwrap_or_default()),
        Kind::Real => Value::Real(one().parse().unwrap_or(f64::NAN)),
        Kind::Text => Value::Text(values.join(",")),
    }
}

/// Refuses a directory that has a dataset, and nothing beside it by which it is that of a sweep.
///
/// # Errors
/// Such a directory.
pub(super) fn may_write(directory: &Path) -> Result<(), LabError> {
    let has = |name: &str| directory.join(name).exists();
    if has(DATASET) && !has(MANIFEST) && !has(super::kept::FILE) {
        return Err(LabError::option(format!(
            "`{}` is not of a sweep: name another directory, or move it away",
            directory.join(DATASET).display()
        )));
    }
    Ok(())
}

/// What a dataset was made of.
#[derive(Serialize)]
pub(super) struct Manifest<'a> {
    /// By which a sweep is known.
    sweep: &'a str,
    /// SHA-256 of the files that options name.
    files: &'a BTreeMap<String, String>,
    /// SHA-256 of the dataset.
    dataset: String,
    cells: usize,
    runs: usize,
    /// Of the first repetition; the next ones have the next seeds.
    seed: u64,
    repeat: Repeat,
    /// What varies, step by step; what stands together varies together.
    axes: &'a [Axes],
    /// What the plan says of all cells.
    given: &'a BTreeMap<String, Values>,
    /// What holds in all cells, as in a result.
    options: BTreeMap<&'static str, String>,
    environment: Environment,
    measured: Effort,
}

/// What it took: different whenever it is made.
#[derive(Serialize)]
struct Effort {
    /// By the clock, of the last call.
    seconds: f64,
    /// `None`: other processes made the simulations.
    threads: Option<usize>,
}

/// What is read of a manifest.
#[derive(Deserialize)]
pub(super) struct Done {
    sweep: String,
    dataset: String,
    pub(super) runs: usize,
}

impl<'a> Manifest<'a> {
    /// Describes a dataset.
    ///
    /// # Errors
    /// A plan whose first cell cannot be configured.
    pub(super) fn of(
        plan: &'a Plan,
        identity: &'a Identity,
        dataset: &Path,
        runs: usize,
        took: Duration,
        threads: Option<NonZeroUsize>,
    ) -> Result<Self, LabError> {
        let mut options = plan.config(0, 0)?.options();
        options.retain(|name, _| plan.varied().all(|varied| varied != *name));
        Ok(Self {
            sweep: &identity.sha256,
            dataset: sha256(dataset).map_err(|error| failure(dataset, &error))?,
            files: &identity.files,
            cells: plan.cells(),
            runs,
            seed: plan.seed(0),
            repeat: plan.repeat(),
            axes: plan.axes(),
            given: plan.given(),
            options,
            environment: Environment::of("", &[]),
            measured: Effort { seconds: took.as_secs_f64(), threads: threads.map(NonZeroUsize::get) },
        })
    }

    /// Writes it.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), LabError> {
        let failed = |error: io::Error| failure(path, &error);
        let mut file = PartialFile::create(path).map_err(failed)?;
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        file.write_all(text.as_bytes()).and_then(|()| file.finish_lasting()).map_err(failed)
    }
}

impl Manifest<'_> {
    /// Reads the manifest of a sweep that is over. `None`: there is none, or the dataset is not the one that it is of.
    ///
    /// # Errors
    /// That of another sweep, and a file that cannot be read.
    pub(super) fn read(path: &Path, identity: &Identity, dataset: &Path) -> Result<Option<Done>, LabError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failure(path, &error)),
        };
        match serde_json::from_str::<Done>(&text) {
            // A dataset that is not there any more, or is damaged, is made again.
            Ok(done) if done.sweep == identity.sha256 => {
                Ok(sha256(dataset).is_ok_and(|sum| sum == done.dataset).then_some(done))
            }
            _ => Err(LabError::option(format!(
                "`{}` is of another sweep, or its files have changed since: name another directory, or remove it",
                path.display()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_types_of_what_varies() {
        let plan = Plan::parse(
            "a.toml",
            "[options]\ninput = \"gen:poisson\"\n[axes]\npolicy = [\"hrw\", \"drr\"]\ncores = [2, 4]\n\
             load = [0.5, 1]\n",
        )
        .unwrap();
        let run = |cell| CellRun { cell, repetition: 1, figures: (0..20).map(f64::from).collect() };
        let table = table(&plan, &[run(0), run(7)]);
        let names: Vec<&str> = table.columns().iter().map(|column| column.name.as_ref()).collect();
        assert_eq!(names[..7], ["cell", "policy", "cores", "load", "repetition", "seed", "packets_in"]);
        assert_eq!(names.len(), 6 + COLUMNS_OF_RUNS.len());
        assert_eq!(
            table.csv().lines().nth(2).unwrap(),
            "7,drr,4,1,1,2,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19"
        );
    }
}
