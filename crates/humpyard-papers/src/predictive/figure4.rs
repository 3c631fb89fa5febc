//! Figure 4: the order in which six flows are served with known costs, with estimates, and without either.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::{LinearCost, Span};
use humpyard_core::id::ClientId;
use humpyard_core::measure::{Measured, Measurements};
use humpyard_core::mechanism::{Dispatch, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Weight, WorkUnit};
use humpyard_policies::registry::{AnyAllocate, AnySteer};
use humpyard_policies::spec::PolicySpec;
use humpyard_sim::{Driver, Feed, Packets, TimedCores};

use super::paper::PAPER;
use crate::harness::{About, Column, Experiment, Figure, Plots, Row, Rows, Scale, Table, columns, whole};
use humpyard_lab::LabError;
use humpyard_plot::LinePlot;

pub(super) struct Figure4;

const COLUMNS: &[Column] = columns![text discipline, integer place, integer flow, real start, real end];

/// Shares of the flows, in tenths.
const WEIGHTS: [u32; 6] = [5, 1, 1, 1, 1, 1];
/// Estimated time of a packet, in half units of time.
const ESTIMATE: u32 = 21;

/// A discipline: its name, its policy, whether times are known, the rule for ties, and the specification's
/// order.
type Discipline = (&'static str, &'static str, bool, Ties, &'static str);

const DISCIPLINES: [Discipline; 5] = [
    ("WF2Q+", "efq:total=10", true, Ties::Lowest, "1@0 2@10 1@20 3@30 1@41 4@51 1@63 5@73 1@86 6@96"),
    (
        "EFQ, ties to the lowest",
        "efq:total=10",
        false,
        Ties::Lowest,
        "1@0 2@10 1@20 3@30 1@41 4@51 1@63 5@73 1@86 6@96",
    ),
    ("EFQ, worst ties", "efq:total=10", false, Ties::Highest, "1@0 6@10 1@24 5@34 1@47 4@57 1@69 3@79 1@90 2@100"),
    (
        "EFQ without eligibility, worst ties",
        "efq:total=10,eligible=false",
        false,
        Ties::Highest,
        "1@0 1@10 1@20 1@30 1@40 6@50 5@64 4@77 3@89 2@100",
    ),
    ("SFQ, worst ties", "sfq", false, Ties::Highest, "6@0 5@14 4@27 3@39 2@50 1@60 1@70 1@80 1@90 1@100"),
];

/// Returns the times of packets, in half units of time: five of flow 1, and one of each of the others.
fn jobs() -> impl Iterator<Item = (u32, u64)> {
    [(0, 20); 5].into_iter().chain((1..6).map(|flow| (flow, 18 + 2 * u64::from(flow))))
}

fn rows((name, policy, known, ties, _): Discipline) -> Result<Vec<Row>, LabError> {
    let weights: Vec<Weight> = WEIGHTS.iter().filter_map(|&weight| Weight::new(weight)).collect();
    let setup = SchedulerConfig {
        cores: 1,
        flows: WEIGHTS.len(),
        clients: WEIGHTS.len(),
        packets: jobs().count(),
        weights,
        unit: WorkUnit::Nanoseconds,
        estimates: vec![LinearCost::BYTES],
        longest: 28,
        ties,
        ..SchedulerConfig::default()
    };
    let spec: PolicySpec = policy.parse()?;
    let share = || spec.build_share(&setup);
    let scheduler = Scheduler::<AnySteer, _, AnyAllocate>::new(&setup, None, None, share)?;
    let times: Vec<u64> = jobs().map(|(_, time)| time).collect();
    let packets = jobs().map(|(flow, time)| {
        let length = if known { time as u32 } else { ESTIMATE };
        Packet { client: ClientId(flow), length, ..Packet::default() }
    });
    let mut rows = Vec::new();
    let engine = TimedCores::new(1, |now, _, dispatch: &Dispatch<&Packet>| {
        let busy = Time::from_ns(times[dispatch.packet.sequence as usize]);
        let finished = now + busy;
        let half = |time: Time| time.as_ns() as f64 / 2.0;
        let flow = dispatch.packet.client.0 + 1;
        rows.push(vec![name.into(), (rows.len() + 1).into(), flow.into(), half(now).into(), half(finished).into()]);
        Span { finished, busy }
    });
    let measured = Measured::new(scheduler, Measurements::new(&setup));
    Driver::new(measured, Packets::new(packets, Feed::AtOnce), engine).drive()?;
    Ok(rows)
}

/// Returns the flows in the order in which a discipline serves them.
fn flows<'a>(data: &'a Table, discipline: &'a str) -> impl Iterator<Item = f64> + 'a {
    data.rows_of("discipline", discipline).map(|row| row.number("flow"))
}

static FIGURES: [Figure; 3] = [
    Figure {
        claim: "predictive-fig4-wf2q",
        // The paper names only flows 1 and 2.
        of: |data| flows(data, DISCIPLINES[0].0).map(|flow| if flow > 2.0 { 0.0 } else { flow }).collect(),
    },
    Figure { claim: "predictive-fig4-efq", of: |data| flows(data, DISCIPLINES[2].0).collect() },
    Figure {
        claim: "predictive-fig4-sfq",
        of: |data| {
            let first = flows(data, DISCIPLINES[4].0).position(|flow| flow == 1.0);
            first.map(|place| place as f64 + 1.0).into_iter().collect()
        },
    },
];

impl Experiment for Figure4 {
    fn about(&self) -> About {
        About {
            id: "predictive-fig4",
            figure: "figure 4",
            title: "the order in which six flows are served",
            description: "Flow 1 has half of an engine and five packets of 10, flows 2 to 6 a tenth and one packet of \
                10 to 14 each, all there at the start; estimates are 10.5. The paper's figure is an image: the \
                specification gives an example in its spirit, with the orders to be found.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        DISCIPLINES.len()
    }

    fn run(&self, part: usize, _: Scale, _: Seed) -> Result<Vec<Row>, LabError> {
        rows(DISCIPLINES[part])
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn plots(&self, data: &Table) -> Plots {
        let order = |(name, ..): Discipline| data.rows_of("discipline", name).line(name, "start", "flow");
        let plot = LinePlot {
            title: self.about().title.to_owned(),
            description: "Each point is a packet that is started.".to_owned(),
            x: whole("time"),
            y: whole("flow"),
            lines: DISCIPLINES.map(order).into(),
        };
        vec![("order".to_owned(), plot.svg())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::TableRow;
    use crate::harness::testing::quick;

    #[test]
    fn orders_are_those_of_the_specification() {
        let data = quick(&Figure4);
        assert_eq!(data.len(), 50);
        for (name, .., order) in DISCIPLINES {
            let word = |row: TableRow<'_>| format!("{}@{}", row.number("flow"), row.number("start"));
            let found = data.rows_of("discipline", name).map(word).collect::<Vec<_>>().join(" ");
            assert_eq!(found, order, "{name}");
        }
    }
}
