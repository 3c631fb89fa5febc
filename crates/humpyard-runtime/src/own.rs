//! The dispatcher's own hands: it does the work of every core itself, when it hands it out.

use core::cell::Cell;
use std::collections::VecDeque;

use humpyard_core::cost::CostModel;
use humpyard_core::frame::Frame;
use humpyard_core::id::{CoreId, IdVec};
use humpyard_core::mechanism::Dispatch;
use humpyard_core::packet::Packet;
use humpyard_core::storage::IndexedHeap;
use humpyard_core::unit::Time;

use crate::clock::Stopwatch;
use crate::worker::{Done, Job, Laps, Workbench};

/// Cores whose work the dispatcher does itself. What comes of it waits until its time has come: at once if time is measured,
/// for work is done when it is done; later if a table says what work takes.
pub(crate) struct Own {
    cores: IdVec<CoreId, Core>,
    /// When the next result of each core that has any is there.
    due: IndexedHeap<CoreId, Time>,
    timing: Timing,
}

struct Core {
    bench: Workbench,
    /// Results not yet taken, with their times, which rise.
    results: VecDeque<(Time, Done)>,
}

/// How long work takes.
enum Timing {
    Measured(Laps),
    Table(CostModel),
}

impl Own {
    /// One core, in real time.
    pub(crate) fn measured(stopwatch: Stopwatch, bench: Workbench) -> Self {
        Self::new(1, Timing::Measured(Laps::new(stopwatch)), [bench])
    }

    /// So many cores whose work takes what this model says.
    pub(crate) fn by_table(costs: CostModel, cores: usize, bench: impl FnMut() -> Workbench) -> Self {
        Self::new(cores, Timing::Table(costs), core::iter::repeat_with(bench).take(cores))
    }

    fn new(cores: usize, timing: Timing, benches: impl IntoIterator<Item = Workbench>) -> Self {
        let core = |bench| Core { bench, results: VecDeque::new() };
        Self { cores: benches.into_iter().map(core).collect(), due: IndexedHeap::new(cores), timing }
    }

    /// Serves a packet now.
    pub(crate) fn give(&mut self, now: Time, core: CoreId, dispatch: &Dispatch, frame: Frame) {
        let Self { cores, due, timing } = self;
        let Core { bench, results } = &mut cores[core];
        if let Timing::Measured(laps) = timing {
            laps.begin();
        }
        let finished = Cell::new(Time::ZERO);
        let end = || {
            let span = match timing {
                Timing::Measured(laps) => laps.end(),
                Timing::Table(costs) => costs.serve(now, core, &dispatch.packet, dispatch.cold),
            };
            finished.set(span.finished);
            span
        };
        let job = Job { slot: dispatch.slot, service: dispatch.packet.service, frame };
        // What the service made itself is there when the packet is done.
        bench.serve(job, end, |done| results.push_back((finished.get(), done)));
        set_due(due, core, results);
    }

    /// The core has nothing to serve, and begins to go over to another service.
    pub(crate) fn switch(&mut self, core: CoreId, until: Time) {
        let results = &mut self.cores[core].results;
        results.push_back((until, Done::Switched));
        set_due(&mut self.due, core, results);
    }

    /// Takes the next result whose time has come: the earliest, of those the one of the lowest core.
    pub(crate) fn take(&mut self, now: Time) -> Option<(CoreId, Done)> {
        let (_, core) = self.due.peek().filter(|&(time, _)| time <= now)?;
        let results = &mut self.cores[core].results;
        let (_, done) = results.pop_front().expect("a core that is due has a result");
        set_due(&mut self.due, core, results);
        Some((core, done))
    }

    /// What a packet will take a warm core, where that is known beforehand.
    pub(crate) fn work(&self, packet: &Packet) -> Option<u64> {
        match &self.timing {
            Timing::Measured(_) => None,
            Timing::Table(costs) => Some(costs.work(packet)),
        }
    }

    /// When the next result is there.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.due.peek().map(|(time, _)| time)
    }
}

/// A core is due when its first result is.
fn set_due(due: &mut IndexedHeap<CoreId, Time>, core: CoreId, results: &VecDeque<(Time, Done)>) {
    match results.front() {
        Some(&(time, _)) => due.set(core, time),
        None => due.remove(core),
    }
}
