//! Figure 6: cores follow the load of two services, and are shared as guaranteed when both are overloaded.

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::cost::{LinearCost, Span};
use humpyard_core::id::{CoreId, Id, ServiceId};
use humpyard_core::measure::{Measured, Measurements};
use humpyard_core::mechanism::{Dispatch, Limits, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::{Time, WorkUnit};
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::PolicySpec;
use humpyard_sim::{Cores, Doing, Driver, Feed, Packets, TimedCores};

use super::paper::{AE, DRAWS, EVEREST, LITERAL, PAPER};
use crate::harness::{About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, mean, rows, short, whole};
use humpyard_lab::LabError;
use humpyard_plot::{Line, LinePlot};

const POLICIES: [&str; 4] = [EVEREST, LITERAL, "everest-env", AE];
const CORES: usize = 4;
/// Time of a packet, cost of a switch, and tolerated delay.
const PACKET: Time = Time::from_ns(10_000);
const SWITCH: Time = Time::from_ns(2_000_000);
/// Most packets waiting for a service. With an unlimited queue, both would stay overloaded to the end.
const QUEUE: u32 = 512;
/// Number of samples of a run.
pub(super) const SAMPLES: u64 = 60;
/// Duration of a run, in ms (quick, full).
const LENGTH_MS: (u64, u64) = (600, 6_000);

/// Phases: the first sample, the load of both services in cores, and their cores at the end of the phase.
pub(super) const PHASES: [(u64, [f64; 2], [u32; 2]); 4] =
    [(0, [0.6, 2.7], [1, 3]), (11, [2.7, 0.6], [3, 1]), (22, [4.0, 4.0], [2, 2]), (40, [1.5, 1.5], [2, 2])];

rows! {
    COLUMNS, fn row(policy: &str, draw: usize, sample: usize, owners: &Owners) {
        text policy = policy, integer draw = draw, real seconds_of_six = seconds(sample as u64 + 1),
        integer cores_a = owners.cores_of(0), integer cores_b = owners.cores_of(1),
        integer switches = owners.switches,
    }
}

/// Figure 6.
pub(super) struct Figure6;

/// The service that each core serves or switches to, and the number of switches.
#[derive(Clone, Copy, Debug)]
struct Owners {
    of: [ServiceId; CORES],
    switches: u64,
}

impl Owners {
    fn cores_of(&self, service: u16) -> usize {
        self.of.iter().filter(|&&owner| owner == ServiceId(service)).count()
    }
}

/// The cores of the detectors, with samples of their owners.
struct Detectors<C> {
    cores: C,
    owners: Owners,
    /// Time between samples.
    step: Time,
    samples: Vec<Owners>,
}

impl<C> Detectors<C> {
    fn new(cores: C, length: Time) -> Self {
        let owners = Owners { of: [0, 0, 1, 1].map(ServiceId), switches: 0 };
        Self { cores, owners, step: Time::from_ns(length.as_ns() / SAMPLES), samples: Vec::new() }
    }

    /// Takes the samples that are due before this time.
    fn sample_until(&mut self, now: Time) {
        while self.samples.len() < SAMPLES as usize && self.step.as_ns() * (self.samples.len() as u64 + 1) < now.as_ns()
        {
            self.samples.push(self.owners);
        }
    }

    /// Returns all samples, including those after the last event.
    fn into_samples(mut self) -> Vec<Owners> {
        self.sample_until(Time::MAX);
        self.samples
    }
}

impl<C: Cores> Cores for Detectors<C> {
    fn next_event(&self) -> Time {
        self.cores.next_event()
    }

    fn next_done(&mut self, now: Time) -> Option<(CoreId, Doing)> {
        self.cores.next_done(now)
    }

    fn serve(&mut self, now: Time, core: CoreId, dispatch: &Dispatch<&Packet>) {
        self.cores.serve(now, core, dispatch);
    }

    fn switch(&mut self, now: Time, switch: &Switch) {
        self.sample_until(now);
        self.owners.of[switch.core.index()] = switch.to;
        self.owners.switches += 1;
        self.cores.switch(now, switch);
    }
}

/// Returns the scheduler of a run.
fn mechanism(policy: &str) -> Result<Measured<AnySteer, AnyShare, AnyAllocate>, LabError> {
    let service = ServiceConfig {
        name: "detector".to_owned(),
        packet_time: PACKET,
        switch_cost: SWITCH,
        tolerance: SWITCH + PACKET,
        guarantee_millionths: 500_000,
    };
    let setup = SchedulerConfig {
        cores: CORES,
        packets: 2 * QUEUE as usize + CORES,
        unit: WorkUnit::Nanoseconds,
        estimates: vec![LinearCost { fixed: PACKET.as_ns(), per_byte_milli: 0, cold: 0 }; 2],
        services: vec![service; 2],
        limits: Limits::default().with_queue(QUEUE),
        ..SchedulerConfig::default()
    };
    let scheduler = policy.parse::<PolicySpec>()?.build(&setup)?;
    Ok(Measured::new(scheduler, Measurements::new(&setup)))
}

/// Returns the packets of a run, at random times.
fn packets(mut random: Random, length: Time) -> impl Iterator<Item = Packet> {
    let (mut sample, mut now) = (0, 0.0);
    core::iter::from_fn(move || {
        while sample < SAMPLES {
            let (_, work, _) = PHASES.iter().rfind(|&&(from, ..)| from <= sample).expect("the first is from 0");
            let end = (length.as_ns() / SAMPLES * (sample + 1)) as f64;
            let sum = work[0] + work[1];
            let gap = random.exponential(PACKET.as_ns() as f64 / sum);
            if now + gap < end {
                now += gap;
                let service = ServiceId(u16::from(random.unit() * sum >= work[0]));
                return Some(Packet { arrival: Time::from_ns(now as u64), service, length: 64, ..Packet::default() });
            }
            now = end;
            sample += 1;
        }
        None
    })
}

/// Runs one draw. Returns a row for each sample.
fn run(policy: &str, draw: usize, length: Time, seed: Seed) -> Result<Vec<Row>, LabError> {
    let packets = packets(seed.stream(&format!("everest-fig6/{draw}")), length);
    let serves = TimedCores::new(CORES, |now, _, _: &_| Span { finished: now + PACKET, busy: PACKET });
    let detectors = Detectors::new(serves, length);
    let driven = Driver::new(mechanism(policy)?, Packets::new(packets, Feed::Arrivals), detectors).drive()?;
    let samples = driven.cores.into_samples();
    Ok(samples.iter().enumerate().map(|(sample, owners)| row(policy, draw, sample, owners)).collect())
}

impl Experiment for Figure6 {
    fn about(&self) -> About {
        About {
            id: "everest-fig6",
            figure: "figure 6",
            title: "cores follow two services",
            description: "Four cores, two detectors with equal guarantees; a packet takes 10 us, a switch 2 ms. They \
                are sent the work of 0.6 and 2.7 cores, then of 2.7 and 0.6, from 2.2 s to 4 s of 4 each, then of 1.5 \
                each. The paper's rates are in a figure only. 512 packets may wait for each. A quick run passes in a \
                tenth of the time.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        scale.of(DRAWS)
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let length = Time::from_ns(1_000_000 * scale.of(LENGTH_MS));
        let rows = POLICIES.iter().map(|policy| run(policy, part + 1, length, seed));
        Ok(rows.collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("draw")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        POLICIES.iter().flat_map(|policy| followed(data, policy)).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = LinePlot {
            title: "cores of the first service".to_owned(),
            description: self.about().description.to_owned(),
            x: whole("seconds, of six"),
            y: whole("cores of the first service, of four"),
            lines: cores_over_time(data, &POLICIES),
        };
        vec![("cores".to_owned(), plot.svg())]
    }
}

/// Returns the end of a sample, scaled to a run of six seconds.
fn seconds(sample: u64) -> f64 {
    6.0 * sample as f64 / SAMPLES as f64
}

/// Returns the least cores of each service under Everest, over the samples of the overload.
fn least_in_overload(data: &Table) -> Vec<f64> {
    let samples = PHASES[2].0 + 1..=PHASES[3].0;
    let cores: Vec<[f64; 2]> = samples.filter_map(|sample| cores_at(data, sample)).collect();
    let least = |service: usize| cores.iter().map(|cores| cores[service]).reduce(f64::min);
    [0, 1].into_iter().filter_map(least).collect()
}

/// Returns the cores of both services under Everest at a sample.
fn cores_at(data: &Table, sample: u64) -> Option<[f64; 2]> {
    let row = data.rows_of("policy", EVEREST).at("seconds_of_six", seconds(sample)).next()?;
    Some(["cores_a", "cores_b"].map(|column| row.number(column)))
}

static FIGURES: [Figure; 2] = [
    Figure {
        claim: "everest-fig6-follows",
        of: |data| {
            let ends = cores_at(data, PHASES[1].0).zip(cores_at(data, PHASES[2].0));
            ends.map(|(first, second)| second[0] - first[0]).into_iter().collect()
        },
    },
    Figure { claim: "everest-fig6-overload", of: least_in_overload },
];

/// Draws the cores of the first service over time, in the first draw.
pub(super) fn cores_over_time(data: &Table, policies: &[&str]) -> Vec<Line> {
    let line =
        |&policy: &&str| data.rows_of("policy", policy).at("draw", 1.0).line(policy, "seconds_of_six", "cores_a");
    policies.iter().map(line).collect()
}

/// Returns the cores of both services at the end of each phase, over all draws.
fn ends(data: &Table, policy: &str) -> Vec<[Vec<f64>; 2]> {
    let samples = PHASES.iter().skip(1).map(|phase| phase.0).chain([SAMPLES]);
    let at = |sample: u64| {
        let rows = data.rows_of("policy", policy).at("seconds_of_six", seconds(sample));
        ["cores_a", "cores_b"].map(|column| rows.clone().numbers(column).collect())
    };
    samples.map(at).collect()
}

/// Notes the mean cores at the end of each phase over all draws, and the switches.
pub(super) fn followed(data: &Table, policy: &str) -> [Note; 2] {
    let said = PHASES.map(|(_, _, [a, b])| format!("{a}/{b}")).join(", ");
    let ends = ends(data, policy).into_iter().map(|[a, b]| format!("{}/{}", short(mean(&a)), short(mean(&b))));
    [
        Note::new(
            format!("{policy}: cores of both at the end of each phase, mean of all draws"),
            format!("{said} (specification)"),
            ends.collect::<Vec<_>>().join(", "),
        ),
        Note::new(
            format!("{policy}: switches, at most"),
            "at most 10 (specification)",
            short(data.rows_of("policy", policy).most("switches")),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    /// Cores follow the load of both services, with few switches, and the claims have their expected outcomes.
    #[test]
    fn cores_follow() {
        let data = quick(&Figure6);
        assert_eq!(data.len(), Figure6.parts(Scale::Quick) * POLICIES.len() * SAMPLES as usize);
        for policy in [EVEREST, LITERAL] {
            for ((_, _, cores), found) in PHASES.iter().zip(ends(&data, policy)) {
                let is_as_sent =
                    found.iter().zip(cores).all(|(found, &cores)| found.iter().all(|&n| n == f64::from(cores)));
                assert!(is_as_sent, "{policy}: {found:?}, not {cores:?}");
            }
            assert!(data.rows_of("policy", policy).most("switches") <= 10.0, "{policy}");
        }
        assert_expected(&Figure6, &data);
    }
}
