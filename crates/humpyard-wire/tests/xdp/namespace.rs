//! Two network namespaces with a virtual cable between them, which are gone when they are dropped.
#![expect(clippy::print_stderr, reason = "a test that skips must say so")]

use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use nix::sched::{CloneFlags, setns};

/// The environment that makes a skipped test a failure.
const REQUIRED: &str = "HUMPYARD_REQUIRE_NETNS";

/// Two namespaces; interface `a` in the first, `b` in the second, with a cable between them.
pub(crate) struct Pair {
    names: [String; 2],
}

/// One end of the cable.
#[derive(Clone, Copy)]
pub(crate) enum End {
    A,
    B,
}

impl End {
    const fn interface(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

impl Pair {
    /// Makes them, both interfaces with so many queues and up; none, and a word on why, where that cannot be done.
    pub(crate) fn new(queues: u32) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let names = ["a", "b"].map(|end| format!("humpyard-{}-{number}-{end}", std::process::id()));
        if let Err(reason) = ip(&["netns", "add", &names[0]]) {
            let text = format!("network namespaces cannot be made: {reason}");
            assert!(std::env::var(REQUIRED).as_deref() != Ok("1"), "{text}");
            eprintln!("SKIPPED: {text}");
            return None;
        }
        let pair = Self { names };
        let must = |arguments: &[&str]| ip(arguments).unwrap();
        let [a, b] = &pair.names;
        let queues = queues.to_string();
        must(&["netns", "add", b]);
        let of_end = ["numrxqueues", &queues, "numtxqueues", &queues];
        let mut all = vec!["-n", a, "link", "add", "name", "a"];
        all.extend(of_end);
        all.extend(["type", "veth", "peer", "name", "b", "netns", b]);
        all.extend(of_end);
        must(&all);
        for end in [End::A, End::B] {
            // No address, so that nothing is said by itself.
            pair.link(end, &["addrgenmode", "none"]);
            pair.link(end, &["up"]);
        }
        Some(pair)
    }

    /// Changes an interface.
    pub(crate) fn link(&self, end: End, what: &[&str]) {
        let mut arguments = vec!["-n", self.name(end), "link", "set", "dev", end.interface()];
        arguments.extend(what);
        ip(&arguments).unwrap();
    }

    /// Gives an interface an address, so that the system itself uses it.
    pub(crate) fn address(&self, end: End, address: &str) {
        ip(&["-n", self.name(end), "address", "add", address, "dev", end.interface(), "nodad"]).unwrap();
    }

    /// What the system says of an interface.
    pub(crate) fn show(&self, end: End) -> String {
        ip(&["-n", self.name(end), "-d", "link", "show", "dev", end.interface()]).unwrap()
    }

    /// Does this in a namespace, on a thread of its own.
    pub(crate) fn within<T: Send>(&self, end: End, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name(end))).unwrap();
        let inside = || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        };
        thread::scope(|scope| scope.spawn(inside).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn name(&self, end: End) -> &str {
        match end {
            End::A => &self.names[0],
            End::B => &self.names[1],
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            // While a test fails, a second panic would hide why.
            if let Err(reason) = ip(&["netns", "delete", name]) {
                eprintln!("{reason}");
            }
        }
    }
}

/// Runs `ip`; what it says, or why it did not do it.
fn ip(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}
