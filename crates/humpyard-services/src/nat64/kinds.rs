//! What bindings are for, and what sessions wait for.

/// What a binding is for: the ports of these are apart from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    /// Ports of TCP.
    Tcp,
    /// Ports of UDP.
    Udp,
    /// Identifiers of ICMP queries.
    Icmp,
}

/// What sessions wait for together: those of one kind end in the order in which they were touched.
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
