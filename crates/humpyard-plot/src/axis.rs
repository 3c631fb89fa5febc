//! Axes: their ranges and ticks.

use core::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// How values are laid out on an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal ratios. Values of 0 or less cannot be shown, and are left out.
    Logarithmic,
}

/// One axis of a plot.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What the axis shows. Gives the unit, unless `format` writes it at each tick.
    pub label: String,
    /// How values are laid out.
    pub scale: Scale,
    /// The range of values. `None`: the range of the data, and 0 on a linear axis.
    pub range: Option<(f64, f64)>,
    /// Writes the value at a tick.
    pub format: fn(f64) -> String,
}

/// The visible range of an axis as places, with its ticks.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) ends: (f64, f64),
    pub(super) ticks: Vec<f64>,
}

impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (first, last): (i32, i32)) -> i32 {
        let part = (place - self.ends.0) / (self.ends.1 - self.ends.0);
        first + (f64::from(last - first) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // No minor ticks: each tick has a number.
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.ends.0..self.ends.1
    }
}

/// Upper limit of the number of ticks on an axis, about.
const TICKS: f64 = 6.0;

impl Axis {
    /// Returns a linear axis whose range follows the data.
    pub fn linear(label: impl Into<String>, format: fn(f64) -> String) -> Self {
        Self { label: label.into(), scale: Scale::Linear, range: None, format }
    }

    /// Returns a logarithmic axis whose range follows the data.
    pub fn logarithmic(label: impl Into<String>, format: fn(f64) -> String) -> Self {
        Self { scale: Scale::Logarithmic, ..Self::linear(label, format) }
    }

    /// Sets the range.
    #[must_use]
    pub fn from_to(self, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..self }
    }

    /// Returns the place of a value. `None`: the axis cannot show it.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        match self.scale {
            _ if !value.is_finite() => None,
            Scale::Linear => Some(value),
            Scale::Logarithmic => (value > 0.0).then(|| value.log10()),
        }
    }

    /// Returns the value at a place.
    fn value(&self, place: f64) -> f64 {
        match self.scale {
            Scale::Linear => place,
            Scale::Logarithmic => 10f64.powf(place),
        }
    }

    /// Returns the visible range and the ticks for these values.
    pub(super) fn places(&self, values: impl Iterator<Item = f64>) -> Places {
        let ends = self.ends(values);
        Places { ends, ticks: self.ticks(ends) }
    }

    /// Returns the text at a tick: the caller's format, without the trailing zeros that a round number does not
    /// need.
    pub(super) fn text(&self, place: f64) -> String {
        let text = (self.format)(self.value(place));
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
        format!("{number}{unit}")
    }

    /// Returns the first and the last place, for these values.
    fn ends(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        if let Some((low, high)) = self.range
            && let (Some(low), Some(high)) = (self.place(low), self.place(high))
        {
            return (low, high);
        }
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) = values
            .filter_map(|value| self.place(value))
            .fold(ends, |(low, high), place| (low.min(place), high.max(place)));
        match self.scale {
            _ if low > high => (0.0, 1.0),
            Scale::Linear => {
                let (low, high) = (low.min(0.0), high.max(0.0));
                if low == high { (low, low + 1.0) } else { (low, high) }
            }
            // Rounds outwards to whole tenths of a decade. A range below a tenth becomes a whole decade.
            Scale::Logarithmic if high - low < 0.1 => (low - 0.5, high + 0.5),
            Scale::Logarithmic => ((low * 10.0).floor() / 10.0, (high * 10.0).ceil() / 10.0),
        }
    }

    /// Returns the ticks between `low` and `high`.
    fn ticks(&self, (low, high): (f64, f64)) -> Vec<f64> {
        match self.scale {
            Scale::Linear => multiples(step((high - low) / TICKS), low, high),
            Scale::Logarithmic if high - low > 2.0 => multiples(((high - low) / TICKS).ceil(), low, high),
            Scale::Logarithmic => {
                let decades = (low.floor() as i32)..=(high.ceil() as i32);
                let ticks =
                    decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit: f64| f64::from(decade) + digit.log10()));
                ticks.filter(|tick| (low..=high).contains(tick)).collect()
            }
        }
    }
}

/// Returns the least of 1, 2 and 5 times a power of ten that is at least `least`.
fn step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * decade).find(|&step| step >= least * 0.999).unwrap_or(least)
}

/// Returns the multiples of `step` from `low` to `high`.
fn multiples(step: f64, low: f64, high: f64) -> Vec<f64> {
    let slack = step * 1e-9;
    let first = ((low - slack) / step).ceil() as i64;
    let last = ((high + slack) / step).floor() as i64;
    (first..=last).map(|multiple| multiple as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(axis: &Axis, values: &[f64]) -> Vec<String> {
        axis.places(values.iter().copied()).ticks.into_iter().map(|tick| axis.text(tick)).collect()
    }

    fn plain(value: f64) -> String {
        format!("{value:.4}")
    }

    #[test]
    fn ticks_are_round_and_not_too_many() {
        let linear = Axis::linear("", plain);
        assert_eq!(shown(&linear, &[3.0, 9.7]), ["0", "2", "4", "6", "8"]);
        assert_eq!(shown(&linear, &[-1.0, 0.2]), ["-1", "-0.8", "-0.6", "-0.4", "-0.2", "0", "0.2"]);
        assert_eq!(shown(&linear, &[]).first().map(String::as_str), Some("0"));
        let logarithmic = Axis::logarithmic("", plain);
        assert_eq!(shown(&logarithmic, &[0.0, 15.0, 180_000.0]), ["100", "1000", "10000", "100000"]);
        assert_eq!(shown(&logarithmic, &[1.0, 30.0]), ["1", "2", "5", "10", "20"]);
        for values in [&[][..], &[7.0], &[f64::NAN], &[1e300, 1e-300], &[0.0]] {
            for axis in [&linear, &logarithmic] {
                let ticks = shown(axis, values).len();
                assert!((1..=12).contains(&ticks), "{values:?}: {ticks}");
            }
        }
    }
}
