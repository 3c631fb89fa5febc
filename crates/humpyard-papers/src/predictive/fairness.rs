//! Figures 5 to 8: how much later packets are done than they would be by known costs.

use std::collections::BTreeMap;

use humpyard_core::cost::LinearCost;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;

use super::costs::{Machine, NAMES, noise};
use super::machine::{Came, Feed, Job, Trial, drawn, run};
use super::paper::{DRAWS, PAPER, drawn_seed};
use crate::harness::{
    About, Bound, Experiment, Plots, Range, Row, Rows, Scale, Table, TableRow, Verdict, group, line, mean,
    rank_correlation, rows, short, split,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, Bar, BarPlot, LinePlot, Svg};

/// Flows of each application, of each of four lengths so many.
const FLOWS_OF_A_LENGTH: usize = 2;
const LENGTHS: [[u32; 4]; 4] = [[40, 200, 576, 1500], [200, 200, 400, 600], [200, 400, 600, 800], [200, 400, 600, 800]];
const FLOWS: usize = 32;
/// Seconds of traffic on the paper's engines; on others as many packets.
const SECONDS: (f64, f64) = (2.0, 20.0);

const SFQ: &str = "sfq";
const EFQ: &str = "efq";
const KNOWN: &str = "wf2q+";
/// Policies by the names of the paper. What it calls WF2Q+ knows what packets take.
const POLICIES: [(&str, &str); 3] =
    [(KNOWN, "estimate=oracle/share=efq:total=32"), (EFQ, "efq:total=32"), (SFQ, "sfq")];

/// Loads, and whether all flows start at once.
const SETTINGS: [(f64, &str); 3] = [(0.99, "together"), (0.99, "random"), (0.95, "together")];
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

/// A figure: what is said of the same runs.
pub(super) struct Figure {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    verdicts: fn(&Table) -> Vec<Verdict>,
    /// Whether applications are shown, or flows by what their packets take.
    by_application: bool,
}

const SETTING: &str = "One engine serves 32 flows, eight of each application of table 1, with equal shares. Packets of \
    a flow have one length (forward 40, 200, 576 or 1,500 bytes; encrypt 200, 200, 400 or 600; compress and fec 200 to \
    800), come periodically so that the flow nearly fills its share, and take what table 1 says at speed 10 or, \
    `calibrated`, what services were measured to take here, 25 % more or less for compress and 5 % for the others. \
    `wf2q+` is EFQ with known costs. Misordering is the delay from arrival less the period, as in the paper, and how \
    much later the same packet is done than by `wf2q+`. A quick run has 2 s of the paper's engine, a full one 20 s. \
    The paper's measured times are not public.";

pub(super) static FIGURES: [Figure; 4] = [
    Figure {
        id: "predictive-fig5",
        figure: "figure 5",
        title: "delays of flows that are forwarded, by SFQ and EFQ",
        description: "The paper plots packets one by one; here are means and greatest delays.",
        verdicts: forward,
        by_application: true,
    },
    Figure {
        id: "predictive-fig6",
        figure: "figure 6",
        title: "delays of flows that are encrypted, by SFQ and EFQ",
        description: "As figure 5.",
        verdicts: encrypt,
        by_application: true,
    },
    Figure {
        id: "predictive-fig7",
        figure: "figure 7",
        title: "delays of flows with forward error correction, by SFQ and EFQ",
        description: "As figure 5.",
        verdicts: correct,
        by_application: true,
    },
    Figure {
        id: "predictive-fig8",
        figure: "figure 8",
        title: "misordering over what packets take",
        description: "SFQ is kind to flows whose packets take long, and EFQ to nobody.",
        verdicts: bias,
        by_application: false,
    },
];

/// A flow: which application, how long its packets are, what they take in the mean, in ns.
#[derive(Clone, Copy)]
struct Flow {
    application: usize,
    length: u32,
    work: u64,
}

impl Flow {
    /// By how much a packet may be off its estimate.
    fn error(self) -> f64 {
        self.work as f64 * noise(NAMES[self.application])
    }

    /// What its longest packet takes.
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

/// Time of 32 engines' worth of one packet of each flow, in ns.
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

/// Equation 13 for SFQ, equation 18 for the others, in ns: with one engine and all shares reserved.
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
    let finished = |came: &Came| {
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

/// What is common to them.
const ABOUT: About = About { setting: SETTING, columns: COLUMNS, ..About::of(PAPER) };

impl Experiment for Figure {
    fn about(&self) -> About {
        About { id: self.id, figure: self.figure, title: self.title, description: self.description, ..ABOUT }
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

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        (self.verdicts)(data)
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

/// Rows of one place.
#[derive(Clone, Copy)]
struct Place<'a> {
    data: &'a Table,
    machine: &'a str,
    load: f64,
    start: &'a str,
    draw: usize,
}

impl<'a> Place<'a> {
    fn rows(self, policy: &'a str) -> impl Rows<'a> {
        let rows = self.data.rows_of("policy", policy).of("machine", self.machine).of("start", self.start);
        rows.at("load", self.load).at("draw", self.draw as f64)
    }

    fn of(self, policy: &'a str, application: &'a str) -> impl Rows<'a> {
        self.rows(policy).of("application", application)
    }

    /// Over all packets of an application.
    fn mean(self, policy: &'a str, application: &'a str, column: &str) -> f64 {
        let packets = self.of(policy, application).total("packets");
        let sum: f64 = self.of(policy, application).map(|row| row.number("packets") * row.number(column)).sum();
        sum / packets
    }

    fn max(self, policy: &'a str, application: &'a str, column: &str) -> f64 {
        self.of(policy, application).range(column).greatest
    }
}

/// The places of a machine at this setting, one for each draw.
fn places<'a>(data: &'a Table, machine: Machine, (load, start): (f64, &'a str)) -> Vec<Place<'a>> {
    let draws = data.rows().most("draw") as usize;
    (1..=draws).map(|draw| Place { data, machine: machine.name(), load, start, draw }).collect()
}

const MISORDERED: &str = "misordering_max_us";

/// Figure 5.
fn forward(data: &Table) -> Vec<Verdict> {
    const FORWARD: &str = "forward";
    let mut verdicts = Vec::new();
    for setting in [SETTINGS[0], SETTINGS[1]] {
        let at = format!("load {}, flows start {}", setting.0, setting.1);
        let places = places(data, Machine::Paper, setting);
        let ratio = Range::of(
            places.iter().map(|place| place.max(SFQ, FORWARD, MISORDERED) / place.max(EFQ, FORWARD, MISORDERED)),
        );
        let claim = format!("{at}: greatest misordering of forwarded packets by SFQ over that by EFQ");
        verdicts.push(Verdict::bounded(claim, Bound::AtLeast(5.0), ratio));
        let bound = |place: &Place<'_>, policy| place.max(policy, FORWARD, "bound_us");
        let part = Range::of(places.iter().map(|place| place.max(SFQ, FORWARD, MISORDERED) / bound(place, SFQ)));
        let claim = format!("{at}: the same by SFQ, as a part of its bound");
        verdicts.push(Verdict::bounded(claim, Bound::Within(0.35, 1.0), part));
        // A packet of another flow cannot be interrupted.
        let longest = flows(Machine::Paper).into_iter().map(Flow::longest).fold(0.0, f64::max) / 1e3;
        let beyond =
            Range::of(places.iter().map(|place| place.max(EFQ, FORWARD, MISORDERED) - bound(place, EFQ) - longest));
        let claim = format!("{at}: the same by EFQ, beyond its bound and one packet, in us");
        verdicts.push(Verdict::bounded(claim, Bound::AtMost(0.0), beyond));
    }
    let bounds = places(data, Machine::Paper, SETTINGS[0]);
    let of = |policy| bounds[0].max(policy, FORWARD, "bound_us");
    verdicts.push(Verdict::measured(
        "bounds for forwarded packets by SFQ and EFQ, in us",
        "8218 and 1312 (paper), whose lengths and errors are not said",
        format!("{} and {}", short(of(SFQ)), short(of(EFQ))),
    ));
    verdicts.extend(SETTINGS.map(|setting| here(data, setting, FORWARD)));
    verdicts
}

/// What SFQ and EFQ come to with costs of today.
fn here(data: &Table, setting: (f64, &str), application: &str) -> Verdict {
    let places = places(data, Machine::Here, setting);
    let means = |policy| Range::of(places.iter().map(|place| place.mean(policy, application, "behind_known_mean_us")));
    let most = |policy| Range::of(places.iter().map(|place| place.max(policy, application, "behind_known_max_us")));
    Verdict::measured(
        format!(
            "calibrated costs, load {}, flows start {}: how much later {application} is done than by known costs, in \
                us, in the mean and at most",
            setting.0, setting.1
        ),
        "SFQ strays far from EFQ",
        format!("SFQ {} and {}, EFQ {} and {}", means(SFQ), most(SFQ), means(EFQ), most(EFQ)),
    )
}

/// Figure 6.
fn encrypt(data: &Table) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for setting in SETTINGS {
        let places = places(data, Machine::Paper, setting);
        let more = Range::of(places.iter().map(|place| {
            place.mean(SFQ, "encrypt", "misordering_mean_us") - place.mean(EFQ, "encrypt", "misordering_mean_us")
        }));
        let claim = format!(
            "load {}, flows start {}: mean delay of encryption by SFQ less that by EFQ, in us",
            setting.0, setting.1
        );
        verdicts.push(Verdict::bounded(claim, Bound::MoreThan(0.0), more));
    }
    let place = places(data, Machine::Paper, SETTINGS[0]);
    let of = |policy| {
        let period = |row: &TableRow<'_>| row.number("period_us");
        let row = place[0].of(policy, "encrypt").find(|row| row.number("bytes") == 200.0).expect("a flow of these");
        (row.number("misordering_mean_us") + period(&row)) / period(&row)
    };
    verdicts.push(Verdict::measured(
        "mean delay of packets of 200 bytes over their period, by SFQ and EFQ",
        "3 and 1 (paper)",
        format!("{} and {}", short(of(SFQ)), short(of(EFQ))),
    ));
    verdicts.push(here(data, SETTINGS[0], "encrypt"));
    verdicts
}

/// Figure 7.
fn correct(data: &Table) -> Vec<Verdict> {
    const BEHIND: &str = "behind_known_mean_us";
    let places = places(data, Machine::Paper, SETTINGS[0]);
    let sfq = Range::of(places.iter().map(|place| place.mean(SFQ, "fec", BEHIND)));
    let efq = Range::of(
        places.iter().map(|place| place.mean(EFQ, "fec", BEHIND).abs() / place.mean(SFQ, "fec", BEHIND).abs()),
    );
    let period = Range::of(places.iter().map(|place| place.mean(SFQ, "fec", "misordering_mean_us")));
    vec![
        Verdict::bounded(
            "load 0.99: by how much fec is done later by SFQ than by WF2Q+, in us",
            Bound::LessThan(0.0),
            sfq,
        ),
        Verdict::bounded("load 0.99: the same by EFQ, over that by SFQ", Bound::AtMost(0.1), efq),
        Verdict::bounded("load 0.99: mean delay of fec by SFQ less its period, in us", Bound::LessThan(0.0), period),
        here(data, SETTINGS[0], "fec"),
    ]
}

/// How much later than by known costs packets are done, by what they take: over the draws of a machine.
fn by_work(data: &Table, machine: Machine, policy: &str) -> Vec<(f64, f64)> {
    let mut kinds: BTreeMap<(String, u64), (f64, Vec<f64>)> = BTreeMap::new();
    for place in places(data, machine, SETTINGS[0]) {
        for row in place.rows(policy) {
            let key = (row.text("application").to_owned(), row.number("bytes") as u64);
            let kind = kinds.entry(key).or_insert_with(|| (row.number("estimate_us"), Vec::new()));
            kind.1.push(row.number("behind_known_mean_us"));
        }
    }
    let mut points: Vec<(f64, f64)> = kinds.into_values().map(|(work, behind)| (work, mean(&behind))).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

/// Figure 8.
fn bias(data: &Table) -> Vec<Verdict> {
    let of = |machine: Machine| {
        let name = machine.name();
        let places = places(data, machine, SETTINGS[0]);
        let of_application = |policy, application| {
            mean(
                &places.iter().map(|place| place.mean(policy, application, "behind_known_mean_us")).collect::<Vec<_>>(),
            )
        };
        let spread = |policy| Range::of(NAMES.iter().map(|application| of_application(policy, application))).span();
        let falls = Verdict::bounded(
            format!("{name} costs: rank correlation of misordering by SFQ with what packets take"),
            Bound::AtMost(-0.8),
            rank_correlation(&by_work(data, machine, SFQ)),
        );
        let flat = Verdict::bounded(
            format!("{name} costs: how far the means of applications lie apart by EFQ, over the same by SFQ"),
            Bound::AtMost(0.1),
            spread(EFQ) / spread(SFQ),
        );
        [falls, flat].map(|verdict| if machine == Machine::Paper { verdict } else { verdict.on_this_machine() })
    };
    MACHINES.into_iter().flat_map(of).collect()
}

fn bars(title: &str, data: &Table, machine: Machine) -> Svg {
    let places = places(data, machine, SETTINGS[0]);
    let bar = |policy: &'static str, application: &'static str| {
        let mean = places[0].mean(policy, application, "misordering_mean_us");
        let max = places[0].max(policy, application, MISORDERED);
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

    /// PREDICTIVE section 6 has 9425 and 1191 us.
    #[test]
    fn bounds_are_those_of_the_specification() {
        let flows = flows(Machine::Paper);
        assert_eq!(flows.len(), FLOWS);
        assert!((bound(SFQ, &flows, flows[0]) / 1e3 - 9425.0).abs() < 2.0, "{}", bound(SFQ, &flows, flows[0]));
        assert!((bound(EFQ, &flows, flows[0]) / 1e3 - 1191.0).abs() < 2.0, "{}", bound(EFQ, &flows, flows[0]));
        // The period of the forwarding flow.
        assert!((period(flows[0], 1.0) - 163_200.0).abs() < 1e-6);
    }
}
