//! A user program with an embedded scheduler: the common part of its two layouts.

use std::time::Instant;

use humpyard::hash::mix;
use humpyard::id::{CoreId, FlowId, Id, Slot};
use humpyard::mechanism::{Arrival, Never, Scheduler};
use humpyard::packet::Packet;
use humpyard::policy::{Share, Steer};
use humpyard::unit::Time;

use crate::work::Work;

/// An event of the program, as its threads pass it to each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    /// The scheduler's name for it.
    pub(crate) slot: u32,
    pub(crate) flow: u32,
    /// The data of the event: how often it was touched.
    pub(crate) touches: u64,
}

impl Event {
    /// The work: touches the event, and names the flow of its next hop.
    #[inline]
    pub(crate) fn touch(&mut self, work: &Work) {
        self.flow = work.next_flow(self.flow);
        self.touches += 1;
    }
}

/// A scheduler, and the program's data for it.
pub(crate) struct Scheduling<S, Q> {
    pub(crate) scheduler: Scheduler<S, Q, Never>,
    /// The data of each event, by slot.
    held: Vec<u64>,
    /// The hash of each flow, which steering policies go by.
    keys: Vec<u64>,
    started: Instant,
}

impl<S: Steer, Q: Share> Scheduling<S, Q> {
    pub(crate) fn new(scheduler: Scheduler<S, Q, Never>, work: &Work) -> Self {
        Self {
            scheduler,
            held: vec![0; work.in_flight],
            keys: (0..u64::from(work.flows)).map(|flow| mix(flow + 1)).collect(),
            started: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_ns(self.started.elapsed().as_nanos() as u64)
    }

    /// An event arrives at a hop.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Time, flow: u32, touches: u64) {
        let key = self.keys[flow as usize];
        let packet = Packet { arrival: now, flow: FlowId(flow), key, rss: key as u32, length: 64, ..Packet::default() };
        match self.scheduler.on_arrival(now, &packet) {
            Arrival::Queued(slot) => self.held[slot.index()] = touches,
            Arrival::Dropped(reason) => panic!("an event was dropped: {reason:?}"),
        }
    }

    /// The next event of the core.
    #[inline]
    pub(crate) fn next(&mut self, now: Time) -> Option<Event> {
        let dispatch = self.scheduler.next(now, CoreId(0))?;
        let (slot, flow) = (dispatch.slot, dispatch.packet.flow.0);
        Some(Event { slot: slot.0, flow, touches: self.held[slot.index()] })
    }

    /// Completes a hop of the event, which leaves the scheduler.
    #[inline]
    pub(crate) fn complete(&mut self, now: Time, event: &Event) {
        let completed = self.scheduler.on_completion(now, Slot(event.slot), Time::ZERO);
        // One core serves every scheduler here, so no event overtakes another.
        assert!(completed.exit.is_none(), "an event waits for an earlier one");
    }
}
