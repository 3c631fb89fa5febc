//! What was measured, drawn.

use super::{Calibration, ServiceCalibration};
use crate::figures;
use crate::plot::{Axis, HeatPlot, Line, LinePlot, Point, Svg};

/// Every plot, by the name of its file.
pub(super) fn plots(calibration: &Calibration) -> Vec<(String, Svg)> {
    let service = |service: &ServiceCalibration| (format!("{}.svg", service.service), work(service));
    let mut plots: Vec<(String, Svg)> = calibration.services.iter().map(service).collect();
    plots.extend(cores(calibration).map(|svg| ("matrix.svg".to_owned(), svg)));
    plots
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

/// The ways between cores; none where they were not measured, or there is one core.
fn cores(calibration: &Calibration) -> Option<Svg> {
    let matrix = calibration.matrix.as_ref().filter(|matrix| !matrix.round_trip_ns.is_empty())?;
    let value = |row: usize, column: usize, value: f64| (row != column).then_some(value);
    let rows = matrix.round_trip_ns.iter().enumerate();
    let plot = HeatPlot {
        title: "Round trip of a cache line between cores".to_owned(),
        description: "The median time from the processor of the row to that of the column and back.".to_owned(),
        label: "processor, round trip in ns".to_owned(),
        names: matrix.processors.iter().map(ToString::to_string).collect(),
        values: rows
            .map(|(row, times)| times.iter().enumerate().map(|(column, &time)| value(row, column, time)).collect())
            .collect(),
        format: |value| format!("{value:.0}"),
    };
    Some(plot.svg())
}
