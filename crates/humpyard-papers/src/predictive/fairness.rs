//! Figures 5 to 8: how much later packets are done than with known costs.

use std::collections::BTreeMap;

use humpyard_core::cost::LinearCost;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;

use super::costs::{Machine, NAMES, noise};
use super::machine::{EngineRun, Feed, Job, Trial, drawn, run};
use super::paper::{DRAWS, PAPER, drawn_seed};
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Range, Row, Rows, Scale, Table, TableRow, group, line, mean,
    rank_correlation, rows, short, split,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, Bar, BarPlot, LinePlot, Svg};

/// Flows of each application per length; there are four lengths.
const FLOWS_OF_A_LENGTH: usize = 2;
const LENGTHS: [[u32; 4]; 4] = [[40, 200, 576, 1500], [200, 200, 400, 600], [200, 400, 600, 800], [200, 400, 600, 800]];
const FLOWS: usize = 32;
/// Seconds of traffic on the paper's engines (quick, full); on other machines, as many packets.
const SECONDS: (f64, f64) = (2.0, 20.0);

const SFQ: &str = "sfq";
const EFQ: &str = "efq";
const KNOWN: &str = "wf2q+";
/// Policies by the paper's names. Its WF2Q+ knows the times of packets.
const POLICIES: [(&str, &str); 3] =
    [(KNOWN, "estimate=oracle/share=efq:total=32"), (EFQ, "efq:total=32"), (SFQ, "sfq")];

/// Loads, and whether all flows start together.
const SETTINGS: [(f64, &str); 4] = [(0.99, "together"), (0.99, "random"), (0.95, "together"), (1.0, "together")];
const MACHINES: [Machine; 2] = [Machine::Paper, Machine::Here];

rows! {
    COLUMNS, fn row(place: (Machine, f64, &str, usize), policy: &str, own: Flow, bound_ns: f64, late: &[(f64, f64)]) {
        let (machine, load, start, draw) = place;
        let (misordering, behind): (Vec<f64>, Vec<f64>) = late.iter().copied().unzip();
        let most = |values: &[f64]| Range::of(values.iter().copied()).greatest;
    } => {
        text machine = machine.name(), real load = load, text start = start, integer draw = draw,
        text policy = policy, text application = NAMES[own.application], integer bytes = own.length,
        real estimate_us = own.work as f64 / 1e3, integer packets = late.len(),
        real period_us = period(own, load) / 1e3, real misordering_mean_us = mean(&misordering),
        real misordering_max_us = most(&misordering), real behind_known_mean_us = mean(&behind),
        real behind_known_max_us = most(&behind), real bound_us = bound_ns / 1e3,
    }
}

/// A figure: a view of the same runs.
pub(super) struct Fairness {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    figures: &'static [Figure],
    /// Whether it shows applications, instead of flows by the time of their packets.
    by_application: bool,
}

const SETTING: &str = "One engine serves 32 flows, eight of each application of table 1, with equal shares. Packets of \
    a flow have one length (forward 40, 200, 576 or 1,500 bytes; encrypt 200, 200, 400 or 600; compress and fec 200 to \
    800), come periodically so that the flow nearly fills its share, and take what table 1 says at speed 10 or, \
    `calibrated`, what services were measured to take here, 25 % more or less for compress and 5 % for the others. \
    `wf2q+` is EFQ with known costs. Misordering is the delay from arrival less the period, as in the paper, and how \
    much later the same packet is done than by `wf2q+`. A quick run has 2 s of the paper's engine, a full one 20 s. \
    The paper's measured times are not public.";

pub(super) static EXPERIMENTS: [Fairness; 4] = [
    Fairness {
        id: "predictive-fig5",
        figure: "figure 5",
        title: "delays of flows that are forwarded, by SFQ and EFQ",
        description: "The paper plots packets one by one; here are means and greatest delays.",
        figures: FORWARDED,
        by_application: true,
    },
    Fairness {
        id: "predictive-fig6",
        figure: "figure 6",
        title: "delays of flows that are encrypted, by SFQ and EFQ",
        description: "As figure 5.",
        figures: ENCRYPTED,
        by_application: true,
    },
    Fairness {
        id: "predictive-fig7",
        figure: "figure 7",
        title: "delays of flows with forward error correction, by SFQ and EFQ",
        description: "As figure 5.",
        figures: CORRECTED,
        by_application: true,
    },
    Fairness {
        id: "predictive-fig8",
        figure: "figure 8",
        title: "misordering over what packets take",
        description: "SFQ delays flows less if their packets take longer. So does EFQ, by less.",
        figures: BIAS,
        by_application: false,
    },
];

/// A flow: its application, the length of its packets, and their mean time in ns.
#[derive(Clone, Copy)]
struct Flow {
    application: usize,
    length: u32,
    work: u64,
}

impl Flow {
    /// Returns the greatest deviation of a packet's time from its estimate.
    fn error(self) -> f64 {
        self.work as f64 * noise(NAMES[self.application])
    }

    /// Returns the time of its longest packet.
    fn longest(self) -> f64 {
        self.work as f64 + self.error()
    }
}

fn flows(machine: Machine) -> Vec<Flow> {
    let flow = |application: usize, length: u32| Flow {
        application,
        length,
        work: machine.cost(NAMES[application]).work(length),
    };
    let lengths = (0..NAMES.len()).flat_map(|application| LENGTHS[application].map(|length| (application, length)));
    lengths.flat_map(|(application, length)| [flow(application, length); FLOWS_OF_A_LENGTH]).collect()
}

/// Returns the work of one packet of each flow, in ns.
fn round(machine: Machine) -> f64 {
    flows(machine).iter().map(|flow| flow.work as f64).sum()
}

/// The period of a flow at this load, in ns.
fn period(flow: Flow, load: f64) -> f64 {
    flow.work as f64 * FLOWS as f64 / load
}

fn jobs(machine: Machine, load: f64, together: bool, duration: f64, seed: Seed) -> Vec<Job> {
    let mut random = seed.stream("predictive/fairness");
    let mut jobs = Vec::new();
    for (client, flow) in flows(machine).into_iter().enumerate() {
        let period = period(flow, load);
        let begin = if together { 0.0 } else { period * random.below(1 << 20) as f64 / f64::from(1 << 20) };
        let packets = ((duration - begin) / period) as u64;
        jobs.extend((0..packets).map(|number| Job {
            arrival: Time::from_ns((begin + number as f64 * period) as u64),
            application: flow.application,
            client,
            length: flow.length,
            work: drawn(&mut random, machine, NAMES[flow.application], flow.length),
        }));
    }
    jobs.sort_by_key(|job| (job.arrival, job.client));
    jobs
}

/// Returns the bound, in ns, with one engine and all shares reserved: equation 13 for SFQ, equation 18 for the
/// others.
fn bound(policy: &str, flows: &[Flow], own: Flow) -> f64 {
    let flows_of_one = FLOWS as f64;
    if policy == SFQ {
        return flows.iter().map(|flow| flow.longest()).sum::<f64>() - flows_of_one * own.longest();
    }
    let error = |flow: Flow| if policy == KNOWN { 0.0 } else { flow.error() };
    let others = flows.iter().map(|&flow| error(flow)).sum::<f64>() - error(own);
    others - error(own) + flows_of_one * error(own)
}

fn rows(
    machine: Machine,
    (load, start): (f64, &str),
    draw: usize,
    seconds: f64,
    seed: Seed,
) -> Result<Vec<Row>, LabError> {
    let duration = seconds * 1e9 * round(machine) / round(Machine::Paper);
    let jobs = jobs(machine, load, start == "together", duration, seed);
    let costs: Vec<LinearCost> = NAMES.map(|name| LinearCost { cold: 0, ..machine.cost(name) }).to_vec();
    let came = |policy: &str| {
        run(&Trial { policy, engines: 1, costs: &costs, clients: FLOWS, jobs: &jobs, feed: Feed::Arrivals })
    };
    let finished = |came: &EngineRun| {
        let mut finished = vec![Time::ZERO; jobs.len()];
        came.served.iter().for_each(|served| finished[served.job] = served.finished);
        finished
    };
    let known = finished(&came(POLICIES[0].1)?);
    let flows = flows(machine);
    let mut rows = Vec::new();
    for (name, policy) in POLICIES {
        let finished = if name == KNOWN { known.clone() } else { finished(&came(policy)?) };
        // By application and length.
        let mut kinds: BTreeMap<(usize, u32), Vec<(f64, f64)>> = BTreeMap::new();
        for (number, job) in jobs.iter().enumerate() {
            let late = finished[number].since(job.arrival).as_ns() as f64 - period(flows[job.client], load);
            let behind = finished[number].as_ns() as f64 - known[number].as_ns() as f64;
            kinds.entry((job.application, job.length)).or_default().push((late / 1e3, behind / 1e3));
        }
        for ((application, length), late) in kinds {
            let own = flows.iter().find(|flow| (flow.application, flow.length) == (application, length));
            let own = *own.expect("a flow sent it");
            rows.push(row((machine, load, start, draw), name, own, bound(name, &flows, own), &late));
        }
    }
    Ok(rows)
}

/// The common description.
const ABOUT: About = About { setting: SETTING, columns: COLUMNS, ..About::of(PAPER) };

impl Experiment for Fairness {
    fn about(&self) -> About {
        About { id: self.id, figure: self.figure, title: self.title, description: self.description, ..ABOUT }
    }

    fn version(&self) -> u32 {
        2
    }

    fn rows_of(&self) -> &'static str {
        EXPERIMENTS[0].id
    }

    fn parts(&self, scale: Scale) -> usize {
        MACHINES.len() * scale.of(DRAWS)
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (machine, draw) = split(part, &MACHINES);
        let seed = drawn_seed(seed, "fairness", draw);
        let settings = SETTINGS.iter().map(|&setting| rows(machine, setting, draw, scale.of(SECONDS), seed));
        Ok(settings.collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("draw")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        SETTINGS.iter().flat_map(|&setting| NAMES.map(|application| here(data, setting, application))).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = |machine: Machine| {
            let svg =
                if self.by_application { bars(self.title, data, machine) } else { lines(self.title, data, machine) };
            (machine.name().to_owned(), svg)
        };
        MACHINES.map(plot).into()
    }
}

/// Returns the rows of a policy with these costs, in this setting.
fn rows_at<'a>(data: &'a Table, machine: Machine, (load, start): (f64, &'a str), policy: &'a str) -> impl Rows<'a> {
    data.rows_of("policy", policy).of("machine", machine.name()).of("start", start).at("load", load)
}

/// Returns the rows of a policy in the claims' setting: the paper's costs, flows that start together, load
/// 0.99.
fn claimed<'a>(data: &'a Table, policy: &'a str) -> impl Rows<'a> {
    rows_at(data, Machine::Paper, SETTINGS[0], policy)
}

/// Returns the mean of a figure over all packets of these rows.
fn mean_of<'a>(rows: impl Rows<'a>, figure: impl Fn(&TableRow<'a>) -> f64) -> f64 {
    let sum: f64 = rows.clone().map(|row| row.number("packets") * figure(&row)).sum();
    sum / rows.total("packets")
}

/// Returns the mean delay of a row's packets, relative to the period of their flow.
fn delay_in_periods(row: &TableRow<'_>) -> f64 {
    (row.number("misordering_mean_us") + row.number("period_us")) / row.number("period_us")
}

const MISORDERED: &str = "misordering_max_us";
const FORWARD: &str = "forward";

/// Returns the greatest misordering of forwarded packets.
fn forwarded(data: &Table, policy: &str) -> f64 {
    claimed(data, policy).of("application", FORWARD).range(MISORDERED).greatest
}

/// Returns the bound of that misordering.
fn forwarded_bound(data: &Table, policy: &str) -> f64 {
    claimed(data, policy).of("application", FORWARD).range("bound_us").greatest
}

/// Returns the greatest excess of misordering over its bound.
fn beyond_bound(data: &Table, policy: &str) -> Vec<f64> {
    let beyond = claimed(data, policy).map(|row| row.number(MISORDERED) - row.number("bound_us"));
    vec![Range::of(beyond).greatest]
}

/// Returns the greatest delay of an application's packets.
fn greatest_delay(data: &Table, policy: &str, application: &str) -> f64 {
    let delays = claimed(data, policy).of("application", application);
    Range::of(delays.map(|row| row.number(MISORDERED) + row.number("period_us"))).greatest
}

/// Figure 5, and the bounds of all flows.
const FORWARDED: &[Figure] = &[
    Figure { claim: "predictive-eq13-bound", of: |data| beyond_bound(data, SFQ) },
    Figure { claim: "predictive-eq18-bound", of: |data| beyond_bound(data, EFQ) },
    Figure {
        claim: "predictive-fig5-bounds",
        of: |data| [SFQ, EFQ].map(|policy| forwarded_bound(data, policy)).into(),
    },
    Figure { claim: "predictive-fig5-maxima", of: |data| [SFQ, EFQ].map(|policy| forwarded(data, policy)).into() },
    Figure { claim: "predictive-fig5-order", of: |data| vec![forwarded(data, SFQ) / forwarded(data, EFQ)] },
    Figure {
        claim: "predictive-efq-lower",
        of: |data| NAMES.map(|name| greatest_delay(data, SFQ, name) / greatest_delay(data, EFQ, name)).into(),
    },
    Figure {
        claim: "predictive-fig5-sfq-near-bound",
        of: |data| vec![forwarded(data, SFQ) / forwarded_bound(data, SFQ)],
    },
];

/// Returns the delay of encrypted packets of 200 bytes.
fn encrypted(data: &Table, policy: &str) -> Vec<f64> {
    claimed(data, policy).of("application", "encrypt").at("bytes", 200.0).map(|row| delay_in_periods(&row)).collect()
}

/// Figure 6.
const ENCRYPTED: &[Figure] = &[
    Figure { claim: "predictive-fig6-sfq", of: |data| encrypted(data, SFQ) },
    Figure { claim: "predictive-fig6-efq", of: |data| encrypted(data, EFQ) },
];

/// Returns the delay of an application's packets, in periods of their flows.
fn delay(data: &Table, policy: &str, application: &str) -> f64 {
    mean_of(claimed(data, policy).of("application", application), delay_in_periods)
}

/// Figure 7.
const CORRECTED: &[Figure] = &[
    Figure { claim: "predictive-fig7-sfq", of: |data| vec![delay(data, SFQ, "fec")] },
    Figure { claim: "predictive-fig7-efq", of: |data| vec![delay(data, EFQ, "fec")] },
];

/// Returns the rank correlation of misordering with the packet time of a flow.
fn bias(data: &Table, policy: &str) -> f64 {
    let point = |row: TableRow<'_>| (row.number("estimate_us"), row.number("misordering_mean_us"));
    rank_correlation(&claimed(data, policy).map(point).collect::<Vec<_>>())
}

/// Figure 8, and the mean over figures 5 to 8.
const BIAS: &[Figure] = &[
    Figure {
        claim: "predictive-efq-mean-zero",
        of: |data| NAMES.map(|application| delay(data, EFQ, application)).into(),
    },
    Figure { claim: "predictive-fig8-sfq-bias", of: |data| vec![bias(data, SFQ)] },
    Figure { claim: "predictive-fig8-efq-no-bias", of: |data| vec![bias(data, EFQ)] },
    Figure {
        claim: "predictive-fig8-efq-flat",
        of: |data| {
            let span = |policy| claimed(data, policy).range("misordering_mean_us").span();
            vec![span(SFQ) / span(EFQ)]
        },
    },
];

/// Notes how much later than with known costs packets are done, with the costs of the development machine.
fn here(data: &Table, setting: (f64, &str), application: &str) -> Note {
    let found = |policy: &str| {
        let rows = || rows_at(data, Machine::Here, setting, policy).of("application", application);
        let mean = mean_of(rows(), |row| row.number("behind_known_mean_us"));
        format!("{policy} {} and {}", short(mean), short(rows().range("behind_known_max_us").greatest))
    };
    let about = format!(
        "calibrated costs, load {}, flows start {}: how much later {application} is done than by known costs, in us, \
            in the mean and at most",
        setting.0, setting.1
    );
    Note::new(about, "", format!("{}, {}", found(SFQ), found(EFQ)))
}

/// Returns the misordering of the first draw, by packet time.
fn by_work(data: &Table, machine: Machine, policy: &str) -> Vec<(f64, f64)> {
    let rows = rows_at(data, machine, SETTINGS[0], policy).at("draw", 1.0);
    let point = |row: TableRow<'_>| (row.number("estimate_us"), row.number("misordering_mean_us"));
    let mut points: Vec<(f64, f64)> = rows.map(point).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

fn bars(title: &str, data: &Table, machine: Machine) -> Svg {
    let bar = |policy: &'static str, application: &'static str| {
        let rows = || rows_at(data, machine, SETTINGS[0], policy).of("application", application).at("draw", 1.0);
        let mean = mean_of(rows(), |row| row.number("misordering_mean_us"));
        let max = rows().range(MISORDERED).greatest;
        Bar { name: policy.to_owned(), value: mean, error: Some((mean, max.max(mean))) }
    };
    let bars = |application: &'static str| group(application, POLICIES.map(|(policy, _)| bar(policy, application)));
    BarPlot {
        title: format!("{title}: {} costs", machine.name()),
        description: "Mean and greatest misordering (delay less period), all flows starting together, load 0.99."
            .to_owned(),
        value: Axis::linear("misordering, in us", short),
        groups: NAMES.map(bars).into(),
    }
    .svg()
}

fn lines(title: &str, data: &Table, machine: Machine) -> Svg {
    LinePlot {
        title: format!("{title}: {} costs", machine.name()),
        description: "How much later than by known costs packets are done, in the mean; load 0.99.".to_owned(),
        x: Axis::logarithmic("what a packet takes, in us", short),
        y: Axis::linear("later than by wf2q+, in us", short),
        lines: [SFQ, EFQ].map(|policy| line(policy, by_work(data, machine, policy))).into(),
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PREDICTIVE section 6 states 9425 and 1191 us.
    #[test]
    fn bounds_are_those_of_the_specification() {
        let flows = flows(Machine::Paper);
        assert_eq!(flows.len(), FLOWS);
        assert!((bound(SFQ, &flows, flows[0]) / 1e3 - 9425.0).abs() < 2.0, "{}", bound(SFQ, &flows, flows[0]));
        assert!((bound(EFQ, &flows, flows[0]) / 1e3 - 1191.0).abs() < 2.0, "{}", bound(EFQ, &flows, flows[0]));
        // The period of the forwarding flow.
        assert!((period(flows[0], 1.0) - 163_200.0).abs() < 1e-6);
    }

    /// SFQ deviates further than EFQ, which keeps to its bound except for one packet that cannot be
    /// interrupted.
    #[test]
    fn sfq_strays_further_than_efq() {
        let data = Table::of(COLUMNS, rows(Machine::Paper, SETTINGS[0], 1, SECONDS.0, Seed(1)).unwrap());
        assert!(forwarded(&data, SFQ) >= 5.0 * forwarded(&data, EFQ));
        assert!((0.35..=1.0).contains(&(forwarded(&data, SFQ) / forwarded_bound(&data, SFQ))));
        let longest = flows(Machine::Paper).into_iter().map(Flow::longest).fold(0.0, f64::max) / 1e3;
        assert!(forwarded(&data, EFQ) <= forwarded_bound(&data, EFQ) + longest);
    }
}
