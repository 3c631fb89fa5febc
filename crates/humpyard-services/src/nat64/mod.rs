//! Translation between IPv6 and IPv4: hosts that know but one of them speak to each other.
//!
//! # Work
//! An IPv4 host has an IPv6 address: its own behind a prefix (RFC 6052). An IPv6 host that sends there is given an address and a port
//! of the pool, for as long as it goes on (stateful NAT64); what is sent back to these finds it. The hosts of `map` have an IPv4 address
//! of their own, to which IPv4 hosts may send first, as in NAT-PT. Headers are written anew in the other version; checksums are mended
//! by what has changed; ICMP errors are told in the words of the other version, with the packet that they quote. TTL and hop limit go
//! down, and at their end the sender is told. A packet from IPv6 to an address of the pool or of `map` comes back to IPv6 (hairpin).
//!
//! The link header stays as it is but for the version it announces. Padding behind the packet goes.
//!
//! # Source
//! RFC 7915 (headers, ICMP), RFC 6146 (bindings, sessions, TCP states), RFC 6052 (addresses), RFC 4787 and RFC 5382 (filtering,
//! ports), RFC 1624 (checksums). It does what NAT-PT (RFC 2766), the application of the Everest paper, did; that was made historic
//! by RFC 4966 for its DNS part, which is not here.
//!
//! # Cost
//! O(1) for each packet and each byte that is moved, but for the end of sessions (paid for by their making) and for a pool that is almost
//! used up: then up to 2,048 ports of each address are tried. The table is in 16 parts, by port, each behind a lock: all instances share
//! it, so any worker may have any packet.
//!
//! # Departures
//! * A TCP connection that was idle for its time ends; no probe is sent to see whether it lives (RFC 6146, section 3.5.2.2). A SYN of an
//!   IPv4 host to a port without a binding is refused at once, and not kept for 6 s.
//! * Fragments in the wrong order are dropped for `start_missing` until the first has come. ICMP in fragments is dropped: its checksum
//!   covers the length of the whole (RFC 7915, section 1.1).
//! * An ICMP error that quotes a packet of somebody else than whom it is sent to is dropped as `malformed`.
//! * Extensions of ICMP errors (RFC 4884) are cut off, and lengths in them with these.
//! * An ICMPv6 error of a router comes from the address that stands for the host which the packet was for (RFC 6791 would give
//!   routers a pool of their own).
//! * A UDP packet in IPv6 without a checksum (RFC 6935) has none in IPv4.
//! * Under the well-known prefix, private IPv4 addresses are translated unless `private=false` (RFC 6052, section 3.1 says not to).

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

/// What an ICMP error has before its quote, in bytes.
const ICMP_BYTES: usize = 8;

/// Translation between IPv6 and IPv4. See the [module](self) for what it does.
#[derive(Clone, Debug)]
pub struct Nat64 {
    shared: Arc<Shared>,
    reporter: Reporter,
    /// The longest packet that links take, in bytes.
    mtu: usize,
    /// The longest IPv6 packet made of an IPv4 packet that may be fragmented, in bytes.
    fragment_above: usize,
    counts: Counts,
    /// An ICMP error in the making.
    message: Vec<u8>,
}

/// What was translated.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// From each side, by [`Sort`].
    packets: [[u64; 4]; 2],
    hairpinned: u64,
    bindings: u64,
    sessions: u64,
}

impl Counts {
    /// Counts what the table made for a packet.
    const fn made<T>(&mut self, found: &Found<T>) {
        self.bindings += found.new_binding as u64;
        self.sessions += found.new_session as u64;
    }
}

/// What packets are counted by.
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

/// A packet to be translated, as it lies in its frame.
#[derive(Clone, Copy, Debug)]
struct Read<'a, A> {
    header: Header<A>,
    /// What it carries, as far as that is there.
    upper: &'a [u8],
}

impl<A> Read<'_, A> {
    /// That so many bytes of what it carries are there.
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

/// Where a packet goes to in the other version.
#[derive(Clone, Copy, Debug)]
struct Place<A> {
    source: A,
    destination: A,
    /// What becomes of its front, if it has ports.
    ports: Option<(Protocol, PortPair)>,
}

/// Bytes on the wire behind the link header: the capture may have kept less.
fn room(frame: &Frame, at: usize) -> usize {
    (frame.wire_length as usize).max(frame.data.len()) - at
}

/// What a packet carries, as far as it is there; none if not even its start is.
fn upper<'a, A>(packet: &'a [u8], header: &Header<A>) -> Option<&'a [u8]> {
    packet.get(header.upper..packet.len().min(header.upper + header.carried))
}

/// The number of a protocol in IPv4, by that in IPv6.
const fn number_v4(number: u8) -> u8 {
    if number == protocol::ICMPV6 { protocol::ICMP } else { number }
}

/// The number of a protocol in IPv6, by that in IPv4.
const fn number_v6(number: u8) -> u8 {
    if number == protocol::ICMP { protocol::ICMPV6 } else { number }
}

/// Who stands for the near end of a packet that an error quotes, and its ports then, if it has any. The near end is the one that
/// changes, `fixed` is who always stands for it, and `find` asks the table by the ports of the near and the far end.
fn place_quoted<A, B>(
    content: Content,
    inner: &Header<A>,
    upper: &[u8],
    near: End,
    fixed: Option<B>,
    find: impl FnOnce(Protocol, u16, u16) -> Option<(B, u16)>,
) -> Result<(B, Option<(Protocol, PortPair)>), DropReason> {
    let Content::Query(protocol) = content else {
        // No error is about an error.
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

/// Writes an ICMP error but for its checksum: its first bytes, and a packet that it quotes with this header.
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

/// Puts a header in the place of the one of `old` bytes at `at`, and ends the frame `carried` bytes behind it, or before where the
/// capture did.
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

/// Which time a packet is translated: one from IPv6 to IPv6 is twice, and loses one hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    First,
    Second,
}
