//! Whether the figures can be believed.

use super::facts::{Facts, PolicyFacts, RunFacts};
use super::hot::{BUSY, NEARLY_FULL};
use super::split::Figure;
use super::words::{names, part};
use super::{Finding, Topic};
use crate::figures::time;
use crate::statistics::CONFIDENCE;

/// What forbids to use the figures, the worst first.
pub(super) fn invalid(facts: &Facts) -> Vec<Finding> {
    let unaccounted = facts
        .unaccounted
        .as_ref()
        .map(|policy| format!("Packets are unaccounted for under {policy}: do not use these figures."));
    let empty = (facts.packets == 0).then(|| "The input has no packets: there is nothing to measure.".to_owned());
    let damage =
        facts.damage.as_ref().map(|damage| format!("The input is damaged, and was read up to the damage: {damage}."));
    let panic = facts.panic.as_ref().map(|panic| {
        format!(
            "The service {} panicked at {} packets under {}, and the packets were dropped: this is a defect of the service.",
            panic.service, panic.packets, panic.policy
        )
    });
    let found = [unaccounted, empty, ended_early(facts), damage, panic];
    found.into_iter().flatten().map(|text| Finding::new(Topic::Invalid, text)).collect()
}

fn ended_early(facts: &Facts) -> Option<String> {
    let runs: usize = facts.policies.iter().map(|policy| policy.runs.len()).sum();
    let planned = facts.policies.len() * facts.repetitions as usize;
    if runs < planned {
        return Some(format!("The comparison was ended early: it has {runs} of {planned} runs."));
    }
    match planned {
        _ if !facts.interrupted => None,
        1 if facts.endless => None,
        1 => {
            let packets = facts.packets;
            Some(format!("The run was ended early, after {packets} packets: the rest of the input is missing."))
        }
        _ => Some(last_run_ended_early(facts)),
    }
}

/// Says how much of the last run of a comparison is missing.
fn last_run_ended_early(facts: &Facts) -> String {
    let packets = || facts.policies.iter().flat_map(|policy| &policy.runs).map(|run| run.packets);
    let (least, most) = (packets().min().unwrap_or(0), packets().max().unwrap_or(0));
    if facts.endless || least == most {
        return "The comparison was ended early: its last run is not whole.".to_owned();
    }
    format!("The comparison was ended early: its last run has only {least} of {most} packets.")
}

/// What jumps of the input's clock do.
pub(super) fn clock(facts: &Facts) -> Vec<Finding> {
    let jumps = facts.clock_jumps.iter();
    jumps.map(|jumps| Finding::new(Topic::Trust, format!("The clock of the input jumps: {jumps}."))).collect()
}

/// Whether threads shared processors, where nothing is lost: loss has its own rule.
pub(super) fn shared(facts: &Facts) -> Vec<Finding> {
    let lossy = facts.policies.iter().any(|policy| policy.greatest(|run| Figure::Lost.of(run)) > 0.0);
    let rank = if facts.policies.len() > 1 { ", and do not rank the policies" } else { "" };
    let text = format!("Threads shared processors: delays include waits for a processor{rank}.");
    let topic = if lossy { Topic::Trust } else { Topic::Shared };
    (facts.shared && facts.real_time).then(|| Finding::new(topic, text)).into_iter().collect()
}

/// Whether a core and the dispatcher share a processor that is busy nearly all the time, and the dispatcher alone would
/// not keep it as busy.
pub(super) fn beside_dispatcher(facts: &Facts) -> Vec<Finding> {
    let Some(core) = facts.beside_dispatcher else { return Vec::new() };
    // The time of the dispatcher includes that of the core.
    let both = |run: &RunFacts| run.dispatchers.iter().copied().fold(0.0, f64::max);
    let alone = |run: &RunFacts| both(run) - run.busy.get(core).copied().unwrap_or(0.0);
    let busy = |policy: &PolicyFacts| policy.median(both);
    let is_full = |policy: &PolicyFacts| busy(policy) >= NEARLY_FULL && policy.median(alone) < BUSY;
    let full: Vec<&PolicyFacts> = facts.policies.iter().filter(|policy| is_full(policy)).collect();
    // With one core there is nothing to leave.
    if full.is_empty() || core == 0 {
        return Vec::new();
    }
    let least = if full.len() > 1 { "at least " } else { "" };
    let under = if facts.policies.len() > 1 { format!(" under {}", names(&full)) } else { String::new() };
    let text = format!(
        "Core {core} shares a processor with the dispatcher, and both kept it busy {least}{} of the time{under}, so \
         packets wait for the dispatcher. Give it a processor of its own (--cores {core}).",
        part(full.iter().map(|policy| busy(policy)).fold(1.0, f64::min))
    );
    vec![Finding::new(Topic::Shared, text)]
}

/// What the repetitions are worth.
pub(super) fn repetitions(facts: &Facts) -> Vec<Finding> {
    let repetitions = facts.whole_repetitions();
    if facts.policies.len() < 2 && repetitions < 2 {
        return Vec::new();
    }
    let text = if repetitions < 2 {
        let sample =
            if facts.real_time { "on a machine that does other things too" } else { "on one sample of the traffic" };
        format!("Each policy was run once, {sample}: repeat it (--repeat 7) before you rely on differences.")
    } else if facts.repeats_itself() {
        format!(
            "All {repetitions} repetitions are exactly alike: nothing in this input or in these policies is random."
        )
    } else {
        format!(
            "Figures are medians of {repetitions} repetitions; differences are tested at {:.0} % for the whole page.{}",
            100.0 * CONFIDENCE,
            spread(facts)
        )
    };
    vec![Finding::new(Topic::Trust, text)]
}

/// How far the repetitions of the policy with the shortest delays lie apart.
fn spread(facts: &Facts) -> String {
    let p99 = |policy: &PolicyFacts| policy.median(|run| run.p99);
    let Some(best) = facts.policies.iter().min_by(|a, b| p99(a).total_cmp(&p99(b))) else { return String::new() };
    let least = best.values(|run| run.p99).into_iter().fold(f64::INFINITY, f64::min);
    let (least, most) = (time(least), time(best.greatest(|run| run.p99)));
    if least == most {
        return String::new();
    }
    format!(" Under {} the delay of 99 of 100 packets ranged from {least} to {most}.", best.name)
}

#[cfg(test)]
mod tests {
    use super::super::facts::{PanicFacts, Place};
    use super::super::tests::{facts, lost, run, said};
    use super::*;

    #[test]
    fn what_forbids_the_figures_is_said() {
        let good = facts(&[("a", &[run()]), ("b", &[run()])]);
        assert_eq!(invalid(&good), []);
        let panic = PanicFacts { policy: "a".to_owned(), service: "dpi".to_owned(), packets: 3 };
        let bad = Facts {
            unaccounted: Some("b".to_owned()),
            damage: Some("in.pcap: cut".to_owned()),
            panic: Some(panic),
            repetitions: 2,
            ..good
        };
        let texts: Vec<String> = invalid(&bad).into_iter().map(|finding| finding.text).collect();
        assert_eq!(texts[0], "Packets are unaccounted for under b: do not use these figures.");
        assert_eq!(texts[1], "The comparison was ended early: it has 2 of 4 runs.");
        assert_eq!(texts[2], "The input is damaged, and was read up to the damage: in.pcap: cut.");
        assert!(texts[3].starts_with("The service dpi panicked at 3 packets under a"), "{texts:?}");
        let empty = Facts { packets: 0, ..facts(&[("a", &[RunFacts::default()])]) };
        assert_eq!(said(&invalid(&empty)), "Invalid: The input has no packets: there is nothing to measure.");
        let cut = Facts { interrupted: true, ..facts(&[("a", &[run()])]) };
        let text = "Invalid: The run was ended early, after 10000 packets: the rest of the input is missing.";
        assert_eq!(said(&invalid(&cut)), text);
    }

    #[test]
    fn a_run_from_an_interface_is_ended_and_not_cut() {
        let ended = |runs: &[(&str, &[RunFacts])], endless: bool| {
            said(&invalid(&Facts { interrupted: true, endless, ..facts(runs) }))
        };
        assert_eq!(ended(&[("a", &[run()])], true), "");
        let cut = RunFacts { packets: 300, ..run() };
        let text = "Invalid: The comparison was ended early: its last run has only 300 of 10000 packets.";
        assert_eq!(ended(&[("a", &[run()]), ("b", &[cut])], false), text);
        assert!(ended(&[("a", &[run()]), ("b", &[run()])], true).ends_with("its last run is not whole."));
    }

    #[test]
    fn jumps_of_the_clock_are_no_loss() {
        let jumps = Facts { clock_jumps: Some("in.pcap: twice".to_owned()), ..facts(&[("a", &[run()])]) };
        assert_eq!(said(&clock(&jumps)), "Trust: The clock of the input jumps: in.pcap: twice.");
        assert_eq!(clock(&facts(&[("a", &[run()])])), []);
    }

    #[test]
    fn shared_processors_come_first_unless_packets_are_lost() {
        let on = |runs: &[RunFacts]| Facts { shared: true, real_time: true, ..facts(&[("a", runs)]) };
        assert!(said(&shared(&on(&[run()]))).starts_with("Shared: Threads shared processors"));
        assert!(said(&shared(&on(&[lost(Place::Buffer, 5)]))).starts_with("Trust: "));
        assert_eq!(shared(&Facts { real_time: false, ..on(&[run()]) }), []);
    }

    #[test]
    fn a_core_beside_a_busy_dispatcher_is_told() {
        let of = |dispatcher: f64, core: f64, beside: Option<usize>| {
            let run = RunFacts { dispatchers: vec![dispatcher], busy: vec![core; 2], ..run() };
            let facts = facts(&[("a", &[run]), ("b", &[super::super::tests::run()])]);
            said(&beside_dispatcher(&Facts { beside_dispatcher: beside, on_assumed_host: true, ..facts }))
        };
        let text = of(0.97, 0.5, Some(1));
        assert!(text.starts_with("Shared: Core 1 shares a processor with the dispatcher"), "{text}");
        assert!(text.contains("97 % of the time under a, so") && text.ends_with("(--cores 1)."), "{text}");
        assert_eq!(of(0.87, 0.5, Some(1)), "", "the processor has time left");
        assert_eq!(of(0.97, 0.5, None), "", "the dispatcher has one of its own");
        assert_eq!(of(0.97, 0.5, Some(0)), "", "there is no core to do without");
        assert_eq!(of(0.97, 0.1, Some(1)), "", "the dispatcher alone leaves little time");
    }

    #[test]
    fn repetitions_say_what_they_are_worth() {
        let of = |runs: &[RunFacts]| said(&repetitions(&facts(&[("a", runs), ("b", runs)])));
        assert!(of(&[run()]).contains("Each policy was run once, on one sample"));
        assert!(of(&[run(), run()]).contains("All 2 repetitions are exactly alike"));
        let text = of(&[run(), RunFacts { p99: 70_000.0, ..run() }]);
        assert!(text.contains("medians of 2 repetitions") && text.contains("from 50.0 us to 70.0 us"), "{text}");
        assert_eq!(repetitions(&facts(&[("a", &[run()])])), []);
    }
}
