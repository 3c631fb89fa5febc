//! The load of each processing element, by the parts of units that its packets are, and the choice
//! of the least loaded.

use alloc::vec;
#[cfg(test)]
use alloc::vec::Vec;

use humpyard_core::choice;
use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, ElementId, Id, IdVec};
use humpyard_core::packet::{Packet, Part};
use humpyard_core::policy::{Reach, Target, View};

choice! {
    /// The treatment of a packet if no thread is idle.
    pub enum Full {
        /// It joins the least loaded thread of the least loaded element.
        Bind = "bind",
        /// It waits for the first free thread of the least loaded element.
        Element = "element",
        /// It and all later packets wait for the first free thread.
        Hold = "hold",
    }
}

/// The load of a packet, by its part.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartLoads {
    pub(super) first: u64,
    pub(super) middle: u64,
    pub(super) last: u64,
    pub(super) whole: u64,
}

impl PartLoads {
    /// Returns the least of the four loads.
    pub(super) fn least(&self) -> u64 {
        self.first.min(self.middle).min(self.last).min(self.whole)
    }

    fn of(&self, packet: &Packet) -> u64 {
        match packet.part {
            Part::First => self.first,
            Part::Middle => self.middle,
            Part::Last => self.last,
            Part::Whole => self.whole,
        }
    }
}

/// The state of an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Element {
    /// The load of all its packets.
    load: u64,
    /// The number of packets that wait for any of its threads.
    waiting: u32,
}

/// The loads of elements and of their threads, updated by a policy's events.
///
/// The load of an element is the sum of the loads of its threads and of the packets that wait for any of them.
#[derive(Debug)]
pub(super) struct ElementLoads {
    parts: PartLoads,
    full: Full,
    /// Threads of each element.
    contexts: usize,
    /// The element of each thread.
    element_of: IdVec<CoreId, ElementId>,
    elements: IdVec<ElementId, Element>,
    /// The load of the packets of each thread, in its own queue and in service.
    loads: IdVec<CoreId, u64>,
}

/// The handlers that all policies with an [`ElementLoads`] field `loads` share, for their `impl Steer`.
macro_rules! element_handlers {
    () => {
        fn reach(&self) -> Reach {
            self.loads.reach()
        }

        fn on_enqueue(&mut self, _: Time, target: Target, packet: &Packet) {
            self.loads.on_enqueue(target, packet);
        }

        fn on_push_out(&mut self, _: Time, target: Target, packet: &Packet) {
            self.loads.on_push_out(target, packet);
        }

        fn on_dispatch(&mut self, _: Time, core: CoreId, target: Target, packet: &Packet) {
            self.loads.on_dispatch(core, target, packet);
        }

        fn on_completion(&mut self, _: Time, core: CoreId, packet: &Packet, _: Work) {
            self.loads.on_completion(core, packet);
        }
    };
}
pub(super) use element_handlers;

impl ElementLoads {
    pub(super) fn new(parts: PartLoads, full: Full, config: &SchedulerConfig) -> Self {
        Self {
            parts,
            full,
            contexts: config.contexts,
            element_of: IdVec::from_fn(config.cores, |thread| config.element(thread)),
            elements: vec![Element::default(); config.elements()].into_iter().collect(),
            loads: IdVec::from_fn(config.cores, |_| 0),
        }
    }

    pub(super) fn reach(&self) -> Reach {
        if self.full == Full::Element { Reach::Element } else { Reach::Core }
    }

    /// Returns the element that holds the packets of this target.
    pub(super) fn joined(&self, target: Target) -> Option<ElementId> {
        match target {
            Target::Core(thread) => Some(self.element_of[thread]),
            Target::Element(element) => Some(element),
            Target::Shared | Target::Hold => None,
        }
    }

    /// Returns the target of a packet. `seen` maps an element's load to the load that the policy compares.
    #[inline]
    pub(super) fn steer(&self, view: &View<'_>, seen: impl Fn(ElementId, u64) -> u64) -> Target {
        match self.idle(view, &seen) {
            Some(thread) => Target::Core(thread),
            None if self.full == Full::Hold => Target::Hold,
            None => self.join(view, &seen),
        }
    }

    pub(super) fn on_enqueue(&mut self, target: Target, packet: &Packet) {
        let load = self.parts.of(packet);
        let Some(id) = self.joined(target) else { return };
        self.elements[id].load += load;
        match target {
            Target::Core(thread) => self.loads[thread] += load,
            _ => self.elements[id].waiting += 1,
        }
    }

    pub(super) fn on_push_out(&mut self, target: Target, packet: &Packet) {
        let load = self.parts.of(packet);
        let Some(id) = self.joined(target) else { return };
        self.elements[id].load -= load;
        match target {
            Target::Core(thread) => self.loads[thread] -= load,
            _ => self.elements[id].waiting -= 1,
        }
    }

    pub(super) fn on_dispatch(&mut self, core: CoreId, target: Target, packet: &Packet) {
        let load = self.parts.of(packet);
        match target {
            Target::Element(element) => self.elements[element].waiting -= 1,
            // Another policy had let the packet wait for all threads.
            Target::Shared => self.elements[self.element_of[core]].load += load,
            Target::Core(_) | Target::Hold => return,
        }
        self.loads[core] += load;
    }

    pub(super) fn on_completion(&mut self, core: CoreId, packet: &Packet) {
        let load = self.parts.of(packet);
        self.loads[core] -= load;
        self.elements[self.element_of[core]].load -= load;
    }

    /// Returns the first idle thread of the least loaded element that has one. A thread is not idle
    /// if packets wait for its element.
    #[inline]
    fn idle(&self, view: &View<'_>, seen: &impl Fn(ElementId, u64) -> u64) -> Option<CoreId> {
        let mut least: Option<(u64, CoreId)> = None;
        let (mut element, mut taken) = (None, 0);
        for &thread in view.eligible {
            let of = self.element_of[thread];
            if element != Some(of) {
                (element, taken) = (Some(of), self.elements[of].waiting);
            }
            if view.cores[thread].packets > 0 {
                continue;
            }
            let load = seen(of, self.elements[of].load);
            if taken > 0 {
                taken -= 1;
            } else if least.is_none_or(|(least, _)| load < least) {
                least = Some((load, thread));
            }
        }
        least.map(|(_, thread)| thread)
    }

    /// Returns the target in the least loaded element if no thread is idle.
    fn join(&self, view: &View<'_>, seen: &impl Fn(ElementId, u64) -> u64) -> Target {
        let load = |of: ElementId| (seen(of, self.elements[of].load), of);
        let eligible = view.eligible.iter().copied();
        let order = |&thread: &CoreId| (load(self.element_of[thread]), self.loads[thread]);
        let least = eligible.min_by_key(order).expect("at least one core");
        let element = self.element_of[least];
        let own = view.eligible.iter().filter(|&&thread| self.element_of[thread] == element).count();
        if self.full == Full::Element && own == self.contexts { Target::Element(element) } else { Target::Core(least) }
    }

    /// Panics if the load of an element is not the sum of its threads' loads and of the packets
    /// that wait for them.
    pub(super) fn check(&self) {
        for id in self.elements.ids() {
            let Element { load, waiting } = self.elements[id];
            let first = id.index() * self.contexts;
            let threads: u64 = self.loads.as_slice()[first..first + self.contexts].iter().sum();
            assert!(threads <= load && (waiting > 0 || threads == load), "{threads} of the {load} of element {id}");
        }
    }

    #[cfg(test)]
    pub(super) fn load_of(&self, packet: &Packet) -> u64 {
        self.parts.of(packet)
    }

    #[cfg(test)]
    pub(super) fn loads(&self) -> Vec<u64> {
        self.elements.iter().map(|element| element.load).collect()
    }

    #[cfg(test)]
    pub(super) fn waiting(&self, element: ElementId) -> u32 {
        self.elements[element].waiting
    }
}
