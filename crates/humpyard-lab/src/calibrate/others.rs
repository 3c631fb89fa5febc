//! What others did on the processors meanwhile: other programs, and other machines of the same hypervisor.

use core::time::Duration;

use humpyard_wire::{ProcessorCount, processors};
use nix::time::{ClockId, clock_gettime};

use super::first_cache::{FirstCaches, SlowLooks};

/// The part of the processors that others must use for a warning. A quiet machine's own work is below 1 %.
const TOLD: f64 = 0.05;
/// The part of the looks that must find a slow core for a warning.
const TOLD_SLOW: f64 = 0.1;

/// The time of all processors together since the machine was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MachineTimes {
    all: Duration,
    /// Programs and the kernel.
    busy: Duration,
    /// Other machines, while this one had something to do.
    stolen: Duration,
    /// This program.
    own: Duration,
}

/// Looks at what others do, from now on.
#[derive(Clone, Debug)]
pub(crate) struct Others {
    /// `None`: the kernel does not tell.
    began: Option<MachineTimes>,
    caches: FirstCaches,
}

impl Others {
    /// Begins, without a look at the cores.
    pub(crate) fn begin() -> Self {
        Self { began: MachineTimes::now(), caches: FirstCaches::default() }
    }

    /// Looks at the cores, for 0.2 s, while this program does nothing else.
    pub(crate) fn look(&mut self) {
        self.caches.look();
    }

    /// Says what others did meanwhile. Empty: too little to matter.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let since = self.began.zip(MachineTimes::now()).map(|(began, now)| now.since(began));
        let mut warnings = since.map_or_else(Vec::new, MachineTimes::warnings);
        warnings.extend(slow_cores(self.caches.slow()));
        warnings
    }
}

fn slow_cores(SlowLooks { part, factor }: SlowLooks) -> Option<String> {
    (part >= TOLD_SLOW).then(|| {
        format!(
            "in {:.0} % of the looks at the processors, their first caches took {factor:.1} times as long as at best: \
             something else probably worked on the same cores, so live runs differ from each other and from \
             predictions",
            100.0 * part
        )
    })
}

impl MachineTimes {
    fn now() -> Option<Self> {
        let own = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).ok()?;
        Some(Self::of(&processors().ok()?, own.into()))
    }

    fn of(counts: &[ProcessorCount], own: Duration) -> Self {
        let sum = |time: fn(&ProcessorCount) -> Duration| counts.iter().map(time).sum();
        let busy: Duration = sum(|count| count.user + count.system + count.softirq);
        let stolen: Duration = sum(|count| count.stolen);
        Self { all: busy + stolen + sum(|count| count.idle), busy, stolen, own }
    }

    fn since(self, began: Self) -> Self {
        Self {
            all: self.all.saturating_sub(began.all),
            busy: self.busy.saturating_sub(began.busy),
            stolen: self.stolen.saturating_sub(began.stolen),
            own: self.own.saturating_sub(began.own),
        }
    }

    fn warnings(self) -> Vec<String> {
        let part = |time: Duration| time.as_secs_f64() / self.all.as_secs_f64().max(f64::MIN_POSITIVE);
        let programs = (part(self.busy.saturating_sub(self.own)), "other programs used");
        let machines = (part(self.stolen), "other virtual machines took");
        let told = [programs, machines].into_iter().filter(|(part, _)| *part >= TOLD);
        told.map(|(part, who)| {
            format!(
                "meanwhile {who} {:.0} % of the processors' time: predictions are for a machine that does nothing else",
                100.0 * part
            )
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn times_of_all_processors_are_added() {
        let count =
            ProcessorCount { user: ms(500), system: ms(150), softirq: ms(20), idle: ms(2500), ..Default::default() };
        let other = ProcessorCount { stolen: ms(45), ..count };
        let expected = MachineTimes { all: ms(6385), busy: ms(1340), stolen: ms(45), own: ms(200) };
        assert_eq!(MachineTimes::of(&[count, other], ms(200)), expected);
    }

    #[test]
    fn others_are_warned_of() {
        let said = |busy, stolen, own| {
            MachineTimes { all: ms(1000), busy: ms(busy), stolen: ms(stolen), own: ms(own) }.warnings()
        };
        assert!(said(700, 10, 680).is_empty());
        let programs = said(700, 10, 400);
        assert_eq!(programs.len(), 1);
        assert!(programs[0].starts_with("meanwhile other programs used 30 % of the processors' time"), "{programs:?}");
        assert!(said(700, 60, 700)[0].starts_with("meanwhile other virtual machines took 6 %"));
    }

    #[test]
    fn slow_cores_are_warned_of() {
        assert_eq!(slow_cores(SlowLooks { part: 0.02, factor: 1.9 }), None);
        let said = slow_cores(SlowLooks { part: 0.75, factor: 1.91 }).expect("a warning");
        assert!(
            said.starts_with("in 75 % of the looks at the processors, their first caches took 1.9 times"),
            "{said}"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_program_is_no_other() {
        let now = || MachineTimes::now().expect("the kernel tells");
        let began = now();
        let mut sum = 0_u64;
        while now().own < began.own + ms(50) {
            sum = core::hint::black_box(sum.wrapping_add(1));
        }
        let since = now().since(began);
        assert!(since.own >= ms(50) && since.busy >= since.own / 2 && since.all >= since.busy, "{since:?}");
    }
}
