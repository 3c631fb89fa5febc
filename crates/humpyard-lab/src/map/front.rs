//! The objectives of the map, and which policies are best by them: Pareto fronts, and who drops out after a round.

use crate::table::TableRow;

/// A figure of which less is better.
pub(super) struct Objective {
    /// Its column.
    pub(super) key: &'static str,
    /// Its meaning, for people.
    pub(super) about: &'static str,
    /// Differences that do not count: this part of the greater value, and this much.
    relative: f64,
    absolute: f64,
    /// Finds it in the row of a sweep.
    of: fn(TableRow<'_>) -> f64,
}

/// How many objectives there are.
pub(super) const OBJECTIVES_COUNT: usize = 6;
/// Places in [`OBJECTIVES`].
pub(super) const P99: usize = 0;
/// See [`P99`].
pub(super) const LOSS: usize = 1;
/// See [`P99`].
pub(super) const REORDERING: usize = 2;

/// What policies are compared by.
pub(super) const OBJECTIVES: [Objective; OBJECTIVES_COUNT] = [
    Objective {
        key: "p99_ns",
        about: "99th percentile of the delay, in ns",
        relative: 0.05,
        absolute: 0.0,
        of: |row| row.number("delay_p99_ns"),
    },
    Objective {
        key: "loss",
        about: "part of the packets that were dropped",
        relative: 0.05,
        absolute: 0.001,
        of: |row| row.number("dropped_fraction"),
    },
    Objective {
        key: "out_of_order",
        about: "part of the packets that left after a later one of their flow",
        relative: 0.05,
        absolute: 0.001,
        of: |row| row.number("out_of_order_fraction"),
    },
    Objective {
        key: "moves",
        about: "part of the packets that another core served than the packet before of their flow",
        relative: 0.05,
        absolute: 0.01,
        of: |row| row.number("moves_per_packet"),
    },
    Objective {
        key: "unfairness",
        about: "1 minus Jain's index of what clients were served",
        relative: 0.05,
        absolute: 0.01,
        of: |row| 1.0 - row.number("jain"),
    },
    Objective {
        key: "wasted_core",
        about: "utilization of the busiest core minus that of the least busy one",
        relative: 0.05,
        absolute: 0.02,
        of: |row| row.number("utilization_max") - row.number("utilization_min"),
    },
];

/// The objectives of one simulation, in the order of [`OBJECTIVES`].
pub(super) type Scores = [f64; OBJECTIVES_COUNT];

/// Finds the objectives in the row of a sweep.
pub(super) fn scores(row: TableRow<'_>) -> Scores {
    OBJECTIVES.each_ref().map(|objective| (objective.of)(row))
}

/// Returns the median of each objective over simulations of one cell.
pub(super) fn medians(seeds: &[Scores]) -> Scores {
    core::array::from_fn(|at| {
        let mut values: Vec<f64> = seeds.iter().map(|one| one[at]).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    })
}

/// Returns whether the first value is less than the second by more than the tolerance.
fn is_less(at: usize, first: f64, second: f64) -> bool {
    let Objective { relative, absolute, .. } = OBJECTIVES[at];
    second - first > absolute + relative * second.abs()
}

/// Returns whether a policy is better by one objective at least, and worse by none. Differences within the tolerance
/// do not count.
fn dominates(first: &Scores, second: &Scores) -> bool {
    let less = |one: &Scores, other: &Scores| (0..OBJECTIVES_COUNT).any(|at| is_less(at, one[at], other[at]));
    less(first, second) && !less(second, first)
}

/// Returns which policies are on the Pareto front: no other one dominates them.
pub(super) fn front(scores: &[Scores]) -> Vec<bool> {
    scores.iter().map(|one| !scores.iter().any(|other| dominates(other, one))).collect()
}

/// Returns which policies go on to the next round: those that are on the Pareto front of at least one point, and those
/// that `always` names. `points` has the scores of all policies, point by point.
pub(super) fn survivors(points: &[Vec<Scores>], always: &[bool]) -> Vec<bool> {
    let mut survive = always.to_vec();
    for scores in points {
        survive.iter_mut().zip(front(scores)).for_each(|(survives, is_on_front)| *survives |= is_on_front);
    }
    survive
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Scores = [100.0, 0.0, 0.0, 0.0, 0.5, 0.1];

    fn with(changes: &[(usize, f64)]) -> Scores {
        let mut scores = GOOD;
        changes.iter().for_each(|&(at, value)| scores[at] = value);
        scores
    }

    #[test]
    fn a_front_has_what_nothing_is_better_than() {
        let fast = with(&[(P99, 50.0), (REORDERING, 0.2)]);
        let slow = with(&[(P99, 120.0)]);
        let nearly = with(&[(P99, 104.0), (4, 0.501)]);
        assert_eq!(front(&[GOOD, fast, slow, nearly]), [true, true, false, true]);
        // A hair's breadth of fairness does not make a slow policy one of the front.
        assert_eq!(front(&[GOOD, with(&[(P99, 120.0), (4, 0.4999)])]), [true, false]);
    }

    #[test]
    fn a_policy_drops_out_if_it_is_on_no_front() {
        let bad = with(&[(P99, 200.0), (5, 0.5)]);
        let fast = with(&[(P99, 90.0)]);
        let round = vec![fast, with(&[(P99, 93.0)]), GOOD, with(&[(P99, 200.0), (5, 0.05)]), bad];
        assert_eq!(survivors(core::slice::from_ref(&round), &[false; 5]), [true, true, false, true, false]);
        assert_eq!(survivors(core::slice::from_ref(&round), &[false, false, false, false, true])[4..], [true]);
        // At another load the last is the best.
        let other = vec![bad, bad, GOOD, bad, with(&[(P99, 10.0)])];
        assert_eq!(survivors(&[round, other], &[false; 5]), [true, true, false, true, true]);
    }
}
