//! Elements with several contexts: how even their loads are, and how long packets were held back.

use alloc::vec;
use alloc::vec::Vec;

use serde::Serialize;

use crate::id::{CoreId, Id};
use crate::packet::{Packet, Part};
use crate::unit::Time;

/// Measurements of elements, each of which has the same number of consecutive contexts.
#[derive(Debug)]
pub(super) struct Elements {
    contexts: usize,
    /// By element.
    busy: Vec<Time>,
    /// By element: packets done that began a unit.
    starts: Vec<u64>,
    /// Packets given to each context and not done.
    in_service: Vec<u32>,
    /// Contexts without a packet.
    idle: usize,
    /// Whether packets are held back.
    holds: bool,
    /// The time up to which the times below are counted.
    counted: Time,
    held: Time,
    held_in_vain: Time,
}

impl Elements {
    pub(super) fn new(contexts: usize, cores: usize) -> Self {
        let elements = cores.div_ceil(contexts);
        Self {
            contexts,
            busy: vec![Time::ZERO; elements],
            starts: vec![0; elements],
            in_service: vec![0; cores],
            idle: cores,
            holds: false,
            counted: Time::ZERO,
            held: Time::ZERO,
            held_in_vain: Time::ZERO,
        }
    }

    /// A packet went to a context.
    pub(super) fn on_dispatch(&mut self, now: Time, core: CoreId) {
        self.count(now);
        let in_service = &mut self.in_service[core.index()];
        self.idle -= usize::from(*in_service == 0);
        *in_service += 1;
    }

    /// A context is done with a packet, after it was busy with it for `busy`.
    pub(super) fn on_completion(&mut self, now: Time, core: CoreId, packet: &Packet, busy: Time) {
        self.count(now);
        let in_service = &mut self.in_service[core.index()];
        *in_service -= 1;
        self.idle += usize::from(*in_service == 0);
        let element = core.index() / self.contexts;
        self.busy[element] += busy;
        self.starts[element] += u64::from(matches!(packet.part, Part::First | Part::Whole));
    }

    /// Records whether packets are held back from now on.
    pub(super) fn on_hold(&mut self, now: Time, holds: bool) {
        self.count(now);
        self.holds = holds;
    }

    /// Raises the number of contexts to `cores`, if there are fewer.
    pub(super) fn add_cores(&mut self, cores: usize) {
        self.idle += cores.saturating_sub(self.in_service.len());
        self.in_service.resize(cores.max(self.in_service.len()), 0);
        let elements = self.in_service.len().div_ceil(self.contexts);
        self.busy.resize(elements, Time::ZERO);
        self.starts.resize(elements, 0);
    }

    fn count(&mut self, now: Time) {
        let passed = now.since(self.counted);
        if self.holds {
            self.held += passed;
            if self.idle > 0 {
                self.held_in_vain += passed;
            }
        }
        self.counted = self.counted.max(now);
    }

    /// Returns the elements of all dispatchers, in order. `None`: there are none. Time in which
    /// several dispatchers held back packets counts for each.
    pub(super) fn summary_of<'a>(
        several: impl Iterator<Item = &'a Self> + Clone,
        duration: Time,
    ) -> Option<ElementsSummary> {
        let all = || several.clone();
        all().next()?;
        let part = |time: &Time| super::summary::fraction(time.as_ns(), duration.as_ns());
        let busy = || all().flat_map(|one| one.busy.iter());
        let (most, least) = (busy().max(), busy().min());
        Some(ElementsSummary {
            blocking_ns: all().map(|one| one.held_in_vain.as_ns()).sum(),
            held_back_ns: all().map(|one| one.held.as_ns()).sum(),
            starts: all().flat_map(|one| one.starts.iter().copied()).collect(),
            load: busy().map(part).collect(),
            load_spread: most.map_or(0.0, part) - least.map_or(0.0, part),
        })
    }
}

/// Measurements of elements, which are groups of contexts, as in network processors.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ElementsSummary {
    /// Time in ns during which packets were held back although a context was idle.
    pub blocking_ns: u64,
    /// Time in ns during which packets were held back.
    pub held_back_ns: u64,
    /// For each element, the completed packets that started a unit (SOP) or were a whole unit.
    pub starts: Vec<u64>,
    /// For each element, the busy time of all its contexts divided by `duration_ns`: from 0 to the
    /// number of contexts.
    pub load: Vec<f64>,
    /// The greatest value in `load` minus the least.
    pub load_spread: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Time {
        Time::from_ns(1000 * us)
    }

    #[test]
    fn packets_held_back_count_and_apart_while_a_context_is_idle() {
        let mut elements = Elements::new(2, 4);
        for core in 0..4 {
            elements.on_dispatch(us(0), CoreId(core));
        }
        elements.on_hold(us(1), true);
        let first = Packet { part: Part::First, ..Packet::default() };
        let last = Packet { part: Part::Last, ..Packet::default() };
        elements.on_completion(us(5), CoreId(1), &first, us(5));
        elements.on_hold(us(5), true);
        elements.on_completion(us(8), CoreId(2), &last, us(8));
        elements.on_dispatch(us(8), CoreId(2));
        elements.on_hold(us(9), false);
        elements.on_completion(us(20), CoreId(0), &first, us(20));
        let summary = Elements::summary_of(core::iter::once(&elements), us(20)).expect("one");
        assert_eq!((summary.held_back_ns, summary.blocking_ns), (8000, 4000));
        assert_eq!((summary.starts, summary.load), (vec![2, 0], vec![1.25, 0.4]));
        assert!((summary.load_spread - 0.85).abs() < 1e-12);
    }

    #[test]
    fn cores_that_are_added_are_idle_elements() {
        let mut elements = Elements::new(2, 2);
        elements.add_cores(4);
        elements.add_cores(2);
        elements.on_dispatch(us(0), CoreId(3));
        elements.on_completion(us(1), CoreId(3), &Packet::default(), us(1));
        let summary = Elements::summary_of(core::iter::once(&elements), us(1)).expect("one");
        assert_eq!(summary.starts, [0, 1]);
    }
}
