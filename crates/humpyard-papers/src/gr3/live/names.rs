//! Names of live rows, and of simulated rows beside them.

use crate::harness::{Table, TableRow};

/// Stands in place of a policy if only the kernel dispatches.
pub(super) const KERNEL: &str = "kernel";
/// Prefix of the name of a policy whose service is simulated for comparison.
pub(super) const SIMULATED: &str = "simulated ";

/// Returns the live rows.
pub(super) fn live_rows(data: &Table) -> impl Iterator<Item = TableRow<'_>> + Clone {
    data.rows().filter(|row| !row.text("policy").starts_with(SIMULATED))
}
