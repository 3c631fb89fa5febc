//! What rows of live runs are called, and those beside them.

use crate::harness::{Table, TableRow};

/// Stands where a policy does for the kernel alone.
pub(super) const KERNEL: &str = "kernel";
/// Before the name of a policy whose service is simulated, for comparison.
pub(super) const SIMULATED: &str = "simulated ";

/// Rows that are live.
pub(super) fn live_rows(data: &Table) -> impl Iterator<Item = TableRow<'_>> + Clone {
    data.rows().filter(|row| !row.text("policy").starts_with(SIMULATED))
}
