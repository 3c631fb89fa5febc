//! The parts of a live run.

use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::sync::mpsc::Receiver;

use humpyard_core::link::OutputLink;
use humpyard_core::measure::Measured;
use humpyard_core::mechanism::PlannedSwap;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_services::Factory;
use humpyard_traffic::classify::Classifier;
use humpyard_traffic::sink::{NullSink, Sink};

use crate::clock::Clock;
use crate::input::Input;
use crate::load::Hears;
use crate::placement::Seat;
use crate::replacement::Replacement;
use crate::watch::Watched;

/// The reaction when the run holds its maximum number of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overload {
    /// Stop reading until there is room: nothing is dropped, and the source waits.
    #[default]
    Wait,
    /// Drop arriving packets, as a wire would.
    Drop,
}

/// One live run, ready to start. [`Live::new`] takes the necessary parts; the other fields can be
/// set later.
pub struct Live<'a, S, Q, A> {
    /// The mechanism; its number of cores is `workers`, or 1 if `workers` is 0.
    pub measured: Measured<S, Q, A>,
    /// Most packets held: the mechanism's.
    pub packets: usize,
    /// Worker threads, one per core; 0 does everything on the calling thread, as one core.
    pub workers: usize,
    /// The seats of the threads, the dispatcher first, for a real clock. `None`: as
    /// [`seats`](crate::seats()) returns.
    pub seats: Option<Vec<Seat>>,
    /// Whether to read the hardware counters of each thread, where possible; for a real clock.
    pub hardware: bool,
    /// Makes each service.
    pub services: Vec<Factory>,
    /// Finds flow, client and service.
    pub classifier: Classifier,
    /// The source of the frames, and when they arrive.
    pub input: Input,
    /// The destination of the frames.
    pub sink: Box<dyn Sink + Send>,
    /// The link behind the cores, which sends to the sink by the clock of the run. On a real clock
    /// it uses the length that each packet has after its services, on a virtual clock the link's
    /// own table. `None`: packets leave as soon as they are done.
    pub link: Option<OutputLink<S, Q, A>>,
    /// Takes the packets at which a service panicked, as they came in. `None`: they are not kept,
    /// which costs nothing.
    pub quarantine: Option<Box<dyn Sink + Send>>,
    /// The reaction when there is no room.
    pub overload: Overload,
    /// The clock of the run. With a virtual clock there are no threads.
    pub clock: Clock,
    /// Policies that take over on the way, by time since the start, which rises.
    pub swaps: Vec<PlannedSwap<'a, S, Q, A>>,
    /// Delivers replacements during the run. `None`: no replacement. Not for a virtual clock.
    pub replacements: Option<Receiver<Replacement<S, Q, A>>>,
    /// The run time after which reading ends, by this clock. `None`: no limit.
    pub longest: Option<Duration>,
    /// Set from outside to end reading. The run then serves and writes the packets that it holds.
    pub stop: &'a AtomicBool,
    /// Called now and then with the packets so far and the part of the source that was read (0 to
    /// 1, if known).
    pub progress: &'a mut dyn FnMut(u64, Option<f64>),
    /// Called now and then with the load of the dispatcher so far; for a real clock.
    pub loads: Option<Hears<'a>>,
    /// The run's half of [`watch`](crate::watch()): it answers questions of the other half.
    pub watched: Option<Watched>,
}

impl<S: Steer, Q: Share, A: Allocate> Live<'_, S, Q, A> {
    /// Whether the run has no rare feature that a dispatcher's loop would check for every packet:
    /// none of [`Measured::becomes_plain`], no virtual clock, no link and no takeover.
    pub(crate) fn becomes_plain(&self) -> bool {
        let stays = self.swaps.is_empty() && self.replacements.is_none();
        let is_real = matches!(self.clock, Clock::Real);
        is_real && stays && self.link.is_none() && self.measured.becomes_plain()
    }

    /// Whether cores give packets back after the quantum of the sharing policy, at the yield points of services. They
    /// do so by a real clock, if the composition can preempt ([`Scheduler::check_preemption`]); else they serve each
    /// packet to its end.
    ///
    /// [`Scheduler::check_preemption`]: humpyard_core::mechanism::Scheduler::check_preemption
    pub(crate) fn has_turns(&self) -> bool {
        let scheduler = self.measured.scheduler();
        let is_real = matches!(self.clock, Clock::Real);
        is_real && scheduler.quantum().is_some() && scheduler.check_preemption().is_ok()
    }

    /// Whether a port may drop packets for which there is no room, unread. Not if an arriving
    /// packet may push out another: then it must be read.
    pub(crate) fn leaves_to_port(&self) -> bool {
        self.overload == Overload::Drop && !self.measured.scheduler().pushes_out()
    }

    /// Returns how many of the frames for which there is room may wait at a port: half, because
    /// held frames need the other half.
    pub(crate) const fn held_by_port(&self) -> u64 {
        self.packets as u64 / 2
    }
}

impl<'a, S, Q, A> Live<'a, S, Q, A> {
    /// Returns a run on the calling thread alone, by a real clock, with room for 1024 packets, the
    /// default of [`SchedulerConfig`]. Frames go nowhere, there is no takeover, and no observer.
    ///
    /// [`SchedulerConfig`]: humpyard_core::config::SchedulerConfig
    pub fn new(
        measured: Measured<S, Q, A>,
        services: Vec<Factory>,
        classifier: Classifier,
        input: Input,
        stop: &'a AtomicBool,
        progress: &'a mut dyn FnMut(u64, Option<f64>),
    ) -> Self {
        Self {
            measured,
            packets: 1024,
            workers: 0,
            seats: None,
            hardware: false,
            services,
            classifier,
            input,
            sink: Box::new(NullSink::default()),
            link: None,
            quarantine: None,
            overload: Overload::Wait,
            clock: Clock::Real,
            swaps: Vec::new(),
            replacements: None,
            longest: None,
            stop,
            progress,
            loads: None,
            watched: None,
        }
    }
}
