//! Which thread sits on which processor.

use core::fmt;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A thread of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thread {
    /// Reads, steers, writes.
    Dispatcher,
    /// Does the work of this core.
    Worker(usize),
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dispatcher => f.write_str("dispatcher"),
            Self::Worker(worker) => write!(f, "worker {worker}"),
        }
    }
}

/// Where a thread sits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    /// The thread.
    pub thread: Thread,
    /// The processor it is pinned to; none if the system does not say which there are.
    pub processor: Option<usize>,
    /// Whether another thread of the run sits there too, so that waiting must give the processor away.
    pub shared: bool,
}

/// Seats for the dispatcher and so many workers: workers spread over the processors from the second on, the dispatcher on
/// the first, so that with more threads than processors the dispatcher shares first.
pub fn seats(workers: usize) -> Vec<Seat> {
    assign(workers, &processors())
}

/// The processors that the calling thread may run on, in order; none if the system does not say.
pub fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(THIS_THREAD).ok();
    let may_use = |&processor: &usize| allowed.is_some_and(|set| set.is_set(processor).unwrap_or(false));
    (0..CpuSet::count()).filter(may_use).collect()
}

fn assign(workers: usize, processors: &[usize]) -> Vec<Seat> {
    let threads: Vec<Thread> = core::iter::once(Thread::Dispatcher).chain((0..workers).map(Thread::Worker)).collect();
    let place = |index: usize| (!processors.is_empty()).then(|| processors[index % processors.len()]);
    let sharers = |index: usize| (0..threads.len()).filter(|&other| place(other) == place(index)).count();
    threads
        .iter()
        .enumerate()
        .map(|(index, &thread)| Seat { thread, processor: place(index), shared: sharers(index) > 1 })
        .collect()
}

/// Undoes a thread's pinning when dropped.
#[derive(Debug)]
pub struct Seated {
    before: Option<CpuSet>,
}

impl Seat {
    /// Pins the calling thread to this seat for as long as the answer lives. Where that is not allowed the thread runs
    /// anywhere.
    pub fn take(&self) -> Seated {
        let before = sched_getaffinity(THIS_THREAD).ok();
        let mut seat = CpuSet::new();
        let pinned = self
            .processor
            .is_some_and(|processor| seat.set(processor).and_then(|()| sched_setaffinity(THIS_THREAD, &seat)).is_ok());
        Seated { before: before.filter(|_| pinned) }
    }
}

impl Seated {
    /// Lets the thread run again wherever it might before.
    pub fn leave(&mut self) {
        if let Some(before) = self.before.take() {
            // A set that was allowed before still is.
            let _ = sched_setaffinity(THIS_THREAD, &before);
        }
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        self.leave();
    }
}

const THIS_THREAD: Pid = Pid::from_raw(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_alone_while_processors_last() {
        let seats = assign(3, &[4, 5, 6, 7]);
        assert_eq!(seats.iter().map(|seat| seat.processor).collect::<Vec<_>>(), [Some(4), Some(5), Some(6), Some(7)]);
        assert!(seats.iter().all(|seat| !seat.shared));
    }

    #[test]
    fn the_dispatcher_shares_first() {
        let seats = assign(2, &[0, 1]);
        assert_eq!(seats[2], Seat { thread: Thread::Worker(1), processor: Some(0), shared: true });
        assert!(seats[0].shared && !seats[1].shared);
    }

    #[test]
    fn a_seat_is_given_back() {
        let before = seats(1);
        drop(before[0].take());
        assert_eq!(seats(1), before);
    }

    #[test]
    fn unknown_processors_count_as_shared() {
        assert!(assign(1, &[]).iter().all(|seat| seat.processor.is_none() && seat.shared));
    }
}
