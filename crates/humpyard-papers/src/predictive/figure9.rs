//! Figure 9: how many engines are warm for each application as the traffic changes.

use humpyard_core::cost::LinearCost;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;

use super::costs::{Machine, PAYLOAD};
use super::locality::SETTING;
use super::machine::{ENGINES, Feed, Job, Trial, drawn, length, run};
use super::paper::{DRAWS, PAPER, drawn_seed};
use crate::harness::{
    About, Bound, Column, Experiment, Plots, Range, Row, Rows, Scale, Table, Verdict, columns, mean, short, split,
    whole,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, LinePlot};

const FCFS: &str = "fcfs";
const LAP: &str = "lap";

/// Figure 9: how many engines are warm for each application as the traffic changes.
pub(super) struct Figure9;

const CHANGE: usize = 10_000;
/// Packets that are looked at, and every how many.
const SHOWN: (usize, usize, usize) = (8_000, 12_000, 5);
const QUEUE: usize = 64;
/// Shares of the processing, before the change and after.
const SHARES: [[f64; 3]; 2] = [[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0], [0.8, 0.1, 0.1]];
const COLUMNS: &[Column] = columns![
    text costs, text policy, integer draw, integer packet, integer engines_1, integer engines_2, integer engines_3,
];
const MACHINES: [Machine; 2] = [Machine::Paper, Machine::HereEvicted];

fn changing_jobs(machine: Machine, seed: Seed) -> Vec<Job> {
    let mut random = seed.stream("predictive/figure-9");
    let takes = |name: &str| machine.cost(name).work(322) as f64;
    let job = |number: usize| {
        let shares = SHARES[usize::from(number >= CHANGE)];
        // Of the packets an application has its share of the processing over what a packet takes.
        let weights: Vec<f64> = PAYLOAD.iter().zip(shares).map(|(name, share)| share / takes(name)).collect();
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
            figure: "figure 9",
            title: "engines that are warm for each of three applications, as their shares change",
            setting: SETTING,
            description: "Here three applications with 64 packets waiting: each has a third of the processing, from \
                packet 10,000 on encrypt has 80 % and the others 10 %. Counted whenever a packet is started, and every \
                fifth is kept.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        MACHINES.len() * scale.of(DRAWS)
    }

    fn run(&self, part: usize, _: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (machine, draw) = split(part, &MACHINES);
        let jobs = changing_jobs(machine, drawn_seed(seed, "locality", draw));
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
                    let place: Row = vec![machine.name().into(), policy.into(), draw.into(), started.into()];
                    rows.push(place.into_iter().chain((0..3).map(|application| count(application).into())).collect());
                }
            }
        }
        Ok(rows)
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        MACHINES.into_iter().flat_map(|machine| machine_verdicts(data, machine)).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = |policy: &'static str| {
            let rows = data.rows_of("policy", policy).of("costs", Machine::Paper.name()).at("draw", 1.0);
            let lines = PAYLOAD.into_iter().zip(["engines_1", "engines_2", "engines_3"]);
            let svg = LinePlot {
                title: format!("{}: {policy}", self.about().title),
                description: "Costs of the paper, first draw.".to_owned(),
                x: whole("packets started"),
                y: Axis::linear("engines", short),
                lines: lines.map(|(name, column)| rows.clone().line(name, "packet", column)).collect(),
            };
            (policy.to_owned(), svg.svg())
        };
        vec![plot(FCFS), plot(LAP)]
    }
}

/// Engines of the first application after each packet that is looked at.
type Series = Vec<(usize, f64)>;

fn series(data: &Table, machine: Machine, policy: &str, draw: usize) -> Series {
    let rows = data.rows_of("policy", policy).of("costs", machine.name()).at("draw", draw as f64);
    rows.map(|row| (row.number("packet") as usize, row.number("engines_1"))).collect()
}

/// Mean and deviation between two packets.
fn moments(series: &[(usize, f64)], from: usize, to: usize) -> (f64, f64) {
    let values: Vec<f64> = series.iter().filter(|point| (from..to).contains(&point.0)).map(|point| point.1).collect();
    let mean = mean(&values);
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt())
}

fn machine_verdicts(data: &Table, machine: Machine) -> Vec<Verdict> {
    let draws = data.rows().most("draw") as usize;
    let each = |of: &dyn Fn(usize) -> f64| Range::of((1..=draws).map(of));
    let lap = |draw| series(data, machine, LAP, draw);
    let before = each(&|draw| moments(&lap(draw), SHOWN.0, CHANGE).0);
    let after = each(&|draw| moments(&lap(draw), CHANGE + 500, SHOWN.1).0);
    let smooth = each(&|draw| {
        let fcfs = series(data, machine, FCFS, draw);
        moments(&lap(draw), SHOWN.0, CHANGE).1 / moments(&fcfs, SHOWN.0, CHANGE).1
    });
    let reached = each(&|draw| {
        let point = lap(draw).into_iter().find(|point| point.0 >= CHANGE && point.1 >= 12.0);
        point.map_or(f64::INFINITY, |point| (point.0 - CHANGE) as f64)
    });
    let third = Bound::Within(16.0 / 3.0 - 0.7, 16.0 / 3.0 + 0.7);
    [
        ("engines of application 1 by LAP before the change, mean", third, before),
        ("engines of application 1 by LAP after the change, mean", Bound::Within(12.1, 13.5), after),
        ("their deviation by LAP before the change over that by FCFS", Bound::AtMost(0.6), smooth),
        ("packets after the change until application 1 has 12 engines", Bound::AtMost(256.0), reached),
    ]
    .map(|(claim, bound, found)| Verdict::bounded(format!("{} costs: {claim}", machine.name()), bound, found))
    .into()
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
