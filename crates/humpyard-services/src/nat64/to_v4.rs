//! From IPv6 to IPv4 (RFC 7915, section 5).

use core::net::{Ipv4Addr, Ipv6Addr};

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;

use super::errors::{Message, Mtu};
use super::header::{Head, Header, Refusal};
use super::shared::Whole;
use super::transport::{Change, Content, End, Ends, Ports, Side, change, segment};
use super::{ICMP_BYTES, Nat64, Pass, Place, Read, Sort, number_v4, place_quoted, put, room, upper, write_message};
use crate::checksum;
use crate::forward::icmp::Problem;
use crate::forward::{ipv4, ipv6};
use crate::ip::{IPV4_BYTES, protocol};
use crate::link::{self, IpVersion};
use crate::service::{DropReason, Generated};

impl Nat64 {
    pub(super) fn take_v6(
        &mut self,
        frame: &mut Frame,
        at: usize,
        now: Time,
        generated: &mut Generated,
    ) -> Result<(), Refusal> {
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
            // After hairpinning, an ICMP error would not reach the original sender.
            return self.make_v6(frame, at, now, Pass::Second, generated).map_err(|refusal| refusal.reason.into());
        }
        link::announce(&mut frame.data, frame.link, at, IpVersion::V4);
        Ok(())
    }

    /// Checks the addresses and the hop limit of a packet. Returns its IPv4 destination.
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

    /// Returns the address that represents the sender, and the packet's new ports.
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
        let mut ports = Ports::read(protocol, read.upper, End::Source);
        if let Some(source) = fixed {
            return Ok(Place { source, destination, ports: Some((protocol, ports)) });
        }
        let (inside, remote) = ((header.source, ports.source), (destination, ports.destination));
        let found = self.shared.table.outbound(now, protocol, inside, remote, segment(protocol, read.upper));
        let found = found.map_err(|reason| match reason {
            DropReason::StartMissing => reason.into(),
            _ => Refusal::told(reason, Problem::Unreachable),
        })?;
        self.counts.made(&found);
        let (source, port) = found.place;
        ports.source = port;
        if let Some(whole) = whole {
            self.shared.remember(now, whole, u128::from(source.to_bits()));
        }
        Ok(Place { source, destination, ports: Some((protocol, ports)) })
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

    /// Returns the packet's IPv4 header, if the packet does not exceed the next link's MTU.
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
        header.as_v4(source, destination, number_v4(header.protocol), carried, self.shared.identification())
    }

    /// Translates an ICMPv6 error, which quotes a packet that came from IPv4.
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
        let head = inner.as_v4(remote, place.0, number_v4(inner.protocol), inner.carried, 0)?;
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
