//! What live threads show of figures 14 to 19. Under one policy on one processor the schedule does not depend on the
//! machine, and is held to PROPORTIONAL_SHARE section 5.4; the rest is measured.

use super::super::web_servers::servers::{EVEN_GAP, Run, rows_of};
use super::names::{KERNEL, live_rows};
use super::simulated;
use crate::harness::{Bound, Rows, Table, TableRow, Verdict, short};

/// A row of each run: the first of it.
fn runs(data: &Table) -> impl Iterator<Item = TableRow<'_>> + Clone {
    live_rows(data).at("server", 1.0).at("slot", 0.0)
}

fn is_by_kernel(row: &TableRow<'_>) -> bool {
    row.text("policy") == KERNEL
}

fn name(row: &TableRow<'_>) -> String {
    format!("{} on {}", row.text("policy"), row.number("processors"))
}

/// Claims, unless threads of a run could not be: then there are none.
fn of_whole(data: &Table, claims: impl FnOnce(&Table) -> Vec<Verdict>) -> Vec<Verdict> {
    let is_missing = runs(data).any(|row| !is_by_kernel(&row) && row.number("slots") == 0.0);
    if is_missing { Vec::new() } else { claims(data) }
}

/// What holds of all live runs, and what they take.
fn lived(data: &Table) -> Vec<Verdict> {
    let ran = || runs(data).filter(|row| row.number("slots") > 0.0);
    let by_policies = || ran().filter(|row| !is_by_kernel(row));
    let alone = || by_policies().at("processors", 1.0);
    let done = everywhere(
        "every unit of work that was given was done, and every process found what is in its text",
        ran(),
        |row| {
            row.number("units_given") == row.number("units_done")
                && row.number("slots") * row.number("units_per_slot") == row.number("units_done")
                && row.number("processes_right") == row.number("processes")
        },
    );
    let alike =
        everywhere("on one processor, each slot is of the process that has it in the simulator", alone(), |row| {
            row.number("slots_as_simulated") == row.number("slots")
        });
    let mut verdicts: Vec<Verdict> = done.into_iter().chain(alike).collect();
    verdicts.extend(by_policies().at("draw", 1.0).map(|row| {
        let slot = 1e3 * row.number("whole_ms") / row.number("slots");
        let (units, select) = (row.number("units_per_slot"), row.number("select_ns") / 1e3);
        Verdict::measured(
            format!("{}: us of a slot of {units} units of work, and of its select", name(&row)),
            "not said",
            format!("{}, {}", short(slot), short(select)),
        )
    }));
    verdicts.extend(
        runs(data).filter(|row| !row.text("note").is_empty()).map(|row| {
            Verdict::measured(format!("{}: where it ran", name(&row)), "as in the figure", row.text("note"))
        }),
    );
    verdicts
}

/// Something that must be so in each of these runs, or else which it is not of; nothing if there are none.
fn everywhere<'a>(
    claim: &str,
    runs: impl Iterator<Item = TableRow<'a>> + Clone,
    holds: impl Fn(&TableRow<'a>) -> bool,
) -> Option<Verdict> {
    let broken = |row: TableRow<'_>| format!("not of {}, draw {}", name(&row), row.number("draw"));
    Verdict::everywhere((claim, "in every run"), runs, holds, |count| format!("in all {count} runs"), broken)
}

/// What nice values come to, of runs that were possible.
fn by_kernel(data: &Table) -> Vec<Verdict> {
    let ran = runs(data).filter(|row| is_by_kernel(row) && row.number("slots") > 0.0 && row.number("draw") == 1.0);
    ran.map(|row| {
        let ratio = |of: &str| row.number(&format!("ratio_of_{of}"));
        let measured = format!(
            "{} by work, {} by processor time, in {} s, in which the latter has {} turns in the mean",
            short(ratio("service")),
            short(ratio("processor_time")),
            short(row.number("whole_ms") / 1e3),
            short(row.number("turns_of_lightest"))
        );
        let said = format!("{} by weights, {} by the kernel's table", short(ratio("weights")), short(ratio("nice")));
        Verdict::measured(
            format!("{}: a process of the greatest weight over one of the least", name(&row)),
            said,
            measured,
        )
    })
    .collect()
}

/// The evenness under the kernel, of the heavy processes.
fn staircase_of_kernel(data: &Table) -> Vec<Verdict> {
    let ran = runs(data).filter(|row| is_by_kernel(row) && row.number("slots") > 0.0);
    ran.flat_map(|row| {
        let run = (KERNEL, row.number("processors") as usize);
        let (gap, slots) = (simulated::gap(data, run), row.number("slots"));
        let gap = format!(
            "{} units of work, {} ms; {} units in a row, in the mean",
            short(gap),
            short(gap / slots * row.number("whole_ms")),
            short(row.number("slots_in_a_row"))
        );
        let errors = format!("{} units of work, of {slots} in all", simulated::errors(data, run));
        let said = "a staircase, the least even of all (paper, without a number)";
        [
            Verdict::measured(simulated::gap_claim(run), said, gap),
            Verdict::measured(simulated::error_claim(run), said, errors),
        ]
    })
    .collect()
}

pub(super) fn kernel(data: &Table) -> Vec<Verdict> {
    let mut verdicts = by_kernel(data);
    verdicts.extend(staircase_of_kernel(data));
    let gr3 = ("gr3", 1);
    if rows_of(data, gr3).next().is_some() {
        verdicts.extend(of_whole(data, |data| vec![simulated::gap_bounded(data, gr3, Bound::AtMost(300.0))]));
    }
    verdicts.extend(lived(data));
    verdicts
}

pub(super) fn staircase(data: &Table) -> Vec<Verdict> {
    of_whole(data, simulated::staircase).into_iter().chain(lived(data)).collect()
}

pub(super) fn gr3(data: &Table) -> Vec<Verdict> {
    of_whole(data, simulated::gr3).into_iter().chain(lived(data)).collect()
}

/// On several processors, whose slots do not end together: shown beside what is claimed where they do.
fn of_several(data: &Table, run: Run) -> [Verdict; 2] {
    let (most, gap) = (2.0 * EVEN_GAP, simulated::gap(data, run));
    let gap_said = format!("at most {most} slots of both processors, where they go in step");
    let (errors, errors_said) = (simulated::whole_mix(data, run), "-2.5 to 2.5, where they go in step");
    let is_inside = errors.least >= -2.5 && errors.greatest <= 2.5;
    [
        Verdict::of(simulated::gap_claim(run), gap_said, short(gap), gap <= most),
        Verdict::of(simulated::whole_mix_claim(run), errors_said, errors.to_string(), is_inside),
    ]
    .map(Verdict::on_this_machine)
}

pub(super) fn gr3mp(data: &Table) -> Vec<Verdict> {
    of_whole(data, |data| of_several(data, ("gr3mp", 2)).into()).into_iter().chain(lived(data)).collect()
}

/// Of mixes without a claim on gaps.
fn of_mix(data: &Table, claims: fn(&Table) -> Vec<Verdict>) -> Vec<Verdict> {
    let claimed = of_whole(data, |data| {
        let run = ("gr3mp", 2);
        let errors = simulated::whole_mix(data, run).to_string();
        let several = Verdict::measured(simulated::whole_mix_claim(run), "no claim", errors);
        claims(data).into_iter().chain([several]).collect()
    });
    claimed.into_iter().chain(by_kernel(data)).chain(lived(data)).collect()
}

pub(super) fn second(data: &Table) -> Vec<Verdict> {
    of_mix(data, simulated::second)
}

pub(super) fn third(data: &Table) -> Vec<Verdict> {
    of_mix(data, simulated::third)
}
