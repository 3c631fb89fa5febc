//! The plots of a report.

use std::collections::BTreeMap;

use super::ranks;
use crate::Comparison;
use crate::figures::{figure, percent, time};
use crate::plot::{Axis, Bar, BarGroup, BarPlot, LinePlot};
use crate::result::RunResult;
use crate::statistics::{Figure, Kind, PolicyStatistics};

/// Machines of more cores are shown by their least and most busy one.
const CORES_MAX: usize = 16;

/// The distribution of the delay of all packets, of all repetitions together.
pub(super) fn delay(comparison: &Comparison) -> LinePlot {
    distribution(comparison, "Delay of all packets", |run| Some(&run.summary.delay_counts))
}

/// The same for one service, by its number.
pub(super) fn service_delay(comparison: &Comparison, service: usize, name: &str) -> LinePlot {
    distribution(comparison, &format!("Delay of service {name}"), |run| {
        run.summary.services.get(service).map(|service| &service.delay_counts)
    })
}

fn distribution(
    comparison: &Comparison,
    title: &str,
    counts: impl Fn(&RunResult) -> Option<&Vec<(u64, u64)>>,
) -> LinePlot {
    let description = "Distribution functions: for each delay, the part of the packets that had at most that delay. A line \
                       further to the left is a policy with shorter delays. The table below has the numbers.";
    let axis = Axis::logarithmic("delay, from arrival to completion (logarithmic)", time);
    let mut plot = LinePlot::distributions(title, description, axis);
    for (index, policy) in comparison.statistics.iter().enumerate() {
        let mut pooled: BTreeMap<u64, u64> = BTreeMap::new();
        for &(value, count) in comparison.runs_of(index).filter_map(&counts).flatten() {
            *pooled.entry(value).or_default() += count;
        }
        plot.add_distribution(&policy.policy, &pooled.into_iter().collect::<Vec<_>>());
    }
    plot
}

/// How one figure compares: a bar for each policy, with its confidence interval. `None`: it is 0 everywhere.
pub(super) fn bars(policies: &[PolicyStatistics], of: &Figure) -> Option<BarPlot> {
    let bar = |policy: &PolicyStatistics| {
        let statistic = &policy.figures[of.key];
        let error = statistic.confidence.filter(|interval| interval.low < interval.high);
        Bar { name: String::new(), value: statistic.median, error: error.map(|interval| (interval.low, interval.high)) }
    };
    let group = |policy: &PolicyStatistics| BarGroup { name: policy.policy.clone(), bars: vec![bar(policy)] };
    let said: Vec<String> = policies
        .iter()
        .map(|policy| format!("{} {}", policy.policy, figure(of.kind, policy.figures[of.key].median)))
        .collect();
    policies.iter().any(|policy| policy.figures[of.key].max > 0.0).then(|| BarPlot {
        title: of.name.to_owned(),
        description: format!("A bar for each policy: {}.", said.join(", ")),
        value: Axis::linear(format!("{} ({})", of.name, unit(of.kind)), format(of.kind)),
        groups: policies.iter().map(group).collect(),
    })
}

/// How busy the cores were, from the busiest of each run: the median of the repetitions, and their range.
pub(super) fn utilization(comparison: &Comparison) -> BarPlot {
    let cores = comparison.runs.iter().map(|run| run.summary.cores_detail.len()).max().unwrap_or(0);
    let group = |(index, policy): (usize, &PolicyStatistics)| {
        let bars = if cores <= CORES_MAX { by_rank(comparison, index) } else { extremes(policy) };
        BarGroup { name: policy.policy.clone(), bars }
    };
    BarPlot {
        title: "Utilization of cores, from the busiest of each run".to_owned(),
        description: "For each policy the part of the time that the busiest core of a run was busy, the second, and so on: the \
                      median of the repetitions and their range. Bars of equal length are cores that share the work equally. \
                      The table of cores has the numbers."
            .to_owned(),
        value: Axis::linear("time busy", percent).from_to(0.0, 1.0),
        groups: comparison.statistics.iter().enumerate().map(group).collect(),
    }
}

fn by_rank(comparison: &Comparison, policy: usize) -> Vec<Bar> {
    ranks::utilization(comparison, policy)
        .into_iter()
        .enumerate()
        .map(|(rank, utilization)| Bar {
            name: if rank == 0 { "busiest".to_owned() } else { format!("{}.", rank + 1) },
            value: utilization.median,
            error: (utilization.min < utilization.max).then_some((utilization.min, utilization.max)),
        })
        .collect()
}

fn extremes(policy: &PolicyStatistics) -> Vec<Bar> {
    let bar = |(name, key): (&str, &str)| {
        let statistic = &policy.figures[key];
        let error = (statistic.min < statistic.max).then_some((statistic.min, statistic.max));
        Bar { name: name.to_owned(), value: statistic.median, error }
    };
    [("least busy core", "utilization_min"), ("most busy core", "utilization_max")].map(bar).into()
}

fn unit(kind: Kind) -> &'static str {
    match kind {
        Kind::PacketRate => "packets per second",
        Kind::Time => "time",
        Kind::Fraction => "part of all packets",
        Kind::Index => "1 is equal",
        Kind::Count => "times",
    }
}

fn format(kind: Kind) -> fn(f64) -> String {
    match kind {
        Kind::PacketRate => |value| figure(Kind::PacketRate, value),
        Kind::Time => |value| figure(Kind::Time, value),
        Kind::Fraction => |value| figure(Kind::Fraction, value),
        Kind::Index => |value| figure(Kind::Index, value),
        Kind::Count => |value| figure(Kind::Count, value),
    }
}
