//! `admit`: which flows can be sure of their engines and links, and of what delay.

use std::process::ExitCode;

use humpyard::lab::admit::{
    Admission, AdmitOptions, FlowVerdict, Lack, Machine, Network, NodeUse, Refusal, Reservation, admit as decide,
};
use humpyard::lab::option::by_service;
use humpyard::lab::{Costs, parse_speeds};
use humpyard::mechanism::FlowOrder;
use humpyard::name::Named;
use humpyard::text::quantity::{parse_bit_rate, show_duration};

use crate::arguments::{AdmitArguments, Order};
use crate::commands::configuration::duration;
use crate::commands::costs::{costs, measure};
use crate::failure::Failure;
use crate::figures::{bit_rate, counted, percent, time};
use crate::layout::Sheet;
use crate::output::Output;

/// `humpyard admit`.
pub(crate) fn admit(arguments: &AdmitArguments) -> Result<ExitCode, Failure> {
    let admission = decide(&options(arguments)?)?;
    Output::of(&arguments.common.output).answer(&admission, || text(&admission, arguments.topology.is_some()))?;
    Ok(if admission.refused == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn options(arguments: &AdmitArguments) -> Result<AdmitOptions, Failure> {
    let mut flows = Vec::new();
    for text in &arguments.flow {
        flows.push(Reservation::parse(text, flows.len() + 1)?);
    }
    if let Some(path) = &arguments.flows {
        flows.extend(Reservation::read(path, flows.len() + 1)?);
    }
    if flows.is_empty() {
        return Err(Failure::new(
            "there is no flow to admit: --flow service=encrypt,rate=10Mbit,length=500,burst=8k, or --flows FILE",
        ));
    }
    let works = flows.iter().map(|flow| flow.service.parse()).collect::<Result<Vec<Named>, _>>()?;
    let mut costs = costs(&arguments.costs, &works).map_err(|failure| Failure::new(format!("--costs: {failure}")))?;
    measure(&mut costs, arguments.common.quiet)?;
    let margin = arguments.margin;
    if !(0.0..1.0).contains(&margin) {
        return Err(Failure::new(format!("--margin takes a part of the engines from 0 to below 1, not {margin}")));
    }
    Ok(AdmitOptions {
        margin,
        cold: cold(&arguments.cold)?,
        errors: by_service("error", &arguments.error, error)?,
        flow_order: match arguments.flow_order {
            Order::Hold => FlowOrder::Hold,
            // Each packet is done within the bound after it came, and so are all that it waits for at the exit, which came before it.
            Order::Exit | Order::Free => FlowOrder::Free,
        },
        machine: machine(arguments, &costs)?,
        ..AdmitOptions::new(flows, network(arguments)?, costs)
    })
}

/// What the machine adds to the work: what is told, else what was measured of it.
fn machine(arguments: &AdmitArguments, costs: &Costs) -> Result<Machine, Failure> {
    let mut machine =
        costs.machine.as_ref().map_or(Machine::IDEAL, |machine| Machine::measured(machine, arguments.margin));
    if let Some(text) = &arguments.hand_over {
        machine.hand_over = duration("--hand-over", text)?;
    }
    if let Some(text) = &arguments.taken {
        machine.taken = text.parse().map_err(|error| Failure::new(format!("--taken {error}")))?;
    }
    Ok(Machine { in_flight: arguments.in_flight, ..machine })
}

/// One router, or what the file of `--topology` says.
fn network(arguments: &AdmitArguments) -> Result<Network, Failure> {
    if let Some(path) = &arguments.topology {
        return Ok(Network::read(path)?);
    }
    let speeds = arguments.speeds.as_deref().map_or(Ok(Vec::new()), parse_speeds)?;
    let cores = usize::from(arguments.cores);
    if speeds.len() > cores {
        return Err(Failure::new(format!(
            "--speeds names {} cores, and there are {cores}: name fewer, or have more cores",
            speeds.len()
        )));
    }
    let speeds: Vec<f64> = speeds.into_iter().map(|permille| f64::from(permille) / 1e3).collect();
    let link = arguments.link.as_deref().map(|text| {
        parse_bit_rate(text)
            .ok_or_else(|| Failure::new(format!("--link takes bits per second, 1Gbit for example, not `{text}`")))
    });
    Ok(Network::router(cores, &speeds, link.transpose()?))
}

/// The part of packets that meet a cold core.
fn cold(text: &str) -> Result<f64, Failure> {
    match text {
        "worst" => Ok(1.0),
        "none" => Ok(0.0),
        _ => part(text).ok_or_else(|| {
            Failure::new(format!("--cold takes `worst`, `none` or a part of the packets from 0 to 1, not `{text}`"))
        }),
    }
}

/// `0.1`, or `SERVICE=0.1`.
fn error(text: &str) -> Result<(String, f64), Failure> {
    let (service, error) = text.split_once('=').unwrap_or(("", text));
    let error = part(error).ok_or_else(|| {
        Failure::new(format!(
            "--error takes a part of the estimate from 0 to 1, 0.05 or dpi=0.2 for example, not `{text}`"
        ))
    })?;
    Ok((service.to_owned(), error))
}

fn part(text: &str) -> Option<f64> {
    text.parse().ok().filter(|part| (0.0..=1.0).contains(part))
}

const LEGEND: &str = "\
engines     what the flow takes of the engines of its node, cold packets as --cold says; it gets at least that under efq
link        what its service makes of its rate
at engines  the longest from coming in to being done, if the flow keeps to its rate and burst: burst, packet, misordering, machine
in all      the same with the links on the way; with --link, if that is shared as below, by the link weights (link-weight of rules)
burst       what it may send at once, at its rate; packet: those that an engine had before (--in-flight), the longest of all flows
misordering what estimates can be wrong by (equation 18, with --error); machine: what it takes at once (--taken)";

fn text(admission: &Admission, networked: bool) -> String {
    let mut text = format!("{}\n", flows(admission, networked));
    for flow in &admission.flows {
        if let Some(refusal) = &flow.refusal {
            text.push_str(&format!("\n{} refused: {}\n", flow.reservation.name, why(refusal)));
        }
    }
    text.push_str(&format!("\n{}", left(admission)));
    if admission.admitted > 0 {
        text.push_str(&format!("\n{LEGEND}\n"));
    }
    if let [node] = &admission.nodes[..]
        && admission.admitted > 0
    {
        text.push_str(&format!("\nThese shares: {} with the weights above\n", policy(admission, node)));
    }
    text
}

/// The options of a run in which the bounds hold.
fn policy(admission: &Admission, node: &NodeUse) -> String {
    let Machine { hand_over, in_flight, .. } = admission.machine;
    let mut options = format!("--policy {}", admission.policy(node));
    if !hand_over.is_zero() {
        options.push_str(&format!(" --hand-over {}", show_duration(hand_over)));
    }
    if let Some(link) = admission.link() {
        options.push_str(&format!(" --link {link}"));
    }
    format!("{options}, live with --in-flight {in_flight},")
}

fn flows(admission: &Admission, networked: bool) -> Sheet {
    let mut headings = vec![
        "flow",
        "service",
        "rate",
        "engines",
        "link",
        "weight",
        "link weight",
        "burst",
        "packet",
        "misordering",
        "machine",
        "at engines",
        "in all",
    ];
    if networked {
        headings.extend(["at", "path"]);
    }
    let mut table = Sheet::of_figures(&headings);
    for flow in &admission.flows {
        table.add_row(row(flow, networked));
    }
    table
}

fn row(flow: &FlowVerdict, networked: bool) -> Vec<String> {
    let reservation = &flow.reservation;
    let mut row = vec![
        reservation.name.clone(),
        reservation.service.clone(),
        bit_rate(reservation.bandwidth_bps),
        engines(flow.engines),
        bit_rate(flow.link_bps),
    ];
    match (&flow.bound_ns, flow.weight) {
        (Some(bound), Some(weight)) => {
            row.push(weight.to_string());
            row.push(flow.link_weight.map_or_else(String::new, |weight| weight.to_string()));
            let times = [bound.burst, bound.packet, bound.misordering, bound.machine, bound.engines, bound.total];
            row.extend(times.map(time));
        }
        _ => row.extend([""; 7].map(str::to_owned).into_iter().chain(["refused".to_owned()])),
    }
    if networked {
        row.extend([flow.node.clone().unwrap_or_default(), flow.path.join(" ")]);
    }
    row
}

/// Why a flow is refused, and what would fit.
fn why(refusal: &Refusal) -> String {
    if refusal.lacks.is_empty() {
        return "no path leads there through a node with engines".to_owned();
    }
    let largest = match refusal.largest_bandwidth_bps {
        0.0 => "no rate would fit".to_owned(),
        rate => format!("a rate of {rate:.0} bit/s would fit"),
    };
    let lacks: Vec<String> = lacks(refusal).collect();
    let would_do = would_do(refusal).into_iter().flatten().map(|would_do| format!(", or {would_do}"));
    format!("it {}; {largest}{}", lacks.join(" and "), would_do.collect::<String>())
}

/// What there is too little of.
fn lacks(refusal: &Refusal) -> impl Iterator<Item = String> {
    let keeps_order = refusal.lacks.iter().any(|lack| matches!(lack, Lack::OneEngine { .. }));
    let lacks_engines = refusal.lacks.iter().any(|lack| matches!(lack, Lack::Engines { .. }));
    let order = if keeps_order { " and keeps its order, so it has one at a time" } else { "" };
    refusal.lacks.iter().filter_map(move |lack| match lack {
        // The engines of the other lack are the same.
        Lack::OneEngine { .. } if lacks_engines => None,
        Lack::OneEngine { node, needed, .. } => Some(format!("needs {} engines of {node}{order}", engines(*needed))),
        Lack::Engines { node, needed, free, .. } => {
            Some(format!("needs {} engines of {node}, where {} are free{order}", engines(*needed), engines(*free)))
        }
        Lack::Link { link, needed_bps, free_bps, .. } => {
            Some(format!("needs {} of {link}, where {} are free", bit_rate(*needed_bps), bit_rate(*free_bps)))
        }
    })
}

/// What would do instead: more of what there is too little of, or faster engines; each with what links must have beside it.
fn would_do(refusal: &Refusal) -> [Option<String>; 2] {
    let (mut more, mut faster) = (Some(Vec::new()), None);
    for lack in &refusal.lacks {
        match lack {
            Lack::OneEngine { would_do_speed, .. } => {
                more.iter_mut().for_each(|more| more.push("--flow-order exit".to_owned()));
                faster = would_do_speed.map(|speed| vec![format!("engines of speed {speed} there")]);
            }
            Lack::Engines { would_do: Some(cores), .. } => {
                more.iter_mut().for_each(|more| more.push(format!("{} there", counted(*cores, "core"))));
            }
            Lack::Engines { would_do: None, .. } => more = None,
            Lack::Link { would_do_bps, .. } => {
                let link = format!("a link of {would_do_bps:.0} bit/s");
                more.iter_mut().chain(&mut faster).for_each(|parts| parts.push(link.clone()));
            }
        }
    }
    [more, faster].map(|parts| parts.map(|parts| parts.join(" and ")))
}

/// What is left of engines and links.
fn left(admission: &Admission) -> Sheet {
    let mut table = Sheet::of_figures(&["", "reserved", "of", "part"]);
    for node in &admission.nodes {
        let speed = if node.speed == 1.0 { String::new() } else { format!(" of speed {}", node.speed) };
        table.add_row([
            format!("{}: engines", node.name),
            engines(node.reserved),
            format!("{}{speed}, less {}", node.engines, percent(admission.margin)),
            percent(node.reserved / node.limit),
        ]);
    }
    for link in &admission.links {
        let part = percent(link.reserved_bps / link.rate_bps);
        table.add_row([link.name.clone(), bit_rate(link.reserved_bps), bit_rate(link.rate_bps), part]);
    }
    table
}

/// A number of engines.
fn engines(engines: f64) -> String {
    format!("{engines:.4}")
}
