//! From a configuration to the parts that a driver takes.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::path::absolute;

use humpyard_core::cost::{CostModel, LinearCost};
use humpyard_core::frame::Frame;
use humpyard_core::id::{Id, ServiceId};
use humpyard_core::measure::{Measured, Measurements};
use humpyard_core::mechanism::{FlowOrder, Options, PlannedSwap};
use humpyard_core::name::unknown;
use humpyard_core::policy::{ServiceSetup, Setup};
use humpyard_core::unit::Time;
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::{AnyScheduler, PolicySpec};
use humpyard_traffic::classify::{Classifier, ClassifierConfig, Granularity, Rule};
use humpyard_traffic::pace::{Pace, Pacer};
use humpyard_traffic::repeat::Repeat;
use humpyard_traffic::sink::{Sink, create};
use humpyard_traffic::source::Source;

use crate::LabError;
use crate::config::{Host, Rate, RunConfig};
use crate::journal::JournalFile;

/// The mechanism over any policies, measured.
pub(crate) type AnyMeasured = Measured<AnySteer, AnyShare, AnyAllocate>;

/// Policies that take over, whichever they are.
pub(crate) type AnySwap<'a> = PlannedSwap<'a, AnySteer, AnyShare, AnyAllocate>;

/// The longest packet that policies prepare for, in bytes: an Ethernet frame.
const LONGEST_BYTES: u32 = 1514;

/// The typical packet whose work allocations reckon with, in bytes: about the mean of the papers' traces.
const TYPICAL_BYTES: u32 = 800;

/// The classifier of a run.
pub(crate) fn classifier(config: &RunConfig) -> Result<Classifier, LabError> {
    if config.flows <= config.buffer {
        return Err(LabError::option(format!(
            "there must be room for more flows than packets, or every flow may be in use: raise --flows ({}) above \
             --buffer ({})",
            config.flows, config.buffer
        )));
    }
    let rules = config.services.iter().enumerate();
    let rules = rules.map(|(id, choice)| Rule { matches: choice.matches, service: ServiceId::from_index(id) });
    let classifier = ClassifierConfig {
        flows: config.flows,
        granularity: config.clients,
        rules: rules.collect(),
        seed: config.seed,
        timeout: config.flow_timeout.map(time),
        tunnels: config.tunnels,
    };
    Ok(Classifier::new(classifier)?)
}

/// What each service costs, in ns.
pub(crate) fn costs(config: &RunConfig) -> Result<Vec<LinearCost>, LabError> {
    let costs = config.services.iter().map(|choice| config.costs.cost(&choice.work.name));
    costs.collect::<Result<_, _>>().map_err(LabError::Option)
}

/// Makes the set-up of a run of so many cores and clients, and does something with it.
pub(crate) fn with_setup<T>(
    config: &RunConfig,
    cores: usize,
    clients: usize,
    body: impl FnOnce(&Setup<'_>, &Options) -> Result<T, LabError>,
) -> Result<T, LabError> {
    check_names(config)?;
    check_cores(config, cores)?;
    let costs = costs(config)?;
    let estimates = config.estimates(&costs);
    let guarantees = guarantees(config)?;
    let services: Vec<ServiceSetup<'_>> = config
        .services
        .iter()
        .zip(&costs)
        .zip(guarantees)
        .map(|((choice, cost), guarantee_millionths)| ServiceSetup {
            name: &choice.name,
            packet_time: Time::from_ns(cost.work(TYPICAL_BYTES)),
            switch_cost: time(config.switch_cost),
            tolerance: time(config.tolerance(&choice.name)),
            guarantee_millionths,
        })
        .collect();
    let setup = Setup {
        cores,
        contexts: config.contexts,
        speeds: &config.speeds,
        topology: config.topology.as_ref(),
        flows: config.flows,
        clients,
        packets: config.buffer,
        unit: config.unit,
        longest: estimates.iter().map(|cost| cost.work(LONGEST_BYTES)).max().unwrap_or(1),
        weights: &config.weights,
        estimates: &estimates,
        services: &services,
        ties: config.ties,
        seed: config.seed,
    };
    let flow_order = config.flow_order.unwrap_or(match config.clients {
        Granularity::Service => FlowOrder::Free,
        Granularity::Flow | Granularity::Connection => FlowOrder::Keep,
    });
    let options = Options { limits: config.limits, flow_order, chains: chains(config)?, exit: config.exit };
    body(&setup, &options)
}

/// The mechanism with its policies and measurements, and the journal that it writes.
pub(crate) fn measured(
    config: &RunConfig,
    setup: &Setup<'_>,
    options: &Options,
) -> Result<(AnyMeasured, Option<JournalFile>), LabError> {
    let in_flight = if config.host == Host::Live { config.in_flight } else { 1 };
    let mut scheduler = config.policy.build(setup, options.clone())?.with_in_flight(in_flight);
    let mut journal = None;
    if let Some(path) = &config.journal {
        let file = JournalFile::create(path, &config.policy, setup, options, in_flight)?;
        scheduler = scheduler.with_journal(Box::new(file.clone()));
        journal = Some(file);
    }
    let measurements = Measurements::new(setup).with_chains(&options.chains).with_warm_up(time(config.warm_up));
    Ok((Measured::new(scheduler, measurements), journal))
}

/// The cores of a run in virtual time.
pub(crate) fn cost_model(config: &RunConfig, setup: &Setup<'_>) -> Result<CostModel, LabError> {
    let stalls = vec![time(config.stall); config.services.len()];
    Ok(CostModel::new(setup, costs(config)?.into_iter().collect(), &stalls))
}

/// The policies that take over on the way.
pub(crate) fn swaps<'a>(config: &'a RunConfig, setup: &'a Setup<'a>) -> Result<Vec<AnySwap<'a>>, LabError> {
    let mut planned: Vec<&(Duration, PolicySpec)> = config.swaps.iter().collect();
    planned.sort_by_key(|(at, _)| *at);
    let mut before = &config.policy;
    let swaps = planned.into_iter().map(|(at, policy)| {
        // Tried on an empty scheduler, so that a slip is told before the run.
        let mut trial = before.build(setup, Options::default())?;
        policy.take_over(Time::ZERO, before, setup, &mut trial)?;
        let last = core::mem::replace(&mut before, policy);
        let take_over =
            Box::new(move |now, scheduler: &mut AnyScheduler| policy.take_over(now, last, setup, scheduler));
        Ok(PlannedSwap { at: time(*at), take_over })
    });
    swaps.map(|swap| swap.map(|PlannedSwap { at, take_over }| PlannedSwap { at, take_over: take_over as _ })).collect()
}

/// The services that packets go through, by the service with which they begin; none where no packet goes through several.
fn chains(config: &RunConfig) -> Result<Vec<Vec<ServiceId>>, LabError> {
    if config.chains.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = config.services.iter().map(|choice| choice.name.as_str()).collect();
    let find = |name: &str| {
        let found = names.iter().position(|known| *known == name).map(ServiceId::from_index);
        found.ok_or_else(|| LabError::option(unknown("service of this run", name, names.iter().copied())))
    };
    let mut chains: Vec<Vec<ServiceId>> = (0..names.len()).map(|id| vec![ServiceId::from_index(id)]).collect();
    for (first, then) in &config.chains {
        let chain = &mut chains[find(first)?.index()];
        chain.truncate(1);
        for name in then {
            chain.push(find(name)?);
        }
    }
    Ok(chains)
}

/// Cores must make whole elements, and there must be a core for each speed.
fn check_cores(config: &RunConfig, cores: usize) -> Result<(), LabError> {
    if !cores.is_multiple_of(config.contexts) {
        return Err(LabError::option(format!(
            "--contexts {} does not divide {cores} cores: every element has as many",
            config.contexts
        )));
    }
    if config.speeds.len() > cores {
        return Err(LabError::option(format!("--speeds names {} cores, and there are {cores}", config.speeds.len())));
    }
    Ok(())
}

fn time(duration: Duration) -> Time {
    Time::from_ns(duration.as_nanos() as u64)
}

/// The input, played as often as asked.
pub(crate) fn source(config: &RunConfig) -> Result<Box<dyn Source + Send>, LabError> {
    Ok(Box::new(Repeat::open(&config.inputs(), config.seed, config.rounds)?))
}

/// The quarantine, if one is asked for.
pub(crate) fn quarantine(config: &RunConfig) -> Result<Option<Box<dyn Sink + Send>>, LabError> {
    let Some(quarantine) = &config.quarantine else { return Ok(None) };
    if quarantine == "-" || quarantine == "null:" {
        return Err(LabError::option(format!("--quarantine takes the name of a capture file, not `{quarantine}`")));
    }
    if quarantine == &config.output || absolute(quarantine).ok() == absolute(&config.output).ok() {
        return Err(LabError::option(format!(
            "--quarantine and --output are both `{quarantine}`: name another file for one of them"
        )));
    }
    Ok(Some(create(quarantine)?))
}

/// The pacer; none where packets come as fast as they are taken. A load is found by reading the input once, until `stop` is
/// set.
pub(crate) fn pacer(config: &RunConfig, cores: usize, stop: &AtomicBool) -> Result<Option<Pacer>, LabError> {
    let pace = match config.rate {
        Rate::Line => return Ok(None),
        Rate::Trace => Pace::Trace,
        Rate::PacketsPerSecond(rate) => Pace::PacketsPerSecond(rate),
        Rate::Load(load) => Pace::Stretched(stretch(config, cores, load, stop)?),
    };
    Ok(Some(pacer_of(config, pace)))
}

/// A pacer for the input: the clock of a generator does not jump.
fn pacer_of(config: &RunConfig, pace: Pace) -> Pacer {
    let pacer = Pacer::new(pace);
    if config.inputs().iter().all(|input| input.starts_with("gen:")) { pacer.with_long_gaps() } else { pacer }
}

/// By how much gaps must be stretched for this load of so many cores. If `stop` is set it does not matter: the run is over.
fn stretch(config: &RunConfig, cores: usize, load: f64, stop: &AtomicBool) -> Result<f64, LabError> {
    if config.reads_pipe() {
        return Err(LabError::option("--load reads the input twice, which a pipe does not allow: use a file"));
    }
    let costs = costs(config)?;
    let mut classifier = classifier(config)?;
    let mut source = source(config)?;
    let mut pacer = pacer_of(config, Pace::Trace);
    let mut frame = Frame::default();
    let (mut work, mut duration) = (0u128, Time::ZERO);
    let mut packets = 0u64;
    // Damage ends this reading as it will end the run, which tells of it.
    while let Ok(true) = source.next(&mut frame) {
        packets += 1;
        let packet = classifier.classify(&frame)?.packet;
        classifier.release(&packet);
        work += u128::from(costs[packet.service.index()].work(packet.length));
        duration = pacer.arrival(frame.time);
        if stop.load(Ordering::Relaxed) {
            return Ok(1.0);
        }
    }
    if packets == 0 {
        return Ok(1.0);
    }
    if duration == Time::ZERO {
        return Err(LabError::option(format!(
            "--load needs an input that takes time, but all packets of `{}` come at once: use --rate",
            config.input_name()
        )));
    }
    Ok(work as f64 / (load * cores as f64) / duration.as_ns() as f64)
}

/// Tolerances and guarantees must name services of the run.
fn check_names(config: &RunConfig) -> Result<(), LabError> {
    let names: Vec<&str> = config.services.iter().map(|choice| choice.name.as_str()).collect();
    if let Some(twice) = (1..names.len()).find(|&i| names[..i].contains(&names[i])) {
        return Err(LabError::option(format!("two services are called `{}`", names[twice])));
    }
    let tolerances = config.tolerances.iter().map(|(name, _)| name.as_str()).filter(|name| !name.is_empty());
    let guarantees = config.guarantees.iter().map(|(name, _)| name.as_str());
    for name in tolerances.chain(guarantees) {
        if !names.contains(&name) {
            return Err(LabError::option(unknown("service of this run", name, names)));
        }
    }
    Ok(())
}

/// The guarantee of each service, in millionths: those not given share what is left equally.
fn guarantees(config: &RunConfig) -> Result<Vec<u32>, LabError> {
    let given = |name: &str| config.guarantees.iter().rev().find(|(given, _)| given == name).map(|&(_, share)| share);
    let known: Vec<Option<u32>> = config.services.iter().map(|choice| given(&choice.name)).collect();
    let sum: u64 = known.iter().flatten().map(|&share| u64::from(share)).sum();
    let left = 1_000_000u64.checked_sub(sum).ok_or_else(|| {
        LabError::option(format!("the guarantees add up to {}, more than 1: lower one", sum as f64 / 1e6))
    })?;
    let others = known.iter().filter(|share| share.is_none()).count().max(1) as u64;
    Ok(known.into_iter().map(|share| share.unwrap_or((left / others) as u32)).collect())
}
