//! Theorem 1: multipliers that give each core its fraction of the connections, and their accuracy.

use humpyard_core::hash::{mix, salt, score, unit_score};
use humpyard_core::random::Seed;
use humpyard_policies::steer::theorem1::multipliers;

use super::paper::PAPER;
use crate::harness::{About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, TableRow, logarithmic, rows};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, Line, LinePlot, Svg};

pub(super) struct Theorem1;

/// Number of connections to measure shares. The smallest fraction is a thousandth: it has 1,600 of them in a
/// quick run.
const CONNECTIONS: (u64, u64) = (1_600_000, 4_000_000);

rows! {
    COLUMNS, fn row(case: &Case, core: usize, [multiplier, target, found]: [f64; 3]) {
        text about = case.about, text case = case.case, text form = case.form.name(), integer cores = case.cores,
        integer core = core, integer connections = case.connections, real multiplier = multiplier,
        real target = target, real found = found,
    }
}

/// The subjects of rows.
const SHARES: &str = "shares";
const ROUND_TRIP: &str = "round trip";
const DISRUPTION: &str = "disruption";
const QUEUES: &str = "over queues";

/// The form of a core's bid.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// A hash times the theorem's multiplier.
    Carp,
    /// -fraction / ln hash.
    Log,
}

const FORMS: [Form; 2] = [Form::Carp, Form::Log];

impl Form {
    const fn name(self) -> &'static str {
        match self {
            Self::Carp => "carp",
            Self::Log => "log",
        }
    }

    /// Returns the weights with which cores with these fractions bid.
    fn weights(self, fractions: &[f64]) -> Vec<f64> {
        match self {
            Self::Carp => multipliers(fractions),
            Self::Log => fractions.to_vec(),
        }
    }

    fn bid(self, weight: f64, hash: f64) -> f64 {
        match self {
            Self::Carp => weight * hash,
            Self::Log => -weight / hash.ln(),
        }
    }

    /// Returns the core of a connection, among those with a weight.
    fn winner(self, weights: &[f64], key: u64) -> usize {
        let bid = |core: usize| self.bid(weights[core], unit_score(score(key, salt(core as u64))));
        let mut best = (0, f64::NEG_INFINITY);
        for core in (0..weights.len()).filter(|&core| weights[core] > 0.0) {
            let bid = bid(core);
            if bid > best.1 {
                best = (core, bid);
            }
        }
        best.0
    }
}

/// The specification's fractions, and its multipliers for them.
const VECTORS: [(&str, &[f64], &[f64]); 3] = [
    ("0.1, 0.2, 0.3, 0.4", &[0.1, 0.2, 0.3, 0.4], &[0.795270729, 0.958357797, 1.086675600, 1.207417333]),
    (
        "0.05 twice, 0.1 and 0.2 three times",
        &[0.05, 0.05, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2],
        &[0.891779529, 0.891779529, 0.978957505, 0.978957505, 0.978957505, 1.102548816, 1.102548816, 1.102548816],
    ),
    ("0.001, 0.009, 0.09, 0.9", &[0.001, 0.009, 0.09, 0.9], &[0.251486686, 0.481076724, 1.253176174, 6.595664074]),
];
/// Of 8 cores, this many have their full capacity and the others this part of it; and the two multipliers.
const TWO_CLASSES: [(&str, usize, f64, f64, f64); 2] = [
    ("4 of 8 cores whole, 0.8 on the others", 4, 0.8, 0.985384972, 1.014831795),
    ("2 of 8 cores whole, 0.4 on the others", 2, 0.4, 0.960975162, 1.126843261),
];
/// Numbers of cores for the conversion of fractions to multipliers and back.
const CORES: [usize; 6] = [4, 16, 64, 256, 1024, 16_384];
/// Fractions before and after a change, as parts.
const CHANGES: [(&str, &[f64], &[f64]); 2] = [
    (
        "the largest of parts 1 to 8 goes",
        &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
        &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0],
    ),
    (
        "a core comes to two whole ones and six of 0.4",
        &[1.0, 1.0, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.0],
        &[1.0, 1.0, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 1.0],
    ),
];
/// Factors by which a queue reduces the hash of each core of the first vector.
const QUEUE_FACTORS: [f64; 4] = [1.0, 0.25, 1.0, 1.0];

/// Returns parts as fractions of their sum.
fn fractions(parts: &[f64]) -> Vec<f64> {
    let whole: f64 = parts.iter().sum();
    parts.iter().map(|part| part / whole).collect()
}

/// Returns the fraction that each core gets with these multipliers: equation 7 of the paper.
fn by_equation_7(multipliers: &[f64]) -> Vec<f64> {
    let mut cores: Vec<usize> = (0..multipliers.len()).collect();
    cores.sort_by(|&a, &b| multipliers[a].total_cmp(&multipliers[b]));
    let mut fractions = vec![0.0; multipliers.len()];
    let (mut sum, mut log_product, mut last) = (0.0, 0.0, f64::NEG_INFINITY);
    for (place, &core) in cores.iter().enumerate() {
        let left = (cores.len() - place) as f64;
        let log = multipliers[core].ln();
        // x^left - last^left, without cancellation if both are close.
        let difference = -(left * (last - log)).exp_m1() * (left * log + log_product).exp();
        sum += difference / left;
        log_product += log;
        last = log;
        fractions[core] = sum;
    }
    fractions
}

/// Returns fractions of several shapes for this many cores.
fn shapes(cores: usize, seed: Seed) -> [(&'static str, Vec<f64>); 4] {
    let mut random = seed.stream(&format!("ps-hrw/theorem1/{cores}"));
    let each = |part: &mut dyn FnMut(usize) -> f64| fractions(&(0..cores).map(part).collect::<Vec<_>>());
    [
        ("1 to N", each(&mut |core| (core + 1) as f64)),
        ("random", each(&mut |_| (1 + random.below(1000)) as f64)),
        ("a quarter has four times as much", each(&mut |core| if core % 4 == 0 { 4.0 } else { 1.0 })),
        ("one has as much as all others", each(&mut |core| if core == 0 { (cores - 1) as f64 } else { 1.0 })),
    ]
}

/// Returns the keys of the connections.
fn keys(scale: Scale, seed: Seed) -> impl Iterator<Item = u64> {
    let offset = mix(seed.0);
    (0..scale.of(CONNECTIONS)).map(move |number| mix(number ^ offset))
}

/// Returns the part of all connections that each core gets, and their number.
fn shares(form: Form, weights: &[f64], scale: Scale, seed: Seed) -> (Vec<f64>, u64) {
    let mut counts = vec![0u64; weights.len()];
    keys(scale, seed).for_each(|key| counts[form.winner(weights, key)] += 1);
    let all: u64 = counts.iter().sum();
    (counts.into_iter().map(|count| count as f64 / all as f64).collect(), all)
}

/// The subject of a row.
struct Case {
    about: &'static str,
    case: &'static str,
    form: Form,
    cores: usize,
    connections: u64,
}

impl Case {
    /// Returns a row for each core.
    fn rows(&self, weights: &[f64], targets: &[f64], found: &[f64]) -> Vec<Row> {
        (0..self.cores).map(|core| row(self, core, [weights[core], targets[core], found[core]])).collect()
    }
}

fn share_rows(scale: Scale, seed: Seed) -> Vec<Row> {
    let two_classes = TWO_CLASSES.map(|(case, whole, part, ..)| {
        (case, fractions(&(0..8).map(|core| if core < whole { 1.0 } else { part }).collect::<Vec<_>>()))
    });
    let vectors = VECTORS.map(|(case, fractions, _)| (case, fractions.to_vec()));
    let mut rows = Vec::new();
    for (case, fractions) in vectors.into_iter().chain(two_classes) {
        for form in FORMS {
            let weights = form.weights(&fractions);
            let (found, connections) = shares(form, &weights, scale, seed);
            let case = Case { about: SHARES, case, form, cores: weights.len(), connections };
            rows.extend(case.rows(&weights, &fractions, &found));
        }
    }
    rows
}

fn round_trip_rows(seed: Seed) -> Vec<Row> {
    let of = |cores: usize| {
        shapes(cores, seed).map(|(case, fractions)| {
            let errors = by_equation_7(&multipliers(&fractions)).into_iter().zip(&fractions);
            let worst = errors.map(|(found, target)| (found / target - 1.0).abs()).fold(0.0, f64::max);
            row(&Case { about: ROUND_TRIP, case, form: Form::Carp, cores, connections: 0 }, 0, [0.0, 0.0, worst])
        })
    };
    CORES.into_iter().flat_map(of).collect()
}

fn disruption_rows(scale: Scale, seed: Seed) -> Vec<Row> {
    let of = |(case, before, after): (&'static str, &[f64], &[f64])| {
        let (before, after) = (fractions(before), fractions(after));
        // A core with more connections afterwards must get them from others.
        let least = before.iter().zip(&after).map(|(before, after)| (after - before).max(0.0)).sum::<f64>();
        FORMS.map(|form| {
            let weights = [&before, &after].map(|fractions| form.weights(fractions));
            let (connections, moved) = keys(scale, seed).fold((0u64, 0u64), |(count, moved), key| {
                let [from, to] = [&weights[0], &weights[1]].map(|weights| form.winner(weights, key));
                (count + 1, moved + u64::from(from != to))
            });
            let case = Case { about: DISRUPTION, case, form, cores: before.len(), connections };
            row(&case, 0, [0.0, least, moved as f64 / connections as f64])
        })
    };
    CHANGES.into_iter().flat_map(of).collect()
}

fn queue_rows(scale: Scale, seed: Seed) -> Vec<Row> {
    let (case, parts, _) = VECTORS[0];
    let over_queues =
        |values: &[f64]| values.iter().zip(QUEUE_FACTORS).map(|(value, factor)| value * factor).collect::<Vec<_>>();
    let wanted = fractions(&over_queues(parts));
    let of = |form: Form| {
        let weights = over_queues(&form.weights(parts));
        let (found, connections) = shares(form, &weights, scale, seed);
        Case { about: QUEUES, case, form, cores: parts.len(), connections }.rows(&weights, &wanted, &found)
    };
    FORMS.into_iter().flat_map(of).collect()
}

impl Experiment for Theorem1 {
    fn about(&self) -> About {
        About {
            id: "ps-hrw-theorem1",
            figure: "theorem 1",
            title: "multipliers that give each core its fraction of the connections",
            description: "Of many connections, each on the core with the greatest hash times multiplier, every core \
                should have its fraction; equation 7 should give the fractions back. Beside it stands the logarithmic \
                form, -fraction / ln hash. How many connections move when fractions change is beside the least that \
                can; and what remains of the fractions where hashes are divided by queue lengths, as the paper's \
                scheduler does: there the theorem does not hold, for the hashes are not alike any more.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        4
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        Ok(match part {
            0 => share_rows(scale, seed),
            1 => round_trip_rows(seed),
            2 => disruption_rows(scale, seed),
            _ => queue_rows(scale, seed),
        })
    }

    fn version(&self) -> u32 {
        2
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let moved = |row: TableRow<'_>| {
            let about = format!("{}: connections that move, {}", row.text("case"), row.text("form"));
            let least = format!("{:.4} is the least", row.number("target"));
            Note::new(about, least, format!("{:.4}", row.number("found")))
        };
        data.rows_of("about", DISRUPTION).map(moved).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        vec![("shares".to_owned(), shares_plot(data)), ("round-trip".to_owned(), round_trip_plot(data))]
    }
}

fn of_form<'a>(data: &'a Table, about: &'a str, form: Form) -> impl Iterator<Item = TableRow<'a>> + Clone {
    data.rows_of("about", about).of("form", form.name())
}

/// Returns the share of the core that is furthest from its fraction, relative to that fraction.
fn furthest(data: &Table, about: &str) -> Vec<f64> {
    let ratios = of_form(data, about, Form::Carp).map(|row| row.number("found") / row.number("target"));
    ratios.max_by(|one, other| (one - 1.0).abs().total_cmp(&(other - 1.0).abs())).into_iter().collect()
}

static FIGURES: [Figure; 2] = [
    Figure { claim: "ps-hrw-theorem1", of: |data| furthest(data, SHARES) },
    Figure { claim: "ps-hrw-theorem1-over-queues", of: |data| furthest(data, QUEUES) },
];

fn shares_plot(data: &Table) -> Svg {
    let line = |about: &'static str, form: Form| {
        let mut points: Vec<_> =
            of_form(data, about, form).map(|row| (row.number("target"), row.number("found"))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let over = if about == QUEUES { ", over queues" } else { "" };
        Line { name: format!("{}{over}", form.name()), points: points.into_iter().map(Into::into).collect() }
    };
    let part = |number: f64| format!("{number:.3}");
    LinePlot {
        title: "share of the connections over the fraction".to_owned(),
        description: "Each core of each case: what it should have, and what it has.".to_owned(),
        x: Axis::logarithmic("fraction", part),
        y: Axis::logarithmic("share", part),
        lines: [SHARES, QUEUES].into_iter().flat_map(|about| FORMS.map(|form| line(about, form))).collect(),
    }
    .svg()
}

fn round_trip_plot(data: &Table) -> Svg {
    let cases = shapes(CORES[0], Seed(1)).map(|(case, _)| case);
    let of_case = |case: &'static str| data.rows_of("about", ROUND_TRIP).of("case", case).line(case, "cores", "found");
    LinePlot {
        title: "fractions given back by equation 7".to_owned(),
        description: "The worst relative error, over the number of cores.".to_owned(),
        x: logarithmic("cores"),
        y: Axis::logarithmic("relative error", |error| format!("{error:.0e}")),
        lines: cases.map(of_case).into(),
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use humpyard_policies::steer::theorem1::two_classes;

    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    /// Greatest distance of a share from its target, in standard deviations for that many connections: one in
    /// 15,000 exceeds it.
    const DEVIATIONS: f64 = 4.0;
    /// The specification's results of multipliers with queues.
    const OVER_QUEUES: [f64; 4] = [0.1596, 0.0033, 0.3686, 0.4686];

    /// Panics unless these are the multipliers of the fractions, and their product is 1.
    fn assert_multipliers(fractions: &[f64], expected: &[f64]) {
        let found = multipliers(fractions);
        let error = found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f64::max);
        assert!(found.len() == expected.len() && error <= 1e-9, "{found:?}");
        assert!((found.iter().product::<f64>() - 1.0).abs() <= 1e-12, "{found:?}");
    }

    #[test]
    fn multipliers_are_those_of_the_specification() {
        for (_, fractions, expected) in VECTORS {
            assert_multipliers(fractions, expected);
        }
        for (_, whole, part, low, high) in TWO_CLASSES {
            let closed = two_classes(8, whole, part);
            assert!(
                (closed.0 - low).abs() < 1e-9 && (closed.1 - high).abs() < 1e-9,
                "the closed form is the recursion"
            );
            let parts: Vec<f64> = (0..8).map(|core| if core < whole { 1.0 } else { part }).collect();
            let expected: Vec<f64> = (0..8).map(|core| if core < whole { high } else { low }).collect();
            assert_multipliers(&fractions(&parts), &expected);
        }
    }

    /// Returns how far shares are from their targets, at most, in standard deviations.
    fn deviations<'a>(rows: impl Iterator<Item = TableRow<'a>>) -> f64 {
        let of_row = |row: TableRow<'_>| {
            let (target, connections) = (row.number("target"), row.number("connections"));
            (row.number("found") - target).abs() / (target * (1.0 - target) / connections).sqrt()
        };
        rows.map(of_row).fold(0.0, f64::max)
    }

    #[test]
    fn every_core_has_its_share() {
        let data = quick(&Theorem1);
        assert_expected(&Theorem1, &data);
        assert_eq!(Theorem1.plots(&data).len(), 2);
        for form in FORMS {
            assert!(deviations(of_form(&data, SHARES, form)) <= DEVIATIONS, "{form:?}");
        }
        assert!(deviations(of_form(&data, QUEUES, Form::Log)) <= DEVIATIONS, "logarithms stand queues");
        let over_queues = of_form(&data, QUEUES, Form::Carp).map(|row| row.number("found"));
        assert!(over_queues.zip(OVER_QUEUES).all(|(found, expected)| (found - expected).abs() < 4e-3));
        let few = data.rows_of("about", ROUND_TRIP).filter(|row| row.number("cores") <= 1024.0);
        assert!(few.most("found") <= 1e-12, "equation 7 gives the fractions back");
        for row in data.rows_of("about", DISRUPTION).of("form", Form::Log.name()) {
            let (least, found) = (row.number("target"), row.number("found"));
            let deviations = (found - least) / (least * (1.0 - least) / row.number("connections")).sqrt();
            assert!(deviations.abs() <= DEVIATIONS, "logarithms move no more than must be: {deviations}");
        }
    }
}
