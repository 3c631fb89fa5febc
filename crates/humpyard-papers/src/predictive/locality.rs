//! Figures 9 to 12: the gain of cores that stay with a program, and its effect on the order of packets.

use humpyard_core::random::Seed;

use super::costs::Machine;
use super::machine::{APPLICATIONS, ENGINES, EngineRun, Feed, Trial, mean_work, run, thirty, thirty_jobs};
use super::paper::{DRAWS, PAPER, drawn_seed};
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Range, Row, Rows, Scale, Table, line, logarithmic, rows, short,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, Line, LinePlot, Svg};

/// Packets of a run.
const PACKETS: usize = 100_000;
/// Numbers of waiting packets.
const WAITING: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const FCFS: &str = "fcfs";
const T_OPT: &str = "t-opt";
const LAP: &str = "lap";
/// Other rules to choose an application.
const RULES: [&str; 4] = ["lap:hysteresis=0", "lap:rule=exhaustive", "lap:rule=round", "lap:rule=largest-remainder"];
/// Extra time of a packet on a cold engine, in ns, to find where locality pays.
const COLD: [u64; 8] = [0, 25, 50, 100, 200, 400, 800, 1600];
/// Time of LAP for a packet on the development machine, from arrival to completion, in ns
/// (docs/concepts/prediction.md).
const DECISION_NS: f64 = 94.0;

rows! {
    COLUMNS, fn row(
        costs: (&str, f64), policy: &str, waiting: usize, draw: usize, bits: f64, best: &EngineRun, came: &EngineRun
    ) {
        text costs = costs.0, real cold_over_work = costs.1, text policy = policy, integer waiting = waiting,
        integer draw = draw, integer packets = came.served.len(),
        real mbit_per_s = 1e3 * bits / came.makespan.as_ns() as f64,
        real of_t_opt = best.makespan.as_ns() as f64 / came.makespan.as_ns() as f64, real cold = came.cold(),
        real order_deviation = came.order_deviation(),
    }
}

pub(super) const SETTING: &str = "16 engines serve 100,000 packets of 30 applications, ten copies of each of encrypt, \
    compress and fec, each equally often, of 64 (50 %), 300 to 576 and 576 to 1,000 bytes: 322 in the mean, as the \
    specification takes them. An engine is cold for a packet if its last one was of another application. Always so \
    many packets wait. Costs are those of table 1 at speed 10 (`paper`), and what services were measured to take here: \
    with what a packet takes longer after one of another service (`calibrated`), and after 16 MiB of memory were \
    touched (`calibrated, caches lost`). Throughput is of bytes.";

/// A figure: a view of the same runs.
pub(super) struct Locality {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    /// Whether it varies the cost of cold engines.
    sweeps: bool,
    shown: (&'static str, &'static str),
    figures: &'static [Figure],
}

pub(super) static EXPERIMENTS: [Locality; 4] = [
    Locality {
        id: "predictive-fig10",
        figure: "figure 10",
        title: "throughput over the packets that wait",
        description: "Beside LAP with one engine of hysteresis there are other rules: without hysteresis, an engine \
            that stays while its application has packets, and targets that are rounded, as the paper says.",
        sweeps: false,
        shown: ("of_t_opt", "throughput over that of T-Opt"),
        figures: THROUGHPUT,
    },
    Locality {
        id: "predictive-fig11",
        figure: "figure 11",
        title: "cold packets over the packets that wait",
        description: "As figure 10.",
        sweeps: false,
        shown: ("cold", "packets whose engine was cold"),
        figures: COLD_PACKETS,
    },
    Locality {
        id: "predictive-fig12",
        figure: "figure 12",
        title: "how far packets are moved in their order",
        description: "Delay variation is the deviation of the place in which a packet is started from that in which it \
            came.",
        sweeps: false,
        shown: ("order_deviation", "deviation of the order, in packets"),
        figures: ORDER,
    },
    Locality {
        id: "lap-sweet-spot",
        figure: "section 5.2.8: a sweet spot of 16 to 32 packets",
        title: "how many packets should wait, and how dear a cold engine must be",
        description: "Besides, `calibrated` costs with a cold engine that costs from nothing to 1,600 ns.",
        sweeps: true,
        shown: ("of_t_opt", "throughput over that of T-Opt"),
        figures: SWEET_SPOT,
    },
];

/// Returns the costs of the thirty applications by name, with a cost of a cold engine if that replaces the real
/// one.
fn settings(sweeps: bool) -> Vec<(String, Machine, Option<u64>)> {
    let mut all: Vec<_> = Machine::ALL.map(|machine| (machine.name().to_owned(), machine, None)).into_iter().collect();
    if sweeps {
        all.extend(COLD.map(|cold| (format!("calibrated, {cold} ns"), Machine::Here, Some(cold))));
    }
    all
}

fn rows(sweeps: bool, setting: usize, draw: usize, seed: Seed) -> Result<Vec<Row>, LabError> {
    let (name, machine, given) = settings(sweeps).swap_remove(setting);
    let jobs = thirty_jobs(machine, PACKETS, 1.0, 0.0, seed);
    let mut costs = thirty(machine);
    if let Some(cold) = given {
        costs.iter_mut().for_each(|cost| cost.cold = cold);
    }
    let penalty = costs.iter().map(|cost| cost.cold as f64).sum::<f64>() / APPLICATIONS as f64 / mean_work(machine);
    let came = |policy: &str, feed: Feed| {
        run(&Trial { policy, engines: ENGINES, costs: &costs, clients: APPLICATIONS, jobs: &jobs, feed })
    };
    let best = came(T_OPT, Feed::AtOnce)?;
    let bits = jobs.iter().map(|job| 8.0 * f64::from(job.length)).sum::<f64>();
    let row = |policy: &str, waiting: usize, came: &EngineRun| -> Row {
        row((&name, penalty), policy, waiting, draw, bits, &best, came)
    };
    let mut rows = vec![row(T_OPT, PACKETS, &best), row(FCFS, 1, &came(FCFS, Feed::Buffer(1))?)];
    let waiting = if given.is_some() { &WAITING[5..8] } else { &WAITING[..] };
    for &waiting in waiting {
        rows.push(row(LAP, waiting, &came(LAP, Feed::Buffer(waiting))?));
        let others = if draw == 1 && !sweeps && machine == Machine::Paper { &RULES[..] } else { &[] };
        for policy in others {
            rows.push(row(policy, waiting, &came(policy, Feed::Buffer(waiting))?));
        }
    }
    Ok(rows)
}

/// The common description.
const ABOUT: About = About { setting: SETTING, columns: COLUMNS, ..About::of(PAPER) };

impl Experiment for Locality {
    fn about(&self) -> About {
        About { id: self.id, figure: self.figure, title: self.title, description: self.description, ..ABOUT }
    }

    fn rows_of(&self) -> &'static str {
        if self.sweeps { self.id } else { EXPERIMENTS[0].id }
    }

    fn parts(&self, scale: Scale) -> usize {
        settings(self.sweeps).len() * scale.of(DRAWS)
    }

    fn run(&self, part: usize, _: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let settings = settings(self.sweeps).len();
        let draw = part / settings + 1;
        rows(self.sweeps, part % settings, draw, drawn_seed(seed, "locality", draw))
    }

    fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("draw")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let pay = [Machine::Here, Machine::HereEvicted].map(|machine| today(data, machine));
        let rules = RULES.iter().filter(|_| !self.sweeps).map(|policy| {
            let found = paper(data).mean(policy, 512, "of_t_opt");
            Note::new(format!("{policy} with 512 packets waiting: throughput over that of T-Opt"), "", short(found))
        });
        let least = self.sweeps.then(|| least_cost(data));
        rules.chain(pay).chain(least).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let (column, label) = self.shown;
        let plot = |machine: Machine| {
            let place = Place { data, costs: machine.name() };
            let rules = RULES.iter().copied().filter(|_| machine == Machine::Paper && !self.sweeps);
            let mut lines: Vec<Line> =
                core::iter::once(LAP).chain(rules).map(|policy| place.line(policy, column)).collect();
            let fcfs = place.mean(FCFS, 1, column);
            lines.push(line(FCFS, WAITING.map(|at| (at as f64, fcfs))));
            let svg = LinePlot {
                title: format!("{}: {} costs", self.title, machine.name()),
                description: "Means over the draws.".to_owned(),
                x: logarithmic("packets that wait"),
                y: Axis::linear(label, short),
                lines,
            }
            .svg();
            (machine.file_name(), svg)
        };
        let mut plots = Machine::ALL.map(plot).to_vec();
        if self.sweeps {
            plots.push(("cold".to_owned(), by_penalty(data)));
        }
        plots
    }
}

/// The rows with these costs.
#[derive(Clone, Copy)]
struct Place<'a> {
    data: &'a Table,
    costs: &'a str,
}

impl<'a> Place<'a> {
    fn rows(self, policy: &'a str, waiting: usize) -> impl Rows<'a> {
        self.data.rows_of("policy", policy).of("costs", self.costs).at("waiting", waiting as f64)
    }

    fn mean(self, policy: &'a str, waiting: usize, column: &str) -> f64 {
        self.rows(policy, waiting).mean(column)
    }

    fn line(self, policy: &'a str, column: &str) -> Line {
        line(policy, WAITING.map(|waiting| (waiting as f64, self.mean(policy, waiting, column))))
    }

    /// Returns the relative gain of LAP's throughput over FCFS's.
    fn gain(self, waiting: usize) -> f64 {
        self.mean(LAP, waiting, "of_t_opt") / self.mean(FCFS, 1, "of_t_opt") - 1.0
    }
}

/// Returns the rows with the paper's costs.
fn paper(data: &Table) -> Place<'_> {
    Place { data, costs: Machine::Paper.name() }
}

/// Returns a figure of LAP over that of FCFS.
fn over_fcfs(data: &Table, waiting: usize, column: &str) -> f64 {
    paper(data).mean(LAP, waiting, column) / paper(data).mean(FCFS, 1, column)
}

/// Returns the increases of a figure of LAP at each doubling of the waiting packets, from two on.
fn rises(data: &Table, column: &str) -> Vec<f64> {
    let of = |waiting| paper(data).mean(LAP, waiting, column);
    WAITING[1..].windows(2).map(|pair| of(pair[1]) - of(pair[0])).collect()
}

/// Figure 10, and claims on figures 10 to 12 together.
const THROUGHPUT: &[Figure] = &[
    Figure {
        claim: "predictive-cold-25",
        of: |data| {
            let cold = paper(data).mean(FCFS, 1, "mbit_per_s");
            vec![100.0 * (1.0 - cold / paper(data).mean(T_OPT, PACKETS, "mbit_per_s"))]
        },
    },
    Figure { claim: "predictive-fig10-fcfs", of: |data| vec![paper(data).mean(FCFS, 1, "of_t_opt")] },
    Figure {
        claim: "predictive-fig10-small",
        of: |data| ["of_t_opt", "cold"].map(|column| over_fcfs(data, 2, column)).into(),
    },
    Figure {
        claim: "predictive-fig10-16-to-64",
        of: |data| [16, 32, 64].map(|waiting| over_fcfs(data, waiting, "of_t_opt")).into(),
    },
    Figure { claim: "predictive-fig10-converges", of: |data| vec![paper(data).mean(LAP, 512, "of_t_opt")] },
    Figure {
        claim: "predictive-fig10-rises",
        of: |data| {
            let smallest = |steps: Vec<f64>| Range::of(steps).least;
            let falls = rises(data, "cold").into_iter().map(|step| -step).collect();
            [rises(data, "of_t_opt"), falls, rises(data, "order_deviation")].map(smallest).into()
        },
    },
];

/// Figure 11.
const COLD_PACKETS: &[Figure] = &[
    Figure { claim: "predictive-fig11-fcfs", of: |data| vec![1.0 - paper(data).mean(FCFS, 1, "cold")] },
    Figure {
        claim: "predictive-cold-optimum",
        of: |data| {
            let cold = |policy, waiting| paper(data).mean(policy, waiting, "cold");
            let fcfs = cold(FCFS, 1);
            vec![(fcfs - cold(LAP, 512)) / (fcfs - cold(T_OPT, PACKETS))]
        },
    },
];

/// Figure 12.
const ORDER: &[Figure] = &[Figure {
    claim: "predictive-fig12-limited",
    of: |data| {
        let places = |&waiting: &usize| paper(data).mean(LAP, waiting, "order_deviation") / waiting as f64;
        vec![Range::of(WAITING[3..].iter().map(places)).greatest]
    },
}];

/// Section 5.2.8.
const SWEET_SPOT: &[Figure] = &[Figure {
    claim: "predictive-sweet-spot",
    of: |data| {
        let gained = rises(data, "of_t_opt").into_iter().zip(rises(data, "order_deviation"));
        let by_step = gained.zip(&WAITING[2..]).map(|((throughput, order), &waiting)| (throughput / order, waiting));
        let best = by_step.max_by(|one, other| one.0.total_cmp(&other.0));
        best.map(|(_, waiting)| waiting as f64).into_iter().collect()
    },
}];

/// Notes whether LAP pays with the costs of a current machine.
fn today(data: &Table, machine: Machine) -> Note {
    let place = Place { data, costs: machine.name() };
    let most = 1.0 / place.mean(FCFS, 1, "of_t_opt") - 1.0;
    let gain = place.gain(64);
    let fed = mean_work(machine) / DECISION_NS;
    let verdict = if gain >= 0.05 { "it pays" } else { "it does not pay" };
    Note::new(
        format!("{} costs: by how much LAP with 64 packets waiting has more throughput than FCFS", machine.name()),
        "5 %, where it pays; 12 % with the paper's costs",
        format!(
            "{} %, of {} % that T-Opt has more: {verdict}; and a dispatcher that decides in {DECISION_NS} ns keeps {} \
                engines busy",
            short(100.0 * gain),
            short(100.0 * most),
            short(fed)
        ),
    )
}

/// Notes the least cost of a cold engine at which LAP pays.
fn least_cost(data: &Table) -> Note {
    let enough = |cold: &u64| Place { data, costs: &format!("calibrated, {cold} ns") }.gain(64) >= 0.05;
    let found = COLD.into_iter().find(enough).map_or_else(
        || "more than 1600 ns".to_owned(),
        |cold| format!("{cold} ns, {} of what a packet takes", short(cold as f64 / mean_work(Machine::Here))),
    );
    let about = "calibrated work: the least cost of a cold engine, of those tried, at which LAP with 64 packets \
        waiting has 5 % more throughput than FCFS";
    Note::new(about, "0.13 to 0.28 of what a packet takes with the paper's costs", found)
}

/// Plots the gain of LAP over the cost of a cold engine.
fn by_penalty(data: &Table) -> Svg {
    let gained = |waiting: usize| {
        let gain = |cold: u64| Place { data, costs: &format!("calibrated, {cold} ns") }.gain(waiting);
        line(format!("{waiting} packets waiting"), COLD.map(|cold| (cold as f64, 100.0 * gain(cold))))
    };
    LinePlot {
        title: "what LAP gains over what a cold engine costs".to_owned(),
        description: "Calibrated costs, but for that of a cold engine.".to_owned(),
        x: Axis::linear("what a cold engine costs, in ns", short),
        y: Axis::linear("more throughput than FCFS, in %", short),
        lines: [32, 64, 128].map(gained).into(),
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the specification's rules, and properties by construction: FCFS keeps the order, and T-Opt is
    /// rarely cold.
    #[test]
    fn policies_are_told_apart() {
        let jobs = thirty_jobs(Machine::Paper, PACKETS, 1.0, 0.0, Seed(1));
        let costs = thirty(Machine::Paper);
        let came = |policy: &str, feed: Feed| {
            run(&Trial { policy, engines: ENGINES, costs: &costs, clients: APPLICATIONS, jobs: &jobs, feed }).unwrap()
        };
        let best = came(T_OPT, Feed::AtOnce);
        let of_t_opt = |came: &EngineRun| best.makespan.as_ns() as f64 / came.makespan.as_ns() as f64;
        assert!(best.cold() <= 0.006, "{}", best.cold());
        assert_eq!(came(FCFS, Feed::Buffer(1)).order_deviation(), 0.0);
        let first = of_t_opt(&came(LAP, Feed::Buffer(1))) - of_t_opt(&came(FCFS, Feed::Buffer(1)));
        assert!(first < 0.01, "one packet leaves no choice: {first}");
        let specified = [0.946, 0.998, 0.962, 0.971];
        for (policy, said) in RULES.into_iter().zip(specified) {
            let found = of_t_opt(&came(policy, Feed::Buffer(512)));
            assert!((found - said).abs() <= 0.012, "{policy}: {found}");
        }
    }
}
