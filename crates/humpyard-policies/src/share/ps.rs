//! Processor sharing at each core: packets go to the core with the fewest, and have a quantum each in turn.
//!
//! **Idea.** An arriving packet goes to the core with the fewest packets that are not done; of several, to the
//! one whose packets have had most quanta, because these are likely to be done soon. The core serves its
//! packets in turn, a quantum each, so a short packet waits for a quantum of each other packet of its core at
//! most.
//!
//! **Source.** Luo, Fried, Belay, Kozyrakis. Efficient microsecond-scale blind scheduling with Tiny Quanta.
//! ASPLOS 2024. RIVALS.
//!
//! **Promises.** Every packet is served.
//!
//! **Cost.** O(cores) a packet, O(1) a turn.
//!
//! **Departures.**
//! - The packets of a client exchange places, so that they start in their order.
//! - Where a client keeps its order on several cores, a place is passed over while the packet before it is in service.
//! - A core keeps its packet while no other waits for it (`idle=stay`); `idle=yield` preempts always.

use alloc::string::String;

use ambassador::Delegate;
use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{
    Build, BuildError, Family, Info, Policy, Promise, Share, ambassador_impl_Policy, ambassador_impl_Share,
};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::{Time, Weight, Work};
use humpyard_core::{choice, params};

use super::central_queue::{CentralQueue, QueueRules, WhenNoneWaits};

choice! {
    /// Which of the cores with the fewest packets comes first.
    pub enum FewestFirst {
        /// The one whose packets have had most quanta, then the lowest.
        Quanta = "quanta",
        /// The lowest.
        Lowest = "lowest",
    }
}

params! {
    /// Parameters of processor sharing.
    pub struct PsParams {
        /// How long a core serves a packet before it is the next one's turn.
        quantum: u64 = 1_000, in 1..=1_000_000_000, unit "ns";
        /// What a core does after a quantum if no packet waits for it.
        idle: WhenNoneWaits = WhenNoneWaits::Stay;
        /// Which of the cores with the fewest packets gets a packet that arrives.
        ties: FewestFirst = FewestFirst::Quanta;
    }
}

/// Processor sharing at each core.
#[derive(Debug, Delegate)]
#[delegate(Policy)]
#[delegate(Share)]
pub struct Ps {
    queue: CentralQueue,
}

impl Build for Ps {
    type Params = PsParams;
    const INFO: Info = Info {
        name: "ps",
        family: Family::Share,
        summary: "packets to the core with the fewest, which serves them in turn, a quantum each",
        source: "Luo et al. Efficient microsecond-scale blind scheduling with Tiny Quanta. ASPLOS 2024",
        promises: &[Promise::Served],
        complexity: "O(cores)",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=1,idle=yield", "quantum=1,ties=lowest"];

    fn new(params: &PsParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let rules = QueueRules {
            quantum: Some(Time::from_ns(params.quantum)),
            keeps_core: true,
            counts_quanta: params.ties == FewestFirst::Quanta,
            stays: params.idle == WhenNoneWaits::Stay,
            ..QueueRules::bounded(usize::MAX)
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
        assert_eq!(unit_sequence::<Ps>(&PsParams::default(), &A, 9), "123123123");
    }
}
