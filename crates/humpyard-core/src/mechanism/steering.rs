//! Steering in the mechanism: the policy, the packets it holds back, and flows pinned to a core.

use alloc::vec;
use alloc::vec::Vec;

use super::scheduler::Scheduler;
use super::slab::Line;
use crate::id::{CoreId, FlowId, Id};
use crate::packet::Packet;
use crate::policy::{Steer, Target, View};
use crate::unit::Time;

/// A flow that a policy before the present one had sent to a core.
#[derive(Clone, Copy, Debug, Default)]
struct Pin {
    core: CoreId,
    /// Packets held of the pinned flow; 0: the policy steers the flow.
    held: u32,
}

/// The steering policy, and the packets that it has not yet steered.
#[derive(Debug)]
pub(super) struct Steering<S> {
    pub(super) policy: S,
    /// Packets that wait for the policy to choose a queue.
    pub(super) held: Line,
    /// Flows that keep their core until they have no packet there; empty before a policy took over from another.
    pins: Vec<Pin>,
}

impl<S> Steering<S> {
    /// Converts the type of the policy.
    pub(super) fn retype<S2>(self, policy: impl FnOnce(S) -> S2) -> Steering<S2> {
        Steering { policy: policy(self.policy), held: self.held, pins: self.pins }
    }
}

impl<S: Steer> Steering<S> {
    pub(super) fn new(policy: S) -> Self {
        Self { policy, held: Line::EMPTY, pins: Vec::new() }
    }

    /// Returns where the packet goes; `PLAIN`: no flow is pinned.
    #[inline(always)]
    pub(super) fn ask<const PLAIN: bool>(&mut self, now: Time, packet: &Packet, view: &View<'_>) -> Target {
        if !PLAIN && let Some(pin) = self.pins.get(packet.flow.index()).filter(|pin| pin.held > 0) {
            return Target::Core(pin.core);
        }
        let target = self.policy.steer(now, packet, view);
        debug_assert!(
            target.core().is_none_or(|core| view.eligible.contains(&core)),
            "{target:?} may not serve the packet"
        );
        target
    }

    /// Replaces the policy, and unpins all `flows` flows.
    pub(super) fn take_over(&mut self, policy: S, flows: usize) {
        self.policy = policy;
        self.unpin(flows);
    }

    /// Unpins all flows, `flows` in number.
    pub(super) fn unpin(&mut self, flows: usize) {
        self.pins = vec![Pin::default(); flows];
    }

    /// Pins the flow to this core for one more packet held there.
    pub(super) fn pin(&mut self, flow: FlowId, core: CoreId) {
        let pin = &mut self.pins[flow.index()];
        pin.core = core;
        pin.held += 1;
    }

    /// Counts a packet that joined a queue, if its flow is pinned: the pin then lasts for one more
    /// packet.
    #[inline]
    pub(super) fn on_enqueue(&mut self, flow: FlowId) {
        if let Some(pin) = self.pins.get_mut(flow.index()).filter(|pin| pin.held > 0) {
            pin.held += 1;
        }
    }

    /// A packet of this flow is gone from its core.
    #[inline]
    pub(super) fn on_gone(&mut self, flow: FlowId) {
        if let Some(pin) = self.pins.get_mut(flow.index()) {
            pin.held = pin.held.saturating_sub(1);
        }
    }
}

impl<S: Steer, Q, A> Scheduler<S, Q, A> {
    /// Returns the time that each packet takes a core beyond its service: [`Steer::further_work`] of the
    /// present policy.
    pub fn further_work(&self) -> Time {
        self.steer.as_ref().map_or(Time::ZERO, |steering| steering.policy.further_work())
    }
}
