//! Waiting without work.

use core::time::Duration;

use humpyard_core::link::OutputLink;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::Time;

use super::{Dispatcher, WAKE_EARLY, ns};
use crate::clock::Now;
use crate::outcome::RunError;
use crate::wait::{Next, SLEEP_MAX};

impl<S: Steer, Q: Share, A: Allocate> Dispatcher<'_, S, Q, A> {
    /// Waits, because there is no work now. Returns false if no more will ever come.
    pub(super) fn wait(&mut self) -> Result<bool, RunError> {
        if let Now::Virtual(now) = self.now {
            let next = self.next_event();
            self.now = Now::Virtual(next.map_or(now, |next| next.max(now)));
            return Ok(next.is_some());
        }
        if self.patience.wait() == Next::Sleep {
            self.sleep()?;
        }
        Ok(true)
    }

    /// Sleeps until a worker rings or something is due.
    fn sleep(&mut self) -> Result<(), RunError> {
        self.flush()?;
        self.crew.check()?;
        let now = self.now.read();
        let until_next = self.next_event().map(|next| Duration::from_nanos(next.since(now).as_ns()));
        let longest = until_next.map_or(SLEEP_MAX, |until| until.saturating_sub(WAKE_EARLY).min(SLEEP_MAX));
        if !longest.is_zero() {
            let listens = self.listens();
            let wakers = if listens { self.live.input.descriptors() } else { Vec::new() };
            let ready = || self.crew.has_results() || self.is_asked() || listens && self.live.input.is_ready();
            self.doorbell.sleep(longest, &wakers, ready);
        }
        Ok(())
    }

    /// Whether a frame could be taken in if there were one.
    fn listens(&self) -> bool {
        self.reading && self.burst.next_arrival().is_none() && !self.must_wait()
    }

    /// Returns when the next event is due that no doorbell announces.
    fn next_event(&self) -> Option<Time> {
        let arrival = self.burst.next_arrival().filter(|_| !self.must_wait());
        let end = self.live.longest.filter(|_| self.reading).map(|longest| self.begin + Time::from_ns(ns(longest)));
        let swap = self.live.swaps.first().map(|swap| self.begin + swap.at);
        let sent = self.live.link.as_ref().and_then(OutputLink::next_event);
        [arrival, end, swap, sent, self.crew.next_time(), self.live.measured.next_timeout()].into_iter().flatten().min()
    }
}
