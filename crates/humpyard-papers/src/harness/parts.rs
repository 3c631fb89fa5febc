//! Numbers of parts.

/// Returns the item of a part, and the number of its draw from 1: each draw has a part for each item.
pub(crate) fn split<T: Copy>(part: usize, of: &[T]) -> (T, usize) {
    (of[part % of.len()], part / of.len() + 1)
}
