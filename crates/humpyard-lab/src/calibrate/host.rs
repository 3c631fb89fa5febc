//! What the threads around the services take: live runs of `pass`, which does nothing.
//!
//! At a line rate the time of a packet is that of the thread that has most to do. At a low rate it is what one packet waits for
//! by itself. The difference between a run on one thread and one with a worker is what handing over takes.

use core::sync::atomic::AtomicBool;
use std::hint;
use std::thread;
use std::time::Instant;

use humpyard_core::random::Seed;
use humpyard_runtime::{AWAKE_LOOKS, AWAKE_YIELDS, processors};
use humpyard_sim::HostCosts;
use humpyard_traffic::sink::create;

use super::Steps;
use super::fit::{median, sorted};
use super::packets::Packets;
use crate::LabError;
use crate::choice::host::Host;
use crate::choice::rate::Rate;
use crate::choice::service::ServiceChoice;
use crate::config::RunConfig;
use crate::control::Control;
use crate::costs::{Costs, DescribedHost};
use crate::result::RunResult;
use crate::run::run_live;

/// Steps of the measurement.
pub(super) const STEPS: usize = 9;
/// Lengths of the packets, in bytes.
const SHORT: usize = 64;
const LONG: usize = 1_500;
/// Distinct packets of a capture; they are of 64 flows.
const DISTINCT: usize = 4_096;
/// Packets of a run at a line rate.
const PACKETS: u64 = 500_000;
/// Runs of which the median counts.
const RUNS: usize = 3;
/// Packets a second that come one at a time while threads are awake, and how many there are.
const APART: (f64, u64) = (20_000.0, 8_000);
/// The same while workers sleep.
const FAR_APART: (f64, u64) = (1_000.0, 400);
/// Numbers of flows; a flow's entry is found in the caches for the first.
const FLOWS: [u64; 4] = [64, 4_096, 65_536, 1_048_576];
/// Part of the dispatcher's time for a packet that comes after its service. An estimate, for a run cannot tell the parts
/// apart: to read, find and decide takes three times what its account and its way out take.
const AFTER: f64 = 0.25;
/// Packets that a turn takes in under full load.
const BURST: f64 = 32.0;

/// Times of a packet in one run, in ns.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// From one packet to the next.
    apart: f64,
    /// Median delay.
    delay: f64,
    /// Time in which its core was busy with it.
    busy: f64,
}

/// Captures of short and of long packets.
struct Captures {
    _directory: tempfile::TempDir,
    short: String,
    long: String,
}

/// Measures the host.
pub(super) fn measure(seed: Seed, steps: &mut Steps<'_>) -> Result<DescribedHost, LabError> {
    let processors = processors().len().max(1);
    steps.next("host: packets")?;
    let captures = Captures::create(seed)?;
    let (short, long) = (captures.short.as_str(), captures.long.as_str());
    steps.next("host: one thread, short packets")?;
    let alone = full(short, 0)?;
    steps.next("host: one thread, long packets")?;
    let alone_long = full(long, 0)?;
    steps.next("host: one thread, one packet at a time")?;
    let single = paced(short, 0, APART)?;
    let service = Costs::default().cost("pass")?.work(SHORT as u32) as f64;
    let per_byte = ((alone_long.apart - alone.apart) / (LONG - SHORT) as f64).max(0.0);
    let own = (alone.busy - service).max(0.0);
    let dispatcher = (alone.apart - own - service).max(0.0);
    let take_back = AFTER * dispatcher;
    // A turn and its only packet; under full load a turn takes in a burst.
    let before = (1.0 - AFTER) * dispatcher;
    let turn = ((single.delay - own - service - before) * BURST / (BURST - 1.0)).max(0.0);
    let take_in = (before - turn / BURST - per_byte * SHORT as f64).max(0.0);
    let mut times = HostCosts { turn, take_in, per_byte, take_back, own, awake: awake_ns(), ..HostCosts::default() };
    if processors > 1 {
        steps.next("host: a worker")?;
        let worker = full(short, 1)?;
        let handed = (worker.apart - dispatcher).max(0.0);
        (times.give, times.fetch) = (handed / 2.0, handed / 2.0);
        times.worker = (worker.busy - service).max(0.0);
        steps.next("host: a worker, one packet at a time")?;
        let delay = paced(short, 1, APART)?.delay;
        let without = turn + take_in + per_byte * SHORT as f64 + times.give + times.worker + service;
        times.hand_over = (delay - without).max(0.0);
        steps.next("host: a worker that sleeps")?;
        times.wake = (paced(short, 1, FAR_APART)?.delay - delay).max(0.0);
    }
    steps.next("host: flows")?;
    times.flows = flows()?;
    steps.next("host")?;
    Ok(DescribedHost { processors, times })
}

impl Captures {
    fn create(seed: Seed) -> Result<Self, LabError> {
        let no_place = |error| LabError::option(format!("no place for a capture: {error}"));
        let directory = tempfile::tempdir().map_err(no_place)?;
        let packets = Packets::generate(seed);
        let write = |name: &str, length: usize| -> Result<String, LabError> {
            let path = directory.path().join(name).to_string_lossy().into_owned();
            let mut sink = create(&path)?;
            for frame in packets.pool(&"pass".parse()?, length, DISTINCT)? {
                sink.write(&frame)?;
            }
            sink.finish()?;
            Ok(path)
        };
        Ok(Self { short: write("short.pcapng", SHORT)?, long: write("long.pcapng", LONG)?, _directory: directory })
    }
}

/// A run of `pass`; `workers` is 0 for all on one thread.
fn config(input: &str, workers: usize, packets: u64) -> Result<RunConfig, LabError> {
    let mut config = RunConfig::new(Host::Live, input, "fcfs".parse()?);
    config.cores = workers;
    config.dispatchers = Some(1);
    config.services = vec![ServiceChoice::pass()];
    config.rounds = packets.div_ceil(DISTINCT as u64);
    Ok(config)
}

/// The times of packets that come as fast as they are taken: of each the median of some runs.
fn full(input: &str, workers: usize) -> Result<Times, LabError> {
    let config = config(input, workers, PACKETS)?;
    let runs = (0..RUNS).map(|_| times(&config)).collect::<Result<Vec<Times>, LabError>>()?;
    let of = |time: fn(&Times) -> f64| median(&sorted(runs.iter().map(time)));
    Ok(Times { apart: of(|times| times.apart), delay: of(|times| times.delay), busy: of(|times| times.busy) })
}

/// The times of packets that come at this rate.
fn paced(input: &str, workers: usize, (rate, packets): (f64, u64)) -> Result<Times, LabError> {
    let config = RunConfig { rate: Rate::PacketsPerSecond(rate), ..config(input, workers, packets)? };
    times(&RunConfig { packets: Some(packets), ..config })
}

fn times(config: &RunConfig) -> Result<Times, LabError> {
    let (stop, mut progress) = (AtomicBool::new(false), |_, _| ());
    let result: RunResult = run_live(config, &mut Control::new(&stop, &mut progress))?;
    let packets = result.packets.processed.max(1) as f64;
    let busy: f64 = result.summary.cores_detail.iter().map(|core| core.utilization).sum();
    Ok(Times {
        apart: 1e9 / result.summary.throughput_pps,
        delay: result.summary.delay_ns.p50 as f64,
        busy: busy * result.summary.duration_ns as f64 / packets,
    })
}

/// What a packet takes longer, by the number of flows, than with the fewest.
fn flows() -> Result<Vec<(u64, f64)>, LabError> {
    let apart = |&flows: &u64| {
        let packets = (2 * flows).max(PACKETS);
        let input = format!("gen:poisson:flows={flows},packets={packets}");
        let config = RunConfig { rounds: 1, flows: 2 * FLOWS[FLOWS.len() - 1] as usize, ..config(&input, 0, 1)? };
        Ok(times(&config)?.apart)
    };
    let apart = FLOWS.iter().map(apart).collect::<Result<Vec<f64>, LabError>>()?;
    Ok(FLOWS.into_iter().zip(&apart).map(|(flows, ns)| (flows, (ns - apart[0]).max(0.0))).collect())
}

/// For how long a thread without work stays awake, in ns.
fn awake_ns() -> f64 {
    let started = Instant::now();
    (0..AWAKE_LOOKS).for_each(|_| hint::spin_loop());
    (0..AWAKE_YIELDS).for_each(|_| thread::yield_now());
    started.elapsed().as_nanos() as f64
}
