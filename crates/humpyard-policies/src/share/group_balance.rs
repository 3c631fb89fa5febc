//! Arithmetic on balances and slots of GR3's groups. It saturates at the ends of the range.

use super::group_client::FRACTION;

/// Returns the difference, saturated at the end of the range.
#[inline]
pub(super) fn minus(number: i64, work: i64) -> i64 {
    number.checked_sub(work).unwrap_or_else(|| end_of_range(number))
}

/// Returns work in the units of balances, saturated at the end of the range.
#[inline]
pub(super) fn scaled(work: i64) -> i64 {
    if work.unsigned_abs() >> (63 - FRACTION) == 0 { work << FRACTION } else { end_of_range(work) }
}

/// Returns the greatest number with this sign.
#[cold]
fn end_of_range(number: i64) -> i64 {
    if number < 0 { i64::MIN } else { i64::MAX }
}

/// Returns `slots * to / from`, rounded up.
#[inline]
pub(super) fn scale(slots: i64, to: i64, from: i64) -> i64 {
    // The product almost always fits 64 bits, where division is several times faster.
    match slots.checked_mul(to) {
        Some(product) => product / from + i64::from(product % from > 0),
        None => -(-i128::from(slots) * i128::from(to)).div_euclid(i128::from(from)) as i64,
    }
}
