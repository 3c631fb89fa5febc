//! Threads that take turns. Each waits until a sharing policy gives it a processor, does a piece of work, and
//! hands the processor back. A thread that hands back asks the policy, through the scheduler, for the next one,
//! and wakes it. There is no other dispatcher, so a turn costs one context switch.
//!
//! For the policy, a turn is a packet of one unit of work, and it gets the same calls as in the simulator.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Scope, Thread};
use std::time::Instant;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, Id, Slot};
use humpyard_core::measure::Histogram;
use humpyard_core::mechanism::{Arrival, Never, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Weight};
use humpyard_policies::registry::AnyShare;
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::panic::{catch, keep_quiet};

use super::super::costs::machine::Next;
use super::processors::Processors;
use humpyard_lab::LabError;

/// Why no turns were taken.
#[derive(Debug)]
pub(super) enum Untaken {
    /// This machine cannot run this number of threads; the text says why.
    Threads(String),
    /// Another error of the experiment.
    Error(LabError),
}

impl<E: Into<LabError>> From<E> for Untaken {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Stack size that suffices for these threads, so that there is room for thousands.
pub(super) const STACK_BYTES: usize = 128 << 10;
/// Most processors to share.
const PROCESSORS_MAX: usize = 2;

/// The work of a thread.
pub(super) trait Task: Send {
    /// Runs a turn. Returns the next state, and the thread that it wakes, which must be blocked. A thread is
    /// woken only once.
    fn turn(&mut self) -> (Next, Option<ClientId>);
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns<'a> {
    /// A sharing policy.
    pub(super) policy: &'a str,
    /// The weight of each thread.
    pub(super) weights: &'a [Weight],
    /// The processors of the threads: one thread at a time on each.
    pub(super) processors: &'a Processors,
    /// Number of turns. `None`: as many as the threads want.
    pub(super) limit: Option<u64>,
    /// Whether threads always want a turn. As in the simulator, each then asks for one more than it has.
    pub(super) always_ready: bool,
    /// Whether to record the thread of each turn.
    pub(super) is_noted: bool,
    /// Seed of the random policies.
    pub(super) seed: Seed,
    /// Stack of each thread, in bytes.
    pub(super) stack_bytes: usize,
}

/// A turn that was handed back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    /// The thread.
    pub(super) client: ClientId,
    /// The time since the first turn was given.
    pub(super) at: Duration,
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct Taken<T> {
    /// The tasks after the run, in the order of their numbers.
    pub(super) tasks: Vec<T>,
    /// Turns given.
    pub(super) given: u64,
    /// Turns handed back.
    pub(super) handed_back: u64,
    /// The turns, in the order in which they were handed back; empty unless recorded.
    pub(super) noted: Vec<Turn>,
    /// Time to report the end of each turn to the policy and to ask for the next, in ns.
    pub(super) select: Histogram,
    /// Time from the first turn to the end of the last.
    pub(super) took: Duration,
    /// Whether the threads were pinned to the processors.
    pub(super) is_pinned: bool,
}

impl<T> Taken<T> {
    /// Converts the tasks.
    pub(super) fn map<U>(self, of: impl FnMut(T) -> U) -> Taken<U> {
        let Self { tasks, given, handed_back, noted, select, took, is_pinned } = self;
        Taken { tasks: tasks.into_iter().map(of).collect(), given, handed_back, noted, select, took, is_pinned }
    }
}

impl Turns<'_> {
    /// Starts a thread for each task, and lets them take turns up to the limit, or until no thread wants
    /// another.
    ///
    /// # Errors
    /// If a thread cannot be started, or panics; if the policy rejects the configuration; if all threads wait
    /// for each other.
    pub(super) fn take<T: Task>(&self, tasks: Vec<T>) -> Result<Taken<T>, Untaken> {
        keep_quiet();
        let count = tasks.len();
        let stage = Stage::new(self, count)?;
        let mut not_started = None;
        let tasks: Vec<Option<T>> = thread::scope(|scope| {
            let mut threads = Vec::with_capacity(count);
            for (at, task) in tasks.into_iter().enumerate() {
                match stage.start(scope, ClientId::from_index(at), self.stack_bytes, task) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        not_started = Some(format!("thread {} of {count} cannot be started: {error}", at + 1));
                        break;
                    }
                }
            }
            if not_started.is_none() {
                stage.begin();
            } else {
                stage.end();
            }
            threads.into_iter().map(|thread| thread.join().ok().flatten()).collect()
        });
        if let Some(why) = not_started {
            return Err(Untaken::Threads(why));
        }
        let is_pinned = stage.is_pinned.load(Ordering::Relaxed);
        let state = stage.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = state.failure {
            return Err(LabError::option(format!("threads under {}: {failure}", self.policy)).into());
        }
        let State { given, handed_back, noted, select, took, .. } = state;
        Ok(Taken { tasks: tasks.into_iter().flatten().collect(), given, handed_back, noted, select, took, is_pinned })
    }
}

/// A thread's place to wait for its turns.
#[derive(Debug, Default)]
struct Seat {
    /// The processor of its turn, from 1; 0: none.
    called: AtomicUsize,
    thread: OnceLock<Thread>,
}

impl Seat {
    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// The thread that each free processor is given to now.
type Calls = [Option<ClientId>; PROCESSORS_MAX];

/// The state that all threads share.
struct Stage<'a> {
    seats: Vec<Seat>,
    processors: &'a Processors,
    state: Mutex<State>,
    /// No more turns: all threads end.
    is_over: AtomicBool,
    is_pinned: AtomicBool,
}

/// The state under the lock.
struct State {
    scheduler: Scheduler<Never, AnyShare, Never>,
    always_ready: bool,
    is_noted: bool,
    /// The time, which advances by 1 ns per turn.
    now: Time,
    /// The current turn of each processor.
    running: Vec<Option<Slot>>,
    /// Threads that have not ended.
    there: usize,
    /// Turns left to give.
    left: u64,
    given: u64,
    handed_back: u64,
    noted: Vec<Turn>,
    select: Histogram,
    begun: Instant,
    took: Duration,
    failure: Option<String>,
}

impl State {
    /// Queues a turn for this thread.
    fn arrive(&mut self, client: ClientId) {
        let packet = Packet { client, length: 1, ..Packet::default() };
        let arrival = self.scheduler.on_arrival(self.now, &packet);
        assert!(matches!(arrival, Arrival::Queued(_)), "there is room for what every thread may want");
    }

    /// Ends the turn of this thread on this processor.
    fn hand_back(&mut self, core: usize, client: ClientId, (next, woken): (Next, Option<ClientId>)) {
        self.now += Time::from_ns(1);
        self.handed_back += 1;
        let slot = self.running[core].take().expect("who hands back has a turn");
        if next == Next::Ready {
            self.arrive(client);
        }
        self.scheduler.on_completion(self.now, slot, Time::ZERO);
        if next == Next::Ended {
            self.scheduler.on_client_end(self.now, client);
            self.there -= 1;
        }
        if let Some(woken) = woken {
            self.arrive(woken);
        }
        if self.is_noted {
            self.noted.push(Turn { client, at: self.begun.elapsed() });
        }
    }

    /// Gives turns to free processors.
    fn give(&mut self) -> Calls {
        let mut calls = Calls::default();
        for (core, (running, call)) in self.running.iter_mut().zip(&mut calls).enumerate() {
            if running.is_some() || self.left == 0 {
                continue;
            }
            let Some(dispatch) = self.scheduler.next(self.now, CoreId::from_index(core)) else { continue };
            *running = Some(dispatch.slot);
            *call = Some(dispatch.packet.client);
            self.left -= 1;
            self.given += 1;
        }
        calls
    }

    /// Returns whether no processor has a turn, and none will get one.
    fn is_over(&mut self) -> bool {
        if self.running.iter().any(Option::is_some) {
            return false;
        }
        self.took = self.begun.elapsed();
        if self.left > 0 && self.there > 0 {
            self.failure = Some(format!("{} of them wait, and none of them has a turn", self.there));
        }
        true
    }
}

impl<'a> Stage<'a> {
    fn new(turns: &Turns<'a>, threads: usize) -> Result<Self, LabError> {
        let cores = turns.processors.asked();
        assert!((1..=PROCESSORS_MAX).contains(&cores) && threads == turns.weights.len());
        let setup = SchedulerConfig {
            cores,
            clients: threads,
            packets: 3 * threads + cores,
            longest: 1,
            weights: turns.weights.to_vec(),
            seed: turns.seed,
            ..SchedulerConfig::default()
        };
        let policy: PolicySpec = turns.policy.parse()?;
        let scheduler = Scheduler::new(&setup, None, None, || policy.build_share(&setup))?;
        let noted = if turns.is_noted { turns.limit.unwrap_or(0) } else { 0 };
        let state = State {
            scheduler,
            always_ready: turns.always_ready,
            is_noted: turns.is_noted,
            now: Time::ZERO,
            running: vec![None; cores],
            there: threads,
            left: turns.limit.unwrap_or(u64::MAX),
            given: 0,
            handed_back: 0,
            noted: Vec::with_capacity(noted as usize),
            select: Histogram::new(),
            begun: Instant::now(),
            took: Duration::ZERO,
            failure: None,
        };
        Ok(Self {
            seats: (0..threads).map(|_| Seat::default()).collect(),
            processors: turns.processors,
            state: Mutex::new(state),
            is_over: AtomicBool::new(false),
            is_pinned: AtomicBool::new(true),
        })
    }

    /// Locks the state. A panic under the lock ends the run, so its state is not used afterwards.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread, which waits for its first turn. It returns the task at the end, unless it panics.
    fn start<'scope, T: Task + 'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        client: ClientId,
        stack_bytes: usize,
        mut task: T,
    ) -> std::io::Result<thread::ScopedJoinHandle<'scope, Option<T>>> {
        let live = move || {
            let lived = catch(|| self.live(client, &mut task));
            lived.map_err(|panic| self.fail(format!("thread {} panicked: {panic}", client.index() + 1))).ok()?;
            Some(task)
        };
        let started = thread::Builder::new().stack_size(stack_bytes).spawn_scoped(scope, live)?;
        // This thread makes the first call, so this is set before.
        let _ = self.seats[client.index()].thread.set(started.thread().clone());
        Ok(started)
    }

    /// Runs a thread.
    fn live(&self, client: ClientId, task: &mut impl Task) {
        if !self.processors.take_place() {
            self.is_pinned.store(false, Ordering::Relaxed);
        }
        let mut core = self.wait(client);
        while let Some(own) = core {
            let did = task.turn();
            let again = self.hand_back(own, client, did);
            core = match (again, did.0) {
                (_, Next::Ended) => None,
                (Some(again), _) => Some(again),
                (None, _) => self.wait(client),
            };
        }
    }

    /// Waits for a turn. Returns its processor. `None`: the run is over.
    fn wait(&self, client: ClientId) -> Option<usize> {
        let seat = &self.seats[client.index()];
        loop {
            if self.is_over.load(Ordering::Acquire) {
                return None;
            }
            if let Some(core) = seat.called.swap(0, Ordering::Acquire).checked_sub(1) {
                return Some(core);
            }
            thread::park();
        }
    }

    /// Starts the run: all threads want turns, and the first get them.
    fn begin(&self) {
        let mut state = self.state();
        for _ in 0..if state.always_ready { 2 } else { 1 } {
            (0..self.seats.len()).map(ClientId::from_index).for_each(|client| state.arrive(client));
        }
        state.begun = Instant::now();
        let calls = state.give();
        let is_over = state.is_over();
        drop(state);
        self.go_on(calls, is_over, None);
    }

    /// Ends a turn. Returns the processor of the next turn, if the same thread has it.
    fn hand_back(&self, core: usize, client: ClientId, did: (Next, Option<ClientId>)) -> Option<usize> {
        let mut state = self.state();
        if state.failure.is_some() {
            return None;
        }
        let asked = Instant::now();
        state.hand_back(core, client, did);
        let calls = state.give();
        let took = asked.elapsed();
        state.select.record(took.as_nanos() as u64);
        let is_over = state.is_over();
        drop(state);
        self.go_on(calls, is_over, Some(client))
    }

    /// Wakes the threads with a turn, or all threads at the end. Returns the processor of the calling thread's
    /// own turn.
    fn go_on(&self, calls: Calls, is_over: bool, own: Option<ClientId>) -> Option<usize> {
        if is_over {
            self.end();
            return None;
        }
        let mut again = None;
        for (core, called) in calls.into_iter().enumerate() {
            let Some(called) = called else { continue };
            if own == Some(called) {
                again = Some(core);
                continue;
            }
            let seat = &self.seats[called.index()];
            seat.called.store(core + 1, Ordering::Release);
            seat.unpark();
        }
        again
    }

    /// Ends the run with this failure.
    fn fail(&self, why: String) {
        self.state().failure.get_or_insert(why);
        self.end();
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.seats.iter().for_each(Seat::unpark);
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::policy::Ties;
    use humpyard_sim::{ScheduleRequest, schedule};

    use super::*;

    /// Counts its turns.
    #[derive(Debug)]
    struct Counting(u64);

    impl Task for Counting {
        fn turn(&mut self) -> (Next, Option<ClientId>) {
            self.0 += 1;
            (Next::Ready, None)
        }
    }

    /// Calls this function at its turn.
    struct Doing<F>(F);

    impl<F: FnMut() -> (Next, Option<ClientId>) + Send> Task for Doing<F> {
        fn turn(&mut self) -> (Next, Option<ClientId>) {
            self.0()
        }
    }

    fn weights(weights: &[u32]) -> Vec<Weight> {
        weights.iter().map(|&weight| Weight::new(weight).unwrap()).collect()
    }

    fn turns<'a>(policy: &'a str, weights: &'a [Weight], processors: &'a Processors) -> Turns<'a> {
        Turns {
            policy,
            weights,
            processors,
            limit: Some(400),
            always_ready: true,
            is_noted: true,
            seed: Seed(1),
            stack_bytes: STACK_BYTES,
        }
    }

    #[test]
    fn threads_are_served_as_the_simulator_serves_clients() {
        let weights = weights(&[10, 1, 1, 4, 3, 3, 2, 7, 1, 1]);
        let one = Processors::first(1);
        for policy in ["gr3", "wfq", "sfq", "vtrr", "srr", "wf2q+", "wrr", "strr", "qfq", "linux24", "linux-o1"] {
            let taken = turns(policy, &weights, &one).take((0..10).map(|_| Counting(0)).collect()).unwrap();
            let request = ScheduleRequest {
                policy: policy.parse().unwrap(),
                weights: weights.clone(),
                order: (0..10).map(ClientId).collect(),
                processors: 1,
                slots: 400,
                ties: Ties::Lowest,
                seed: Seed(1),
            };
            let expected: Vec<ClientId> = schedule(&request).unwrap().slots.into_iter().flatten().flatten().collect();
            assert_eq!(taken.noted.iter().map(|turn| turn.client).collect::<Vec<_>>(), expected, "{policy}");
            assert!(taken.noted.is_sorted_by_key(|turn| turn.at));
        }
    }

    #[test]
    fn every_turn_is_taken_once() {
        let weights = weights(&[3, 2, 1, 1, 1]);
        for processors in [1, 2] {
            let processors = Processors::first(processors);
            let taken = turns("gr3mp", &weights, &processors).take((0..5).map(|_| Counting(0)).collect()).unwrap();
            let count = |client| taken.noted.iter().filter(|turn| turn.client == ClientId(client)).count() as u64;
            assert_eq!((taken.given, taken.handed_back, taken.noted.len()), (400, 400, 400));
            assert!((0..5).all(|client| taken.tasks[client as usize].0 == count(client)), "{:?}", taken.tasks);
            assert_eq!(taken.select.count(), 400);
        }
    }

    #[test]
    fn who_panics_ends_the_run_and_not_the_test() {
        let weights = weights(&[1; 5]);
        for processors in [1, 2] {
            let tasks = (0..5).map(|thread| {
                let mut turns = 0;
                Doing(move || {
                    turns += 1;
                    assert!(thread != 3 || turns < 7, "this panic is part of a test");
                    (Next::Ready, None)
                })
            });
            let processors = Processors::first(processors);
            // Without a limit, because the others may have many turns before the panicking thread has seven.
            let failed = Turns { limit: None, ..turns("gr3mp", &weights, &processors) }.take(tasks.collect());
            let Err(Untaken::Error(failed)) = failed else { panic!("a thread has panicked") };
            let failed = failed.to_string();
            assert!(
                failed.starts_with("threads under gr3mp: thread 4 panicked: this panic is part of a test"),
                "{failed}"
            );
        }
    }

    #[test]
    fn threads_that_wait_for_each_other_are_an_error() {
        let (weights, one) = (weights(&[1, 1]), Processors::first(1));
        let turns = Turns { always_ready: false, limit: None, ..turns("gr3", &weights, &one) };
        let blocked = |_| Doing(|| (Next::Blocked, None));
        let Err(Untaken::Error(failed)) = turns.take((0..2).map(blocked).collect()) else { panic!("nobody can end") };
        assert_eq!(failed.to_string(), "threads under gr3: 2 of them wait, and none of them has a turn");
    }

    #[test]
    fn threads_that_cannot_be_started_are_told() {
        let (weights, one) = (weights(&[1, 1]), Processors::first(1));
        let turns = Turns { stack_bytes: 1 << 62, ..turns("gr3", &weights, &one) };
        let untaken = turns.take((0..2).map(|_| Counting(0)).collect());
        let Err(Untaken::Threads(why)) = untaken else { panic!("no machine has memory for this: {untaken:?}") };
        assert!(why.starts_with("thread 1 of 2 cannot be started: "), "{why}");
    }

    #[test]
    fn who_is_woken_has_a_turn_and_who_ends_has_none() {
        let (weights, one) = (weights(&[1, 1]), Processors::first(1));
        let turns = Turns { always_ready: false, limit: None, ..turns("gr3", &weights, &one) };
        let tasks = (0..2).map(|thread| {
            let mut turns = 0;
            Doing(move || {
                turns += 1;
                match (thread, turns) {
                    (0, 1) => (Next::Blocked, None),
                    (1, 2) => (Next::Ended, Some(ClientId(0))),
                    (0, _) => (Next::Ended, None),
                    _ => (Next::Ready, None),
                }
            })
        });
        let taken = turns.take(tasks.collect()).unwrap();
        let served: Vec<u32> = taken.noted.iter().map(|turn| turn.client.0).collect();
        assert_eq!(served, [0, 1, 1, 0]);
    }
}
