//! Where it is measured: a sender, a router with a long firewall, and a receiver, in a network namespace each, joined
//! by `veth`.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use humpyard_testkit::network::{Line, Namespace};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Rules that the router checks for each packet from the sender; none holds.
const RULES: usize = 1_500;

/// Sender, router and receiver. The sender has the first processor, where the kernel also takes its packets into the
/// router: its one receive queue. The receiver has the second.
pub(crate) struct Bed {
    line: Line,
    processors: [usize; 2],
}

impl Bed {
    pub(crate) fn new() -> Result<Self, String> {
        let line = Line::make();
        line.left.silence();
        line.right.silence();
        let bed = Self { line, processors: processors()? };
        bed.address()?;
        bed.firewall()?;
        Ok(bed)
    }

    /// The namespace of the sender.
    pub(crate) const fn left(&self) -> &Namespace {
        &self.line.left
    }

    /// The namespace of the router.
    pub(crate) const fn middle(&self) -> &Namespace {
        &self.line.middle
    }

    /// The namespace of the receiver.
    pub(crate) const fn right(&self) -> &Namespace {
        &self.line.right
    }

    pub(crate) const fn processors(&self) -> [usize; 2] {
        self.processors
    }

    /// Ties the calling thread to the sender's processor.
    pub(crate) fn on_first(&self) {
        tie(self.processors[0]);
    }

    /// Ties the calling thread to the receiver's processor.
    pub(crate) fn on_second(&self) {
        tie(self.processors[1]);
    }

    fn address(&self) -> Result<(), String> {
        let Line { left, middle, right } = &self.line;
        middle.ip("link set dev ma address 02:00:00:00:00:01");
        middle.ip("addr add 10.9.0.1/24 dev ma");
        middle.ip("addr add 10.9.1.1/24 dev mb");
        middle.ip("route add 10.64.0.0/10 dev ma");
        // Nobody has this address: the receiver's kernel answers nothing to what goes there.
        middle.ip("neigh add 10.9.1.9 lladdr 02:00:00:00:00:09 nud permanent dev mb");
        left.ip("addr add 10.9.0.2/24 dev va");
        left.ip("route add default via 10.9.0.1");
        right.ip("addr add 10.9.1.2/24 dev vb");
        right.ip("route add default via 10.9.1.1");
        run(middle, "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.ma.rp_filter=0")?;
        // A packet that goes to another processor is taken as it is: checksums are computed before.
        run(left, "ethtool -K va tx off")?;
        // What TCP sends when an acknowledgement comes leaves from the sender's processor, too.
        set_rps(left, "va", &self.processors[..1])
    }

    /// Adds rules that packets from the sender pass one by one.
    fn firewall(&self) -> Result<(), String> {
        let rule = |number: usize| {
            format!("ip saddr 198.18.{}.{} udp dport {} drop\n", number / 250, number % 250, 1 + number)
        };
        let rules: String = (0..RULES).map(rule).collect();
        self.nft(&format!(
            "table ip firewall {{\nchain forward {{\ntype filter hook forward priority 0;\niifname != \"ma\" accept\n\
             {rules}}}\n}}\n"
        ))
    }

    /// Has the router's firewall read this text.
    pub(crate) fn nft(&self, text: &str) -> Result<(), String> {
        let mut command = self.middle().command("nft");
        command.args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: &dyn std::fmt::Display| format!("nft: {error}");
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let mut input = child.stdin.take().ok_or("nft has no input")?;
        input.write_all(text.as_bytes()).map_err(|error| failed(&error))?;
        drop(input);
        let output = child.wait_with_output().map_err(|error| failed(&error))?;
        let said = || failed(&String::from_utf8_lossy(&output.stderr).trim());
        if output.status.success() { Ok(()) } else { Err(said()) }
    }

    /// Has the kernel hand packets of the router to these processors, by its own hash (RPS). Empty: to no other.
    pub(crate) fn set_rps(&self, processors: &[usize]) -> Result<(), String> {
        set_rps(self.middle(), "ma", processors)
    }
}

fn set_rps(namespace: &Namespace, interface: &str, processors: &[usize]) -> Result<(), String> {
    let mask: u64 = processors.iter().map(|processor| 1 << processor).sum();
    let write = format!("echo {mask:x} > /sys/class/net/{interface}/queues/rx-0/rps_cpus");
    match namespace.command("sh").args(["-c", &write]).output() {
        Ok(output) if output.status.success() => Ok(()),
        other => Err(format!("rps_cpus: {other:?}")),
    }
}

fn run(namespace: &Namespace, words: &str) -> Result<(), String> {
    let output = namespace.run(words);
    let said = || format!("{words}: {}", String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(said()) }
}

fn tie(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor).expect("a processor's number");
    sched_setaffinity(Pid::from_raw(0), &set).expect("the processor is there");
}

/// The first two processors that may be used.
fn processors() -> Result<[usize; 2], String> {
    let allowed = nix::sched::sched_getaffinity(Pid::from_raw(0)).map_err(|error| error.to_string())?;
    let all = (0..CpuSet::count()).filter(|&processor| allowed.is_set(processor).unwrap_or(false));
    match all.take(2).collect::<Vec<_>>()[..] {
        [first, second] => Ok([first, second]),
        _ => Err("the measurement needs two processors".into()),
    }
}

/// The kernel's threads that take packets from other processors (`cpumap`): their numbers.
pub(crate) fn cpumap_threads() -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_cpumap = |number: &String| {
        fs::read_to_string(format!("/proc/{number}/comm")).is_ok_and(|name| name.starts_with("cpumap/"))
    };
    numbers.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit())).filter(is_cpumap).collect()
}

/// Gives threads the highest priority, as the kernel's deferred work has it anyway: others may work on this machine.
pub(crate) fn prefer(threads: &[String]) -> Result<(), String> {
    let output = Command::new("renice").args(["-n", "-20", "-p"]).args(threads).output();
    let output = output.map_err(|error| format!("renice: {error}"))?;
    let said = || format!("renice: {}", String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(said()) }
}
