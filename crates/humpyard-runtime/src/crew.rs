//! The cores as the dispatcher sees them: real threads, or cores on a virtual clock.

use humpyard_core::id::{CoreId, Slot};
use humpyard_core::mechanism::Dispatch;
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use crate::counters::Counters;
use crate::held::HeldFrames;
use crate::outcome::RunError;
use crate::threads::Threads;
use crate::virtual_cores::VirtualCores;
use crate::worker::Done;

/// The workers of a run.
pub(crate) enum Crew {
    /// Threads; the dispatcher itself works for cores on its own processor.
    Threads(Threads),
    /// The dispatcher, for every core, in virtual time.
    Virtual(Box<VirtualCores>),
}

impl Crew {
    /// Returns when every worker thread is pinned to its seat, or has ended.
    pub(crate) fn wait_until_ready(&self) {
        if let Self::Threads(threads) = self {
            threads.wait_until_ready();
        }
    }

    /// Gives a packet to a core. A worker may receive it only after [`Crew::wake`].
    #[inline(always)]
    pub(crate) fn give(&mut self, now: Time, core: CoreId, dispatch: &Dispatch<&Packet>, held: &mut HeldFrames) {
        match self {
            Self::Threads(threads) => threads.give(now, core, dispatch, held),
            Self::Virtual(cores) => cores.give(now, core, dispatch, held),
        }
    }

    /// Passes the waiting packets on to this core's worker, and wakes it if it sleeps.
    pub(crate) fn wake(&mut self, core: CoreId) {
        match self {
            Self::Threads(threads) => threads.wake(core),
            Self::Virtual(_) => {}
        }
    }

    /// Serves for a while the cores that are the dispatcher's own. `packet` returns the packet of a
    /// slot. Returns whether there was any work.
    #[inline]
    pub(crate) fn serve<'p>(&mut self, held: &mut HeldFrames, packet: impl Fn(Slot) -> &'p Packet) -> bool {
        if let Self::Threads(threads) = self { threads.serve(held, packet) } else { false }
    }

    /// Begins the switch of an idle core to another service. The switch is emulated: it takes time,
    /// but no work.
    pub(crate) fn switch(&mut self, core: CoreId, until: Time) {
        match self {
            Self::Threads(threads) => threads.switch(core, until),
            Self::Virtual(cores) => cores.switch(core, until),
        }
    }

    /// Forgets switches under way: they belonged to a scheduler that was replaced.
    pub(crate) fn forget_switches(&mut self) {
        match self {
            Self::Threads(threads) => threads.forget_switches(),
            Self::Virtual(_) => unreachable!("nothing is replaced by a virtual clock"),
        }
    }

    /// Takes finished results, all of one core, into an empty list, and puts their frames back into
    /// their slots. Call it until it returns `None`: results come by ascending core.
    #[inline]
    pub(crate) fn take(&mut self, now: Time, held: &mut HeldFrames, results: &mut Vec<Done>) -> Option<CoreId> {
        match self {
            Self::Threads(threads) => threads.take(now, held, results),
            Self::Virtual(cores) => cores.take(now, results),
        }
    }

    /// Returns the work of the packet on a warm core, in ns, if it is known beforehand.
    pub(crate) fn work(&self, packet: &Packet) -> Option<u64> {
        if let Self::Virtual(cores) = self { Some(cores.work(packet)) } else { None }
    }

    /// Returns when the next result is due that no doorbell announces.
    pub(crate) fn next_time(&self) -> Option<Time> {
        match self {
            Self::Threads(threads) => threads.next_time(),
            Self::Virtual(cores) => cores.next_time(),
        }
    }

    /// Whether a worker thread has given a result that was not yet taken.
    pub(crate) fn has_results(&self) -> bool {
        if let Self::Threads(threads) = self { threads.has_results() } else { false }
    }

    /// Whether every worker thread is still there.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        if let Self::Threads(threads) = self { threads.check() } else { Ok(()) }
    }

    /// Ends the worker threads after all their work, and returns the services' counters. Results
    /// not yet taken are lost.
    pub(crate) fn end(self) -> Result<Counters, RunError> {
        match self {
            Self::Threads(threads) => threads.end(),
            Self::Virtual(cores) => Ok(cores.end()),
        }
    }
}
