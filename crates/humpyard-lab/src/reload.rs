//! Another configuration for a live run that goes on: policies, weights and workers can change under way.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use humpyard_core::id::{ClientId, Id};
use humpyard_core::unit::Weight;
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::AnyScheduler;
use humpyard_runtime::{Replacement, Seat};
use humpyard_wire::FanOutTable;

use crate::LabError;
use crate::choice::host::Clock;
use crate::config::RunConfig;
use crate::parts::dispatch::{dispatching, fanned_out, settled, why_not};
use crate::parts::link::check_withholding;
use crate::parts::place::placed;
use crate::parts::ruled::Ruled;
use crate::parts::{setup, several};

/// Policies, weights and workers with which a run goes on, whichever they are.
pub(crate) type AnyReplacement = Replacement<AnySteer, AnyShare, AnyAllocate>;

/// Asks a live run to go on with another configuration.
pub trait Reload: Sync {
    /// Returns the configuration that is wanted, once. `None`: no other is wanted. It is called several times a second, on another
    /// thread than that of the run.
    fn wanted(&self) -> Option<RunConfig>;

    /// Reports the outcome: the configuration takes over now, or why it does not.
    fn told(&self, outcome: Result<(), LabError>);
}

/// How often it is asked whether another configuration is wanted.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A dispatcher of the run, or a worker that needs none, as one that takes over what is wanted.
pub(crate) struct Taker {
    /// One more than its largest client number.
    clients: usize,
    /// Where its threads sit. `None`: that is chosen anew.
    seats: Option<Vec<Seat>>,
    replacements: Sender<AnyReplacement>,
}

impl Taker {
    /// Returns a taker, and what its dispatcher takes over from.
    pub(crate) fn new(clients: usize, seats: Option<Vec<Seat>>) -> (Self, Receiver<AnyReplacement>) {
        let (replacements, coming) = channel();
        (Self { clients, seats, replacements }, coming)
    }
}

/// Makes what a run goes on with of every configuration that is wanted, until the run is over. `table`: where
/// the kernel finds the worker of a packet.
pub(crate) fn serve(
    begun: &RunConfig,
    takers: &[Taker],
    table: Option<&FanOutTable>,
    reload: &dyn Reload,
    over: &AtomicBool,
) {
    let mut running = begun.clone();
    let (retired, retiring) = channel();
    while !over.load(Ordering::Relaxed) {
        if let Some(wanted) = reload.wanted() {
            let wanted = resolved(&running, wanted);
            let made = replacements(&running, &wanted, takers, &retired).and_then(|made| {
                table.map_or(Ok(()), |table| fan_out(&running, &wanted, table))?;
                Ok(made)
            });
            reload.told(made.map(|made| {
                for (taker, made) in takers.iter().zip(made) {
                    // A run that is over takes nothing any more.
                    let _ = taker.replacements.send(made);
                }
                running = wanted;
            }));
        }
        retiring.try_iter().for_each(drop);
        thread::sleep(ASK_EVERY);
    }
}

/// Returns what is wanted, where what it leaves open is as the run has it.
fn resolved(running: &RunConfig, wanted: RunConfig) -> RunConfig {
    let dispatchers = wanted.dispatchers.or(running.dispatchers);
    let mut wanted = RunConfig { dispatchers, ..wanted };
    wanted = settled(&wanted, &dispatching(&wanted));
    // What was measured before the run is not measured again under way.
    if wanted.costs.is_auto() && running.costs.is_auto() {
        wanted.costs = running.costs.clone();
    }
    wanted
}

/// Has the kernel give each worker the packets that the wanted policy gives it.
fn fan_out(running: &RunConfig, wanted: &RunConfig, table: &FanOutTable) -> Result<(), LabError> {
    let (before, after) = (fanned_out(running)?.table, fanned_out(wanted)?.table);
    if before == after {
        return Ok(());
    }
    table.set(&after).map_err(|error| {
        LabError::option(format!(
            "the kernel keeps its table of workers ({error}): start the run with @keep-privileges, or keep to policies \
             that steer alike"
        ))
    })
}

/// Returns what each dispatcher goes on with in a run that is to be as `wanted`; what they leave behind goes
/// to `retired`.
fn replacements(
    running: &RunConfig,
    wanted: &RunConfig,
    takers: &[Taker],
    retired: &Sender<AnyScheduler>,
) -> Result<Vec<AnyReplacement>, LabError> {
    check(running, wanted)?;
    check_withholding(wanted)?;
    let [Taker { clients, seats: None, .. }] = takers else {
        let (before, after) = (several::parts(running)?.0, several::parts(wanted)?.0);
        let of_each = before.iter().zip(&after).zip(takers);
        let made = of_each.map(|((before, after), taker)| {
            let made = replacement(before, after, taker.clients, retired);
            let made = made.map_err(|error| several::of_one(error, wanted, after.cores))?;
            Ok(Replacement { seats: taker.seats.clone(), ..made })
        });
        return made.collect();
    };
    Ok(vec![replacement(running, wanted, *clients, retired)?])
}

/// Returns what one dispatcher goes on with.
fn replacement(
    running: &RunConfig,
    wanted: &RunConfig,
    clients: usize,
    retired: &Sender<AnyScheduler>,
) -> Result<AnyReplacement, LabError> {
    let before = setup::scheduler_config(running, running.cores.max(1), clients)?.weights;
    let link_weights = |config: &RunConfig| Ok::<_, LabError>(Ruled::new(config)?.link_weights(config));
    let link_weights = changed(&link_weights(running)?, &link_weights(wanted)?);
    let setup = setup::scheduler_config(wanted, wanted.cores.max(1), clients)?;
    for policy in [&running.policy, &wanted.policy] {
        if setup::has_quantum(policy, &setup) {
            return Err(LabError::option(format!(
                "`{policy}` has a quantum, so it can neither take over nor be replaced: that needs another run"
            )));
        }
    }
    Ok(Replacement {
        policy: wanted.policy.to_string().into(),
        scheduler: setup::scheduler(wanted, &setup)?,
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
    ] {
        if is_used {
            return refuse(format!("a run with {option} keeps its configuration: start it without that"));
        }
    }
    if running.inputs() != wanted.inputs() {
        return refuse("other inputs need another run: end this one and start that".to_owned());
    }
    if running.dispatchers.is_some_and(|dispatchers| dispatchers != 1) && running.cores != wanted.cores {
        let (dispatchers, workers) = (running.dispatchers.unwrap_or(1), running.cores);
        return refuse(format!(
            "a run with @dispatchers {dispatchers} keeps its {workers} workers, and {} are wanted: that needs another \
             run",
            wanted.cores
        ));
    }
    if let (Some(0), Some(0), Some(why)) = (running.dispatchers, wanted.dispatchers, why_not(wanted)) {
        return refuse(format!("this run has no dispatcher, and {why}: that needs another run"));
    }
    if running.dispatchers.is_some_and(|dispatchers| dispatchers > 1) {
        several::refuse(wanted)?;
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
        check(running, wanted).unwrap_err().to_string()
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

    /// Each dispatcher gets its part; one that sits somewhere stays there.
    #[test]
    fn each_of_several_dispatchers_has_its_part() {
        let running = RunConfig { dispatchers: Some(2), cores: 5, ..config("hrw") };
        let wanted = RunConfig { policy: "steer=conn/share=drr".parse().unwrap(), ..running.clone() };
        let seats = several::parts(&running).unwrap().1.dispatchers;
        let takers: Vec<Taker> = seats.iter().map(|seats| Taker::new(16, Some(seats.clone())).0).collect();
        let made = replacements(&running, &wanted, &takers, &channel().0).unwrap();
        let of = |one: &AnyReplacement| (one.workers, one.scheduler.cores());
        assert_eq!(made.iter().map(of).collect::<Vec<_>>(), [(3, 3), (2, 2)]);
        assert!(made.iter().zip(seats).all(|(one, seats)| one.seats == Some(seats)));
        let more = RunConfig { cores: 6, ..running.clone() };
        assert!(refusal(&running, &more).contains("dispatchers 2 keeps its 5 workers, and 6 are wanted"));
        let few = RunConfig {
            services: crate::ServiceChoice::parse_list("tcp=forward,udp=forward,other=forward").unwrap(),
            ..running
        };
        let allocating = RunConfig { policy: "static".parse().unwrap(), ..few.clone() };
        let said = replacements(&few, &allocating, &takers, &channel().0).err().unwrap().to_string();
        assert!(said.contains("3 services need at least 3 cores, not 2; with dispatchers 2"), "{said}");
    }

    #[test]
    fn a_run_without_a_dispatcher_keeps_to_policies_that_need_none() {
        let live = |policy: &str| RunConfig {
            dispatchers: Some(0),
            input: "iface:a".to_owned(),
            output: "iface:b".to_owned(),
            ..config(policy)
        };
        let running = live("hrw");
        assert!(check(&running, &live("steer=conn/share=wfq")).is_ok());
        let left_open = RunConfig { dispatchers: None, ..live("rss++") };
        let said = refusal(&running, &resolved(&running, left_open));
        assert!(said.contains("no dispatcher, and rss++ needs a view of all cores"), "{said}");
        let other = RunConfig { dispatchers: Some(1), ..live("rss++") };
        assert!(refusal(&running, &other).contains("`dispatchers` cannot"));
    }

    #[test]
    fn weights_that_are_no_longer_given_are_one() {
        let three = Weight::new(3).unwrap();
        assert_eq!(changed(&[three, three], &[three]), [(ClientId(1), Weight::ONE)]);
        assert_eq!(changed(&[], &[Weight::ONE]), []);
    }
}
