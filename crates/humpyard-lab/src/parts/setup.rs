//! The scheduler of a run with its configuration and measurements, its cores, services and ports.

use core::time::Duration;
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::absolute;
use std::sync::Arc;

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::cost::{CostModel, LinearCost};
use humpyard_core::id::{FlowId, Id, ServiceId};
use humpyard_core::measure::{Measured, Measurements};
use humpyard_core::mechanism::PlannedSwap;
use humpyard_core::policy::Share;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::{AnyScheduler, PolicySpec};
use humpyard_runtime::Overload;
use humpyard_sim::{Host as SimulatedHost, Interrupted, Timing};
use humpyard_traffic::classify::{Classifier, ClassifierConfig};
use humpyard_traffic::flow::FlowNames;
use humpyard_traffic::header::FlowKey;
use humpyard_traffic::repeat::Repeat;
use humpyard_traffic::sink::{Sink, create};
use humpyard_traffic::source::Source;
use humpyard_traffic::{First, TrafficError};
use humpyard_wire::{FanOutTable, Ports};

use crate::LabError;
use crate::choice::assumed::{AssumedHost, IDEAL};
use crate::choice::host::{Clock, Host};
use crate::choice::rate::Rate;
use crate::choice::time::time;
use crate::config::RunConfig;
use crate::costs::{Found, MachineCosts, ServiceCost};
use crate::journal::JournalFile;
use crate::parts::order::check_order;
use crate::parts::place::placed;
use crate::parts::ruled::Ruled;
use crate::timeline::TimelineFile;

/// The mechanism over any policies, measured.
pub(crate) type AnyMeasured = Measured<AnySteer, AnyShare, AnyAllocate>;

/// Policies that take over, whichever they are.
pub(crate) type AnySwap<'a> = PlannedSwap<'a, AnySteer, AnyShare, AnyAllocate>;

/// The longest packet that policies prepare for, in bytes: an Ethernet frame.
pub(crate) const LONGEST_BYTES: u32 = 1514;

/// The typical packet whose work allocations reckon with, in bytes: about the mean of the papers' traces.
pub(crate) const TYPICAL_BYTES: u32 = 800;

/// Rejects a run without room for more flows than packets.
pub(crate) fn check_flows(config: &RunConfig) -> Result<(), LabError> {
    let (places, more) = if config.link.is_some() { (2, " twice, for as many may wait at @link") } else { (1, "") };
    if config.flows > places * config.buffer {
        return Ok(());
    }
    Err(LabError::option(format!(
        "@flows ({}) must be greater than @buffer ({}){more}, so that a new flow always finds room",
        config.flows, config.buffer
    )))
}

/// Returns the configuration with room for no more packets and flows than the input has, if it says how many, as
/// generators and tables do, and if no policy decides by the number of clients. Tables for 65,536 flows take a hundred times as long to set up as a hundred packets take to simulate.
pub(crate) fn with_room_for_input(config: &RunConfig) -> Cow<'_, RunConfig> {
    let is_made = config.table.is_some() || config.inputs().iter().all(|input| input.starts_with("gen:"));
    let mut policies = config.swaps.iter().map(|(_, policy)| policy).chain([&config.policy]);
    // A journal says how much room there is, and live runs write the same.
    let may_fit = is_made && config.journal.is_none() && !policies.any(PolicySpec::counts_clients);
    // What is wrong with options or input is said where they are used.
    let source = if may_fit && check_flows(config).is_ok() { source(config).ok() } else { None };
    let most = source.and_then(|source| source.packets_left()).and_then(|most| usize::try_from(most).ok());
    // Where there are more packets, it is they that take time.
    let Some(most) = most.filter(|&most| most <= config.buffer) else { return Cow::Borrowed(config) };
    let buffer = most.max(1);
    // Flows: one for each packet, and for each that waits at a link, and one more, as `check_flows` demands.
    let flows = config.flows.min(2 * buffer + 1);
    Cow::Owned(RunConfig { flows, buffer, ..config.clone() })
}

/// Returns the classifier of a run.
pub fn classifier(config: &RunConfig) -> Result<Classifier, LabError> {
    check_flows(config)?;
    check_names(config)?;
    let classifier = ClassifierConfig {
        flows: config.flows,
        granularity: config.granularity(),
        rules: Ruled::new(config)?.rules,
        local: config.local.clone(),
        seed: config.seed,
        timeout: config.flow_timeout.map(time),
        tunnels: config.tunnels,
        hash: config.hash,
    };
    Ok(Classifier::new(classifier)?)
}

/// Returns what each service costs, in ns.
pub(crate) fn costs(config: &RunConfig) -> Result<Vec<LinearCost>, LabError> {
    Ok(lines(config)?.iter().map(|found| found.line.cost()).collect())
}

/// Whether a batch of some service has a cost of its own.
pub(crate) fn has_batches(config: &RunConfig) -> bool {
    batches(config).is_ok_and(|batches| batches.iter().any(|&batch| batch > 0))
}

/// Returns the part of it that the packets of a batch pay once, in ns.
fn batches(config: &RunConfig) -> Result<Vec<u64>, LabError> {
    Ok(lines(config)?.iter().map(|found| found.line.per_batch()).collect())
}

/// Returns the line of each service's costs. Where the line is but an estimate, on real cores without a load, a line of
/// the same service with other parameters will do.
pub(crate) fn lines(config: &RunConfig) -> Result<Vec<Found<'_>>, LabError> {
    let is_exact = config.knows_work();
    let line = |work| if is_exact { config.costs.find(work) } else { config.costs.estimate(work) };
    config.services.iter().map(|choice| line(&choice.work)).collect()
}

/// Returns the costs of services, as results show them.
pub(crate) fn service_costs(config: &RunConfig) -> Result<Vec<ServiceCost>, LabError> {
    let lines = lines(config)?;
    Ok(config.services.iter().zip(&lines).map(|(choice, found)| found.of(&choice.name)).collect())
}

/// Returns the configuration of the scheduler of a run of this many cores and clients.
pub fn scheduler_config(config: &RunConfig, cores: usize, clients: usize) -> Result<SchedulerConfig, LabError> {
    check_cores(config, cores)?;
    check_host(config)?;
    check_order(config, cores)?;
    let topology = placed(config, cores)?.topology;
    let ruled = Ruled::new(config)?;
    let weights = ruled.weights(config);
    let costs = costs(config)?;
    let estimates = config.estimates(&costs);
    let guarantees = guarantees(config)?;
    let services = config
        .services
        .iter()
        .zip(&costs)
        .zip(guarantees)
        .map(|((choice, cost), guarantee_millionths)| ServiceConfig {
            name: choice.name.clone(),
            packet_time: Time::from_ns(cost.work(TYPICAL_BYTES)),
            switch_cost: time(config.switch_cost(&choice.name)),
            tolerance: time(config.tolerance(&choice.name)),
            guarantee_millionths,
        })
        .collect();
    let is_queued = config.host == Host::Live || config.hand_over.is_some() || config.assumed.is_some();
    let mut setup = SchedulerConfig {
        cores,
        contexts: config.contexts,
        speeds: config.speeds.clone(),
        topology,
        flows: config.flows,
        clients,
        packets: config.buffer,
        in_flight: if is_queued { config.in_flight } else { 1 },
        unit: config.unit,
        longest: estimates.iter().map(|cost| cost.work(LONGEST_BYTES)).max().unwrap_or(1),
        weights,
        estimates,
        services,
        services_per_core: config.services_per_core,
        ties: config.ties,
        seed: config.seed,
        limits: config.limits,
        flow_order: config.flow_order.of_clients(),
        chains: chains(config, ruled)?,
        exit: config.flow_order.exit(config.buffer),
        split: config.split,
        hand_over: time(config.hand_over.unwrap_or_default()),
        rendezvous: humpyard_simd::rendezvous(),
    };
    if config.host == Host::Live && setup.in_flight > 1 && has_quantum(&config.policy, &setup) {
        // A core gives back the packet that it has, and no other.
        setup.in_flight = 1;
    }
    Ok(setup)
}

/// Whether a core gives packets back after a quantum under this policy. Errors of the policy are for who builds it.
pub(crate) fn has_quantum(policy: &PolicySpec, setup: &SchedulerConfig) -> bool {
    let small = SchedulerConfig { flows: 1, clients: 1, packets: 1, weights: Vec::new(), ..setup.clone() };
    policy.build_share(&small).is_ok_and(|share| share.quantum().is_some())
}

/// The files that a run writes as it goes.
#[derive(Default)]
pub struct Records {
    journal: Option<JournalFile>,
    timeline: Option<TimelineFile>,
}

impl Records {
    /// Returns the listener for flows that begin. `None`: no file names flows.
    pub(crate) fn names(&self) -> Option<Arc<dyn FlowNames>> {
        let Self { journal, timeline } = self;
        (journal.is_some() || timeline.is_some())
            .then(|| Arc::new(Names { journal: journal.clone(), timeline: timeline.clone() }) as _)
    }

    /// Returns the journal. `None`: none is written.
    pub(crate) fn into_journal(self) -> Option<JournalFile> {
        self.journal
    }

    /// Completes the files; returns whether the timeline ends before the run.
    pub fn finish(self) -> Result<bool, LabError> {
        self.journal.map_or(Ok(()), JournalFile::finish)?;
        self.timeline.map_or(Ok(false), TimelineFile::finish)
    }
}

/// The files in which flows have names.
#[derive(Debug)]
struct Names {
    journal: Option<JournalFile>,
    timeline: Option<TimelineFile>,
}

impl FlowNames for Names {
    fn on_flow(&self, flow: FlowId, key: &FlowKey) {
        self.journal.iter().for_each(|journal| journal.on_flow(flow, key));
        self.timeline.iter().for_each(|timeline| timeline.on_flow(flow, key));
    }
}

/// Makes the mechanism with its policies.
///
/// # Errors
/// The error of a policy or of the mechanism, and a policy with a quantum where cores cannot give packets back.
pub(crate) fn scheduler(config: &RunConfig, setup: &SchedulerConfig) -> Result<AnyScheduler, LabError> {
    let scheduler = config.policy.build(setup)?;
    if scheduler.quantum().is_some() {
        check_preemption(config)?;
        scheduler.check_preemption()?;
    }
    Ok(scheduler)
}

/// Rejects a policy with a quantum where cores serve each packet to its end.
fn check_preemption(config: &RunConfig) -> Result<(), LabError> {
    let policy = &config.policy;
    let refused = if !config.swaps.is_empty() {
        format!("`{policy}` gives packets back after a quantum, so no policy can take over: omit @swap")
    } else if config.host == Host::Live && config.clock == Clock::Virtual {
        format!(
            "`{policy}` gives packets back after a quantum, which a live run does by a real clock alone: omit @clock, or \
             use `humpyard sim`"
        )
    } else if config.assumed.is_some() {
        format!(
            "`{policy}` gives packets back after a quantum, which is simulated on an ideal host alone: use @host {IDEAL}"
        )
    } else if config.interrupted {
        format!(
            "`{policy}` gives packets back after a quantum, which is simulated without interruptions: omit @interrupted"
        )
    } else {
        return Ok(());
    };
    Err(LabError::option(refused))
}

/// Makes the mechanism with its policies and measurements, and the files that it writes.
pub fn measured(config: &RunConfig, setup: &SchedulerConfig) -> Result<(AnyMeasured, Records), LabError> {
    let mut scheduler = scheduler(config, setup)?;
    let mut records = Records::default();
    if let Some(path) = &config.journal {
        let file = JournalFile::create(path, &config.policy, setup)?;
        scheduler = scheduler.with_journal(Box::new(file.clone()));
        records.journal = Some(file);
    }
    let mut measurements = Measurements::new(setup).with_chains(&setup.chains).with_warm_up(time(config.warm_up));
    if config.knows_work() {
        measurements = measurements.with_costs(&costs(config)?, &setup.chains);
    }
    let mut measured = Measured::new(scheduler, measurements);
    if let Some(choice) = &config.timeline {
        let file = TimelineFile::create(choice, &config.policy.to_string(), setup)?;
        measured = measured.with_observer(Box::new(file.clone()));
        records.timeline = Some(file);
    }
    Ok((measured, records))
}

/// Makes the cores of a run in virtual time.
pub fn cost_model(config: &RunConfig, setup: &SchedulerConfig) -> Result<CostModel, LabError> {
    let stalls = vec![time(config.stall); config.services.len()];
    let model = CostModel::new(setup, costs(config)?.into_iter().collect(), &stalls);
    Ok(model.with_moves(config.costs.moves).with_batches(batches(config)?.into_iter().collect()))
}

/// Returns how packets get to the cores of a simulation, and how cores are interrupted.
pub fn timing(config: &RunConfig) -> Result<Timing, LabError> {
    if let Some(assumed) = &config.assumed {
        let host = assumed.machine.host(&assumed.name)?;
        let processors = host.processors_for(config.cores, 1);
        let simulated = SimulatedHost::new(host.times.clone(), config.cores, processors);
        return Ok(timing_of_host(config, assumed, simulated, processors));
    }
    let hand_over = time(config.hand_over.unwrap_or_default());
    let interrupted = match (config.interrupted, config.costs.machine.as_ref().and_then(MachineCosts::disturbance)) {
        (false, _) => None,
        (true, Some(disturbance)) => Some(Interrupted::new(config.cores, &disturbance, config.seed)),
        (true, None) => {
            return Err(LabError::option(format!(
                "@interrupted: `{}` does not say how cores are interrupted: `humpyard calibrate --machine --output FILE` \
                 writes costs that do",
                config.costs
            )));
        }
    };
    let switch_out = time(config.switch_out.unwrap_or_default());
    Ok(Timing::default().with_hand_over(hand_over).with_interrupted(interrupted).with_switch_out(switch_out))
}

/// Rejects options that do not go with a host that takes time.
fn check_assumed(config: &RunConfig) -> Result<(), LabError> {
    if config.assumed.is_none() || config.host == Host::Live {
        return Ok(());
    }
    let refused = [
        ("swap", !config.swaps.is_empty()),
        ("link", config.link.is_some()),
        ("hand-over", config.hand_over.is_some()),
        ("interrupted", config.interrupted),
    ];
    if let Some((option, _)) = refused.iter().find(|(_, is_used)| *is_used) {
        return Err(LabError::option(format!("@{option} is simulated on an ideal host alone: use @host {IDEAL}")));
    }
    Ok(())
}

/// Returns how packets get to the cores of an assumed host, which has at most this number of threads.
pub(crate) fn timing_of_host(
    config: &RunConfig,
    assumed: &AssumedHost,
    simulated: SimulatedHost,
    threads: usize,
) -> Timing {
    let disturbance = assumed.machine.disturbance();
    let seed = Seed(config.seed.0.wrapping_add(assumed.draw));
    let interrupted = disturbance.map(|disturbance| Interrupted::new(threads, &disturbance, seed));
    let host = simulated.with_interrupted(interrupted).with_waiting(config.overload() == Overload::Wait);
    Timing::default().with_host(host)
}

/// Returns the policies that take over during the run.
pub(crate) fn swaps<'a>(
    config: &'a RunConfig,
    setup: &'a SchedulerConfig,
    records: &Records,
) -> Result<Vec<AnySwap<'a>>, LabError> {
    let mut planned: Vec<&(Duration, PolicySpec)> = config.swaps.iter().collect();
    planned.sort_by_key(|(at, _)| *at);
    let mut before = &config.policy;
    let swaps = planned.into_iter().map(|(at, policy)| {
        // Tried on an empty scheduler, so that errors are reported before the run.
        let mut trial = before.build(setup)?;
        policy.take_over(Time::ZERO, before, setup, &mut trial)?;
        if trial.quantum().is_some() {
            return Err(LabError::option(format!(
                "@swap: `{policy}` has a quantum, so it cannot take over: name it by @policy"
            )));
        }
        let last = core::mem::replace(&mut before, policy);
        let timeline = records.timeline.clone();
        let take_over = Box::new(move |now, scheduler: &mut AnyScheduler| {
            policy.take_over(now, last, setup, scheduler)?;
            if let Some(timeline) = &timeline {
                timeline.on_swap(now, &policy.to_string());
            }
            Ok(())
        });
        Ok(PlannedSwap { at: time(*at), policy: policy.to_string().into(), take_over: take_over as _ })
    });
    swaps.collect()
}

/// Returns the services that packets go through, by their first service; empty where no packet goes through several.
pub(crate) fn chains(config: &RunConfig, ruled: Ruled) -> Result<Vec<Vec<ServiceId>>, LabError> {
    if config.chains.is_empty() && ruled.chains.is_empty() {
        return Ok(Vec::new());
    }
    let mut chains: Vec<Vec<ServiceId>> =
        (0..config.services.len()).map(|id| vec![ServiceId::from_index(id)]).collect();
    for (first, then) in &config.chains {
        let chain = &mut chains[config.find_service(first)?.index()];
        chain.truncate(1);
        for name in then {
            chain.push(config.find_service(name)?);
        }
    }
    chains.extend(ruled.chains);
    Ok(chains)
}

/// Rejects cores that do not make whole elements, and speeds without a core.
fn check_cores(config: &RunConfig, cores: usize) -> Result<(), LabError> {
    if !cores.is_multiple_of(config.contexts) {
        return Err(LabError::option(format!(
            "@contexts {} does not divide {cores} cores: every element has as many; give one that does, or other cores",
            config.contexts
        )));
    }
    if config.speeds.len() > cores {
        return Err(LabError::option(format!(
            "@speeds names {} cores, and there are {cores}: name fewer, or have more cores",
            config.speeds.len()
        )));
    }
    Ok(())
}

/// Opens the input, played as often as asked, or its first packets.
pub fn source(config: &RunConfig) -> Result<Box<dyn Source + Send>, TrafficError> {
    let source = match config.table.clone() {
        Some(table) => Repeat::new(move || Ok(Box::new(table.open())), config.rounds)?,
        None => Repeat::open(&config.inputs(), config.seed, config.rounds)?,
    };
    Ok(match config.packets {
        Some(packets) => Box::new(First::new(source, packets)),
        None => Box::new(source),
    })
}

/// Rejects options that set when packets arrive, where packets arrive at an interface.
pub(crate) fn check_arrivals(config: &RunConfig) -> Result<(), LabError> {
    if !config.listens() {
        return Ok(());
    }
    let refuse =
        |option: &str| Err(LabError::option(format!("{option} does not apply to live interfaces: leave it out")));
    if config.clock == Clock::Virtual {
        return refuse("@clock virtual");
    }
    match config.rate {
        Rate::Line => {}
        Rate::Load { .. } => return refuse("@load"),
        Rate::Multiplied(_) => return refuse("@multiplier"),
        Rate::Trace | Rate::PacketsPerSecond(_) => return refuse("@rate"),
    }
    if config.rounds > 1 {
        return refuse("@loop");
    }
    if config.packets.is_some() {
        return refuse("@packets");
    }
    Ok(())
}

/// Opens the inputs and the output of a live run: files, or interfaces.
pub(crate) fn ports(config: &RunConfig) -> Result<Ports, LabError> {
    check_arrivals(config)?;
    let (inputs, output) = (config.inputs(), &config.output);
    Ok(humpyard_wire::open(&inputs, output, config.both_ways, || source(config), create)?)
}

/// Opens the interfaces of a run anew for each of its workers; returns the table of buckets, too.
pub(crate) fn ports_fanned_out(config: &RunConfig) -> Result<(Vec<Ports>, FanOutTable), LabError> {
    check_arrivals(config)?;
    let fanned_out = crate::parts::dispatch::fanned_out(config)?;
    Ok(humpyard_wire::open_fanned_out(&config.inputs(), &config.output, config.both_ways, &fanned_out)?)
}

/// Opens the quarantine, if one is asked for.
pub(crate) fn quarantine(config: &RunConfig) -> Result<Option<Box<dyn Sink + Send>>, LabError> {
    let Some(quarantine) = &config.quarantine else { return Ok(None) };
    if quarantine == "-" || quarantine == "null:" {
        return Err(LabError::option(format!("@quarantine takes the name of a capture file, not `{quarantine}`")));
    }
    if quarantine == &config.output || absolute(quarantine).ok() == absolute(&config.output).ok() {
        return Err(LabError::option(format!(
            "@quarantine and @output are both `{quarantine}`: name another file for one of them"
        )));
    }
    Ok(Some(create(quarantine)?))
}

/// Rejects a policy that must know all packets beforehand, or that runs by a virtual clock alone, where that is
/// impossible.
fn check_host(config: &RunConfig) -> Result<(), LabError> {
    check_assumed(config)?;
    let policies = || core::iter::once(&config.policy).chain(config.swaps.iter().map(|(_, policy)| policy));
    if config.host == Host::Live
        && config.clock == Clock::Real
        && let Some(name) = policies().find_map(PolicySpec::simulated_only)
    {
        return Err(LabError::option(format!(
            "`{name}` runs in virtual time alone, not on real threads: simulate it, or use @clock virtual"
        )));
    }
    if config.host == Host::Live && config.policy.is_offline() {
        return Err(LabError::option(format!(
            "`{}` must know all packets before the first is served, which a live run does not: use `humpyard sim`",
            config.policy
        )));
    }
    if config.host == Host::Live && config.policy.adds_work() {
        return Err(LabError::option(format!(
            "`{}` needs a service that applies the history of other packets: use `humpyard sim`",
            config.policy
        )));
    }
    let mut adding = policies().filter(|policy| policy.adds_work());
    if let Some(policy) = adding.next().filter(|_| !config.swaps.is_empty()) {
        return Err(LabError::option(format!(
            "`{policy}` changes the work of every packet, so it cannot take over or be replaced: leave out @swap"
        )));
    }
    match config.swaps.iter().find(|(_, policy)| policy.is_offline()) {
        Some((_, policy)) => Err(LabError::option(format!(
            "`{policy}` must know all packets before the first is served, so it cannot take over: name it by @policy"
        ))),
        None => Ok(()),
    }
}

/// Rejects a simulation without cores, which a host with a dispatcher of its own may be.
pub(crate) fn check_simulated(config: &RunConfig) -> Result<(), LabError> {
    if config.cores == 0 && config.assumed.is_none() {
        return Err(LabError::of_option("cores", "0: a simulation needs at least one core, or a @host"));
    }
    Ok(())
}

/// Returns the error of a simulation at a line rate.
pub fn no_line_rate() -> LabError {
    LabError::option("a simulation cannot use @rate line: give @rate trace, @rate PPS, @multiplier or @load")
}

/// Rejects tolerances, guarantees and chains of services that the run does not have.
fn check_names(config: &RunConfig) -> Result<(), LabError> {
    let all = || config.services.iter().map(|choice| choice.name.as_str());
    let mut names = HashSet::with_capacity(config.services.len());
    if let Some(twice) = all().find(|name| !names.insert(*name)) {
        return Err(LabError::option(format!(
            "two services are called `{twice}`: give each a name of its own, {twice}2=... for example"
        )));
    }
    if names.len() > SERVICES_MAX {
        return Err(LabError::option(format!("@services: {} services are more than {SERVICES_MAX}", names.len())));
    }
    let times = [("@tolerance", &config.tolerances), ("@switch-cost", &config.switch_costs)];
    let times = times.into_iter().flat_map(|(option, times)| times.iter().map(move |(name, _)| (option, name)));
    let times = times.filter(|(_, name)| !name.is_empty());
    let guarantees = config.guarantees.iter().map(|(name, _)| ("@guarantee", name));
    let chains = config.chains.iter().flat_map(|(first, then)| core::iter::once(first).chain(then));
    for (option, name) in times.chain(guarantees).chain(chains.map(|name| ("@chain", name))) {
        if !names.contains(name.as_str()) {
            return Err(LabError::option(format!("{option}: {}", config.no_service(name))));
        }
    }
    Ok(())
}

/// Most services of a run.
const SERVICES_MAX: usize = 16_384;

/// Returns the guarantee of each service, in millionths: services without one share the rest equally.
fn guarantees(config: &RunConfig) -> Result<Vec<u32>, LabError> {
    let mut known: Vec<Option<u32>> = config.services.iter().map(|choice| config.guarantee(&choice.name)).collect();
    round_down(&mut known);
    let sum: u64 = known.iter().flatten().map(|&share| u64::from(share)).sum();
    let left = 1_000_000u64.checked_sub(sum).ok_or_else(|| {
        // Where no option gives one, rules do.
        let option = if config.guarantees.is_empty() { "" } else { "@guarantee: " };
        LabError::option(format!("{option}the guarantees add up to {}, more than 1: lower one", sum as f64 / 1e6))
    })?;
    let others = known.iter().filter(|share| share.is_none()).count().max(1) as u64;
    Ok(known.into_iter().map(|share| share.unwrap_or((left / others) as u32)).collect())
}

/// Takes off the greatest shares, one millionth each, what rounding may have added to the sum beyond 1.
fn round_down(shares: &mut [Option<u32>]) {
    let given = shares.iter().flatten().count() as u64;
    let sum: u64 = shares.iter().flatten().map(|&share| u64::from(share)).sum();
    let beyond = sum.saturating_sub(1_000_000);
    if beyond > given / 2 {
        return;
    }
    let mut greatest: Vec<&mut u32> = shares.iter_mut().flatten().collect();
    greatest.sort_by(|a, b| b.cmp(a));
    greatest.into_iter().take(beyond as usize).for_each(|share| *share -= 1);
}

#[cfg(test)]
mod tests {
    use humpyard_core::policy::Build;
    use humpyard_policies::own::OwnPolicy;
    use humpyard_policies::share::fcfs::{Fcfs, FcfsParams};

    use super::*;

    fn config() -> RunConfig {
        RunConfig::new(Host::Sim, "gen:poisson", "drr".parse().expect("a policy"))
    }

    #[test]
    fn policies_for_simulations_alone_do_not_run_live() {
        let own = OwnPolicy::share("mine", |config| Fcfs::new(&FcfsParams {}, config)).expect("a new name");
        let mut config = RunConfig::new(Host::Live, "gen:poisson", own.clone().into());
        assert!(scheduler_config(&config, 2, 4).is_ok(), "other policies of a program do");
        config.policy = own.simulated_only().into();
        let said = scheduler_config(&config, 2, 4).unwrap_err().to_string();
        assert_eq!(said, "`mine` runs in virtual time alone, not on real threads: simulate it, or use clock virtual");
        config.clock = Clock::Virtual;
        assert!(scheduler_config(&config, 2, 4).is_ok());
    }

    #[test]
    fn policies_that_add_work_are_simulated_from_the_start() {
        let scr = || "scr".parse().expect("a policy");
        let refused = |config: &RunConfig| scheduler_config(config, 2, 4).unwrap_err().to_string();
        let said = refused(&RunConfig::new(Host::Live, "gen:poisson", scr()));
        assert!(said.starts_with("`scr` needs a service that applies the history of other packets"), "{said}");
        let mut config = RunConfig::new(Host::Sim, "gen:poisson", scr());
        assert!(scheduler_config(&config, 2, 4).is_ok());
        config.swaps.push((Duration::from_millis(1), "jsq".parse().expect("a policy")));
        assert!(refused(&config).starts_with("`scr` changes the work of every packet"));
        config.policy = core::mem::replace(&mut config.swaps[0].1, scr());
        assert!(refused(&config).starts_with("`scr` changes the work of every packet"));
    }

    fn guaranteed(shares: &[&str]) -> Result<Vec<u32>, LabError> {
        let mut config = config();
        let name = |at: usize| format!("s{at}");
        let work = crate::ServiceChoice::forward().work;
        let service = |at| crate::ServiceChoice { name: name(at), matches: None, work: work.clone() };
        config.services = (0..shares.len()).map(service).collect();
        let share =
            |(at, text): (usize, &&str)| (name(at), humpyard_text::quantity::parse_share(text).expect("a share"));
        config.guarantees = shares.iter().enumerate().map(share).collect();
        guarantees(&config)
    }

    #[test]
    fn shares_that_round_up_to_more_than_1_are_taken() {
        // 4/9, 1/9 and so on as people type them.
        for shares in
            [&["0.4444445", "0.1111112", "0.1111112", "0.3333334"][..], &["0.6666667", "0.3333335"], &["0.1666667"; 6]]
        {
            let found = guaranteed(shares).expect("they add up to 1, but for rounding");
            assert!(found.iter().sum::<u32>() <= 1_000_000, "{found:?}");
            for (share, text) in found.iter().zip(shares) {
                assert!((f64::from(*share) - text.parse::<f64>().unwrap() * 1e6).abs() <= 1.5, "{found:?}");
            }
        }
        let said = guaranteed(&["0.500002", "0.5"]).unwrap_err().to_string();
        assert_eq!(said, "guarantee: the guarantees add up to 1.000002, more than 1: lower one");
    }
}
