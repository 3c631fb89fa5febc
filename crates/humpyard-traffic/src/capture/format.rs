//! Definitions that reader and writer share: numbers, link types, units of time.

use humpyard_core::frame::LinkType;
use humpyard_core::unit::Time;

/// The longest record that is read or written, in bytes; a longer length counts as damage.
pub const RECORD_BYTES_MAX: usize = 16 << 20;

/// The conventional longest packet of a classic capture that states no longer limit, in bytes.
pub(super) const SNAPSHOT_BYTES: u32 = 262_144;

/// Returns the link type with this number in a capture.
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

/// Returns the number of a link type in a capture.
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
    /// This many ns per tick.
    Multiple(u64),
    /// This many ticks per ns.
    Fraction(u64),
    /// Two to this power ticks per second.
    Binary(u32),
}

impl Resolution {
    /// Returns the resolution of an `if_tsresol` option.
    pub(super) const fn from_option(value: u8) -> Self {
        let exponent = (value & 0x7f) as u32;
        if value & 0x80 != 0 {
            Self::Binary(exponent)
        } else if exponent <= 9 {
            Self::Multiple(10u64.pow(9 - exponent))
        } else {
            // Below 10^-28 s, even the largest count is less than 1 ns.
            Self::Fraction(match 10u64.checked_pow(exponent - 9) {
                Some(ticks) => ticks,
                None => u64::MAX,
            })
        }
    }

    /// Returns the time of this many ticks and `offset_s` seconds after the epoch, clamped to valid times.
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
