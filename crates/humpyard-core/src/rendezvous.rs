//! Who wins a rendezvous: the candidate with the highest score, or with the highest score for the length of its queue.
//!
//! Steering asks this for every packet, and every candidate is hashed for it, so that a host may have it done by instructions
//! that only some processors have: it puts functions of its own into [`Rendezvous`]. The answers are the same to the bit.

use core::hint::select_unpredictable;

use crate::hash::score;

/// How the winner of a rendezvous is found.
#[derive(Clone, Copy, Debug)]
pub struct Rendezvous {
    /// As [`highest`].
    pub highest: fn(key: u64, salts: &[u64]) -> usize,
    /// As [`highest_bid`].
    pub highest_bid: fn(key: u64, salts: &[u64], lengths: &[u64]) -> usize,
}

impl Default for Rendezvous {
    /// By what every processor can do.
    fn default() -> Self {
        Self { highest, highest_bid }
    }
}

/// The place of the salt by which the key has the highest [`score`]; of equal ones the first. O(candidates).
///
/// # Panics
/// If there is no candidate.
pub fn highest(key: u64, salts: &[u64]) -> usize {
    let (&first, others) = salts.split_first().expect("at least one candidate");
    let bids = others.iter().zip(1..).map(|(&salt, place)| (place, score(key, salt)));
    let (winner, _) = bids.fold((0, score(key, first)), |(winner, best), (place, score)| {
        let wins = score > best;
        (select_unpredictable(wins, place, winner), select_unpredictable(wins, score, best))
    });
    winner
}

/// The place of the candidate with the highest [`unit_score`](crate::hash::unit_score) over length, compared as exact fractions;
/// of equal ones the first. O(candidates).
///
/// There are as many lengths as salts, all below 2^63; who has a length of 0 does not bid. If nobody does the place is 0.
pub fn highest_bid(key: u64, salts: &[u64], lengths: &[u64]) -> usize {
    let bids = salts.iter().zip(lengths).enumerate();
    let (winner, ..) = bids.fold((0, 0, 1), |(winner, highest, shortest), (place, (&salt, &length))| {
        // In units of 2^-54.
        let height = 2 * score(key, salt) + 1;
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
        assert_eq!(highest_bid(12345, &salts, &[3, 1, 2, 4]), 1);
    }

    #[test]
    fn of_equal_bids_the_first_wins() {
        assert_eq!(highest(7, &[5, 5, 5]), 0);
        assert_eq!(highest_bid(7, &[5, 5, 5], &[2, 1, 1]), 1);
    }

    #[test]
    fn a_length_of_nothing_does_not_bid() {
        let salts: [u64; 4] = core::array::from_fn(|k| salt(k as u64));
        assert_eq!(highest_bid(12345, &salts, &[3, 0, 2, 0]), 2);
        assert_eq!(highest_bid(12345, &salts, &[0; 4]), 0);
    }
}
