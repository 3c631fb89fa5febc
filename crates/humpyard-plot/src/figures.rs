//! Figures as people read them: three digits and a unit.

use chrono::{DateTime, SecondsFormat};

use crate::statistics::{Kind, Statistic};

/// Formats a figure of this kind.
pub fn figure(kind: Kind, value: f64) -> String {
    match kind {
        Kind::PacketRate => packet_rate(value),
        Kind::Time => time(value),
        Kind::Fraction => percent(value),
        Kind::Index => format!("{value:.4}"),
        Kind::Count => format!("{value:.0}"),
    }
}

/// Formats the range from the least to the greatest value. Prints one value if both read the same.
pub fn range(kind: Kind, statistic: &Statistic) -> String {
    let (min, max) = (figure(kind, statistic.min), figure(kind, statistic.max));
    if min == max { min } else { format!("{min} to {max}") }
}

/// Formats a span of time.
pub fn time(ns: f64) -> String {
    scaled(ns, &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")])
}

/// Formats a span of time that may be long: days, hours and minutes from one minute on, seconds below one hour.
pub fn span(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => time(ns as f64),
        (0, 0, minutes) => format!("{minutes}min {}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h {minutes}min"),
        (days, hours, minutes) => format!("{days}d {hours}h {minutes}min"),
    }
}

/// Formats a time in ns since 1970 as a date in UTC (RFC 3339), with the digits of the second that it has.
pub fn date(ns: u64) -> String {
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let date = i64::try_from(seconds).ok().zip(u32::try_from(rest).ok());
    let date = date.and_then(|(seconds, rest)| DateTime::from_timestamp(seconds, rest));
    date.map_or_else(|| time(ns as f64), |date| date.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

/// Formats a number of packets per second.
pub fn packet_rate(pps: f64) -> String {
    scaled(pps, &[(1e6, "Mpps"), (1e3, "kpps"), (1.0, "pps")])
}

/// Formats a number of bits per second.
pub fn bit_rate(bps: f64) -> String {
    scaled(bps, &[(1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s")])
}

/// Formats a part of a whole as a percentage.
pub fn percent(fraction: f64) -> String {
    let hundredths = 100.0 * fraction;
    if hundredths == 0.0 {
        "0 %".into()
    } else if hundredths <= -0.01 {
        format!("-{}", percent(-fraction))
    } else if hundredths < 0.01 {
        "<0.01 %".into()
    } else if hundredths < 10.0 {
        format!("{hundredths:.2} %")
    } else {
        format!("{hundredths:.1} %")
    }
}

/// Formats a count with its noun, whose plural ends in -s.
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let magnitude = value.abs();
    let &(scale, unit) = units.iter().find(|(scale, _)| magnitude >= *scale).unwrap_or(&units[units.len() - 1]);
    let value = value / scale;
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// Breaks a text into lines of at most `width` characters; a longer word has a line of its own.
pub fn wrapped(words: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let last = lines.last_mut().expect("there is a line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            last.push_str(if last.is_empty() { "" } else { " " });
            last.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        assert_eq!(time(0.0), "0 ns");
        assert_eq!(time(999.0), "999 ns");
        assert_eq!(time(1_234.0), "1.23 us");
        assert_eq!(time(12_340_000.0), "12.3 ms");
        assert_eq!(packet_rate(1_500_000.0), "1.50 Mpps");
        assert_eq!(bit_rate(123_456.0), "123 kb/s");
        assert_eq!(percent(0.12345), "12.3 %");
        assert_eq!(percent(0.000001), "<0.01 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!([-0.6, -0.0123, -0.000001].map(percent), ["-60.0 %", "-1.23 %", "<0.01 %"]);
    }

    #[test]
    fn long_spans_are_in_days_hours_and_minutes() {
        let said = |seconds: u64| span(seconds * 1_000_000_000);
        assert_eq!([0, 59, 60].map(said), ["0 ns", "59.0 s", "1min 0s"]);
        assert_eq!([3_599, 3_600, 86_399].map(said), ["59min 59s", "1h 0min", "23h 59min"]);
        assert_eq!([93_784, 142_449_835].map(said), ["1d 2h 3min", "1648d 17h 23min"]);
        assert_eq!(span(1_500_000), "1.50 ms");
    }

    #[test]
    fn times_since_1970_are_dates() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(1_400_000_000_123_456_000), "2014-05-13T16:53:20.123456Z");
        assert_eq!(date(1_400_000_000_000_000_001), "2014-05-13T16:53:20.000000001Z");
        assert_eq!(date(u64::MAX), "2554-07-21T23:34:33.709551615Z");
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "draw")), ["0 draws", "1 draw", "2 draws"]);
    }
}
