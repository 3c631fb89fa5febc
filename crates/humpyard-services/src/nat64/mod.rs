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
//! * Extensions of ICMP errors (RFC 4884) are cut off, and lengths in them with these.
//! * An ICMPv6 error of a router comes from the address that stands for the host which the packet was for (RFC 6791 would give
//!   routers a pool of their own).
//! * A UDP packet in IPv6 without a checksum (RFC 6935) has none in IPv4.
//! * Under the well-known prefix, private IPv4 addresses are translated unless `private=false` (RFC 6052, section 3.1 says not to).

mod errors;
mod header;
mod parameter;
mod prefix;
mod shared;
mod table;
mod tcp;
mod transport;

use core::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;

use self::errors::{Message, Mtu};
use self::header::{Fragment, Head, Header, Refusal, has_source_route};
pub use self::parameter::{Filter, Map, Nat64Params, Pool, Ports};
pub use self::prefix::Prefix;
use self::shared::{Shared, Whole};
use self::table::{Found, Protocol};
use self::transport::{Change, Content, End, Ends, Ports as PortPair, Side, change, segment};
use crate::checksum;
use crate::forward::icmp::{Problem, Reporter};
use crate::forward::{Router, ipv4, ipv6};
use crate::ip::{IPV4_BYTES, IPV6_BYTES, protocol};
use crate::link::{self, IpVersion, Network};
use crate::service::{Build, Context, Counter, DropReason, Generated, Info, Service, ServiceError, Verdict};

/// The header of IPv6 and that of its fragments, in bytes.
const V6_FRAGMENT_BYTES: usize = IPV6_BYTES + 8;
/// The longest ICMPv6 error (RFC 4443, section 2.4 (c)), in bytes.
const V6_ERROR_MAX: usize = 1280;
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
            IpVersion::V6 => self.from_v6(frame, network.offset, context.now, generated),
            IpVersion::V4 => self.from_v4(frame, network.offset, context.now, generated),
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

/// From IPv6 to IPv4.
impl Nat64 {
    fn from_v6(&mut self, frame: &mut Frame, at: usize, now: Time, generated: &mut Generated) -> Result<(), Refusal> {
        let packet = &frame.data[at..];
        let header = Header::<Ipv6Addr>::read(packet)?;
        if header.upper + header.carried > room(frame, at) {
            return Err(DropReason::BadTotalLength.into());
        }
        let remote = self.check_v6(&header)?;
        let read = Read { header, upper: upper(packet, &header).ok_or(DropReason::Truncated)? };
        let content = self.content_v6(&read)?;
        if content == Content::Error {
            self.error_from_v6(frame, at, &header, remote, now)?;
        } else {
            let place = self.place_v4(&read, content, remote, now)?;
            self.write_v4(frame, at, &header, &place)?;
        }
        self.counts.packets[0][Sort::of(header.protocol) as usize] += 1;
        if self.shared.is_ours(remote) {
            self.counts.hairpinned += 1;
            // Who could be told is not the sender any more.
            return self.go_to_v6(frame, at, now, Pass::Second, generated).map_err(|refusal| refusal.reason.into());
        }
        link::announce(&mut frame.data, frame.link, at, IpVersion::V4);
        Ok(())
    }

    /// Whether a packet may be translated by its addresses and its hop limit; whom it is for.
    fn check_v6(&self, header: &Header<Ipv6Addr>) -> Result<Ipv4Addr, Refusal> {
        let fault = ipv6::source_fault(header.source).or_else(|| ipv6::destination_fault(header.destination));
        if let Some(reason) = fault {
            return Err(reason.into());
        }
        let prefix = self.shared.prefix;
        let remote = prefix.extract(header.destination).ok_or(DropReason::NotTranslated)?;
        if prefix.covers(header.source) {
            return Err(DropReason::SourceTranslated.into());
        }
        if let Some(reason) = ipv4::destination_fault(remote) {
            return Err(reason.into());
        }
        if self.shared.is_withheld(remote) {
            return Err(DropReason::DestinationReserved.into());
        }
        if header.hops <= 1 {
            return Err(Refusal::told(DropReason::TtlExpired, Problem::TimeExceeded));
        }
        Ok(remote)
    }

    fn content_v6(&self, read: &Read<'_, Ipv6Addr>) -> Result<Content, Refusal> {
        let header = &read.header;
        if header.protocol == protocol::ICMPV6 {
            if header.fragment.is_some() {
                return Err(DropReason::Fragment.into());
            }
            read.has(ICMP_BYTES)?;
        }
        Ok(Content::of(Side::V6, header.protocol, read.upper)?)
    }

    /// What stands for the sender, and the ports that the packet gets.
    fn place_v4(
        &mut self,
        read: &Read<'_, Ipv6Addr>,
        content: Content,
        destination: Ipv4Addr,
        now: Time,
    ) -> Result<Place<Ipv4Addr>, Refusal> {
        let header = &read.header;
        let fixed = self.shared.fixed_v4(header.source);
        let Content::Query(protocol) = content else {
            let source = fixed.ok_or(Refusal::told(DropReason::ProtocolDenied, Problem::Prohibited))?;
            return Ok(Place { source, destination, ports: None });
        };
        let whole = header.fragment.map(|fragment| Whole {
            source: header.source.to_bits(),
            destination: header.destination.to_bits(),
            identification: fragment.identification,
            protocol: header.protocol,
        });
        if let Some(whole) = whole
            && !header.is_start()
        {
            let recall = || self.shared.recall(now, whole).map(|bits| Ipv4Addr::from_bits(bits as u32));
            let source = fixed.or_else(recall).ok_or(DropReason::StartMissing)?;
            return Ok(Place { source, destination, ports: None });
        }
        read.has(protocol.header_bytes())?;
        let mut ports = PortPair::read(protocol, read.upper, End::Source);
        if let Some(source) = fixed {
            return Ok(Place { source, destination, ports: Some((protocol, ports)) });
        }
        let (inside, remote) = ((header.source, ports.source), (destination, ports.destination));
        let found = self.shared.table.outbound(now, protocol, inside, remote, segment(protocol, read.upper));
        let found = found.map_err(|reason| match reason {
            DropReason::StartMissing => reason.into(),
            _ => Refusal::told(reason, Problem::Unreachable),
        })?;
        self.count(&found);
        let (source, port) = found.place;
        ports.source = port;
        if let Some(whole) = whole {
            self.shared.remember(now, whole, u128::from(source.to_bits()));
        }
        Ok(Place { source, destination, ports: Some((protocol, ports)) })
    }

    const fn count<T>(&mut self, found: &Found<T>) {
        self.counts.bindings += found.new_binding as u64;
        self.counts.sessions += found.new_session as u64;
    }

    fn write_v4(
        &self,
        frame: &mut Frame,
        at: usize,
        header: &Header<Ipv6Addr>,
        place: &Place<Ipv4Addr>,
    ) -> Result<(), Refusal> {
        let Place { source, destination, ports } = *place;
        let head = self.head_v4(header, source, destination, header.carried)?;
        if let Some((protocol, ports)) = ports {
            let change_to = Change {
                before: Ends::V6(header.source, header.destination),
                after: Ends::V4(source, destination),
                ports,
                length: header.carried,
            };
            let end = frame.data.len().min(at + header.upper + header.carried);
            change(protocol, &mut frame.data[at + header.upper..end], change_to);
        }
        put(frame, at, header.upper, head.bytes(), header.carried);
        Ok(())
    }

    /// The header of the packet in IPv4, if the next link takes it.
    fn head_v4(
        &self,
        header: &Header<Ipv6Addr>,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        carried: usize,
    ) -> Result<Head, Refusal> {
        if IPV4_BYTES + carried > self.mtu && header.fragment.is_none() {
            return Err(Refusal::told(DropReason::TooBig, Problem::TooBig(self.mtu as u16)));
        }
        let header = Header { hops: header.hops - 1, ..*header };
        header.to_v4(source, destination, number_v4(header.protocol), carried, self.shared.identification())
    }

    /// An ICMPv6 error: about a packet that came from IPv4, which it quotes.
    fn error_from_v6(
        &mut self,
        frame: &mut Frame,
        at: usize,
        header: &Header<Ipv6Addr>,
        remote: Ipv4Addr,
        now: Time,
    ) -> Result<(), Refusal> {
        let start = at + header.upper;
        let message = frame.data.get(start..start + header.carried).ok_or(DropReason::Incomplete)?;
        let pseudo = Ends::V6(header.source, header.destination).pseudo(protocol::ICMPV6, message.len());
        if pseudo.with(message).fold() != 0xffff {
            return Err(DropReason::BadChecksum.into());
        }
        let (first, quote) = message.split_first_chunk::<ICMP_BYTES>().ok_or(DropReason::Malformed)?;
        let error = Message::read(first);
        let quote = &quote[..error.quote_bytes_v6().unwrap_or(quote.len()).min(quote.len())];
        let inner = Header::<Ipv6Addr>::read(quote).map_err(|_| DropReason::Malformed)?;
        if inner.source != header.destination {
            return Err(DropReason::Malformed.into());
        }
        let upper = upper(quote, &inner).ok_or(DropReason::Malformed)?;
        let content = Content::of(Side::V6, inner.protocol, upper).map_err(|_| DropReason::IcmpUntranslatable)?;
        let fixed = self.shared.fixed_v4(inner.destination);
        let place = place_quoted(content, &inner, upper, End::Destination, fixed, |protocol, near, far| {
            self.shared.table.standing_for(now, protocol, (inner.destination, near), (remote, far))
        })?;
        let error = error.to_v4(Mtu { link: self.mtu as u32, packet: 0 })?;
        let head = inner.to_v4(remote, place.0, number_v4(inner.protocol), inner.carried, 0)?;
        let ends = (Ends::V6(inner.source, inner.destination), Ends::V4(remote, place.0));
        let message = &mut self.message;
        write_message(message, error, &head, upper, place.1, ends, inner.carried);
        let sum = checksum::checksum(message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let source = self.shared.fixed_v4(header.source).unwrap_or(place.0);
        let head = self.head_v4(header, source, remote, self.message.len())?;
        frame.data.truncate(start);
        frame.data.extend_from_slice(&self.message);
        put(frame, at, header.upper, head.bytes(), self.message.len());
        Ok(())
    }
}

/// Which time a packet is translated: one from IPv6 to IPv6 is twice, and loses one hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    First,
    Second,
}

/// From IPv4 to IPv6.
impl Nat64 {
    fn from_v4(&mut self, frame: &mut Frame, at: usize, now: Time, generated: &mut Generated) -> Result<(), Refusal> {
        let protocol = frame.data.get(at + 9).copied().unwrap_or_default();
        self.go_to_v6(frame, at, now, Pass::First, generated)?;
        self.counts.packets[1][Sort::of(protocol) as usize] += 1;
        Ok(())
    }

    fn go_to_v6(
        &mut self,
        frame: &mut Frame,
        at: usize,
        now: Time,
        pass: Pass,
        generated: &mut Generated,
    ) -> Result<(), Refusal> {
        let packet = &frame.data[at..];
        let mut header = Header::<Ipv4Addr>::read(packet)?;
        if header.upper + header.carried > room(frame, at) {
            return Err(DropReason::BadTotalLength.into());
        }
        let own = packet.get(..header.upper).ok_or(DropReason::Truncated)?;
        if !checksum::is_valid(own) {
            return Err(DropReason::BadChecksum.into());
        }
        self.check_v4(&header, own, pass)?;
        header.hops -= u8::from(pass == Pass::First);
        let read = Read { header, upper: upper(packet, &header).ok_or(DropReason::Truncated)? };
        let content = self.content_v4(&read)?;
        if content == Content::Error {
            self.error_from_v4(frame, at, &header, now)?;
            link::announce(&mut frame.data, frame.link, at, IpVersion::V6);
            return Ok(());
        }
        let place = self.place_v6(&read, content, now)?;
        self.write_v6(frame, at, &header, &place, generated)
    }

    fn check_v4(&self, header: &Header<Ipv4Addr>, own: &[u8], pass: Pass) -> Result<(), Refusal> {
        let fault = ipv4::source_fault(header.source).or_else(|| ipv4::destination_fault(header.destination));
        if let Some(reason) = fault {
            return Err(reason.into());
        }
        if !self.shared.is_ours(header.destination) {
            return Err(DropReason::NotTranslated.into());
        }
        if pass == Pass::Second {
            return Ok(());
        }
        if self.shared.is_ours(header.source) {
            return Err(DropReason::SourceTranslated.into());
        }
        if self.shared.is_withheld(header.source) {
            return Err(DropReason::SourceReserved.into());
        }
        if has_source_route(&own[IPV4_BYTES..]) {
            return Err(Refusal::told(DropReason::SourceRouted, Problem::Header(0)));
        }
        if header.hops <= 1 {
            return Err(Refusal::told(DropReason::TtlExpired, Problem::TimeExceeded));
        }
        Ok(())
    }

    fn content_v4(&self, read: &Read<'_, Ipv4Addr>) -> Result<Content, Refusal> {
        let header = &read.header;
        if header.protocol == protocol::ICMP {
            if header.fragment.is_some() {
                return Err(DropReason::Fragment.into());
            }
            read.has(ICMP_BYTES)?;
        }
        Ok(Content::of(Side::V4, header.protocol, read.upper)?)
    }

    /// The host that the destination stands for, and the ports that the packet gets.
    fn place_v6(&mut self, read: &Read<'_, Ipv4Addr>, content: Content, now: Time) -> Result<Place<Ipv6Addr>, Refusal> {
        let header = &read.header;
        let source = self.shared.prefix.embed(header.source);
        let fixed = self.shared.fixed_v6(header.destination);
        let Content::Query(protocol) = content else {
            let destination = fixed.ok_or(Refusal::told(DropReason::ProtocolDenied, Problem::Prohibited))?;
            return Ok(Place { source, destination, ports: None });
        };
        let whole = header.fragment.map(|fragment| Whole {
            source: u128::from(header.source.to_bits()),
            destination: u128::from(header.destination.to_bits()),
            identification: fragment.identification,
            protocol: header.protocol,
        });
        if let Some(whole) = whole
            && !header.is_start()
        {
            let recall = || self.shared.recall(now, whole).map(Ipv6Addr::from_bits);
            let destination = fixed.or_else(recall).ok_or(DropReason::StartMissing)?;
            return Ok(Place { source, destination, ports: None });
        }
        read.has(protocol.header_bytes())?;
        if transport::lacks_checksum(protocol, read.upper) {
            if whole.is_some() {
                return Err(DropReason::ChecksumMissing.into());
            }
            if !read.is_whole() {
                return Err(DropReason::Incomplete.into());
            }
        }
        let mut ports = PortPair::read(protocol, read.upper, End::Destination);
        if let Some(destination) = fixed {
            return Ok(Place { source, destination, ports: Some((protocol, ports)) });
        }
        let (outside, remote) = ((header.destination, ports.destination), (header.source, ports.source));
        let found = self.shared.table.inbound(now, protocol, outside, remote, segment(protocol, read.upper));
        let found = found.map_err(|reason| {
            let is_filtered = reason == DropReason::SenderUnknown;
            Refusal::told(reason, if is_filtered { Problem::Prohibited } else { Problem::Unreachable })
        })?;
        self.count(&found);
        let (destination, port) = found.place;
        ports.destination = port;
        if let Some(whole) = whole {
            self.shared.remember(now, whole, destination.to_bits());
        }
        Ok(Place { source, destination, ports: Some((protocol, ports)) })
    }

    fn write_v6(
        &self,
        frame: &mut Frame,
        at: usize,
        header: &Header<Ipv4Addr>,
        place: &Place<Ipv6Addr>,
        generated: &mut Generated,
    ) -> Result<(), Refusal> {
        let Place { source, destination, ports } = *place;
        let start = at + header.upper;
        let end = frame.data.len().min(start + header.carried);
        let head_bytes = if header.fragment.is_some() { V6_FRAGMENT_BYTES } else { IPV6_BYTES };
        let length = head_bytes + header.carried;
        let limit = if header.may_fragment { self.fragment_above } else { self.mtu };
        if length > limit {
            if !header.may_fragment {
                let v4 = limit - (IPV6_BYTES - IPV4_BYTES);
                return Err(Refusal::told(DropReason::TooBig, Problem::TooBig(v4 as u16)));
            }
            if end < start + header.carried {
                return Err(DropReason::Incomplete.into());
            }
            let pieces = header.carried.div_ceil(self.piece_bytes());
            if pieces - 1 > generated.frames_max() - generated.len() {
                return Err(DropReason::TooLong.into());
            }
        }
        if let Some((protocol, ports)) = ports {
            let ends = Ends::V6(source, destination);
            let upper = &mut frame.data[start..end];
            let lacks_checksum = transport::lacks_checksum(protocol, upper);
            let before = Ends::V4(header.source, header.destination);
            change(protocol, upper, Change { before, after: ends, ports, length: header.carried });
            if lacks_checksum {
                transport::fill_checksum(upper, ends);
            }
        }
        link::announce(&mut frame.data, frame.link, at, IpVersion::V6);
        if length > limit {
            self.split(frame, at, header, place, generated);
        } else {
            let head = header.to_v6(source, destination, number_v6(header.protocol), header.carried);
            put(frame, at, header.upper, head.bytes(), header.carried);
        }
        Ok(())
    }

    /// How much a fragment carries that is not the last, in bytes.
    const fn piece_bytes(&self) -> usize {
        (self.fragment_above - V6_FRAGMENT_BYTES) & !7
    }

    /// Makes fragments of a packet, the first in its frame. There is room for all of them.
    fn split(
        &self,
        frame: &mut Frame,
        at: usize,
        header: &Header<Ipv4Addr>,
        place: &Place<Ipv6Addr>,
        generated: &mut Generated,
    ) {
        let start = at + header.upper;
        let whole = header.fragment.unwrap_or(Fragment {
            identification: u32::from(u16::from_be_bytes([frame.data[at + 4], frame.data[at + 5]])),
            offset: 0,
            more: false,
        });
        let piece = self.piece_bytes();
        let head = |from: usize, bytes: usize| {
            let more = whole.more || from + bytes < header.carried;
            let fragment = Some(Fragment { offset: whole.offset + (from / 8) as u16, more, ..whole });
            Header { fragment, ..*header }.to_v6(place.source, place.destination, number_v6(header.protocol), bytes)
        };
        for from in (piece..header.carried).step_by(piece) {
            let bytes = piece.min(header.carried - from);
            let Some(next) = generated.add() else { return };
            (next.time, next.link, next.port) = (frame.time, frame.link, frame.port);
            next.data.extend_from_slice(&frame.data[..at]);
            next.data.extend_from_slice(head(from, bytes).bytes());
            next.data.extend_from_slice(&frame.data[start + from..start + from + bytes]);
            next.wire_length = next.data.len() as u32;
        }
        put(frame, at, header.upper, head(0, piece).bytes(), piece);
    }

    /// An ICMP error: about a packet that came from IPv6, which it quotes.
    fn error_from_v4(
        &mut self,
        frame: &mut Frame,
        at: usize,
        header: &Header<Ipv4Addr>,
        now: Time,
    ) -> Result<(), Refusal> {
        let start = at + header.upper;
        let message = frame.data.get(start..start + header.carried).ok_or(DropReason::Incomplete)?;
        if !checksum::is_valid(message) {
            return Err(DropReason::BadChecksum.into());
        }
        let (first, quote) = message.split_first_chunk::<ICMP_BYTES>().ok_or(DropReason::Malformed)?;
        let error = Message::read(first);
        let quote = &quote[..error.quote_bytes_v4().unwrap_or(quote.len()).min(quote.len())];
        let inner = Header::<Ipv4Addr>::read(quote).map_err(|_| DropReason::Malformed)?;
        if inner.source != header.destination {
            return Err(DropReason::Malformed.into());
        }
        let upper = upper(quote, &inner).ok_or(DropReason::Malformed)?;
        let content = Content::of(Side::V4, inner.protocol, upper).map_err(|_| DropReason::IcmpUntranslatable)?;
        let fixed = self.shared.fixed_v6(inner.source);
        let place = place_quoted(content, &inner, upper, End::Source, fixed, |protocol, near, far| {
            self.shared.table.behind(now, protocol, (inner.source, near), (inner.destination, far))
        })?;
        let packet = (inner.upper + inner.carried) as u32;
        let error = error.to_v6(Mtu { link: self.mtu as u32, packet })?;
        let remote = self.shared.prefix.embed(inner.destination);
        let head = inner.to_v6(place.0, remote, number_v6(inner.protocol), inner.carried);
        let upper = &upper[..upper.len().min(V6_ERROR_MAX - IPV6_BYTES - ICMP_BYTES - head.bytes().len())];
        let ends = (Ends::V4(inner.source, inner.destination), Ends::V6(place.0, remote));
        write_message(&mut self.message, error, &head, upper, place.1, ends, inner.carried);
        let source = self.shared.prefix.embed(header.source);
        let message = &mut self.message;
        let pseudo = Ends::V6(source, place.0).pseudo(protocol::ICMPV6, message.len());
        let sum = pseudo.with(message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let head = header.to_v6(source, place.0, protocol::ICMPV6, message.len());
        frame.data.truncate(start);
        frame.data.extend_from_slice(message);
        put(frame, at, header.upper, head.bytes(), message.len());
        Ok(())
    }
}
