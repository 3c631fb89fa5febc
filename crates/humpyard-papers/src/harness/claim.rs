//! The claims of the papers, and the only code that judges them.

use std::sync::LazyLock;

use serde::Deserialize;

use super::statistics::{Range, listed, short};

/// The greatest distance of a number from the paper's, relative to the paper's, where the paper gives none.
const TOLERANCE: f64 = 0.1;
/// The factor of an order of magnitude, also for "orders".
const MAGNITUDE: f64 = 10.0;

/// The condition that the paper sets on a figure of merit. If there are several numbers, each must meet it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Demand {
    /// A range for each number, or one for all.
    Number(Vec<Range>),
    /// At least the bound; above it, if strict.
    AtLeast { bound: f64, strict: bool },
    /// At most the bound; below it, if strict.
    AtMost { bound: f64, strict: bool },
    /// A quotient above 1.
    Ranking,
    /// A difference or a rank correlation above 0.
    Grows,
    /// A difference or a rank correlation below 0.
    Falls,
    /// Exactly these numbers.
    Sequence(Vec<f64>),
}

impl Demand {
    /// Returns whether these numbers meet the demand. An empty list does not, and neither does NaN.
    fn is_met(&self, found: &[f64]) -> bool {
        let all = |meets: &dyn Fn(f64) -> bool| !found.is_empty() && found.iter().copied().all(meets);
        match self {
            Self::Number(ranges) => match ranges.as_slice() {
                [range] => all(&|number| range.has(number)),
                several => {
                    found.len() == several.len() && several.iter().zip(found).all(|(range, &number)| range.has(number))
                }
            },
            Self::AtLeast { bound, strict } => all(&|number| number > *bound || !strict && number == *bound),
            Self::AtMost { bound, strict } => all(&|number| number < *bound || !strict && number == *bound),
            Self::Ranking => all(&|number| number > 1.0),
            Self::Grows => all(&|number| number > 0.0),
            Self::Falls => all(&|number| number < 0.0),
            Self::Sequence(expected) => !found.is_empty() && found == expected,
        }
    }

    /// Returns the demand as text.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Number(ranges) => ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            Self::AtLeast { bound, strict } => {
                format!("{} {}", if *strict { "more than" } else { "at least" }, short(*bound))
            }
            Self::AtMost { bound, strict } => {
                format!("{} {}", if *strict { "less than" } else { "at most" }, short(*bound))
            }
            Self::Ranking => "quotient above 1".to_owned(),
            Self::Grows => "grows".to_owned(),
            Self::Falls => "falls".to_owned(),
            Self::Sequence(numbers) => listed(numbers.iter().copied()),
        }
    }
}

/// A claim of a paper: a row of `claims.toml`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Claim {
    pub(crate) id: String,
    /// The name of the paper's text.
    pub(crate) paper: String,
    pub(crate) section: String,
    pub(crate) figure: String,
    /// The paper's statement in our words.
    pub(crate) says: String,
    /// The kind of demand, as in `claims.toml`.
    pub(crate) kind: String,
    pub(crate) unit: String,
    /// The source of the value, if the paper's text lost it.
    pub(crate) value_source: Option<String>,
    /// The experiment that tests it.
    pub(crate) experiment: String,
    /// The seeds of a full run.
    pub(crate) seeds: usize,
    /// The reason why it cannot be tested here.
    pub(crate) untestable: Option<String>,
    /// Whether the paper proves it. Then one seed suffices to contradict it.
    pub(crate) proven: bool,
    pub(crate) demand: Demand,
}

impl Claim {
    /// Returns whether the claim holds for the figures of one seed.
    pub(crate) fn holds(&self, found: &[f64]) -> bool {
        self.demand.is_met(found)
    }
}

/// Returns all claims, in the order of `claims.toml`.
pub(crate) fn claims() -> &'static [Claim] {
    static CLAIMS: LazyLock<Vec<Claim>> = LazyLock::new(|| {
        let read: Result<ClaimsFile, _> = toml::from_str(include_str!("../../claims.toml"));
        read.unwrap_or_else(|error| panic!("claims.toml: {error}")).claim.into_iter().map(Claim::from).collect()
    });
    &CLAIMS
}

/// Returns the claim of this name.
///
/// # Panics
/// If there is none.
pub(crate) fn claim(id: &str) -> &'static Claim {
    claims().iter().find(|claim| claim.id == id).unwrap_or_else(|| panic!("claims.toml has no claim `{id}`"))
}

/// The contents of `claims.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    claim: Vec<WrittenClaim>,
}

/// One number or a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    One(f64),
    List(Vec<f64>),
    /// Lines of a table, which are not judged.
    Table(#[expect(dead_code, reason = "only untestable claims have tables")] Vec<Vec<f64>>),
}

impl Numbers {
    fn list(self) -> Vec<f64> {
        match self {
            Self::One(number) => vec![number],
            Self::List(numbers) => numbers,
            Self::Table(_) => Vec::new(),
        }
    }
}

/// The direction in which a number changes.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    Grows,
    Falls,
}

/// A row of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenClaim {
    id: String,
    paper: String,
    section: String,
    #[serde(default)]
    figure: String,
    says: String,
    kind: String,
    value: Option<Numbers>,
    low: Option<f64>,
    high: Option<f64>,
    /// The relative distance from a number, where its source gives one.
    tolerance: Option<f64>,
    #[serde(default)]
    unit: String,
    value_source: Option<String>,
    #[serde(default)]
    strict: bool,
    direction: Option<Way>,
    experiment: String,
    #[serde(rename = "figure_of_merit")]
    _figure_of_merit: String,
    seeds: usize,
    untestable: Option<String>,
    #[serde(default)]
    proven: bool,
}

impl From<WrittenClaim> for Claim {
    fn from(written: WrittenClaim) -> Self {
        let (id, strict) = (written.id, written.strict);
        let value = written.value.map_or_else(Vec::new, Numbers::list);
        let bound = value.first().copied().unwrap_or(f64::NAN);
        let around = |value: f64| around(value, written.tolerance.unwrap_or(TOLERANCE));
        let demand = match (written.kind.as_str(), written.direction) {
            ("number", None) => Demand::Number(match (written.low, written.high) {
                (Some(least), Some(greatest)) => vec![Range { least, greatest }],
                _ => value.into_iter().map(around).collect(),
            }),
            ("at least", None) => Demand::AtLeast { bound, strict },
            ("at most", None) => Demand::AtMost { bound, strict },
            ("magnitude", None) => Demand::AtLeast { bound: MAGNITUDE, strict: false },
            ("ranking", None) => Demand::Ranking,
            ("direction", Some(Way::Grows)) => Demand::Grows,
            ("direction", Some(Way::Falls)) => Demand::Falls,
            ("sequence", None) => Demand::Sequence(value),
            (kind, _) => panic!("claims.toml: `{id}`: no kind `{kind}` with these fields"),
        };
        Self {
            id,
            paper: written.paper,
            section: written.section,
            figure: written.figure,
            says: written.says,
            kind: written.kind,
            unit: written.unit,
            value_source: written.value_source,
            experiment: written.experiment,
            seeds: written.seeds,
            untestable: written.untestable,
            proven: written.proven,
            demand,
        }
    }
}

/// Returns the range that counts as equal to this number of the paper.
fn around(value: f64, tolerance: f64) -> Range {
    Range::of([value * (1.0 - tolerance), value * (1.0 + tolerance)])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns whether a claim with these fields holds for these numbers.
    fn holds(fields: &str, found: &[f64]) -> bool {
        let text = format!(
            "[[claim]]\nid = \"x\"\npaper = \"p\"\nsection = \"1\"\nsays = \"s\"\nexperiment = \"e\"\n\
                figure_of_merit = \"f\"\nseeds = 1\n{fields}"
        );
        let file: ClaimsFile = toml::from_str(&text).unwrap();
        file.claim.into_iter().map(Claim::from).next().unwrap().holds(found)
    }

    #[test]
    fn numbers_lie_within_a_tenth_or_within_the_papers_range() {
        let ten = |found: &[f64]| holds("kind = \"number\"\nvalue = 10", found);
        assert!(ten(&[9.0]) && ten(&[11.0]) && ten(&[9.5, 10.5]));
        assert!(!ten(&[8.99]) && !ten(&[11.01]) && !ten(&[10.0, 12.0]));
        let below = |found: &[f64]| holds("kind = \"number\"\nvalue = -10.0", found);
        assert!(below(&[-9.0]) && below(&[-11.0]) && !below(&[10.0]) && !below(&[-11.1]));
        let range = |found: &[f64]| holds("kind = \"number\"\nlow = -3.0\nhigh = 4", found);
        assert!(range(&[-3.0, 4.0]) && !range(&[-3.01, 0.0]) && !range(&[4.01]));
        let wide = |found: &[f64]| holds("kind = \"number\"\nvalue = 10\ntolerance = 0.3", found);
        assert!(wide(&[7.0, 13.0]) && !wide(&[6.99]) && !wide(&[13.01]));
        let pair = |found: &[f64]| holds("kind = \"number\"\nvalue = [1, 100]", found);
        assert!(pair(&[1.1, 90.0]) && !pair(&[1.1, 89.0]) && !pair(&[1.0]) && !pair(&[1.0, 100.0, 1.0]));
    }

    #[test]
    fn bounds_are_part_of_the_range_unless_they_are_strict() {
        let least = |found: &[f64]| holds("kind = \"at least\"\nvalue = 5", found);
        assert!(least(&[5.0]) && least(&[5.0, 7.0]) && !least(&[4.999]) && !least(&[6.0, 4.0]));
        assert!(!holds("kind = \"at least\"\nvalue = 5\nstrict = true", &[5.0]));
        let most = |found: &[f64]| holds("kind = \"at most\"\nvalue = 7", found);
        assert!(most(&[7.0]) && most(&[-9.0]) && !most(&[7.5]));
        assert!(!holds("kind = \"at most\"\nvalue = 7\nstrict = true", &[7.0]));
        let magnitude = |found: &[f64]| holds("kind = \"magnitude\"\nvalue = 10", found);
        assert!(magnitude(&[10.0, 300.0, f64::INFINITY]) && !magnitude(&[9.9]) && !magnitude(&[10.0, 9.0]));
    }

    #[test]
    fn ranks_and_directions_are_strict() {
        let ranking = |found: &[f64]| holds("kind = \"ranking\"", found);
        assert!(ranking(&[1.000_001, f64::INFINITY]) && !ranking(&[1.0]) && !ranking(&[2.0, 0.9]));
        let grows = |found: &[f64]| holds("kind = \"direction\"\ndirection = \"grows\"", found);
        assert!(grows(&[0.1]) && !grows(&[0.0]) && !grows(&[-0.1]) && !grows(&[1.0, 0.0]));
        let falls = |found: &[f64]| holds("kind = \"direction\"\ndirection = \"falls\"", found);
        assert!(falls(&[-0.1]) && !falls(&[0.0]) && !falls(&[0.1]));
    }

    #[test]
    fn sequences_are_exact() {
        let sequence = |found: &[f64]| holds("kind = \"sequence\"\nvalue = [2, 1]", found);
        assert!(sequence(&[2.0, 1.0]) && !sequence(&[2.0]) && !sequence(&[2.0, 1.0, 1.0]) && !sequence(&[1.0, 2.0]));
    }

    #[test]
    fn what_is_no_number_and_nothing_do_not_hold() {
        for fields in [
            "kind = \"number\"\nvalue = 1",
            "kind = \"number\"\nlow = 0\nhigh = 1",
            "kind = \"at least\"\nvalue = 1",
            "kind = \"at most\"\nvalue = 1",
            "kind = \"magnitude\"\nvalue = 10",
            "kind = \"ranking\"",
            "kind = \"direction\"\ndirection = \"grows\"",
            "kind = \"direction\"\ndirection = \"falls\"",
            "kind = \"sequence\"\nvalue = [1]",
        ] {
            assert!(!holds(fields, &[]) && !holds(fields, &[f64::NAN]), "{fields}");
        }
    }

    /// The rows of `claims-mapping.toml` name existing claims.
    #[test]
    fn the_mapping_names_claims() {
        let rows: toml::Table = toml::from_str(include_str!("../../claims-mapping.toml")).unwrap();
        let rows = rows["row"].as_array().unwrap();
        let named = rows.iter().filter_map(|row| row.get("claims")).flat_map(|ids| ids.as_array().unwrap());
        for id in named.map(|id| id.as_str().unwrap()) {
            assert!(claims().iter().any(|claim| claim.id == id), "{id}");
        }
    }

    #[test]
    fn every_claim_can_be_read_and_has_its_own_name() {
        let names: BTreeSet<&str> = claims().iter().map(|claim| claim.id.as_str()).collect();
        assert_eq!(names.len(), claims().len());
        for Claim { id, seeds, says, demand, untestable, .. } in claims() {
            assert!([1, 3, 10].contains(seeds), "{id}: {seeds} seeds");
            assert!(says.split_whitespace().count() <= 25, "{id}: {says}");
            let is_empty = matches!(demand, Demand::Number(ranges) if ranges.is_empty());
            assert!(!is_empty || untestable.is_some(), "{id} has no value");
        }
    }
}
