//! How long others used the processors meanwhile: other programs, and other machines of the same hypervisor.

use std::fs;

/// The part of the processors that others must use for a warning. A quiet machine's own work is below 1 %.
const TOLD: f64 = 0.05;

/// The time of all processors together since the machine was started, in the kernel's ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ticks {
    all: u64,
    /// Programs and the kernel.
    busy: u64,
    /// Other machines, while this one had something to do.
    stolen: u64,
    /// This program.
    own: u64,
}

/// Looks at what others do, from now on. `None`: the kernel does not tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Others {
    began: Option<Ticks>,
}

impl Others {
    pub(super) fn look() -> Self {
        Self { began: Ticks::now() }
    }

    /// Says what others did meanwhile. Empty: too little to matter.
    pub(super) fn warnings(self) -> Vec<String> {
        let since = self.began.zip(Ticks::now()).map(|(began, now)| now.since(began));
        since.map_or_else(Vec::new, Ticks::warnings)
    }
}

impl Ticks {
    fn now() -> Option<Self> {
        let read = |path| fs::read_to_string(path).ok();
        Self::of(&read("/proc/stat")?, &read("/proc/self/stat")?)
    }

    /// Reads both files, as proc(5) has them.
    fn of(machine: &str, program: &str) -> Option<Self> {
        let numbers = machine.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map(|word| word.parse().ok());
        let [user, nice, system, idle, waiting, interrupts, soft, stolen] =
            numbers.take(8).collect::<Option<Vec<u64>>>()?.try_into().ok()?;
        let busy = user + nice + system + interrupts + soft;
        // The name of the program may have spaces.
        let mut fields = program.rsplit_once(')')?.1.split_whitespace().skip(11).map(|word| word.parse::<u64>().ok());
        let own = fields.next()?? + fields.next()??;
        Some(Self { all: busy + idle + waiting + stolen, busy, stolen, own })
    }

    const fn since(self, began: Self) -> Self {
        Self {
            all: self.all.saturating_sub(began.all),
            busy: self.busy.saturating_sub(began.busy),
            stolen: self.stolen.saturating_sub(began.stolen),
            own: self.own.saturating_sub(began.own),
        }
    }

    fn warnings(self) -> Vec<String> {
        let part = |ticks: u64| ticks as f64 / self.all.max(1) as f64;
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

    const MACHINE: &str = "cpu  1000 20 300 5000 60 7 8 90 0 0\ncpu0 500 10 150 2500 30 3 4 45 0 0\n";
    const PROGRAM: &str = "42 (hump (1) yard) S 1 42 42 0 -1 4194304 1 2 3 4 150 50 9 9 20 0 3 0 100 200 300";

    #[test]
    fn the_files_of_the_kernel_are_read() {
        let ticks = Ticks::of(MACHINE, PROGRAM);
        assert_eq!(ticks, Some(Ticks { all: 6485, busy: 1335, stolen: 90, own: 200 }));
        assert_eq!(Ticks::of("cpu  1 2 3\n", PROGRAM), None);
        assert_eq!(Ticks::of(MACHINE, "42 (humpyard) S 1"), None);
    }

    #[test]
    fn others_are_warned_of() {
        let said = |busy, stolen, own| Ticks { all: 1000, busy, stolen, own }.warnings();
        assert!(said(700, 10, 680).is_empty());
        let programs = said(700, 10, 400);
        assert_eq!(programs.len(), 1);
        assert!(programs[0].starts_with("meanwhile other programs used 30 % of the processors' time"), "{programs:?}");
        assert!(said(700, 60, 700)[0].starts_with("meanwhile other virtual machines took 6 %"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_program_is_no_other() {
        let began = Ticks::now().expect("the kernel tells");
        let mut sum = 0_u64;
        while Ticks::now().expect("the kernel tells").own < began.own + 5 {
            sum = core::hint::black_box(sum.wrapping_add(1));
        }
        let since = Ticks::now().expect("the kernel tells").since(began);
        assert!(since.own >= 5 && since.busy >= since.own / 2 && since.all >= since.busy, "{since:?}");
    }
}
