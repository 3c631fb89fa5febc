//! A rule: a small decision tree over figures of the traffic, which names a policy at each leaf.
//!
//! All trees of a depth are looked at, and the one with the least mean logarithm of p99 over the best p99 is taken. At
//! a leaf a simpler policy is preferred where it is within [`NEAR`] of the best.

use serde::Serialize;

use super::traffic::{Feature, Features};

/// A simpler policy may have this many times the delay.
pub(super) const NEAR: f64 = 1.05;
/// Splits from the root to a leaf, at most.
const DEPTH: usize = 3;
/// Thresholds of a figure, at most.
const THRESHOLDS_MAX: usize = 8;
/// The least that a split must lower the mean logarithm by.
const SPLIT_WORTH: f64 = 0.01;

/// What policies did in a cell of the map.
#[derive(Clone, Debug)]
pub(super) struct Example {
    pub(super) features: Features,
    /// How much it counts.
    pub(super) weight: f64,
    /// By policy, the simplest first: the logarithm of its p99 over the best. Infinite: it cannot be named here.
    pub(super) logarithms: Vec<f64>,
}

/// A decision tree. Policies have the numbers that they have in examples.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Tree<P> {
    /// The policy to use.
    Use(P),
    /// What to look at.
    If {
        figure: Feature,
        /// The limit between both parts.
        at_most: f64,
        then: Box<Self>,
        otherwise: Box<Self>,
    },
}

impl<P> Tree<P> {
    /// Returns what the tree names for traffic with these figures.
    pub(super) fn names(&self, features: &Features) -> &P {
        match self {
            Self::Use(policy) => policy,
            Self::If { figure, at_most, then, otherwise } => {
                let is_below = features[*figure as usize] <= *at_most;
                if is_below { then } else { otherwise }.names(features)
            }
        }
    }

    /// Returns the tree with other names of policies.
    pub(super) fn map<Q>(&self, name: &impl Fn(&P) -> Q) -> Tree<Q> {
        match self {
            Self::Use(policy) => Tree::Use(name(policy)),
            Self::If { figure, at_most, then, otherwise } => Tree::If {
                figure: *figure,
                at_most: *at_most,
                then: Box::new(then.map(name)),
                otherwise: Box::new(otherwise.map(name)),
            },
        }
    }
}

/// Learns the tree of these examples. `None`: there are none, or no policy can be named in all of them.
pub(super) fn learn(examples: &[&Example]) -> Option<Tree<usize>> {
    let thresholds = Feature::ALL.map(|feature| thresholds(examples, feature));
    let weight: f64 = examples.iter().map(|example| example.weight).sum();
    let search = Search { thresholds, split_worth: SPLIT_WORTH * weight };
    search.best(examples, DEPTH).map(|(_, tree)| tree)
}

/// Returns the simplest policy that is within [`NEAR`] of the best in the mean of these examples, with the sum of its
/// logarithms. `None`: no policy can be named in all of them.
pub(super) fn simplest(examples: &[&Example]) -> Option<(f64, usize)> {
    let policies = examples.first()?.logarithms.len();
    let (mut sums, mut weight) = (vec![0.0; policies], 0.0);
    for example in examples {
        add(&mut sums, example);
        weight += example.weight;
    }
    simplest_of(&sums, weight)
}

fn add(sums: &mut [f64], example: &Example) {
    for (sum, logarithm) in sums.iter_mut().zip(&example.logarithms) {
        *sum += logarithm * example.weight;
    }
}

/// The same of sums, where examples have this weight together.
fn simplest_of(sums: &[f64], weight: f64) -> Option<(f64, usize)> {
    let least = sums.iter().copied().fold(f64::INFINITY, f64::min);
    let near = least + weight * NEAR.ln();
    let found = sums.iter().position(|&sum| sum <= near && sum.is_finite())?;
    Some((sums[found], found))
}

/// Returns values between the figures of examples, so that about as many lie between any two neighbours.
fn thresholds(examples: &[&Example], feature: Feature) -> Vec<f64> {
    let mut values: Vec<f64> = examples.iter().map(|example| example.features[feature as usize]).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let mut middles: Vec<f64> = values.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
    if middles.len() > THRESHOLDS_MAX {
        let all = middles.len();
        middles = (0..THRESHOLDS_MAX).map(|at| middles[(2 * at + 1) * all / (2 * THRESHOLDS_MAX)]).collect();
    }
    middles
}

struct Search {
    /// By figure.
    thresholds: [Vec<f64>; Feature::ALL.len()],
    /// What a split must lower the sum of logarithms by.
    split_worth: f64,
}

/// The sum of logarithms of a tree, and what splits cost, with the tree.
type Found = Option<(f64, Tree<usize>)>;

impl Search {
    fn best(&self, examples: &[&Example], depth: usize) -> Found {
        let mut best: Found = simplest(examples).map(|(sum, policy)| (sum, Tree::Use(policy)));
        for figure in Feature::ALL.into_iter().filter(|_| depth > 0) {
            let thresholds = &self.thresholds[figure as usize];
            let found = if depth == 1 {
                Self::last_split(examples, figure, thresholds)
            } else {
                self.split(examples, figure, thresholds, depth)
            };
            let Some((sum, tree)) = found else { continue };
            let sum = sum + self.split_worth;
            if best.as_ref().is_none_or(|(least, _)| sum < *least) {
                best = Some((sum, tree));
            }
        }
        best
    }

    /// Returns the best tree that looks at this figure first.
    fn split(&self, examples: &[&Example], figure: Feature, thresholds: &[f64], depth: usize) -> Found {
        let mut best: Found = None;
        for &at_most in thresholds {
            let is_below = |example: &&Example| example.features[figure as usize] <= at_most;
            let (below, above): (Vec<&Example>, Vec<&Example>) = examples.iter().partition(|example| is_below(example));
            if below.is_empty() || above.is_empty() {
                continue;
            }
            let Some((first, then)) = self.best(&below, depth - 1) else { continue };
            // The rest cannot make it better than what is known.
            if best.as_ref().is_some_and(|(least, _)| first >= *least) {
                continue;
            }
            let Some((second, otherwise)) = self.best(&above, depth - 1) else { continue };
            if best.as_ref().is_none_or(|(least, _)| first + second < *least) {
                let tree = Tree::If { figure, at_most, then: Box::new(then), otherwise: Box::new(otherwise) };
                best = Some((first + second, tree));
            }
        }
        best
    }

    /// Returns the best tree with one split. Each example is added up once, instead of once for each threshold.
    fn last_split(examples: &[&Example], figure: Feature, thresholds: &[f64]) -> Found {
        let policies = examples.first()?.logarithms.len();
        let mut parts = vec![(vec![0.0; policies], 0.0); thresholds.len() + 1];
        for example in examples {
            let (sums, weight) = &mut parts[thresholds.partition_point(|&one| one < example.features[figure as usize])];
            add(sums, example);
            *weight += example.weight;
        }
        // From the other end, what is above each threshold.
        let mut above = vec![(vec![0.0; policies], 0.0); thresholds.len() + 1];
        for at in (0..thresholds.len()).rev() {
            above[at] = together(&above[at + 1], &parts[at + 1]);
        }
        let (mut below, mut best) = ((vec![0.0; policies], 0.0), None::<(f64, Tree<usize>)>);
        for (at, &at_most) in thresholds.iter().enumerate() {
            below = together(&below, &parts[at]);
            if below.1 == 0.0 || above[at].1 == 0.0 {
                continue;
            }
            let (first, second) = (simplest_of(&below.0, below.1), simplest_of(&above[at].0, above[at].1));
            let (Some((first, then)), Some((second, otherwise))) = (first, second) else { continue };
            if best.as_ref().is_none_or(|(least, _)| first + second < *least) {
                let (then, otherwise) = (Box::new(Tree::Use(then)), Box::new(Tree::Use(otherwise)));
                best = Some((first + second, Tree::If { figure, at_most, then, otherwise }));
            }
        }
        best
    }
}

/// Sums of logarithms by policy, and the weight of the examples.
type Sums = (Vec<f64>, f64);

fn together(first: &Sums, second: &Sums) -> Sums {
    (first.0.iter().zip(&second.0).map(|(one, other)| one + other).collect(), first.1 + second.1)
}

/// How far policies are from the best: quantiles of p99 over the least p99.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Distance {
    /// Cells.
    pub(super) cells: usize,
    pub(super) median: f64,
    /// 90th percentile.
    pub(super) p90: f64,
}

impl Distance {
    /// Returns the quantiles of these quotients. `None`: there are none.
    pub(super) fn of(mut times: Vec<f64>) -> Option<Self> {
        times.sort_by(f64::total_cmp);
        let last = times.len().checked_sub(1)?;
        let quantile = |part: f64| times[(part * last as f64).round() as usize];
        Some(Self { cells: times.len(), median: quantile(0.5), p90: quantile(0.9) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: f64 = f64::INFINITY;

    /// Policy 0 is best up to a large flow of 0.5, 2 above it on few cores, and 1 on many.
    fn examples() -> Vec<Example> {
        let mut all = Vec::new();
        for largest in [0.1, 0.2, 0.4, 0.6, 0.8, 0.9] {
            for cores in [4.0, 16.0, 64.0] {
                for load in [0.5, 0.9] {
                    let logarithms = match (largest < 0.5, cores < 10.0) {
                        (true, _) => vec![0.0, 1.0, 1.0],
                        (false, true) => vec![3.0, 1.0, 0.0],
                        (false, false) => vec![3.0, 0.0, NO],
                    };
                    let features = [largest, 100.0, 0.0, load, 1.0, cores, 0.0];
                    all.push(Example { features, weight: 1.0 / 36.0, logarithms });
                }
            }
        }
        all
    }

    #[test]
    fn a_known_tree_is_found_again() {
        let examples = examples();
        let tree = learn(&examples.iter().collect::<Vec<_>>()).expect("a tree");
        for example in &examples {
            let policy = *tree.names(&example.features);
            assert_eq!(example.logarithms[policy], 0.0, "{tree:?}");
        }
        let Tree::If { figure: Feature::LargestFlow, at_most, then, .. } = &tree else { panic!("{tree:?}") };
        assert!((0.4..0.6).contains(at_most) && **then == Tree::Use(0), "{tree:?}");
        let named = tree.map(&|&policy| ["hrw", "fcfs", "jsq"][policy]);
        assert_eq!(*named.names(&[0.9, 1.0, 0.0, 0.5, 1.0, 64.0, 0.0]), "fcfs");
    }

    #[test]
    fn the_simpler_of_nearly_equal_policies_is_named_and_splits_must_be_worth_it() {
        let mut examples = examples();
        for (example, at) in examples.iter_mut().zip(0..) {
            example.logarithms = vec![if at % 2 == 0 { 0.04 } else { 0.0 }, 0.0, NO];
        }
        assert_eq!(learn(&examples.iter().collect::<Vec<_>>()), Some(Tree::Use(0)));
        assert_eq!(learn(&[]), None);
        let nobody = Example { logarithms: vec![NO; 3], ..examples[0].clone() };
        assert_eq!(learn(&[&nobody]), None);
    }

    #[test]
    fn one_split_is_the_best_of_all_thresholds() {
        let examples = examples();
        let all: Vec<&Example> = examples.iter().collect();
        let thresholds = thresholds(&all, Feature::LargestFlow);
        let by_sums = Search::last_split(&all, Feature::LargestFlow, &thresholds).expect("a split");
        let search = Search { thresholds: Default::default(), split_worth: 0.0 };
        let one_by_one = search.split(&all, Feature::LargestFlow, &thresholds, 1).expect("a split");
        assert!((by_sums.0 - one_by_one.0).abs() < 1e-12);
        assert_eq!(by_sums.1, one_by_one.1);
    }

    #[test]
    fn distances_are_quantiles() {
        let found = Distance::of((1..=11).rev().map(f64::from).collect()).expect("cells");
        assert_eq!((found.cells, found.median, found.p90), (11, 6.0, 10.0));
        assert_eq!(Distance::of(Vec::new()), None);
    }
}
