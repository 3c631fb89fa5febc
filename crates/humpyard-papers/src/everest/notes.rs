//! Observations from the data besides the paper's claims.

use super::claims::{LATE_LEAST as COUNT_LEAST, RIVALS, late_over, underloaded};
use super::paper::{AE, AE_WITHOUT_FORCE, COHORT_E, ENVELOPE, EVEREST, LITERAL, STATIC, WITHOUT_EXTRAS};
use super::places::{Place, by_traffic, places};
use super::trial::{is_real, mean_cores};
use crate::harness::{Note, Table, short};
use humpyard_plot::statistics::Statistic;

/// Lower limit of late packets in geometric means, in %.
const LATE_LEAST: f64 = 0.01;

/// Returns the median and the range.
fn statistic(values: impl Iterator<Item = f64>) -> Statistic {
    Statistic::of(values.collect()).expect("there is a place")
}

/// Formats the median and the range.
fn found(statistic: &Statistic) -> String {
    format!("median {}, {} to {}", short(statistic.median), short(statistic.min), short(statistic.max))
}

/// Notes at how many places a condition holds.
fn how_often(about: &str, said: &str, holds: impl Iterator<Item = bool>) -> Note {
    let holds: Vec<bool> = holds.collect();
    let count = holds.iter().filter(|&&holds| holds).count();
    Note::new(about, said, format!("at {count} of {}", holds.len()))
}

/// Returns the geometric mean; 1 without any number.
fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value.ln(), count + 1));
    (sum / f64::from(count.max(1))).exp()
}

/// Returns whether the data contain a policy.
fn has(places: &[Place<'_>], policy: &str) -> bool {
    places[0].rows.iter().any(|row| row.text("policy") == policy)
}

/// Returns the policies of a table whose late packets are compared with Everest's, including the paper's own
/// text of it.
fn rivals_in(places: &[Place<'_>]) -> Vec<&'static str> {
    RIVALS.into_iter().chain([LITERAL]).filter(|policy| has(places, policy)).collect()
}

/// Notes late packets by traffic, and the number of places with too few for a comparison.
pub(super) fn late(data: &Table) -> Vec<Note> {
    let places = places(data);
    let rivals = rivals_in(&places);
    let judged = underloaded(&places);
    let of_traffic = |there: &Vec<&Place<'_>>| {
        let quotient = |rival: &&str| {
            let quotient = late_over(there, rival, EVEREST).map_or_else(|| "too few to tell".to_owned(), short);
            format!("{rival} {quotient}")
        };
        Note::new(
            format!("{}: late packets over those of everest, median over its places and draws", there[0].name()),
            "orders of magnitude where t_sw/D is 1 or more; less than 1 where switches are cheap (paper)",
            rivals.iter().map(quotient).collect::<Vec<_>>().join(", "),
        )
    };
    let left_out = |rival: &&str| {
        let has_few = |place: &&&Place<'_>, policy: &str| place.late_packets(policy) < COUNT_LEAST;
        let few = judged.iter().filter(|place| has_few(place, EVEREST) || has_few(place, rival));
        let few_of_rival = few.clone().filter(|place| !has_few(place, EVEREST)).count();
        let few_of_everest = few.clone().filter(|place| !has_few(place, rival)).count();
        format!("{rival} {} ({few_of_everest} of everest, {few_of_rival} of it alone)", few.count())
    };
    let mut notes: Vec<Note> = by_traffic(&judged).iter().map(of_traffic).collect();
    notes.push(Note::new(
        format!("places that count for no median, of {}: one of the two has fewer than 20 late packets", judged.len()),
        "",
        rivals.iter().map(left_out).collect::<Vec<_>>().join(", "),
    ));
    notes
}

/// Notes which policy is better in figure 3(a), where the specification's prototype disagrees with the paper.
pub(super) fn by_tolerance(data: &Table) -> Vec<Note> {
    let mut notes = late(data);
    let places = places(data);
    let judged = underloaded(&places);
    notes.push(how_often(
        "D = t_sw = 2 ms: everest has no more late packets than static",
        "everywhere (paper); not where bursts exceed the machine (specification)",
        judged.iter().filter(|place| place.ratio() == 1.0).map(|place| place.late(EVEREST) <= place.late(STATIC)),
    ));
    for (policy, said) in [
        (AE, "everywhere (paper); not from t_sw/D of 0.5 on (specification)"),
        (AE_WITHOUT_FORCE, "everywhere (specification)"),
    ] {
        // A quick run does not have all policies.
        if !has(&places, policy) {
            continue;
        }
        notes.push(how_often(
            &format!("{policy} has no more late packets than cohort-e"),
            said,
            places.iter().map(|place| place.late(policy) <= place.late(COHORT_E)),
        ));
    }
    notes
}

/// Notes the rates and late packets of the traces of table 3.
pub(super) fn traces(data: &Table) -> Vec<Note> {
    let places = places(data);
    let mut notes = Vec::new();
    let all: Vec<&Place<'_>> = places.iter().collect();
    for there in by_traffic(&all) {
        let (trace, load) = (there[0].rows[0].text("traffic"), there[0].number("load"));
        let median = |value: &dyn Fn(&Place<'_>) -> f64| statistic(there.iter().map(|place| value(place))).median;
        let rate = median(&|place| place.number("packets") / place.number("duration_ms"));
        let late: Vec<String> = [STATIC, COHORT_E, AE, EVEREST, ENVELOPE]
            .iter()
            .map(|policy| format!("{policy} {} %", short(median(&|place| place.late(policy)))))
            .collect();
        let longest = there.iter().map(|place| place.number("packets")).fold(0.0, f64::max);
        notes.push(Note::new(
            format!("{trace}: packets/ms, late packets"),
            format!("{} cores busy in the mean (table 3, by the mix); an order of magnitude", short(mean_cores(load))),
            format!("{}; {}; the longest run has {longest} packets", short(rate), late.join(", ")),
        ));
    }
    notes
}

/// Notes the results of everest-env relative to the lower envelope.
pub(super) fn envelope(data: &Table) -> Vec<Note> {
    let places = places(data);
    let all: Vec<&Place<'_>> = places.iter().collect();
    let mut notes = vec![
        how_often(
            "everest-env has at most 1.25 times as many late packets as the better of everest and everest-ae, or 0.02 \
                % more",
            "at 95 % of places (specification)",
            all.iter().map(|place| place.is_within(place.envelope())),
        ),
        Note::new(
            "late packets of everest-env over the better of the two, geometric mean where either has more than 0.05 %",
            "at most 0.9 (specification)",
            short(late_over_envelope(&all, ENVELOPE)),
        ),
        Note::new(
            "its mean delay over the better of the two, likewise, where no packet is lost",
            "at most 0.9 (specification)",
            short(delay_over_envelope(&all)),
        ),
        how_often(
            "everest-env is within that of everest, everest-ae, everest without extra cores and everest-ae without \
                force, too",
            "at most places: 89 % within 1.1 (specification)",
            all.iter().map(|place| place.is_within(place.harder_envelope())),
        ),
        Note::new(
            "late packets of everest-env over the best of these four, likewise",
            "0.71 (specification)",
            short(geometric_mean(
                all.iter()
                    .filter(|place| place.tells_of_envelope())
                    .map(|place| floored(place.late(ENVELOPE)) / floored(place.harder_envelope())),
            )),
        ),
    ];
    for rules in ["everest-env:rules=le", "everest-env:rules=evs"] {
        notes.push(Note::new(
            format!("late packets of {rules} over the better of the two, likewise"),
            "0.83 and 0.79, more than with all rules (specification)",
            short(late_over_envelope(&all, rules)),
        ));
    }
    for there in by_traffic(&all) {
        notes.push(Note::new(
            format!("{}: everest-env and the better of the two", there[0].name()),
            "as above",
            against_envelope(&there),
        ));
    }
    if !places.iter().any(|place| is_real(place.rows[0].text("traffic"))) {
        notes.push(Note::new(
            "arrivals of a model with the connections of real captures",
            "as above",
            "LEFT OUT: there are no captures; HUMPYARD_TRACES names their directory",
        ));
    }
    notes
}

impl Place<'_> {
    /// Returns late packets, in %, of the better of everest and everest-ae.
    fn envelope(&self) -> f64 {
        self.late(EVEREST).min(self.late(AE))
    }

    /// Returns late packets, in %, of the best of four policies.
    fn harder_envelope(&self) -> f64 {
        self.envelope().min(self.late(WITHOUT_EXTRAS)).min(self.late(AE_WITHOUT_FORCE))
    }

    /// Returns whether everest-env has about as many late packets as the best, or fewer.
    fn is_within(&self, best: f64) -> bool {
        self.late(ENVELOPE) <= (1.25 * best).max(best + 0.02)
    }

    /// Returns whether one of the two has enough late packets for a comparison.
    fn tells_of_envelope(&self) -> bool {
        self.late(EVEREST).max(self.late(AE)) > 0.05
    }

    /// Returns whether a policy loses packets.
    fn loses(&self) -> bool {
        [EVEREST, AE, ENVELOPE].iter().any(|policy| self.of(policy, "lost") > 0.0)
    }
}

/// Raises a part to the lower limit.
fn floored(late: f64) -> f64 {
    late.max(LATE_LEAST)
}

/// Returns the geometric mean of a policy's late packets over those of the better of the two.
fn late_over_envelope(places: &[&Place<'_>], policy: &str) -> f64 {
    let telling = places.iter().filter(|place| place.tells_of_envelope());
    geometric_mean(telling.map(|place| floored(place.late(policy)) / floored(place.envelope())))
}

/// Returns the geometric mean of everest-env's mean delay over that of the better of the two.
fn delay_over_envelope(places: &[&Place<'_>]) -> f64 {
    let telling = places.iter().filter(|place| place.tells_of_envelope() && !place.loses());
    geometric_mean(telling.map(|place| place.delay_over(ENVELOPE, EVEREST).max(place.delay_over(ENVELOPE, AE))))
}

/// Describes the results of everest-env at these places, and its worst place.
fn against_envelope(places: &[&Place<'_>]) -> String {
    let within = places.iter().filter(|place| place.is_within(place.envelope())).count();
    let excess = |place: &Place<'_>| floored(place.late(ENVELOPE)) / floored(place.envelope());
    let worst = places.iter().filter(|place| !place.is_within(place.envelope()));
    let worst = worst.max_by(|a, b| excess(a).total_cmp(&excess(b))).map_or_else(String::new, |place| {
        format!(
            "; worst at t_sw/D = {}: {} % against {} %",
            short(place.ratio()),
            short(place.late(ENVELOPE)),
            short(place.envelope())
        )
    });
    format!(
        "within at {within} of {}, late packets {} times, delay {} times{worst}",
        places.len(),
        short(late_over_envelope(places, ENVELOPE)),
        short(delay_over_envelope(places))
    )
}

/// Notes the results of other windows.
pub(super) fn window(data: &Table) -> Vec<Note> {
    let places = places(data);
    let policies: Vec<&str> =
        places[0].rows.iter().map(|row| row.text("policy")).filter(|&policy| policy != EVEREST).collect();
    let note = |policy: &str| {
        let telling = places.iter().filter(|place| [policy, EVEREST].iter().any(|of| place.late(of) > LATE_LEAST));
        let ratios = telling.map(|place| floored(place.late(policy)) / floored(place.late(EVEREST)));
        Note::new(
            format!("late packets of {policy} over those with a window of t_sw"),
            "a longer window is worse where t_sw is short (specification)",
            Statistic::of(ratios.collect())
                .map_or_else(|| "neither has late packets anywhere".to_owned(), |ratios| found(&ratios)),
        )
    };
    policies.into_iter().map(note).collect()
}
