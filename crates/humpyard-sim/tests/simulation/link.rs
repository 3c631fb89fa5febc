//! The link behind the cores: its rate, its account, and the clients that it withholds.

use core::sync::atomic::AtomicBool;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::LinearCost;
use humpyard_core::frame::Frame;
use humpyard_core::id::{ClientId, FlowId};
use humpyard_core::link::{LinkOutcome, LinkSetup, OutputLink};
use humpyard_core::measure::{Measured, Measurements, ServiceSummary};
use humpyard_core::mechanism::{Arrival, Limits};
use humpyard_core::packet::Packet;
use humpyard_core::unit::{Time, Weight, WorkUnit};
use humpyard_policies::spec::PolicySpec;
use humpyard_traffic::{Match, Source, TrafficError};

use crate::support::{Link, Outcome, Service, Sim};

/// Two flows, one of UDP and one of TCP, that send packets of one length each at a steady pace.
#[derive(Clone, Copy)]
struct Flow {
    length: u32,
    every_ns: u64,
    packets: u64,
}

struct Steady {
    flows: [Flow; 2],
    sent: [u64; 2],
}

impl Source for Steady {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        let due = |flow: usize| self.sent[flow] * self.flows[flow].every_ns;
        let left = |flow: &usize| self.sent[*flow] < self.flows[*flow].packets;
        let Some(flow) = (0..2).filter(left).min_by_key(|&flow| due(flow)) else { return Ok(false) };
        let length = self.flows[flow].length;
        *frame = Frame {
            time: Time::from_ns(due(flow)),
            wire_length: length,
            data: headers(flow, length),
            ..Frame::default()
        };
        self.sent[flow] += 1;
        Ok(true)
    }

    fn description(&self) -> &str {
        "two flows"
    }
}

/// Ethernet, IPv4, and the ports.
fn headers(flow: usize, length: u32) -> Vec<u8> {
    let mut data = vec![2; 12];
    data.extend([8, 0, 0x45, 0]);
    data.extend(((length - 14) as u16).to_be_bytes());
    data.extend([0, 0, 0, 0, 64, [17, 6][flow], 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 1, 187]);
    data.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    data
}

fn cost(us: u64) -> LinearCost {
    LinearCost { fixed: us * 1000, per_byte_milli: 0, cold: 0 }
}

/// Both flows share one core equally, with a link behind it.
fn run(flows: [Flow; 2], costs_us: [u64; 2], link: Link<'_>) -> (Outcome, LinkOutcome) {
    let services: [Service; 2] =
        [(Match::Udp, cost(costs_us[0]), 1_000_000_000, 0), (Match::Other, cost(costs_us[1]), 1_000_000_000, 0)];
    let limits = Limits::default().with_client(20);
    let sim = Sim { policy: "efq", services: &services, limits, link: Some(link), ..Sim::default() };
    let mut outcome = sim.with(Box::new(Steady { flows, sent: [0; 2] }), &AtomicBool::new(false));
    let link = outcome.link.take().expect("there is a link");
    let (cores, account) = (outcome.measured.account(), link.account);
    assert_eq!(account.arrived, cores.processed, "all that is processed comes to the link");
    assert!(account.balances() && account.held == 0, "{account:?}");
    (outcome, link)
}

fn megabits(service: &ServiceSummary, seconds: f64) -> f64 {
    8.0 * service.bytes as f64 / seconds / 1e6
}

const LINK: Link<'_> = Link { rate_bps: 100_000_000, share: "wf2q+", expansions: &[], queue: Some(16) };

#[test]
fn a_link_takes_its_time_for_what_services_make_of_packets() {
    let flows =
        [Flow { length: 1000, every_ns: 100_000, packets: 1000 }, Flow { length: 1000, every_ns: 1, packets: 0 }];
    // 1000 bytes take 80 us, 1250 take 100 us, and one packet comes each 100 us.
    for (expansion, time_us) in [(1000, 80), (1250, 100), (340, 27)] {
        let (_, link) = run(flows, [1, 1], Link { expansions: &[expansion], ..LINK });
        assert_eq!(link.summary.delay_ns.max / 1000, time_us);
        assert_eq!(link.in_all.max() / 1000, time_us + 1, "and 1 us on the core");
        assert_eq!(link.summary.bytes, u64::from(expansion) * 1000);
        let busy = time_us as f64 / 100.0;
        assert!((link.summary.cores_detail[0].utilization - busy).abs() < 0.01);
    }
}

#[test]
fn times_that_are_no_whole_ns_add_up() {
    // A byte takes 8/3 ns: 300 bytes 800, and those of a packet of 100 in turn 266, 267, 267.
    let flows = [Flow { length: 100, every_ns: 1, packets: 3000 }, Flow { length: 100, every_ns: 1, packets: 0 }];
    let link = Link { rate_bps: 3_000_000_000, queue: None, ..LINK };
    let services: [Service; 2] =
        [(Match::Udp, LinearCost { fixed: 1, per_byte_milli: 0, cold: 0 }, 1, 0), (Match::Other, cost(1), 1, 0)];
    let sim = Sim { policy: "drr", services: &services, link: Some(link), ..Sim::default() };
    let outcome = sim.with(Box::new(Steady { flows, sent: [0; 2] }), &AtomicBool::new(false));
    let link = outcome.link.expect("there is a link");
    assert_eq!((link.account.processed, link.summary.duration_ns), (3000, 800_000));
}

/// The first exception of the paper's section 4.1: a client that needs more processing than is
/// reserved for it. Only a part of its packets is processed, so it gets less of the link than its
/// reservation.
#[test]
fn who_lacks_processing_has_less_of_the_link() {
    let flows = [
        Flow { length: 100, every_ns: 50_000, packets: 20_000 },
        Flow { length: 500, every_ns: 50_000, packets: 20_000 },
    ];
    let (outcome, link) = run(flows, [50, 50], LINK);
    let services = outcome.measured.summary().services;
    let halves = [&services[0], &services[1]].map(|service| service.packets as f64 / 20_000.0);
    assert!(halves.iter().all(|part| (part - 0.5).abs() < 0.01), "{halves:?}");
    let rates = [0, 1].map(|service| megabits(&link.summary.services[service], 1.0));
    // Of the 50 Mb/s that each could have: half its packets, of 100 and of 500 bytes.
    assert!((rates[0] - 8.0).abs() < 0.2 && (rates[1] - 40.0).abs() < 1.0, "{rates:?}");
    assert_eq!((link.withheld, link.account.dropped_total()), (0, 0));
}

/// The second exception: a client with more than its share of the link is withheld from the cores.
/// So it gets less processing than is reserved for it, and no other client is affected.
#[test]
fn who_exceeds_its_link_share_is_withheld_from_the_cores() {
    let flows = [
        Flow { length: 1000, every_ns: 10_000, packets: 100_000 },
        Flow { length: 200, every_ns: 80_000, packets: 12_500 },
    ];
    let slow = Link { rate_bps: 50_000_000, ..LINK };
    let (outcome, link) = run(flows, [10, 40], slow);
    let (cores, sent) = (outcome.measured.summary(), &link.summary.services);
    assert_eq!((sent[1].packets, link.account.dropped_total()), (12_500, 0), "all packets of the other leave");
    assert!(cores.services[1].delay_ns.max < 100_000, "two packets at most: {:?}", cores.services[1].delay_ns);
    // It gets what the other client leaves of the link, 30 Mb/s, which is 3.75 % of the core and
    // not half.
    let rate = megabits(&sent[0], 1.0);
    assert!((rate - 30.0).abs() < 1.0, "{rate} Mb/s");
    assert!(link.summary.cores_detail[0].utilization > 0.98, "the link does not wait for who was withheld");
    assert!(link.withheld > 100 && link.waiting_max <= 18, "{} times, {} waiting", link.withheld, link.waiting_max);
    // If it were not withheld, its packets would be processed in vain.
    let (outcome, link) = run(flows, [10, 40], Link { queue: None, ..slow });
    let (cores, dropped) = (outcome.measured.summary(), link.account.dropped_total());
    assert!(
        cores.services[0].packets > 40_000 && dropped > 35_000,
        "{} processed, {dropped} dropped",
        cores.services[0].packets
    );
    // All services are done in time, so the lost packets are those that the link drops. The cores
    // also drop packets, only of this client.
    let before = outcome.measured.account().dropped_total();
    assert_eq!((cores.late.lost, cores.late.packets), (before + dropped, 112_500));
    assert_eq!(cores.late.count, cores.late.lost);
    assert_eq!((cores.services[0].late.lost, cores.services[1].late.lost), (before, 0));
    assert!(cores.delay_offered_ns.p90.is_none() && cores.services[1].delay_offered_ns.p999.is_some());
}

/// The flow moves to the second client, which has nine times the weight of the first.
#[test]
fn a_flow_that_goes_over_to_another_client_leaves_the_link_in_order() {
    let weights = [1, 9].map(|weight| Weight::new(weight).expect("from 1"));
    let setup = SchedulerConfig {
        clients: 2,
        flows: 2,
        packets: 16,
        unit: WorkUnit::Bytes,
        weights: weights.to_vec(),
        ..SchedulerConfig::default()
    };
    let build = |policy: &str| {
        let policy: PolicySpec = policy.parse().expect("a policy");
        policy.build(&setup).expect("a valid set-up")
    };
    let link = LinkSetup { rate_bps: 1_000_000, expansions: Vec::new(), chains: Vec::new(), withhold_above: None };
    let mut link = OutputLink::new(link, Measured::new(build("wf2q+"), Measurements::new(&setup)), &setup);
    let mut cores = build("fcfs");
    // Of another flow the second client's packets overtake: they are its own.
    for (flow, client) in [(0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (1, 1), (0, 1), (0, 0)] {
        let packet = Packet { flow: FlowId(flow), client: ClientId(client), length: 100, ..Packet::default() };
        assert!(matches!(link.on_processed(Time::ZERO, &packet, &mut cores), Arrival::Queued(_)));
    }
    let mut sent = Vec::new();
    link.send(Time::ZERO, &mut cores);
    while let Some(now) = link.next_event() {
        sent.extend(link.next_sent(now).map(|(_, packet)| (packet.flow.0, packet.sequence)));
        link.send(now, &mut cores);
    }
    assert_eq!(sent.len(), 8);
    let order: Vec<u64> = sent.iter().filter(|(flow, _)| *flow == 0).map(|&(_, sequence)| sequence).collect();
    assert!(order.is_sorted(), "{sent:?}");
    assert!(sent.iter().position(|&packet| packet == (1, 5)) < Some(5), "the other flow overtakes: {sent:?}");
}
