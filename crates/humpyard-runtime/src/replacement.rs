//! Replacement of policies, weights or workers during a run.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use humpyard_core::id::ClientId;
use humpyard_core::mechanism::Scheduler;
use humpyard_core::policy::Topology;
use humpyard_core::unit::Weight;

use crate::placement::Seat;

/// A replacement for parts of a run. It takes over as soon as no packet is in service: no packet is
/// lost, and no flow is reordered.
#[derive(Debug)]
pub struct Replacement<S, Q, A> {
    /// The name of its policies, for observers.
    pub policy: Arc<str>,
    /// The policies, made for as many cores as there will be workers (1 for 0 workers), and for the
    /// packets, flows and clients of the run.
    pub scheduler: Scheduler<S, Q, A>,
    /// Clients that have another weight than before.
    pub weights: Vec<(ClientId, Weight)>,
    /// Clients that have another weight at the link than before.
    pub link_weights: Vec<(ClientId, Weight)>,
    /// Worker threads from now on. If their number or the packets in flight change, services start
    /// again without their state.
    pub workers: usize,
    /// Receives the old scheduler: freeing its memory takes longer than the takeover.
    pub retired: Sender<Scheduler<S, Q, A>>,
    /// The distances between the cores, if they are known.
    pub topology: Option<Topology>,
    /// The seats of the threads. `None`: as [`seats`](crate::seats()) returns.
    pub seats: Option<Vec<Seat>>,
}

/// The replacements of a run: those to come, and one that waits until no packet is in service.
pub(crate) struct Replacements<S, Q, A> {
    coming: Option<Receiver<Replacement<S, Q, A>>>,
    waiting: Option<(Replacement<S, Q, A>, Instant)>,
    /// How many have taken over.
    pub(crate) made: u64,
}

impl<S, Q, A> Replacements<S, Q, A> {
    pub(crate) const fn new(coming: Option<Receiver<Replacement<S, Q, A>>>) -> Self {
        Self { coming, waiting: None, made: 0 }
    }

    /// Whether a replacement waits, so that no core may get a packet. Call it once in a round.
    pub(crate) fn is_waiting(&mut self) -> bool {
        if self.waiting.is_none()
            && let Some(coming) = &self.coming
        {
            self.waiting = coming.try_recv().ok().map(|replacement| (replacement, Instant::now()));
        }
        self.waiting.is_some()
    }

    /// Returns the waiting replacement, and since when it waits.
    pub(crate) const fn take(&mut self) -> Option<(Replacement<S, Q, A>, Instant)> {
        self.waiting.take()
    }
}
