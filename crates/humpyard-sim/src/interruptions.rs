//! Time that a machine takes away from its cores: other programs, interrupts, or a hypervisor that
//! runs another guest.

use humpyard_core::cost::Span;
use humpyard_core::id::{CoreId, Id, IdVec};
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;
use serde::Serialize;

/// Interruptions of a processor, which runs and stops in turn. The lengths are drawn from measured
/// distributions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interruptions {
    /// Lengths of the runs between interruptions, as pairs: the length in ns, and its count.
    pub runs: Vec<(u64, u64)>,
    /// Lengths of the interruptions, as pairs: the length in ns, and its count.
    pub stops: Vec<(u64, u64)>,
}

impl Interruptions {
    /// Whether it is never interrupted.
    pub fn is_none(&self) -> bool {
        count(&self.runs) == 0 || count(&self.stops) == 0
    }

    /// The part of the time that is taken; 0 to 1.
    pub fn part(&self) -> f64 {
        let mean = |lengths: &[(u64, u64)]| {
            lengths.iter().map(|&(ns, count)| ns as f64 * count as f64).sum::<f64>() / count(lengths) as f64
        };
        let (runs, stops) = (mean(&self.runs), mean(&self.stops));
        if self.is_none() { 0.0 } else { stops / (runs + stops) }
    }
}

fn count(lengths: &[(u64, u64)]) -> u64 {
    lengths.iter().map(|&(_, count)| count).sum()
}

/// Draws lengths with their measured frequencies.
#[derive(Clone, Debug)]
struct Lengths {
    /// A length, and the number of lengths up to it.
    up_to: Vec<(u64, u64)>,
}

impl Lengths {
    fn new(lengths: &[(u64, u64)]) -> Self {
        let add = |all: &mut u64, &(ns, count): &(u64, u64)| {
            *all += count;
            Some((ns, *all))
        };
        Self { up_to: lengths.iter().scan(0, add).collect() }
    }

    fn draw(&self, random: &mut Random) -> Time {
        let all = self.up_to.last().map_or(1, |&(_, all)| all);
        let place = random.below(all);
        let at = self.up_to.partition_point(|&(_, up_to)| up_to <= place);
        Time::from_ns(self.up_to.get(at).map_or(0, |&(ns, _)| ns))
    }
}

/// The sequence of stops of one thread.
#[derive(Clone, Debug)]
struct Stops {
    random: Random,
    runs: Lengths,
    stops: Lengths,
    /// The present one or the next.
    begin: Time,
    end: Time,
}

impl Stops {
    /// Returns the stops. `None`: the thread is never interrupted.
    fn new(interruptions: &Interruptions, seed: Seed, name: &str) -> Option<Self> {
        if interruptions.is_none() {
            return None;
        }
        let (runs, stops) = (Lengths::new(&interruptions.runs), Lengths::new(&interruptions.stops));
        let mut first = Self { random: seed.stream(name), runs, stops, begin: Time::ZERO, end: Time::ZERO };
        first.turn();
        Some(first)
    }

    /// Moves on to the next stop.
    fn turn(&mut self) {
        self.begin = self.end + self.runs.draw(&mut self.random);
        self.end = self.begin + self.stops.draw(&mut self.random);
    }

    /// Returns when a thread that wants to run from `now` on does run. `now` must never go back.
    fn runs_at(&mut self, now: Time) -> Time {
        while self.end <= now {
            self.turn();
        }
        if self.begin <= now { self.end } else { now }
    }

    /// Returns when work of this length ends, if it begins now while the thread runs.
    fn done(&mut self, now: Time, work: Time) -> Time {
        let mut done = now + work;
        while self.begin < done {
            if self.end > now {
                done += self.end.since(self.begin.max(now));
            }
            self.turn();
        }
        done
    }
}

/// How the threads of a run are interrupted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Disturbance {
    /// Workers, in the time in which they work.
    pub at_work: Interruptions,
    /// Workers while they are idle.
    pub idle: Interruptions,
    /// The dispatcher.
    pub dispatcher: Interruptions,
}

/// One core. Its working time and its idle time have separate interruptions, because a waiting
/// thread yields its processor.
#[derive(Clone, Debug)]
struct Core {
    at_work: Option<Stops>,
    /// The working time so far, by which its stops at work count.
    worked: Time,
    idle: Option<Stops>,
    idled: Time,
    /// When the core has finished all its packets.
    free: Time,
}

impl Core {
    /// Returns when the core begins with a packet that comes then.
    fn begin(&mut self, comes: Time) -> Time {
        if comes <= self.free {
            return self.free;
        }
        let idled = self.idled + comes.since(self.free);
        self.idled = self.idle.as_mut().map_or(idled, |stops| stops.runs_at(idled));
        comes + self.idled.since(idled)
    }

    /// Returns how long the core is interrupted during this work.
    fn interrupted(&mut self, work: Time) -> Time {
        let before = self.worked;
        self.worked = self.at_work.as_mut().map_or(before + work, |stops| stops.done(before, work));
        self.worked.since(before + work)
    }
}

/// Interrupted cores, and the interrupted dispatcher that hands them packets.
#[derive(Clone, Debug)]
pub struct Interrupted {
    dispatcher: Option<Stops>,
    cores: IdVec<CoreId, Core>,
}

impl Interrupted {
    /// Returns `cores` cores and a dispatcher, each interrupted by its own random streams.
    pub fn new(cores: usize, disturbance: &Disturbance, seed: Seed) -> Self {
        let Disturbance { at_work, idle, dispatcher } = disturbance;
        let core = |core: CoreId| Core {
            at_work: Stops::new(at_work, seed, &format!("interruptions/{}/work", core.index())),
            worked: Time::ZERO,
            idle: Stops::new(idle, seed, &format!("interruptions/{}/idle", core.index())),
            idled: Time::ZERO,
            free: Time::ZERO,
        };
        Self {
            dispatcher: Stops::new(dispatcher, seed, "interruptions/dispatcher"),
            cores: IdVec::from_fn(cores, core),
        }
    }

    /// Returns when the core begins with a packet that the dispatcher is to hand out now. The
    /// packet arrives `hand_over` after the dispatcher hands it out.
    pub(crate) fn begin(&mut self, now: Time, core: CoreId, hand_over: Time) -> Time {
        let handed = self.dispatcher.as_mut().map_or(now, |stops| stops.runs_at(now));
        self.cores[core].begin(handed + hand_over)
    }

    /// When the dispatcher runs that wants to from then on.
    pub(crate) fn dispatcher_runs_at(&mut self, now: Time) -> Time {
        self.dispatcher.as_mut().map_or(now, |stops| stops.runs_at(now))
    }

    /// Returns when the dispatcher finishes work that it begins now.
    pub(crate) fn dispatcher_done(&mut self, now: Time, work: Time) -> Time {
        self.dispatcher.as_mut().map_or(now + work, |stops| stops.done(now, work))
    }

    /// Returns when this worker begins with a packet that comes then.
    pub(crate) fn worker_begins(&mut self, worker: usize, comes: Time) -> Time {
        self.cores[CoreId::from_index(worker)].begin(comes)
    }

    /// Returns the span of work that began then, given its span without interruptions.
    pub(crate) fn serve(&mut self, begin: Time, core: CoreId, undisturbed: Span) -> Span {
        let core = &mut self.cores[core];
        let interrupted = core.interrupted(undisturbed.finished.since(begin));
        core.free = undisturbed.finished + interrupted;
        Span { finished: core.free, busy: undisturbed.busy + interrupted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(run: u64, stop: u64) -> Interruptions {
        Interruptions { runs: vec![(run, 1)], stops: vec![(stop, 1)] }
    }

    const CORE: CoreId = CoreId(0);

    fn ns(ns: u64) -> Time {
        Time::from_ns(ns)
    }

    fn undisturbed(begin: Time, work: u64) -> Span {
        Span { finished: begin + ns(work), busy: ns(work) }
    }

    #[test]
    fn what_is_interrupted_takes_longer() {
        // A worker stops for 10 after each 100 of work, and for 7 after each 30 of idle time. The
        // dispatcher stops from 50 to 90 and from 140 to 180.
        let disturbance = Disturbance { at_work: every(100, 10), idle: every(30, 7), dispatcher: every(50, 40) };
        let mut cores = Interrupted::new(1, &disturbance, Seed(1));
        let mut serve = |now, work| {
            let begin = cores.begin(ns(now), CORE, ns(5));
            let span = cores.serve(begin, CORE, undisturbed(begin, work));
            (begin.as_ns(), span.finished.as_ns(), span.busy.as_ns())
        };
        assert_eq!(serve(0, 40), (5, 45, 40));
        assert_eq!(serve(46, 70), (51, 131, 80), "interrupted once, after 60");
        assert_eq!(serve(60, 10), (131, 141, 10), "the dispatcher goes on at 90, the core has another before");
        assert_eq!(serve(150, 200), (185, 405, 220), "handed out at 180; idle for 5, 6 and 44; interrupted twice");
        assert_eq!(serve(450, 1), (461, 462, 1), "idle for 50 more, and stopped after 104");
    }

    #[test]
    fn who_comes_to_an_idle_core_may_find_it_stopped() {
        let idle = Disturbance { idle: every(30, 7), ..Disturbance::default() };
        let mut cores = Interrupted::new(1, &idle, Seed(1));
        assert_eq!(cores.begin(ns(25), CORE, ns(8)), ns(37), "idle for 33, of which it is stopped for 7");
        let mut cores = Interrupted::new(1, &idle, Seed(1));
        assert_eq!(cores.begin(ns(25), CORE, ns(2)), ns(27));
    }

    #[test]
    fn lengths_come_as_often_as_they_were_measured() {
        let interruptions = Interruptions { runs: vec![(1_000, 3), (9_000, 1)], stops: vec![(10, 9), (1_000, 1)] };
        assert!((interruptions.part() - 1_090.0 / 10.0 / (1_090.0 / 10.0 + 3_000.0)).abs() < 1e-12);
        let mut stops = Stops::new(&interruptions, Seed(5), "test").unwrap();
        let work = ns(1_000_000_000);
        let taken = stops.done(Time::ZERO, work).since(work).as_ns() as f64 / 1e9;
        let expected = 109.0 / 3_000.0;
        assert!((taken / expected - 1.0).abs() < 0.05, "{taken}, not {expected}");
        assert!(Stops::new(&Interruptions::default(), Seed(5), "test").is_none());
    }
}
