//! What a comparison shows, in words: sentences that rules choose from its figures, the most important first.
//!
//! A rule is a function of the figures: it says a sentence where it applies, with a [`Topic`]. The order of the topics is
//! that of importance, with few exceptions that a rule states by itself. What keeps the figures from being believed comes
//! first, then loss and its cause, then what keeps the comparison from showing anything, then differences.

mod delay;
mod facts;
mod held;
mod hot;
mod loss;
mod order;
mod rest;
mod results;
mod split;
mod starved;
mod trust;
mod vacuous;
mod verdicts;
mod words;

#[cfg(test)]
mod tests;

use facts::Facts;

pub(crate) use words::glued;

use crate::{Comparison, RunResult};

/// A sentence or two, and what they are about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What it is about.
    pub topic: Topic,
    /// The sentences.
    pub text: String,
}

/// What a finding is about, the most important first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(test, derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Topic {
    /// The figures are not to be believed: packets unaccounted for, an early end, damage, a panic.
    Invalid,
    /// No packet went out, for services dropped all.
    Nothing,
    /// The dispatcher is the bottleneck.
    Dispatcher,
    /// The load is more than the cores can do.
    Overload,
    /// Services dropped most packets, as their rules say.
    Verdicts,
    /// A link behind the cores is the bottleneck.
    Link,
    /// Cores lose packets, or time, to changes of service.
    Switching,
    /// Some cores are overloaded while others idle, and packets are lost.
    Imbalance,
    /// A limit for a client or a queue drops packets.
    Limit,
    /// A port loses packets that came in.
    Input,
    /// A port has no room for packets that go out.
    Output,
    /// The buffer is too small for the bursts.
    Bursts,
    /// Threads shared processors, or lacked one.
    Shared,
    /// The exit's bounds broke the order that was promised.
    Promise,
    /// The comparison cannot show anything.
    Vacuous,
    /// Many packets are later than tolerated.
    Late,
    /// Packets leave out of order.
    Order,
    /// Delay differs.
    Delay,
    /// Throughput differs.
    Throughput,
    /// All policies did the same in every run.
    Same,
    /// The run is too short for the tolerance that holds where nobody asks for one, or measures no delay.
    Short,
    /// Nothing differs, or there is nothing to differ from.
    Alike,
    /// Worth a word, but not the first.
    Detail,
    /// How far the figures can be trusted.
    Trust,
}

/// The rules.
const RULES: [fn(&Facts) -> Vec<Finding>; 23] = [
    trust::invalid,
    verdicts::verdicts,
    trust::clock,
    starved::starved,
    trust::shared,
    trust::beside_dispatcher,
    trust::repetitions,
    loss::dispatcher,
    loss::lost,
    loss::backlog,
    vacuous::few,
    vacuous::nothing_waited,
    vacuous::tolerance,
    order::promise,
    order::order,
    held::held,
    delay::late,
    delay::delay,
    hot::overloaded,
    delay::throughput,
    rest::fairness,
    rest::balance,
    rest::services,
];

impl Finding {
    fn new(topic: Topic, text: impl AsRef<str>) -> Self {
        Self { topic, text: words::sentence(text.as_ref()) }
    }
}

/// The findings of a comparison, the most important first; none without a run.
pub fn of_comparison(comparison: &Comparison) -> Vec<Finding> {
    found(&Facts::of(comparison))
}

/// The findings of one run, the most important first.
pub fn of_run(run: &RunResult) -> Vec<Finding> {
    found(&Facts::of_run(run))
}

fn found(facts: &Facts) -> Vec<Finding> {
    if facts.policies.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<Finding> = RULES.iter().flat_map(|rule| rule(facts)).collect();
    found.sort_by_key(|finding| finding.topic);
    found
}
