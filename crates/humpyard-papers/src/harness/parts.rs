//! What the parts of an experiment are of.

/// Returns which of these a part is of, and the number of its draw from 1: each draw has a part for each of them.
pub(crate) fn split<T: Copy>(part: usize, of: &[T]) -> (T, usize) {
    (of[part % of.len()], part / of.len() + 1)
}
