//! Sweeps by a Dask cluster, which only Python speaks to: its package humpyard makes the sweep, and says how far it is.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use humpyard::lab::sweep::{Plan, Progress, Swept};
use serde::Deserialize;

use crate::failure::Failure;

/// A line of the Python program.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    /// How far it is.
    Far { done: usize, all: usize },
    /// What it came to.
    Swept(Swept),
}

/// How often the flag that ends a sweep is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Makes a sweep with the workers of a scheduler.
///
/// # Errors
/// A Python without the packages, and what the Python program reports.
pub(crate) fn sweep(
    (file, plan): (&str, &Plan),
    directory: &Path,
    scheduler: &str,
    stop: &AtomicBool,
    progress: Progress<'_>,
) -> Result<Swept, Failure> {
    let python = env::var_os("HUMPYARD_PYTHON").unwrap_or_else(|| "python3".into());
    has_packages(&python)?;
    let mut command = Command::new(&python);
    command.args(["-m", "humpyard._dask", file]).arg(directory).arg(scheduler);
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| Failure::new(format!("{}: {error}", python.display())))?;
    let mut far = Vec::new();
    let swept = follow(&mut child, stop, |done, all| {
        far.push((done, all));
        progress(done, all);
    });
    let mut said = String::new();
    child.stderr.take().map(|mut errors| errors.read_to_string(&mut said)).transpose()?;
    child.wait()?;
    match swept? {
        Some(swept) => Ok(swept),
        None if stop.load(Ordering::Relaxed) => {
            let before = far.first().map_or(0, |&(done, _)| done);
            Ok(Swept::interrupted(plan, directory, before, far.last().copied().unwrap_or_default()))
        }
        None => {
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            Err(Failure::new(last.unwrap_or("--dask: the Python program ended without a word")))
        }
    }
}

/// Reads what the Python program says, until it ends or `stop` is set. `None`: the sweep is not done.
fn follow(
    child: &mut Child,
    stop: &AtomicBool,
    mut progress: impl FnMut(usize, usize),
) -> Result<Option<Swept>, Failure> {
    let lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
    let (sender, said) = mpsc::channel();
    // The thread ends with the program, whose end closes the pipe.
    thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let mut found = None;
    loop {
        match said.recv_timeout(LOOK_EVERY) {
            Ok(line) => match serde_json::from_str(&line)? {
                Line::Far { done, all } => progress(done, all),
                Line::Swept(swept) => found = Some(swept),
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(found),
        }
        if stop.load(Ordering::Relaxed) && found.is_none() {
            // The sweep keeps the simulations that are done.
            child.kill()?;
            return Ok(None);
        }
    }
}

/// Checks that Python has the packages, and that its humpyard is this one.
fn has_packages(python: &OsString) -> Result<(), Failure> {
    let check = "import distributed, humpyard; print(humpyard.__version__)";
    let output = Command::new(python).args(["-c", check]).stdin(Stdio::null()).output();
    let version = output.ok().filter(|output| output.status.success());
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let ours = env!("CARGO_PKG_VERSION");
    match version {
        Some(version) if version == ours => Ok(()),
        Some(version) => Err(Failure::new(format!(
            "--dask: {} has humpyard {version}, and this is {ours}: install the same version there",
            python.display()
        ))),
        None => Err(Failure::new(format!(
            "--dask needs the packages humpyard and distributed in {}: pip install ./crates/humpyard-python distributed, \
             or name another Python by HUMPYARD_PYTHON",
            python.display()
        ))),
    }
}
