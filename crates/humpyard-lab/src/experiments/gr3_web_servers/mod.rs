//! The web servers of figures 14 to 19 of the GR3 paper: hundreds of processes that always have something to do, and how
//! evenly they get the processors.

pub(super) mod claims;
pub(super) mod service;

use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_sim::{ScheduleRequest, schedule};

use super::gr3_schedules::PAPER;
use super::{About, Column, Experiment, Row, Scale, Table, TableRow, Verdict};
use crate::LabError;
use crate::plot::{Axis, Line, LinePlot, Point, Svg};
use service::Watch;

/// Processes of each server.
pub(super) const PROCESSES: usize = 100;
/// The one that is shown, in the middle of its server, from 1.
pub(super) const SHOWN: usize = 50;
/// The schedules of most policies repeat after a slot for each unit of weight: two such periods.
pub(super) const PERIODS: u64 = 2;
/// Between two services of a process of weight 10 in the first mix, if they are even and there is one processor.
pub(super) const EVEN_GAP: f64 = 150.0;

const COLUMNS: [Column; 13] = [
    Column::text("policy"),
    Column::integer("processors"),
    Column::integer("draw"),
    Column::integer("server"),
    Column::integer("weight"),
    Column::integer("slot"),
    Column::integer("service"),
    Column::integer("process_gap_longest"),
    Column::real("process_error_min"),
    Column::real("process_error_max"),
    Column::integer("server_gap_longest"),
    Column::real("server_error_min"),
    Column::real("server_error_max"),
];

/// The weights of the servers' processes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mix {
    /// All processes of a server have the same.
    ByServer(&'static [u32]),
    /// Each process of so many servers has one of 1 to 10, by chance.
    Random(usize),
}

/// One server has 10, five have 1.
pub(super) const FIRST: Mix = Mix::ByServer(&[10, 1, 1, 1, 1, 1]);
pub(super) const SECOND: Mix = Mix::ByServer(&[1, 2, 3, 4, 5]);
pub(super) const THIRD: Mix = Mix::Random(5);

impl Mix {
    /// Weights of all processes, server by server; random ones by the number of the draw, from 1.
    pub(super) fn weights(self, draw: usize, seed: Seed) -> Vec<Weight> {
        let weight = |weight| Weight::new(weight).expect("1 or more");
        match self {
            Self::ByServer(servers) => {
                servers.iter().flat_map(|&server| core::iter::repeat_n(weight(server), PROCESSES)).collect()
            }
            Self::Random(servers) => {
                let mut random = seed.stream(&format!("web-servers/draw/{draw}"));
                (0..servers * PROCESSES).map(|_| weight(1 + random.below(10) as u32)).collect()
            }
        }
    }

    /// How often weights are drawn.
    fn draws(self, scale: Scale) -> usize {
        match self {
            Self::ByServer(_) => 1,
            Self::Random(_) => scale.pick(20, 100),
        }
    }
}

/// A policy, on so many processors.
pub(super) type Run = (&'static str, usize);

/// All that the specification has figures of.
pub(super) const ALL_POLICIES: [Run; 9] =
    [("gr3", 1), ("wfq", 1), ("sfq", 1), ("vtrr", 1), ("srr", 1), ("wf2q+", 1), ("wrr", 1), ("strr", 1), ("qfq", 1)];
/// The first of them are drawn in one plot: more cannot be told apart.
pub(super) const DRAWN: usize = 6;

/// Web servers on one computer.
#[derive(Debug)]
struct WebServers {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    mix: Mix,
    /// The first is that of the figure.
    runs: &'static [Run],
    verdicts: fn(&Table) -> Vec<Verdict>,
}

/// How they are all done.
const SETTING: &str = "Each server has 100 processes that always have something to do, in the order of the servers. In figures 14 \
                       to 19 there are six servers: the processes of one have weight 10, those of the others 1, and on P \
                       processors an even schedule serves a process of weight 10 every 150/P slots. In virtual time, in every slot \
                       each processor serves a quantum of one process, for two periods of the schedule. The paper ran a search \
                       engine in Apache; here no real server runs, and live threads do in the \
                       experiments whose names end with `-live`. A gap is the number of slots from one \
                       service of a process to its next, the error its service less its share. The plots, and columns and claims of \
                       a process, are of the 50th of each server; columns of a server are of whichever of its processes is worst.";

const SERVERS: [WebServers; 8] = [
    WebServers {
        id: "gr3-fig14",
        figure: "figure 14",
        title: "web servers under the scheduler of Linux 2.4",
        description: "The kernel's policy is a stand-in, a model of it on the same virtual processor (`linux24`), and beside it that of Linux \
             2.6 (`linux-o1`).",
        mix: FIRST,
        runs: &[("linux24", 1), ("linux-o1", 1)],
        verdicts: claims::kernel,
    },
    WebServers {
        id: "gr3-fig15",
        figure: "figure 15",
        title: "web servers under weighted fair queueing",
        description: "All heavy processes take ten turns, one round after the other, before the light ones take any.",
        mix: FIRST,
        runs: &[("wfq", 1)],
        verdicts: claims::staircase,
    },
    WebServers {
        id: "gr3-fig16",
        figure: "figure 16",
        title: "web servers under virtual-time round robin",
        description: "The staircase is that of WFQ, at another time of the period.",
        mix: FIRST,
        runs: &[("vtrr", 1)],
        verdicts: claims::staircase,
    },
    WebServers {
        id: "gr3-fig17",
        figure: "figure 17",
        title: "web servers under group ratio round robin, and under others",
        description: "The second plot has a process of weight 10 under several of them.",
        mix: FIRST,
        runs: &ALL_POLICIES,
        verdicts: claims::gr3,
    },
    WebServers {
        id: "gr3-fig18",
        figure: "figure 18",
        title: "web servers under the scheduler of Linux 2.4, on two processors",
        description: "The paper's LinuxMP; which of figures 18 and 19 it is cannot be read from the text. The kernel's policy is a stand-in, a \
             model of it on the same virtual processors (`linux24`), and beside it that of Linux 2.6 (`linux-o1`).",
        mix: FIRST,
        runs: &[("linux24", 2), ("linux-o1", 2)],
        verdicts: claims::kernel,
    },
    WebServers {
        id: "gr3-fig19",
        figure: "figure 19",
        title: "web servers under GR3MP, on two processors and on eight",
        description: "The paper's has two processors. Which of figures 18 and 19 it is cannot be read from the text.",
        mix: FIRST,
        runs: &[("gr3mp", 2), ("gr3mp", 8)],
        verdicts: claims::gr3mp,
    },
    WebServers {
        id: "gr3-web2",
        figure: "section 4.3, second experiment, which has no plot",
        title: "web servers whose processes have weights 1, 2, 3, 4 and 5",
        description: "Five servers: the processes of the first have weight 1, those of the fifth 5. Gaps tell little here: they are not judged.",
        mix: SECOND,
        runs: &ALL_POLICIES,
        verdicts: claims::second,
    },
    WebServers {
        id: "gr3-web3",
        figure: "section 4.3, third experiment, which has no plot",
        title: "web servers whose processes have random weights",
        description: "Five servers: each process has a weight of 1 to 10, all equally likely, drawn several times. Gaps of different weights do not compare: they are not judged.",
        mix: THIRD,
        runs: &ALL_POLICIES,
        verdicts: claims::third,
    },
];

/// Every experiment here.
pub(super) fn all() -> impl Iterator<Item = &'static dyn Experiment> {
    static ALL: [WebServers; 8] = SERVERS;
    ALL.iter().map(|experiment| experiment as _)
}

/// Asks a policy for a schedule of these processes: rows of [`COLUMNS`], one for each service of the process of each server
/// that is shown, one before all, and one at the end.
fn rows((policy, processors): Run, draw: usize, weights: Vec<Weight>, seed: Seed) -> Result<Vec<Row>, LabError> {
    let total: u64 = weights.iter().map(|weight| u64::from(weight.get())).sum();
    let found = schedule(&ScheduleRequest {
        policy: policy.parse()?,
        order: (0..weights.len()).map(ClientId::from_index).collect(),
        weights: weights.clone(),
        processors,
        slots: (PERIODS * total).div_ceil(processors as u64) as usize,
        ties: Ties::Lowest,
        seed,
    })?;
    let servers = weights.len() / PROCESSES;
    let mut watch = Watch::new(&weights);
    let mut points: Vec<Vec<(usize, u64)>> = vec![vec![(0, 0)]; servers];
    for (slot, served) in found.slots.iter().enumerate() {
        let served: Vec<ClientId> = served.iter().copied().flatten().collect();
        watch.on_slot(&served);
        for client in served.into_iter().filter(|client| client.index() % PROCESSES == SHOWN - 1) {
            points[client.index() / PROCESSES].push((slot + 1, watch.service(client)));
        }
    }
    for points in &mut points {
        let (last, service) = points[points.len() - 1];
        if last < found.slots.len() {
            points.push((found.slots.len(), service));
        }
    }
    let mut rows = Vec::new();
    for (server, points) in points.into_iter().enumerate() {
        let (first, shown) = (server * PROCESSES, server * PROCESSES + SHOWN - 1);
        let (process, all) = (watch.evenness(shown..shown + 1), watch.evenness(first..first + PROCESSES));
        rows.extend(points.into_iter().map(|(slot, service)| {
            vec![
                policy.into(),
                processors.into(),
                draw.into(),
                (server + 1).into(),
                weights[shown].get().into(),
                slot.into(),
                service.into(),
                process.gap_longest.into(),
                process.error_min.into(),
                process.error_max.into(),
                all.gap_longest.into(),
                all.error_min.into(),
                all.error_max.into(),
            ]
        }));
    }
    Ok(rows)
}

/// The rows of a policy on so many processors.
pub(super) fn rows_of(data: &Table, (policy, processors): Run) -> impl Iterator<Item = TableRow<'_>> {
    data.rows_of("policy", policy).filter(move |row| row.number("processors") as usize == processors)
}

/// What the process of a server that is shown was served, as stairs, in the first draw; `point` says when and what.
pub(super) fn stairs<'a>(
    rows: impl Iterator<Item = TableRow<'a>>,
    server: usize,
    point: impl Fn(&TableRow<'a>) -> (f64, f64),
    name: String,
) -> Line {
    let rows = rows.filter(|row| row.number("draw") == 1.0 && row.number("server") as usize == server);
    let mut points: Vec<Point> = Vec::new();
    for (at, service) in rows.map(|row| point(&row)) {
        if let Some(&Point { y, .. }) = points.last() {
            points.push((at, y).into());
        }
        points.push((at, service).into());
    }
    Line { name, points }
}

/// When, and what, in slots.
pub(super) fn over_slots(row: &TableRow<'_>) -> (f64, f64) {
    (row.number("slot"), row.number("service"))
}

impl WebServers {
    /// A process of each server under the policy of the figure.
    fn figure(&self, data: &Table) -> LinePlot {
        let run = self.runs[0];
        let starts = rows_of(data, run).filter(|row| row.number("draw") == 1.0 && row.number("slot") == 0.0);
        let lines = starts.map(|row| {
            let (server, weight) = (row.number("server"), row.number("weight"));
            stairs(rows_of(data, run), server as usize, over_slots, format!("server {server}, weight {weight}"))
        });
        self.plot(format!("service under {}", run_name(run)), lines.collect())
    }

    /// A process of the first server, under the policy of the figure and others.
    fn rivals(&self, data: &Table) -> LinePlot {
        let weight = rows_of(data, self.runs[0]).next().map_or(0.0, |row| row.number("weight"));
        let lines = self.runs.iter().take(DRAWN).map(|&run| stairs(rows_of(data, run), 1, over_slots, run_name(run)));
        self.plot(format!("service of a process of server 1, weight {weight}"), lines.collect())
    }

    fn plot(&self, title: String, lines: Vec<Line>) -> LinePlot {
        let whole = |number: f64| format!("{number:.0}");
        LinePlot {
            title,
            description: format!("{}: quanta that a process was served, over time in quanta.", self.title),
            x: Axis::linear("time (quanta)", whole),
            y: Axis::linear("service (quanta)", whole),
            lines,
        }
    }
}

/// What a policy on so many processors is called.
pub(super) fn run_name((policy, processors): Run) -> String {
    if processors == 1 { policy.to_owned() } else { format!("{policy} on {processors} processors") }
}

impl Experiment for WebServers {
    fn about(&self) -> About {
        About {
            id: self.id,
            paper: PAPER,
            figure: self.figure,
            title: self.title,
            setting: SETTING,
            description: self.description,
        }
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn parts(&self, scale: Scale) -> usize {
        self.runs.len() * self.mix.draws(scale)
    }

    fn run(&self, part: usize, _: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (run, draw) = (self.runs[part % self.runs.len()], part / self.runs.len() + 1);
        rows(run, draw, self.mix.weights(draw, seed), seed)
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        (self.verdicts)(data)
    }

    fn plots(&self, data: &Table) -> Vec<(String, Svg)> {
        let mut plots = vec![("service".to_owned(), self.figure(data).svg())];
        if self.runs.len() > 1 {
            plots.push(("policies".to_owned(), self.rivals(data).svg()));
        }
        plots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(experiment: &WebServers, scale: Scale) -> Table {
        let mut data = Table::new(&COLUMNS);
        let parts = (0..experiment.parts(scale)).map(|part| experiment.run(part, scale, Seed(1)).unwrap());
        parts.flatten().for_each(|row| data.push(row));
        data
    }

    #[test]
    fn claims_hold() {
        for experiment in &SERVERS {
            let data = data(experiment, Scale::Quick);
            let verdicts = experiment.verdicts(&data);
            assert!(!verdicts.is_empty());
            assert!(verdicts.iter().all(|verdict| verdict.pass != Some(false)), "{}: {verdicts:#?}", experiment.id);
        }
    }

    /// The claims are not such that any policy would do: weighted round robin in the place of GR3 breaks all of them.
    #[test]
    fn claims_can_fail() {
        let weights = FIRST.weights(1, Seed(1));
        let mut data = Table::new(&COLUMNS);
        for run in ALL_POLICIES {
            let served = if run.0 == "gr3" { ("wrr", 1) } else { run };
            for mut row in rows(served, 1, weights.clone(), Seed(1)).unwrap() {
                row[0] = run.0.into();
                data.push(row);
            }
        }
        let verdicts = claims::gr3(&data);
        let of_gr3 = verdicts.iter().filter(|verdict| verdict.claim.contains("gr3"));
        assert!(of_gr3.clone().count() == 7 && of_gr3.into_iter().all(|verdict| verdict.pass == Some(false)));
    }

    #[test]
    fn random_weights_are_those_of_the_draw_for_every_policy() {
        let weights = |draw| THIRD.weights(draw, Seed(1));
        assert_eq!(weights(1), weights(1));
        assert_ne!(weights(1), weights(2));
        assert!((1..=10).all(|weight| weights(1).iter().any(|known| known.get() == weight)));
        assert!(weights(1).iter().all(|weight| weight.get() <= 10));
    }

    #[test]
    fn stairs_rise_where_a_process_is_served() {
        let data = data(&SERVERS[1], Scale::Quick);
        let line = stairs(rows_of(&data, ("wfq", 1)), 1, over_slots, String::new());
        assert_eq!(line.points[..3].iter().map(|point| point.y).collect::<Vec<_>>(), [0.0, 0.0, 1.0]);
        assert_eq!(line.points.last(), Some(&Point::from((3000.0, 20.0))), "its share of two periods");
        assert!(line.points.windows(2).all(|pair| pair[0].x == pair[1].x || pair[0].y == pair[1].y));
    }
}
