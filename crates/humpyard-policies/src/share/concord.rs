//! Concord: a central queue, room for two packets at each core, and turns of a quantum.
//!
//! **Idea.** As [`shinjuku`](super::shinjuku), with room for `n` packets at each core: so a core need not wait for the
//! next packet. A packet that has had its quantum goes to the tail of the central queue.
//!
//! **Source.** Iyer, Unal, Kogias, Candea. Achieving microsecond-scale tail latency efficiently with
//! approximate optimal scheduling. SOSP 2023. RIVALS.
//!
//! **Promises.** Every packet is served.
//!
//! **Cost.** O(cores) a turn.
//!
//! **Departures.**
//! - The packets of a client exchange places, so that they start in their order.
//! - Where a client keeps its order on several cores, a place is passed over while the packet before it is in service.
//! - A core keeps its packet while no other waits for it (`idle=stay`); `idle=yield` preempts always.
//! - A packet yields at the end of its quantum: the simulator has no yield points within a service.
//! - The dispatcher serves no packets itself.

use alloc::string::String;

use ambassador::Delegate;
use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{
    Build, BuildError, Family, Info, Policy, Promise, Share, ambassador_impl_Policy, ambassador_impl_Share,
};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::{Time, Weight, Work};

use super::central_queue::{CentralQueue, QueueRules, WhenNoneWaits};

params! {
    /// Parameters of Concord.
    pub struct ConcordParams {
        /// Most packets at a core, the one in service included.
        n: u64 = 2, in 1..=1_000_000, unit "packets";
        /// How long a core serves a packet before it gives the packet back.
        quantum: u64 = 5_000, in 1..=1_000_000_000, unit "ns";
        /// What a core does after a quantum if no packet waits for it.
        idle: WhenNoneWaits = WhenNoneWaits::Stay;
    }
}

/// Concord.
#[derive(Debug, Delegate)]
#[delegate(Policy)]
#[delegate(Share)]
pub struct Concord {
    queue: CentralQueue,
}

impl Build for Concord {
    type Params = ConcordParams;
    const INFO: Info = Info {
        name: "concord",
        family: Family::Share,
        summary: "a central queue, room for n packets at each core, and turns of a quantum",
        source: "Iyer et al. Achieving microsecond-scale tail latency efficiently (Concord). SOSP 2023",
        promises: &[Promise::Served],
        complexity: "O(cores)",
    };
    const VARIANTS: &'static [&'static str] = &["n=1,quantum=1,idle=yield"];

    fn new(params: &ConcordParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let rules = QueueRules {
            quantum: Some(Time::from_ns(params.quantum)),
            stays: params.idle == WhenNoneWaits::Stay,
            ..QueueRules::bounded(params.n as usize)
        };
        Ok(Self { queue: CentralQueue::new(rules, config)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{A, unit_sequence};

    #[test]
    fn packets_are_served_as_they_came() {
        assert_eq!(unit_sequence::<Concord>(&ConcordParams::default(), &A, 9), "123123123");
    }
}
