//! What the data say of the paper's claims.

use super::paper::{AE, AE_WITHOUT_FORCE, COHORT_E, EAGER, ENVELOPE, EVEREST, LATE, LITERAL, STATIC, WITHOUT_EXTRAS};
use super::trial::{is_real, mean_cores};
use crate::harness::{Bound, Table, TableRow, Verdict, ascending, short};
use humpyard_plot::statistics::Statistic;

/// A part of late packets, in %, for which less is taken.
const LATE_LEAST: f64 = 0.01;
/// Said where no place tells anything.
const NOWHERE: &str = "neither has late packets anywhere";
/// Loads up to which claims are of a machine that is not overloaded.
const UNDERLOAD: f64 = 0.65;

/// The eager policies on the traces.
const TRACES_EAGER: [&str; 3] = [EAGER[0], COHORT_E, AE];

/// Every policy on the same packets at one point.
struct Place<'a> {
    rows: Vec<TableRow<'a>>,
}

/// What tells places from each other.
const PLACE: [&str; 6] = ["load", "packet_times", "cores", "tolerance_us", "switch_us", "draw"];

fn same_place(a: &TableRow<'_>, b: &TableRow<'_>) -> bool {
    a.text("traffic") == b.text("traffic") && PLACE.iter().all(|column| a.number(column) == b.number(column))
}

fn places(data: &Table) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    for row in data.rows() {
        match places.last_mut().filter(|place| same_place(&place.rows[0], &row)) {
            Some(place) => place.rows.push(row),
            None => places.push(Place { rows: vec![row] }),
        }
    }
    places
}

/// The traffic of a table: generators and loads.
pub(super) fn traffic_of(data: &Table) -> Vec<(String, f64)> {
    traffic_in(data.rows())
}

/// Lists the traffic of these rows, each once.
fn traffic_in<'a>(rows: impl Iterator<Item = TableRow<'a>>) -> Vec<(String, f64)> {
    let mut traffic: Vec<(String, f64)> = Vec::new();
    for row in rows {
        let one = (row.text("traffic").to_owned(), row.number("load"));
        if !traffic.contains(&one) {
            traffic.push(one);
        }
    }
    traffic
}

/// Finds the places of this traffic.
fn of_traffic<'a, 'b>(places: &'b [Place<'a>], profile: &str, load: f64) -> Vec<&'b Place<'a>> {
    let is_of = |place: &&Place<'_>| place.rows[0].text("traffic") == profile && place.number("load") == load;
    places.iter().filter(is_of).collect()
}

impl Place<'_> {
    fn number(&self, column: &str) -> f64 {
        self.rows[0].number(column)
    }

    fn ratio(&self) -> f64 {
        self.number("switch_us") / self.number("tolerance_us")
    }

    fn of(&self, policy: &str, column: &str) -> f64 {
        let row = self.rows.iter().find(|row| row.text("policy") == policy);
        row.unwrap_or_else(|| panic!("`{policy}` is everywhere")).number(column)
    }

    fn late(&self, policy: &str) -> f64 {
        self.of(policy, "late_percent")
    }

    /// Whether one of these policies has more late packets than are taken for none.
    fn tells(&self, policies: &[&str]) -> bool {
        policies.iter().any(|policy| self.late(policy) > LATE_LEAST)
    }

    /// Late packets of one policy over those of another.
    fn late_over(&self, policy: &str, other: &str) -> f64 {
        self.late(policy).max(LATE_LEAST) / self.late(other).max(LATE_LEAST)
    }

    /// Returns whether everest switches less than a tenth as often as this policy.
    fn switches_less(&self, eager: &str) -> bool {
        self.of(EVEREST, "switches") < self.of(eager, "switches") / 10.0
    }

    fn delay_over(&self, policy: &str, other: &str) -> f64 {
        self.of(policy, "delay_mean_us") / self.of(other, "delay_mean_us")
    }
}

fn statistic(values: impl Iterator<Item = f64>) -> Statistic {
    Statistic::of(values.collect()).expect("there is a place")
}

/// The ratios of late packets of two policies where either has some.
fn late_ratios(places: &[Place<'_>], policy: &str, other: &str) -> Option<Statistic> {
    let telling = places.iter().filter(|place| place.tells(&[policy, other]));
    Statistic::of(telling.map(|place| place.late_over(policy, other)).collect())
}

fn found(statistic: &Statistic) -> String {
    format!("median {}, {} to {}", short(statistic.median), short(statistic.min), short(statistic.max))
}

/// That numbers have at least this median and this minimum.
fn at_least(claim: String, (median, min): (f64, f64), values: impl Iterator<Item = f64>) -> Verdict {
    let statistic = statistic(values);
    let expected = format!("median at least {}, none below {}", short(median), short(min));
    Verdict::of(claim, expected, found(&statistic), statistic.median >= median && statistic.min >= min)
}

/// At how many places something is so; it is said, and nothing hangs on it.
fn how_often(claim: &str, said: &str, holds: impl Iterator<Item = bool>) -> Verdict {
    let holds: Vec<bool> = holds.collect();
    let count = holds.iter().filter(|&&holds| holds).count();
    Verdict::measured(claim, said, format!("at {count} of {}", holds.len()))
}

/// At how many places something is so, of which it must be so at this part.
fn in_most(claim: &str, part: f64, holds: impl Iterator<Item = bool>) -> Verdict {
    let holds: Vec<bool> = holds.collect();
    let count = holds.iter().filter(|&&holds| holds).count();
    let expected = if part < 1.0 { format!("at {} % of places", short(100.0 * part)) } else { "everywhere".to_owned() };
    let is_so = count as f64 >= part * holds.len() as f64;
    Verdict::of(claim, expected, format!("at {count} of {}", holds.len()), is_so)
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value.ln(), count + 1));
    (sum / f64::from(count.max(1))).exp()
}

/// Makes a claim about each eager policy.
fn of_each_eager(claim: impl Fn(&str) -> Verdict) -> Vec<Verdict> {
    EAGER.iter().map(|eager| claim(eager)).collect()
}

/// Returns whether D is 2 ms and the machine is not overloaded.
fn is_at_two(place: &&Place<'_>) -> bool {
    place.number("tolerance_us") == 2_000.0 && place.number("load") <= UNDERLOAD
}

/// Figure 3(a).
pub(super) fn late_by_tolerance(data: &Table) -> Vec<Verdict> {
    let places = places(data);
    let at_two = || places.iter().filter(is_at_two);
    let mut verdicts = of_each_eager(|eager| {
        let claim = format!("D = t_sw = 2 ms: late packets of {eager} over everest");
        at_least(claim, (10.0, 2.0), at_two().map(|place| place.late_over(eager, EVEREST)))
    });
    let claim = "D = t_sw = 2 ms: late packets of everest-ld over everest, where either has some";
    let telling = at_two().filter(|place| place.tells(&[LATE, EVEREST])).map(|place| place.late_over(LATE, EVEREST));
    let telling: Vec<f64> = telling.collect();
    verdicts.push(if telling.is_empty() {
        Verdict::measured(claim, "median at least 1.3", NOWHERE)
    } else {
        at_least(claim.to_owned(), (1.3, 0.0), telling.into_iter())
    });
    for eager in EAGER {
        let ratios = statistic(at_two().map(|place| place.late_over(eager, LITERAL)));
        verdicts.push(Verdict::measured(
            format!("D = t_sw = 2 ms: late packets of {eager} over {LITERAL}"),
            "orders of magnitude (paper)",
            found(&ratios),
        ));
    }
    verdicts.push(how_often(
        "D = t_sw = 2 ms: everest has no more late packets than static",
        "everywhere (paper); not where bursts exceed the machine (specification)",
        at_two().map(|place| place.late(EVEREST) <= place.late(STATIC)),
    ));
    verdicts.push(how_often(
        "everest-ae has no more late packets than cohort-e",
        "everywhere (paper); not from t_sw/D of 0.5 on (specification)",
        places.iter().map(|place| place.late(AE) <= place.late(COHORT_E)),
    ));
    verdicts.push(how_often(
        "everest-ae without force has no more late packets than cohort-e",
        "everywhere (specification)",
        places.iter().map(|place| place.late(AE_WITHOUT_FORCE) <= place.late(COHORT_E)),
    ));
    verdicts
}

/// The traces of table 3.
pub(super) fn traces(data: &Table) -> Vec<Verdict> {
    let places = places(data);
    // The bursts of `flowb` exceed a machine that has fewer cores.
    let is_judged = |place: &&Place<'_>| {
        let provisioned = place.number("cores") >= 1.7 * mean_cores(place.number("load"));
        provisioned || !place.rows[0].text("traffic").ends_with("flowb")
    };
    let mut verdicts: Vec<Verdict> = Vec::new();
    for eager in TRACES_EAGER {
        let claim =
            format!("late packets of {eager} over everest, but for flowb on fewer than 1.7 times the busy cores");
        let judged = || places.iter().filter(is_judged);
        verdicts.push(at_least(claim, (10.0, 2.0), judged().map(|place| place.late_over(eager, EVEREST))));
        let claim = format!("switches of everest are less than a tenth of those of {eager}, likewise");
        verdicts.push(in_most(&claim, 1.0, judged().map(|place| place.switches_less(eager))));
        let others = places.iter().filter(|place| !is_judged(place)).map(|place| place.late_over(eager, EVEREST));
        if let Some(ratios) = Statistic::of(others.collect()) {
            let claim = format!("late packets of {eager} over everest, of flowb on fewer cores");
            verdicts.push(Verdict::measured(claim, "orders of magnitude (paper)", found(&ratios)));
        }
    }
    let claim = "late packets of everest-ld over everest, where either has some";
    verdicts.push(match late_ratios(&places, LATE, EVEREST) {
        Some(ratios) => Verdict::of(claim, "median at least 1.3", found(&ratios), ratios.median >= 1.3),
        None => Verdict::measured(claim, "median at least 1.3", NOWHERE),
    });
    verdicts.push(how_often(
        "everest has no more late packets than static",
        "everywhere (paper); not where bursts exceed the machine (specification)",
        places.iter().map(|place| place.late(EVEREST) <= place.late(STATIC)),
    ));
    for (trace, load) in traffic_of(data) {
        let there: Vec<&Place<'_>> = places.iter().filter(|place| place.rows[0].text("traffic") == trace).collect();
        let median = |value: &dyn Fn(&Place<'_>) -> f64| statistic(there.iter().map(|place| value(place))).median;
        let rate = median(&|place| place.number("packets") / place.number("duration_ms"));
        let late: Vec<String> = [STATIC, COHORT_E, AE, EVEREST, ENVELOPE]
            .iter()
            .map(|policy| format!("{policy} {} %", short(median(&|place| place.late(policy)))))
            .collect();
        let longest = there.iter().map(|place| place.number("packets")).fold(0.0, f64::max);
        verdicts.push(Verdict::measured(
            format!("{trace}: packets/ms, late packets"),
            format!("{} cores busy in the mean (table 3, by the mix); an order of magnitude", short(mean_cores(load))),
            format!("{}; {}; the longest run has {longest} packets", short(rate), late.join(", ")),
        ));
    }
    verdicts
}

/// Figure 3(b).
pub(super) fn queues(data: &Table) -> Vec<Verdict> {
    let places = places(data);
    let low = || places.iter().filter(|place| place.number("load") <= 0.55);
    let mut verdicts = of_each_eager(|eager| {
        let claim = format!("queues of everest are no longer than those of {eager}: 99th percentile, within 10 %");
        let holds = |place: &Place<'_>| place.of(EVEREST, "queue_p99") <= 1.1 * place.of(eager, "queue_p99");
        in_most(&claim, 1.0, low().map(holds))
    });
    verdicts.push(in_most(
        "queues of everest-ld are longer than those of everest",
        0.5,
        low().map(|place| place.of(LATE, "queue_p99") >= place.of(EVEREST, "queue_p99")),
    ));
    verdicts
}

/// Figure 3(c).
pub(super) fn switches(data: &Table) -> Vec<Verdict> {
    let places = places(data);
    let at_two = || places.iter().filter(is_at_two);
    let mut verdicts = of_each_eager(|eager| {
        let claim = format!("D = t_sw = 2 ms: switches of everest are less than a tenth of those of {eager}");
        in_most(&claim, 1.0, at_two().map(|place| place.switches_less(eager)))
    });
    verdicts.push(how_often(
        "everest-ld switches more than everest",
        "everywhere (paper); either way (specification)",
        places.iter().map(|place| place.of(LATE, "switches") > place.of(EVEREST, "switches")),
    ));
    verdicts
}

/// Figure 3(d).
pub(super) fn cores(data: &Table) -> Vec<Verdict> {
    let places = places(data);
    let provisioned = |place: &&Place<'_>| place.number("cores") >= 1.7 * mean_cores(place.number("load"));
    let claim = |eager| {
        format!("everest has no more late packets than {eager}, with 1.7 times the cores that are busy in the mean")
    };
    let holds = |place: &Place<'_>, eager| place.late(EVEREST) <= place.late(eager).max(LATE_LEAST);
    let enough = EAGER
        .iter()
        .map(|eager| in_most(&claim(eager), 1.0, places.iter().filter(provisioned).map(|place| holds(place, eager))));
    let tight = EAGER.iter().map(|eager| {
        let few = places.iter().filter(|place| !provisioned(place));
        how_often(
            &format!("everest has no more late packets than {eager}, with fewer cores"),
            "everywhere (paper); not where services with few packets need a core each (specification)",
            few.map(|place| holds(place, eager)),
        )
    });
    enough.chain(tight).collect()
}

/// Figures 4(a) and 4(b).
pub(super) fn late_by_ratio(data: &Table) -> Vec<Verdict> {
    let places = places(data);
    let under = || places.iter().filter(|place| place.number("load") <= UNDERLOAD);
    let better =
        |place: &Place<'_>| place.late(AE) < place.late(EVEREST) || place.late(AE).max(place.late(EVEREST)) == 0.0;
    vec![
        in_most(
            "t_sw/D up to 0.02: everest-ae has fewer late packets than everest, or neither has any",
            1.0,
            places.iter().filter(|place| place.ratio() <= 0.02).map(better),
        ),
        in_most(
            "t_sw/D from 1 on: everest has at most half as many late packets as everest-ae",
            1.0,
            under().filter(|place| place.ratio() >= 1.0).map(|place| place.late_over(AE, EVEREST) >= 2.0),
        ),
        crossover(&places),
        how_often(
            "one of everest and everest-ae has fewest late packets of all but everest-env",
            "everywhere (paper); not from 0.05 to 0.2 (specification)",
            places.iter().map(|place| {
                let best = place.late(EVEREST).min(place.late(AE));
                place.rows.iter().all(|row| row.text("policy") == ENVELOPE || row.number("late_percent") >= best)
            }),
        ),
    ]
}

/// The ratios between which everest-ae is no longer better: on the medians over draws, for each traffic.
fn crossover(places: &[Place<'_>]) -> Verdict {
    const CLAIMED: (f64, f64) = (0.05, 0.5);
    let found: Vec<(String, f64, f64)> = traffic_in(places.iter().map(|place| place.rows[0]))
        .into_iter()
        .map(|(profile, load)| {
            let (last, next) = crossing(&of_traffic(places, &profile, load));
            (format!("{profile} {}", short(load)), last, next)
        })
        .collect();
    let measured: Vec<String> = found
        .iter()
        .map(|(traffic, last, next)| format!("{traffic}: between {} and {}", short(*last), short(*next)))
        .collect();
    let (claim, expected) = ("everest-ae has no more late packets than everest up to a ratio", "of 0.05 to 0.5");
    let is_inside = |&(_, last, next): &(String, f64, f64)| last >= CLAIMED.0 && next <= CLAIMED.1;
    let is_outside = |&(_, last, next): &(String, f64, f64)| next < CLAIMED.0 || last > CLAIMED.1;
    // Ratios that are too far apart do not tell.
    if found.iter().all(is_inside) || found.iter().any(is_outside) {
        Verdict::of(claim, expected, measured.join("; "), found.iter().all(is_inside))
    } else {
        Verdict::measured(claim, expected, format!("{}: not all inside", measured.join("; ")))
    }
}

/// The last ratio at which everest-ae has no more late packets than everest, and the next.
fn crossing(places: &[&Place<'_>]) -> (f64, f64) {
    let ratios = ascending(places.iter().map(|place| place.ratio()));
    let is_better = |&ratio: &f64| {
        let there = places.iter().filter(|place| place.ratio() == ratio);
        statistic(there.map(|place| place.late(AE) - place.late(EVEREST))).median <= 0.0
    };
    let last = ratios.iter().copied().filter(is_better).fold(0.0, f64::max);
    let next = ratios.iter().copied().find(|&ratio| ratio > last).unwrap_or(f64::INFINITY);
    (last, next)
}

/// Figure 5.
pub(super) fn delay(data: &Table) -> Vec<Verdict> {
    let places = places(data);
    let dear = || places.iter().filter(|place| place.ratio() >= 1.0 && place.number("load") <= UNDERLOAD);
    let mut verdicts = of_each_eager(|eager| {
        let claim = format!("t_sw/D from 1 on: mean delay of {eager} over everest");
        at_least(claim, (5.0, 2.0), dear().map(|place| place.delay_over(eager, EVEREST)))
    });
    verdicts.push(in_most(
        "t_sw/D below 0.05: the mean delay of everest-ae is less than that of everest",
        1.0,
        places.iter().filter(|place| place.ratio() < 0.05).map(|place| place.delay_over(AE, EVEREST) < 1.0),
    ));
    let flat = |(profile, load): &(String, f64)| {
        let cheap = of_traffic(&places, profile, *load).into_iter().filter(|place| place.ratio() <= 0.2);
        let delays = statistic(cheap.map(|place| place.of(EVEREST, "delay_mean_us")));
        delays.max / delays.min
    };
    let most = traffic_of(data).iter().map(flat).fold(0.0, f64::max);
    let claim = "mean delay of everest up to t_sw/D of 0.2: its greatest over its least, over all draws";
    verdicts.push(Verdict::of(claim, "less than 2 (specification)", short(most), most < 2.0).on_this_machine());
    verdicts
}

/// The lower envelope.
pub(super) fn envelope(data: &Table) -> Vec<Verdict> {
    let places = places(data);
    let all: Vec<&Place<'_>> = places.iter().collect();
    let of = |kind: fn(&str) -> bool| -> Vec<&Place<'_>> {
        places.iter().filter(|place| kind(place.rows[0].text("traffic"))).collect()
    };
    let mut verdicts = vec![
        in_most(
            "everest-env has at most 1.25 times as many late packets as the better of everest and everest-ae, or 0.02 \
                % more",
            0.95,
            all.iter().map(|place| place.is_within(place.envelope())),
        ),
        Verdict::bounded(
            "late packets of everest-env over the better of the two, geometric mean where either has more than 0.05 %",
            Bound::AtMost(0.9),
            late_over_envelope(&all, ENVELOPE),
        ),
        Verdict::bounded(
            "its mean delay over the better of the two, likewise, where no packet is lost",
            Bound::AtMost(0.9),
            delay_over_envelope(&all),
        ),
        how_often(
            "everest-env is within that of everest, everest-ae, everest without extra cores and everest-ae without \
                force, too",
            "at most places: 89 % within 1.1 (specification)",
            all.iter().map(|place| place.is_within(place.harder_envelope())),
        ),
        Verdict::measured(
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
        verdicts.push(Verdict::measured(
            format!("late packets of {rules} over the better of the two, likewise"),
            "0.83 and 0.79, more than with all rules (specification)",
            short(late_over_envelope(&all, rules)),
        ));
    }
    for (profile, load) in traffic_of(data) {
        let there = of_traffic(&places, &profile, load);
        verdicts.push(Verdict::measured(
            format!("{profile} at {}: everest-env and the better of the two", short(load)),
            "as above",
            against_envelope(&there),
        ));
    }
    if of(is_real).is_empty() {
        verdicts.push(Verdict::measured(
            "arrivals of a model with the connections of real captures",
            "as above",
            "LEFT OUT: there are no captures; HUMPYARD_TRACES names their directory",
        ));
    }
    verdicts
}

impl Place<'_> {
    /// Late packets, in %, of the better of everest and everest-ae.
    fn envelope(&self) -> f64 {
        self.late(EVEREST).min(self.late(AE))
    }

    fn harder_envelope(&self) -> f64 {
        self.envelope().min(self.late(WITHOUT_EXTRAS)).min(self.late(AE_WITHOUT_FORCE))
    }

    /// Whether everest-env has about as many late packets, or fewer.
    fn is_within(&self, best: f64) -> bool {
        self.late(ENVELOPE) <= (1.25 * best).max(best + 0.02)
    }

    fn tells_of_envelope(&self) -> bool {
        self.late(EVEREST).max(self.late(AE)) > 0.05
    }

    fn loses(&self) -> bool {
        [EVEREST, AE, ENVELOPE].iter().any(|policy| self.of(policy, "lost") > 0.0)
    }
}

fn floored(late: f64) -> f64 {
    late.max(LATE_LEAST)
}

fn late_over_envelope(places: &[&Place<'_>], policy: &str) -> f64 {
    let telling = places.iter().filter(|place| place.tells_of_envelope());
    geometric_mean(telling.map(|place| floored(place.late(policy)) / floored(place.envelope())))
}

fn delay_over_envelope(places: &[&Place<'_>]) -> f64 {
    let telling = places.iter().filter(|place| place.tells_of_envelope() && !place.loses());
    geometric_mean(telling.map(|place| place.delay_over(ENVELOPE, EVEREST).max(place.delay_over(ENVELOPE, AE))))
}

/// How everest-env does at these places, and where it does worst.
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

/// Windows.
pub(super) fn window(data: &Table) -> Vec<Verdict> {
    let places = places(data);
    let policies: Vec<&str> =
        places[0].rows.iter().map(|row| row.text("policy")).filter(|&policy| policy != EVEREST).collect();
    let verdict = |policy: &str| {
        let ratios = late_ratios(&places, policy, EVEREST);
        Verdict::measured(
            format!("late packets of {policy} over those with a window of t_sw"),
            "a longer window is worse where t_sw is short (specification)",
            ratios.map_or_else(|| NOWHERE.to_owned(), |ratios| found(&ratios)),
        )
    };
    policies.into_iter().map(verdict).collect()
}

/// Forecasts.
pub(super) fn proactive(data: &Table) -> Vec<Verdict> {
    let places = places(data);
    let policy = "everest:proactive=ewma";
    let said =
        |ratios: Statistic| format!("{}: {}", found(&ratios), if ratios.median >= 1.0 { "inside" } else { "outside" });
    let late = late_ratios(&places, policy, EVEREST).map_or_else(|| NOWHERE.to_owned(), said);
    let switches = places.iter().map(|place| place.of(policy, "switches") / place.of(EVEREST, "switches").max(1.0));
    vec![
        Verdict::measured(
            "late packets with a forecast over those without, where either has some",
            "more than 1: it only makes more packets late (paper)",
            late,
        ),
        Verdict::measured(
            "switches with a forecast over those without",
            "more than 1: reallocations that are not needed (paper)",
            found(&statistic(switches)),
        ),
    ]
}

/// Packet times.
pub(super) fn packet_times(data: &Table) -> Vec<Verdict> {
    let places = places(data);
    let times = ascending(places.iter().map(|place| place.number("packet_times")));
    let verdict = |&times: &f64, eager: &str| {
        let there = places.iter().filter(|place| place.number("packet_times") == times);
        let ratios = statistic(there.map(|place| place.late_over(eager, EVEREST)));
        Verdict::of(
            format!("packets that take {} times as long: late packets of {eager} over everest", short(times)),
            "more than 1: results hold for widely varying packet times (paper)",
            found(&ratios),
            ratios.median > 1.0,
        )
        .on_this_machine()
    };
    times.iter().flat_map(|times| [verdict(times, COHORT_E), verdict(times, AE)]).collect()
}
