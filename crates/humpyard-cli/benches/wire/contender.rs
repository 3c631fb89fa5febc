//! What forwards.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bed::Bed;

/// What forwards between `ma` and `mb`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Contender {
    /// The kernel's own IPv4 forwarding.
    Kernel,
    /// testpmd by its packet sockets, which passes frames on unseen.
    TestpmdPacket,
    /// testpmd by its XDP sockets.
    TestpmdXdp,
    /// humpyard by packet sockets, every frame classified and steered by `hrw`.
    HumpyardPacket,
    /// humpyard by XDP sockets.
    HumpyardXdp,
    /// humpyard by a queue to which a rule hands what the kernel forwards.
    HumpyardQueue,
}

/// Something that forwards until it is dropped.
pub(crate) struct Running<'bed> {
    bed: &'bed Bed,
    child: Option<Child>,
    /// Whether a rule hands over what the kernel forwards.
    by_queue: bool,
}

impl Contender {
    /// In the order of the tables.
    pub(crate) const ALL: [Self; 6] = [
        Self::Kernel,
        Self::TestpmdPacket,
        Self::TestpmdXdp,
        Self::HumpyardPacket,
        Self::HumpyardXdp,
        Self::HumpyardQueue,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::TestpmdPacket => "testpmd net_af_packet",
            Self::TestpmdXdp => "testpmd net_af_xdp",
            Self::HumpyardPacket => "humpyard iface",
            Self::HumpyardXdp => "humpyard xdp",
            Self::HumpyardQueue => "humpyard nfqueue",
        }
    }

    /// Starts it. It may take a while until it forwards.
    pub(crate) fn start(self, bed: &Bed) -> Result<Running<'_>, String> {
        let command = match self {
            Self::Kernel => None,
            Self::TestpmdPacket => Some(bed.testpmd("net_af_packet")),
            Self::TestpmdXdp => Some(bed.testpmd("net_af_xdp")),
            Self::HumpyardPacket => Some(humpyard(bed, &["--input", "iface:ma", "--output", "iface:mb"])),
            Self::HumpyardXdp => Some(humpyard(bed, &["--input", "xdp:ma", "--output", "xdp:mb"])),
            Self::HumpyardQueue => Some(humpyard(bed, &["--input", "nfqueue:7"])),
        };
        let child = command.map(|mut command| {
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().map_err(|error| format!("{}: {error}", self.name()))
        });
        let running = Running { bed, child: child.transpose()?, by_queue: self == Self::HumpyardQueue };
        bed.forward_by_kernel(matches!(self, Self::Kernel | Self::HumpyardQueue));
        if running.by_queue {
            running.hand_over("-A")?;
        }
        Ok(running)
    }
}

/// humpyard with nothing but the default around its policy; its one thread does all the work.
fn humpyard(bed: &Bed, ports: &[&str]) -> Command {
    let mut command = bed.middle().command("taskset");
    command.args(["-c", &bed.processor().to_string(), env!("CARGO_BIN_EXE_humpyard"), "run", "--quiet", "--json"]);
    command.args(ports).args(["--policy", "hrw", "--workers", "0"]);
    command
}

impl Running<'_> {
    /// Its process; none for the kernel.
    pub(crate) fn process(&self) -> Option<Pid> {
        self.child.as_ref().map(|child| Pid::from_raw(child.id() as i32))
    }

    /// What it said, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let child = self.child.as_mut()?;
        let status = child.try_wait().ok()??;
        let mut said = String::new();
        let _ = child.stderr.take()?.read_to_string(&mut said);
        Some(format!("{status}: {}", said.trim()))
    }

    /// Adds the rule that hands packets over, or deletes it.
    fn hand_over(&self, how: &str) -> Result<(), String> {
        let output = self.bed.middle().run(&format!("iptables {how} FORWARD -j NFQUEUE --queue-num 7"));
        let said = || format!("iptables: {}", String::from_utf8_lossy(&output.stderr).trim());
        if output.status.success() { Ok(()) } else { Err(said()) }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.bed.forward_by_kernel(false);
        if self.by_queue {
            // If the tool is missing, the measurement has failed already.
            let _ = self.hand_over("-D");
        }
        if let Some(mut child) = self.child.take() {
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
            let _ = child.wait();
        }
    }
}
