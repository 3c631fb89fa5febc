//! Another configuration for a live run that goes on: policies, weights and workers can change under way.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use humpyard_core::id::{ClientId, Id};
use humpyard_core::unit::Weight;
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::AnyScheduler;
use humpyard_runtime::Replacement;

use crate::LabError;
use crate::choice::host::Clock;
use crate::config::RunConfig;
use crate::parts::dispatch::{dispatching, settled};
use crate::parts::link::check_withholding;
use crate::parts::place::placed;
use crate::parts::ruled::Ruled;
use crate::parts::setup;

/// Policies, weights and workers with which a run goes on, whichever they are.
pub(crate) type AnyReplacement = Replacement<AnySteer, AnyShare, AnyAllocate>;

/// Whoever may want a live run to go on with another configuration.
pub trait Reload: Sync {
    /// The configuration that is wanted, once; none as long as nothing is. Asked several times a second, on another thread
    /// than that of the run.
    fn wanted(&self) -> Option<RunConfig>;

    /// What became of it: it takes over now, or why it does not.
    fn told(&self, outcome: Result<(), LabError>);
}

/// How often it is asked whether another configuration is wanted.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Makes what a run goes on with of every configuration that is wanted, until the run is over.
pub(crate) fn serve(
    begun: &RunConfig,
    clients: usize,
    reload: &dyn Reload,
    over: &AtomicBool,
    replacements: &Sender<AnyReplacement>,
) {
    let mut running = begun.clone();
    let (retired, retiring) = channel();
    while !over.load(Ordering::Relaxed) {
        if let Some(wanted) = reload.wanted() {
            let mut wanted = settled(&wanted, &dispatching(&wanted, true));
            // What was measured before the run is not measured again under way.
            if wanted.costs.is_auto() && running.costs.is_auto() {
                wanted.costs = running.costs.clone();
            }
            let made = replacement(&running, &wanted, clients, &retired);
            reload.told(made.map(|made| {
                // A run that is over takes nothing any more.
                let _ = replacements.send(made);
                running = wanted;
            }));
        }
        retiring.try_iter().for_each(drop);
        thread::sleep(ASK_EVERY);
    }
}

/// What a run goes on with that is to be as `wanted`; what it leaves behind goes to `retired`.
fn replacement(
    running: &RunConfig,
    wanted: &RunConfig,
    clients: usize,
    retired: &Sender<AnyScheduler>,
) -> Result<AnyReplacement, LabError> {
    check(running, wanted)?;
    check_withholding(wanted)?;
    let before = setup::scheduler_config(running, running.cores.max(1), clients)?.weights;
    let link_weights = |config: &RunConfig| Ok::<_, LabError>(Ruled::new(config)?.link_weights(config));
    let link_weights = changed(&link_weights(running)?, &link_weights(wanted)?);
    let setup = setup::scheduler_config(wanted, wanted.cores.max(1), clients)?;
    Ok(Replacement {
        policy: wanted.policy.to_string().into(),
        scheduler: wanted.policy.build(&setup)?,
        weights: changed(&before, &setup.weights),
        link_weights,
        workers: wanted.cores,
        seats: placed(wanted, setup.cores)?.seats,
        topology: setup.topology,
        retired: retired.clone(),
    })
}

/// The clients whose weight is another, with that; a weight that is not given is 1.
fn changed(before: &[Weight], after: &[Weight]) -> Vec<(ClientId, Weight)> {
    let weight = |weights: &[Weight], at: usize| weights.get(at).copied().unwrap_or(Weight::ONE);
    let clients = 0..before.len().max(after.len());
    let differ = clients.filter(|&at| weight(before, at) != weight(after, at));
    differ.map(|at| (ClientId::from_index(at), weight(after, at))).collect()
}

/// Options that may change while a run goes on; beside them, its policies and workers may.
const MAY_CHANGE: [&str; 2] = ["weights", "in-flight"];

/// Refuses what can only be changed by another run.
fn check(running: &RunConfig, wanted: &RunConfig) -> Result<(), LabError> {
    let refuse = |why: String| Err(LabError::option(why));
    for (option, is_used) in [
        ("@journal", running.journal.is_some()),
        ("@timeline", running.timeline.is_some()),
        ("@swap", !running.swaps.is_empty()),
        ("@clock virtual", running.clock == Clock::Virtual),
        ("@dispatchers", running.dispatchers.is_some_and(|dispatchers| dispatchers != 1)),
    ] {
        if is_used {
            return refuse(format!("a run with {option} keeps its configuration: start it without that"));
        }
    }
    if running.inputs() != wanted.inputs() {
        return refuse("other inputs need another run: end this one and start that".to_owned());
    }
    let (before, after) = (running.options(), wanted.options());
    let differs = |name: &&&str| before.get(**name) != after.get(**name) && !MAY_CHANGE.contains(name);
    match before.keys().chain(after.keys()).find(differs) {
        Some(name) => refuse(format!(
            "policies, weights and workers can change under way, and `{name}` cannot: it needs another run"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::host::Host;

    fn config(policy: &str) -> RunConfig {
        RunConfig::new(Host::Live, "gen:poisson", policy.parse().unwrap())
    }

    fn refusal(running: &RunConfig, wanted: &RunConfig) -> String {
        replacement(running, wanted, 16, &channel().0).err().unwrap().to_string()
    }

    #[test]
    fn policies_weights_and_workers_can_change() {
        let running = config("hrw");
        let mut wanted = config("steer=conn/share=drr");
        wanted.cores = 5;
        wanted.weights = vec![Weight::ONE, Weight::new(7).unwrap()];
        let replacement = replacement(&running, &wanted, 16, &channel().0).unwrap();
        assert_eq!((replacement.workers, replacement.scheduler.cores()), (5, 5));
        assert_eq!(replacement.weights, [(ClientId(1), Weight::new(7).unwrap())]);
    }

    #[test]
    fn what_needs_another_run_is_named() {
        let running = config("hrw");
        let mut wanted = config("hrw");
        wanted.buffer = 100;
        assert!(refusal(&running, &wanted).contains("`buffer` cannot"));
        let mut other = config("hrw");
        other.input = "in.pcap".to_owned();
        assert!(refusal(&running, &other).contains("other inputs"));
        let mut written = config("hrw");
        written.journal = Some("run.jsonl".to_owned());
        assert!(refusal(&written, &config("drr")).contains("journal"));
        let mut uneven = config("hrw");
        uneven.contexts = 3;
        assert!(refusal(&running, &uneven).contains("`contexts` cannot"));
    }

    #[test]
    fn weights_that_are_no_longer_given_are_one() {
        let three = Weight::new(3).unwrap();
        assert_eq!(changed(&[three, three], &[three]), [(ClientId(1), Weight::ONE)]);
        assert_eq!(changed(&[], &[Weight::ONE]), []);
    }
}
