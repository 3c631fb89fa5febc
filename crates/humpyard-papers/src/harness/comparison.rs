//! Plots found values over the papers' values, claim by claim.

use super::claim::{Demand, claim};
use super::judged::ClaimVerdict;
use super::outcome::Outcome;
use super::statistics::short;
use humpyard_plot::{Axis, BoundPlot, BoundRow, Svg};

/// Plots the claims that have a number, each found value over the paper's. `None`: no claim has a number.
pub(super) fn plot(claims: &[ClaimVerdict]) -> Option<Svg> {
    let rows: Vec<BoundRow> = claims.iter().flat_map(rows).collect();
    let plot = BoundPlot {
        title: "What was found, over what the paper says".to_owned(),
        description: "A line for each number of a claim. The band is where the claim holds, and the line in it the \
            paper's value. Each seed has a dot, which is full if the claim holds of it."
            .to_owned(),
        value: Axis::logarithmic("times the paper's value", short),
        mark: 1.0,
        rows,
    };
    (!plot.rows.is_empty()).then(|| plot.svg())
}

/// Returns a row for each number with a value in the paper. Values of 0 have no multiples.
fn rows(verdict: &ClaimVerdict) -> Vec<BoundRow> {
    if verdict.outcome == Outcome::NotTestable {
        return Vec::new();
    }
    let figures = verdict.found.iter().map(Vec::len).max().unwrap_or(0);
    (0..figures).filter_map(|figure| row(verdict, figure, figures)).collect()
}

fn row(verdict: &ClaimVerdict, figure: usize, figures: usize) -> Option<BoundRow> {
    let (paper, bound) = relative(&claim(&verdict.claim).demand, figure)?;
    let found = verdict.found.iter().filter_map(|found| found.get(figure).copied().flatten());
    let median = verdict.median.get(figure).copied().flatten();
    let number = if figures > 1 { format!(" {}", figure + 1) } else { String::new() };
    Some(BoundRow {
        name: format!("{}{number}", verdict.claim),
        bound,
        values: found.map(|value| value / paper).collect(),
        said: format!("{}, paper {}", median.map_or_else(|| "no finite number".to_owned(), short), short(paper)),
    })
}

/// Returns the paper's value of a number, and the range in which the claim holds, relative to that value.
fn relative(demand: &Demand, figure: usize) -> Option<(f64, (f64, f64))> {
    let (value, low, high) = match demand {
        Demand::Number(ranges) => {
            let range = if ranges.len() == 1 { ranges.first() } else { ranges.get(figure) }?;
            (f64::midpoint(range.least, range.greatest), range.least, range.greatest)
        }
        Demand::AtLeast { bound, .. } => (*bound, *bound, f64::INFINITY),
        Demand::AtMost { bound, .. } => (*bound, f64::NEG_INFINITY, *bound),
        Demand::Ranking => (1.0, 1.0, f64::INFINITY),
        Demand::Grows | Demand::Falls | Demand::Sequence(_) => return None,
    };
    let (one, other) = (low / value, high / value);
    (value != 0.0).then_some((value, (one.min(other), one.max(other))))
}

#[cfg(test)]
mod tests {
    use super::super::statistics::Range;
    use super::*;

    #[test]
    fn bounds_are_multiples_of_the_papers_value() {
        let number =
            Demand::Number(vec![Range { least: 9.0, greatest: 11.0 }, Range { least: -22.0, greatest: -18.0 }]);
        assert_eq!(relative(&number, 0), Some((10.0, (0.9, 1.1))));
        assert_eq!(relative(&number, 1), Some((-20.0, (0.9, 1.1))));
        assert_eq!(relative(&number, 2), None);
        assert_eq!(relative(&Demand::AtLeast { bound: 5.0, strict: false }, 3), Some((5.0, (1.0, f64::INFINITY))));
        assert_eq!(relative(&Demand::AtMost { bound: 5.0, strict: false }, 0), Some((5.0, (f64::NEG_INFINITY, 1.0))));
        assert_eq!(relative(&Demand::AtMost { bound: 0.0, strict: false }, 0), None);
        assert_eq!(relative(&Demand::Grows, 0), None);
    }
}
