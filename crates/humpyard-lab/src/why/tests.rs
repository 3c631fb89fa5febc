//! Stories of packets, by hand and at random.

use core::sync::atomic::AtomicBool;

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::id::{CoreId, ExitSlot, FlowId, ServiceId, Slot};
use humpyard_core::mechanism::{Arrival, DropReason, Event, ExitOrder, Given, Record, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use proptest::prelude::*;

use super::blame::{Behind, split};
use super::*;
use crate::ServiceChoice;
use crate::choice::host::Host;
use crate::choice::order::parse_order;
use crate::choice::rate::Rate;
use crate::follow::Follow;

const NS: fn(u64) -> Time = Time::from_ns;

fn record(now: u64, event: Event) -> Record {
    Record { now: NS(now), event }
}

/// A packet of a flow that comes, into a slot.
fn comes(now: u64, flow: u32, slot: u32) -> Record {
    let packet = Packet { arrival: NS(now), flow: FlowId(flow), length: 100, ..Packet::default() };
    record(now, Event::Arrival { packet, answer: Arrival::Queued(Slot(slot)) })
}

/// A core gets the packet of a slot.
fn gets(now: u64, core: u16, slot: u32) -> Record {
    record(now, Event::Next { core: CoreId(core), answer: Some(Given { slot: Slot(slot), cold: false }) })
}

/// A packet is done after this time on its core; it waits at this place of the exit, if at one.
fn done(now: u64, slot: u32, busy: u64, exit: Option<u32>) -> Record {
    let (slot, exit) = (Slot(slot), exit.map(ExitSlot));
    record(now, Event::Completion { slot, busy: NS(busy), ends: false, used: busy, onward: None, exit })
}

/// Plays records of a run of these cores.
fn history(policy: &str, cores: usize, records: &[Record]) -> History {
    let config = SchedulerConfig { cores, flows: 8, clients: 8, ..SchedulerConfig::default() };
    let mut history = History::default();
    history.on_begin(&policy.parse().expect("a policy"), &config);
    for (flow, name) in (0..).zip(["tcp a > b", "tcp c > d", "udp e > f"]) {
        history.on_flow(FlowId(flow), name.to_owned());
    }
    records.iter().for_each(|record| history.on_record(record));
    history.finish();
    history
}

fn answer(history: &History, which: &WhichPacket) -> Why {
    let chosen = Chosen::find(history, which, 0, "in.pcap").expect("a packet");
    chosen.answer(history, &Known::default(), "in.pcap".to_owned(), false)
}

fn parts(waiting: u64, switching: u64, dispatcher: u64, service: u64, exit: u64) -> DelayParts {
    DelayParts {
        waiting_ns: waiting,
        switching_ns: switching,
        dispatcher_ns: dispatcher,
        service_ns: service,
        exit_ns: exit,
    }
}

/// Two flows on one core: the third packet waits behind the rest of one of its own flow, and all of another's.
#[test]
fn waiting_is_blamed_on_the_flows_that_were_served_meanwhile() {
    let records = [
        comes(0, 0, 0),
        gets(0, 0, 0),
        comes(10, 1, 1),
        comes(20, 0, 2),
        done(100, 0, 100, None),
        gets(100, 0, 1),
        done(300, 1, 200, None),
        gets(300, 0, 2),
        done(350, 2, 50, None),
    ];
    let why = answer(&history("fcfs", 1, &records), &WhichPacket::Number(3));
    assert_eq!((why.packet.delay_ns, why.packet.blame.parts), (Some(330), parts(280, 0, 0, 50, 0)));
    let flows: Vec<(&str, u64, u64)> =
        why.packet.blame.flows.iter().map(|flow| (flow.flow.as_str(), flow.packets, flow.total_ns)).collect();
    assert_eq!(flows, [("tcp c > d", 1, 200), ("tcp a > b", 1, 80)]);
    assert_eq!(why.packet.blame.own_flow_ns, 80);
    let queue = why.packet.knew.queue;
    assert_eq!((queue.waiting, queue.flows, queue.own, queue.in_service), (1, 1, 0, 1));
    assert_eq!(why.packet.words.decided[1], "Core 0 was given it 280 ns after it joined the queue.");
    let without = &why.packet.otherwise[0];
    assert_eq!((without.change, without.flow.as_deref()), ("without_flow", Some("tcp c > d")));
    assert_eq!((without.delay_ns, without.saved_ns), (130, 200));
    assert_eq!(why.packet.words.delayed[0], "It waited 280 ns (84.8 %) behind 2 packets of 2 flows.");
    let said = &why.packet.words.delayed[1];
    assert_eq!(said, "The longest part of that, 200 ns, was behind 1 packet of tcp c > d.");
    // The slowest of three is the p99, and all of the table.
    assert_eq!((why.blame.packets, why.blame.from_ns, why.blame.total_ns), (1, 330, 330));
    assert_eq!((why.delay_ns.p50, why.delay_ns.p99), (290, 330));
    assert_eq!(answer(&history("fcfs", 1, &records), &WhichPacket::P99).packet.number, 3);
}

/// Two cores: the packet waits on the busy one, and would have been done long before on the other.
#[test]
fn another_core_may_have_been_sooner() {
    let records = [
        comes(0, 0, 0),
        comes(0, 1, 1),
        gets(0, 0, 0),
        gets(0, 1, 1),
        comes(10, 0, 2),
        done(50, 1, 50, None),
        comes(60, 1, 1),
        gets(60, 1, 1),
        done(70, 1, 10, None),
        done(1000, 0, 1000, None),
        gets(1000, 0, 2),
        done(1100, 2, 100, None),
    ];
    let why = answer(&history("hrw", 2, &records), &WhichPacket::OfFlow("a > b".to_owned()));
    assert_eq!((why.packet.number, why.packet.delay_ns), (3, Some(1090)));
    assert_eq!(why.packet.blame.parts, parts(990, 0, 0, 100, 0));
    let other = &why.packet.otherwise[0];
    // Core 1 is free at 50, and what comes later to it would have come behind the packet.
    assert_eq!((other.change, other.core, other.delay_ns, other.saved_ns), ("core", Some(1), 140, 950));
    let flow = why.flow.expect("the flow");
    assert_eq!((flow.packets.arrived, flow.delay_ns.max, flow.cores.len()), (2, 1090, 1));
    assert_eq!((flow.blame.total_ns, flow.blame.parts), (2090, parts(990, 0, 0, 1100, 0)));
}

/// Where a core does not serve in order, what is left of the work of those before counts, not when they were done.
#[test]
fn work_that_came_later_does_not_count_on_another_core() {
    let records = [
        comes(0, 0, 0),
        gets(0, 0, 0),
        comes(0, 1, 1),
        gets(0, 1, 1),
        comes(5, 1, 2),
        comes(10, 0, 3),
        comes(20, 2, 4),
        done(100, 1, 100, None),
        gets(100, 1, 4),
        done(600, 4, 500, None),
        gets(600, 1, 2),
        done(650, 2, 50, None),
        done(1000, 0, 1000, None),
        gets(1000, 0, 3),
        done(1010, 3, 10, None),
    ];
    for (policy, delay) in [("steer=hrw/share=drr", 90 + 50 + 10), ("hrw", 650 + 10 - 10)] {
        let why = answer(&history(policy, 2, &records), &WhichPacket::Number(4));
        let other = &why.packet.otherwise[0];
        assert_eq!((other.change, other.core, other.delay_ns), ("core", Some(1), delay), "{policy}");
    }
}

/// A sharing policy serves a later packet first: first come, first served would not have.
#[test]
fn the_order_of_arrival_may_have_been_sooner() {
    let records = [
        comes(0, 0, 0),
        gets(0, 0, 0),
        comes(10, 1, 1),
        comes(20, 2, 2),
        done(100, 0, 100, None),
        gets(100, 0, 2),
        done(400, 2, 300, None),
        gets(400, 0, 1),
        done(450, 1, 50, None),
    ];
    let why = answer(&history("drr", 1, &records), &WhichPacket::Number(2));
    let queue = why.packet.knew.queue;
    assert_eq!((queue.waiting, queue.overtaken_by, queue.overtook), (0, 1, 0));
    let fcfs = &why.packet.otherwise[0];
    assert_eq!((fcfs.change, fcfs.delay_ns, fcfs.saved_ns), ("fcfs", 140, 300));
    let early = answer(&history("drr", 1, &records), &WhichPacket::Number(3));
    assert_eq!((early.packet.otherwise[0].change, early.packet.otherwise[0].saved_ns), ("fcfs", -50));
}

/// A core switches, a packet waits for the dispatcher, and at the exit for an earlier one of its flow.
#[test]
fn switches_idle_cores_and_the_exit_have_their_parts() {
    let switch = Switch { core: CoreId(0), to: ServiceId(0), cost: NS(30) };
    let records = [
        comes(0, 0, 0),
        gets(5, 1, 0),
        record(5, Event::Switch(switch)),
        comes(10, 0, 1),
        record(35, Event::Switched(CoreId(0))),
        gets(40, 0, 1),
        done(60, 1, 20, Some(0)),
        done(105, 0, 100, None),
        record(105, Event::Exit(ExitSlot(0))),
        record(110, Event::Dropped(Slot(7), DropReason::PushedOut)),
    ];
    let why = answer(&history("everest", 2, &records), &WhichPacket::Number(2));
    assert_eq!((why.packet.delay_ns, why.packet.blame.parts), (Some(95), parts(0, 25, 5, 20, 45)));
    let changes: Vec<(&str, u64)> = why.packet.otherwise.iter().map(|one| (one.change, one.delay_ns)).collect();
    assert_eq!(changes, [("without_switching", 70), ("free_order", 50)]);
    assert_eq!(why.blame.parts.total_ns(), why.blame.total_ns);
}

/// In real time the dispatcher hears of several ends at once; packets of a core ended one after the other.
#[test]
fn ends_that_are_heard_of_together_were_not_together() {
    let records =
        [comes(0, 0, 0), comes(0, 1, 1), gets(2, 0, 0), gets(3, 0, 1), done(100, 0, 20, None), done(100, 1, 30, None)];
    let found = history("fcfs", 1, &records);
    let spans: Vec<(u64, u64)> = found.visits.iter().map(|visit| (visit.begin, visit.end)).collect();
    assert_eq!(spans, [(50, 70), (70, 100)]);
    let why = answer(&found, &WhichPacket::Number(1));
    assert_eq!(why.packet.blame.parts, parts(0, 0, 80, 20, 0));
    let said = "2.00 ns in the queue, 78.0 ns between handing over and hearing of its end.";
    assert_eq!(why.packet.words.delayed[0], format!("For 80.0 ns (80.0 %) its core was idle: {said}"));
    let why = answer(&found, &WhichPacket::Number(2));
    assert_eq!(why.packet.blame.parts, parts(20, 0, 50, 30, 0));
}

#[test]
fn flows_are_found_by_what_people_type() {
    let found = history("fcfs", 1, &[comes(0, 0, 0), gets(0, 0, 0), done(9, 0, 9, None)]);
    let flows = |text: &str| flows_named(&found, text, "in.pcap");
    assert_eq!(flows("tcp a > b").unwrap(), [0]);
    assert_eq!(flows("  c  >  d ").unwrap(), [1]);
    assert_eq!((flows("b <> a").unwrap(), flows("udp f <> e").unwrap()), (vec![0], vec![2]));
    let said = flows("tcp a > c").unwrap_err().to_string();
    assert!(said.starts_with("flow names no flow of this run, `tcp a > c`: did you mean `tcp a > b`?"), "{said}");
    assert!(flows("tcp f <> e").is_err());
    let far = Chosen::find(&found, &WhichPacket::Number(2), 0, "in.pcap").map(|_| ()).unwrap_err().to_string();
    assert_eq!(far, "packet takes 1 to 1, the packets of this run, not `2`");
}

/// A simulation of a random run, followed.
fn simulated(policy: &str, cores: usize, input: &str, load: f64, order: &str, seed: u64) -> (RunConfig, History) {
    let mut config = RunConfig::new(Host::Sim, input, policy.parse().expect("a policy"));
    config.services = ServiceChoice::parse_list("tcp=encrypt,udp=forward,other=dpi").expect("services");
    config.costs = "table:measured".parse().expect("costs");
    config.cores = cores;
    config.rate = Rate::Load { load, of: None };
    config.flow_order = parse_order(order).expect("an order");
    config.seed = Seed(seed);
    let history = Arc::new(Mutex::new(History::default()));
    let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
    let mut control = Control::new(&stop, &mut progress);
    followed(&config, &mut control, Follower::new(&history)).expect("a run");
    let mut history = core::mem::take(&mut *history.lock().unwrap());
    history.finish();
    (config, history)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The parts of each packet's delay add up to it exactly, and what it waited behind is what it waited.
    #[test]
    fn parts_add_up(
        policy in prop::sample::select(vec!["drr", "hrw", "gr3", "everest", "steer=hrw/share=sfq"]),
        cores in 3_usize..6,
        packets in 50_u64..600,
        flows in 1_u64..40,
        load in 0.3_f64..1.6,
        order in prop::sample::select(vec!["exit", "free"]),
        seed in 1_u64..1000,
    ) {
        let input = format!("gen:poisson:packets={packets},flows={flows},mix=services");
        let (_, history) = simulated(policy, cores, &input, load, order, seed);
        prop_assert_eq!(history.passages.len() as u64, packets);
        let mut left = 0;
        for (packet, passage) in (0..).zip(&history.passages) {
            let Some(delay) = passage.delay() else { continue };
            let mut behind = Behind::default();
            let (parts, dispatcher) = split(&history, packet, &mut behind);
            prop_assert_eq!(parts.total_ns(), delay);
            let DispatcherParts { before_queue_ns, in_queue_ns, handed_over_ns } = dispatcher;
            prop_assert_eq!(before_queue_ns + in_queue_ns + handed_over_ns, parts.dispatcher_ns);
            prop_assert_eq!(behind.flows().iter().map(|flow| flow.ns).sum::<u64>(), parts.waiting_ns);
            left += 1;
        }
        prop_assert!(left > 0);
    }

    /// Under first come, first served nothing is otherwise by the order of arrival, and a packet stays on its core.
    #[test]
    fn what_was_is_what_would_have_been(cores in 1_usize..4, packets in 50_u64..300, seed in 1_u64..1000) {
        let input = format!("gen:poisson:packets={packets},flows=9,mix=services");
        let (_, shared) = simulated("fcfs", cores, &input, 0.9, "free", seed);
        let (_, steered) = simulated("hrw", cores, &input, 0.9, "exit", seed);
        for packet in 0..packets as u32 {
            let delay = shared.passages[packet as usize].delay();
            let moved = otherwise::by_arrival(&shared, packet, QueueOf::All, cores);
            prop_assert_eq!(moved.map(|moved| moved.delay), delay);
            let core = steered.visits_of(packet)[0].core;
            let on_its_core = otherwise::on_cores(&steered, packet, core::iter::once(core));
            prop_assert_eq!(on_its_core[0].1.delay, steered.passages[packet as usize].delay().unwrap());
        }
    }
}

/// The second scheduler says what the policies of the run knew, in their words.
#[test]
fn policies_say_what_they_knew() {
    let input = "gen:poisson:packets=2000,flows=20,mix=services";
    for (policy, words) in [
        ("hrw", "its connection's hash with each core"),
        ("steer=hrw/share=drr", "its credit is"),
        ("sfq", "the start tag of its next packet"),
        ("wfq", "and its finish tag"),
        ("wf2q+", "its start tag is"),
        ("stride", "the global pass"),
        ("gr3", "a slot is worth"),
        ("everest", "had given its service"),
    ] {
        let (config, _) = simulated(policy, 3, input, 0.9, "exit", 1);
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
        let why = why(&config, &WhichPacket::P99, &mut Control::new(&stop, &mut progress)).expect("an answer");
        let said = why.packet.words.decided.join(" ");
        assert!(said.contains(words), "{policy}: {said}");
        assert_eq!(why.packet.blame.total_ns, why.packet.delay_ns.expect("it left"));
        if let Some(core) = why.packet.knew.steered_to {
            assert_eq!(core, usize::from(why.packet.hops[0].core));
            let queue = why.packet.knew.queue;
            assert_eq!(u64::from(why.packet.knew.cores[core].packets), queue.waiting + queue.in_service);
        }
    }
}

/// Services and the exit are in the configuration that a journal begins with.
#[test]
fn a_journal_names_services() {
    let services = vec![ServiceConfig { name: "web".to_owned(), ..ServiceConfig::default() }];
    let exit = Some(ExitOrder { packets: 4, timeout: NS(100) });
    let mut history = History::default();
    history.on_begin(&"fcfs".parse().unwrap(), &SchedulerConfig { services, exit, ..SchedulerConfig::default() });
    assert_eq!((history.service_name(0), history.service_name(9)), ("web".to_owned(), "service 9".to_owned()));
}
