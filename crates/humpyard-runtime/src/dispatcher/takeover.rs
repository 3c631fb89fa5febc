//! Takeovers of policies, weights and workers during the run, and timeouts.

use core::mem;
use std::time::Instant;

use humpyard_core::id::IdVec;
use humpyard_core::mechanism::TakenOver;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

use super::{Dispatcher, crew};
use crate::outcome::RunError;
use crate::placement::{Seat, merged, seats};
use crate::replacement::Replacement;
use crate::wait::Patience;

impl<S: Steer, Q: Share, A: Allocate> Dispatcher<'_, S, Q, A> {
    /// Calls the policies' timeout if it is due.
    pub(super) fn keep_time(&mut self) -> Result<bool, RunError> {
        let now = self.now.read();
        let due = self.live.measured.next_timeout().is_some_and(|timeout| timeout <= now);
        if due {
            self.live.measured.on_timeout(now);
            self.follow_up(now)?;
        }
        while self.live.swaps.first().is_some_and(|swap| self.begin + swap.at <= now) {
            let swap = self.live.swaps.remove(0);
            let started = Instant::now();
            (swap.take_over)(now, self.live.measured.scheduler_mut()).map_err(RunError::Swap)?;
            self.swap_pause_max = self.swap_pause_max.max(started.elapsed());
            self.taken_over.push(TakenOver { at: now.since(self.begin), policy: swap.policy });
            self.follow_up(now)?;
        }
        Ok(due)
    }

    /// Makes the waiting replacement, if no packet is in service. Returns whether it did.
    pub(super) fn replace(&mut self) -> Result<bool, RunError> {
        if !self.live.measured.scheduler().is_quiet() {
            return Ok(false);
        }
        let Some((replacement, since)) = self.replacements.take() else { return Ok(false) };
        let Replacement { policy, scheduler, weights, link_weights, workers, topology, seats, retired } = replacement;
        let now = self.now.read();
        let in_flight = self.live.measured.scheduler().in_flight();
        self.crew.forget_switches();
        let before = self.live.measured.replace(now, scheduler, topology.as_ref()).map_err(RunError::Swap)?;
        if let Some(link) = &self.live.link {
            link.withhold_anew(now, self.live.measured.scheduler_mut());
        }
        // If nobody receives the old scheduler, its memory is freed here.
        let _ = retired.send(before);
        // The workers' rings have room for exactly the packets that may be in flight.
        if workers != self.live.workers || self.live.measured.scheduler().in_flight() != in_flight {
            self.change_crew(workers, seats)?;
        }
        for (client, weight) in weights {
            self.live.measured.set_weight(now, client, weight);
        }
        for (client, weight) in link_weights {
            self.set_link_weight(now, client, weight);
        }
        self.follow_up(now)?;
        self.replacements.made += 1;
        self.taken_over.push(TakenOver { at: now.since(self.begin), policy });
        self.swap_pause_max = self.swap_pause_max.max(since.elapsed());
        Ok(true)
    }

    /// Replaces the workers by `workers` others, while none has work.
    fn change_crew(&mut self, workers: usize, chosen: Option<Vec<Seat>>) -> Result<(), RunError> {
        self.live.workers = workers;
        // Seats are chosen among the processors that the thread may use, which in its seat is that alone.
        self.seated.leave();
        let seats = chosen.unwrap_or_else(|| seats(workers));
        let threads = if self.is_alone { merged(&seats) } else { seats.clone() };
        let crew = crew(&self.live, &threads, self.stopwatch, &self.doorbell)?;
        crew.wait_until_ready();
        self.counters.merge(mem::replace(&mut self.crew, crew).end()?);
        self.seated = seats[0].take();
        self.shared = threads[0].shared;
        self.patience = Patience::new(self.shared);
        self.seats = seats;
        self.given = IdSet::new(workers.max(1));
        self.made = IdVec::from_fn(workers.max(1), |_| Vec::new());
        self.kept = IdVec::from_fn(workers.max(1), |_| Time::ZERO);
        Ok(())
    }
}
