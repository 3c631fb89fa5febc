//! Cores on a virtual clock: their work is done when it is handed out, and becomes visible at the
//! time that a cost table gives.

use std::collections::VecDeque;

use humpyard_core::cost::CostModel;
use humpyard_core::id::{CoreId, IdVec};
use humpyard_core::mechanism::Dispatch;
use humpyard_core::packet::Packet;
use humpyard_core::storage::IndexedHeap;
use humpyard_core::unit::Time;

use crate::counters::Counters;
use crate::held::HeldFrames;
use crate::worker::{Done, Task, Workbench};

/// Every core of a run by a virtual clock.
pub(crate) struct VirtualCores {
    cores: IdVec<CoreId, Core>,
    /// How long each core is busy with a packet.
    costs: CostModel,
    /// When the next result of each core that has any is there.
    due: IndexedHeap<CoreId, Time>,
}

struct Core {
    bench: Workbench,
    /// Results not yet taken, with the times at which they become visible, ascending.
    results: VecDeque<(Time, Done)>,
}

impl VirtualCores {
    pub(crate) fn new(cores: usize, costs: CostModel, mut bench: impl FnMut() -> Workbench) -> Self {
        let core = |_| Core { bench: bench(), results: VecDeque::new() };
        Self { cores: IdVec::from_fn(cores, core), costs, due: IndexedHeap::new(cores) }
    }

    /// Serves a packet now; the core is busy with it after the packets before it.
    pub(crate) fn give(&mut self, now: Time, core: CoreId, dispatch: &Dispatch<&Packet>, held: &mut HeldFrames) {
        let span = self.costs.serve(now, core, dispatch);
        let Core { bench, results } = &mut self.cores[core];
        let frame = &mut held[dispatch.slot].frame;
        let made = |made| results.push_back((span.finished, Done::Generated(made)));
        let done = bench.serve(Task::of(now, dispatch.slot, dispatch.packet), frame, || span, made);
        results.push_back((span.finished, done));
        self.set_due(core);
    }

    /// Returns the work of a packet on a warm core, in ns.
    pub(crate) fn work(&self, packet: &Packet) -> u64 {
        self.costs.work(packet)
    }

    /// Begins the switch of a core without a packet to another service.
    pub(crate) fn switch(&mut self, core: CoreId, until: Time) {
        self.cores[core].results.push_back((until, Done::Switched));
        self.set_due(core);
    }

    /// Takes the next result whose time has come into an empty list: the earliest; at equal times
    /// that of the lowest core.
    pub(crate) fn take(&mut self, now: Time, results: &mut Vec<Done>) -> Option<CoreId> {
        let (_, core) = self.due.peek().filter(|&(time, _)| time <= now)?;
        let (_, done) = self.cores[core].results.pop_front().expect("a core that is due has a result");
        self.set_due(core);
        results.push(done);
        Some(core)
    }

    /// When the next result is there.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.due.peek().map(|(time, _)| time)
    }

    /// Returns the services' counters.
    pub(crate) fn end(self) -> Counters {
        let mut counters = Counters::default();
        for core in &self.cores {
            counters.merge(core.bench.counters());
        }
        counters
    }

    /// Sets when the core's first result is due.
    fn set_due(&mut self, core: CoreId) {
        match self.cores[core].results.front() {
            Some(&(time, _)) => self.due.set(core, time),
            None => self.due.remove(core),
        }
    }
}
