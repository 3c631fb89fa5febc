//! One queue of equal packets with Poisson arrivals: against the formula for M/D/1, and against
//! exact recursions.

use humpyard_core::mechanism::FlowOrder;

use crate::support::{Sim, arrivals};

/// Load 0.9 of one core, long enough for the mean to settle.
const LONG: &str = "gen:poisson:flows=64,packets=1000000,pps=900000";

/// Sojourn times in ns of packets that each take 1000 ns, served in order by `cores` cores.
fn sojourns(arrivals: &[u64], cores: usize) -> Vec<u64> {
    let mut free = vec![0; cores];
    let sojourn = |&arrival: &u64| {
        let earliest = free.iter_mut().min().expect("a core");
        *earliest = arrival.max(*earliest) + 1000;
        *earliest - arrival
    };
    arrivals.iter().map(sojourn).collect()
}

fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len() as f64
}

/// Pollaczek and Khinchine: at load u the mean sojourn is 1 + u / (2 (1 - u)) service times, here
/// 5.5. The order of equal packets does not change the mean.
#[test]
fn mean_sojourn_is_that_of_theory_whatever_the_policy() {
    let means: Vec<f64> = ["fcfs", "drr", "sfq"]
        .map(|policy| {
            let outcome = Sim { policy, input: LONG, ..Sim::default() }.go();
            assert_eq!(outcome.measured.account().processed, 1_000_000, "{policy}");
            let summary = outcome.measured.summary();
            assert!((summary.cores_detail[0].utilization - 0.9).abs() < 0.005, "{policy}: {summary:?}");
            summary.delay_ns.mean
        })
        .into();
    assert!((means[0] / 5500.0 - 1.0).abs() < 0.03, "{means:?}");
    assert!(means.iter().all(|&mean| mean == means[0]), "{means:?}");
}

#[test]
fn first_come_first_served_is_the_recursion_to_the_nanosecond() {
    for (cores, pps) in [(1, 900_000), (2, 1_900_000), (4, 3_500_000)] {
        let input = format!("gen:poisson:packets=50000,pps={pps}");
        let expected = sojourns(&arrivals(&input), cores);
        let delay = Sim { input: &input, cores, ..Sim::default() }.go().measured.summary().delay_ns;
        assert_eq!((delay.mean, delay.max), (mean(&expected), expected.iter().copied().max().unwrap()), "{cores}");
    }
}

/// Packets are equal, and no core is idle while one waits. So the number of packets in the system
/// is the same at each instant, and the mean sojourn and the end are those of first come first
/// served.
#[test]
fn sharing_policies_conserve_work() {
    for (cores, pps) in [(1, 950_000), (3, 2_900_000)] {
        let input = format!("gen:poisson:flows=32,packets=50000,pps={pps}");
        let run = |policy| {
            let sim = Sim { policy, input: &input, cores, flow_order: FlowOrder::Free, ..Sim::default() };
            let summary = sim.go().measured.summary();
            (summary.delay_ns.mean, summary.duration_ns, summary.bytes)
        };
        for policy in ["drr", "drr:surplus=true", "sfq"] {
            assert_eq!(run(policy), run("fcfs"), "{policy} {cores}");
        }
    }
}

#[test]
fn overload_fills_the_buffer_and_the_core() {
    for policy in ["fcfs", "drr", "sfq", "hrw"] {
        let sim = Sim { policy, input: "gen:poisson:packets=50000,pps=2000000", packets: 100, ..Sim::default() };
        let outcome = sim.go();
        let (account, summary) = (outcome.measured.account(), outcome.measured.summary());
        assert!((account.dropped_total() as f64 / 25_000.0 - 1.0).abs() < 0.03, "{policy}: {account:?}");
        assert!(summary.cores_detail[0].utilization > 0.999, "{policy}: {summary:?}");
        assert!(summary.services[0].queue_max <= 100);
        assert!(summary.delay_ns.mean > 90_000.0 && summary.delay_ns.mean <= 100_000.0, "{policy}: {summary:?}");
        if policy == "fcfs" {
            assert_eq!(summary.delay_ns.max, 100_000, "a full buffer, and none longer");
        }
    }
}
