//! Flows that move between the cores of a topology.

use humpyard_core::cost::MovePenalties;
use humpyard_core::measure::{MoveSummary, Summary};
use humpyard_core::policy::Topology;

use crate::support::{Outcome, Sim, capture};

const PENALTIES: MovePenalties = MovePenalties { shared_l2: 50, same_socket: 250, other_socket: 450 };
/// Packets of one flow, 10 us apart, of 100 bytes.
const PACKETS: u32 = 800;

fn e5355() -> Topology {
    Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).expect("a tree")
}

fn of_one_flow(policy: &str, topology: Option<&Topology>, moves: MovePenalties) -> Outcome {
    let packets: Vec<(u32, u8)> = (0..PACKETS).map(|at| (10 * at, 100)).collect();
    Sim { policy, cores: 8, topology, moves, ..Sim::default() }.of_capture(&capture(&packets))
}

fn busy_ns(summary: &Summary) -> f64 {
    summary.cores_detail.iter().map(|core| core.utilization * summary.duration_ns as f64).sum()
}

/// From core to core in turn: of eight moves, four stay within a cache, two within a socket, and
/// two cross sockets.
#[test]
fn round_robin_moves_a_flow_with_every_packet() {
    let tree = e5355();
    let summary = of_one_flow("rr", Some(&tree), PENALTIES).measured.summary();
    let cache = summary.cache.expect("there is a topology");
    let moved = |packets: u32| MoveSummary { packets: u64::from(packets), bytes: 100 * u64::from(packets) };
    // The first packet is no move, so the last step to core 0 is missing.
    let expected = (moved(PACKETS / 2), moved(PACKETS / 4), moved(PACKETS / 4 - 1));
    assert_eq!((cache.shared_l2, cache.same_socket, cache.other_socket), expected);
    assert_eq!(cache.moves, u64::from(PACKETS) - 1);
    assert_eq!(cache.bytes_away_fraction, f64::from(PACKETS / 2 - 1) / f64::from(PACKETS));
    let charged = [(PACKETS, 1000.0), (PACKETS / 2, 50.0), (PACKETS / 4, 250.0), (PACKETS / 4 - 1, 450.0)];
    let work: f64 = charged.iter().map(|&(packets, ns)| f64::from(packets) * ns).sum();
    assert!((busy_ns(&summary) - work).abs() < 1.0, "{} {work}", busy_ns(&summary));
}

#[test]
fn a_flow_that_stays_pays_nothing() {
    let tree = e5355();
    let mut with = of_one_flow("hrw", Some(&tree), PENALTIES).measured.summary();
    let cache = with.cache.take().expect("there is a topology");
    assert_eq!((cache.moves, cache.bytes_away), (0, 0));
    let without = of_one_flow("hrw", None, MovePenalties::NONE).measured.summary();
    assert_eq!(with, without);
}

#[test]
fn without_a_topology_moves_are_neither_counted_nor_charged() {
    let summary = of_one_flow("rr", None, PENALTIES).measured.summary();
    assert_eq!(summary.cache, None);
    assert!((busy_ns(&summary) - 1000.0 * f64::from(PACKETS)).abs() < 1.0);
}
