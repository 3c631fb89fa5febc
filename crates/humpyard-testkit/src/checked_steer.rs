//! A steering policy under watch.

use alloc::collections::BTreeMap;

use humpyard_core::id::{CoreId, FlowId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{CoreView, Policy, Reach, Steer, Target, View};
use humpyard_core::unit::{Time, Work};

/// The place of a packet.
#[derive(Clone, Copy, Debug)]
struct Held {
    target: Target,
    /// The core where it is in service, if it is.
    core: Option<CoreId>,
    estimate: Work,
}

/// A steering policy whose contract is asserted on both sides at every call.
///
/// Assertions on the mechanism:
///
/// * Time never goes back.
/// * The view counts the packets that were enqueued and are not complete.
/// * The mechanism reports the fate of a packet before it asks about the next, with the chosen
///   target.
/// * A packet is dispatched from where it waits, and completed where it was dispatched.
///
/// Assertion on the policy: it chooses an eligible target, no wider than its reach.
#[derive(Debug)]
pub struct CheckedSteer<S> {
    steer: S,
    cores: usize,
    contexts: usize,
    /// Whether it may get packets that it did not steer: it took over from another policy, or flows
    /// are split.
    took_over: bool,
    now: Time,
    /// The answer to the last question, until the packet's fate is reported.
    pending: Option<Target>,
    /// The packets enqueued and not complete, by sequence number.
    held: BTreeMap<u64, Held>,
}

impl<S: Steer> CheckedSteer<S> {
    /// Returns a checked policy for `cores` cores.
    pub fn new(steer: S, cores: usize) -> Self {
        Self { steer, cores, contexts: 1, took_over: false, now: Time::ZERO, pending: None, held: BTreeMap::new() }
    }

    /// Sets the number of contexts of each element.
    #[must_use]
    pub fn with_contexts(self, contexts: usize) -> Self {
        Self { contexts, ..self }
    }

    /// Marks a policy that takes over from another, or that runs with split flows.
    #[must_use]
    pub fn taking_over(self) -> Self {
        Self { took_over: true, ..self }
    }

    fn advance(&mut self, now: Time) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
    }

    fn verify_view(&self, view: &View<'_>) {
        assert!(!view.eligible.is_empty() && view.eligible.is_sorted(), "eligible cores: {:?}", view.eligible);
        let mut expected: IdVec<CoreId, CoreView> = IdVec::from_fn(self.cores, |_| CoreView::default());
        for held in self.held.values() {
            if let Some(core) = held.core.or(held.target.core()) {
                expected[core].packets += 1;
                expected[core].backlog += held.estimate;
            }
        }
        assert_eq!(view.cores, &expected, "the view of the cores");
    }

    /// The cores that take packets from a target.
    fn cores_of(&self, target: Target) -> core::ops::Range<usize> {
        match target {
            Target::Core(core) => core.index()..core.index() + 1,
            Target::Element(element) => {
                let first = element.index() * self.contexts;
                first..first + self.contexts
            }
            Target::Shared => 0..self.cores,
            Target::Hold => 0..0,
        }
    }

    fn verify_target(&self, target: Target, view: &View<'_>) {
        let reach = match target {
            Target::Core(_) | Target::Hold => Reach::Core,
            Target::Element(_) => Reach::Element,
            Target::Shared => Reach::Shared,
        };
        assert!(reach <= self.steer.reach(), "{target:?} is wider than the policy's reach");
        for core in self.cores_of(target).map(CoreId::from_index) {
            assert!(view.eligible.contains(&core), "core {core} of {target:?} is not one of {:?}", view.eligible);
        }
    }
}

impl<S: Steer> Policy for CheckedSteer<S> {
    fn next_timeout(&self) -> Option<Time> {
        let timeout = self.steer.next_timeout();
        assert!(timeout.is_none() || self.steer.keeps_time(), "a policy that keeps no time wants to be told of it");
        timeout
    }

    fn on_timeout(&mut self, now: Time) {
        self.advance(now);
        self.steer.on_timeout(now);
    }

    fn check(&self) {
        assert_eq!(self.pending, None, "the policy was not told of a packet's fate");
        self.steer.check();
    }
}

impl<S: Steer> Steer for CheckedSteer<S> {
    fn reach(&self) -> Reach {
        self.steer.reach()
    }

    fn further_work(&self) -> Time {
        self.steer.further_work()
    }

    fn steer(&mut self, now: Time, packet: &Packet, view: &View<'_>) -> Target {
        self.advance(now);
        assert_eq!(self.pending, None, "the policy was not told of a packet's fate");
        self.verify_view(view);
        let target = self.steer.steer(now, packet, view);
        self.verify_target(target, view);
        self.pending = Some(target).filter(|&target| target != Target::Hold);
        target
    }

    fn on_enqueue(&mut self, now: Time, target: Target, packet: &Packet) {
        self.advance(now);
        let chosen = self.pending.take();
        assert!(
            chosen == Some(target) || chosen.is_none() && self.took_over,
            "a packet joins the queue that was chosen"
        );
        let before = self.held.insert(packet.sequence, Held { target, core: None, estimate: packet.estimate });
        assert!(before.is_none(), "a packet joins two queues");
        self.steer.on_enqueue(now, target, packet);
    }

    fn on_drop(&mut self, now: Time, target: Target, packet: &Packet) {
        self.advance(now);
        let chosen = self.pending.take();
        assert!(chosen == Some(target) || chosen.is_none() && self.took_over, "it is dropped at the queue chosen");
        self.steer.on_drop(now, target, packet);
    }

    fn on_push_out(&mut self, now: Time, target: Target, packet: &Packet) {
        self.advance(now);
        let held = self.held.remove(&packet.sequence).expect("a packet that is pushed out had joined a queue");
        assert!(held.target == target && held.core.is_none(), "a packet is pushed out of the queue where it waits");
        self.steer.on_push_out(now, target, packet);
    }

    fn on_dispatch(&mut self, now: Time, core: CoreId, target: Target, packet: &Packet) {
        self.advance(now);
        assert!(self.cores_of(target).contains(&core.index()), "core {core} does not pull from {target:?}");
        let held = self.held.get_mut(&packet.sequence).expect("a dispatched packet had joined a queue");
        assert!(held.target == target && held.core.is_none(), "a packet is dispatched from the queue where it waits");
        held.core = Some(core);
        self.steer.on_dispatch(now, core, target, packet);
    }

    fn on_flow_end(&mut self, now: Time, flow: FlowId) {
        self.advance(now);
        self.steer.on_flow_end(now, flow);
    }

    fn on_completion(&mut self, now: Time, core: CoreId, packet: &Packet, used: Work) {
        self.advance(now);
        let held = self.held.remove(&packet.sequence).expect("a packet completes that had joined a queue");
        assert_eq!(held.core.or(held.target.core()), Some(core), "a packet completes where it was dispatched");
        self.steer.on_completion(now, core, packet, used);
    }
}
