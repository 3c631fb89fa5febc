//! The protocols of generated flows.

/// A protocol over IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    Tcp,
    Udp,
    Icmp,
}
