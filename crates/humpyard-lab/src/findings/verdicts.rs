//! Packets that services dropped, as their rules say, where these are most.

use super::facts::{Facts, PolicyFacts, RunFacts};
use super::words::names;
use super::{Finding, Topic};
use crate::figures::percent;

/// From this part of the processed packets on, the services dropped most.
const MOST: f64 = 0.5;

fn rejected(run: &RunFacts) -> f64 {
    if run.processed == 0 { 0.0 } else { run.rejected as f64 / run.processed as f64 }
}

/// Whether the services dropped most packets under a policy.
pub(super) fn are_most(policy: &PolicyFacts) -> bool {
    policy.median(rejected) >= MOST
}

/// Most or all packets that services dropped. A panic has its own finding.
pub(super) fn verdicts(facts: &Facts) -> Vec<Finding> {
    let group: Vec<&PolicyFacts> = facts.policies.iter().filter(|policy| are_most(policy)).collect();
    let runs = || facts.policies.iter().flat_map(|policy| &policy.runs);
    let Some(run) = group.first().and_then(|policy| policy.runs.first()).filter(|_| facts.panic.is_none()) else {
        return Vec::new();
    };
    let by = facts.service();
    if runs().all(|run| run.forwarded == 0 && rejected(run) >= MOST) {
        let text = format!("No packet went out: {by} dropped {}{}.", amount(run), reason(run));
        return vec![Finding::new(Topic::Nothing, text)];
    }
    let under = if group.len() < facts.policies.len() { format!(" under {}", names(&group)) } else { String::new() };
    let part = percent(group[0].median(rejected));
    let text = format!("Most packets did not go out{under}: {by} dropped {part} of those processed{}.", reason(run));
    let are_all = runs().all(|run| run.rejected == run.processed);
    vec![Finding::new(if are_all { Topic::Nothing } else { Topic::Verdicts }, text)]
}

/// `all 100`, or `90 of 100 processed`.
fn amount(run: &RunFacts) -> String {
    match (run.rejected, run.processed, run.packets) {
        (rejected, processed, packets) if rejected == processed && processed == packets => format!("all {rejected}"),
        (rejected, processed, _) if rejected == processed => format!("all {rejected} that were processed"),
        (rejected, processed, _) => format!("{rejected} of {processed} that were processed"),
    }
}

/// ` (rule_denied)`, the most frequent reason.
fn reason(run: &RunFacts) -> String {
    let Some((reason, packets)) = &run.verdict else { return String::new() };
    let mostly = if *packets < run.rejected { "mostly " } else { "" };
    format!(" ({mostly}{reason})")
}

impl Facts {
    /// The service, where all packets went to one.
    fn service(&self) -> &str {
        match self.services.as_slice() {
            [one] => one,
            _ => "the services",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{facts, run, said};
    use super::*;

    fn of(rejected: u64, forwarded: u64, denied: u64) -> Facts {
        let verdict = Some(("rule_denied".to_owned(), denied));
        let run = RunFacts { processed: 10_000, rejected, forwarded, verdict, ..run() };
        Facts { services: vec!["firewall".to_owned()], ..facts(&[("a", &[run])]) }
    }

    #[test]
    fn a_run_whose_services_drop_everything_says_so() {
        let text = "Nothing: No packet went out: firewall dropped all 10000 (rule_denied).";
        assert_eq!(said(&verdicts(&of(10_000, 0, 10_000))), text);
        let several = Facts { services: vec!["a".to_owned(), "b".to_owned()], ..of(10_000, 0, 9000) };
        assert!(said(&verdicts(&several)).ends_with("the services dropped all 10000 (mostly rule_denied)."));
        assert!(said(&verdicts(&of(9000, 0, 9000))).contains("firewall dropped 9000 of 10000 that were processed"));
        let mut lossy = of(9000, 0, 9000);
        lossy.policies[0].runs[0].processed = 9000;
        assert!(said(&verdicts(&lossy)).contains("firewall dropped all 9000 that were processed (rule_denied)."));
    }

    #[test]
    fn most_packets_come_later_than_all() {
        let text = "Verdicts: Most packets did not go out: firewall dropped 60.0 % of those processed (rule_denied).";
        assert_eq!(said(&verdicts(&of(6000, 4000, 6000))), text);
        assert!(said(&verdicts(&of(10_000, 5, 10_000))).starts_with("Nothing: Most packets did not go out"));
        assert_eq!(verdicts(&of(4999, 5001, 4999)), []);
        assert_eq!(verdicts(&facts(&[("a", &[run()])])), []);
    }
}
