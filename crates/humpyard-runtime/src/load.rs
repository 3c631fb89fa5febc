//! How busy dispatchers are.

use core::sync::atomic::{AtomicU64, Ordering};

use humpyard_core::unit::Time;

/// The busy time of a dispatcher and its cores so far, by the machine's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Time since the start of the run.
    pub elapsed: Time,
    /// Time of that in which the dispatcher worked rather than waited. Time in which another thread
    /// has its processor counts as busy, unless the dispatcher gave the processor away. With
    /// `cores` 0 it includes the work of services.
    pub busy: Time,
    /// Total time in which its cores were busy with packets that are done.
    pub cores_busy: Time,
    /// Number of its worker threads; 0: it does their work itself.
    pub cores: usize,
}

/// Called now and then with the load of each dispatcher of a run so far.
pub type Hears<'a> = &'a mut dyn FnMut(&[Load]);

impl Load {
    /// The part of the time in which the dispatcher was busy.
    pub fn busy_fraction(&self) -> f64 {
        fraction(self.busy, self.elapsed)
    }

    /// Returns the mean busy fraction of its workers; without workers, the fraction in which it did
    /// their work itself.
    pub fn utilization(&self) -> f64 {
        fraction(self.cores_busy, self.elapsed) / self.cores.max(1) as f64
    }

    /// The load since an earlier look at the same dispatcher.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            elapsed: self.elapsed.since(earlier.elapsed),
            busy: self.busy.since(earlier.busy),
            cores_busy: self.cores_busy.since(earlier.cores_busy),
            cores: self.cores,
        }
    }
}

fn fraction(part: Time, whole: Time) -> f64 {
    if whole == Time::ZERO { 0.0 } else { part.as_ns() as f64 / whole.as_ns() as f64 }
}

/// A load that one thread writes and another reads.
#[derive(Debug, Default)]
pub(crate) struct SharedLoad([AtomicU64; 4]);

impl SharedLoad {
    pub(crate) fn tell(&self, load: Load) {
        let told = [load.elapsed.as_ns(), load.busy.as_ns(), load.cores_busy.as_ns(), load.cores as u64];
        self.0.iter().zip(told).for_each(|(to, value)| to.store(value, Ordering::Relaxed));
    }

    pub(crate) fn look(&self) -> Load {
        let [elapsed, busy, cores_busy, cores] = [0, 1, 2, 3].map(|at: usize| self.0[at].load(Ordering::Relaxed));
        let time = Time::from_ns;
        Load { elapsed: time(elapsed), busy: time(busy), cores_busy: time(cores_busy), cores: cores as usize }
    }
}

/// Adds up the time in which a thread has nothing to do. It reads no clock: the thread passes the
/// time.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    since: Option<Time>,
    total: Time,
}

impl Idle {
    /// Begins idle time at `now`, unless the thread is idle already.
    pub(crate) fn begin(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// Ends idle time.
    pub(crate) fn end(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            self.add(now.since(since));
        }
    }

    /// Adds time for which the thread gave its processor away.
    pub(crate) fn add(&mut self, time: Time) {
        self.total += time;
    }

    /// Returns the total idle time up to `now`.
    pub(crate) fn total(&self, now: Time) -> Time {
        self.since.map_or(self.total, |since| self.total + now.since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ns(time: u64) -> Time {
        Time::from_ns(time)
    }

    #[test]
    fn waiting_adds_up_and_what_lasts_counts() {
        let mut idle = Idle::default();
        idle.end(ns(5));
        assert_eq!(idle.total(ns(9)), ns(0));
        [10, 15, 20].into_iter().for_each(|now| idle.begin(ns(now)));
        assert_eq!(idle.total(ns(30)), ns(20));
        idle.end(ns(40));
        idle.add(ns(7));
        idle.begin(ns(50));
        assert_eq!(idle.total(ns(51)), ns(38));
    }

    #[test]
    fn fractions_are_those_of_the_interval() {
        let earlier = Load { elapsed: ns(100), busy: ns(100), cores_busy: ns(0), cores: 2 };
        let now = Load { elapsed: ns(300), busy: ns(150), cores_busy: ns(100), cores: 2 };
        let shared = SharedLoad::default();
        assert_eq!(shared.look(), Load::default());
        shared.tell(now);
        let between = shared.look().since(&earlier);
        assert_eq!((now.busy_fraction(), between.busy_fraction(), between.utilization()), (0.5, 0.25, 0.25));
        assert_eq!((Load::default().busy_fraction(), Load { cores: 0, ..now }.utilization()), (0.0, 1.0 / 3.0));
    }
}
