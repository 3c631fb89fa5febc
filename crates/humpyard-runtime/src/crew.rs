//! The cores as the dispatcher sees them: threads, or its own hands.

use humpyard_core::frame::Frame;
use humpyard_core::id::CoreId;
use humpyard_core::mechanism::Dispatch;
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use crate::outcome::RunError;
use crate::own::Own;
use crate::threads::Threads;
use crate::worker::{Done, Job};

/// Who does the work.
pub(crate) enum Crew {
    /// The dispatcher itself, packet by packet.
    Own(Own),
    /// One thread per core.
    Threads(Threads),
}

impl Crew {
    /// Returns when everybody is ready.
    pub(crate) fn wait_until_ready(&self) {
        if let Self::Threads(threads) = self {
            threads.wait_until_ready();
        }
    }

    /// Gives a core a packet.
    pub(crate) fn give(&mut self, now: Time, core: CoreId, dispatch: &Dispatch, frame: Frame) {
        match self {
            Self::Own(own) => own.give(now, core, dispatch, frame),
            Self::Threads(threads) => {
                threads.give(core, Job { slot: dispatch.slot, service: dispatch.packet.service, frame });
            }
        }
    }

    /// Wakes whoever works for this core, if it sleeps. To be called after it was given packets.
    pub(crate) fn wake(&self, core: CoreId) {
        if let Self::Threads(threads) = self {
            threads.wake(core);
        }
    }

    /// Lets a core that has nothing to serve go over to another service. That is emulated: it takes time, and no work.
    pub(crate) fn switch(&mut self, core: CoreId, until: Time) {
        match self {
            Self::Own(own) => own.switch(core, until),
            Self::Threads(threads) => threads.switch(core, until),
        }
    }

    /// Takes the next result there is by now. To be asked until there is none: results come by ascending core.
    pub(crate) fn take(&mut self, now: Time) -> Option<(CoreId, Done)> {
        match self {
            Self::Own(own) => own.take(now),
            Self::Threads(threads) => threads.take(now),
        }
    }

    /// What a packet will take a warm core, in ns, where that is known beforehand.
    pub(crate) fn work(&self, packet: &Packet) -> Option<u64> {
        match self {
            Self::Own(own) => own.work(packet),
            Self::Threads(_) => None,
        }
    }

    /// When the next result is there of which nobody tells.
    pub(crate) fn next_time(&self) -> Option<Time> {
        match self {
            Self::Own(own) => own.next_time(),
            Self::Threads(threads) => threads.next_time(),
        }
    }

    /// Whether somebody else has given a result.
    pub(crate) fn has_results(&self) -> bool {
        match self {
            Self::Own(_) => false,
            Self::Threads(threads) => threads.has_results(),
        }
    }

    /// Whether everybody is still there.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Threads(threads) => threads.check(),
        }
    }

    /// Ends the work, once all that was handed out is done; results not yet taken are lost.
    pub(crate) fn end(self) -> Result<(), RunError> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Threads(threads) => threads.end(),
        }
    }
}
