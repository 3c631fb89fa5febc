//! Packets that are dropped are late, and have no delay.

use humpyard_core::measure::DelayOffered;
use humpyard_core::mechanism::Limits;

use crate::support::{Sim, capture};

/// Ten packets come at once. Each takes 1000 ns, and the queue has room for seven.
#[test]
fn what_is_dropped_is_late_and_beyond_every_delay() {
    let ten = capture(&[(5, 60); 10]);
    let limits = Limits::default().with_queue(7);
    let outcome = Sim { limits, ..Sim::default() }.of_capture(&ten);
    let summary = outcome.measured.summary();
    assert_eq!(outcome.measured.account().dropped_total(), 3);
    let late = summary.late;
    assert_eq!((late.count, late.lost, late.packets, late.fraction), (3, 3, 10, 0.3));
    assert_eq!(summary.services[0].late, late);
    let DelayOffered { p50, p90, p99, p999, .. } = summary.delay_offered_ns;
    assert!(p50.is_some_and(|ns| (5000..5050).contains(&ns)), "{p50:?}");
    assert_eq!((p90, p99, p999), (None, None, None));
    assert_eq!(summary.services[0].delay_offered_ns, summary.delay_offered_ns);
    assert!((6900..=7000).contains(&summary.delay_ns.p90), "of those that were served: {:?}", summary.delay_ns);
}

#[test]
fn without_loss_the_percentiles_are_the_same() {
    let summary = Sim { input: "gen:poisson:packets=5000,pps=900000", ..Sim::default() }.go().measured.summary();
    let (delay, offered) = (summary.delay_ns, summary.delay_offered_ns);
    let known = [delay.p50, delay.p90, delay.p99, delay.p999].map(Some);
    assert_eq!([offered.p50, offered.p90, offered.p99, offered.p999], known);
    assert_eq!((summary.late.lost, summary.late.packets), (0, 5000));
}

/// A packet that waited and was pushed out counts as lost, like one that was never accepted.
#[test]
fn what_is_pushed_out_is_late_once() {
    let limits = Limits::default().with_when_full(humpyard_core::mechanism::WhenFull::LongestQueue);
    let input = "gen:poisson:packets=20000,pps=3M,flows=16";
    let outcome = Sim { policy: "drr", input, packets: 64, limits, ..Sim::default() }.go();
    let (account, summary) = (outcome.measured.account(), outcome.measured.summary());
    assert!(account.dropped(humpyard_core::mechanism::DropReason::PushedOut) > 1000, "{account:?}");
    assert_eq!((summary.late.lost, summary.late.packets), (account.dropped_total(), 20_000));
    assert_eq!(summary.late.count, summary.late.lost, "64 packets take 64 us, of 2 ms that are tolerated");
}
