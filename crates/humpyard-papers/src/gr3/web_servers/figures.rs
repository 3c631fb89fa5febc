//! The web servers of figures 14 to 19 of the GR3 paper: hundreds of processes that always have work, and how
//! evenly they get the processors.

use humpyard_core::id::{ClientId, Id};
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;

use super::super::paper::PAPER;
use super::super::scheduled::{scheduled, total};
use super::claims;
use super::servers::{
    FIRST, Mix, PERIODS, PROCESSES, Run, SECOND, SHOWN, THIRD, each_server, over_slots, rivals, rows_of, run_name,
};
use super::service::{Evenness, Watch};
use crate::harness::{About, Experiment, Figure, Note, Plots, Row, Scale, Table, rows, whole};
use humpyard_lab::LabError;
use humpyard_plot::{Line, LinePlot, Svg};

rows! {
    COLUMNS, fn row(
        (policy, processors): Run, draw: usize, server: usize, weight: Weight, (slot, service): (usize, u64),
        process: Evenness, all: Evenness
    ) {
        text policy = policy, integer processors = processors, integer draw = draw, integer server = server + 1,
        integer weight = weight.get(), integer slot = slot, integer service = service,
        integer process_gap_longest = process.gap_longest, real process_error_min = to_thousandths(process.error_min),
        real process_error_max = to_thousandths(process.error_max), integer server_gap_longest = all.gap_longest,
        real server_error_min = to_thousandths(all.error_min), real server_error_max = to_thousandths(all.error_max),
    }
}

/// Web servers on one computer.
#[derive(Debug)]
pub(super) struct WebServers {
    pub(super) id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    mix: Mix,
    /// A mix that is not random; its draw has the number 0.
    fixed: Option<Mix>,
    /// The runs; the first is that of the figure.
    runs: &'static [Run],
    figures: &'static [Figure],
}

/// The defaults of most figures.
const USUAL: WebServers =
    WebServers { id: "", figure: "", title: "", description: "", mix: FIRST, fixed: None, runs: &[], figures: &[] };

/// The policies of figures 14 to 19 and those of the specification, on one processor and on two.
const FIGURES_14_TO_19: [Run; 13] = [
    ("gr3", 1),
    ("wfq", 1),
    ("sfq", 1),
    ("vtrr", 1),
    ("srr", 1),
    ("linux24", 1),
    ("wf2q+", 1),
    ("wrr", 1),
    ("strr", 1),
    ("qfq", 1),
    ("lottery", 1),
    ("linux24", 2),
    ("gr3mp", 2),
];
/// The policies of the other mixes.
const WITH_LINUX: [Run; 10] = [
    ("gr3", 1),
    ("wfq", 1),
    ("sfq", 1),
    ("vtrr", 1),
    ("srr", 1),
    ("linux24", 1),
    ("wf2q+", 1),
    ("wrr", 1),
    ("strr", 1),
    ("qfq", 1),
];

/// The common setting.
const SETTING: &str = "Each server has 100 processes that always have something to do, in the order of the servers. In \
    figures 14 to 19 there are six servers: the processes of one have weight 10, those of the others 1, and on P \
    processors an even schedule serves a process of weight 10 every 150/P slots. In virtual time, in every slot each \
    processor serves a quantum of one process, for two periods of the schedule. The paper ran a search engine in \
    Apache; here no real server runs, and live threads do in the experiments whose names end with `-live`. A gap is \
    the number of slots from one service of a process to its next, the error its service less its share. The plots, \
    and columns and claims of a process, are of the 50th of each server; columns of a server are of whichever of its \
    processes is worst.";

pub(super) static SERVERS: [WebServers; 8] = [
    WebServers {
        id: "gr3-fig14",
        figure: "figure 14",
        title: "web servers under the scheduler of Linux 2.4",
        description: "The kernel's policy is a stand-in, a model of it on the same virtual processor (`linux24`), and \
            beside it that of Linux 2.6 (`linux-o1`).",
        runs: &[("linux24", 1), ("linux-o1", 1)],
        ..USUAL
    },
    WebServers {
        id: "gr3-fig15",
        figure: "figure 15",
        title: "web servers under weighted fair queueing",
        description: "All heavy processes take ten turns, one round after the other, before the light ones take any.",
        runs: &[("wfq", 1)],
        ..USUAL
    },
    WebServers {
        id: "gr3-fig16",
        figure: "figure 16",
        title: "web servers under virtual-time round robin",
        description: "The staircase is that of WFQ, at another time of the period.",
        runs: &[("vtrr", 1)],
        ..USUAL
    },
    WebServers {
        id: "gr3-fig17",
        figure: "figure 17",
        title: "web servers under group ratio round robin, and under others",
        description: "The second plot has a process of weight 10 under several of them.",
        runs: &FIGURES_14_TO_19,
        figures: claims::FIRST,
        ..USUAL
    },
    WebServers {
        id: "gr3-fig18",
        figure: "figure 18",
        title: "web servers under the scheduler of Linux 2.4, on two processors",
        description: "The paper's LinuxMP; which of figures 18 and 19 it is cannot be read from the text. The kernel's \
            policy is a stand-in, a model of it on the same virtual processors (`linux24`), and beside it that of \
            Linux 2.6 (`linux-o1`).",
        runs: &[("linux24", 2), ("linux-o1", 2)],
        ..USUAL
    },
    WebServers {
        id: "gr3-fig19",
        figure: "figure 19",
        title: "web servers under GR3MP, on two processors and on eight",
        description: "The paper's has two processors. Which of figures 18 and 19 it is cannot be read from the text.",
        runs: &[("gr3mp", 2), ("gr3mp", 8)],
        ..USUAL
    },
    WebServers {
        id: "gr3-web2",
        figure: "section 5.2, second experiment, which has no plot",
        title: "web servers whose processes have weights 1, 2, 3, 4 and 5",
        description: "Five servers: the processes of the first have weight 1, those of the fifth 5. Gaps tell little \
            here: they are not judged.",
        mix: SECOND,
        runs: &WITH_LINUX,
        ..USUAL
    },
    WebServers {
        id: "gr3-web3",
        figure: "section 5.2, third experiment, which has no plot",
        title: "web servers whose processes have random weights",
        description: "Five servers: each process has a weight of 1 to 10, all equally likely, drawn several times. \
            Draw 0 has the weights of gr3-web2. Gaps of different weights do not compare: they are not judged.",
        mix: THIRD,
        fixed: Some(SECOND),
        runs: &WITH_LINUX,
        figures: claims::OTHERS,
    },
];

/// Rounds quanta, because more digits would fill half of a data file without use.
fn to_thousandths(quanta: f64) -> f64 {
    (quanta * 1e3).round() / 1e3
}

/// Asks a policy for a schedule of these processes. Returns rows of [`COLUMNS`]: one for each service of the
/// shown process of each server, one before all, and one at the end. For draws other than the first, it returns
/// only the last row.
fn rows((policy, processors): Run, draw: usize, weights: Vec<Weight>, seed: Seed) -> Result<Vec<Row>, LabError> {
    let slots = (PERIODS * total(&weights)).div_ceil(processors as u64) as usize;
    let found = scheduled(policy, &weights, processors, slots, seed)?;
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
        if draw != 1 {
            points.drain(..points.len() - 1);
        }
    }
    let mut rows = Vec::new();
    for (server, points) in points.into_iter().enumerate() {
        let (first, shown) = (server * PROCESSES, server * PROCESSES + SHOWN - 1);
        let (process, all) = (watch.evenness(shown..shown + 1), watch.evenness(first..first + PROCESSES));
        let row = |point| row((policy, processors), draw, server, weights[shown], point, process, all);
        rows.extend(points.into_iter().map(row));
    }
    Ok(rows)
}

impl WebServers {
    fn plot(&self, title: String, lines: Vec<Line>) -> Svg {
        LinePlot {
            title,
            description: format!("{}: quanta that a process was served, over time in quanta.", self.title),
            x: whole("time (quanta)"),
            y: whole("service (quanta)"),
            lines,
        }
        .svg()
    }
}

/// The common description.
const ABOUT: About = About { setting: SETTING, columns: COLUMNS, ..About::of(PAPER) };

impl Experiment for WebServers {
    fn about(&self) -> About {
        About { id: self.id, figure: self.figure, title: self.title, description: self.description, ..ABOUT }
    }

    fn version(&self) -> u32 {
        4
    }

    fn parts(&self, scale: Scale) -> usize {
        self.runs.len() * (self.mix.draws(scale) + usize::from(self.fixed.is_some()))
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (run, draw) = (self.runs[part % self.runs.len()], part / self.runs.len() + 1);
        match self.fixed {
            Some(mix) if draw > self.mix.draws(scale) => rows(run, 0, mix.weights(1, seed), seed),
            _ => rows(run, draw, self.mix.weights(draw, seed), seed),
        }
    }

    fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        claims::notes(data, self.runs)
    }

    fn plots(&self, data: &Table) -> Plots {
        let title = format!("service under {}", run_name(self.runs[0]));
        let mut plots = vec![("service".to_owned(), self.plot(title, each_server(data, self.runs[0], over_slots)))];
        if self.runs.len() > 1 {
            let weight = rows_of(data, self.runs[0]).next().map_or(0.0, |row| row.number("weight"));
            let title = format!("service of a process of server 1, weight {weight}");
            plots.push(("policies".to_owned(), self.plot(title, rivals(data, self.runs, over_slots))));
        }
        plots
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::testing::{judge, quick};
    use humpyard_plot::Point;

    use super::super::servers::stairs;
    use super::*;

    /// The claims can fail: weighted round robin in place of GR3 contradicts them.
    #[test]
    fn claims_can_fail() {
        let weights = FIRST.weights(1, Seed(1));
        let mut data = Table::new(COLUMNS);
        for run in FIGURES_14_TO_19 {
            let served = if run.0 == "gr3" { ("wrr", 1) } else { run };
            for mut row in rows(served, 1, weights.clone(), Seed(1)).unwrap() {
                row[0] = run.0.into();
                data.push(row);
            }
        }
        let verdicts = judge(&SERVERS[3], &[data], Scale::Quick);
        let holds = |id: &str| verdicts.iter().find(|verdict| verdict.claim == id).unwrap().held == 1;
        assert!(!holds("gr3-fig14-fairness") && !holds("gr3-fig17-staircase"), "{verdicts:#?}");
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
        let data = quick(&SERVERS[1]);
        let line = stairs(rows_of(&data, ("wfq", 1)), 1, over_slots, String::new());
        assert_eq!(line.points[..3].iter().map(|point| point.y).collect::<Vec<_>>(), [0.0, 0.0, 1.0]);
        assert_eq!(line.points.last(), Some(&Point::from((3000.0, 20.0))), "its share of two periods");
        assert!(line.points.windows(2).all(|pair| pair[0].x == pair[1].x || pair[0].y == pair[1].y));
    }
}
