//! One packet through the mechanism, with the state after each step: the example of the book's
//! chapter "One packet, step by step" (`docs/concepts/packet.md`), which shows this file in parts.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, FlowId};
use humpyard_core::mechanism::{Arrival, Effect, ExitOrder, FlowOrder};
use humpyard_core::packet::Packet;
use humpyard_core::policy::BuildError;
use humpyard_core::unit::Time;
use humpyard_policies::spec::PolicySpec;

#[test]
fn a_packet_goes_from_arrival_to_exit() -> Result<(), BuildError> {
    // ANCHOR: build
    let config = SchedulerConfig::new(2)
        .with_flows(1)
        .with_flow_order(FlowOrder::Free)
        .with_exit(ExitOrder { packets: 16, timeout: Time::from_ns(1_000_000_000) });
    let mut scheduler = "drr".parse::<PolicySpec>()?.build(&config)?;
    assert!(scheduler.is_empty());
    // ANCHOR_END: build

    // ANCHOR: arrive
    let packet = |length| Packet { flow: FlowId(0), length, ..Packet::default() };
    let Arrival::Queued(long) = scheduler.on_arrival(Time::from_ns(0), &packet(1500)) else { panic!("there is room") };
    let Arrival::Queued(short) = scheduler.on_arrival(Time::from_ns(10), &packet(64)) else { panic!("there is room") };
    assert_eq!(scheduler.account().held, 2);
    // ANCHOR_END: arrive

    // ANCHOR: dispatch
    let first = scheduler.next(Time::from_ns(20), CoreId(0)).expect("packets wait");
    let second = scheduler.next(Time::from_ns(20), CoreId(1)).expect("a packet waits");
    assert_eq!((first.slot, second.slot), (long, short));
    assert_eq!((scheduler.in_service(CoreId(0)), scheduler.in_service(CoreId(1))), (1, 1));
    assert_eq!(scheduler.next(Time::from_ns(20), CoreId(1)), None);
    // ANCHOR_END: dispatch

    // ANCHOR: overtake
    let done = scheduler.on_completion(Time::from_ns(120), short, Time::from_ns(100));
    let place = done.exit.expect("an earlier packet of its flow is still in service");
    assert_eq!(scheduler.exit_account().held, 1);
    assert_eq!(scheduler.next_effect(), None);
    // ANCHOR_END: overtake

    // ANCHOR: leave
    let done = scheduler.on_completion(Time::from_ns(920), long, Time::from_ns(900));
    assert_eq!(done.exit, None, "it leaves now");
    let Some(Effect::Left(exit)) = scheduler.next_effect() else { panic!("the short packet follows") };
    assert_eq!((exit.place, exit.packet.length), (place, 64));
    assert_eq!(scheduler.next_effect(), None);
    // ANCHOR_END: leave

    // ANCHOR: account
    let account = scheduler.account();
    assert_eq!((account.arrived, account.processed, account.held, account.dropped_total()), (2, 2, 0, 0));
    assert!(account.balances());
    assert_eq!(scheduler.exit_account().reordered, 1);
    // ANCHOR_END: account
    Ok(())
}
