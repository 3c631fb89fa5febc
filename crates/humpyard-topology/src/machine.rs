//! The tree of this machine, as Linux describes it in /sys.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use humpyard_core::policy::{Level, LevelKind, Topology};

use super::{CoreTree, usual_costs};
use humpyard_text::TextError;

/// The kernel's directory of processors and nodes.
pub(super) const SYSTEM: &str = "/sys/devices/system";

/// A processor, and the number of each part that it belongs to.
struct Processor {
    number: usize,
    /// By [`LevelKind::ALL`]; the last is its own number.
    parts: [usize; LevelKind::ALL.len()],
}

/// Reads the tree of these processors from a directory such as [`SYSTEM`].
pub(super) fn read(system: &Path, numbers: &[usize]) -> Result<CoreTree, TextError> {
    let mut processors = numbers.iter().map(|&number| processor(system, number)).collect::<Result<Vec<_>, _>>()?;
    if processors.is_empty() {
        return Err(TextError::new(
            "the system does not say which processors there are: give a file or fan-outs, --topology 2x4 for example",
        ));
    }
    processors.sort_by_key(|processor| processor.parts);
    Ok(CoreTree {
        name: "machine".to_owned(),
        source: format!("this machine, as {} tells, without processors that may not be used", system.display()),
        tree: tree(&processors)?,
        processors: processors.iter().map(|processor| processor.number).collect(),
        ways: None,
    })
}

fn processor(system: &Path, number: usize) -> Result<Processor, TextError> {
    let path = system.join(format!("cpu/cpu{number}"));
    if !path.join("topology").is_dir() {
        return Err(TextError::new(format!(
            "there is no {} here, so the machine's topology is not known: give a file or fan-outs, --topology 2x4 for example",
            path.join("topology").display()
        )));
    }
    let caches = caches(&path);
    // A missing part is one for all processors; a missing second-level cache or core is each
    // processor's own.
    let part = |kind: LevelKind| match kind {
        LevelKind::Socket => number_in(&path.join("topology/physical_package_id")).unwrap_or(0),
        LevelKind::Node => node(&path).unwrap_or(0),
        LevelKind::L3 => caches.get(&3).copied().unwrap_or(0),
        LevelKind::L2 => caches.get(&2).copied().unwrap_or(number),
        LevelKind::Core => first_in(&path.join("topology/thread_siblings_list")).unwrap_or(number),
        LevelKind::Thread => number,
    };
    Ok(Processor { number, parts: LevelKind::ALL.map(part) })
}

/// Returns the data caches of a processor, by level: each by the first processor that shares it.
fn caches(processor: &Path) -> BTreeMap<usize, usize> {
    let holds_data = |cache: &PathBuf| text_in(&cache.join("type")).is_some_and(|kind| kind != "Instruction");
    let entries = fs::read_dir(processor.join("cache")).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .filter(holds_data)
        .filter_map(|cache| Some((number_in(&cache.join("level"))?, first_in(&cache.join("shared_cpu_list"))?)))
        .collect()
}

/// The node of a processor: its directory has a link `node0`.
fn node(processor: &Path) -> Option<usize> {
    let names = fs::read_dir(processor).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).min()
}

fn text_in(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Returns the number that is the whole content of a file. `None`: it is negative, which the kernel
/// uses for unknown.
fn number_in(path: &Path) -> Option<usize> {
    text_in(path)?.parse().ok()
}

/// Returns the first number of a list such as `0-3,8-11`.
fn first_in(path: &Path) -> Option<usize> {
    text_in(path)?.split([',', '-']).next()?.parse().ok()
}

/// Returns the tree of processors, which are sorted by their parts. It leaves out levels equal to
/// the one above, and second-level caches that each core has for itself.
fn tree(processors: &[Processor]) -> Result<Topology, TextError> {
    let all = LevelKind::ALL.into_iter().enumerate().map(|(part, kind)| (kind, groups(processors, part)));
    let all: Vec<(LevelKind, Vec<u16>)> = all.collect();
    let cores = all.iter().find(|(kind, _)| *kind == LevelKind::Core).map(|(_, group)| group.clone());
    let mut kept: Vec<(LevelKind, Vec<u16>)> = Vec::new();
    for (kind, group) in all {
        let is_new = match kept.last() {
            Some((_, above)) => group != *above,
            None => group.iter().any(|&group| group > 0),
        };
        // The sharing of a second-level cache must be known, even if all processors share it.
        let keeps = if kind == LevelKind::L2 { Some(&group) != cores.as_ref() } else { is_new };
        if keeps {
            kept.push((kind, group));
        }
    }
    if kept.is_empty() {
        kept.push((LevelKind::Core, vec![0; processors.len()]));
    }
    let costs = usual_costs(&kept.iter().map(|&(kind, _)| kind).collect::<Vec<_>>());
    let level = |((kind, group), cost_permille)| Level { kind, group, cost_permille };
    Ok(Topology::new(kept.into_iter().zip(costs).map(level).collect())?)
}

/// Returns the groups of processors that are alike up to this part, numbered in order of
/// appearance.
fn groups(processors: &[Processor], part: usize) -> Vec<u16> {
    let mut group = 0;
    let number = |at: usize| {
        group += u16::from(at > 0 && processors[at].parts[..=part] != processors[at - 1].parts[..=part]);
        group
    };
    (0..processors.len()).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::id::{CoreId, Id};

    /// A simulated machine: for each processor its socket, node, the processors of its third-level
    /// and second-level cache, and its threads.
    fn machine(processors: &[(usize, usize, &str, &str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (number, (socket, node, l3, l2, threads)) in processors.iter().enumerate() {
            let cpu = directory.path().join(format!("cpu/cpu{number}"));
            let write = |file: &str, text: &str| {
                let path = cpu.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{text}\n")).unwrap();
            };
            write("topology/physical_package_id", &socket.to_string());
            write("topology/thread_siblings_list", threads);
            write(&format!("node{node}/is"), "there");
            for (index, level, kind, shared) in [
                (0, "1", "Data", threads),
                (1, "1", "Instruction", threads),
                (2, "2", "Unified", l2),
                (3, "3", "Unified", l3),
            ] {
                write(&format!("cache/index{index}/level"), level);
                write(&format!("cache/index{index}/type"), kind);
                write(&format!("cache/index{index}/shared_cpu_list"), shared);
            }
        }
        directory
    }

    fn kinds(tree: &Topology) -> Vec<LevelKind> {
        (1..=tree.depth()).map(|level| tree.kind(level)).collect()
    }

    #[test]
    fn two_cores_under_one_cache_are_a_flat_tree() {
        let machine = machine(&[(0, 0, "0-1", "0", "0"), (0, 0, "0-1", "1", "1")]);
        let read = read(machine.path(), &[0, 1]).unwrap();
        assert_eq!((kinds(&read.tree), read.processors), (vec![LevelKind::Core], vec![0, 1]));
        assert_eq!(read.tree.cost_permille(1), 1100);
    }

    #[test]
    fn sockets_caches_and_threads_are_found_in_the_order_of_the_tree() {
        // Two sockets of two cores of two threads, numbered across.
        let machine = machine(&[
            (0, 0, "0,2,4,6", "0,4", "0,4"),
            (1, 1, "1,3,5,7", "1,5", "1,5"),
            (0, 0, "0,2,4,6", "2,6", "2,6"),
            (1, 1, "1,3,5,7", "3,7", "3,7"),
            (0, 0, "0,2,4,6", "0,4", "0,4"),
            (1, 1, "1,3,5,7", "1,5", "1,5"),
            (0, 0, "0,2,4,6", "2,6", "2,6"),
            (1, 1, "1,3,5,7", "3,7", "3,7"),
        ]);
        let whole = read(machine.path(), &[0, 1, 2, 3, 4, 5, 6, 7]).unwrap();
        assert_eq!(kinds(&whole.tree), [LevelKind::Socket, LevelKind::Core, LevelKind::Thread]);
        assert_eq!(whole.processors, [0, 4, 2, 6, 1, 5, 3, 7]);
        let some = read(machine.path(), &[1, 2, 6]).unwrap();
        assert_eq!(kinds(&some.tree), [LevelKind::Socket, LevelKind::Thread]);
        assert_eq!(some.processors, [2, 6, 1]);
        assert_eq!(some.tree.distance_permille(CoreId(0), CoreId(1)), 1050);
        assert_eq!(some.tree.distance_permille(CoreId(0), CoreId(2)), 2000);
    }

    #[test]
    fn a_second_cache_that_all_share_is_a_level() {
        let machine = machine(&[(0, 0, "0-1", "0-1", "0"), (0, 0, "0-1", "0-1", "1")]);
        let tree = read(machine.path(), &[0, 1]).unwrap().tree;
        assert_eq!(kinds(&tree), [LevelKind::L2, LevelKind::Core]);
        assert_eq!(tree.core_distance(2), humpyard_core::policy::CoreDistance::SharedL2);
    }

    #[test]
    fn nodes_within_a_socket_come_before_caches_that_span_them() {
        let machine = machine(&[
            (0, 0, "0-3", "0", "0"),
            (0, 0, "0-3", "1", "1"),
            (0, 1, "0-3", "2", "2"),
            (0, 1, "0-3", "3", "3"),
        ]);
        let tree = read(machine.path(), &[0, 1, 2, 3]).unwrap().tree;
        assert_eq!(kinds(&tree), [LevelKind::Node, LevelKind::Core]);
        assert_eq!((0..4).map(|core| tree.group(1, CoreId::from_index(core))).collect::<Vec<_>>(), [0, 0, 1, 1]);
    }

    #[test]
    fn a_core_may_be_all_there_is_of_a_socket_or_of_the_machine() {
        let machine = machine(&[(0, 0, "0", "0", "0"), (1, 1, "1", "1", "1")]);
        let two = read(machine.path(), &[0, 1]).unwrap().tree;
        assert_eq!((kinds(&two), two.cost_permille(1)), (vec![LevelKind::Socket], 2000));
        assert_eq!(kinds(&read(machine.path(), &[1]).unwrap().tree), [LevelKind::Core]);
    }

    #[test]
    fn what_is_not_told_is_said() {
        let nowhere = tempfile::tempdir().unwrap();
        let said = read(nowhere.path(), &[0]).unwrap_err().to_string();
        assert!(said.contains("cpu/cpu0/topology here") && said.contains("--topology 2x4"), "{said}");
        assert!(read(nowhere.path(), &[]).is_err());
    }

    #[test]
    fn this_machine_has_its_processors() {
        let numbers = crate::processors();
        if Path::new(SYSTEM).join("cpu/cpu0/topology").is_dir() && !numbers.is_empty() {
            let mut found = CoreTree::machine().unwrap().processors;
            found.sort_unstable();
            assert_eq!(found, numbers);
        }
    }
}
