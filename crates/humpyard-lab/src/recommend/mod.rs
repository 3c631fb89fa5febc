//! Which policy, with which parameters, for this traffic and this goal, and what speaks for it.
//!
//! The input is read once, and its traffic is fixed: what is tried later, it is tried on the same packets at the same times. Every
//! registered policy that fits is simulated on part of it, and the better half of them on twice as much, again and again
//! ([`search`](self)). The last few run on all of it under several seeds. Blocks that had no part in the search say how sure the choice
//! is. The same input, options and seed give the same answer on every machine and any number of threads.

mod baseline;
mod candidates;
mod certainty;
mod curve;
mod division;
mod elsewhere;
mod evidence;
mod exhaustive;
mod figures;
mod goal;
mod limits;
mod page;
mod pilot;
mod prior;
mod scope;
mod search;
mod sizing;
mod trials;
mod vacuous;
mod verify;
mod words;
mod workload;

use core::num::NonZeroUsize;
use core::sync::atomic::AtomicBool;
use std::sync::Arc;

use humpyard_policies::spec::PolicySpec;
use humpyard_services::Factory;
use serde::Serialize;

use crate::LabError;
use crate::choice::assumed::AssumedHost;
use crate::config::RunConfig;
use crate::costs::ServiceCost;
use crate::figures::percent;
use crate::offered::Offered;
use crate::parts::{setup, several};
use crate::run;
use candidates::{HASHING, fitting, tried};
use search::Ranked;
use trials::Trials;
use words::{Origin, Tried, reason, with_vacuous};

pub use baseline::{Baseline, BaselineFigure, baseline};
pub use candidates::Skipped;
pub(crate) use candidates::grid;
pub use curve::{CurvePoint, LoadCurve};
pub use elsewhere::{Elsewhere, TrialOutcome, TrialPlace};
pub use evidence::{Confidence, CoresNeeded, Variation};
pub use exhaustive::{Held, hold};
pub use figures::{Measure, MeasuredFigures};
pub use goal::{Goal, GoalFigure};
pub use limits::{BrokenAt, Limits};
pub use scope::ScopeFigures;
pub use search::{BUDGET, Round};
pub use sizing::{CoreCount, SIZES, Sizing};
pub use trials::{Progress, larger_host};
pub use vacuous::Vacuous;
pub use verify::{Verification, Verified, verify, why_not_verified};
pub use words::{capital, margin_text, shown};
pub use workload::ElephantFlow;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct RecommendOptions {
    /// The run, in virtual time; its policy does not count.
    pub config: RunConfig,
    /// What is wanted of it.
    pub goal: Goal,
    /// The policies that are tried. None, or the program's own alone: all that fit, and its own beside them.
    pub policies: Vec<PolicySpec>,
    /// The most packets of the input that are looked at.
    pub packets: u64,
    /// Simulations of the whole input that the search may take; none is [`BUDGET`].
    pub budget: Option<u32>,
    /// Threads; they change nothing but the time it takes.
    pub threads: NonZeroUsize,
    /// Whether cores are counted for more traffic, too: see [`Sizing`].
    pub size: bool,
    /// What live runs of plain hashing say of the simulator on this traffic. `None`: nothing was run live.
    pub baseline: Option<Baseline>,
    /// Other processes that make the simulations, but for those of [`Sizing`]; they change nothing but the time it
    /// takes. `None`: the threads do.
    pub elsewhere: Option<Arc<dyn Elsewhere>>,
}

/// A figure and its bound.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kept {
    /// Name of the figure, with the service or client in brackets.
    pub figure: String,
    /// Bound of the goal on the figure.
    pub bound: f64,
    /// Value of the figure.
    pub value: f64,
    /// Distance of `value` from `bound`, as a fraction of what the bound allows. 0: at the bound;
    /// negative: the bound is broken.
    pub margin: f64,
}

/// A policy that reached the end of the search.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finalist {
    /// Name of the policy, with its parameters.
    pub policy: String,
    /// Other candidates that decided alike. Under each seed, all their figures were identical on
    /// all packets searched.
    pub same_decisions: Vec<String>,
    /// Whether the policy keeps all bounds of the goal.
    pub holds: bool,
    /// The least `margin` of all bounds.
    pub margin: f64,
    /// The bounds of the goal, each with the value of its figure.
    pub bounds: Vec<Kept>,
    /// Figures of the policy. Each is the worst of all seeds.
    pub figures: MeasuredFigures,
}

/// The extent of the search.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Searched {
    /// Number of policies tried. A policy with other parameters counts as another policy.
    pub candidates: usize,
    /// Policies that were not tried, with the reason.
    pub skipped: Vec<Skipped>,
    /// Policies that went through all rounds because they were near the best of the map on traffic
    /// like this.
    pub likely: Vec<String>,
    /// The rounds of the search, in order.
    pub rounds: Vec<Round>,
    /// Number of seeds under which each finalist was run.
    pub seeds: u64,
    /// Number of packets simulated in all, divided by the packets of the input.
    pub simulated_inputs: f64,
}

/// The advice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Plain hashing keeps the goal: nothing else is needed.
    HashingIsEnough,
    /// The winner keeps the goal, and is worth it.
    UseTheWinner,
    /// No policy keeps the goal with these cores.
    NoPolicyHolds,
}

/// A recommendation, and the evidence for it.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Recommendation {
    /// The goal that the policy should keep, as given.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub goal: Goal,
    /// Source of the packets: a file, a generator or an interface.
    pub input: String,
    /// Packets of the input that were read.
    pub packets: u64,
    /// Whether `packets` is the whole input.
    pub is_whole_input: bool,
    /// Damage of the input, in words. `None`: the input is intact.
    pub damage: Option<String>,
    /// Number of cores requested.
    pub cores: usize,
    /// The offered traffic. It is the same in all simulations, except those at a multiple of it.
    pub offered: Offered,
    /// The flow with most work. `None`: the input has no packets.
    pub heaviest_flow: Option<ElephantFlow>,
    /// Packets that the search did not use, so that they can test its result. 0: the input is too
    /// short.
    pub held_out_packets: usize,
    /// Costs of each service, and their source.
    pub costs: Vec<ServiceCost>,
    /// Lines of costs that were measured for this recommendation, as the text of a file for
    /// `--costs`. `None`: the costs were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_lines: Option<String>,
    /// Seed of all random numbers. Further seeds follow from it.
    pub seed: u64,
    /// The advice in a word. `hashing_is_enough`: plain hashing keeps the goal. `use_the_winner`:
    /// the winner keeps it, and is worth it. `no_policy_holds`: no policy keeps the goal with these
    /// cores.
    pub advice: Advice,
    /// Name of the policy to run, with its parameters.
    pub policy: String,
    /// Bounds of the goal that do not tell policies apart on this traffic, because the delays of
    /// all policies are far below them.
    pub vacuous: Vec<Vacuous>,
    /// Reasons for the recommendation, in words. Vacuous bounds come first.
    pub reason: String,
    /// Remarks on surprising properties of the recommendation, in words.
    pub remarks: Vec<String>,
    /// The best policy, even if a simpler one is enough.
    pub winner: Finalist,
    /// The next best policy, with other figures than the winner if there is one. `None`: there is
    /// only one policy.
    pub runner_up: Option<Finalist>,
    /// Plain hashing. `None`: it was not a candidate.
    pub hashing: Option<Finalist>,
    /// All policies that reached the end of the search, the best first.
    pub finalists: Vec<Finalist>,
    /// Test, on packets held out of the search, whether the best policy of the search is better
    /// than the next. `None`: there is only one policy, or the input is too short.
    pub confidence: Option<Confidence>,
    /// The winner, the runner-up and plain hashing, with the same packets at a higher rate.
    pub more_traffic: Vec<Variation>,
    /// The winner, the runner-up and plain hashing, with the same traffic on other numbers of
    /// cores.
    pub other_cores: Vec<Variation>,
    /// Traffic and cores at which the policy to run breaks the goal.
    pub limits: Limits,
    /// Delay of the winner, the runner-up and plain hashing at multiples of the traffic.
    pub load_curve: LoadCurve,
    /// The fewest cores that keep the goal, at multiples of the traffic. `None`: it was not
    /// requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizing: Option<Sizing>,
    /// The fewest cores found to keep the goal. `None`: none were found, up to eight times the
    /// requested cores.
    pub cores_needed: Option<CoresNeeded>,
    /// The extent of the search.
    pub search: Searched,
    /// Why a live run may keep the goal where the simulation breaks it, or the reverse. `None`: live
    /// runs of plain hashing and predictions give no doubt, or the host is ideal.
    pub not_sure: Option<String>,
    /// A figure that a live run may have on the other side of its bound, within the limit of
    /// predictions. `None`: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close: Option<String>,
    /// Live and simulated runs of plain hashing before the search. `None`: nothing was run live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// The host that the simulator assumed. `None`: the ideal host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<AssumedHost>,
    /// Fraction of the time, from 0 to 1, during which the dispatcher of the host worked under
    /// `policy`: the greatest of all seeds. Of several, that of the busiest, or of their reader.
    /// Near 1, no policy can do more. `None`: there is no dispatcher, as on the ideal host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatcher_utilization: Option<f64>,
    /// Live runs that test the recommendation. `None`: there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verification>,
    /// Command that runs the policy live. `None`: the policy or the input cannot be given on the
    /// command line.
    pub command: Option<String>,
}

/// If an objective is given, hashing is enough although it is worse by up to this part.
const NEARLY: f64 = 0.02;

/// Finds the policy that keeps the goal best.
///
/// # Errors
/// A configuration that cannot be simulated, a budget that is too small, and being interrupted.
pub fn recommend(
    options: &RecommendOptions,
    stop: &AtomicBool,
    progress: Progress<'_>,
) -> Result<Recommendation, LabError> {
    let RecommendOptions { config, goal, policies, packets, budget, threads, size, baseline, elsewhere } = options;
    run::services(config)?;
    let config = &fixed(config, goal)?;
    let dispatchers = config.dispatchers.unwrap_or(1);
    // Plain hashing allows any number of dispatchers that another policy allows.
    several::refuse(&RunConfig { policy: HASHING.parse()?, ..config.clone() })?;
    let (candidates, skipped) = fitting(config, &tried(config, policies))?;
    let not_tried = not_tried(policies, &skipped);
    let mut trials = Trials::read(config, goal, *packets, *threads, stop)?.with_elsewhere(elsewhere.clone());
    if dispatchers != 1 && trials.names_clients() {
        return Err(LabError::option("a goal that names clients needs one dispatcher: use @dispatchers 1"));
    }
    let (offered, lasted) = trials.offered()?;
    let likely = prior::likely(config, &trials.recorded, &offered, &candidates)?;
    let found = search::search(&mut trials, goal, (&candidates, &likely), *budget, &mut *progress)?;
    let ranking = &found.ranking;
    let (winner, runner_up) = (&ranking[0], runner_up(ranking));
    let hashing = ranking.iter().find(|ranked| ranked.policy.to_string() == candidates_name(HASHING));
    let confidence = evidence::confidence(&trials, goal, &found, &mut *progress)?;
    let holds = goal.holds(&winner.figures);
    let enough = hashing.filter(|hashing| is_enough(goal, hashing, winner));
    let advice = match (holds, enough) {
        (false, _) => Advice::NoPolicyHolds,
        (true, Some(_)) => Advice::HashingIsEnough,
        (true, None) => Advice::UseTheWinner,
    };
    let chosen = enough.unwrap_or(winner);
    let outlook = outlook(&trials, goal, ranking, (chosen, hashing), &mut *progress)?;
    let sizing = if *size {
        let finalists: Vec<&PolicySpec> = ranking.iter().map(|ranked| ranked.policy).collect();
        Some(sizing::sizing(&trials, goal, &finalists, &mut *progress)?)
    } else {
        None
    };
    let vacuous = vacuous::vacuous(goal, config, lasted, &found.worst, candidates.len());
    let reason = reason(
        goal,
        advice,
        winner,
        hashing,
        candidates.len(),
        (config.cores, dispatchers),
        outlook.cores_needed.as_ref(),
    );
    let certainty = certainty::certainty(&trials, goal, (chosen, hashing), baseline.as_ref(), progress)?;
    let finalist = |ranked: &Ranked<'_>| finalist(goal, ranked);
    Ok(Recommendation {
        goal: goal.clone(),
        input: config.input_name(),
        packets: trials.recorded.len() as u64,
        is_whole_input: trials.recorded.is_whole,
        damage: trials.recorded.damage.clone(),
        cores: config.cores,
        heaviest_flow: trials.workload.heaviest(&offered),
        offered,
        held_out_packets: trials.division.held_out().iter().map(ExactSizeIterator::len).sum(),
        costs: setup::service_costs(config)?,
        cost_lines: None,
        seed: config.seed.0,
        advice,
        policy: chosen.policy.to_string(),
        reason: with_vacuous(&vacuous, tried_packets(config, &trials), reason),
        vacuous,
        remarks: remarks(config, goal, chosen)?.into_iter().chain(not_tried).collect(),
        winner: finalist(winner),
        runner_up: runner_up.map(finalist),
        hashing: hashing.map(finalist),
        finalists: ranking.iter().map(finalist).collect(),
        confidence,
        more_traffic: outlook.more_traffic,
        other_cores: outlook.other_cores,
        limits: outlook.limits,
        load_curve: outlook.load_curve,
        sizing,
        cores_needed: outlook.cores_needed,
        search: Searched {
            candidates: candidates.len(),
            skipped,
            likely: likely.iter().map(|&at| candidates[at].to_string()).collect(),
            rounds: found.rounds,
            seeds: search::SEEDS,
            simulated_inputs: trials.inputs(),
        },
        not_sure: certainty.not_sure,
        close: certainty.close,
        baseline: baseline.clone(),
        host: config.assumed.clone(),
        dispatcher_utilization: config.assumed.as_ref().filter(|_| dispatchers > 0).map(|_| chosen.figures.dispatcher),
        verified: None,
        command: None,
    })
}

/// What becomes of the goal with more traffic, and with other cores.
struct Outlook {
    more_traffic: Vec<Variation>,
    other_cores: Vec<Variation>,
    cores_needed: Option<CoresNeeded>,
    load_curve: LoadCurve,
    limits: Limits,
}

/// Looks at more traffic and at other cores, for the winner, the runner-up and plain hashing.
fn outlook(
    trials: &Trials<'_>,
    goal: &Goal,
    ranking: &[Ranked<'_>],
    (chosen, hashing): (&Ranked<'_>, Option<&Ranked<'_>>),
    progress: Progress<'_>,
) -> Result<Outlook, LabError> {
    let winner = &ranking[0];
    let mut shown: Vec<&PolicySpec> = Vec::new();
    for ranked in [Some(winner), runner_up(ranking), hashing].into_iter().flatten() {
        if !shown.contains(&ranked.policy) {
            shown.push(ranked.policy);
        }
    }
    let (more_traffic, other_cores) = evidence::sensitivity(trials, goal, &shown, &mut *progress)?;
    let holds = goal.holds(&winner.figures);
    let cores_needed = evidence::cores_needed(trials, goal, &shown, holds, &mut *progress)?;
    let load_curve = curve::curve(trials, goal, &shown, &more_traffic, &mut *progress)?;
    let limits = limits::limits(trials, goal, chosen.policy, goal.holds(&chosen.figures), progress)?;
    Ok(Outlook { more_traffic, other_cores, cores_needed, load_curve, limits })
}

/// The packets on which policies were tried.
fn tried_packets(config: &RunConfig, trials: &Trials<'_>) -> Tried {
    let from = match &config.table {
        Some(_) => Origin::Table,
        None if config.input_name().starts_with("gen:") => Origin::Model,
        None => Origin::Capture,
    };
    Tried { packets: trials.recorded.len(), is_whole: trials.recorded.is_whole, from }
}

/// The configuration, with the goal's tolerance for all services that have none of their own, and with traffic that is the same
/// for any number of cores.
fn fixed(config: &RunConfig, goal: &Goal) -> Result<RunConfig, LabError> {
    let mut config = config.clone();
    config.rate = config.rate.fixed(config.cores);
    if let Some(tolerance) = goal.tolerance() {
        if config.tolerances.iter().any(|(service, given)| service.is_empty() && *given != tolerance) {
            return Err(LabError::option(
                "--tolerance and --goal name different delays for all services: leave out one of them",
            ));
        }
        config.tolerances.push((String::new(), tolerance));
    }
    Ok(config)
}

/// A policy's name as results have it.
fn candidates_name(text: &str) -> String {
    text.parse::<PolicySpec>().map_or_else(|_| text.to_owned(), |policy| policy.to_string())
}

/// Returns a remark for each requested policy that was not tried.
fn not_tried(asked: &[PolicySpec], skipped: &[Skipped]) -> Vec<String> {
    let of = |policy: &PolicySpec| skipped.iter().find(|skipped| skipped.policy == policy.to_string());
    asked.iter().filter_map(of).map(|one| format!("`{}` was not tried: {}", one.policy, one.because)).collect()
}

/// The best behind the winner that is not simply the same.
fn runner_up<'a, 'p>(ranking: &'a [Ranked<'p>]) -> Option<&'a Ranked<'p>> {
    let (winner, others) = ranking.split_first()?;
    others.iter().find(|other| other.figures != winner.figures).or_else(|| others.first())
}

/// Whether plain hashing is as good as need be: it keeps all bounds, and where a figure is to be as good as can be it is nearly so.
fn is_enough(goal: &Goal, hashing: &Ranked<'_>, winner: &Ranked<'_>) -> bool {
    let nearly = |figure: &GoalFigure| {
        let (one, best) = (figure.of(&hashing.figures), figure.of(&winner.figures));
        (one - best).abs() <= NEARLY * best.abs()
    };
    goal.holds(&hashing.figures) && goal.objective.as_ref().is_none_or(nearly)
}

fn finalist(goal: &Goal, ranked: &Ranked<'_>) -> Finalist {
    let kept = |bound: &goal::Bound| {
        let value = bound.figure.of(&ranked.figures);
        Kept { figure: bound.figure.to_string(), bound: bound.value, value, margin: bound.margin(value) }
    };
    Finalist {
        policy: ranked.policy.to_string(),
        same_decisions: ranked.same.iter().map(ToString::to_string).collect(),
        holds: goal.holds(&ranked.figures),
        margin: goal.margin(&ranked.figures),
        bounds: goal.bounds.iter().map(kept).collect(),
        figures: ranked.figures.clone(),
    }
}

/// What is odd about the policy that was chosen, and about how it was.
fn remarks(config: &RunConfig, goal: &Goal, chosen: &Ranked<'_>) -> Result<Vec<String>, LabError> {
    let mut remarks = Vec::new();
    if run::services(config)?.iter().flatten().any(Factory::marks) {
        remarks.push(
            "the marks of l7-filter were not followed, for the search does no service's work: weights, services and drops by marks are \
             not in these figures"
                .to_owned(),
        );
    }
    let bounded = |measure: Measure| goal.bounds_figure(&measure.into());
    let figures = &chosen.figures;
    if figures.out_of_order > 0.0 && !bounded(Measure::OutOfOrder) {
        remarks.push(format!(
            "`{}` lets {} of the packets leave after a later one of their flow: if order matters, add ooo<0.01% to the goal",
            chosen.policy,
            percent(figures.out_of_order)
        ));
    }
    let (full, dispatchers) = (figures.full_dispatcher(), config.dispatchers.unwrap_or(1));
    if let Some(busy) = full.filter(|_| goal.holds(figures)) {
        remarks.push(format!(
            "{} the bottleneck: busy {} of the time under `{}`; {}",
            words::brings_packets(dispatchers),
            percent(busy),
            chosen.policy,
            words::remedy_in_recommend(dispatchers)
        ));
    }
    if figures.loss > 0.0 && !bounded(Measure::Loss) {
        let lacks = match (full, dispatchers) {
            (None, _) => "the cores have",
            (Some(_), 1) => "the dispatcher has",
            (Some(_), _) => "a dispatcher or the reader has",
        };
        remarks.push(format!(
            "{} of the packets are dropped: the buffer is full (--buffer), or {lacks} too little time",
            percent(figures.loss)
        ));
    }
    Ok(remarks)
}

impl Recommendation {
    /// Returns whether some run, simulated or live, kept the goal.
    pub fn is_kept(&self) -> bool {
        self.advice != Advice::NoPolicyHolds || self.verified.as_ref().is_some_and(|verified| verified.holds)
    }

    /// The page of it, as HTML that is well-formed XML too; `command` makes it again.
    pub fn html(&self, command: &str) -> String {
        page::page(self, command).into_string()
    }
}
