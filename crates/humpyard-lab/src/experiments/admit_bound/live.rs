//! On a worker, with real services whose costs were measured just before, on a machine that does other things, too.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use humpyard_core::measure::ServiceSummary;
use humpyard_core::mechanism::FlowOrder;
use humpyard_core::random::Seed;
use tempfile::TempDir;

use super::super::{About, Column, Experiment, Row, Scale, Table, TableRow, Verdict, held_order, scratch, short};
use super::taken::{Seen, Watch};
use super::traffic::{Sender, write};
use super::{CLIENT_LIMIT, KEEPS, OVERLOADS, PAPER, SETTING, beyond, bound_ns, keeping, senders};
use crate::LabError;
use crate::admit::{Admission, AdmitOptions, FlowVerdict, Machine, Network, Reservation, Taken, admit};
use crate::calibrate::{CalibrateOptions, calibrate, parse_services};
use crate::config::{Host, Rate, RunConfig, ServiceChoice};
use crate::costs::{CostLine, Costs};
use crate::figures::{percent, time};
use crate::plot::{Axis, Line, LinePlot, Svg};
use crate::run::{Control, run_live};

const POLICIES: [&str; 2] = ["efq", "fcfs"];
/// What is measured and done: each takes some tens of microseconds for a packet.
const SERVICES: [(&str, &str); 2] =
    [("encrypt", "encrypt:cipher=cast-128"), ("compress", "compress:codec=deflate,level=6")];
/// Each flow's service, and the part of a core that it asks for.
const FLOWS: [(&str, f64); 6] =
    [("encrypt", 0.1), ("compress", 0.15), ("compress", 0.15), ("encrypt", 0.15), ("encrypt", 0.05), ("compress", 0.1)];
/// Length of packets, in bytes, and packets of a burst.
const LENGTH: u32 = 1_400;
const BURST: u32 = 4;
/// What is kept free, for the machine to take.
const MARGIN: f64 = 0.2;
/// Estimates of measured services are off by so much, as a part of them.
const ERROR: f64 = 0.25;
/// How long flows send, in ns.
const SENDING: (f64, f64) = (1e9, 10e9);
/// How long costs are measured.
const MEASURING: Duration = Duration::from_secs(4);
/// How long flows send to see what their packets take, in ns.
const TRYING: f64 = 5e8;

const COLUMNS: [Column; 24] = [
    Column::text("policy"),
    Column::text("flow"),
    Column::text("service"),
    Column::text("sends"),
    Column::real("engines"),
    Column::real("hand_over_us"),
    Column::real("told_at_once_us"),
    Column::real("told_us"),
    Column::real("taken_part"),
    Column::real("taken_at_once_us"),
    Column::real("bound_us"),
    Column::real("unseen_us"),
    Column::real("delay_p50_us"),
    Column::real("delay_p90_us"),
    Column::real("delay_p99_us"),
    Column::real("delay_p999_us"),
    Column::real("delay_max_us"),
    Column::real("before_scheduler_us"),
    Column::real("in_queue_us"),
    Column::real("in_ring_us"),
    Column::real("in_service_us"),
    Column::integer("packets"),
    Column::integer("beyond_told"),
    Column::integer("dropped"),
];
/// Quantiles of delays: the column, and of how many packets one is beyond.
const QUANTILES: [(&str, f64); 4] =
    [("delay_p50_us", 2.0), ("delay_p90_us", 10.0), ("delay_p99_us", 100.0), ("delay_p999_us", 1e3)];

pub(super) struct AdmitBoundLive;

fn measure(seed: Seed) -> Result<(Costs, Machine), LabError> {
    let services = SERVICES.map(|(_, specification)| specification).join(",");
    let options = CalibrateOptions {
        services: parse_services(&services)?,
        longest: MEASURING,
        matrix: false,
        machine: true,
        seed,
    };
    let stop = AtomicBool::new(false);
    let mut costs = calibrate(&options, &stop, &mut |_, _, _| {})?.costs();
    // Flows name a service without its parameters.
    for (service, specification) in SERVICES {
        let line = costs.line(specification)?.clone();
        costs.lines.insert(service.to_owned(), line);
    }
    let measured = costs.machine.as_ref().map_or(Machine::IDEAL, |machine| Machine::measured(machine, MARGIN));
    Ok((costs, measured))
}

/// What the packets of these flows take on the worker: their medians in a run in which all keep to their reservation. What services
/// take hangs on the bytes, and on where they come from.
fn of_these_packets(costs: &Costs, machine: Machine, seed: Seed) -> Result<Costs, LabError> {
    let admission = decide(costs, machine)?;
    let mut flows = senders(&admission, 1);
    flows.iter_mut().for_each(|(sender, _)| sender.keeps = true);
    let capture = Capture::write(&flows, TRYING, seed)?;
    let (watch, _) = run(&config("fcfs", &capture.path(), costs, &admission, &flows)?, &admission)?;
    let seen = watch.seen();
    let lines = SERVICES.map(|(service, specification)| {
        let of = |(sender, _): &(Sender, FlowVerdict)| sender.flow.service == service;
        let fixed_ns = flows.iter().position(of).map_or(0.0, |id| seen.median(id));
        [service, specification].map(|spec| (spec.to_owned(), CostLine { fixed_ns, ..CostLine::default() }))
    });
    Ok(Costs::of_lines("measured in a run before", "", lines.into_iter().flatten()))
}

/// A capture of what flows send, for as long as it lives.
struct Capture {
    directory: TempDir,
}

impl Capture {
    fn write(flows: &[(Sender, FlowVerdict)], duration_ns: f64, seed: Seed) -> Result<Self, LabError> {
        let no_place = |error| LabError::option(format!("no place for a capture: {error}"));
        let capture = Self { directory: scratch::create().map_err(no_place)? };
        let all: Vec<Sender> = flows.iter().map(|(sender, _)| sender.clone()).collect();
        write(&capture.path(), &all, duration_ns, seed)?;
        Ok(capture)
    }

    fn path(&self) -> String {
        self.directory.path().join("flows.pcapng").to_string_lossy().into_owned()
    }
}

/// What admission says on this machine.
fn decide(costs: &Costs, machine: Machine) -> Result<Admission, LabError> {
    let hand_over = machine.hand_over.as_nanos() as f64;
    let flow = |(id, &(service, engines)): (usize, &(&str, f64))| {
        let cost = costs.cost(service)?;
        let rate = engines * 8e9 * f64::from(LENGTH) / ((1.0 + ERROR) * (cost.total(LENGTH, true) as f64 + hand_over));
        let burst = BURST * LENGTH;
        let text =
            format!("name=f{id},service={service},rate={rate:.0},length={LENGTH},burst={burst},longest={LENGTH}");
        Reservation::parse(&text, id)
    };
    let flows: Vec<Reservation> = FLOWS.iter().enumerate().map(flow).collect::<Result<_, _>>()?;
    let options = AdmitOptions::new(flows, Network::router(1, &[], None), costs.clone());
    admit(&AdmitOptions {
        margin: MARGIN,
        flow_order: FlowOrder::Hold,
        errors: vec![(String::new(), ERROR)],
        machine,
        ..options
    })
}

fn config(
    policy: &str,
    input: &str,
    costs: &Costs,
    admission: &Admission,
    flows: &[(Sender, FlowVerdict)],
) -> Result<RunConfig, LabError> {
    let policy = if policy == "efq" { admission.policy(&admission.nodes[0]) } else { policy.to_owned() };
    let mut config = RunConfig::new(Host::Live, input, policy.parse()?);
    config.cores = 1;
    config.costs = costs.clone();
    config.rate = Rate::Trace;
    config.in_flight = admission.machine.in_flight;
    config.hand_over = Some(admission.machine.hand_over);
    config.flow_order = held_order(&config.policy);
    config.limits.client = CLIENT_LIMIT;
    config.services.clear();
    for (sender, verdict) in flows {
        let (name, weight) = (&sender.flow.name, verdict.weight.unwrap_or(1));
        let of = |(service, _): &&(&str, &str)| *service == sender.flow.service;
        let work = SERVICES.iter().find(of).map_or(sender.flow.service.as_str(), |(_, specification)| specification);
        config.services.push(ServiceChoice { name: name.clone(), matches: None, work: work.parse()? });
        let rule = format!("protocol=udp,port={},service={name},client={name},weight={weight}", sender.port);
        config.rules.push(rule.parse()?);
    }
    config.rules.push(super::rest(&config)?);
    Ok(config)
}

/// What was measured of a run of one policy.
fn run(config: &RunConfig, admission: &Admission) -> Result<(Watch, Vec<ServiceSummary>), LabError> {
    let most = admission.charge_most.unwrap_or(f64::INFINITY);
    let watch = Watch::new(MARGIN, admission.machine.hand_over, most, config.services.len());
    let stop = AtomicBool::new(false);
    let mut progress = |_, _| ();
    let mut control = Control::new(&stop, &mut progress);
    control.observer = Some(Box::new(watch.clone()));
    let result = run_live(config, &mut control)?;
    Ok((watch, result.summary.services))
}

/// The bound of a flow with what was seen of the run: what the machine took, what was done before the dispatcher saw packets that were
/// due, and how far estimates were above what packets took, where that is more than was reckoned with.
fn after(found: &Admission, sender: &Sender, seen: &Seen) -> f64 {
    let bound = found.flows.iter().find(|of| of.reservation.name == sender.flow.name).and_then(|of| of.bound_ns);
    let off = (seen.error() / ERROR).max(1.0) - 1.0;
    bound.map_or(f64::NAN, |bound| bound.engines + bound.misordering * off + seen.unseen() / (1.0 - MARGIN))
}

impl Experiment for AdmitBoundLive {
    fn about(&self) -> About {
        About {
            id: "admit-bound-live",
            paper: PAPER,
            figure: "sections 3.3.2 and 4.1, on real workers",
            title: "delays of admitted flows on a worker with real services",
            setting: SETTING,
            description: "One worker encrypts by CAST-128 and compresses by DEFLATE, 1400 bytes a packet, one packet at a time. What that \
                          costs, what handing a packet over takes, and what the machine takes from threads at once is measured just before, \
                          and in the bound that is told. 20 % of the worker is kept free for the machine to take, and estimates are taken to be \
                          off by 25 %. What the machine took in the run itself is measured, too: time in which packets waited and that no \
                          packet was charged for. With that in the place of what it took before, the bound is a theorem whatever else the \
                          machine does; with what it took before it is a promise, as good as the machine is steady.",
        }
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn parts(&self, _: Scale) -> usize {
        1
    }

    fn run(&self, _: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (costs, machine) = measure(seed)?;
        let costs = of_these_packets(&costs, machine, seed)?;
        let told = decide(&costs, machine)?;
        let flows = senders(&told, 1);
        let capture = Capture::write(&flows, scale.pick(SENDING.0, SENDING.1), seed)?;
        let mut rows = Vec::new();
        for policy in POLICIES {
            let config = config(policy, &capture.path(), &costs, &told, &flows)?;
            let (watch, services) = run(&config, &told)?;
            let seen = watch.seen();
            let taken = Taken { part: MARGIN, at_once: seen.at_once() };
            let found = decide(&costs, Machine { taken, ..machine })?;
            for (id, (flow, service)) in flows.iter().zip(&services).enumerate() {
                let us = |ns: f64| ns / 1e3;
                let (sender, verdict) = flow;
                let delay = &service.delay_ns;
                let mut row: Row = vec![
                    policy.into(),
                    verdict.reservation.name.as_str().into(),
                    verdict.reservation.service.as_str().into(),
                    if sender.keeps { KEEPS } else { OVERLOADS }.into(),
                    verdict.engines.into(),
                    us(machine.hand_over.as_nanos() as f64).into(),
                    us(machine.taken.at_once.as_nanos() as f64).into(),
                    us(bound_ns(verdict)).into(),
                    seen.part().into(),
                    us(taken.at_once.as_nanos() as f64).into(),
                    us(after(&found, sender, &seen)).into(),
                    us(seen.unseen()).into(),
                ];
                row.extend([delay.p50, delay.p90, delay.p99, delay.p999, delay.max].map(|ns| us(ns as f64).into()));
                row.extend(seen.parts(id).map(|ns| us(ns).into()));
                row.push(service.packets.into());
                row.push(beyond(&service.delay_counts, bound_ns(verdict)).into());
                row.push(seen.dropped(id).into());
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let worst = |row: &TableRow<'_>| row.number("delay_max_us") / row.number("bound_us");
        let used = keeping(data, "efq").map(|row| worst(&row)).fold(0.0, f64::max);
        verdicts.push(Verdict::of(
            "under efq, flows that keep to their reservation keep the bound with what the machine took in the run",
            "at most 1 of a bound used",
            format!("at most {} of a bound used", short(used)),
            used <= 1.0 && used > 0.0,
        ));
        for policy in POLICIES {
            let sum = |column: &str| keeping(data, policy).map(|row| row.number(column)).sum::<f64>();
            let (outside, dropped) = (sum("beyond_told"), sum("dropped"));
            let packets = sum("packets") + dropped;
            let part = |count: f64| percent(count / packets.max(1.0));
            let claim =
                format!("under {policy}, their packets beyond the bound that was told, with what it took before");
            let found = format!("{outside} of {packets}, {}; and {dropped} dropped, {}", part(outside), part(dropped));
            verdicts.push(Verdict::measured(claim, "none under efq", found));
        }
        for policy in POLICIES {
            let Some(row) = data.rows_of("policy", policy).next() else { continue };
            let us = |column: &str| time(1e3 * row.number(column));
            let claim = format!(
                "under {policy}, what the machine takes: of the time in which packets wait, and at once beside a fifth of it"
            );
            let found = format!("{}, {}", percent(row.number("taken_part")), us("taken_at_once_us"));
            verdicts.push(Verdict::measured(claim, format!("{} at once, as told", us("told_at_once_us")), found));
        }
        for row in keeping(data, "efq") {
            let us = |column: &str| time(1e3 * row.number(column));
            let claim = format!(
                "{} ({}), told {}: delay, and its parts in the mean",
                row.text("flow"),
                row.text("service"),
                us("told_us")
            );
            let found = format!(
                "half within {}, 99 of 100 {}, 999 of 1000 {}, all {}; {} before the scheduler, {} queue, {} ring, {} service",
                us("delay_p50_us"),
                us("delay_p99_us"),
                us("delay_p999_us"),
                us("delay_max_us"),
                us("before_scheduler_us"),
                us("in_queue_us"),
                us("in_ring_us"),
                us("in_service_us")
            );
            verdicts.push(Verdict::measured(claim, "within what was told", found));
        }
        verdicts
    }

    fn plots(&self, data: &Table) -> Vec<(String, Svg)> {
        vec![("live".to_owned(), delays(data))]
    }

    fn is_timed(&self) -> bool {
        true
    }
}

/// Quantiles of the delays of the flows that keep to their reservation, in times of what each was told.
fn delays(data: &Table) -> Svg {
    let line = |policy: &str, row: &TableRow<'_>| {
        let part = |column: &str| row.number(column) / row.number("told_us");
        let mut points: Vec<(f64, f64)> = QUANTILES.map(|(column, one_in)| (one_in, part(column))).into();
        points.push((row.number("packets").max(2e3), part("delay_max_us")));
        let name = format!("{policy}, {} ({})", row.text("flow"), row.text("service"));
        Line { name, points: points.into_iter().map(Into::into).collect() }
    };
    let lines = |&policy: &&'static str| keeping(data, policy).map(|row| line(policy, &row)).collect::<Vec<_>>();
    let most = keeping(data, "efq").map(|row| row.number("packets")).fold(2e3, f64::max);
    let bound = Line { name: "the bound".to_owned(), points: vec![(2.0, 1.0).into(), (most, 1.0).into()] };
    LinePlot {
        title: "Delay of admitted flows on a worker, while others overload".to_owned(),
        description: "Of each flow that keeps to its reservation, the delay that one packet of so many exceeds, and at the end the \
                      longest, in times of the bound that it was told, while others send three times what they reserved."
            .to_owned(),
        x: Axis::logarithmic("one packet of", short),
        y: Axis::logarithmic("delay, in times of the bound", short),
        lines: core::iter::once(bound).chain(POLICIES.iter().flat_map(lines)).collect(),
    }
    .svg()
}
