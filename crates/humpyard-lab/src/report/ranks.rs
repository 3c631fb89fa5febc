//! Cores by how busy they were: the busiest of each run beside the busiest of the others.

use humpyard_core::measure::CoreSummary;

use crate::statistics::Statistic;
use crate::{Comparison, RunResult};

/// The cores of a run, from the busiest.
pub(super) fn cores(run: &RunResult) -> Vec<(usize, &CoreSummary)> {
    let mut cores: Vec<(usize, &CoreSummary)> = run.summary.cores_detail.iter().enumerate().collect();
    cores.sort_by(|(_, a), (_, b)| b.utilization.total_cmp(&a.utilization));
    cores
}

/// A figure of the busiest core of each run, of the second, and so on, over the runs of a policy: so one is seen that
/// is overloaded in every run, though not always the same one.
pub(super) fn by_rank(comparison: &Comparison, policy: usize, of: impl Fn(&CoreSummary) -> f64) -> Vec<Statistic> {
    let runs: Vec<_> = comparison.runs_of(policy).map(cores).collect();
    let count = runs.iter().map(Vec::len).max().unwrap_or(0);
    let figure = |rank: usize| Statistic::of(runs.iter().filter_map(|run| Some(of(run.get(rank)?.1))).collect());
    (0..count).filter_map(figure).collect()
}

/// How busy the busiest core of each run was, the second, and so on, over the runs of a policy.
pub(super) fn utilization(comparison: &Comparison, policy: usize) -> Vec<Statistic> {
    by_rank(comparison, policy, |core| core.utilization)
}
