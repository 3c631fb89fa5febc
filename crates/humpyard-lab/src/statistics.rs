//! The headline figures of runs, and their statistics over repetitions.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::result::RunResult;

pub use humpyard_plot::statistics::{CONFIDENCE, Interval, Kind, Statistic};

/// A figure that comparisons are made by.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its key in documents, with its unit.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// What it is measured in.
    pub kind: Kind,
    /// Finds it in a result; not a number where the run does not tell.
    of: fn(&RunResult) -> f64,
}

/// The headline figures, in the order in which they are shown.
pub const FIGURES: [Figure; 16] = [
    Figure { key: "throughput_pps", name: "throughput", kind: Kind::PacketRate, of: |run| run.summary.throughput_pps },
    Figure { key: "delay_p50_ns", name: "delay p50", kind: Kind::Time, of: |run| run.summary.delay_ns.p50 as f64 },
    Figure { key: "delay_p99_ns", name: "delay p99", kind: Kind::Time, of: |run| run.summary.delay_ns.p99 as f64 },
    Figure { key: "delay_max_ns", name: "delay max", kind: Kind::Time, of: |run| run.summary.delay_ns.max as f64 },
    Figure { key: "late_fraction", name: "late", kind: Kind::Fraction, of: |run| run.summary.late.fraction },
    Figure {
        key: "out_of_order_fraction",
        name: "out of order",
        kind: Kind::Fraction,
        of: |run| run.summary.order.fraction,
    },
    Figure { key: "jitter_ns", name: "jitter", kind: Kind::Time, of: |run| run.summary.jitter_ns },
    Figure { key: "jain", name: "fairness (Jain)", kind: Kind::Index, of: |run| run.summary.fairness.jain },
    Figure { key: "utilization_min", name: "least busy core", kind: Kind::Fraction, of: |run| utilization(run).0 },
    Figure { key: "utilization_max", name: "most busy core", kind: Kind::Fraction, of: |run| utilization(run).1 },
    Figure { key: "dispatcher_busy", name: "busiest dispatcher", kind: Kind::Fraction, of: dispatcher_busy },
    Figure { key: "cold_fraction", name: "cold", kind: Kind::Fraction, of: |run| run.summary.cold_fraction },
    Figure { key: "switches", name: "switches", kind: Kind::Count, of: |run| run.summary.switches as f64 },
    Figure { key: "moves_per_packet", name: "moved", kind: Kind::Fraction, of: moves_per_packet },
    Figure { key: "bytes_away_fraction", name: "bytes away", kind: Kind::Fraction, of: bytes_away },
    Figure { key: "dropped_fraction", name: "dropped", kind: Kind::Fraction, of: dropped },
];

impl Figure {
    /// The figure with this key.
    ///
    /// # Panics
    /// If there is none.
    pub fn find(key: &str) -> &'static Self {
        FIGURES.iter().find(|figure| figure.key == key).expect("a key of FIGURES")
    }

    /// This figure of a result; not a number where the run does not tell: `moves_per_packet` without a topology.
    pub fn of(&self, run: &RunResult) -> f64 {
        (self.of)(run)
    }
}

/// Utilization of the least and of the most busy core.
fn utilization(run: &RunResult) -> (f64, f64) {
    let busy = run.summary.cores_detail.iter().map(|core| core.utilization);
    let (least, most) = busy.fold((f64::INFINITY, 0.0f64), |(least, most), busy| (least.min(busy), most.max(busy)));
    (least.min(most), most)
}

/// The part of the time that the busiest dispatcher was busy; not a number in virtual time.
fn dispatcher_busy(run: &RunResult) -> f64 {
    run.measured.dispatchers.iter().map(|load| load.busy_fraction).fold(f64::NAN, f64::max)
}

/// Packets served by another core than the one before of their flow, where the run has a topology.
fn moves_per_packet(run: &RunResult) -> f64 {
    run.summary.cache.map_or(f64::NAN, |cache| cache.moves_per_packet)
}

/// Bytes touched away from the last second cache of their flow, likewise.
fn bytes_away(run: &RunResult) -> f64 {
    run.summary.cache.map_or(f64::NAN, |cache| cache.bytes_away_fraction)
}

/// Packets dropped, before service and by it, of those that came in.
fn dropped(run: &RunResult) -> f64 {
    if run.packets.arrived == 0 { 0.0 } else { run.packets.dropped_total() as f64 / run.packets.arrived as f64 }
}

/// Statistics over the repetitions of one policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyStatistics {
    /// Name of the policy, with its parameters. If other policies took over, all names in order.
    pub policy: String,
    /// Number of repetitions counted. A repetition that ended early counts only if there is no
    /// other.
    pub repetitions: u32,
    /// Statistics of the headline figures, by key. A figure that the runs do not have is left out.
    pub figures: BTreeMap<&'static str, Statistic>,
}

/// The headline figures of one run, for statistics over runs that other processes made.
#[derive(Clone, PartialEq, Debug)]
pub struct RunFigures {
    /// The policies of the run, as text.
    pub policy: String,
    /// Those of [`FIGURES`], in their order; not a number where the run does not tell.
    pub figures: Vec<f64>,
}

impl RunFigures {
    /// Finds the figures of a run.
    pub fn of(run: &RunResult) -> Self {
        Self { policy: run.policies_text(), figures: FIGURES.iter().map(|figure| figure.of(run)).collect() }
    }
}

impl PolicyStatistics {
    /// The statistics of these runs of one policy; none of none.
    pub(crate) fn of(runs: &[&RunResult]) -> Option<Self> {
        let whole: Vec<&RunResult> = runs.iter().copied().filter(|run| !run.interrupted).collect();
        let counted = if whole.is_empty() { runs } else { &whole };
        Self::of_figures(&counted.iter().map(|run| RunFigures::of(run)).collect::<Vec<_>>())
    }

    /// Returns the statistics of runs of one policy, none of which was ended early. `None`: there is none.
    pub fn of_figures(runs: &[RunFigures]) -> Option<Self> {
        let figure = |(at, figure): (usize, &Figure)| {
            let values: Vec<f64> = runs.iter().map(|run| run.figures[at]).collect();
            Statistic::of(values)
                .filter(|statistic| !statistic.values.iter().any(|value| value.is_nan()))
                .map(|statistic| (figure.key, statistic))
        };
        Some(Self {
            policy: runs.first()?.policy.clone(),
            repetitions: runs.len() as u32,
            figures: FIGURES.iter().enumerate().filter_map(figure).collect(),
        })
    }
}
