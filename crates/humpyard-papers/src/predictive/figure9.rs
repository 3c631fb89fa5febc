//! Figure 9: the number of engines that are warm for each application while the traffic changes.

use humpyard_core::cost::LinearCost;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;

use super::costs::{Machine, PAYLOAD};
use super::locality::SETTING;
use super::machine::{ENGINES, Feed, Job, Trial, drawn, length, run};
use super::paper::{DRAWS, PAPER, drawn_seed};
use crate::harness::{
    About, Column, Experiment, Figure, Plots, Row, Rows, Scale, Table, columns, mean, short, split, whole,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, LinePlot};

const FCFS: &str = "fcfs";
const LAP: &str = "lap";

/// Figure 9: the number of engines that are warm for each application while the traffic changes.
pub(super) struct Figure9;

const CHANGE: usize = 10_000;
/// The first and the last packet of the figure, and the step.
const SHOWN: (usize, usize, usize) = (8_000, 12_000, 5);
const QUEUE: usize = 64;
/// Packets after the change that do not count for the new shares.
const SETTLED: usize = 500;
/// Number of the first application's engines that counts as its new share: 12.8, within a tenth.
const ENOUGH: f64 = 12.0;
/// Shares of the work, before and after the change.
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
        // An application's share of the packets is its share of the work over its packet time.
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

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("draw")
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = |policy: &'static str| {
            let rows = data.rows_of("policy", policy).of("costs", Machine::Paper.name()).at("draw", 1.0);
            let lines = PAYLOAD.into_iter().zip(ENGINES_OF);
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

/// Columns with the numbers of engines that are warm for each application.
const ENGINES_OF: [&str; 3] = ["engines_1", "engines_2", "engines_3"];

/// Returns the rows of a policy for a range of packets, with the paper's costs.
fn between<'a>(data: &'a Table, policy: &'a str, packets: core::ops::Range<usize>) -> impl Rows<'a> {
    let rows = data.rows_of("policy", policy).of("costs", Machine::Paper.name());
    rows.filter(move |row| packets.contains(&(row.number("packet") as usize)))
}

/// Returns the deviation of the first application's number of engines before the change.
fn deviation(data: &Table, policy: &str) -> f64 {
    let rows = || between(data, policy, SHOWN.0..CHANGE);
    let mean_engines = rows().mean(ENGINES_OF[0]);
    let squares: Vec<f64> = rows().numbers(ENGINES_OF[0]).map(|engines| (engines - mean_engines).powi(2)).collect();
    mean(&squares).sqrt()
}

static FIGURES: [Figure; 3] = [
    Figure {
        claim: "predictive-fig9-shares",
        of: |data| {
            let means = |packets: core::ops::Range<usize>| {
                ENGINES_OF.map(|column| between(data, LAP, packets.clone()).mean(column))
            };
            [means(SHOWN.0..CHANGE), means(CHANGE + SETTLED..SHOWN.1)].concat()
        },
    },
    Figure { claim: "predictive-fig9-smooth", of: |data| vec![deviation(data, FCFS) / deviation(data, LAP)] },
    Figure {
        claim: "predictive-fig9-adapts",
        of: |data| {
            let mut after = between(data, LAP, CHANGE..SHOWN.1);
            let reached = after.find(|row| row.number(ENGINES_OF[0]) >= ENOUGH);
            vec![reached.map_or(f64::INFINITY, |row| row.number("packet") - CHANGE as f64)]
        },
    },
];

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
