//! Join the bounded shortest queue: one central queue, and a short one at each core.
//!
//! **Idea.** Packets wait in one line. Each core has room for `n` packets, the one in service included. The
//! first packet of the line goes to the core with the fewest packets, as soon as one has room. With `n=1` this
//! is the central queue; with a large `n` it is join the shortest queue. A small `n` hides the time that it
//! takes to hand a packet to a core.
//!
//! **Source.** Kogias, Prekas, Ghosn, Fietz, Bugnion. R2P2: making RPCs first-class datacenter citizens. ATC 2019;
//! as in nanoPU. RIVALS.
//!
//! **Promises.** Every packet is served. With `n=1` no core is idle while a packet waits; with more, a packet
//! may wait at a core while another core is idle.
//!
//! **Cost.** O(cores) a packet.
//!
//! **Departures.**
//! - The packets of a client exchange places, so that they start in their order.
//! - Where a client keeps its order on several cores, a place is passed over while the packet before it is in service.

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

use super::central_queue::{CentralQueue, QueueRules};

params! {
    /// Parameters of join the bounded shortest queue.
    pub struct JbsqParams {
        /// Most packets at a core, the one in service included.
        n: u64 = 2, in 1..=1_000_000, unit "packets";
    }
}

/// Join the bounded shortest queue.
#[derive(Debug, Delegate)]
#[delegate(Policy)]
#[delegate(Share)]
pub struct Jbsq {
    queue: CentralQueue,
}

impl Build for Jbsq {
    type Params = JbsqParams;
    const INFO: Info = Info {
        name: "jbsq",
        family: Family::Share,
        summary: "a central queue, and room for n packets at each core",
        source: "Kogias et al. R2P2: making RPCs first-class datacenter citizens. ATC 2019",
        promises: &[Promise::Served],
        complexity: "O(cores)",
    };
    const VARIANTS: &'static [&'static str] = &["n=1", "n=1000"];

    fn new(params: &JbsqParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let rules = QueueRules::bounded(params.n as usize);
        Ok(Self { queue: CentralQueue::new(rules, config)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    use crate::share::testing::{A, unit_sequence};

    #[test]
    fn lines_have_numbers_for_all_cores_but_one() {
        let build = |cores| Jbsq::new(&JbsqParams::default(), &SchedulerConfig { cores, ..SchedulerConfig::default() });
        let mut policy = build(65_534).unwrap();
        policy.on_arrival(Time::ZERO, ClientId(0), &Packet::default(), 0);
        policy.on_wake(Time::ZERO, ClientId(0), &Packet::default());
        assert_eq!(policy.pick(Time::ZERO, CoreId(65_533)), Some(ClientId(0)));
        let said = build(65_535).unwrap_err().to_string();
        assert_eq!(said, "a central queue has at most 65534 cores, not 65535");
    }

    #[test]
    fn packets_are_served_as_they_came() {
        assert_eq!(unit_sequence::<Jbsq>(&JbsqParams::default(), &A, 9), "123123123");
    }
}
