//! Bids of candidates for a packet, and the choice of the highest bid.

use core::hint::select_unpredictable;

use humpyard_core::hash::unit_score;
use humpyard_core::id::CoreId;
use humpyard_core::policy::View;

/// Returns the length of a core's queue as the new packet would find it, itself included.
#[inline]
pub(super) fn length(view: &View<'_>, core: CoreId) -> u64 {
    u64::from(view.cores[core].packets) + 1
}

/// A bid that can be compared with another of its kind.
pub(super) trait Bid: Copy {
    /// Whether this bid is higher than the other; equal bids do not beat each other.
    fn beats(self, other: Self) -> bool;
    /// Returns the first bid or the second, without a branch: the winner is not predictable.
    fn select(first: bool, bid: Self, other: Self) -> Self;
}

/// Returns the candidate with the highest bid; of equal bids, the first.
#[inline]
pub(super) fn highest<C: Copy, B: Bid>(mut bids: impl Iterator<Item = (C, B)>) -> Option<C> {
    let first = bids.next()?;
    let (winner, _) = bids.fold(first, |(winner, best), (candidate, bid)| {
        let wins = bid.beats(best);
        (select_unpredictable(wins, candidate, winner), B::select(wins, bid, best))
    });
    Some(winner)
}

/// The bid g / length for the hash g of a connection and a candidate, compared without rounding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    /// g in units of 2^-54, below 2^54.
    height: u64,
    /// From 1 to below 2^64.
    length: u64,
}

impl Exact {
    /// Returns the bid of a candidate with this [`score`](humpyard_core::hash::score).
    #[inline]
    pub(super) const fn new(score: u64, length: u64) -> Self {
        Self { height: 2 * score + 1, length }
    }

    /// As [`Self::new`], with g times `weight` / 2^32, rounded to 2^-54; `weight` is at most 2^32.
    #[inline]
    pub(super) const fn weighted(score: u64, weight: u64, length: u64) -> Self {
        Self { height: (((2 * score as u128 + 1) * weight as u128) >> 32) as u64, length }
    }
}

impl Bid for Exact {
    #[inline]
    fn beats(self, other: Self) -> bool {
        u128::from(self.height) * u128::from(other.length) > u128::from(other.height) * u128::from(self.length)
    }

    #[inline]
    fn select(first: bool, bid: Self, other: Self) -> Self {
        Self {
            height: select_unpredictable(first, bid.height, other.height),
            length: select_unpredictable(first, bid.length, other.length),
        }
    }
}

/// A bid that needs a logarithm or a root: the lower number wins.
///
/// It is computed with +, -, *, / and `libm`, which give the same result on every machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost(f64);

impl Cost {
    /// Returns the reciprocal of -weight / (length ln g). The chance of such a bid to win is
    /// proportional to weight / length.
    #[inline]
    pub(super) fn log(score: u64, weight: f64, length: f64) -> Self {
        Self(-libm::log(unit_score(score)) * length / weight)
    }

    /// Returns the reciprocal of weight · g / length.
    #[inline]
    pub(super) fn product(g: f64, weight: f64, length: f64) -> Self {
        Self(length / (weight * g))
    }
}

impl Bid for Cost {
    #[inline]
    fn beats(self, other: Self) -> bool {
        self.0 < other.0
    }

    #[inline]
    fn select(first: bool, bid: Self, other: Self) -> Self {
        Self(select_unpredictable(first, bid.0, other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bids_go_to_the_first() {
        assert_eq!(highest([(4, Exact::new(1, 3)), (5, Exact::new(1, 3)), (6, Exact::new(4, 9))].into_iter()), Some(4));
        assert_eq!(highest([(4, Cost(0.5)), (5, Cost(0.5))].into_iter()), Some(4));
        assert_eq!(highest([(); 0].into_iter().map(|()| (0, Cost(1.0)))), None);
    }

    #[test]
    fn exact_bids_are_not_rounded() {
        let score = (1 << 53) - 1;
        let (longer, shorter) = (Exact::new(score, 1 << 63), Exact::new(score - 1, (1 << 63) - 1));
        assert!(longer.beats(shorter) && !shorter.beats(longer));
    }

    #[test]
    fn the_highest_score_costs_least() {
        let cost = |score| Cost::log(score, 1.0, 1.0);
        assert!(cost((1 << 53) - 1).beats(cost(1 << 52)) && cost(1).beats(cost(0)));
    }
}
