//! The conformance suite for policies written in Python.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ::humpyard::config::SchedulerConfig;
use ::humpyard::id::Id;
use ::humpyard::mechanism::{FlowOrder, Never, Scheduler};
use ::humpyard::policies::registry::{AnyAllocate, AnyEstimate, AnyShare, AnySteer};
use ::humpyard::policies::spec::PolicySpec;
use ::humpyard::policy::{BuildError, Family, Promise};
use ::humpyard::runtime::panic::{catch, keep_quiet};
use ::humpyard::unit::Work;
use humpyard_testkit::conformance::{LongRun, Subject, Trial};
use humpyard_testkit::{
    Backlog, Bound as FairBound, Count, Decision, Event, Fairness, History, Log, Player, Scenario, Shape, explain,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::handler::Trouble;
use super::{caught, policy_spec};

/// A policy in one of the compositions in which it is played.
struct Tested {
    spec: PolicySpec,
    family: Family,
    promises: Vec<Promise>,
}

impl Subject for Tested {
    type Steer = AnySteer;
    type Share = AnyShare;
    type Allocate = AnyAllocate;
    type Estimate = AnyEstimate;

    fn family(&self) -> Family {
        self.family
    }

    fn promises(&self) -> &[Promise] {
        &self.promises
    }

    fn holds_flows(&self) -> bool {
        self.spec.holds_flows()
    }

    fn steer(&self, config: &SchedulerConfig) -> Result<Option<AnySteer>, BuildError> {
        self.spec.build_steer(config)
    }

    fn share(&self, config: &SchedulerConfig) -> Result<AnyShare, BuildError> {
        self.spec.build_share(config)
    }

    fn allocate(&self, config: &SchedulerConfig) -> Result<Option<AnyAllocate>, BuildError> {
        self.spec.build_allocate(config)
    }

    fn estimate(&self, config: &SchedulerConfig) -> Result<Option<AnyEstimate>, BuildError> {
        self.spec.build_estimate(config)
    }
}

/// Holds a policy to its contract and its promises; returns the first rule that it breaks, in words.
/// `None`: it keeps all.
#[pyfunction]
pub(super) fn check_policy(
    policy: &Bound<'_, PyAny>,
    seeds: Vec<u64>,
    fair: Option<f64>,
    like: Option<&str>,
) -> PyResult<Option<String>> {
    let spec = policy_spec(policy)?;
    let mut own = spec.own();
    let (Some(one), None) = (own.next(), own.next()) else {
        return Err(PyValueError::new_err(format!("`{spec}`: the checks are for one policy written in Python")));
    };
    let (name, family, promises) = (one.name().to_owned(), one.family(), one.promises().to_vec());
    if fair.is_some() && family != Family::Share {
        return Err(PyValueError::new_err("`fair` is for sharing policies"));
    }
    let like: Option<PolicySpec> = super::refused(like.map(str::parse).transpose())?;
    let bound = fair.map(|fair| fair.max(0.0));
    keep_quiet();
    caught(policy.py(), || {
        let composed = partnered(&spec, family);
        let hold = || {
            for spec in &composed {
                let subject = Tested { spec: spec.clone(), family, promises: promises.clone() };
                hold_to_contract(&subject, &seeds)?;
            }
            like.iter().try_for_each(|like| same_decisions(&spec, like, family, &seeds))?;
            bound.map_or(Ok(()), |bound| shares_fairly(&spec, bound, &seeds))
        };
        let held: Result<(), Broken> = quietly(hold);
        held.err().map(|broken| broken.told(&name))
    })
}

/// Runs something that may panic, without a word from the panic hook.
fn quietly<T>(run: impl FnOnce() -> T) -> T {
    let ran = catch(|| catch_unwind(AssertUnwindSafe(run)));
    match ran {
        Ok(Ok(result)) => result,
        Ok(Err(payload)) => resume_unwind(payload),
        Err(message) => unreachable!("panics are caught inside: {message}"),
    }
}

/// The compositions in which a policy is played.
fn partnered(spec: &PolicySpec, family: Family) -> Vec<PolicySpec> {
    let partners: &[&str] = match family {
        Family::Share => &["hrw", "static"],
        Family::Steer => &["static"],
        Family::Allocate => &["drr"],
        Family::Estimate => &["sfq"],
    };
    let with = |partner: &&str| partner.parse().ok().and_then(|partner: PolicySpec| spec.clone().with(partner).ok());
    let mut composed: Vec<PolicySpec> = partners.iter().filter_map(with).collect();
    composed.insert(0, spec.clone());
    composed
}

/// A rule that was broken.
struct Broken {
    rule: String,
    /// With which policies, and when.
    place: String,
    /// What led to it.
    history: String,
}

impl Broken {
    fn told(&self, name: &str) -> String {
        let Self { rule, place, history } = self;
        let rule = rule.strip_prefix("assertion `left == right` failed: ").unwrap_or(rule);
        let rule = rule.lines().map(str::trim).collect::<Vec<_>>().join(", ");
        let owner = if rule.starts_with(name) { String::new() } else { format!("{name}: ") };
        format!("{owner}{rule} ({place})\n{history}")
    }
}

/// Runs a test of a history. An answer that cannot be is a broken rule, too.
fn explained<R>(place: &str, history: &History, test: impl FnOnce() -> R) -> Result<R, Broken> {
    let broken = |rule: &str| Broken { rule: rule.into(), place: place.into(), history: history.to_string() };
    let ran = catch_unwind(AssertUnwindSafe(|| explain(history, test)));
    match ran.map_err(|payload| payload.downcast::<Trouble>()) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(text)) => Err(broken(text.strip_suffix(&format!("\n{history}")).unwrap_or(&text))),
        Err(Ok(trouble)) => match *trouble {
            Trouble::Answered(message) => Err(broken(&message)),
            raised @ Trouble::Raised(_) => raised.end(),
        },
        Err(Err(payload)) => resume_unwind(payload),
    }
}

/// Holds something to the history of a shape; where that fails, to the shortest prefix that fails, by halving.
fn smallest(shape: &Shape, hold: impl Fn(&History) -> Result<(), Broken>) -> Result<(), Broken> {
    let held = |events: usize| hold(&History::generate(&Shape { events, ..*shape }));
    let Err(mut broken) = held(shape.events) else { return Ok(()) };
    let (mut kept, mut failed) = (0, shape.events);
    while failed - kept > 1 {
        let events = kept.midpoint(failed);
        match held(events) {
            Ok(()) => kept = events,
            Err(earlier) => (failed, broken) = (events, earlier),
        }
    }
    Err(broken)
}

/// Holds a policy to the contract of its family and to its promises: in every scenario of the corpus, then in random
/// histories.
fn hold_to_contract(subject: &Tested, seeds: &[u64]) -> Result<(), Broken> {
    let spec = &subject.spec;
    let hold = |place: &str, history: &History| {
        let held = explained(place, history, || Trial { subject, history, allocations: None }.hold())?;
        let broken = |text: String| {
            let rule = text.strip_suffix(&format!("\n{history}")).unwrap_or(&text).to_owned();
            Broken { rule, place: place.into(), history: history.to_string() }
        };
        held.map(drop).map_err(broken)
    };
    for Scenario { name, about, history } in Scenario::corpus() {
        hold(&format!("`{spec}`, scenario {name}: {about}"), &history)?;
    }
    for &seed in seeds {
        smallest(&Shape::drawn(seed), |history| hold(&format!("`{spec}`, seed {seed}"), history))?;
    }
    Ok(())
}

/// Holds a policy to the decisions of a registered one, alone and with partners.
fn same_decisions(spec: &PolicySpec, like: &PolicySpec, family: Family, seeds: &[u64]) -> Result<(), Broken> {
    for (own, like) in partnered(spec, family).iter().zip(&partnered(like, family)) {
        for Scenario { name, about, history } in Scenario::corpus() {
            decides_like(own, like, &format!("`{own}`, scenario {name}: {about}"), &history)?;
        }
        for &seed in seeds {
            let place = format!("`{own}`, seed {seed}");
            smallest(&Shape::drawn(seed), |history| decides_like(own, like, &place, history))?;
        }
    }
    Ok(())
}

/// Holds the decisions of one history to those of a registered policy.
fn decides_like(own: &PolicySpec, like: &PolicySpec, place: &str, history: &History) -> Result<(), Broken> {
    let config = history.config();
    explained(place, history, || {
        let (Ok(mut one), Ok(mut other)) = (own.build(&config), like.build(&config)) else { return };
        let log = Player::new(history).without_checks().run(&mut one, &mut ());
        let expected = Player::new(history).without_checks().run(&mut other, &mut ());
        if let Some(difference) = difference(&log, &expected, like, history) {
            panic!("{difference}");
        }
    })
}

/// The first decision in which a run differs from what is expected, in words.
fn difference(log: &Log, expected: &Log, like: &PolicySpec, history: &History) -> Option<String> {
    if log == expected {
        return None;
    }
    let mut pairs = log.decisions.iter().zip(&expected.decisions);
    let Some((one, other)) = pairs.find(|(one, other)| one != other) else {
        return Some(format!("it drops, or leaves, other packets than `{like}`"));
    };
    let served = |decision: &Decision| {
        let client = match history.events[decision.arrival].1 {
            Event::Arrive { packet, .. } => packet.client.index(),
            _ => unreachable!("only packets are served"),
        };
        format!("packet {} of client {client} on core {}", decision.arrival, decision.core)
    };
    let (one_at, other_at) = (one.time.as_ns(), other.time.as_ns());
    Some(format!("at {one_at} ns it serves {}; `{like}` serves {} at {other_at} ns", served(one), served(other)))
}

/// Packets of a client for each unit of its weight, in the long run.
const LONG_RUN_PACKETS: usize = 500;

/// Packets of which a client may be ahead or behind in the long run, because three cores serve at once.
const IN_SERVICE: f64 = 2.0;

/// Holds a sharing policy to a bound on |W_i/w_i - W_j/w_j| of two clients with packets, in longest packets, on one
/// core; and to their fluid shares in the long run, on three.
fn shares_fairly(spec: &PolicySpec, bound: f64, seeds: &[u64]) -> Result<(), Broken> {
    for &seed in seeds {
        let weight_max = [1, 10, 1000][seed as usize % 3];
        let shape = Shape { seed, clients: 2 + seed as usize % 5, events: 400, weight_max, ..Shape::default() };
        smallest(&shape, |history| {
            let fixed = (bound * history.longest as f64) as Work;
            let bound = FairBound { fixed, part: |_| 0 };
            let mut fairness = Fairness::new(&history.weights, Count::Start, Backlog::Held, bound);
            explained(&format!("`{spec}`, seed {seed}"), history, || {
                let config = history.config();
                let Ok(mut scheduler) = spec.build(&config) else { return };
                Player::new(history).without_checks().run(&mut scheduler, &mut fairness);
            })
        })?;
    }
    for (flow_order, biased) in [(FlowOrder::Free, false), (FlowOrder::Hold, false), (FlowOrder::Hold, true)] {
        let mut run = LongRun::new(1, LONG_RUN_PACKETS, biased);
        run.history.flow_order = flow_order;
        let place = format!("`{spec}`, {} clients in the long run", run.history.weights.len());
        let mut shown = run.history.clone();
        shown.events.clear();
        explained(&place, &shown, || {
            let config = run.history.config();
            let share = || spec.build_share(&config);
            let Ok(mut scheduler) = Scheduler::<Never, _, Never>::new(&config, None, None, share) else { return };
            let deviation = run.greatest_deviation(&mut scheduler);
            let allowed = (bound + IN_SERVICE) * run.history.longest as f64 / run.fluid_work();
            assert!(
                deviation <= allowed,
                "a client is {:.2} % off its fluid share, and {:.2} % is allowed",
                100.0 * deviation,
                100.0 * allowed
            );
        })?;
    }
    Ok(())
}
