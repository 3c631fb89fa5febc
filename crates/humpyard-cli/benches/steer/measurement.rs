//! One turn of one contender with one traffic.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bed::Bed;
use crate::contender::{Contender, Running};
use crate::receiver::{Received, receive};
use crate::sender::{Sent, send};
use crate::streams;
use crate::traffic::Traffic;

/// How long packets come before a contender starts, and before it is measured.
const WARM_UP: Duration = Duration::from_millis(700);
/// More packets a second than a processor can forward.
const FLOOD: f64 = 2e6;

/// What came of one turn.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measurement {
    pub(crate) traffic: &'static str,
    pub(crate) contender: &'static str,
    /// In which round, from 0.
    pub(crate) turn: usize,
    /// Packets a second that were due, that were sent, and that came to the receiver. 0: it was TCP.
    pub(crate) due: f64,
    pub(crate) sent: f64,
    pub(crate) received: f64,
    /// Packets that were due and did not come, as a part of those due.
    pub(crate) dropped: f64,
    /// Packets that came behind a later one of their flow, as a part of those received.
    pub(crate) reordered: f64,
    /// Packets that came and that the receiver was too slow for, as a part of those received.
    pub(crate) missed: f64,
    /// TCP: bits a second that came to the receiving programs.
    pub(crate) goodput: f64,
    /// TCP: segments sent again, as a part of all.
    pub(crate) again: f64,
    /// By processor: its time in the kernel, as a part of all.
    pub(crate) busy: [f64; 2],
    /// By processor: its time in the kernel and in programs of usual priority, as a part of all.
    pub(crate) taken: [f64; 2],
    /// Processor time of `humpyard steer`, as a part of one processor's.
    pub(crate) controller: f64,
    /// How often a bucket moved, a second. `None`: none can.
    pub(crate) moves: Option<f64>,
}

/// All counts at one time.
struct Look {
    at: Instant,
    due: u64,
    sent: u64,
    received: u64,
    late: u64,
    missed: u64,
    bytes: u64,
    segments: [u64; 2],
    times: [Times; 2],
    controller_ns: u64,
}

/// What a processor did, in ticks.
#[derive(Clone, Copy)]
struct Times {
    kernel: u64,
    /// In programs of usual priority.
    user: u64,
    all: u64,
}

/// What the threads of a turn count.
#[derive(Default)]
struct Counts {
    sent: Sent,
    received: Received,
    bytes: AtomicU64,
    over: AtomicBool,
}

impl Measurement {
    pub(crate) fn take(
        bed: &Bed,
        traffic: &Traffic,
        contender: &Contender,
        turn: usize,
        rate: f64,
        seconds: f64,
    ) -> Result<Self, String> {
        let counts = Counts::default();
        thread::scope(|scope| {
            let work = scope.spawn(|| counts.run(bed, traffic, rate));
            let measured = counts.measure(bed, contender, Duration::from_secs_f64(seconds));
            counts.over.store(true, Ordering::Relaxed);
            work.join().map_err(|_| "the traffic failed".to_owned())??;
            let ([before, after], moves, steered) = measured?;
            let moves = moves.map(|moves| moves as f64 / steered.as_secs_f64());
            Ok(Self { turn, moves, ..Self::between(traffic.name, contender.name, &before, &after) })
        })
    }

    /// Returns the packets a second that the first processor forwards, sender included.
    pub(crate) fn alone(bed: &Bed, seconds: f64) -> Result<f64, String> {
        Self::take(bed, &Traffic::even(), &Contender::NONE, 0, FLOOD, seconds).map(|measured| measured.received)
    }

    fn between(traffic: &'static str, contender: &'static str, before: &Look, after: &Look) -> Self {
        let seconds = (after.at - before.at).as_secs_f64();
        let counted = |of: fn(&Look) -> u64| (of(after) - of(before)) as f64;
        let part = |some: f64, all: f64| if all > 0.0 { some / all } else { 0.0 };
        let (due, received) = (counted(|look| look.due), counted(|look| look.received));
        let part_of_time = |at: usize, of: fn(&Times) -> u64| {
            let [before, after] = [before, after].map(|look| look.times[at]);
            part((of(&after) - of(&before)) as f64, (after.all - before.all) as f64)
        };
        let busy = |at| part_of_time(at, |times| times.kernel);
        let taken = |at| part_of_time(at, |times| times.kernel + times.user);
        Self {
            traffic,
            contender,
            turn: 0,
            due: due / seconds,
            sent: counted(|look| look.sent) / seconds,
            received: received / seconds,
            dropped: part((due - received).max(0.0), due),
            reordered: part(counted(|look| look.late), received),
            missed: part(counted(|look| look.missed), received),
            goodput: 8.0 * counted(|look| look.bytes) / seconds,
            again: part(counted(|look| look.segments[1]), counted(|look| look.segments[0])),
            busy: [busy(0), busy(1)],
            taken: [taken(0), taken(1)],
            controller: counted(|look| look.controller_ns) / 1e9 / seconds,
            moves: None,
        }
    }
}

impl Counts {
    /// Sends and receives until it is over.
    fn run(&self, bed: &Bed, traffic: &Traffic, rate: f64) -> Result<(), String> {
        if traffic.is_tcp() {
            return streams::send(bed, &self.bytes, &self.over);
        }
        thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(bed, &self.received, &self.over));
            send(bed, &traffic.frames, rate, &self.sent, &self.over)?;
            receiver.join().map_err(|_| "the receiver failed".to_owned())?
        })
    }

    /// Starts a contender while packets come, and returns what was counted before and after the time to measure, how
    /// often buckets moved, and in what time.
    fn measure(
        &self,
        bed: &Bed,
        contender: &Contender,
        time: Duration,
    ) -> Result<([Look; 2], Option<u64>, Duration), String> {
        sleep(WARM_UP);
        let running = contender.start(bed)?;
        let begin = Instant::now();
        sleep(WARM_UP);
        let before = self.look(bed, &running)?;
        sleep(time);
        let after = self.look(bed, &running)?;
        Ok(([before, after], running.end()?, begin.elapsed()))
    }

    fn look(&self, bed: &Bed, running: &Running<'_>) -> Result<Look, String> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok(Look {
            at: Instant::now(),
            due: count(&self.sent.due),
            sent: count(&self.sent.sent),
            received: count(&self.received.frames),
            late: count(&self.received.late),
            missed: count(&self.received.missed),
            bytes: count(&self.bytes),
            segments: streams::segments(bed)?,
            times: times(bed.processors())?,
            controller_ns: running.time()?.as_nanos() as u64,
        })
    }
}

/// Reads what these processors did.
fn times(processors: [usize; 2]) -> Result<[Times; 2], String> {
    let text = fs::read_to_string("/proc/stat").map_err(|error| format!("/proc/stat: {error}"))?;
    let read = |processor: usize| {
        let name = format!("cpu{processor} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // user, nice, system, idle, waiting, interrupts, soft interrupts; the rest is of guests and of the host.
        match ticks[..] {
            [user, _, system, _, _, hard, soft, ..] => {
                Ok(Times { kernel: system + hard + soft, user, all: ticks.iter().take(7).sum() })
            }
            _ => Err(format!("/proc/stat has no line of processor {processor}")),
        }
    };
    Ok([read(processors[0])?, read(processors[1])?])
}
