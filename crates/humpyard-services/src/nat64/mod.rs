//! Translation between IPv6 and IPv4: hosts with only one of the versions can communicate.
//!
//! # Work
//! An IPv4 host has an IPv6 address: its own address behind a prefix (RFC 6052). An IPv6 host that sends to it
//! gets an address and a port of the pool while its sessions last (stateful NAT64). Packets to this address and
//! port reach the host. Each host of `map` has a fixed IPv4 address, to which IPv4 hosts may send first, as in
//! NAT-PT.
//!
//! Headers are rewritten in the other version, and checksums are updated by the changes. ICMP errors are
//! translated, with the packet that they quote. The TTL or hop limit is decremented; a packet that reaches 0 is
//! reported to its sender. A packet from IPv6 to an address of the pool or of `map` returns to IPv6
//! (hairpinning).
//!
//! The link header keeps everything but the version that it announces. Padding behind the packet is removed.
//!
//! # Source
//! RFC 7915 (headers, ICMP), RFC 6146 (bindings, sessions, TCP states), RFC 6052 (addresses), RFC 4787 and RFC
//! 5382 (filtering, ports), RFC 1624 (checksums). It replaces NAT-PT (RFC 2766), the application of the Everest
//! paper. RFC 4966 made NAT-PT historic because of its DNS part, which is not here.
//!
//! # Cost
//! O(1) per packet and per moved byte, with two exceptions: the end of a session, which counts toward its
//! creation, and a pool that is almost used up. Then up to 2,048 ports of each address are tried. The table has
//! 16 parts, by port, each with a lock. All instances share it, so any worker may process any packet.
//!
//! # Departures
//! * An idle TCP connection ends after its timeout, without a probe (RFC 6146, section 3.5.2.2). A SYN from an
//!   IPv4 host to a port without a binding is refused at once, and not kept for 6 s.
//! * Fragments that come before the first are dropped for `start_missing`. Fragments of ICMP are dropped: the
//!   checksum covers the length of the whole message (RFC 7915, section 1.1).
//! * An ICMP error is dropped as `malformed` if its destination is not the sender of the quoted packet.
//! * Extensions of ICMP errors (RFC 4884) are removed, with their length fields.
//! * A router's ICMPv6 error comes from the address that represents the destination host of the quoted packet.
//!   RFC 6791 would give routers a pool of their own.
//! * A UDP packet in IPv6 without a checksum (RFC 6935) has none in IPv4.
//! * Under the well-known prefix, private IPv4 addresses are translated unless `private=false`. RFC 6052,
//!   section 3.1 forbids it.

mod errors;
mod header;
mod kinds;
mod parameter;
mod prefix;
mod shared;
mod table;
mod tcp;
mod to_v4;
mod to_v6;
mod transport;

use std::sync::Arc;

use humpyard_core::frame::Frame;

use self::errors::Message;
use self::header::{Head, Header, Refusal};
use self::kinds::Protocol;
pub use self::parameter::{Filter, Map, Nat64Params, Pool, Ports};
pub use self::prefix::Prefix;
use self::shared::Shared;
use self::table::Found;
use self::transport::{Change, Content, End, Ends, Ports as PortPair, change};
use crate::forward::Router;
use crate::forward::icmp::Reporter;
use crate::ip::protocol;
use crate::link::{IpVersion, Network};
use crate::service::{Build, Context, Counter, DropReason, Generated, Info, Service, ServiceError, Verdict};

/// The ICMP header before the quote of an error, in bytes.
const ICMP_BYTES: usize = 8;

/// Translation between IPv6 and IPv4; see the [module](self).
#[derive(Clone, Debug)]
pub struct Nat64 {
    shared: Arc<Shared>,
    reporter: Reporter,
    /// The MTU of the links, in bytes.
    mtu: usize,
    /// The longest IPv6 packet made from an IPv4 packet that may be fragmented, in bytes.
    fragment_above: usize,
    counts: Counts,
    /// A buffer for an ICMP error.
    message: Vec<u8>,
}

/// Counters of translated packets.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Packets from each side, by [`Sort`].
    packets: [[u64; 4]; 2],
    hairpinned: u64,
    bindings: u64,
    sessions: u64,
}

impl Counts {
    /// Counts a new binding and a new session.
    const fn made<T>(&mut self, found: &Found<T>) {
        self.bindings += found.new_binding as u64;
        self.sessions += found.new_session as u64;
    }
}

/// The categories of packet counters.
#[derive(Clone, Copy, Debug)]
enum Sort {
    Tcp,
    Udp,
    Icmp,
    Other,
}

impl Sort {
    const fn of(protocol: u8) -> Self {
        match protocol {
            protocol::TCP => Self::Tcp,
            protocol::UDP => Self::Udp,
            protocol::ICMP | protocol::ICMPV6 => Self::Icmp,
            _ => Self::Other,
        }
    }
}

impl Build for Nat64 {
    type Params = Nat64Params;

    const INFO: Info = Info {
        name: "nat64",
        summary: "translates between IPv6 and IPv4, with state or by fixed addresses; what NAT-PT did",
        source: "RFC 7915; RFC 6146; RFC 6052; RFC 1624; for NAT-PT RFC 2766 and the Everest paper",
    };

    fn new(params: &Nat64Params) -> Result<Self, ServiceError> {
        let router = Router { v4: params.router_v4.0, v6: params.router_v6.0, mac: params.router_mac };
        Ok(Self {
            shared: Arc::new(Shared::new(params)?),
            reporter: Reporter::new(router, params.icmp_interval, params.icmp_burst),
            mtu: params.mtu as usize,
            fragment_above: params.fragment_above.min(params.mtu) as usize,
            counts: Counts::default(),
            message: Vec::with_capacity(2048),
        })
    }
}

impl Service for Nat64 {
    fn process(&mut self, frame: &mut Frame, context: &Context, generated: &mut Generated) -> Verdict {
        self.reporter.on_packet();
        let network = match Network::find(frame) {
            Ok(network) if network.group => return Verdict::Drop(DropReason::LinkGroup),
            Ok(network) => network,
            Err(reason) => return Verdict::Drop(reason),
        };
        let done = match network.version {
            IpVersion::V6 => self.take_v6(frame, network.offset, context.now, generated),
            IpVersion::V4 => self.take_v4(frame, network.offset, context.now, generated),
        };
        match done {
            Ok(()) => Verdict::Forward,
            Err(Refusal { reason, problem }) => {
                if let Some(problem) = problem {
                    self.reporter.report(problem, frame, network, generated);
                }
                Verdict::Drop(reason)
            }
        }
    }

    fn counters(&self) -> Vec<Counter> {
        let names = [
            ["v6_v4_tcp", "v6_v4_udp", "v6_v4_icmp", "v6_v4_other"],
            ["v4_v6_tcp", "v4_v6_udp", "v4_v6_icmp", "v4_v6_other"],
        ];
        let packets = names.iter().flatten().zip(self.counts.packets.iter().flatten());
        let others = [
            ("hairpinned", self.counts.hairpinned),
            ("bindings", self.counts.bindings),
            ("sessions", self.counts.sessions),
        ];
        packets.map(|(&name, &count)| (name, count)).chain(others).map(|(name, n)| Counter::new(name, n)).collect()
    }
}

/// A packet to translate, in its frame.
#[derive(Clone, Copy, Debug)]
struct Read<'a, A> {
    header: Header<A>,
    /// The captured part of its payload.
    upper: &'a [u8],
}

impl<A> Read<'_, A> {
    /// Checks that at least this many bytes of the payload were captured.
    const fn has(&self, bytes: usize) -> Result<(), DropReason> {
        if self.header.carried < bytes {
            return Err(DropReason::Malformed);
        }
        if self.upper.len() < bytes { Err(DropReason::Truncated) } else { Ok(()) }
    }

    const fn is_whole(&self) -> bool {
        self.upper.len() >= self.header.carried
    }
}

/// The addresses and ports of a packet in the other version.
#[derive(Clone, Copy, Debug)]
struct Place<A> {
    source: A,
    destination: A,
    /// The new ports. `None`: the packet has no ports.
    ports: Option<(Protocol, PortPair)>,
}

/// Returns the bytes on the wire behind the link header; the capture may have kept fewer.
fn room(frame: &Frame, at: usize) -> usize {
    (frame.wire_length as usize).max(frame.data.len()) - at
}

/// Returns the captured part of a packet's payload. `None`: its start was cut off.
fn upper<'a, A>(packet: &'a [u8], header: &Header<A>) -> Option<&'a [u8]> {
    packet.get(header.upper..packet.len().min(header.upper + header.carried))
}

/// Translates an IPv6 protocol number to IPv4.
const fn number_v4(number: u8) -> u8 {
    if number == protocol::ICMPV6 { protocol::ICMP } else { number }
}

/// Translates an IPv4 protocol number to IPv6.
const fn number_v6(number: u8) -> u8 {
    if number == protocol::ICMP { protocol::ICMPV6 } else { number }
}

/// Returns the translated near end of a packet that an error quotes, and its ports, if it has any. `fixed` is
/// the near end's fixed address, if it has one. `find` looks up the ports of the near and the far end in the
/// table.
fn place_quoted<A, B>(
    content: Content,
    inner: &Header<A>,
    upper: &[u8],
    near: End,
    fixed: Option<B>,
    find: impl FnOnce(Protocol, u16, u16) -> Option<(B, u16)>,
) -> Result<(B, Option<(Protocol, PortPair)>), DropReason> {
    let Content::Query(protocol) = content else {
        // There are no errors about errors.
        let is_other = content == Content::Other;
        return fixed.filter(|_| is_other).map(|place| (place, None)).ok_or(DropReason::IcmpUntranslatable);
    };
    if inner.fragment.is_some() && (protocol == Protocol::Icmp || !inner.is_start()) {
        return match fixed {
            Some(place) if protocol != Protocol::Icmp => Ok((place, None)),
            _ => Err(DropReason::Fragment),
        };
    }
    if upper.len() < ICMP_BYTES {
        return Err(DropReason::Malformed);
    }
    let ports = PortPair::read(protocol, upper, near);
    let (mine, far) = match near {
        End::Source => (ports.source, ports.destination),
        End::Destination => (ports.destination, ports.source),
    };
    let (place, port) = match fixed {
        Some(place) => (place, mine),
        None => find(protocol, mine, far).ok_or(DropReason::NoBinding)?,
    };
    let ports = match near {
        End::Source => PortPair { source: port, destination: far },
        End::Destination => PortPair { source: far, destination: port },
    };
    Ok((place, Some((protocol, ports))))
}

/// Writes an ICMP error without its checksum: its first bytes, and the quoted packet with this header.
fn write_message(
    out: &mut Vec<u8>,
    error: Message,
    head: &Head,
    upper: &[u8],
    ports: Option<(Protocol, PortPair)>,
    (before, after): (Ends, Ends),
    length: usize,
) {
    out.clear();
    out.extend_from_slice(&error.bytes());
    out.extend_from_slice(head.bytes());
    let start = out.len();
    out.extend_from_slice(upper);
    if let Some((protocol, ports)) = ports {
        change(protocol, &mut out[start..], Change { before, after, ports, length });
    }
}

/// Replaces the header of `old` bytes at `at`. Ends the frame `carried` bytes behind it, or where the capture
/// ended.
fn put(frame: &mut Frame, at: usize, old: usize, head: &[u8], carried: usize) {
    let data = &mut frame.data;
    data.truncate(at + old + carried);
    let end = data.len();
    if head.len() > old {
        data.resize(end + head.len() - old, 0);
    }
    data.copy_within(at + old..end, at + head.len());
    data.truncate(end + head.len() - old);
    data[at..at + head.len()].copy_from_slice(head);
    frame.wire_length = (at + head.len() + carried) as u32;
}

/// The pass of a translation. A packet from IPv6 to IPv6 has two passes, and loses one hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    First,
    Second,
}
