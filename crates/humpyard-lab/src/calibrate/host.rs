//! Measures the time of the threads around the services, by live runs of `pass`, which does nothing,
//! and of `forward`, which does little.
//!
//! At a line rate the busiest thread sets the time between two packets. At 40 % of that rate packets
//! come one by one, so the median delay is that of a packet alone. The difference between a run on
//! one thread and a run with a worker is the time of handing over. At low rates threads are rested,
//! or sleep.

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
use crate::defaults::BUFFER;
use crate::result::RunResult;
use crate::run::run_live;

/// Steps of the measurement.
pub(super) const STEPS: usize = 10;
/// Lengths of the packets, in bytes.
const SHORT: usize = 64;
const LONG: usize = 1_500;
/// Distinct packets of a capture; they are of 64 flows.
const DISTINCT: usize = 4_096;
/// Packets of a run at a line rate.
const PACKETS: u64 = 500_000;
/// Runs of which the median counts.
const RUNS: usize = 3;
/// Fraction of the line rate at which packets come one by one and threads stay awake.
const HALF: f64 = 0.4;
/// Packets per nanosecond at which threads are idle for 50 us between packets, and stay awake.
const SINGLE: f64 = 2e-5;
/// Packets per nanosecond at which workers sleep between packets.
const FAR_APART: f64 = 1e-6;
/// Length of a run at a given rate, in seconds.
const LASTS: f64 = 0.2;
/// The services of runs: one that does nothing, and a short one.
const PASS: &str = "pass";
const FORWARD: &str = "forward";
/// Two services of which the second does nothing.
const CHAIN: &str = "forward,pass";
/// Numbers of flows. The entries of the first number fit the caches.
const FLOWS: [u64; 4] = [64, 4_096, 65_536, 1_048_576];
/// Fraction of the dispatcher's time for a packet that comes after its service. This is an estimate:
/// a run cannot tell the two parts apart.
const AFTER: f64 = 0.25;
/// Packets that a turn takes in under full load.
const BURST: f64 = 32.0;

/// The times of a packet in one run, in ns.
#[derive(Clone, Copy, Debug)]
struct PacketTimes {
    /// From one packet to the next.
    apart: f64,
    /// Median delay.
    delay: f64,
    /// Time in which its core was busy with it.
    busy: f64,
    /// The dispatcher's working time.
    at_work: f64,
    /// Packets that came for each one that was processed.
    arrived: f64,
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
    let short = |service, workers| MeasuredRun { input: &captures.short, service, workers };
    steps.next("host: one thread, short packets")?;
    let alone = short(PASS, 0).full()?;
    steps.next("host: one thread, long packets")?;
    let alone_long = MeasuredRun { input: &captures.long, ..short(PASS, 0) }.full()?;
    let service = Costs::default().cost(PASS)?.work(SHORT as u32) as f64;
    let own = (alone.busy - service).max(0.0);
    let dispatcher = (alone.apart - own - service).max(0.0);
    let per_byte = ((alone_long.apart - alone.apart) / (LONG - SHORT) as f64).max(0.0);
    let bytes = per_byte * SHORT as f64;
    let (before, take_back) = ((1.0 - AFTER) * dispatcher, AFTER * dispatcher);
    steps.next("host: one thread, half of what it takes")?;
    let half = short(PASS, 0).at(HALF / alone.apart)?;
    steps.next("host: one thread, one packet at a time")?;
    let single = short(PASS, 0).at(SINGLE)?;
    // One turn takes a packet in, another takes it back; under full load a turn does so for a
    // burst.
    let turn = ((half.at_work - alone.apart) / (2.0 - 1.0 / BURST)).max(0.0);
    let take_in = (before - turn / BURST - bytes).max(0.0);
    let notice = (half.delay - own - service - turn - take_in - bytes).max(0.0);
    let rested = (single.delay - half.delay).max(0.0);
    let times = HostCosts { turn, notice, take_in, per_byte, take_back, own, rested, ..HostCosts::default() };
    let mut times = HostCosts { awake: awake_ns(), ..times };
    if processors > 1 {
        steps.next("host: a worker")?;
        let full = short(FORWARD, 1).full()?;
        let handed = (full.apart - dispatcher).max(0.0);
        (times.give, times.fetch) = (handed / 2.0, handed / 2.0);
        let rate = HALF / full.apart;
        let (without, with) = (short(FORWARD, 0).at(rate)?, short(FORWARD, 1).at(rate)?);
        times.worker = own + (with.busy - without.busy).max(0.0);
        times.hand_over = (with.delay - without.delay - times.give - (times.worker - own)).max(0.0);
        steps.next("host: a worker that sleeps")?;
        let (single, far_apart) = (short(FORWARD, 1).at(SINGLE)?, short(FORWARD, 1).at(FAR_APART)?);
        times.worker_rested = (single.delay - with.delay - rested).max(0.0);
        times.wake = (far_apart.delay - single.delay).max(0.0);
    }
    steps.next("host: a chain, and a full buffer")?;
    let (first, both) = (short(FORWARD, 0).full()?, short(CHAIN, 0).full()?);
    times.onward = (both.apart - first.apart - own - service - turn / BURST).max(0.0);
    times.held = held(&short(PASS, 0), &alone, &times)?;
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

/// A run to be measured. 0 workers: one thread does everything.
#[derive(Clone, Copy)]
struct MeasuredRun<'a> {
    input: &'a str,
    service: &'a str,
    workers: usize,
}

impl MeasuredRun<'_> {
    /// Returns the configuration of a run of this many packets.
    fn config(&self, packets: u64) -> Result<RunConfig, LabError> {
        let mut config = RunConfig::new(Host::Live, self.input, "fcfs".parse()?);
        config.cores = self.workers;
        config.dispatchers = Some(1);
        (config.services, config.chains) = ServiceChoice::parse_all(&[self.service])?;
        config.rounds = packets.div_ceil(DISTINCT as u64);
        config.packets = Some(packets);
        Ok(config)
    }

    /// Measures packets that come as fast as they are taken.
    fn full(&self) -> Result<PacketTimes, LabError> {
        medians(&self.config(PACKETS)?)
    }

    /// Measures packets that come evenly, this many per nanosecond.
    fn at(&self, rate: f64) -> Result<PacketTimes, LabError> {
        let packets = (rate * 1e9 * LASTS).clamp(200.0, PACKETS as f64) as u64;
        medians(&RunConfig { rate: Rate::PacketsPerSecond((rate * 1e9).round()), ..self.config(packets)? })
    }
}

/// Returns the median of each time over some runs.
fn medians(config: &RunConfig) -> Result<PacketTimes, LabError> {
    let runs = (0..RUNS).map(|_| times(config)).collect::<Result<Vec<PacketTimes>, LabError>>()?;
    let of = |time: fn(&PacketTimes) -> f64| median(&sorted(runs.iter().map(time)));
    Ok(PacketTimes {
        apart: of(|times| times.apart),
        delay: of(|times| times.delay),
        busy: of(|times| times.busy),
        at_work: of(|times| times.at_work),
        arrived: of(|times| times.arrived),
    })
}

fn times(config: &RunConfig) -> Result<PacketTimes, LabError> {
    let (stop, mut progress) = (AtomicBool::new(false), |_, _| ());
    let result: RunResult = run_live(config, &mut Control::new(&stop, &mut progress))?;
    let packets = result.packets.processed.max(1) as f64;
    let busy: f64 = result.summary.cores_detail.iter().map(|core| core.utilization).sum();
    let apart = 1e9 / result.summary.throughput_pps;
    Ok(PacketTimes {
        apart,
        delay: result.summary.delay_ns.p50 as f64,
        busy: busy * result.summary.duration_ns as f64 / packets,
        at_work: result.measured.dispatchers.first().map_or(0.0, |load| load.busy_fraction) * apart,
        arrived: result.packets.arrived as f64 / packets,
    })
}

/// Measures the extra time of a packet by the number of flows.
fn flows() -> Result<Vec<(u64, f64)>, LabError> {
    let apart = |&flows: &u64| {
        let packets = (2 * flows).max(PACKETS);
        let input = format!("gen:poisson:flows={flows},packets={packets}");
        let subject = MeasuredRun { input: &input, service: PASS, workers: 0 };
        let flows = 2 * FLOWS[FLOWS.len() - 1] as usize;
        Ok(medians(&RunConfig { rounds: 1, flows, ..subject.config(packets)? })?.apart)
    };
    let apart = FLOWS.iter().map(apart).collect::<Result<Vec<f64>, LabError>>()?;
    Ok(FLOWS.into_iter().zip(&apart).map(|(flows, ns)| (flows, (ns - apart[0]).max(0.0))).collect())
}

/// Measures the extra time of a packet with a full buffer, into which twice the line rate comes. A
/// dropped packet counts as the time of taking one in.
fn held(run: &MeasuredRun<'_>, alone: &PacketTimes, times: &HostCosts) -> Result<Vec<(u64, f64)>, LabError> {
    let over = run.at(2.0 / alone.apart)?;
    let without = alone.apart + (over.arrived - 1.0) * (times.take_in + times.per_byte * SHORT as f64);
    Ok(vec![(BURST as u64, 0.0), (BUFFER as u64, ((over.apart - without) / over.arrived).max(0.0))])
}

/// Measures how long a thread without work stays awake, in ns.
fn awake_ns() -> f64 {
    let started = Instant::now();
    (0..AWAKE_LOOKS).for_each(|_| hint::spin_loop());
    (0..AWAKE_YIELDS).for_each(|_| thread::yield_now());
    started.elapsed().as_nanos() as f64
}
