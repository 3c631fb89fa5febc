//! Translates ICMP errors to the other version (RFC 7915, sections 4.2 and 5.2).

use crate::service::DropReason;

/// An ICMP error without its quote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Message {
    pub(super) icmp_type: u8,
    pub(super) code: u8,
    /// The word behind the checksum.
    pub(super) word: u32,
}

/// The lengths that an error does not contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mtu {
    /// The MTU of the links on either side, in bytes.
    pub(super) link: u32,
    /// The length of the packet that the error is about, in bytes.
    pub(super) packet: u32,
}

/// Growth of a packet from IPv4 to IPv6, in bytes.
const GROWTH: u32 = 20;
/// The MTU that every IPv6 link supports, in bytes.
const V6_MTU_LEAST: u32 = 1280;
/// Common MTUs (RFC 1191, section 7), for routers that do not report theirs.
const PLATEAUS: [u32; 10] = [65_535, 32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 508, 296];
/// For each byte of an IPv4 header, the offset of its counterpart in IPv6; `GONE`: no counterpart.
const POINTERS_V4: [u8; 20] = [0, 1, 4, 4, GONE, GONE, GONE, GONE, 7, 6, GONE, GONE, 8, 8, 8, 8, 24, 24, 24, 24];
const GONE: u8 = 255;

impl Message {
    /// Reads the first 8 bytes.
    pub(super) const fn read(bytes: &[u8; 8]) -> Self {
        let word = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        Self { icmp_type: bytes[0], code: bytes[1], word }
    }

    /// Returns the bytes, with a checksum of zero.
    pub(super) const fn bytes(self) -> [u8; 8] {
        let [a, b, c, d] = self.word.to_be_bytes();
        [self.icmp_type, self.code, 0, 0, a, b, c, d]
    }

    const fn of(icmp_type: u8, code: u8, word: u32) -> Self {
        Self { icmp_type, code, word }
    }

    /// Returns the end of the quote in ICMP with extensions (RFC 4884), in bytes. `None`: the message has no
    /// length.
    pub(super) fn quote_bytes_v4(self) -> Option<usize> {
        let words = self.word >> 16 & 0xff;
        (matches!(self.icmp_type, 3 | 11 | 12) && words > 0).then_some(words as usize * 4)
    }

    /// The same for ICMPv6.
    pub(super) fn quote_bytes_v6(self) -> Option<usize> {
        let words = self.word >> 24;
        (matches!(self.icmp_type, 1 | 3) && words > 0).then_some(words as usize * 8)
    }

    /// Translates from ICMP to ICMPv6.
    pub(super) fn to_v6(self, mtu: Mtu) -> Result<Self, DropReason> {
        Ok(match (self.icmp_type, self.code) {
            (3, 2) => Self::of(4, 1, 6),
            (3, 3) => Self::of(1, 4, 0),
            (3, 4) => Self::of(2, 0, self.mtu_v6(mtu)),
            (3, 0 | 1 | 5..=8 | 11 | 12) => Self::of(1, 0, 0),
            (3, 9 | 10 | 13 | 15) => Self::of(1, 1, 0),
            (11, code @ (0 | 1)) => Self::of(3, code, 0),
            (12, 0 | 2) => match POINTERS_V4.get((self.word >> 24) as usize) {
                Some(&at) if at != GONE => Self::of(4, 0, u32::from(at)),
                _ => return Err(DropReason::IcmpUntranslatable),
            },
            _ => return Err(DropReason::IcmpUntranslatable),
        })
    }

    /// Translates from ICMPv6 to ICMP.
    pub(super) fn to_v4(self, mtu: Mtu) -> Result<Self, DropReason> {
        Ok(match (self.icmp_type, self.code) {
            (1, 0 | 2 | 3) => Self::of(3, 1, 0),
            (1, 1) => Self::of(3, 10, 0),
            (1, 4) => Self::of(3, 3, 0),
            (2, _) => Self::of(3, 4, self.word.min(mtu.link).saturating_sub(GROWTH)),
            (3, code @ (0 | 1)) => Self::of(11, code, 0),
            (4, 0) => Self::of(12, 0, u32::from(pointer_v4(self.word)?) << 24),
            (4, 1) => Self::of(3, 2, 0),
            _ => return Err(DropReason::IcmpUntranslatable),
        })
    }

    /// Returns the MTU to report to an IPv6 host.
    fn mtu_v6(self, mtu: Mtu) -> u32 {
        let said = self.word & 0xffff;
        let below = || PLATEAUS.into_iter().find(|&plateau| plateau < mtu.packet).unwrap_or(68);
        let v4 = if said == 0 { below() } else { said };
        (v4 + GROWTH).min(mtu.link).max(V6_MTU_LEAST)
    }
}

/// Translates a pointer into an IPv6 header to IPv4 (RFC 7915, figure 6).
const fn pointer_v4(at: u32) -> Result<u8, DropReason> {
    Ok(match at {
        0 => 0,
        1 => 1,
        4 | 5 => 2,
        6 => 9,
        7 => 8,
        8..=23 => 12,
        24..=39 => 16,
        _ => return Err(DropReason::IcmpUntranslatable),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: Mtu = Mtu { link: 1500, packet: 1500 };

    /// RFC 7915, section 4.2: type, code, and the word behind the checksum, in ICMP and in ICMPv6.
    #[test]
    fn from_icmp_to_icmpv6() {
        let gone = Err(DropReason::IcmpUntranslatable);
        let to = |icmp_type, code, word| Message { icmp_type, code, word }.to_v6(MTU);
        let is = |icmp_type, code, word| Ok(Message { icmp_type, code, word });
        let unreachable: [Option<(u8, u8, u32)>; 17] = [
            Some((1, 0, 0)),
            Some((1, 0, 0)),
            Some((4, 1, 6)),
            Some((1, 4, 0)),
            Some((2, 0, 1420)),
            Some((1, 0, 0)),
            Some((1, 0, 0)),
            Some((1, 0, 0)),
            Some((1, 0, 0)),
            Some((1, 1, 0)),
            Some((1, 1, 0)),
            Some((1, 0, 0)),
            Some((1, 0, 0)),
            Some((1, 1, 0)),
            None,
            Some((1, 1, 0)),
            None,
        ];
        for (code, expected) in unreachable.into_iter().enumerate() {
            let expected = expected.map_or(gone, |(icmp_type, code, word)| is(icmp_type, code, word));
            assert_eq!(to(3, code as u8, 1400), expected, "code {code}");
        }
        assert_eq!((to(11, 0, 0), to(11, 1, 0), to(11, 2, 0)), (is(3, 0, 0), is(3, 1, 0), gone));
        for silent in [4, 5, 9, 10, 13, 14, 15, 16, 17, 18] {
            assert_eq!(to(silent, 0, 0), gone);
        }
        let pointers: [i8; 21] = [0, 1, 4, 4, -1, -1, -1, -1, 7, 6, -1, -1, 8, 8, 8, 8, 24, 24, 24, 24, -1];
        for (at, expected) in pointers.into_iter().enumerate() {
            let expected = u32::try_from(expected).map_or(gone, |at| is(4, 0, at));
            assert_eq!(to(12, 0, (at as u32) << 24), expected, "byte {at}");
        }
        assert_eq!((to(12, 1, 0), to(12, 2, 0)), (gone, is(4, 0, 0)));
    }

    /// RFC 7915, section 5.2.
    #[test]
    fn from_icmpv6_to_icmp() {
        let gone = Err(DropReason::IcmpUntranslatable);
        let to = |icmp_type, code, word| Message { icmp_type, code, word }.to_v4(MTU);
        let is = |icmp_type, code, word| Ok(Message { icmp_type, code, word });
        let codes = [0, 1, 2, 3, 4, 5].map(|code| to(1, code, 0));
        assert_eq!(codes, [is(3, 1, 0), is(3, 10, 0), is(3, 1, 0), is(3, 1, 0), is(3, 3, 0), gone]);
        assert_eq!((to(2, 0, 1400), to(2, 0, 9000), to(2, 0, 7)), (is(3, 4, 1380), is(3, 4, 1480), is(3, 4, 0)));
        assert_eq!((to(3, 0, 0), to(3, 1, 0), to(3, 2, 0)), (is(11, 0, 0), is(11, 1, 0), gone));
        assert_eq!((to(4, 1, 6), to(4, 2, 40)), (is(3, 2, 0), gone));
        for (at, expected) in [(0, 0), (1, 1), (4, 2), (5, 2), (6, 9), (7, 8), (8, 12), (23, 12), (24, 16), (39, 16)] {
            assert_eq!(to(4, 0, at), is(12, 0, expected << 24), "byte {at}");
        }
        assert_eq!([2, 3, 40, 1000].map(|at| to(4, 0, at)), [gone; 4]);
    }

    #[test]
    fn lengths_that_hosts_are_to_keep_to() {
        let to = |said, link, packet| Message::of(3, 4, said).to_v6(Mtu { link, packet }).unwrap().word;
        assert_eq!((to(1400, 1500, 1500), to(1490, 1500, 1500), to(576, 1500, 1500)), (1420, 1500, 1280));
        // A router without MTU: the next common MTU below the packet's length counts.
        assert_eq!((to(0, 9000, 4000), to(0, 9000, 1500), to(0, 9000, 1000)), (2022, 1512, 1280));
    }
}
