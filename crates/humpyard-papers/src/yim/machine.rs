//! Elements of threads in virtual time: the threads of an element take turns computing, and wait for memory together.

use std::collections::VecDeque;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, Id, IdVec, Slot};
use humpyard_core::measure::{Measured, Measurements};
use humpyard_core::mechanism::Scheduler;
use humpyard_core::packet::{Packet, Part};
use humpyard_core::storage::IndexedHeap;
use humpyard_core::unit::{Time, WorkUnit};
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::PolicySpec;

use humpyard_lab::LabError;

/// What a part of a frame takes an element: computing, then waiting for memory, in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartCost {
    pub(super) compute: u64,
    pub(super) memory: u64,
}

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<'a> {
    pub(super) policy: &'a str,
    pub(super) elements: usize,
    pub(super) threads: usize,
    /// Cells of a frame.
    pub(super) cells: usize,
    pub(super) frames: usize,
    pub(super) cost: fn(Part, u64) -> PartCost,
    /// What a frame of one cell takes to compute, in ns.
    pub(super) single_compute: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Came {
    pub(super) makespan: Time,
    /// By element, how long it computed.
    pub(super) computed: Vec<Time>,
    /// By element, how many cells it had that begin a frame.
    pub(super) first: Vec<u64>,
    /// How long the next cell waited while a thread was idle.
    pub(super) blocked: Time,
}

/// What a thread does next.
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

struct Machine<'a> {
    trial: Trial<'a>,
    measured: Measured<AnySteer, AnyShare, AnyAllocate>,
    cells: IdVec<CoreId, Option<Cell>>,
    /// Threads that compute or wait for memory, by the end of that.
    under_way: IndexedHeap<CoreId, Time>,
    /// By element, the threads that are ready to compute, and whether one does.
    ready: Vec<VecDeque<CoreId>>,
    is_computing: Vec<bool>,
    /// Threads whose cell ends a frame, until its first cell is computed.
    ends: Vec<CoreId>,
    /// By frame, whether its first cell is computed.
    is_begun: Vec<bool>,
    now: Time,
    came: Came,
}

/// Runs it to the end of the last cell.
///
/// # Errors
/// What a policy refuses.
pub(super) fn run(trial: &Trial<'_>) -> Result<Came, LabError> {
    let mut machine = Machine::new(*trial)?;
    let frames = (0..trial.frames).flat_map(|frame| (0..trial.cells).map(move |cell| (frame, cell)));
    let mut cells = frames.map(|(frame, cell)| cell_of(frame, cell, trial.cells));
    loop {
        while machine.takes_more()
            && let Some(cell) = cells.next()
        {
            machine.arrive(cell);
        }
        if machine.under_way.is_empty() {
            break;
        }
        machine.pass();
    }
    Ok(machine.came)
}

/// A cell of a frame, whose number is its flow's.
fn cell_of(frame: usize, cell: usize, cells: usize) -> Packet {
    let part = match (cell, cells) {
        (_, 1) => Part::Whole,
        (0, _) => Part::First,
        _ if cell + 1 == cells => Part::Last,
        _ => Part::Middle,
    };
    Packet { key: frame as u64, length: 64, estimate: 1, part, ..Packet::default() }
}

impl<'a> Machine<'a> {
    fn new(trial: Trial<'a>) -> Result<Self, LabError> {
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
        Ok(Self {
            measured: Measured::new(scheduler, Measurements::new(&setup)),
            cells: IdVec::from_fn(cores, |_| None),
            under_way: IndexedHeap::new(cores),
            ready: vec![VecDeque::new(); trial.elements],
            is_computing: vec![false; trial.elements],
            ends: Vec::new(),
            is_begun: vec![false; trial.frames],
            now: Time::ZERO,
            came: Came {
                makespan: Time::ZERO,
                computed: vec![Time::ZERO; trial.elements],
                first: vec![0; trial.elements],
                blocked: Time::ZERO,
            },
            trial,
        })
    }

    fn in_service(&self) -> usize {
        self.cells.iter().filter(|cell| cell.is_some()).count()
    }

    /// Whether another cell comes: while one waits for its turn none does, nor while every thread has one.
    fn takes_more(&self) -> bool {
        !self.is_waiting() && self.in_service() < self.cells.len()
    }

    /// Whether a cell waits.
    fn is_waiting(&self) -> bool {
        self.measured.account().held > self.in_service() as u64
    }

    fn element(&self, thread: CoreId) -> usize {
        thread.index() / self.trial.threads
    }

    fn cost(&self, thread: CoreId) -> PartCost {
        let part = self.cells[thread].as_ref().expect("it has a cell").packet.part;
        (self.trial.cost)(part, self.trial.single_compute)
    }

    fn arrive(&mut self, packet: Packet) {
        self.measured.on_arrival(self.now, &Packet { arrival: self.now, ..packet });
        self.hand_out();
    }

    /// Gives every idle thread what it can have.
    fn hand_out(&mut self) {
        while let Some(thread) = self.measured.next_core(self.now) {
            let Some(dispatch) = self.measured.next(self.now, thread) else { continue };
            let (slot, packet) = (dispatch.slot, dispatch.packet);
            let element = self.element(thread);
            self.came.first[element] += u64::from(matches!(packet.part, Part::First | Part::Whole));
            self.cells[thread] = Some(Cell { slot, packet, since: self.now, stage: Stage::Computes });
            if packet.part == Part::Last && !self.is_begun[packet.key as usize] {
                self.ends.push(thread);
            } else {
                self.ready[element].push_back(thread);
                self.compute(element);
            }
        }
    }

    /// The next ready thread of an element computes, unless one does.
    fn compute(&mut self, element: usize) {
        if self.is_computing[element] {
            return;
        }
        let Some(thread) = self.ready[element].pop_front() else { return };
        let time = Time::from_ns(self.cost(thread).compute);
        self.is_computing[element] = true;
        self.came.computed[element] += time;
        self.under_way.set(thread, self.now + time);
    }

    /// Goes on to the next event, and through all of that instant.
    fn pass(&mut self) {
        let Some((next, _)) = self.under_way.peek() else { return };
        if self.is_waiting() && self.in_service() < self.cells.len() {
            self.came.blocked += next.since(self.now);
        }
        self.now = next;
        self.came.makespan = next;
        while let Some((_, thread)) = self.under_way.peek().filter(|&(time, _)| time <= next) {
            self.under_way.remove(thread);
            self.go_on(thread);
        }
        self.hand_out();
    }

    /// A thread has computed, or has what it needed of memory.
    fn go_on(&mut self, thread: CoreId) {
        let (element, memory) = (self.element(thread), self.cost(thread).memory);
        let cell = self.cells[thread].as_mut().expect("it has a cell");
        if cell.stage == Stage::Computes {
            cell.stage = Stage::Waits;
            self.under_way.set(thread, self.now + Time::from_ns(memory));
            self.is_computing[element] = false;
            let packet = cell.packet;
            if packet.part == Part::First {
                self.begin(packet.key);
            }
            self.compute(element);
            return;
        }
        let Cell { slot, since, .. } = *cell;
        self.cells[thread] = None;
        self.measured.on_completion(self.now, thread, slot, self.now, self.now.since(since));
    }

    /// The first cell of a frame is computed: its last one may be.
    fn begin(&mut self, frame: u64) {
        self.is_begun[frame as usize] = true;
        let is_of_it = |thread: &CoreId| self.cells[*thread].as_ref().is_some_and(|cell| cell.packet.key == frame);
        let Some(at) = self.ends.iter().position(is_of_it) else { return };
        let thread = self.ends.remove(at);
        let element = self.element(thread);
        self.ready[element].push_back(thread);
        self.compute(element);
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

    fn came(policy: &str, elements: usize, cells: usize, frames: usize) -> Came {
        run(&Trial { policy, elements, threads: 4, cells, frames, cost, single_compute: 24 }).unwrap()
    }

    /// A frame of two cells: the second waits for the first, wherever it is.
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
