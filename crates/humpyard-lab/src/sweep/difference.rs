//! Where two sweeps differ.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::dataset::{self, CELL, COLUMNS_OF_RUNS, REPETITION};
use crate::LabError;
use crate::table::{Table, Value};

/// Where the datasets of two sweeps differ.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// Simulations that both have.
    pub both: usize,
    /// Simulations that only the first has.
    pub only_first: usize,
    /// Simulations that only the second has.
    pub only_second: usize,
    /// The figures that are not the same in all simulations that both have.
    pub figures: Vec<FigureDifference>,
}

/// A figure that is not the same everywhere.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct FigureDifference {
    /// Its column.
    pub figure: String,
    /// Simulations in which it differs.
    pub runs: usize,
    /// The simulation in which it differs most, for its size.
    pub at: String,
    /// What the first sweep has there.
    pub first: f64,
    /// What the second has.
    pub second: f64,
}

impl Difference {
    /// Returns whether both datasets are the same.
    pub fn is_none(&self) -> bool {
        self.only_first + self.only_second == 0 && self.figures.is_empty()
    }
}

/// Compares the datasets of two directories, simulation by simulation: those whose options and seeds are the same.
///
/// # Errors
/// A directory without a dataset, and sweeps over different options.
pub fn difference(first: &Path, second: &Path) -> Result<Difference, LabError> {
    let (first, second) = (dataset::read(first)?, dataset::read(second)?);
    let settings = [&first, &second].map(settings);
    if settings[0] != settings[1] {
        let [first, second] = settings.map(|names| names.join(", "));
        return Err(LabError::option(format!(
            "the sweeps vary different options, so no simulation is in both: {first}; and {second}"
        )));
    }
    Ok(compared(&by_settings(&first, &settings[0]), &by_settings(&second, &settings[0])))
}

/// Returns the columns that say what a simulation is of: the repetition is said by the seed.
fn settings(table: &Table) -> Vec<String> {
    let names = table.columns().iter().map(|column| column.name.as_ref());
    names
        .filter(|name| ![CELL, REPETITION].contains(name) && !COLUMNS_OF_RUNS.contains(name))
        .map(str::to_owned)
        .collect()
}

/// The figures of simulations, by what they are of.
type Figures = BTreeMap<String, Vec<f64>>;

fn by_settings(table: &Table, settings: &[String]) -> Figures {
    let name = |row: &[Value]| {
        let of = |(column, value): (&str, &Value)| format!("{column} = {value}");
        let columns = table.columns().iter().map(|column| column.name.as_ref()).zip(row);
        columns.filter(|(column, _)| settings.iter().any(|name| name == column)).map(of).collect::<Vec<_>>().join(", ")
    };
    let rows = table.rows().map(|row| (name(row.values()), COLUMNS_OF_RUNS.map(|figure| row.number(figure)).to_vec()));
    rows.collect()
}

fn compared(first: &Figures, second: &Figures) -> Difference {
    let both: Vec<(&String, &Vec<f64>, &Vec<f64>)> =
        first.iter().filter_map(|(name, figures)| Some((name, figures, second.get(name)?))).collect();
    let figure = |(at, name): (usize, &&str)| {
        let differ = both.iter().filter(|(_, first, second)| first[at].to_bits() != second[at].to_bits());
        let size = |(_, first, second): &&(&String, &Vec<f64>, &Vec<f64>)| {
            (first[at] - second[at]).abs() / first[at].abs().max(second[at].abs())
        };
        let (place, of_first, of_second) = differ.clone().max_by(|one, other| size(one).total_cmp(&size(other)))?;
        Some(FigureDifference {
            figure: (*name).to_owned(),
            runs: differ.count(),
            at: (*place).clone(),
            first: of_first[at],
            second: of_second[at],
        })
    };
    Difference {
        both: both.len(),
        only_first: first.len() - both.len(),
        only_second: second.len() - both.len(),
        figures: COLUMNS_OF_RUNS.iter().enumerate().filter_map(figure).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_differ_where_they_differ() {
        let figures = |value: f64| {
            let mut figures = vec![1.0; COLUMNS_OF_RUNS.len()];
            figures[5] = value;
            figures
        };
        let sweep =
            |rows: &[(&str, f64)]| rows.iter().map(|&(name, value)| (name.to_owned(), figures(value))).collect();
        let first = sweep(&[("a", 1.0), ("b", 2.0), ("c", 3.0)]);
        assert!(compared(&first, &first).is_none());
        let found = compared(&first, &sweep(&[("a", 1.0), ("b", 3.0), ("c", 4.0), ("d", 1.0)]));
        assert_eq!((found.both, found.only_first, found.only_second, found.figures.len()), (3, 0, 1, 1));
        let FigureDifference { figure, runs, at, first, second } = &found.figures[0];
        assert_eq!((figure.as_str(), *runs, at.as_str(), *first, *second), (COLUMNS_OF_RUNS[5], 2, "b", 2.0, 3.0));
    }
}
