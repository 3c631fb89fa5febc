//! What a map knows: in each cell, the policies that were near the best. A map writes it as `known.json`, and that of
//! the published map comes with humpyard, for `recommend` and `explain`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::WholeMap;
use super::rounds::{BestTimes, MapCell};
use super::rule::NEAR;
use super::traffic::{Feature, Features, rounded};

/// The file of the published map.
static KNOWN: LazyLock<KnownMap> =
    LazyLock::new(|| serde_json::from_str(include_str!("known.json")).expect("`humpyard map` wrote it"));

/// Cells that are asked which policies are likely to be good.
const NEAREST: usize = 12;
/// Classes that are named where a policy is near the best, at most.
const CLASSES_NAMED: usize = 4;

/// What a map knows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct KnownMap {
    /// All policies that were mapped, the simplest first.
    policies: Vec<String>,
    cells: Vec<KnownCell>,
}

/// The policies near the best in a cell, by number.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct KnownCell {
    class: String,
    /// What the traffic of the cell has, in the order of [`Feature::ALL`].
    figures: Features,
    /// Among those that keep the order of flows everywhere.
    order_kept: Vec<usize>,
    /// Among all.
    any_order: Vec<usize>,
}

impl KnownMap {
    /// What this map knows.
    pub(super) fn of(map: &WholeMap<'_>) -> Self {
        Self { policies: map.policies.to_vec(), cells: map.cells.iter().map(KnownCell::of).collect() }
    }

    /// The map that comes with humpyard.
    pub(crate) fn whole() -> &'static Self {
        &KNOWN
    }

    /// The text of the file, a line for each cell.
    pub(super) fn text(&self) -> String {
        let cells: Vec<String> = self.cells.iter().map(json).collect();
        format!("{{\"policies\":{},\"cells\":[\n{}\n]}}\n", json(&self.policies), cells.join(",\n"))
    }

    /// Returns at most `most` policies that were near the best in the cells most like this one, the likeliest first. A
    /// cell in which many are near the best says little of each.
    pub(crate) fn likely(&self, figures: &Features, keeps_order: bool, most: usize) -> Vec<&str> {
        let mut cells: Vec<(f64, &KnownCell)> =
            self.cells.iter().map(|cell| (distance(figures, &cell.figures), cell)).collect();
        cells.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let mut votes = vec![0.0; self.policies.len()];
        for (distance, cell) in cells.into_iter().take(NEAREST) {
            let near = if keeps_order { &cell.order_kept } else { &cell.any_order };
            for &policy in near {
                votes[policy] += 1.0 / (1.0 + distance) / near.len() as f64;
            }
        }
        let mut likely: Vec<usize> = (0..votes.len()).filter(|&policy| votes[policy] > 0.0).collect();
        likely.sort_by(|&one, &other| votes[other].total_cmp(&votes[one]));
        likely.into_iter().take(most).map(|policy| self.policies[policy].as_str()).collect()
    }
}

impl KnownCell {
    fn of(cell: &MapCell<'_>) -> Self {
        let near = |times: fn(&BestTimes) -> Option<f64>| {
            let found = cell.found.iter().enumerate().filter_map(|(at, one)| Some((at, one.as_ref()?)));
            found.filter(|(_, one)| times(&one.times).is_some_and(|times| times <= NEAR)).map(|(at, _)| at).collect()
        };
        Self {
            class: cell.place.class.name.clone(),
            figures: cell.features.map(rounded),
            order_kept: near(|times| times.order_kept),
            any_order: near(|times| Some(times.any_order)),
        }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("names and numbers can be written")
}

/// Returns how unlike two cells are. 1 stands for a factor of e in flows, services or cores, or .25 of the load.
fn distance(one: &Features, other: &Features) -> f64 {
    let scaled = |feature: Feature, figure: f64| match feature {
        Feature::LargestFlow => figure.max(0.01).ln(),
        Feature::FlowsPerCore | Feature::Services | Feature::Cores => figure.max(1.0).ln(),
        Feature::Variation => (1.0 + figure).ln(),
        Feature::Load => 4.0 * figure,
        Feature::Dispatcher => 2.0 * figure,
    };
    let apart =
        |feature: Feature| (scaled(feature, one[feature as usize]) - scaled(feature, other[feature as usize])).abs();
    Feature::ALL.into_iter().map(apart).sum()
}

/// In how many cells of the map a policy is near the best.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NearBest {
    /// Cells in which its p99 is within 5 % of the best, whatever the order of flows.
    pub cells: usize,
    /// Cells of the map.
    pub of: usize,
    /// The same by class of traffic, for the classes in which it is so most often.
    pub classes: Vec<NearBestOfClass>,
}

/// The same of one class.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NearBestOfClass {
    /// Name of the class.
    pub class: String,
    /// Cells in which its p99 is within 5 % of the best.
    pub cells: usize,
    /// Cells of the class.
    pub of: usize,
}

impl NearBest {
    /// Returns where the policy is near the best. `None`: the map has no policy of this name.
    pub fn of(policy: &str) -> Option<Self> {
        let known = KnownMap::whole();
        let number = known.policies.iter().position(|name| name == policy)?;
        let mut classes: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for cell in &known.cells {
            let (cells, of) = classes.entry(&cell.class).or_default();
            *cells += usize::from(cell.any_order.contains(&number));
            *of += 1;
        }
        let (cells, of) = classes.values().fold((0, 0), |(cells, of), (more, all)| (cells + more, of + all));
        let mut classes: Vec<NearBestOfClass> = classes
            .into_iter()
            .filter(|(_, (cells, _))| *cells > 0)
            .map(|(class, (cells, of))| NearBestOfClass { class: class.to_owned(), cells, of })
            .collect();
        classes.sort_by(|one, other| (other.cells * one.of).cmp(&(one.cells * other.of)));
        classes.truncate(CLASSES_NAMED);
        Some(Self { cells, of, classes })
    }

    /// Says it in words.
    pub fn text(&self) -> String {
        let Self { cells, of, classes } = self;
        let classes: Vec<String> =
            classes.iter().map(|class| format!("{} ({} of {})", class.class, class.cells, class.of)).collect();
        let most = if classes.is_empty() { String::new() } else { format!(", most often of {}", classes.join(", ")) };
        format!("p99 within 5 % of the best in {cells} of the {of} cells of the map{most}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> KnownMap {
        let cell = |class: &str, largest: f64, any_order: &[usize]| KnownCell {
            class: class.to_owned(),
            figures: [largest, 100.0, 0.0, 0.9, 1.0, 16.0, 0.0],
            order_kept: vec![0],
            any_order: any_order.to_vec(),
        };
        let policies = ["hrw", "jsq", "sprayer"].map(str::to_owned).into();
        let cells = vec![cell("uniform", 0.01, &[0, 1, 2]), cell("elephants", 0.8, &[1])];
        KnownMap { policies, cells }
    }

    #[test]
    fn likely_is_what_was_near_the_best_in_cells_like_this() {
        let at = |largest: f64, keeps_order| {
            known().likely(&[largest, 90.0, 0.1, 0.9, 1.0, 16.0, 0.0], keeps_order, 2).join(" ")
        };
        assert_eq!(at(0.7, false), "jsq hrw");
        assert_eq!(at(0.7, true), "hrw");
        let alike =
            |largest: f64| distance(&[largest, 1.0, 0.0, 0.5, 1.0, 4.0, 0.0], &[0.5, 1.0, 0.0, 0.5, 1.0, 4.0, 0.0]);
        assert!(alike(0.5) == 0.0 && alike(0.4) < alike(0.3) && alike(0.001) == alike(0.01));
    }

    #[test]
    fn a_file_is_read_as_written() {
        let known = known();
        assert_eq!(serde_json::from_str::<KnownMap>(&known.text()).expect("a file"), known);
    }

    #[test]
    fn the_map_that_comes_along_knows_every_policy_that_is_tried() {
        let known = KnownMap::whole();
        assert_eq!(known.policies, crate::recommend::grid());
        assert!(known.cells.len() > 500);
        let hashing = NearBest::of("hrw").expect("hashing is mapped");
        assert!(hashing.cells > 0 && hashing.cells < hashing.of && hashing.of == known.cells.len());
        assert!(hashing.text().contains(" of the map, most often of "), "{}", hashing.text());
        assert_eq!(NearBest::of("t-opt"), None);
    }
}
