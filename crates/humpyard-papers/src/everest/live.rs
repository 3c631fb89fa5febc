//! Figure 6 on live threads: real detectors, on workers as slow as the paper's engines.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::id::{Id, ServiceId};
use humpyard_core::mechanism::{Account, Arrival, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;
use humpyard_runtime::{Input, Live, Overload};
use humpyard_services::{Context, Counter, Factory, Generated, Service, Verdict as Fate, checksum, prepare};
use humpyard_traffic::{NullSink, Source, TrafficError};

use super::paper::{ENVELOPE, EVEREST, PAPER};
use super::prototype::{PHASES, SAMPLES, cores_over_time, followed};
use crate::harness::{
    About, Experiment, Note, Plots, Row, Rows, Scale, Sees, Table, Watched, held_order, rows, unstopped, whole,
};
use humpyard_lab::{Control, CostLine, Costs, Host, LabError, Rate, RunConfig, ServiceChoice, parts, placed};
use humpyard_plot::LinePlot;

const POLICIES: [&str; 2] = [EVEREST, ENVELOPE];
const WORKERS: usize = 4;
/// Time of a packet, cost of a switch, and tolerated delay: 79 packets per core.
const PACKET: Duration = Duration::from_micros(250);
const SWITCH: Duration = Duration::from_millis(2);
const TOLERANCE: Duration = Duration::from_millis(20);
/// Most packets waiting for a service; relative to the tolerated ones, the same as in figure 6 in virtual time.
const QUEUE: u32 = 200;
/// Greatest excess of a sleep that the following packets make up for.
const OVERSLEPT: Duration = Duration::from_micros(200);
/// Duration of a run (quick, full), and number of runs.
const LENGTH: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(6));
const RUNS: (usize, usize) = (2, 10);

/// Both detectors, and the destination address of their packets.
const DETECTORS: [(&str, &str, [u8; 4]); 2] =
    [("portscan", "portscan", [203, 0, 113, 1]), ("synflood", "synflood:period=0.1", [203, 0, 113, 2])];

rows! {
    COLUMNS, fn row(
        policy: &str, draw: usize, sample: usize, (cores, switches): (usize, u64), account: &Account, alarms: [u64; 2]
    ) {
        text policy = policy, integer draw = draw, real seconds_of_six = 6.0 * (sample + 1) as f64 / SAMPLES as f64,
        integer cores_a = cores, integer cores_b = WORKERS - cores, integer switches = switches,
        integer arrived = account.arrived, integer processed = account.processed, integer scans = alarms[0],
        integer floods = alarms[1], integer processors = humpyard_runtime::processors().len(),
    }
}

/// Figure 6, live.
pub(super) struct Figure6Live;

/// A detector on an engine of limited speed.
struct Engine {
    detector: Box<dyn Service>,
    /// The due time of the previous packet's completion.
    due: Option<Instant>,
}

impl Service for Engine {
    fn process(&mut self, frame: &mut Frame, context: &Context, generated: &mut Generated) -> Fate {
        let begun = Instant::now();
        let fate = self.detector.process(frame, context, generated);
        let behind = self.due.filter(|due| begun.saturating_duration_since(*due) < OVERSLEPT);
        let due = behind.unwrap_or(begun) + PACKET;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        self.due = Some(due);
        fate
    }

    fn counters(&self) -> Vec<Counter> {
        self.detector.counters()
    }
}

/// Segments at Poisson arrival times, to both detectors by phase. One gets a scan of the ports of one host. The
/// other gets connections that open and close; while both are overloaded, they only open.
struct Segments {
    random: Random,
    /// The current time, in ns.
    now: f64,
    length: f64,
    /// The current sample.
    sample: u64,
    sent: [u32; 2],
}

impl Segments {
    /// Draws the next arrival. Returns the phase, and the number of the detector.
    fn draw(&mut self) -> Option<(usize, usize)> {
        while self.sample < SAMPLES {
            let phase = PHASES.iter().rposition(|&(from, ..)| from <= self.sample).expect("the first is from 0");
            let work = PHASES[phase].1;
            let sum = work[0] + work[1];
            let end = (self.sample + 1) as f64 * self.length / SAMPLES as f64;
            let gap = self.random.exponential(PACKET.as_nanos() as f64 / sum);
            if self.now + gap < end {
                self.now += gap;
                return Some((phase, usize::from(self.random.unit() * sum >= work[0])));
            }
            self.now = end;
            self.sample += 1;
        }
        None
    }
}

/// The phase in which the detectors get more work than all cores can do.
const OVERLOAD: usize = 2;

impl Source for Segments {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        let Some((phase, detector)) = self.draw() else { return Ok(false) };
        let number = self.sent[detector];
        self.sent[detector] += 1;
        let (port, flags) = match detector {
            0 => (1 + (number % 60_000) as u16, SYN),
            _ if phase == OVERLOAD || number.is_multiple_of(2) => (80, SYN),
            _ => (80, FIN),
        };
        frame.time = Time::from_ns(self.now as u64);
        frame.link = LinkType::Ethernet;
        segment(&mut frame.data, DETECTORS[detector].2, number / 2, port, flags);
        frame.wire_length = frame.data.len() as u32;
        Ok(true)
    }

    fn description(&self) -> &str {
        "segments to two detectors"
    }
}

const SYN: u8 = 0x02;
const FIN: u8 = 0x11;

/// Writes a TCP segment without payload to this host and port; the scan comes from one host.
fn segment(data: &mut Vec<u8>, to: [u8; 4], connection: u32, port: u16, flags: u8) {
    let from = if to == DETECTORS[0].2 { [198, 51, 100, 1] } else { [198, 51, 100, 2 + (connection % 250) as u8] };
    data.clear();
    data.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00]);
    data.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    data.extend(from);
    data.extend(to);
    data.extend((1_024 + (connection / 250 % 60_000) as u16).to_be_bytes());
    data.extend(port.to_be_bytes());
    data.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    let sum = checksum::checksum(&data[14..34]);
    data[24..26].copy_from_slice(&sum.to_be_bytes());
    let mut pseudo = data[26..34].to_vec();
    pseudo.extend([0, 6, 0, 20]);
    pseudo.extend_from_slice(&data[34..]);
    let sum = checksum::checksum(&pseudo);
    data[50..52].copy_from_slice(&sum.to_be_bytes());
}

/// The number of cores of the first service, and of switches, at each sample.
#[derive(Debug)]
struct Seen {
    owners: [ServiceId; WORKERS],
    switches: u64,
    sample: Time,
    samples: Vec<(usize, u64)>,
}

impl Seen {
    fn new(length: Duration) -> Self {
        Self {
            // As guaranteed: two cores each.
            owners: [0, 0, 1, 1].map(ServiceId),
            switches: 0,
            sample: Time::from_ns(length.as_nanos() as u64 / SAMPLES),
            samples: Vec::new(),
        }
    }

    /// Takes the samples that are due by this time.
    fn sample_until(&mut self, now: Time) {
        let over = (now.as_ns() / self.sample.as_ns()).min(SAMPLES) as usize;
        let cores = self.owners.iter().filter(|&&owner| owner == ServiceId(0)).count();
        self.samples.resize(over.max(self.samples.len()), (cores, self.switches));
    }
}

impl Sees for Seen {
    fn on_arrival(&mut self, now: Time, _: &Packet, _: Arrival) {
        self.sample_until(now);
    }

    fn on_switch(&mut self, switch: &Switch) {
        self.owners[usize::from(switch.core.0)] = switch.to;
        self.switches += 1;
    }
}

fn configuration(policy: &str) -> Result<RunConfig, LabError> {
    let mut config = RunConfig::new(Host::Live, "gen:poisson", policy.parse()?);
    config.cores = WORKERS;
    config.rate = Rate::Trace;
    config.in_flight = 1;
    config.flow_order = held_order(&config.policy);
    config.limits.queue = QUEUE;
    config.switch_costs = vec![(String::new(), SWITCH)];
    config.tolerances = vec![(String::new(), TOLERANCE)];
    let service = |(name, work, _): &(&str, &str, [u8; 4])| {
        Ok(ServiceChoice { name: (*name).to_owned(), matches: None, work: work.parse()? })
    };
    config.services = DETECTORS.iter().map(service).collect::<Result<_, LabError>>()?;
    let rule =
        |(name, _, [a, b, c, d]): &(&str, &str, [u8; 4])| format!("destination={a}.{b}.{c}.{d},service={name}").parse();
    config.rules = DETECTORS.iter().map(rule).collect::<Result<_, _>>()?;
    config.rules.push("protocol=any,service=synflood".parse()?);
    let cost = |(name, ..): &(&str, &str, [u8; 4])| {
        let fixed_ns = PACKET.as_nanos() as f64;
        ((*name).to_owned(), CostLine { fixed_ns, ..CostLine::default() })
    };
    config.costs = Costs::of_lines("", "workers that take so long", DETECTORS.iter().map(cost));
    Ok(config)
}

fn engines(config: &RunConfig) -> Result<Vec<Factory>, LabError> {
    let engine = |choice: &ServiceChoice| {
        let detector = prepare(&choice.work)?;
        Ok(Factory::new(detector.info().name, move || Engine { detector: detector.make(), due: None }))
    };
    config.services.iter().map(engine).collect()
}

/// Runs the detectors. Returns the account, and the alarms of both.
fn live(
    config: &RunConfig,
    cores: &Watched<Seen>,
    source: Segments,
    control: &mut Control<'_>,
) -> Result<(Account, [u64; 2]), LabError> {
    let classifier = parts::classifier(config)?;
    let setup = parts::scheduler_config(config, WORKERS, classifier.clients_max())?;
    let (measured, records) = parts::measured(config, &setup)?;
    let pacer = parts::pacer(config, WORKERS, control)?;
    let outcome = humpyard_runtime::run_named(Live {
        measured: measured.with_observer(Box::new(cores.clone())),
        packets: config.buffer,
        workers: WORKERS,
        seats: placed(config, WORKERS)?.seats,
        hardware: false,
        services: engines(config)?,
        overload: Overload::Drop,
        clock: humpyard_runtime::Clock::Real,
        swaps: Vec::new(),
        replacements: None,
        longest: None,
        input: Input::new(Box::new(source), pacer),
        sink: Box::new(NullSink::default()),
        link: None,
        quarantine: None,
        classifier,
        stop: control.stop,
        progress: control.progress,
        loads: None,
        watched: None,
    })?;
    records.finish()?;
    let alarms = [0, 1].map(|service| {
        let counters = outcome.counters.of(ServiceId::from_index(service));
        counters.get("alarms").copied().unwrap_or_default()
    });
    Ok((*outcome.measured.account(), alarms))
}

/// Runs one draw. Returns a row for each sample.
fn run(policy: &str, draw: usize, length: Duration, seed: Seed) -> Result<Vec<Row>, LabError> {
    let config = configuration(policy)?;
    let cores = Watched::new(Seen::new(length));
    let random = seed.stream(&format!("everest-fig6-live/{draw}"));
    let source = Segments { random, now: 0.0, length: length.as_nanos() as f64, sample: 0, sent: [0; 2] };
    let (account, alarms) = unstopped(|control| live(&config, &cores, source, control))?;
    let samples = cores.with(|seen| {
        seen.sample_until(Time::from_ns(seen.sample.as_ns() * SAMPLES));
        seen.samples.clone()
    });
    let samples = samples.into_iter().enumerate();
    Ok(samples.map(|(at, seen)| row(policy, draw, at, seen, &account, alarms)).collect())
}

impl Experiment for Figure6Live {
    fn about(&self) -> About {
        About {
            id: "everest-fig6-live",
            figure: "figure 6, live",
            title: "cores follow two detectors among live threads",
            description: "Four worker threads and the dispatcher, however many processors there are (`processors` in \
                the data), do the work of `portscan` and `synflood` on segments that come in real time. What these \
                detectors do takes some 10 ns, so that no network interface would keep four workers busy; a worker is \
                kept by each packet for 250 us, by sleeping, which is as if it were an engine as slow as the paper's. \
                A switch makes it unavailable for 2 ms (`--switch-cost 2ms`). D is 20 ms, 200 packets may wait for \
                each. They are sent the work of 0.6 and 2.7 cores, then of 2.7 and 0.6, from 2.2 to 4 s of 4 each, \
                then of 1.5 each. A quick run passes in a third of the time. A scan goes on all the time; in the \
                overload connections are opened, and none is closed.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        scale.of(RUNS)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let length = scale.of(LENGTH);
        let rows = POLICIES.iter().map(|policy| run(policy, part + 1, length, seed));
        Ok(rows.collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let mut notes: Vec<Note> = POLICIES.iter().flat_map(|policy| followed(data, policy)).collect();
        notes.extend([("portscan", "scans"), ("synflood", "floods")].map(|(detector, column)| {
            Note::new(format!("alarms of {detector}, by run"), "one at least", data.rows().range(column).to_string())
        }));
        notes
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = LinePlot {
            title: "workers of portscan".to_owned(),
            description: self.about().description.to_owned(),
            x: whole("seconds, of six"),
            y: whole("workers of portscan, of four"),
            lines: cores_over_time(data, &POLICIES),
        };
        vec![("workers".to_owned(), plot.svg())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The segments have the numbers that the phases require, for both detectors, in order.
    #[test]
    fn segments_are_those_of_the_phases() {
        let mut source = Segments { random: Seed(1).stream("test"), now: 0.0, length: 6e9, sample: 0, sent: [0; 2] };
        let (mut frame, mut last) = (Frame::default(), Time::ZERO);
        while source.next(&mut frame).unwrap() {
            assert!(frame.time >= last && frame.data.len() == 54);
            last = frame.time;
        }
        // 1.1 s each of 0.6 and 2.7 cores, 1.8 s of 4, 2 s of 1.5; 4,000 packets per core and second.
        let expected = 4_000.0 * (1.1 * 3.3 + 1.8 * 4.0 + 2.0 * 1.5);
        source.sent.iter().for_each(|&sent| assert!((f64::from(sent) / expected - 1.0).abs() < 0.03, "{sent}"));
        assert!(last < Time::from_ns(6_000_000_000));
    }

    /// A quick run: all packets are accounted for, and both detectors raise their alarms.
    #[test]
    fn workers_do_the_work() {
        let data = Table::of(COLUMNS, run(EVEREST, 1, LENGTH.0, Seed(1)).unwrap());
        assert_eq!(data.len(), SAMPLES as usize);
        let (arrived, processed) = (data.rows().total("arrived"), data.rows().total("processed"));
        assert!(processed > 0.0 && processed <= arrived, "{processed} of {arrived}");
        assert!(["scans", "floods"].iter().all(|alarms| data.rows().range(alarms).least >= 1.0), "{}", data.csv());
    }
}
