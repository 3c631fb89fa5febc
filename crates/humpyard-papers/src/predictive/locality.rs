//! Figures 9 to 12: what cores that stay with a program save, and what it does to the order of packets.

use humpyard_core::random::Seed;

use super::costs::Machine;
use super::machine::{APPLICATIONS, Came, ENGINES, Feed, Trial, mean_work, run, thirty, thirty_jobs};
use super::paper::{DRAWS, PAPER, drawn_seed};
use crate::harness::{
    About, Bound, Experiment, Plots, Range, Row, Rows, Scale, Table, Verdict, line, logarithmic, rows, short,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, Line, LinePlot, Svg};

/// Packets of a run.
const PACKETS: usize = 100_000;
/// Packets that wait.
const WAITING: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const FCFS: &str = "fcfs";
const T_OPT: &str = "t-opt";
const LAP: &str = "lap";
/// Other ways to choose an application.
const RULES: [&str; 4] = ["lap:hysteresis=0", "lap:rule=exhaustive", "lap:rule=round", "lap:rule=largest-remainder"];
/// What a packet of this machine is made to take longer on a cold engine, in ns: to see from where on it pays.
const COLD: [u64; 8] = [0, 25, 50, 100, 200, 400, 800, 1600];
/// What a packet takes LAP on the machine on which this was developed, from its arrival to its completion, in ns
/// (docs/predictive.md).
const DECISION_NS: f64 = 94.0;

rows! {
    COLUMNS, fn row(
        costs: (&str, f64), policy: &str, waiting: usize, draw: usize, bits: f64, best: &Came, came: &Came
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

/// A figure: what is said of the same runs.
pub(super) struct Figure {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    /// Whether it is about the cost of cold engines, which varies.
    sweeps: bool,
    shown: (&'static str, &'static str),
    verdicts: fn(&Table) -> Vec<Verdict>,
}

pub(super) static FIGURES: [Figure; 4] = [
    Figure {
        id: "predictive-fig10",
        figure: "figure 10",
        title: "throughput over the packets that wait",
        description: "Beside LAP with one engine of hysteresis there are other rules: without hysteresis, an engine \
            that stays while its application has packets, and targets that are rounded, as the paper says.",
        sweeps: false,
        shown: ("of_t_opt", "throughput over that of T-Opt"),
        verdicts: throughput,
    },
    Figure {
        id: "predictive-fig11",
        figure: "figure 11",
        title: "cold packets over the packets that wait",
        description: "As figure 10.",
        sweeps: false,
        shown: ("cold", "packets whose engine was cold"),
        verdicts: cold,
    },
    Figure {
        id: "predictive-fig12",
        figure: "figure 12",
        title: "how far packets are moved in their order",
        description: "Delay variation is the deviation of the place in which a packet is started from that in which it \
            came.",
        sweeps: false,
        shown: ("order_deviation", "deviation of the order, in packets"),
        verdicts: order,
    },
    Figure {
        id: "lap-sweet-spot",
        figure: "section 5.2.8: a sweet spot of 16 to 32 packets",
        title: "how many packets should wait, and how dear a cold engine must be",
        description: "Besides, `calibrated` costs with a cold engine that costs from nothing to 1,600 ns.",
        sweeps: true,
        shown: ("of_t_opt", "throughput over that of T-Opt"),
        verdicts: sweet_spot,
    },
];

/// Costs of the thirty applications, by what they are called, with what a cold engine is made to cost, if not what it
/// does.
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
    let row = |policy: &str, waiting: usize, came: &Came| -> Row {
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

/// What is common to them.
const ABOUT: About = About { setting: SETTING, columns: COLUMNS, ..About::of(PAPER) };

impl Experiment for Figure {
    fn about(&self) -> About {
        About { id: self.id, figure: self.figure, title: self.title, description: self.description, ..ABOUT }
    }

    fn parts(&self, scale: Scale) -> usize {
        settings(self.sweeps).len() * scale.of(DRAWS)
    }

    fn run(&self, part: usize, _: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let settings = settings(self.sweeps).len();
        let draw = part / settings + 1;
        rows(self.sweeps, part % settings, draw, drawn_seed(seed, "locality", draw))
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        (self.verdicts)(data)
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

/// Rows with these costs.
#[derive(Clone, Copy)]
struct Place<'a> {
    data: &'a Table,
    costs: &'a str,
}

impl<'a> Place<'a> {
    fn rows(self, policy: &'a str, waiting: usize) -> impl Rows<'a> {
        self.data.rows_of("policy", policy).of("costs", self.costs).at("waiting", waiting as f64)
    }

    /// Over the draws.
    fn range(self, policy: &'a str, waiting: usize, column: &str) -> Range {
        self.rows(policy, waiting).range(column)
    }

    fn mean(self, policy: &'a str, waiting: usize, column: &str) -> f64 {
        self.rows(policy, waiting).mean(column)
    }

    fn line(self, policy: &'a str, column: &str) -> Line {
        line(policy, WAITING.map(|waiting| (waiting as f64, self.mean(policy, waiting, column))))
    }

    /// By how much LAP has more throughput than FCFS.
    fn gain(self, waiting: usize) -> f64 {
        self.mean(LAP, waiting, "of_t_opt") / self.mean(FCFS, 1, "of_t_opt") - 1.0
    }
}

/// Those with the paper's costs.
fn paper(data: &Table) -> Place<'_> {
    Place { data, costs: Machine::Paper.name() }
}

/// Figure 10.
fn throughput(data: &Table) -> Vec<Verdict> {
    const OF: &str = "of_t_opt";
    let place = paper(data);
    let first = place.mean(LAP, 1, OF) - place.mean(FCFS, 1, OF);
    let rising = WAITING.windows(2).all(|pair| place.mean(LAP, pair[0], OF) <= place.mean(LAP, pair[1], OF) + 1e-3);
    let series = WAITING.map(|waiting| short(place.mean(LAP, waiting, OF))).join(" ");
    let mut verdicts = vec![
        Verdict::bounded("throughput of FCFS over that of T-Opt", Bound::Within(0.83, 0.88), place.range(FCFS, 1, OF)),
        Verdict::bounded("LAP with one packet waiting, less FCFS", Bound::LessThan(0.01), first),
        Verdict::bounded("LAP with 64 packets waiting", Bound::AtLeast(0.95), place.range(LAP, 64, OF)),
        Verdict::bounded("LAP with 512 packets waiting", Bound::AtLeast(0.99), place.range(LAP, 512, OF)),
        Verdict::of("throughput of LAP rises with the packets that wait", "everywhere", series, rising),
    ];
    let specified = [
        ("lap:hysteresis=0", 0.946),
        ("lap:rule=exhaustive", 0.998),
        ("lap:rule=round", 0.962),
        ("lap:rule=largest-remainder", 0.971),
    ];
    verdicts.extend(specified.map(|(policy, said)| {
        let found = place.mean(policy, 512, OF);
        let holds = (found - said).abs() <= 0.012;
        Verdict::of(
            format!("{policy} with 512 packets waiting"),
            format!("{said} within 0.012 (specification)"),
            short(found),
            holds,
        )
    }));
    verdicts.extend([Machine::Here, Machine::HereEvicted].map(|machine| today(data, machine)));
    verdicts
}

/// Whether LAP pays with costs of today.
fn today(data: &Table, machine: Machine) -> Verdict {
    let place = Place { data, costs: machine.name() };
    let most = 1.0 / place.mean(FCFS, 1, "of_t_opt") - 1.0;
    let gain = place.gain(64);
    let fed = mean_work(machine) / DECISION_NS;
    let verdict = if gain >= 0.05 { "it pays" } else { "it does not pay" };
    Verdict::measured(
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

/// Figure 11.
fn cold(data: &Table) -> Vec<Verdict> {
    const OF: &str = "cold";
    let place = paper(data);
    let falls = WAITING.windows(2).all(|pair| place.mean(LAP, pair[0], OF) >= place.mean(LAP, pair[1], OF) - 1e-3);
    let series = WAITING.map(|waiting| short(place.mean(LAP, waiting, OF))).join(" ");
    vec![
        Verdict::bounded("cold packets of FCFS: 29 of 30", Bound::Within(0.95, 0.98), place.range(FCFS, 1, OF)),
        Verdict::bounded(
            "cold packets of LAP with 512 packets waiting",
            Bound::AtMost(0.05),
            place.range(LAP, 512, OF),
        ),
        Verdict::bounded("cold packets of T-Opt", Bound::AtMost(0.006), place.range(T_OPT, PACKETS, OF)),
        Verdict::of("cold packets of LAP fall with the packets that wait", "everywhere", series, falls),
    ]
}

/// Figure 12.
fn order(data: &Table) -> Vec<Verdict> {
    const OF: &str = "order_deviation";
    let place = paper(data);
    let mut verdicts =
        vec![Verdict::bounded("delay variation of FCFS", Bound::Within(0.0, 0.0), place.range(FCFS, 1, OF))];
    verdicts.extend(WAITING.into_iter().filter(|&waiting| waiting >= 8).map(|waiting| {
        Verdict::bounded(
            format!("delay variation of LAP with {waiting} packets waiting, over these"),
            Bound::Within(0.5, 2.5),
            place.range(LAP, waiting, OF).times(1.0 / waiting as f64),
        )
    }));
    verdicts
}

/// Section 5.2.8.
fn sweet_spot(data: &Table) -> Vec<Verdict> {
    let place = paper(data);
    let gained = |waiting: usize| {
        let fcfs = place.mean(FCFS, 1, "of_t_opt");
        (place.mean(LAP, waiting, "of_t_opt") - fcfs) / (1.0 - fcfs)
    };
    let mut verdicts = vec![
        Verdict::bounded(
            "of what T-Opt has more than FCFS, LAP with 32 packets waiting has",
            Bound::AtLeast(0.3),
            gained(32),
        ),
        Verdict::bounded(
            "delay variation of LAP with 32 packets waiting",
            Bound::AtMost(50.0),
            place.range(LAP, 32, "order_deviation"),
        ),
    ];
    verdicts.extend([16, 64].map(|waiting| {
        let deviation = place.mean(LAP, waiting, "order_deviation");
        Verdict::measured(
            format!("the same with {waiting} packets, and their delay variation"),
            "a sweet spot of 16 to 32 packets (paper)",
            format!("{} and {}", short(gained(waiting)), short(deviation)),
        )
    }));
    let pays = |least: f64| {
        let enough = |cold: &u64| Place { data, costs: &format!("calibrated, {cold} ns") }.gain(64) >= least;
        COLD.into_iter().find(enough).map_or_else(
            || "more than 1600 ns".to_owned(),
            |cold| format!("{cold} ns, {} of what a packet takes", short(cold as f64 / mean_work(Machine::Here))),
        )
    };
    verdicts.push(Verdict::measured(
        "calibrated work: the least cost of a cold engine, of those tried, at which LAP with 64 packets waiting has 5 \
            % more throughput than FCFS",
        "0.13 to 0.28 of what a packet takes with the paper's costs",
        pays(0.05),
    ));
    verdicts.extend([Machine::Here, Machine::HereEvicted].map(|machine| today(data, machine)));
    verdicts
}

/// What LAP gains by what a cold engine costs.
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
