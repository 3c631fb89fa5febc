//! A simulation of several dispatchers, or of workers without one.
//!
//! Each dispatcher is simulated by itself, with its packets and its part of the workers. It shares nothing with the
//! others but the reader, which deals out the packets of all. Threads sit as those of a live run: a dispatcher serves
//! the workers on its own processor, and a reader there takes its time. Other threads are simulated as if each had a
//! processor of its own. Workers without a dispatcher are each a dispatcher without workers, and the kernel deals out
//! their packets in no time.

use humpyard_core::id::{CoreId, Id, IdVec};
use humpyard_core::measure::{Histogram, LostOutside};
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_runtime::{Seat, places_on};
use humpyard_sim::{Host as SimulatedHost, Outcome, Part, Simulation, simulate_named};
use humpyard_traffic::flow::Heaviest;
use humpyard_traffic::pace::Pacer;
use humpyard_traffic::source::Source;
use humpyard_traffic::{Spread, TrafficError};
use humpyard_wire::BUCKETS;

use crate::LabError;
use crate::choice::assumed::AssumedHost;
use crate::config::RunConfig;
use crate::control::Control;
use crate::journal::JournalFiles;
use crate::parts::dispatch::fanned_out;
use crate::parts::setup::{self, AnyMeasured};
use crate::parts::several::{self, SeparateDispatchers};
use crate::result::{AssumedResult, Damage, DispatcherResult, PacketCounts, RunResult};
use crate::run::{result, services, timings};

/// Returns the host of a simulation that has several dispatchers, or none. `None`: the run has one, or is no simulation
/// of a host.
pub(crate) fn host_of_several(config: &RunConfig) -> Option<&AssumedHost> {
    config.assumed.as_ref().filter(|_| config.dispatchers.unwrap_or(1) != 1)
}

/// Simulates all dispatchers of a run, one after the other. `open` opens the input, which each of them reads at this
/// pace.
///
/// # Errors
/// Whatever keeps one of them from starting, and being interrupted: those that were not simulated yet would be without
/// packets.
pub(crate) fn simulate_each(
    config: &RunConfig,
    assumed: &AssumedHost,
    control: &mut Control<'_>,
    (pacer, open): (Pacer, impl Fn() -> Result<Box<dyn Source + Send>, TrafficError>),
) -> Result<RunResult, LabError> {
    if control.observer.is_some() || control.follower.is_some() {
        return Err(LabError::option("an observer hears of one dispatcher: use @dispatchers 1"));
    }
    services(config)?;
    // First, for it names services that there are not.
    setup::costs(config)?;
    let SeparateDispatchers { parts, dispatchers, journals, .. } = several::separate(config)?;
    let shares = shares(config, assumed, parts.len())?;
    let mut outcomes = Vec::with_capacity(parts.len());
    let mut before = 0;
    let hosts = hosts(config, assumed, &parts)?;
    for (number, (((one, own), share), host)) in dispatchers.into_iter().zip(&parts).zip(shares).zip(hosts).enumerate()
    {
        let cores = own.cores.max(1);
        let setup = setup::scheduler_config(own, cores, one.classifier.clients_max())?;
        let timing = setup::timing_of_host(own, assumed, host, own.cores + 1).with_part(share);
        let mut progress = |packets, read: Option<f64>| {
            let of_all = read.map(|read| (number as f64 + read) / parts.len() as f64);
            (control.progress)(before + packets, of_all);
        };
        let run = Simulation {
            measured: one.measured,
            link: None,
            cores,
            costs: setup::cost_model(own, &setup)?,
            swaps: Vec::new(),
            pacer: pacer.clone(),
            source: open()?,
            classifier: one.classifier,
            stop: control.stop,
            progress: &mut progress,
        };
        let outcome = simulate_named(run, timing)?;
        if outcome.interrupted {
            return Err(LabError::option("interrupted before all dispatchers were simulated: there is no result"));
        }
        before += outcome.measured.account().arrived;
        outcomes.push(outcome);
    }
    let result = summed(config, &parts, &outcomes)?;
    journals.map_or(Ok(()), JournalFiles::finish)?;
    Ok(result)
}

/// Returns which packets each dispatcher gets, or each worker without one. `count` is their number.
fn shares(config: &RunConfig, assumed: &AssumedHost, count: usize) -> Result<Vec<Part>, LabError> {
    let spread = |places| Spread::new(places, config.tunnels, config.seed).with_hash_fields(config.hash);
    if config.dispatchers == Some(0) {
        let table = fanned_out(config)?.table;
        let of_worker = |worker| table.iter().map(|&other| usize::from(other) == worker).collect();
        return Ok((0..count).map(|worker| Part::new(spread(BUCKETS), of_worker(worker))).collect());
    }
    let times = &assumed.machine.host(&assumed.name)?.times;
    let of_dispatcher = |number| (0..count).map(|other| other == number).collect();
    Ok((0..count)
        .map(|number| Part::new(spread(count), of_dispatcher(number)).with_reader(times.deal, times.hand_over))
        .collect())
}

/// Returns the threads of each dispatcher, or of each worker without one, and the times that they take.
fn hosts(config: &RunConfig, assumed: &AssumedHost, parts: &[RunConfig]) -> Result<Vec<SimulatedHost>, LabError> {
    let host = assumed.machine.host(&assumed.name)?;
    if config.dispatchers == Some(0) {
        return Ok(parts.iter().map(|_| SimulatedHost::new(host.times.clone(), 0, 1)).collect());
    }
    let workers: Vec<usize> = parts.iter().map(|part| part.cores).collect();
    let processors: Vec<usize> = (0..host.processors_for(config.cores, parts.len())).collect();
    let places = places_on(&workers, false, &processors);
    let reader = places.reader.and_then(|seat| seat.processor);
    let of_dispatcher = |seats: &Vec<Seat>| {
        let mut times = host.times.clone();
        if seats[0].processor == reader {
            // If dispatchers get equal parts, the reader has as many packets as all together.
            times.take_in += times.deal * parts.len() as f64;
        }
        SimulatedHost::placed(times, threads(seats))
    };
    Ok(places.dispatchers.iter().map(of_dispatcher).collect())
}

/// Returns the thread of each core of a dispatcher, whose seat is the first. No two cores share a processor. `None`:
/// the dispatcher serves the core on its processor.
fn threads(seats: &[Seat]) -> IdVec<CoreId, Option<usize>> {
    let mut threads = 0..;
    IdVec::from_fn(seats.len() - 1, |core: CoreId| {
        let is_own = seats[core.index() + 1].processor == seats[0].processor;
        if is_own { None } else { threads.next() }
    })
}

/// Returns the result of all dispatchers, whose configurations these are.
///
/// # Panics
/// If a packet got lost between the dispatchers.
fn summed(
    config: &RunConfig,
    parts: &[RunConfig],
    outcomes: &[Outcome<AnySteer, AnyShare, AnyAllocate>],
) -> Result<RunResult, LabError> {
    let measured: Vec<&AnyMeasured> = outcomes.iter().map(|outcome| &outcome.measured).collect();
    let (mut heaviest, mut decision) = (Heaviest::default(), Histogram::new());
    for outcome in outcomes {
        heaviest.merge(&outcome.heaviest);
        decision.add(&outcome.decision);
    }
    let arrived: u64 = measured.iter().map(|one| one.account().arrived).sum();
    let read = outcomes[0].read;
    let is_whole = outcomes.iter().all(|outcome| outcome.read == arrived);
    assert!(is_whole, "packets are unaccounted for: {arrived} arrived at dispatchers");
    let result = result(config, "sim", &measured, LostOutside::default())?.with_heaviest(&heaviest);
    // A dispatcher that has no packets left waits for the others.
    let lasted =
        outcomes.iter().filter_map(|one| one.dispatcher).map(|time| time.lasted.as_ns()).max().unwrap_or(1) as f64;
    let detail = |(own, outcome): (&RunConfig, &Outcome<_, _, _>)| DispatcherResult {
        workers: own.cores.max(1),
        packets: PacketCounts::of(outcome.measured.account()),
        flows: outcome.flows,
        utilization: outcome.dispatcher.map(|time| time.worked.as_ns() as f64 / lasted),
    };
    let dispatchers_detail: Vec<DispatcherResult> = parts.iter().zip(outcomes).map(detail).collect();
    let busiest = dispatchers_detail.iter().filter_map(|one| one.utilization).fold(0.0, f64::max);
    let has_reader = config.dispatchers != Some(0);
    let deal = |assumed: &AssumedResult| assumed.host.machine.host.as_ref().map(|host| host.times.deal);
    let assumed = AssumedResult::of(config, busiest).map(|assumed| AssumedResult {
        reader_utilization: deal(&assumed).filter(|_| has_reader).map(|deal| deal * read as f64 / lasted),
        ..assumed
    });
    let wall = outcomes.iter().map(|outcome| outcome.wall).sum();
    let damaged = outcomes.iter().find_map(|outcome| outcome.damage.as_ref());
    Ok(RunResult {
        dispatchers_detail,
        flows: outcomes.iter().map(|outcome| outcome.flows).sum(),
        // Each has read all packets.
        damage: Damage::find(&result.input, damaged, outcomes[0].clock_jumps),
        assumed,
        measured: timings(&result, wall, &decision),
        ..result
    })
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;
    use crate::bottleneck::bottleneck;
    use crate::choice::host::Host;
    use crate::choice::rate::Rate;
    use crate::run::simulate;

    /// Simulates 100,000 packets at this rate, of 500 flows, on 8 cores of a server with 16 processors.
    fn simulated(policy: &str, dispatchers: usize, pps: f64) -> RunResult {
        simulated_until(&AtomicBool::new(false), policy, dispatchers, pps).unwrap()
    }

    fn simulated_until(stop: &AtomicBool, policy: &str, dispatchers: usize, pps: f64) -> Result<RunResult, LabError> {
        let mut config = RunConfig::new(Host::Sim, "gen:poisson:packets=100k,flows=500", policy.parse().unwrap());
        config.assumed = AssumedHost::find("server-16").unwrap();
        (config.cores, config.dispatchers, config.rate) = (8, Some(dispatchers), Rate::PacketsPerSecond(pps));
        let mut progress = |_, _| ();
        simulate(&config, &mut Control::new(stop, &mut progress))
    }

    #[test]
    fn an_interrupted_run_has_no_result() {
        let said = simulated_until(&AtomicBool::new(true), "hrw", 2, 1e6).unwrap_err().to_string();
        assert!(said.starts_with("interrupted before all dispatchers were simulated"), "{said}");
    }

    #[test]
    fn more_dispatchers_take_more_packets() {
        let pps = |dispatchers| simulated("hrw", dispatchers, 5e6).summary.throughput_pps;
        let [none, one, four] = [0, 1, 4].map(pps);
        assert!(one < 4e6, "{one}");
        assert!((four / 5e6 - 1.0).abs() < 0.01 && (none / 5e6 - 1.0).abs() < 0.01, "{four}, {none}");
    }

    #[test]
    fn each_packet_is_at_one_dispatcher() {
        let result = simulated("drr", 3, 2e6);
        let parts = &result.dispatchers_detail;
        assert_eq!(parts.iter().map(|part| part.workers).collect::<Vec<_>>(), [3, 3, 2]);
        assert_eq!(parts.iter().map(|part| part.packets.arrived).sum::<u64>(), 100_000);
        assert_eq!((result.packets.arrived, result.packets.processed, result.flows), (100_000, 100_000, 500));
        assert_eq!((result.dispatchers, result.summary.cores_detail.len()), (3, 8));
        let assumed = result.assumed.unwrap();
        assert_eq!(assumed.processors, 16);
        let busiest = parts.iter().filter_map(|part| part.utilization).fold(0.0, f64::max);
        assert!(busiest > 0.0 && assumed.dispatcher_utilization == busiest);
        // 178 ns a packet.
        assert!((assumed.reader_utilization.unwrap() - 0.356).abs() < 0.01, "{assumed:?}");
    }

    #[test]
    fn threads_sit_as_those_of_a_live_run() {
        let of = |workers: &[usize], processors: usize| -> Vec<Vec<Option<usize>>> {
            let places = places_on(workers, false, &(0..processors).collect::<Vec<_>>());
            places.dispatchers.iter().map(|seats| threads(seats).iter().copied().collect()).collect()
        };
        assert_eq!(of(&[1, 1], 2), [[None], [None]], "each dispatcher serves its own core");
        assert_eq!(of(&[1, 2], 3), [vec![Some(0)], vec![Some(0), None]], "one core sits with the other dispatcher");
        assert_eq!(of(&[2, 2], 7), [vec![Some(0), Some(1)], vec![Some(0), Some(1)]]);
    }

    #[test]
    fn a_reader_on_the_processor_of_a_dispatcher_takes_its_time() {
        // The first dispatcher has the reader beside it, of 17 threads on 16 processors.
        let result = simulated("hrw", 8, 1e6);
        assert_eq!(result.assumed.as_ref().unwrap().processors, 16);
        let busy: Vec<f64> = result.dispatchers_detail.iter().filter_map(|part| part.utilization).collect();
        assert!(busy[1..].iter().all(|&other| other < 0.6 * busy[0]), "{busy:?}");
    }

    #[test]
    fn the_reader_is_the_limit_of_many_dispatchers() {
        let result = simulated("hrw", 7, 9e6);
        let reader = 1e9 / result.assumed.as_ref().unwrap().host.machine.host.as_ref().unwrap().times.deal;
        assert!((result.summary.throughput_pps / reader - 1.0).abs() < 0.02, "{}", result.summary.throughput_pps);
        let said = bottleneck(&result).unwrap();
        assert!(said.starts_with("the reader is the bottleneck") && said.contains("--dispatchers 0"), "{said}");
        assert_eq!(result.assumed.unwrap().processors, 16, "one for each core and dispatcher, and the reader's");
        let none = simulated("hrw", 0, 9e6);
        assert!(none.assumed.as_ref().unwrap().reader_utilization.is_none() && bottleneck(&none).is_none());
        assert!(none.summary.throughput_pps > 8.9e6, "{}", none.summary.throughput_pps);
    }
}
