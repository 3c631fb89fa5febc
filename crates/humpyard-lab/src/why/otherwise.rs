//! What would have made the delay of a packet another: one thing is changed, and the rest of the run stays as it was.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use humpyard_policies::spec::PolicySpec;
use serde::Serialize;

use super::recorder::{Fate, History, NOTHING, Visit};

/// The delay of a packet with one thing changed, and the rest of the run as it was.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alternative {
    /// The change. `core`: another core. `fcfs`: the queue serves in order of arrival.
    /// `without_flow`: no waiting behind one flow. `without_switching`: no waiting for switches.
    /// `free_order`: no waiting at the exit.
    pub change: &'static str,
    /// Number of the other core, from 0. `None`: the change is not `core`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<u16>,
    /// The flow that is taken away. `None`: the change is not `without_flow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// Time in ns from arrival to completion, after which the packet may wait at the exit. `None`:
    /// the change is neither `core` nor `fcfs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done_ns: Option<u64>,
    /// Delay of the packet with this change, in ns.
    pub delay_ns: u64,
    /// Actual delay minus `delay_ns`, in ns. Negative: the change makes the delay longer.
    pub saved_ns: i64,
}

/// Which packets a packet shares its queue with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QueueOf {
    /// All: one queue for all cores.
    All,
    /// Those of its core.
    Core(u16),
    /// Those of its service.
    Service(u16),
}

impl QueueOf {
    /// Returns whether the packet of this visit waited in the queue.
    pub(super) fn has(self, visit: &Visit) -> bool {
        match self {
            Self::All => true,
            Self::Core(core) => visit.core == core,
            Self::Service(service) => visit.service == service,
        }
    }
}

/// When a packet would have been done and gone, since its arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Moved {
    pub(super) done: u64,
    pub(super) delay: u64,
}

impl Moved {
    /// Returns what a packet would have had whose first visit had ended at this time, all behind it as it was. At
    /// `turn` its flow's earlier packets had left.
    fn to(history: &History, packet: u32, end: u64, turn: u64) -> Option<Self> {
        let passage = &history.passages[packet as usize];
        let visits = history.visits_of(packet);
        let (first, last) = (visits.first()?, visits.last()?);
        // Its later hops take what they took.
        let done = (last.heard + end).saturating_sub(first.heard);
        let turn = if history.config.exit.is_some() { turn } else { 0 };
        let [done, gone] = [done, done.max(turn)].map(|at| at.saturating_sub(passage.arrival));
        Some(Self { done, delay: gone })
    }
}

/// Returns when the packets of its flow that came before it had left.
fn turn_of(history: &History, packet: u32) -> u64 {
    let flow = history.passages[packet as usize].flow;
    let earlier = history.passages[..packet as usize].iter();
    earlier.filter(|other| other.flow == flow && other.fate == Fate::Left).map(|other| other.gone).max().unwrap_or(0)
}

/// Returns what the packet would have had on each of these cores, behind all that had come there before it.
///
/// Where cores serve in order, those are done when they were; else when the core has done what is left of their work.
pub(super) fn on_cores(history: &History, packet: u32, cores: impl Iterator<Item = u16>) -> Vec<(u16, Moved)> {
    let visits = history.visits_of(packet);
    let Some(first) = visits.first() else { return Vec::new() };
    let in_order = !history.policy.as_ref().is_some_and(PolicySpec::shares);
    let mut free = vec![first.joined; history.cores.len()];
    for visit in history.visits.iter().filter(|visit| visit.heard != u64::MAX && visit.packet != packet) {
        let came_before = visit.joined < first.joined || (visit.joined == first.joined && visit.packet < packet);
        if came_before && visit.end > first.joined {
            let free = &mut free[usize::from(visit.core)];
            let left = visit.end - visit.begin.max(first.joined);
            *free = if in_order { (*free).max(visit.end) } else { *free + left };
        }
    }
    let turn = turn_of(history, packet);
    let delay = |core: u16| {
        let free = *free.get(usize::from(core))?;
        Moved::to(history, packet, free + first.end - first.begin, turn)
    };
    cores.filter_map(|core| Some((core, delay(core)?))).collect()
}

/// Returns what the packet would have had if its queue had served first come, first served, by this many cores.
pub(super) fn by_arrival(history: &History, packet: u32, queue: QueueOf, cores: usize) -> Option<Moved> {
    let own = *history.visits_of(packet).first()?;
    let flow = history.passages[packet as usize].flow;
    let mut waiting: Vec<&Visit> =
        history.visits.iter().filter(|visit| visit.heard != u64::MAX && queue.has(visit)).collect();
    waiting.sort_by_key(|visit| (visit.joined, visit.packet));
    let mut free: BinaryHeap<Reverse<u64>> = (0..cores.max(1)).map(|_| Reverse(0)).collect();
    let mut turn = 0;
    for visit in waiting {
        let Reverse(at) = free.pop()?;
        let end = at.max(visit.joined) + visit.end - visit.begin;
        if visit.packet == packet && visit.joined == own.joined {
            return Moved::to(history, packet, end, turn);
        }
        if history.passages[visit.packet as usize].flow == flow {
            turn = turn.max(end);
        }
        free.push(Reverse(end));
    }
    None
}

/// The queue of a packet when it arrived, and the packets that overtook it or that it overtook.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueAtArrival {
    /// Packets that waited in the queue.
    pub waiting: u64,
    /// Number of flows of the packets that waited.
    pub flows: u64,
    /// Packets that waited and were of the same flow.
    pub own: u64,
    /// Packets that the cores of the queue were serving.
    pub in_service: u64,
    /// Packets that arrived later and were given to a core earlier.
    pub overtaken_by: u64,
    /// Packets that arrived earlier and were given to a core later.
    pub overtook: u64,
}

/// Returns how the queue of a packet was when it came.
pub(super) fn queue_at_arrival(history: &History, packet: u32, queue: QueueOf) -> QueueAtArrival {
    let Some(own) = history.visits_of(packet).first().copied() else { return QueueAtArrival::default() };
    let flow = history.passages[packet as usize].flow;
    let mut found = QueueAtArrival::default();
    let mut flows = Vec::new();
    for visit in history.visits.iter().filter(|visit| visit.packet != packet && queue.has(visit)) {
        let came_before = visit.joined < own.joined || (visit.joined == own.joined && visit.packet < packet);
        if !came_before {
            found.overtaken_by += u64::from(visit.given < own.given);
            continue;
        }
        found.overtook += u64::from(visit.given > own.given);
        // Of one instant, packets come before cores are given any.
        if visit.given >= own.joined {
            found.waiting += 1;
            let other = history.passages[visit.packet as usize].flow;
            found.own += u64::from(other == flow);
            flows.push(other);
        } else if visit.heard > own.joined {
            found.in_service += 1;
        }
    }
    flows.sort_unstable();
    flows.dedup();
    found.flows = flows.iter().filter(|&&flow| flow != NOTHING).count() as u64;
    found
}
