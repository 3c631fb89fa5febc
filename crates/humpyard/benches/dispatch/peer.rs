//! DPDK's event devices, behind our own client of their public API.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::work::{Figures, Order, Work};

/// One of DPDK's event devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Device {
    /// A central scheduler in software, on a processor of its own.
    Sw,
    /// A distributed scheduler: each worker schedules.
    Dsw,
}

impl Device {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sw => "event_sw",
            Self::Dsw => "event_dsw",
        }
    }

    /// Workers on two processors.
    const fn workers(self) -> usize {
        match self {
            Self::Sw => 1,
            Self::Dsw => 2,
        }
    }
}

/// The client, compiled.
pub(crate) struct Client {
    program: PathBuf,
    /// The version of DPDK.
    pub(crate) version: String,
}

impl Client {
    /// Compiles the client with the system's compiler for this machine. `None`: there is no DPDK.
    ///
    /// # Errors
    /// The messages of the compiler.
    pub(crate) fn build() -> Result<Option<Self>, String> {
        let Ok(version) = output(Command::new("pkg-config").args(["--modversion", "libdpdk"])) else { return Ok(None) };
        let flags = output(Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]))?;
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("eventdev");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/dispatch/eventdev.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O3", "-march=native", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"]);
        output(compiler.arg(&program).arg(source).args(flags.split_whitespace()))?;
        Ok(Some(Self { program, version: version.trim().to_owned() }))
    }

    /// Runs the work on a device.
    ///
    /// # Errors
    /// The messages of the client.
    pub(crate) fn run(&self, device: Device, order: Order, work: &Work) -> Result<Figures, String> {
        let [worker, other] = work.processors;
        let mut client = Command::new(&self.program);
        client.args(["--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "-m", "512", "--log-level=error"]);
        client.arg(format!("--lcores=0@{worker},1@{other}")).arg(format!("--vdev={}0", device.name()));
        client.args(["--", &format!("{}0", device.name()), order.name()]);
        let numbers = [
            device.workers(),
            work.in_flight,
            work.flows as usize,
            work.burst,
            work.depth as usize,
            work.hop as usize,
            work.time.as_millis() as usize,
        ];
        client.args(numbers.map(|number| number.to_string()));
        let text = output(&mut client)?;
        let number = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            value.and_then(|value| value.parse().ok()).ok_or_else(|| format!("the client told no {key}: {text}"))
        };
        Ok(Figures { events: number("events")?, time: Duration::from_nanos(number("nanoseconds")?) })
    }
}

/// Returns the output of the command.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let Output { status, stdout, stderr } = command.output().map_err(|error| format!("{name}: {error}"))?;
    if !status.success() {
        return Err(format!("{name} failed ({status}): {}", String::from_utf8_lossy(&stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}
