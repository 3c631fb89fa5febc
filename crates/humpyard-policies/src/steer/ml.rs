//! Minimum load: each packet goes to the processing element with the least load.
//!
//! **Idea.** The packets that a card makes of a frame have different costs: the first bears the
//! headers, the last the end of the frame. So each packet has a load by its part, and goes to an
//! idle thread of the least loaded element.
//!
//! **Source.** Yim (paper content-based). STEERING section 10.
//!
//! **Promises.** While a thread that may serve the packet is idle, the packet goes to an idle
//! thread: the first of the least loaded element that has one. No order.
//!
//! **Cost.** O(N) in the eligible threads.
//!
//! **Invariants.** The load of an element is the sum of the loads of its threads and of the packets
//! that wait for any of them.
//!
//! **Departures.** The paper gives neither loads nor the treatment of a packet if no thread is
//! idle. Loads are parameters. With `full=bind`, the paper's formula, the packet joins the least
//! loaded thread of the least loaded element. With `element`, the first free thread of that element
//! takes it. With `hold`, all packets wait until a thread is idle. If other services also have
//! threads of an element, packets do not wait for that element: there `element` acts as `bind`.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::CoreId;
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Reach, Steer, Target, View};
use humpyard_core::unit::{Time, Work};

pub use super::element_loads::Full;
use super::element_loads::{ElementLoads, PartLoads, element_handlers};

params! {
    /// Parameters of minimum load.
    pub struct MlParams {
        /// Load of a packet that begins a unit (SOP).
        first: u64 = 3, in 0..=1_000_000;
        /// Load of a packet that neither begins nor ends its unit (MOP).
        middle: u64 = 1, in 0..=1_000_000;
        /// Load of a packet that ends a unit (EOP).
        last: u64 = 2, in 0..=1_000_000;
        /// Load of a packet that is a unit; by default as one that begins it, for it bears the headers.
        whole: u64 = 3, in 0..=1_000_000;
        /// What to do with a packet if no thread is idle: it joins the least loaded thread, waits
        /// for its element, or waits for any thread.
        full: Full = Full::Bind;
    }
}

/// Minimum load.
#[derive(Debug)]
pub struct Ml {
    loads: ElementLoads,
}

impl Build for Ml {
    type Params = MlParams;
    const INFO: Info = Info {
        name: "ml",
        family: Family::Steer,
        summary: "each packet to an idle thread of the element whose packets weigh least by their parts",
        source: "Yim (paper content-based): minimum load",
        promises: &[Promise::Fair("a packet finds no element with an idle thread and less load than its own")],
        complexity: "O(N)",
    };
    const VARIANTS: &'static [&'static str] = &["full=element", "full=hold"];

    fn new(params: &MlParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let &MlParams { first, middle, last, whole, full } = params;
        Ok(Self { loads: ElementLoads::new(PartLoads { first, middle, last, whole }, full, config) })
    }
}

impl Policy for Ml {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        self.loads.check();
    }
}

impl Steer for Ml {
    // The reach, and the handlers that add each packet to the load of its element and remove it.
    element_handlers!();

    fn steer(&mut self, _: Time, _: &Packet, view: &View<'_>) -> Target {
        self.loads.steer(view, |_, load| load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{Threads, cores_of};
    use alloc::vec::Vec;
    use humpyard_core::id::{ElementId, Id};
    use humpyard_core::packet::Part;
    use humpyard_core::random::Seed;

    fn fresh(full: Full, elements: usize, contexts: usize) -> Threads<Ml> {
        Threads::new(&MlParams { full, ..MlParams::default() }, elements, contexts)
    }

    fn loads(threads: &Threads<Ml>) -> Vec<u64> {
        threads.policy.check();
        threads.policy.loads.loads()
    }

    /// Two elements, units of two packets: first packets of units in succession go to different elements.
    #[test]
    fn example_of_the_specification() {
        let mut threads = fresh(Full::Bind, 2, 4);
        for (part, element, after) in
            [(Part::First, 0, [3, 0]), (Part::Last, 1, [3, 2]), (Part::First, 1, [3, 5]), (Part::Last, 0, [5, 5])]
        {
            assert_eq!(threads.arrive_on_element(part), element);
            assert_eq!(loads(&threads), after);
        }
    }

    #[test]
    fn an_idle_thread_comes_before_a_light_element() {
        let mut threads = fresh(Full::Bind, 2, 2);
        let [a, b, c] = [Part::First, Part::Middle, Part::Middle].map(|part| threads.arrive(part));
        assert_eq!(
            [a, b, c],
            [0, 2, 3].map(|core| Target::Core(CoreId(core))),
            "element 1 has load 2 and no idle thread"
        );
        assert_eq!(threads.arrive(Part::Middle), Target::Core(CoreId(1)));
    }

    /// Element 0 has threads with loads 3 and 2, element 1 with loads 3 and 1.
    fn full(full: Full) -> Threads<Ml> {
        let mut threads = fresh(full, 2, 2);
        for part in [Part::First, Part::Whole, Part::Last, Part::Middle] {
            threads.arrive(part).core().expect("a thread is idle");
        }
        assert_eq!(loads(&threads), [5, 4]);
        threads
    }

    #[test]
    fn bound_packets_join_the_least_thread_of_the_least_element() {
        let mut threads = full(Full::Bind);
        assert_eq!(threads.arrive(Part::Last), Target::Core(CoreId(3)));
        assert_eq!(loads(&threads), [5, 6]);
        assert_eq!(threads.arrive(Part::Last), Target::Core(CoreId(1)));
        threads.complete(CoreId(3));
        assert_eq!(loads(&threads), [7, 5]);
    }

    #[test]
    fn packets_wait_for_the_least_element() {
        let mut threads = full(Full::Element);
        assert_eq!(threads.policy.reach(), Reach::Element);
        let element = Target::Element(ElementId(1));
        assert_eq!(threads.arrive(Part::Middle), element);
        assert_eq!(loads(&threads), [5, 5]);
        threads.complete(CoreId(2));
        assert_eq!(loads(&threads), [5, 2]);
        assert_eq!(threads.arrive(Part::Last), element, "the idle thread is for the packet that waits");
        threads.take(CoreId(2));
        threads.complete(CoreId(2));
        threads.take(CoreId(2));
        assert_eq!(loads(&threads), [5, 3]);
        assert_eq!(threads.policy.loads.waiting(ElementId(1)), 0);
    }

    #[test]
    fn an_element_in_part_is_not_waited_for() {
        let mut threads = full(Full::Element);
        threads.eligible = cores_of([0, 1, 2]);
        assert_eq!(threads.arrive(Part::Whole), Target::Core(CoreId(2)));
    }

    #[test]
    fn packets_are_held_until_a_thread_is_idle() {
        let mut threads = full(Full::Hold);
        assert_eq!(threads.arrive(Part::Whole), Target::Hold);
        threads.complete(CoreId(1));
        assert_eq!(threads.arrive(Part::Whole), Target::Core(CoreId(1)));
    }

    #[test]
    fn packets_refused_and_pushed_out_weigh_nothing() {
        let mut threads = full(Full::Element);
        let (now, refused) = (Time::ZERO, Packet { part: Part::First, ..Packet::default() });
        let target = threads.steer(&refused);
        threads.policy.on_drop(now, target, &refused);
        assert_eq!(loads(&threads), [5, 4]);
        let target = threads.arrive(Part::First);
        let (_, pushed_out) = threads.waiting.pop_front().expect("it waits for its element");
        threads.policy.on_push_out(now, target, &pushed_out);
        assert_eq!(loads(&threads), [5, 4]);
    }

    fn least_with_an_idle_thread(threads: &Threads<Ml>) -> Option<usize> {
        let elements = &threads.policy.loads;
        let idle = |element: usize| {
            (2 * element..2 * element + 2).filter(|&core| threads.is_idle(CoreId::from_index(core))).count()
        };
        let free = |id: &usize| idle(*id) > elements.waiting(ElementId::from_index(*id)) as usize;
        let loads = elements.loads();
        (0..loads.len()).filter(free).min_by_key(|&id| loads[id])
    }

    /// Loads are always sums over the packets present.
    #[test]
    fn nothing_is_left_of_packets_that_are_done() {
        let mut random = Seed(5).stream("test");
        for full in [Full::Bind, Full::Element] {
            let mut threads = fresh(full, 3, 2);
            for _ in 0..2000 {
                if random.below(2) == 0 {
                    let part = [Part::First, Part::Middle, Part::Last, Part::Whole][random.below(4) as usize];
                    let least = least_with_an_idle_thread(&threads);
                    let target = threads.arrive(part);
                    assert!(least.is_none() || target.core().is_some_and(|core| least == Some(core.index() / 2)));
                } else if let Some(core) = threads.busy_from(CoreId(random.below(6) as u16)) {
                    threads.complete(core);
                    threads.take(core);
                }
                assert_eq!(
                    loads(&threads).iter().sum::<u64>(),
                    threads.held().map(|packet| threads.policy.loads.load_of(packet)).sum::<u64>()
                );
            }
            while let Some(core) = threads.busy_from(CoreId(0)) {
                threads.complete(core);
                threads.take(core);
            }
            assert_eq!(loads(&threads), [0, 0, 0]);
        }
    }
}
