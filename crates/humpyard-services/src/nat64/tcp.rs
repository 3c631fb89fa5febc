//! The state of a session, and its transitions (RFC 6146, sections 3.5.1 to 3.5.3).

use super::kinds::{Kind, Protocol};

/// The flags of a TCP segment that change a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Segment {
    syn: bool,
    fin: bool,
    rst: bool,
}

impl Segment {
    /// The value for other protocols.
    pub(super) const NONE: Self = Self { syn: false, fin: false, rst: false };
    #[cfg(test)]
    pub(super) const SYN: Self = Self { syn: true, ..Self::NONE };

    /// Returns the flags in a TCP header's byte of flags.
    pub(super) const fn of(flags: u8) -> Self {
        Self { syn: flags & 2 != 0, fin: flags & 1 != 0, rst: flags & 4 != 0 }
    }
}

/// The state of a session. TCP: figure 2 of RFC 6146, without the final state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Udp,
    Icmp,
    /// The IPv4 side has opened.
    V4Init,
    /// The IPv6 side has opened.
    V6Init,
    Established,
    /// The IPv4 side has closed.
    V4Closed,
    /// The IPv6 side has closed.
    V6Closed,
    BothClosed,
    /// It was reset.
    Reset,
}

impl State {
    /// Returns the state after the first packet. `None`: this packet creates no session.
    pub(super) const fn first(protocol: Protocol, from_v6: bool, segment: Segment) -> Option<Self> {
        match protocol {
            Protocol::Udp => Some(Self::Udp),
            Protocol::Icmp => Some(Self::Icmp),
            Protocol::Tcp if !segment.syn => None,
            Protocol::Tcp if from_v6 => Some(Self::V6Init),
            Protocol::Tcp => Some(Self::V4Init),
        }
    }

    /// Returns the state after one more packet, and whether the timeout restarts.
    pub(super) const fn after(self, from_v6: bool, Segment { syn, fin, rst }: Segment) -> (Self, bool) {
        match self {
            Self::Udp | Self::Icmp => (self, true),
            Self::V4Init if syn && from_v6 => (Self::Established, true),
            Self::V6Init if syn && from_v6 => (self, true),
            Self::V6Init if syn => (Self::Established, true),
            Self::V4Init | Self::V6Init | Self::BothClosed => (self, false),
            Self::Established if fin && from_v6 => (Self::V6Closed, false),
            Self::Established if fin => (Self::V4Closed, false),
            Self::Established if rst => (Self::Reset, true),
            Self::V4Closed if fin && from_v6 => (Self::BothClosed, true),
            Self::V6Closed if fin && !from_v6 => (Self::BothClosed, true),
            Self::Established | Self::V4Closed | Self::V6Closed => (self, true),
            Self::Reset if rst => (self, false),
            Self::Reset => (Self::Established, true),
        }
    }

    /// Returns the kind of its timeout.
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Udp => Kind::Udp,
            Self::Icmp => Kind::Icmp,
            Self::Established | Self::V4Closed | Self::V6Closed => Kind::TcpOpen,
            Self::V4Init | Self::V6Init | Self::BothClosed | Self::Reset => Kind::TcpTransitory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The life of a connection: the sending side and its flags, then the resulting state.
    #[test]
    fn the_states_of_rfc_6146() {
        const SYN: u8 = 2;
        const FIN: u8 = 1;
        const RST: u8 = 4;
        const ACK: u8 = 16;
        let (v4, v6) = (false, true);
        let walk = |from_v6: bool, steps: &[(bool, u8, State, bool)]| {
            let mut state = State::first(Protocol::Tcp, from_v6, Segment::of(SYN)).unwrap();
            for &(from_v6, flags, expected, renewed) in steps {
                assert_eq!(state.after(from_v6, Segment::of(flags)), (expected, renewed), "{state:?} {flags}");
                state = expected;
            }
        };
        use State::{BothClosed, Established, Reset, V4Closed, V4Init, V6Closed, V6Init};
        walk(
            v6,
            &[
                (v6, SYN, V6Init, true),
                (v4, ACK, V6Init, false),
                (v4, SYN | ACK, Established, true),
                (v6, ACK, Established, true),
                (v4, FIN, V4Closed, false),
                (v6, ACK, V4Closed, true),
                (v6, FIN, BothClosed, true),
                (v4, ACK, BothClosed, false),
            ],
        );
        walk(
            v4,
            &[
                (v4, SYN, V4Init, false),
                (v6, SYN | ACK, Established, true),
                (v6, RST, Reset, true),
                (v6, RST, Reset, false),
                (v4, ACK, Established, true),
                (v6, FIN, V6Closed, false),
                (v4, FIN, BothClosed, true),
            ],
        );
        assert_eq!(State::first(Protocol::Tcp, v6, Segment::of(ACK)), None);
        assert!((Established.kind() == Kind::TcpOpen) && (Reset.kind() == Kind::TcpTransitory));
    }
}
