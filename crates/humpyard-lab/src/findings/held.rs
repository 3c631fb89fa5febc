//! Cores that are idle because order `hold` gives each client one core at a time.

use super::delay::MANY;
use super::facts::{Facts, PolicyFacts, RunFacts};
use super::{Finding, Topic};

/// Clients that keep less than this part of one core busy do not wait for each other.
const BUSY: f64 = 0.5;

impl Facts {
    /// `Order hold gives each client one core at a time: 3 of 4 cores had nothing to do`. `None`: that is not so.
    pub(super) fn held(&self, policy: &PolicyFacts) -> Option<String> {
        let idle = self.cores.saturating_sub(self.clients as usize);
        let busy = policy.median(RunFacts::busy_mean) * self.cores as f64;
        let is_held = self.promised == "hold" && self.clients > 0 && idle > 0 && busy >= BUSY;
        let cores = self.cores;
        let text =
            format!("Order hold gives each client one core at a time: {idle} of {cores} cores had nothing to do");
        is_held.then_some(text)
    }

    /// Says what would give idle cores work.
    pub(super) fn hold_remedy(&self) -> &'static str {
        if self.flows >= self.cores as u64 {
            "--flow-order exit uses them all."
        } else {
            "--flow-order exit lets several cores serve one client."
        }
    }
}

/// Idle cores where packets were late and none was lost: loss has its own rule.
pub(super) fn held(facts: &Facts) -> Vec<Finding> {
    let is_late = |policy: &&PolicyFacts| policy.median(|run| run.late) >= MANY && policy.is_lossless();
    let held = facts.policies.iter().filter(is_late).find_map(|policy| facts.held(policy));
    let text = held.map(|held| format!("{held}. {}", facts.hold_remedy()));
    text.into_iter().map(|text| Finding::new(Topic::Late, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::Place;
    use super::super::loss;
    use super::super::tests::{facts, lost, run, said};
    use super::*;

    fn of(clients: u64, run: RunFacts) -> Facts {
        Facts { promised: "hold".to_owned(), clients, ..facts(&[("a", &[run])]) }
    }

    #[test]
    fn cores_that_order_keeps_idle_are_counted() {
        let lossy = RunFacts { busy: vec![0.9, 0.0, 0.0, 0.0], ..lost(Place::Buffer, 500) };
        let text = "Imbalance: Order hold gives each client one core at a time: 3 of 4 cores had nothing to do, and a lost 5.00 % of \
                    the packets. --flow-order exit uses them all.";
        assert_eq!(said(&loss::lost(&of(1, lossy.clone()))), text);
        assert!(said(&loss::lost(&of(4, lossy.clone()))).starts_with("Bursts"), "each core could have a client");
        let few = Facts { flows: 2, ..of(1, lossy.clone()) };
        assert!(said(&loss::lost(&few)).ends_with("--flow-order exit lets several cores serve one client."));
        let idle = RunFacts { busy: vec![0.1, 0.1, 0.0, 0.0], ..lossy };
        assert!(said(&loss::lost(&of(2, idle))).starts_with("Bursts"), "no client had a core all the time");
    }

    #[test]
    fn late_packets_of_few_clients_have_the_same_cause() {
        let late = RunFacts { late: 0.2, busy: vec![0.9, 0.0, 0.0, 0.0], ..run() };
        assert!(said(&held(&of(1, late.clone()))).starts_with("Late: Order hold gives each client one core"));
        assert_eq!(held(&Facts { promised: "exit".to_owned(), ..of(1, late) }), []);
        assert_eq!(held(&of(1, RunFacts { busy: vec![0.9, 0.0, 0.0, 0.0], ..run() })), []);
    }
}
