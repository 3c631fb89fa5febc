//! What is wanted of a run: bounds on its figures, and which figure is to be as good as can be when they all hold.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use humpyard_core::name::unknown;
use serde::{Serialize, Serializer};

use super::figures::{Better, Measure, MeasuredFigures};
use crate::LabError;
use crate::figures::figure;
use crate::statistics::Kind;
use humpyard_text::quantity::{parse_count, parse_duration};

/// So many standard deviations of a count are chance.
const CHANCE: f64 = 3.0;
/// By so much a part of the input may be worse than all of it.
const SLACK: f64 = 1.25;

/// Bounds below this are not told in percent.
const LEAST_PERCENT: f64 = 1e-4;

/// What is wanted: `late<0.1%@2ms,ooo<0.01%,min=p99`.
#[derive(Clone, PartialEq, Debug)]
pub struct Goal {
    /// The bounds, at least one.
    pub(super) bounds: Vec<Bound>,
    /// The figure that decides among policies that keep all bounds; none: how far they keep them.
    pub(super) objective: Option<Measure>,
    /// Delay beyond which a packet is late, if the goal says so.
    pub(super) tolerance: Option<Duration>,
}

/// A bound on a figure, which is kept on the bound, too.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Bound {
    pub(super) measure: Measure,
    /// Greater than 0; of fairness less than 1.
    pub(super) value: f64,
}

impl Bound {
    /// How far a figure is on the good side, as a part of what is allowed: 1 where nothing of it is used, 0 on the bound, less
    /// beyond it. Of a figure that may not be too small, what is allowed is what it may lack; of a rate, the rate itself.
    pub(super) fn margin(&self, value: f64) -> f64 {
        match (self.measure.better(), self.measure.kind()) {
            (Better::Less, _) => 1.0 - value / self.value,
            (Better::More, Kind::Index) => 1.0 - (1.0 - value) / (1.0 - self.value),
            (Better::More, _) => value / self.value - 1.0,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.measure.better() == Better::Less { '<' } else { '>' };
        let value = match self.measure.kind() {
            // Figures so small are all told alike, bounds are not.
            Kind::Fraction if self.value < LEAST_PERCENT => format!("{:.2e}", self.value),
            kind => figure(kind, self.value),
        };
        write!(f, "{}{sign}{value}", self.measure.name())
    }
}

/// How good a policy is: the first of these numbers that differs decides, and the greater is better.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Score([f64; 5]);

impl Score {
    pub(super) fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        let pairs = self.0.iter().zip(&other.0);
        pairs.map(|(one, other)| one.total_cmp(other)).find(|order| order.is_ne()).unwrap_or(core::cmp::Ordering::Equal)
    }
}

impl Goal {
    /// The least of the margins of the bounds: not below 0 if they all hold.
    pub(super) fn margin(&self, figures: &MeasuredFigures) -> f64 {
        let margins = self.bounds.iter().map(|bound| bound.margin(figures.of_measure(bound.measure)));
        margins.fold(f64::INFINITY, f64::min)
    }

    /// The bound that is kept least, or broken most.
    pub(super) fn tightest(&self, figures: &MeasuredFigures) -> &Bound {
        let margin = |bound: &&Bound| bound.margin(figures.of_measure(bound.measure));
        self.bounds.iter().min_by(|one, other| margin(one).total_cmp(&margin(other))).expect("a goal has a bound")
    }

    /// Whether all bounds hold.
    pub(super) fn holds(&self, figures: &MeasuredFigures) -> bool {
        self.margin(figures) >= 0.0
    }

    /// How good these figures are. Where all bounds hold the objective decides, else the margin; where these are the same, the
    /// delay does: p99, then the mean.
    pub(super) fn score(&self, figures: &MeasuredFigures) -> Score {
        let margin = self.margin(figures);
        let (p99, mean) = (-figures.of_measure(Measure::P99), -figures.of_measure(Measure::Mean));
        if margin < 0.0 {
            return Score([0.0, margin, -figures.of_measure(Measure::Loss), p99, mean]);
        }
        let objective = self.objective.map_or(margin, |measure| measure.better().sign() * figures.of_measure(measure));
        Score([1.0, objective, margin, p99, mean])
    }

    /// The goal with bounds that so many packets can be held to: a few of them are late or out of order by chance alone, and delays
    /// differ from part to part of the input.
    pub(super) fn lenient(&self, packets: usize) -> Self {
        let packets = packets.max(1) as f64;
        let bounds = self.bounds.iter().map(|&Bound { measure, value }| {
            let value = match (measure.kind(), measure.better()) {
                (Kind::Fraction, _) => value + CHANCE * ((value / packets).sqrt() + 1.0 / packets),
                (Kind::Index, _) => 1.0 - (1.0 - value) * SLACK,
                (_, Better::Less) => value * SLACK,
                (_, Better::More) => value / SLACK,
            };
            Bound { measure, value }
        });
        Self { bounds: bounds.collect(), ..self.clone() }
    }

    /// What else than policies decides whether a packet is late.
    pub fn tolerance(&self) -> Option<Duration> {
        self.tolerance
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, bound) in self.bounds.iter().enumerate() {
            write!(f, "{}{bound}", if at > 0 { ", " } else { "" })?;
            if let (Measure::Late, Some(tolerance)) = (bound.measure, self.tolerance) {
                write!(f, "@{}", figure(Kind::Time, tolerance.as_nanos() as f64))?;
            }
        }
        match self.objective {
            Some(measure) if measure.better() == Better::Less => write!(f, ", min={}", measure.name()),
            Some(measure) => write!(f, ", max={}", measure.name()),
            None => Ok(()),
        }
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Goal {
    type Err = LabError;

    /// Bounds and at most one `min=FIGURE` or `max=FIGURE`, separated by commas.
    fn from_str(text: &str) -> Result<Self, LabError> {
        let mut goal = Self { bounds: Vec::new(), objective: None, tolerance: None };
        for part in text.split(',').map(str::trim) {
            goal.add(part).map_err(|said| LabError::option(format!("@goal: `{part}`: {said}")))?;
        }
        if goal.bounds.is_empty() {
            return Err(LabError::option("@goal takes at least one bound, late<0.1%@2ms for example"));
        }
        Ok(goal)
    }
}

impl Goal {
    fn add(&mut self, part: &str) -> Result<(), String> {
        if let Some((which, name)) = part.split_once('=').filter(|(which, _)| matches!(*which, "min" | "max")) {
            return self.aim(which, measure(name)?);
        }
        let at = part.find(['<', '>']).ok_or("a bound reads FIGURE<VALUE or FIGURE>VALUE, p99<500us for example")?;
        let measure = measure(part[..at].trim())?;
        let said = if measure.better() == Better::Less { "<" } else { ">" };
        if &part[at..=at] != said {
            return Err(format!("{} is good where it is {}: write {0}{said}", measure.name(), measure.better().word()));
        }
        if self.bounds.iter().any(|bound| bound.measure == measure) {
            return Err(format!("{} has a bound already: give one", measure.name()));
        }
        let (value, tolerance) = match part[at + 1..].split_once('@') {
            Some((value, time)) if measure == Measure::Late => {
                (value, Some(parse_duration(time.trim()).map_err(|error| error.to_string())?))
            }
            Some(_) => return Err("only late has a time behind @: late<0.1%@2ms".to_owned()),
            None => (&part[at + 1..], None),
        };
        self.tolerance = self.tolerance.or(tolerance);
        self.bounds.push(Bound { measure, value: value_of(measure, value.trim())? });
        Ok(())
    }

    fn aim(&mut self, which: &str, measure: Measure) -> Result<(), String> {
        let right = if measure.better() == Better::Less { "min" } else { "max" };
        if which != right {
            return Err(format!("{} is good where it is {}: {right}={0}", measure.name(), measure.better().word()));
        }
        if self.objective.replace(measure).is_some() {
            return Err("one figure alone can be as good as can be: give one min= or max=".to_owned());
        }
        Ok(())
    }
}

fn measure(name: &str) -> Result<Measure, String> {
    let found = Measure::ALL.into_iter().find(|measure| measure.name() == name);
    found.ok_or_else(|| unknown("figure", name, Measure::ALL.map(Measure::name)))
}

fn value_of(measure: Measure, text: &str) -> Result<f64, String> {
    let value = match measure.kind() {
        Kind::Time => parse_duration(text).map(|time| time.as_nanos() as f64).map_err(|error| error.to_string())?,
        Kind::Fraction | Kind::Index => match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0).unwrap_or(f64::NAN),
            None => text.parse().unwrap_or(f64::NAN),
        },
        Kind::PacketRate | Kind::Count => parse_count(text).unwrap_or(f64::NAN),
    };
    let below = match measure.kind() {
        Kind::Fraction | Kind::Index => 1.0,
        _ => f64::INFINITY,
    };
    if value > 0.0 && value < below {
        return Ok(value);
    }
    Err(format!("{} takes {}, not `{text}`", measure.name(), measure.accepts()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(text: &str) -> Goal {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn goals_read_as_people_write_them() {
        let read = goal("late<0.1%@2ms, ooo<0.0001,fairness>0.95,min=p99");
        assert_eq!(read.tolerance, Some(Duration::from_millis(2)));
        assert_eq!(read.objective, Some(Measure::P99));
        let values: Vec<f64> = read.bounds.iter().map(|bound| bound.value).collect();
        assert_eq!(values, [0.001, 0.0001, 0.95]);
        assert_eq!(read.to_string(), "late<0.10 %@2.00 ms, ooo<0.01 %, fairness>0.9500, min=p99");
        assert_eq!(goal("late<2e-9%,loss<1e-30").to_string(), "late<2.00e-11, loss<1.00e-30");
        assert_eq!(goal("throughput>1.5M").bounds[0].value, 1.5e6);
    }

    #[test]
    fn what_is_no_goal_is_told_why() {
        for (text, said) in [
            ("", "FIGURE<VALUE"),
            ("p99", "FIGURE<VALUE"),
            ("min=p99", "at least one bound"),
            ("lat<1%", "did you mean `late`"),
            ("late>1%", "write late<"),
            ("late<0%", "late takes"),
            ("late<150%", "late takes"),
            ("late<1%@2", "unit"),
            ("p99<1ms@2ms", "only late"),
            ("p99<1ms,p99<2ms", "already"),
            ("p99<500", "unit"),
            ("p99<0ns", "p99 takes"),
            ("fairness>1", "fairness takes"),
            ("p99<1ms,max=p99", "min=p99"),
            ("p99<1ms,min=p99,min=mean", "give one"),
            ("throughput>fast", "throughput takes"),
        ] {
            let error = text.parse::<Goal>().expect_err(text).to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{text}: {error}");
        }
    }

    fn figures(late: f64, p99: f64, fairness: f64) -> MeasuredFigures {
        MeasuredFigures { late, p99_ns: p99, fairness, throughput_pps: 1e6, ..MeasuredFigures::default() }
    }

    #[test]
    fn margins_are_parts_of_what_is_allowed() {
        assert_eq!(goal("late<0.5%").margin(&figures(0.00125, 0.0, 1.0)), 0.75);
        assert_eq!(goal("late<0.5%").margin(&figures(0.01, 0.0, 1.0)), -1.0);
        assert_eq!(goal("fairness>0.75").margin(&figures(0.0, 0.0, 0.875)), 0.5);
        assert_eq!(goal("throughput>2M").margin(&figures(0.0, 0.0, 1.0)), -0.5);
        let both = goal("late<0.5%,fairness>0.75");
        assert_eq!(both.margin(&figures(0.00125, 0.0, 0.875)), 0.5);
        assert_eq!(both.tightest(&figures(0.00125, 0.0, 0.875)).measure, Measure::Fairness);
    }

    #[test]
    fn a_few_packets_are_not_held_to_a_small_part() {
        let goal = goal("ooo<0.01%,p99<1ms,fairness>0.8");
        let [ooo, p99, fairness] = goal.lenient(2_500).bounds[..] else { panic!("three bounds") };
        // One packet of them is four times as many as allowed.
        assert!(ooo.value > 1.0 / 2_500.0 && ooo.value < 10.0 / 2_500.0, "{ooo:?}");
        assert_eq!((p99.value, (fairness.value * 100.0).round()), (1.25e6, 75.0));
        assert!(goal.lenient(100_000_000).bounds[0].value < 1.1e-4);
    }

    #[test]
    fn whoever_keeps_the_bounds_goes_first_then_the_objective_then_delay() {
        let better = |goal: &Goal, one: &MeasuredFigures, other: &MeasuredFigures| {
            assert_eq!(goal.score(one).cmp(&goal.score(other)), core::cmp::Ordering::Greater);
            assert_eq!(goal.score(other).cmp(&goal.score(one)), core::cmp::Ordering::Less);
        };
        let aimed = goal("late<1%,min=p99");
        better(&aimed, &figures(0.009, 500.0, 1.0), &figures(0.02, 10.0, 1.0));
        better(&aimed, &figures(0.009, 400.0, 1.0), &figures(0.0, 500.0, 1.0));
        better(&aimed, &figures(0.001, 500.0, 1.0), &figures(0.002, 500.0, 1.0));
        let bound = goal("late<1%");
        better(&bound, &figures(0.001, 500.0, 1.0), &figures(0.002, 100.0, 1.0));
        better(&bound, &figures(0.0, 100.0, 1.0), &figures(0.0, 101.0, 1.0));
        better(&bound, &figures(0.02, 900.0, 1.0), &figures(0.03, 100.0, 1.0));
    }
}
