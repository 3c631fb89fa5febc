//! From IPv4 to IPv6 (RFC 7915, section 4).

use core::net::{Ipv4Addr, Ipv6Addr};

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;

use super::errors::{Message, Mtu};
use super::header::{Fragment, Header, Refusal, has_source_route};
use super::shared::Whole;
use super::transport::{self, Change, Content, End, Ends, Ports, Side, change, segment};
use super::{ICMP_BYTES, Nat64, Pass, Place, Read, Sort, number_v6, place_quoted, put, room, upper, write_message};
use crate::checksum;
use crate::forward::icmp::Problem;
use crate::forward::ipv4;
use crate::ip::{IPV4_BYTES, IPV6_BYTES, protocol};
use crate::link::{self, IpVersion};
use crate::service::{DropReason, Generated};

/// The IPv6 header and the fragment header, in bytes.
const V6_FRAGMENT_BYTES: usize = IPV6_BYTES + 8;
/// The longest ICMPv6 error (RFC 4443, section 2.4 (c)), in bytes.
const V6_ERROR_MAX: usize = 1280;

impl Nat64 {
    pub(super) fn take_v4(
        &mut self,
        frame: &mut Frame,
        at: usize,
        now: Time,
        generated: &mut Generated,
    ) -> Result<(), Refusal> {
        let protocol = frame.data.get(at + 9).copied().unwrap_or_default();
        self.make_v6(frame, at, now, Pass::First, generated)?;
        self.counts.packets[1][Sort::of(protocol) as usize] += 1;
        Ok(())
    }

    pub(super) fn make_v6(
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

    /// Returns the host that the destination represents, and the packet's new ports.
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
        let mut ports = Ports::read(protocol, read.upper, End::Destination);
        if let Some(destination) = fixed {
            return Ok(Place { source, destination, ports: Some((protocol, ports)) });
        }
        let (outside, remote) = ((header.destination, ports.destination), (header.source, ports.source));
        let found = self.shared.table.inbound(now, protocol, outside, remote, segment(protocol, read.upper));
        let found = found.map_err(|reason| {
            let is_filtered = reason == DropReason::SenderUnknown;
            Refusal::told(reason, if is_filtered { Problem::Prohibited } else { Problem::Unreachable })
        })?;
        self.counts.made(&found);
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
            let head = header.as_v6(source, destination, number_v6(header.protocol), header.carried);
            put(frame, at, header.upper, head.bytes(), header.carried);
        }
        Ok(())
    }

    /// Returns the payload of each fragment but the last, in bytes.
    const fn piece_bytes(&self) -> usize {
        (self.fragment_above - V6_FRAGMENT_BYTES) & !7
    }

    /// Splits a packet into fragments, the first in its frame. There must be room for all.
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
            Header { fragment, ..*header }.as_v6(place.source, place.destination, number_v6(header.protocol), bytes)
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

    /// Translates an ICMP error, which quotes a packet that came from IPv6.
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
        let head = inner.as_v6(place.0, remote, number_v6(inner.protocol), inner.carried);
        let upper = &upper[..upper.len().min(V6_ERROR_MAX - IPV6_BYTES - ICMP_BYTES - head.bytes().len())];
        let ends = (Ends::V4(inner.source, inner.destination), Ends::V6(place.0, remote));
        write_message(&mut self.message, error, &head, upper, place.1, ends, inner.carried);
        let source = self.shared.prefix.embed(header.source);
        let message = &mut self.message;
        let pseudo = Ends::V6(source, place.0).pseudo(protocol::ICMPV6, message.len());
        let sum = pseudo.with(message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let head = header.as_v6(source, place.0, protocol::ICMPV6, message.len());
        frame.data.truncate(start);
        frame.data.extend_from_slice(message);
        put(frame, at, header.upper, head.bytes(), message.len());
        Ok(())
    }
}
