//! Join the shortest queue: each packet goes to the core with the fewest packets.
//!
//! **Idea.** The packet in service counts too, so an idle core is preferred to a busy one. This is
//! the best balance without knowledge of packet costs, but it spreads each flow over many cores.
//!
//! **Source.** Winston. Optimality of the shortest line discipline. J. Applied Probability 14, 1977.
//! STEERING section 2.
//!
//! **Promises.** Work conserving on arrival: no packet joins a queue while another core that may
//! serve it is idle. A packet that has joined stays there.
//!
//! **Cost.** O(N) in the eligible cores, no state.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::Time;

params! {
    /// Parameters of join the shortest queue: none.
    pub struct JsqParams {}
}

/// Join the shortest queue.
#[derive(Debug)]
pub struct Jsq;

impl Build for Jsq {
    type Params = JsqParams;
    const INFO: Info = Info {
        name: "jsq",
        family: Family::Steer,
        summary: "each packet to the core with the fewest packets",
        source: "Winston. Optimality of the shortest line discipline. J. Applied Probability 14, 1977",
        promises: &[Promise::Fair("a packet finds no eligible core with fewer packets than its own")],
        complexity: "O(N)",
    };

    fn new(_: &JsqParams, _: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self)
    }
}

impl Policy for Jsq {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Steer for Jsq {
    #[inline]
    fn steer(&mut self, _: Time, _: &Packet, view: &View<'_>) -> Target {
        let shortest = view.eligible.iter().copied().min_by_key(|&core| view.cores[core].packets);
        Target::Core(shortest.expect("at least one core is eligible"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{cores_of, targets_among, targets_behind};

    fn behind(lengths: &[u32]) -> u16 {
        targets_behind::<Jsq>(&JsqParams {}, lengths, &[0])[0].0
    }

    #[test]
    fn the_shortest_queue_is_joined_whatever_the_connection() {
        assert_eq!(targets_behind::<Jsq>(&JsqParams {}, &[3, 2, 4, 7], &[1, 12345, 9]), cores_of([1, 1, 1]));
        assert_eq!(behind(&[u32::MAX, u32::MAX - 1]), 1);
    }

    #[test]
    fn of_equal_queues_the_lowest_core_has_it() {
        assert_eq!(behind(&[2, 1, 1, 1]), 1);
        assert_eq!(behind(&[0]), 0);
    }

    #[test]
    fn only_eligible_cores_are_compared() {
        assert_eq!(targets_among::<Jsq>(&JsqParams {}, &cores_of([2, 5]), &[1]), cores_of([2]));
    }
}
