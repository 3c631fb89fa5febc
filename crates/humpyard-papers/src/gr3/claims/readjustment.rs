//! The cost of making weights feasible: sorting all clients, or using GR3's groups and the median of one of
//! them. PROPORTIONAL_SHARE section 4.3, the GR3 paper's sections 3.3, 4.2 and 6.

use core::cmp::Ordering;
use core::ops::Range;

use humpyard_core::id::{ClientId, Id};
use humpyard_core::random::{Random, Seed};
use humpyard_policies::share::feasible::{FeasibleWeights, Ratio};

use super::super::paper::PAPER;
use crate::harness::{About, Experiment, Figure, Plots, Row, Rows, Scale, Table, logarithmic, rows};
use humpyard_lab::LabError;
use humpyard_plot::LinePlot;

const CLIENTS: [usize; 6] = [25, 100, 400, 1600, 8192, 65_536];
const PROCESSORS: [usize; 5] = [2, 8, 32, 128, 512];
/// Draws of the weights.
const DRAWS: (u32, u32) = (20, 200);
/// Greatest weight of a client that is not heavy, if others are heavy.
const LIGHT_MAX: u64 = 40;
/// Greatest weight with few equal weights.
const UNIFORM_MAX: u64 = 1 << 20;
rows! {
    COLUMNS, fn row(law: &str, clients: usize, processors: usize, draws: u32, sums: &Counts) {
        let mean = |sum: u64| sum as f64 / f64::from(draws);
    } => {
        text law = law, integer clients = clients, integer processors = processors, integer draws = draws,
        real infeasible_mean = mean(sums.infeasible), real sorting_all_mean = mean(sums.sorting_all),
        real sorting_group_mean = mean(sums.sorting_group), real recursion_mean = mean(sums.recursion),
        real partition_mean = mean(sums.partition),
        integer draws_that_differ = sums.differ,
    }
}

/// The laws of the weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Law {
    /// From 1 to 2^20, uniformly distributed: infeasible weights are rare.
    Uniform,
    /// The part of clients with a weight of at least x is 1 / x, up to 2^30.
    Pareto,
    /// For each four processors, three clients belong to one group, and some of them are too heavy; the others
    /// are light.
    Threshold,
    /// Almost twice as many clients as processors belong to one group: the most that are compared. None is too
    /// heavy.
    Crowd,
}

const LAWS: [(&str, Law); 4] =
    [("uniform", Law::Uniform), ("pareto", Law::Pareto), ("threshold", Law::Threshold), ("crowd", Law::Crowd)];

impl Law {
    fn draw(self, clients: usize, processors: usize, random: &mut Random) -> Vec<u32> {
        let from_1_to = |most: u64, random: &mut Random| 1 + random.below(most) as u32;
        match self {
            Self::Uniform => (0..clients).map(|_| from_1_to(UNIFORM_MAX, random)).collect(),
            Self::Pareto => (0..clients).map(|_| random.bounded_pareto(1.0, 1.0, f64::from(1 << 30)) as u32).collect(),
            Self::Threshold => Self::with_heavy(3 * processors / 4, clients, processors, random),
            Self::Crowd => Self::with_heavy(2 * processors - 1, clients, processors, random),
        }
    }

    /// Returns weights with this many heavy clients, at most all but one. The heavy clients belong to one
    /// group; each has at least twice the weight that the light ones have per processor.
    fn with_heavy(heavy: usize, clients: usize, processors: usize, random: &mut Random) -> Vec<u32> {
        let heavy = heavy.min(clients - 1);
        let mut weights: Vec<u32> = (heavy..clients).map(|_| 1 + random.below(LIGHT_MAX) as u32).collect();
        let light: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let least = (2 * light / processors as u64).max(1).next_power_of_two();
        weights.extend((0..heavy).map(|_| (least + random.below(least)) as u32));
        for at in (1..clients).rev() {
            weights.swap(at, random.below(at as u64 + 1) as usize);
        }
        weights
    }
}

/// The experiment.
pub(super) struct Readjustment;

impl Experiment for Readjustment {
    fn about(&self) -> About {
        About {
            id: "gr3-readjustment",
            figure: "sections 3.3, 4.2 and 6, on feasible weights",
            title: "comparisons that it takes to make weights feasible",
            description: "A client that is entitled to more than one of P processors gets the mean of what lighter \
                ones have for each processor that is left. Four ways to find such clients: sorting all N by weight; \
                finding the one group of GR3 of which some may be and some not, and sorting that; the same, with the \
                paper's recursive partition around the median instead of sorting; and the partition of gr3mp and sfs \
                here, whose library sorts 16 clients or fewer by insertion. Counted are comparisons of two weights, \
                in the mean of all draws, where all weights are new: a sorted list that is kept needs O(log N) for \
                each client that comes. Weights are uniform (1 to 2^20), of a Pareto law (up to 2^30), or light (1 to 40) \
                but for 3P / 4 (threshold) or 2P - 1 (crowd) of one group, which are about as heavy as can be. The \
                paper has no figure, but says what the comparisons are in proportion to.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        LAWS.len() * CLIENTS.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (name, law) = LAWS[part % LAWS.len()];
        let clients = CLIENTS[part / LAWS.len()];
        let processors = PROCESSORS.into_iter().filter(|&processors| processors < clients);
        let draws = scale.of(DRAWS);
        let row = |processors: usize| {
            let mut sums = Counts::default();
            for draw in 0..draws {
                let mut random = seed.stream(&format!("gr3-readjustment/{name}/{clients}/{processors}/{draw}"));
                sums.add(&law.draw(clients, processors, &mut random), processors);
            }
            row(name, clients, processors, draws, &sums)
        };
        Ok(processors.map(row).collect())
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn plots(&self, data: &Table) -> Plots {
        let line = |name: String, column: &str, processors: usize| {
            data.rows_of("law", "crowd").at("processors", processors as f64).line(name, "clients", column)
        };
        let few = |column, what: &str| line(format!("{what}, 8 processors"), column, 8);
        let plot = LinePlot {
            title: "comparisons to make weights feasible".to_owned(),
            description:
                "Over the number of clients, of which almost twice as many as processors are heavy: they grow \
                with the clients where all are sorted, and with the processors alone by groups."
                    .to_owned(),
            x: logarithmic("clients"),
            y: logarithmic("comparisons"),
            lines: vec![
                few("sorting_all_mean", "sorting all"),
                few("sorting_group_mean", "sorting a group"),
                few("recursion_mean", "the paper's recursive partition"),
                few("partition_mean", "partition"),
                line("partition, 128 processors".to_owned(), "partition_mean", 128),
            ],
        };
        vec![("comparisons".to_owned(), plot.svg())]
    }
}

/// Returns a mean of the law `crowd`.
fn of_crowd(data: &Table, clients: usize, processors: usize, column: &str) -> f64 {
    let mut rows = data.rows_of("law", "crowd").at("clients", clients as f64).at("processors", processors as f64);
    rows.next().map_or(f64::NAN, |row| row.number(column))
}

static FIGURES: [Figure; 2] = [
    Figure {
        claim: "gr3-readjustment-by-processors",
        of: |data| {
            let [most, few] = [CLIENTS[5], CLIENTS[1]].map(|clients| of_crowd(data, clients, 8, "partition_mean"));
            vec![most / few]
        },
    },
    Figure {
        claim: "gr3-readjustment-sorting",
        of: |data| {
            let ratio = |processors| {
                let of = |column| of_crowd(data, CLIENTS[5], processors, column);
                of("recursion_mean") / of("sorting_group_mean")
            };
            vec![ratio(2).min(ratio(8))]
        },
    },
];

/// Sums over draws.
#[derive(Default)]
struct Counts {
    infeasible: u64,
    sorting_all: u64,
    sorting_group: u64,
    recursion: u64,
    partition: u64,
    differ: u32,
}

impl Counts {
    /// Makes weights feasible by each of the four methods.
    fn add(&mut self, weights: &[u32], processors: usize) {
        let by_sorting = by_sorting(weights, processors, &mut self.sorting_all);
        let by_group = by_groups(weights, processors, &mut self.sorting_group);
        let by_recursion = by_recursion(weights, processors, &mut self.recursion);
        let by_partition = by_partition(weights, processors, &mut self.partition);
        self.differ += u32::from([by_group, by_recursion, by_partition].iter().any(|by| *by != by_sorting));
        let changed = by_sorting.iter().zip(weights).filter(|&(&feasible, &weight)| feasible != given(weight));
        self.infeasible += changed.count() as u64;
    }
}

/// Returns a weight as a ratio.
fn given(weight: u32) -> Ratio {
    (weight.into(), 1)
}

/// Compares two weights, heavier first, and counts the comparison.
fn counted(comparisons: &mut u64, one: u32, other: u32) -> Ordering {
    *comparisons += 1;
    other.cmp(&one)
}

/// By the definition: takes the first clients of a sorted list, up to the first one that is entitled to at most
/// a processor.
fn by_sorting(weights: &[u32], processors: usize, comparisons: &mut u64) -> Vec<Ratio> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&one, &other| counted(comparisons, weights[one], weights[other]));
    let total = weights.iter().map(|&weight| u64::from(weight)).sum();
    let (infeasible, rest) = first_too_heavy(&order, weights, processors, total);
    readjusted(weights, infeasible, processors, rest)
}

/// Returns those clients of a sorted list that are too heavy for one of the processors, and the weight of all
/// others.
fn first_too_heavy<'a>(order: &'a [usize], weights: &[u32], processors: usize, mut rest: u64) -> (&'a [usize], u64) {
    let mut count = 0;
    for &client in order {
        let weight = u64::from(weights[client]);
        if weight * (processors - count) as u64 <= rest {
            break;
        }
        (count, rest) = (count + 1, rest - weight);
    }
    (&order[..count], rest)
}

/// By groups, of which the last is sorted.
fn by_groups(weights: &[u32], processors: usize, comparisons: &mut u64) -> Vec<Ratio> {
    with_last_group(weights, processors, |group, left, rest| {
        group.sort_by(|&one, &other| counted(comparisons, weights[one], weights[other]));
        let (few, others) = first_too_heavy(group, weights, left, rest);
        (few.len(), others)
    })
}

/// By groups, of which the last is partitioned around its median again and again, as the paper has it.
fn by_recursion(weights: &[u32], processors: usize, comparisons: &mut u64) -> Vec<Ratio> {
    with_last_group(weights, processors, |group, left, rest| recursion(group, weights, left, rest, comparisons))
}

/// PROPORTIONAL_SHARE 4.3, `infeasible`: moves those clients of a group to the front that are too heavy for one of the
/// processors. Returns their number, and the weight of all others.
fn recursion(
    group: &mut [usize],
    weights: &[u32],
    processors: usize,
    rest: u64,
    comparisons: &mut u64,
) -> (usize, u64) {
    if group.is_empty() {
        return (0, rest);
    }
    let median = split_at_median(group, weights, comparisons);
    let sum = |clients: &[usize]| clients.iter().map(|&client| u64::from(weights[client])).sum::<u64>();
    let heavier = sum(&group[..median.start]);
    let left = processors - median.start.min(processors);
    if left > 0 && u64::from(weights[group[median.start]]) * left as u64 <= rest - heavier {
        return recursion(&mut group[..median.start], weights, processors, rest, comparisons);
    }
    let others = rest - heavier - sum(&group[median.clone()]);
    let left = processors - median.end.min(processors);
    let (count, others) = recursion(&mut group[median.end..], weights, left, others, comparisons);
    (median.end + count, others)
}

/// Moves clients heavier than the median to the front, and lighter ones to the end. Returns the places of those that
/// weigh as much. Hoare's selection: the part that holds the middle is split around the weight at its own middle.
fn split_at_median(group: &mut [usize], weights: &[u32], comparisons: &mut u64) -> Range<usize> {
    let (mut first, mut end) = (0, group.len());
    loop {
        let pivot = (first + end) / 2;
        group.swap(first, pivot);
        let weight = weights[group[first]];
        let (mut equal, mut at, mut lighter) = (first, first + 1, end);
        while at < lighter {
            match counted(comparisons, weights[group[at]], weight) {
                Ordering::Less => {
                    group.swap(equal, at);
                    (equal, at) = (equal + 1, at + 1);
                }
                Ordering::Equal => at += 1,
                Ordering::Greater => {
                    lighter -= 1;
                    group.swap(at, lighter);
                }
            }
        }
        let middle = group.len() / 2;
        if middle < equal {
            end = equal;
        } else if middle >= lighter {
            first = lighter;
        } else {
            return equal..lighter;
        }
    }
}

/// Makes weights feasible by groups. In the last group, some clients may be too heavy and some not: `of_last` moves
/// those that are too heavy for one of the processors left to the front, and returns their number and the weight of
/// all others.
fn with_last_group(
    weights: &[u32],
    processors: usize,
    mut of_last: impl FnMut(&mut [usize], usize, u64) -> (usize, u64),
) -> Vec<Ratio> {
    let mut groups: [Vec<usize>; 32] = Default::default();
    (0..weights.len()).for_each(|client| groups[weights[client].ilog2() as usize].push(client));
    let sum = |clients: &[usize]| clients.iter().map(|&client| u64::from(weights[client])).sum::<u64>();
    let mut rest = groups.iter().map(|group| sum(group)).sum::<u64>();
    let mut infeasible: Vec<usize> = Vec::new();
    for (order, group) in groups.iter_mut().enumerate().rev().filter(|(_, group)| !group.is_empty()) {
        let (left, lighter) = (processors - infeasible.len(), rest - sum(group));
        if group.len() < left && ((left - group.len()) as u64) << order > lighter {
            infeasible.extend_from_slice(group);
            rest = lighter;
            continue;
        }
        if group.len() < 2 * left {
            let (count, others) = of_last(group, left, rest);
            infeasible.extend_from_slice(&group[..count]);
            rest = others;
        }
        break;
    }
    readjusted(weights, &infeasible, processors, rest)
}

/// By the method of `gr3mp` and `sfs`.
fn by_partition(weights: &[u32], processors: usize, comparisons: &mut u64) -> Vec<Ratio> {
    let mut feasible = FeasibleWeights::new(processors, weights.len(), |id| weights[id.index()]);
    (0..weights.len()).for_each(|client| feasible.join(ClientId::from_index(client)));
    let mut readjusted: Vec<Ratio> = weights.iter().copied().map(given).collect();
    let compare = |one: &u32, other: &u32| {
        *comparisons += 1;
        one.cmp(other)
    };
    feasible.readjust_by(processors, compare, |id, weight| readjusted[id.index()] = weight);
    readjusted
}

/// Returns the weights after these clients get the share of one remaining processor each.
fn readjusted(weights: &[u32], infeasible: &[usize], processors: usize, rest: u64) -> Vec<Ratio> {
    let mut readjusted: Vec<Ratio> = weights.iter().copied().map(given).collect();
    for &client in infeasible {
        readjusted[client] = (rest, (processors - infeasible.len()) as u64);
    }
    readjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::quick;

    /// Upper limit of the mean comparisons of the partition per processor. Quickselect needs n (2 + 2 ln 2)
    /// comparisons for a median among n, and the candidates are 2 P at first, then half as many, and so on.
    const MOST: f64 = 4.0 * (2.0 + 2.0 * core::f64::consts::LN_2);

    #[test]
    fn comparisons_grow_with_processors_by_partition_and_as_n_log_n_by_sorting() {
        let data = quick(&Readjustment);
        assert_eq!(data.rows().total("draws_that_differ"), 0.0, "the four ways agree");
        assert!(data.rows().all(|row| row.number("partition_mean") <= MOST * row.number("processors")));
        let rows = data.rows_of("law", "uniform").at("processors", 8.0);
        let proportion: Vec<f64> = rows
            .map(|row| row.number("sorting_all_mean") / (row.number("clients") * row.number("clients").log2()))
            .collect();
        let growth = proportion[proportion.len() - 1] / proportion[0];
        assert!((0.8..=1.4).contains(&growth), "{growth}");
    }

    /// The specification's example, by each method: 6, 6, 3, 3, 2, 2, 1, 1.
    #[test]
    fn all_ways_find_what_the_specification_has() {
        let weights = [100, 60, 3, 3, 2, 2, 1, 1];
        let expected: Vec<Ratio> = [(12, 2), (12, 2), (3, 1), (3, 1), (2, 1), (2, 1), (1, 1), (1, 1)].to_vec();
        for way in [by_sorting, by_groups, by_recursion, by_partition] {
            let mut comparisons = 0;
            assert_eq!(way(&weights, 4, &mut comparisons), expected);
        }
        let mut comparisons = 0;
        by_sorting(&weights, 4, &mut comparisons);
        assert!(comparisons >= 7, "{comparisons} comparisons cannot put 8 in order");
    }

    #[test]
    fn heavy_clients_are_of_one_group_and_some_are_too_heavy() {
        let mut random = Seed(1).stream("gr3-readjustment/test");
        let (mut some, mut counts) = (false, Counts::default());
        for _ in 0..50 {
            let weights = Law::Threshold.draw(100, 8, &mut random);
            let heavy: Vec<u32> = weights.iter().copied().filter(|&weight| u64::from(weight) > LIGHT_MAX).collect();
            assert_eq!((weights.len(), heavy.len()), (100, 6));
            assert!(heavy.iter().all(|weight| weight.ilog2() == heavy[0].ilog2()));
            counts.add(&weights, 8);
            some |= counts.infeasible > 0;
        }
        assert!(some && counts.differ == 0);
    }
}
