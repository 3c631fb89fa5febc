//! The processors to which threads are pinned.

use humpyard_runtime::processors;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Some processors of this machine.
#[derive(Clone, Debug)]
pub(super) struct Processors {
    asked: usize,
    found: Vec<usize>,
}

impl Processors {
    /// Returns the first `asked` processors that this program may use.
    pub(super) fn first(asked: usize) -> Self {
        Self { asked, found: processors().into_iter().take(asked).collect() }
    }

    /// Returns the number of processors asked for.
    pub(super) fn asked(&self) -> usize {
        self.asked
    }

    /// Pins the calling thread to all of them. Returns whether that succeeded.
    pub(super) fn take_place(&self) -> bool {
        let mut set = CpuSet::new();
        let named = self.found.iter().all(|&processor| set.set(processor).is_ok());
        named && !self.found.is_empty() && sched_setaffinity(Pid::from_raw(0), &set).is_ok()
    }

    /// Describes how the processors fall short of the request; empty if they do not.
    pub(super) fn shortage(&self, is_pinned: bool) -> String {
        if !is_pinned {
            return "threads could not be pinned".to_owned();
        }
        match (self.found.len(), self.asked) {
            (found, asked) if found < asked => format!("{asked} processors were asked for, and {found} may be used"),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told() {
        let processors = |asked, found: &[usize]| Processors { asked, found: found.to_vec() };
        assert_eq!(processors(1, &[4]).shortage(true), "");
        assert_eq!(processors(2, &[4]).shortage(true), "2 processors were asked for, and 1 may be used");
        assert_eq!(processors(2, &[4, 5]).shortage(false), "threads could not be pinned");
        assert!(!processors(1, &[]).take_place());
    }

    #[test]
    fn a_thread_takes_its_place() {
        let one = Processors::first(1);
        let seen = std::thread::spawn(move || (one.take_place(), processors(), one.found)).join().unwrap();
        assert!(seen.0 && seen.1 == seen.2, "{seen:?}");
    }
}
