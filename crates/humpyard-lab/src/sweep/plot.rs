//! Plots of sweeps: a figure over what varies, a line for each value of something else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use humpyard_core::name::unknown;
use humpyard_plot::statistics::{self, Statistic};
use humpyard_plot::{Axis, Line, LinePlot, Point, Svg, figures};

use super::dataset::{self, CELL, COLUMNS_OF_RUNS, REPETITION, SEED};
use super::until::figure;
use crate::LabError;
use crate::statistics::FIGURES;
use crate::table::{Kind, Table, TableRow, Value};

/// What a plot shows.
#[derive(Clone, PartialEq, Debug)]
pub struct PlotRequest {
    /// The option to the right, whose values are numbers.
    pub x: String,
    /// The figure upwards: a column of the dataset, or p50, p99.
    pub y: String,
    /// The option that has a line for each of its values. `None`: there is one line.
    pub line: Option<String>,
    /// Options with the only values that are shown.
    pub only: Vec<(String, String)>,
    /// Whether the axis to the right, then that upwards, is logarithmic.
    pub logarithmic: [bool; 2],
}

/// Draws a figure of the dataset in a directory: medians over the repetitions, with the intervals in which they lie.
///
/// # Errors
/// A directory without a dataset, unknown options and figures, and options that vary beside those of the plot.
pub fn plot(directory: &Path, request: &PlotRequest) -> Result<Svg, LabError> {
    let table = dataset::read(directory)?;
    let key = figure(&request.y).map_or(request.y.as_str(), |figure| figure.key);
    if !COLUMNS_OF_RUNS.contains(&key) {
        return Err(LabError::option(unknown("figure", &request.y, COLUMNS_OF_RUNS)));
    }
    let varied = Varied::of(&table);
    let x = varied.number(&request.x)?;
    let line = request.line.as_deref().map(|name| varied.find(name)).transpose()?;
    let only: Result<Vec<(usize, &str)>, LabError> =
        request.only.iter().map(|(name, value)| Ok((varied.find(name)?, value.as_str()))).collect();
    let only = only?;
    if line == Some(x) {
        return Err(LabError::option(format!("@x and @line are both `{}`: take another for @line", request.x)));
    }
    let is_shown = |row: &TableRow<'_>| only.iter().all(|&(at, value)| is_value(&row.values()[at], value));
    let rows: Vec<TableRow<'_>> = table.rows().filter(is_shown).collect();
    if rows.is_empty() {
        return Err(none_has(&table, &only));
    }
    varied.check_rest(&rows, &[Some(x), line])?;
    let mut lines = Lines::new();
    let mut names: Vec<String> = Vec::new();
    for row in &rows {
        let name = line.map_or_else(|| key.to_owned(), |line| row.values()[line].to_string());
        let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name.clone());
            names.len() - 1
        });
        let at = row.number(&table.columns()[x].name);
        lines.entry((place, name)).or_default().entry(at.to_bits()).or_default().push(row.number(key));
    }
    Ok(drawn(request, key, lines))
}

/// Returns the message that no simulation has all of these values, and what an option without its value has instead.
fn none_has(table: &Table, only: &[(usize, &str)]) -> LabError {
    let values = |at: usize| table.rows().map(move |row| row.values()[at].clone());
    let absent = only.iter().find(|&&(at, text)| !values(at).any(|value| is_value(&value, text)));
    let Some(&(at, text)) = absent else {
        return LabError::option("no simulation has all of these values: leave one @only out");
    };
    let known: BTreeSet<String> = values(at).map(|value| value.to_string()).collect();
    let name = &table.columns()[at].name;
    LabError::option(format!("@only {name}={text}: {}", unknown("value", text, known.iter().map(String::as_str))))
}

/// Whether a value is what this text says.
fn is_value(value: &Value, text: &str) -> bool {
    match value {
        Value::Text(words) => words == text,
        Value::Integer(number) => text.parse() == Ok(*number as f64),
        Value::Real(number) => text.parse() == Ok(*number),
    }
}

/// Returns how values of a figure are written at an axis.
fn format_of(key: &str) -> fn(f64) -> String {
    match FIGURES.iter().find(|figure| figure.key == key).map(|figure| figure.kind) {
        Some(statistics::Kind::Time) => figures::time,
        Some(statistics::Kind::Fraction) => figures::percent,
        Some(statistics::Kind::PacketRate) => figures::packet_rate,
        _ => plain,
    }
}

fn plain(value: f64) -> String {
    ((value * 1e6).round() / 1e6).to_string()
}

/// The values of a figure by what is to the right, as its bits, for each line in order.
type Lines = BTreeMap<(usize, String), BTreeMap<u64, Vec<f64>>>;

fn drawn(request: &PlotRequest, key: &str, lines: Lines) -> Svg {
    let axis = |label: &str, is_logarithmic: bool, format: fn(f64) -> String| {
        if is_logarithmic { Axis::logarithmic(label, format) } else { Axis::linear(label, format) }
    };
    let point = |(at, values): (u64, Vec<f64>)| {
        let found = Statistic::of(values)?;
        let error = found.confidence.map(|interval| (interval.low, interval.high));
        Some(Point { x: f64::from_bits(at), y: found.median, error })
    };
    let line = |((_, name), points): (_, BTreeMap<u64, Vec<f64>>)| Line {
        name,
        points: points.into_iter().filter_map(point).collect(),
    };
    LinePlot {
        title: format!("{key} over {}", request.x),
        description: "Medians over the repetitions, with the intervals in which they lie.".to_owned(),
        x: axis(&request.x, request.logarithmic[0], plain),
        y: axis(key, request.logarithmic[1], format_of(key)),
        lines: lines.into_iter().map(line).collect(),
    }
    .svg()
}

/// The columns of what varies, with their places.
struct Varied<'a> {
    columns: Vec<(usize, &'a str, Kind)>,
}

impl<'a> Varied<'a> {
    fn of(table: &'a Table) -> Self {
        let is_varied = |name: &str| ![CELL, REPETITION, SEED].contains(&name) && !COLUMNS_OF_RUNS.contains(&name);
        let columns = table.columns().iter().enumerate();
        let columns = columns.map(|(at, column)| (at, column.name.as_ref(), column.kind));
        Self { columns: columns.filter(|(_, name, _)| is_varied(name)).collect() }
    }

    /// Returns the place of an option.
    fn find(&self, name: &str) -> Result<usize, LabError> {
        let spelled = name.replace('-', "_");
        let found = self.columns.iter().find(|(_, column, _)| *column == spelled);
        found.map(|(at, _, _)| *at).ok_or_else(|| {
            LabError::option(unknown("option that varies", name, self.columns.iter().map(|(_, column, _)| *column)))
        })
    }

    /// Returns the place of an option whose values are numbers.
    fn number(&self, name: &str) -> Result<usize, LabError> {
        let at = self.find(name)?;
        match self.columns.iter().find(|(place, _, _)| *place == at) {
            Some((_, _, Kind::Text)) => Err(LabError::option(format!("@x `{name}` has texts: take it for @line"))),
            _ => Ok(at),
        }
    }

    /// Checks that nothing varies beside these.
    fn check_rest(&self, rows: &[TableRow<'_>], shown: &[Option<usize>]) -> Result<(), LabError> {
        for &(at, name, _) in self.columns.iter().filter(|(at, _, _)| !shown.contains(&Some(*at))) {
            let value = |row: &TableRow<'_>| row.values()[at].clone();
            let first: Option<Value> = rows.first().map(value);
            if let Some(other) = rows.iter().map(value).find(|other| Some(other) != first.as_ref()) {
                return Err(LabError::option(format!(
                    "`{name}` varies, too, {other} for example: take it for @line, or give @only {name}={other}"
                )));
            }
        }
        Ok(())
    }
}
