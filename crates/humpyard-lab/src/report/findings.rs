//! What a comparison shows, in words, found from its figures.

use std::fmt::Write;

use crate::Comparison;
use crate::figures::{figure, percent, range};
use crate::statistics::{Figure, PolicyStatistics, Statistic};

/// From this ratio on two values are called different.
const DIFFERENT: f64 = 1.05;
/// Cores whose utilizations differ by more are called unequally busy.
const UNEQUAL: f64 = 0.1;

/// The findings, a sentence or two each; none without a run.
pub(super) fn findings(comparison: &Comparison) -> Vec<String> {
    let policies = &comparison.statistics;
    if policies.is_empty() {
        return Vec::new();
    }
    let mut findings: Vec<String> = subject(comparison).into_iter().collect();
    findings.push(delay(comparison));
    findings.extend(order(policies));
    findings.extend(late(policies));
    findings.extend(dropped(policies));
    findings.extend(throughput(policies));
    findings.extend(balance(policies));
    findings.extend(switches(policies));
    findings.push(trust(comparison));
    findings.extend(warnings(comparison));
    // No line ends before a unit.
    findings.iter().map(|finding| UNITS.iter().fold(finding.clone(), glue)).collect()
}

const UNITS: [&str; 8] = ["%", "ns", "us", "ms", "s", "pps", "kpps", "Mpps"];

/// Puts a space that does not break before this unit, wherever a number stands before it.
fn glue(text: String, unit: &&str) -> String {
    let mut words = text.split(' ').peekable();
    let mut glued = String::new();
    while let Some(word) = words.next() {
        glued.push_str(word);
        let number = word.ends_with(|c: char| c.is_ascii_digit());
        let Some(next) = words.peek() else { break };
        let next = next.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%');
        glued.push(if number && next == *unit { '\u{a0}' } else { ' ' });
    }
    glued
}

fn statistic<'a>(policy: &'a PolicyStatistics, key: &str) -> &'a Statistic {
    &policy.figures[key]
}

fn median(policy: &PolicyStatistics, key: &str) -> f64 {
    statistic(policy, key).median
}

fn shown(policy: &PolicyStatistics, key: &str) -> String {
    figure(Figure::find(key).kind, median(policy, key))
}

/// The policies by their median, from the least.
fn ranked<'a>(policies: &'a [PolicyStatistics], key: &str) -> Vec<&'a PolicyStatistics> {
    let mut ranked: Vec<&PolicyStatistics> = policies.iter().collect();
    ranked.sort_by(|a, b| median(a, key).total_cmp(&median(b, key)));
    ranked
}

/// `a`, `a and b`, `a, b and c`.
fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn names<'a>(policies: impl IntoIterator<Item = &'a PolicyStatistics>) -> String {
    list(&policies.into_iter().map(|policy| policy.policy.clone()).collect::<Vec<_>>())
}

fn times(ratio: f64) -> String {
    if ratio >= 10.0 { format!("{ratio:.0} times") } else { format!("{ratio:.1} times") }
}

/// What was compared.
fn subject(comparison: &Comparison) -> Option<String> {
    let run = comparison.runs.first()?;
    let repeated = match comparison.repetitions {
        1 => String::new(),
        repetitions => format!(", in each of {repetitions} repetitions"),
    };
    let (policies, packets, flows) = (names(&comparison.statistics), run.packets.arrived, run.flows);
    Some(format!("The same packets ({packets} of {flows} flows) were given to {policies}{repeated}."))
}

fn delay(comparison: &Comparison) -> String {
    let ranked = ranked(&comparison.statistics, "delay_p99_ns");
    let (best, worst) = (ranked[0], ranked[ranked.len() - 1]);
    let [typical, slow] = ["delay_p50_ns", "delay_p99_ns"].map(|key| shown(best, key));
    if ranked.len() == 1 {
        return format!(
            "Under {} half of the packets were done within {typical}, and 99 of 100 within {slow}.",
            best.policy
        );
    }
    let ratio = median(worst, "delay_p99_ns") / median(best, "delay_p99_ns").max(1.0);
    if ratio < DIFFERENT {
        return format!("Delay was much the same under all policies: 99 of 100 packets were done within {slow}.");
    }
    let mut text = format!(
        "{} had the shortest delays: 99 of 100 packets were done within {slow} (half within {typical}). The longest had {}, with \
         {}, {} as long.",
        best.policy,
        worst.policy,
        shown(worst, "delay_p99_ns"),
        times(ratio)
    );
    if let Some(wins) = wins(comparison, best) {
        text.push_str(&wins);
    }
    if let [Some(best), Some(worst)] = [best, worst].map(|policy| statistic(policy, "delay_p99_ns").confidence)
        && worst.low <= best.high
    {
        text.push_str(" But their confidence intervals overlap, so more repetitions may rank them otherwise.");
    }
    let typical = self::ranked(&comparison.statistics, "delay_p50_ns")[0];
    if median(best, "delay_p50_ns") / median(typical, "delay_p50_ns").max(1.0) >= DIFFERENT {
        let _ = write!(
            text,
            " The typical packet, though, was done soonest under {}: half within {}.",
            typical.policy,
            shown(typical, "delay_p50_ns")
        );
    }
    text
}

/// In how many repetitions, on identical arrivals, this policy had the least of all.
fn wins(comparison: &Comparison, best: &PolicyStatistics) -> Option<String> {
    let values = |policy: &PolicyStatistics| statistic(policy, "delay_p99_ns").values.clone();
    let best_values = values(best);
    let all: Vec<Vec<f64>> = comparison.statistics.iter().map(values).collect();
    if best_values.len() < 2 || all.iter().any(|values| values.len() != best_values.len()) {
        return None;
    }
    let least = |repetition: &usize| all.iter().all(|values| values[*repetition] >= best_values[*repetition]);
    let won = (0..best_values.len()).filter(least).count();
    Some(format!(" {} was first in {won} of {} repetitions.", best.policy, best_values.len()))
}

fn order(policies: &[PolicyStatistics]) -> Option<String> {
    let key = "out_of_order_fraction";
    let (kept, broken): (Vec<_>, Vec<_>) = policies.iter().partition(|policy| statistic(policy, key).max == 0.0);
    if broken.is_empty() {
        return Some(match policies {
            [one] => format!("{} kept the packets of every flow in order.", one.policy),
            _ => "All kept the packets of every flow in order.".to_owned(),
        });
    }
    let each = broken.iter().map(|policy| format!("{} let {} of the packets leave", policy.policy, shown(policy, key)));
    let mut text = format!("{} after a later packet of their flow", list(&each.collect::<Vec<_>>()));
    if !kept.is_empty() {
        let _ = write!(text, "; {} kept every flow in order", names(kept));
    }
    text.push('.');
    Some(text)
}

fn late(policies: &[PolicyStatistics]) -> Option<String> {
    let key = "late_fraction";
    let ranked = ranked(policies, key);
    let (best, worst) = (ranked[0], ranked[ranked.len() - 1]);
    if policies.iter().all(|policy| statistic(policy, key).max == 0.0) {
        return Some("No packet was later than its service tolerates.".to_owned());
    }
    Some(if policies.len() == 1 || shown(best, key) == shown(worst, key) {
        format!("{} of the packets were later than their service tolerates.", shown(worst, key))
    } else {
        format!(
            "Later than their service tolerates were {} of the packets under {}, and {} under {}.",
            shown(best, key),
            best.policy,
            shown(worst, key),
            worst.policy
        )
    })
}

fn dropped(policies: &[PolicyStatistics]) -> Option<String> {
    let key = "dropped_fraction";
    let lossy: Vec<&PolicyStatistics> = policies.iter().filter(|policy| statistic(policy, key).max > 0.0).collect();
    if lossy.is_empty() {
        return Some("No packet was dropped.".to_owned());
    }
    let same = |policy: &PolicyStatistics| shown(policy, key) == shown(lossy[0], key);
    if policies.len() > 1 && median(lossy[0], key) > 0.0 && policies.iter().all(same) {
        return Some(format!("Of the packets that came in {} were dropped under each policy.", shown(lossy[0], key)));
    }
    let each = lossy.iter().map(|policy| match median(policy, key) {
        0.0 => format!("up to {} under {}", percent(statistic(policy, key).max), policy.policy),
        median => format!("{} under {}", percent(median), policy.policy),
    });
    Some(format!("Of the packets that came in {} were dropped.", list(&each.collect::<Vec<_>>())))
}

fn throughput(policies: &[PolicyStatistics]) -> Option<String> {
    let key = "throughput_pps";
    let ranked = ranked(policies, key);
    let (least, most) = (ranked[0], ranked[ranked.len() - 1]);
    let ratio = median(most, key) / median(least, key).max(1e-9);
    Some(if ratio < DIFFERENT {
        format!(
            "Throughput was {}{}.",
            shown(most, key),
            if policies.len() > 1 { " or nearly so under all" } else { "" }
        )
    } else {
        format!(
            "{} got the most done, {}; {} the least, {}.",
            most.policy,
            shown(most, key),
            least.policy,
            shown(least, key)
        )
    })
}

fn balance(policies: &[PolicyStatistics]) -> Option<String> {
    let spread = |policy: &PolicyStatistics| median(policy, "utilization_max") - median(policy, "utilization_min");
    let unequal: Vec<&PolicyStatistics> = policies.iter().filter(|policy| spread(policy) > UNEQUAL).collect();
    if unequal.is_empty() {
        return None;
    }
    let each = unequal.iter().map(|policy| {
        format!("{} from {} to {}", policy.policy, shown(policy, "utilization_min"), shown(policy, "utilization_max"))
    });
    Some(format!("Cores were not equally busy: under {}.", list(&each.collect::<Vec<_>>())))
}

fn switches(policies: &[PolicyStatistics]) -> Option<String> {
    let moving: Vec<&PolicyStatistics> = policies.iter().filter(|policy| median(policy, "switches") > 0.0).collect();
    let each = moving.iter().map(|policy| format!("{} times under {}", shown(policy, "switches"), policy.policy));
    (!moving.is_empty()).then(|| format!("Cores went over to another service {}.", list(&each.collect::<Vec<_>>())))
}

/// How far this can be trusted.
fn trust(comparison: &Comparison) -> String {
    let Some(interval) = statistic(&comparison.statistics[0], "delay_p99_ns").confidence else {
        let live = comparison.runs.iter().any(is_in_real_time);
        return format!(
            "Each policy was run once{}: repeat it (--repeat 7) before you rely on small differences.",
            if live { ", on a machine that does other things too" } else { ", on one sample of the traffic" }
        );
    };
    let same = comparison
        .statistics
        .iter()
        .flat_map(|policy| policy.figures.values())
        .all(|statistic| statistic.min == statistic.max);
    if same {
        return format!(
            "All {} repetitions are exactly alike: nothing in this input, and nothing in these policies, is random.",
            comparison.repetitions
        );
    }
    let best = ranked(&comparison.statistics, "delay_p99_ns")[0];
    let kind = Figure::find("delay_p99_ns").kind;
    let delay = statistic(best, "delay_p99_ns");
    let spread = if delay.min == delay.max { "was" } else { "ranged over" };
    format!(
        "Figures are medians of {} repetitions; their confidence intervals hold the true median with {} probability. The delay \
         that 99 of 100 packets had at most {spread} {} under {}.",
        comparison.repetitions,
        percent(interval.level),
        range(kind, delay),
        best.policy
    )
}

fn is_in_real_time(run: &crate::RunResult) -> bool {
    run.host == "live" && run.options.get("clock").is_none_or(|clock| clock == "real")
}

/// What a reader must know before believing anything.
fn warnings(comparison: &Comparison) -> Vec<String> {
    let runs = &comparison.runs;
    let mut warnings = Vec::new();
    if runs.iter().any(|run| run.interrupted) {
        warnings.push("The comparison was ended early: its last run is not whole.".to_owned());
    }
    if let Some(damage) = runs.iter().find_map(|run| run.damage.as_ref()) {
        warnings.push(format!("The input is damaged, and was read up to there: {}.", damage.message));
    }
    if let Some(run) = runs.iter().find(|run| !run.packets.balance()) {
        warnings.push(format!("Under {} packets are unaccounted for: do not use these figures.", run.policy));
    }
    if let Some(run) = runs.iter().find(|run| run.panic.is_some()) {
        warnings.push(format!("Under {} a service panicked; its packets were dropped.", run.policy));
    }
    if runs.iter().any(|run| is_in_real_time(run) && run.options.get("rate").is_some_and(|rate| rate == "line")) {
        warnings.push(
            "Packets came as fast as they were taken, so delay is mostly time in the buffer: give --rate to measure delay."
                .to_owned(),
        );
    }
    if runs.iter().any(|run| run.environment.threads.iter().any(|seat| seat.shared)) {
        warnings.push("Threads shared a processor, so delays have waits for it in them.".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_lists() {
        let list = |names: &[&str]| list(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a and b");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!((times(2.04), times(25.2)), ("2.0 times".to_owned(), "25 times".to_owned()));
    }
}
