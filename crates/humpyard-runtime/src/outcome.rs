//! The outcome of a live run.

use std::io;

use humpyard_core::id::ServiceId;
use humpyard_core::link::LinkOutcome;
use humpyard_core::measure::{Histogram, LostOutside, Measured};
use humpyard_core::mechanism::{self, TakenOver};
use humpyard_core::policy::BuildError;
use humpyard_core::unit::Time;
use humpyard_services::{DropReason, Verdict};
use humpyard_traffic::TrafficError;
use humpyard_traffic::flow::Heaviest;
use humpyard_traffic::pace::ClockJumps;
use humpyard_traffic::sink::Sent;
use humpyard_traffic::source::Received;

use crate::counters::Counters;
use crate::load::Load;
use crate::placement::Seat;

/// The account of the packets that were served and of those that services made: always `processed +
/// generated = forwarded + consumed + held + dropped`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutAccount {
    /// Packets whose service is complete.
    pub processed: u64,
    /// Packets that services made.
    pub generated: u64,
    /// Packets that went out.
    pub forwarded: u64,
    /// Packets that ended at a service, as intended.
    pub consumed: u64,
    /// Packets that wait to go out, in the order of their flow or at the link.
    pub held: u64,
    dropped: [u64; DropReason::COUNT],
    /// Packets dropped at the link, if there is one.
    at_link: Option<[u64; mechanism::DropReason::ALL.len()]>,
}

impl Default for OutAccount {
    fn default() -> Self {
        Self {
            processed: 0,
            generated: 0,
            forwarded: 0,
            consumed: 0,
            held: 0,
            dropped: [0; DropReason::COUNT],
            at_link: None,
        }
    }
}

impl OutAccount {
    /// Returns an empty account of a run with or without a link behind the cores.
    pub(crate) fn new(has_link: bool) -> Self {
        Self { at_link: has_link.then(Default::default), ..Self::default() }
    }

    /// Returns the packets dropped by services, for each reason that occurred.
    pub fn dropped(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&reason| (reason, self.dropped[reason.index()])).filter(|&(_, count)| count > 0)
    }

    /// Returns the packets dropped at the link, by reason; empty without a link.
    pub fn dropped_at_link(&self) -> impl Iterator<Item = (mechanism::DropReason, u64)> + '_ {
        let counts = self.at_link.iter().flatten().copied();
        mechanism::DropReason::ALL.into_iter().zip(counts)
    }

    /// Whether every packet is accounted for.
    pub fn balances(&self) -> bool {
        let dropped: u64 = self.dropped.iter().chain(self.at_link.iter().flatten()).sum();
        self.processed + self.generated == self.forwarded + self.consumed + self.held + dropped
    }

    /// Adds the packets of another account.
    pub(crate) fn add(&mut self, other: &Self) {
        self.processed += other.processed;
        self.generated += other.generated;
        self.forwarded += other.forwarded;
        self.consumed += other.consumed;
        self.held += other.held;
        self.dropped.iter_mut().zip(&other.dropped).for_each(|(sum, other)| *sum += other);
    }

    /// Records that a packet was served: it ends there, or is held until it goes out.
    pub(crate) fn on_verdict(&mut self, verdict: Verdict) {
        self.processed += 1;
        match verdict {
            Verdict::Forward => self.held += 1,
            Verdict::Consume => self.consumed += 1,
            Verdict::Drop(reason) => self.dropped[reason.index()] += 1,
        }
    }

    /// Records that a held packet goes out.
    pub(crate) fn on_exit(&mut self) {
        self.held -= 1;
        self.forwarded += 1;
    }

    /// A packet that was held is dropped at the link.
    pub(crate) fn on_drop_at_link(&mut self, reason: mechanism::DropReason) {
        self.held -= 1;
        self.at_link.get_or_insert_default()[reason as usize] += 1;
    }

    /// Counts packets that went out and that their interface did not take as dropped.
    pub(crate) fn on_sent(&mut self, sent: &[Sent]) {
        for sent in sent {
            let lost = [
                (DropReason::OutputFull, sent.full),
                (DropReason::OutputTooLong, sent.too_long),
                (DropReason::OutputDown, sent.down),
                (DropReason::OutputMade, sent.made),
            ];
            for (reason, count) in lost {
                self.forwarded -= count;
                self.dropped[reason.index()] += count;
            }
        }
    }

    /// Records that a service made a packet, which is held until it goes out.
    pub(crate) fn on_generated(&mut self) {
        self.generated += 1;
        self.held += 1;
    }
}

/// The outcome of a live run. `M` is the measurements: a [`Measured`], or a [`Part`] of each of
/// several dispatchers.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome<M> {
    /// The mechanism, with the account of incoming packets and the measurements.
    pub measured: M,
    /// The account of outgoing packets.
    pub out: OutAccount,
    /// The results of the link behind the cores, if there is one.
    pub link: Option<LinkOutcome>,
    /// Frames that were read, but whose time had not come when the run was stopped: they did not
    /// arrive.
    pub skipped: u64,
    /// Contradictions between the accounts of reader, dispatchers and writer. `None`: all accounts
    /// balance, or there is only one dispatcher, whose accounts are `measured` and `out`.
    pub unaccounted: Option<String>,
    /// Frames received by each interface; empty if packets came from elsewhere.
    pub received: Vec<Received>,
    /// Frames sent by each interface; empty if packets went elsewhere.
    pub sent: Vec<Sent>,
    /// Measured packets that interfaces lost.
    pub lost: LostOutside,
    /// How busy each dispatcher was; empty by a virtual clock.
    pub loads: Vec<Load>,
    /// The services' own counters.
    pub counters: Counters,
    /// The panic of a service at the earliest packet, if a service panicked.
    pub panic: Option<ServicePanic>,
    /// The damage at which the source ended, if it did not end well.
    pub damage: Option<TrafficError>,
    /// Whether the run was ended from outside.
    pub interrupted: bool,
    /// The longest that a due frame waited for the dispatcher. More than a moment: the dispatcher
    /// could not keep up.
    pub overdue_max: Time,
    /// The policies that took over, in order, including those of every replacement, even if they
    /// are the same.
    pub taken_over: Vec<TakenOver>,
    /// The longest that everything stood still while a policy took over.
    pub swap_pause_max: core::time::Duration,
    /// Number of replacements of policies, weights or workers during the run.
    pub replacements: u64,
    /// Time from the first frame read to the last written.
    pub wall: core::time::Duration,
    /// Time of decisions (an arrival, or a core's request), in ns; a sample.
    pub decision: Histogram,
    /// Flows seen.
    pub flows: u64,
    /// The heaviest of them.
    pub heaviest: Heaviest,
    /// Jumps of the source's clock; none if packets come as fast as they are taken.
    pub clock_jumps: ClockJumps,
    /// The seat of each thread.
    pub seats: Vec<Seat>,
}

impl<S, Q, A> Outcome<Measured<S, Q, A>> {
    /// Converts the outcome of one dispatcher with this many workers to the outcome of several.
    pub fn into_parts(self, workers: usize) -> Outcome<Vec<Part<S, Q, A>>> {
        let (out, flows) = (self.out.clone(), self.flows);
        self.map(|measured| vec![Part { measured, out, flows, workers }])
    }
}

impl<M> Outcome<M> {
    /// Converts the measurements; everything else stays the same.
    pub(crate) fn map<N>(self, convert: impl FnOnce(M) -> N) -> Outcome<N> {
        Outcome {
            measured: convert(self.measured),
            out: self.out,
            link: self.link,
            skipped: self.skipped,
            unaccounted: self.unaccounted,
            received: self.received,
            sent: self.sent,
            lost: self.lost,
            loads: self.loads,
            counters: self.counters,
            panic: self.panic,
            damage: self.damage,
            interrupted: self.interrupted,
            overdue_max: self.overdue_max,
            taken_over: self.taken_over,
            swap_pause_max: self.swap_pause_max,
            replacements: self.replacements,
            wall: self.wall,
            decision: self.decision,
            flows: self.flows,
            heaviest: self.heaviest,
            clock_jumps: self.clock_jumps,
            seats: self.seats,
        }
    }
}

/// The part of one of several dispatchers.
#[derive(Debug)]
#[non_exhaustive]
pub struct Part<S, Q, A> {
    /// Its mechanism, with the account of its incoming packets and its measurements.
    pub measured: Measured<S, Q, A>,
    /// The account of its outgoing packets. Frames that an interface refused count as forwarded,
    /// because they are not known by dispatcher.
    pub out: OutAccount,
    /// Flows that it saw.
    pub flows: u64,
    /// Its workers.
    pub workers: usize,
}

/// A service panicked at a packet, which was dropped for [`DropReason::ServicePanicked`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ServicePanic {
    /// The packet's number among those that came in, from 1.
    pub packet: u64,
    /// The service.
    pub service: ServiceId,
    /// The reason and the place in the source code, in one line.
    pub message: String,
}

/// Why a live run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The source or the sink failed, for a reason other than damage within the source.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The system provides no way for workers to wake the dispatcher.
    #[error("cannot make an event to be woken by: {0}; raise the limit of open files")]
    Doorbell(io::Error),
    /// A thread could not be started.
    #[error("cannot start a worker thread: {0}; use fewer workers")]
    Thread(io::Error),
    /// A policy that was to take over could not.
    #[error(transparent)]
    Swap(BuildError),
    /// A worker thread ended before its time.
    #[error("worker {0} is gone: a service panicked while it was made anew")]
    WorkerLost(usize),
}
