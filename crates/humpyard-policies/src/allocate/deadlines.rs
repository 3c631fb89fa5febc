//! Services that are to be asked for at some time, whether or not anything happens then.

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::id::{IdVec, ServiceId};
use humpyard_core::storage::{IdSet, IndexedHeap};
use humpyard_core::unit::Time;

/// A time for each service that has one, and the services whose time has come.
#[derive(Debug)]
pub(super) struct Deadlines {
    times: IndexedHeap<ServiceId, Time>,
    due: IdSet<ServiceId>,
    /// After how long each is asked for again, in vain before.
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

    /// When the first comes.
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

    /// A service whose time has come, and that was not asked for yet.
    pub(super) fn due(&self) -> Option<ServiceId> {
        self.due.first()
    }

    /// It was asked for.
    pub(super) fn met(&mut self, id: ServiceId) {
        self.due.remove(id);
    }

    pub(super) fn is_set(&self, id: ServiceId) -> bool {
        self.times.contains(id)
    }

    /// The service is asked for at this time, or, if that is over, after a switch time.
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

/// The shortest time after which a service is asked for again.
const AGAIN_MIN: Time = Time::from_ns(1_000);
