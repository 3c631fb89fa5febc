//! Properties of the mechanism that hold for all policies, tested with random histories and
//! arbitrary policies.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, FlowId, Id, IdVec, ServiceId};
use humpyard_core::mechanism::{
    Arrival, Completed, Dispatch, DropReason, ExitAccount, ExitOrder, FlowOrder, Limits, Never, Scheduler, WhenFull,
};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::{Time, WorkUnit};
use humpyard_testkit::reference::Arbitrary;
use humpyard_testkit::{Checked, CheckedSteer, Event, FlowWatch, History, Log, Observer, Player, Shape, explain};
use proptest::prelude::*;
use proptest::test_runner::Config;

/// Steers to the eligible core with the smallest backlog, so that the view matters.
struct LeastBacklog;

impl Policy for LeastBacklog {}

impl Steer for LeastBacklog {
    fn steer(&mut self, _: Time, _: &Packet, view: &View<'_>) -> Target {
        let least = view.eligible.iter().min_by_key(|&&core| (view.cores[core].backlog, core));
        Target::Core(*least.expect("at least one core is eligible"))
    }
}

/// Deals the cores to the services one by one.
struct Dealt {
    services: usize,
}

impl Policy for Dealt {}

impl Allocate for Dealt {
    fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>) {
        for (place, service) in allocation.iter_mut().enumerate() {
            *service = ServiceId::from_index(place % self.services);
        }
    }
}

/// `PROPTEST_CASES` sets the number of histories. Failing histories are printed, not kept in files.
fn config() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}

fn shape() -> impl Strategy<Value = Shape> {
    let machine = (1..=4usize, 1..=3usize, 1..=3usize, prop_oneof![Just(FlowOrder::Hold), Just(FlowOrder::Free)]);
    let limits = (
        prop_oneof![Just(4096usize), 1..=40usize],
        prop_oneof![Just(u32::MAX), 0..=20u32],
        prop_oneof![Just(u32::MAX), 0..=10u32],
    );
    let when_full = prop_oneof![Just(WhenFull::Tail), Just(WhenFull::LongestQueue)];
    let unit = prop_oneof![Just(WorkUnit::Nanoseconds), Just(WorkUnit::Bytes), Just(WorkUnit::Packets)];
    (any::<u64>().no_shrink(), 1..=8usize, 1..=250usize, machine, limits, (unit, when_full)).prop_map(
        |(seed, clients, events, machine, limits, (unit, when_full))| Shape {
            seed,
            clients,
            events,
            weights_change: true,
            cores: machine.0,
            services: machine.1.min(machine.0),
            in_flight: machine.2,
            flow_order: machine.3,
            packets: limits.0,
            limits: Limits::default().with_queue(limits.1).with_client(limits.2).with_when_full(when_full),
            error_permille: 1000,
            unit,
            ..Shape::default()
        },
    )
}

/// How the queues are laid out.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Shared,
    PerCore,
    PerService,
    PerCoreOfService,
}

const LAYOUTS: [Layout; 4] = [Layout::Shared, Layout::PerCore, Layout::PerService, Layout::PerCoreOfService];

fn play(
    history: &History,
    layout: Layout,
    share: impl Fn() -> Arbitrary,
    observer: &mut impl Observer,
) -> Result<Log, TestCaseError> {
    Ok(play_to_exit(history, layout, share, observer)?.0)
}

/// As [`play`], and also returns the account of packets at the exit.
fn play_to_exit(
    history: &History,
    layout: Layout,
    share: impl Fn() -> Arbitrary,
    observer: &mut impl Observer,
) -> Result<(Log, ExitAccount), TestCaseError> {
    let steer = match layout {
        Layout::Shared | Layout::PerService => None,
        Layout::PerCore | Layout::PerCoreOfService => Some(CheckedSteer::new(LeastBacklog, history.cores)),
    };
    let allocate = match layout {
        Layout::Shared | Layout::PerCore => None,
        Layout::PerService | Layout::PerCoreOfService => Some(Dealt { services: history.estimates.len() }),
    };
    let checked = || Ok(Checked::new(share(), &[Promise::WorkConserving]));
    let mut scheduler = Scheduler::new(&history.config(), steer, allocate, checked).expect("the set-up is valid");
    let log = explain(history, || Player::new(history).run(&mut scheduler, observer))
        .map_err(|error| TestCaseError::fail(format!("{layout:?}: {error}")))?;
    Ok((log, scheduler.exit_account()))
}

fn packet(history: &History, arrival: usize) -> Packet {
    match history.events[arrival].1 {
        Event::Arrive { packet, .. } => packet,
        _ => unreachable!("only packets are dispatched"),
    }
}

/// Counts the waiting packets from the log of a run alone, and checks the reason of every drop.
struct Room<'h> {
    history: &'h History,
    held: usize,
    waiting: u32,
    waiting_of: Vec<u32>,
}

impl Observer for Room<'_> {
    fn on_accept(&mut self, _: Time, packet: &Packet) {
        self.held += 1;
        self.waiting += 1;
        self.waiting_of[packet.client.index()] += 1;
        assert!(self.held <= self.history.packets, "more packets are held than the run allows");
        assert!(self.waiting <= self.history.limits.queue, "more packets wait than the queue allows");
        let of_client = self.waiting_of[packet.client.index()];
        assert!(of_client <= self.history.limits.client, "more packets wait than the client may have");
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, dispatch: &Dispatch, _: u64) {
        self.waiting -= 1;
        self.waiting_of[dispatch.packet.client.index()] -= 1;
    }

    fn on_completion(&mut self, _: Time, _: CoreId, _: &Completed, _: Time) {
        self.held -= 1;
    }

    fn on_drop(&mut self, _: Time, packet: &Packet) {
        self.held -= 1;
        self.waiting -= 1;
        self.waiting_of[packet.client.index()] -= 1;
    }
}

/// Checks that a packet goes to a core only if no other has fewer.
struct Spread {
    in_service: Vec<usize>,
}

impl Observer for Spread {
    fn on_dispatch(&mut self, _: Time, core: CoreId, _: &Dispatch, _: u64) {
        let fewest = self.in_service.iter().min();
        assert_eq!(Some(&self.in_service[core.index()]), fewest, "core {core} has others before it");
        self.in_service[core.index()] += 1;
    }

    fn on_completion(&mut self, _: Time, core: CoreId, _: &Completed, _: Time) {
        self.in_service[core.index()] -= 1;
    }
}

/// Shapes with chains of services, and an exit where packets wait for earlier ones of their flow.
fn chained() -> impl Strategy<Value = Shape> {
    let exit = prop_oneof![
        Just(None),
        (1..=40u32, 0..=200_000u64)
            .prop_map(|(packets, timeout)| Some(ExitOrder { packets, timeout: Time::from_ns(timeout) }))
    ];
    (shape(), any::<bool>(), exit).prop_map(|(shape, chains, exit)| Shape { chains, exit, ..shape })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_packet_is_accounted_for(shape in shape()) {
        let history = History::generate(&shape);
        for layout in LAYOUTS {
            let log = play(&history, layout, || Arbitrary::new(shape.seed), &mut ())?;
            let again = play(&history, layout, || Arbitrary::new(shape.seed), &mut ())?;
            prop_assert!(log == again, "{layout:?}: the same history gave other decisions\n{history}");
            play(&history, layout, Arbitrary::merging, &mut ())?;
        }
    }

    #[test]
    fn every_packet_is_accounted_for_through_chains_and_the_exit(shape in chained()) {
        let history = History::generate(&shape);
        for layout in LAYOUTS {
            play(&history, layout, || Arbitrary::new(shape.seed), &mut FlowWatch::new(&history))?;
            play(&history, layout, Arbitrary::merging, &mut FlowWatch::new(&history))?;
        }
    }

    #[test]
    fn packets_leave_in_order_where_the_exit_has_room_and_time(shape in chained()) {
        let exit = Some(ExitOrder { packets: 4096, timeout: Time::from_ns(1 << 60) });
        let history = History::generate(&Shape { exit, flow_order: FlowOrder::Free, ..shape });
        for layout in LAYOUTS {
            let mut watch = FlowWatch::new(&history);
            play(&history, layout, || Arbitrary::new(shape.seed), &mut watch)?;
            prop_assert_eq!(watch.out_of_order(), 0, "{:?}\n{}", layout, history);
        }
    }

    #[test]
    fn only_packets_beyond_the_bounds_of_the_exit_leave_out_of_order(shape in chained(), packets in 1..=8u32, timeout in 0..=50_000u64) {
        let exit = Some(ExitOrder { packets, timeout: Time::from_ns(timeout) });
        let history = History::generate(&Shape { exit, flow_order: FlowOrder::Free, ..shape });
        for layout in LAYOUTS {
            let mut watch = FlowWatch::new(&history);
            let (_, exit) = play_to_exit(&history, layout, || Arbitrary::new(shape.seed), &mut watch)?;
            prop_assert!(watch.out_of_order() <= exit.missed_turn, "{layout:?}: {exit:?}\n{history}");
        }
    }

    #[test]
    fn clients_keep_their_order_on_several_cores_where_told_to(shape in shape()) {
        let history = History::generate(&Shape { flow_order: FlowOrder::Hold, ..shape });
        for layout in [Layout::Shared, Layout::PerService] {
            let mut watch = FlowWatch::new(&history);
            play(&history, layout, || Arbitrary::new(shape.seed), &mut watch)?;
            prop_assert_eq!(watch.out_of_order(), 0, "{:?}\n{}", layout, history);
        }
    }

    #[test]
    fn merged_clients_start_in_order_of_arrival(shape in shape()) {
        let history = History::generate(&shape);
        let log = play(&history, Layout::Shared, Arbitrary::merging, &mut ())?;
        prop_assert!(log.decisions.is_sorted_by_key(|decision| decision.arrival), "{history}");
    }

    #[test]
    fn cores_with_the_fewest_packets_come_first(shape in shape()) {
        // With an even seed, the cores ask that the scheduler names.
        let history = History::generate(&Shape { seed: shape.seed & !1, ..shape });
        for share in [Arbitrary::merging, || Arbitrary::new(7)] {
            let mut spread = Spread { in_service: vec![0; history.cores] };
            play(&history, Layout::Shared, share, &mut spread)?;
        }
    }

    #[test]
    fn a_core_serves_only_its_service(shape in shape()) {
        let history = History::generate(&shape);
        for layout in [Layout::PerService, Layout::PerCoreOfService] {
            let log = play(&history, layout, || Arbitrary::new(shape.seed), &mut ())?;
            for decision in log.decisions {
                let service = packet(&history, decision.arrival).service.index();
                prop_assert_eq!(decision.core.index() % history.estimates.len(), service, "{:?}", layout);
            }
        }
    }

    #[test]
    fn limits_hold(shape in shape()) {
        let history = History::generate(&shape);
        let mut room = Room { history: &history, held: 0, waiting: 0, waiting_of: vec![0; shape.clients] };
        let log = play(&history, Layout::Shared, || Arbitrary::new(shape.seed), &mut room)?;
        for reason in DropReason::ALL {
            let possible = match reason {
                DropReason::BufferFull => shape.packets < shape.events,
                DropReason::QueueFull => shape.limits.queue < u32::MAX,
                DropReason::ClientFull => shape.limits.client < u32::MAX,
                DropReason::PushedOut => {
                    let limited = shape.packets < shape.events || shape.limits.queue < u32::MAX;
                    limited && shape.limits.when_full == WhenFull::LongestQueue
                }
            };
            let dropped = log.drops.iter().any(|(_, why)| *why == reason);
            prop_assert!(possible || !dropped, "dropped without a limit: {}\n{history}", reason.name());
        }
    }
}

/// A packet is pushed out while an earlier one of its flow is in service: it leaves no note at the
/// exit, which has one place.
#[test]
fn packets_pushed_out_take_no_places_at_the_exit() {
    let config = SchedulerConfig { cores: 1, clients: 2, flows: 2, packets: 4, ..SchedulerConfig::default() }
        .with_limits(Limits::default().with_when_full(WhenFull::LongestQueue))
        .with_flow_order(FlowOrder::Free)
        .with_exit(Some(ExitOrder { packets: 1, timeout: Time::MAX }));
    let share = || Ok(Arbitrary::new(1));
    let mut scheduler = Scheduler::<LeastBacklog, _, Never>::new(&config, None, None, share).expect("a valid set-up");
    let of_client = |client: u32| Packet { client: ClientId(client), flow: FlowId(client), ..Packet::default() };
    assert!(matches!(scheduler.on_arrival(Time::ZERO, &of_client(0)), Arrival::Queued(_)));
    let first = scheduler.next(Time::ZERO, CoreId(0)).expect("it waits");
    let mut pushed_out = 0;
    for client in [0, 0, 0, 1, 1] {
        assert!(matches!(scheduler.on_arrival(Time::ZERO, &of_client(client)), Arrival::Queued(_)), "{client}");
        pushed_out += core::iter::from_fn(|| scheduler.next_effect()).count();
    }
    assert_eq!(pushed_out, 2);
    scheduler.check();
    assert_eq!(scheduler.on_completion(Time::ZERO, first.slot, Time::ZERO).exit, None);
    while let Some(next) = scheduler.next(Time::ZERO, CoreId(0)) {
        assert_eq!(scheduler.on_completion(Time::ZERO, next.slot, Time::ZERO).exit, None);
    }
    assert_eq!(scheduler.exit_account(), ExitAccount::default());
}

/// Free order loses the order of clients: their packets do overtake each other.
#[test]
fn clients_lose_their_order_where_they_may() {
    let late = (0..20).map(|seed| {
        let history = History::generate(&Shape { seed, cores: 4, flow_order: FlowOrder::Free, ..Shape::default() });
        let mut watch = FlowWatch::new(&history);
        play(&history, Layout::Shared, || Arbitrary::new(seed), &mut watch).expect("a valid run");
        watch.out_of_order()
    });
    assert!(late.sum::<u64>() > 0);
}
