//! Measures the time of the threads around the services, by live runs of `pass`, which does nothing,
//! and of `forward`, which does little. At low rates threads are rested, or sleep.

use core::sync::atomic::AtomicBool;
use std::hint;
use std::thread;
use std::time::Instant;

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_runtime::{AWAKE_LOOKS, AWAKE_YIELDS, processors};
use humpyard_sim::HostCosts;
use humpyard_traffic::sink::create;
use humpyard_traffic::{Spread, Tunnels, open};

use super::Steps;
use super::fit::{median, sorted};
use super::packets::Packets;
use super::threads::{BURST, MeasuredRun, PacketTimes, ROUNDS, ThreadTimes, medians};
use crate::LabError;
use crate::choice::host::Host;
use crate::choice::service::ServiceChoice;
use crate::config::RunConfig;
use crate::control::Control;
use crate::costs::{Costs, DescribedHost};

/// Steps of the measurement.
pub(super) const STEPS: usize = 8;
/// Lengths of the packets, in bytes.
const SHORT: usize = 64;
const LONG: usize = 1_500;
/// Distinct packets of a capture; they are of 64 flows.
const DISTINCT: usize = 4_096;
/// Packets of a run at a line rate.
const PACKETS: u64 = 500_000;
/// Times that a capture is read.
const READS: usize = 31;
/// Packets per nanosecond at which threads are idle for 50 us between packets, and stay awake.
const SINGLE: f64 = 2e-5;
/// Packets per nanosecond at which workers sleep between packets.
const FAR_APART: f64 = 1e-6;
/// Packets per nanosecond at which threads stay awake and are not rested.
const AWAKE: f64 = 5e-4;
/// The services of runs: one that does nothing, and a short one.
const PASS: &str = "pass";
const FORWARD: &str = "forward";
/// Two services of which the second does nothing.
const CHAIN: &str = "forward,pass";
/// Numbers of flows. The entries of the first number fit the caches.
const FLOWS: [u64; 4] = [64, 4_096, 65_536, 1_048_576];

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
    let (stop, mut progress) = (AtomicBool::new(false), |_, _| ());
    let control = &mut Control::new(&stop, &mut progress);
    let pass = subject(&captures.short, PASS)?;
    steps.next("host: full load and half load")?;
    let rounds = |subject: &MeasuredRun, with_worker, control: &mut Control<'_>| {
        let rounds = (0..ROUNDS).map(|_| ThreadTimes::measure(subject, PACKETS, with_worker, control));
        Ok::<_, LabError>(ThreadTimes::medians(&rounds.collect::<Result<Vec<_>, LabError>>()?))
    };
    let alone = rounds(&pass, false, control)?;
    steps.next("host: long packets")?;
    let long = repeated(|control| subject(&captures.long, PASS)?.with_buffer(64).full(PACKETS, control), control)?;
    let service = Costs::default().cost(PASS)?.work(SHORT as u32) as f64;
    let mut times = HostCosts {
        own: (alone.short.busy - service).max(0.0),
        per_byte: ((long.apart - alone.short.apart) / (LONG - SHORT) as f64).max(0.0),
        awake: awake_ns(),
        ..HostCosts::default()
    };
    times = alone.around(&times);
    steps.next("host: one packet at a time")?;
    let [awake, rested] = [AWAKE, SINGLE].map(|rate| repeated(|control| pass.at(rate, control), control));
    let rested = (rested?.delay - awake?.delay).max(0.0);
    times.rested = rested;
    if processors > 1 {
        steps.next("host: a worker")?;
        let forward = subject(&captures.short, FORWARD)?;
        let handed = rounds(&forward, true, control)?.around(&times);
        times = HostCosts { worker: handed.worker, ..times };
        (times.give, times.fetch, times.hand_over) = (handed.give, handed.fetch, handed.hand_over);
        // A reader gives packets away as a dispatcher does.
        times.deal = read(&captures.short)? + times.give;
        steps.next("host: a worker that sleeps")?;
        let worker = forward.with_workers(1);
        let [awake, single, far_apart] =
            [AWAKE, SINGLE, FAR_APART].map(|rate| repeated(|control| worker.at(rate, control), control));
        let single = single?.delay;
        times.worker_rested = (single - awake?.delay - rested).max(0.0);
        times.wake = (far_apart?.delay - single).max(0.0);
    }
    steps.next("host: a chain")?;
    let full = |service| {
        repeated(|control| subject(&captures.short, service)?.with_buffer(64).full(PACKETS, control), control)
    };
    let [first, both] = [FORWARD, CHAIN].map(full);
    times.onward = (both?.apart - first?.apart - times.own - service - times.turn / BURST).max(0.0);
    steps.next("host: flows")?;
    times.flows = flows(control)?;
    steps.next("host")?;
    Ok(DescribedHost { processors, times })
}

/// Returns the packets of a capture, over and over, through these services.
fn subject(capture: &str, services: &str) -> Result<MeasuredRun, LabError> {
    let mut config = RunConfig::new(Host::Live, capture, "fcfs".parse()?);
    (config.services, config.chains) = ServiceChoice::parse_all(&[services])?;
    Ok(MeasuredRun::new(&config))
}

/// Returns the medians of some runs.
fn repeated(
    run: impl Fn(&mut Control<'_>) -> Result<PacketTimes, LabError>,
    control: &mut Control<'_>,
) -> Result<PacketTimes, LabError> {
    let runs = (0..ROUNDS).map(|_| run(control)).collect::<Result<Vec<PacketTimes>, LabError>>()?;
    Ok(medians(&runs))
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

/// Measures how long a reader takes to read a packet and to find its dispatcher, in ns.
fn read(capture: &str) -> Result<f64, LabError> {
    let spread = Spread::new(2, Tunnels::NONE, Seed(1));
    let round = |_| -> Result<f64, LabError> {
        let (mut source, mut frame, mut packets) = (open(capture, Seed(1))?, Frame::default(), 0);
        let started = Instant::now();
        while source.next(&mut frame)? {
            hint::black_box(spread.dispatcher(&frame));
            packets += 1;
        }
        Ok(started.elapsed().as_nanos() as f64 / f64::from(packets.max(1)))
    };
    let rounds = (0..READS).map(round).collect::<Result<Vec<f64>, LabError>>()?;
    Ok(median(&sorted(rounds.into_iter())))
}

/// Measures the extra time of a packet by the number of flows.
fn flows(control: &mut Control<'_>) -> Result<Vec<(u64, f64)>, LabError> {
    let mut points = Vec::with_capacity(FLOWS.len());
    for flows in FLOWS {
        let packets = (2 * flows).max(PACKETS);
        let mut config =
            RunConfig::new(Host::Live, &format!("gen:poisson:flows={flows},packets={packets}"), "fcfs".parse()?);
        config.flows = 2 * FLOWS[FLOWS.len() - 1] as usize;
        config.services = vec![ServiceChoice::pass()];
        let subject = MeasuredRun::new(&config);
        points.push((flows, repeated(|control| subject.full(packets, control), control)?.apart));
    }
    let fewest = points[0].1;
    Ok(points.into_iter().map(|(flows, ns)| (flows, (ns - fewest).max(0.0))).collect())
}

/// Measures how long a thread without work stays awake, in ns.
fn awake_ns() -> f64 {
    let started = Instant::now();
    (0..AWAKE_LOOKS).for_each(|_| hint::spin_loop());
    (0..AWAKE_YIELDS).for_each(|_| thread::yield_now());
    started.elapsed().as_nanos() as f64
}
