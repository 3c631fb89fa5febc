//! The figures of merit of figures 14 to 19.

use super::servers::{Run, rows_of, run_name};
use crate::harness::{Figure, Note, Range, Rows, Table, short};

/// Returns the range of the errors of all processes in these rows.
fn errors<'a>(rows: impl Rows<'a>) -> Range {
    Range::from_zero(rows.flat_map(|row| [row.number("server_error_min"), row.number("server_error_max")]))
}

/// Returns the longest gap of a process of the first server, which has the heavy processes in the first mix.
fn gap(data: &Table, run: Run) -> f64 {
    rows_of(data, run).at("server", 1.0).most("server_gap_longest")
}

/// Returns two quotients of the largest error of any process, behind or ahead: Linux over the worst of the
/// others, and the best of the others over GR3. Only some draws count.
fn order(data: &Table, is_counted: fn(f64) -> bool) -> [f64; 2] {
    let largest = |policy| errors(rows_of(data, (policy, 1)).filter(|row| is_counted(row.number("draw")))).magnitude();
    let [linux, wfq, vtrr, gr3] = ["linux24", "wfq", "vtrr", "gr3"].map(largest);
    [linux / wfq.max(vtrr).max(gr3), linux.min(wfq).min(vtrr) / gr3]
}

/// Returns Linux's value over GR3MP's, on two processors.
fn linux_over_gr3mp(data: &Table, of: impl Fn(&Table, Run) -> f64) -> f64 {
    of(data, ("linux24", 2)) / of(data, ("gr3mp", 2))
}

/// Claims on the first mix.
pub(super) const FIRST: &[Figure] = &[
    Figure {
        claim: "gr3-fig14-fairness",
        of: |data| {
            let on_two = linux_over_gr3mp(data, |data, run| errors(rows_of(data, run)).magnitude());
            order(data, |_| true).into_iter().chain([on_two]).collect()
        },
    },
    Figure {
        claim: "gr3-fig17-staircase",
        of: |data| {
            let over_gr3 = ["linux24", "wfq", "vtrr"].map(|policy| gap(data, (policy, 1)) / gap(data, ("gr3", 1)));
            over_gr3.into_iter().chain([linux_over_gr3mp(data, gap)]).collect()
        },
    },
    Figure {
        claim: "gr3-lottery-worse-than-wrr",
        of: |data| {
            let of_light = |policy| errors(rows_of(data, (policy, 1)).at("weight", 1.0)).magnitude();
            vec![of_light("lottery") / of_light("wrr")]
        },
    },
];

/// Claims on the second mix, whose draw has the number 0, and on the third.
pub(super) const OTHERS: &[Figure] = &[Figure {
    claim: "gr3-web2-web3-same",
    of: |data| [order(data, |draw| draw == 0.0), order(data, |draw| draw > 0.0)].concat(),
}];

/// Returns the gaps and errors of these runs.
pub(super) fn notes(data: &Table, runs: &[Run]) -> Vec<Note> {
    let note = |&run: &Run| {
        let found = format!("{}; {}", short(gap(data, run)), errors(rows_of(data, run)));
        Note::new(format!("{}: longest gap of server 1; errors of all processes", run_name(run)), "", found)
    };
    runs.iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::super::figures::SERVERS;
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    fn of(id: &str) -> Table {
        quick(SERVERS.iter().find(|servers| servers.id == id).unwrap())
    }

    fn is_within(range: Range, low: f64, high: f64) -> bool {
        low <= range.least && range.greatest <= high
    }

    /// Gap between two services of a process of weight 10 in the first mix, in slots, if they are even and
    /// there is one processor.
    const EVEN_GAP: f64 = 150.0;

    #[test]
    fn gr3_serves_evenly_and_others_in_bursts() {
        let data = of("gr3-fig17");
        let gr3 = ("gr3", 1);
        assert!(gap(&data, gr3) <= 2.0 * EVEN_GAP, "{}", gap(&data, gr3));
        assert!(is_within(errors(rows_of(&data, gr3)), -2.0, 2.0));
        for policy in ["wfq", "sfq", "vtrr", "srr"] {
            assert!(gap(&data, (policy, 1)) >= 550.0, "{policy}: {}", gap(&data, (policy, 1)));
        }
    }

    #[test]
    fn gr3mp_serves_evenly_on_two_processors_and_on_eight() {
        let data = of("gr3-fig19");
        for processors in [2, 8] {
            let run = ("gr3mp", processors);
            assert!(gap(&data, run) <= 2.0 * EVEN_GAP / processors as f64, "{processors}: {}", gap(&data, run));
            assert!(is_within(errors(rows_of(&data, run)), -2.5, 2.5), "{processors}");
        }
    }

    #[test]
    fn gr3_is_as_fair_with_other_weights() {
        let data = of("gr3-web3");
        let of_draws = |is_counted: fn(f64) -> bool| {
            errors(rows_of(&data, ("gr3", 1)).filter(|row| is_counted(row.number("draw"))))
        };
        assert!(
            is_within(of_draws(|draw| draw == 0.0), -2.0, 1.4) && is_within(of_draws(|draw| draw > 0.0), -2.3, 2.3)
        );
        assert_eq!(of_draws(|draw| draw == 0.0), errors(rows_of(&of("gr3-web2"), ("gr3", 1))));
    }

    #[test]
    fn outcomes_are_the_expected_ones() {
        for id in ["gr3-fig17", "gr3-web3"] {
            let experiment = SERVERS.iter().find(|servers| servers.id == id).unwrap();
            assert_expected(experiment, &quick(experiment));
        }
    }
}
