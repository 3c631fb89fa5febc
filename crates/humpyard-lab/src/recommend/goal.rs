//! What is wanted of a run: bounds on its figures, and which figure is to be as good as can be when they all hold.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use humpyard_core::name::unknown;
use serde::{Serialize, Serializer};

use super::figures::{Better, Measure, MeasuredFigures};
use super::scope::ScopeFigures;
use crate::LabError;
use crate::figures::figure;
use crate::statistics::Kind;
use humpyard_text::quantity::{parse_count, parse_duration};

/// A count that strays by this many standard deviations may do so by chance.
const CHANCE: f64 = 3.0;
/// The factor by which a part of the input may be worse than all of it.
const SLACK: f64 = 1.25;

/// Bounds below this are not given in percent.
const LEAST_PERCENT: f64 = 1e-4;

/// A bound on a fraction above this may be meant in percent.
const LEAST_DOUBTED: f64 = 0.01;

/// A fraction as people read it.
fn figure_of(fraction: f64) -> String {
    figure(Kind::Fraction, fraction)
}

/// A number with no more digits than it needs, up to six.
fn short(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// What is wanted: `late<0.1%@2ms,ooo<0.01%,min=p99`.
#[derive(Clone, PartialEq, Debug)]
pub struct Goal {
    /// The bounds, at least one.
    pub(super) bounds: Vec<Bound>,
    /// The figure that decides among policies that keep all bounds; none: how far they keep them.
    pub(super) objective: Option<GoalFigure>,
    /// Delay beyond which a packet is late, if the goal says so.
    pub(super) tolerance: Option<Duration>,
}

/// A figure of all packets, or of those of a service or a client: `p99`, `p99[dpi]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GoalFigure {
    pub(super) measure: Measure,
    /// The service or the client. `None`: all packets.
    pub(super) scope: Option<String>,
}

impl From<Measure> for GoalFigure {
    fn from(measure: Measure) -> Self {
        Self { measure, scope: None }
    }
}

impl fmt::Display for GoalFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.measure.name())?;
        self.scope.as_ref().map_or(Ok(()), |scope| write!(f, "[{scope}]"))
    }
}

impl GoalFigure {
    /// Returns its value. A service or a client that was not measured has the worst there can be.
    pub(super) fn of(&self, figures: &MeasuredFigures) -> f64 {
        self.find(figures, MeasuredFigures::of_measure, ScopeFigures::of_measure)
    }

    /// Returns its value of the packets that were processed alone.
    pub(super) fn of_delivered(&self, figures: &MeasuredFigures) -> f64 {
        self.find(figures, MeasuredFigures::of_delivered, ScopeFigures::of_delivered)
    }

    fn find(
        &self,
        figures: &MeasuredFigures,
        of_all: fn(&MeasuredFigures, Measure) -> f64,
        of_scope: fn(&ScopeFigures, Measure) -> Option<f64>,
    ) -> f64 {
        let Some(scope) = &self.scope else { return of_all(figures, self.measure) };
        let worst = if self.measure.better() == Better::Less { f64::INFINITY } else { 0.0 };
        figures.scope(scope).and_then(|scope| of_scope(scope, self.measure)).unwrap_or(worst)
    }

    /// Returns its value as people read it.
    pub fn shown(&self, figures: &MeasuredFigures) -> String {
        super::shown(self.measure, self.of(figures))
    }

    /// Returns what it is measured in.
    pub(super) fn kind(&self) -> Kind {
        self.measure.kind()
    }
}

/// A bound on a figure, which is kept on the bound, too.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Bound {
    pub(super) figure: GoalFigure,
    /// Greater than 0; of fairness less than 1.
    pub(super) value: f64,
}

impl Bound {
    /// Returns the margin of a run.
    pub(super) fn margin_of(&self, figures: &MeasuredFigures) -> f64 {
        self.margin(self.figure.of(figures))
    }

    /// How far a figure is on the good side, as a part of what is allowed: 1 where nothing of it is used, 0 on the bound, less
    /// beyond it. Of a figure that may not be too small, what is allowed is what it may lack; of a rate, the rate itself.
    pub(super) fn margin(&self, value: f64) -> f64 {
        match (self.figure.measure.better(), self.figure.kind()) {
            (Better::Less, _) => 1.0 - value / self.value,
            (Better::More, Kind::Index) => 1.0 - (1.0 - value) / (1.0 - self.value),
            (Better::More, _) => value / self.value - 1.0,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.figure.measure.better() == Better::Less { '<' } else { '>' };
        let value = match self.figure.kind() {
            // Figures so small are all told alike, bounds are not.
            Kind::Fraction if self.value < LEAST_PERCENT => format!("{:.2e}", self.value),
            kind => figure(kind, self.value),
        };
        write!(f, "{}{sign}{value}", self.figure)
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
        let margins = self.bounds.iter().map(|bound| bound.margin_of(figures));
        margins.fold(f64::INFINITY, f64::min)
    }

    /// The bound that is kept least, or broken most.
    pub(super) fn tightest(&self, figures: &MeasuredFigures) -> &Bound {
        let margin = |bound: &&Bound| bound.margin_of(figures);
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
        let value = |figure: &GoalFigure| figure.measure.better().sign() * figure.of(figures);
        let objective = self.objective.as_ref().map_or(margin, value);
        Score([1.0, objective, margin, p99, mean])
    }

    /// The goal with bounds that a part of the input with this number of packets can be held to: a few of them are late or out of
    /// order by chance alone, and delays differ from part to part.
    pub(super) fn lenient(&self, packets: usize) -> Self {
        let packets = packets.max(1) as f64;
        let bounds = self.bounds.iter().map(|Bound { figure, value }| {
            let value = match (figure.kind(), figure.measure.better()) {
                (Kind::Fraction, _) => value + CHANCE * ((value / packets).sqrt() + 1.0 / packets),
                (Kind::Index, _) => 1.0 - (1.0 - value) * SLACK,
                (_, Better::Less) => value * SLACK,
                (_, Better::More) => value / SLACK,
            };
            Bound { figure: figure.clone(), value }
        });
        Self { bounds: bounds.collect(), ..self.clone() }
    }

    /// Returns the services and clients that it names, each once.
    pub(super) fn scopes(&self) -> Vec<&str> {
        let mut scopes: Vec<&str> = Vec::new();
        for scope in self.figures().into_iter().filter_map(|figure| figure.scope.as_deref()) {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        scopes
    }

    /// Returns the figures that are bounded, and the one that is to be as good as can be, each once.
    pub(super) fn figures(&self) -> Vec<&GoalFigure> {
        let mut figures: Vec<&GoalFigure> = self.bounds.iter().map(|bound| &bound.figure).collect();
        figures.extend(self.objective.iter().filter(|objective| !self.bounds_figure(objective)));
        figures
    }

    /// Returns whether there is a bound on this figure.
    pub(super) fn bounds_figure(&self, figure: &GoalFigure) -> bool {
        self.bounds.iter().any(|bound| bound.figure == *figure)
    }

    /// Says how bounds on fractions are understood that are above 1 % and have no `%`: `late<0.1` is 10 %.
    pub fn doubts(text: &str) -> Vec<String> {
        let doubt = |part: &str| {
            let (figure, bound) = part.split_once('<')?;
            let measure = figure.trim().parse::<GoalFigure>().ok()?.measure;
            let value = bound.split('@').next().unwrap_or_default().trim();
            let fraction: f64 = value.parse().ok().filter(|fraction| *fraction > LEAST_DOUBTED)?;
            (measure.kind() == Kind::Fraction).then(|| {
                format!(
                    "@goal: `{}<{value}` is {}: write {}% for that, or {value}% if you mean {}",
                    figure.trim(),
                    figure_of(fraction),
                    short(fraction * 100.0),
                    figure_of(fraction / 100.0)
                )
            })
        };
        text.split(',').filter_map(|part| doubt(part.trim())).collect()
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
            if let (Measure::Late, Some(tolerance)) = (bound.figure.measure, self.tolerance) {
                write!(f, "@{}", figure(Kind::Time, tolerance.as_nanos() as f64))?;
            }
        }
        match &self.objective {
            Some(figure) if figure.measure.better() == Better::Less => write!(f, ", min={figure}"),
            Some(figure) => write!(f, ", max={figure}"),
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
            return self.aim(which, name.trim().parse()?);
        }
        let at = part.find(['<', '>']).ok_or("a bound reads FIGURE<VALUE or FIGURE>VALUE, p99<500us for example")?;
        let figure: GoalFigure = part[..at].trim().parse()?;
        let measure = figure.measure;
        let said = if measure.better() == Better::Less { "<" } else { ">" };
        if &part[at..=at] != said {
            return Err(format!("{figure} is good where it is {}: write {figure}{said}", measure.better().word()));
        }
        if self.bounds.iter().any(|bound| bound.figure == figure) {
            return Err(format!("{figure} has a bound already: give one"));
        }
        let (value, tolerance) = match part[at + 1..].split_once('@') {
            Some((value, time)) if measure == Measure::Late => {
                (value, Some(parse_duration(time.trim()).map_err(|error| error.to_string())?))
            }
            Some(_) => return Err("only late has a time behind @: late<0.1%@2ms".to_owned()),
            None => (&part[at + 1..], None),
        };
        if let (Some(one), Some(other)) = (self.tolerance, tolerance)
            && one != other
        {
            return Err(
                "two bounds name different delays behind @: name one, and others by @tolerance SERVICE=TIME".to_owned()
            );
        }
        self.tolerance = self.tolerance.or(tolerance);
        self.bounds.push(Bound { figure, value: value_of(measure, value.trim())? });
        Ok(())
    }

    fn aim(&mut self, which: &str, figure: GoalFigure) -> Result<(), String> {
        let right = if figure.measure.better() == Better::Less { "min" } else { "max" };
        if which != right {
            return Err(format!("{figure} is good where it is {}: {right}={figure}", figure.measure.better().word()));
        }
        if self.objective.replace(figure).is_some() {
            return Err("one figure alone can be as good as can be: give one min= or max=".to_owned());
        }
        Ok(())
    }
}

impl FromStr for GoalFigure {
    type Err = String;

    /// Reads `FIGURE` or `FIGURE[SERVICE OR CLIENT]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, scope) = match text.split_once('[') {
            None => (text, None),
            Some((name, rest)) => match rest.strip_suffix(']').map(str::trim).filter(|scope| !scope.is_empty()) {
                Some(scope) => (name.trim(), Some(scope.to_owned())),
                None => return Err("a service or a client stands in brackets: p99[dpi]".to_owned()),
            },
        };
        let found = Measure::ALL.into_iter().find(|measure| measure.name() == name);
        let measure = found.ok_or_else(|| unknown("figure", name, Measure::ALL.map(Measure::name)))?;
        if scope.is_some() && !ScopeFigures::has(measure) {
            let names = Measure::ALL.into_iter().filter(|measure| ScopeFigures::has(*measure)).map(Measure::name);
            let names = names.collect::<Vec<_>>().join(", ");
            return Err(format!("{name} is of all packets together; a service or a client has {names}"));
        }
        Ok(Self { measure, scope })
    }
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
        assert_eq!(read.objective, Some(Measure::P99.into()));
        let values: Vec<f64> = read.bounds.iter().map(|bound| bound.value).collect();
        assert_eq!(values, [0.001, 0.0001, 0.95]);
        assert_eq!(read.to_string(), "late<0.10 %@2.00 ms, ooo<0.01 %, fairness>0.9500, min=p99");
        assert_eq!(goal("late<2e-9%,loss<1e-30").to_string(), "late<2.00e-11, loss<1.00e-30");
        assert_eq!(goal("throughput>1.5M").bounds[0].value, 1.5e6);
        assert_eq!(goal("jitter<50us").bounds[0].value, 5e4);
    }

    #[test]
    fn bounds_name_services_and_clients() {
        let read = goal("p99[dpi]<500us, loss[client3]<1%,p99<1ms,throughput[ dpi ]>100k,min=mean[web]");
        assert_eq!(read.scopes(), ["dpi", "client3", "web"]);
        let said = "p99[dpi]<500 us, loss[client3]<1.00 %, p99<1.00 ms, throughput[dpi]>100 kpps, min=mean[web]";
        assert_eq!(read.to_string(), said);
        assert_eq!(read.to_string().matches('<').count(), 3);
        let dpi = ScopeFigures { scope: "dpi".to_owned(), p99_ns: 250e3, ..ScopeFigures::default() };
        let all = MeasuredFigures { p99_ns: 1e9, scopes: vec![dpi], ..MeasuredFigures::default() };
        assert_eq!(goal("p99[dpi]<500us").margin(&all), 0.5);
        assert_eq!(goal("p99[web]<500us").margin(&all), f64::NEG_INFINITY, "nobody measured it");
    }

    #[test]
    fn a_fraction_that_may_be_a_percentage_is_doubted() {
        let said = Goal::doubts("late[dpi]<0.1@2ms,loss<0.7%,ooo<0.005,p99<1ms,fairness>0.95");
        let expected = "@goal: `late[dpi]<0.1` is 10.0 %: write 10% for that, or 0.1% if you mean 0.10 %";
        assert_eq!(said, [expected]);
        assert!(Goal::doubts("late<0.07")[0].contains("is 7.00 %: write 7% for that"));
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
            ("p99[]<1ms", "in brackets"),
            ("p99[dpi<1ms", "in brackets"),
            ("fairness[dpi]>0.9", "of all packets together; a service or a client has late, mean"),
            ("p99[dpi]<1ms,p99[dpi]<2ms", "p99[dpi] has a bound already"),
            ("p99[dpi]>1ms", "write p99[dpi]<"),
            ("late<1%@2ms,late[dpi]<1%@1ms", "two bounds name different delays"),
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
        assert_eq!(both.tightest(&figures(0.00125, 0.0, 0.875)).figure.measure, Measure::Fairness);
    }

    #[test]
    fn a_few_packets_are_not_held_to_a_small_part() {
        let goal = goal("ooo<0.01%,p99<1ms,fairness>0.8");
        let [ooo, p99, fairness] = &goal.lenient(2_500).bounds[..] else { panic!("three bounds") };
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
