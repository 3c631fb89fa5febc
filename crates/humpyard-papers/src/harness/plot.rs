//! Building blocks of plots.

use humpyard_plot::statistics::Statistic;
use humpyard_plot::{Axis, Bar, BarGroup, Line, Point};

/// Draws a line through points.
pub(crate) fn line<P: Into<Point>>(name: impl Into<String>, points: impl IntoIterator<Item = P>) -> Line {
    Line { name: name.into(), points: points.into_iter().map(Into::into).collect() }
}

/// Draws a bar without an error bar.
pub(crate) fn bar(name: impl Into<String>, value: f64) -> Bar {
    Bar { name: name.into(), value, error: None }
}

/// Draws a bar at the median, with the range.
pub(crate) fn bar_of(name: impl Into<String>, found: &Statistic) -> Bar {
    Bar { name: name.into(), value: found.median, error: Some((found.min, found.max)) }
}

/// Puts bars side by side.
pub(crate) fn group(name: impl Into<String>, bars: impl IntoIterator<Item = Bar>) -> BarGroup {
    BarGroup { name: name.into(), bars: bars.into_iter().collect() }
}

/// Makes a linear axis with whole numbers.
pub(crate) fn whole(label: impl Into<String>) -> Axis {
    Axis::linear(label, |number| format!("{number:.0}"))
}

/// Makes a logarithmic axis with whole numbers.
pub(crate) fn logarithmic(label: impl Into<String>) -> Axis {
    Axis::logarithmic(label, |number| format!("{number:.0}"))
}
