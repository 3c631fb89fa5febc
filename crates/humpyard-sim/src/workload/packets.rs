//! Packets that are known beforehand.

use humpyard_core::id::{CoreId, FlowId, Id, IdVec};
use humpyard_core::measure::Measured;
use humpyard_core::mechanism::Scheduler;
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;

use super::Workload;

/// When packets come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feed {
    /// When they arrive.
    Arrivals,
    /// All at the start.
    AtOnce,
    /// As fast as they are taken: no packet comes while a core has more than this number, waiting
    /// or in service.
    Saturated(u32),
    /// This number of packets always waits, as long as any are left.
    Buffer(usize),
    /// Whenever no packet waits and a core is idle.
    Idle,
}

/// Packets in a row: they come by the feed, and leave when they are served.
#[derive(Debug)]
pub struct Packets<I> {
    next: Option<Packet>,
    later: I,
    feed: Feed,
    left: FlowsLeft,
}

impl<I: Iterator<Item = Packet>> Packets<I> {
    /// Prepares these packets for a run. With [`Feed::Arrivals`] their arrivals must not fall.
    pub fn new(packets: impl IntoIterator<IntoIter = I>, feed: Feed) -> Self {
        let mut later = packets.into_iter();
        Self { next: later.next(), later, feed, left: FlowsLeft::default() }
    }

    /// Ends each flow when the last of its packets, counted in `packets`, is gone.
    #[must_use]
    pub fn with_ends(self, packets: &[Packet]) -> Self {
        Self { left: FlowsLeft::of(packets), ..self }
    }

    /// Whether this packet, the next, comes by now.
    fn comes<S: Steer, Q: Share, A: Allocate>(
        &self,
        packet: &Packet,
        now: Time,
        scheduler: &Scheduler<S, Q, A>,
    ) -> bool {
        let cores = || (0..scheduler.cores()).map(CoreId::from_index);
        let in_service = || cores().map(|core| u64::from(scheduler.in_service(core))).sum::<u64>();
        let waiting = || scheduler.account().held - in_service();
        match self.feed {
            Feed::Arrivals => packet.arrival <= now,
            Feed::AtOnce => true,
            Feed::Saturated(most) => {
                let held = |core| scheduler.waiting(core).unwrap_or(0) + scheduler.in_service(core);
                cores().all(|core| held(core) <= most)
            }
            Feed::Buffer(most) => waiting() < most as u64,
            Feed::Idle => waiting() == 0 && cores().any(|core| scheduler.in_service(core) == 0),
        }
    }
}

impl<S: Steer, Q: Share, A: Allocate, I: Iterator<Item = Packet>> Workload<S, Q, A> for Packets<I> {
    const IS_CLOSED: bool = true;

    fn next_event(&self) -> Time {
        match (self.feed, &self.next) {
            (Feed::Arrivals, Some(packet)) => packet.arrival,
            _ => Time::MAX,
        }
    }

    fn next_packet(
        &mut self,
        now: Time,
        packet: &mut Packet,
        measured: &mut Measured<S, Q, A>,
    ) -> Result<bool, TrafficError> {
        let Some(next) = self.next.filter(|next| self.comes(next, now, measured.scheduler())) else {
            return Ok(false);
        };
        // The delay of a packet counts from its arrival, even if it is taken in later.
        let arrival = if self.feed == Feed::Arrivals { next.arrival } else { now };
        *packet = Packet { arrival, ..next };
        self.next = self.later.next();
        Ok(true)
    }

    fn is_over(&self, measured: &Measured<S, Q, A>) -> bool {
        self.next.is_none() && measured.scheduler().is_empty()
    }

    fn on_loss(&mut self, now: Time, packet: &Packet, measured: &mut Measured<S, Q, A>) {
        self.left.on_gone(now, packet.flow, measured);
    }

    fn on_departure(&mut self, now: Time, packet: &Packet, measured: &mut Measured<S, Q, A>) {
        self.left.on_gone(now, packet.flow, measured);
    }
}

/// Packets that are still to leave, by flow; empty if ends of flows are not needed.
#[derive(Debug, Default)]
pub(super) struct FlowsLeft(IdVec<FlowId, u32>);

impl FlowsLeft {
    /// The flows of these packets.
    pub(super) fn of(packets: &[Packet]) -> Self {
        let flows = packets.iter().map(|packet| packet.flow.index() + 1).max().unwrap_or(0);
        let mut left = IdVec::from_fn(flows, |_| 0);
        packets.iter().for_each(|packet| left[packet.flow] += 1);
        Self(left)
    }

    /// Counts a packet of the flow as gone. After the last one the flow ends.
    pub(super) fn on_gone<S: Steer, Q: Share, A: Allocate>(
        &mut self,
        now: Time,
        flow: FlowId,
        measured: &mut Measured<S, Q, A>,
    ) {
        if self.0.is_empty() {
            return;
        }
        self.0[flow] -= 1;
        if self.0[flow] == 0 {
            measured.on_flow_end(now, flow);
        }
    }
}
