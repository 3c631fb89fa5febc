//! One run, in virtual time or on real threads.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{Id, ServiceId};
use humpyard_core::measure::{Histogram, LostOutside, Measurements, SameClient, Summary};
use humpyard_core::mechanism::{Account, ExitAccount, SplitAccount};
use humpyard_core::name::Named;
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_runtime::{Feed as FrameFeed, Hears, Input, Live, Outcome, Overload, Part, Several, Watched, watch};
use humpyard_services::pass::Pass;
use humpyard_services::{Factory, prepare};
use humpyard_sim::{Simulation, Timing};
use humpyard_traffic::classify::Granularity;
use humpyard_traffic::flow::FlowNames;
use humpyard_traffic::pace::Pacer;
use humpyard_traffic::source::Source;
use humpyard_traffic::{HashFields, Spread, TrafficError};
use humpyard_wire::{FanOutTable, Note, Ports};

use crate::LabError;
use crate::choice::host::{Clock, Host};
use crate::choice::rate::Rate;
use crate::choice::time::time;
use crate::config::RunConfig;
use crate::control::Control;
use crate::dispatchers::{host_of_several, simulate_each};
use crate::environment::Environment;
use crate::journal::JournalFiles;
use crate::metrics::{About, Serving};
use crate::offered::Offered;
use crate::parts::demand::{pacer, pacer_reading};
use crate::parts::dispatch::{DispatchChoice, dispatching, settled};
use crate::parts::link::link;
use crate::parts::place::placed;
use crate::parts::setup::{self, AnyMeasured};
use crate::parts::several::{self, SeparateDispatchers};
use crate::reload::{self, Taker};
use crate::result::link::LinkResult;
use crate::result::{
    AssumedResult, Damage, DispatcherLoad, DispatcherResult, ExitCounts, Hardware, Measured, PacketCounts, Panic,
    PortCounts, RunResult, SplitCounts,
};

/// What a simulation is fed with.
pub(crate) struct Feed {
    pub(crate) pacer: Pacer,
    pub(crate) source: Box<dyn Source + Send>,
    pub(crate) timing: Timing,
}

/// Runs a configuration on its driver.
///
/// # Errors
/// Whatever keeps the run from starting, and a destination that cannot be written.
pub fn run(config: &RunConfig, control: &mut Control<'_>) -> Result<RunResult, LabError> {
    match config.host {
        Host::Sim => simulate(config, control),
        Host::Live => run_live(config, control),
    }
}

/// Runs a configuration in virtual time. Where services mark packets, which decides what becomes of later ones, their work is done:
/// as by [`run_live`] with a virtual clock, and nothing is written.
///
/// # Errors
/// Whatever keeps the run from starting.
pub fn simulate(config: &RunConfig, control: &mut Control<'_>) -> Result<RunResult, LabError> {
    let result = simulate_anywhere(config, control)?;
    Ok(RunResult { environment: Environment::of(&result.input, &[]), ..result })
}

/// As [`simulate`], but for the environment of the result: to find it takes as long as reading the input.
pub(crate) fn simulate_anywhere(config: &RunConfig, control: &mut Control<'_>) -> Result<RunResult, LabError> {
    simulate_reading(config, control, setup::source)
}

/// As [`simulate_anywhere`], where `open` opens the input of the run.
pub(crate) fn simulate_reading(
    config: &RunConfig,
    control: &mut Control<'_>,
    open: impl Fn(&RunConfig) -> Result<Box<dyn Source + Send>, TrafficError>,
) -> Result<RunResult, LabError> {
    several::refuse(config)?;
    if let Some(assumed) = host_of_several(config) {
        if config.reads_once() {
            return Err(LabError::option(format!(
                "@dispatchers {}: a simulation reads the input once for each dispatcher, which pipes and interfaces do \
                 not allow: use a file",
                config.dispatchers.unwrap_or(1)
            )));
        }
        let pacer = pacer_reading(config, config.cores, control, &open)?.ok_or_else(setup::no_line_rate)?;
        return simulate_each(config, assumed, control, (pacer, || open(config)));
    }
    let services = services(config)?;
    if config.cores > 0
        && config.assumed.is_none()
        && services.iter().flatten().any(Factory::marks)
        && config.rate != Rate::Line
        && !config.listens()
    {
        if config.interrupted {
            return Err(LabError::option(
                "@interrupted does not go with services that mark packets: leave it out, or the marks of l7-filter (weight, service, drop)",
            ));
        }
        return simulate_work(config, services, control);
    }
    let room = setup::with_room_for_input(config);
    simulated_in(config, &room, control, |control| {
        let pacer = pacer_reading(&room, config.cores.max(1), control, &open)?.ok_or_else(setup::no_line_rate)?;
        Ok(Feed { pacer, source: open(config)?, timing: setup::timing(config)? })
    })
}

/// Runs a configuration in virtual time, with packets from wherever they come: all of its result but the environment. Marks are
/// not followed.
pub(crate) fn simulated(
    config: &RunConfig,
    control: &mut Control<'_>,
    input: impl FnOnce(&mut Control<'_>) -> Result<Feed, LabError>,
) -> Result<RunResult, LabError> {
    simulated_in(config, config, control, input)
}

/// As [`simulated`], with room for as many packets and flows as `room` says, which are enough for the input.
fn simulated_in(
    config: &RunConfig,
    room: &RunConfig,
    control: &mut Control<'_>,
    input: impl FnOnce(&mut Control<'_>) -> Result<Feed, LabError>,
) -> Result<RunResult, LabError> {
    setup::check_simulated(config)?;
    let cores = config.cores.max(1);
    services(config)?;
    // First, for it names services that there are not.
    setup::costs(config)?;
    let classifier = setup::classifier(room)?;
    let setup = setup::scheduler_config(room, cores, classifier.clients_max())?;
    let (outcome, link, timeline_cut) = {
        let (measured, records) = setup::measured(config, &setup)?;
        let (measured, names) = observed(measured, &setup, config, control);
        let classifier = classifier.with_names(names.or_else(|| records.names()));
        let costs = setup::cost_model(config, &setup)?;
        let swaps = setup::swaps(config, &setup, &records)?;
        let Feed { pacer, source, timing } = input(control)?;
        let (link, choice) = link(config, &setup)?.unzip();
        let run = Simulation {
            measured,
            link,
            cores,
            costs,
            swaps,
            pacer,
            source,
            classifier,
            stop: control.stop,
            progress: control.progress,
        };
        let outcome = humpyard_sim::simulate_named(run, timing)?;
        let link = LinkResult::found(choice.as_ref(), outcome.link.as_ref());
        // A run that ends before its first packet leaves no files.
        let is_begun = !outcome.interrupted || outcome.measured.account().arrived > 0;
        let timeline_cut = is_begun && records.finish()?;
        (outcome, link, timeline_cut)
    };
    let mut result = result(config, "sim", &[&outcome.measured], LostOutside::default())?
        .with_taken_over(&outcome.taken_over)
        .with_heaviest(&outcome.heaviest);
    if let Some(link) = &link {
        result.packets.through(link);
    }
    Ok(RunResult {
        link,
        flows: outcome.flows,
        interrupted: outcome.interrupted,
        damage: Damage::find(&result.input, outcome.damage.as_ref(), outcome.clock_jumps),
        timeline_cut,
        assumed: outcome.dispatcher.and_then(|time| AssumedResult::of(config, time.utilization())),
        measured: Measured {
            swap_pause_max_ns: outcome.swap_pause_max.as_nanos() as u64,
            ..timings(&result, outcome.wall, &outcome.decision)
        },
        ..result
    })
}

/// Runs a configuration in virtual time, and does the work of its services; of those that are known by their costs alone there is none.
fn simulate_work(
    config: &RunConfig,
    services: Vec<Option<Factory>>,
    control: &mut Control<'_>,
) -> Result<RunResult, LabError> {
    let live = RunConfig {
        host: Host::Live,
        clock: Clock::Virtual,
        in_flight: if config.hand_over.is_some() { config.in_flight } else { 1 },
        overload: Some(Overload::Drop),
        longest: None,
        output: "null:".to_owned(),
        quarantine: None,
        counters: false,
        drop_privileges: false,
        ..config.clone()
    };
    let services = services.into_iter().map(|service| service.unwrap_or_else(|| Factory::new("none", || Pass)));
    let result = run_with(&live, services.collect(), &dispatching(&live), control)?;
    Ok(RunResult { host: "sim", options: config.options(), ports: PortCounts::default(), ..result })
}

/// Runs a configuration on real threads, or by a virtual clock on the calling one.
///
/// # Errors
/// Whatever keeps the run from starting, and a destination that cannot be written.
pub fn run_live(config: &RunConfig, control: &mut Control<'_>) -> Result<RunResult, LabError> {
    let chosen = dispatching(config);
    let config = &settled(config, &chosen);
    several::refuse(config)?;
    // First, for it knows best what is wrong with a service.
    let services = factories(config)?;
    if config.dispatchers == Some(1) {
        run_with(config, services, &chosen, control)
    } else {
        run_several(config, services, &chosen, control)
    }
}

/// As [`run_live`], with these services.
fn run_with(
    config: &RunConfig,
    services: Vec<Factory>,
    chosen: &DispatchChoice,
    control: &mut Control<'_>,
) -> Result<RunResult, LabError> {
    let cores = config.cores.max(1);
    let classifier = setup::classifier(config)?;
    let clients = classifier.clients_max();
    let setup = setup::scheduler_config(config, cores, clients)?;
    let (outcome, link, timeline_cut) = {
        let (measured, records) = setup::measured(config, &setup)?;
        let (measured, names) = observed(measured, &setup, config, control);
        let classifier = classifier.with_names(names.or_else(|| records.names()));
        // A load is found by reading the input before the run does.
        let pacer = pacer(config, cores, control)?;
        let quarantine = setup::quarantine(config)?;
        let Ports { source, sink, notes } = setup::ports(config)?;
        pass_on(control, &notes);
        tell(control, chosen);
        if config.drop_privileges {
            humpyard_wire::drop_privileges(&config.inputs())?;
        }
        // After that, for each thread has privileges of its own.
        let (_serving, watched) = serve(config, control)?.unzip();
        let wanted = control.reload;
        let (taker, coming) = Taker::new(clients, None);
        let (link, choice) = link(config, &setup)?.unzip();
        let live = Live {
            measured,
            link,
            packets: config.buffer,
            workers: config.cores,
            seats: placed(config, cores)?.seats,
            hardware: config.counters,
            services,
            overload: config.overload(),
            clock: clock(config, &setup)?,
            swaps: setup::swaps(config, &setup, &records)?,
            replacements: wanted.map(|_| coming),
            longest: config.longest,
            input: if config.listens() { Input::stamped(source) } else { Input::new(source, pacer) },
            sink,
            quarantine,
            classifier,
            stop: control.stop,
            progress: control.progress,
            loads: reborrowed(&mut control.loads),
            watched,
        };
        let over = &AtomicBool::new(false);
        let outcome = thread::scope(|scope| {
            let _ended = Over(over);
            if let Some(wanted) = wanted {
                scope.spawn(move || reload::serve(config, &[taker], None, wanted, over));
            }
            humpyard_runtime::run_named(live)
        })?;
        let link = LinkResult::found(choice.as_ref(), outcome.link.as_ref());
        (outcome, link, records.finish()?)
    };
    Ok(RunResult { link, timeline_cut, ..live_result(config, outcome.into_parts(config.cores))? })
}

/// As [`run_live`] with several dispatchers.
fn run_several(
    config: &RunConfig,
    services: Vec<Factory>,
    chosen: &DispatchChoice,
    control: &mut Control<'_>,
) -> Result<RunResult, LabError> {
    if control.observer.is_some() {
        return Err(LabError::option("an observer hears of one dispatcher: use @dispatchers 1"));
    }
    let SeparateDispatchers { mut dispatchers, places, clients, journals, .. } = several::separate(config)?;
    let quarantine = setup::quarantine(config)?;
    let (feed, table) = feed(config, dispatchers.len(), control)?;
    tell(control, chosen);
    if config.drop_privileges {
        humpyard_wire::drop_privileges(&config.inputs())?;
    }
    // After that, for each thread has privileges of its own.
    let (_serving, watched) = serve(config, control)?.unzip();
    let wanted = control.reload;
    let mut takers = Vec::with_capacity(dispatchers.len());
    for (number, one) in dispatchers.iter_mut().enumerate().filter(|_| wanted.is_some()) {
        let (taker, coming) = Taker::new(clients[number], Some(places.dispatchers[number].clone()));
        takers.push(taker);
        one.replacements = Some(coming);
    }
    let run = Several {
        dispatchers,
        places,
        feed,
        hardware: config.counters,
        services,
        quarantine,
        overload: config.overload(),
        warm_up: time(config.warm_up),
        longest: config.longest,
        stop: control.stop,
        progress: control.progress,
        loads: reborrowed(&mut control.loads),
        watched,
    };
    let over = &AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let _ended = Over(over);
        if let Some(wanted) = wanted {
            scope.spawn(move || reload::serve(config, &takers, table.as_ref(), wanted, over));
        }
        humpyard_runtime::run_several_named(run)
    })?;
    journals.map_or(Ok(()), JournalFiles::finish)?;
    live_result(config, outcome)
}

/// Reports how the run is dispatched.
fn tell(control: &mut Control<'_>, chosen: &DispatchChoice) {
    if let Some(tell) = &mut control.dispatched {
        tell(chosen);
    }
}

/// Passes on what the ports have to say.
fn pass_on(control: &mut Control<'_>, notes: &[Note]) {
    if let Some(opened) = &mut control.opened {
        opened(notes);
    }
}

/// Opens the sources and sinks of dispatchers, and the table by which the kernel chooses a worker where
/// there are none.
fn feed(
    config: &RunConfig,
    dispatchers: usize,
    control: &mut Control<'_>,
) -> Result<(FrameFeed, Option<FanOutTable>), LabError> {
    if config.dispatchers == Some(0) {
        let (ports, table) = setup::ports_fanned_out(config)?;
        let ports = ports.into_iter().map(|Ports { source, sink, .. }| (source, sink)).collect();
        return Ok((FrameFeed::Own(ports), Some(table)));
    }
    // A load is found by reading the input before the run does.
    let pacer = pacer(config, config.cores, control)?;
    let Ports { source, sink, notes } = setup::ports(config)?;
    pass_on(control, &notes);
    let spread = Spread::new(dispatchers, config.tunnels, config.seed).with_hash_fields(config.hash);
    Ok((FrameFeed::Shared { source, pacer, spread, sink: several::writes(config).then_some(sink) }, None))
}

/// The result of a live run.
fn live_result(
    config: &RunConfig,
    outcome: Outcome<Vec<Part<AnySteer, AnyShare, AnyAllocate>>>,
) -> Result<RunResult, LabError> {
    let parts: Vec<&AnyMeasured> = outcome.measured.iter().map(|part| &part.measured).collect();
    let mut result = result(config, "live", &parts, outcome.lost)?
        .with_taken_over(&outcome.taken_over)
        .with_heaviest(&outcome.heaviest);
    for (id, service) in result.summary.services.iter_mut().enumerate() {
        service.counters = outcome.counters.of(ServiceId::from_index(id));
    }
    let detail = |part: &Part<_, _, _>| DispatcherResult {
        workers: part.workers,
        packets: PacketCounts::of(part.measured.account()).with_out(&part.out),
        flows: part.flows,
        utilization: None,
    };
    let packets = result.packets.clone().with_out(&outcome.out).with_ports(&outcome.received);
    Ok(RunResult {
        packets,
        dispatchers_detail: outcome
            .measured
            .iter()
            .filter(|_| config.dispatchers.is_some_and(|dispatchers| dispatchers != 1))
            .map(detail)
            .collect(),
        unaccounted: outcome.unaccounted,
        flows: outcome.flows,
        ports: PortCounts { received: outcome.received, sent: outcome.sent },
        interrupted: outcome.interrupted,
        panic: outcome.panic.map(|panic| Panic {
            packet: panic.packet,
            service: config.services[panic.service.index()].name.clone(),
            message: panic.message,
        }),
        damage: Damage::find(&result.input, outcome.damage.as_ref(), outcome.clock_jumps),
        measured: Measured {
            overdue_max_ns: outcome.overdue_max.as_ns(),
            swap_pause_max_ns: outcome.swap_pause_max.as_nanos() as u64,
            dispatchers: outcome.loads.iter().map(DispatcherLoad::of).collect(),
            hardware: outcome.counters.hardware().map(Hardware::of),
            ..timings(&result, outcome.wall, &outcome.decision)
        },
        reloads: outcome.replacements,
        environment: Environment::of(&result.input, &outcome.seats),
        ..result
    })
}

/// With the observer and the follower of this run, if there are any; returns the listener for flows that begin, too.
fn observed(
    measured: AnyMeasured,
    setup: &SchedulerConfig,
    config: &RunConfig,
    control: &mut Control<'_>,
) -> (AnyMeasured, Option<Arc<dyn FlowNames>>) {
    let measured = match control.observer.take() {
        Some(observer) => measured.with_observer(observer),
        None => measured,
    };
    let Some(follower) = control.follower.take() else { return (measured, None) };
    follower.on_begin(&config.policy, setup);
    (measured.with_journal(Box::new(follower.clone())), Some(Arc::new(follower)))
}

/// Serves the metrics of the run that gets the other half of the watch, if that was asked for.
fn serve(config: &RunConfig, control: &mut Control<'_>) -> Result<Option<(Serving, Watched)>, LabError> {
    let Some(endpoint) = control.metrics.take() else { return Ok(None) };
    let (watch, watched) = watch();
    Ok(Some((endpoint.serve(watch, About::of(config))?, watched)))
}

/// Lends the listener of the load to a run.
fn reborrowed<'a>(loads: &'a mut Option<Hears<'_>>) -> Option<Hears<'a>> {
    match loads {
        Some(loads) => Some(&mut **loads),
        None => None,
    }
}

/// Says that the run is over when it is dropped, so also when the run panics: who waits for that would wait for ever.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What both drivers' results have from the configuration and the measurements, of each dispatcher, and from the packets lost outside; the
/// rest is as if nothing had happened.
pub(crate) fn result(
    config: &RunConfig,
    host: &'static str,
    measured: &[&AnyMeasured],
    outside: LostOutside,
) -> Result<RunResult, LabError> {
    let same = match config.granularity() {
        Granularity::Service | Granularity::Rule => SameClient::Always,
        Granularity::Flow | Granularity::Connection => SameClient::Never,
    };
    let (mut account, mut split, mut exit) = (Account::default(), SplitAccount::default(), ExitAccount::default());
    for one in measured {
        account.add(one.account());
        split.add(one.scheduler().split_account());
        exit.add(one.scheduler().exit_account());
    }
    let measurements: Vec<&Measurements> = measured.iter().map(|one| one.measurements()).collect();
    let mut summary = Measurements::summary_of(&measurements, &account, same, outside);
    summary.order.promised = config.flow_order.name();
    Ok(RunResult {
        policy: config.policy.to_string(),
        policies: Vec::new(),
        input: config.input_name(),
        host,
        seed: config.seed.0,
        cores: config.cores,
        dispatchers: config.dispatchers.unwrap_or(1),
        options: config.options(),
        costs: setup::service_costs(config)?,
        unit: config.unit.name(),
        offered: Offered::of(config, measurements.iter().copied()),
        packets: PacketCounts::of(&account),
        dispatchers_detail: Vec::new(),
        flows: 0,
        top_flows: Vec::new(),
        ports: PortCounts::default(),
        summary,
        link: None,
        split: config.split.map(|_| SplitCounts::of(split)),
        exit: config.flow_order.exit(config.buffer).map(|_| ExitCounts::of(exit)),
        reloads: 0,
        interrupted: false,
        panic: None,
        damage: None,
        assumed: None,
        timeline_cut: false,
        unaccounted: None,
        measured: Measured::default(),
        environment: Environment::default(),
    })
}

/// What real time went by for, and for what.
pub(crate) fn timings(result: &RunResult, wall: Duration, decision: &Histogram) -> Measured {
    Measured::of(wall, decision, result.packets.arrived, busy_ns(&result.summary))
}

/// The services of a run; none of one that is known by its cost alone, which has no parameters.
///
/// # Errors
/// Parameters that a service does not take, and marks that name a service that there is not.
pub(crate) fn services(config: &RunConfig) -> Result<Vec<Option<Factory>>, LabError> {
    let known = humpyard_services::entries();
    let is_known = |work: &Named| !work.parameters.is_empty() || known.iter().any(|entry| entry.name == work.name);
    let prepared =
        config.services.iter().map(|choice| is_known(&choice.work).then(|| prepare(&choice.work)).transpose());
    let services: Vec<Option<Factory>> = prepared.collect::<Result<_, _>>()?;
    check_marks(services.iter().flatten(), services.len())?;
    // A simulation does only the work of services that mark packets.
    check_connections(config, services.iter().flatten().filter(|factory| factory.marks()))?;
    Ok(services)
}

/// The clock of a live run.
pub(crate) fn clock(config: &RunConfig, setup: &SchedulerConfig) -> Result<humpyard_runtime::Clock, LabError> {
    match config.clock {
        Clock::Real => Ok(humpyard_runtime::Clock::Real),
        Clock::Virtual if config.rate == Rate::Line => Err(LabError::option(
            "a virtual clock goes by the times at which packets arrive, and a line rate has none: use @rate trace, \
             @rate PPS, @multiplier or @load",
        )),
        Clock::Virtual => {
            let costs = setup::cost_model(config, setup)?.with_hand_over(time(config.hand_over.unwrap_or_default()));
            Ok(humpyard_runtime::Clock::Virtual(Box::new(costs)))
        }
    }
}

pub(crate) fn factories(config: &RunConfig) -> Result<Vec<Factory>, LabError> {
    let mtu = humpyard_wire::mtu(&config.inputs(), &config.output, config.both_ways);
    let prepared = config.services.iter().map(|choice| prepare(&with_mtu(&choice.work, mtu)));
    let factories: Vec<Factory> = prepared.collect::<Result<_, _>>()?;
    check_marks(factories.iter(), factories.len())?;
    check_connections(config, factories.iter())?;
    Ok(factories)
}

/// Returns a service with the MTU of the interface that its packets leave by, if it goes by that and is not told
/// another.
fn with_mtu(work: &Named, mtu: Option<usize>) -> Named {
    let mut work = work.clone();
    let is_open = work.name == FORWARD && work.parameters.iter().all(|(name, _)| name != MTU);
    if let Some(mtu) = mtu.filter(|_| is_open).and_then(|mtu| u16::try_from(mtu).ok()) {
        work.parameters.push((MTU.to_owned(), mtu.to_string()));
    }
    work
}

/// The service that routes, and its parameter for the longest packet that the next link takes.
const FORWARD: &str = "forward";
const MTU: &str = "mtu";

/// Refuses marks that name a service beyond so many.
fn check_marks<'a>(factories: impl Iterator<Item = &'a Factory>, services: usize) -> Result<(), LabError> {
    for factory in factories {
        if let Some(service) = factory.refers_to().iter().find(|service| service.index() >= services) {
            return Err(LabError::option(format!(
                "{}: marks send packets to service {service}, and the last of this run is service {}",
                factory.info().name,
                services - 1
            )));
        }
    }
    Ok(())
}

/// Rejects services that keep state for each connection if connections share their hash, by which services know them.
fn check_connections<'a>(config: &RunConfig, mut factories: impl Iterator<Item = &'a Factory>) -> Result<(), LabError> {
    if config.hash == HashFields::Ports {
        return Ok(());
    }
    factories.find(|factory| factory.follows_connections()).map_or(Ok(()), |factory| {
        Err(LabError::option(format!(
            "@hash {}: all connections between two hosts would share the state that `{}` keeps for each: use @hash {}",
            config.hash.name(),
            factory.info().name,
            HashFields::Ports.name()
        )))
    })
}

/// Time that all cores together were busy.
fn busy_ns(summary: &Summary) -> f64 {
    summary.cores_detail.iter().map(|core| core.utilization * summary.duration_ns as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};

    #[test]
    fn who_routes_knows_the_mtu_unless_told_another() {
        let with = |work: &str, mtu| with_mtu(&work.parse().expect("a service"), mtu).to_string();
        assert_eq!(with("forward", Some(1400)), "forward:mtu=1400");
        assert_eq!(with("forward:icmp-burst=8", Some(9000)), "forward:icmp-burst=8,mtu=9000");
        assert_eq!(with("forward:mtu=1300", Some(1400)), "forward:mtu=1300");
        assert_eq!(with("forward:mtu=any", Some(1400)), "forward:mtu=any");
        assert_eq!(with("forward", None), "forward");
        assert_eq!(with("forward", Some(65_536)), "forward", "the loopback interface takes every packet");
        assert_eq!(with("pass", Some(1400)), "pass");
        assert!(prepare(&with_mtu(&"forward".parse().expect("a service"), Some(1400))).is_ok());
    }

    /// Returns the document of a simulation without what is measured. `fits`: with room for the input alone.
    fn document(config: &RunConfig, fits: bool) -> serde_json::Value {
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
        let mut control = Control::new(&stop, &mut progress);
        let result = if fits {
            simulate_anywhere(config, &mut control)
        } else {
            simulated(config, &mut control, |control| {
                let pacer = pacer(config, config.cores, control)?.ok_or_else(setup::no_line_rate)?;
                Ok(Feed { pacer, source: setup::source(config)?, timing: setup::timing(config)? })
            })
        };
        let mut document = serde_json::to_value(result.expect("a result")).expect("a document");
        document["measured"].take();
        document
    }

    #[test]
    fn room_for_the_input_alone_changes_no_result() {
        let families = [AnySteer::entries(), AnyShare::entries(), AnyAllocate::entries()];
        for policy in families.iter().flatten().flat_map(|entry| entry.specs()) {
            for input in ["gen:messages:packets=400", "gen:poisson:packets=90,flows=300"] {
                let mut config = RunConfig::new(Host::Sim, input, policy.parse().expect("a policy"));
                (config.cores, config.rate) = (3, Rate::Load { load: 1.2, of: None });
                let fits = setup::with_room_for_input(&config).flows < config.flows;
                assert_eq!(fits, !config.policy.counts_clients(), "{policy}");
                assert_eq!(document(&config, true), document(&config, false), "{policy} of {input}");
            }
        }
    }

    #[test]
    fn a_run_that_ends_before_its_first_packet_leaves_no_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let mut config = RunConfig::new(Host::Sim, "gen:poisson:packets=10", "drr".parse().expect("a policy"));
        config.journal = Some(path("journal.jsonl"));
        let (stop, mut progress) = (AtomicBool::new(true), |_, _| {});
        let result = simulate(&config, &mut Control::new(&stop, &mut progress)).expect("a result");
        assert!(result.interrupted && result.packets.arrived == 0);
        assert_eq!(directory.path().read_dir().expect("a directory").count(), 0);
    }
}
