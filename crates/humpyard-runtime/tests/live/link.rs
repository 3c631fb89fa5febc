//! The link behind the cores in real time: its rate, its shares, its account, and frames that
//! services make.

use std::collections::BTreeSet;

use humpyard_core::frame::Frame;
use humpyard_runtime::Overload;
use humpyard_traffic::Headers;
use humpyard_traffic::pace::Pace;

use crate::support::{Run, frames};

/// Two clients with 3 to 1 of cores and link, and both want all of it. The cores are far faster
/// than the link, so without withholding much of their work would be wasted.
#[test]
fn who_is_over_its_share_of_the_link_is_withheld_and_nothing_is_lost() {
    const INPUT: &str = "gen:poisson:flows=2,length=1000,packets=600";
    const RATE: u64 = 4_000_000;
    let first = Headers::parse(&frames(INPUT)[0]).key;
    let is_first = |frame: &&Frame| Headers::parse(frame).key == first;
    for workers in [0, 2] {
        let run = Run {
            policy: "efq",
            input: INPUT,
            workers,
            in_flight: 1,
            weights: &[3, 1],
            link: Some((RATE, Some(32))),
            ..Run::default()
        };
        let (outcome, frames) = run.go();
        assert_eq!(frames.len(), 600);
        let link = outcome.link.expect("there is a link");
        assert_eq!((link.account.arrived, link.account.dropped_total()), (600, 0));
        // Compared while both have packets: at least until 250 packets of the first client and a
        // third as many of the other have left.
        let share = frames[..300].iter().filter(is_first).count() as f64 / 300.0;
        assert!((0.65..0.85).contains(&share), "{workers} workers: {share}");
        assert!(link.withheld > 4 && link.waiting_max <= 34, "{} times, {} waiting", link.withheld, link.waiting_max);
        // Each packet takes 2 ms, never less.
        let least = 8_000_000_000 * link.summary.bytes / RATE;
        assert!(outcome.wall.as_nanos() as u64 >= least && link.summary.duration_ns >= least, "{:?}", outcome.wall);
        assert!(link.summary.cores_detail[0].utilization > 0.9, "{:?}", link.summary.cores_detail);
    }
}

#[test]
fn what_finds_no_room_at_the_link_is_dropped_and_counted() {
    for workers in [0, 2] {
        let pace = Some(Pace::PacketsPerSecond(1e9));
        let overload = Overload::Drop;
        let link = Some((50_000_000, None));
        let (outcome, _) = Run { policy: "fcfs", workers, pace, overload, link, ..Run::default() }.go();
        let link = outcome.link.expect("there is a link");
        assert!(link.account.dropped_total() > 0, "{:?}", link.account);
        assert_eq!(outcome.measured.account().arrived, 20_000);
    }
}

#[test]
fn who_waits_for_room_drops_nothing_at_the_link_either() {
    for (policy, workers, packets, queue) in
        [("drr", 2, 2, Some(1)), ("hrw", 2, 64, None), ("efq", 0, 40, Some(3)), ("fcfs", 1, 1, None)]
    {
        let link = Some((200_000_000, queue));
        let input = "gen:messages:packets=4000";
        let (outcome, _) = Run { policy, workers, packets, input, link, ..Run::default() }.go();
        let link = outcome.link.expect("there is a link");
        assert_eq!(outcome.measured.account().processed, 4000, "{policy} {workers} {packets}");
        assert_eq!(link.account.dropped_total(), 0, "{policy} {workers} {packets}: {:?}", link.account);
    }
}

/// Frames that services make take their time on the link: both those of packets that go on and
/// those of packets that end.
#[test]
fn what_services_make_goes_by_the_link() {
    for (service, input) in
        [("fec:code=8+2", "gen:poisson:flows=4,packets=3000"), ("forward", "gen:messages:packets=5000")]
    {
        let link = Some((1_000_000_000, Some(8)));
        let (outcome, frames) = Run { policy: "drr", service, input, link, ..Run::default() }.go();
        let link = outcome.link.expect("there is a link");
        assert!(outcome.out.generated > 0, "{service}");
        assert_eq!(link.account.arrived, outcome.out.forwarded, "{service}: {:?}", link.account);
        let bytes: u64 = frames.iter().map(|frame| u64::from(frame.wire_length)).sum();
        assert_eq!(link.summary.bytes, bytes, "{service}: each frame is as long as it is");
        let lengths: BTreeSet<u32> = frames.iter().map(|frame| frame.wire_length).collect();
        assert!(lengths.len() > 1, "{service}: {lengths:?}");
    }
}
