//! Where it is measured: a sender, what forwards, and a receiver, in a network namespace each,
//! joined by `veth`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use humpyard_testkit::network::{Line, Namespace};

/// The address of the interface by which frames come to what forwards.
const ADDRESS: &str = "02:00:00:00:00:01";

/// Sender, forwarder and receiver. The frames are for none of the receiver's addresses, so its
/// kernel counts and drops them, in the time of their sender. The sender has the first
/// processor that may be used, the forwarder the second.
pub(crate) struct Bed {
    line: Line,
    flood: PathBuf,
    processors: [usize; 2],
}

impl Bed {
    pub(crate) fn new() -> Result<Self, String> {
        let flood = flood()?;
        let line = Line::make();
        line.left.silence();
        line.right.silence();
        line.middle.ip(&format!("link set dev ma address {ADDRESS}"));
        line.middle.ip("addr add 10.9.0.2/24 dev ma");
        line.middle.ip("addr add 10.9.1.1/24 dev mb");
        // Without GRO or an XDP program the interface takes nothing from the sender.
        let switched = line.middle.run("ethtool -K ma gro on");
        if !switched.status.success() {
            return Err(format!("ethtool: {}", String::from_utf8_lossy(&switched.stderr).trim()));
        }
        Ok(Self { line, flood, processors: processors()? })
    }

    /// Where what forwards is run.
    pub(crate) const fn middle(&self) -> &Namespace {
        &self.line.middle
    }

    /// The processor of what forwards.
    #[allow(dead_code, reason = "one of two benchmarks ties it there")]
    pub(crate) const fn processor(&self) -> usize {
        self.processors[1]
    }

    /// Frames that the receiver has had so far.
    pub(crate) fn received(&self) -> u64 {
        self.line.right.received("vb")
    }

    /// Lets the kernel forward IPv4 packets, or not.
    pub(crate) fn forward_by_kernel(&self, forwards: bool) {
        let middle = self.middle();
        let output = middle.run(&format!("sysctl -qw net.ipv4.ip_forward={}", u8::from(forwards)));
        assert!(output.status.success(), "{output:?}");
        if forwards {
            // Forgotten each time that an interface was down.
            middle.ip("neigh replace 10.9.1.2 lladdr 02:00:00:00:00:03 nud permanent dev mb");
        }
    }

    /// testpmd as BASELINES has it, with one core that polls; its main thread waits for input beside the sender.
    pub(crate) fn testpmd(&self, driver: &str) -> Command {
        let mut command = self.middle().command("dpdk-testpmd");
        let [sender, forwarder] = self.processors;
        command.args(["--lcores", &format!("0@{sender},1@{forwarder}"), "--no-huge", "-m", "512"]);
        command.args(["--no-pci", "--no-telemetry", "--file-prefix=bench-humpyard"]);
        for (number, interface) in ["ma", "mb"].iter().enumerate() {
            command.args(["--vdev", &format!("{driver}{number},iface={interface}")]);
        }
        command.args(["--", "--total-num-mbufs=16384", "--forward-mode=io", "--auto-start", "--nb-cores=1"]);
        command
    }

    /// The receiver.
    #[allow(dead_code, reason = "of two benchmarks one listens there")]
    pub(crate) const fn right(&self) -> &Namespace {
        &self.line.right
    }

    /// The processor of the sender.
    #[allow(dead_code, reason = "of two benchmarks one listens there")]
    pub(crate) const fn sender(&self) -> usize {
        self.processors[0]
    }

    /// The program that sends, and hears.
    #[allow(dead_code, reason = "of two benchmarks one listens there")]
    pub(crate) fn flood(&self) -> &Path {
        &self.flood
    }

    /// Sends for at least `seconds`: `rate` frames a second, or as many as can be.
    pub(crate) fn send(&self, length: usize, seconds: f64, rate: Option<f64>) -> Result<Sent, String> {
        let sender = self.processors[0].to_string();
        let mut command = self.line.left.command("taskset");
        command.args(["-c", &sender]).arg(&self.flood);
        command.args(["send", "va", ADDRESS, &length.to_string(), &seconds.to_string()]);
        let output = command.args(rate.map(|rate| rate.to_string())).output();
        let output = output.map_err(|error| format!("the sender: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let sent = said.split_once(' ').and_then(|(frames, seconds)| {
            Some(Sent { frames: frames.parse().ok()?, seconds: seconds.trim().parse().ok()? })
        });
        sent.ok_or_else(|| format!("the sender: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// What the sender gave away.
pub(crate) struct Sent {
    pub(crate) frames: u64,
    pub(crate) seconds: f64,
}

/// The sender, which cargo builds beside this.
fn flood() -> Result<PathBuf, String> {
    let name = "examples/flood";
    let built = env::current_exe().ok().and_then(|bench| Some(bench.parent()?.parent()?.join(name)));
    built
        .filter(|path| path.exists())
        .ok_or_else(|| "no sender: cargo build --release --package humpyard-wire --example flood".into())
}

/// The first two processors that may be used.
fn processors() -> Result<[usize; 2], String> {
    let output = Command::new("taskset").args(["-pc", &std::process::id().to_string()]).output();
    let output = output.map_err(|error| format!("taskset (package util-linux): {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let list = said.rsplit(':').next().unwrap_or_default().trim();
    let all = list.split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().unwrap_or(0)..=last.parse::<usize>().unwrap_or(0)
    });
    match all.take(2).collect::<Vec<_>>()[..] {
        [sender, forwarder] => Ok([sender, forwarder]),
        _ => Err("the measurement needs two processors".into()),
    }
}
