//! The conformance suite: checks a policy of any family, history by history.
//!
//! A [`Subject`] is a policy with its promises and the partners that it plays with. A [`Trial`]
//! plays one history to it. [`LongRun`] compares sharing policies with the fluid share of each
//! client.

mod disruption;
mod long_run;
mod subject;

use core::fmt;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::mechanism::{FlowOrder, Record, Scheduler};
use humpyard_core::policy::{BuildError, Family, Promise, Share};

use crate::{
    Checked, CheckedAllocate, CheckedEstimate, CheckedSteer, FlowWatch, History, IdleWatch, Memory, Player, explain,
};

pub use long_run::LongRun;
pub use subject::Subject;

/// Why a check was skipped. There are no other reasons.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Skip {
    /// A bound is the policy's own.
    OwnBound,
    /// A chain is a loop through the queues, in which packets may overtake.
    Chains,
    /// With one core, no core can be removed.
    OneCore,
    /// Cores belong to services, and idle when their services have no packets.
    OwnCores,
    /// There are more services than cores.
    FewCores,
    /// The policy refuses the configuration.
    Refused(String),
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnBound => f.write_str("a bound of its own is tested in the policy's file"),
            Self::Chains => f.write_str("packets that go through chains may overtake"),
            Self::OneCore => f.write_str("one core: none can go"),
            Self::OwnCores => f.write_str("cores that belong to services are idle when these have nothing"),
            Self::FewCores => f.write_str("fewer cores than services: they cannot be allocated"),
            Self::Refused(why) => write!(f, "refused: {why}"),
        }
    }
}

/// The result for a promise.
pub type Verdict = (Promise, Result<(), Skip>);

type Watched<U> = Scheduler<
    CheckedSteer<<U as Subject>::Steer>,
    Checked<<U as Subject>::Share>,
    CheckedAllocate<<U as Subject>::Allocate>,
>;
type Plain<U> = Scheduler<<U as Subject>::Steer, <U as Subject>::Share, <U as Subject>::Allocate>;

/// Runs a function, and returns the number of its allocations.
pub type CountsAllocations = fn(&mut dyn FnMut()) -> u64;

/// A subject in a history.
#[derive(Debug)]
pub struct Trial<'a, U> {
    /// The policy with its partners.
    pub subject: &'a U,
    /// The events.
    pub history: &'a History,
    /// Counts allocations: a policy must make none after it is built. `None`: it may allocate.
    pub allocations: Option<CountsAllocations>,
}

impl<U: Subject> Trial<'_, U> {
    /// Checks everything. Returns the result for each promise, or why nothing was played.
    ///
    /// # Errors
    /// The broken rule, and the history that breaks it.
    pub fn hold(&self) -> Result<Result<Vec<Verdict>, Skip>, String> {
        let watched = match explain(self.history, || self.watched())? {
            Ok(watched) => watched,
            Err(error) => return Ok(Err(self.refusal(&error))),
        };
        let records = self.keeps_the_contract(watched)?;
        self.repeats(&records)?;
        self.replays(&records)?;
        let verdicts = self.subject.promises().iter().map(|&promise| Ok((promise, self.keeps(promise)?)));
        verdicts.collect::<Result<_, String>>().map(Ok)
    }

    fn refusal(&self, error: &BuildError) -> Skip {
        let history = self.history;
        let allocates = self.subject.allocate(&SchedulerConfig::default()).is_ok_and(|allocate| allocate.is_some());
        if allocates && history.estimates.len() > history.cores {
            Skip::FewCores
        } else {
            Skip::Refused(error.to_string())
        }
    }

    /// Every policy under watch.
    fn watched(&self) -> Result<Watched<U>, BuildError> {
        let (history, subject) = (self.history, self.subject);
        let config = history.config();
        let steer = subject.steer(&config)?;
        let steer = steer.map(|steer| CheckedSteer::new(steer, history.cores).with_contexts(history.contexts));
        let allocate = subject.allocate(&config)?;
        let isolation = subject.promises_of(Family::Allocate);
        let allocate = allocate.map(|allocate| CheckedAllocate::new(allocate, isolation, &config));
        let promises = subject.promises_of(Family::Share);
        let share = || Ok(Checked::new(subject.share(&config)?, promises));
        let scheduler = Scheduler::new(&config, steer, allocate, share)?;
        Ok(match subject.estimate(&config)? {
            Some(estimate) => scheduler.with_estimate(Box::new(CheckedEstimate::new(estimate))),
            None => scheduler,
        })
    }

    fn plain(&self) -> Plain<U> {
        let (history, subject) = (self.history, self.subject);
        let config = history.config();
        let made = "it was made before";
        let (steer, allocate) = (subject.steer(&config).expect(made), subject.allocate(&config).expect(made));
        let scheduler = Scheduler::new(&config, steer, allocate, || subject.share(&config)).expect(made);
        match subject.estimate(&config).expect(made) {
            Some(estimate) => scheduler.with_estimate(Box::new(estimate)),
            None => scheduler,
        }
    }

    /// Asserts the contracts of all traits at every call, `check` after every event, and that
    /// packets are conserved. Asserts that work is conserved and flows stay in order, if that is
    /// promised. Returns the journal of the run.
    fn keeps_the_contract(&self, watched: Watched<U>) -> Result<Vec<Record>, String> {
        let memory = Memory::default();
        let mut scheduler = watched.with_journal(Box::new(memory.clone()));
        let idle = self.conserves_work().then(|| IdleWatch::new(self.history, self.is_served_together()));
        let mut observers = (FlowWatch::new(self.history), idle);
        explain(self.history, || {
            Player::new(self.history).run(&mut scheduler, &mut observers);
            let late = observers.0.out_of_order();
            assert!(late == 0 || !self.keeps_flow_order(), "{late} packets left out of the order of their flow");
        })?;
        Ok(memory.take())
    }

    /// Checks that a second run, without the assertions, makes the same decisions and allocates
    /// nothing.
    fn repeats(&self, records: &[Record]) -> Result<(), String> {
        let memory = Memory::with_capacity(records.len());
        let mut scheduler = self.plain().with_journal(Box::new(memory.clone()));
        let mut player = Some(Player::new(self.history).without_checks());
        explain(self.history, || {
            let mut run = || drop(player.take().map(|player| player.run(&mut scheduler, &mut ())));
            let made = match self.allocations {
                Some(count) => count(&mut run),
                None => {
                    run();
                    0
                }
            };
            let again = memory.take();
            let differs = records.iter().zip(&again).find(|(first, second)| first != second);
            assert!(differs.is_none(), "a second run decides otherwise: {differs:?}");
            assert_eq!(records.len(), again.len(), "a second run decides more, or less");
            assert_eq!(made, 0, "allocations after construction");
        })
    }

    /// A fresh scheduler gives the answers of the journal.
    fn replays(&self, records: &[Record]) -> Result<(), String> {
        let mut scheduler = self.plain();
        explain(self.history, || {
            for record in records {
                if let Err(divergence) = scheduler.replay(record) {
                    panic!("a replay decides otherwise: {divergence:?}");
                }
            }
        })
    }

    /// Returns the result for a promise, from the run or from a test of its own.
    fn keeps(&self, promise: Promise) -> Result<Result<(), Skip>, String> {
        let (history, family) = (self.history, self.subject.family());
        match promise {
            Promise::Fair(_) => return Ok(Err(Skip::OwnBound)),
            _ if !is_tested(promise, family) => {
                return Err(format!(
                    "nothing tests whether a {} policy keeps its promise: {}",
                    family.name(),
                    promise.text()
                ));
            }
            Promise::WorkConserving if family == Family::Steer && !self.is_alone() => return Ok(Err(Skip::OwnCores)),
            Promise::FlowOrder if !history.chains.is_empty() => return Ok(Err(Skip::Chains)),
            Promise::MinimalDisruption if history.cores == 1 => return Ok(Err(Skip::OneCore)),
            Promise::MinimalDisruption => {
                explain(history, || disruption::verify(history, |config| self.subject.steer(config)))?;
            }
            // Watched in the run.
            Promise::FlowOrder | Promise::WorkConserving | Promise::Isolation | Promise::Served => {}
        }
        Ok(Ok(()))
    }

    fn is_alone(&self) -> bool {
        let config = self.history.config();
        let steers = self.subject.steer(&config).is_ok_and(|steer| steer.is_some());
        let allocates = self.subject.allocate(&config).is_ok_and(|allocate| allocate.is_some());
        !allocates && (!steers || self.subject.family() == Family::Steer)
    }

    /// Whether no core may be idle while any packet waits: all may serve it.
    fn conserves_work(&self) -> bool {
        self.subject.promises().contains(&Promise::WorkConserving) && self.is_alone()
    }

    fn merges(&self) -> bool {
        self.subject.share(&self.history.config()).is_ok_and(|share| share.merges_clients())
    }

    /// Whether packets of one client may be in service together.
    fn is_served_together(&self) -> bool {
        self.history.flow_order == FlowOrder::Free || self.merges() || self.subject.family() == Family::Steer
    }

    /// Whether flows stay in order: the policy promises it, or the mechanism enforces it.
    fn keeps_flow_order(&self) -> bool {
        let kept = self.subject.family() != Family::Steer
            && self.subject.holds_flows()
            && self.history.flow_order == FlowOrder::Hold
            && !self.merges();
        self.history.chains.is_empty() && (kept || self.subject.promises().contains(&Promise::FlowOrder))
    }
}

/// Whether there is a test for this promise of a policy of this family.
fn is_tested(promise: Promise, family: Family) -> bool {
    match promise {
        Promise::WorkConserving => family != Family::Estimate,
        // A run in which a packet is left over has failed.
        Promise::FlowOrder | Promise::Served => true,
        Promise::MinimalDisruption => family == Family::Steer,
        Promise::Isolation => family == Family::Allocate,
        Promise::Fair(_) => false,
    }
}
