//! From the topology that was asked for to that of a run's cores, and to the seats of its threads.

use humpyard_core::id::{CoreId, Id};
use humpyard_core::policy::Topology;
use humpyard_runtime::{Places, Seat, Thread, places, seats};

use humpyard_topology::{CoreTree, TopologyChoice};

use crate::LabError;
use crate::choice::host::{Clock, Host};
use crate::config::RunConfig;

/// The topology of a run's cores, and where its threads sit.
#[derive(Debug)]
pub struct Placed {
    /// `None`: all cores are the same.
    pub topology: Option<Topology>,
    /// `None`: the runtime chooses.
    pub seats: Option<Vec<Seat>>,
}

impl Placed {
    const ANYWHERE: Self = Self { topology: None, seats: None };
}

/// Returns the topology of this many cores of a run, and where its threads sit.
///
/// In real time, worker `i` sits on the processor whose place in the tree it has; where nothing was asked for the tree is that
/// of the machine, as far as it is known. Else core `i` is leaf `i`.
pub fn placed(config: &RunConfig, cores: usize) -> Result<Placed, LabError> {
    let in_real_time = config.host == Host::Live && config.clock == Clock::Real;
    match &config.topology {
        Some(TopologyChoice::Flat) => Ok(Placed::ANYWHERE),
        Some(TopologyChoice::Tree(tree)) if in_real_time && !tree.processors.is_empty() => {
            on_processors(tree, config.cores)
        }
        Some(TopologyChoice::Tree(tree)) if tree.tree.cores() == cores => {
            Ok(Placed { topology: Some(tree.tree.clone()), seats: None })
        }
        Some(TopologyChoice::Tree(tree)) => {
            let (count, name) = (tree.tree.cores(), &tree.name);
            let option = if config.host == Host::Live { "@workers" } else { "@cores" };
            Err(LabError::option(format!(
                "@topology has {count} cores, and there are {cores}: have as many ({option} {count}), or give another \
                 topology than `{name}`"
            )))
        }
        None if in_real_time => Ok(CoreTree::machine().map_or(Placed::ANYWHERE, |tree| {
            // What nobody asked for keeps no run from starting.
            on_processors(&tree, config.cores).unwrap_or(Placed::ANYWHERE)
        })),
        None => Ok(Placed::ANYWHERE),
    }
}

/// Returns where the threads of several dispatchers sit, and the topology of the cores of each: that of the processors on which
/// its workers sit. `workers` has the number of workers of each dispatcher.
pub(crate) fn placed_apart(
    config: &RunConfig,
    workers: &[usize],
    writes: bool,
) -> Result<(Places, Vec<TopologyChoice>), LabError> {
    let mut places = places(workers, writes);
    let flat = || vec![TopologyChoice::Flat; workers.len()];
    let tree = match &config.topology {
        Some(TopologyChoice::Flat) => return Ok((places, flat())),
        Some(TopologyChoice::Tree(tree)) if tree.processors.is_empty() => {
            return Err(LabError::option(format!(
                "@dispatchers {} do not go with @topology {}, which names no processors, and so no part of the cores: give machine, \
                 flat or a file that names processors",
                config.dispatchers.unwrap_or(1),
                tree.name
            )));
        }
        Some(TopologyChoice::Tree(tree)) => tree.clone(),
        None => match CoreTree::machine() {
            Ok(tree) => tree,
            // What nobody asked for keeps no run from starting.
            Err(_) => return Ok((places, flat())),
        },
    };
    let mut topologies = Vec::with_capacity(workers.len());
    let mut first = 0;
    for seats in &mut places.dispatchers {
        let placed = match arranged(&tree, seats, first) {
            Err(_) if config.topology.is_none() => Placed::ANYWHERE,
            placed => placed?,
        };
        first += seats.len() - 1;
        *seats = placed.seats.unwrap_or_else(|| seats.clone());
        topologies.push(placed.topology.map_or(TopologyChoice::Flat, |topology| {
            TopologyChoice::Tree(CoreTree { tree: topology, processors: Vec::new(), ways: None, ..tree.clone() })
        }));
    }
    Ok((places, topologies))
}

/// Places this number of workers (0: the dispatcher alone) on the processors of a tree. The runtime chooses the processors;
/// neighbours stand side by side.
fn on_processors(tree: &CoreTree, workers: usize) -> Result<Placed, LabError> {
    arranged(tree, &seats(workers), 0)
}

/// The dispatcher and its workers in these seats, the first of whom has this number.
fn arranged(tree: &CoreTree, seats: &[Seat], first: usize) -> Result<Placed, LabError> {
    let workers = if seats.len() > 1 { &seats[1..] } else { seats };
    let mut leaves = Vec::new();
    for seat in workers {
        // Where the system does not say who sits where, nobody is near anybody.
        let Some(processor) = seat.processor else { return Ok(Placed::ANYWHERE) };
        let leaf = tree.processors.iter().position(|&other| other == processor).ok_or_else(|| {
            LabError::option(format!(
                "@topology {}: it has no processor {processor}, on which {} sits: measure this machine, or use fan-outs such \
                 as 2x4, which name no processors",
                tree.name, seat.thread
            ))
        })?;
        leaves.push(CoreId::from_index(leaf));
    }
    let order = tree.tree.arrange(&leaves);
    let arranged: Vec<CoreId> = order.iter().map(|&at| leaves[at]).collect();
    let topology = Some(tree.tree.select(&arranged)?);
    if seats.len() == 1 {
        return Ok(Placed { topology, seats: Some(seats.to_vec()) });
    }
    let worker = |(number, &at): (usize, &usize)| Seat { thread: Thread::Worker(first + number), ..workers[at] };
    let seats = core::iter::once(seats[0]).chain(order.iter().enumerate().map(worker)).collect();
    Ok(Placed { topology, seats: Some(seats) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two processors, numbered across.
    const ACROSS: &str =
        "version = 1\nlevels = [{ kind = \"socket\" }, { kind = \"core\" }]\ncores = [[0, 2], [1, 3]]\n";

    fn seats_of(processors: &[usize]) -> Vec<Seat> {
        let thread = |at: usize| at.checked_sub(1).map_or(Thread::Dispatcher, Thread::Worker);
        let seat = |(at, &processor)| Seat { thread: thread(at), processor: Some(processor), shared: false };
        processors.iter().enumerate().map(seat).collect()
    }

    fn workers(placed: &Placed) -> Vec<usize> {
        placed.seats.as_ref().unwrap()[1..].iter().map(|seat| seat.processor.unwrap()).collect()
    }

    #[test]
    fn a_worker_has_the_place_of_its_processor() {
        let tree = CoreTree::parse("t.toml", ACROSS).unwrap();
        for (processors, sits) in
            [(&[0, 1, 2, 3][..], &[1, 3, 2][..]), (&[0, 1, 2, 3, 0, 1, 2], &[1, 1, 3, 2, 2, 0]), (&[0, 3], &[3])]
        {
            let placed = arranged(&tree, &seats_of(processors), 0).unwrap();
            assert_eq!(workers(&placed), sits);
            let topology = placed.topology.unwrap();
            for (a, &one) in sits.iter().enumerate() {
                for (b, &other) in sits.iter().enumerate() {
                    let leaf =
                        |processor| CoreId::from_index(tree.processors.iter().position(|&p| p == processor).unwrap());
                    let expected = tree.tree.distance_permille(leaf(one), leaf(other));
                    let cost = topology.distance_permille(CoreId::from_index(a), CoreId::from_index(b));
                    assert_eq!(cost, expected, "workers {a} and {b} on {one} and {other}");
                }
            }
            let threads: Vec<Thread> = placed.seats.unwrap().iter().map(|seat| seat.thread).collect();
            assert_eq!(threads, seats_of(processors).iter().map(|seat| seat.thread).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_dispatcher_alone_is_a_core() {
        let tree = CoreTree::parse("t.toml", ACROSS).unwrap();
        let placed = arranged(&tree, &seats_of(&[3]), 0).unwrap();
        assert_eq!((placed.topology.unwrap().cores(), placed.seats.unwrap().len()), (1, 1));
    }

    #[test]
    fn processors_that_a_file_does_not_have_are_told() {
        let tree = CoreTree::parse("t.toml", ACROSS).unwrap();
        let said = arranged(&tree, &seats_of(&[0, 7]), 0).unwrap_err().to_string();
        assert!(said.starts_with("topology t.toml: it has no processor 7, on which worker 0 sits"), "{said}");
    }

    #[test]
    fn live_runs_have_the_machine_and_others_none() {
        let config = |host| RunConfig::new(host, "gen:poisson", "hrw".parse().unwrap());
        assert!(placed(&config(Host::Sim), 2).unwrap().topology.is_none());
        let mut live = config(Host::Live);
        if let Ok(machine) = CoreTree::machine() {
            let workers = live.cores;
            let placed = placed(&live, workers).unwrap();
            assert_eq!(placed.topology.unwrap().cores(), workers);
            let seats = placed.seats.unwrap();
            assert!(seats.iter().all(|seat| machine.processors.contains(&seat.processor.unwrap())));
        }
        live.clock = Clock::Virtual;
        assert!(placed(&live, 2).unwrap().topology.is_none());
        live.topology = Some("2x4".parse().unwrap());
        let said = placed(&live, 2).unwrap_err().to_string();
        assert!(said.starts_with("topology has 8 cores, and there are 2: have as many (workers 8)"), "{said}");
    }
}
