//! First come, first served by threads: each packet goes to the thread that has been idle for
//! longest, or else to the first that becomes free.
//!
//! **Idea.** Threads queue for packets as packets queue for threads: a thread that completes a packet joins the
//! end of the line. The cost of a packet and the element of a thread do not matter.
//!
//! **Source.** The dispatch of network processors whose threads request packets (Intel IXP1200).
//! Yim (paper content-based) compares `ss`, `ml` and `mlp` with it.
//!
//! **Promises.** Work conserving where every thread may serve every packet. No order.
//!
//! **Cost.** O(1); O(N) where some threads may not serve the packet.
//!
//! **Invariants.** A thread is in the line if and only if it has no packet.
//!
//! **Departures.** While packets wait that any thread may take, new packets wait behind them. If
//! only some threads may serve a packet, it does not wait for the first free one: it joins the
//! thread with the fewest packets.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Reach, Steer, Target, View};
use humpyard_core::storage::IdRing;
use humpyard_core::unit::{Time, Work};

params! {
    /// Parameters of first come, first served by threads: none.
    pub struct FcfsThreadParams {}
}

/// First come, first served by threads.
#[derive(Debug)]
pub struct FcfsThread {
    /// The threads without a packet, longest idle first; at the start by id.
    idle: IdRing<CoreId>,
    /// Packets of each thread, in its own queue and in service.
    packets: IdVec<CoreId, u32>,
    /// The number of packets that wait for any thread.
    waiting: u32,
}

impl Build for FcfsThread {
    type Params = FcfsThreadParams;
    const INFO: Info = Info {
        name: "fcfs-thread",
        family: Family::Steer,
        summary: "each packet to the thread that has been idle for longest, else to the first that is free",
        source: "the dispatch of the Intel IXP1200, as Yim (paper content-based) finds it",
        promises: &[Promise::WorkConserving],
        complexity: "O(1)",
    };

    fn new(_: &FcfsThreadParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let packets = IdVec::from_fn(config.cores, |_| 0);
        let mut idle = IdRing::new(config.cores);
        packets.ids().for_each(|thread| idle.push_back(thread));
        Ok(Self { idle, packets, waiting: 0 })
    }
}

impl Policy for FcfsThread {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        for thread in self.packets.ids() {
            assert_eq!(
                self.idle.contains(thread),
                self.packets[thread] == 0,
                "thread {thread} in the line of idle ones"
            );
        }
    }
}

impl Steer for FcfsThread {
    fn reach(&self) -> Reach {
        Reach::Shared
    }

    fn steer(&mut self, _: Time, _: &Packet, view: &View<'_>) -> Target {
        if view.eligible.len() < view.cores.len() {
            return Target::Core(self.idle_of(view).unwrap_or_else(|| shortest(view)));
        }
        self.idle.front().filter(|_| self.waiting == 0).map_or(Target::Shared, Target::Core)
    }

    fn on_enqueue(&mut self, _: Time, target: Target, _: &Packet) {
        match target {
            Target::Core(thread) => self.join(thread),
            Target::Shared => self.waiting += 1,
            Target::Element(_) | Target::Hold => {}
        }
    }

    fn on_push_out(&mut self, _: Time, target: Target, _: &Packet) {
        match target {
            Target::Core(thread) => self.leave(thread),
            Target::Shared => self.waiting -= 1,
            Target::Element(_) | Target::Hold => {}
        }
    }

    fn on_dispatch(&mut self, _: Time, core: CoreId, target: Target, _: &Packet) {
        match target {
            Target::Shared => self.waiting -= 1,
            // Another policy had let the packet wait for an element.
            Target::Element(_) => {}
            Target::Core(_) | Target::Hold => return,
        }
        self.join(core);
    }

    fn on_completion(&mut self, _: Time, core: CoreId, _: &Packet, _: Work) {
        self.leave(core);
    }
}

impl FcfsThread {
    fn join(&mut self, thread: CoreId) {
        self.packets[thread] += 1;
        if self.packets[thread] == 1 {
            self.idle.remove(thread);
        }
    }

    fn leave(&mut self, thread: CoreId) {
        self.packets[thread] -= 1;
        if self.packets[thread] == 0 {
            self.idle.push_back(thread);
        }
    }

    /// Returns the thread that has been idle for longest, of those that may serve the packet.
    fn idle_of(&self, view: &View<'_>) -> Option<CoreId> {
        core::iter::successors(self.idle.front(), |&thread| self.idle.next(thread))
            .find(|&thread| view.is_eligible(thread))
    }
}

/// Returns the thread with the fewest packets, of those that may serve the packet.
fn shortest(view: &View<'_>) -> CoreId {
    let shortest = view.eligible.iter().copied().min_by_key(|&core| view.cores[core].packets);
    shortest.expect("at least one core is eligible")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{Threads, cores_of};
    use humpyard_core::packet::Part;

    fn fresh(elements: usize, contexts: usize) -> Threads<FcfsThread> {
        Threads::new(&FcfsThreadParams {}, elements, contexts)
    }

    #[test]
    fn the_thread_that_has_been_idle_for_longest_is_next() {
        let mut threads = fresh(2, 2);
        let visited = [(); 3].map(|()| threads.arrive(Part::Whole));
        assert_eq!(visited, [0, 1, 2].map(|core| Target::Core(CoreId(core))));
        threads.complete(CoreId(1));
        threads.complete(CoreId(0));
        let visited = [(); 3].map(|()| threads.arrive(Part::Whole));
        assert_eq!(visited, [3, 1, 0].map(|core| Target::Core(CoreId(core))));
        threads.policy.check();
    }

    #[test]
    fn without_an_idle_thread_packets_wait_for_any() {
        let mut threads = fresh(1, 2);
        (0..2).for_each(|_| assert!(threads.arrive(Part::Whole).core().is_some()));
        let packet = Packet::default();
        for _ in 0..2 {
            assert_eq!(threads.steer(&packet), Target::Shared);
            threads.policy.on_enqueue(Time::ZERO, Target::Shared, &packet);
        }
        threads.complete(CoreId(1));
        assert_eq!(threads.steer(&packet), Target::Shared, "two wait already");
        threads.policy.on_dispatch(Time::ZERO, CoreId(1), Target::Shared, &packet);
        threads.policy.on_push_out(Time::ZERO, Target::Shared, &packet);
        threads.complete(CoreId(0));
        assert_eq!(threads.steer(&packet), Target::Core(CoreId(0)));
        threads.policy.check();
    }

    #[test]
    fn where_some_threads_may_not_serve_it_a_packet_joins_one_that_may() {
        let mut threads = fresh(2, 2);
        threads.eligible = cores_of([1, 3]);
        let visited = [(); 4].map(|()| threads.arrive(Part::Whole));
        assert_eq!(visited, [1, 3, 1, 3].map(|core| Target::Core(CoreId(core))));
        threads.policy.check();
    }
}
