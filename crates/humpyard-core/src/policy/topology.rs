//! Which cores are near each other.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::BuildError;
use crate::id::{CoreId, Id};

/// One level of a [`Topology`]: how its groups of cores are numbered, and what it costs to leave one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Level {
    /// The group of each core, dense from 0, ascending with the cores.
    group: Vec<u16>,
    /// Cost of talking to a core of another group of this level but of the same group above, in thousandths of what it costs
    /// to stay on one core.
    cost_permille: u32,
}

/// A tree whose leaves are the cores: sockets, the caches they share, the cores themselves.
///
/// Levels count from 1, just below the root, to [`Topology::depth`], where every core is a group of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Topology {
    levels: Vec<Level>,
}

impl Topology {
    /// Cores that are all equally near, at no cost.
    pub fn flat(cores: usize) -> Self {
        let group = (0..cores).map(|core| core as u16).collect();
        Self { levels: vec![Level { group, cost_permille: 1000 }] }
    }

    /// A tree in which every group of a level has the same number of groups below it, with the cost of each level from the
    /// root down: `[(2, 2000), (2, 1400), (2, 1100)]` is two sockets of two caches of two cores each.
    ///
    /// # Errors
    /// A tree without levels, with an empty level, of more than 65,535 cores, or a cost below 1000.
    pub fn regular(levels: &[(usize, u32)]) -> Result<Self, BuildError> {
        let cores = levels.iter().try_fold(1usize, |cores, &(fan_out, _)| cores.checked_mul(fan_out));
        let cores = cores.filter(|cores| (1..=usize::from(u16::MAX)).contains(cores) && !levels.is_empty());
        let Some(cores) = cores else {
            return Err(BuildError::new(format!(
                "a topology has 1 to {} cores, so fan-outs from 1: 2x4 for example",
                u16::MAX
            )));
        };
        if let Some(&(_, cost)) = levels.iter().find(|&&(_, cost)| cost < 1000) {
            return Err(BuildError::new(format!(
                "leaving a group costs at least as much as staying (1000), not {cost}"
            )));
        }
        let mut size = cores;
        let level = |&(fan_out, cost_permille): &(usize, u32)| {
            size /= fan_out;
            Level { group: (0..cores).map(|core| (core / size) as u16).collect(), cost_permille }
        };
        Ok(Self { levels: levels.iter().map(level).collect() })
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        self.levels[0].group.len()
    }

    /// Number of levels, from 1.
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The group of a core at a level from 0 (the root, of which all are) to [`Topology::depth`].
    pub fn group(&self, level: usize, core: CoreId) -> usize {
        if level == 0 { 0 } else { usize::from(self.levels[level - 1].group[core.index()]) }
    }

    /// What it costs to cross between groups of a level, in thousandths of staying.
    pub fn cost_permille(&self, level: usize) -> u32 {
        self.levels[level - 1].cost_permille
    }

    /// What it costs two cores to talk, in thousandths of staying on one: an entry of the communication matrix.
    pub fn distance_permille(&self, a: CoreId, b: CoreId) -> u32 {
        (1..=self.depth())
            .find(|&level| self.group(level, a) != self.group(level, b))
            .map_or(1000, |level| self.cost_permille(level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_tree() {
        let tree = Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).unwrap();
        assert_eq!((tree.cores(), tree.depth()), (8, 3));
        assert_eq!((0..8).map(|core| tree.group(2, CoreId(core))).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2, 3, 3]);
        let from_zero: Vec<u32> = (0..8).map(|core| tree.distance_permille(CoreId(0), CoreId(core))).collect();
        assert_eq!(from_zero, [1000, 1100, 1400, 1400, 2000, 2000, 2000, 2000]);
    }

    #[test]
    fn a_flat_tree_has_no_distances() {
        let flat = Topology::flat(3);
        assert_eq!((flat.cores(), flat.depth()), (3, 1));
        assert_eq!(flat.distance_permille(CoreId(0), CoreId(2)), 1000);
    }

    #[test]
    fn impossible_trees_are_refused() {
        assert!(Topology::regular(&[]).is_err());
        assert!(Topology::regular(&[(2, 1000), (0, 1000)]).is_err());
        assert!(Topology::regular(&[(70_000, 1000)]).is_err());
        assert!(Topology::regular(&[(2, 900)]).is_err());
    }
}
