//! Networks of namespaces for one test or measurement, removed afterwards. All of this needs root
//! and `ip`.

use std::fs::{self, File};
use std::io;
use std::panic::resume_unwind;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use nix::sched::{CloneFlags, setns};

/// Waits for the turn of a test that makes namespaces: it has the machine to itself until it drops
/// the guard. `None`, with a printed notice: the machine cannot make namespaces.
///
/// # Panics
/// If it cannot, and the environment variable `HUMPYARD_REQUIRE_NETNS` is 1.
pub fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    possible().then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Whether a test can make namespaces. If it cannot, a notice is printed.
///
/// # Panics
/// If it cannot, and the environment variable `HUMPYARD_REQUIRE_NETNS` is 1.
#[expect(clippy::print_stderr, reason = "says what was skipped")]
pub fn possible() -> bool {
    let Some(why_not) = why_not() else { return true };
    assert!(std::env::var("HUMPYARD_REQUIRE_NETNS").as_deref() != Ok("1"), "no network namespaces: {why_not}");
    eprintln!("SKIPPED: this machine makes no network namespaces: {why_not}");
    false
}

/// Why this machine makes no namespaces, if so.
pub fn why_not() -> Option<&'static str> {
    static WHY_NOT: OnceLock<Option<String>> = OnceLock::new();
    WHY_NOT.get_or_init(try_one).as_deref()
}

/// Makes a namespace and removes it; why it cannot, if so.
fn try_one() -> Option<String> {
    let name = format!("hy-{}-try", std::process::id());
    match Command::new("ip").args(["netns", "add", &name]).output() {
        Ok(made) if made.status.success() => {
            ip(&["netns", "del", &name]);
            None
        }
        Ok(refused) => Some(String::from_utf8_lossy(&refused.stderr).trim().to_owned()),
        Err(error) => Some(format!("no `ip` (package iproute2): {error}")),
    }
}

/// Runs `ip`, which must go well.
fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().expect("there is `ip`");
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A network namespace, removed when this is dropped. Errors in it are panics.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a namespace in which only the loopback interface is up.
    pub fn make() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("hy-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &name]);
        let namespace = Self { name };
        namespace.ip("link set dev lo up");
        namespace
    }

    /// Runs `ip` with these words in the namespace.
    pub fn ip(&self, words: &str) -> String {
        let mut arguments = vec!["-n", &self.name];
        arguments.extend(words.split_whitespace());
        ip(&arguments)
    }

    /// Moves an interface of this namespace to another.
    pub fn give(&self, interface: &str, other: &Self) {
        self.ip(&format!("link set dev {interface} netns {}", other.name));
    }

    /// A command that is run in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).stdin(Stdio::null());
        command
    }

    /// Returns the output of this command.
    pub fn run(&self, words: &str) -> Output {
        let mut words = words.split_whitespace();
        let program = words.next().expect("a command has a name");
        self.command(program).args(words).output().expect("`ip` runs it")
    }

    /// Returns the frames that an interface has received so far.
    pub fn received(&self, interface: &str) -> u64 {
        let counts = self.within(|| fs::read_to_string("/proc/thread-self/net/dev").expect("the kernel counts"));
        let line = counts.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
        let frames = line.and_then(|counts| counts.split_whitespace().nth(1)?.parse().ok());
        frames.unwrap_or_else(|| panic!("no {interface} in {counts}"))
    }

    /// Stops the kernel's own IPv6 packets, so that only the packets of tests are counted.
    pub fn silence(&self) {
        let output = self.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
        assert!(output.status.success(), "{output:?}");
    }

    /// Does something in it, on a thread of its own.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.name);
        let entered = move || -> io::Result<T> {
            setns(File::open(path)?, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        };
        let done = thread::scope(|scope| scope.spawn(entered).join());
        done.unwrap_or_else(|panic| resume_unwind(panic)).expect("the namespace can be entered")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A test that has failed already is not to fail twice.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// Joins two namespaces by a pair of interfaces, and sets both up.
///
/// # Panics
/// If `ip` fails.
pub fn join(one: &Namespace, its: &str, other: &Namespace, others: &str) {
    join_by_queues(1, one, its, other, others);
}

/// Returns two namespaces joined by a virtual cable, with the addresses 10.9.0.1 at `here` and
/// 10.9.0.2 at `there`. Frames from `there` have their checksums, as on a wire: the kernel's
/// virtual cables leave them out.
pub fn pair_with_checksums() -> (Namespace, Namespace) {
    let (here, there) = (Namespace::make(), Namespace::make());
    [&here, &there].into_iter().for_each(Namespace::silence);
    join(&here, "here", &there, "there");
    here.ip("address add 10.9.0.1/24 dev here");
    there.ip("address add 10.9.0.2/24 dev there");
    let output = there.run("ethtool -K there tx off");
    assert!(output.status.success(), "{output:?}");
    (here, there)
}

/// As [`join`], by interfaces with `queues` queues in each direction.
///
/// # Panics
/// If `ip` fails.
pub fn join_by_queues(queues: u32, one: &Namespace, its: &str, other: &Namespace, others: &str) {
    let queues = queues.to_string();
    let end = |name, namespace| ["name", name, "netns", namespace, "numrxqueues", &queues, "numtxqueues", &queues];
    let mut words = vec!["link", "add"];
    words.extend(end(its, &one.name));
    words.extend(["type", "veth", "peer"]);
    words.extend(end(others, &other.name));
    ip(&words);
    one.ip(&format!("link set dev {its} up"));
    other.ip(&format!("link set dev {others} up"));
}

/// Two hosts with humpyard's machine between them. `left` has `va`, whose other end is `ma` in
/// `middle`; `mb` in `middle` leads to `vb` in `right`. The hosts are 10.9.0.1 and 10.9.0.2,
/// fd00::1 and fd00::2.
#[derive(Debug)]
pub struct Line {
    /// The one host.
    pub left: Namespace,
    /// The namespace of humpyard.
    pub middle: Namespace,
    /// The other host.
    pub right: Namespace,
}

impl Line {
    /// Makes a line without addresses; the kernel in the middle sends nothing.
    pub fn make() -> Self {
        let line = Self { left: Namespace::make(), middle: Namespace::make(), right: Namespace::make() };
        line.middle.silence();
        join(&line.left, "va", &line.middle, "ma");
        join(&line.right, "vb", &line.middle, "mb");
        line
    }

    /// Makes a line with addresses of one network at both ends.
    pub fn with_addresses() -> Self {
        let line = Self::make();
        for (host, interface, number) in [(&line.left, "va", 1), (&line.right, "vb", 2)] {
            host.ip(&format!("addr add 10.9.0.{number}/24 dev {interface}"));
            host.ip(&format!("addr add fd00::{number}/64 dev {interface} nodad"));
        }
        line
    }
}
