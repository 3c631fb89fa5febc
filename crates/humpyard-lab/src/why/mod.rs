//! Why a packet was served when it was: what delayed it, what the policies knew, what would have made it otherwise.
//!
//! All of it is read from the journal of a run: of a simulation while it goes on, or of a file. `recorder` keeps the
//! way of each packet, `blame` splits its delay, `asked` asks the policies about one packet, `otherwise` changes one
//! thing.

mod asked;
mod blame;
mod otherwise;
mod recorder;
mod story;
mod table;
#[cfg(test)]
mod tests;
mod words;

use std::sync::{Arc, Mutex, PoisonError};

use humpyard_core::name::nearest;
use humpyard_policies::spec::PolicySpec;

use crate::LabError;
use crate::choice::time::time;
use crate::config::RunConfig;
use crate::control::Control;
use crate::figures::counted;
use crate::follow::Follower;
use crate::journal;
use crate::run::simulate;
use asked::{Asked, Known, core_of};
use otherwise::QueueOf;
use recorder::{Fate, History};

pub use blame::{DelayParts, DispatcherParts};
pub use otherwise::{Alternative, QueueAtArrival};
pub use story::{
    CoreAtArrival, CorePackets, DelayFigures, FlowStory, PacketFates, PacketHop, PacketStory, PolicyKnowledge,
    StoryWords, Why,
};
pub use table::{BlamePart, BlameTable, BlamedFlow, OtherFlows};

/// Which packet is asked about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WhichPacket {
    /// The slowest of a flow, which is named as `trace info` names it, with or without its protocol.
    OfFlow(String),
    /// The packet of this number among all that came, from 1.
    Number(u64),
    /// The one whose delay is the p99 of the run.
    P99,
}

/// Simulates a run, and says why a packet of it was served when it was.
///
/// # Errors
/// What keeps the run from starting, and a packet or flow that it does not have.
pub fn why(config: &RunConfig, which: &WhichPacket, control: &mut Control<'_>) -> Result<Why, LabError> {
    let history = Arc::new(Mutex::new(History::default()));
    let result = followed(config, control, Follower::new(&history))?;
    if result.1 {
        return Err(LabError::option("interrupted while the run was simulated: nothing was found out"));
    }
    let mut history = core::mem::take(&mut *history.lock().unwrap_or_else(PoisonError::into_inner));
    history.finish();
    let input = config.input_name();
    let list = format!("`humpyard trace info {input}` lists the heaviest flows");
    let chosen = Chosen::find(&history, which, time(config.warm_up).as_ns(), &list)?;
    // A pipe is read once; the policies are not asked then.
    let mut known = Known::default();
    if config.inputs().iter().all(|input| input != "-") {
        let asked = Arc::new(Mutex::new(Asked::new(u64::from(chosen.packet))));
        followed(config, control, Follower::new(&asked))?;
        known = core::mem::take(&mut asked.lock().unwrap_or_else(PoisonError::into_inner).known);
    }
    let mut why = chosen.answer(&history, &known, input, false);
    why.damage = result.0;
    Ok(why)
}

/// Simulates a run whose journal is followed; returns the damage of its input, and whether it was interrupted.
fn followed(
    config: &RunConfig,
    control: &mut Control<'_>,
    follower: Follower,
) -> Result<(Option<String>, bool), LabError> {
    control.follower = Some(follower);
    let result = simulate(config, control)?;
    Ok((result.damage.map(|damage| damage.message), result.interrupted))
}

/// Reads the journal of a run, and says why a packet of it was served when it was.
///
/// # Errors
/// A file that is no journal, or names several, and a packet or flow that it does not have.
pub fn why_of_journal(
    path: &str,
    which: &WhichPacket,
    progress: &mut dyn FnMut(u64, Option<f64>),
) -> Result<Why, LabError> {
    let mut history = History::default();
    journal::follow(path, &mut history, progress)?;
    history.finish();
    let list =
        format!("its lines that begin with {{\"flow\": name all, {}", counted(history.flows.len() as u64, "flow"));
    let chosen = Chosen::find(&history, which, 0, &list)?;
    let mut asked = Asked::new(u64::from(chosen.packet));
    journal::follow(path, &mut asked, progress)?;
    Ok(chosen.answer(&history, &asked.known, path.to_owned(), true))
}

/// A packet that was found, and those that it is compared with.
struct Chosen {
    packet: u32,
    asked: &'static str,
    /// The numbers of the flow that was asked about.
    flow: Vec<u32>,
    /// The packets that left after the warm-up, by delay.
    ranked: Vec<(u64, u32)>,
}

impl Chosen {
    /// Finds the packet; `list` says what lists the flows.
    fn find(history: &History, which: &WhichPacket, warm_up: u64, list: &str) -> Result<Self, LabError> {
        let first = history.passages.first().map_or(0, |passage| passage.arrival);
        let counts = |arrival: u64| arrival >= first.saturating_add(warm_up);
        let numbered = (0..).zip(&history.passages);
        let left = numbered.filter(|(_, passage)| counts(passage.arrival));
        let mut ranked: Vec<(u64, u32)> =
            left.filter_map(|(number, passage)| Some((passage.delay()?, number))).collect();
        ranked.sort_unstable();
        if ranked.is_empty() {
            let seen = counted(history.passages.len() as u64, "packet");
            let said = format!("no packet left in this run, of {seen} that came: there is no delay to explain");
            return Err(LabError::option(said));
        }
        let (packet, asked, flow) = match which {
            WhichPacket::P99 => (ranked[rank(ranked.len(), 99)].1, "p99", Vec::new()),
            WhichPacket::Number(number) => (numbered_packet(history, *number)?, "packet", Vec::new()),
            WhichPacket::OfFlow(name) => {
                let flow = flows_named(history, name, list)?;
                (slowest(history, &flow), "flow", flow)
            }
        };
        Ok(Self { packet, asked, flow, ranked })
    }

    fn answer(&self, history: &History, known: &Known, input: String, is_journal: bool) -> Why {
        let delays: Vec<u64> = self.ranked.iter().map(|&(delay, _)| delay).collect();
        let p99 = rank(delays.len(), 99);
        let from = delays.partition_point(|&delay| delay < delays[p99]);
        let slow = self.ranked[from..].iter().map(|&(_, packet)| packet);
        Why {
            input,
            is_journal,
            policy: history.policy.as_ref().map_or_else(String::new, ToString::to_string),
            cores: history.cores.len(),
            packets: fates(history, |_| true),
            delay_ns: figures(&delays),
            asked: self.asked,
            flow: (!self.flow.is_empty()).then(|| self.flow_story(history)),
            packet: self.story(history, known),
            blame: BlameTable::of(history, slow, delays[p99]),
            damage: None,
        }
    }

    fn flow_story(&self, history: &History) -> FlowStory {
        let is_of_flow = |flow: u32| self.flow.contains(&flow);
        let of_flow = self.ranked.iter().filter(|&&(_, packet)| is_of_flow(history.passages[packet as usize].flow));
        let delays: Vec<u64> = of_flow.clone().map(|&(delay, _)| delay).collect();
        let mut cores = vec![0; history.cores.len()];
        for visit in &history.visits {
            if is_of_flow(history.passages[visit.packet as usize].flow) {
                cores[usize::from(visit.core)] += 1;
            }
        }
        let served = (0..).zip(cores).filter(|&(_, packets)| packets > 0);
        let mut names: Vec<String> = Vec::new();
        for name in self.flow.iter().map(|&flow| &history.flows[flow as usize]) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let other_flows = names.split_off(1);
        FlowStory {
            flow: names.remove(0),
            other_flows,
            packets: fates(history, is_of_flow),
            delay_ns: figures(&delays),
            cores: served.map(|(core, packets)| CorePackets { core, packets }).collect(),
            blame: BlameTable::of(history, of_flow.map(|&(_, packet)| packet), delays.first().copied().unwrap_or(0)),
        }
    }

    fn story(&self, history: &History, known: &Known) -> PacketStory {
        let packet = self.packet;
        let passage = history.passages[packet as usize];
        let delay_ns = passage.delay();
        let faster = |delay: u64| self.ranked.partition_point(|&(other, _)| other < delay);
        let hops = history.visits_of(packet).into_iter().map(|visit| PacketHop {
            service: history.service_name(visit.service),
            core: visit.core,
            cold: visit.cold,
            joined_ns: visit.joined,
            given_ns: visit.given,
            begin_ns: visit.begin,
            end_ns: visit.end,
        });
        let mut story = PacketStory {
            number: u64::from(packet) + 1,
            flow: history.flow_name(packet).to_owned(),
            client: passage.client,
            length: passage.length,
            arrival_ns: passage.arrival,
            fate: match passage.fate {
                Fate::Held => "held",
                Fate::Left => "left",
                Fate::Ended => "ended",
                Fate::Dropped(reason) => reason.name(),
            },
            delay_ns,
            faster_fraction: delay_ns.map(|delay| faster(delay) as f64 / self.ranked.len() as f64),
            hops: hops.collect(),
            blame: BlameTable::of(history, delay_ns.map(|_| packet).into_iter(), delay_ns.unwrap_or(0)),
            knew: knowledge(history, packet, known),
            otherwise: Vec::new(),
            words: StoryWords::default(),
        };
        story.otherwise = alternatives(history, packet, &story);
        story.words = words::of(history, &story, self.asked);
        story
    }
}

/// Returns the index of this percentile in a sorted list.
fn rank(length: usize, percent: usize) -> usize {
    (length * percent).div_ceil(100).max(1) - 1
}

fn numbered_packet(history: &History, number: u64) -> Result<u32, LabError> {
    let all = history.passages.len() as u64;
    if (1..=all).contains(&number) {
        return Ok((number - 1) as u32);
    }
    Err(LabError::of_option("packet", format!("takes 1 to {all}, the packets of this run, not `{number}`")))
}

/// Returns the numbers of the flows that a text names: with or without the protocol, and with `<>` both directions.
/// `list` says what lists the flows.
fn flows_named(history: &History, text: &str, list: &str) -> Result<Vec<u32>, LabError> {
    let wanted = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (sides, both) = match wanted.split_once(" <> ") {
        Some(sides) => (Some(sides), true),
        None => (wanted.split_once(" > "), false),
    };
    let matches = |name: &str| {
        let bare = name.split_once(' ').map_or(name, |(_, bare)| bare);
        if name == wanted || bare == wanted {
            return true;
        }
        let (Some((from, to)), true) = (sides, both) else { return false };
        let (protocol, from) = from.rsplit_once(' ').map_or(("", from), |(protocol, from)| (protocol, from));
        let is_protocol = protocol.is_empty() || name.strip_suffix(bare).is_some_and(|start| start.trim() == protocol);
        is_protocol && (bare == format!("{from} > {to}") || bare == format!("{to} > {from}"))
    };
    let found: Vec<u32> = (0..).zip(&history.flows).filter(|(_, name)| matches(name)).map(|(flow, _)| flow).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let near = nearest(&wanted, history.flows.iter().take(NAMES_COMPARED).map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    Err(LabError::of_option("flow", format!("names no flow of this run, `{text}`: {near}{list}")))
}

/// Names that are compared with one that is unknown.
const NAMES_COMPARED: usize = 20_000;

/// Returns the packet of these flows that took longest; of those that did not leave the first.
fn slowest(history: &History, flows: &[u32]) -> u32 {
    let of_flow = (0..).zip(&history.passages).filter(|(_, passage)| flows.contains(&passage.flow));
    let (packet, _) = of_flow.max_by_key(|&(number, passage)| (passage.delay(), core::cmp::Reverse(number))).unzip();
    packet.unwrap_or(0)
}

fn fates(history: &History, is_of: impl Fn(u32) -> bool) -> PacketFates {
    let mut fates = PacketFates::default();
    for passage in history.passages.iter().filter(|passage| is_of(passage.flow)) {
        fates.arrived += 1;
        match passage.fate {
            Fate::Held => fates.held += 1,
            Fate::Left => fates.left += 1,
            Fate::Ended => fates.ended += 1,
            Fate::Dropped(_) => fates.dropped += 1,
        }
    }
    fates
}

/// Returns the figures of delays, which are sorted.
fn figures(delays: &[u64]) -> DelayFigures {
    let Some(&max) = delays.last() else { return DelayFigures::default() };
    let sum: u128 = delays.iter().map(|&delay| u128::from(delay)).sum();
    let (p50, p99) = (delays[rank(delays.len(), 50)], delays[rank(delays.len(), 99)]);
    DelayFigures { mean: sum as f64 / delays.len() as f64, p50, p99, max }
}

/// Returns the queue of a packet, as the policies lay it out.
fn queue_of(history: &History, packet: u32) -> QueueOf {
    let first = history.visits_of(packet).first().copied();
    let policy = history.policy.as_ref();
    match first {
        Some(first) if policy.is_some_and(PolicySpec::steers) => QueueOf::Core(first.core),
        Some(first) if policy.is_some_and(PolicySpec::allocates) => QueueOf::Service(first.service),
        _ => QueueOf::All,
    }
}

fn knowledge(history: &History, packet: u32, known: &Known) -> PolicyKnowledge {
    let service = history.passages[packet as usize].service;
    let views = known.views.iter().flatten().enumerate();
    let own = known.services.iter().flatten().filter(|(_, of)| of.0 == service);
    let policy = history.policy.as_ref().map_or_else(String::new, ToString::to_string);
    PolicyKnowledge {
        policy: if known.policy.is_empty() { policy } else { known.policy.clone() },
        steered_to: core_of(known.target),
        cores: views.map(|(core, view)| CoreAtArrival { core, packets: view.packets, backlog: view.backlog }).collect(),
        unit: history.config.unit.name(),
        steering: known.steering.clone(),
        queue: otherwise::queue_at_arrival(history, packet, queue_of(history, packet)),
        at_arrival: known.at_arrival.clone(),
        at_choice: known.at_choice.clone(),
        cores_of_service: own.map(|(core, _)| core.0).collect(),
    }
}

/// Returns what would have made the delay of a packet another; nothing for one that did not leave.
fn alternatives(history: &History, packet: u32, story: &PacketStory) -> Vec<Alternative> {
    let (Some(delay), Some(hop)) = (story.delay_ns, story.hops.first()) else { return Vec::new() };
    let mut found = Vec::new();
    let mut add = |change, core, flow, done_ns, changed: u64| {
        let saved_ns = i64::try_from(i128::from(delay) - i128::from(changed)).unwrap_or(i64::MIN);
        found.push(Alternative { change, core, flow, done_ns, delay_ns: changed, saved_ns });
    };
    let steers = history.policy.as_ref().is_some_and(PolicySpec::steers);
    let queue = queue_of(history, packet);
    if steers && history.cores.len() > 1 {
        let allowed = |core: &u16| {
            let of_service = &story.knew.cores_of_service;
            *core != hop.core && (of_service.is_empty() || of_service.contains(core))
        };
        let cores = otherwise::on_cores(history, packet, (0..history.cores.len() as u16).filter(allowed));
        if let Some(&(core, moved)) = cores.iter().min_by_key(|(core, moved)| (*moved, *core)) {
            add("core", Some(core), None, Some(moved.done), moved.delay);
        }
    }
    if history.policy.as_ref().is_some_and(PolicySpec::shares) && !matches!(queue, QueueOf::Service(_)) {
        let cores = if queue == QueueOf::All { history.cores.len() } else { 1 };
        if let Some(moved) = otherwise::by_arrival(history, packet, queue, cores) {
            add("fcfs", None, None, Some(moved.done), moved.delay);
        }
    }
    if let Some(heaviest) = story.blame.flows.first() {
        add("without_flow", None, Some(heaviest.flow.clone()), None, delay - heaviest.total_ns);
    }
    let parts = story.blame.parts;
    if parts.switching_ns > 0 {
        add("without_switching", None, None, None, delay - parts.switching_ns);
    }
    if parts.exit_ns > 0 {
        add("free_order", None, None, None, delay - parts.exit_ns);
    }
    found
}
