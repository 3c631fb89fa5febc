//! How a run is watched and ended from outside.

use core::sync::atomic::AtomicBool;

use humpyard_core::measure::Observer;
use humpyard_runtime::Hears;
use humpyard_wire::Note;

use crate::follow::Follower;
use crate::metrics::Endpoint;
use crate::parts::dispatch::DispatchChoice;
use crate::reload::Reload;

/// Reads what ports have to say.
pub type ReadsNotes<'a> = &'a mut dyn FnMut(&[Note]);

/// How a run is watched and ended from outside.
pub struct Control<'a> {
    /// Set to end reading. The run then serves and writes the packets that it holds.
    pub stop: &'a AtomicBool,
    /// Hears now and then of the packets so far and the part of the input that was read (0 to 1, where that is known).
    pub progress: &'a mut dyn FnMut(u64, Option<f64>),
    /// Hears now and then how busy each dispatcher of a live run has been so far. `None`: nobody listens.
    pub loads: Option<Hears<'a>>,
    /// Asked now and then whether the run goes on with another configuration. `None`: it never does. Live only.
    pub reload: Option<&'a dyn Reload>,
    /// Where the metrics of a live run are served while it goes on.
    pub metrics: Option<Endpoint>,
    /// Called with the choice of dispatchers and workers once a live run has its ports. `None`: not called.
    pub dispatched: Option<&'a mut dyn FnMut(&DispatchChoice)>,
    /// Called with what the ports of a live run have to say, once they are open. `None`: not called.
    pub opened: Option<ReadsNotes<'a>>,
    /// Hears of everything as it is measured, of one run; a timeline is not written then.
    pub observer: Option<Box<dyn Observer + Send>>,
    /// Follows the journal of one run with one dispatcher, instead of a file. `None`: nobody follows.
    pub follower: Option<Follower>,
}

impl<'a> Control<'a> {
    /// A run that is ended by `stop`, tells of its progress, and keeps its configuration.
    pub fn new(stop: &'a AtomicBool, progress: &'a mut dyn FnMut(u64, Option<f64>)) -> Self {
        Self {
            stop,
            progress,
            loads: None,
            reload: None,
            metrics: None,
            dispatched: None,
            opened: None,
            observer: None,
            follower: None,
        }
    }
}
