//! Which thread sits on which processor.

use core::fmt;

use humpyard_topology::processors;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A thread of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Thread {
    /// Reads, steers, writes.
    Dispatcher,
    /// Dispatcher with this number, one of several, which steers the packets that a reader gives
    /// it.
    OneDispatcher(usize),
    /// Does the work of this core.
    Worker(usize),
    /// Reads for several dispatchers.
    Reader,
    /// Writes for several dispatchers.
    Writer,
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dispatcher => f.write_str("dispatcher"),
            Self::OneDispatcher(dispatcher) => write!(f, "dispatcher {dispatcher}"),
            Self::Worker(worker) => write!(f, "worker {worker}"),
            Self::Reader => f.write_str("reader"),
            Self::Writer => f.write_str("writer"),
        }
    }
}

/// The seat of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    /// The thread.
    pub thread: Thread,
    /// The processor that the thread is pinned to. `None`: the system does not list its processors.
    pub processor: Option<usize>,
    /// Whether another thread of the run sits there too, so that waiting must give the processor
    /// away.
    pub shared: bool,
}

/// Returns seats for the dispatcher and its workers. Workers are spread over the processors from
/// the second on; the dispatcher has the first. With more threads than processors, the dispatcher
/// is the first to share. Without workers it is not pinned.
pub fn seats(workers: usize) -> Vec<Seat> {
    if workers == 0 {
        // A single thread has no other thread to avoid, and the system knows which processor is
        // idle.
        return vec![Seat { thread: Thread::Dispatcher, processor: None, shared: false }];
    }
    let threads = core::iter::once(Thread::Dispatcher).chain((0..workers).map(Thread::Worker));
    assign(threads.collect(), &processors())
}

/// The seats of the threads of a run with several dispatchers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// The seats by dispatcher: its own first, then those of its workers.
    pub dispatchers: Vec<Vec<Seat>>,
    /// The reader's seat, if there is a reader.
    pub reader: Option<Seat>,
    /// The writer's seat, if there is a writer.
    pub writer: Option<Seat>,
}

/// Returns seats for several dispatchers, each with its number of workers. The order is: all
/// dispatchers, the workers of each dispatcher in turn, the reader, and the writer if there is one.
/// After the last processor it continues with the first.
pub fn places(workers: &[usize], writes: bool) -> Places {
    places_on(workers, writes, &processors())
}

/// As [`places`], on these processors.
pub fn places_on(workers: &[usize], writes: bool, processors: &[usize]) -> Places {
    let all: usize = workers.iter().sum();
    let threads = (0..workers.len()).map(Thread::OneDispatcher).chain((0..all).map(Thread::Worker));
    let threads = threads.chain([Thread::Reader]).chain(writes.then_some(Thread::Writer));
    let mut seats = assign(threads.collect(), processors).into_iter();
    let mut dispatchers: Vec<Vec<Seat>> = seats.by_ref().take(workers.len()).map(|seat| vec![seat]).collect();
    for (dispatcher, &workers) in dispatchers.iter_mut().zip(workers) {
        dispatcher.extend(seats.by_ref().take(workers));
    }
    let reader = seats.next();
    Places { dispatchers, reader, writer: seats.next() }
}

/// Returns seats for workers without a dispatcher, each with its own ports.
pub fn places_of_workers(workers: usize) -> Places {
    let seats = assign((0..workers).map(Thread::Worker).collect(), &processors());
    Places { dispatchers: seats.into_iter().map(|seat| vec![seat]).collect(), reader: None, writer: None }
}

impl Places {
    /// Whether these are the places of dispatchers with these numbers of workers.
    pub(crate) fn fit(&self, workers: &[usize]) -> bool {
        self.dispatchers.iter().map(|seats| seats.len() - 1).eq(workers.iter().copied())
    }

    /// All seats.
    pub fn all(&self) -> impl Iterator<Item = Seat> + '_ {
        self.dispatchers.iter().flatten().copied().chain(self.reader).chain(self.writer)
    }
}

/// Returns the same seats with one thread for each named processor, as a run with one dispatcher
/// has them. The dispatcher works for the cores on its own processor, and one worker for all cores
/// on another.
pub(crate) fn merged(seats: &[Seat]) -> Vec<Seat> {
    seats.iter().map(|seat| Seat { shared: seat.shared && seat.processor.is_none(), ..*seat }).collect()
}

fn assign(threads: Vec<Thread>, processors: &[usize]) -> Vec<Seat> {
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
    /// Pins the calling thread to this seat while the returned guard lives. If that is not allowed,
    /// the thread runs anywhere.
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

    /// The threads of one dispatcher.
    fn alone(workers: usize) -> Vec<Thread> {
        core::iter::once(Thread::Dispatcher).chain((0..workers).map(Thread::Worker)).collect()
    }

    #[test]
    fn several_dispatchers_sit_apart_and_their_workers_follow() {
        let places = places_on(&[2, 1], true, &[0, 1, 2, 3, 4, 5]);
        let seats = |at: usize| places.dispatchers[at].iter().map(|seat| (seat.thread, seat.processor.unwrap()));
        let worker = Thread::Worker;
        assert!(seats(0).eq([(Thread::OneDispatcher(0), 0), (worker(0), 2), (worker(1), 3)]));
        assert!(seats(1).eq([(Thread::OneDispatcher(1), 1), (worker(2), 4)]));
        assert_eq!((places.reader.unwrap().processor, places.writer.unwrap().processor), (Some(5), Some(0)));
        assert!(places.fit(&[2, 1]) && !places.fit(&[1, 2]) && !places.fit(&[3]));
        let shared: Vec<Thread> = places.all().filter(|seat| seat.shared).map(|seat| seat.thread).collect();
        assert_eq!(shared, [Thread::OneDispatcher(0), Thread::Writer]);
        assert_eq!(places_on(&[2, 1], false, &[0]).all().count(), 6);
    }

    #[test]
    fn each_thread_alone_while_processors_last() {
        let seats = assign(alone(3), &[4, 5, 6, 7]);
        assert_eq!(seats.iter().map(|seat| seat.processor).collect::<Vec<_>>(), [Some(4), Some(5), Some(6), Some(7)]);
        assert!(seats.iter().all(|seat| !seat.shared));
    }

    #[test]
    fn the_dispatcher_shares_first() {
        let seats = assign(alone(2), &[0, 1]);
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
        assert!(assign(alone(1), &[]).iter().all(|seat| seat.processor.is_none() && seat.shared));
    }
}
