//! A driver may make plain calls after the warm-up: the figures are those of a driver that makes no plain calls.

use std::collections::VecDeque;

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::cost::LinearCost;
use humpyard_core::id::{ClientId, CoreId, FlowId, ServiceId, Slot};
use humpyard_core::measure::{Measured, Measurements};
use humpyard_core::mechanism::{Never, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;
use humpyard_testkit::reference::Arbitrary;

type Run = Measured<Never, Arbitrary, Never>;

const PACKETS: u64 = 1_000;
const APART: u64 = 100;
/// Packets in service at a time.
const IN_FLIGHT: usize = 4;

fn run(warm_up: u64) -> Run {
    let config = SchedulerConfig {
        flows: 3,
        clients: 3,
        in_flight: IN_FLIGHT as u32,
        services: vec![ServiceConfig::default(); 2],
        estimates: vec![LinearCost::BYTES; 2],
        ..SchedulerConfig::new(1)
    };
    let scheduler = Scheduler::new(&config, None, None, || Ok(Arbitrary::merging())).expect("a valid set-up");
    Measured::new(scheduler, Measurements::new(&config).with_warm_up(Time::from_ns(warm_up)))
}

/// Drives a run of which every second packet is cold, and which has packets in service all the time. Returns when plain
/// calls began.
fn drive(run: &mut Run, may_be_plain: bool) -> Option<u64> {
    let mut in_service: VecDeque<Slot> = VecDeque::new();
    let mut plain_from = None;
    for number in 0..PACKETS {
        let now = Time::from_ns(number * APART);
        if may_be_plain && plain_from.is_none() && run.is_plain() {
            run.begin_plain();
            plain_from = Some(number);
        }
        let is_plain = plain_from.is_some();
        let packet = Packet {
            arrival: now,
            flow: FlowId((number % 3) as u32),
            client: ClientId((number % 3) as u32),
            service: ServiceId((number / 2 % 2) as u16),
            length: 64,
            ..Packet::default()
        };
        if is_plain {
            run.on_arrival_as::<true>(now, &packet)
        } else {
            run.on_arrival(now, &packet)
        };
        if in_service.len() == IN_FLIGHT {
            let slot = in_service.pop_front().expect("it is not empty");
            complete(run, now, slot, is_plain);
        }
        let next = if is_plain {
            run.lend_next_plain(now).and_then(|(_, dispatch)| dispatch.map(|dispatch| dispatch.slot))
        } else {
            run.next_core(now).and_then(|core| run.next(now, core)).map(|dispatch| dispatch.slot)
        };
        in_service.extend(next);
    }
    let end = Time::from_ns(PACKETS * APART);
    for slot in in_service {
        complete(run, end, slot, plain_from.is_some());
    }
    plain_from
}

fn complete(run: &mut Run, now: Time, slot: Slot, is_plain: bool) {
    let busy = Time::from_ns(APART);
    if is_plain {
        run.on_completion_as::<true>(now, CoreId(0), slot, now, busy);
    } else {
        run.on_completion(now, CoreId(0), slot, now, busy);
    }
}

#[test]
fn plain_calls_after_the_warm_up_find_the_same_figures() {
    for warm_up in [1, 1_000, 5_050, 50_000] {
        let (mut plain, mut general) = (run(warm_up), run(warm_up));
        assert!(!plain.is_plain() && plain.becomes_plain(), "packets of the warm-up are not measured");
        let from = drive(&mut plain, true).expect("the warm-up ends");
        assert_eq!(drive(&mut general, false), None);
        let warm = warm_up.div_ceil(APART);
        // The packets of the warm-up have gone, which takes as many more as are in service.
        assert_eq!(from, warm + IN_FLIGHT as u64, "{warm_up}");
        let [plain, general] = [plain, general].map(|run| run.summary());
        assert_eq!(plain, general, "{warm_up}");
        assert_eq!(plain.cores_detail[0].cold, PACKETS / 2, "{warm_up}");
        assert_eq!(plain.warm_up.packets, warm, "{warm_up}");
    }
}

#[test]
fn without_a_warm_up_a_run_is_plain_at_once() {
    assert_eq!(drive(&mut run(0), true), Some(0));
}
