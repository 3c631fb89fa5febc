//! What services find out about flows, and its effects.

use humpyard_core::frame::Frame;
use humpyard_core::id::ServiceId;
use humpyard_core::unit::Weight;
use humpyard_services::{Context, DropReason, Factory, Generated, Mark, Service, Verdict};
use humpyard_traffic::test_captures::traces_directory;

use crate::support::Run;

/// Marks every flow so that later packets go to the second service, and sets the weight of its
/// client.
struct Marking;

impl Service for Marking {
    fn process(&mut self, _: &mut Frame, _: &Context, generated: &mut Generated) -> Verdict {
        generated.mark(Mark { weight: Weight::new(7), service: Some(ServiceId(1)), fwmark: None });
        Verdict::Forward
    }
}

/// Drops everything.
struct Closing;

impl Service for Closing {
    fn process(&mut self, _: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
        Verdict::Drop(DropReason::RuleDenied)
    }
}

/// The packets of a flow that are classified after its mark go to the other service. With one
/// packet at a time, these are all but the first of each flow.
#[test]
fn a_mark_sends_later_packets_to_another_service() {
    for (policy, workers) in [("drr", 0), ("hrw", 2)] {
        let run = Run {
            policy,
            workers,
            packets: 1,
            in_flight: 1,
            input: "gen:messages:packets=5000",
            factory: Some(|| Factory::new("marking", || Marking)),
            second: Some(|| Factory::new("closing", || Closing)),
            ..Run::default()
        };
        let (outcome, frames) = run.go();
        assert_eq!(frames.len() as u64, outcome.flows, "{policy}: the first of each flow");
        let dropped: u64 = outcome.out.dropped().map(|(_, count)| count).sum();
        assert_eq!(dropped, 5000 - outcome.flows, "{policy}");
    }
}

/// Marks every flow for other programs at its first packet. Another service, which marks nothing,
/// serves the rest.
struct Branding;

impl Service for Branding {
    fn process(&mut self, _: &mut Frame, _: &Context, generated: &mut Generated) -> Verdict {
        generated.mark(Mark { weight: None, service: Some(ServiceId(1)), fwmark: Some(9) });
        Verdict::Forward
    }
}

/// Lets everything pass.
struct Passing;

impl Service for Passing {
    fn process(&mut self, _: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
        Verdict::Forward
    }
}

#[test]
fn a_firewall_mark_is_on_the_packet_that_brought_it_and_on_all_later_ones_of_its_flow() {
    for (policy, workers) in [("drr", 0), ("hrw", 2)] {
        let run = Run {
            policy,
            workers,
            input: "gen:messages:packets=5000",
            factory: Some(|| Factory::new("branding", || Branding)),
            second: Some(|| Factory::new("passing", || Passing)),
            ..Run::default()
        };
        let (_, frames) = run.go();
        assert_eq!(frames.len(), 5000, "{policy}");
        assert!(frames.iter().all(|frame| frame.mark == Some(9)), "{policy}");
        let (_, frames) = Run { factory: Some(|| Factory::new("passing", || Passing)), ..run }.go();
        assert!(frames.iter().all(|frame| frame.mark.is_none()), "{policy}");
    }
}

/// Packets that overtake each other on the way to four workers do not cost `l7-filter` any verdict.
#[test]
#[expect(clippy::print_stderr, reason = "a test that skips must say so")]
fn verdicts_are_not_lost_where_packets_overtake_each_other() {
    let Some(directory) = traces_directory() else {
        eprintln!("SKIPPED verdicts_are_not_lost_where_packets_overtake_each_other: there are no real captures");
        return;
    };
    let input = directory.join("protocols/bittorrent.pcap");
    for policy in ["rr", "rr", "rr", "ps-hrw", "jsq"] {
        let run = Run {
            policy,
            workers: 4,
            input: input.to_str().expect("a path that is text"),
            service: "l7-filter",
            ..Run::default()
        };
        let (outcome, _) = run.go();
        let counters = outcome.counters.of(ServiceId(0));
        let count = |name: &str| counters.get(name).copied();
        assert_eq!(
            (count("connections"), count("protocol_bittorrent")),
            (Some(24), Some(24)),
            "{policy}: {counters:?}"
        );
    }
}
