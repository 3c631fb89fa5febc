//! What was measured, for people and for programs.

use std::fs;

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use humpyard::lab::statistics::Statistic;
use serde::Serialize;

use crate::LENGTHS;
use crate::contender::Contender;
use crate::measurement::Measurement;

/// What is better when it is less or more, found in a measurement.
type Figure = fn(&Measurement) -> Option<f64>;

/// A ratio of two contenders that took turns.
#[derive(Serialize)]
struct Ratio {
    ours: &'static str,
    peer: &'static str,
    frame_bytes: usize,
    /// Of frames delivered: more is better.
    delivered: Statistic,
    /// Of processor time for a frame: less is better; none against the kernel.
    cpu: Option<Statistic>,
}

#[derive(Serialize)]
struct Document<'run> {
    measurements: &'run [Measurement],
    ratios: Vec<Ratio>,
}

/// One turn, as soon as it is over.
pub(crate) fn line(measured: &Measurement) {
    let Measurement { contender, pair, frame_bytes, offered_mpps, delivered_mpps, cpu_ns, machine_ns } = measured;
    let cpu = cpu_ns.map_or_else(|| "-".into(), |ns| format!("{ns:.0}"));
    eprintln!(
        "{pair:>3} {frame_bytes:>5} B  {contender:<22} offered {offered_mpps:.3} delivered {delivered_mpps:.3} Mpps  \
         cpu {cpu} ns  machine {machine_ns:.0} ns"
    );
}

/// The medians, and ours against each peer.
pub(crate) fn tables(measured: &[Measurement]) {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["frames", "", "offered Mpps", "delivered Mpps", "CPU ns", "machine ns"]);
    for length in LENGTHS {
        let took_turns = |contender: &Contender| measured.iter().any(|turn| turn.contender == contender.name());
        for contender in Contender::ALL.into_iter().filter(took_turns) {
            let of = |figure: Figure| statistic(&values(measured, contender.name(), length, figure));
            table.add_row([
                format!("{length} B"),
                contender.name().into(),
                of(|measured| Some(measured.offered_mpps)),
                of(|measured| Some(measured.delivered_mpps)),
                of(|measured| measured.cpu_ns),
                of(|measured| Some(measured.machine_ns)),
            ]);
        }
    }
    println!("{table}");
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["frames", "", "against", "delivered, times", "CPU, times"]);
    for ratio in ratios(measured) {
        table.add_row([
            format!("{} B", ratio.frame_bytes),
            ratio.ours.into(),
            ratio.peer.into(),
            show(&ratio.delivered),
            ratio.cpu.as_ref().map_or_else(|| "-".into(), show),
        ]);
    }
    println!("{table}");
}

/// Everything, as JSON.
pub(crate) fn document(measurements: &[Measurement], path: &str) -> Result<(), String> {
    let document = Document { measurements, ratios: ratios(measurements) };
    let text = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?;
    fs::write(path, text + "\n").map_err(|error| format!("{path}: {error}"))
}

/// Ours against every peer, turn by turn.
fn ratios(measured: &[Measurement]) -> Vec<Ratio> {
    let (ours, peers): (Vec<_>, Vec<_>) =
        Contender::ALL.iter().map(|contender| contender.name()).partition(|name| name.starts_with("humpyard"));
    let mut ratios = Vec::new();
    for frame_bytes in LENGTHS {
        for &ours in &ours {
            for &peer in &peers {
                let of = |figure: Figure| {
                    let [ours, peers] = [ours, peer].map(|name| values(measured, name, frame_bytes, figure));
                    let turns = ours.iter().zip(&peers).map(|(ours, peers)| ours / peers);
                    Statistic::of(turns.collect())
                };
                let Some(delivered) = of(|measured| Some(measured.delivered_mpps)) else { continue };
                ratios.push(Ratio { ours, peer, frame_bytes, delivered, cpu: of(|measured| measured.cpu_ns) });
            }
        }
    }
    ratios
}

/// A figure of each turn, in their order.
fn values(measured: &[Measurement], contender: &str, length: usize, figure: Figure) -> Vec<f64> {
    let turns = measured.iter().filter(|turn| turn.contender == contender && turn.frame_bytes == length);
    turns.filter_map(figure).collect()
}

fn statistic(values: &[f64]) -> String {
    Statistic::of(values.to_vec()).as_ref().map_or_else(|| "-".into(), show)
}

/// The median and its confidence interval.
fn show(statistic: &Statistic) -> String {
    let digits = if statistic.median >= 100.0 { 0 } else { 3 };
    let range = statistic.confidence.map(|range| format!(" ({:.digits$}-{:.digits$})", range.low, range.high));
    format!("{:.digits$}{}", statistic.median, range.unwrap_or_default())
}
