//! Going on with other policies, weights or workers.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use humpyard_core::id::ClientId;
use humpyard_core::mechanism::Scheduler;
use humpyard_core::policy::Topology;
use humpyard_core::unit::Weight;

use crate::placement::Seat;

/// What a run is to go on with. It takes over as soon as no packet is in service: nothing is lost, and no flow is reordered.
#[derive(Debug)]
pub struct Replacement<S, Q, A> {
    /// The name of its policies, for who watches.
    pub policy: Arc<str>,
    /// The policies, made for as many cores as there are to be workers (1 for none), and for the packets, flows and clients of
    /// the run.
    pub scheduler: Scheduler<S, Q, A>,
    /// Clients that have another weight than before.
    pub weights: Vec<(ClientId, Weight)>,
    /// Clients that have another weight at the link than before.
    pub link_weights: Vec<(ClientId, Weight)>,
    /// Worker threads from now on. Where there are others than before, or other packets in flight, services begin anew, with
    /// nothing in mind.
    pub workers: usize,
    /// Where the scheduler goes that was before: to give its memory back takes longer than to take over.
    pub retired: Sender<Scheduler<S, Q, A>>,
    /// Which of them are near each other, if that is known.
    pub topology: Option<Topology>,
    /// Where the threads sit; none is as [`seats`](crate::seats()) says.
    pub seats: Option<Vec<Seat>>,
}

/// The replacements of a run: those to come, and one that waits for packets in service.
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

    /// Whether one waits, so that no core may be given a packet. To be asked once in a round.
    pub(crate) fn is_waiting(&mut self) -> bool {
        if self.waiting.is_none()
            && let Some(coming) = &self.coming
        {
            self.waiting = coming.try_recv().ok().map(|replacement| (replacement, Instant::now()));
        }
        self.waiting.is_some()
    }

    /// The one that waits, since when it does.
    pub(crate) const fn take(&mut self) -> Option<(Replacement<S, Q, A>, Instant)> {
        self.waiting.take()
    }
}
