//! What services cost on this machine, measured: the line of their work over the length of packets, what a cold core adds, how
//! much longer or shorter packets get, and how far cores are from each other.
//!
//! All is measured on one processor, to which the calling thread is pinned. Work is timed over batches of packets that have just
//! been copied into place, as a driver does; of each length the median of the batches counts, and lengths take turns so that
//! what changes in the machine meets all alike. What a cold core adds is timed packet by packet: after memory of some size was
//! touched, and after a packet of another service.

pub(crate) mod distance;
pub(crate) mod first_cache;
mod fit;
mod host;
mod machine;
mod matrix;
mod missing;
pub(crate) mod others;
mod packets;
mod page;
mod plots;
mod stops;
mod subject;
mod threads;
mod traffic;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

use humpyard_core::frame::Frame;
use humpyard_core::name::Named;
use humpyard_core::random::Seed;
use humpyard_runtime::{Seat, Thread, processors};
use humpyard_services::{entries, prepare};
use serde::Serialize;

pub use fit::LineFit;
pub use matrix::{HANDED_OVER, Matrix};
pub(crate) use threads::all_due;
pub use traffic::{INPUT, measure_on_traffic};

use crate::costs::{CostLine, Costs, MachineCosts, cost_key};
use crate::parts::setup::TYPICAL_BYTES;
use crate::{Environment, LabError};
use fit::{median, quantile, sorted};
use humpyard_topology::{CoreTree, PACKET_NS};
use packets::Packets;
use subject::{Evictor, Subject, Tally, clock_ns};

/// Lengths of the frames that services work on, in bytes.
pub const LENGTHS: [usize; 8] = [64, 128, 256, 512, 768, 1024, 1280, 1500];
/// Distinct packets of each length.
pub const PACKETS: usize = 4096;
/// Memory that is touched between packets, in bytes.
pub const EVICTED: [usize; 3] = [512 << 10, 2 << 20, 16 << 20];
/// Packets that are timed together.
const BATCH: usize = 32;
/// Flows that packets are of.
const FLOWS: usize = 64;
/// Turns that the lengths take.
const TURNS: u32 = 4;
/// Batches of a length in each turn, at least.
const BATCHES_MIN: usize = 8;
/// Length of the packets on which the cost of cold cores is measured, where nobody asks for another, in bytes.
pub const COLD_LENGTH: usize = 512;
/// Packets timed one by one for each of these costs, at least and at most.
const SINGLES: (usize, usize) = (15, 4000);
/// Packets that make a core warm again before the same packet is timed once more: an even number, see its use.
const WARMING: usize = 8;
/// Packets of another service that come in between, of so many.
const NEIGHBOUR_PACKETS: usize = 256;
/// What part of the time the lines get; the cold cores get the rest.
const LINES: f64 = 0.6;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct CalibrateOptions {
    /// The services.
    pub services: Vec<Named>,
    /// How long it is to take, about. There is a least number of packets for each figure, however short this is.
    pub longest: Duration,
    /// Whether the ways between cores are measured.
    pub matrix: bool,
    /// Whether it is measured what the machine adds to the work.
    pub machine: bool,
    /// Length of the packets on which the cost of cold cores is measured, in bytes: one of [`LENGTHS`].
    pub cold_length: usize,
    /// Where the payloads of the packets come from.
    pub seed: Seed,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Calibration {
    /// Where the payloads of the packets came from.
    pub seed: u64,
    /// How long it took, in ns.
    pub wall_ns: u64,
    /// What reading the clock takes, which is not in the figures, in ns.
    pub clock_ns: f64,
    /// Distinct packets of each length.
    pub packets: usize,
    /// The services.
    pub services: Vec<ServiceCalibration>,
    /// The longest time in which a core goes over to another service, in ns. The first packet of a service takes longer when its
    /// data have left the caches; of each service this is the 90 % quantile, and here is the largest. `None`: no service was
    /// measured.
    pub switch_upper_ns: Option<f64>,
    /// The ways between cores. `None`: they were not asked for.
    pub matrix: Option<Matrix>,
    /// What the machine adds to the work. `None`: that was not asked for.
    pub machine: Option<MachineCosts>,
    /// Where it was measured.
    pub environment: Environment,
}

/// One service, measured.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceCalibration {
    /// Its name.
    pub service: String,
    /// Its name with its parameters.
    pub specification: String,
    /// Its name with those of them that change its cost, as costs know it.
    pub cost_spec: String,
    /// The line of its work over the length.
    #[serde(flatten)]
    pub fit: LineFit,
    /// What the line goes through: a point for each length.
    pub points: Vec<LengthPoint>,
    /// Bytes that go out for each that comes in, over all lengths.
    pub expansion: f64,
    /// Part of the packets that went on. Where it is not 1, the service dropped or kept some.
    pub forwarded_fraction: f64,
    /// What a packet takes longer after one of another service, in ns: the median over the services.
    pub cold_ns: f64,
    /// The same by the service before.
    pub after: Vec<AfterService>,
    /// What a packet takes longer after memory was touched.
    pub evicted: Vec<AfterEviction>,
}

/// The work of packets of one length.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LengthPoint {
    /// Mean length of the packets that came in, in bytes: an inverse gets longer ones.
    pub length_bytes: f64,
    /// Median of the batches, in ns for a packet.
    pub median_ns: f64,
    /// 10 % of the batches were below, in ns for a packet.
    pub p10_ns: f64,
    /// 90 % of the batches were below, in ns for a packet.
    pub p90_ns: f64,
    /// How many batches.
    pub batches: usize,
    /// Bytes that go out for each that comes in.
    pub expansion: f64,
}

/// What a packet takes longer after one of another service.
#[derive(Clone, Debug, Serialize)]
pub struct AfterService {
    /// The service before.
    pub service: String,
    /// The median of the differences, in ns; below 0 where it is less than the noise.
    pub penalty_ns: f64,
    /// Packets timed.
    pub samples: usize,
}

/// Time that a packet takes longer after this much memory was touched.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AfterEviction {
    /// Memory touched.
    pub bytes: usize,
    /// The median of the differences, in ns.
    pub penalty_ns: f64,
    /// The 90 % quantile of the differences, in ns.
    pub penalty_p90_ns: f64,
    /// Packets timed.
    pub samples: usize,
}

/// The listener during a measurement: steps done, steps in all, the next step. And whether to go on.
pub(crate) struct Steps<'a> {
    done: usize,
    all: usize,
    stop: &'a AtomicBool,
    tell: &'a mut dyn FnMut(usize, usize, &str),
}

impl<'a> Steps<'a> {
    fn new(all: usize, stop: &'a AtomicBool, tell: &'a mut dyn FnMut(usize, usize, &str)) -> Self {
        Self { done: 0, all, stop, tell }
    }

    fn next(&mut self, what: &str) -> Result<(), LabError> {
        (self.tell)(self.done, self.all, what);
        self.done += 1;
        if self.stop.load(Ordering::Relaxed) {
            return Err(LabError::option("interrupted: nothing was written"));
        }
        Ok(())
    }
}

/// The services that are named, separated by commas: `forward,encrypt:cipher=cast-128,spi=300,fec`. `all` are those of the
/// registry, `none` is none.
///
/// # Errors
/// A service that there is not, or that is named twice.
pub fn parse_services(text: &str) -> Result<Vec<Named>, LabError> {
    match text {
        "all" => return Ok(entries().into_iter().map(|entry| named(entry.name)).collect()),
        "none" => return Ok(Vec::new()),
        _ => {}
    }
    let mut specs: Vec<String> = Vec::new();
    for part in text.split(',') {
        let begins = !part.split(':').next().unwrap_or_default().contains('=');
        match specs.last_mut() {
            Some(spec) if !begins => *spec = format!("{spec},{part}"),
            _ => specs.push(part.to_owned()),
        }
    }
    let mut services: Vec<Named> = Vec::new();
    for spec in specs {
        let service: Named = spec.parse()?;
        prepare(&service)?;
        let spec = cost_key(&service)?;
        for other in &services {
            if cost_key(other)? == spec {
                return Err(LabError::option(format!(
                    "`{service}` has the same line of costs as `{other}`, that of `{spec}`: leave one of them out"
                )));
            }
        }
        services.push(service);
    }
    Ok(services)
}

fn named(name: &str) -> Named {
    Named { name: name.to_owned(), parameters: Vec::new() }
}

/// Measures. `tell` hears of steps done, of how many, and of the next one. When `stop` is set, this ends with an error.
///
/// # Errors
/// A service that cannot be made; an end from outside.
pub fn calibrate(
    options: &CalibrateOptions,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(usize, usize, &str),
) -> Result<Calibration, LabError> {
    let started = Instant::now();
    let allowed = processors();
    // Interrupts come to the first rather than the last.
    let seat = Seat { thread: Thread::Worker(0), processor: allowed.last().copied(), shared: false };
    let pairs = if options.matrix { allowed.len() * allowed.len().saturating_sub(1) / 2 } else { 0 };
    let count = options.services.len();
    let each = TURNS as usize * LENGTHS.len() + EVICTED.len() + entries().len();
    let machine_steps = if options.machine { 2 + host::STEPS } else { 0 };
    let mut steps = Steps::new(1 + count * each + pairs + machine_steps, stop, tell);
    // A matrix takes a fifth, and the machine a fourth of the rest.
    let rest = if pairs > 0 && count > 0 { 0.8 } else { 1.0 };
    let matrix = match options.matrix {
        true => Some(matrix::measure(&allowed, options.longest.mul_f64(1.01 - rest), &mut steps)?),
        false => None,
    };
    let share = if options.machine && count > 0 { rest * 0.75 } else { rest };
    let machine = match options.machine {
        true => Some(machine::measure(options.seed, options.longest.mul_f64(rest / 4.0), &mut steps)?),
        false => None,
    };
    let services = {
        let _seated = seat.take();
        measure_services(options, options.longest.mul_f64(share), &mut steps)?
    };
    let worst = services.iter().filter_map(|service| service.evicted.last()).map(|last| last.penalty_p90_ns);
    Ok(Calibration {
        seed: options.seed.0,
        clock_ns: clock_ns(),
        packets: PACKETS,
        switch_upper_ns: worst.reduce(f64::max),
        services,
        matrix,
        machine,
        environment: Environment::of("", &[seat]),
        wall_ns: started.elapsed().as_nanos() as u64,
    })
}

/// How long a machine is watched for interruptions, where it is measured for one run.
const WATCHED: Duration = Duration::from_secs(2);

/// Measures what this machine adds to the work of packets, in about ten seconds. `tell` and `stop` are as for [`calibrate`].
///
/// # Errors
/// A run that cannot be made; an end from outside.
pub fn machine(
    seed: Seed,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(usize, usize, &str),
) -> Result<MachineCosts, LabError> {
    machine::measure(seed, WATCHED, &mut Steps::new(2 + host::STEPS, stop, tell))
}

fn measure_services(
    options: &CalibrateOptions,
    longest: Duration,
    steps: &mut Steps<'_>,
) -> Result<Vec<ServiceCalibration>, LabError> {
    if options.services.is_empty() {
        return Ok(Vec::new());
    }
    steps.next("packets")?;
    let bench = Bench {
        packets: Packets::generate(options.seed),
        clock_ns: clock_ns(),
        longest: longest / options.services.len() as u32,
        cold_length: options.cold_length,
    };
    let mut neighbours = bench.neighbours()?;
    let mut evictor = Evictor::new(EVICTED.into_iter().max().unwrap_or_default());
    let measure = |named: &Named| bench.measure(named, &mut neighbours, &mut evictor, steps);
    options.services.iter().map(measure).collect()
}

/// What all services are measured with.
struct Bench {
    packets: Packets,
    clock_ns: f64,
    /// Time for each service.
    longest: Duration,
    cold_length: usize,
}

/// A service whose packets come in between.
struct Neighbour {
    name: String,
    subject: Subject,
    pool: Vec<Frame>,
}

impl Bench {
    /// All services that there are, as they are by default.
    fn neighbours(&self) -> Result<Vec<Neighbour>, LabError> {
        let neighbour = |entry: humpyard_core::policy::Entry| {
            let named = named(entry.name);
            Ok(Neighbour {
                subject: Subject::new(&named, self.clock_ns)?,
                pool: self.packets.pool(&named, self.cold_length, NEIGHBOUR_PACKETS)?,
                name: named.name,
            })
        };
        entries().into_iter().map(neighbour).collect()
    }

    fn measure(
        &self,
        named: &Named,
        neighbours: &mut [Neighbour],
        evictor: &mut Evictor,
        steps: &mut Steps<'_>,
    ) -> Result<ServiceCalibration, LabError> {
        let pools = self.packets.of(named)?;
        let mut subject = Subject::new(named, self.clock_ns)?;
        let (points, tally) = self.lengths(&named.name, &mut subject, &pools, steps)?;
        let Some(cold) = LENGTHS.iter().position(|&length| length == self.cold_length) else {
            return Err(LabError::option(format!("no packets of {} bytes are measured", self.cold_length)));
        };
        let mut cold = Cold {
            subject,
            pool: pools.get(cold).map_or(&[], Vec::as_slice),
            longest: self.longest.mul_f64(1.0 - LINES),
        };
        let evicted = cold.after_evictions(evictor, &named.name, steps)?;
        let after = cold.after_services(neighbours, &named.name, steps)?;
        let over_services = sorted(after.iter().map(|after| after.penalty_ns));
        Ok(ServiceCalibration {
            service: named.name.clone(),
            specification: named.to_string(),
            cost_spec: cost_key(named)?,
            fit: LineFit::of(&points.iter().map(|point| (point.length_bytes, point.median_ns)).collect::<Vec<_>>()),
            points,
            expansion: tally.expansion(),
            forwarded_fraction: tally.forwarded as f64 / tally.packets.max(1) as f64,
            cold_ns: median(&over_services).max(0.0),
            after,
            evicted,
        })
    }

    /// The work at each length, with what became of the packets.
    fn lengths(
        &self,
        name: &str,
        subject: &mut Subject,
        pools: &[Vec<Frame>],
        steps: &mut Steps<'_>,
    ) -> Result<(Vec<LengthPoint>, Tally), LabError> {
        let longest = self.longest.mul_f64(LINES) / (TURNS * pools.len() as u32);
        let mut times = vec![Vec::new(); pools.len()];
        let mut tallies = vec![Tally::default(); pools.len()];
        for _ in 0..TURNS {
            for (at, pool) in pools.iter().enumerate() {
                steps.next(name)?;
                // What comes first finds the caches as the last length left them.
                subject.time(pool, BATCH);
                subject.tally = Tally::default();
                let (started, least) = (Instant::now(), times[at].len() + BATCHES_MIN);
                while times[at].len() < least || started.elapsed() < longest {
                    times[at].push(subject.time(pool, BATCH));
                }
                tallies[at].add(subject.tally);
            }
        }
        let mut all = Tally::default();
        let point = |(times, tally): (Vec<f64>, Tally)| {
            all.add(tally);
            let times = sorted(times.into_iter());
            LengthPoint {
                length_bytes: tally.bytes_in as f64 / tally.packets.max(1) as f64,
                median_ns: median(&times),
                p10_ns: quantile(&times, 0.1),
                p90_ns: quantile(&times, 0.9),
                batches: times.len(),
                expansion: tally.expansion(),
            }
        };
        let points = times.into_iter().zip(tallies).map(point).collect();
        Ok((points, all))
    }
}

/// What a service's packets take one by one.
struct Cold<'a> {
    subject: Subject,
    pool: &'a [Frame],
    /// Time for all that is measured of it.
    longest: Duration,
}

impl Cold<'_> {
    /// What packets take longer after something than the same packets do warm, in order.
    fn penalties(&mut self, longest: Duration, mut before: impl FnMut()) -> Vec<f64> {
        let mut penalties = Vec::new();
        let started = Instant::now();
        while penalties.len() < SINGLES.0 || (penalties.len() < SINGLES.1 && started.elapsed() < longest) {
            before();
            let place = self.subject.next;
            let cold = self.subject.time(self.pool, 1);
            // What was pushed out comes back over several packets.
            for _ in 0..WARMING {
                self.subject.time(self.pool, 1);
            }
            self.subject.next = place;
            penalties.push(cold - self.subject.time(self.pool, 1));
            // An odd number on: packets are text and noise in turn.
            self.subject.next = place + WARMING + 1;
        }
        sorted(penalties.into_iter())
    }

    fn after_evictions(
        &mut self,
        evictor: &mut Evictor,
        name: &str,
        steps: &mut Steps<'_>,
    ) -> Result<Vec<AfterEviction>, LabError> {
        let longest = self.longest / (2 * EVICTED.len() as u32);
        let mut evicted = Vec::new();
        for bytes in EVICTED {
            steps.next(name)?;
            let penalties = self.penalties(longest, || evictor.touch(bytes));
            evicted.push(AfterEviction {
                bytes,
                penalty_ns: median(&penalties),
                penalty_p90_ns: quantile(&penalties, 0.9),
                samples: penalties.len(),
            });
        }
        Ok(evicted)
    }

    fn after_services(
        &mut self,
        neighbours: &mut [Neighbour],
        name: &str,
        steps: &mut Steps<'_>,
    ) -> Result<Vec<AfterService>, LabError> {
        let longest = self.longest / (2 * neighbours.len() as u32);
        let mut after = Vec::new();
        for neighbour in neighbours {
            steps.next(name)?;
            if neighbour.name == name {
                continue;
            }
            let penalties = self.penalties(longest, || {
                neighbour.subject.time(&neighbour.pool, 1);
            });
            let (service, penalty_ns) = (neighbour.name.clone(), median(&penalties));
            after.push(AfterService { service, penalty_ns, samples: penalties.len() });
        }
        Ok(after)
    }
}

/// Rounds to this many decimals.
fn rounded(value: f64, decimals: i32) -> f64 {
    let ones = 10f64.powi(decimals);
    (value * ones).round() / ones
}

impl Calibration {
    /// What `--costs` reads.
    pub fn costs(&self) -> Costs {
        let machine = self.environment.cpu.as_deref().unwrap_or("an unknown processor");
        let specs: Vec<&str> = self.services.iter().map(|service| service.specification.as_str()).collect();
        let line = |service: &ServiceCalibration| {
            let line = CostLine {
                fixed_ns: rounded(service.fit.fixed_ns, 1),
                per_byte_ns: rounded(service.fit.per_byte_ns, 4),
                cold_ns: rounded(service.cold_ns, 1),
                expansion: Some(rounded(service.expansion, 4)),
                ..CostLine::default()
            };
            (service.cost_spec.clone(), line)
        };
        let (version, specs) = (&self.environment.version, specs.join(", "));
        let source = format!("humpyard {version} calibrate on one core of {machine}: {specs}");
        let machine = self
            .machine
            .clone()
            .map(|machine| MachineCosts { hand_over_ns: rounded(machine.hand_over_ns, 1), ..machine });
        Costs {
            switch_upper_ns: self.switch_upper_ns.map(|switch| rounded(switch, 1)),
            machine,
            ..Costs::of_lines("", &source, self.services.iter().map(line))
        }
    }

    /// What `--topology` reads: the tree of the machine, with the times between its cores. `None`: they were not measured.
    ///
    /// A packet that stays takes what the median service was measured to take for one of 800 bytes, or 1 µs where none was.
    ///
    /// # Errors
    /// More processors than a topology can have.
    pub fn topology(&self) -> Result<Option<CoreTree>, LabError> {
        let Some(matrix) = &self.matrix else { return Ok(None) };
        let times = self.services.iter().map(|service| service.fit.at(f64::from(TYPICAL_BYTES)).max(1.0));
        let packet_ns = if self.services.is_empty() { PACKET_NS } else { median(&sorted(times)) };
        let machine = self.environment.cpu.as_deref().unwrap_or("an unknown processor");
        let source = format!("humpyard {} calibrate on {machine}", self.environment.version);
        matrix.topology(packet_ns, &source).map(Some)
    }

    /// The plots, by the name of the file that each is for: one for each service, and the heat map of the ways between cores.
    pub fn plots(&self) -> Vec<(String, crate::plot::Svg)> {
        plots::plots(self)
    }

    /// The page with everything: plots, what was measured, and beside it what the papers have. HTML that is well-formed XML.
    pub fn page(&self, command: &str) -> String {
        page::page(self, command).into_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        match parse_services(text) {
            Ok(services) => services.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn services_are_separated_from_parameters() {
        assert_eq!(parsed("encrypt:cipher=cast-128,spi=300,fec"), "encrypt:cipher=cast-128,spi=300 fec");
        assert!(parsed("all").starts_with("forward encrypt decrypt"));
        assert_eq!(parsed("none"), "");
        assert!(parsed("forwrad").contains("did you mean `forward`?"));
        assert_eq!(parsed("fec,forward,fec:code=8+2"), "fec forward fec:code=8+2");
        assert_eq!(
            parsed("fec,encrypt:cipher=cast-128,encrypt:spi=300,cipher=cast-128"),
            "`encrypt:spi=300,cipher=cast-128` has the same line of costs as `encrypt:cipher=cast-128`, that of \
             `encrypt:cipher=cast-128`: leave one of them out"
        );
        assert!(parsed("").contains("service"));
    }

    #[test]
    fn everything_is_measured() {
        let options = CalibrateOptions {
            services: parse_services("forward,decrypt:cipher=cast-128").unwrap(),
            longest: Duration::ZERO,
            matrix: false,
            machine: false,
            cold_length: COLD_LENGTH,
            seed: Seed(1),
        };
        let mut told = Vec::new();
        let stop = AtomicBool::new(false);
        let measured = calibrate(&options, &stop, &mut |done, all, _| told.push((done, all))).unwrap();
        assert!(told.iter().all(|(done, all)| done < all) && told.last().is_some_and(|(done, all)| done + 1 == *all));
        for service in &measured.services {
            assert_eq!(service.points.len(), LENGTHS.len());
            assert!(service.points.iter().all(|point| point.batches >= TURNS as usize * BATCHES_MIN));
            assert!(
                service.points.iter().all(|point| point.p10_ns <= point.median_ns && point.median_ns <= point.p90_ns)
            );
            assert_eq!((service.after.len(), service.evicted.len()), (entries().len() - 1, EVICTED.len()));
            assert_eq!(service.forwarded_fraction, 1.0);
        }
        let [forward, decrypt] = &measured.services[..] else { panic!("{measured:?}") };
        assert_eq!(forward.expansion, 1.0);
        assert!(decrypt.expansion < 1.0 && decrypt.points[0].length_bytes > 64.0, "{decrypt:?}");
        let costs = measured.costs();
        assert_eq!(costs.lines.keys().collect::<Vec<_>>(), ["decrypt:cipher=cast-128", "forward"]);
        assert_eq!(Costs::parse("", &costs.text()).unwrap(), costs);
        stop.store(true, Ordering::Relaxed);
        assert!(calibrate(&options, &stop, &mut |_, _, _| ()).unwrap_err().to_string().starts_with("interrupted"));
    }
}
