//! Quantities as people type them: counts, times, shares, bit rates and bytes.

use core::time::Duration;

use crate::TextError;

/// Returns a finite number with an optional k, M or G. `None`: anything else.
pub fn parse_count(text: &str) -> Option<f64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().ok().filter(|count| count.is_finite()).map(|count| count * factor)
}

/// Returns a whole number, which may have `_` between its digits, and k, M or G behind them: `200000`, `200_000`, `200k`,
/// `1.5M`. `None`: anything else.
pub fn parse_whole(text: &str) -> Option<u64> {
    let (digits, zeros) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 3),
        b'M' => (&text[..text.len() - 1], 6),
        b'G' => (&text[..text.len() - 1], 9),
        _ => (text, 0usize),
    };
    let (whole, part) = digits.split_once('.').map_or((digits, None), |(whole, part)| (whole, Some(part)));
    let number = |digits: &str, zeros: usize| {
        let begins = digits.starts_with(|first: char| first.is_ascii_digit());
        let number = begins.then(|| digits.replace('_', "").parse::<u64>().ok()).flatten()?;
        number.checked_mul(10u64.pow(zeros as u32))
    };
    let part = part.map_or(Some(0), |part| number(part, zeros.checked_sub(part.len())?))?;
    number(whole, zeros)?.checked_add(part)
}

/// Returns a span of time with its unit: `500us` (or `500µs`), `2ms`, `1.5s`, `2min`, `24h`.
///
/// # Errors
/// Anything else.
pub fn parse_duration(text: &str) -> Result<Duration, TextError> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit = &text[digits.len()..];
    let factor = match unit {
        "ns" => 1.0,
        // The micro sign and the Greek letter look alike.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        "h" => 3600e9,
        _ => f64::NAN,
    };
    match digits.parse::<f64>() {
        Ok(value) if value >= 0.0 && value * factor <= TIME_MAX_NS => {
            Ok(Duration::from_nanos((value * factor).round() as u64))
        }
        Ok(value) if value >= 0.0 && !factor.is_nan() => {
            Err(TextError::new(format!("a time is {:.0} s at most; not `{text}`", TIME_MAX_NS / 1e9)))
        }
        Ok(value) if value >= 0.0 && !unit.is_empty() => Err(TextError::new(format!(
            "`{unit}` is no unit of time: write `{text}` in ns, us, ms, s, min or h, for example {digits}us"
        ))),
        _ => Err(TextError::new(format!("a time has a unit (ns, us, ms, s, min, h), for example 2ms; not `{text}`"))),
    }
}

/// Returns a time as [`parse_duration`] reads it, in the largest of s, ms, us and ns that divides it: `1s`, `1500us`.
pub fn show_duration(time: Duration) -> String {
    let ns = time.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
    let found = units.into_iter().find(|(_, unit)| ns.is_multiple_of(*unit));
    found.map_or_else(String::new, |(name, unit)| format!("{}{name}", ns / unit))
}

/// The longest time that is taken, in ns.
const TIME_MAX_NS: f64 = 1e18;

/// Returns a share from 0 to 1, in millionths. `None`: anything else.
pub fn parse_share(text: &str) -> Option<u32> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.map(|share| (share * 1e6).round() as u32)
}

/// Returns bits per second, from 1 to 1e15: `10Mbit`, `10M`, `1.5Gbit/s`. `None`: anything else.
pub fn parse_bit_rate(text: &str) -> Option<f64> {
    let number = ["bit/s", "bps", "bit"].iter().find_map(|unit| text.strip_suffix(unit)).unwrap_or(text);
    parse_count(number).filter(|rate| (1.0..=1e15).contains(rate))
}

/// Returns bytes, from 1 to 1e12: `500`, `8k`, `8kB`. `None`: anything else.
pub fn parse_bytes(text: &str) -> Option<f64> {
    parse_count(text.strip_suffix('B').unwrap_or(text)).filter(|bytes| (1.0..=1e12).contains(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_write_them() {
        assert_eq!(parse_duration("1.5ms").unwrap(), Duration::from_micros(1500));
        assert_eq!(parse_duration("500us").unwrap(), Duration::from_micros(500));
        assert_eq!(parse_duration("24h").unwrap(), Duration::from_secs(86_400));
        for micro in ["20us", "20\u{b5}s", "20\u{3bc}s"] {
            assert_eq!(parse_duration(micro).unwrap(), Duration::from_micros(20), "{micro}");
        }
        let said = parse_duration("20usec").unwrap_err().to_string();
        assert_eq!(said, "`usec` is no unit of time: write `20usec` in ns, us, ms, s, min or h, for example 20us");
        for bad in ["", "2", "-2ms", "2 ms", "ms", "2d", "1e30s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        let said = parse_duration("99999999999999999s").unwrap_err().to_string();
        assert_eq!(said, "a time is 1000000000 s at most; not `99999999999999999s`");
    }

    #[test]
    fn times_are_as_short_as_they_can_be() {
        let times = [2_000_000_000, 1_500_000, 500_000, 7, 0].map(|ns| show_duration(Duration::from_nanos(ns)));
        assert_eq!(times, ["2s", "1500us", "500us", "7ns", "0s"]);
        assert!(times.iter().all(|time| parse_duration(time).is_ok()));
    }

    #[test]
    fn counts_bytes_and_shares_have_bounds() {
        assert_eq!([parse_count("1.5M"), parse_count("-2"), parse_count("x")], [Some(1.5e6), Some(-2.0), None]);
        assert_eq!([parse_bytes("8kB"), parse_bytes("0.5"), parse_bytes("2T")], [Some(8e3), None, None]);
        assert_eq!([parse_share("0.25"), parse_share("1.1"), parse_share("-0")], [Some(250_000), None, Some(0)]);
    }

    #[test]
    fn whole_numbers_read_as_people_write_them() {
        for text in ["1500000", "1_500_000", "1500k", "1.5M", "1.500M", "0.0015G"] {
            assert_eq!(parse_whole(text), Some(1_500_000), "{text}");
        }
        assert_eq!([parse_whole("0"), parse_whole("18446744073709551615")], [Some(0), Some(u64::MAX)]);
        for text in ["", "k", "x", "-1", "+1", "1.5", "1.", "1.k", ".5M", "1.2345k", "_1", "1K", "1e6", "99999999999G"]
        {
            assert_eq!(parse_whole(text), None, "{text}");
        }
    }

    #[test]
    fn bit_rates_read_with_and_without_their_unit() {
        for text in ["10Mbit", "10M", "10Mbit/s", "10Mbps", "10000000"] {
            assert_eq!(parse_bit_rate(text), Some(1e7), "{text}");
        }
        for text in ["", "bit", "-1", "0.5", "nan", "10Mb"] {
            assert_eq!(parse_bit_rate(text), None, "{text}");
        }
    }
}
