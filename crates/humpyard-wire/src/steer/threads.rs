//! Threads of the kernel that take packets from an interface (threaded NAPI), rather than its deferred work.
//!
//! # Source
//! Linux, `Documentation/networking/napi.rst`, "Threaded NAPI"; `Documentation/filesystems/proc.rst`
//! (`/proc/PID/stat`).

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::processors::TICK_NS;

/// Columns of `/proc/PID/stat` behind the name: time in programs, time in the kernel, the processor.
const USER: usize = 11;
const SYSTEM: usize = 12;
const PROCESSOR: usize = 36;

/// How long a thread has run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadTime {
    /// Its number.
    pub thread: u32,
    /// The processor that it ran on last.
    pub processor: u32,
    /// Its time on processors since it was made.
    pub time: Duration,
}

/// The threads of an interface.
#[derive(Debug)]
pub struct NapiThreads {
    interface: String,
    is_on: bool,
    threads: Vec<u32>,
}

impl NapiThreads {
    /// Finds the threads of an interface.
    pub fn of(interface: &str) -> Self {
        let mut found = Self { interface: interface.to_owned(), is_on: false, threads: Vec::new() };
        found.find();
        found
    }

    /// Returns how many threads are visible. `None`: the interface has none. `Some(0)`: it has some, which another
    /// namespace of processes has.
    pub fn visible(&self) -> Option<u32> {
        self.is_on.then_some(self.threads.len() as u32)
    }

    /// Returns the time of each visible thread. Threads that were made since are found, too.
    pub fn times(&mut self) -> Vec<ThreadTime> {
        if self.is_on != is_threaded(&self.interface) {
            self.find();
        }
        let times: Vec<ThreadTime> = self.threads.iter().filter_map(|&thread| time_of(thread)).collect();
        // One has ended: another may be in its place at the next look.
        if times.len() < self.threads.len() {
            self.find();
        }
        times
    }

    fn find(&mut self) {
        self.is_on = is_threaded(&self.interface);
        let prefix = format!("napi/{}-", self.interface);
        let is_one = |thread: &u32| {
            let name = fs::read_to_string(format!("/proc/{thread}/comm")).unwrap_or_default();
            name.trim_end().strip_prefix(&prefix).is_some_and(|number| number.parse::<u32>().is_ok())
        };
        self.threads = match self.is_on {
            true => processes().filter(is_one).collect(),
            false => Vec::new(),
        };
    }
}

fn is_threaded(interface: &str) -> bool {
    let file = Path::new("/sys/class/net").join(interface).join("threaded");
    fs::read_to_string(file).is_ok_and(|text| text.trim() != "0")
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn time_of(thread: u32) -> Option<ThreadTime> {
    let text = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    let (time, processor) = read_stat(&text)?;
    Some(ThreadTime { thread, processor, time })
}

/// Reads a line such as `12 (napi/eth0-5) S 2 0 ...`: the time of the thread, and its processor.
fn read_stat(text: &str) -> Option<(Duration, u32)> {
    // A name may have parentheses and spaces.
    let columns: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| columns.get(at)?.parse::<u64>().ok();
    let ticks = number(USER)? + number(SYSTEM)?;
    Some((Duration::from_nanos(ticks * TICK_NS), number(PROCESSOR)? as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_a_time_and_a_processor() {
        let line = "871 (napi/a) b-5) S 2 0 0 0 -1 2129984 0 0 0 0 3 40 0 0 20 0 1 0 5 0 0 1 0 0 0 0 0 0 0 1 0 0 0 0 \
                    17 6 0 0 0 0 0 0 0 0 0 0 0 0 0";
        assert_eq!(read_stat(line), Some((Duration::from_millis(430), 6)));
        assert_eq!((read_stat("871 (napi/eth0-5) S 2 0"), read_stat("")), (None, None));
        assert!(time_of(std::process::id()).is_some());
    }

    #[test]
    fn most_interfaces_have_no_threads() {
        let mut none = NapiThreads::of("lo");
        assert_eq!((none.visible(), none.times()), (None, Vec::new()));
        assert_eq!(NapiThreads::of("nowhere").visible(), None);
    }
}
