//! Table 3: traffic at the rates of the paper's five traces.

use humpyard_core::random::Seed;

use super::figures::{COLUMNS, row};
use super::paper::{AE, COHORT_E, CORES, DRAWS, EAGER, ENVELOPE, EVEREST, LATE, PAPER, STATIC};
use super::places::traffic_of;
use super::trial::{MEAN_US, Point, Traffic};
use super::{claims, notes};
use crate::harness::{About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, bar_of, group, short};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, BarPlot};

/// A trace: its names, one for each model of its packets, its packets per ms, and its cores.
struct Trace {
    names: [&'static str; 2],
    per_ms: f64,
    cores: usize,
}

/// The models.
const MODELS: [&str; 2] = ["onoff", "flowb"];

const fn trace(names: [&'static str; 2], per_ms: f64, cores: usize) -> Trace {
    Trace { names, per_ms, cores }
}

const TRACES: [Trace; 5] = [
    trace(["UNC-2.5 as onoff", "UNC-2.5 as flowb"], 707.0, CORES),
    trace(["UNC-1 as onoff", "UNC-1 as flowb"], 360.0, CORES),
    trace(["UNC-10 as onoff", "UNC-10 as flowb"], 2_840.0, 64),
    trace(["UNC-58 as onoff", "UNC-58 as flowb"], 428.0, CORES),
    trace(["UNC-51 as onoff", "UNC-51 as flowb"], 506.0, CORES),
];

const POLICIES: [&str; 7] = [STATIC, EAGER[0], COHORT_E, AE, LATE, EVEREST, ENVELOPE];
/// Packets of a run; a quick run lasts at least this many ms. A full run has one draw with more packets.
const PACKETS: (u64, u64) = (60_000, 3_000_000);
const QUICK_MS: f64 = 100.0;
const LONG_PACKETS: u64 = 30_000_000;
/// Most packets waiting: beyond this number, each packet exceeds the tolerated delay many times over.
const ROOM: u64 = 130_000;

/// Table 3.
pub(super) struct Traces;

impl Experiment for Traces {
    fn about(&self) -> About {
        About {
            id: "everest-traces",
            figure: "table 3",
            title: "the rates of five traces",
            description: "The traces are not public. Models of the six services of table 2 stand for them, at their \
                rates: 707 packets/ms (UNC-2.5), 360 (UNC-1), 2,840 (UNC-10, on 64 cores), 428 (UNC-58) and 506 \
                (UNC-51), on 16 cores but for UNC-10. D and t_sw are 2 ms. 130,000 packets may wait; one that comes \
                then is lost, and late. A quick run has 60,000 packets, and as many as come in 100 ms at least, three \
                times; a full one has 3,000,000 ten times, and 30,000,000 once.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        TRACES.len() * MODELS.len() * scale.pick(DRAWS.0, DRAWS.1 + 1)
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (trace, model) = (&TRACES[part % TRACES.len()], part / TRACES.len() % MODELS.len());
        let draw = part / (TRACES.len() * MODELS.len());
        let quick = PACKETS.0.max((QUICK_MS * trace.per_ms) as u64);
        let long = if draw < DRAWS.1 { PACKETS.1 } else { LONG_PACKETS };
        let packets = scale.pick(quick, long);
        let traffic = Traffic {
            profile: MODELS[model],
            load: trace.per_ms * MEAN_US / 1e3 / CORES as f64,
            packets,
            room: ROOM,
            seed: Seed(seed.stream(&format!("everest-traces/{draw}")).bits()),
            scale: 1.0,
        };
        let point = Point { cores: trace.cores, tolerance_us: 2_000, switch_us: 2_000, scale: 1.0 };
        let guarantees = traffic.guarantees(point)?;
        let named = Traffic { profile: trace.names[model], ..traffic };
        let rows = POLICIES.iter().map(|policy| {
            let came = traffic.run(policy, point, &guarantees)?;
            Ok(row(&named, point, policy, draw + 1, &came))
        });
        rows.collect()
    }

    fn figures(&self) -> &'static [Figure] {
        claims::TRACES
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("draw")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        notes::traces(data)
    }

    fn plots(&self, data: &Table) -> Plots {
        let bar = |trace: &str, policy: &str| {
            bar_of(policy, &data.rows_of("policy", policy).of("traffic", trace).statistic("late_percent"))
        };
        let groups = traffic_of(data).into_iter().map(|(trace, _)| {
            let bars = POLICIES.map(|policy| bar(&trace, policy));
            group(trace, bars)
        });
        let plot = BarPlot {
            title: "late packets at the rates of table 3".to_owned(),
            description: self.about().description.to_owned(),
            value: Axis::linear("late packets, in %", short),
            groups: groups.collect(),
        };
        vec![("late-percent".to_owned(), plot.svg())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::parts;

    /// Table 3 and the mix keep this many cores busy: 9.7 of 16, 4.9, 39 of 64, 5.9 and 7.
    #[test]
    fn rates_keep_as_many_cores_busy_as_is_worked_out() {
        let busy = TRACES.each_ref().map(|trace| (trace.per_ms * MEAN_US / 1e3 * 10.0).round() / 10.0);
        assert_eq!(busy, [9.7, 5.0, 39.1, 5.9, 7.0]);
    }

    #[test]
    fn a_part_is_one_trace_under_every_policy() {
        let data = parts(&Traces, [1]);
        assert_eq!(data.len(), POLICIES.len());
        assert!(data.rows().all(|row| row.text("traffic") == "UNC-1 as onoff" && row.number("packets") == 60_000.0));
        assert_eq!(data.rows_of("policy", STATIC).total("switches"), 0.0);
    }
}
