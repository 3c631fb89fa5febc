//! Follows the journal of a run while the run goes on, in memory.

use core::fmt::{self, Debug};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::FlowId;
use humpyard_core::mechanism::{Journal, Record};
use humpyard_policies::spec::PolicySpec;
use humpyard_traffic::flow::FlowNames;
use humpyard_traffic::header::FlowKey;

/// Follows a journal, of a run that goes on or of a file.
pub trait Follow: Send {
    /// A run begins, with these policies and this scheduler.
    fn on_begin(&mut self, policy: &PolicySpec, config: &SchedulerConfig);
    /// From now on this id names this flow.
    fn on_flow(&mut self, flow: FlowId, name: String);
    /// The next record.
    fn on_record(&mut self, record: &Record);
}

/// A follower that a run and its owner share.
#[derive(Clone)]
pub struct Follower(Arc<Mutex<dyn Follow>>);

impl Follower {
    /// Shares a follower, which its owner reads when the run is over.
    pub fn new<F: Follow + 'static>(follower: &Arc<Mutex<F>>) -> Self {
        Self(Arc::clone(follower) as Arc<Mutex<dyn Follow>>)
    }

    pub(crate) fn on_begin(&self, policy: &PolicySpec, config: &SchedulerConfig) {
        self.lock().on_begin(policy, config);
    }

    fn lock(&self) -> MutexGuard<'_, dyn Follow + 'static> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Follower")
    }
}

impl Journal for Follower {
    fn record(&mut self, record: Record) {
        self.lock().on_record(&record);
    }
}

impl FlowNames for Follower {
    fn on_flow(&self, flow: FlowId, key: &FlowKey) {
        self.lock().on_flow(flow, key.to_string());
    }
}
