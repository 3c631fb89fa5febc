//! Fairness, the balance of cores, and what services did.

use super::facts::{Facts, PolicyFacts};
use super::hot::UNEQUAL;
use super::split::{Figure, Outcome, Split};
use super::words::{list, names, part};
use super::{Finding, Topic, verdicts};
use crate::figures::percent;

/// An index below this is of clients that come and go, and says little about a policy.
const MEANINGFUL: f64 = 0.5;

/// Fairness between clients, where it differs.
pub(super) fn fairness(facts: &Facts) -> Vec<Finding> {
    let Outcome::Split(Split { ahead, behind, sure }) = facts.outcome(Figure::Fairness) else { return Vec::new() };
    let jain = |policy: &PolicyFacts| policy.median(|run| run.jain);
    let worst = behind[behind.len() - 1];
    if ahead.iter().any(|policy| jain(policy) < MEANINGFUL) {
        return Vec::new();
    }
    let text = format!(
        "{} shared most evenly between clients{}: Jain's index {:.3}, against {:.3} under {}.",
        names(&ahead),
        sure.caveat(),
        ahead.iter().map(|policy| jain(policy)).fold(f64::INFINITY, f64::min),
        jain(worst),
        worst.name
    );
    vec![Finding::new(Topic::Detail, text)]
}

/// Policies under which cores were not equally busy.
pub(super) fn balance(facts: &Facts) -> Vec<Finding> {
    let unequal = |policy: &PolicyFacts| {
        let ranks = policy.busy_by_rank();
        let (most, least) = (ranks.first()?, ranks.last()?);
        (most - least > UNEQUAL).then(|| format!("{} from {} to {}", policy.name, part(*least), part(*most)))
    };
    let each: Vec<String> = facts.policies.iter().filter_map(unequal).collect();
    let text = format!("Cores were not equally busy: {}.", list(&each));
    (!each.is_empty()).then(|| Finding::new(Topic::Detail, text)).into_iter().collect()
}

/// Switches between services, and packets that services rejected.
pub(super) fn services(facts: &Facts) -> Vec<Finding> {
    let of = |say: &dyn Fn(&PolicyFacts) -> Option<String>| facts.policies.iter().filter_map(say).collect::<Vec<_>>();
    let switches = of(&|policy| {
        let (count, time) =
            (policy.median(|run| run.switches as f64), policy.median(|run| run.switching(facts.switch_cost_ns)));
        (count > 0.0).then(|| format!("{count:.0} times under {} ({} of their time)", policy.name, percent(time)))
    });
    let rejected = of(&|policy| {
        let part = policy.median(|run| run.rejected as f64 / run.packets.max(1) as f64);
        (part > 0.0 && !verdicts::are_most(policy)).then(|| format!("{} under {}", percent(part), policy.name))
    });
    let mut found = Vec::new();
    if !switches.is_empty() {
        found.push(Finding::new(Topic::Detail, format!("Cores changed to another service {}.", list(&switches))));
    }
    if !rejected.is_empty() {
        let text = format!("Services dropped packets, as their rules say: {}.", list(&rejected));
        found.push(Finding::new(Topic::Detail, text));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::facts::RunFacts;
    use super::super::tests::{facts, run, said};
    use super::*;

    #[test]
    fn fairness_is_told_where_it_means_something() {
        let of = |a: f64, b: f64| {
            let jain = |jain: f64| RunFacts { jain, ..run() };
            said(&fairness(&facts(&[("a", &[jain(a)]), ("b", &[jain(b)])])))
        };
        let text =
            "Detail: b shared most evenly between clients in this one run: Jain's index 0.950, against 0.600 under a.";
        assert_eq!(of(0.6, 0.95), text);
        assert_eq!(of(0.94, 0.95) + &of(0.1, 0.2), "");
    }

    #[test]
    fn cores_that_are_not_equally_busy_are_told() {
        let uneven = RunFacts { busy: vec![0.2, 0.9, 0.5, 0.5], ..run() };
        let found = balance(&facts(&[("a", &[uneven]), ("b", &[run()])]));
        assert_eq!(said(&found), "Detail: Cores were not equally busy: a from 20 % to 90 %.");
        assert_eq!(balance(&facts(&[("a", &[run()])])), []);
    }

    #[test]
    fn switches_and_verdicts_are_told() {
        let of = |run: RunFacts| said(&services(&Facts { switch_cost_ns: 1_000_000, ..facts(&[("a", &[run])]) }));
        let text = "Detail: Cores changed to another service 400 times under a (10.0 % of their time).";
        assert_eq!(of(RunFacts { switches: 400, ..run() }), text);
        let text = "Detail: Services dropped packets, as their rules say: 1.00 % under a.";
        assert_eq!(of(RunFacts { rejected: 100, ..run() }), text);
        assert_eq!(of(run()), "");
    }
}
