//! The discrete-event loop: every simulation is a [`Driver`] with a [`Workload`] and [`Cores`].

use core::time::Duration;
use std::time::Instant;

use humpyard_core::id::{CoreId, Slot};
use humpyard_core::measure::{Histogram, Measured};
use humpyard_core::mechanism::{Arrival, Effect, PlannedSwap, TakenOver};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, BuildError, Share, Steer};
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;

use crate::cores::{Cores, Doing, Turn};
use crate::workload::Workload;

/// Why a simulation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// Packets could not be classified.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// A policy that was to take over could not.
    #[error(transparent)]
    Swap(BuildError),
}

/// A mechanism, the packets that come to it, and the cores that serve them.
///
/// The events of one instant happen in this order:
///
/// 1. the workload's work before the packets;
/// 2. finished tasks of cores, by ascending core;
/// 3. timeouts;
/// 4. takeovers of policies;
/// 5. all arriving packets;
/// 6. the workload's work after the packets;
/// 7. requests of cores.
pub struct Driver<'a, S, Q, A, W, C> {
    measured: Measured<S, Q, A>,
    workload: W,
    cores: C,
    swaps: Vec<PlannedSwap<'a, S, Q, A>>,
    arrivals: u64,
    taken_over: Vec<TakenOver>,
    swap_pause_max: Duration,
    decision: Histogram,
}

/// The results of a driver.
#[derive(Debug)]
#[non_exhaustive]
pub struct Driven<S, Q, A, W, C> {
    /// The mechanism, with the account and the measurements.
    pub measured: Measured<S, Q, A>,
    /// The workload, at its end.
    pub workload: W,
    /// The cores.
    pub cores: C,
    /// The time of the last event.
    pub end: Time,
    /// The policies that took over, in order.
    pub taken_over: Vec<TakenOver>,
    /// The longest that everything stood still, by a real clock, while a policy took over.
    pub swap_pause_max: Duration,
    /// Real time of decisions (an arrival, or an idle core's request), in ns; a sample.
    pub decision: Histogram,
}

/// Arrivals per arrival whose decisions are timed.
const TIMED_EVERY: u64 = 1 << 8;

impl<'a, S: Steer, Q: Share, A: Allocate, W: Workload<S, Q, A>, C: Cores> Driver<'a, S, Q, A, W, C> {
    /// Prepares a run at time zero.
    pub fn new(measured: Measured<S, Q, A>, workload: W, cores: C) -> Self {
        Self {
            measured,
            workload,
            cores,
            swaps: Vec::new(),
            arrivals: 0,
            taken_over: Vec::new(),
            swap_pause_max: Duration::ZERO,
            decision: Histogram::new(),
        }
    }

    /// Sets policies that take over during the run, by ascending time.
    #[must_use]
    pub fn with_swaps(self, swaps: Vec<PlannedSwap<'a, S, Q, A>>) -> Self {
        Self { swaps, ..self }
    }

    /// Runs until the workload is over, or no event is left.
    ///
    /// # Errors
    /// The error of the workload, or of a policy that cannot take over.
    pub fn drive(self) -> Result<Driven<S, Q, A, W, C>, SimulationError> {
        self.drive_as::<false>()
    }

    /// As [`Driver::drive`]. `PLAIN`: the loop is compiled without rare features. [`Measured::is_plain`] holds,
    /// and no policy takes over.
    #[inline(never)]
    pub(crate) fn drive_as<const PLAIN: bool>(mut self) -> Result<Driven<S, Q, A, W, C>, SimulationError> {
        let mut now = Time::ZERO;
        let mut packet = Packet::default();
        if W::IS_CLOSED {
            self.admit::<PLAIN>(now, &mut packet)?;
            self.hand_out::<PLAIN>(now, &mut packet)?;
        }
        while !self.workload.is_over(&self.measured) {
            // The last instant stands for never, which makes the comparison at every event cheap. Only at that instant the
            // loop checks which of the two it is.
            let mut next = self.workload.next_event().min(self.cores.next_event());
            if self.keeps_time::<PLAIN>() {
                next = next.min(self.next_timeout());
            }
            if next == Time::MAX && !self.awaits() {
                break;
            }
            now = next.max(now);
            self.workload.begin(now);
            self.complete::<PLAIN>(now);
            if self.keeps_time::<PLAIN>() && self.next_timeout() <= now {
                self.keep_time(now)?;
            }
            self.admit::<PLAIN>(now, &mut packet)?;
            self.workload.end(now, &mut self.measured);
            self.hand_out::<PLAIN>(now, &mut packet)?;
        }
        let account = self.measured.account();
        assert!(account.balances(), "packets are unaccounted for: {account:?}");
        Ok(Driven {
            measured: self.measured,
            workload: self.workload,
            cores: self.cores,
            end: now,
            taken_over: self.taken_over,
            swap_pause_max: self.swap_pause_max,
            decision: self.decision,
        })
    }

    /// Whether the scheduler or a planned takeover may have a timeout.
    #[inline(always)]
    fn keeps_time<const PLAIN: bool>(&self) -> bool {
        self.measured.scheduler().keeps_time() || (!PLAIN && !self.swaps.is_empty())
    }

    /// Returns when a policy or a planned takeover is due; the last instant if none is.
    fn next_timeout(&self) -> Time {
        let next = self.measured.next_timeout().unwrap_or(Time::MAX);
        self.swaps.first().map_or(next, |swap| next.min(swap.at))
    }

    /// Whether anything is to come, be it at the last instant.
    #[cold]
    fn awaits(&self) -> bool {
        self.workload.awaits() || self.measured.next_timeout().is_some() || !self.swaps.is_empty()
    }

    /// Completes all tasks of cores that end at this instant.
    #[inline(always)]
    fn complete<const PLAIN: bool>(&mut self, now: Time) {
        let mut changed = false;
        while let Some((core, done)) = self.cores.next_done(now) {
            match done {
                Doing::Packet(slot, busy) => {
                    let Some(busy) = self.end_turn::<PLAIN>(now, core, slot, busy, &mut changed) else { continue };
                    let completed = self.measured.on_completion_as::<PLAIN>(now, core, slot, now, busy);
                    if completed.onward.is_none() && completed.exit.is_none() {
                        self.workload.on_departure(now, &completed.packet, &mut self.measured);
                    }
                }
                Doing::Switch => self.measured.on_switched(now, core),
            }
            self.follow_up(now);
        }
    }

    /// Ends a task of a core with a packet. Returns how long the core was busy with it. `None`: the packet is not done.
    /// `changed`: whether a packet was done or given back at this instant.
    #[inline(always)]
    fn end_turn<const PLAIN: bool>(
        &mut self,
        now: Time,
        core: CoreId,
        slot: Slot,
        busy: Time,
        changed: &mut bool,
    ) -> Option<Time> {
        if PLAIN {
            return Some(busy);
        }
        match self.cores.end_turn(now, core, slot, busy, || self.measured.yields(now, slot)) {
            Turn::Done(busy) => {
                *changed = true;
                return Some(busy);
            }
            Turn::Kept if *changed => {}
            Turn::Kept => self.skip_quanta(),
            Turn::GivenBack { served, busy } => {
                *changed = true;
                self.measured.on_preemption(now, core, slot, served, busy);
            }
        }
        None
    }

    /// Skips the quanta of packets that their cores keep, until something else happens.
    #[inline(never)]
    fn skip_quanta(&mut self) {
        let next = self.workload.next_event().min(self.next_timeout());
        self.cores.skip_quanta(next, |slot| self.measured.stays(slot));
    }

    /// Calls the policies' timeout if it is due, and makes the takeovers that are due.
    #[inline(never)]
    fn keep_time(&mut self, now: Time) -> Result<(), SimulationError> {
        if self.measured.next_timeout().is_some_and(|timeout| timeout <= now) {
            self.measured.on_timeout(now);
            self.follow_up(now);
        }
        while self.swaps.first().is_some_and(|swap| swap.at <= now) {
            let swap = self.swaps.remove(0);
            let started = Instant::now();
            (swap.take_over)(now, self.measured.scheduler_mut()).map_err(SimulationError::Swap)?;
            self.swap_pause_max = self.swap_pause_max.max(started.elapsed());
            self.taken_over.push(TakenOver { at: now, policy: swap.policy });
            self.follow_up(now);
        }
        Ok(())
    }

    /// All packets that come now.
    #[inline(always)]
    fn admit<const PLAIN: bool>(&mut self, now: Time, packet: &mut Packet) -> Result<(), SimulationError> {
        while self.workload.next_packet(now, packet, &mut self.measured)? {
            self.arrivals += 1;
            let timed = self.is_timed().then(Instant::now);
            let arrival = self.measured.on_arrival_as::<PLAIN>(now, packet);
            Self::record(&mut self.decision, timed);
            if self.measured.may_follow::<PLAIN>() {
                self.follow_up(now);
            }
            if let Arrival::Dropped(_) = arrival {
                self.workload.on_loss(now, packet, &mut self.measured);
            }
        }
        Ok(())
    }

    /// Processes the effects of the last call of the mechanism: dropped packets, packets that
    /// leave, switches that begin.
    #[inline(always)]
    fn follow_up(&mut self, now: Time) {
        while let Some(effect) = self.measured.next_effect(now) {
            self.on_effect(now, &effect);
        }
    }

    #[inline(never)]
    fn on_effect(&mut self, now: Time, effect: &Effect) {
        match effect {
            Effect::Dropped(dropped) => self.workload.on_loss(now, &dropped.packet, &mut self.measured),
            Effect::Left(exit) => self.workload.on_departure(now, &exit.packet, &mut self.measured),
            Effect::Switch(switch) => self.cores.switch(now, switch),
        }
    }

    /// Gives every core with room the packets that it can have.
    #[inline(always)]
    fn hand_out<const PLAIN: bool>(&mut self, now: Time, packet: &mut Packet) -> Result<(), SimulationError> {
        loop {
            let timed = self.is_timed().then(Instant::now);
            let next = if PLAIN {
                self.measured.lend_next_plain(now)
            } else {
                self.measured.next_core(now).map(|core| (core, self.measured.lend_next_turn(now, core)))
            };
            let Some((core, dispatch)) = next else { return Ok(()) };
            let Some(dispatch) = dispatch else { continue };
            Self::record(&mut self.decision, timed);
            if PLAIN {
                self.cores.serve(now, core, &dispatch);
            } else {
                self.cores.serve_turn(now, core, &dispatch);
            }
            if self.measured.may_follow::<PLAIN>() {
                self.follow_up(now);
            }
            if W::IS_CLOSED {
                self.admit::<PLAIN>(now, packet)?;
            }
        }
    }

    #[inline(always)]
    fn is_timed(&self) -> bool {
        self.arrivals.is_multiple_of(TIMED_EVERY)
    }

    #[inline(always)]
    fn record(decision: &mut Histogram, timed: Option<Instant>) {
        if let Some(started) = timed {
            decision.record(started.elapsed().as_nanos() as u64);
        }
    }
}
