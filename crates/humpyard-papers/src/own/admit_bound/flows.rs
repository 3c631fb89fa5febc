//! The admitted flows, and their results and plots.

use humpyard_core::random::Seed;
use tempfile::TempDir;

use super::traffic::{Sender, write};
use crate::harness::{Rows, Table, TableRow, line, rows, scratch_directory, short};
use humpyard_lab::admit::{Admission, FlowVerdict, Reservation};
use humpyard_lab::{LabError, RuleChoice, RunConfig};
use humpyard_plot::{Axis, LinePlot, Svg};

pub(super) const SETTING: &str = "Flows ask for engines at random and are admitted in turn (5 % margin, all packets \
    cold); of those that are, every other keeps to its reservation and sends all of it: a burst at once, then at its \
    rate, then nothing until it may send a burst again. The others send three times what they reserved, all the time. \
    Weights are those that `humpyard admit` prints. No client has more than 256 packets waiting.";

/// The flows that keep to their reservation, and those that exceed it.
pub(super) const KEEPS: &str = "as reserved";
pub(super) const OVERLOADS: &str = "three times";
/// Most waiting packets of a client: more than any burst.
pub(super) const CLIENT_LIMIT: u32 = 256;

rows! {
    pub(super) COLUMNS, fn row(place: Place, policy: &str, (sender, verdict): &(Sender, FlowVerdict), came: FlowRun) {
        integer cores = place.cores, integer draw = place.draw, text policy = policy,
        text flow = verdict.reservation.name.as_str(), text service = verdict.reservation.service.as_str(),
        text sends = if sender.keeps { KEEPS } else { OVERLOADS }, real engines = verdict.engines,
        real bound_us = bound_ns(verdict) / 1e3, real delay_max_us = came.max_ns as f64 / 1e3,
        real delay_p50_us = came.p50_ns as f64 / 1e3, integer packets = came.packets, integer beyond = came.beyond,
    }
}

/// The setting of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Place {
    pub(super) cores: usize,
    pub(super) draw: usize,
}

/// The results of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowRun {
    pub(super) max_ns: u64,
    pub(super) p50_ns: u64,
    pub(super) packets: u64,
    pub(super) beyond: u64,
}

/// Returns the admitted flows; every other one exceeds its reservation.
pub(super) fn senders(admission: &Admission, ports: u16) -> Vec<(Sender, FlowVerdict)> {
    let admitted = admission.flows.iter().filter(|flow| flow.admitted).enumerate();
    let sender = |(id, verdict): (usize, &FlowVerdict)| {
        let flow: Reservation = verdict.reservation.clone();
        let port = 5_000 + id as u16 * ports;
        (Sender { flow, keeps: id.is_multiple_of(2), port, ports }, verdict.clone())
    };
    admitted.map(sender).collect()
}

/// A capture of the flows' packets, which is removed when it is dropped.
pub(super) struct Capture {
    directory: TempDir,
}

impl Capture {
    pub(super) fn write(flows: &[(Sender, FlowVerdict)], duration_ns: f64, seed: Seed) -> Result<Self, LabError> {
        let no_place = |error| LabError::option(format!("no place for a capture: {error}"));
        let capture = Self { directory: scratch_directory().map_err(no_place)? };
        let all: Vec<Sender> = flows.iter().map(|(sender, _)| sender.clone()).collect();
        write(&capture.path(), &all, duration_ns, seed)?;
        Ok(capture)
    }

    pub(super) fn path(&self) -> String {
        self.directory.path().join("flows.pcapng").to_string_lossy().into_owned()
    }
}

/// Returns the bound of an admitted flow at its engines, in ns.
pub(super) fn bound_ns(verdict: &FlowVerdict) -> f64 {
    verdict.bound_ns.map_or(f64::NAN, |bound| bound.engines)
}

/// Returns a rule for packets without a flow. There are none, but a classifier needs a rule for them.
pub(super) fn rest(config: &RunConfig) -> Result<RuleChoice, LabError> {
    let service = config.services.last().map_or("forward", |service| &service.name);
    format!("protocol=any,service={service}").parse()
}

/// Returns the number of packets beyond the bound, from a distribution by upper limits.
pub(super) fn beyond(counts: &[(u64, u64)], bound_ns: f64) -> u64 {
    counts.iter().filter(|&&(most, _)| most as f64 > bound_ns).map(|&(_, count)| count).sum()
}

/// Returns the rows of the flows that keep to their reservation, under this policy.
pub(super) fn keeping<'a>(data: &'a Table, policy: &'a str) -> impl Iterator<Item = TableRow<'a>> + Clone {
    data.rows_of("policy", policy).of("sends", KEEPS)
}

/// Returns the packets beyond their bounds, all packets, and the greatest used part of a bound.
pub(super) fn held<'a>(rows: impl Iterator<Item = TableRow<'a>>) -> (f64, f64, f64) {
    rows.fold((0.0, 0.0, 0.0), |(beyond, packets, most), row| {
        let part = row.number("delay_max_us") / row.number("bound_us");
        (beyond + row.number("beyond"), packets + row.number("packets"), f64::max(most, part))
    })
}

pub(super) fn told((beyond, packets, most): (f64, f64, f64)) -> String {
    format!("{beyond} of {packets} packets beyond, at most {} of a bound used", short(most))
}

/// Plots the bounds and the longest delays of the flows that keep to their reservation, in the order of the
/// bounds.
pub(super) fn plot(data: &Table, policies: &[&str], title: &str, at: impl Fn(&TableRow<'_>) -> bool) -> Svg {
    let by_bound = |policy: &str, name: &str, column: &str| {
        let rows = keeping(data, policy).filter(|row| at(row));
        let mut rows: Vec<(f64, f64)> = rows.map(|row| (row.number("bound_us"), row.number(column))).collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        line(name, rows.into_iter().enumerate().map(|(place, (_, value))| ((place + 1) as f64, value)))
    };
    let bound = by_bound(policies[0], "bound", "bound_us");
    let delays = policies.iter().map(|&policy| by_bound(policy, policy, "delay_max_us"));
    LinePlot {
        title: title.to_owned(),
        description: "Of each flow that keeps to its reservation, the delay that it was told and the longest that it \
            had, while others send three times what they reserved."
            .to_owned(),
        x: Axis::linear("flows by their bound", short),
        y: Axis::logarithmic("us", short),
        lines: core::iter::once(bound).chain(delays).collect(),
    }
    .svg()
}
