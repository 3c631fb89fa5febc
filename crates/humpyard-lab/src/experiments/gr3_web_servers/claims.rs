//! What figures 14 to 19 claim: PROPORTIONAL_SHARE section 5.4.

use super::super::{Table, TableRow, Verdict, short};
use super::{EVEN_GAP, Run, SHOWN, rows_of, run_name};

/// A row of the first server, which has the heavy processes in the first mix, under this policy.
fn first_server(data: &Table, run: Run) -> TableRow<'_> {
    rows_of(data, run).find(|row| row.number("server") == 1.0).expect("every policy has rows of the first server")
}

/// The longest gap of its processes.
pub(in crate::experiments) fn gap(data: &Table, run: Run) -> f64 {
    first_server(data, run).number("server_gap_longest")
}

/// The range of errors of the process of it that is shown.
pub(in crate::experiments) fn errors(data: &Table, run: Run) -> (f64, f64) {
    let row = first_server(data, run);
    (row.number("process_error_min"), row.number("process_error_max"))
}

pub(in crate::experiments) fn gap_claim(run: Run) -> String {
    format!("{}: longest gap of any process of weight 10", run_name(run))
}

pub(in crate::experiments) fn error_claim(run: Run) -> String {
    format!("{}: errors of process {SHOWN} of weight 10", run_name(run))
}

/// From the least to the greatest.
pub(in crate::experiments) fn range((least, greatest): (f64, f64)) -> String {
    format!("{} to {}", short(least), short(greatest))
}

pub(in crate::experiments) fn gap_at_most(data: &Table, run: Run, most: f64) -> Verdict {
    let found = gap(data, run);
    Verdict::of(gap_claim(run), format!("at most {most}"), short(found), found <= most)
}

fn gap_at_least(data: &Table, run: Run, least: f64) -> Verdict {
    let found = gap(data, run);
    Verdict::of(gap_claim(run), format!("at least {least}"), short(found), found >= least)
}

fn errors_inside(data: &Table, run: Run, most: f64) -> Verdict {
    let found = errors(data, run);
    let expected = range((-most, most));
    Verdict::of(error_claim(run), expected, range(found), found.0 >= -most && found.1 <= most)
}

/// The errors of all processes of all servers, in all draws.
pub(in crate::experiments) fn whole_mix(data: &Table, run: Run) -> (f64, f64) {
    rows_of(data, run).fold((0.0, 0.0), |(least, greatest), row| {
        (row.number("server_error_min").min(least), row.number("server_error_max").max(greatest))
    })
}

pub(in crate::experiments) fn whole_mix_claim(run: Run) -> String {
    format!("{}: errors of all processes", run_name(run))
}

fn whole_mix_inside(data: &Table, run: Run, (low, high): (f64, f64)) -> Verdict {
    let found = whole_mix(data, run);
    Verdict::of(whole_mix_claim(run), range((low, high)), range(found), found.0 >= low && found.1 <= high)
}

/// What is known of errors of others; no claim hangs on it.
fn others(data: &Table) -> impl Iterator<Item = Verdict> {
    let others = super::ALL_POLICIES.into_iter().filter(|(policy, _)| *policy != "gr3");
    others.map(|run| Verdict::measured(whole_mix_claim(run), "no claim", range(whole_mix(data, run))))
}

/// Of stand-ins for a kernel.
pub(in crate::experiments) fn kernel(data: &Table) -> Vec<Verdict> {
    let runs = [("linux24", 1), ("linux-o1", 1), ("linux24", 2), ("linux-o1", 2)];
    let there = runs.into_iter().filter(|&run| rows_of(data, run).next().is_some());
    there
        .flat_map(|run| {
            let said = "a staircase, the least even of all (paper, without a number)";
            [
                Verdict::measured(gap_claim(run), said, short(gap(data, run))),
                Verdict::measured(error_claim(run), said, range(errors(data, run))),
            ]
        })
        .collect()
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
    Verdict::measured(error_claim((policy, 1)), range(said), range(errors(data, (policy, 1))))
}

pub(in crate::experiments) fn staircase(data: &Table) -> Vec<Verdict> {
    let there = STAIRCASES.into_iter().filter(|&(policy, ..)| rows_of(data, (policy, 1)).next().is_some());
    there.flat_map(|said| [gap_at_least(data, (said.0, 1), STAIRCASE), measured_errors(data, said)]).collect()
}

pub(in crate::experiments) fn gr3(data: &Table) -> Vec<Verdict> {
    let gr3 = ("gr3", 1);
    let mut verdicts =
        vec![gap_at_most(data, gr3, 300.0), errors_inside(data, gr3, 1.1), whole_mix_inside(data, gr3, (-2.0, 2.0))];
    verdicts.extend(staircase(data));
    verdicts.extend(STAIRCASES.iter().map(|&(policy, ..)| {
        let ratio = gap(data, gr3) / gap(data, (policy, 1));
        Verdict::of(format!("longest gap of gr3 over that of {policy}"), "at most 0.55", short(ratio), ratio <= 0.55)
    }));
    verdicts.extend(NO_CLAIM.iter().flat_map(|&said| {
        let run = (said.0, 1);
        [Verdict::measured(gap_claim(run), short(said.1), short(gap(data, run))), measured_errors(data, said)]
    }));
    verdicts
}

pub(in crate::experiments) fn gr3mp(data: &Table) -> Vec<Verdict> {
    let on = |processors: usize| {
        let run = ("gr3mp", processors);
        let even = EVEN_GAP / processors as f64;
        [gap_at_most(data, run, 2.0 * even), whole_mix_inside(data, run, (-2.5, 2.5))]
    };
    [2, 8].into_iter().flat_map(on).collect()
}

pub(in crate::experiments) fn second(data: &Table) -> Vec<Verdict> {
    [whole_mix_inside(data, ("gr3", 1), (-2.0, 1.4))].into_iter().chain(others(data)).collect()
}

pub(in crate::experiments) fn third(data: &Table) -> Vec<Verdict> {
    [whole_mix_inside(data, ("gr3", 1), (-2.3, 2.3))].into_iter().chain(others(data)).collect()
}
