//! Events of one instant and at exact boundaries, calculated by hand.

use humpyard_core::cost::LinearCost;
use humpyard_traffic::Match;
use humpyard_traffic::pace::Pace;

use crate::support::{Service, Sim, UNIT, capture};

#[test]
fn a_packet_is_late_beyond_its_tolerance_and_not_at_it() {
    // Three at once on one core: delays of 1000, 2000 and 3000 ns.
    let three = capture(&[(0, 14); 3]);
    for (tolerance_ns, late) in [(0, 3), (999, 3), (1000, 2), (1999, 2), (2000, 1), (2999, 1), (3000, 0)] {
        let services: &[Service] = &[(Match::Any, UNIT, tolerance_ns, 1_000_000)];
        let summary = Sim { services, ..Sim::default() }.of_capture(&three).measured.summary();
        assert_eq!((summary.late.count, summary.services[0].late.count), (late, late), "{tolerance_ns}");
        assert_eq!(summary.late.fraction, late as f64 / 3.0);
        assert_eq!((summary.delay_ns.max, summary.delay_ns.mean), (3000, 2000.0));
        assert_eq!(summary.duration_ns, 3000);
    }
}

/// Each packet comes at the instant the one before it is done: it finds the core idle.
#[test]
fn a_core_that_is_done_serves_what_arrives_at_that_instant() {
    for policy in ["fcfs", "drr", "sfq", "rr", "hrw", "conn", "static"] {
        let sim = Sim { policy, pace: Pace::PacketsPerSecond(1e6), packets: 2, ..Sim::default() };
        let outcome = sim.go();
        let summary = outcome.measured.summary();
        assert_eq!(outcome.measured.account().dropped_total(), 0, "{policy}");
        assert_eq!((summary.delay_ns.mean, summary.delay_ns.max), (1000.0, 1000), "{policy}");
        assert_eq!(summary.cores_detail[0].utilization, 1.0, "{policy}");
        assert_eq!(summary.services[0].queue_max, 1, "{policy}");
    }
}

/// All packets of an instant are there before a core asks, and cores ask in ascending order.
#[test]
fn cores_are_asked_when_all_of_an_instant_have_arrived() {
    let outcome = Sim { cores: 2, ..Sim::default() }.of_capture(&capture(&[(0, 14), (0, 15), (0, 16), (5, 17)]));
    let summary = outcome.measured.summary();
    assert_eq!(summary.services[0].queue_max, 3);
    // Two at once, the third when they are done, on the first core again; the fourth too, long after.
    let packets: Vec<u64> = summary.cores_detail.iter().map(|core| core.packets).collect();
    assert_eq!(packets, [3, 1]);
    assert_eq!((summary.delay_ns.max, summary.duration_ns), (2000, 6000));
}

#[test]
fn cost_grows_with_length() {
    let cost = LinearCost { fixed: 100, per_byte_milli: 2500, cold: 40 };
    let services: &[Service] = &[(Match::Any, cost, 2_000_000, 1_000_000)];
    let outcome = Sim { services, ..Sim::default() }.of_capture(&capture(&[(0, 14), (10, 100)]));
    let summary = outcome.measured.summary();
    // The first packet of a core finds it cold: 100 + 35 + 40, then 100 + 250.
    assert_eq!((summary.delay_ns.p50, summary.delay_ns.max), (175, 350));
    assert_eq!(summary.duration_ns, 10_350);
    assert_eq!((summary.bytes, summary.throughput_bps), (114, 114.0 * 8e9 / 10_350.0));
}

#[test]
fn a_pace_moves_arrivals_alone() {
    let at = |pace| Sim { pace, ..Sim::default() }.of_capture(&capture(&[(0, 14), (10, 14), (30, 14)]));
    for (pace, duration_ns) in [
        (Pace::Trace, 31_000),
        (Pace::Stretched(2.0), 61_000),
        (Pace::Stretched(0.01), 3_000),
        (Pace::PacketsPerSecond(1e6), 3_000),
        (Pace::PacketsPerSecond(1e5), 21_000),
    ] {
        let outcome = at(pace);
        assert_eq!(outcome.measured.summary().duration_ns, duration_ns, "{pace:?}");
        assert_eq!(outcome.measured.account().processed, 3);
    }
}

#[test]
fn the_end_of_all_time_is_survived() {
    // One packet in 300 years: the third would come after the last ns that the clock can express.
    for policy in ["rr", "hrw", "drr", "sfq", "static"] {
        let outcome = Sim { policy, cores: 2, pace: Pace::PacketsPerSecond(1e-10), ..Sim::default() }.go();
        assert!(outcome.measured.account().arrived == 100_000, "{policy}");
        assert!(outcome.measured.account().processed > 4, "{policy}");
    }
}
