//! The policies whose decisions are timed, and the descriptions and plots of the times.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::Share;
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_policies::registry::{AnyShare, ShareVisitor};
use humpyard_policies::spec::PolicySpec;

use super::machine::{AlwaysReady, Machine};
use crate::harness::{About, Effort, TableRow, Timing, logarithmic, measure};
use humpyard_lab::LabError;
use humpyard_plot::{Line, LinePlot, Svg};

/// The policy for several processors.
pub(super) const FOR_SEVERAL: &str = "gr3mp";
/// Number of processors that one thread simulates for it.
pub(super) const PROCESSORS: usize = 8;
/// The policies in claims.
pub(super) const RIVALS: [&str; 7] = ["gr3", FOR_SEVERAL, "vtrr", "wfq", "wfq-list", "linux-o1", "linux24"];
/// The weights of clients are from 1 to this.
pub(super) const WEIGHT_MAX: u64 = 40;

/// A policy whose decisions are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Subject {
    pub(super) policy: &'static str,
    pub(super) processors: usize,
    /// Whether a decision visits every client.
    pub(super) is_linear: bool,
}

impl Subject {
    /// Describes a sharing policy.
    fn of(policy: &'static str) -> Self {
        let entries = AnyShare::entries();
        let complexity =
            entries.iter().find(|entry| entry.info.name == policy).map_or("", |entry| entry.info.complexity);
        let processors = if policy == FOR_SEVERAL { PROCESSORS } else { 1 };
        Self { policy, processors, is_linear: complexity.starts_with("O(n)") }
    }
}

/// Returns the policies in claims.
pub(super) fn subjects() -> [Subject; 7] {
    RIVALS.map(Subject::of)
}

/// Returns all sharing policies with clients of their own: `fcfs` has one, and others serve services.
#[cfg(test)]
pub(super) fn all_subjects() -> Vec<Subject> {
    let names = AnyShare::entries().into_iter().map(|entry| entry.info.name);
    names.filter(|name| !["fcfs", "nfvnice", "batch"].contains(name)).map(Subject::of).collect()
}

/// Returns weights for this many clients: each from 1 to [`WEIGHT_MAX`], uniformly distributed.
pub(in super::super) fn weights(clients: usize, seed: Seed) -> Vec<Weight> {
    let mut random = seed.stream(&format!("gr3-costs/weights/{clients}"));
    let weight = |_| Weight::new(random.below(WEIGHT_MAX) as u32 + 1).expect("1 or more");
    (0..clients).map(weight).collect()
}

impl Subject {
    /// Makes the policy for clients of these weights, and passes it to a visitor.
    pub(super) fn visit<V: ShareVisitor>(
        &self,
        weights: &[Weight],
        seed: Seed,
        visitor: V,
    ) -> Result<V::Answer, LabError> {
        let clients = weights.len();
        let setup = SchedulerConfig {
            cores: self.processors,
            clients,
            packets: 2 * clients + self.processors,
            longest: 1,
            weights: weights.to_vec(),
            seed,
            ..SchedulerConfig::default()
        };
        let spec: PolicySpec = self.policy.parse()?;
        Ok(spec.build_share(&setup)?.visit(visitor))
    }
}

/// The time of a select among clients that always want another slot, and the number of clients that have a slot
/// when each should have one more.
pub(super) struct Selecting<'a> {
    pub(super) weights: &'a [Weight],
    pub(super) processors: usize,
    pub(super) effort: Effort,
}

impl ShareVisitor for Selecting<'_> {
    type Answer = Result<(Timing, Option<u64>), LabError>;

    fn visit<Q: Share>(self, policy: Q) -> Self::Answer {
        let clients = self.weights.len();
        let mut machine = Machine::new(policy, self.processors);
        (0..clients).map(ClientId::from_index).for_each(|client| machine.wake(client));
        let run = |slots| (0..slots).map(|_| machine.slot(&mut AlwaysReady)).sum();
        let timing = measure(round(self.weights, self.processors), self.effort, run)?;
        Ok((timing, machine.drain(clients)))
    }
}

/// Returns the slots of a round, in which every client gets its weight.
pub(super) fn round(weights: &[Weight], processors: usize) -> u64 {
    weights.iter().map(|weight| u64::from(weight.get())).sum::<u64>().div_ceil(processors as u64)
}

/// Returns a line for each policy, in the order of its rows.
pub(in super::super) fn lines<'a>(rows: impl Iterator<Item = TableRow<'a>>, at: &str, column: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let name = match row.number("processors") {
            1.0 => row.text("policy").to_owned(),
            processors => format!("{}, {processors} processors", row.text("policy")),
        };
        if lines.last().is_none_or(|line| line.name != name) {
            lines.push(Line { name, points: Vec::new() });
        }
        let line = lines.last_mut().expect("one was pushed");
        line.points.push((row.number(at), row.number(column)).into());
    }
    lines
}

/// Plots times over clients or groups, on logarithmic axes.
pub(in super::super) fn plot(about: About, title: &str, at: &str, lines: Vec<Line>) -> Svg {
    LinePlot {
        title: title.to_owned(),
        description: about.description.to_owned(),
        x: logarithmic(at),
        y: logarithmic("ns for a select"),
        lines,
    }
    .svg()
}
