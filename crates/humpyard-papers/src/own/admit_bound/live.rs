//! Tests admission on a worker with real services, whose costs are measured just before. The machine does other
//! work, too.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use humpyard_core::measure::ServiceSummary;
use humpyard_core::mechanism::FlowOrder;
use humpyard_core::random::Seed;

use super::flows::Capture;
use super::flows::{CLIENT_LIMIT, KEEPS, OVERLOADS, SETTING, beyond, bound_ns, keeping, rest, senders};
use super::taken::{Seen, watch};
use super::traffic::Sender;
use crate::harness::{
    About, Experiment, Note, Plots, Row, Rows, Scale, Table, TableRow, Watched, held_order, line, rows, short,
    unstopped,
};
use crate::predictive::paper::PAPER;
use humpyard_lab::admit::{Admission, AdmitOptions, FlowVerdict, Machine, Network, Reservation, Taken, admit};
use humpyard_lab::calibrate::{COLD_LENGTH, CalibrateOptions, calibrate, parse_services};
use humpyard_lab::{CostLine, Costs, Host, LabError, Rate, RunConfig, ServiceChoice, run_live};
use humpyard_plot::figures::{percent, time};
use humpyard_plot::{Axis, LinePlot, Svg};

const POLICIES: [&str; 2] = ["efq", "fcfs"];
/// The services: each takes tens of microseconds per packet.
const SERVICES: [(&str, &str); 2] =
    [("encrypt", "encrypt:cipher=cast-128"), ("compress", "compress:codec=deflate,level=6")];
/// Each flow's service, and the part of a core that it asks for.
const FLOWS: [(&str, f64); 6] =
    [("encrypt", 0.1), ("compress", 0.15), ("compress", 0.15), ("encrypt", 0.15), ("encrypt", 0.05), ("compress", 0.1)];
/// Length of packets, in bytes, and packets of a burst.
const LENGTH: u32 = 1_400;
const BURST: u32 = 4;
/// The part of a core kept free for the machine.
const MARGIN: f64 = 0.2;
/// Relative error of the estimates of measured services.
const ERROR: f64 = 0.25;
/// Time for which flows send, in ns (quick, full).
const SENDING: (f64, f64) = (1e9, 10e9);
/// Time to measure costs.
const MEASURING: Duration = Duration::from_secs(4);
/// Time for which flows send to measure their packets' times, in ns.
const TRYING: f64 = 5e8;

rows! {
    COLUMNS, fn row(
        policy: &str, flow: &Flow, machine: Machine, found: &Admission, seen: &Seen, service: &ServiceSummary
    ) {
        let (id, (sender, verdict)) = flow;
        let (us, delay) = (|ns: f64| ns / 1e3, &service.delay_ns);
        let [before_scheduler, in_queue, in_ring, in_service] = seen.parts(*id).map(us);
    } => {
        text policy = policy, text flow = verdict.reservation.name.as_str(),
        text service = verdict.reservation.service.as_str(), text sends = if sender.keeps { KEEPS } else { OVERLOADS },
        real engines = verdict.engines, real hand_over_us = us(machine.hand_over.as_nanos() as f64),
        real told_at_once_us = us(machine.taken.at_once.as_nanos() as f64), real told_us = us(bound_ns(verdict)),
        real taken_part = seen.part(), real taken_at_once_us = us(seen.at_once().as_nanos() as f64),
        real bound_us = us(after(found, sender, seen)), real unseen_us = us(seen.unseen()),
        real delay_p50_us = us(delay.p50 as f64), real delay_p90_us = us(delay.p90 as f64),
        real delay_p99_us = us(delay.p99 as f64), real delay_p999_us = us(delay.p999 as f64),
        real delay_max_us = us(delay.max as f64), real before_scheduler_us = before_scheduler,
        real in_queue_us = in_queue, real in_ring_us = in_ring, real in_service_us = in_service,
        integer packets = service.packets, integer beyond_told = beyond(&service.delay_counts, bound_ns(verdict)),
        integer dropped = seen.dropped(*id),
    }
}

/// A flow, and its number.
type Flow = (usize, (Sender, FlowVerdict));

/// Quantiles of delays: the column, and n if one in n packets exceeds the quantile.
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
        cold_length: COLD_LENGTH,
        seed,
    };
    let mut costs = calibrate(&options, &AtomicBool::new(false), &mut |_, _, _| {})?.costs();
    // Flows name a service without its parameters.
    for (service, specification) in SERVICES {
        let line = costs.line(specification)?.clone();
        costs.lines.insert(service.to_owned(), line);
    }
    let measured = costs.machine.as_ref().map_or(Machine::IDEAL, |machine| Machine::measured(machine, MARGIN));
    Ok((costs, measured))
}

/// Returns the costs of these flows' packets on the worker: medians of a run in which all keep to their
/// reservation. The cost of a service depends on the bytes, and on their place in memory.
fn of_these_packets(costs: &Costs, machine: Machine, seed: Seed) -> Result<Costs, LabError> {
    let admission = decide(costs, machine)?;
    let mut flows = senders(&admission, 1);
    flows.iter_mut().for_each(|(sender, _)| sender.keeps = true);
    let capture = Capture::write(&flows, TRYING, seed)?;
    let config = config("fcfs", &capture.path(), costs, &admission, &flows)?;
    let (watch, _) = run(&config, &admission)?;
    let lines = SERVICES.map(|(service, specification)| {
        let of = |(sender, _): &(Sender, FlowVerdict)| sender.flow.service == service;
        let fixed_ns = flows.iter().position(of).map_or(0.0, |id| watch.with(|seen| seen.median(id)));
        [service, specification].map(|spec| (spec.to_owned(), CostLine { fixed_ns, ..CostLine::default() }))
    });
    Ok(Costs::of_lines("measured in a run before", "", lines.into_iter().flatten()))
}

/// Decides admission on this machine.
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
    config.rules.push(rest(&config)?);
    Ok(config)
}

/// Runs one policy. Returns the observations, and the summary of each service.
fn run(config: &RunConfig, admission: &Admission) -> Result<(Watched<Seen>, Vec<ServiceSummary>), LabError> {
    let most = admission.charge_most.unwrap_or(f64::INFINITY);
    let watch = watch(MARGIN, admission.machine.hand_over, most, config.services.len());
    let result = unstopped(|control| {
        control.observer = Some(Box::new(watch.clone()));
        run_live(config, control)
    })?;
    Ok((watch, result.summary.services))
}

/// Returns the bound of a flow by the observations of the run:
///
/// - the time that the machine took,
/// - the work before the dispatcher saw packets that were due,
/// - the excess of estimates over real times, if it is greater than assumed.
fn after(found: &Admission, sender: &Sender, seen: &Seen) -> f64 {
    let bound = found.flows.iter().find(|of| of.reservation.name == sender.flow.name).and_then(|of| of.bound_ns);
    let off = (seen.error() / ERROR).max(1.0) - 1.0;
    bound.map_or(f64::NAN, |bound| bound.engines + bound.misordering * off + seen.unseen() / (1.0 - MARGIN))
}

impl Experiment for AdmitBoundLive {
    fn about(&self) -> About {
        About {
            id: "admit-bound-live",
            figure: "sections 3.3.2 and 4.1, on real workers",
            title: "delays of admitted flows on a worker with real services",
            setting: SETTING,
            description: "One worker encrypts by CAST-128 and compresses by DEFLATE, 1400 bytes a packet, one packet \
                at a time. What that costs, what handing a packet over takes, and what the machine takes from threads \
                at once is measured just before, and in the bound that is told. 20 % of the worker is kept free for \
                the machine to take, and estimates are taken to be off by 25 %. What the machine took in the run \
                itself is measured, too: time in which packets waited and that no packet was charged for. With that in \
                the place of what it took before, the bound is a theorem whatever else the machine does; with what it \
                took before it is a promise, as good as the machine is steady.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        1
    }

    fn run(&self, _: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (costs, machine) = measure(seed)?;
        let costs = of_these_packets(&costs, machine, seed)?;
        let told = decide(&costs, machine)?;
        let flows = senders(&told, 1);
        let capture = Capture::write(&flows, scale.of(SENDING), seed)?;
        let mut rows = Vec::new();
        for policy in POLICIES {
            let config = config(policy, &capture.path(), &costs, &told, &flows)?;
            let (watch, services) = run(&config, &told)?;
            let taken = Taken { part: MARGIN, at_once: watch.with(|seen| seen.at_once()) };
            let found = decide(&costs, Machine { taken, ..machine })?;
            let flows = flows.iter().cloned().enumerate().zip(&services);
            let row = |(flow, service): (Flow, &ServiceSummary)| {
                watch.with(|seen| row(policy, &flow, machine, &found, seen, service))
            };
            rows.extend(flows.map(row));
        }
        Ok(rows)
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let mut notes = Vec::new();
        let worst = |row: &TableRow<'_>| row.number("delay_max_us") / row.number("bound_us");
        let used = keeping(data, "efq").map(|row| worst(&row)).fold(0.0, f64::max);
        notes.push(Note::new(
            "under efq, flows that keep to their reservation keep the bound with what the machine took in the run",
            "at most 1 of a bound used",
            format!("at most {} of a bound used", short(used)),
        ));
        for policy in POLICIES {
            let sum = |column: &str| keeping(data, policy).total(column);
            let (outside, dropped) = (sum("beyond_told"), sum("dropped"));
            let packets = sum("packets") + dropped;
            let part = |count: f64| percent(count / packets.max(1.0));
            let claim =
                format!("under {policy}, their packets beyond the bound that was told, with what it took before");
            let found = format!("{outside} of {packets}, {}; and {dropped} dropped, {}", part(outside), part(dropped));
            notes.push(Note::new(claim, "none under efq", found));
        }
        for policy in POLICIES {
            let Some(row) = data.rows_of("policy", policy).next() else { continue };
            let us = |column: &str| time(1e3 * row.number(column));
            let claim = format!(
                "under {policy}, what the machine takes: of the time in which packets wait, and at once beside a fifth \
                    of it"
            );
            let found = format!("{}, {}", percent(row.number("taken_part")), us("taken_at_once_us"));
            notes.push(Note::new(claim, format!("{} at once, as told", us("told_at_once_us")), found));
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
                "half within {}, 99 of 100 {}, 999 of 1000 {}, all {}; {} before the scheduler, {} queue, {} ring, {} \
                    service",
                us("delay_p50_us"),
                us("delay_p99_us"),
                us("delay_p999_us"),
                us("delay_max_us"),
                us("before_scheduler_us"),
                us("in_queue_us"),
                us("in_ring_us"),
                us("in_service_us")
            );
            notes.push(Note::new(claim, "within what was told", found));
        }
        notes
    }

    fn plots(&self, data: &Table) -> Plots {
        vec![("live".to_owned(), delays(data))]
    }

    fn is_timed(&self) -> bool {
        true
    }
}

/// Plots quantiles of the delays of the flows that keep to their reservation, relative to their printed bounds.
fn delays(data: &Table) -> Svg {
    let of_flow = |policy: &str, row: &TableRow<'_>| {
        let part = |column: &str| row.number(column) / row.number("told_us");
        let last = (row.number("packets").max(2e3), part("delay_max_us"));
        let points = QUANTILES.map(|(column, one_in)| (one_in, part(column))).into_iter().chain([last]);
        let name = format!("{policy}, {} ({})", row.text("flow"), row.text("service"));
        line(name, points)
    };
    let lines = |&policy: &&'static str| keeping(data, policy).map(|row| of_flow(policy, &row)).collect::<Vec<_>>();
    let most = keeping(data, "efq").map(|row| row.number("packets")).fold(2e3, f64::max);
    let bound = line("the bound", [(2.0, 1.0), (most, 1.0)]);
    LinePlot {
        title: "Delay of admitted flows on a worker, while others overload".to_owned(),
        description: "Of each flow that keeps to its reservation: the delay that one packet in 2, 10, 100 and 1,000 \
            exceeds, and at the end the longest, in times of its printed bound, while others send three times what \
            they reserved."
            .to_owned(),
        x: Axis::logarithmic("one packet of", short),
        y: Axis::logarithmic("delay, in times of the bound", short),
        lines: core::iter::once(bound).chain(POLICIES.iter().flat_map(lines)).collect(),
    }
    .svg()
}
