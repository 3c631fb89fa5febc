//! Hardware counters of each thread, if the processor has them and the system permits their use.

use std::{fs, io};

use perf_event::events::Hardware as Event;
use perf_event::{Builder, Counter};

use crate::placement::Thread;

/// The hardware counters of the threads of a run, outside of the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct HardwareCounts {
    /// By thread, the dispatcher first.
    pub threads: Vec<ThreadCounts>,
    /// The missing counters and the reasons, in one line. `None`: no counter is missing.
    pub missing: Option<String>,
}

/// The hardware counters of one thread. A counter is `None` if it did not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ThreadCounts {
    /// The thread.
    pub thread: Thread,
    /// Cycles of its processor.
    pub cycles: Option<u64>,
    /// Instructions.
    pub instructions: Option<u64>,
    /// Accesses to memory that the last cache did not have.
    pub cache_misses: Option<u64>,
}

/// The events counted, and their names.
const EVENTS: [(Event, &str); 3] =
    [(Event::CPU_CYCLES, "cycles"), (Event::INSTRUCTIONS, "instructions"), (Event::CACHE_MISSES, "cache misses")];

/// The counters of a thread, while they count.
pub(crate) struct ThreadCounters {
    thread: Thread,
    /// By [`EVENTS`].
    counters: [Option<Counter>; EVENTS.len()],
    missing: Option<String>,
}

impl ThreadCounters {
    /// Begins to count the calling thread.
    pub(crate) fn start(thread: Thread) -> Self {
        let opened = EVENTS.map(|(event, name)| (name, open(event)));
        let missing: Vec<(&str, String)> = opened
            .iter()
            .filter_map(|(name, counter)| Some((*name, reason(counter.as_ref().err()?, &paranoid()))))
            .collect();
        Self { thread, missing: told(&missing), counters: opened.map(|(_, counter)| counter.ok()) }
    }

    /// Stops counting, and returns the counts.
    pub(crate) fn end(mut self) -> HardwareCounts {
        let mut count = |at: usize| self.counters[at].as_mut().and_then(|counter| count(counter).ok().flatten());
        let counts =
            ThreadCounts { thread: self.thread, cycles: count(0), instructions: count(1), cache_misses: count(2) };
        HardwareCounts { threads: vec![counts], missing: self.missing }
    }
}

fn open(event: Event) -> io::Result<Counter> {
    let mut counter = Builder::new(event).build()?;
    counter.enable()?;
    Ok(counter)
}

/// Returns the count, scaled to the whole time if the counter shared the hardware. `None`: it never
/// had the hardware.
fn count(counter: &mut Counter) -> io::Result<Option<u64>> {
    let read = counter.read_full()?;
    let (enabled, running) = (read.time_enabled().unwrap_or_default(), read.time_running().unwrap_or_default());
    if running == enabled {
        return Ok(Some(read.count()));
    }
    let stretched = (u128::from(read.count()) * enabled.as_nanos()).checked_div(running.as_nanos());
    Ok(stretched.and_then(|count| u64::try_from(count).ok()))
}

/// Returns the system's own setting of what it permits.
fn paranoid() -> String {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .map_or("unknown".to_owned(), |text| text.trim().to_owned())
}

/// Returns why a counter cannot be opened, and what helps.
fn reason(error: &io::Error, paranoid: &str) -> String {
    let known = match error.raw_os_error().map(nix::errno::Errno::from_raw) {
        Some(nix::errno::Errno::EPERM | nix::errno::Errno::EACCES) => format!(
            "not permitted: perf_event_paranoid is {paranoid}; `sysctl kernel.perf_event_paranoid=2`, or CAP_PERFMON"
        ),
        Some(nix::errno::Errno::ENOENT | nix::errno::Errno::ENODEV | nix::errno::Errno::EOPNOTSUPP) => {
            "this machine has none, or hides it from its guests".to_owned()
        }
        Some(nix::errno::Errno::ENOSYS) => "this kernel, or its container, has no perf_event_open".to_owned(),
        _ => return error.to_string(),
    };
    format!("{known} ({error})")
}

/// Returns the missing counters in one line, each reason once.
fn told(missing: &[(&str, String)]) -> Option<String> {
    let (_, first) = missing.first()?;
    if missing.iter().all(|(_, reason)| reason == first) {
        let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
        return Some(format!("{}: {first}", names.join(", ")));
    }
    let each: Vec<String> = missing.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
    Some(each.join("; "))
}

impl HardwareCounts {
    /// Adds the counts of other threads, or of the same threads at another time.
    pub(crate) fn merge(&mut self, other: Self) {
        for counts in other.threads {
            match self.threads.iter_mut().find(|known| known.thread == counts.thread) {
                Some(known) => known.add(&counts),
                None => self.threads.push(counts),
            }
        }
        self.missing = self.missing.take().or(other.missing);
        self.threads.sort_by_key(|counts| counts.thread);
    }
}

impl ThreadCounts {
    fn add(&mut self, other: &Self) {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        self.cycles = sum(self.cycles, other.cycles);
        self.instructions = sum(self.instructions, other.instructions);
        self.cache_misses = sum(self.cache_misses, other.cache_misses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_its_reason() {
        let reason = |errno: nix::errno::Errno| reason(&io::Error::from_raw_os_error(errno as i32), "4");
        let denied = reason(nix::errno::Errno::EACCES);
        assert!(denied.contains("perf_event_paranoid is 4") && denied.contains("CAP_PERFMON"), "{denied}");
        let none = reason(nix::errno::Errno::ENOENT);
        assert!(none.starts_with("this machine has none"), "{none}");
        assert_eq!(told(&[]), None);
        let all = told(&[("cycles", none.clone()), ("instructions", none.clone())]).unwrap();
        assert_eq!(all, format!("cycles, instructions: {none}"));
        let each = told(&[("cycles", none.clone()), ("cache misses", denied.clone())]).unwrap();
        assert_eq!(each, format!("cycles: {none}; cache misses: {denied}"));
    }

    #[test]
    fn a_thread_is_counted_or_it_is_said_why_not() {
        let counters = ThreadCounters::start(Thread::Dispatcher);
        let sum: u64 = (0..100_000u64).map(core::hint::black_box).sum();
        core::hint::black_box(sum);
        let counted = counters.end();
        let [counts] = counted.threads[..] else { panic!("{counted:?}") };
        match (counts.instructions, &counted.missing) {
            (Some(instructions), _) => assert!(instructions >= 100_000, "{counted:?}"),
            (None, Some(missing)) => assert!(missing.contains("instructions"), "{missing}"),
            (None, None) => panic!("neither counted nor missing"),
        }
    }

    #[test]
    fn counts_of_a_thread_add_up() {
        let one = |thread, cycles| HardwareCounts {
            threads: vec![ThreadCounts { thread, cycles: Some(cycles), instructions: None, cache_misses: Some(1) }],
            missing: Some("instructions: none".to_owned()),
        };
        let mut all = HardwareCounts::default();
        all.merge(one(Thread::Worker(1), 5));
        all.merge(one(Thread::Dispatcher, 7));
        all.merge(one(Thread::Worker(1), 6));
        let cycles: Vec<_> = all.threads.iter().map(|counts| (counts.thread, counts.cycles)).collect();
        assert_eq!(cycles, [(Thread::Dispatcher, Some(7)), (Thread::Worker(1), Some(11))]);
        assert_eq!((all.threads[1].instructions, all.threads[1].cache_misses), (None, Some(2)));
        assert_eq!(all.missing.as_deref(), Some("instructions: none"));
    }
}
