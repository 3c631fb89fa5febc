//! What results show, in words, above and below their tables.

use humpyard::lab::findings;
use humpyard::lab::{Comparison, RunResult};

use crate::commands::table;

/// Findings below a table, and of a single run.
const MORE: usize = 2;

/// Says that an input holds no packet. `None`: it holds some, or it comes by interfaces, which count what they missed.
pub(crate) fn no_packet(run: &RunResult) -> Option<String> {
    let is_empty = run.packets.arrived == 0 && !run.interrupted && run.ports.received.is_empty();
    is_empty.then(|| format!("{} holds no packet: there is nothing to measure", run.input))
}

/// A comparison: the most important finding, the table, and what else is to be known first.
pub(crate) fn comparison(comparison: &Comparison) -> String {
    if let Some(said) = comparison.runs.first().and_then(no_packet) {
        return format!("{said}.\n");
    }
    let found = findings::of_comparison(comparison);
    let table = table::comparison(comparison);
    let Some((first, others)) = found.split_first() else { return table };
    let more: String = others.iter().take(MORE).map(|finding| format!("\n{}\n", finding.text)).collect();
    format!("{}\n\n{table}{more}", first.text)
}

/// The most important findings of one run, as the last lines of its summary.
pub(crate) fn of_run(run: &RunResult) -> String {
    let found = findings::of_run(run);
    let labels = ["in short"].into_iter().chain(core::iter::repeat(""));
    let lines = labels.zip(found.iter().take(MORE)).map(|(label, finding)| format!("{label:11} {}", finding.text));
    lines.collect::<Vec<_>>().join("\n")
}
