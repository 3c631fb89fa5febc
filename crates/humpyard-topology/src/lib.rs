//! The distances between cores: of this machine, from a file, of a named machine, or from fan-outs.
//!
//! Cache-aware policies take a `humpyard_core::policy::Topology`. [`parse_topology`] makes one from
//! a text, [`CoreTree::machine`] reads this machine's, and [`CoreTree::read`] reads a file.
//!
//! ```
//! use humpyard_core::id::CoreId;
//!
//! // Two sockets with two caches of two cores each.
//! let topology = humpyard_topology::parse_topology("2x2x2")?;
//! assert_eq!(topology.cores(), 8);
//! let distance = |a, b| topology.distance_permille(CoreId(a), CoreId(b));
//! assert!(distance(0, 1) < distance(0, 2) && distance(0, 2) < distance(0, 4));
//! # Ok::<(), humpyard_text::TextError>(())
//! ```

#![forbid(unsafe_code)]

mod file;
mod machine;

use core::fmt;
use core::str::FromStr;
use std::path::Path;

use humpyard_core::id::{CoreId, Id};
use humpyard_core::name::unknown;
use humpyard_core::policy::{LevelKind, Topology};
use humpyard_text::TextError;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

pub use file::PACKET_NS;

/// The topology that a run uses.
#[derive(Clone, PartialEq, Debug)]
pub enum TopologyChoice {
    /// All are the same.
    Flat,
    /// They are the leaves of a tree.
    Tree(CoreTree),
}

/// A tree of cores, and its source.
#[derive(Clone, PartialEq, Debug)]
pub struct CoreTree {
    /// The name on the command line: `machine`, the name of a machine, fan-outs, or a file.
    pub name: String,
    /// A description of its source.
    pub source: String,
    /// The tree.
    pub tree: Topology,
    /// The processor of each core, with the system's numbers. Empty: the tree belongs to no
    /// particular machine.
    pub processors: Vec<usize>,
    /// The measurements between the cores, if there are any.
    pub ways: Option<Ways>,
}

/// Measurements between cores; the communication matrix follows from them.
#[derive(Clone, PartialEq, Debug)]
pub struct Ways {
    /// Extra time of a packet if another core had the packet before it, in ns: a row for each core,
    /// 0 to itself.
    pub hand_over_ns: Vec<Vec<f64>>,
    /// Time of a packet that stays on its core, in ns. The cost of a path is 1 + hand-over / this.
    pub packet_ns: f64,
    /// The round trip of a cache line, as a matrix in ns, if measured; for readers only.
    pub round_trip_ns: Option<Vec<Vec<f64>>>,
}

impl Ways {
    /// The communication matrix, in thousandths of staying.
    fn permille(&self) -> Vec<Vec<u32>> {
        let cost = |ns: &f64| (1000.0 * (1.0 + ns.max(0.0) / self.packet_ns)).round() as u32;
        self.hand_over_ns.iter().map(|row| row.iter().map(cost).collect()).collect()
    }
}

/// A named machine: its name, its description, and its levels from the root down with their
/// fan-outs and costs.
type Known = (&'static str, &'static str, &'static [(LevelKind, usize, u32)]);

/// Machines by name.
const KNOWN: [Known; 3] = [
    (
        "e5355",
        "the PS-HRW paper's server: 2 Xeon E5355 of 2 caches of the second level of 2 cores",
        &[(LevelKind::Socket, 2, 2000), (LevelKind::L2, 2, 1400), (LevelKind::Core, 2, 1100)],
    ),
    (
        "epyc-2p",
        "2 EPYC 7763 of 8 caches of the third level of 8 cores, one node for each socket",
        &[(LevelKind::Socket, 2, 2000), (LevelKind::L3, 8, 1400), (LevelKind::Core, 8, 1100)],
    ),
    ("numa4x16", "4 nodes of 16 cores", &[(LevelKind::Node, 4, 2000), (LevelKind::Core, 16, 1100)]),
];

/// Returns the default cost of leaving a group of this kind, in thousandths of staying.
const fn usual_cost(kind: LevelKind, below_l3: bool) -> u32 {
    match kind {
        LevelKind::Socket => 2000,
        LevelKind::Node => 1700,
        LevelKind::L3 => 1400,
        LevelKind::L2 if below_l3 => 1200,
        LevelKind::L2 => 1400,
        LevelKind::Core => 1100,
        LevelKind::Thread => 1050,
    }
}

/// The usual costs of these levels, from the root down.
fn usual_costs(kinds: &[LevelKind]) -> Vec<u32> {
    kinds.iter().map(|&kind| usual_cost(kind, kinds.contains(&LevelKind::L3))).collect()
}

/// Costs of crossing the levels of fan-outs, from the cores up, in thousandths of staying: a shared
/// cache, a socket, beyond.
const FAN_OUT_COSTS: [u32; 3] = [1100, 1400, 2000];

/// Returns the processors that the calling thread may run on, in order; empty if the system does
/// not list them.
pub fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok();
    let may_use = |&processor: &usize| allowed.is_some_and(|set| set.is_set(processor).unwrap_or(false));
    (0..CpuSet::count()).filter(may_use).collect()
}

/// Names that `--topology` knows, beside fan-outs and files.
pub fn topology_names() -> impl Iterator<Item = &'static str> {
    ["flat", "machine"].into_iter().chain(KNOWN.map(|(name, ..)| name))
}

impl CoreTree {
    /// Returns the tree of this machine, from the kernel's /sys: the processors that the calling
    /// thread may use.
    ///
    /// # Errors
    /// There is no /sys, or it lacks the data.
    pub fn machine() -> Result<Self, TextError> {
        machine::read(Path::new(machine::SYSTEM), &processors())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is no topology, or has impossible values; the error has its
    /// position.
    pub fn read(path: &str) -> Result<Self, TextError> {
        file::read(path)
    }

    /// Understands the text of a file of this name.
    ///
    /// # Errors
    /// See [`CoreTree::read`].
    pub fn parse(path: &str, text: &str) -> Result<Self, TextError> {
        file::parse(path, text)
    }

    /// Returns the text of a file with this tree.
    pub fn text(&self) -> String {
        file::text(self)
    }

    /// Sets the measurements between the cores: the cost of a level is the median of the pairs that
    /// part at it, and the matrix has the measured values.
    ///
    /// # Errors
    /// The measurements are of another number of cores.
    pub fn with_ways(self, ways: Ways) -> Result<Self, TextError> {
        let permille = ways.permille();
        let tree = self.with_costs(&permille)?.with_matrix(&permille)?;
        Ok(Self { tree, ways: Some(ways), ..self })
    }

    /// Returns the tree with the costs of its levels from a matrix.
    fn with_costs(&self, permille: &[Vec<u32>]) -> Result<Topology, TextError> {
        let tree = &self.tree;
        let mut crossing: Vec<Vec<u32>> = vec![Vec::new(); tree.depth()];
        for (a, row) in permille.iter().enumerate() {
            for (b, &cost) in row.iter().enumerate().take(tree.cores()) {
                let parting =
                    (a < tree.cores()).then(|| tree.parting(CoreId::from_index(a), CoreId::from_index(b))).flatten();
                if let Some(level) = parting {
                    crossing[level - 1].push(cost);
                }
            }
        }
        let mut levels = levels(tree);
        for (level, mut costs) in levels.iter_mut().zip(crossing) {
            costs.sort_unstable();
            if let Some(&median) = costs.get(costs.len() / 2) {
                level.cost_permille = median;
            }
        }
        Ok(Topology::new(levels)?)
    }

    /// Returns the communication matrix: the cost of communication between two cores, where staying
    /// costs 1.
    pub fn matrix(&self) -> Vec<Vec<f64>> {
        let cores = || (0..self.tree.cores()).map(CoreId::from_index);
        let cost = |a, b| f64::from(self.tree.distance_permille(a, b)) / 1e3;
        cores().map(|a| cores().map(|b| cost(a, b)).collect()).collect()
    }
}

/// The levels of a tree, from the root down.
fn levels(tree: &Topology) -> Vec<humpyard_core::policy::Level> {
    let level = |level: usize| humpyard_core::policy::Level {
        kind: tree.kind(level),
        group: (0..tree.cores()).map(|core| tree.group(level, CoreId::from_index(core)) as u16).collect(),
        cost_permille: tree.cost_permille(level),
    };
    (1..=tree.depth()).map(level).collect()
}

impl TopologyChoice {
    /// Returns the name on the command line.
    pub fn name(&self) -> &str {
        match self {
            Self::Flat => "flat",
            Self::Tree(tree) => &tree.name,
        }
    }
}

impl fmt::Display for TopologyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TopologyChoice {
    type Err = TextError;

    /// Reads `flat`, `machine`, the name of a machine, fan-outs from the root such as `2x4x2`, or
    /// the name of a file. Fan-outs may have the costs of their levels (`2x4:2.0,1.2`).
    fn from_str(text: &str) -> Result<Self, TextError> {
        if text == "flat" {
            return Ok(Self::Flat);
        }
        if text == "machine" {
            return CoreTree::machine().map(Self::Tree);
        }
        if let Some((name, source, levels)) = KNOWN.iter().find(|(name, ..)| *name == text) {
            return Ok(Self::Tree(CoreTree {
                name: (*name).to_owned(),
                source: (*source).to_owned(),
                tree: Topology::regular_of(levels)?,
                processors: Vec::new(),
                ways: None,
            }));
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) && !Path::new(text).exists() {
            return Ok(Self::Tree(CoreTree {
                name: text.to_owned(),
                source: "fan-outs from the root".to_owned(),
                tree: fan_outs(text)?,
                processors: Vec::new(),
                ways: None,
            }));
        }
        if !text.contains(['.', '/']) && !Path::new(text).exists() {
            return Err(TextError::new(format!(
                "{}; nor is it fan-outs from the root, 2x4x2 for example, or a file",
                unknown("topology", text, topology_names())
            )));
        }
        CoreTree::read(text).map(Self::Tree)
    }
}

/// Reads a tree from fan-outs, with or without costs.
fn fan_outs(text: &str) -> Result<Topology, TextError> {
    let (fan_outs, costs) = text.split_once(':').map_or((text, None), |(fan_outs, costs)| (fan_outs, Some(costs)));
    let fan_outs: Option<Vec<usize>> = fan_outs.split('x').map(|part| part.parse().ok()).collect();
    let depth = fan_outs.as_ref().map_or(0, Vec::len);
    let costs: Option<Vec<u32>> = match costs {
        Some(costs) => costs.split(',').map(|part| permille(part.parse().ok()?)).collect(),
        None => {
            let above = |level: usize| (depth - 1 - level).min(FAN_OUT_COSTS.len() - 1);
            Some((0..depth).map(|level| FAN_OUT_COSTS[above(level)]).collect())
        }
    };
    match (fan_outs, costs) {
        (Some(fan_outs), Some(costs)) if fan_outs.len() == costs.len() => {
            Ok(Topology::regular(&fan_outs.into_iter().zip(costs).collect::<Vec<_>>())?)
        }
        _ => Err(TextError::new(format!(
            "fan-outs go from the root, 2x4x2 for example, with a cost from 1 for each level if you like (2x4:2.0,1.2); not \
             `{text}`"
        ))),
    }
}

/// Converts a cost to thousandths. `None`: it is below 1, or absurdly high.
fn permille(cost: f64) -> Option<u32> {
    (1.0..=1e6).contains(&cost).then(|| (cost * 1e3).round() as u32)
}

/// Returns the tree that the text describes, as [`TopologyChoice`] reads it.
///
/// # Errors
/// The text is invalid, or is `flat`, which is no tree.
pub fn parse_topology(text: &str) -> Result<Topology, TextError> {
    match text.parse()? {
        TopologyChoice::Tree(tree) => Ok(tree.tree),
        TopologyChoice::Flat => Err(TextError::new("a flat topology is none: leave it out")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_read_as_fan_outs() {
        let usual = Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).unwrap();
        assert_eq!(parse_topology("e5355").unwrap(), usual);
        assert_eq!(parse_topology("2x2x2").unwrap(), usual);
        assert_eq!(parse_topology("4:1.5").unwrap(), Topology::regular(&[(4, 1500)]).unwrap());
        for bad in ["", "2x", "2x2:1", "0", "2:0.5", "e5356", "2:nan", "flat"] {
            assert!(parse_topology(bad).is_err(), "{bad}");
        }
        let said = parse_topology("e5356").unwrap_err().to_string();
        assert!(said.starts_with("no topology `e5356`; did you mean `e5355`?"), "{said}");
    }

    #[test]
    fn machines_by_name_have_their_cores() {
        let cores = |name| parse_topology(name).unwrap().cores();
        assert_eq!(["e5355", "epyc-2p", "numa4x16"].map(cores), [8, 128, 64]);
        let epyc = parse_topology("epyc-2p").unwrap();
        let cost = |a, b| epyc.distance_permille(CoreId(a), CoreId(b));
        assert_eq!([cost(0, 7), cost(0, 8), cost(0, 64)], [1100, 1400, 2000]);
    }

    #[test]
    fn what_was_measured_makes_matrix_and_costs() {
        let TopologyChoice::Tree(tree) = "2x2".parse().unwrap() else { panic!("a tree") };
        let far = |near: f64| [[0.0, near, 900.0, 1000.0], [near, 0.0, 1000.0, 1100.0]];
        let [a, b] = far(100.0).map(Vec::from);
        let hand_over_ns = vec![a, b, vec![900.0, 1000.0, 0.0, 120.0], vec![1000.0, 1100.0, 120.0, 0.0]];
        let ways = Ways { hand_over_ns, packet_ns: 1000.0, round_trip_ns: None };
        let measured = tree.clone().with_ways(ways.clone()).unwrap();
        assert_eq!(measured.matrix()[1], [1.1, 1.0, 2.0, 2.1]);
        assert_eq!([1, 2].map(|level| measured.tree.cost_permille(level)), [2000, 1120]);
        assert!(tree.with_ways(Ways { hand_over_ns: vec![vec![0.0]], ..ways }).is_err());
    }
}
