//! Elements of threads in virtual time: the threads of an element take turns to compute, and wait for memory at
//! the same time.

use std::collections::VecDeque;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, Id, IdVec, Slot};
use humpyard_core::measure::{Measured, Measurements};
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Scheduler, Switch};
use humpyard_core::packet::{Packet, Part};
use humpyard_core::storage::IndexedHeap;
use humpyard_core::unit::{Time, WorkUnit};
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::PolicySpec;
use humpyard_sim::{Cores, Doing, Driven, Driver, Feed, Packets};

use crate::harness::{Sees, Watched};
use humpyard_lab::LabError;

/// The cost of a part of a frame: compute time, then memory time, in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartCost {
    pub(super) compute: u64,
    pub(super) memory: u64,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<'a> {
    pub(super) policy: &'a str,
    pub(super) elements: usize,
    pub(super) threads: usize,
    /// Number of cells per frame.
    pub(super) cells: usize,
    pub(super) frames: usize,
    pub(super) cost: fn(Part, u64) -> PartCost,
    /// Compute time of a frame of one cell, in ns.
    pub(super) single_compute: u64,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(super) struct ThreadRun {
    pub(super) makespan: Time,
    /// Compute time by element.
    pub(super) computed: Vec<Time>,
    /// Number of first cells of frames by element.
    pub(super) first: Vec<u64>,
    /// Time for which the next cell waited while a thread was idle.
    pub(super) blocked: Time,
}

/// The state of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It computes.
    Computes,
    /// It waits for memory.
    Waits,
}

/// A cell on its thread.
#[derive(Clone, Copy, Debug)]
struct Cell {
    slot: Slot,
    packet: Packet,
    since: Time,
    stage: Stage,
}

/// The threads of all elements.
struct Threads<'a> {
    trial: Trial<'a>,
    cells: IdVec<CoreId, Option<Cell>>,
    /// Threads that compute or wait for memory, by the end of that time.
    under_way: IndexedHeap<CoreId, Time>,
    /// For each element, the threads that are ready to compute, and whether one computes.
    ready: Vec<VecDeque<CoreId>>,
    is_computing: Vec<bool>,
    /// Threads with the last cell of a frame whose first cell is not computed yet.
    ends: Vec<CoreId>,
    /// Whether the first cell of each frame is computed.
    is_begun: Vec<bool>,
    computed: Vec<Time>,
    first: Vec<u64>,
}

/// Runs the trial to the end of the last cell.
///
/// # Errors
/// If a policy rejects the configuration.
pub(super) fn run(trial: &Trial<'_>) -> Result<ThreadRun, LabError> {
    let frames = (0..trial.frames).flat_map(|frame| (0..trial.cells).map(move |cell| (frame, cell)));
    let cells = frames.map(|(frame, cell)| cell_of(frame, cell, trial.cells));
    let waits = Watched::new(Waits::new(trial.elements * trial.threads));
    let measured = mechanism(trial)?.with_observer(Box::new(waits.clone()));
    let driven = Driver::new(measured, Packets::new(cells, Feed::Idle), Threads::new(*trial)).drive()?;
    let Driven { end, cores: Threads { computed, first, .. }, .. } = driven;
    Ok(ThreadRun { makespan: end, computed, first, blocked: waits.with(|waits| waits.blocked) })
}

fn mechanism(trial: &Trial<'_>) -> Result<Measured<AnySteer, AnyShare, AnyAllocate>, LabError> {
    let cores = trial.elements * trial.threads;
    let setup = SchedulerConfig {
        cores,
        contexts: trial.threads,
        packets: 2 * cores + 2,
        unit: WorkUnit::Packets,
        longest: 1,
        ..SchedulerConfig::default()
    };
    let spec: PolicySpec = trial.policy.parse()?;
    let scheduler = Scheduler::new(&setup, spec.build_steer(&setup)?, None, || spec.build_share(&setup))?;
    Ok(Measured::new(scheduler, Measurements::new(&setup)))
}

/// Returns a cell of a frame; the flow's number is the frame's.
fn cell_of(frame: usize, cell: usize, cells: usize) -> Packet {
    let part = match (cell, cells) {
        (_, 1) => Part::Whole,
        (0, _) => Part::First,
        _ if cell + 1 == cells => Part::Last,
        _ => Part::Middle,
    };
    Packet { key: frame as u64, length: 64, estimate: 1, part, ..Packet::default() }
}

/// Measures how long a cell waits while a thread is idle.
#[derive(Debug)]
struct Waits {
    threads: u64,
    held: u64,
    in_service: u64,
    now: Time,
    blocked: Time,
}

impl Waits {
    fn new(threads: usize) -> Self {
        Self { threads: threads as u64, held: 0, in_service: 0, now: Time::ZERO, blocked: Time::ZERO }
    }

    fn pass(&mut self, now: Time) {
        if self.held > self.in_service && self.in_service < self.threads {
            self.blocked += now.since(self.now);
        }
        self.now = now;
    }
}

impl Sees for Waits {
    fn on_arrival(&mut self, now: Time, _: &Packet, _: Arrival) {
        self.pass(now);
        self.held += 1;
    }

    fn on_dispatch(&mut self, now: Time, _: &Dispatch) {
        self.pass(now);
        self.in_service += 1;
    }

    fn on_completion(&mut self, _: &Completed, finished: Time, _: Time) {
        self.pass(finished);
        self.held -= 1;
        self.in_service -= 1;
    }
}

impl<'a> Threads<'a> {
    fn new(trial: Trial<'a>) -> Self {
        let threads = trial.elements * trial.threads;
        Self {
            cells: IdVec::from_fn(threads, |_| None),
            under_way: IndexedHeap::new(threads),
            ready: vec![VecDeque::new(); trial.elements],
            is_computing: vec![false; trial.elements],
            ends: Vec::new(),
            is_begun: vec![false; trial.frames],
            computed: vec![Time::ZERO; trial.elements],
            first: vec![0; trial.elements],
            trial,
        }
    }

    fn element(&self, thread: CoreId) -> usize {
        thread.index() / self.trial.threads
    }

    fn cost(&self, thread: CoreId) -> PartCost {
        let part = self.cells[thread].as_ref().expect("it has a cell").packet.part;
        (self.trial.cost)(part, self.trial.single_compute)
    }

    /// Makes a thread ready to compute. It computes unless another thread of its element does.
    fn make_ready(&mut self, now: Time, thread: CoreId) {
        let element = self.element(thread);
        self.ready[element].push_back(thread);
        self.compute(now, element);
    }

    /// Lets the next ready thread of an element compute, unless one computes.
    fn compute(&mut self, now: Time, element: usize) {
        if self.is_computing[element] {
            return;
        }
        let Some(thread) = self.ready[element].pop_front() else { return };
        let time = Time::from_ns(self.cost(thread).compute);
        self.is_computing[element] = true;
        self.computed[element] += time;
        self.under_way.set(thread, now + time);
    }

    /// Ends the computing of a thread: it waits for memory, and another thread computes.
    fn wait(&mut self, now: Time, thread: CoreId) {
        let (element, memory) = (self.element(thread), self.cost(thread).memory);
        let cell = self.cells[thread].as_mut().expect("it has a cell");
        cell.stage = Stage::Waits;
        let packet = cell.packet;
        self.under_way.set(thread, now + Time::from_ns(memory));
        self.is_computing[element] = false;
        if packet.part == Part::First {
            self.begin(now, packet.key);
        }
        self.compute(now, element);
    }

    /// Records that the first cell of a frame is computed, so that its last cell may be.
    fn begin(&mut self, now: Time, frame: u64) {
        self.is_begun[frame as usize] = true;
        let is_of_it = |thread: &CoreId| self.cells[*thread].as_ref().is_some_and(|cell| cell.packet.key == frame);
        if let Some(at) = self.ends.iter().position(is_of_it) {
            let thread = self.ends.remove(at);
            self.make_ready(now, thread);
        }
    }
}

impl Cores for Threads<'_> {
    fn next_event(&self) -> Time {
        self.under_way.peek().map_or(Time::MAX, |(time, _)| time)
    }

    fn next_done(&mut self, now: Time) -> Option<(CoreId, Doing)> {
        while let Some((_, thread)) = self.under_way.peek().filter(|&(time, _)| time <= now) {
            self.under_way.remove(thread);
            match self.cells[thread].expect("it has a cell") {
                Cell { stage: Stage::Computes, .. } => self.wait(now, thread),
                Cell { slot, since, .. } => {
                    self.cells[thread] = None;
                    return Some((thread, Doing::Packet(slot, now.since(since))));
                }
            }
        }
        None
    }

    fn serve(&mut self, now: Time, thread: CoreId, dispatch: &Dispatch<&Packet>) {
        let (slot, packet) = (dispatch.slot, dispatch.packet);
        let element = self.element(thread);
        self.first[element] += u64::from(matches!(packet.part, Part::First | Part::Whole));
        self.cells[thread] = Some(Cell { slot, packet: *packet, since: now, stage: Stage::Computes });
        if packet.part == Part::Last && !self.is_begun[packet.key as usize] {
            self.ends.push(thread);
        } else {
            self.make_ready(now, thread);
        }
    }

    fn switch(&mut self, _: Time, _: &Switch) {
        unreachable!("threads have one service");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(part: Part, single: u64) -> PartCost {
        match part {
            Part::Whole => PartCost { compute: single, memory: 40 },
            Part::First => PartCost { compute: 30, memory: 30 },
            Part::Middle => PartCost { compute: 8, memory: 12 },
            Part::Last => PartCost { compute: 16, memory: 20 },
        }
    }

    fn came(policy: &str, elements: usize, cells: usize, frames: usize) -> ThreadRun {
        run(&Trial { policy, elements, threads: 4, cells, frames, cost, single_compute: 24 }).unwrap()
    }

    /// A frame of two cells: the second waits for the first, on any thread.
    #[test]
    fn the_end_of_a_frame_waits_for_its_beginning() {
        let came = came("ss", 2, 2, 1);
        assert_eq!(came.makespan, Time::from_ns(30 + 16 + 20));
        assert_eq!(came.computed, [30, 16].map(Time::from_ns));
        assert_eq!(came.first, [1, 0]);
    }

    #[test]
    fn threads_compute_in_turn_and_wait_together() {
        let came = came("ss", 1, 1, 4);
        assert_eq!(came.makespan, Time::from_ns(4 * 24 + 40));
        assert_eq!((came.first, came.computed), (vec![4], vec![Time::from_ns(96)]));
    }

    #[test]
    fn whoever_goes_in_turn_waits_while_threads_are_idle() {
        let blocked = |policy| (1..12).map(|cells| came(policy, 2, cells, 200).blocked).max();
        assert!(blocked("ss") > Some(Time::ZERO));
        assert_eq!(blocked("ml"), Some(Time::ZERO));
    }
}
