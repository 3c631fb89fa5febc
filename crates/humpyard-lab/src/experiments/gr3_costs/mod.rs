//! What decisions cost: figures 12 and 13 of the GR3 paper.

mod churn;
pub(super) mod machine;
pub(super) mod messages;
mod select;
pub(super) mod timing;

use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::{Setup, Share};
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_policies::registry::{AnyShare, ShareVisitor};
use humpyard_policies::spec::PolicySpec;

use super::gr3_schedules::PAPER;
use super::{About, Column, Experiment, Row, Scale, Table, TableRow, Verdict, short};
use crate::LabError;
use crate::plot::{Axis, Line, LinePlot, Svg};
use machine::{AlwaysReady, Machine};
use timing::{Effort, Timing, measure};

/// Every experiment here.
pub(super) fn all() -> [&'static dyn Experiment; 2] {
    [&select::SelectCost, &churn::ChurnCost]
}

/// It takes all clients as one.
const WITHOUT_CLIENTS: &str = "fcfs";
/// It is for several processors.
const FOR_SEVERAL: &str = "gr3mp";
/// As many, which one thread simulates.
const PROCESSORS: usize = 8;
/// The policies that the claims are of.
const RIVALS: [&str; 7] = ["gr3", FOR_SEVERAL, "vtrr", "wfq", "wfq-list", "linux-o1", "linux24"];
/// The weights of clients are from 1 to this.
const WEIGHT_MAX: u64 = 40;

/// A policy whose decisions are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Subject {
    policy: &'static str,
    processors: usize,
    /// Whether a decision takes time with every client.
    is_linear: bool,
}

/// The policies of a scale, those of the claims first.
fn subjects(scale: Scale) -> Vec<Subject> {
    let entries = AnyShare::entries();
    let subject = |policy: &'static str| {
        let entry = entries.iter().find(|entry| entry.info.name == policy);
        let complexity = entry.map_or("", |entry| entry.info.complexity);
        let processors = if policy == FOR_SEVERAL { PROCESSORS } else { 1 };
        Subject { policy, processors, is_linear: complexity.starts_with("O(n)") }
    };
    let is_other = |name: &&str| scale == Scale::Full && *name != WITHOUT_CLIENTS && !RIVALS.contains(name);
    let others = entries.iter().map(|entry| entry.info.name).filter(is_other);
    RIVALS.into_iter().chain(others).map(subject).collect()
}

/// The weights of so many clients: each from 1 to [`WEIGHT_MAX`], all as likely.
pub(super) fn weights(clients: usize, seed: Seed) -> Vec<Weight> {
    let mut random = seed.stream(&format!("gr3-costs/weights/{clients}"));
    let weight = |_| Weight::new(random.below(WEIGHT_MAX) as u32 + 1).expect("1 or more");
    (0..clients).map(weight).collect()
}

impl Subject {
    /// Hands the policy, made for clients of these weights, to a visitor.
    fn visit<V: ShareVisitor>(&self, weights: &[Weight], seed: Seed, visitor: V) -> Result<V::Answer, LabError> {
        let clients = weights.len();
        let setup = Setup {
            cores: self.processors,
            clients,
            packets: 2 * clients + self.processors,
            longest: 1,
            weights,
            seed,
            ..Setup::default()
        };
        let spec: PolicySpec = self.policy.parse()?;
        Ok(spec.build_share(&setup)?.visit(visitor))
    }
}

/// What a select costs among clients that always want another slot, and how many of them have a slot when each is to have one
/// more.
struct Selecting<'a> {
    weights: &'a [Weight],
    processors: usize,
    effort: Effort,
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

/// The slots in which every client gets as many as it has weight, if they are as many.
fn round(weights: &[Weight], processors: usize) -> u64 {
    weights.iter().map(|weight| u64::from(weight.get())).sum::<u64>().div_ceil(processors as u64)
}

/// A ratio of times beside the range it should lie in: it is said where it lies, and nothing hangs on it.
fn beside(claim: impl Into<String>, (low, high): (f64, f64), ratio: f64) -> Verdict {
    let said = match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("{} to {}", short(low), short(high)),
        (true, false) => format!("at least {}", short(low)),
        _ => format!("at most {}", short(high)),
    };
    let place = if (low..=high).contains(&ratio) { "inside" } else { "outside" };
    Verdict::measured(claim, said, format!("{}: {place}", short(ratio)))
}

/// No bound below.
const ANY_LESS: f64 = f64::NEG_INFINITY;
/// No bound above.
const ANY_MORE: f64 = f64::INFINITY;

/// Something that must be so in all these rows, or else where it is not.
fn everywhere<'a>(
    rows: impl Iterator<Item = TableRow<'a>> + Clone,
    claim: &str,
    at: &str,
    holds: impl Fn(&TableRow<'a>) -> bool,
) -> Verdict {
    let broken = rows.clone().find(|row| !holds(row));
    let measured = broken.map_or_else(
        || format!("at all {} places", rows.count()),
        |row| format!("not of {} with {} {at}", row.text("policy"), row.number(at)),
    );
    Verdict::of(claim, "everywhere", measured, broken.is_none())
}

/// Times, in the order of their rows, beside those that the specification has of other implementations on another machine.
pub(super) fn listed(claim: String, said: &str, times: impl Iterator<Item = f64>) -> Verdict {
    let times: Vec<String> = times.map(|time| format!("{time:.1}")).collect();
    Verdict::measured(claim, said, times.join(", "))
}

/// A line for each policy, in the order of its rows.
pub(super) fn lines<'a>(rows: impl Iterator<Item = TableRow<'a>>, at: &str, column: &str) -> Vec<Line> {
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

/// Times over clients, or groups of them, both by their logarithms.
pub(super) fn plot(about: About, title: &str, at: &str, lines: Vec<Line>) -> Svg {
    let whole = |number: f64| format!("{number:.0}");
    LinePlot {
        title: title.to_owned(),
        description: about.description.to_owned(),
        x: Axis::logarithmic(at, whole),
        y: Axis::logarithmic("ns for a select", whole),
        lines,
    }
    .svg()
}
