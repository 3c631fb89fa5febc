//! Figures as people read them: three digits and a unit.

use crate::statistics::{Kind, Statistic};

/// A figure of this kind.
pub fn figure(kind: Kind, value: f64) -> String {
    match kind {
        Kind::PacketRate => packet_rate(value),
        Kind::Time => time(value),
        Kind::Fraction => percent(value),
        Kind::Index => format!("{value:.4}"),
        Kind::Count => format!("{value:.0}"),
    }
}

/// From the least to the greatest, or one of them where people would read the same.
pub fn range(kind: Kind, statistic: &Statistic) -> String {
    let (min, max) = (figure(kind, statistic.min), figure(kind, statistic.max));
    if min == max { min } else { format!("{min} to {max}") }
}

/// A span of time.
pub fn time(ns: f64) -> String {
    scaled(ns, &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")])
}

/// A number of packets per second.
pub fn packet_rate(pps: f64) -> String {
    scaled(pps, &[(1e6, "Mpps"), (1e3, "kpps"), (1.0, "pps")])
}

/// Bits per second.
pub fn bit_rate(bps: f64) -> String {
    scaled(bps, &[(1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s")])
}

/// A part of a whole.
pub fn percent(fraction: f64) -> String {
    let percent = 100.0 * fraction;
    if percent == 0.0 {
        "0 %".into()
    } else if percent < 0.01 {
        "<0.01 %".into()
    } else if percent < 10.0 {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// So many of a thing, whose plural ends in -s.
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
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "draw")), ["0 draws", "1 draw", "2 draws"]);
    }
}
