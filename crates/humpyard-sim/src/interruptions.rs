//! What a machine takes away from its cores by time: other programs, interrupts, a host that has given the processor to another guest.

use humpyard_core::cost::Span;
use humpyard_core::id::{CoreId, Id, IdVec};
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;
use serde::Serialize;

/// How a processor is interrupted: runs and stops in turn, each of them drawn from what was measured.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Interruptions {
    /// Lengths of runs in ns, and how many there were of each.
    pub runs: Vec<(u64, u64)>,
    /// Lengths of stops likewise.
    pub stops: Vec<(u64, u64)>,
}

impl Interruptions {
    /// Whether it is never interrupted.
    pub fn is_none(&self) -> bool {
        count(&self.runs) == 0 || count(&self.stops) == 0
    }

    /// The part of the time that is taken; 0 to 1.
    pub fn part(&self) -> f64 {
        let sum = |lengths: &[(u64, u64)]| lengths.iter().map(|&(ns, count)| ns as f64 * count as f64).sum::<f64>();
        let (runs, stops) = (sum(&self.runs), sum(&self.stops));
        if self.is_none() { 0.0 } else { stops / (runs + stops) }
    }
}

fn count(lengths: &[(u64, u64)]) -> u64 {
    lengths.iter().map(|&(_, count)| count).sum()
}

/// Draws lengths as often as they were measured.
#[derive(Clone, Debug)]
struct Lengths {
    /// The length, and how many were of this or a lesser one.
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

/// The stops of one thread, as they come.
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
    /// None of a thread that is never interrupted.
    fn new(interruptions: &Interruptions, seed: Seed, name: &str) -> Option<Self> {
        if interruptions.is_none() {
            return None;
        }
        let (runs, stops) = (Lengths::new(&interruptions.runs), Lengths::new(&interruptions.stops));
        let mut first = Self { random: seed.stream(name), runs, stops, begin: Time::ZERO, end: Time::ZERO };
        first.turn();
        Some(first)
    }

    /// Goes on with the next.
    fn turn(&mut self) {
        self.begin = self.end + self.runs.draw(&mut self.random);
        self.end = self.begin + self.stops.draw(&mut self.random);
    }

    /// When it runs that wants to from `now` on, which never goes back.
    fn runs_at(&mut self, now: Time) -> Time {
        while self.end <= now {
            self.turn();
        }
        if self.begin <= now { self.end } else { now }
    }

    /// When work of so long is done that begins now, while it runs.
    fn done(&mut self, now: Time, work: Time) -> Time {
        let mut done = now + work;
        while self.begin < done {
            if self.end > now {
                done = done + self.end.since(self.begin.max(now));
            }
            self.turn();
        }
        done
    }
}

/// Cores, and a dispatcher who hands them packets, that are interrupted.
#[derive(Clone, Debug)]
pub struct Interrupted {
    dispatcher: Option<Stops>,
    cores: IdVec<CoreId, Option<Stops>>,
    /// When each core is done with all that it was given.
    free: IdVec<CoreId, Time>,
}

impl Interrupted {
    /// So many cores and a dispatcher, each interrupted by a random stream of its own.
    pub fn new(cores: usize, of_cores: &Interruptions, of_dispatcher: &Interruptions, seed: Seed) -> Self {
        let stops = |core: CoreId| Stops::new(of_cores, seed, &format!("interruptions/{}", core.index()));
        Self {
            dispatcher: Stops::new(of_dispatcher, seed, "interruptions/dispatcher"),
            cores: IdVec::from_fn(cores, stops),
            free: IdVec::from_fn(cores, |_| Time::ZERO),
        }
    }

    /// When a dispatcher who is to hand out a packet now does so, and the core, to which it comes so long after, begins with it.
    pub(crate) fn begin(&mut self, now: Time, core: CoreId, hand_over: Time) -> Time {
        let handed = self.dispatcher.as_mut().map_or(now, |stops| stops.runs_at(now)) + hand_over;
        let begin = handed.max(self.free[core]);
        self.cores[core].as_mut().map_or(begin, |stops| stops.runs_at(begin))
    }

    /// The time of work that began then, and would be done so if nobody came in between.
    pub(crate) fn serve(&mut self, begin: Time, core: CoreId, undisturbed: Span) -> Span {
        let work = undisturbed.finished.since(begin);
        let finished = self.cores[core].as_mut().map_or(undisturbed.finished, |stops| stops.done(begin, work));
        self.free[core] = finished;
        Span { finished, busy: undisturbed.busy + finished.since(undisturbed.finished) }
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
        // Stops from 100 to 110, 210 to 220 and so on; the dispatcher's from 50 to 90, 140 to 180.
        let mut cores = Interrupted::new(1, &every(100, 10), &every(50, 40), Seed(1));
        let mut serve = |now, work| {
            let begin = cores.begin(ns(now), CORE, ns(5));
            let span = cores.serve(begin, CORE, undisturbed(begin, work));
            (begin.as_ns(), span.finished.as_ns(), span.busy.as_ns())
        };
        assert_eq!(serve(0, 40), (5, 45, 40));
        assert_eq!(serve(60, 10), (95, 115, 20), "handed out when the dispatcher goes on; interrupted once");
        assert_eq!(serve(115, 20), (120, 140, 20));
        assert_eq!(serve(150, 200), (185, 405, 220), "interrupted twice");
        assert_eq!(serve(310, 15), (405, 420, 15), "the core has another before");
        let mut alone = Interrupted::new(1, &every(100, 10), &Interruptions::default(), Seed(1));
        assert_eq!(alone.begin(ns(103), CORE, ns(5)), ns(110), "the core goes on then");
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
