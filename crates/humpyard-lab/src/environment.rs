//! Where a run took place.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use humpyard_runtime::Seat;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The environment of a run: what a reader needs to judge its times, and to repeat it.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Environment {
    /// Version of humpyard.
    pub version: &'static str,
    /// Model of the processor. `None`: the system does not report it.
    pub cpu: Option<String>,
    /// Version of the kernel. `None`: the system does not report it.
    pub kernel: Option<String>,
    /// SHA-256 of the input file. `None`: the input is not a single file.
    pub trace_sha256: Option<String>,
    /// One entry for each thread. Empty in a simulation.
    pub threads: Vec<ThreadSeat>,
}

/// The processor of a thread.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadSeat {
    /// Name of the thread, such as `dispatcher` or `worker 0`.
    pub thread: String,
    /// Number of the processor to which the thread was pinned. `None`: it was not pinned.
    pub processor: Option<usize>,
    /// Whether another thread of the run was pinned to the same processor.
    pub shared: bool,
}

impl Environment {
    /// This machine, this input.
    pub(crate) fn of(input: &str, seats: &[Seat]) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            cpu: cpu_model(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
            trace_sha256: sha256(Path::new(input)).ok(),
            threads: seats
                .iter()
                .map(|seat| ThreadSeat {
                    thread: seat.thread.to_string(),
                    processor: seat.processor,
                    shared: seat.shared,
                })
                .collect(),
        }
    }
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    if !path.is_file() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut digest = Sha256::new();
    io::copy(&mut File::open(path)?, &mut HashWriter(&mut digest))?;
    Ok(hexadecimal(digest))
}

/// Returns the SHA-256 of these bytes, in hexadecimal digits.
pub fn sha256_of(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

fn hexadecimal(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
