//! Figures 8, 10, 12 and 14 on live threads that transcode.

use humpyard_core::random::Seed;
use humpyard_policies::registry::AnySteer;
use humpyard_transcode::Transcoder;

use super::super::paper::PAPER;
use super::super::shown::{Shown, text};
use super::films::{Stream, streams};
use super::host::{HostRun, Trial, run};
use crate::harness::{About, Experiment, Note, Plots, Range, Row, Rows, Scale, Table, group, rows, short, thread_time};
use humpyard_lab::LabError;
use humpyard_plot::statistics::Statistic;

/// The experiment.
#[derive(Debug)]
pub(super) struct LiveFilms;

/// The number of workers of the other live figures.
const WORKERS: usize = 4;
/// Number of groups on a worker at which the dispatcher waits.
const FULL: u32 = 16;
/// Groups per film (quick, full), and number of runs per policy.
const GROUPS: (u64, u64) = (8, 40);
const RUNS: (usize, usize) = (1, 5);
/// The policies that promise the order of a flow.
const IN_ORDER: [&str; 2] = ["conn", "hrw"];

rows! {
    COLUMNS, fn row(policy: &str, number: usize, same: usize, came: &HostRun) {
        let HostRun { summary, account, .. } = came;
        let utilization = Range::of(summary.cores_detail.iter().map(|core| core.utilization));
    } => {
        text policy = policy, integer run = number, integer streams = came.streams.len(),
        integer gops_in = account.gops_in, integer gops_out = account.gops_out,
        integer gops_dropped = account.dropped_in_all(), integer gops_as_by_one_worker = same,
        real gops_per_s = summary.throughput_pps, real out_of_order_percent = 100.0 * summary.order.fraction,
        real jitter_ms = summary.jitter_ns / 1e6, real utilization_min = utilization.least,
        real utilization_max = utilization.greatest, real delay_p99_ms = summary.delay_ns.p99 as f64 / 1e6,
        real decision_mean_ns = came.decision_mean_ns,
        real overhead_percent = 100.0 * came.decision_mean_ns / came.busy_mean_ns.max(1.0),
        integer processors = humpyard_runtime::processors().len(),
    }
}

const PLOTS: [Shown; 3] = [
    Shown::of("throughput", "groups of pictures per second", "gops_per_s", |number| format!("{number:.0}")),
    Shown::of("order", "of groups of pictures are done out of order", "out_of_order_percent", |percent| {
        format!("{percent:.1} %")
    }),
    Shown::of("jitter", "jitter", "jitter_ms", |ms| format!("{ms:.0} ms")),
];

/// Returns the names of all steering policies.
fn policies() -> Vec<&'static str> {
    AnySteer::entries().iter().map(|entry| entry.info.name).collect()
}

/// The output of one worker for each group, and the mean work of a group of each stream, in ns.
struct Alone {
    streams: Vec<Vec<Vec<u8>>>,
    estimates: Vec<u64>,
}

impl Alone {
    fn of(streams: &[Stream]) -> Result<Self, LabError> {
        let mut transcoder = Transcoder::new();
        let mut alone = Self { streams: Vec::new(), estimates: Vec::new() };
        for stream in streams {
            let begun = thread_time()?;
            let groups: Result<Vec<_>, _> = stream.work.iter().map(|work| work.done(&mut transcoder)).collect();
            alone.streams.push(groups.map_err(|failure| LabError::option(failure.to_string()))?);
            let taken = (thread_time()? - begun).as_nanos() as u64;
            alone.estimates.push(taken / stream.work.len().max(1) as u64);
        }
        Ok(alone)
    }

    /// Returns the number of groups that are equal byte for byte, in the same places.
    fn same(&self, came: &HostRun) -> usize {
        let pairs = self.streams.iter().flatten().zip(came.streams.iter().flatten());
        pairs.filter(|(alone, came)| came.as_ref().is_ok_and(|came| came == *alone)).count()
    }
}

/// Rejects a run that lost a group of pictures, changed one, or the order of a film whose policy promises it.
fn check(policy: &str, same: usize, came: &HostRun) -> Result<(), LabError> {
    let HostRun { summary, account, .. } = came;
    let is_whole = account.gops_in == account.gops_out && account.dropped_in_all() == 0;
    let is_same = same as u64 == account.gops_in;
    let is_in_order = !IN_ORDER.contains(&policy) || summary.order.fraction == 0.0;
    if is_whole && is_same && is_in_order {
        return Ok(());
    }
    Err(LabError::option(format!(
        "films under {policy}: a group of pictures was lost or changed, or left out of order"
    )))
}

/// Returns a row for every policy, with films of this many groups.
fn rows(groups: u64, number: usize, seed: Seed) -> Result<Vec<Row>, LabError> {
    let streams = streams(groups)?;
    let alone = Alone::of(&streams)?;
    let (streams, estimates) = (&streams[..], &alone.estimates[..]);
    let rows = policies().into_iter().map(|policy| {
        let came = run(&Trial { policy, streams, estimates, workers: WORKERS, full: FULL, seed })?;
        let same = alone.same(&came);
        check(policy, same, &came)?;
        Ok(row(policy, number, same, &came))
    });
    rows.collect()
}

impl Experiment for LiveFilms {
    fn about(&self) -> About {
        About {
            id: "ps-hrw-fig8-live",
            figure: "figures 8, 10, 12 and 14, live",
            title: "transcoding among live threads, under every steering policy",
            description: "20 films of 352x240 at 29.97 pictures a second, made here and coded in MPEG-1, MPEG-4 and \
                H.264, become those of table 3, five each, by libav. A group of pictures is half a second; it has the \
                length of its bytes, and its film is its flow. There are four workers, however many processors there \
                are, and the dispatcher waits while a worker has more than 16 groups, or all have as many. Groups of a \
                film come in order, those of different films in an order that is drawn. Jitter is that of the times at \
                which groups are done; they are put in order afterwards. An arrival is timed with all that the \
                mechanism does. Which group is done when is another each time: numbers are medians of runs, with their \
                range.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        scale.of(RUNS)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        rows(scale.of(GROUPS), part + 1, Seed(seed.0.wrapping_add(part as u64)))
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("run")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let overhead = ["ps-hrw", "gps-hrw"].map(|policy| {
            let about = format!("{policy}: an arrival over the time of a group of pictures, in %");
            Note::new(about, "less than 1 (paper)", text(&statistic(data, policy, "overhead_percent")))
        });
        let ratios = [("hrw", "11 % more (paper)"), ("gps-hrw", "more than 1 (paper)"), ("ap", "more than 1 (paper)")];
        let ratios = ratios.map(|(other, said)| {
            let values = |policy| statistic(data, policy, "gops_per_s").values;
            let ratio = values("ps-hrw").into_iter().zip(values(other)).map(|(one, other)| one / other);
            let ratio = Statistic::of(ratio.collect()).expect("every policy has every run");
            Note::new(format!("throughput of ps-hrw over that of {other}"), said, text(&ratio))
        });
        let of_each = policies().into_iter().map(|policy| {
            let found = |column| text(&statistic(data, policy, column));
            let all = format!(
                "{}; {}; {}; {} to {}",
                found("gops_per_s"),
                found("out_of_order_percent"),
                found("jitter_ms"),
                short(statistic(data, policy, "utilization_min").median),
                short(statistic(data, policy, "utilization_max").median),
            );
            let about =
                format!("{policy}: groups per second; out of order, in %; jitter in ms; time that workers are busy");
            Note::new(about, "rr has most out of order and most jitter (paper)", all)
        });
        overhead.into_iter().chain(ratios).chain(of_each).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = |shown: &Shown| {
            let bars = policies().into_iter().map(|policy| shown.bar(policy, |column| statistic(data, policy, column)));
            shown.plot("transcoding live", self.about().description, vec![group("films", bars)])
        };
        PLOTS.iter().map(plot).collect()
    }
}

/// Returns the statistic of a policy's column over the runs.
fn statistic(data: &Table, policy: &str, column: &str) -> Statistic {
    data.rows_of("policy", policy).statistic(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_steering_policy_transcodes_everything() {
        let data = Table::of(COLUMNS, rows(2, 1, Seed(1)).unwrap());
        assert_eq!(data.len(), policies().len());
        assert!(data.rows().all(|row| row.number("streams") == 20.0 && row.number("gops_in") == 40.0));
        assert_eq!(LiveFilms.notes(&data).len(), 5 + policies().len());
        assert_eq!(LiveFilms.plots(&data).len(), PLOTS.len());
    }
}
