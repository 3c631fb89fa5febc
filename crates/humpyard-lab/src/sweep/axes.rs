//! What varies in a sweep: single options, options that vary together, and samples of several.

use humpyard_core::random::Seed;
use serde::Serialize;

/// The values that an option has in a cell: most have one.
pub(super) type Values = Vec<String>;

/// Options that vary together.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Axes {
    /// The options.
    pub(super) names: Vec<String>,
    /// The values of all of them, step by step.
    pub(super) steps: Vec<Vec<Values>>,
}

impl Axes {
    /// One option over these values.
    pub(super) fn one(name: String, values: Vec<Values>) -> Self {
        Self { names: vec![name], steps: values.into_iter().map(|values| vec![values]).collect() }
    }

    /// Options whose first values go together, then their second ones. They have as many each.
    pub(super) fn zipped(axes: Vec<(String, Vec<Values>)>) -> Self {
        let steps = axes.first().map_or(0, |(_, values)| values.len());
        let step = |at: usize| axes.iter().map(|(_, values)| values[at].clone()).collect();
        Self { steps: (0..steps).map(step).collect(), names: axes.into_iter().map(|(name, _)| name).collect() }
    }

    /// A Latin hypercube (McKay, Beckman, Conover 1979): each option has one of its points in each of as many
    /// equal parts of its range. Which parts go together is random.
    pub(super) fn sample(options: &[(String, Span)], points: usize, seed: Seed) -> Self {
        let column = |(name, span): &(String, Span)| {
            let mut random = seed.stream(&format!("sweep/sample/{name}"));
            let mut parts: Vec<usize> = (0..points).collect();
            for last in (1..points).rev() {
                parts.swap(last, random.below(last as u64 + 1) as usize);
            }
            let place = |part: usize, within: f64| (part as f64 + within) / points as f64;
            parts.into_iter().map(|part| span.at(place(part, random.unit()))).collect::<Vec<_>>()
        };
        let columns: Vec<Vec<Values>> = options.iter().map(column).collect();
        let point = |at: usize| columns.iter().map(|column| column[at].clone()).collect();
        Self { names: options.iter().map(|(name, _)| name.clone()).collect(), steps: (0..points).map(point).collect() }
    }
}

/// What an option of a sample may be.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Span {
    /// A number between two.
    Range(Range),
    /// One of these.
    Choice(Vec<Values>),
}

impl Span {
    /// Returns the value at a place from 0 to 1, which it does not reach.
    fn at(&self, place: f64) -> Values {
        match self {
            Self::Range(range) => vec![range.at(place)],
            Self::Choice(values) => values[((place * values.len() as f64) as usize).min(values.len() - 1)].clone(),
        }
    }
}

/// Numbers from one to another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Range {
    pub(super) from: f64,
    pub(super) to: f64,
    /// Whether they are whole.
    pub(super) is_whole: bool,
    /// Whether steps are equal quotients instead of equal differences.
    pub(super) is_logarithmic: bool,
}

impl Range {
    /// Returns this many numbers at equal steps, both ends among them.
    pub(super) fn steps(self, steps: usize) -> Vec<Values> {
        let last = steps.saturating_sub(1).max(1) as f64;
        (0..steps).map(|step| vec![self.text(self.between(step as f64 / last))]).collect()
    }

    /// Returns the number at a place; of whole ones each has an equal part.
    fn at(self, place: f64) -> String {
        if !self.is_whole {
            return self.text(self.between(place));
        }
        let wider = Self { to: self.to + 1.0, is_whole: false, ..self };
        self.text(wider.between(place).floor().min(self.to))
    }

    fn between(self, place: f64) -> f64 {
        if self.is_logarithmic {
            self.from * (self.to / self.from).powf(place)
        } else {
            self.from + (self.to - self.from) * place
        }
    }

    /// Writes a number without the noise of its last digits.
    fn text(self, number: f64) -> String {
        if self.is_whole {
            return format!("{:.0}", number.round());
        }
        format!("{number:.9e}").parse::<f64>().map_or_else(|_| number.to_string(), |rounded| rounded.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LINEAR: Range = Range { from: 0.5, to: 0.9, is_whole: false, is_logarithmic: false };

    fn texts(values: Vec<Values>) -> Vec<String> {
        values.into_iter().map(|values| values.join("+")).collect()
    }

    #[test]
    fn ranges_have_both_ends_and_no_noise() {
        assert_eq!(texts(LINEAR.steps(5)), ["0.5", "0.6", "0.7", "0.8", "0.9"]);
        let logarithmic = Range { from: 64.0, to: 4096.0, is_whole: true, is_logarithmic: true };
        assert_eq!(texts(logarithmic.steps(4)), ["64", "256", "1024", "4096"]);
        assert_eq!(texts(LINEAR.steps(1)), ["0.5"]);
    }

    #[test]
    fn a_latin_hypercube_has_a_point_in_each_part_of_each_axis() {
        let whole = Range { from: 1.0, to: 4.0, is_whole: true, is_logarithmic: false };
        let policies = Span::Choice(vec![vec!["hrw".into()], vec!["drr".into()]]);
        let options =
            [("load".into(), Span::Range(LINEAR)), ("cores".into(), Span::Range(whole)), ("policy".into(), policies)];
        let sample = Axes::sample(&options, 40, Seed(1));
        let column = |at: usize| sample.steps.iter().map(move |step| step[at][0].clone());
        let parts: BTreeSet<usize> =
            column(0).map(|load| ((load.parse::<f64>().unwrap() - 0.5) / 0.4 * 40.0) as usize).collect();
        assert_eq!(parts.len(), 40);
        let count = |at: usize, text: &str| column(at).filter(|value| value == text).count();
        assert_eq!(["1", "2", "3", "4"].map(|cores| count(1, cores)), [10; 4]);
        assert_eq!(["hrw", "drr"].map(|policy| count(2, policy)), [20; 2]);
        assert_eq!(Axes::sample(&options, 40, Seed(1)), sample);
        assert_ne!(Axes::sample(&options, 40, Seed(2)), sample);
    }
}
