//! Figures 9 to 12: what cores that stay with a program save, and what it does to the order of packets.

use humpyard_core::cost::LinearCost;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;

use super::super::{About, Column, Experiment, Row, Scale, Table, TableRow, Verdict, short};
use super::costs::{Machine, PAYLOAD};
use super::machine::{
    APPLICATIONS, Came, ENGINES, Feed, Job, Trial, drawn, length, mean_work, run, thirty, thirty_jobs,
};
use super::{DRAWS, PAPER};
use crate::LabError;
use crate::plot::{Axis, Line, LinePlot, Svg};

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

const COLUMNS: [Column; 10] = [
    Column::text("costs"),
    Column::real("cold_over_work"),
    Column::text("policy"),
    Column::integer("waiting"),
    Column::integer("draw"),
    Column::integer("packets"),
    Column::real("mbit_per_s"),
    Column::real("of_t_opt"),
    Column::real("cold"),
    Column::real("order_deviation"),
];

const SETTING: &str = "16 engines serve 100,000 packets of 30 applications, ten copies of each of encrypt, compress and fec, each \
                       equally often, of 64 (50 %), 300 to 576 and 576 to 1,000 bytes: 322 in the mean, as the specification takes them. An \
                       engine is cold for a packet if its last one was of another application. Always so many packets wait. \
                       Costs are those of table 1 at speed 10 (`paper`), and what services were measured to take here: with what a \
                       packet takes longer after one of another service (`calibrated`), and after 16 MiB of memory were touched \
                       (`calibrated, caches lost`). Throughput is of bytes.";

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
        description: "Beside LAP with one engine of hysteresis there are other rules: without hysteresis, an engine that stays \
                      while its application has packets, and targets that are rounded, as the paper says.",
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
        description: "Delay variation is the deviation of the place in which a packet is started from that in which it came.",
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

/// Costs of the thirty applications, by what they are called, with what a cold engine is made to cost, if not what it does.
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
        vec![
            name.as_str().into(),
            penalty.into(),
            policy.into(),
            waiting.into(),
            (draw + 1).into(),
            came.served.len().into(),
            (1e3 * bits / came.makespan.as_ns() as f64).into(),
            (best.makespan.as_ns() as f64 / came.makespan.as_ns() as f64).into(),
            came.cold().into(),
            came.order_deviation().into(),
        ]
    };
    let mut rows = vec![row(T_OPT, PACKETS, &best), row(FCFS, 1, &came(FCFS, Feed::Buffer(1))?)];
    let waiting = if given.is_some() { &WAITING[5..8] } else { &WAITING[..] };
    for &waiting in waiting {
        rows.push(row(LAP, waiting, &came(LAP, Feed::Buffer(waiting))?));
        let others = if draw == 0 && !sweeps && machine == Machine::Paper { &RULES[..] } else { &[] };
        for policy in others {
            rows.push(row(policy, waiting, &came(policy, Feed::Buffer(waiting))?));
        }
    }
    Ok(rows)
}

impl Experiment for Figure {
    fn about(&self) -> About {
        let Self { id, figure, title, description, .. } = *self;
        About { id, paper: PAPER, figure, title, setting: SETTING, description }
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn parts(&self, scale: Scale) -> usize {
        settings(self.sweeps).len() * scale.pick(DRAWS.0, DRAWS.1)
    }

    fn run(&self, part: usize, _: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let settings = settings(self.sweeps).len();
        let draw = part / settings;
        rows(self.sweeps, part % settings, draw, Seed(seed.stream(&format!("predictive/locality/{draw}")).bits()))
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        (self.verdicts)(data)
    }

    fn plots(&self, data: &Table) -> Vec<(String, Svg)> {
        let (column, label) = self.shown;
        let plot = |machine: Machine| {
            let place = Place { data, costs: machine.name() };
            let rules = RULES.iter().copied().filter(|_| machine == Machine::Paper && !self.sweeps);
            let mut lines: Vec<Line> =
                core::iter::once(LAP).chain(rules).map(|policy| place.line(policy, column)).collect();
            let fcfs = place.mean(FCFS, 1, column);
            lines.push(Line {
                name: FCFS.to_owned(),
                points: WAITING.map(|at| (at as f64, fcfs).into()).into_iter().collect(),
            });
            let svg = LinePlot {
                title: format!("{}: {} costs", self.title, machine.name()),
                description: "Means over the draws.".to_owned(),
                x: Axis::logarithmic("packets that wait", |packets| format!("{packets:.0}")),
                y: Axis::linear(label, short),
                lines,
            }
            .svg();
            (machine.name().replace(", ", "-").replace(' ', "-"), svg)
        };
        let mut plots: Vec<(String, Svg)> = Machine::ALL.map(plot).into_iter().collect();
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
    fn rows(self, policy: &'a str, waiting: usize) -> impl Iterator<Item = TableRow<'a>> {
        self.data
            .rows_of("policy", policy)
            .filter(move |row| row.text("costs") == self.costs && row.number("waiting") as usize == waiting)
    }

    /// Over the draws.
    fn range(self, policy: &'a str, waiting: usize, column: &str) -> (f64, f64) {
        let values = self.rows(policy, waiting).map(|row| row.number(column));
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
    }

    fn mean(self, policy: &'a str, waiting: usize, column: &str) -> f64 {
        let values: Vec<f64> = self.rows(policy, waiting).map(|row| row.number(column)).collect();
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn line(self, policy: &'a str, column: &str) -> Line {
        let point = |waiting: usize| (waiting as f64, self.mean(policy, waiting, column)).into();
        Line { name: policy.to_owned(), points: WAITING.map(point).into_iter().collect() }
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

/// A claim that a figure lies so in every draw.
fn within(claim: &str, (low, high): (f64, f64), (least, most): (f64, f64)) -> Verdict {
    let expected = match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("{} to {}", short(low), short(high)),
        (true, false) => format!("at least {}", short(low)),
        _ => format!("at most {}", short(high)),
    };
    Verdict::of(claim, expected, format!("{} to {}", short(least), short(most)), least >= low && most <= high)
}

/// Figure 10.
fn throughput(data: &Table) -> Vec<Verdict> {
    const OF: &str = "of_t_opt";
    let place = paper(data);
    let first = place.mean(LAP, 1, OF) - place.mean(FCFS, 1, OF);
    let rising = WAITING.windows(2).all(|pair| place.mean(LAP, pair[0], OF) <= place.mean(LAP, pair[1], OF) + 1e-3);
    let series = WAITING.map(|waiting| short(place.mean(LAP, waiting, OF))).join(" ");
    let mut verdicts = vec![
        within("throughput of FCFS over that of T-Opt", (0.83, 0.88), place.range(FCFS, 1, OF)),
        Verdict::of("LAP with one packet waiting, less FCFS", "less than 0.01", short(first), first < 0.01),
        within("LAP with 64 packets waiting", (0.95, f64::INFINITY), place.range(LAP, 64, OF)),
        within("LAP with 512 packets waiting", (0.99, f64::INFINITY), place.range(LAP, 512, OF)),
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
            "{} %, of {} % that T-Opt has more: {verdict}; and a dispatcher that decides in {DECISION_NS} ns keeps {} engines busy",
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
        within("cold packets of FCFS: 29 of 30", (0.95, 0.98), place.range(FCFS, 1, OF)),
        within("cold packets of LAP with 512 packets waiting", (f64::NEG_INFINITY, 0.05), place.range(LAP, 512, OF)),
        within("cold packets of T-Opt", (f64::NEG_INFINITY, 0.006), place.range(T_OPT, PACKETS, OF)),
        Verdict::of("cold packets of LAP fall with the packets that wait", "everywhere", series, falls),
    ]
}

/// Figure 12.
fn order(data: &Table) -> Vec<Verdict> {
    const OF: &str = "order_deviation";
    let place = paper(data);
    let mut verdicts = vec![within("delay variation of FCFS", (0.0, 0.0), place.range(FCFS, 1, OF))];
    verdicts.extend(WAITING.into_iter().filter(|&waiting| waiting >= 8).map(|waiting| {
        let (least, most) = place.range(LAP, waiting, OF);
        let q = waiting as f64;
        within(
            &format!("delay variation of LAP with {waiting} packets waiting, over these"),
            (0.5, 2.5),
            (least / q, most / q),
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
        Verdict::of(
            "of what T-Opt has more than FCFS, LAP with 32 packets waiting has",
            "at least 0.3",
            short(gained(32)),
            gained(32) >= 0.3,
        ),
        within(
            "delay variation of LAP with 32 packets waiting",
            (f64::NEG_INFINITY, 50.0),
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
        "calibrated work: the least cost of a cold engine, of those tried, at which LAP with 64 packets waiting has 5 % more throughput than FCFS",
        "0.13 to 0.28 of what a packet takes with the paper's costs",
        pays(0.05),
    ));
    verdicts.extend([Machine::Here, Machine::HereEvicted].map(|machine| today(data, machine)));
    verdicts
}

/// What LAP gains by what a cold engine costs.
fn by_penalty(data: &Table) -> Svg {
    let line = |waiting: usize| {
        let point = |cold: u64| {
            let name = format!("calibrated, {cold} ns");
            (cold as f64, 100.0 * Place { data, costs: &name }.gain(waiting)).into()
        };
        Line { name: format!("{waiting} packets waiting"), points: COLD.map(point).into_iter().collect() }
    };
    LinePlot {
        title: "what LAP gains over what a cold engine costs".to_owned(),
        description: "Calibrated costs, but for that of a cold engine.".to_owned(),
        x: Axis::linear("what a cold engine costs, in ns", short),
        y: Axis::linear("more throughput than FCFS, in %", short),
        lines: [32, 64, 128].map(line).into_iter().collect(),
    }
    .svg()
}

/// Figure 9: how many engines are warm for each application as the traffic changes.
pub(super) struct Figure9;

const CHANGE: usize = 10_000;
/// Packets that are looked at, and every how many.
const SHOWN: (usize, usize, usize) = (8_000, 12_000, 5);
const QUEUE: usize = 64;
/// Shares of the processing, before the change and after.
const SHARES: [[f64; 3]; 2] = [[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0], [0.8, 0.1, 0.1]];
const NINE: [Column; 7] = [
    Column::text("costs"),
    Column::text("policy"),
    Column::integer("draw"),
    Column::integer("packet"),
    Column::integer("engines_1"),
    Column::integer("engines_2"),
    Column::integer("engines_3"),
];
const MACHINES: [Machine; 2] = [Machine::Paper, Machine::HereEvicted];

fn changing_jobs(machine: Machine, seed: Seed) -> Vec<Job> {
    let mut random = seed.stream("predictive/figure-9");
    let mean = |name: &str| machine.cost(name).work(322) as f64;
    let job = |number: usize| {
        let shares = SHARES[usize::from(number >= CHANGE)];
        // Of the packets an application has its share of the processing over what a packet takes.
        let weights: Vec<f64> = PAYLOAD.iter().zip(shares).map(|(name, share)| share / mean(name)).collect();
        let mut drawn_at = weights.iter().sum::<f64>() * random.below(1 << 30) as f64 / f64::from(1 << 30);
        let application = weights.iter().position(|weight| {
            drawn_at -= weight;
            drawn_at < 0.0
        });
        let application = application.unwrap_or(2);
        let length = length(&mut random);
        let work = drawn(&mut random, machine, PAYLOAD[application], length);
        Job { arrival: Time::ZERO, application, client: application, length, work }
    };
    (0..SHOWN.1 + 500).map(job).collect()
}

impl Experiment for Figure9 {
    fn about(&self) -> About {
        About {
            id: "predictive-fig9",
            paper: PAPER,
            figure: "figure 9",
            title: "engines that are warm for each of three applications, as their shares change",
            setting: SETTING,
            description: "Here three applications with 64 packets waiting: each has a third of the processing, from packet 10,000 on encrypt \
                          has 80 % and the others 10 %. Counted whenever a packet is started, and every fifth is kept.",
        }
    }

    fn columns(&self) -> &'static [Column] {
        &NINE
    }

    fn parts(&self, scale: Scale) -> usize {
        MACHINES.len() * scale.pick(DRAWS.0, DRAWS.1)
    }

    fn run(&self, part: usize, _: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (machine, draw) = (MACHINES[part % MACHINES.len()], part / MACHINES.len());
        let jobs = changing_jobs(machine, Seed(seed.stream(&format!("predictive/locality/{draw}")).bits()));
        let costs: Vec<LinearCost> = PAYLOAD.map(|name| machine.cost(name)).to_vec();
        let mut rows = Vec::new();
        for policy in [FCFS, LAP] {
            let trial =
                Trial { policy, engines: ENGINES, costs: &costs, clients: 3, jobs: &jobs, feed: Feed::Buffer(QUEUE) };
            let mut warm = [None; ENGINES];
            for (started, served) in run(&trial)?.served.iter().enumerate() {
                warm[served.engine] = Some(jobs[served.job].application);
                if (SHOWN.0..SHOWN.1).contains(&started) && started % SHOWN.2 == 0 {
                    let count = |application| warm.iter().filter(|&&warm| warm == Some(application)).count();
                    let place: Row = vec![machine.name().into(), policy.into(), (draw + 1).into(), started.into()];
                    rows.push(place.into_iter().chain((0..3).map(|application| count(application).into())).collect());
                }
            }
        }
        Ok(rows)
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let draws = data.rows().map(|row| row.number("draw") as usize).max().unwrap_or(0);
        let series = |machine: Machine, policy: &str, draw: usize| -> Vec<(usize, f64)> {
            let rows = data.rows_of("policy", policy);
            let rows = rows.filter(|row| row.text("costs") == machine.name() && row.number("draw") as usize == draw);
            rows.map(|row| (row.number("packet") as usize, row.number("engines_1"))).collect()
        };
        let moments = |series: &[(usize, f64)], from: usize, to: usize| {
            let values: Vec<f64> =
                series.iter().filter(|point| (from..to).contains(&point.0)).map(|point| point.1).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt())
        };
        let each = |of: &dyn Fn(usize) -> f64| {
            (1..=draws)
                .map(of)
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
        };
        let mut verdicts = Vec::new();
        for machine in MACHINES {
            let lap = |draw| series(machine, LAP, draw);
            let before = each(&|draw| moments(&lap(draw), SHOWN.0, CHANGE).0);
            let after = each(&|draw| moments(&lap(draw), CHANGE + 500, SHOWN.1).0);
            let smooth = each(&|draw| {
                moments(&lap(draw), SHOWN.0, CHANGE).1 / moments(&series(machine, FCFS, draw), SHOWN.0, CHANGE).1
            });
            let reached = each(&|draw| {
                let point = lap(draw).into_iter().find(|point| point.0 >= CHANGE && point.1 >= 12.0);
                point.map_or(f64::INFINITY, |point| (point.0 - CHANGE) as f64)
            });
            let claims = [
                (
                    "engines of application 1 by LAP before the change, mean",
                    (16.0 / 3.0 - 0.7, 16.0 / 3.0 + 0.7),
                    before,
                ),
                ("engines of application 1 by LAP after the change, mean", (12.1, 13.5), after),
                ("their deviation by LAP before the change over that by FCFS", (f64::NEG_INFINITY, 0.6), smooth),
                ("packets after the change until application 1 has 12 engines", (f64::NEG_INFINITY, 256.0), reached),
            ];
            verdicts
                .extend(claims.map(|(claim, bounds, found)| {
                    within(&format!("{} costs: {claim}", machine.name()), bounds, found)
                }));
        }
        verdicts
    }

    fn plots(&self, data: &Table) -> Vec<(String, Svg)> {
        let plot = |policy: &'static str| {
            let rows = || {
                data.rows_of("policy", policy)
                    .filter(|row| row.text("costs") == Machine::Paper.name() && row.number("draw") == 1.0)
            };
            let line = |application: usize| {
                let column = ["engines_1", "engines_2", "engines_3"][application];
                let points = rows().map(|row| (row.number("packet"), row.number(column)).into()).collect();
                Line { name: PAYLOAD[application].to_owned(), points }
            };
            let svg = LinePlot {
                title: format!("{}: {policy}", self.about().title),
                description: "Costs of the paper, first draw.".to_owned(),
                x: Axis::linear("packets started", |packets| format!("{packets:.0}")),
                y: Axis::linear("engines", short),
                lines: (0..3).map(line).collect(),
            };
            (policy.to_owned(), svg.svg())
        };
        vec![plot(FCFS), plot(LAP)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_processing_change() {
        let jobs = changing_jobs(Machine::Paper, Seed(1));
        for (shares, range) in SHARES.iter().zip([0..CHANGE, CHANGE..jobs.len()]) {
            let work = |application: Option<usize>| {
                let chosen =
                    jobs[range.clone()].iter().filter(|job| application.is_none_or(|own| job.application == own));
                chosen.map(|job| job.work).sum::<u64>() as f64
            };
            for (application, share) in shares.iter().enumerate() {
                let found = work(Some(application)) / work(None);
                assert!((found - share).abs() < 0.03, "{application}: {found}");
            }
        }
    }
}
