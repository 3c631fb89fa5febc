//! Looking at a run while it goes on.
//!
//! [`watch`] makes two halves: a [`Watched`] goes into the run, a [`Watch`] to whoever wants to know. Asking sets a flag, which
//! the dispatcher looks at once per round of its loop; what it finds is handed over by a channel. While nobody asks, a run that
//! is watched does one relaxed load per round and one comparison per packet more than another.

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

/// A run as it was at one moment. Everything that is a count only ever rises from one snapshot of a run to the next.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// Time since the start, by the clock of the run.
    pub elapsed: Time,
    /// The account of what came in.
    pub account: Account,
    /// The account of what went out. What an interface may yet refuse counts as forwarded until that is known.
    pub out: OutAccount,
    /// What was measured.
    pub tally: Tally,
    /// Packets handed to each core and not yet taken back.
    pub in_flight: Vec<u32>,
    /// Packets that wait in the queue of each core, where each has one of its own.
    pub waiting: Vec<Option<u32>>,
    /// The flows.
    pub flows: FlowCounts,
    /// What came by each interface; empty where packets come from elsewhere.
    pub received: Vec<Received>,
    /// What went out by each interface; empty where packets go elsewhere.
    pub sent: Vec<Sent>,
    /// Packets that interfaces have lost, of those that are measured.
    pub lost: LostOutside,
    /// How busy each dispatcher has been; empty by a virtual clock.
    pub loads: Vec<Load>,
    /// Time of decisions (an arrival, or the question of a core), in ns; a sample of them.
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

/// One in so many arrivals is sampled, on average. The gaps are drawn, so that no rhythm of the arrivals goes unseen.
pub const SAMPLED_EVERY: u64 = 64;
/// So many samples are kept, the latest.
pub const SAMPLES: usize = 1024;

/// Why there is no snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The run did not answer in time: it waits for its input or its output, or its processor is taken.
    #[error("the run did not answer in time")]
    Late,
    /// The run is over.
    #[error("the run is over")]
    Over,
}

/// What both halves see.
#[derive(Debug, Default)]
struct Shared {
    asked: AtomicBool,
    /// What the dispatcher sleeps on, once there is one.
    doorbell: OnceLock<Arc<Doorbell>>,
}

/// The half of whoever wants to know.
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
    /// Packets told to be forwarded.
    forwarded: u64,
    /// Flows of the latest samples, and where the next one goes.
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
    /// How the run stands now. One that has not begun answers when it does.
    ///
    /// # Errors
    /// If it does not answer for so long, or is over.
    pub fn ask(&mut self, longest: Duration) -> Result<Box<Snapshot>, WatchError> {
        // An answer that came too late for whoever asked for it.
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
        // Its fence is that of a ring, and the dispatcher looks at the flag before it sleeps.
        self.shared.doorbell.get().inspect(|doorbell| doorbell.ring());
    }

    /// As [`Watch::ask`], but what is over says what it had come to, once: none if there is no answer, or was one.
    pub(crate) fn look(&mut self, longest: Duration) -> Option<Box<Snapshot>> {
        let late = self.answers.try_recv().ok();
        self.request();
        self.answers.recv_timeout(longest).ok().or(late)
    }
}

impl Snapshot {
    /// Adds what another dispatcher of the run told, whose cores follow those here. What came and went by interfaces is not its.
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
        // The same policies take over at each, and whoever is ahead has the latest.
        if other.swaps > self.swaps {
            (self.swaps, self.policy) = (other.swaps, other.policy.clone());
        }
        self.swap_pause_max = self.swap_pause_max.max(other.swap_pause_max);
        self.sampled.extend(&other.sampled);
    }
}

impl Watched {
    /// The run begins: this is what its dispatcher sleeps on.
    pub(crate) fn begin(&self, doorbell: &Arc<Doorbell>) {
        // A half that was in a run before is rung by its first bell: it wakes by itself soon enough.
        let _ = self.shared.doorbell.set(Arc::clone(doorbell));
    }

    /// Whether somebody wants to know.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// The packet with this number, from 1, arrived: its flow is asked for if it is to be sampled.
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

    /// Answers with this snapshot, which gets the samples of this half beside those that it has.
    pub(crate) fn answer(&mut self, mut snapshot: Box<Snapshot>) {
        self.shared.asked.store(false, Ordering::Relaxed);
        // What an interface refuses was told as forwarded, when it had not yet done so; a count does not fall.
        self.forwarded = self.forwarded.max(snapshot.out.forwarded);
        snapshot.out.forwarded = self.forwarded;
        snapshot.sampled.extend(&self.sampled);
        // Full, and the answer before was not fetched; gone, and nobody wants it.
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

    /// Flows that come in turn, as many as are sampled at a time, are all seen, and about equally often.
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
