//! Sequential scheduling: packets go to the threads in a fixed order, alternating between
//! processing elements.
//!
//! **Idea.** A counter s goes round all threads: the packet goes to thread ⌊s/P⌋ mod T of element s
//! mod P. So consecutive packets are on different elements. If that thread has a packet, the next
//! packet waits for it, even if other threads are idle.
//!
//! **Source.** Yim (paper content-based). STEERING section 10.
//!
//! **Promises.** Of n consecutive packets of a service, any two of its threads get counts that
//! differ by at most one. Not work conserving. If the packets of a unit are a multiple of the
//! elements, all first packets of units meet on one element.
//!
//! **Cost.** O(1); O(N) if threads that may not serve the packet are skipped.
//!
//! **Invariants.** Steps are below the number of threads.
//!
//! **Departures.** Each service has its own counter over the threads that may serve it.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::Time;

params! {
    /// Parameters of sequential scheduling: none.
    pub struct SsParams {}
}

/// Sequential scheduling.
#[derive(Debug)]
pub struct Ss {
    /// P: the number of elements.
    elements: usize,
    /// T: threads of each element.
    contexts: usize,
    /// The counter of each service, modulo the number of threads.
    next: Vec<usize>,
}

impl Build for Ss {
    type Params = SsParams;
    const INFO: Info = Info {
        name: "ss",
        family: Family::Steer,
        summary: "each packet to the next thread in turn, elements first, waiting for it if it is busy",
        source: "Yim (paper content-based): sequential scheduling",
        promises: &[Promise::Fair("packet counts of two threads differ by at most 1")],
        complexity: "O(1)",
    };

    fn new(_: &SsParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { elements: config.elements(), contexts: config.contexts, next: vec![0; config.services.len()] })
    }
}

impl Policy for Ss {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        assert!(self.next.iter().all(|&step| step < self.threads()), "a step beyond the last: {:?}", self.next);
    }
}

impl Steer for Ss {
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        let mut step = self.next[packet.service.index()];
        while !view.is_eligible(self.thread(step)) {
            step = self.after(step);
        }
        let thread = self.thread(step);
        if view.cores[thread].packets > 0 {
            return Target::Hold;
        }
        self.next[packet.service.index()] = self.after(step);
        Target::Core(thread)
    }
}

impl Ss {
    fn threads(&self) -> usize {
        self.elements * self.contexts
    }

    /// Returns the thread of a step: the elements in turn, then the next thread of each.
    fn thread(&self, step: usize) -> CoreId {
        CoreId::from_index(step % self.elements * self.contexts + step / self.elements)
    }

    fn after(&self, step: usize) -> usize {
        if step + 1 < self.threads() { step + 1 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{Threads, cores_of};
    use humpyard_core::packet::Part;

    fn fresh(elements: usize, contexts: usize) -> Threads<Ss> {
        Threads::new(&SsParams {}, elements, contexts)
    }

    /// Two elements, units of two packets: all first packets go to element 0, all last packets to element 1.
    #[test]
    fn example_of_the_specification() {
        let mut threads = fresh(2, 4);
        for _ in 0..4 {
            assert_eq!([Part::First, Part::Last].map(|part| threads.arrive_on_element(part)), [0, 1]);
        }
    }

    #[test]
    fn all_threads_are_visited_in_as_many_steps() {
        for (elements, contexts) in [(1, 1), (2, 4), (3, 2), (6, 4), (5, 1)] {
            let mut threads = fresh(elements, contexts);
            for _ in 0..3 {
                let mut visited: Vec<CoreId> = Vec::new();
                for _ in 0..elements * contexts {
                    let thread = threads.arrive(Part::Whole).core().expect("every thread is idle");
                    visited.push(thread);
                    threads.complete(thread);
                }
                visited.sort_unstable();
                assert!(visited.into_iter().map(Id::index).eq(0..elements * contexts), "{elements} of {contexts}");
            }
        }
    }

    #[test]
    fn a_busy_thread_is_waited_for() {
        let mut threads = fresh(2, 2);
        let visited = [(); 4].map(|()| threads.arrive(Part::Whole));
        assert_eq!(visited, [0, 2, 1, 3].map(|core| Target::Core(CoreId(core))));
        threads.complete(CoreId(2));
        assert_eq!(threads.arrive(Part::Whole), Target::Hold, "though another thread is idle");
        assert_eq!(threads.arrive(Part::Whole), Target::Hold);
        threads.complete(CoreId(0));
        assert_eq!(threads.arrive(Part::Whole), Target::Core(CoreId(0)));
        assert_eq!(threads.arrive(Part::Whole), Target::Core(CoreId(2)), "no turn was lost by asking");
    }

    #[test]
    fn threads_that_may_not_serve_a_packet_are_passed_over() {
        let mut threads = fresh(2, 2);
        threads.eligible = cores_of([1, 2, 3]);
        let visited = [(); 3].map(|()| threads.arrive(Part::Whole));
        assert_eq!(visited, [2, 1, 3].map(|core| Target::Core(CoreId(core))));
        assert_eq!(threads.arrive(Part::Whole), Target::Hold);
    }
}
