//! The figures of merit of the paper's claims.

use super::paper::{AE, COHORT_E, EAGER, EVEREST, LATE, STATIC};
use super::places::{Place, by_traffic, places};
use crate::harness::{Figure, Table, ascending};
use humpyard_plot::statistics::Statistic;

/// Fewest late packets of a policy for a comparison of its late packets with another's.
pub(super) const LATE_LEAST: f64 = 20.0;
/// The highest load of a machine that counts as not overloaded.
const UNDERLOAD: f64 = 0.65;
/// Below this t_sw/D, the paper calls a switch cheap.
const CHEAP: f64 = 0.05;
/// From this t_sw/D on, a switch is expensive.
const DEAR: f64 = 1.0;

/// The paper's eager policies: quanta of 10 ms and of 40 ms, and two more.
const EAGERLY: [&str; 4] = [EAGER[0], EAGER[1], COHORT_E, AE];
/// The rivals of Everest-AE.
const WITHOUT_AE: [&str; 3] = [EAGER[0], EAGER[1], COHORT_E];
/// All rivals of Everest.
pub(super) const RIVALS: [&str; 6] = [EAGER[0], EAGER[1], COHORT_E, AE, LATE, STATIC];
/// All policies except Everest and Everest-AE.
const OTHERS: [&str; 5] = [STATIC, EAGER[0], EAGER[1], COHORT_E, LATE];
/// The eager policies that run on the traces.
const ON_TRACES: [&str; 3] = [EAGER[0], COHORT_E, AE];
/// Everest with a forecast.
pub(super) const FORECAST: &str = "everest:proactive=ewma";

/// Returns the median quotient of late packets, from pairs of late packets at the same place.
///
/// Pairs of two large enough numbers count. If there are none, pairs with one large enough number count. The
/// minimum then replaces the other number, so that the quotient is nearer to 1 than the true one. `None`: no
/// pair counts.
pub(super) fn quotient(pairs: &[[f64; 2]]) -> Option<f64> {
    let is_large = |&late: &f64| late >= LATE_LEAST;
    let with_both = pairs.iter().filter(|pair| pair.iter().all(is_large));
    let with_one = pairs.iter().filter(|pair| pair.iter().any(is_large));
    let of = |[above, below]: &[f64; 2]| above.max(LATE_LEAST) / below.max(LATE_LEAST);
    let median = |quotients: Vec<f64>| Statistic::of(quotients).map(|statistic| statistic.median);
    median(with_both.map(of).collect()).or_else(|| median(with_one.map(of).collect()))
}

/// Returns the median quotient of late packets of two policies at these places. `None`: no place counts.
pub(super) fn late_over(places: &[&Place<'_>], above: &str, below: &str) -> Option<f64> {
    let pair = |place: &&Place<'_>| [above, below].map(|policy| place.late_packets(policy));
    quotient(&places.iter().map(pair).collect::<Vec<_>>())
}

/// Returns the places of a machine that is not overloaded.
pub(super) fn underloaded<'a, 'b>(places: &'b [Place<'a>]) -> Vec<&'b Place<'a>> {
    places.iter().filter(|place| place.number("load") <= UNDERLOAD).collect()
}

/// Returns the least of these numbers; NaN if a number is NaN, or there is none.
fn least(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let smaller = |one: f64, other: f64| if one.is_nan() || one <= other { one } else { other };
    numbers.into_iter().reduce(smaller).unwrap_or(f64::NAN)
}

/// Returns the least median quotient of late packets over the kinds of traffic; NaN if none counts.
fn least_late(places: &[&Place<'_>], above: &str, below: &str) -> f64 {
    least(by_traffic(places).iter().filter_map(|there| late_over(there, above, below)))
}

/// Returns the least median quotient of a column over the kinds of traffic.
fn least_of(places: &[&Place<'_>], column: &str, above: &str, below: &str) -> f64 {
    let median = |there: &Vec<&Place<'_>>| {
        let quotients = there.iter().map(|place| place.of(above, column) / place.of(below, column)).collect();
        Statistic::of(quotients).map_or(f64::NAN, |statistic| statistic.median)
    };
    least(by_traffic(places).iter().map(median))
}

/// Figure 3(a).
pub(super) const BY_TOLERANCE: &[Figure] = &[
    Figure {
        claim: "everest-fig3a-fewest",
        of: |data| RIVALS.map(|rival| least_late(&underloaded(&places(data)), rival, EVEREST)).into(),
    },
    Figure {
        claim: "everest-fig3a-ae-second",
        of: |data| WITHOUT_AE.map(|rival| least_late(&underloaded(&places(data)), rival, AE)).into(),
    },
];

/// Returns the least median of a column over Everest's: first Everest-LD's, then those of the eager policies.
fn over_everest(data: &Table, column: &str) -> Vec<f64> {
    let places = places(data);
    let policies = core::iter::once(LATE).chain(EAGERLY);
    policies.map(|policy| least_of(&underloaded(&places), column, policy, EVEREST)).collect()
}

/// Figure 3(b).
pub(super) const QUEUES: &[Figure] =
    &[Figure { claim: "everest-fig3b-longer", of: |data| over_everest(data, "queue_p99") }];

/// Figure 3(c).
pub(super) const SWITCHES: &[Figure] =
    &[Figure { claim: "everest-fig3c-more", of: |data| over_everest(data, "switches") }];

/// Returns, for each number in a column, the least median of late packets of a policy over Everest's; the
/// result is the least of them.
fn least_by(data: &Table, column: &str, policy: &str) -> f64 {
    let places = places(data);
    let places = underloaded(&places);
    let at = |number| {
        let there: Vec<&Place<'_>> = places.iter().filter(|place| place.number(column) == number).copied().collect();
        least_late(&there, policy, EVEREST)
    };
    // If no place counts, the policies are not compared.
    let numbers = ascending(places.iter().map(|place| place.number(column)));
    least(numbers.into_iter().map(at).filter(|quotient| !quotient.is_nan()))
}

/// Figure 3(d).
pub(super) const CORES: &[Figure] = &[Figure {
    claim: "everest-fig3d-provisioning",
    of: |data| RIVALS.map(|rival| least_by(data, "cores", rival)).into(),
}];

/// Returns, for each D, the least median of late packets over all pairs of policies, at these ratios.
fn by_tolerance(data: &Table, is_counted: fn(f64) -> bool, pairs: &[(&str, &str)]) -> Vec<f64> {
    let places = places(data);
    let places: Vec<&Place<'_>> = underloaded(&places).into_iter().filter(|place| is_counted(place.ratio())).collect();
    let of = |tolerance: f64| {
        let is_of = |place: &&&Place<'_>| place.number("tolerance_us") == tolerance;
        let there: Vec<&Place<'_>> = places.iter().filter(is_of).copied().collect();
        least(pairs.iter().map(|&(above, below)| least_late(&there, above, below)))
    };
    ascending(places.iter().map(|place| place.number("tolerance_us"))).into_iter().map(of).collect()
}

/// Figures 4(a) and 4(b).
pub(super) const BY_RATIO: &[Figure] = &[
    Figure {
        claim: "everest-fig4-small",
        of: |data| {
            let pairs = EAGERLY.into_iter().flat_map(|eager| [(EVEREST, eager), (LATE, eager)]);
            by_tolerance(data, |ratio| ratio < CHEAP, &pairs.collect::<Vec<_>>())
        },
    },
    Figure {
        claim: "everest-fig4-ae",
        of: |data| by_tolerance(data, |ratio| ratio < CHEAP, &WITHOUT_AE.map(|rival| (rival, AE))),
    },
    Figure {
        claim: "everest-fig4-large",
        of: |data| by_tolerance(data, |ratio| ratio >= DEAR, &EAGERLY.map(|eager| (eager, EVEREST))),
    },
];

/// Figure 4(b).
pub(super) const ONE_OF_TWO: &[Figure] = &[Figure {
    claim: "everest-one-of-two-best",
    of: |data| {
        let pair = |place: &Place<'_>| {
            let fewest = |policies: &[&str]| least(policies.iter().map(|policy| place.late_packets(policy)));
            [fewest(&OTHERS), fewest(&[EVEREST, AE])]
        };
        vec![least(underloaded(&places(data)).into_iter().filter_map(|place| quotient(&[pair(place)])))]
    },
}];

/// Returns the least median of the mean delay over that of Everest at these ratios, of each eager policy.
fn delays(data: &Table, is_counted: fn(f64) -> bool) -> Vec<f64> {
    let places = places(data);
    let there: Vec<&Place<'_>> = underloaded(&places).into_iter().filter(|place| is_counted(place.ratio())).collect();
    EAGERLY.map(|eager| least_of(&there, "delay_mean_us", eager, EVEREST)).into()
}

/// Figure 5.
pub(super) const DELAY: &[Figure] = &[
    Figure { claim: "everest-fig5-large", of: |data| delays(data, |ratio| ratio >= DEAR) },
    Figure { claim: "everest-fig5-effective", of: |data| delays(data, |ratio| CHEAP < ratio && ratio < DEAR) },
];

/// Forecasts.
pub(super) const PROACTIVE: &[Figure] = &[
    Figure {
        claim: "everest-proactive-late",
        of: |data| {
            let places = places(data);
            vec![least(underloaded(&places).iter().filter_map(|&place| late_over(&[place], FORECAST, EVEREST)))]
        },
    },
    Figure {
        claim: "everest-proactive-switches",
        of: |data| {
            let quotient = |place: &Place<'_>| place.of(FORECAST, "switches") / place.of(EVEREST, "switches");
            vec![least(underloaded(&places(data)).into_iter().map(quotient))]
        },
    },
];

/// Packet times.
pub(super) const PACKET_TIMES: &[Figure] = &[Figure {
    claim: "everest-packet-times",
    of: |data| [COHORT_E, AE].map(|eager| least_by(data, "packet_times", eager)).into(),
}];

/// The traces of table 3.
pub(super) const TRACES: &[Figure] = &[Figure {
    claim: "everest-traces-same",
    of: |data| {
        let places = places(data);
        let all: Vec<&Place<'_>> = places.iter().collect();
        ON_TRACES.map(|eager| least_late(&all, eager, EVEREST)).into()
    },
}];

#[cfg(test)]
mod tests {
    use super::super::figures::{COLUMNS, row};
    use super::super::trial::{Point, Traffic, TrialFigures};
    use super::*;
    use crate::harness::claim;
    use humpyard_core::random::Seed;

    /// A place: the traffic, t_sw/D in thousandths for a D of 1 ms, and late packets of two policies.
    type Cell = (&'static str, u64, [u64; 2]);

    /// Returns places with these late packets of two policies among 1000 packets; all other policies have 500.
    fn table(policies: [&str; 2], cells: &[Cell]) -> Table {
        let cell = |&(profile, switch_us, late): &Cell| {
            let traffic = Traffic { profile, load: 0.5, packets: 1000, room: 1000, seed: Seed(1), scale: 1.0 };
            let point = Point { cores: 16, tolerance_us: 1000, switch_us, scale: 1.0 };
            let late = |policy: &str| policies.iter().position(|&known| known == policy).map_or(500, |at| late[at]);
            let all = RIVALS.into_iter().chain([EVEREST]);
            let came = |policy| TrialFigures {
                packets: 1000,
                late_percent: late(policy) as f64 / 10.0,
                ..TrialFigures::default()
            };
            all.map(|policy| row(&traffic, point, policy, 1, &came(policy))).collect::<Vec<_>>()
        };
        Table::of(COLUMNS, cells.iter().flat_map(cell))
    }

    fn figure(figures: &[Figure], claim: &str, data: &Table) -> Vec<f64> {
        (figures.iter().find(|figure| figure.claim == claim).unwrap().of)(data)
    }

    #[test]
    fn quotients_are_of_places_with_late_packets_of_both() {
        assert_eq!(quotient(&[[100.0, 50.0], [300.0, 50.0], [200.0, 50.0], [900.0, 19.0], [3.0, 60.0]]), Some(4.0));
        assert_eq!(quotient(&[[400.0, 19.0], [5.0, 0.0]]), Some(20.0), "no more than it is in truth");
        assert_eq!(quotient(&[[0.0, 40.0]]), Some(0.5), "no less than it is in truth");
        assert_eq!((quotient(&[[19.0, 0.0]]), quotient(&[])), (None, None));
    }

    #[test]
    fn the_least_median_is_that_of_the_worst_traffic() {
        let late = [("onoff", 1, [100, 50]), ("onoff", 2, [300, 50]), ("onoff", 3, [200, 50]), ("flow", 1, [90, 30])];
        let data = table([STATIC, EVEREST], &late);
        let found = figure(BY_TOLERANCE, "everest-fig3a-fewest", &data);
        assert_eq!(found, [10.0, 10.0, 10.0, 10.0, 10.0, 3.0]);
        assert!(!claim("everest-fig3a-fewest").holds(&found));
        assert!(claim("everest-fig3a-fewest").holds(&[10.0; 6]));
    }

    /// Ratios below 0.05 count as small, and those from 1 on as large.
    #[test]
    fn small_and_large_ratios_are_told_apart() {
        let data = table([AE, EVEREST], &[("onoff", 49, [100, 200]), ("onoff", 50, [1, 1]), ("onoff", 1000, [90, 30])]);
        let found = |claim| figure(BY_RATIO, claim, &data);
        assert_eq!(found("everest-fig4-small"), [0.4], "of 200 late packets over 500");
        assert_eq!(found("everest-fig4-ae"), [5.0]);
        assert_eq!(found("everest-fig4-large"), [3.0]);
    }

    /// One policy is worse with cheap switches, the other with expensive ones.
    #[test]
    fn one_of_two_is_best_if_no_other_is_better_at_any_place() {
        let found = |late: &[Cell]| figure(ONE_OF_TWO, "everest-one-of-two-best", &table([AE, EVEREST], late));
        assert_eq!(found(&[("onoff", 10, [100, 600]), ("onoff", 2000, [700, 250])]), [2.0]);
        assert_eq!(found(&[("onoff", 10, [600, 1000]), ("onoff", 2000, [700, 250])]), [500.0 / 600.0]);
    }

    #[test]
    fn the_least_number_is_none_if_one_is_none() {
        assert_eq!(least([3.0, 2.0, 4.0]), 2.0);
        assert!(least([]).is_nan() && least([f64::NAN, 1.0]).is_nan() && least([1.0, f64::NAN]).is_nan());
    }
}
