//! What keeps a comparison from showing anything.

use super::facts::{Facts, LENGTHS, PolicyFacts, RunFacts};
use super::{Finding, Topic, hot};
use crate::figures::{percent, time};
use crate::meaning::TOLERANCE;

/// Below this part of its tolerance, no packet came near it.
const NEAR: f64 = 0.1;
/// Cores that are less busy let hardly a packet wait.
const IDLE: f64 = 0.1;
/// Above this part of the packets, those that waited at once are many.
const WAITING: f64 = 0.01;

/// Too few packets to measure.
pub(super) fn few(facts: &Facts) -> Vec<Finding> {
    let Some(measured) = facts.too_few_packets() else { return Vec::new() };
    let warm_up = facts.policies.iter().flat_map(|policy| &policy.runs).any(|run| run.warm_up > 0);
    let text = match measured {
        0 => "The warm-up leaves no packet to measure: shorten it, or use longer traffic.".to_owned(),
        _ if warm_up => format!(
            "The warm-up leaves {measured} of {} packets to measure: too few for a 99th percentile.",
            facts.packets
        ),
        _ => format!("A run has only {measured} packets: too few for a 99th percentile."),
    };
    vec![Finding::new(Topic::Vacuous, text)]
}

/// Nothing to decide: packets were served as they came.
pub(super) fn nothing_waited(facts: &Facts) -> Vec<Finding> {
    let most =
        |of: &dyn Fn(&RunFacts) -> f64| facts.policies.iter().map(|policy| policy.greatest(of)).fold(0.0, f64::max);
    let waited = most(&|run| run.queue_max as f64);
    let busy = most(&RunFacts::busy_mean);
    let few = waited <= 2.0 * facts.cores as f64 && waited <= WAITING * facts.packets as f64;
    let idle = busy < IDLE && few;
    if facts.packets == 0 || facts.line_rate || !(idle || waited <= 1.0) {
        return Vec::new();
    }
    let policies = if facts.policies.len() > 1 { "policies" } else { "policy" };
    let text = format!(
        "Hardly a packet waited (at most {waited:.0} at once, cores busy {}), so the {policies} had nothing to decide.",
        percent(busy)
    );
    vec![Finding::new(Topic::Vacuous, text)]
}

/// A tolerance that no packet could miss, or came near.
pub(super) fn tolerance(facts: &Facts) -> Vec<Finding> {
    let runs = || facts.policies.iter().flat_map(|policy| &policy.runs);
    let length = runs().map(|run| run.duration_ns).max().unwrap_or(0);
    let slowest = facts.policies.iter().map(|policy: &PolicyFacts| policy.greatest(|run| run.max)).fold(0.0, f64::max);
    let lost = runs().any(|run| run.lost() > 0.0);
    let tolerance = facts.tolerance_ns;
    if facts.packets == 0 || lost || facts.line_rate {
        return Vec::new();
    }
    let asked = tolerance != TOLERANCE.as_nanos() as u64;
    let tolerated = time(tolerance as f64).replace(".0 ", " ");
    let text = if length < LENGTHS.saturating_mul(tolerance) {
        format!("The run is too short to judge a tolerance of {tolerated}: it lasts {}.", time(length as f64))
    } else if asked && slowest < NEAR * tolerance as f64 {
        let policies = if facts.policies.len() > 1 { ", so lateness does not tell the policies apart" } else { "" };
        format!("No packet came near its tolerance of {tolerated}: the slowest took {}{policies}.", time(slowest))
    } else {
        return Vec::new();
    };
    // Cores that are overloaded matter more than the length of the run.
    let is_vacuous = asked && hot::all_growing(facts).is_empty();
    vec![Finding::new(if is_vacuous { Topic::Vacuous } else { Topic::Short }, text)]
}

#[cfg(test)]
mod tests {
    use super::super::facts::Place;
    use super::super::tests::{facts, lost, run, said};
    use super::*;

    fn of(rule: fn(&Facts) -> Vec<Finding>, run: RunFacts) -> String {
        said(&rule(&facts(&[("a", &[run])])))
    }

    #[test]
    fn few_packets_are_too_few() {
        assert!(of(few, RunFacts { packets: 900, ..run() }).contains("A run has only 900 packets"));
        assert!(of(few, RunFacts { warm_up: 9_900, ..run() }).contains("leaves 100 of 10000 packets"));
        assert!(of(few, RunFacts { warm_up: 10_000, ..run() }).contains("leaves no packet"));
        assert_eq!(of(few, RunFacts { packets: 1000, ..run() }), "");
    }

    #[test]
    fn where_nothing_waits_nothing_is_decided() {
        assert!(
            of(nothing_waited, RunFacts { queue_max: 1, ..run() }).contains("at most 1 at once, cores busy 50.0 %")
        );
        let idle = RunFacts { busy: vec![0.01; 4], queue_max: 8, ..run() };
        assert!(of(nothing_waited, idle.clone()).contains("so the policy had nothing to decide"));
        assert_eq!(of(nothing_waited, RunFacts { queue_max: 9, ..idle }) + &of(nothing_waited, run()), "");
    }

    #[test]
    fn many_packets_that_wait_at_once_are_not_hardly_any() {
        let of = |queue_max: u64| {
            let idle = RunFacts { busy: vec![0.001; 64], queue_max, ..run() };
            nothing_waited(&Facts { cores: 64, ..facts(&[("a", &[idle])]) }).len()
        };
        assert_eq!((of(100), of(101)), (1, 0), "of 10000 packets");
    }

    #[test]
    fn a_tolerance_that_no_packet_can_miss_says_nothing() {
        let short = RunFacts { duration_ns: 19_000_000, ..run() };
        let text = of(tolerance, short.clone());
        assert_eq!(text, "Short: The run is too short to judge a tolerance of 2.00 ms: it lasts 19.0 ms.");
        let asked = |ns: u64, run: RunFacts| said(&tolerance(&Facts { tolerance_ns: ns, ..facts(&[("a", &[run])]) }));
        assert!(asked(3_000_000, short).starts_with("Vacuous: The run is too short"));
        assert!(
            asked(10_000_000, run()).contains("No packet came near its tolerance of 10 ms: the slowest took 900 us.")
        );
        assert_eq!(asked(8_000_000, run()) + &of(tolerance, run()), "", "900 us are more than a tenth of 8 ms");
        assert_eq!(of(tolerance, RunFacts { duration_ns: 1000, ..lost(Place::Buffer, 1) }), "");
    }
}
