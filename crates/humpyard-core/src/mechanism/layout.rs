//! The layout of the queues: which exist, and which cores pull from which.

use alloc::format;
use alloc::vec::Vec;

use super::flow_order::FlowOrder;
use super::limits::{Limits, WhenFull};
use super::queue::{Queue, QueueKind};
use crate::config::SchedulerConfig;
use crate::id::{ChainId, CoreId, ElementId, Id, IdVec, QueueId, ServiceId};
use crate::policy::{BuildError, Share, Target};
use crate::unit::{Time, WorkUnit};

/// The queue that a core pulls from and that a packet joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    /// One queue for all.
    Shared,
    /// One for each core, used with a steering policy. A policy with a wider reach also has one for
    /// each element, and one for all cores.
    PerCore,
    /// One for each service; used if cores are allocated to services.
    PerService,
}

/// Most queues that a core pulls from.
pub(super) const PULLS_MAX: usize = 3;

#[derive(Debug)]
pub(super) struct Core {
    /// The queues that it takes packets from, first to last; while it switches, the queues before
    /// the switch.
    pub(super) queues: [QueueId; PULLS_MAX],
    /// Number of these queues.
    pub(super) pulls: u8,
    pub(super) last_service: Option<ServiceId>,
    pub(super) in_service: u32,
}

impl Core {
    #[inline]
    pub(super) fn queues(&self) -> impl Iterator<Item = QueueId> + use<> {
        self.queues.into_iter().take(usize::from(self.pulls))
    }

    /// Returns the queue if the core pulls from one alone, which is usual.
    #[inline]
    pub(super) fn only_queue(&self) -> Option<QueueId> {
        (self.pulls == 1).then_some(self.queues[0])
    }

    pub(super) fn pull_from(&mut self, queue: QueueId) {
        self.queues[usize::from(self.pulls)] = queue;
        self.pulls += 1;
    }
}

/// The fixed properties of a scheduler: its configuration and the layout of its queues.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) layout: Layout,
    /// Whether cores are chosen by the allocation alone: with one packet in flight, all with room are idle.
    pub(super) chooses_idle_by_service: bool,
    pub(super) cores: usize,
    pub(super) contexts: usize,
    pub(super) clients: usize,
    pub(super) services: usize,
    pub(super) flows: usize,
    pub(super) flow_order: FlowOrder,
    pub(super) limits: Limits,
    pub(super) push_out: bool,
    /// Whether the allocation asks which packet of a service has waited longest.
    pub(super) by_age: bool,
    pub(super) packets_max: u64,
    pub(super) in_flight: u32,
    pub(super) unit: WorkUnit,
    pub(super) hand_over: Time,
    pub(super) chains: IdVec<ChainId, Vec<ServiceId>>,
}

impl Plan {
    /// The plan of this configuration.
    pub(super) fn new(config: &SchedulerConfig, layout: Layout) -> Self {
        Self {
            layout,
            chooses_idle_by_service: layout == Layout::PerService && config.in_flight == 1,
            cores: config.cores,
            contexts: config.contexts,
            clients: config.clients,
            services: config.services.len(),
            flows: config.flows,
            flow_order: config.flow_order,
            limits: config.limits,
            push_out: config.limits.when_full == WhenFull::LongestQueue,
            by_age: false,
            packets_max: config.packets as u64,
            in_flight: config.in_flight,
            unit: config.unit,
            hand_over: config.hand_over,
            chains: config.chains.iter().cloned().collect(),
        }
    }

    /// Returns the number of queues at first; a steering policy with a wider reach adds more.
    pub(super) fn queues(&self, services: usize) -> usize {
        match self.layout {
            Layout::Shared => 1,
            Layout::PerCore => self.cores,
            Layout::PerService => services,
        }
    }

    /// Returns a queue from which `pulling` cores pull.
    pub(super) fn queue<Q: Share>(&self, share: Q, pulling: usize) -> Queue<Q> {
        let keep_order = self.flow_order == FlowOrder::Hold && pulling > 1;
        let kind = QueueKind { keep_order, push_out: self.push_out, by_age: self.by_age };
        Queue::new(share, self.clients, self.services, self.cores, kind)
    }

    /// Returns the target that this queue belongs to; needs a steering policy.
    #[inline]
    pub(super) fn target_of(&self, queue: QueueId) -> Target {
        // The usual case. It avoids a division, which would cost as much as the rest of a decision.
        if queue.index() < self.cores {
            return Target::Core(CoreId(queue.0));
        }
        let element = queue.index() - self.cores;
        if element < self.cores.div_ceil(self.contexts) {
            Target::Element(ElementId::from_index(element))
        } else {
            Target::Shared
        }
    }
}

/// Rejects too many queue entries: a queue that distinguishes clients has a place for each.
pub(super) fn check_memory(share: &impl Share, queues: usize, clients: usize) -> Result<(), BuildError> {
    if !share.merges_clients() && !share.serves_services() && queues.saturating_mul(clients) > PLACES_MAX {
        return Err(BuildError::too_large(format!(
            "{queues} queues with places for {clients} clients each need too much memory: have fewer clients or cores, or \
             share by `fcfs`"
        )));
    }
    Ok(())
}

/// About two gigabytes with the policies' own memory.
const PLACES_MAX: usize = 1 << 25;
