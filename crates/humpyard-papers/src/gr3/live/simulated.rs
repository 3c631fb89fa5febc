//! What figures 14 to 19 claim of schedules in virtual time, for live ones: PROPORTIONAL_SHARE section 5.4.

use super::super::web_servers::servers::{ALL_POLICIES, EVEN_GAP, Run, SHOWN, rows_of, run_name};
use crate::harness::{Bound, Range, Rows, Table, TableRow, Verdict, short};

/// A row of the first server, which has the heavy processes in the first mix, under this policy.
fn first_server(data: &Table, run: Run) -> TableRow<'_> {
    rows_of(data, run).at("server", 1.0).next().expect("every policy has rows of the first server")
}

/// The longest gap of its processes.
pub(super) fn gap(data: &Table, run: Run) -> f64 {
    first_server(data, run).number("server_gap_longest")
}

/// The range of errors of the process of it that is shown.
pub(super) fn errors(data: &Table, run: Run) -> Range {
    let row = first_server(data, run);
    Range { least: row.number("process_error_min"), greatest: row.number("process_error_max") }
}

pub(super) fn gap_claim(run: Run) -> String {
    format!("{}: longest gap of any process of weight 10", run_name(run))
}

pub(super) fn error_claim(run: Run) -> String {
    format!("{}: errors of process {SHOWN} of weight 10", run_name(run))
}

pub(super) fn gap_bounded(data: &Table, run: Run, bound: Bound) -> Verdict {
    Verdict::bounded(gap_claim(run), bound, gap(data, run))
}

/// The errors of all processes of all servers, in all draws.
pub(super) fn whole_mix(data: &Table, run: Run) -> Range {
    let ends = |row: TableRow<'_>| [row.number("server_error_min"), row.number("server_error_max")];
    Range::from_zero(rows_of(data, run).flat_map(ends))
}

pub(super) fn whole_mix_claim(run: Run) -> String {
    format!("{}: errors of all processes", run_name(run))
}

fn whole_mix_inside(data: &Table, run: Run, (low, high): (f64, f64)) -> Verdict {
    Verdict::bounded(whole_mix_claim(run), Bound::Within(low, high), whole_mix(data, run))
}

/// What is known of errors of others; no claim hangs on it.
fn others(data: &Table) -> impl Iterator<Item = Verdict> {
    let others = ALL_POLICIES.into_iter().filter(|(policy, _)| *policy != "gr3");
    others.map(|run| Verdict::measured(whole_mix_claim(run), "no claim", whole_mix(data, run).to_string()))
}

/// The gap of a pronounced staircase.
const STAIRCASE: f64 = 550.0;

/// What the specification measured: gap, and errors of the process that is shown.
type Said = (&'static str, f64, (f64, f64));

const STAIRCASES: [Said; 4] = [
    ("wfq", 600.0, (-0.3, 3.7)),
    ("sfq", 600.0, (-3.3, 0.7)),
    ("vtrr", 600.0, (-3.3, 0.7)),
    ("srr", 600.0, (-2.0, 2.0)),
];
const NO_CLAIM: [Said; 4] = [
    ("wrr", 1491.0, (-3.3, 6.7)),
    ("strr", 355.0, (-2.0, 2.3)),
    ("qfq", 188.0, (-0.3, 1.3)),
    ("wf2q+", EVEN_GAP, (-0.3, 0.7)),
];

fn measured_errors(data: &Table, (policy, _, said): Said) -> Verdict {
    Verdict::measured(
        error_claim((policy, 1)),
        Range { least: said.0, greatest: said.1 }.to_string(),
        errors(data, (policy, 1)).to_string(),
    )
}

pub(super) fn staircase(data: &Table) -> Vec<Verdict> {
    let there = STAIRCASES.into_iter().filter(|&(policy, ..)| rows_of(data, (policy, 1)).next().is_some());
    there
        .flat_map(|said| [gap_bounded(data, (said.0, 1), Bound::AtLeast(STAIRCASE)), measured_errors(data, said)])
        .collect()
}

pub(super) fn gr3(data: &Table) -> Vec<Verdict> {
    let gr3 = ("gr3", 1);
    let mut verdicts = vec![
        gap_bounded(data, gr3, Bound::AtMost(300.0)),
        Verdict::bounded(error_claim(gr3), Bound::Within(-1.1, 1.1), errors(data, gr3)),
        whole_mix_inside(data, gr3, (-2.0, 2.0)),
    ];
    verdicts.extend(staircase(data));
    verdicts.extend(STAIRCASES.iter().map(|&(policy, ..)| {
        let ratio = gap(data, gr3) / gap(data, (policy, 1));
        Verdict::bounded(format!("longest gap of gr3 over that of {policy}"), Bound::AtMost(0.55), ratio)
    }));
    verdicts.extend(NO_CLAIM.iter().flat_map(|&said| {
        let run = (said.0, 1);
        [Verdict::measured(gap_claim(run), short(said.1), short(gap(data, run))), measured_errors(data, said)]
    }));
    verdicts
}

pub(super) fn second(data: &Table) -> Vec<Verdict> {
    [whole_mix_inside(data, ("gr3", 1), (-2.0, 1.4))].into_iter().chain(others(data)).collect()
}

pub(super) fn third(data: &Table) -> Vec<Verdict> {
    [whole_mix_inside(data, ("gr3", 1), (-2.3, 2.3))].into_iter().chain(others(data)).collect()
}
