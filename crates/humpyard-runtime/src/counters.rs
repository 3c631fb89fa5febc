//! The services' own counters, added up over their instances, and the hardware counters of threads.

use std::collections::BTreeMap;

use humpyard_core::id::{Id, ServiceId};
use humpyard_services::Counter;

use crate::hardware::HardwareCounts;

/// The services' own counters of a run, each over all instances, and the hardware counters of its
/// threads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    services: Vec<BTreeMap<String, u64>>,
    /// The hardware counters of the threads, if requested.
    hardware: Option<HardwareCounts>,
}

impl Counters {
    /// Returns the counters of this service, by name; empty if it has none.
    pub fn of(&self, service: ServiceId) -> BTreeMap<String, u64> {
        self.services.get(service.index()).cloned().unwrap_or_default()
    }

    /// Returns the hardware counters of the threads. `None`: they were not requested.
    pub fn hardware(&self) -> Option<&HardwareCounts> {
        self.hardware.as_ref()
    }

    /// Adds hardware counts.
    pub(crate) fn add_hardware(&mut self, counted: HardwareCounts) {
        self.hardware.get_or_insert_default().merge(counted);
    }

    /// Adds the counters of an instance of a service.
    pub(crate) fn add(&mut self, service: ServiceId, counters: impl IntoIterator<Item = Counter>) {
        if self.services.len() <= service.index() {
            self.services.resize_with(service.index() + 1, BTreeMap::new);
        }
        for Counter { name, count } in counters {
            *self.services[service.index()].entry(name).or_default() += count;
        }
    }

    /// Adds the counters of other threads.
    pub(crate) fn merge(&mut self, other: Self) {
        for (index, counters) in other.services.into_iter().enumerate() {
            let counters = counters.into_iter().map(|(name, count)| Counter { name, count });
            self.add(ServiceId::from_index(index), counters);
        }
        if let Some(counted) = other.hardware {
            self.add_hardware(counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_instances_add_up() {
        let mut one = Counters::default();
        one.add(ServiceId(2), [Counter::new("packets", 3)]);
        let mut all = Counters::default();
        all.add(ServiceId(0), []);
        all.add(ServiceId(2), [Counter::new("packets", 4), Counter::new("bytes", 9)]);
        all.merge(one);
        let expected = [("bytes".to_owned(), 9), ("packets".to_owned(), 7)];
        assert_eq!(all.of(ServiceId(2)).into_iter().collect::<Vec<_>>(), expected);
        assert!(all.of(ServiceId(0)).is_empty() && all.of(ServiceId(9)).is_empty());
    }
}
