//! What was measured, drawn.

use super::{Calibration, HANDED_OVER, Matrix, ServiceCalibration};
use crate::figures;
use crate::plot::{Axis, HeatPlot, Line, LinePlot, Point, Svg};

/// Every plot, by the name of its file.
pub(super) fn plots(calibration: &Calibration) -> Vec<(String, Svg)> {
    let service = |service: &ServiceCalibration| (format!("{}.svg", file_name(&service.cost_spec)), work(service));
    let mut plots: Vec<(String, Svg)> = calibration.services.iter().map(service).collect();
    plots.extend(calibration.matrix.as_ref().map(ways).unwrap_or_default());
    plots
}

/// A specification without what file names are better without.
fn file_name(spec: &str) -> String {
    spec.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-")
}

/// The work of a service over the length, with its line.
fn work(service: &ServiceCalibration) -> Svg {
    let points = service.points.iter().map(|point| Point {
        x: point.length_bytes,
        y: point.median_ns,
        error: Some((point.p10_ns, point.p90_ns)),
    });
    let longest = service.points.iter().map(|point| point.length_bytes).fold(0.0, f64::max);
    let line = [0.0, longest].map(|length| (length, service.fit.at(length)).into()).to_vec();
    let plot = LinePlot {
        title: format!("Work of a packet in {}", service.specification),
        description: format!(
            "Median time of a packet by its length, with the range from 10 to 90 % of the batches, and the line {}.",
            line_text(service)
        ),
        x: Axis::linear("length of the packet in bytes", |value| format!("{value:.0}")),
        y: Axis::linear("time of a packet", figures::time),
        lines: vec![
            Line { name: "measured (10 to 90 %)".to_owned(), points: points.collect() },
            Line { name: line_text(service), points: line },
        ],
    };
    plot.svg()
}

/// `151 ns + 0.090 ns/B`.
pub(super) fn line_text(service: &ServiceCalibration) -> String {
    format!("{} + {:.3} ns/B", figures::time(service.fit.fixed_ns), service.fit.per_byte_ns)
}

/// Draws the ways between cores, by the names of their files; empty where there is one core.
fn ways(matrix: &Matrix) -> Vec<(String, Svg)> {
    if matrix.processors.len() < 2 {
        return Vec::new();
    }
    let names: Vec<String> = matrix.processors.iter().map(ToString::to_string).collect();
    let plot = |title: &str, description: &str, label: &str, rows: &[Vec<f64>]| {
        let cell = |row: usize, column: usize, value: f64| (row != column).then_some(value);
        let cells = |(row, times): (usize, &Vec<f64>)| {
            times.iter().enumerate().map(|(column, &time)| cell(row, column, time)).collect()
        };
        let values = rows.iter().enumerate().map(cells).collect();
        HeatPlot {
            title: title.to_owned(),
            description: description.to_owned(),
            label: label.to_owned(),
            names: names.clone(),
            values,
            format: |value| format!("{value:.0}"),
        }
        .svg()
    };
    let round_trips = plot(
        "Round trip of a cache line between cores",
        "The median time from the processor of the row to that of the column and back.",
        "processor, round trip in ns",
        &matrix.round_trip_ns,
    );
    let hand_overs = plot(
        "Handing a packet over between cores",
        &format!(
            "What {HANDED_OVER} bytes take longer at the processor of the row that that of the column has written last."
        ),
        "processor, hand-over in ns",
        &matrix.hand_over_ns,
    );
    vec![("matrix.svg".to_owned(), round_trips), ("hand-over.svg".to_owned(), hand_overs)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times that are greater the further apart processors are, with none from one to itself.
    fn made_up(processors: usize) -> Matrix {
        let time = |row: usize, column: usize| 7.0 * row.abs_diff(column) as f64;
        let rows: Vec<Vec<f64>> =
            (0..processors).map(|row| (0..processors).map(|column| time(row, column)).collect()).collect();
        Matrix { processors: (0..processors).collect(), round_trip_ns: rows.clone(), hand_over_ns: rows }
    }

    #[test]
    fn a_heat_map_has_a_cell_for_each_pair() {
        for processors in [2, 16, 128] {
            let maps = ways(&made_up(processors));
            let names: Vec<&str> = maps.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["matrix.svg", "hand-over.svg"]);
            for (name, svg) in &maps {
                let file = svg.file();
                let document = roxmltree::Document::parse(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
                let cells = document.descendants().filter(|node| node.has_tag_name("rect")).count();
                assert_eq!(cells, processors * (processors - 1), "{name} of {processors}");
            }
        }
    }

    #[test]
    fn one_processor_has_no_map() {
        assert!(ways(&made_up(1)).is_empty());
    }
}
