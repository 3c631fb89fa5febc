//! What was measured, for people and for programs.

use std::fs;

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use humpyard::lab::statistics::Statistic;
use humpyard_plot::{Axis, Line, LinePlot, Point};

use crate::contender::WORKS;
use crate::measurement::Measurement;

/// Packets that a run holds, by default.
const BUFFER: f64 = 4_096.0;

/// What came of one contender at one rate: medians of its turns.
struct Median {
    rate: Option<f64>,
    offered: f64,
    delivered: f64,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
    p999_ns: Option<f64>,
}

/// One turn, as soon as it is over.
pub(crate) fn line(curve: &[Measurement]) {
    let Some(first) = curve.first() else { return };
    let points: Vec<String> =
        curve.iter().map(|point| format!("{:.0}/{:.0}k", point.delivered / 1e3, point.offered / 1e3)).collect();
    eprintln!("{:>2} {:<8} {:<24} {}", first.turn, first.work, first.contender, points.join(" "));
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    Statistic::of(values.collect()).map(|statistic| statistic.median)
}

/// The medians of a contender, by rate.
fn medians(measured: &[Measurement], work: &str, contender: &str) -> Vec<Median> {
    let of = || measured.iter().filter(|point| point.work == work && point.contender == contender);
    let mut rates: Vec<Option<f64>> = Vec::new();
    for point in of() {
        if !rates.contains(&point.rate) {
            rates.push(point.rate);
        }
    }
    let at = |rate: Option<f64>| {
        let here = || of().filter(move |point| point.rate == rate);
        let delay = |of: fn(&Measurement) -> Option<u64>| median(here().filter_map(of).map(|ns| ns as f64));
        Some(Median {
            rate,
            offered: median(here().map(|point| point.offered))?,
            delivered: median(here().map(|point| point.delivered))?,
            p50_ns: delay(|point| point.p50_ns),
            p99_ns: delay(|point| point.p99_ns),
            p999_ns: delay(|point| point.p999_ns),
        })
    };
    rates.into_iter().filter_map(at).collect()
}

/// The contenders of a work, in the order of their first turn.
fn contenders(measured: &[Measurement], work: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for point in measured.iter().filter(|point| point.work == work && point.turn == 0) {
        if !names.contains(&point.contender) {
            names.push(point.contender.clone());
        }
    }
    names
}

/// For each contender, the most that it delivers, what is left of that beyond, and how late it is.
pub(crate) fn tables(measured: &[Measurement]) {
    for work in &WORKS {
        let names = contenders(measured, work.name);
        if names.is_empty() {
            continue;
        }
        println!("{}, {} bytes; medians", work.name, work.frame_bytes);
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header([
            "",
            "best k/s",
            "least beyond, of best",
            "at all that comes: offered k/s",
            "delivered k/s",
            "p50 ms",
            "p99 ms",
            "p999 ms",
            "p999, of buffer/rate",
        ]);
        for name in names {
            let curve = medians(measured, work.name, &name);
            let Some((best, last)) = curve
                .iter()
                .enumerate()
                .max_by(|(_, a), (_, b)| a.delivered.total_cmp(&b.delivered))
                .map(|(at, _)| at)
                .zip(curve.last())
            else {
                continue;
            };
            let most = curve[best].delivered;
            let least = curve[best..].iter().map(|point| point.delivered).fold(f64::INFINITY, f64::min);
            let ms = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns / 1e6));
            let bound = |point: &Median| Some(point.p999_ns? / (1e9 * BUFFER / point.delivered));
            // A bound of what is held says something where more comes than goes.
            let over = curve.iter().filter(|point| point.offered > 1.05 * point.delivered);
            let worst =
                over.filter_map(bound).fold(None, |worst: Option<f64>, one| Some(worst.unwrap_or(0.0).max(one)));
            table.add_row([
                name,
                format!("{:.0}", most / 1e3),
                format!("{:.2}", least / most),
                format!("{:.0}", last.offered / 1e3),
                format!("{:.0}", last.delivered / 1e3),
                ms(last.p50_ns),
                ms(last.p99_ns),
                ms(last.p999_ns),
                worst.map_or_else(|| "-".to_owned(), |worst| format!("{worst:.2}")),
            ]);
        }
        println!("{table}");
    }
}

/// Everything, as JSON.
pub(crate) fn document(measured: &[Measurement], path: &str) -> Result<(), String> {
    let text = serde_json::to_string_pretty(measured).map_err(|error| error.to_string())?;
    fs::write(path, text + "\n").map_err(|error| format!("{path}: {error}"))
}

/// What is delivered and how late, over what was to be sent: a plot each, for each work.
pub(crate) fn plots(measured: &[Measurement], prefix: &str) -> Result<(), String> {
    let thousands = |value: f64| format!("{:.0}k", value / 1e3);
    let milliseconds = |ns: f64| format!("{} ms", ns / 1e6);
    for work in &WORKS {
        let names = contenders(measured, work.name);
        let lines = |y: fn(&Median) -> Option<f64>| -> Vec<Line> {
            let point = |point: Median| Some(Point::from((point.rate?, y(&point)?)));
            let line = |name: &String| Line {
                name: name.clone(),
                points: medians(measured, work.name, name).into_iter().filter_map(point).collect(),
            };
            names.iter().map(line).filter(|line| !line.points.is_empty()).collect()
        };
        let x = || Axis::linear("packets sent, a second", thousands);
        let delivered = LinePlot {
            title: format!("Delivered over the load: {}", work.name),
            description: "A good forwarder's line rises to what it can do, and stays there.".to_owned(),
            x: x(),
            y: Axis::linear("packets delivered, a second", thousands),
            lines: lines(|point| Some(point.delivered)),
        };
        let late = LinePlot {
            title: format!("99 of 100 packets take at most so long: {}", work.name),
            description: "A bounded buffer bounds the delay, however much comes.".to_owned(),
            x: x(),
            y: Axis::logarithmic("from the sender to the receiver", milliseconds),
            lines: lines(|point| point.p99_ns),
        };
        for (plot, kind) in [(delivered, "delivered"), (late, "delay")] {
            if !plot.lines.is_empty() {
                let path = format!("{prefix}{}-{kind}.svg", work.name);
                fs::write(&path, plot.svg().file()).map_err(|error| format!("{path}: {error}"))?;
            }
        }
    }
    Ok(())
}
