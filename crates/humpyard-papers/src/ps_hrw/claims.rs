//! The figures of merit of figures 7 to 10, 13 and 14.

use super::found::Found;
use super::machine::SATURATED;
use super::workload::{ALL, Cost, L7, Workload};
use crate::harness::{Figure, Table, rank_correlation};

const THROUGHPUT_COLUMN: &str = "throughput_per_s";
const MISSED: &str = "bytes_missed_percent";
const OUT_OF_ORDER: &str = "out_of_order_percent";
const JITTER: &str = "jitter_us";
/// The default, which gives the rest of a connection's part to a core of its own.
const PS: &str = "ps-hrw";
const TREE: &str = "h-cahrw";
/// The policies in the paper's comparison.
const PAPERS: [&str; 6] = ["rr", "conn", "hrw", "ap", "gps-hrw", PS];

/// Returns a figure for each workload, on a saturated machine with the model's costs.
fn each<const N: usize>(data: &Table, workloads: [Workload; N], of: impl Fn(Found<'_>) -> f64) -> Vec<f64> {
    workloads.map(|workload| of(Found { data, workload, cost: Cost::Model, feed: SATURATED })).into()
}

/// Returns the least of these numbers; NaN if a number is NaN.
pub(super) fn least(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let smaller = |one: f64, other: f64| if one.is_nan() || one <= other { one } else { other };
    numbers.into_iter().reduce(smaller).unwrap_or(f64::NAN)
}

/// Returns the least quotient of a figure of the paper's other policies over that of this one.
fn others_over(policy: &str, of: impl Fn(&str) -> f64) -> f64 {
    least(PAPERS.into_iter().filter(|&other| other != policy).map(|other| of(other) / of(policy)))
}

/// Returns the least quotient of a figure of this policy over those of the paper's others.
fn over_others(policy: &str, of: impl Fn(&str) -> f64) -> f64 {
    least(PAPERS.into_iter().filter(|&other| other != policy).map(|other| of(policy) / of(other)))
}

fn throughputs(data: &Table, policy: &str, other: &str) -> Vec<f64> {
    each(data, ALL, |found| found.ratio(THROUGHPUT_COLUMN, policy, other))
}

/// Figures 7 and 8.
pub(super) const THROUGHPUT: &[Figure] = &[
    Figure { claim: "ps-hrw-fig7-gps-hrw-below-hrw", of: |data| throughputs(data, "gps-hrw", "hrw") },
    Figure { claim: "ps-hrw-fig7-gps-hrw-above-ap", of: |data| throughputs(data, "gps-hrw", "ap") },
    Figure { claim: "ps-hrw-fig7-ps-hrw-above-gps-hrw", of: |data| throughputs(data, PS, "gps-hrw") },
    Figure {
        claim: "ps-hrw-hrw-throughput",
        of: |data| throughputs(data, PS, "hrw").into_iter().map(|ratio| 100.0 * (ratio - 1.0)).collect(),
    },
    Figure {
        claim: "ps-hrw-comparable-throughput",
        of: |data| each(data, L7, |found| found.ratio(THROUGHPUT_COLUMN, PS, TREE)),
    },
];

/// Figures 9 and 10.
pub(super) const BALANCE: &[Figure] = &[
    Figure {
        claim: "ps-hrw-tree-balance",
        of: |data| each(data, L7, |found| found.spread("ca-ahrw") / found.spread(TREE)),
    },
    Figure {
        claim: "ps-hrw-fig9-hash-below-conn",
        of: |data| {
            let over = |found: Found<'_>| {
                least(["hrw", "gps-hrw", PS].map(|policy| found.spread("conn") / found.spread(policy)))
            };
            each(data, ALL, over)
        },
    },
    Figure {
        claim: "ps-hrw-fig9-ps-hrw-best",
        of: |data| each(data, ALL, |found| others_over(PS, |policy| found.spread(policy))),
    },
    Figure {
        claim: "ps-hrw-fig9-packet-level",
        of: |data| {
            let over = |found: Found<'_>| {
                let by_packet = ["ap", PS].map(|policy| found.spread(policy));
                let others = ["conn", "hrw", "gps-hrw"].map(|policy| found.spread(policy));
                least(others.into_iter().flat_map(|other| by_packet.map(|spread| other / spread)))
            };
            each(data, ALL, over)
        },
    },
    Figure {
        claim: "ps-hrw-fig9-gps-hrw-wider",
        of: |data| each(data, ALL, |found| found.spread("gps-hrw") / found.spread(PS)),
    },
];

/// Figure 13.
pub(super) const MISSES: &[Figure] = &[
    Figure {
        claim: "ps-hrw-fig13-ap-most",
        of: |data| each(data, L7, |found| over_others("ap", |policy| found.value(policy, MISSED))),
    },
    Figure {
        claim: "ps-hrw-fig13-ps-hrw-least",
        of: |data| each(data, L7, |found| others_over(PS, |policy| found.value(policy, MISSED))),
    },
];

/// Returns a figure of the packets' order, then of their jitter, for each workload.
fn order_and_jitter(data: &Table, of: impl Fn(&dyn Fn(&str) -> f64) -> f64) -> Vec<f64> {
    let by_column = |column| each(data, ALL, |found| of(&|policy: &str| found.value(policy, column)));
    [OUT_OF_ORDER, JITTER].into_iter().flat_map(by_column).collect()
}

/// Figure 14.
pub(super) const ORDER: &[Figure] = &[
    Figure {
        claim: "ps-hrw-fig14-same-pattern",
        of: |data| {
            let correlation = |found: Found<'_>| {
                let point = |policy| (found.value(policy, JITTER), found.value(policy, OUT_OF_ORDER));
                rank_correlation(&PAPERS.map(point))
            };
            each(data, ALL, correlation)
        },
    },
    Figure { claim: "ps-hrw-fig14-rr-most", of: |data| order_and_jitter(data, |of| over_others("rr", of)) },
    Figure {
        claim: "ps-hrw-fig14-conn-good",
        of: |data| order_and_jitter(data, |of| least(["rr", "ap"].map(|policy| of(policy) / of("conn")))),
    },
    Figure { claim: "ps-hrw-fig14-ap-above-ps-hrw", of: |data| order_and_jitter(data, |of| of("ap") / of(PS)) },
    Figure { claim: "ps-hrw-fig14-ps-hrw-best", of: |data| order_and_jitter(data, |of| others_over(PS, of)) },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_the_least_and_say_so_if_they_are_no_numbers() {
        assert_eq!(least([3.0, 1.0, 2.0]), 1.0);
        assert!(least([]).is_nan() && least([f64::NAN, 1.0]).is_nan() && least([1.0, f64::NAN, 0.5]).is_nan());
        let of = |policy: &str| match policy {
            "rr" => 8.0,
            "conn" | "hrw" => 0.0,
            PS => 2.0,
            _ => 4.0,
        };
        assert_eq!((over_others("rr", of), others_over(PS, of)), (2.0, 0.0));
        assert!(over_others("conn", of).is_nan(), "0 of 0 is above nothing");
    }
}
