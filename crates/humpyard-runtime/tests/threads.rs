//! No worker thread outlives its run, however the run ended. Alone in its process, so that all
//! threads there are its own.
#![cfg(target_os = "linux")]

#[path = "live/support.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod support;

use core::time::Duration;
use std::thread::sleep;
use std::time::Instant;

use humpyard_core::frame::Frame;
use humpyard_traffic::{Sink, TrafficError, create};

use support::{Kept, Run};

/// Worker threads of this process, by name.
fn workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("this is Linux");
    let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("worker")).count()
}

/// Panics unless all workers are gone; the system lists a thread for a moment after it was joined.
fn assert_no_workers(when: &str) {
    let started = Instant::now();
    while workers() > 0 {
        assert!(started.elapsed() < Duration::from_secs(10), "{} workers are left {when}", workers());
        sleep(Duration::from_millis(1));
    }
}

/// Takes one frame; notes whether workers are seen at all.
struct Failing(bool);

impl Sink for Failing {
    fn write(&mut self, _: &Frame) -> Result<(), TrafficError> {
        assert!(workers() > 0, "workers are found by their names");
        if self.0 { Err(create("").err().expect("an empty name is refused")) } else { Ok(()) }
    }

    fn finish(self: Box<Self>) -> Result<u64, TrafficError> {
        Ok(0)
    }
}

#[test]
fn no_worker_outlives_its_run() {
    let run = Run { workers: 3, input: "gen:poisson:packets=1000", ..Run::default() };
    run.to(Box::new(Failing(false))).unwrap();
    assert_no_workers("after a good end");
    Run { input: "gen:poisson:packets=1000000000000", ..run }.to(Box::new(Failing(true))).unwrap_err();
    assert_no_workers("after an error of the sink");
    Run { flows: 4, ..run }.to(Box::new(Kept::default())).unwrap_err();
    assert_no_workers("after an error of the classifier");
}
