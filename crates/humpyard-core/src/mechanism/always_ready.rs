//! A sharing policy with clients that are always ready: the bare sequence of its decisions.

use alloc::vec;
use alloc::vec::Vec;

use super::answer::Arrival;
use super::scheduler::{Never, Scheduler};
use crate::config::SchedulerConfig;
use crate::id::{ClientId, CoreId, Id, QueueId, Slot};
use crate::packet::Packet;
use crate::policy::{BuildError, Share};
use crate::unit::Time;

/// One packet served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Served {
    /// The client of the packet.
    pub client: ClientId,
    /// The work of the packet.
    pub work: u32,
}

/// Clients that always have a packet waiting, served in steps: all processors finish together, then each gets a packet,
/// in ascending order. The work of a packet is its length.
#[derive(Debug)]
pub struct AlwaysReady<Q, W> {
    scheduler: Scheduler<Never, Q, Never>,
    /// The work of the nth packet (from 0) of a client.
    work: W,
    sent: Vec<u64>,
    in_service: Vec<Option<Slot>>,
    step: u64,
}

impl<Q: Share, W: FnMut(ClientId, u64) -> u32> AlwaysReady<Q, W> {
    /// Returns clients that arrive in this order; `work` gives the work of each packet. The
    /// configuration must estimate work by length.
    ///
    /// # Errors
    /// The error of `share`.
    pub fn new(
        config: &SchedulerConfig,
        order: impl IntoIterator<Item = ClientId> + Clone,
        work: W,
        share: impl FnMut() -> Result<Q, BuildError>,
    ) -> Result<Self, BuildError> {
        let mut ready = Self {
            scheduler: Scheduler::new(config, None, None, share)?,
            work,
            sent: vec![0; config.clients],
            in_service: vec![None; config.cores],
            step: 0,
        };
        for _ in 0..2 {
            for client in order.clone() {
                ready.arrive(client);
            }
        }
        Ok(ready)
    }

    /// Returns, for the next step, the packet that each processor serves. `None`: the processor
    /// stays idle.
    pub fn step(&mut self) -> impl Iterator<Item = Option<Served>> + use<'_, Q, W> {
        self.step += 1;
        let mut now = Time::from_ns(self.step);
        for processor in 0..self.in_service.len() {
            if let Some(slot) = self.in_service[processor].take() {
                self.scheduler.on_completion(now, slot, Time::ZERO);
            }
        }
        // Where the policy holds back all packets, time passes until it releases some.
        if let Some(release) = self.scheduler.next_timeout().filter(|_| self.scheduler.next_core(now).is_none()) {
            now = now.max(release);
            self.step = now.as_ns();
            self.scheduler.on_timeout(now);
        }
        (0..self.in_service.len()).map(move |processor| {
            let dispatch = self.scheduler.next(now, CoreId::from_index(processor))?;
            self.in_service[processor] = Some(dispatch.slot);
            self.arrive(dispatch.packet.client);
            Some(Served { client: dispatch.packet.client, work: dispatch.packet.length })
        })
    }

    /// Returns the policy, for inspection.
    pub fn share(&self) -> &Q {
        &self.scheduler.queues[QueueId(0)].share
    }

    fn arrive(&mut self, client: ClientId) {
        let number = self.sent[client.index()];
        self.sent[client.index()] += 1;
        let packet = Packet { client, length: (self.work)(client, number), ..Packet::default() };
        let arrival = self.scheduler.on_arrival(Time::from_ns(self.step), &packet);
        assert!(matches!(arrival, Arrival::Queued(_)), "room for three packets of every client");
    }
}
