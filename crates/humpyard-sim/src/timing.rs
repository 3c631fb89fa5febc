//! When a core gets a packet and when it is done with it, beyond the cost model: hand-over, measured
//! times, interruptions, host, kernel.

use humpyard_core::cost::{CostModel, Span};
use humpyard_core::id::{CoreId, IdVec};
use humpyard_core::mechanism::Dispatch;
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use crate::host::Host;
use crate::interruptions::Interrupted;
use crate::kernel::Kernel;
use crate::part::Part;

/// How packets get to cores, and how long they take there. By default they get there at once and
/// take the time of the cost model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Timing {
    /// From the decision until the core has the packet, if it is idle.
    pub hand_over: Time,
    /// The measured times of each packet, which replace the cost model.
    pub measured: Option<MeasuredTimes>,
    /// How cores and dispatcher are interrupted meanwhile, unless times were measured: then that is in them.
    pub interrupted: Option<Interrupted>,
    /// How long a core is held when it gives a packet back after its quantum.
    pub switch_out: Time,
    /// The host around the cores, which replaces the fields above. `None`: decisions take no time.
    pub host: Option<Box<Host>>,
    /// The kernel whose processors are the cores, which replaces all fields above, including the
    /// host.
    pub kernel: Option<Kernel>,
    /// The packets that the dispatcher of the host gets, if it is one of several. `None`: all.
    pub part: Option<Part>,
}

impl Timing {
    /// Sets the time from the decision until the core has the packet.
    #[must_use]
    pub fn with_hand_over(self, hand_over: Time) -> Self {
        Self { hand_over, ..self }
    }

    /// Sets how long a core is held when it gives a packet back after its quantum: timer, and saving of its state.
    #[must_use]
    pub fn with_switch_out(self, switch_out: Time) -> Self {
        Self { switch_out, ..self }
    }

    /// Sets the measured times of each packet.
    #[must_use]
    pub fn with_measured(self, measured: impl Into<Option<MeasuredTimes>>) -> Self {
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

    /// Sets the packets that the dispatcher of the host gets, one of several. Needs a host.
    #[must_use]
    pub fn with_part(self, part: impl Into<Option<Part>>) -> Self {
        Self { part: part.into(), ..self }
    }

    /// Sets the kernel whose processors are the cores. There is no takeover and no link with a
    /// kernel.
    #[must_use]
    pub fn with_kernel(self, kernel: impl Into<Option<Kernel>>) -> Self {
        Self { kernel: kernel.into(), ..self }
    }
}

/// The measured times of a packet at one hop of its chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketTimes {
    /// Time from when the packet was there and its core idle, until the core began with it.
    pub wait: Time,
    /// How long the core was busy with it.
    pub busy: Time,
}

/// The measured times of the packets of a run, by their number among the accepted packets.
#[derive(Clone, Debug, Default)]
pub struct MeasuredTimes {
    /// By hop, then by packet.
    hops: Vec<Vec<Option<PacketTimes>>>,
    /// When each core has finished all its packets.
    free: IdVec<CoreId, Time>,
}

impl MeasuredTimes {
    /// Returns an empty set of measurements for `cores` cores.
    pub fn new(cores: usize) -> Self {
        Self { hops: Vec::new(), free: IdVec::from_fn(cores, |_| Time::ZERO) }
    }

    /// Adds the measured times of a packet at a hop.
    pub fn add(&mut self, hop: u8, sequence: u64, taken: PacketTimes) {
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

    fn taken(&self, hop: u8, sequence: u64) -> Option<PacketTimes> {
        *self.hops.get(usize::from(hop))?.get(sequence as usize)?
    }

    fn serve(&mut self, now: Time, core: CoreId, taken: PacketTimes) -> Span {
        let finished = now.max(self.free[core]) + taken.wait + taken.busy;
        self.free[core] = finished;
        Span { finished, busy: taken.busy }
    }
}

impl Timing {
    /// Whether packets take the time of the cost model without interruptions.
    pub(crate) fn is_modelled(&self) -> bool {
        self.measured.is_none() && self.interrupted.is_none() && self.host.is_none() && self.kernel.is_none()
    }

    /// Gives a packet to a core. Its measured times count if there are any, else the model.
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
        let mut measured = MeasuredTimes::new(2);
        measured.add(0, 3, PacketTimes { wait: ns(5), busy: ns(100) });
        measured.add(1, 3, PacketTimes { wait: ns(0), busy: ns(7) });
        let (first, second) = (measured.taken(0, 3).unwrap(), measured.taken(1, 3).unwrap());
        let core = CoreId::from_index(1);
        assert_eq!(measured.serve(ns(10), core, first), Span { finished: ns(115), busy: ns(100) });
        assert_eq!(measured.serve(ns(20), core, second), Span { finished: ns(122), busy: ns(7) });
        assert_eq!((measured.taken(0, 2), measured.taken(2, 3)), (None, None));
    }
}
