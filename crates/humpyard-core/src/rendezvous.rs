//! Rendezvous hashing: the candidate with the highest score wins, or the one with the highest score
//! over its queue length.
//!
//! Steering hashes every candidate for every packet. A host may use instructions that only some
//! processors have: it puts its own functions into [`Rendezvous`]. The results are the same to the
//! bit.

use core::hint::select_unpredictable;

use crate::hash::score;

/// How the winner of a rendezvous is found.
#[derive(Clone, Copy, Debug)]
pub struct Rendezvous {
    /// As [`highest`].
    pub highest: fn(key: u64, salts: &[u64]) -> usize,
    /// As [`highest_bid`].
    pub highest_bid: fn(key: u64, salts: &[u64], lengths: &[u64], home: Home) -> usize,
}

impl Default for Rendezvous {
    /// The portable functions.
    fn default() -> Self {
        Self { highest, highest_bid }
    }
}

/// The home candidate, and the penalty of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Home {
    /// The place of the candidate whose length counts unchanged. No candidate need have this place.
    pub place: usize,
    /// The factor for the lengths of the others, in thousandths: from 1 to a million.
    pub away_permille: u32,
}

impl Home {
    /// No home: all lengths count unchanged.
    pub const ANYWHERE: Self = Self { place: usize::MAX, away_permille: 1000 };

    /// Returns the factor for the length at this place, in thousandths.
    #[inline]
    pub const fn permille(self, place: usize) -> u32 {
        if place == self.place { 1000 } else { self.away_permille }
    }
}

/// Returns the place of the salt with which the key has the highest [`score`]; the first of equals.
/// O(candidates).
///
/// # Panics
/// If there is no candidate.
pub fn highest(key: u64, salts: &[u64]) -> usize {
    assert!(!salts.is_empty(), "at least one candidate");
    let (groups, rest) = salts.as_chunks::<UNROLLED>();
    // No score is lower, so the first candidate wins if no other score is higher.
    let mut best = Bid { place: 0, score: 0 };
    for (group, salts) in groups.iter().enumerate() {
        for (at, &salt) in salts.iter().enumerate() {
            best = best.or(Bid { place: group * UNROLLED + at, score: score(key, salt) });
        }
    }
    for (place, &salt) in (salts.len() - rest.len()..).zip(rest) {
        best = best.or(Bid { place, score: score(key, salt) });
    }
    best.place
}

/// A place, and its score.
#[derive(Clone, Copy)]
struct Bid {
    place: usize,
    score: u64,
}

impl Bid {
    /// Returns the higher one, without a branch; `self` if both are equal.
    #[inline]
    fn or(self, other: Self) -> Self {
        let wins = other.score > self.score;
        Self {
            place: select_unpredictable(wins, other.place, self.place),
            score: select_unpredictable(wins, other.score, self.score),
        }
    }
}

/// Candidates that one turn of the loop looks at.
const UNROLLED: usize = 4;

/// Returns the place of the candidate with the highest [`unit_score`](crate::hash::unit_score) over
/// length; the first of equals. Compares exact fractions. O(candidates).
///
/// There is one length for each salt, at most 2^33. A candidate with length 0 does not bid; if none
/// bids, the place is 0.
pub fn highest_bid(key: u64, salts: &[u64], lengths: &[u64], home: Home) -> usize {
    let bids = salts.iter().zip(lengths).enumerate();
    let (winner, ..) = bids.fold((0, 0, 1), |(winner, highest, shortest), (place, (&salt, &length))| {
        // In units of 2^-54.
        let height = 2 * score(key, salt) + 1;
        let length = length * u64::from(home.permille(place));
        let wins = length > 0 && u128::from(height) * u128::from(shortest) > u128::from(highest) * u128::from(length);
        (
            select_unpredictable(wins, place, winner),
            select_unpredictable(wins, height, highest),
            select_unpredictable(wins, length, shortest),
        )
    });
    winner
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::salt;

    #[test]
    fn examples_of_the_specification() {
        let salts: [u64; 4] = core::array::from_fn(|k| salt(k as u64));
        assert_eq!([12345, 1].map(|key| highest(key, &salts)), [3, 2]);
        assert_eq!(highest_bid(12345, &salts, &[3, 1, 2, 4], Home::ANYWHERE), 1);
        assert_eq!(highest_bid(12345, &salts, &[3, 1, 2, 4], Home { place: 3, away_permille: 2500 }), 3);
    }

    #[test]
    fn of_equal_bids_the_first_wins() {
        assert_eq!(highest(7, &[5, 5, 5]), 0);
        assert_eq!(highest_bid(7, &[5, 5, 5], &[2, 1, 1], Home::ANYWHERE), 1);
        assert_eq!(highest_bid(7, &[5, 5, 5], &[2, 1, 1], Home { place: 0, away_permille: 2000 }), 0);
    }

    #[test]
    fn a_length_of_nothing_does_not_bid() {
        let salts: [u64; 4] = core::array::from_fn(|k| salt(k as u64));
        assert_eq!(highest_bid(12345, &salts, &[3, 0, 2, 0], Home::ANYWHERE), 2);
        assert_eq!(highest_bid(12345, &salts, &[0; 4], Home::ANYWHERE), 0);
    }
}
