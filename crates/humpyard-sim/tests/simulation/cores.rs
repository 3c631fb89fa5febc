//! Several cores: order, balance, isolation.

use humpyard_core::cost::LinearCost;
use humpyard_core::measure::ServiceSummary;
use humpyard_core::mechanism::{FlowOrder, Limits};
use humpyard_traffic::Match;

use crate::support::{Service, Sim, UNIT};

/// Nearly as much as eight cores can do, were they loaded evenly.
const BUSY: &str = "gen:messages:packets=50000,pps=6000000";

#[test]
fn locality_keeps_order_on_any_number_of_cores() {
    for policy in ["hrw", "conn", "drr", "sfq", "steer=hrw/share=sfq"] {
        for cores in [1, 2, 3, 8, 64] {
            let outcome = Sim { policy, cores, input: BUSY, packets: 8000, ..Sim::default() }.go();
            let summary = outcome.measured.summary();
            assert_eq!(summary.order.out_of_order, 0, "{policy} {cores}");
            assert_eq!(summary.cores_detail.len(), cores);
        }
    }
}

#[test]
fn round_robin_loads_cores_alike_and_breaks_order() {
    for cores in [2, 3, 8] {
        let summary = Sim { policy: "rr", cores, input: BUSY, packets: 8000, ..Sim::default() }.go().measured.summary();
        let packets = || summary.cores_detail.iter().map(|core| core.packets);
        assert!(packets().max() <= packets().min().map(|least| least + 1), "{:?}", summary.cores_detail);
        for core in &summary.cores_detail {
            let busy_ns = core.utilization * summary.duration_ns as f64;
            assert!((busy_ns - 1000.0 * core.packets as f64).abs() < 1.0, "{core:?}");
        }
    }
    // Packets of many lengths, so that later ones overtake others.
    let services: &[Service] =
        &[(Match::Any, LinearCost { fixed: 100, per_byte_milli: 1000, cold: 0 }, 2_000_000, 1_000_000)];
    let sim = Sim { policy: "rr", cores: 8, input: BUSY, packets: 8000, services, ..Sim::default() };
    assert!(sim.go().measured.summary().order.out_of_order > 0);
}

/// RIVALS: 8 cores do 80 packets of 100 ns in a microsecond, and 47.1 if each takes 10 ns more for every
/// other core. That all packets are of one flow changes nothing.
#[test]
fn history_takes_time_on_every_core_and_skew_takes_none() {
    let services: &[Service] = &[(Match::Any, LinearCost { fixed: 100, ..UNIT }, 2_000_000, 1_000_000)];
    let input = "gen:poisson:flows=1,packets=100000,pps=200000000";
    for (policy, expected) in [("scr", 47.06), ("scr:history=0", 80.0), ("rr", 80.0), ("hrw", 10.0)] {
        let sim = Sim { policy, cores: 8, input, services, flow_order: FlowOrder::Free, ..Sim::default() };
        let measured = sim.go().measured;
        let found = measured.account().processed as f64 * 1e3 / measured.summary().duration_ns as f64;
        assert!((found / expected - 1.0).abs() < 0.01, "{policy}: {found} packets a microsecond, not {expected}");
    }
}

/// A service with two of three cores, beside a service that has little work or far too much.
#[test]
fn a_static_allocation_isolates_services() {
    let limits = Limits::default().with_queue(500);
    let beside = |other_ns| -> ServiceSummary {
        let other = LinearCost { fixed: other_ns, ..UNIT };
        let services: &[Service] = &[(Match::Tcp, UNIT, 2_000_000, 666_667), (Match::Any, other, 2_000_000, 333_333)];
        let input = "gen:messages:packets=50000,pps=2000000";
        let outcome = Sim { policy: "static", cores: 3, input, services, limits, ..Sim::default() }.go();
        let overloaded = outcome.measured.account().dropped_total() > 0;
        assert_eq!(overloaded, other_ns > 1000, "{:?}", outcome.measured.account());
        let summary = outcome.measured.summary();
        assert!(summary.services[1].packets > 500);
        assert_eq!(summary.cores_detail[2].packets, summary.services[1].packets);
        assert_eq!(summary.cold_fraction, 3.0 / outcome.measured.account().processed as f64, "no core ever switches");
        summary.services[0].clone()
    };
    assert_eq!(beside(100), beside(50_000));
}

#[test]
fn a_core_that_goes_to_another_service_is_cold() {
    let cost = LinearCost { cold: 500, ..UNIT };
    let services: &[Service] = &[(Match::Tcp, cost, 2_000_000, 500_000), (Match::Any, cost, 2_000_000, 500_000)];
    let input = "gen:messages:packets=20000,pps=500000";
    let summary = Sim { services, input, ..Sim::default() }.go().measured.summary();
    let core = summary.cores_detail[0];
    assert!(core.cold > 1000 && core.cold < 20_000, "{core:?}");
    let busy_ns = core.utilization * summary.duration_ns as f64;
    assert!((busy_ns - (20_000_000.0 + 500.0 * core.cold as f64)).abs() < 1.0, "{core:?}");
    assert_eq!(summary.cold_fraction, core.cold as f64 / 20_000.0);
}
