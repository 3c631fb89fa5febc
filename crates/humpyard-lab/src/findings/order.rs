//! Whether packets kept their order.

use super::facts::Facts;
use super::split::{Figure, Outcome, Split};
use super::{Finding, Topic};

/// Out-of-order packets, of all, from which on the order matters more than the delay.
const MANY: f64 = 0.01;

fn most(facts: &Facts) -> f64 {
    facts.policies.iter().map(|policy| policy.greatest(|run| run.out_of_order)).fold(0.0, f64::max)
}

/// A promise of order that the exit's bounds broke.
pub(super) fn promise(facts: &Facts) -> Vec<Finding> {
    if facts.promised == "free" || most(facts) == 0.0 {
        return Vec::new();
    }
    let broke: Vec<_> = facts.policies.iter().filter(|policy| policy.greatest(|run| run.out_of_order) > 0.0).collect();
    let text = format!(
        "{} broke the promised order ({}): {} of the packets left after later ones of their flow{}.",
        facts.who(&broke),
        facts.promised,
        facts.range(&broke, Figure::OutOfOrder),
        facts.range_caveat(&broke, Figure::OutOfOrder)
    );
    vec![Finding::new(Topic::Promise, text)]
}

/// Order where it is not promised.
pub(super) fn order(facts: &Facts) -> Vec<Finding> {
    if facts.packets == 0 || (facts.promised != "free" && most(facts) > 0.0) {
        return Vec::new();
    }
    let all = facts.all();
    if most(facts) == 0.0 {
        let text = format!("{} kept the packets of every flow in order.", facts.who(&all));
        return vec![Finding::new(Topic::Detail, text)];
    }
    let let_leave = "of the packets leave after later ones of their flow";
    let figure = Figure::OutOfOrder;
    let text = match facts.outcome(figure) {
        Outcome::Split(Split { ahead, behind, sure }) => {
            format!(
                "{} let {} {let_leave}, {} {}{}. Order is not promised (free).",
                facts.who(&behind),
                facts.range(&behind, figure),
                super::words::names(&ahead),
                facts.range(&ahead, figure),
                sure.caveat()
            )
        }
        Outcome::Alike | Outcome::Unsettled => format!(
            "{} let {} {let_leave}{}. Order is not promised (free).",
            facts.who(&all),
            facts.range(&all, figure),
            facts.range_caveat(&all, figure)
        ),
    };
    let many = facts.policies.iter().any(|policy| policy.median(|run| run.out_of_order) >= MANY);
    vec![Finding::new(if many { Topic::Order } else { Topic::Detail }, text)]
}

#[cfg(test)]
mod tests {
    use super::super::facts::RunFacts;
    use super::super::tests::{facts, run, said};
    use super::*;

    fn broken(part: f64) -> RunFacts {
        RunFacts { out_of_order: part, ..run() }
    }

    #[test]
    fn a_broken_promise_comes_before_a_missing_one() {
        let kept = facts(&[("a", &[run()]), ("b", &[run()])]);
        assert_eq!(promise(&kept), []);
        assert_eq!(said(&order(&kept)), "Detail: The policies kept the packets of every flow in order.");
        let promised = facts(&[("a", &[broken(0.03)]), ("b", &[run()])]);
        let text =
            "Promise: a broke the promised order (exit): 3.00 % of the packets left after later ones of their flow.";
        assert_eq!(said(&promise(&promised)), text);
        assert_eq!(order(&promised), []);
        let free = Facts { promised: "free".to_owned(), ..promised };
        let text = "Order: a let 3.00 % of the packets leave after later ones of their flow, b none in this one run. Order is not \
                    promised (free).";
        assert_eq!((promise(&free), said(&order(&free)).as_str()), (Vec::new(), text));
        let few = Facts { promised: "free".to_owned(), ..facts(&[("a", &[broken(0.001)])]) };
        assert!(said(&order(&few)).starts_with("Detail: a let 0.10 % of the packets leave"));
    }
}
