//! Who hears what arrives, and how late it is.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::bed::Bed;

/// A delay beyond this stands for one that is not known.
const UNKNOWN_NS: u64 = 1 << 60;

/// The program that counts frames where they arrive.
pub(crate) struct Receiver {
    child: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// The number of frames by delay in ns, at most.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays(BTreeMap<u64, u64>);

impl Receiver {
    pub(crate) fn start(bed: &Bed) -> Result<Self, String> {
        let mut command = bed.right().command("taskset");
        command.args(["-c", &bed.sender().to_string()]).arg(bed.flood()).args(["receive", "vb"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("the receiver: {error}"))?;
        let (asks, answers) = (child.stdin.take(), child.stdout.take().ok_or("the receiver has no output")?);
        Ok(Self { child, asks, answers: BufReader::new(answers) })
    }

    /// What has arrived so far.
    pub(crate) fn look(&mut self) -> Result<Delays, String> {
        let failed = |error: &dyn std::fmt::Display| format!("the receiver: {error}");
        let asks = self.asks.as_mut().ok_or("the receiver has ended")?;
        asks.write_all(b"\n").and_then(|()| asks.flush()).map_err(|error| failed(&error))?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|error| failed(&error))?;
        let counts: Vec<(u64, u64)> = serde_json::from_str(&line).map_err(|error| failed(&error))?;
        Ok(Delays(counts.into_iter().collect()))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It ends with its input.
        self.asks.take();
        let _ = self.child.wait();
    }
}

impl Delays {
    /// What has come since an earlier look.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let fresh = |(&delay, &count): (&u64, &u64)| (delay, count - earlier.0.get(&delay).unwrap_or(&0));
        Self(self.0.iter().map(fresh).filter(|&(_, count)| count > 0).collect())
    }

    pub(crate) fn frames(&self) -> u64 {
        self.0.values().sum()
    }

    /// The delay in ns that this part of the frames does not exceed; `None`: delays are not
    /// known.
    pub(crate) fn quantile(&self, part: f64) -> Option<u64> {
        let known = || self.0.iter().filter(|&(&delay, _)| delay < UNKNOWN_NS);
        let all: u64 = known().map(|(_, count)| count).sum();
        let mut seen = 0;
        let reached = |&(_, count): &(&u64, &u64)| {
            seen += count;
            seen as f64 >= part * all as f64
        };
        known().find(reached).map(|(&delay, _)| delay)
    }
}
