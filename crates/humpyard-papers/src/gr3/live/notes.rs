//! Observations from live threads on figures 14 to 19. The paper's claims are judged in virtual time; these
//! notes are in addition.

use super::super::web_servers::servers::SHOWN;
use super::names::{KERNEL, live_rows};
use crate::harness::{Note, Range, Rows, Table, TableRow, short};

/// Returns the first row of each run.
fn runs(data: &Table) -> impl Iterator<Item = TableRow<'_>> + Clone {
    live_rows(data).at("server", 1.0).at("slot", 0.0)
}

fn is_by_kernel(row: &TableRow<'_>) -> bool {
    row.text("policy") == KERNEL
}

fn has_run(row: &TableRow<'_>) -> bool {
    row.number("slots") > 0.0
}

fn name(row: &TableRow<'_>) -> String {
    format!("{} on {}", row.text("policy"), row.number("processors"))
}

/// Returns the notes on every figure.
pub(super) fn notes(data: &Table) -> Vec<Note> {
    let ran = || runs(data).filter(has_run);
    let first_draws = || ran().at("draw", 1.0);
    let mut notes: Vec<Note> = first_draws().filter(is_by_kernel).map(|row| weights_of_kernel(&row)).collect();
    notes.extend(first_draws().flat_map(|row| evenness(data, &row)));
    notes.extend(first_draws().filter(|row| !is_by_kernel(row)).map(|row| times(&row)));
    let noted = runs(data).filter(|row| !row.text("note").is_empty());
    notes.extend(
        noted.map(|row| Note::new(format!("{}: where it ran", name(&row)), "as in the figure", row.text("note"))),
    );
    notes
}

/// Notes the weights of nice values.
fn weights_of_kernel(row: &TableRow<'_>) -> Note {
    let ratio = |of: &str| row.number(&format!("ratio_of_{of}"));
    let found = format!(
        "{} by work, {} by processor time, in {} s, in which the latter has {} turns in the mean",
        short(ratio("service")),
        short(ratio("processor_time")),
        short(row.number("whole_ms") / 1e3),
        short(row.number("turns_of_lightest"))
    );
    let said = format!("{} by weights, {} by the kernel's table", short(ratio("weights")), short(ratio("nice")));
    Note::new(format!("{}: a process of the greatest weight over one of the least", name(row)), said, found)
}

/// Notes how even the service is: of a process of the first server, and of all processes in all draws.
fn evenness(data: &Table, row: &TableRow<'_>) -> [Note; 3] {
    let run = || data.rows_of("policy", row.text("policy")).at("processors", row.number("processors"));
    let gap = row.number("server_gap_longest");
    let gap_text = if is_by_kernel(row) {
        let ms = gap / row.number("slots") * row.number("whole_ms");
        format!("{} units of work, {} ms; {} in a row", short(gap), short(ms), short(row.number("slots_in_a_row")))
    } else {
        short(gap)
    };
    let ends = |row: &TableRow<'_>, of: &str| ["min", "max"].map(|end| row.number(&format!("{of}_error_{end}")));
    let shown = Range::of(ends(row, "process"));
    let all = Range::from_zero(run().flat_map(|row| ends(&row, "server")));
    [
        Note::new(format!("{}: longest gap of a process of the first server, in slots", name(row)), "", gap_text),
        Note::new(format!("{}: errors of process {SHOWN} of it, in slots", name(row)), "", shown.to_string()),
        Note::new(format!("{}: errors of all processes, in slots", name(row)), "", all.to_string()),
    ]
}

/// Notes the time of a slot.
fn times(row: &TableRow<'_>) -> Note {
    let slot = 1e3 * row.number("whole_ms") / row.number("slots");
    let (units, select) = (row.number("units_per_slot"), row.number("select_ns") / 1e3);
    Note::new(
        format!("{}: us of a slot of {units} units of work, and of its select", name(row)),
        "",
        format!("{}, {}", short(slot), short(select)),
    )
}
