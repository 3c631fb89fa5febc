//! Live runs whose threads lacked a processor.

use super::delay::MANY;
use super::facts::{FEW, Facts, PolicyFacts, RunFacts};
use super::words::{part, sentence};
use super::{Finding, Topic};
use crate::bottleneck::OVERDUE_NS;
use crate::figures::{percent, time};

/// Threads that are busier than this had work of their own to do.
const IDLE: f64 = 0.5;

fn is_troubled(run: &RunFacts) -> bool {
    run.lost() >= FEW || run.late >= MANY
}

/// How busy the workers were, or the dispatchers that did their work.
fn threads(run: &RunFacts) -> &[f64] {
    if run.busy.is_empty() { &run.dispatchers } else { &run.busy }
}

/// Whether a packet waited for longer than any thread worked, and for long.
fn waited_for_nothing(run: &RunFacts) -> bool {
    let busiest = threads(run).iter().copied().fold(0.0, f64::max);
    run.max >= OVERDUE_NS as f64 && run.max > busiest * run.duration_ns as f64
}

/// Whether packets were lost or late though no thread was busy, and waited for long before a thread took them.
fn is_starved(run: &RunFacts) -> bool {
    let is_idle = !run.is_dispatcher_full && threads(run).iter().all(|busy| *busy < IDLE);
    is_troubled(run) && is_idle && (run.overdue_ns >= OVERDUE_NS || waited_for_nothing(run))
}

impl Facts {
    /// Whether a lack of processors made most of the lossy or late runs of a policy so. Shared processors have their own rule, and
    /// packets that come as fast as they are taken wait for that alone.
    pub(super) fn lacked_processor(&self, policy: &PolicyFacts) -> bool {
        let count = |of: fn(&RunFacts) -> bool| policy.runs.iter().filter(|run| of(run)).count();
        let starved = count(is_starved);
        self.real_time && !self.line_rate && !self.shared && starved > 0 && 2 * starved >= count(is_troubled)
    }

    /// The policies that lacked a processor.
    fn all_starved(&self) -> Vec<&PolicyFacts> {
        self.policies.iter().filter(|policy| self.lacked_processor(policy)).collect()
    }

    /// Whether a policy lacked a processor, so that differences between policies say little.
    pub(super) fn is_starved(&self) -> bool {
        !self.all_starved().is_empty()
    }
}

/// Loss or lateness for want of a processor.
pub(super) fn starved(facts: &Facts) -> Vec<Finding> {
    let group = facts.all_starved();
    if group.is_empty() {
        return Vec::new();
    }
    let waited = waited(&group);
    let policies = if facts.policies.len() > 1 { "policies" } else { "policy" };
    let lossy: Vec<&PolicyFacts> = group.into_iter().filter(|policy| policy.greatest(RunFacts::lost) >= FEW).collect();
    let lost = if lossy.is_empty() {
        String::new()
    } else {
        let (who, range) = (facts.who(&lossy), range(&lossy));
        format!(" {} lost {range} of the packets.", sentence(&who))
    };
    let text = format!(
        "The threads lacked a processor: packets {waited}, so the figures say little about the {policies}.{lost}"
    );
    vec![Finding::new(Topic::Shared, text)]
}

/// `were overdue by up to 60 ms`, or `waited up to 150 ms with cores 1 % busy` where the dispatcher took them in time.
fn waited(group: &[&PolicyFacts]) -> String {
    let most = |of: fn(&RunFacts) -> f64| group.iter().map(|policy| policy.greatest(of)).fold(0.0, f64::max);
    let rounded = |ns: f64| time(ns).replace(".0 ", " ");
    let overdue = most(|run| run.overdue_ns as f64);
    if overdue >= OVERDUE_NS as f64 {
        return format!("were overdue by up to {}", rounded(overdue));
    }
    format!("waited up to {} with cores {} busy", rounded(most(|run| run.max)), part(most(RunFacts::busy_mean)))
}

/// The loss of these policies, without a rank.
fn range(lossy: &[&PolicyFacts]) -> String {
    let lost = || lossy.iter().map(|policy| policy.greatest(RunFacts::lost));
    let (least, most) = (lost().fold(1.0, f64::min), lost().fold(0.0, f64::max));
    let (least, most) = (percent(least), percent(most));
    if least == most { most } else { format!("{least} to {most}") }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Place;
    use super::super::tests::{facts, lost, run, said};
    use super::super::{delay, found};
    use super::*;

    fn lacking(run: RunFacts) -> RunFacts {
        RunFacts { busy: vec![0.01; 4], overdue_ns: 60_000_000, ..run }
    }

    fn of(run: RunFacts) -> Facts {
        Facts { real_time: true, ..facts(&[("a", &[run])]) }
    }

    #[test]
    fn threads_without_a_processor_come_before_the_cause_of_loss() {
        let first = |facts: &Facts| found(facts)[0].text.clone();
        let text = "The threads lacked a processor: packets were overdue by up to 60 ms, so the figures say little about the policy.";
        assert_eq!(first(&of(lacking(lost(Place::Buffer, 500)))), format!("{text} a lost 5.00 % of the packets."));
        assert_eq!(first(&of(lacking(RunFacts { late: 0.4, ..run() }))), text);
    }

    #[test]
    fn a_packet_that_waits_longer_than_any_worker_works_waits_for_a_processor() {
        let waited = |ms: f64| RunFacts { max: 1e6 * ms, late: 0.4, busy: vec![0.01; 4], ..run() };
        let text = "Shared: The threads lacked a processor: packets waited up to 150 ms with cores 1 % busy, so the figures say little \
                    about the policy.";
        assert_eq!(said(&starved(&of(waited(150.0)))), text);
        assert_eq!(starved(&of(waited(19.0))), [], "not for long");
        let worked = RunFacts { busy: vec![0.2, 0.0, 0.0, 0.0], ..waited(150.0) };
        assert_eq!(starved(&of(worked)), [], "a worker had 200 ms of work");
    }

    #[test]
    fn threads_that_were_busy_or_in_time_lacked_none() {
        let lossy = || lacking(lost(Place::Buffer, 500));
        let others = [
            RunFacts { busy: vec![0.6, 0.1, 0.1, 0.1], ..lossy() },
            RunFacts { overdue_ns: 19_000_000, ..lossy() },
            RunFacts { is_dispatcher_full: true, ..lossy() },
            RunFacts { busy: Vec::new(), dispatchers: vec![0.9], ..lossy() },
            lacking(run()),
        ];
        assert!(others.into_iter().all(|run| starved(&of(run)).is_empty()));
        assert_eq!(starved(&Facts { real_time: false, ..of(lossy()) }), []);
        assert_eq!(starved(&Facts { shared: true, ..of(lossy()) }), [], "the shared processor has its own rule");
    }

    #[test]
    fn threads_without_a_processor_make_no_policy_the_better_one() {
        let slow = RunFacts { p99: 90_000.0, ..lacking(lost(Place::Buffer, 500)) };
        let runs = vec![slow; 7];
        let both = Facts { real_time: true, ..facts(&[("a", &runs), ("b", &vec![run(); 7])]) };
        let text = "Alike: Delays do not differ significantly: 99 of 100 served packets were done within 50.0 us to 90.0 us, and \
                    threads lacked a processor.";
        assert_eq!(said(&delay::delay(&both)), text);
        assert!(found(&both).iter().all(|finding| !finding.text.contains("confidence)")));
        let more = vec![lacking(lost(Place::Buffer, 900)); 7];
        let all = Facts { real_time: true, ..facts(&[("a", &runs), ("b", &more)]) };
        assert!(said(&starved(&all)).ends_with(" The policies lost 5.00 % to 9.00 % of the packets."));
    }
}
