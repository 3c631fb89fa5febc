//! `why`: why a packet was served when it was.

use std::process::ExitCode;

use humpyard::lab::why::{BlameTable, FlowStory, PacketStory, WhichPacket, Why, why as ask, why_of_journal};
use humpyard::lab::{Control, Host};

use crate::arguments::WhyArguments;
use crate::caller::named;
use crate::commands::configuration::configuration;
use crate::commands::costs::measure_for;
use crate::failure::Failure;
use crate::figures::{counted, percent, time};
use crate::layout::Sheet;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::stop;

/// Simulated cores, unless told otherwise.
const CORES: u16 = 2;

/// `humpyard why`.
pub(crate) fn why(arguments: &WhyArguments) -> Result<ExitCode, Failure> {
    let which = match (&arguments.flow, arguments.packet) {
        (Some(flow), _) => WhichPacket::OfFlow(flow.clone()),
        (None, Some(packet)) => WhichPacket::Number(packet),
        (None, None) => WhichPacket::P99,
    };
    let why = match &arguments.journal {
        Some(journal) => of_journal(arguments, journal, &which)?,
        None => simulated(arguments, &which)?,
    };
    Output::of(&arguments.common.output).answer(&why, || text(&why))?;
    Ok(match &why.damage {
        Some(damage) => {
            output::say(&format!("humpyard: {damage}"));
            ExitCode::from(1)
        }
        None => ExitCode::SUCCESS,
    })
}

fn simulated(arguments: &WhyArguments, which: &WhichPacket) -> Result<Why, Failure> {
    let WhyArguments { policy, cores, options, common, .. } = arguments;
    let policy = named(policy.as_deref().unwrap_or_default())?;
    let mut config = configuration(Host::Sim, policy, cores.unwrap_or(CORES), options, common)?;
    measure_for(&mut config, common.quiet)?;
    let stop = stop::on_signal()?;
    let progress = Progress::new("why", common.quiet);
    let mut show = |packets, part| progress.update(packets, part);
    Ok(ask(&config, which, &mut Control::new(&stop, &mut show))?)
}

fn of_journal(arguments: &WhyArguments, journal: &str, which: &WhichPacket) -> Result<Why, Failure> {
    if let Some(option) = arguments.options.options().next() {
        return Err(Failure::new(format!(
            "--journal is of a run that is over: leave out --{}, or give --input instead of --journal",
            option.name
        )));
    }
    let progress = Progress::new("why", arguments.common.quiet);
    Ok(why_of_journal(journal, which, &mut |records, part| progress.count(records, "records", part))?)
}

fn text(why: &Why) -> String {
    let Why { flow, packet, blame, .. } = why;
    let mut said = Vec::new();
    if let Some(flow) = flow {
        said.push(flow_text(flow));
    }
    said.push(packet_text(packet));
    let slow = counted(blame.packets, "packet");
    let of = counted(why.packets.left, "packet");
    said.push(format!(
        "The slowest packets: {slow} of the {of} that left took {} (p99) or longer; where their delay went:\n\n{}",
        time(blame.from_ns as f64),
        table(blame)
    ));
    if blame.own_flow_ns > 0 {
        let own = percent(blame.own_flow_ns as f64 / blame.parts.waiting_ns.max(1) as f64);
        said.push(format!("Of the waiting, {own} was behind earlier packets of the same flow."));
    }
    said.join("\n\n") + "\n"
}

fn flow_text(flow: &FlowStory) -> String {
    let FlowStory { flow, other_flows, packets, delay_ns, cores, blame } = flow;
    let name = match other_flows.as_slice() {
        [] => format!("Flow {flow}"),
        others => format!("Flows {flow} and {}, together", others.join(" and ")),
    };
    let [mean, most] = [delay_ns.mean, delay_ns.max as f64].map(time);
    let on: Vec<String> =
        cores.iter().map(|one| format!("{} on core {}", counted(one.packets, "packet"), one.core)).collect();
    let dropped = if packets.dropped > 0 { format!(", {} dropped", packets.dropped) } else { String::new() };
    format!(
        "{name}: {}{dropped}; {}. Mean delay {mean}, p99 {}, max {most}. Where it went:\n\n{}",
        counted(packets.arrived, "packet"),
        on.join(", "),
        time(delay_ns.p99 as f64),
        table(blame)
    ) + &one_alone(flow, other_flows)
}

/// Says how to see one of several flows alone.
fn one_alone(flow: &str, others: &[String]) -> String {
    if others.is_empty() { String::new() } else { format!("\nOne alone: --flow '{flow}', and so on.") }
}

fn packet_text(packet: &PacketStory) -> String {
    let words = &packet.words;
    let mut said = vec![words.heading.clone(), String::new()];
    for (title, sentences) in
        [("Decided", &words.decided), ("Delayed", &words.delayed), ("Otherwise", &words.otherwise)]
    {
        for (at, sentence) in sentences.iter().enumerate() {
            said.push(format!("{:<10}  {sentence}", if at == 0 { title } else { "" }));
        }
    }
    if packet.delay_ns.is_some() {
        said.push(format!("\n{}", table(&packet.blame)));
    }
    said.join("\n")
}

/// Returns the parts of a delay, whose means add up to it.
fn table(blame: &BlameTable) -> String {
    let mut rows = Sheet::of_figures(&["part of the delay", "packets", "mean ns", "part"]);
    let ns = |ns: f64| if blame.packets == 1 { format!("{ns:.0}") } else { format!("{ns:.1}") };
    for flow in &blame.flows {
        let name = format!("waiting behind {}", flow.flow);
        rows.add_row([name, flow.packets.to_string(), ns(flow.mean_ns), percent(flow.fraction)]);
    }
    let others = &blame.other_flows;
    if others.flows > 0 {
        let name = format!("waiting behind {}", counted(others.flows, "other flow"));
        rows.add_row([name, others.packets.to_string(), ns(others.mean_ns), percent(others.fraction)]);
    }
    let all = |name: &str, total: u64| {
        let (mean, whole) = (total as f64 / blame.packets.max(1) as f64, blame.total_ns.max(1) as f64);
        [name.to_owned(), String::new(), ns(mean), percent(total as f64 / whole)]
    };
    rows.add_row(all("switching", blame.parts.switching_ns));
    let dispatcher = blame.dispatcher;
    let places = [
        ("dispatcher: not yet taken in", dispatcher.before_queue_ns),
        ("dispatcher: in the queue, its core idle", dispatcher.in_queue_ns),
        ("dispatcher: handed over, not begun or not heard of", dispatcher.handed_over_ns),
    ];
    for (name, total) in places.into_iter().filter(|(_, total)| *total > 0) {
        rows.add_row(all(name, total));
    }
    if blame.parts.dispatcher_ns == 0 {
        rows.add_row(all("dispatcher", 0));
    }
    rows.add_row(all("service", blame.parts.service_ns));
    rows.add_row(all("exit", blame.parts.exit_ns));
    rows.add_row(["all".to_owned(), String::new(), ns(blame.mean_ns), percent(1.0)]);
    rows.to_string()
}
