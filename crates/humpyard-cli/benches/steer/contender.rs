//! Ways in which packets come to processors.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde_json::Value;

use crate::bed::{Bed, cpumap_threads, prefer};

/// How long the kernel may take until its threads are there.
const PATIENCE: Duration = Duration::from_secs(10);

/// A way in which packets come to processors.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) how: Way,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// Each processor forwards what comes to it: the first, all.
    None,
    /// The kernel hands packets to all processors by its own hash.
    Rps,
    /// `humpyard steer` with this policy and these options.
    Steer(&'static str, &'static str),
}

impl Contender {
    pub(crate) const NONE: Self = Self { name: "none", how: Way::None };
    pub(crate) const RPS: Self = Self { name: "RPS", how: Way::Rps };
    pub(crate) const HRW: Self = Self::steer("hrw", "hrw", "");
    /// Moves nothing: buckets stay where rss++ begins with them.
    pub(crate) const RSS_BEGIN: Self = Self::steer("rss++ --guard 2s", "rss++", "--guard 2s");

    const fn steer(name: &'static str, policy: &'static str, options: &'static str) -> Self {
        Self { name, how: Way::Steer(policy, options) }
    }

    /// For packets that every hash sees.
    pub(crate) fn for_flows() -> Vec<Self> {
        vec![
            Self::NONE,
            Self::RPS,
            Self::HRW,
            Self::steer("rss++", "rss++", ""),
            Self::steer("rss++ --guard 20ms", "rss++", "--guard 20ms"),
            Self::steer("ap", "ap", ""),
        ]
    }

    /// For packets in a tunnel.
    pub(crate) fn for_tunnels() -> Vec<Self> {
        vec![
            Self::NONE,
            Self::RPS,
            Self::HRW,
            Self::steer("hrw --inner", "hrw", "--inner"),
            Self::steer("rss++ --inner", "rss++", "--inner"),
            Self::steer("ap --inner", "ap", "--inner"),
        ]
    }

    /// Starts it. `humpyard steer` watches first, and needs packets to see.
    pub(crate) fn start<'bed>(&self, bed: &'bed Bed) -> Result<Running<'bed>, String> {
        let mut running = Running { bed, steered: None };
        match self.how {
            Way::None => {}
            Way::Rps => bed.set_rps(&bed.processors())?,
            Way::Steer(policy, options) => running.steered = Some(Steered::start(bed, policy, options)?),
        }
        Ok(running)
    }
}

/// A contender until it is dropped.
pub(crate) struct Running<'bed> {
    bed: &'bed Bed,
    steered: Option<Steered>,
}

/// `humpyard steer`, at work.
struct Steered {
    child: Child,
    errors: BufReader<ChildStderr>,
}

impl Steered {
    /// Returns when it steers.
    fn start(bed: &Bed, policy: &str, options: &str) -> Result<Self, String> {
        let before: BTreeSet<String> = cpumap_threads().into_iter().collect();
        let mut command = bed.middle().command(env!("CARGO_BIN_EXE_humpyard"));
        command.args(["steer", "--apply", "cpumap:ma", "--for", "1s", "--json", "--quiet", "--policy", policy]);
        command.args(options.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("humpyard: {error}"))?;
        let mut errors = BufReader::new(child.stderr.take().ok_or("humpyard has no standard error")?);
        let mut line = String::new();
        errors.read_line(&mut line).map_err(|error| format!("humpyard: {error}"))?;
        if !line.contains("is steered by") {
            let _ = child.wait();
            return Err(format!("{policy} {options}: {}", line.trim()));
        }
        let steered = Self { child, errors };
        prefer(&new_threads(&before)?)?;
        Ok(steered)
    }

    /// Ends it and returns what it says.
    fn end(&mut self) -> Result<Value, String> {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT);
        let (mut said, mut errors) = (String::new(), String::new());
        if let Some(mut output) = self.child.stdout.take() {
            output.read_to_string(&mut said).map_err(|error| format!("humpyard: {error}"))?;
        }
        let _ = self.errors.read_to_string(&mut errors);
        let status = self.child.wait().map_err(|error| format!("humpyard: {error}"))?;
        serde_json::from_str(&said).map_err(|_| format!("humpyard: {status}: {}", errors.trim()))
    }
}

/// Waits until each processor has a thread that takes packets, and returns those that were not there before.
fn new_threads(before: &BTreeSet<String>) -> Result<Vec<String>, String> {
    let processors = humpyard::wire::processors().map_err(|error| format!("processors: {error}"))?.len();
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let new: Vec<String> = cpumap_threads().into_iter().filter(|thread| !before.contains(thread)).collect();
        if new.len() >= processors {
            return Ok(new);
        }
        sleep(Duration::from_millis(10));
    }
    Err("humpyard steers nothing: the kernel has no threads for it".to_owned())
}

impl Running<'_> {
    /// Returns the processor time that `humpyard steer` has had so far.
    pub(crate) fn time(&self) -> Result<Duration, String> {
        let Some(steered) = &self.steered else { return Ok(Duration::ZERO) };
        let time = clock_getcpuclockid(Pid::from_raw(steered.child.id() as i32)).and_then(clock_gettime);
        time.map(Duration::from).map_err(|error| format!("the processor time of humpyard: {error}"))
    }

    /// Ends it and returns how often buckets moved. `None`: it moves none.
    pub(crate) fn end(mut self) -> Result<Option<u64>, String> {
        let said = self.steered.take().map(|mut steered| steered.end()).transpose()?;
        Ok(said.and_then(|said| said["moves"].as_u64()))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(mut steered) = self.steered.take() {
            let _ = steered.end();
        }
        let _ = self.bed.set_rps(&[]);
    }
}
