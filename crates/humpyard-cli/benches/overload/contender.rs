//! What forwards, and what it has to do.

use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bed::Bed;

/// What is to be done to frames of one length, at these rates.
pub(crate) struct Work {
    pub(crate) name: &'static str,
    pub(crate) frame_bytes: usize,
    /// Frames a second, rising; beyond the last comes as many as can be.
    pub(crate) rates: &'static [f64],
    service: &'static str,
    /// Whether others than humpyard can do it.
    has_peers: bool,
}

/// To pass frames on, which costs but the forwarding; and to encrypt them, which costs much more.
pub(crate) const WORKS: [Work; 2] = [
    Work {
        name: "pass",
        frame_bytes: 64,
        rates: &[1e5, 2e5, 3e5, 4e5, 5e5, 6e5, 8e5, 1e6],
        service: "pass",
        has_peers: true,
    },
    Work {
        name: "encrypt",
        frame_bytes: 1_000,
        rates: &[2e4, 4e4, 6e4, 8e4, 1e5, 1.5e5, 2e5, 4e5],
        service: "encrypt:cipher=cast-128",
        has_peers: false,
    },
];

/// Who forwards.
pub(crate) struct Contender {
    pub(crate) name: String,
    how: How,
}

enum How {
    Kernel,
    Testpmd(&'static str),
    /// With these options.
    Humpyard(String),
}

impl Work {
    /// Who does it: humpyard by default, which chooses its workers itself, with 0 to 4,
    /// with a dispatcher and without.
    pub(crate) fn contenders(&self) -> Vec<Contender> {
        let humpyard = |name: &str, ports: &str, options: &str| Contender {
            name: format!("humpyard {name}"),
            how: How::Humpyard(format!("{ports} --services {} {options}", self.service)),
        };
        let iface = |name: &str, options: &str| humpyard(name, "--input iface:ma --output iface:mb", options);
        let mut all = vec![iface("default", "--policy hrw")];
        for workers in 0..=4 {
            let options = format!("--policy hrw --workers {workers} --dispatchers 1");
            all.push(iface(&format!("{workers} workers"), &options));
        }
        for workers in 2..=4 {
            let options = format!("--policy hrw --workers {workers} --dispatchers 0");
            all.push(iface(&format!("{workers} alone"), &options));
        }
        all.push(iface("drr default", "--policy drr"));
        if self.has_peers {
            all.push(humpyard("xdp 0 workers", "--input xdp:ma --output xdp:mb", "--policy hrw --workers 0"));
            all.push(Contender { name: "kernel".to_owned(), how: How::Kernel });
            for driver in ["net_af_packet", "net_af_xdp"] {
                all.push(Contender { name: format!("testpmd {driver}"), how: How::Testpmd(driver) });
            }
        }
        all
    }
}

/// Something that forwards until it is dropped.
pub(crate) struct Running<'bed> {
    bed: &'bed Bed,
    child: Option<Child>,
}

impl Contender {
    /// Starts it. It may take a while until it forwards.
    pub(crate) fn start<'bed>(&self, bed: &'bed Bed) -> Result<Running<'bed>, String> {
        let command = match &self.how {
            How::Kernel => None,
            How::Testpmd(driver) => Some(bed.testpmd(driver)),
            How::Humpyard(options) => Some(humpyard(bed, options)),
        };
        let child = command.map(|mut command| {
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().map_err(|error| format!("{}: {error}", self.name))
        });
        let running = Running { bed, child: child.transpose()? };
        bed.forward_by_kernel(matches!(self.how, How::Kernel));
        Ok(running)
    }
}

/// humpyard, which may use both processors.
fn humpyard(bed: &Bed, options: &str) -> Command {
    let mut command = bed.middle().command(env!("CARGO_BIN_EXE_humpyard"));
    command.args(["run", "--quiet", "--json"]).args(options.split_whitespace());
    command
}

impl Running<'_> {
    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        Some(status.to_string())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.bed.forward_by_kernel(false);
        if let Some(mut child) = self.child.take() {
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
            let _ = child.wait();
        }
    }
}
