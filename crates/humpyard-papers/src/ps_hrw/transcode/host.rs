//! A separate host: a dispatcher and workers on threads, with groups of pictures as the units that the policy
//! steers.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, FlowId, Id, Slot};
use humpyard_core::measure::{Measured, Measurements, Summary};
use humpyard_core::mechanism::Arrival;
use humpyard_core::packet::Packet;
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::{Time, WorkUnit};
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::{Seat, seats};
use humpyard_transcode::{Account, Failure, Transcoder};

use super::films::{Stream, Work};
use humpyard_lab::LabError;

/// The result of a group: its bytes, or its failure.
type Transcoded = Result<Vec<u8>, Failure>;

/// The result of a run.
#[derive(Clone, Debug)]
pub(super) struct HostRun {
    pub(super) summary: Summary,
    pub(super) account: Account,
    /// The results of each stream's groups, in order.
    pub(super) streams: Vec<Vec<Transcoded>>,
    /// Mean time of an arrival, in ns: the decision, and the bookkeeping of the policy and the scheduler.
    pub(super) decision_mean_ns: f64,
    /// Mean time that a worker had a group, in ns.
    pub(super) busy_mean_ns: f64,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<'a> {
    pub(super) policy: &'a str,
    pub(super) streams: &'a [Stream],
    /// Estimated work of a group by stream, in ns.
    pub(super) estimates: &'a [u64],
    pub(super) workers: usize,
    /// The dispatcher waits while a worker has more than this many groups.
    pub(super) full: u32,
    pub(super) seed: Seed,
}

/// A group on its way to a worker.
struct Job {
    slot: Slot,
    work: Work,
}

/// A group that a worker has finished.
struct Done {
    core: CoreId,
    slot: Slot,
    begun: Instant,
    ended: Instant,
    result: Transcoded,
}

/// Does the work of one core until there are no more jobs.
fn work(core: CoreId, seat: &Seat, jobs: &Receiver<Job>, done: &Sender<Done>) {
    let _seated = seat.take();
    let mut transcoder = Transcoder::new();
    for Job { slot, work } in jobs {
        let begun = Instant::now();
        let result = work.done(&mut transcoder);
        // An error means that the run has ended.
        let _ = done.send(Done { core, slot, begun, ended: Instant::now(), result });
    }
}

/// Transcodes all streams.
///
/// # Errors
/// If a policy rejects the configuration.
pub(super) fn run(trial: &Trial<'_>) -> Result<HostRun, LabError> {
    let seats = seats(trial.workers);
    thread::scope(|scope| {
        let (done_in, done) = channel();
        let jobs = seats[1..].iter().enumerate().map(|(index, seat)| {
            let (jobs_in, jobs) = channel();
            let done_in = done_in.clone();
            scope.spawn(move || work(CoreId::from_index(index), seat, &jobs, &done_in));
            jobs_in
        });
        let jobs = jobs.collect();
        // Now only workers hold the sender: if all are gone, the dispatcher gets an error.
        drop(done_in);
        let mut dispatcher = Dispatcher::new(*trial, jobs, done)?;
        dispatcher.run();
        Ok(dispatcher.came())
    })
}

/// Asks the policy, and counts.
struct Dispatcher<'a> {
    trial: Trial<'a>,
    measured: Measured<AnySteer, AnyShare, AnyAllocate>,
    jobs: Vec<Sender<Job>>,
    done: Receiver<Done>,
    begun: Instant,
    random: Random,
    /// The hash key of each stream.
    keys: Vec<u64>,
    /// The group in each slot: its stream, and its number there.
    in_slots: HashMap<Slot, (usize, usize)>,
    streams: Vec<Vec<Option<Transcoded>>>,
    account: Account,
    deciding: Duration,
    busy: Duration,
}

impl<'a> Dispatcher<'a> {
    fn new(trial: Trial<'a>, jobs: Vec<Sender<Job>>, done: Receiver<Done>) -> Result<Self, LabError> {
        let setup = SchedulerConfig {
            cores: trial.workers,
            flows: trial.streams.len(),
            packets: trial.workers * (trial.full as usize + 2),
            unit: WorkUnit::Nanoseconds,
            longest: trial.estimates.iter().copied().max().unwrap_or(1),
            seed: trial.seed,
            ..SchedulerConfig::default()
        };
        let spec: PolicySpec = format!("estimate=oracle/{}", trial.policy).parse()?;
        let scheduler = spec.build(&setup)?;
        let mut random = trial.seed.stream("ps-hrw/transcode");
        Ok(Self {
            keys: trial.streams.iter().map(|_| random.bits()).collect(),
            random,
            measured: Measured::new(scheduler, Measurements::new(&setup)),
            jobs,
            done,
            begun: Instant::now(),
            in_slots: HashMap::new(),
            streams: trial.streams.iter().map(|stream| vec![None; stream.work.len()]).collect(),
            account: Account::default(),
            deciding: Duration::ZERO,
            busy: Duration::ZERO,
            trial,
        })
    }

    /// Returns the groups in arrival order: the next one of each stream, in an order that is drawn anew each
    /// time. A constant order would be in step with workers that are served in turn.
    fn arrivals(&mut self) -> Vec<(usize, usize)> {
        let longest = self.trial.streams.iter().map(|stream| stream.work.len()).max().unwrap_or(0);
        let mut arrivals = Vec::new();
        for number in 0..longest {
            let mut round: Vec<usize> = (0..self.trial.streams.len())
                .filter(|&stream| number < self.trial.streams[stream].work.len())
                .collect();
            for last in (1..round.len()).rev() {
                round.swap(last, self.random.below(last as u64 + 1) as usize);
            }
            arrivals.extend(round.into_iter().map(|stream| (stream, number)));
        }
        arrivals
    }

    fn now(&self) -> Time {
        self.at(Instant::now())
    }

    fn at(&self, instant: Instant) -> Time {
        Time::from_ns(instant.duration_since(self.begun).as_nanos() as u64)
    }

    fn run(&mut self) {
        let arrivals = self.arrivals();
        let mut arrivals = arrivals.into_iter();
        loop {
            while !self.is_full()
                && let Some((stream, number)) = arrivals.next()
            {
                self.arrive(stream, number);
            }
            self.hand_out();
            if arrivals.len() == 0 && self.measured.account().held == 0 {
                return;
            }
            self.wait();
        }
    }

    /// Returns whether a worker has more groups than it may.
    fn is_full(&self) -> bool {
        let scheduler = self.measured.scheduler();
        let packets = |core| scheduler.waiting(core).unwrap_or(0) + scheduler.in_service(core);
        let held = self.measured.account().held;
        held >= (self.trial.workers * self.trial.full as usize) as u64
            || (0..self.trial.workers).map(CoreId::from_index).any(|core| packets(core) > self.trial.full)
    }

    fn arrive(&mut self, stream: usize, number: usize) {
        let begun = Instant::now();
        let now = self.at(begun);
        let gop = &self.trial.streams[stream].work[number].gop;
        let packet = Packet {
            arrival: now,
            flow: FlowId::from_index(stream),
            key: self.keys[stream],
            rss: self.keys[stream] as u32,
            length: u32::try_from(gop.bytes()).unwrap_or(u32::MAX),
            estimate: self.trial.estimates[stream],
            ..Packet::default()
        };
        let arrival = self.measured.on_arrival(now, &packet);
        self.deciding += begun.elapsed();
        match arrival {
            Arrival::Queued(slot) => {
                let before = self.in_slots.insert(slot, (stream, number));
                assert_eq!(before, None, "a slot has one group");
            }
            Arrival::Dropped(reason) => unreachable!("there is room while no worker is full: {reason:?}"),
        }
    }

    /// Gives every idle worker the groups that it can take.
    fn hand_out(&mut self) {
        let now = self.now();
        while let Some(core) = self.measured.next_core(now) {
            let Some(dispatch) = self.measured.next(now, core) else { continue };
            let (stream, number) = self.in_slots[&dispatch.slot];
            let work = self.trial.streams[stream].work[number].clone();
            self.jobs[core.index()].send(Job { slot: dispatch.slot, work }).expect("a worker takes jobs to the end");
        }
    }

    /// Waits until a worker is done, or a policy's timeout.
    fn wait(&mut self) {
        let timeout = self.measured.next_timeout().map(|time| Duration::from_nanos(time.since(self.now()).as_ns()));
        match self.done.recv_timeout(timeout.unwrap_or(Duration::from_secs(3600))) {
            Ok(done) => self.complete(done),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("workers stay while there are jobs"),
        }
        while let Ok(done) = self.done.try_recv() {
            self.complete(done);
        }
        let now = self.now();
        if self.measured.next_timeout().is_some_and(|timeout| timeout <= now) {
            self.measured.on_timeout(now);
        }
    }

    fn complete(&mut self, done: Done) {
        let Done { core, slot, begun, ended, result } = done;
        let busy = ended.duration_since(begun);
        let (finished, now) = (self.at(ended), self.now());
        let taken = Time::from_ns(busy.as_nanos() as u64);
        match &result {
            Ok(_) => {
                self.measured.on_completion(now, core, slot, finished, taken);
                self.account.transcoded();
            }
            Err(failure) => {
                self.measured.on_end(now, core, slot, finished, taken);
                self.account.dropped(failure.reason);
            }
        }
        self.busy += busy;
        let (stream, number) = self.in_slots.remove(&slot).expect("it was handed out");
        self.streams[stream][number] = Some(result);
    }

    fn came(self) -> HostRun {
        assert!(self.account.holds(), "{}", self.account);
        let gops = self.account.gops_in.max(1) as f64;
        let streams = self.streams.into_iter().map(|stream| stream.into_iter().flatten().collect());
        HostRun {
            summary: self.measured.summary(),
            streams: streams.collect(),
            decision_mean_ns: self.deciding.as_nanos() as f64 / gops,
            busy_mean_ns: self.busy.as_nanos() as f64 / gops,
            account: self.account,
        }
    }
}

#[cfg(test)]
mod tests {
    use humpyard_transcode::source::Pattern;
    use humpyard_transcode::{Codec, OUTPUTS};

    use super::super::films::{film, of_film, read};
    use super::*;

    /// Returns three films, of which one is damaged in the middle.
    fn films() -> Vec<Stream> {
        let whole = film(0, Codec::Mpeg1, Pattern::Clock, 4).unwrap();
        let mut bytes: Vec<u8> = whole.gops.iter().flat_map(|gop| gop.coded()).collect();
        let (begin, length) = (whole.gops[1].offset() as usize, whole.gops[1].bytes() as usize);
        bytes[begin + length / 4..begin + length / 2].fill(0xaa);
        let damaged = read(1, bytes).unwrap();
        assert_eq!(
            damaged.gops.len(),
            5,
            "there is a group more than was asked for, to make do with fewer pictures each"
        );
        [&whole, &damaged, &whole].map(|film| of_film(film, &OUTPUTS[0], 4)).into()
    }

    #[test]
    fn what_is_damaged_is_dropped_and_nothing_is_lost() {
        let streams = films();
        for policy in ["rr", "conn", "ps-hrw", "ml"] {
            let estimates = [1_000_000; 3];
            let trial = Trial { policy, streams: &streams, estimates: &estimates, workers: 3, full: 2, seed: Seed(1) };
            let came = run(&trial).unwrap();
            assert_eq!((came.account.gops_in, came.account.gops_out), (12, 11), "{policy}: {}", came.account);
            assert_eq!(came.streams[0], came.streams[2], "{policy}");
            for (number, (whole, damaged)) in came.streams[0].iter().zip(&came.streams[1]).enumerate() {
                match damaged {
                    Ok(_) => assert_eq!(whole, damaged, "{policy}"),
                    Err(failure) => assert_eq!((number, failure.stream), (1, 1), "{policy}: {failure}"),
                }
            }
            assert_eq!(came.summary.cores_detail.iter().map(|core| core.packets).sum::<u64>(), 12, "{policy}");
        }
    }

    #[test]
    fn a_policy_that_is_not_there_is_refused() {
        let streams = films();
        let trial =
            Trial { policy: "nobody", streams: &streams, estimates: &[1; 3], workers: 1, full: 1, seed: Seed(1) };
        assert!(run(&trial).unwrap_err().to_string().contains("nobody"));
    }
}
