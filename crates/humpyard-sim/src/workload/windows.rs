//! Flows with a fixed number of packets under way.

use std::collections::VecDeque;

use humpyard_core::id::{FlowId, Id, IdVec};
use humpyard_core::measure::Measured;
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;

use super::Workload;
use super::packets::FlowsLeft;

/// Flows that each have a window of packets under way. When one is gone, the next of its flow
/// comes. The run is over when the first flow has no packet left to send.
#[derive(Debug)]
pub struct Windows {
    to_come: IdVec<FlowId, VecDeque<Packet>>,
    /// The flows whose next packet comes now.
    due: VecDeque<FlowId>,
    left: FlowsLeft,
}

impl Windows {
    /// Prepares these packets for a run, with a window for each flow, in packets.
    pub fn new(packets: &[Packet], windows: &[u32]) -> Self {
        let mut to_come: IdVec<FlowId, VecDeque<Packet>> = IdVec::from_fn(windows.len(), |_| VecDeque::new());
        packets.iter().for_each(|&packet| to_come[packet.flow].push_back(packet));
        let window = |flow: FlowId| (windows[flow.index()] as usize).min(to_come[flow].len());
        let due = to_come.ids().flat_map(|flow| std::iter::repeat_n(flow, window(flow))).collect();
        Self { due, to_come, left: FlowsLeft::of(packets) }
    }
}

impl<S: Steer, Q: Share, A: Allocate> Workload<S, Q, A> for Windows {
    const IS_CLOSED: bool = true;

    fn next_event(&self) -> Time {
        Time::MAX
    }

    fn next_packet(&mut self, now: Time, packet: &mut Packet, _: &mut Measured<S, Q, A>) -> Result<bool, TrafficError> {
        while let Some(flow) = self.due.pop_front() {
            if let Some(next) = self.to_come[flow].pop_front() {
                *packet = Packet { arrival: now, ..next };
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_over(&self, _: &Measured<S, Q, A>) -> bool {
        self.to_come.iter().any(VecDeque::is_empty)
    }

    fn on_loss(&mut self, now: Time, packet: &Packet, measured: &mut Measured<S, Q, A>) {
        self.on_departure(now, packet, measured);
    }

    fn on_departure(&mut self, now: Time, packet: &Packet, measured: &mut Measured<S, Q, A>) {
        self.due.push_back(packet.flow);
        self.left.on_gone(now, packet.flow, measured);
    }
}
