//! Bar plots of policies.

use crate::harness::{Range, bar_of, short};
use humpyard_plot::statistics::Statistic;
use humpyard_plot::{Axis, Bar, BarGroup, BarPlot, Svg};

/// The contents of a plot of policies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) name: &'static str,
    pub(super) axis: &'static str,
    pub(super) format: fn(f64) -> String,
    /// The column of the bars, each the median over the draws.
    pub(super) column: &'static str,
    /// The columns with the two ends of the error bar. `None`: the range over the draws.
    pub(super) range: Option<(&'static str, &'static str)>,
}

impl Shown {
    /// Returns a plot of a column, with the range over the draws.
    pub(super) const fn of(
        name: &'static str,
        axis: &'static str,
        column: &'static str,
        format: fn(f64) -> String,
    ) -> Self {
        Self { name, axis, format, column, range: None }
    }

    /// Draws the bar of a policy; `of` has its columns.
    pub(super) fn bar(&self, policy: &str, of: impl Fn(&str) -> Statistic) -> Bar {
        let bar = bar_of(policy, &of(self.column));
        match self.range {
            None => bar,
            Some((low, high)) => Bar { error: Some((of(low).median, of(high).median)), ..bar },
        }
    }

    /// Draws the plot; returns it with its name.
    pub(super) fn plot(&self, title: &str, description: &str, groups: Vec<BarGroup>) -> (String, Svg) {
        let plot = BarPlot {
            title: format!("{title}: {}", self.axis),
            description: description.to_owned(),
            value: Axis::linear(self.axis, self.format),
            groups,
        };
        (self.name.to_owned(), plot.svg())
    }
}

/// Writes the median and the range.
pub(super) fn text(found: &Statistic) -> String {
    format!("{} ({})", short(found.median), Range::from(found))
}
