//! Splits the delay of a packet into parts that add up to it exactly.

use std::collections::HashMap;

use serde::Serialize;

use super::recorder::{Doing, History, Stretch};

/// The parts of a delay, in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayParts {
    /// Time during which the packet waited while its core served other packets, in ns.
    pub waiting_ns: u64,
    /// Time during which the packet waited while its core switched to another service, in ns.
    pub switching_ns: u64,
    /// Time during which the packet waited although its core was idle, in ns. The dispatcher had
    /// not taken it in, handed it over or taken it back, or held it back.
    pub dispatcher_ns: u64,
    /// Time of service, in ns.
    pub service_ns: u64,
    /// Time at the exit, where the packet waited for earlier packets of its flow, in ns.
    pub exit_ns: u64,
}

impl DelayParts {
    /// Returns the whole delay.
    pub const fn total_ns(&self) -> u64 {
        self.waiting_ns + self.switching_ns + self.dispatcher_ns + self.service_ns + self.exit_ns
    }

    /// Returns each part with its name.
    pub const fn named(&self) -> [(&'static str, u64); 5] {
        [
            ("waiting", self.waiting_ns),
            ("switching", self.switching_ns),
            ("dispatcher", self.dispatcher_ns),
            ("service", self.service_ns),
            ("exit", self.exit_ns),
        ]
    }

    fn add(&mut self, other: &Self) {
        self.waiting_ns += other.waiting_ns;
        self.switching_ns += other.switching_ns;
        self.dispatcher_ns += other.dispatcher_ns;
        self.service_ns += other.service_ns;
        self.exit_ns += other.exit_ns;
    }
}

/// The parts of [`DelayParts::dispatcher_ns`], in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DispatcherParts {
    /// Time before the packet reached the scheduler, in ns.
    pub before_queue_ns: u64,
    /// Time in a queue while the core of the packet was idle, in ns.
    pub in_queue_ns: u64,
    /// Time in ns after the core was given the packet until its service began, and after the
    /// service until the dispatcher noticed its end.
    pub handed_over_ns: u64,
}

impl DispatcherParts {
    /// Adds a while in which the core was idle; the packet was in the queue until it was `given` to the core.
    fn add_idle(&mut self, from: u64, to: u64, given: u64) {
        let given = given.clamp(from, to);
        self.in_queue_ns += given - from;
        self.handed_over_ns += to - given;
    }

    const fn total_ns(&self) -> u64 {
        self.before_queue_ns + self.in_queue_ns + self.handed_over_ns
    }

    fn add(&mut self, other: &Self) {
        self.before_queue_ns += other.before_queue_ns;
        self.in_queue_ns += other.in_queue_ns;
        self.handed_over_ns += other.handed_over_ns;
    }
}

/// Time for which packets waited behind those of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BehindFlow {
    /// The flow, by number.
    pub(super) flow: u32,
    pub(super) ns: u64,
    /// Packets of the flow that were served meanwhile.
    pub(super) packets: u64,
}

/// Packets waited behind, by flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Behind(HashMap<u32, (u64, u64)>);

impl Behind {
    fn add(&mut self, flow: u32, ns: u64) {
        let place = self.0.entry(flow).or_default();
        *place = (place.0 + ns, place.1 + 1);
    }

    /// Returns the flows, the longest first.
    pub(super) fn flows(&self) -> Vec<BehindFlow> {
        let flow = |(&flow, &(ns, packets)): (&u32, &(u64, u64))| BehindFlow { flow, ns, packets };
        let mut flows: Vec<BehindFlow> = self.0.iter().map(flow).collect();
        flows.sort_by_key(|behind| (core::cmp::Reverse(behind.ns), behind.flow));
        flows
    }
}

/// Splits the delay of a packet that left or ended, and adds the flows that it waited behind to `behind`.
pub(super) fn split(history: &History, packet: u32, behind: &mut Behind) -> (DelayParts, DispatcherParts) {
    let passage = &history.passages[packet as usize];
    let (mut parts, mut dispatcher) = (DelayParts::default(), DispatcherParts::default());
    let mut at = passage.arrival;
    for visit in history.visits_of(packet) {
        dispatcher.before_queue_ns += visit.joined - at;
        at = visit.joined;
        let core = &history.cores[usize::from(visit.core)];
        let first = core.partition_point(|stretch| stretch.end <= at);
        for &Stretch { begin, end, doing } in core[first..].iter().take_while(|stretch| stretch.begin < visit.begin) {
            let (begin, end) = (begin.max(at), end.min(visit.begin));
            if end <= begin {
                continue;
            }
            dispatcher.add_idle(at, begin, visit.given);
            match doing {
                Doing::Serving(other) => {
                    parts.waiting_ns += end - begin;
                    let other = history.visits[other as usize].packet;
                    behind.add(history.passages[other as usize].flow, end - begin);
                }
                Doing::Switching(_) => parts.switching_ns += end - begin,
            }
            at = end;
        }
        dispatcher.add_idle(at, visit.begin, visit.given);
        parts.service_ns += visit.end - visit.begin;
        dispatcher.handed_over_ns += visit.heard - visit.end;
        at = visit.heard;
    }
    parts.dispatcher_ns = dispatcher.total_ns();
    parts.exit_ns = passage.gone - at;
    (parts, dispatcher)
}

/// What the delay of several packets consists of, together.
#[derive(Clone, Debug, Default)]
pub(super) struct Blamed {
    pub(super) packets: u64,
    pub(super) parts: DelayParts,
    pub(super) dispatcher: DispatcherParts,
    /// The part of the waiting behind packets of the same flow.
    pub(super) own_ns: u64,
    pub(super) behind: Behind,
}

/// Splits the delays of these packets.
pub(super) fn blame(history: &History, packets: impl Iterator<Item = u32>) -> Blamed {
    let mut blamed = Blamed::default();
    for packet in packets {
        let mut behind = Behind::default();
        let (parts, dispatcher) = split(history, packet, &mut behind);
        blamed.parts.add(&parts);
        blamed.dispatcher.add(&dispatcher);
        blamed.packets += 1;
        let own = history.passages[packet as usize].flow;
        for BehindFlow { flow, ns, packets } in behind.flows() {
            blamed.own_ns += if flow == own { ns } else { 0 };
            let place = blamed.behind.0.entry(flow).or_default();
            *place = (place.0 + ns, place.1 + packets);
        }
    }
    blamed
}
