//! Observation of a run while it continues.
//!
//! [`watch`] makes two halves: a [`Watched`] goes into the run, a [`Watch`] to the observer. A
//! question sets a flag, which the dispatcher checks once per round of its loop; the answer comes
//! through a channel. While nobody asks, an observed run costs one relaxed load per round and one
//! comparison per packet.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use humpyard_core::measure::{DelayTally, LostOutside, Tally};
use humpyard_core::mechanism::Account;
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;
use humpyard_traffic::header::FlowKey;
use humpyard_traffic::sink::Sent;
use humpyard_traffic::source::Received;

use crate::load::Load;
use crate::outcome::OutAccount;
use crate::wait::Doorbell;

/// The state of a run at one moment. Counts never fall from one snapshot of a run to the next.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// Time since the start, by the clock of the run.
    pub elapsed: Time,
    /// The account of incoming packets.
    pub account: Account,
    /// The account of outgoing packets. Frames that an interface may still refuse count as
    /// forwarded until that is known.
    pub out: OutAccount,
    /// The measurements so far.
    pub tally: Tally,
    /// Packets handed to each core and not yet taken back.
    pub in_flight: Vec<u32>,
    /// Packets that wait in the queue of each core, if each core has its own queue.
    pub waiting: Vec<Option<u32>>,
    /// The flows.
    pub flows: FlowCounts,
    /// Frames received by each interface; empty if packets come from elsewhere.
    pub received: Vec<Received>,
    /// Frames sent by each interface; empty if packets go elsewhere.
    pub sent: Vec<Sent>,
    /// Measured packets that interfaces have lost.
    pub lost: LostOutside,
    /// How busy each dispatcher has been; empty by a virtual clock.
    pub loads: Vec<Load>,
    /// Time of decisions (an arrival, or a core's request), in ns; a sample.
    pub decision: DelayTally,
    /// The longest that a frame was due before the dispatcher took it in.
    pub overdue_max: Time,
    /// Policies that have taken over.
    pub swaps: u64,
    /// The policy that took over last, if one did.
    pub policy: Option<Arc<str>>,
    /// The longest that everything stood still while a policy took over.
    pub swap_pause_max: Duration,
    /// Flows of the latest sampled arrivals, in no order: one in [`SAMPLED_EVERY`] on average, at most [`SAMPLES`] of each dispatcher.
    pub sampled: Vec<FlowKey>,
}

/// The flows of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowCounts {
    /// Flows known now.
    pub known: u64,
    /// Flows seen.
    pub seen: u64,
    /// Flows that ended because another needed their place.
    pub evicted: u64,
    /// Flows that ended because they were idle for too long.
    pub expired: u64,
}

/// Mean number of arrivals per sample. The gaps are random, so that periodic arrivals are sampled
/// evenly.
pub const SAMPLED_EVERY: u64 = 64;
/// Number of latest samples that are kept.
pub const SAMPLES: usize = 1024;

/// Why there is no snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The run did not answer in time: it waits for its input or output, or another program has its
    /// processor.
    #[error("the run did not answer in time")]
    Late,
    /// The run is over.
    #[error("the run is over")]
    Over,
}

/// The state that both halves share.
#[derive(Debug, Default)]
struct Shared {
    asked: AtomicBool,
    /// The doorbell that the dispatcher sleeps on, once it exists.
    doorbell: OnceLock<Arc<Doorbell>>,
}

/// The observer's half.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    answers: Receiver<Box<Snapshot>>,
}

/// The half of the run: [`Live::watched`](crate::Live::watched).
#[derive(Debug)]
pub struct Watched {
    shared: Arc<Shared>,
    answers: SyncSender<Box<Snapshot>>,
    /// Packets reported as forwarded.
    forwarded: u64,
    /// Flows of the latest samples, and the place of the next one.
    sampled: Vec<FlowKey>,
    at: usize,
    /// The arrival that is sampled next.
    next: u64,
    random: Random,
}

/// Two halves of a watch.
pub fn watch() -> (Watch, Watched) {
    let shared = Arc::new(Shared::default());
    let (sender, answers) = sync_channel(1);
    let watched = Watched {
        shared: Arc::clone(&shared),
        answers: sender,
        forwarded: 0,
        sampled: Vec::with_capacity(SAMPLES),
        at: 0,
        next: 1,
        random: Seed::default().stream("watch"),
    };
    (Watch { shared, answers }, watched)
}

impl Watch {
    /// Returns the present state of the run. A run that has not begun answers when it begins.
    ///
    /// # Errors
    /// The run does not answer within `longest`, or is over.
    pub fn ask(&mut self, longest: Duration) -> Result<Box<Snapshot>, WatchError> {
        // Discards an answer that came too late for an earlier question.
        let _ = self.answers.try_recv();
        self.request();
        self.answers.recv_timeout(longest).map_err(|error| match error {
            RecvTimeoutError::Timeout => WatchError::Late,
            RecvTimeoutError::Disconnected => WatchError::Over,
        })
    }
}

impl Watch {
    fn request(&self) {
        self.shared.asked.store(true, Ordering::Relaxed);
        // Ringing has a fence as a ring has, and the dispatcher checks the flag before it sleeps.
        self.shared.doorbell.get().inspect(|doorbell| doorbell.ring());
    }

    /// As [`Watch::ask`], but after the end of the run it returns the final state once. `None`:
    /// there is no answer, or the final state was already returned.
    pub(crate) fn look(&mut self, longest: Duration) -> Option<Box<Snapshot>> {
        let late = self.answers.try_recv().ok();
        self.request();
        self.answers.recv_timeout(longest).ok().or(late)
    }
}

impl Snapshot {
    /// Adds the snapshot of another dispatcher of the run. Its cores follow those here. Frames of
    /// interfaces are not added.
    pub(crate) fn add(&mut self, other: &Self) {
        self.elapsed = self.elapsed.max(other.elapsed);
        self.account.add(&other.account);
        self.out.add(&other.out);
        self.tally.add(other.tally.clone());
        self.in_flight.extend(&other.in_flight);
        self.waiting.extend(&other.waiting);
        self.flows.known += other.flows.known;
        self.flows.seen += other.flows.seen;
        self.flows.evicted += other.flows.evicted;
        self.flows.expired += other.flows.expired;
        self.loads.extend(&other.loads);
        self.decision.add(&other.decision);
        self.overdue_max = self.overdue_max.max(other.overdue_max);
        // All dispatchers take over the same policies, so the one with the most takeovers has the
        // latest.
        if other.swaps > self.swaps {
            (self.swaps, self.policy) = (other.swaps, other.policy.clone());
        }
        self.swap_pause_max = self.swap_pause_max.max(other.swap_pause_max);
        self.sampled.extend(&other.sampled);
    }
}

impl Watched {
    /// Begins the run: the dispatcher sleeps on this doorbell.
    pub(crate) fn begin(&self, doorbell: &Arc<Doorbell>) {
        // A half that was in an earlier run keeps that run's bell: then the dispatcher wakes by
        // itself soon enough.
        let _ = self.shared.doorbell.set(Arc::clone(doorbell));
    }

    /// Whether somebody wants to know.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// Handles the arrival of the packet with this number, from 1; reads its flow if it is to be
    /// sampled.
    #[inline]
    pub(crate) fn on_arrival(&mut self, number: u64, flow: &FlowKey) {
        if number >= self.next {
            self.sample(number, *flow);
        }
    }

    #[cold]
    fn sample(&mut self, number: u64, flow: FlowKey) {
        if self.sampled.len() < SAMPLES {
            self.sampled.push(flow);
        } else {
            self.sampled[self.at] = flow;
            self.at = (self.at + 1) % SAMPLES;
        }
        // From 1 to twice the mean.
        self.next = number + 1 + self.random.below(2 * SAMPLED_EVERY - 1);
    }

    /// Answers with this snapshot, and adds the samples of this half to it.
    pub(crate) fn answer(&mut self, mut snapshot: Box<Snapshot>) {
        self.shared.asked.store(false, Ordering::Relaxed);
        // Frames may count as forwarded until an interface refuses them. The count must not fall,
        // so the maximum is kept.
        self.forwarded = self.forwarded.max(snapshot.out.forwarded);
        snapshot.out.forwarded = self.forwarded;
        snapshot.sampled.extend(&self.sampled);
        // Full: the last answer was not fetched. Disconnected: the observer has gone. Both may be
        // ignored.
        let _ = self.answers.try_send(snapshot);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn key(port: u16) -> FlowKey {
        FlowKey { source_port: port, ..FlowKey::default() }
    }

    fn forwarded(packets: u64) -> Box<Snapshot> {
        let mut snapshot = Snapshot::default();
        snapshot.out.forwarded = packets;
        Box::new(snapshot)
    }

    #[test]
    fn whoever_asks_is_answered_once() {
        let (mut watch, mut watched) = watch();
        assert!(!watched.is_asked());
        thread::scope(|scope| {
            let asker = scope.spawn(move || (watch.ask(LONG).map(|snapshot| snapshot.out.forwarded), watch));
            while !watched.is_asked() {
                thread::yield_now();
            }
            watched.answer(forwarded(7));
            assert!(!watched.is_asked());
            let (answer, mut watch) = asker.join().unwrap();
            assert_eq!(answer, Ok(7));
            drop(watched);
            assert_eq!(watch.ask(LONG).map(drop), Err(WatchError::Over));
        });
    }

    #[test]
    fn a_late_answer_is_not_taken_for_the_next() {
        let (mut watch, mut watched) = watch();
        assert_eq!(watch.ask(Duration::from_millis(1)).map(drop), Err(WatchError::Late));
        watched.answer(forwarded(1));
        assert_eq!(watch.ask(Duration::from_millis(1)).map(drop), Err(WatchError::Late));
        assert!(watched.is_asked());
    }

    #[test]
    fn a_sleeping_dispatcher_is_woken() {
        let (mut watch, mut watched) = watch();
        let doorbell = Arc::new(Doorbell::new().unwrap());
        watched.begin(&doorbell);
        let started = std::time::Instant::now();
        thread::scope(|scope| {
            let asker = scope.spawn(move || watch.ask(LONG).map(drop));
            while !watched.is_asked() {
                doorbell.sleep(LONG, &[], || watched.is_asked());
            }
            watched.answer(forwarded(0));
            assert_eq!(asker.join().unwrap(), Ok(()));
        });
        assert!(started.elapsed() < LONG / 2);
    }

    #[test]
    fn what_was_told_as_forwarded_stays_so() {
        let (mut watch, mut watched) = watch();
        for (counted, told) in [(5, 5), (3, 5), (9, 9)] {
            watched.answer(forwarded(counted));
            assert_eq!(watch.answers.try_recv().unwrap().out.forwarded, told);
        }
        let _ = watch.ask(Duration::ZERO);
    }

    /// Flows that come in turn, as many as the mean gap of samples, are all sampled about equally
    /// often.
    #[test]
    fn samples_have_no_rhythm_and_their_memory_is_bounded() {
        let (_watch, mut watched) = watch();
        for number in 1..=4 * SAMPLED_EVERY * SAMPLES as u64 {
            watched.on_arrival(number, &key((number % SAMPLED_EVERY) as u16));
        }
        assert_eq!((watched.sampled.len(), watched.sampled.capacity()), (SAMPLES, SAMPLES));
        let seen: HashSet<u16> = watched.sampled.iter().map(|key| key.source_port).collect();
        assert_eq!(seen.len() as u64, SAMPLED_EVERY);
        for port in seen {
            let count = watched.sampled.iter().filter(|key| key.source_port == port).count();
            assert!((2..48).contains(&count), "{port}: {count}");
        }
    }
}
