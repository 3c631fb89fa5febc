//! Times and slowdowns of packets over the load, policy by policy.

use humpyard_core::random::Seed;

use super::load::{BI1, BI2, EXP, ServiceTimes, poisson};
use super::machine::{ClientBy, RivalRun, RivalTrial};
use super::paper::{CORES, PAPER, SETTING, packets};
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Range, Row, Rows, Scale, Table, ascending, line, listed, rows, short,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, LinePlot};

/// Policies over loads.
pub(super) struct Slowdown;

rows! {
    COLUMNS, fn row(times: &str, load: f64, policy: &str, packets: usize, came: &RivalRun) {
        text times = times, real load = load, text policy = policy, integer packets = packets,
        real mean_us = came.mean(), real p99_us = came.sojourn(0.99), real slowdown_p99 = came.slowdown(0.99),
        real slowdown_p999 = came.slowdown(0.999), integer preemptions = came.preemptions,
    }
}

const TIMES: [ServiceTimes; 3] = [EXP, BI1, BI2];
/// Loads: a quick run has those with reference values.
const LOADS: (&[f64], &[f64]) = (&[0.5, 0.8, 0.9], &[0.5, 0.7, 0.8, 0.9, 0.95]);

const CENTRAL: &str = "share=fcfs";
const JSQ: &str = "steer=jsq";
const JBSQ: &str = "share=jbsq:n=2";
const PS: &str = "share=ps:idle=yield";
/// Of cores with as many packets, the lowest gets the next packet.
const PS_LOWEST: &str = "share=ps:idle=yield,ties=lowest";
const SHINJUKU: &str = "share=shinjuku:idle=yield";
const CONCORD: &str = "share=concord:idle=yield";
const DARC: &str = "share=darc";
/// Policies with a quantum whose cores keep a packet while no other waits, which is the default.
const STAYING: [&str; 3] = ["share=ps", "share=shinjuku", "share=concord"];
const POLICIES: [&str; 11] =
    [CENTRAL, JSQ, JBSQ, PS, PS_LOWEST, SHINJUKU, CONCORD, STAYING[0], STAYING[1], STAYING[2], DARC];
/// The policies with a quantum or with queues at cores.
const RIVALS: [&str; 10] = [JSQ, JBSQ, PS, PS_LOWEST, SHINJUKU, CONCORD, STAYING[0], STAYING[1], STAYING[2], DARC];

/// Completions before `darc` may reserve cores anew: a twentieth of the packets.
fn window(packets: usize) -> usize {
    packets / 20
}

/// Returns the distribution and the load of a part.
fn place(part: usize, scale: Scale) -> (ServiceTimes, f64) {
    let loads = scale.of(LOADS);
    (TIMES[part / loads.len()], loads[part % loads.len()])
}

impl Experiment for Slowdown {
    fn about(&self) -> About {
        About {
            id: "rivals-slowdown",
            figure: "reference values of RIVALS.md, and its last paragraph",
            title: "times and slowdowns of central queues, bounded queues, quanta and reserved cores over load",
            setting: SETTING,
            description: "A preemption takes no time. `idle=yield` preempts also where nothing waits, as the prototype \
                does; without it a core keeps its packet then. `ties=lowest` gives a packet to the lowest of the \
                cores with the fewest packets, and not to the one whose packets have had most quanta. Under `darc` \
                short and long packets are a client each, and cores are reserved anew after a twentieth of the \
                packets. A slowdown is the time of a packet from its arrival to its end over its service time.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        TIMES.len() * scale.of(LOADS).len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (times, load) = place(part, scale);
        let packets = packets(times, scale);
        let jobs = poisson(times, CORES, load, packets, seed);
        let darc = format!("{DARC}:window={}", window(packets));
        let run = |policy: &&str| {
            let trial = if *policy == DARC {
                RivalTrial { clients: ClientBy::Kinds, ..RivalTrial::of(&darc, CORES, &jobs) }
            } else {
                RivalTrial::of(policy, CORES, &jobs)
            };
            Ok(row(times.name(), load, policy, packets, &trial.run()?))
        };
        POLICIES.iter().map(run).collect()
    }

    fn figures(&self) -> &'static [Figure] {
        FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let of_times = |times: ServiceTimes| {
            let tail = |policy: &str| {
                let (times_name, loads) = (times.name(), loads(data));
                let about = format!(
                    "{times_name}, {policy}: slowdown of 1 in 1,000 packets at loads {}",
                    listed(loads.clone())
                );
                let means = loads.into_iter().map(|load| value(data, times, load, policy, "slowdown_p999"));
                Note::new(about, "", listed(means))
            };
            POLICIES.map(tail)
        };
        TIMES.into_iter().flat_map(of_times).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = |times: ServiceTimes, column: &str, label: &str| {
            let drawn = |policy: &str| {
                line(policy, loads(data).into_iter().map(|load| (load, value(data, times, load, policy, column))))
            };
            let svg = LinePlot {
                title: format!("{label}: {}", times.name()),
                description: "Means over the seeds.".to_owned(),
                x: Axis::linear("load", |load| format!("{load:.2}")),
                y: Axis::logarithmic(label, short),
                lines: POLICIES.into_iter().map(drawn).collect(),
            };
            (format!("{}-{column}", times.name()), svg.svg())
        };
        let both = |times| {
            [("p99_us", "time of 1 in 100 packets, in us"), ("slowdown_p999", "slowdown of 1 in 1,000 packets")]
                .map(|(column, label)| plot(times, column, label))
        };
        TIMES.into_iter().flat_map(both).collect()
    }
}

/// Returns the loads of the data, ascending.
fn loads(data: &Table) -> Vec<f64> {
    ascending(data.rows().numbers("load"))
}

/// Returns a column of the row of this policy.
fn value(data: &Table, times: ServiceTimes, load: f64, policy: &str, column: &str) -> f64 {
    data.rows_of("times", times.name()).of("policy", policy).at("load", load).mean(column)
}

/// Returns mean and p99 at .8, then at .9.
fn table(data: &Table, times: ServiceTimes, policy: &str) -> Vec<f64> {
    let at = |load| ["mean_us", "p99_us"].map(|column| value(data, times, load, policy, column));
    [0.8, 0.9].into_iter().flat_map(at).collect()
}

/// Returns a column at the three loads that the table has for `bi2`.
fn dispersed(data: &Table, policy: &str, column: &str) -> Vec<f64> {
    [0.5, 0.8, 0.9].map(|load| value(data, BI2, load, policy, column)).into()
}

/// Returns what the central queue has of this column over what the policy has, where service times differ.
fn gain(data: &Table, times: ServiceTimes, policy: &str, column: &str) -> f64 {
    value(data, times, 0.8, CENTRAL, column) / value(data, times, 0.8, policy, column)
}

/// Returns what a policy has of this column over what the central queue has with exponential times, at each load; the
/// least.
fn over_central(data: &Table, policy: &str, column: &str) -> f64 {
    let ratio = |load| value(data, EXP, load, policy, column) / value(data, EXP, load, CENTRAL, column);
    Range::of(loads(data).into_iter().map(ratio)).least
}

/// The lines of the table of a policy: exponential times, `bi1`, and mean and p99 of `bi2`.
macro_rules! lines {
    ($policy:expr, $exp:literal, $bi1:literal, $mean:literal, $p99:literal) => {
        [
            Figure { claim: $exp, of: |data| table(data, EXP, $policy) },
            Figure { claim: $bi1, of: |data| table(data, BI1, $policy) },
            Figure { claim: $mean, of: |data| dispersed(data, $policy, "mean_us") },
            Figure { claim: $p99, of: |data| dispersed(data, $policy, "p99_us") },
        ]
    };
}

const LINES: [[Figure; 4]; 6] = [
    lines!(CENTRAL, "rivals-central-exp", "rivals-central-bi1", "rivals-central-bi2-mean", "rivals-central-bi2-p99"),
    lines!(JSQ, "rivals-jsq-exp", "rivals-jsq-bi1", "rivals-jsq-bi2-mean", "rivals-jsq-bi2-p99"),
    lines!(JBSQ, "rivals-jbsq-exp", "rivals-jbsq-bi1", "rivals-jbsq-bi2-mean", "rivals-jbsq-bi2-p99"),
    lines!(PS, "rivals-ps-exp", "rivals-ps-bi1", "rivals-ps-bi2-mean", "rivals-ps-bi2-p99"),
    lines!(
        SHINJUKU,
        "rivals-shinjuku-exp",
        "rivals-shinjuku-bi1",
        "rivals-shinjuku-bi2-mean",
        "rivals-shinjuku-bi2-p99"
    ),
    lines!(CONCORD, "rivals-concord-exp", "rivals-concord-bi1", "rivals-concord-bi2-mean", "rivals-concord-bi2-p99"),
];

const HEADLINES: [Figure; 6] = [
    Figure {
        claim: "rivals-exp-central-mean",
        of: |data| RIVALS.map(|policy| over_central(data, policy, "mean_us")).into(),
    },
    Figure {
        claim: "rivals-exp-central-p99",
        of: |data| RIVALS.map(|policy| over_central(data, policy, "p99_us")).into(),
    },
    Figure { claim: "rivals-hundredfold-ps", of: |data| vec![gain(data, BI2, PS, "p99_us")] },
    Figure { claim: "rivals-magnitude-shinjuku", of: |data| vec![gain(data, BI2, SHINJUKU, "p99_us")] },
    Figure { claim: "rivals-magnitude-concord", of: |data| vec![gain(data, BI2, CONCORD, "p99_us")] },
    Figure {
        claim: "rivals-darc-tail",
        of: |data| [BI1, BI2].map(|times| gain(data, times, DARC, "slowdown_p999")).into(),
    },
];

const FIGURES: &[Figure] = {
    let mut all = [HEADLINES[0]; HEADLINES.len() + 4 * LINES.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < HEADLINES.len() {
            HEADLINES[at]
        } else {
            LINES[(at - HEADLINES.len()) / 4][(at - HEADLINES.len()) % 4]
        };
        at += 1;
    }
    &{ all }
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    #[test]
    fn outcomes_are_the_expected_ones() {
        let data = quick(&Slowdown);
        assert_expected(&Slowdown, &data);
        assert_eq!(Slowdown.plots(&data).len(), 6);
        // Where a preemption takes no time, it does not matter much whether packets are given back to an empty line.
        for (stays, yields) in STAYING.into_iter().zip([PS, SHINJUKU, CONCORD]) {
            let ratio = value(&data, BI1, 0.5, stays, "mean_us") / value(&data, BI1, 0.5, yields, "mean_us");
            assert!((ratio - 1.0).abs() < 0.02, "{stays}: {ratio}");
        }
    }
}
