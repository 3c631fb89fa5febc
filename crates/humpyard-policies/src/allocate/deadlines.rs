//! Deadlines: times at which a policy must consider a service even if no event happens.

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::id::{IdVec, ServiceId};
use humpyard_core::storage::{IdSet, IndexedHeap};
use humpyard_core::unit::Time;

/// A time for each service that has one, and the services whose time has come.
#[derive(Debug)]
pub(super) struct Deadlines {
    times: IndexedHeap<ServiceId, Time>,
    due: IdSet<ServiceId>,
    /// The time after which each service is considered again if the last attempt failed.
    again: IdVec<ServiceId, Time>,
}

impl Deadlines {
    pub(super) fn new(config: &SchedulerConfig) -> Self {
        let services = config.services.len();
        let again = |service: &ServiceConfig| service.switch_cost.max(AGAIN_MIN);
        Self {
            times: IndexedHeap::new(services),
            due: IdSet::new(services),
            again: config.services.iter().map(again).collect(),
        }
    }

    /// Returns the first time.
    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        self.times.peek().map(|(time, _)| time)
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        while let Some((_, id)) = self.times.peek().filter(|&(time, _)| time <= now) {
            self.times.remove(id);
            self.due.insert(id);
        }
    }

    /// Returns a service whose time has come and that was not considered yet.
    pub(super) fn due(&self) -> Option<ServiceId> {
        self.due.first()
    }

    /// Records that the service was considered.
    pub(super) fn met(&mut self, id: ServiceId) {
        self.due.remove(id);
    }

    pub(super) fn is_set(&self, id: ServiceId) -> bool {
        self.times.contains(id)
    }

    /// Sets the time of the service. If that has passed, the service is considered after a switch time.
    pub(super) fn set(&mut self, now: Time, id: ServiceId, time: Time) {
        if time > now {
            self.times.set(id, time);
        } else if !self.times.contains(id) {
            self.times.set(id, now + self.again[id]);
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, id: ServiceId) {
        self.times.remove(id);
    }
}

/// The shortest time after which a service is considered again.
const AGAIN_MIN: Time = Time::from_ns(1_000);
