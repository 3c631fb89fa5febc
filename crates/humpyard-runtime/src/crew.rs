//! The cores as the dispatcher sees them: those of a real clock, or of a virtual one.

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

/// Who does the work.
pub(crate) enum Crew {
    /// Threads, and the dispatcher for cores on its own processor.
    Threads(Threads),
    /// The dispatcher, for every core, in virtual time.
    Virtual(VirtualCores),
}

impl Crew {
    /// Returns when every worker thread sits in its place, or is gone.
    pub(crate) fn wait_until_ready(&self) {
        if let Self::Threads(threads) = self {
            threads.wait_until_ready();
        }
    }

    /// Gives a core a packet, which it may get only with [`Crew::wake`].
    #[inline(always)]
    pub(crate) fn give(&mut self, now: Time, core: CoreId, dispatch: &Dispatch<&Packet>, held: &mut HeldFrames) {
        match self {
            Self::Threads(threads) => threads.give(now, core, dispatch, held),
            Self::Virtual(cores) => cores.give(now, core, dispatch, held),
        }
    }

    /// Lets whoever works for this core have what it was given, and wakes it, if it sleeps.
    pub(crate) fn wake(&mut self, core: CoreId) {
        match self {
            Self::Threads(threads) => threads.wake(core),
            Self::Virtual(_) => {}
        }
    }

    /// Serves a while for the cores whose work is the dispatcher's. `packet` finds the packet of a slot. Returns whether there was
    /// any.
    #[inline]
    pub(crate) fn serve<'p>(&mut self, held: &mut HeldFrames, packet: impl Fn(Slot) -> &'p Packet) -> bool {
        if let Self::Threads(threads) = self { threads.serve(held, packet) } else { false }
    }

    /// Lets a core that has nothing to serve go over to another service. That is emulated: it takes time, and no work.
    pub(crate) fn switch(&mut self, core: CoreId, until: Time) {
        match self {
            Self::Threads(threads) => threads.switch(core, until),
            Self::Virtual(cores) => cores.switch(core, until),
        }
    }

    /// Cores that were going over to other services belong to another scheduler.
    pub(crate) fn forget_switches(&mut self) {
        match self {
            Self::Threads(threads) => threads.forget_switches(),
            Self::Virtual(_) => unreachable!("nothing is replaced by a virtual clock"),
        }
    }

    /// Takes results that there are by now, all of one core, into a list that is empty; their frames are in their slots again. To
    /// be asked until there is none: results come by ascending core.
    #[inline]
    pub(crate) fn take(&mut self, now: Time, held: &mut HeldFrames, results: &mut Vec<Done>) -> Option<CoreId> {
        match self {
            Self::Threads(threads) => threads.take(now, held, results),
            Self::Virtual(cores) => cores.take(now, results),
        }
    }

    /// What a packet will take a warm core, in ns, where that is known beforehand.
    pub(crate) fn work(&self, packet: &Packet) -> Option<u64> {
        if let Self::Virtual(cores) = self { Some(cores.work(packet)) } else { None }
    }

    /// When the next result is there of which nobody tells.
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

    /// Ends the worker threads, once they have done all they had, and tells what the services counted; results not yet
    /// taken are lost.
    pub(crate) fn end(self) -> Result<Counters, RunError> {
        match self {
            Self::Threads(threads) => threads.end(),
            Self::Virtual(cores) => Ok(cores.end()),
        }
    }
}
