//! What a command has changed at an interface, kept where another command finds it: `--undo`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use humpyard_wire::{IndirectionTable, ReceiveSteering};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::observe::interface_of;
use super::target::SteerTarget;
use crate::LabError;

/// Where changes are kept.
const DIRECTORY: &str = "/run/humpyard";
/// How long a command that is asked to end may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was changed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct Change {
    /// The target.
    pub(super) target: String,
    /// The policy.
    pub(super) policy: String,
    /// The number of the interface, which it has under every name.
    pub(super) index: Option<u32>,
    /// The process that steers.
    pub(super) process: i32,
    /// What was there before.
    pub(super) before: Before,
}

/// What was there before, where it does not end with the process.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Default, Debug)]
pub(super) struct Before {
    /// The masks of receive queues.
    pub(super) masks: Vec<String>,
    /// The receive queue of each entry of the card's indirection table.
    pub(super) queues: Vec<u32>,
}

/// The file of a change. It is locked as long as its process lives, and goes with this.
#[derive(Debug)]
pub(super) struct ChangeFile {
    path: PathBuf,
    file: File,
}

/// What was undone.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
#[non_exhaustive]
pub struct Undone {
    /// The interface.
    pub interface: String,
    /// What steered it, such as `cpumap:eth0`.
    pub target: String,
    /// The policy.
    pub policy: String,
    /// The process that steered and was asked to end; none if it had ended without a chance to undo.
    pub ended: Option<i32>,
    /// What was restored here, in lines.
    pub restored: Vec<String>,
}

impl ChangeFile {
    /// Takes an interface for this process.
    ///
    /// # Errors
    /// If another process steers it, one that steered it did not undo what it changed, or the directory cannot be
    /// written.
    pub(super) fn take(interface: &str) -> Result<Self, LabError> {
        let path = path(interface)?;
        let cannot = |error| LabError::option(format!("what is changed cannot be kept in {}: {error}", path.display()));
        fs::create_dir_all(DIRECTORY).map_err(cannot)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(cannot)?;
        if let Err(error) = file.try_lock() {
            return Err(taken(interface, error));
        }
        // A command that ends removes its file: one that was opened just before has no name any more.
        if file.metadata().map_err(cannot)?.nlink() == 0 {
            return Self::take(interface);
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(cannot)?;
        // A process that ended before it changed anything leaves an empty file.
        if text.is_empty() {
            return Ok(Self { path, file });
        }
        Err(LabError::option(format!(
            "a command that steered `{interface}` ended without undoing it: `humpyard steer --undo {interface}` does"
        )))
    }

    /// Notes what is changed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn note(&mut self, change: &Change) -> Result<(), LabError> {
        let text = serde_json::to_string(change).expect("texts and numbers");
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| {
            LabError::option(format!("what is changed cannot be kept in {}: {error}", self.path.display()))
        })
    }
}

impl Drop for ChangeFile {
    fn drop(&mut self) {
        // Whatever cannot be removed is found empty.
        let _ = self.file.set_len(0);
        let _ = fs::remove_file(&self.path);
    }
}

/// Rejects an interface that a command steers, or that one has left changed.
///
/// # Errors
/// If it is so, with what to do.
pub fn check_free(interface: &str) -> Result<(), LabError> {
    let path = path(interface)?;
    match path.exists() {
        // It is removed again, if it is free.
        true => ChangeFile::take(interface).map(drop),
        false => Ok(()),
    }
}

fn taken(interface: &str, error: TryLockError) -> LabError {
    LabError::option(match error {
        TryLockError::WouldBlock => {
            format!("`{interface}` is steered by another command already: `humpyard steer --undo {interface}` ends it")
        }
        TryLockError::Error(error) => format!("what is changed at `{interface}` cannot be locked: {error}"),
    })
}

/// The file of an interface of this network namespace.
fn path(interface: &str) -> Result<PathBuf, LabError> {
    if interface.is_empty() || interface.contains('/') {
        return Err(LabError::option(format!("no interface has the name `{interface}`")));
    }
    let namespace = fs::metadata("/proc/self/ns/net")
        .map_err(|error| LabError::option(format!("the network namespace is not known: {error}")))?
        .ino();
    Ok(Path::new(DIRECTORY).join(format!("steer-{namespace}-{interface}.json")))
}

/// Undoes what a command has changed at an interface: it is asked to end, or, where it has ended without a chance to
/// undo, what it noted is restored.
///
/// # Errors
/// If nothing steers the interface, the command does not end, or something cannot be restored.
pub fn undo(interface: &str) -> Result<Undone, LabError> {
    let path = path(interface)?;
    let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(|error| {
        LabError::option(match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("no command of humpyard steers `{interface}`: there is nothing to undo")
            }
            _ => format!("{} cannot be read: {error}", path.display()),
        })
    })?;
    let change = read(&mut file, &path)?;
    let undone = |ended, restored| Undone {
        interface: interface.to_owned(),
        target: change.target.clone(),
        policy: change.policy.clone(),
        ended,
        restored,
    };
    if file.try_lock().is_err() {
        end(change.process, &path)?;
        return Ok(undone(Some(change.process), Vec::new()));
    }
    let restored = restore(&change)?;
    drop(ChangeFile { path, file });
    Ok(undone(None, restored))
}

fn read(file: &mut File, path: &Path) -> Result<Change, LabError> {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let refuse = |what: String| LabError::option(format!("{}: {what}", path.display()));
    read.map_err(|error| refuse(format!("cannot be read: {error}")))?;
    serde_json::from_str(&text).map_err(|error| {
        refuse(format!(
            "what was changed cannot be read ({error}): see to the interface yourself, and remove this file"
        ))
    })
}

/// Asks a process to end, and waits until it has undone all.
fn end(process: i32, path: &Path) -> Result<(), LabError> {
    kill(Pid::from_raw(process), Signal::SIGINT)
        .map_err(|error| LabError::option(format!("process {process} steers, and cannot be asked to end: {error}")))?;
    let begin = Instant::now();
    while path.exists() {
        if begin.elapsed() > PATIENCE {
            return Err(LabError::option(format!("process {process} was asked to end, and has not ended yet")));
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Restores what stays when its process ends, at the interface that was steered, under whatever name.
fn restore(change: &Change) -> Result<Vec<String>, LabError> {
    let target: SteerTarget = change.target.parse()?;
    let Some(interface) = &interface_of(change.index) else {
        return Ok(vec!["the interface is gone: there is nothing to restore".to_owned()]);
    };
    match &target {
        SteerTarget::CpuMap(_) | SteerTarget::Fanout(_) => Ok(Vec::new()),
        SteerTarget::Rss(_) => {
            let (table, queues) = (IndirectionTable::open(interface)?, &change.before.queues);
            table.write(queues)?;
            Ok(vec![format!("{interface}: the indirection table of {} entries", queues.len())])
        }
        SteerTarget::Rps(_) => {
            let steering = ReceiveSteering::open(interface)?;
            let before = steering.masks()?;
            let masks = &change.before.masks;
            steering.restore(masks)?;
            let line = |(queue, (before, mask)): (usize, (&String, &String))| {
                format!("{interface}: rps_cpus of receive queue {queue}: {before} -> {mask}")
            };
            Ok(before.iter().zip(masks).enumerate().map(line).collect())
        }
    }
}
