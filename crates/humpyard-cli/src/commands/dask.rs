//! Sweeps by a Dask cluster, which only Python speaks to: its package humpyard makes the sweep, and says how far it is.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use humpyard::lab::sweep::{Progress, Swept};
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

/// Makes a sweep with the workers of a scheduler.
///
/// # Errors
/// A Python without the packages, and what the Python program reports.
pub(crate) fn sweep(
    file: &str,
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
    let swept = follow(&mut child, stop, progress);
    let mut said = String::new();
    child.stderr.take().map(|mut errors| errors.read_to_string(&mut said)).transpose()?;
    child.wait()?;
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    swept?.ok_or_else(|| Failure::new(last.unwrap_or("--dask: the Python program ended without a word").to_owned()))
}

/// Reads what the Python program says, until it ends or `stop` is set.
fn follow(child: &mut Child, stop: &AtomicBool, progress: Progress<'_>) -> Result<Option<Swept>, Failure> {
    let lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
    let mut found = None;
    for line in lines {
        if stop.load(Ordering::Relaxed) {
            // The sweep keeps the simulations that are done.
            child.kill()?;
            return Err(Failure::new("interrupted: the same command continues"));
        }
        match serde_json::from_str(&line?)? {
            Line::Far { done, all } => progress(done, all),
            Line::Swept(swept) => found = Some(swept),
        }
    }
    Ok(found)
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
