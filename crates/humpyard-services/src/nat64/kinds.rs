//! Kinds of bindings, and kinds of session timeouts.

/// The kind of a binding. Each kind has its own ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    /// Ports of TCP.
    Tcp,
    /// Ports of UDP.
    Udp,
    /// Identifiers of ICMP queries.
    Icmp,
}

/// The kind of a session's timeout. Sessions of one kind end in the order in which they were touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Udp,
    Icmp,
    TcpOpen,
    TcpTransitory,
}

impl Kind {
    pub(super) const COUNT: usize = 4;
}
