//! Calls for several packets at once.

use humpyard_core::id::{CoreId, Id, Slot};
use humpyard_core::mechanism::{Arrival, Dispatch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use super::{Embedded, Refusal, within};

/// Calls for bursts. A burst makes the same decisions as one call for each packet at the same time;
/// it shares the checks.
impl Embedded {
    /// Queues or drops packets in their order; `arrived` takes each answer. Reads `packets` twice: it checks all of
    /// them before the first arrives.
    ///
    /// # Errors
    /// Rejects the whole burst, without any arrival, if [`Embedded::arrive`] would reject one of
    /// the packets.
    pub fn arrive_burst(
        &mut self,
        now: Time,
        packets: impl Iterator<Item = Packet> + Clone,
        mut arrived: impl FnMut(Arrival),
    ) -> Result<(), Refusal> {
        self.guarded(|this| {
            let mut unchecked = packets.clone();
            while let Some(packet) = unchecked.next() {
                this.check_packet(&packet).map_err(|refusal| refusal.of_packet(before(&packets, &unchecked)))?;
            }
            this.advance(now)?;
            for packet in packets {
                arrived(this.admit(now, packet));
                this.settle();
            }
            Ok(())
        })
    }

    /// Takes the packets that a core serves next, at most `most`; `given` takes each. Returns their number.
    /// [`SchedulerConfig::in_flight`](crate::config::SchedulerConfig::in_flight) does not limit it.
    ///
    /// # Errors
    /// The core does not exist, or time goes back.
    pub fn next_burst(
        &mut self,
        now: Time,
        core: u16,
        most: usize,
        mut given: impl FnMut(&Dispatch),
    ) -> Result<usize, Refusal> {
        self.guarded(|this| {
            within("core", core.into(), this.switching.len())?;
            this.advance(now)?;
            for number in 0..most {
                let Some(dispatch) = this.scheduler.next(now, CoreId(core)) else { return Ok(number) };
                this.in_service[dispatch.slot.index()] = true;
                given(&dispatch);
                this.settle();
            }
            Ok(most)
        })
    }

    /// Completes packets in their order: slots, each with the time for which its core was busy. Reads `packets` up to
    /// three times: it checks all of them before it completes the first.
    ///
    /// # Errors
    /// Rejects the whole burst, without any completion, if [`Embedded::complete`] would reject one
    /// of the slots.
    pub fn complete_burst(
        &mut self,
        now: Time,
        packets: impl Iterator<Item = (u32, Time)> + Clone,
    ) -> Result<(), Refusal> {
        self.guarded(|this| {
            this.check_time(now)?;
            let mut unchecked = packets.clone();
            while let Some((slot, _)) = unchecked.next() {
                if let Err(refusal) = this.take_back(slot) {
                    let number = before(&packets, &unchecked);
                    // The packets before it stay in service.
                    packets.take(number).for_each(|(slot, _)| this.in_service[Slot(slot).index()] = true);
                    return Err(refusal.of_packet(number));
                }
            }
            this.now = now;
            for (slot, busy) in packets {
                this.finish(now, slot, busy);
                this.settle();
            }
            Ok(())
        })
    }
}

/// Returns the number of items before the one that was taken last. `remaining` are the items of `all` after it. Only a
/// refusal counts them: a counter in the loop would cost every packet an instruction.
#[cold]
fn before<I: Iterator + Clone>(all: &I, remaining: &I) -> usize {
    all.clone().count() - remaining.clone().count() - 1
}
