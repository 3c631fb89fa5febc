//! Shinjuku: one central queue, and a packet that has had its quantum goes to the tail of it.
//!
//! **Idea.** Short packets must not wait behind long ones. A core serves a packet for a quantum. If it is not done, it
//! waits at the tail of the central queue.
//!
//! **Source.** Kaffes, Chong, Humphries, Belay, Mazières, Kozyrakis. Shinjuku: preemptive scheduling for µsecond-scale
//! tail latency. NSDI 2019. RIVALS.
//!
//! **Promises.** Every packet is served.
//!
//! **Cost.** O(cores) a turn.
//!
//! **Departures.**
//! - The packets of a client exchange places, so that they start in their order.
//! - Where a client keeps its order on several cores, a place is passed over while the packet before it is in service.
//! - A core keeps its packet while no other waits (`idle=stay`), because a preemption takes time. The prototype that
//!   RIVALS' table is from preempts always: `idle=yield`.

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
    /// Parameters of Shinjuku.
    pub struct ShinjukuParams {
        /// How long a core serves a packet before it gives the packet back.
        quantum: u64 = 5_000, in 1..=1_000_000_000, unit "ns";
        /// What a core does after a quantum if no packet waits.
        idle: WhenNoneWaits = WhenNoneWaits::Stay;
    }
}

/// Shinjuku.
#[derive(Debug, Delegate)]
#[delegate(Policy)]
#[delegate(Share)]
pub struct Shinjuku {
    queue: CentralQueue,
}

impl Build for Shinjuku {
    type Params = ShinjukuParams;
    const INFO: Info = Info {
        name: "shinjuku",
        family: Family::Share,
        summary: "a central queue, to whose tail a packet goes after a quantum",
        source: "Kaffes et al. Shinjuku: preemptive scheduling for microsecond-scale tail latency. NSDI 2019",
        promises: &[Promise::Served],
        complexity: "O(cores)",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=1,idle=yield"];

    fn new(params: &ShinjukuParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let rules = QueueRules {
            quantum: Some(Time::from_ns(params.quantum)),
            stays: params.idle == WhenNoneWaits::Stay,
            ..QueueRules::bounded(1)
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
        assert_eq!(unit_sequence::<Shinjuku>(&ShinjukuParams::default(), &A, 9), "123123123");
    }
}
