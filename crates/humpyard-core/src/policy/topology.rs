//! The distances between cores.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::BuildError;
use crate::id::{CoreId, Id};

/// The part of the machine that the cores of one group share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelKind {
    /// A package.
    Socket,
    /// Memory that is near them.
    Node,
    /// A cache of the third level.
    L3,
    /// A cache of the second level.
    L2,
    /// They are one core.
    #[default]
    Core,
    /// They are one hardware thread of a core, or, live, one of the threads that take turns on it.
    Thread,
}

impl LevelKind {
    /// All of them, the widest first.
    pub const ALL: [Self; 6] = [Self::Socket, Self::Node, Self::L3, Self::L2, Self::Core, Self::Thread];

    /// Its name, as in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Node => "node",
            Self::L3 => "l3",
            Self::L2 => "l2",
            Self::Core => "core",
            Self::Thread => "thread",
        }
    }
}

/// One level of a [`Topology`]: the numbers of its groups of cores, and the cost of leaving a
/// group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Level {
    /// The part of the machine that the cores of a group share.
    #[serde(default)]
    pub kind: LevelKind,
    /// The group of each core, dense from 0, ascending with the cores.
    pub group: Vec<u16>,
    /// Cost of talking to a core of another group of this level within the same group above, in
    /// thousandths of the cost of staying on one core.
    pub cost_permille: u32,
}

/// How far apart two cores are, measured by the caches that they share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CoreDistance {
    /// They share a cache of the second level.
    SharedL2,
    /// They are in one socket, with separate caches of the second level.
    SameSocket,
    /// They are in different sockets; in a tree without sockets, in different nodes.
    OtherSocket,
}

impl CoreDistance {
    /// All of them, the nearest first.
    pub const ALL: [Self; 3] = [Self::SharedL2, Self::SameSocket, Self::OtherSocket];

    /// Its place in [`CoreDistance::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name, as in results and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SharedL2 => "shared_l2",
            Self::SameSocket => "same_socket",
            Self::OtherSocket => "other_socket",
        }
    }
}

/// A tree whose leaves are the cores, with sockets and shared caches above them. It also holds the
/// cost of communication between two cores: it follows from the level at which they part, or from a
/// measured matrix.
///
/// Levels count from 1, just below the root, to [`Topology::depth`], where every core is a group of
/// its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Topology {
    levels: Vec<Level>,
    /// The communication matrix, row by row, in thousandths of staying. Empty: the costs follow
    /// from the levels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    matrix: Vec<u32>,
}

impl Topology {
    /// Returns a topology in which all cores are equally near, at no cost.
    pub fn flat(cores: usize) -> Self {
        let group = (0..cores).map(|core| core as u16).collect();
        Self { levels: vec![Level { kind: LevelKind::Core, group, cost_permille: 1000 }], matrix: Vec::new() }
    }

    /// Returns a tree of any shape, with its levels from the root down. The root, the group of all
    /// cores, is not one of the levels.
    ///
    /// # Errors
    /// * There is no level, no core, or more than 65,535 cores.
    /// * Levels have different numbers of cores.
    /// * Groups are not numbered densely from 0 and ascending.
    /// * A group is in two groups of the level above.
    /// * Two cores share a group of the last level.
    /// * A cost is below 1000.
    pub fn new(levels: Vec<Level>) -> Result<Self, BuildError> {
        let cores = levels.first().map_or(0, |level| level.group.len());
        if !(1..=usize::from(u16::MAX)).contains(&cores) {
            return Err(too_many_or_none());
        }
        for (at, level) in levels.iter().enumerate() {
            let above = at.checked_sub(1).map(|above| &levels[above]);
            check_level(level, above, cores)?;
        }
        if levels.last().is_some_and(|leaves| usize::from(leaves.group[cores - 1]) + 1 != cores) {
            return Err(BuildError::set_up("cores share a group of the last level: there each is alone"));
        }
        Ok(Self { levels, matrix: Vec::new() })
    }

    /// Returns a tree in which all groups of a level have the same number of groups below them.
    /// `levels` gives that number and the cost of each level from the root down: `[(2, 2000), (2,
    /// 1400), (2, 1100)]` is two sockets of two caches of two cores each.
    ///
    /// From the last level up, the kinds are core, cache of the second level, and socket.
    ///
    /// # Errors
    /// There are no levels, an empty level, more than 65,535 cores, or a cost below 1000.
    pub fn regular(levels: &[(usize, u32)]) -> Result<Self, BuildError> {
        let kinds = [LevelKind::Core, LevelKind::L2, LevelKind::Socket];
        let kind = |at: usize| kinds[(levels.len() - 1 - at).min(kinds.len() - 1)];
        let named: Vec<_> = levels.iter().enumerate().map(|(at, &(groups, cost))| (kind(at), groups, cost)).collect();
        Self::regular_of(&named)
    }

    /// As [`Topology::regular`], with the kind of each level.
    ///
    /// # Errors
    /// As [`Topology::regular`].
    pub fn regular_of(levels: &[(LevelKind, usize, u32)]) -> Result<Self, BuildError> {
        let cores = levels.iter().try_fold(1usize, |cores, &(_, fan_out, _)| cores.checked_mul(fan_out));
        let cores = cores.filter(|cores| (1..=usize::from(u16::MAX)).contains(cores) && !levels.is_empty());
        let Some(cores) = cores else { return Err(too_many_or_none()) };
        let mut size = cores;
        let level = |&(kind, fan_out, cost_permille): &(LevelKind, usize, u32)| {
            size /= fan_out;
            Level { kind, group: (0..cores).map(|core| (core / size) as u16).collect(), cost_permille }
        };
        Self::new(levels.iter().map(level).collect())
    }

    /// Sets the communication matrix: a row for each core, in thousandths of staying.
    ///
    /// # Errors
    /// The matrix is not square, has another number of cores, is not symmetric, is not 1000 from a
    /// core to itself, or is below 1000 elsewhere.
    pub fn with_matrix(mut self, rows: &[Vec<u32>]) -> Result<Self, BuildError> {
        let cores = self.cores();
        if rows.len() != cores || rows.iter().any(|row| row.len() != cores) {
            return Err(BuildError::set_up(format!("the matrix of {cores} cores has as many rows and columns")));
        }
        for (a, row) in rows.iter().enumerate() {
            for (b, &cost) in row.iter().enumerate() {
                let good = if a == b { cost == 1000 } else { cost >= 1000 && cost == rows[b][a] };
                if !good {
                    return Err(BuildError::set_up(format!(
                        "a matrix is symmetric, 1 from a core to itself and at least 1 elsewhere: not so from core {a} to {b}"
                    )));
                }
            }
        }
        self.matrix = rows.concat();
        Ok(self)
    }

    /// Returns the tree of some of its cores. The cores of each group must be adjacent in `cores`.
    /// A core may occur several times, for threads that take turns on it: then there is one more
    /// level, whose groups cost nothing to leave.
    ///
    /// # Errors
    /// There is no core, or the cores of a group are not adjacent ([`Topology::arrange`] helps).
    pub fn select(&self, cores: &[CoreId]) -> Result<Self, BuildError> {
        if cores.is_empty() {
            return Err(too_many_or_none());
        }
        let mut levels: Vec<Level> = self.levels.iter().map(|level| level.select(cores)).collect();
        let last = levels.last().map_or(0, |leaves| leaves.group.iter().copied().max().unwrap_or(0));
        if usize::from(last) + 1 < cores.len() {
            let group = (0..cores.len()).map(|core| core as u16).collect();
            levels.push(Level { kind: LevelKind::Thread, group, cost_permille: 1000 });
        }
        let selected = Self::new(levels)?;
        if self.matrix.is_empty() {
            return Ok(selected);
        }
        let row = |&a: &CoreId| cores.iter().map(|&b| self.distance_permille(a, b)).collect();
        selected.with_matrix(&cores.iter().map(row).collect::<Vec<Vec<u32>>>())
    }

    /// Returns places in a list of cores, ordered so that the cores of each group are adjacent. A
    /// core may occur several times. If they are adjacent already, the order stays the same;
    /// otherwise groups follow the order of their first cores.
    pub fn arrange(&self, cores: &[CoreId]) -> Vec<usize> {
        let first = |level: usize, core: CoreId| {
            let group = self.group(level, core);
            cores.iter().position(|&other| self.group(level, other) == group)
        };
        let mut places: Vec<usize> = (0..cores.len()).collect();
        places.sort_by_cached_key(|&at| (1..=self.depth()).map(|level| first(level, cores[at])).collect::<Vec<_>>());
        places
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        self.levels[0].group.len()
    }

    /// Number of levels, from 1.
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Returns the group of a core at a level from 0 (the root, the group of all cores) to
    /// [`Topology::depth`].
    #[inline]
    pub fn group(&self, level: usize, core: CoreId) -> usize {
        if level == 0 { 0 } else { usize::from(self.levels[level - 1].group[core.index()]) }
    }

    /// Returns the part of the machine that the cores of a group of this level share.
    pub fn kind(&self, level: usize) -> LevelKind {
        self.levels[level - 1].kind
    }

    /// Returns the cost of crossing between groups of a level, in thousandths of staying.
    pub fn cost_permille(&self, level: usize) -> u32 {
        self.levels[level - 1].cost_permille
    }

    /// Returns the level at which two cores part: the first at which their groups differ. `None`:
    /// they are the same core.
    #[inline]
    pub fn parting(&self, a: CoreId, b: CoreId) -> Option<usize> {
        if a == b {
            return None;
        }
        (1..=self.depth()).find(|&level| self.group(level, a) != self.group(level, b))
    }

    /// Returns how far apart two cores are that part at this level.
    ///
    /// If no level has caches of the second level, each core has its own.
    pub fn core_distance(&self, level: usize) -> CoreDistance {
        let of = |kind: LevelKind| self.levels.iter().position(|level| level.kind == kind).map(|at| at + 1);
        let shares_l2 = match of(LevelKind::L2) {
            Some(caches) => level > caches,
            None => self.kind(level) == LevelKind::Thread,
        };
        match self.kind(level) {
            _ if shares_l2 => CoreDistance::SharedL2,
            LevelKind::Socket => CoreDistance::OtherSocket,
            LevelKind::Node if of(LevelKind::Socket).is_none() => CoreDistance::OtherSocket,
            _ => CoreDistance::SameSocket,
        }
    }

    /// Returns the cost of communication between two cores, in thousandths of staying on one: an
    /// entry of the communication matrix.
    pub fn distance_permille(&self, a: CoreId, b: CoreId) -> u32 {
        if !self.matrix.is_empty() {
            return self.matrix[a.index() * self.cores() + b.index()];
        }
        self.parting(a, b).map_or(1000, |level| self.cost_permille(level))
    }

    /// Whether a communication matrix was given; otherwise the costs follow from the levels.
    pub fn has_matrix(&self) -> bool {
        !self.matrix.is_empty()
    }
}

impl Level {
    /// Returns the level restricted to these cores; groups are numbered in order of appearance.
    fn select(&self, cores: &[CoreId]) -> Self {
        let mut known: Vec<u16> = Vec::new();
        let number = |core: &CoreId| {
            let group = self.group[core.index()];
            let at = known.iter().position(|&other| other == group).unwrap_or_else(|| {
                known.push(group);
                known.len() - 1
            });
            at as u16
        };
        Self { group: cores.iter().map(number).collect(), ..*self }
    }
}

fn too_many_or_none() -> BuildError {
    BuildError::set_up(format!("a topology has 1 to {} cores, so fan-outs from 1: 2x4 for example", u16::MAX))
}

/// Checks one level, and its groups against those of the level above.
fn check_level(level: &Level, above: Option<&Level>, cores: usize) -> Result<(), BuildError> {
    let name = level.kind.name();
    if level.cost_permille < 1000 {
        let cost = level.cost_permille;
        return Err(BuildError::set_up(format!(
            "leaving a group costs at least as much as staying (1000), not {cost} ({name})"
        )));
    }
    if level.group.len() != cores {
        return Err(BuildError::set_up(format!("every level has {cores} cores, and {name} has {}", level.group.len())));
    }
    let rises = level.group.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0].saturating_add(1));
    if level.group[0] != 0 || !rises {
        return Err(BuildError::set_up(format!("cores of one group ({name}) stand together, and groups count from 0")));
    }
    let Some(above) = above else { return Ok(()) };
    let torn = (1..cores)
        .find(|&core| level.group[core] == level.group[core - 1] && above.group[core] != above.group[core - 1]);
    match torn {
        Some(core) => Err(BuildError::set_up(format!(
            "core {core} shares a group ({name}) with a core from which it parted above ({})",
            above.kind.name()
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn distances(tree: &Topology, from: u16) -> Vec<u32> {
        (0..tree.cores()).map(|core| tree.distance_permille(CoreId(from), CoreId::from_index(core))).collect()
    }

    fn groups(tree: &Topology, level: usize) -> Vec<usize> {
        (0..tree.cores()).map(|core| tree.group(level, CoreId::from_index(core))).collect()
    }

    /// A socket with two caches, of two cores and of one core, and a socket with one cache of one
    /// core.
    fn unbalanced() -> Topology {
        let level = |kind, group: &[u16], cost_permille| Level { kind, group: group.to_vec(), cost_permille };
        Topology::new(vec![
            level(LevelKind::Socket, &[0, 0, 0, 1], 2000),
            level(LevelKind::L2, &[0, 0, 1, 2], 1400),
            level(LevelKind::Core, &[0, 1, 2, 3], 1100),
        ])
        .unwrap()
    }

    #[test]
    fn a_regular_tree() {
        let tree = Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).unwrap();
        assert_eq!((tree.cores(), tree.depth()), (8, 3));
        assert_eq!(groups(&tree, 2), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(distances(&tree, 0), [1000, 1100, 1400, 1400, 2000, 2000, 2000, 2000]);
        let apart = |b| tree.core_distance(tree.parting(CoreId(0), CoreId(b)).unwrap());
        assert_eq!([1, 2, 4].map(apart), CoreDistance::ALL);
        assert_eq!(tree.parting(CoreId(3), CoreId(3)), None);
    }

    #[test]
    fn a_flat_tree_has_no_distances() {
        let flat = Topology::flat(3);
        assert_eq!((flat.cores(), flat.depth()), (3, 1));
        assert_eq!(flat.distance_permille(CoreId(0), CoreId(2)), 1000);
        assert_eq!(flat.core_distance(1), CoreDistance::SameSocket, "each core has caches of its own");
    }

    #[test]
    fn trees_need_not_be_balanced() {
        let tree = unbalanced();
        assert_eq!(distances(&tree, 2), [1400, 1400, 1000, 2000]);
        assert_eq!(distances(&tree, 3), [2000, 2000, 2000, 1000]);
    }

    #[test]
    fn nodes_without_sockets_are_far_and_threads_are_near() {
        use LevelKind::{Core, L3, Node, Socket, Thread};
        let numa = Topology::regular_of(&[(Node, 4, 2000), (Core, 16, 1100)]).unwrap();
        assert_eq!(
            [1, 2].map(|level| numa.core_distance(level)),
            [CoreDistance::OtherSocket, CoreDistance::SameSocket]
        );
        let levels = [(Socket, 2, 2000), (Node, 2, 1700), (L3, 2, 1400), (Core, 2, 1100), (Thread, 2, 1050)];
        let machine = Topology::regular_of(&levels).unwrap();
        let apart = [1, 2, 3, 4, 5].map(|level| machine.core_distance(level));
        let inside = CoreDistance::SameSocket;
        assert_eq!(apart, [CoreDistance::OtherSocket, inside, inside, inside, CoreDistance::SharedL2]);
    }

    #[test]
    fn a_matrix_takes_the_place_of_the_levels() {
        let rows = [[1000, 1200, 1300], [1200, 1000, 1500], [1300, 1500, 1000]].map(Vec::from);
        let tree = Topology::flat(3).with_matrix(&rows).unwrap();
        assert_eq!(distances(&tree, 1), [1200, 1000, 1500]);
        let some = tree.select(&[CoreId(2), CoreId(1), CoreId(1)]).unwrap();
        assert_eq!(distances(&some, 0), [1000, 1500, 1500]);
        assert_eq!(some.distance_permille(CoreId(1), CoreId(2)), 1000, "two threads on one core");
        let refused = |row: usize, column: usize, cost: u32| {
            let mut rows = rows.clone();
            rows[row][column] = cost;
            Topology::flat(3).with_matrix(&rows).is_err()
        };
        assert!(refused(0, 1, 1201) && refused(1, 1, 1100) && refused(0, 2, 900));
        assert!(Topology::flat(2).with_matrix(&rows).is_err());
    }

    #[test]
    fn some_cores_make_a_tree_of_their_own() {
        let some = unbalanced().select(&[3, 1, 0].map(CoreId)).unwrap();
        assert_eq!((groups(&some, 1), groups(&some, 2)), (vec![0, 1, 1], vec![0, 1, 1]));
        assert_eq!(distances(&some, 1), [2000, 1000, 1100]);
        let said = unbalanced().select(&[0, 3, 1].map(CoreId)).unwrap_err().to_string();
        assert!(said.contains("stand together"), "{said}");
        assert!(unbalanced().select(&[]).is_err());
    }

    #[test]
    fn threads_of_one_core_are_arranged_side_by_side() {
        let tree = unbalanced();
        let cores = [1, 0, 1, 3, 0].map(CoreId);
        assert_eq!(tree.arrange(&cores), [0, 2, 1, 4, 3]);
        let arranged: Vec<CoreId> = tree.arrange(&cores).into_iter().map(|at| cores[at]).collect();
        let some = tree.select(&arranged).unwrap();
        assert_eq!((some.depth(), some.kind(4), some.cost_permille(4)), (4, LevelKind::Thread, 1000));
        assert_eq!(distances(&some, 0), [1000, 1000, 1100, 1100, 2000]);
        assert_eq!(tree.arrange(&[2, 1, 3].map(CoreId)), [0, 1, 2], "what stands together stays");
    }

    #[test]
    fn impossible_trees_are_refused() {
        assert!(Topology::regular(&[]).is_err());
        assert!(Topology::regular(&[(2, 1000), (0, 1000)]).is_err());
        assert!(Topology::regular(&[(70_000, 1000)]).is_err());
        assert!(Topology::regular(&[(2, 900)]).is_err());
        let level = |group: &[u16]| Level { kind: LevelKind::Core, group: group.to_vec(), cost_permille: 1000 };
        for (bad, why) in [
            (vec![], "has 1 to"),
            (vec![level(&[])], "has 1 to"),
            (vec![level(&[0, 0])], "share a group of the last level"),
            (vec![level(&[1, 2])], "count from 0"),
            (vec![level(&[0, 2])], "count from 0"),
            (vec![level(&[0, 1, 0]), level(&[0, 1, 2])], "stand together"),
            (vec![level(&[0]), level(&[0, 1])], "every level has 1 cores"),
            (vec![level(&[0, 1]), level(&[0, 0]), level(&[0, 1])], "parted above"),
        ] {
            let said = Topology::new(bad).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }
}
