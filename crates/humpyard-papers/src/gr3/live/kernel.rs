//! Threads that only the kernel dispatches: each has a nice value, and works whenever it can.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{PoisonError, RwLock, mpsc};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use humpyard_core::id::{ClientId, Id};
use humpyard_core::unit::Weight;
use humpyard_runtime::panic::{catch, keep_quiet};
use rustix::process::{getpriority_process, setpriority_process};

use super::processors::Processors;
use super::turns::{STACK_BYTES, Task, Turn, Untaken};
use crate::harness::thread_time;
use humpyard_lab::LabError;

/// The kernel's weights of the nice values from 0 on (`sched_prio_to_weight`).
pub(super) const KERNEL_WEIGHTS: [u32; 20] =
    [1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15];
/// The greatest nice value.
const NICE_MAX: i32 = 19;

/// Returns the nice value whose weight relative to that of 0 is nearest to `weight` relative to `heaviest`.
pub(super) fn nice(weight: u32, heaviest: u32) -> usize {
    let wanted = f64::from(weight) / f64::from(heaviest);
    let off = |nice: usize| (f64::from(KERNEL_WEIGHTS[nice]) / f64::from(KERNEL_WEIGHTS[0]) / wanted).ln().abs();
    let nices = 0..KERNEL_WEIGHTS.len();
    nices.min_by(|&a, &b| off(a).total_cmp(&off(b))).expect("there are some")
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct Alone<T> {
    /// The tasks after the run, in the order of their numbers.
    pub(super) tasks: Vec<T>,
    /// The processor time of each thread.
    pub(super) times: Vec<Duration>,
    /// Units of work, in the order in which they were done.
    pub(super) noted: Vec<Turn>,
    /// Time from the first unit of work to the end of the last.
    pub(super) took: Duration,
    /// Whether the threads were pinned to the processors.
    pub(super) is_pinned: bool,
}

/// A thread's result.
struct Lived<T> {
    task: T,
    time: Duration,
    /// The number of each unit of work among those of all threads, and its completion time.
    units: Vec<(u64, Instant)>,
}

/// The state that all threads share.
struct Shared<'p> {
    processors: &'p Processors,
    /// Locked until all threads have started.
    gate: RwLock<()>,
    is_over: AtomicBool,
    is_pinned: AtomicBool,
    units: AtomicU64,
}

/// Lets threads run turns of their tasks for this time, each with the nice value for its weight.
///
/// # Errors
/// If a nice value cannot be set, or a thread cannot be started, or panics.
pub(super) fn alone<T: Task>(
    tasks: Vec<T>,
    weights: &[Weight],
    processors: &Processors,
    time: Duration,
) -> Result<Alone<T>, Untaken> {
    keep_quiet();
    let nices = nices(weights).map_err(Untaken::Threads)?;
    let shared = Shared {
        processors,
        gate: RwLock::new(()),
        is_over: AtomicBool::new(false),
        is_pinned: AtomicBool::new(true),
        units: AtomicU64::new(0),
    };
    let (begun, took, lived) = thread::scope(|scope| {
        let closed = shared.gate.write().unwrap_or_else(PoisonError::into_inner);
        let (sender, told) = mpsc::channel();
        let mut threads = Vec::with_capacity(tasks.len());
        let mut all_there = Ok(());
        for (task, nice) in tasks.into_iter().zip(nices) {
            let (shared, sender) = (&shared, sender.clone());
            let live = move || {
                // The receiver is gone if another thread could not start.
                let _ = sender.send(shared.prepare(nice));
                let lived = catch(|| shared.live(task)).and_then(|lived| lived);
                lived.inspect_err(|_| drop(sender.send(Ok(()))))
            };
            match thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, live) {
                Ok(thread) => threads.push(thread),
                Err(error) => all_there = Err(format!("thread {} cannot be started: {error}", threads.len() + 1)),
            }
            if all_there.is_err() {
                break;
            }
        }
        let all_there = all_there.and_then(|()| told.iter().take(threads.len()).collect::<Result<(), String>>());
        shared.is_over.store(all_there.is_err(), Ordering::Relaxed);
        let begun = Instant::now();
        drop(closed);
        if all_there.is_ok() {
            // A message now means that a thread failed, and ends the run early.
            let _ = told.recv_timeout(time);
        }
        shared.is_over.store(true, Ordering::Relaxed);
        let took = begun.elapsed();
        let join = |thread: ScopedJoinHandle<'_, Result<Lived<T>, String>>| {
            thread.join().unwrap_or_else(|_| Err("a thread is gone".to_owned()))
        };
        let lived: Result<Vec<Lived<T>>, String> = threads.into_iter().map(join).collect();
        all_there.map_err(Untaken::Threads)?;
        let failed = |why| LabError::option(format!("threads under the kernel: one cannot go on: {why}"));
        Ok::<_, Untaken>((begun, took, lived.map_err(failed)?))
    })?;
    Ok(together(lived, begun, took, shared.is_pinned.into_inner()))
}

/// Returns the nice value for each weight; the heaviest has that of this program.
fn nices(weights: &[Weight]) -> Result<Vec<i32>, String> {
    let heaviest = weights.iter().map(|weight| weight.get()).max().unwrap_or(1);
    let base = getpriority_process(None).map_err(|error| format!("the system tells no nice value: {error}"))?;
    let nices: Vec<i32> = weights.iter().map(|weight| base + nice(weight.get(), heaviest) as i32).collect();
    match nices.iter().max() {
        Some(&nicest) if nicest > NICE_MAX => Err(format!(
            "nice values would go to {nicest}, as that of this program is {base}, and {NICE_MAX} is the last"
        )),
        _ => Ok(nices),
    }
}

/// Joins the results of the threads.
fn together<T>(lived: Vec<Lived<T>>, begun: Instant, took: Duration, is_pinned: bool) -> Alone<T> {
    let units = lived.iter().map(|lived| lived.units.len()).sum();
    let mut noted = vec![Turn { client: ClientId(0), at: Duration::ZERO }; units];
    for (at, thread) in lived.iter().enumerate() {
        for &(number, done) in &thread.units {
            noted[number as usize] =
                Turn { client: ClientId::from_index(at), at: done.saturating_duration_since(begun) };
        }
    }
    let times = lived.iter().map(|lived| lived.time).collect();
    Alone { tasks: lived.into_iter().map(|lived| lived.task).collect(), times, noted, took, is_pinned }
}

impl Shared<'_> {
    /// Before the gate: pins the thread, and sets its nice value.
    fn prepare(&self, nice: i32) -> Result<(), String> {
        if !self.processors.take_place() {
            self.is_pinned.store(false, Ordering::Relaxed);
        }
        setpriority_process(None, nice)
            .and_then(|()| getpriority_process(None))
            .map_err(|error| format!("nice value {nice} cannot be set: {error}"))
            .and_then(|set| if set == nice { Ok(()) } else { Err(format!("nice value {nice} was set, and is {set}")) })
    }

    /// Behind the gate: works until the time is over.
    fn live<T: Task>(&self, mut task: T) -> Result<Lived<T>, String> {
        drop(self.gate.read().unwrap_or_else(PoisonError::into_inner));
        let begun = thread_time().map_err(|error| error.to_string())?;
        let mut units = Vec::new();
        while !self.is_over.load(Ordering::Relaxed) {
            task.turn();
            units.push((self.units.fetch_add(1, Ordering::Relaxed), Instant::now()));
        }
        let time = thread_time().map_err(|error| error.to_string())?.saturating_sub(begun);
        Ok(Lived { task, time, units })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::costs::machine::Next;
    use super::*;

    #[test]
    fn nice_values_are_the_nearest() {
        assert_eq!([10, 9, 5, 2, 1].map(|weight| nice(weight, 10)), [0, 0, 3, 7, 10]);
        assert_eq!([5, 4, 3, 2, 1].map(|weight| nice(weight, 5)), [0, 1, 2, 4, 7]);
        assert_eq!([nice(7, 7), nice(1, 1000)], [0, 19]);
    }

    /// Counts its turns, and may panic at one.
    struct Counting {
        turns: u64,
        most: u64,
    }

    impl Task for Counting {
        fn turn(&mut self) -> (Next, Option<ClientId>) {
            self.turns += 1;
            assert!(self.turns < self.most, "this panic is part of a test");
            (Next::Ready, None)
        }
    }

    /// Runs four threads, of which the first panics at this turn.
    fn run(time: Duration, most: u64) -> Result<Alone<Counting>, Untaken> {
        let weights = [10, 1, 1, 1].map(|weight| Weight::new(weight).unwrap());
        let counting = |most| Counting { turns: 0, most };
        let tasks = vec![counting(most), counting(u64::MAX), counting(u64::MAX), counting(u64::MAX)];
        alone(tasks, &weights, &Processors::first(1), time)
    }

    /// If nice values cannot be set, the run reports it.
    #[test]
    fn every_unit_of_work_is_noted_once() {
        let time = Duration::from_millis(20);
        let found = match run(time, u64::MAX) {
            Ok(found) => found,
            Err(Untaken::Threads(why)) => return assert!(why.contains("nice"), "{why}"),
            Err(Untaken::Error(error)) => panic!("{error}"),
        };
        assert!(found.took >= time && found.times.len() == 4);
        assert_eq!(found.tasks.iter().map(|task| task.turns).sum::<u64>(), found.noted.len() as u64);
        for (at, task) in found.tasks.iter().enumerate() {
            let noted = found.noted.iter().filter(|turn| turn.client.index() == at).count() as u64;
            assert_eq!(noted, task.turns);
        }
    }

    #[test]
    fn who_panics_ends_the_run_before_its_time() {
        let begun = Instant::now();
        match run(Duration::from_secs(600), 100).err().unwrap() {
            Untaken::Error(error) => {
                let said = error.to_string();
                assert!(
                    said.starts_with("threads under the kernel: one cannot go on: this panic is part of"),
                    "{said}"
                );
            }
            Untaken::Threads(why) => assert!(why.contains("nice"), "{why}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(300));
    }

    #[test]
    fn numbers_put_units_in_order() {
        let begun = Instant::now();
        let at = |ns| begun + Duration::from_nanos(ns);
        let thread = |units: &[(u64, Instant)]| Lived { task: (), time: Duration::ZERO, units: units.to_vec() };
        let lived = vec![thread(&[(0, at(5)), (3, at(9))]), thread(&[(1, at(6)), (2, at(7))])];
        let noted = together(lived, begun, Duration::ZERO, true).noted;
        let seen: Vec<(u32, u128)> = noted.iter().map(|turn| (turn.client.0, turn.at.as_nanos())).collect();
        assert_eq!(seen, [(0, 5), (1, 6), (1, 7), (0, 9)]);
    }
}
