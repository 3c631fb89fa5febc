//! What reader and writer share of the two formats: numbers, link types, units of time.

use humpyard_core::frame::LinkType;
use humpyard_core::unit::Time;

/// The longest record that is read or written, in bytes; whatever claims to be longer is taken for damage.
pub const RECORD_BYTES_MAX: usize = 16 << 20;

/// The longest packet of a classic capture that states no longer limit itself, in bytes, as everybody uses it.
pub(super) const SNAPSHOT_BYTES: u32 = 262_144;

/// Length of the header of a classic capture.
pub(super) const CLASSIC_HEADER_BYTES: usize = 24;
/// First word of a classic capture with microseconds.
pub(super) const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
/// First word of a classic capture with nanoseconds.
pub(super) const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// First word of Kuznetzov's variant, with microseconds and eight more bytes per record.
pub(super) const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

/// pcapng: the section header, the same in both byte orders.
pub(super) const BLOCK_SECTION: u32 = 0x0a0d_0d0a;
/// pcapng: an interface.
pub(super) const BLOCK_INTERFACE: u32 = 1;
/// pcapng: a packet, in its obsolete form.
pub(super) const BLOCK_PACKET: u32 = 2;
/// pcapng: a packet without a time.
pub(super) const BLOCK_SIMPLE_PACKET: u32 = 3;
/// pcapng: a packet.
pub(super) const BLOCK_ENHANCED_PACKET: u32 = 6;
/// pcapng: the word by which a section tells its byte order.
pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// pcapng: option that ends the options.
pub(super) const OPTION_END: u16 = 0;
/// pcapng: option of an interface, the unit of its times.
pub(super) const OPTION_RESOLUTION: u16 = 9;
/// pcapng: option of an interface, seconds to add to its times.
pub(super) const OPTION_OFFSET: u16 = 14;

/// The link type with this number in a capture.
pub(super) const fn link_type(number: u16) -> LinkType {
    match number {
        0 | 108 => LinkType::Loopback,
        1 => LinkType::Ethernet,
        12 | 14 | 101 | 228 | 229 => LinkType::RawIp,
        113 => LinkType::LinuxCooked,
        276 => LinkType::LinuxCooked2,
        other => LinkType::Other(other),
    }
}

/// The number under which a link type is written.
pub(crate) const fn link_number(link: LinkType) -> u16 {
    match link {
        LinkType::Loopback => 0,
        LinkType::Ethernet => 1,
        LinkType::RawIp => 101,
        LinkType::LinuxCooked => 113,
        LinkType::LinuxCooked2 => 276,
        LinkType::Other(number) => number,
    }
}

/// The unit in which an interface counts time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Resolution {
    /// So many ns per tick.
    Multiple(u64),
    /// So many ticks per ns.
    Fraction(u64),
    /// Two to this power ticks per second.
    Binary(u32),
}

impl Resolution {
    /// Microseconds: what an interface uses that does not say.
    pub(super) const MICROSECONDS: Self = Self::Multiple(1_000);

    /// The resolution of an `if_tsresol` option.
    pub(super) const fn from_option(value: u8) -> Self {
        let exponent = (value & 0x7f) as u32;
        if value & 0x80 != 0 {
            Self::Binary(exponent)
        } else if exponent <= 9 {
            Self::Multiple(10u64.pow(9 - exponent))
        } else {
            // Beyond 10^-28 s even the largest count is less than 1 ns.
            Self::Fraction(match 10u64.checked_pow(exponent - 9) {
                Some(ticks) => ticks,
                None => u64::MAX,
            })
        }
    }

    /// The instant of this many ticks and `offset_s` seconds after the epoch; the nearest there is if that is none.
    pub(super) fn time(self, ticks: u64, offset_s: i64) -> Time {
        let ns = match self {
            Self::Multiple(ns) => ticks.saturating_mul(ns),
            Self::Fraction(per_ns) => ticks / per_ns,
            Self::Binary(exponent) => {
                let ns = (u128::from(ticks) * 1_000_000_000).checked_shr(exponent).unwrap_or(0);
                u64::try_from(ns).unwrap_or(u64::MAX)
            }
        };
        let offset_ns = offset_s.unsigned_abs().saturating_mul(1_000_000_000);
        Time::from_ns(if offset_s < 0 { ns.saturating_sub(offset_ns) } else { ns.saturating_add(offset_ns) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_count_in_their_units() {
        let ns = |option, ticks| Resolution::from_option(option).time(ticks, 0).as_ns();
        assert_eq!(ns(6, 5), 5_000);
        assert_eq!(ns(9, 5), 5);
        assert_eq!(ns(0, 5), 5_000_000_000);
        assert_eq!(ns(12, 5_999), 5);
        assert_eq!(ns(0x80 | 10, 512), 500_000_000);
    }

    #[test]
    fn absurd_resolutions_and_offsets_saturate() {
        for option in 0..=u8::MAX {
            for ticks in [0, 1, u64::MAX] {
                for offset in [i64::MIN, -1, 0, 1, i64::MAX] {
                    Resolution::from_option(option).time(ticks, offset);
                }
            }
        }
        assert_eq!(Resolution::from_option(0).time(u64::MAX, i64::MAX), Time::MAX);
        assert_eq!(Resolution::from_option(9).time(5, i64::MIN), Time::ZERO);
    }

    #[test]
    fn link_numbers_survive_a_round_trip() {
        for number in 0..=u16::MAX {
            assert_eq!(link_type(link_number(link_type(number))), link_type(number));
        }
    }
}
