//! The story of a packet in sentences.

use humpyard_policies::registry::find;

use super::otherwise::Alternative;
use super::recorder::History;
use super::story::{CoreAtArrival, PacketStory, PolicyKnowledge, StoryWords};
use crate::figures::{counted, percent, time};

/// Cores that a sentence lists.
const CORES_LISTED: usize = 8;

/// Returns the story of a packet.
pub(super) fn of(history: &History, story: &PacketStory, asked: &str) -> StoryWords {
    StoryWords {
        heading: heading(history, story, asked),
        decided: decided(history, story),
        delayed: delayed(story),
        otherwise: otherwise(story),
    }
}

fn ns(ns: u64) -> String {
    time(ns as f64)
}

fn heading(history: &History, story: &PacketStory, asked: &str) -> String {
    let PacketStory { number, flow, length, fate, .. } = story;
    let service = story.hops.first().map_or_else(
        || history.service_name(history.passages[*number as usize - 1].service),
        |hop| hop.service.clone(),
    );
    let all = history.passages.len();
    let which = match asked {
        "flow" => ", the slowest of its flow",
        "p99" => ", at the p99 of the run",
        _ => "",
    };
    let what = format!("Packet {number} of {all}{which}: {flow}, {length} bytes, service {service}.");
    let came = format!("It came at {}", exact(story.arrival_ns));
    let ended = match (story.delay_ns, *fate) {
        (Some(delay), _) => {
            let faster = percent(story.faster_fraction.unwrap_or(0.0));
            format!("left {} later; {faster} of the packets were faster", ns(delay))
        }
        (None, "ended") => "ended at its service, which consumed or dropped it".to_owned(),
        (None, "held") => "was still there at the end".to_owned(),
        (None, reason) => format!("was dropped: {reason}"),
    };
    format!("{what} {came} and {ended}.")
}

/// Shows an instant to the nanosecond.
fn exact(ns: u64) -> String {
    format!("{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Returns the rule of a policy in the words of the registry.
fn rule(name: &str) -> String {
    find(name).map_or_else(String::new, |entry| format!(" Its rule: {}.", entry.info.summary))
}

fn decided(history: &History, story: &PacketStory) -> Vec<String> {
    let knew = &story.knew;
    // Text does not name a policy of the program's own; the run began with it.
    let of_run = history.policy.iter().find(|policy| policy.to_string() == knew.policy).cloned();
    let Some(policy) = of_run.or_else(|| knew.policy.parse().ok()) else { return Vec::new() };
    let mut said = Vec::new();
    if let Some(name) = policy.allocation() {
        said.extend(allocated(history, story, name));
    }
    if let Some(name) = policy.steering() {
        said.extend(steered(story, name));
    }
    said.extend(shared(story, policy.sharing()));
    // Several turns at one service are one stay there: only their number tells more.
    let stays: Vec<_> = story.hops.chunk_by(|one, next| one.service == next.service).collect();
    for (number, turns) in stays.iter().enumerate() {
        let (first, last) = (&turns[0], &turns[turns.len() - 1]);
        if number > 0 {
            said.push(format!("It went on to {}, on core {}.", first.service, first.core));
        }
        if turns.len() > 1 {
            let times = counted(turns.len() as u64 - 1, "time");
            said.push(format!(
                "It was given back {times} after a quantum, and had its last turn on core {}.",
                last.core
            ));
        }
    }
    said
}

fn allocated(history: &History, story: &PacketStory, name: &str) -> Vec<String> {
    let service =
        story.hops.first().map_or_else(|| "its service".to_owned(), |hop| format!("its service, {},", hop.service));
    let cores = &story.knew.cores_of_service;
    let of_all = history.cores.len();
    let had = match cores.len() {
        0 => return vec![format!("`{name}` allocates the cores.{}", rule(name))],
        listed if listed <= CORES_LISTED => {
            let list: Vec<String> = cores.iter().map(ToString::to_string).collect();
            format!("{} of {of_all} cores: {}", cores.len(), list.join(", "))
        }
        _ => format!("{} of {of_all} cores", cores.len()),
    };
    let mut said = vec![format!("When it came, `{name}` had given {service} {had}.{}", rule(name))];
    if let Some(hop) = story.hops.first()
        && !cores.contains(&hop.core)
    {
        said.push(format!("Core {} came to the service later, and served the packet.", hop.core));
    }
    said
}

fn steered(story: &PacketStory, name: &str) -> Vec<String> {
    let PolicyKnowledge { cores, steered_to, steering, unit, .. } = &story.knew;
    let chosen = steered_to.or_else(|| story.hops.first().map(|hop| usize::from(hop.core)));
    let whereto = chosen.map_or_else(|| "nowhere".to_owned(), |core| format!("to core {core}"));
    let mut said = vec![format!("`{name}` steered it {whereto}.{}", rule(name))];
    if let Some(words) = steering {
        said.push(format!("It went by {words}."));
    }
    if !cores.is_empty() {
        let work = |backlog: u64| match *unit {
            "ns" => ns(backlog),
            unit => format!("{backlog} {unit}"),
        };
        let mut listed: Vec<&CoreAtArrival> = cores.iter().collect();
        listed.sort_by_key(|view| (Some(view.core) != chosen, view.backlog, view.packets, view.core));
        let of_core = |view: &&CoreAtArrival| {
            let packets = counted(u64::from(view.packets), "packet");
            let work = if view.packets > 0 { format!(" ({})", work(view.backlog)) } else { String::new() };
            format!("core {} {packets}{work}", view.core)
        };
        let shown: Vec<String> = listed.iter().take(CORES_LISTED).map(of_core).collect();
        let rest = if listed.len() > CORES_LISTED { ", the others more" } else { "" };
        said.push(format!("When it came the backlogs were: {}{rest}.", shown.join(", ")));
    }
    said
}

fn shared(story: &PacketStory, name: &str) -> Vec<String> {
    let queue = &story.knew.queue;
    if story.hops.is_empty() {
        return Vec::new();
    }
    let mut said = Vec::new();
    let own = if queue.own > 0 { format!(", {} of its own flow", queue.own) } else { String::new() };
    let in_service = format!("{} {} in service", counted(queue.in_service, "packet"), was(queue.in_service));
    said.push(match (queue.waiting, queue.in_service) {
        (0, 0) => "No packet waited in its queue, and none was in service.".to_owned(),
        (0, _) => format!("No packet waited in its queue; {in_service}."),
        (waiting, _) => {
            let flows = counted(queue.flows, "flow");
            let waited = counted(waiting, "packet");
            format!("{waited} of {flows} waited in its queue{own}; {in_service}.")
        }
    });
    if let Some(hop) = story.hops.first() {
        let waited = ns(hop.given_ns.saturating_sub(hop.joined_ns));
        said.push(format!("Core {} was given it {waited} after it joined the queue.", hop.core));
    }
    if name == "fcfs" {
        return said;
    }
    let mut order = format!("`{name}` ordered the queue.{}", rule(name));
    if queue.waiting == 0 && queue.overtaken_by == 0 {
        order = format!("`{name}` had no choice to make: no other packet waited.");
    }
    said.push(order);
    for (count, came, served) in [(queue.overtaken_by, "later", "before"), (queue.overtook, "earlier", "after")] {
        if count > 0 {
            said.push(format!("{} that came {came} {} served {served} it.", counted(count, "packet"), was(count)));
        }
    }
    let words = [("When it came", &story.knew.at_arrival), ("When it was chosen", &story.knew.at_choice)];
    for (when, words) in words {
        if let Some(words) = words {
            said.push(format!("{when}, `{name}` knew of its client: {words}."));
        }
    }
    said
}

const fn was(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

fn delayed(story: &PacketStory) -> Vec<String> {
    let Some(delay) = story.delay_ns else { return Vec::new() };
    let blame = &story.blame;
    let parts = blame.parts;
    let share = |part: u64| percent(part as f64 / delay.max(1) as f64);
    let mut said = Vec::new();
    if parts.waiting_ns > 0 {
        let packets = blame.flows.iter().map(|flow| flow.packets).sum::<u64>() + blame.other_flows.packets;
        let flows = blame.flows.len() as u64 + blame.other_flows.flows;
        said.push(format!(
            "It waited {} ({}) behind {} of {}.",
            ns(parts.waiting_ns),
            share(parts.waiting_ns),
            counted(packets, "packet"),
            counted(flows, "flow")
        ));
        if let Some(heaviest) = blame.flows.first().filter(|_| flows > 1) {
            let of = if heaviest.flow == story.flow { "its own flow" } else { &heaviest.flow };
            let (longest, packets) = (ns(heaviest.total_ns), counted(heaviest.packets, "packet"));
            said.push(format!("The longest part of that, {longest}, was behind {packets} of {of}."));
        }
    }
    if parts.switching_ns > 0 {
        let switching = ns(parts.switching_ns);
        said.push(format!("It waited {switching} ({}) for its core to switch service.", share(parts.switching_ns)));
    }
    if parts.dispatcher_ns > 0 {
        let part = share(parts.dispatcher_ns);
        said.push(format!("For {} ({part}) its core was idle: {}.", ns(parts.dispatcher_ns), idle(story)));
    }
    let cold = if story.hops.iter().any(|hop| hop.cold) { ", on a cold core" } else { "" };
    said.push(format!("Its service took {} ({}){cold}.", ns(parts.service_ns), share(parts.service_ns)));
    if parts.exit_ns > 0 {
        let exit = ns(parts.exit_ns);
        said.push(format!("It waited {exit} ({}) at the exit for earlier packets of its flow.", share(parts.exit_ns)));
    }
    said
}

/// Says where the packet was while its core was idle.
fn idle(story: &PacketStory) -> String {
    let parts = &story.blame.dispatcher;
    let is_allocated = !story.knew.cores_of_service.is_empty();
    let queued = if is_allocated { "in the queue, or its core had another service" } else { "in the queue" };
    let parts = [
        (parts.before_queue_ns, "before the dispatcher took it in"),
        (parts.in_queue_ns, queued),
        (parts.handed_over_ns, "between handing over and hearing of its end"),
    ];
    let said = parts.iter().filter(|(part, _)| *part > 0).map(|(part, place)| format!("{} {place}", ns(*part)));
    said.collect::<Vec<_>>().join(", ")
}

fn otherwise(story: &PacketStory) -> Vec<String> {
    let Some(delay) = story.delay_ns else { return Vec::new() };
    let mut said: Vec<String> = story.otherwise.iter().map(|one| alternative(story, one, delay)).collect();
    if said.is_empty() {
        said.push("It waited for nothing: only a shorter service would have made it faster.".to_owned());
    } else {
        said.push("These figures take the rest of the run as it was.".to_owned());
    }
    said
}

fn alternative(story: &PacketStory, one: &Alternative, delay: u64) -> String {
    let changed = ns(one.delay_ns);
    let than = match one.saved_ns {
        0 => format!("the same, {changed}"),
        saved if saved > 0 => format!("{changed} instead of {}, {} shorter", ns(delay), ns(saved.unsigned_abs())),
        longer => format!("{changed} instead of {}, {} longer", ns(delay), ns(longer.unsigned_abs())),
    };
    match (one.change, one.core, &one.flow) {
        ("core", Some(core), _) if one.saved_ns > 0 => {
            let done = one.done_ns.unwrap_or(one.delay_ns);
            let exit = if done < one.delay_ns {
                format!(", after {}; behind earlier packets of its flow", ns(done))
            } else {
                ":".to_owned()
            };
            format!("On core {core} it would have been done first{exit} its delay would have been {than}.")
        }
        ("core", Some(core), _) => {
            format!(
                "No core would have had it sooner: on core {core}, the next best, its delay would have been {than}."
            )
        }
        ("fcfs", ..) => format!("In a queue served first come, first served, its delay would have been {than}."),
        ("without_flow", _, Some(flow)) if *flow == story.flow => {
            format!("Without the earlier packets of its own flow its delay would have been {than}.")
        }
        ("without_flow", _, Some(flow)) => {
            format!("Without the packets of {flow} its delay would have been {than}.")
        }
        ("without_switching", ..) => format!("Without the switch of its core its delay would have been {than}."),
        _ => format!("With `--flow-order free` it would not have waited at the exit: {than}."),
    }
}
