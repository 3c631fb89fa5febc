//! Service errors of rows.

use crate::harness::{Range, Rows};

/// Spans all errors of these rows, and 0: before it is served no client is behind or ahead.
pub(super) fn errors<'a>(rows: impl Rows<'a>) -> Range {
    Range::from_zero(rows.flat_map(|row| [row.number("error_min"), row.number("error_max")]))
}
