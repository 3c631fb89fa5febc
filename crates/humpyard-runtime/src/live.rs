//! What a live run is made of.

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

/// What to do when as many packets are held as may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overload {
    /// Read no more until there is room: nothing is dropped, the source waits.
    #[default]
    Wait,
    /// Drop what arrives, as a wire would.
    Drop,
}

/// One live run, ready to start. [`Live::new`] makes one by its necessary parts; the other fields can be set then.
pub struct Live<'a, S, Q, A> {
    /// The mechanism; its number of cores is `workers`, or 1 for none.
    pub measured: Measured<S, Q, A>,
    /// Most packets held: the mechanism's.
    pub packets: usize,
    /// Worker threads, one per core; 0 does everything on the calling thread, as one core.
    pub workers: usize,
    /// Where the threads sit, the dispatcher first, by a real clock; none is as [`seats`](crate::seats()) says.
    pub seats: Option<Vec<Seat>>,
    /// Whether hardware is to count what each thread does, where it can: by a real clock.
    pub hardware: bool,
    /// Makes each service.
    pub services: Vec<Factory>,
    /// Finds flow, client and service.
    pub classifier: Classifier,
    /// Where frames come from, and when.
    pub input: Input,
    /// Where they go.
    pub sink: Box<dyn Sink + Send>,
    /// The link behind the cores, from which they go there: by the clock of the run, each with the length that its services have made
    /// of it; by a virtual one with that by which the link knows packets. None where packets leave as they are done.
    pub link: Option<OutputLink<S, Q, A>>,
    /// Takes the packets at which a service panicked, as they came in. Without it they are not kept, and cost nothing.
    pub quarantine: Option<Box<dyn Sink + Send>>,
    /// What to do when there is no room.
    pub overload: Overload,
    /// Which time it goes by. By a virtual one there are no threads.
    pub clock: Clock,
    /// Policies that take over on the way, by time since the start, which rises.
    pub swaps: Vec<PlannedSwap<'a, S, Q, A>>,
    /// What it goes on with when it is told; none is never. Not by a virtual clock.
    pub replacements: Option<Receiver<Replacement<S, Q, A>>>,
    /// Ends reading after so long, by that time.
    pub longest: Option<Duration>,
    /// Set from outside to end reading. The run then serves and writes the packets that it holds.
    pub stop: &'a AtomicBool,
    /// Told now and then of the packets so far and how much of the source was read (0 to 1, where that is known).
    pub progress: &'a mut dyn FnMut(u64, Option<f64>),
    /// Told now and then how busy the dispatcher has been so far: by a real clock.
    pub loads: Option<Hears<'a>>,
    /// One half of [`watch`](crate::watch()): the other is told how the run stands when it asks.
    pub watched: Option<Watched>,
}

impl<S: Steer, Q: Share, A: Allocate> Live<'_, S, Q, A> {
    /// Whether the run has no rare feature that the loop of a dispatcher would ask for at every packet: none of
    /// [`Measured::is_plain`], and neither a virtual clock nor a link nor policies that take over.
    pub(crate) fn is_plain(&self) -> bool {
        let stays = self.swaps.is_empty() && self.replacements.is_none();
        let is_real = matches!(self.clock, Clock::Real);
        is_real && stays && self.link.is_none() && self.measured.is_plain()
    }

    /// Whether a port drops what there is no room for, unseen. Not where a packet that comes may push another out, so that it
    /// has to be looked into.
    pub(crate) fn leaves_to_port(&self) -> bool {
        self.overload == Overload::Drop && !self.measured.scheduler().pushes_out()
    }

    /// Frames that may wait at a port, of those for which there is room: half, for what is held needs the other.
    pub(crate) const fn held_by_port(&self) -> u64 {
        self.packets as u64 / 2
    }
}

impl<'a, S, Q, A> Live<'a, S, Q, A> {
    /// Returns a run of the calling thread alone, by a real clock, with room for 1024 packets, as [`SchedulerConfig`]
    /// has by default. Frames go nowhere, nothing takes over, and nobody watches.
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
