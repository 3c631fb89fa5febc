//! Turns of packets at real cores: the clock of a turn, and the work that waits with a packet until its next.

use std::sync::{Arc, Mutex, PoisonError};

use humpyard_core::id::{IdVec, Slot};
use humpyard_core::unit::Time;
use humpyard_services::Verdict;
use humpyard_services::turn::{Turn, Work};

use crate::clock::Stopwatch;

/// What every core of a run needs to give packets back after a quantum. Clones share the waiting work.
#[derive(Clone)]
pub(crate) struct Turns {
    quantum: Time,
    stopwatch: Stopwatch,
    /// A lock is never contended: a packet is at one core at a time.
    waiting: Arc<IdVec<Slot, Mutex<Option<Waiting>>>>,
}

/// The work of a packet that waits for its next turn.
struct Waiting {
    /// The packet's number. Another packet may have its slot: packets that wait may be pushed out.
    sequence: u64,
    work: Work,
}

impl Turns {
    /// Returns the turns of up to `slots` packets, which take `quantum` each by this clock, or a little longer: until
    /// the service's next yield point.
    pub(crate) fn new(quantum: Time, slots: usize, stopwatch: Stopwatch) -> Self {
        Self { quantum, stopwatch, waiting: Arc::new(IdVec::from_fn(slots, |_| Mutex::default())) }
    }

    /// Gives the packet in this slot a turn, in which a service works on it. Returns the service's verdict. `None`: the
    /// packet is not done.
    pub(crate) fn give(
        &self,
        slot: Slot,
        sequence: u64,
        work_on: impl FnOnce(&mut Turn<'_>) -> Option<Verdict>,
    ) -> Option<Verdict> {
        let end = self.stopwatch.read() + self.quantum;
        let is_over = || self.stopwatch.read() >= end;
        let waiting = || self.waiting[slot].lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = waiting().take().filter(|earlier| earlier.sequence == sequence);
        let mut turn = Turn::new(&is_over, earlier.map(|earlier| earlier.work));
        let verdict = work_on(&mut turn);
        if verdict.is_none() {
            *waiting() = turn.into_work().map(|work| Waiting { sequence, work });
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_for_its_packet_alone() {
        let turns = Turns::new(Time::ZERO, 2, Stopwatch::start());
        let give = |slot, sequence, then: Option<Verdict>| {
            let mut found = None;
            let verdict = turns.clone().give(Slot(slot), sequence, |turn| {
                assert!(turn.is_over(), "a quantum of nothing is over at once");
                found = turn.resume::<u64>().map(|work| *work);
                turn.keep(Box::new(sequence));
                then
            });
            assert_eq!(verdict, then);
            found
        };
        assert_eq!(give(0, 7, None), None);
        assert_eq!(give(1, 8, None), None);
        assert_eq!(give(0, 7, None), Some(7));
        assert_eq!(give(1, 9, None), None, "another packet has the slot");
        assert_eq!(give(0, 7, Some(Verdict::Forward)), Some(7));
        assert_eq!(give(0, 7, None), None, "nothing waits when the packet is done");
    }
}
