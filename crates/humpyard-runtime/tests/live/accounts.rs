//! No packet is lost or counted twice, for any number of threads and any room.

use humpyard_core::frame::Frame;
use humpyard_core::mechanism::{DropReason, ExitOrder, Limits};
use humpyard_core::unit::Time;
use humpyard_policies::registry;
use humpyard_runtime::{Overload, Thread};
use humpyard_traffic::pace::Pace;

use crate::support::{Outcome, Run};

/// Far more than any machine takes: everything is due at once.
const TOO_FAST: Option<Pace> = Some(Pace::PacketsPerSecond(1e9));

#[test]
fn every_policy_accounts_for_every_packet() {
    for entry in registry::entries() {
        for workers in 0..=3 {
            let (outcome, _) = Run { policy: entry.info.name, workers, ..Run::default() }.go();
            let account = outcome.measured.account();
            assert_eq!((account.arrived, account.processed), (20_000, 20_000), "{} {workers}", entry.info.name);
            assert!(outcome.out.generated > 0, "the traffic has packets that expire, and is answered");
            assert!(!outcome.interrupted && outcome.damage.is_none());
        }
    }
}

#[test]
fn what_finds_no_room_is_dropped_and_counted() {
    for policy in ["rr", "hrw", "drr", "fcfs"] {
        for workers in [0, 1, 3] {
            let run = Run { policy, workers, packets: 8, pace: TOO_FAST, overload: Overload::Drop, ..Run::default() };
            let (outcome, _) = run.go();
            let account = outcome.measured.account();
            assert_eq!(account.arrived, 20_000);
            assert!(account.dropped(DropReason::BufferFull) > 0, "{policy} {workers}: {account:?}");
            assert!(account.processed > 0, "{policy} {workers}: {account:?}");
        }
    }
}

#[test]
fn limits_of_queues_and_clients_have_reasons_of_their_own() {
    let run = Run { workers: 1, pace: TOO_FAST, overload: Overload::Drop, in_flight: 1, ..Run::default() };
    let (outcome, _) = Run { policy: "drr", limits: Limits::default().with_queue(64).with_client(2), ..run }.go();
    let account = outcome.measured.account();
    assert!(account.dropped(DropReason::ClientFull) > 0, "{account:?}");
    let (outcome, _) = Run { policy: "fcfs", limits: Limits::default().with_queue(4), ..run }.go();
    let account = outcome.measured.account();
    assert!(account.dropped(DropReason::QueueFull) > 0, "{account:?}");
    assert_eq!(account.dropped(DropReason::ClientFull), 0, "{account:?}");
}

#[test]
fn who_waits_for_room_drops_nothing() {
    for (policy, workers, packets, in_flight) in
        [("hrw", 2, 1, 1), ("drr", 3, 2, 7), ("rr", 0, 1, 1), ("fcfs", 1, 5, 1), ("conn", 3, 40, 200)]
    {
        let input = "gen:messages:packets=4000";
        let (outcome, _) = Run { policy, workers, packets, in_flight, input, ..Run::default() }.go();
        let account = outcome.measured.account();
        assert_eq!((account.processed, account.dropped_total()), (4_000, 0), "{policy} {workers} {packets}");
    }
}

#[test]
fn one_worker_does_what_the_dispatcher_does_alone() {
    for service in ["forward", "forward:routes=10.0.0.0/8=local;::/0=unreachable"] {
        let verdicts = |workers| {
            let run = Run { policy: "fcfs", workers, service, ..Run::default() };
            let (outcome, frames) = run.go();
            let out = outcome.out;
            let dropped: Vec<_> = out.dropped().collect();
            (out.processed, out.generated, out.forwarded, out.consumed, dropped, frames)
        };
        assert!(verdicts(0) == verdicts(1), "{service}");
    }
}

#[test]
fn more_workers_than_processors_take_turns() {
    for policy in ["rr", "drr", "static"] {
        let (outcome, _) = Run { policy, workers: 8, ..Run::default() }.go();
        assert_eq!(outcome.measured.account().processed, 20_000);
        let threads: Vec<Thread> = outcome.seats.iter().map(|seat| seat.thread).collect();
        assert_eq!(threads[0], Thread::Dispatcher);
        assert_eq!(threads[1..], [0, 1, 2, 3, 4, 5, 6, 7].map(Thread::Worker));
        let summary = outcome.measured.summary();
        assert_eq!(summary.cores_detail.len(), 8);
        if policy == "rr" {
            assert!(summary.cores_detail.iter().all(|core| core.packets == 2500), "{:?}", summary.cores_detail);
        }
    }
}

/// Policies with their own loop and others, with an exit and with packets that services drop.
#[test]
fn a_policys_own_loop_does_what_the_loop_for_all_does() {
    let exit = Some(ExitOrder { packets: 64, timeout: Time::from_ns(1_000_000_000) });
    for policy in ["hrw", "conn", "drr", "fcfs", "wfq", "steer=hrw/share=drr"] {
        for (service, exit) in [("forward", None), ("forward", exit), ("firewall:rules=deny+udp", None)] {
            let run = Run { policy, service, exit, workers: 0, ..Run::default() };
            let (own, frames) = run.go();
            let (all, same_frames) = Run { in_general: true, ..run }.go();
            assert_eq!(own.measured.account(), all.measured.account(), "{policy} {service}");
            assert_eq!((own.out.forwarded, own.flows), (all.out.forwarded, all.flows), "{policy} {service}");
            // On the machine's clock, the order of service differs each time.
            let sorted = |mut frames: Vec<Frame>| {
                frames.sort_by(|a, b| (a.time, &a.data).cmp(&(b.time, &b.data)));
                frames
            };
            assert!(sorted(frames) == sorted(same_frames), "{policy} {service}: other frames go out");
            let cold = |outcome: &Outcome| outcome.measured.summary().cores_detail[0].cold;
            assert_eq!(cold(&own), cold(&all), "{policy} {service}");
        }
    }
}

/// Policies with their own loop, which begins after the warm-up, and others; under full load and with pauses.
#[test]
fn packets_of_the_warm_up_are_served_and_not_measured() {
    let warm_up = Time::from_ns(2_000_000);
    for policy in ["hrw", "conn", "drr", "fcfs", "wfq"] {
        for (pace, workers) in [(1e6, 0), (1e6, 2), (1e9, 0)] {
            let run = Run { policy, workers, warm_up, pace: Some(Pace::PacketsPerSecond(pace)), ..Run::default() };
            let (outcome, _) = run.go();
            let (account, summary) = (outcome.measured.account(), outcome.measured.summary());
            // All packets come in the first 20 us, or one each microsecond.
            let expected = if pace > 1e6 { 20_000 } else { 2_000 };
            assert_eq!((account.arrived, account.processed), (20_000, 20_000), "{policy} {pace} {workers}");
            assert_eq!(summary.warm_up.packets, expected, "{policy} {pace} {workers}");
            let cold: u64 = summary.cores_detail.iter().map(|core| core.cold).sum();
            assert!(cold <= workers.max(1) as u64, "{policy} {pace} {workers}: {cold} cold of one service");
        }
    }
}
