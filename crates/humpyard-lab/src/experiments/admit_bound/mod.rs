//! Admission holds: flows that keep to what they reserved keep the delay that `humpyard admit` printed, while others overload.

mod live;
mod simulated;
mod taken;
mod traffic;

use super::predictive::PAPER;
use super::{Column, Experiment, Row, Table, TableRow, short};
use crate::LabError;
use crate::admit::{Admission, FlowVerdict, Reservation};
use crate::config::RunConfig;
use crate::plot::{Axis, Line, LinePlot, Svg};
use crate::rule::RuleChoice;
use traffic::Sender;

const SETTING: &str = "Flows ask for engines at random and are admitted in turn (5 % margin, all packets cold); of those that are, every other keeps to \
     its reservation and sends all of it: a burst at once, then at its rate, then nothing until it may send a burst again. The others \
     send three times what they reserved, all the time. Weights are those that `humpyard admit` prints. No client has more \
     than 256 packets waiting.";

/// Those that keep to their reservation, and those that do not.
const KEEPS: &str = "as reserved";
const OVERLOADS: &str = "three times";
/// Most packets of a client that wait: more than any burst.
const CLIENT_LIMIT: u32 = 256;

const COLUMNS: [Column; 12] = [
    Column::integer("cores"),
    Column::integer("draw"),
    Column::text("policy"),
    Column::text("flow"),
    Column::text("service"),
    Column::text("sends"),
    Column::real("engines"),
    Column::real("bound_us"),
    Column::real("delay_max_us"),
    Column::real("delay_p50_us"),
    Column::integer("packets"),
    Column::integer("beyond"),
];

/// Where a run took place.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Place {
    cores: usize,
    draw: usize,
}

/// What became of one flow.
#[derive(Clone, Copy, Debug)]
struct Came {
    max_ns: u64,
    p50_ns: u64,
    packets: u64,
    beyond: u64,
}

/// The flows that are admitted, of which every other overloads.
fn senders(admission: &Admission, ports: u16) -> Vec<(Sender, FlowVerdict)> {
    let admitted = admission.flows.iter().filter(|flow| flow.admitted).enumerate();
    let sender = |(id, verdict): (usize, &FlowVerdict)| {
        let flow: Reservation = verdict.reservation.clone();
        let port = 5_000 + id as u16 * ports;
        (Sender { flow, keeps: id.is_multiple_of(2), port, ports }, verdict.clone())
    };
    admitted.map(sender).collect()
}

/// The bound of a flow that is admitted, at its engines, in ns.
fn bound_ns(verdict: &FlowVerdict) -> f64 {
    verdict.bound_ns.map_or(f64::NAN, |bound| bound.engines)
}

fn row(place: Place, policy: &str, (sender, verdict): &(Sender, FlowVerdict), came: Came) -> Row {
    vec![
        place.cores.into(),
        place.draw.into(),
        policy.into(),
        verdict.reservation.name.as_str().into(),
        verdict.reservation.service.as_str().into(),
        if sender.keeps { KEEPS } else { OVERLOADS }.into(),
        verdict.engines.into(),
        (bound_ns(verdict) / 1e3).into(),
        (came.max_ns as f64 / 1e3).into(),
        (came.p50_ns as f64 / 1e3).into(),
        came.packets.into(),
        came.beyond.into(),
    ]
}

/// A rule for packets of no flow, of which there are none: without one a classifier is not complete.
fn rest(config: &RunConfig) -> Result<RuleChoice, LabError> {
    let service = config.services.last().map_or("forward", |service| &service.name);
    format!("protocol=any,service={service}").parse()
}

/// How many packets took longer than the bound, of a distribution by the most that each part of it took.
fn beyond(counts: &[(u64, u64)], bound_ns: f64) -> u64 {
    counts.iter().filter(|&&(most, _)| most as f64 > bound_ns).map(|&(_, count)| count).sum()
}

/// The flows that keep to their reservation, under this policy.
fn keeping<'a>(data: &'a Table, policy: &'a str) -> impl Iterator<Item = TableRow<'a>> + Clone {
    data.rows_of("policy", policy).filter(|row| row.text("sends") == KEEPS)
}

/// Packets beyond their bounds, packets in all, and the greatest part of a bound that was used.
fn held<'a>(rows: impl Iterator<Item = TableRow<'a>>) -> (f64, f64, f64) {
    rows.fold((0.0, 0.0, 0.0), |(beyond, packets, most), row| {
        let part = row.number("delay_max_us") / row.number("bound_us");
        (beyond + row.number("beyond"), packets + row.number("packets"), f64::max(most, part))
    })
}

fn told((beyond, packets, most): (f64, f64, f64)) -> String {
    format!("{beyond} of {packets} packets beyond, at most {} of a bound used", short(most))
}

/// Bounds and the longest delays of the flows that keep to their reservation, by bound.
fn plot(data: &Table, policies: &[&str], title: &str, at: impl Fn(&TableRow<'_>) -> bool) -> Svg {
    let points = |policy: &str, column: &str| {
        let mut rows: Vec<(f64, f64)> = keeping(data, policy)
            .filter(|row| at(row))
            .map(|row| (row.number("bound_us"), row.number(column)))
            .collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        rows.into_iter().enumerate().map(|(place, (_, value))| ((place + 1) as f64, value).into()).collect()
    };
    let bound = Line { name: "bound".to_owned(), points: points(policies[0], "bound_us") };
    let delays =
        policies.iter().map(|&policy| Line { name: policy.to_owned(), points: points(policy, "delay_max_us") });
    LinePlot {
        title: title.to_owned(),
        description: "Of each flow that keeps to its reservation, the delay that it was told and the longest that it had, while others \
                      send three times what they reserved."
            .to_owned(),
        x: Axis::linear("flows by their bound", short),
        y: Axis::logarithmic("us", short),
        lines: core::iter::once(bound).chain(delays).collect(),
    }
    .svg()
}

/// Every experiment here.
pub(super) fn all() -> impl Iterator<Item = &'static dyn Experiment> {
    [&simulated::AdmitBound as &dyn Experiment, &live::AdmitBoundLive].into_iter()
}
