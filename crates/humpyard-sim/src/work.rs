//! What a core does with a packet, where that is more than a cost: how it gets it, and what was measured of it.

use humpyard_core::cost::{CostModel, Span};
use humpyard_core::id::{CoreId, IdVec};
use humpyard_core::mechanism::Dispatch;
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use crate::host::Host;
use crate::interruptions::Interrupted;
use crate::kernel::Kernel;

/// How packets get to cores and what they take there; by default at once, and what the cost model says.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Work {
    /// From the decision until the core has the packet, if it is idle.
    pub hand_over: Time,
    /// What was measured of each packet, which counts instead of the cost model.
    pub measured: Option<MeasuredWork>,
    /// How cores and dispatcher are interrupted meanwhile, unless the work was measured: then that is in it.
    pub interrupted: Option<Interrupted>,
    /// The host around the cores, which counts instead of all that. `None`: decisions take no time.
    pub host: Option<Box<Host>>,
    /// The kernel whose processors are the cores, which counts instead of all that, and of the host.
    pub kernel: Option<Kernel>,
}

impl Work {
    /// Sets the time from the decision until the core has the packet.
    #[must_use]
    pub fn with_hand_over(self, hand_over: Time) -> Self {
        Self { hand_over, ..self }
    }

    /// Sets what was measured of each packet.
    #[must_use]
    pub fn with_measured(self, measured: impl Into<Option<MeasuredWork>>) -> Self {
        Self { measured: measured.into(), ..self }
    }

    /// Sets how cores and dispatcher are interrupted meanwhile.
    #[must_use]
    pub fn with_interrupted(self, interrupted: impl Into<Option<Interrupted>>) -> Self {
        Self { interrupted: interrupted.into(), ..self }
    }

    /// Sets the host around the cores, which counts instead of all that.
    #[must_use]
    pub fn with_host(self, host: impl Into<Option<Host>>) -> Self {
        Self { host: host.into().map(Box::new), ..self }
    }

    /// Sets the kernel whose processors are the cores. Policies do not change on the way there, and no
    /// link follows.
    #[must_use]
    pub fn with_kernel(self, kernel: impl Into<Option<Kernel>>) -> Self {
        Self { kernel: kernel.into(), ..self }
    }
}

/// What was measured of a packet at one hop of its chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// How long it was, from when it was there and its core was idle, until the core began with it.
    pub wait: Time,
    /// How long the core was busy with it.
    pub busy: Time,
}

/// What was measured of the packets of a run, by their number among the accepted ones.
#[derive(Clone, Debug, Default)]
pub struct MeasuredWork {
    /// By hop, then by packet.
    hops: Vec<Vec<Option<Taken>>>,
    /// When each core is done with all that it was given.
    free: IdVec<CoreId, Time>,
}

impl MeasuredWork {
    /// Nothing measured yet, of so many cores.
    pub fn new(cores: usize) -> Self {
        Self { hops: Vec::new(), free: IdVec::from_fn(cores, |_| Time::ZERO) }
    }

    /// Adds what was measured of a packet at a hop.
    pub fn add(&mut self, hop: u8, sequence: u64, taken: Taken) {
        let (hop, at) = (usize::from(hop), sequence as usize);
        if self.hops.len() <= hop {
            self.hops.resize_with(hop + 1, Vec::new);
        }
        let packets = &mut self.hops[hop];
        if packets.len() <= at {
            packets.resize(at + 1, None);
        }
        packets[at] = Some(taken);
    }

    fn taken(&self, hop: u8, sequence: u64) -> Option<Taken> {
        *self.hops.get(usize::from(hop))?.get(sequence as usize)?
    }

    fn serve(&mut self, now: Time, core: CoreId, taken: Taken) -> Span {
        let finished = now.max(self.free[core]) + taken.wait + taken.busy;
        self.free[core] = finished;
        Span { finished, busy: taken.busy }
    }
}

impl Work {
    /// Whether packets take what the cost model says, and nothing interrupts them.
    pub(crate) fn is_modelled(&self) -> bool {
        self.measured.is_none() && self.interrupted.is_none() && self.host.is_none() && self.kernel.is_none()
    }

    /// Gives a core a packet: what was measured of it counts, else the model.
    #[inline(never)]
    pub(crate) fn serve(
        &mut self,
        costs: &mut CostModel,
        now: Time,
        core: CoreId,
        dispatch: &Dispatch<&Packet>,
    ) -> Span {
        if let Some(measured) = &mut self.measured
            && let Some(taken) = measured.taken(dispatch.packet.hop, dispatch.packet.sequence)
        {
            return measured.serve(now, core, taken);
        }
        let Some(interrupted) = &mut self.interrupted else {
            return costs.serve(now + self.hand_over, core, dispatch);
        };
        let begin = interrupted.begin(now, core, self.hand_over);
        interrupted.serve(begin, core, costs.serve(begin, core, dispatch))
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::id::Id;

    use super::*;

    #[test]
    fn packets_take_what_was_measured_one_after_the_other() {
        let ns = Time::from_ns;
        let mut measured = MeasuredWork::new(2);
        measured.add(0, 3, Taken { wait: ns(5), busy: ns(100) });
        measured.add(1, 3, Taken { wait: ns(0), busy: ns(7) });
        let (first, second) = (measured.taken(0, 3).unwrap(), measured.taken(1, 3).unwrap());
        let core = CoreId::from_index(1);
        assert_eq!(measured.serve(ns(10), core, first), Span { finished: ns(115), busy: ns(100) });
        assert_eq!(measured.serve(ns(20), core, second), Span { finished: ns(122), busy: ns(7) });
        assert_eq!((measured.taken(0, 2), measured.taken(2, 3)), (None, None));
    }
}
