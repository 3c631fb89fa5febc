//! Open arrivals: the loads that fair queueing, locality and both together can sustain, and the gain of warm
//! engines.

use humpyard_core::random::Seed;

use super::costs::Machine;
use super::machine::{APPLICATIONS, ENGINES, EngineRun, Feed, Job, Trial, mean_work, run, thirty, thirty_jobs};
use super::paper::{DRAWS, PAPER, drawn_seed};
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Range, Row, Rows, Scale, Table, line, listed, rows, short, split,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, LinePlot};

/// Packets of a run: those of 20 s on the paper's engines at 167 MHz, and of 200 s.
const PACKETS: (usize, usize) = (120_000, 1_200_000);

rows! {
    COLUMNS, fn row(
        machine: Machine, (load, wave): (f64, f64), policy: &str, draw: usize, penalty: f64, jobs: &[Job], came: &EngineRun
    ) {
        text costs = machine.name(), real load = load, real wave = wave, text policy = policy, integer draw = draw,
        integer packets = jobs.len(), real cold = came.cold(),
        real delay_packet_times = came.delay(jobs) / mean_work(machine),
        real left = came.left as f64 / jobs.len() as f64, integer mode_changes = came.changes,
        real as_lap = came.local, real cold_over_work = penalty,
    }
}

const FCFS: &str = "fcfs";
const EFQ: &str = "efq";
const WARM: &str = "efq-warm";
const LAP: &str = "lap";
const BOTH: &str = "efq-lap";

const SETTING: &str = "16 engines serve packets of 30 applications, ten copies of each of encrypt, compress and fec, \
    322 bytes long in the mean, that come at random; each application is a flow with an equal share. Load is the part \
    of the time that engines would be busy if they were always warm. Costs are those of table 1 at speed 10 (`paper`), \
    and what services were measured to take here, with what a packet takes longer when 16 MiB of memory were touched \
    (`calibrated, caches lost`). Delays are over what a packet takes a warm engine in the mean. A quick run has \
    120,000 packets, a full one 1,200,000.";

/// An experiment with policies at several loads.
pub(super) struct Open {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    /// Loads, and the amplitudes of their variation.
    loads: &'static [(f64, f64)],
    policies: &'static [&'static str],
    shown: (&'static str, &'static str),
    figures: &'static [Figure],
    notes: fn(&Table) -> Vec<Note>,
}

pub(super) static EXPERIMENTS: [Open; 3] = [
    Open {
        id: "efq-lap-switch",
        figure: "section 6: a combination of EFQ and LAP, without a figure",
        title: "EFQ, LAP, and EFQ that becomes LAP while much work waits",
        description: "`efq-lap` becomes LAP when more than 8 mean packet times wait for each engine, and EFQ again \
            below 2. At load 0.8 there is also traffic whose rate is 35 % higher for 2,500 packets, then 35 % lower.",
        loads: &[(0.7, 0.0), (0.8, 0.0), (0.85, 0.0), (0.92, 0.0), (0.8, 0.35)],
        policies: &[FCFS, EFQ, LAP, BOTH],
        shown: ("delay_packet_times", "mean delay, in packet times"),
        figures: SWITCHING,
        notes: switching,
    },
    Open {
        id: "efq-warm-admit",
        figure: "section 6: a warm engine for EFQ's choice, and equation 4",
        title: "what a choice among idle engines saves, and what it lets admission admit",
        description: "`efq-warm` gives the packet that EFQ chooses to the idle engine that is warm for it, if there is \
            one. Admission charges a flow for what its packets take on warm engines and for the cold ones it must \
            reckon with.",
        loads: &[(0.3, 0.0), (0.5, 0.0), (0.7, 0.0), (0.8, 0.0), (0.84, 0.0)],
        policies: &[EFQ, WARM],
        shown: ("cold", "packets whose engine was cold"),
        figures: ADMISSION,
        notes: admission,
    },
    Open {
        id: "lap-load",
        figure: "section 5.2.8: that LAP works better the more it is loaded",
        title: "cold packets over the load",
        description: "All that waits is visible.",
        loads: &[(0.5, 0.0), (0.7, 0.0), (0.8, 0.0), (0.9, 0.0), (0.95, 0.0), (0.98, 0.0)],
        policies: &[FCFS, EFQ, LAP],
        shown: ("cold", "packets whose engine was cold"),
        figures: LOADED,
        notes: loaded,
    },
];

const MACHINES: [Machine; 2] = [Machine::Paper, Machine::HereEvicted];

/// The common description.
const ABOUT: About = About { setting: SETTING, columns: COLUMNS, ..About::of(PAPER) };

impl Experiment for Open {
    fn about(&self) -> About {
        About { id: self.id, figure: self.figure, title: self.title, description: self.description, ..ABOUT }
    }

    fn parts(&self, scale: Scale) -> usize {
        MACHINES.len() * scale.of(DRAWS)
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (machine, draw) = split(part, &MACHINES);
        let seed = drawn_seed(seed, "open", draw);
        let costs = thirty(machine);
        let penalty = costs.iter().map(|cost| cost.cold as f64).sum::<f64>() / APPLICATIONS as f64 / mean_work(machine);
        let mut rows = Vec::new();
        for &(load, wave) in self.loads {
            let jobs = thirty_jobs(machine, scale.of(PACKETS), load, wave, seed);
            for &policy in self.policies {
                let came = run(&Trial {
                    policy,
                    engines: ENGINES,
                    costs: &costs,
                    clients: APPLICATIONS,
                    jobs: &jobs,
                    feed: Feed::Arrivals,
                })?;
                rows.push(row(machine, (load, wave), policy, draw, penalty, &jobs, &came));
            }
        }
        Ok(rows)
    }

    fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("draw")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        (self.notes)(data)
    }

    fn plots(&self, data: &Table) -> Plots {
        let (column, label) = self.shown;
        let plot = |machine: Machine| {
            let place = Place { data, costs: machine.name() };
            let steady = || self.loads.iter().filter(|load| load.1 == 0.0);
            let drawn = |policy| line(policy, steady().map(|&at| (at.0, place.mean(policy, at, column))));
            let svg = LinePlot {
                title: format!("{}: {} costs", self.title, machine.name()),
                description: "Means over the draws; the rate does not swing.".to_owned(),
                x: Axis::linear("load", |load| format!("{load:.2}")),
                y: Axis::linear(label, short),
                lines: self.policies.iter().copied().map(drawn).collect(),
            };
            (machine.file_name(), svg.svg())
        };
        MACHINES.map(plot).into()
    }
}

/// The rows with these costs.
#[derive(Clone, Copy)]
struct Place<'a> {
    data: &'a Table,
    costs: &'a str,
}

impl<'a> Place<'a> {
    fn rows(self, policy: &'a str, (load, wave): (f64, f64)) -> impl Rows<'a> {
        self.data.rows_of("policy", policy).of("costs", self.costs).at("load", load).at("wave", wave)
    }

    fn range(self, policy: &'a str, at: (f64, f64), column: &str) -> Range {
        self.rows(policy, at).range(column)
    }

    fn mean(self, policy: &'a str, at: (f64, f64), column: &str) -> f64 {
        self.rows(policy, at).mean(column)
    }
}

fn paper(data: &Table) -> Place<'_> {
    Place { data, costs: Machine::Paper.name() }
}

/// The delay at a load that EFQ cannot sustain.
const SWITCHING: &[Figure] = &[Figure {
    claim: "predictive-switch-recovers",
    of: |data| {
        let delay = |policy| paper(data).mean(policy, (0.92, 0.0), "delay_packet_times");
        vec![delay(EFQ) / delay(BOTH)]
    },
}];

/// The cold packets of both choices.
const ADMISSION: &[Figure] = &[Figure {
    claim: "predictive-warm-choice",
    of: |data| {
        let cold = |policy, load| paper(data).mean(policy, (load, 0.0), "cold");
        vec![Range::of([0.3, 0.5, 0.7, 0.8].map(|load| cold(EFQ, load) / cold(WARM, load))).least]
    },
}];

/// Loads, ascending.
const LOADS: [f64; 6] = [0.5, 0.7, 0.8, 0.9, 0.95, 0.98];

/// The cold packets over the load.
const LOADED: &[Figure] = &[Figure {
    claim: "predictive-load",
    of: |data| {
        let cold = LOADS.map(|load| paper(data).mean(LAP, (load, 0.0), "cold"));
        vec![Range::of(cold.windows(2).map(|pair| pair[1] - pair[0])).greatest]
    },
}];

/// Section 6.
fn switching(data: &Table) -> Vec<Note> {
    let place = paper(data);
    let delays = |place: Place<'_>, at: (f64, f64)| {
        listed([EFQ, BOTH, LAP].map(|policy| place.mean(policy, at, "delay_packet_times")))
    };
    let mut notes: Vec<Note> =
        [((0.85, 0.0), "6.8, 3.8, 2.4"), ((0.92, 0.0), "unstable, 7.9, 4"), ((0.8, 0.35), "10.7, 9, 6.8")]
            .map(|(at, said)| {
                let about = format!("load {}, swing {}: mean delay of EFQ, efq-lap, LAP, in packet times", at.0, at.1);
                Note::new(about, said, delays(place, at))
            })
            .into();
    let (changes, local) = (place.range(BOTH, (0.92, 0.0), "mode_changes"), place.range(BOTH, (0.92, 0.0), "as_lap"));
    let packets = place.mean(BOTH, (0.92, 0.0), "packets");
    notes.push(Note::new(
        "load 0.92: changes of mode, half of them to LAP, and part of the decisions as LAP",
        format!(
            "43 in 120,000 packets, 0.47 of the time (specification), from which follow {} to LAP in as many as these",
            short(changes_to_lap(packets, 0.47))
        ),
        format!("{changes}, and {local}"),
    ));
    let here = Place { data, costs: Machine::HereEvicted.name() };
    notes.push(Note::new(
        "costs of this machine where caches are lost, load 0.85: mean delays of EFQ, efq-lap and LAP, and what waits \
            at the end under EFQ",
        "cold engines take longer than the work itself: EFQ is not stable",
        format!("{} packet times; {}", delays(here, (0.85, 0.0)), here.range(EFQ, (0.85, 0.0), "left")),
    ));
    notes
}

/// Returns how often `efq-lap` changes to LAP at load 0.92, if it is LAP for this part of the time. For the
/// rest, engines are cold, and the packets beyond their capacity wait, until their number reaches the distance
/// of the thresholds.
fn changes_to_lap(packets: f64, as_lap: f64) -> f64 {
    const LOAD: f64 = 0.92;
    const COLD_CAPACITY: f64 = 0.856;
    const BETWEEN_THRESHOLDS: f64 = 8.0 - 2.0;
    let packet_times = packets / (LOAD * ENGINES as f64);
    (1.0 - as_lap) * packet_times * (LOAD - COLD_CAPACITY) / BETWEEN_THRESHOLDS
}

/// Section 6, the last paragraph, and equation 4.
fn admission(data: &Table) -> Vec<Note> {
    let mut notes = Vec::new();
    for machine in MACHINES {
        let place = Place { data, costs: machine.name() };
        let penalty = place.mean(WARM, (0.5, 0.0), "cold_over_work");
        let all = 1.0 / (1.0 + penalty);
        // The greatest tried load at which engines have time for the packets and for the observed cold starts.
        let admitted = |policy: &'static str| {
            let fits = |load: &f64| load * (1.0 + penalty * place.mean(policy, (*load, 0.0), "cold")) <= 1.0;
            [0.3, 0.5, 0.7, 0.8, 0.84].into_iter().rfind(fits).unwrap_or(0.0)
        };
        let saved = |load: f64| {
            let cold = |policy| 1.0 + penalty * place.mean(policy, (load, 0.0), "cold");
            100.0 * (1.0 - cold(WARM) / cold(EFQ))
        };
        let claim = format!(
            "{} costs: load that admission admits if all packets must be reckoned cold, and at most, of those tried, \
                by what was found of efq and efq-warm",
            machine.name()
        );
        let said = "0.856 of warm capacity, and no more by efq-warm: near saturation one engine is idle at a time \
            (specification)";
        let found = format!(
            "{}; {} and {}; engine time that efq-warm saves at loads 0.3, 0.5 and 0.7: {} %",
            short(all),
            short(admitted(EFQ)),
            short(admitted(WARM)),
            listed([0.3, 0.5, 0.7].map(saved))
        );
        notes.push(Note::new(claim, said, found));
    }
    notes
}

/// Section 5.2.8.
fn loaded(data: &Table) -> Vec<Note> {
    let delays = |policy: &str| listed(LOADS.map(|load| paper(data).mean(policy, (load, 0.0), "delay_packet_times")));
    let note = |policy: &str| {
        let about = format!("mean delay under {policy} at loads {}, in packet times", listed(LOADS));
        Note::new(about, "more without end where it is not stable, beyond 0.856", delays(policy))
    };
    [FCFS, EFQ, LAP].map(note).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a row for each policy at a load, with the paper's costs.
    fn table(policies: &[&str], load: f64) -> Table {
        let costs = thirty(Machine::Paper);
        let jobs = thirty_jobs(Machine::Paper, PACKETS.0, load, 0.0, Seed(1));
        let rows = policies.iter().map(|policy| {
            let feed = Feed::Arrivals;
            let trial = Trial { policy, engines: ENGINES, costs: &costs, clients: APPLICATIONS, jobs: &jobs, feed };
            row(Machine::Paper, (load, 0.0), policy, 1, 0.0, &jobs, &run(&trial).unwrap())
        });
        Table::of(COLUMNS, rows.collect::<Vec<_>>())
    }

    /// Cold engines cannot serve a load of 0.92, but engines that stay warm can.
    #[test]
    fn locality_stands_a_load_that_fairness_does_not() {
        let data = table(&[FCFS, EFQ, LAP, BOTH], 0.92);
        let of = |policy, column| paper(&data).mean(policy, (0.92, 0.0), column);
        assert!(of(EFQ, "left") >= 0.02 && of(FCFS, "left") >= 0.02);
        assert!(of(LAP, "left") < 0.01 && of(BOTH, "left") < 0.01);
        let delays = [LAP, BOTH, EFQ].map(|policy| of(policy, "delay_packet_times"));
        assert!(delays.is_sorted(), "{delays:?}");
    }

    /// The specification states 0.97 for EFQ, and 0.77 for a choice among idle engines.
    #[test]
    fn a_choice_among_idle_engines_saves_cold_ones() {
        let data = table(&[EFQ, WARM, BOTH], 0.5);
        let of = |policy, column| paper(&data).mean(policy, (0.5, 0.0), column);
        assert!((of(WARM, "cold") - 0.77).abs() <= 0.03 && (of(EFQ, "cold") - 0.97).abs() <= 0.02);
        assert_eq!(of(BOTH, "as_lap"), 0.0, "a low load keeps EFQ");
    }
}
