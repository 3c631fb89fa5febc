//! The state of the run, for observers.

use std::sync::Arc;

use humpyard_core::id::{CoreId, Id};
use humpyard_core::measure::{DelayTally, LostOutside};
use humpyard_core::policy::{Allocate, Share, Steer};

use super::{Dispatcher, lost};
use crate::load::Load;
use crate::loss;
use crate::watch::{FlowCounts, Snapshot, Watched};

impl<S: Steer, Q: Share, A: Allocate> Dispatcher<'_, S, Q, A> {
    /// Whether somebody wants to know how the run stands.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.live.watched.as_ref().is_some_and(Watched::is_asked)
    }

    /// Answers an observer with the state of the run.
    #[cold]
    pub(super) fn answer(&mut self) {
        let snapshot = Box::new(self.snapshot());
        if let Some(watched) = &mut self.live.watched {
            watched.answer(snapshot);
        }
    }

    /// Returns the load up to the start of the present round, so that the time never falls. `None`:
    /// the clock is virtual.
    pub(super) fn load(&self) -> Option<Load> {
        if self.now.is_virtual() {
            return None;
        }
        let now = self.round;
        let elapsed = now.since(self.begin);
        let cores = if self.live.workers == 0 { 0 } else { self.live.measured.scheduler().cores() };
        let cores_busy = self.live.measured.measurements().busy();
        Some(Load { elapsed, busy: elapsed.since(self.idle.total(now)), cores_busy, cores })
    }

    /// Reports the load so far to the listener.
    pub(super) fn tell_load(&mut self) {
        let load = self.load();
        if let (Some(load), Some(tell)) = (load, &mut self.live.loads) {
            tell(&[load]);
        }
    }

    /// Notes the packets that interfaces have lost by the end of the warm-up, once it has come.
    #[cold]
    pub(super) fn look_at_warm_up(&mut self) {
        if self.live.measured.measurements().measured_from().is_some() {
            // A look at a run is no reason to end it.
            let received = self.live.input.received().unwrap_or_default();
            let sent = self.live.sink.sent();
            self.lost_before = Some(LostOutside { before: loss::received(&received), behind: loss::sent(&sent) });
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        // A look at a run is no reason to end it.
        let received = self.live.input.received().unwrap_or_default();
        let measured = &self.live.measured;
        let scheduler = measured.scheduler();
        let flows = self.live.classifier.flows();
        let sent = self.live.sink.sent();
        let mut out = self.out.clone();
        out.on_sent(&sent);
        let tally = measured.tally();
        // Removed cores keep their figures.
        let cores = (0..tally.cores.len()).map(|core| (core < scheduler.cores()).then(|| CoreId::from_index(core)));
        Snapshot {
            elapsed: self.now.read().since(self.begin),
            account: *measured.account(),
            out,
            in_flight: cores.clone().map(|core| core.map_or(0, |core| scheduler.in_service(core))).collect(),
            waiting: cores.map(|core| scheduler.waiting(core?)).collect(),
            tally,
            flows: FlowCounts {
                known: flows.len() as u64,
                seen: flows.seen(),
                evicted: flows.evicted(),
                expired: flows.expired(),
            },
            lost: lost(self.lost_before, &received, &sent),
            loads: self.load().into_iter().collect(),
            received,
            sent,
            decision: DelayTally::of(&self.decision),
            overdue_max: self.overdue_max,
            swaps: self.taken_over.len() as u64,
            policy: self.taken_over.last().map(|last| Arc::clone(&last.policy)),
            swap_pause_max: self.swap_pause_max,
            sampled: Vec::new(),
        }
    }
}
