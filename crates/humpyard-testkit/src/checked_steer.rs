//! A steering policy under watch.

use alloc::collections::VecDeque;

use humpyard_core::id::{CoreId, FlowId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Steer, Target, View};
use humpyard_core::unit::{Time, Work};

/// A steering policy and both sides of its contract, asserted at every call.
///
/// Of the mechanism: time never goes back; the view counts what was enqueued and is not complete; the fate of a packet is
/// told before the next is asked about, and names the core that was chosen; a completion was enqueued there.
/// Of the policy: it chooses an eligible core.
#[derive(Debug)]
pub struct CheckedSteer<S> {
    steer: S,
    now: Time,
    /// The packet asked about last, and the answer, until its fate is told.
    pending: Option<CoreId>,
    /// Per core the packets enqueued and not complete: sequence number and estimate.
    held: Vec<VecDeque<(u64, Work)>>,
}

impl<S: Steer> CheckedSteer<S> {
    /// A policy for so many cores, under watch.
    pub fn new(steer: S, cores: usize) -> Self {
        Self { steer, now: Time::ZERO, pending: None, held: vec![VecDeque::new(); cores] }
    }

    fn advance(&mut self, now: Time) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
    }

    fn verify_view(&self, view: &View<'_>) {
        assert!(!view.eligible.is_empty() && view.eligible.is_sorted(), "eligible cores: {:?}", view.eligible);
        for (core, (seen, held)) in view.cores.iter().zip(&self.held).enumerate() {
            assert_eq!(seen.packets as usize, held.len(), "the view of the packets of core {core}");
            let backlog: Work = held.iter().map(|&(_, estimate)| estimate).sum();
            assert_eq!(seen.backlog, backlog, "the view of the backlog of core {core}");
        }
    }
}

impl<S: Steer> Policy for CheckedSteer<S> {
    fn check(&self) {
        assert_eq!(self.pending, None, "the policy was not told of a packet's fate");
        self.steer.check();
    }
}

impl<S: Steer> Steer for CheckedSteer<S> {
    fn steer(&mut self, now: Time, packet: &Packet, view: &View<'_>) -> Target {
        self.advance(now);
        assert_eq!(self.pending, None, "the policy was not told of a packet's fate");
        self.verify_view(view);
        let target = self.steer.steer(now, packet, view);
        let core = target.core().expect("a core");
        assert!(view.eligible.contains(&core), "core {core} is not one of {:?}", view.eligible);
        self.pending = Some(core);
        target
    }

    fn on_enqueue(&mut self, now: Time, target: Target, packet: &Packet) {
        self.advance(now);
        let core = target.core().expect("a core");
        assert_eq!(self.pending.take(), Some(core), "a packet joins the queue that was chosen");
        self.held[core.index()].push_back((packet.sequence, packet.estimate));
        self.steer.on_enqueue(now, target, packet);
    }

    fn on_drop(&mut self, now: Time, target: Target, packet: &Packet) {
        self.advance(now);
        assert_eq!(self.pending.take(), target.core(), "a packet is dropped at the queue that was chosen");
        self.steer.on_drop(now, target, packet);
    }

    fn on_flow_end(&mut self, now: Time, flow: FlowId) {
        self.advance(now);
        self.steer.on_flow_end(now, flow);
    }

    fn on_completion(&mut self, now: Time, core: CoreId, packet: &Packet, used: Work) {
        self.advance(now);
        let held = &mut self.held[core.index()];
        let place = held.iter().position(|&(sequence, _)| sequence == packet.sequence);
        held.remove(place.unwrap_or_else(|| panic!("core {core} completed a packet that did not join it")));
        self.steer.on_completion(now, core, packet, used);
    }
}
