//! Two network namespaces with a virtual cable between them, which are gone when they are dropped.

use humpyard_testkit::network::{Namespace, join_by_queues, possible};

/// Two namespaces; interface `a` in the first, `b` in the second, with a cable between them.
pub(crate) struct Pair {
    namespaces: [Namespace; 2],
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
    /// Makes them, both interfaces with this number of queues, and up. `None`, after it has printed why: that cannot be done.
    pub(crate) fn new(queues: u32) -> Option<Self> {
        if !possible() {
            return None;
        }
        let namespaces = [Namespace::make(), Namespace::make()];
        let [a, b] = &namespaces;
        for namespace in &namespaces {
            // No address, so that nothing is said by itself.
            let output = namespace.run("sysctl -qw net.ipv6.conf.default.addr_gen_mode=1");
            assert!(output.status.success(), "{output:?}");
        }
        join_by_queues(queues, a, "a", b, "b");
        Some(Self { namespaces })
    }

    /// Runs `ip` with these words at one end.
    pub(crate) fn ip(&self, end: End, words: &str) {
        self.at(end).ip(words);
    }

    /// Changes an interface.
    pub(crate) fn link(&self, end: End, what: &str) {
        self.at(end).ip(&format!("link set dev {} {what}", end.interface()));
    }

    /// Gives an interface an address, so that the system itself uses it.
    pub(crate) fn address(&self, end: End, address: &str) {
        self.at(end).ip(&format!("address add {address} dev {} nodad", end.interface()));
    }

    /// What the system says of an interface.
    pub(crate) fn show(&self, end: End) -> String {
        self.at(end).ip(&format!("-d link show dev {}", end.interface()))
    }

    /// Does this in a namespace, on a thread of its own.
    pub(crate) fn within<T: Send>(&self, end: End, work: impl FnOnce() -> T + Send) -> T {
        self.at(end).within(work)
    }

    const fn at(&self, end: End) -> &Namespace {
        match end {
            End::A => &self.namespaces[0],
            End::B => &self.namespaces[1],
        }
    }
}
