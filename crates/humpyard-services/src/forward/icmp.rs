//! ICMP errors, which report a dropped packet and the reason to its sender.

use core::net::{Ipv4Addr, Ipv6Addr};

use humpyard_core::frame::Frame;

use super::{Router, ipv4, ipv6};
use crate::checksum::{Sum, checksum};
use crate::link::{self, IpVersion, Network};
use crate::service::Generated;

/// The longest ICMP error packet (RFC 1812, section 4.3.2.3), in bytes.
const V4_BYTES_MAX: usize = 576;
/// The longest ICMPv6 error packet: the minimum MTU (RFC 4443, section 2.4(c)), in bytes.
const V6_BYTES_MAX: usize = 1280;
const ICMP_HEADER_BYTES: usize = 8;

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_ICMPV6: u8 = 58;
/// Internetwork control: the precedence of ICMP errors (RFC 1812, section 4.3.2.5), today's class selector 6.
const TRAFFIC_CLASS: u8 = 0xc0;
const HOPS: u8 = 64;

/// The reason why a packet could not be forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Problem {
    /// Its time to live or hop limit is used up.
    TimeExceeded,
    /// No route covers its destination.
    NoRoute,
    /// Its route is `unreachable`.
    Unreachable,
    /// It is prohibited.
    Prohibited,
    /// It is longer than the next link's MTU, in bytes.
    TooBig(u16),
    /// The byte at this offset of its header asks for something impossible; in IPv4, that is a source route.
    Header(u32),
}

impl Problem {
    /// Returns type and code of RFC 792: time exceeded in transit; network or host unreachable (RFC 1812,
    /// section 5.2.7.1), prohibited; fragmentation needed; source route failed.
    const fn v4(self) -> [u8; 2] {
        match self {
            Self::TimeExceeded => [11, 0],
            Self::NoRoute => [3, 0],
            Self::Unreachable => [3, 1],
            Self::Prohibited => [3, 13],
            Self::TooBig(_) => [3, 4],
            Self::Header(_) => [3, 5],
        }
    }

    /// Returns type and code of RFC 4443, sections 3.1 to 3.4: hop limit exceeded; no route, address
    /// unreachable, prohibited; packet too big; erroneous header.
    const fn v6(self) -> [u8; 2] {
        match self {
            Self::TimeExceeded => [3, 0],
            Self::NoRoute => [1, 0],
            Self::Unreachable => [1, 3],
            Self::Prohibited => [1, 1],
            Self::TooBig(_) => [2, 0],
            Self::Header(_) => [4, 0],
        }
    }

    /// Returns the word behind the checksum in ICMP: for [`Self::TooBig`], the low half is the MTU (RFC 1191).
    const fn word_v4(self) -> u32 {
        match self {
            Self::TooBig(bytes) => bytes as u32,
            _ => 0,
        }
    }

    /// Returns the word behind the checksum in ICMPv6: an MTU, or an offset in the header.
    const fn word_v6(self) -> u32 {
        match self {
            Self::TooBig(bytes) => bytes as u32,
            Self::Header(at) => at,
            _ => 0,
        }
    }
}

/// Makes ICMP errors, up to a rate limit.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    router: Router,
    limit: Limit,
}

impl Reporter {
    /// Returns a reporter for this router that allows one more error every `interval` packets, and at most
    /// `burst` in a row.
    pub(crate) const fn new(router: Router, interval: u64, burst: u64) -> Self {
        Self { router, limit: Limit::new(interval, burst) }
    }

    /// Counts a packet. Must be called for every packet, before all else.
    #[inline]
    pub(crate) const fn on_packet(&mut self) {
        self.limit.on_packet();
    }

    /// Reports `problem` to the sender of the packet in `frame`, unless the standards forbid it or the limit is
    /// reached.
    ///
    /// The caller has checked the header. It has also checked that each address, on the link layer too, is that
    /// of one host: RFC 1812, section 4.3.2.7 and RFC 4443, section 2.4 (e.3) to (e.6).
    #[cold]
    pub(crate) fn report(&mut self, problem: Problem, frame: &Frame, network: Network, generated: &mut Generated) {
        let (link_header, packet) = frame.data.split_at(network.offset);
        let allowed = match network.version {
            IpVersion::V4 => may_report_v4(packet, self.router.v4),
            IpVersion::V6 => may_report_v6(packet, self.router.v6),
        };
        if !allowed || !self.limit.has_token() {
            return;
        }
        let Some(error) = generated.add() else { return };
        self.limit.take();
        error.time = frame.time;
        error.link = frame.link;
        error.answer = true;
        error.data.extend_from_slice(link_header);
        link::answer(&mut error.data, frame.link, self.router.mac);
        match network.version {
            IpVersion::V4 => write_v4(problem, packet, self.router.v4, &mut error.data),
            IpVersion::V6 => write_v6(problem, packet, self.router.v6, &mut error.data),
        }
        error.wire_length = error.data.len() as u32;
    }
}

/// Returns whether an error about this packet may be sent. No error is sent about errors, about fragments after
/// the first (RFC 1812, section 4.3.2.7), or to the router itself.
fn may_report_v4(packet: &[u8], router: Ipv4Addr) -> bool {
    let Some(header) = packet.first_chunk::<{ ipv4::HEADER_BYTES }>() else { return false };
    let later_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    if later_fragment || header[12..16] == router.octets() {
        return false;
    }
    if header[9] != PROTOCOL_ICMP {
        return true;
    }
    // Destination unreachable, source quench, redirect, time exceeded, parameter problem. A packet cut off
    // before the type may be one.
    match packet.get(usize::from(header[0] & 15) * 4) {
        Some(icmp_type) => !matches!(icmp_type, 3 | 4 | 5 | 11 | 12),
        None => false,
    }
}

/// Returns whether an error about this packet may be sent. No error is sent about errors (RFC 4443, section 2.4
/// (e.1)) or redirects (e.2), or to the router itself. A packet that is cut off may be either.
fn may_report_v6(packet: &[u8], router: Ipv6Addr) -> bool {
    if packet.get(8..24) == Some(&router.octets()) {
        return false;
    }
    match ipv6::upper_layer(packet) {
        Some((PROTOCOL_ICMPV6, [icmp_type, ..])) => *icmp_type >= 128 && *icmp_type != 137,
        Some((PROTOCOL_ICMPV6, [])) | None => false,
        Some(_) => true,
    }
}

/// Returns the part of the packet that an error of at most `bytes_max` quotes, without padding of the link.
fn quote(packet: &[u8], length: usize, bytes_max: usize) -> &[u8] {
    &packet[..packet.len().min(length).min(bytes_max)]
}

/// Appends the ICMP error about `packet` to `out`.
fn write_v4(problem: Problem, packet: &[u8], router: Ipv4Addr, out: &mut Vec<u8>) {
    let total_length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let quote = quote(packet, total_length, V4_BYTES_MAX - ipv4::HEADER_BYTES - ICMP_HEADER_BYTES);
    let length = (ipv4::HEADER_BYTES + ICMP_HEADER_BYTES + quote.len()) as u16;

    let mut header = [0; ipv4::HEADER_BYTES];
    header[0] = 0x45;
    header[1] = TRAFFIC_CLASS;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header[6] = 0x40; // Do not fragment: then the identification may stay 0 (RFC 6864, section 4.1).
    header[8] = HOPS;
    header[9] = PROTOCOL_ICMP;
    header[12..16].copy_from_slice(&router.octets());
    header[16..20].copy_from_slice(&packet[12..16]);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());

    out.extend_from_slice(&header);
    write_message(problem.v4(), problem.word_v4(), quote, Sum::default(), out);
}

/// Appends the ICMPv6 error about `packet` to `out`.
fn write_v6(problem: Problem, packet: &[u8], router: Ipv6Addr, out: &mut Vec<u8>) {
    let packet_length = ipv6::HEADER_BYTES + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    let quote = quote(packet, packet_length, V6_BYTES_MAX - ipv6::HEADER_BYTES - ICMP_HEADER_BYTES);
    let length = (ICMP_HEADER_BYTES + quote.len()) as u16;

    let mut header = [0; ipv6::HEADER_BYTES];
    header[0] = 0x60 | TRAFFIC_CLASS >> 4;
    header[1] = TRAFFIC_CLASS << 4;
    header[4..6].copy_from_slice(&length.to_be_bytes());
    header[6] = PROTOCOL_ICMPV6;
    header[7] = HOPS;
    header[8..24].copy_from_slice(&router.octets());
    header[24..].copy_from_slice(&packet[8..24]);

    // The pseudo-header of RFC 8200, section 8.1.
    let pseudo = Sum::default().with(&header[8..]).with(&length.to_be_bytes()).with(&[0, PROTOCOL_ICMPV6]);
    out.extend_from_slice(&header);
    write_message(problem.v6(), problem.word_v6(), quote, pseudo, out);
}

/// Appends type, code, checksum, the word behind it, and the quote.
fn write_message([icmp_type, code]: [u8; 2], word: u32, quote: &[u8], sum: Sum, out: &mut Vec<u8>) {
    let word = word.to_be_bytes();
    let sum = sum.with(&[icmp_type, code]).with(&word).with(quote).checksum();
    out.extend_from_slice(&[icmp_type, code]);
    out.extend_from_slice(&sum.to_be_bytes());
    out.extend_from_slice(&word);
    out.extend_from_slice(quote);
}

/// A token bucket that packets refill (RFC 1812, section 4.3.2.8; RFC 4443, section 2.4(f)). An error takes a
/// token; every `interval` packets add one, up to `burst`. Counting packets instead of time makes a run
/// repeatable.
#[derive(Clone, Copy, Debug)]
struct Limit {
    interval: u64,
    burst: u64,
    tokens: u64,
    /// Packets until the next token.
    countdown: u64,
}

impl Limit {
    const fn new(interval: u64, burst: u64) -> Self {
        Self { interval, burst, tokens: burst, countdown: interval }
    }

    #[inline]
    const fn on_packet(&mut self) {
        // Without limit (an interval of 0), this wraps at the first packet, and reaches 0 again only after 2^64
        // packets.
        self.countdown = self.countdown.wrapping_sub(1);
        if self.countdown == 0 {
            self.countdown = self.interval;
            if self.tokens < self.burst {
                self.tokens += 1;
            }
        }
    }

    const fn has_token(&self) -> bool {
        self.interval == 0 || self.tokens > 0
    }

    const fn take(&mut self) {
        self.tokens = self.tokens.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_bucket_that_packets_refill() {
        let mut limit = Limit::new(3, 2);
        let mut allowed = String::new();
        for _ in 0..12 {
            limit.on_packet();
            allowed.push(if limit.has_token() { 'y' } else { 'n' });
            if limit.has_token() {
                limit.take();
            }
        }
        assert_eq!(allowed, "yyynnynnynny");
        for _ in 0..100 {
            limit.on_packet();
        }
        assert_eq!(limit.tokens, 2);
    }

    #[test]
    fn no_limit() {
        let mut limit = Limit::new(0, 0);
        for _ in 0..10 {
            limit.on_packet();
            assert!(limit.has_token());
            limit.take();
        }
    }

    #[test]
    fn golden_time_exceeded() {
        // 10.0.0.1 to 10.0.0.2, time to live 1, UDP, nothing behind the header.
        let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 1, 17, 0xa5, 0xd7, 10, 0, 0, 1, 10, 0, 0, 2];
        let mut out = Vec::new();
        write_v4(Problem::TimeExceeded, &packet, Ipv4Addr::new(192, 0, 2, 1), &mut out);
        // Header: 45c0 + 0030 + 4000 + 4001 + c000 + 0201 + 0a00 + 0001 = 191f3, folded 91f4, complement 6e0b.
        // The packet: 4500 + 0014 + 0111 + 0a00 + 0001 + 0a00 + 0002 = 5a28, complement a5d7. Message: 0b00, and the quote is a valid header, whose sum is ffff (-0): complement f4ff.
        let expected = [
            &[0x45, 0xc0, 0, 48, 0, 0, 0x40, 0, 64, 1, 0x6e, 0x0b, 192, 0, 2, 1, 10, 0, 0, 1][..],
            &[11, 0, 0xf4, 0xff, 0, 0, 0, 0],
            &packet,
        ];
        assert_eq!(out, expected.concat());
    }
}
