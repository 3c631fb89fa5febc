//! What was measured, for people and for programs.

use std::fs;

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use humpyard::lab::statistics::Statistic;
use serde::Serialize;
use serde_json::Value;

use crate::cost::Cost;
use crate::foreseen::{Beside, Costs};
use crate::measurement::Measurement;
use crate::sixteen::Simulated;

/// Everything.
#[derive(Default, Serialize)]
pub(crate) struct Document {
    pub(crate) costs: Vec<Cost>,
    pub(crate) simulated: Vec<Simulated>,
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) foreseen_costs: Option<Costs>,
    pub(crate) foreseen: Vec<Beside>,
}

impl Document {
    /// Writes it as JSON.
    pub(crate) fn write(&self, path: &str) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        fs::write(path, text + "\n").map_err(|error| format!("{path}: {error}"))
    }
}

/// One turn, as soon as it is over.
pub(crate) fn line(measured: &Measurement) {
    let Measurement { traffic, contender, turn, due, sent, received, dropped, reordered, missed, .. } = measured;
    let Measurement { goodput, again, busy: [first, second], controller, moves, .. } = measured;
    eprintln!(
        "{turn:>2} {traffic:<14} {contender:<28} due {:.1} sent {:.1} received {:.1} k/s  dropped {:.1} %  reordered \
         {:.3} %  missed {:.2} %  goodput {:.0} Mbit/s  again {:.2} %  busy {:.0} {:.0} %  steer {:.0} %  moves {:.1}",
        due / 1e3,
        sent / 1e3,
        received / 1e3,
        100.0 * dropped,
        100.0 * reordered,
        100.0 * missed,
        goodput / 1e6,
        100.0 * again,
        100.0 * first,
        100.0 * second,
        100.0 * controller,
        moves.unwrap_or(0.0)
    );
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(header);
    table
}

/// A figure of a measurement.
type Figure = fn(&Measurement) -> f64;

/// Medians of each traffic and contender, in the order of their first turn.
pub(crate) fn tables(measured: &[Measurement]) {
    let mut traffics: Vec<&str> = measured.iter().map(|turn| turn.traffic).collect();
    traffics.dedup();
    traffics.sort_unstable();
    traffics.dedup();
    for traffic in traffics {
        let of: Vec<&Measurement> = measured.iter().filter(|turn| turn.traffic == traffic).collect();
        println!("\n{traffic}: medians of {} turns", 1 + of.iter().map(|turn| turn.turn).max().unwrap_or(0));
        println!("{}", if traffic == "tcp" { streams(&of) } else { packets(&of) });
    }
}

fn contenders<'a>(measured: &[&'a Measurement]) -> Vec<&'a str> {
    measured.iter().filter(|turn| turn.turn == 0).map(|turn| turn.contender).collect()
}

fn packets(measured: &[&Measurement]) -> Table {
    let mut table = table(&[
        "steering",
        "received k/s",
        "dropped %",
        "busy first %",
        "busy second %",
        "steer %",
        "reordered %",
        "moves/s",
    ]);
    for contender in contenders(measured) {
        let of = |figure: Figure, times: f64, digits: usize| show(measured, contender, figure, times, digits);
        table.add_row([
            contender.to_owned(),
            of(|turn| turn.received, 1e-3, 1),
            of(|turn| turn.dropped, 100.0, 1),
            of(|turn| turn.busy[0], 100.0, 0),
            of(|turn| turn.busy[1], 100.0, 0),
            of(|turn| turn.controller, 100.0, 0),
            of(|turn| turn.reordered, 100.0, 3),
            of(|turn| turn.moves.unwrap_or(0.0), 1.0, 1),
        ]);
    }
    table
}

fn streams(measured: &[&Measurement]) -> Table {
    let mut table =
        table(&["steering", "goodput Mbit/s", "sent again %", "busy first %", "busy second %", "steer %", "moves/s"]);
    for contender in contenders(measured) {
        let of = |figure: Figure, times: f64, digits: usize| show(measured, contender, figure, times, digits);
        table.add_row([
            contender.to_owned(),
            of(|turn| turn.goodput, 1e-6, 0),
            of(|turn| turn.again, 100.0, 2),
            of(|turn| turn.busy[0], 100.0, 0),
            of(|turn| turn.busy[1], 100.0, 0),
            of(|turn| turn.controller, 100.0, 0),
            of(|turn| turn.moves.unwrap_or(0.0), 1.0, 1),
        ]);
    }
    table
}

/// The median of a figure, and the least and the greatest value.
fn show(measured: &[&Measurement], contender: &str, figure: Figure, times: f64, digits: usize) -> String {
    let of = measured.iter().filter(|turn| turn.contender == contender);
    let values: Vec<f64> = of.map(|turn| times * figure(turn)).collect();
    let range =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)));
    match Statistic::of(values) {
        Some(statistic) if range.0 < range.1 => {
            format!("{:.digits$} ({:.digits$}-{:.digits$})", statistic.median, range.0, range.1)
        }
        Some(statistic) => format!("{:.digits$}", statistic.median),
        None => "-".to_owned(),
    }
}

/// What the program costs a frame.
pub(crate) fn costs(costs: &[Cost]) {
    let mut table = table(&["program", "frame", "longest path", "ns a frame", "Mpps", "times the bare one"]);
    for cost in costs {
        let ns = Cost::median(&cost.ns);
        let ratio = Cost::median(&cost.ratios);
        table.add_row([
            cost.program.to_owned(),
            cost.frame.to_owned(),
            cost.longest_path.map_or_else(|| "-".to_owned(), |instructions| instructions.to_string()),
            format!("{ns:.0}"),
            format!("{:.1}", 1e3 / ns),
            if ratio.is_nan() { "-".to_owned() } else { format!("{ratio:.1}") },
        ]);
    }
    println!("\nThe program, run by the kernel on one frame again and again; medians\n{table}");
}

/// What policies would do on 16 processors.
pub(crate) fn simulated(all: &[Simulated]) {
    for one in all {
        let mut table = table(&["policy", "imbalance", "p99 ms", "dropped %", "moves", "reordered %"]);
        for policy in &one.policies {
            let number = |key: &str| policy[key].as_f64().unwrap_or(f64::NAN);
            table.add_row([
                policy["policy"].as_str().unwrap_or_default().to_owned(),
                format!("{:.2}", number("imbalance")),
                format!("{:.2}", number("p99_ns") / 1e6),
                format!("{:.1}", 100.0 * number("dropped_fraction")),
                policy["moves"].as_u64().map_or_else(|| Value::Null.to_string(), |moves| moves.to_string()),
                format!("{:.3}", 100.0 * number("reordered_fraction")),
            ]);
        }
        println!("\n16 processors, {}, by simulation\n{}\n{}\n{table}", one.traffic, one.cause, one.advice);
    }
}

/// What the simulator foresees beside what happened: medians, and `!` where they are too far apart.
pub(crate) fn foreseen(costs: &Costs, all: &[Beside]) {
    println!(
        "\nA packet costs the first processor {:.2} us alone and {:.2} us to send and hand over, and the second \
         {:.2} us. To go back from receiving to forwarding takes {:.2} us.",
        costs.alone / 1e3,
        costs.hand_over / 1e3,
        costs.forward / 1e3,
        costs.resume / 1e3
    );
    let Some(first) = all.first() else { return };
    let names = first.figures.iter().map(|figure| figure.name.to_owned());
    let header: Vec<String> = ["traffic".to_owned(), "steering".to_owned()].into_iter().chain(names).collect();
    let mut table = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for Beside { traffic, contender, figures } in all {
        let mut row = vec![(*traffic).to_owned(), (*contender).to_owned()];
        row.extend(figures.iter().map(|figure| {
            let mark = if figure.is_within() { "" } else { " !" };
            format!("{:.1} / {:.1}{mark}", figure.live, figure.foreseen)
        }));
        table.add_row(row);
    }
    let figures = || all.iter().flat_map(|beside| &beside.figures);
    let within = figures().filter(|figure| figure.is_within()).count();
    println!("\nlive / by simulation; {within} of {} within bounds\n{table}", figures().count());
}
