//! No sequence of calls, however wrong, breaks the scheduler internally.

use humpyard::config::{SchedulerConfig, ServiceConfig};
use humpyard::cost::LinearCost;
use humpyard::embed::{Embedded, Refusal, RefusalKind, services, topology, weights};
use humpyard::id::{ClientId, FlowId, ServiceId};
use humpyard::mechanism::{FlowOrder, Limits};
use humpyard::packet::Packet;
use humpyard::policies::registry::entries;
use humpyard::policy::{BuildErrorKind, Family};
use humpyard::random::{Random, Seed};
use humpyard::unit::{Time, WorkUnit};

const CLIENTS: u32 = 5;
const FLOWS: u32 = 7;
const CORES: u16 = 4;
const SERVICES: u16 = 2;
const PACKETS: u32 = 20;

/// Length of the longest packet, in bytes.
const LONGEST: u32 = 1514;

fn config(seed: u64) -> SchedulerConfig {
    let service = ServiceConfig {
        packet_time: Time::from_ns(1000),
        switch_cost: Time::from_ns(500),
        tolerance: Time::from_ns(20_000),
        guarantee_millionths: 500_000,
        ..ServiceConfig::default()
    };
    let estimate = LinearCost { fixed: 100, per_byte_milli: 1000, cold: 50 };
    SchedulerConfig {
        cores: CORES.into(),
        contexts: 2,
        topology: Some(topology("2x2").unwrap()),
        clients: CLIENTS as usize,
        flows: FLOWS as usize,
        packets: PACKETS as usize,
        weights: weights(&[5, 1000, 1], CLIENTS as usize).unwrap(),
        unit: [WorkUnit::Bytes, WorkUnit::Packets, WorkUnit::Nanoseconds][seed as usize % 3],
        services: vec![service; SERVICES.into()],
        estimates: vec![estimate; SERVICES.into()],
        limits: Limits::default().with_queue(12).with_client(6),
        flow_order: [FlowOrder::Hold, FlowOrder::Free][seed as usize % 2],
        in_flight: 1 + seed as u32 % 3,
        seed: Seed(seed),
        ..SchedulerConfig::default()
    }
}

/// Returns an id; now and then one that does not exist.
fn id(random: &mut Random, count: impl Into<u64>) -> u64 {
    let beyond = u64::from(random.below(20) == 0);
    random.below(count.into() + beyond)
}

fn packet(random: &mut Random) -> Packet {
    let flow = id(random, FLOWS);
    Packet {
        client: ClientId(id(random, CLIENTS) as u32),
        flow: FlowId(flow as u32),
        key: flow * 0x1234_5678_9ABC,
        rss: flow as u32 * 77,
        service: ServiceId(id(random, SERVICES) as u16),
        length: id(random, 1515u32) as u32,
        ..Packet::default()
    }
}

/// Returns a plausible busy time; now and then an absurd one, as of a broken clock.
fn busy(random: &mut Random) -> Time {
    Time::from_ns(if random.below(100) == 0 { u64::MAX } else { random.below(5000) })
}

/// Makes one call, and the calls that a host makes after every call.
fn call(scheduler: &mut Embedded, random: &mut Random, now: Time) -> Result<(), Refusal> {
    match random.below(24) {
        0..8 => drop(scheduler.arrive(now, packet(random))?),
        8..14 => drop(scheduler.next(now, id(random, CORES) as u16)?),
        14..20 => drop(scheduler.complete(now, id(random, PACKETS) as u32, busy(random))?),
        20 => scheduler.set_weight(now, id(random, CLIENTS) as u32, random.below(2000) as u32)?,
        21 => scheduler.end_client(now, id(random, CLIENTS) as u32)?,
        22 => scheduler.end_flow(now, id(random, FLOWS) as u32)?,
        _ => scheduler.switched(now, id(random, CORES) as u16)?,
    }
    while scheduler.next_switch()?.is_some() {}
    if scheduler.next_timeout()?.is_some_and(|at| at <= now) {
        scheduler.on_timeout(now)?;
    }
    scheduler.next_core(now).map(drop)
}

fn play(policy: &str, seed: u64) {
    let mut scheduler = match Embedded::new(policy, LONGEST, config(seed)) {
        Ok(scheduler) => scheduler,
        Err(refusal) => panic!("{policy}: {refusal}"),
    };
    let mut random = Seed(seed).stream(policy);
    let (mut now, mut granted) = (0u64, 0);
    for _ in 0..2000 {
        now += random.below(500);
        let back = if random.below(100) == 0 { 300 } else { 0 };
        match call(&mut scheduler, &mut random, Time::from_ns(now.saturating_sub(back))) {
            Ok(()) => granted += 1,
            Err(refusal) => assert_ne!(refusal.kind, RefusalKind::Broken, "{policy}, seed {seed}: {refusal}"),
        }
    }
    let account = scheduler.account().unwrap();
    // A policy that waits for one core while the host asks others serves fewer packets.
    assert!(account.balances() && account.processed > 20 && granted > 500, "{policy}: {granted} granted, {account:?}");
}

#[test]
fn no_policy_fails_inside_whatever_is_called() {
    let mut with_quantum = Vec::new();
    for entry in entries() {
        let policy = match entry.info.family {
            Family::Estimate => format!("estimate={}/share=drr", entry.info.name),
            _ => entry.info.name.to_owned(),
        };
        match Embedded::new(&policy, LONGEST, config(0)) {
            Ok(_) => (0..12).for_each(|seed| play(&policy, seed)),
            Err(refusal) => {
                assert!(refusal.to_string().contains("has a quantum"), "{policy}: {refusal}");
                with_quantum.push(policy);
            }
        }
    }
    assert_eq!(with_quantum, ["ps", "shinjuku", "concord"], "policies that hosts refuse");
    (0..12).for_each(|seed| play("steer=hrw/share=gr3", seed));
}

#[test]
fn configurations_that_cannot_be_are_refused() {
    let refused = |change: &dyn Fn(&mut SchedulerConfig)| {
        let mut config = config(0);
        change(&mut config);
        let refusal = Embedded::new("ps-hrw", LONGEST, config).unwrap_err();
        let kind =
            if refusal.to_string().contains("too many") { BuildErrorKind::TooLarge } else { BuildErrorKind::SetUp };
        assert_eq!(refusal.kind, RefusalKind::Build(kind));
        refusal.to_string()
    };
    assert_eq!(refused(&|config| config.cores = 0), "there may be 1 to 65535 cores, not 0");
    assert_eq!(refused(&|config| config.contexts = 0), "there may be 1 to 4 contexts, not 0");
    assert_eq!(refused(&|config| config.clients = 1 << 30), "there may be 1 to 16777216 clients, not 1073741824");
    assert_eq!(refused(&|config| config.flows = 1 << 30), "there may be 1 to 16777216 flows, not 1073741824");
    assert_eq!(refused(&|config| config.packets = 0), "there may be 1 to 16777216 packets, not 0");
    assert_eq!(
        refused(&|config| config.topology = Some(topology("3x1").unwrap())),
        "the topology has 3 cores, the run 4"
    );
    assert_eq!(refused(&|config| config.speeds = vec![1; 5]), "5 speeds for 4 cores");
    assert_eq!(refused(&|config| config.speeds = vec![1000, 0]), "a speed is from 1, not 0");
    assert_eq!(refused(&|config| config.contexts = 3), "4 cores are no elements of 3 contexts each");
    let refusal = Embedded::new("gr3", LONGEST, config(0))
        .unwrap()
        .arrive(Time::ZERO, Packet { length: 1515, ..Packet::default() });
    assert_eq!(refusal.unwrap_err().to_string(), "1515 bytes are more than the longest packet's 1514");
    let many = vec![ServiceConfig::default(); 70_000];
    assert_eq!(refused(&|config| config.services.clone_from(&many)), "70000 services on 4 cores are too many");
    let dear = LinearCost { fixed: 1 << 32, ..LinearCost::BYTES };
    let message = refused(&|config| config.estimates[1] = dear);
    assert!(message.starts_with("the parts of an estimate are at most 4294967295: LinearCost"), "{message}");
}

#[test]
fn what_hosts_leave_out_has_defaults() {
    let (only, usual) = services(std::iter::empty(), WorkUnit::Packets);
    assert_eq!((only, usual), (vec![ServiceConfig::default()], vec![LinearCost::PACKETS]));
    let silent = ServiceConfig { guarantee_millionths: 0, ..ServiceConfig::default() };
    let dear = LinearCost { fixed: 9, ..LinearCost::default() };
    let given = [(silent.clone(), LinearCost::default()), (silent, dear)];
    let (named, estimates) = services(given.into_iter(), WorkUnit::Nanoseconds);
    assert_eq!(named.iter().map(|service| service.name.as_str()).collect::<Vec<_>>(), ["0", "1"]);
    assert_eq!(estimates, [LinearCost::BYTES, dear]);
    assert_eq!(weights(&[1, 2], 1).unwrap_err().to_string(), "2 weights for 1 clients");
    assert_eq!(weights(&[1, 0], 2).unwrap_err().to_string(), "a weight is from 1, not 0");
    assert_eq!(topology("2x").unwrap_err().kind, RefusalKind::Build(BuildErrorKind::SetUp));
}
