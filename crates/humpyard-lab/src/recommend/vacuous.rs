//! Goals that say nothing: bounds on delays that no policy could break on this traffic.

use humpyard_core::unit::Time;
use serde::Serialize;

use super::figures::{Measure, MeasuredFigures};
use super::goal::{Bound, Goal, GoalFigure};
use crate::config::RunConfig;
use crate::figures::time;
use crate::statistics::Kind;

/// If every policy keeps a bound on a delay by this factor, the bound does not tell policies apart. A run must last this many
/// times as long as the bound.
const TIMES: f64 = 10.0;

/// A bound that does not tell policies apart here, and the reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Vacuous {
    /// Name of the figure that is bounded.
    pub figure: String,
    /// The reason, in words.
    pub because: String,
    /// How many times as long the traffic must last. `None`: it lasts long enough.
    #[serde(skip)]
    pub(super) longer: Option<u64>,
}

/// Returns the bounds that say nothing about a run of traffic that lasts this long, in which the figures of this many candidates
/// were no worse than `worst`. A bound that a candidate breaks by delay says something.
pub(super) fn vacuous(
    goal: &Goal,
    config: &RunConfig,
    lasted: Time,
    worst: &MeasuredFigures,
    candidates: usize,
) -> Vec<Vacuous> {
    let of = |bound: &Bound| {
        let (allowed, longest) = allowed(bound, config, worst)?;
        let lasted = lasted.as_ns() as f64;
        if is_broken_by_delay(bound, worst) {
            return None;
        }
        let longer = (lasted < TIMES * allowed).then(|| (TIMES * allowed / lasted.max(1.0)).ceil() as u64);
        let because = if longer.is_some() {
            let but = if bound.figure.measure == Measure::Late {
                ", and hardly a packet is late but those dropped"
            } else {
                ""
            };
            format!(
                "the traffic lasts {}, less than ten times {}: queues have no time to grow so long{but}",
                time(lasted),
                time(allowed)
            )
        } else if longest < allowed / TIMES {
            let what = if bound.figure.measure == Measure::Late {
                "the longest delay".to_owned()
            } else {
                bound.figure.to_string()
            };
            format!(
                "{what} under the worst of {candidates} candidates is {}, less than a tenth of {}",
                time(longest),
                time(allowed)
            )
        } else {
            return None;
        };
        Some(Vacuous { figure: bound.figure.to_string(), because, longer })
    };
    goal.bounds.iter().filter_map(of).collect()
}

/// Whether packets that were delivered break this bound under the worst candidate. Drops do not count.
fn is_broken_by_delay(bound: &Bound, worst: &MeasuredFigures) -> bool {
    bound.margin(bound.figure.of_delivered(worst)) < 0.0
}

/// Returns the delay that a bound allows, and the worst that there was, in ns. `None`: the bound is on no delay.
fn allowed(bound: &Bound, config: &RunConfig, worst: &MeasuredFigures) -> Option<(f64, f64)> {
    let figure = &bound.figure;
    match (figure.measure, figure.kind()) {
        (Measure::Late, _) => {
            let service = |name: &&str| config.services.iter().any(|choice| choice.name == *name);
            let least = || config.services.iter().map(|choice| config.tolerance(&choice.name)).min();
            let tolerance = match figure.scope.as_deref().filter(service) {
                Some(service) => config.tolerance(service),
                None => least()?,
            };
            let longest = GoalFigure { measure: Measure::Max, scope: figure.scope.clone() };
            Some((tolerance.as_nanos() as f64, longest.of(worst)))
        }
        (_, Kind::Time) => Some((bound.value, figure.of(worst))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::choice::host::Host;

    fn found(goal: &str, lasted_us: u64, worst: MeasuredFigures) -> Vec<(String, String)> {
        let mut config = RunConfig::new(Host::Sim, "gen:poisson", "hrw".parse().expect("a policy"));
        config.tolerances.push((String::new(), Duration::from_millis(2)));
        let goal = goal.parse().expect("a goal");
        let found = vacuous(&goal, &config, Time::from_ns(1_000 * lasted_us), &worst, 70);
        found.into_iter().map(|one| (one.figure, one.because)).collect()
    }

    fn worst(p99_us: f64, max_us: f64) -> MeasuredFigures {
        MeasuredFigures { p99_ns: 1e3 * p99_us, max_ns: 1e3 * max_us, ..MeasuredFigures::default() }
    }

    #[test]
    fn a_run_must_last_ten_times_the_bound() {
        let said = found("late<0.1%@2ms", 126, worst(10.0, 2_500.0));
        let because = "the traffic lasts 126 us, less than ten times 2.00 ms: queues have no time to grow so long, and hardly a packet \
                       is late but those dropped";
        assert_eq!(said, [("late".to_owned(), because.to_owned())]);
        assert!(found("late<0.1%@2ms", 20_000, worst(10.0, 2_500.0)).is_empty());
        assert_eq!(found("p99<1s,ooo<1%", 9_999_999, worst(10.0, 2e6)).len(), 1);
    }

    #[test]
    fn a_bound_that_delay_breaks_is_not_vacuous_however_short_the_run() {
        let broken = |of: fn(&mut MeasuredFigures)| {
            let mut figures = worst(f64::INFINITY, f64::INFINITY);
            (figures.late, figures.loss) = (0.5, 0.5);
            of(&mut figures);
            found("late<0.1%@2ms,p99<40us", 126, figures).len()
        };
        assert_eq!(broken(|_| ()), 2, "packets were dropped, which delay alone does not show");
        assert_eq!(broken(|figures| figures.delivered.late = 0.000_9), 2, "fewer are late than the bound allows");
        assert_eq!(broken(|figures| figures.delivered.late = 0.002), 1);
        assert_eq!(broken(|figures| figures.delivered.p99_ns = 41_000.0), 1);
        let mean = MeasuredFigures { mean_ns: 21_000.0, ..worst(9.0, 10.0) };
        assert_eq!((found("mean<20us", 126, mean.clone()).len(), found("mean<30us", 126, mean).len()), (0, 1));
    }

    #[test]
    fn the_worst_candidate_must_come_near() {
        let said = found("late<0.1%@2ms,p99<100us", 1_000_000, worst(9.0, 199.0));
        let because = "the longest delay under the worst of 70 candidates is 199 us, less than a tenth of 2.00 ms";
        assert_eq!(said[0], ("late".to_owned(), because.to_owned()));
        assert!(said[1].1.starts_with("p99 under the worst of 70 candidates is 9.00 us"), "{said:?}");
        assert!(found("late<0.1%@2ms,p99<100us", 1_000_000, worst(10.0, 200.0)).is_empty());
        assert!(found("late<0.1%@2ms", 1_000_000, worst(10.0, f64::INFINITY)).is_empty(), "packets were dropped");
        assert!(found("loss<1%,fairness>0.5", 1, worst(0.0, 0.0)).is_empty(), "no delay is bounded");
    }
}
