//! Ranges of service errors.

use crate::harness::{Range, Rows};

/// Returns the range of all errors in these rows, including 0: before a client is served, it is neither behind
/// nor ahead.
pub(super) fn errors<'a>(rows: impl Rows<'a>) -> Range {
    Range::from_zero(rows.flat_map(|row| [row.number("error_min"), row.number("error_max")]))
}
