//! Observations from the data of figures 7 to 10, 13 and 14 besides the paper's claims: medians over the draws.

use super::found::Found;
use super::machine::{LOADED, SATURATED};
use super::workload::Cost;
use crate::harness::{Note, Table, listed, short};

/// The paper's policies, the tree, and the literal form of the paper's third step.
const POLICIES: [&str; 8] = ["rr", "conn", "hrw", "ap", "gps-hrw", "ps-hrw", "h-cahrw", "ps-hrw:residual=literal"];

/// Notes a column under each policy.
fn column(found: Found<'_>, what: &str, column: &str) -> Note {
    let medians = POLICIES.map(|policy| found.statistic(policy, column).median);
    Note::new(format!("{}: {what} under {}", found.name(), POLICIES.join(", ")), "", listed(medians))
}

/// Returns the results of all costs on a saturated machine.
fn saturated(data: &Table) -> impl Iterator<Item = Found<'_>> {
    [Cost::Model, Cost::Measured].into_iter().flat_map(|cost| Found::all(data, cost, SATURATED))
}

/// Figures 7 and 8.
pub(super) fn throughput(data: &Table) -> Vec<Note> {
    let note = |found: Found<'_>| {
        let over = ["hrw", "conn", "ap"].map(|other| {
            let [own, other] = ["ps-hrw", other].map(|policy| found.statistic(policy, "throughput_per_s").median);
            short(own / other)
        });
        Note::new(format!("{}: throughput of ps-hrw over that of hrw, conn, ap", found.name()), "", over.join(", "))
    };
    saturated(data).map(note).collect()
}

/// Figures 9 and 10.
pub(super) fn balance(data: &Table) -> Vec<Note> {
    let ends = [("least", "utilization_min"), ("greatest", "utilization_max")];
    let of = |found| ends.map(|(end, name)| column(found, &format!("{end} utilization"), name));
    saturated(data).flat_map(of).collect()
}

/// Figure 13.
pub(super) fn misses(data: &Table) -> Vec<Note> {
    let of = |found| {
        [column(found, "bytes missed, in %,", "bytes_missed_percent"), column(found, "moves", "moves_per_packet")]
    };
    [SATURATED, LOADED].into_iter().flat_map(|feed| Found::all(data, Cost::Model, feed)).flat_map(of).collect()
}

/// Figure 14.
pub(super) fn order(data: &Table) -> Vec<Note> {
    let of = |found| {
        [
            column(found, "packets out of order, in %,", "out_of_order_percent"),
            column(found, "jitter, in us,", "jitter_us"),
        ]
    };
    [SATURATED, LOADED].into_iter().flat_map(|feed| Found::all(data, Cost::Model, feed)).flat_map(of).collect()
}
