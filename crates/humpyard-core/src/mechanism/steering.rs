//! Steering as the mechanism sees it: the policy, the packets it holds back, and flows that must stay where they are.

use alloc::vec;
use alloc::vec::Vec;

use super::slab::Line;
use crate::id::{CoreId, FlowId, Id};
use crate::packet::Packet;
use crate::policy::{Steer, Target, View};
use crate::unit::Time;

/// A flow that a policy before the present one had sent to a core.
#[derive(Clone, Copy, Debug, Default)]
struct Pin {
    core: CoreId,
    /// Packets of the flow held; 0 for a flow that goes where the policy says.
    held: u32,
}

/// The steering policy, and what it has not decided yet.
#[derive(Debug)]
pub(super) struct Steering<S> {
    pub(super) policy: S,
    /// Packets that wait for the policy to say where they go.
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

    /// Where the packet goes; `PLAIN`: no flow must stay where it is.
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

    /// Another policy takes over, for so many flows.
    pub(super) fn take_over(&mut self, policy: S, flows: usize) {
        self.policy = policy;
        self.unpin(flows);
    }

    /// No flow must stay where it is, of so many.
    pub(super) fn unpin(&mut self, flows: usize) {
        self.pins = vec![Pin::default(); flows];
    }

    /// A packet of the flow is held at this core as another policy takes over, or joins those that are.
    pub(super) fn pin(&mut self, flow: FlowId, core: CoreId) {
        let pin = &mut self.pins[flow.index()];
        pin.core = core;
        pin.held += 1;
    }

    /// A packet of this flow has joined a queue: if the flow must stay, there is one more to wait for.
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
