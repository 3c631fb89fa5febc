//! Policies with a central queue or a quantum, against a simulation of their own in a few lines.

use std::collections::VecDeque;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::{LinearCost, Span};
use humpyard_core::id::{ClientId, CoreId, FlowId};
use humpyard_core::measure::{Measured, Measurements, Observer};
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Dropped, FlowOrder, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, WorkUnit};
use humpyard_policies::spec::PolicySpec;
use humpyard_sim::{Driver, Feed, Packets, TimedCores};

/// A packet: when it arrives, and its work.
type Job = (u64, u64);

/// Where packets wait.
#[derive(Clone, Copy, PartialEq)]
enum Queues {
    /// In one line, and at most this number at each core, the one in service included.
    Central { room: usize },
    /// At the core with the fewest packets; of several, at the one whose packets have had most quanta, if these count.
    Own { quanta_count: bool },
}

/// The rules of a policy.
#[derive(Clone, Copy)]
struct Rules {
    queues: Queues,
    quantum: u64,
    switch_out: u64,
}

/// Simulates the rules: returns when each packet is done.
fn prototype(rules: Rules, cores: usize, jobs: &[Job]) -> Vec<u64> {
    let mut left: Vec<u64> = jobs.iter().map(|job| job.1).collect();
    let mut quanta = vec![0_u64; jobs.len()];
    let mut done = vec![0; jobs.len()];
    let mut central = VecDeque::new();
    let mut local = vec![VecDeque::<usize>::new(); cores];
    // The packet of each core, and the end of its turn.
    let mut serving: Vec<Option<(usize, u64)>> = vec![None; cores];
    let mut next = 0;
    while next < jobs.len() || serving.iter().any(Option::is_some) {
        let ends = serving.iter().flatten().map(|&(_, end)| end).min();
        let now = ends.into_iter().chain(jobs.get(next).map(|job| job.0)).min().expect("something is to come");
        for core in 0..cores {
            let Some((job, _)) = serving[core].filter(|&(_, end)| end == now) else { continue };
            serving[core] = None;
            left[job] -= left[job].min(rules.quantum);
            quanta[job] += 1;
            match rules.queues {
                _ if left[job] == 0 => done[job] = now,
                Queues::Own { .. } => local[core].push_back(job),
                Queues::Central { .. } => central.push_back(job),
            }
        }
        while jobs.get(next).is_some_and(|job| job.0 == now) {
            match rules.queues {
                Queues::Central { .. } => central.push_back(next),
                Queues::Own { quanta_count } => {
                    let held = |core: usize| local[core].iter().copied().chain(serving[core].map(|(job, _)| job));
                    let had = |core: usize| held(core).map(|job| quanta[job] * u64::from(quanta_count)).sum::<u64>();
                    let chosen = (0..cores).min_by_key(|&core| (held(core).count(), u64::MAX - had(core), core));
                    local[chosen.expect("a core")].push_back(next);
                }
            }
            next += 1;
        }
        if let Queues::Central { room } = rules.queues {
            let occupied =
                |core: usize, local: &[VecDeque<usize>]| local[core].len() + usize::from(serving[core].is_some());
            while !central.is_empty() {
                let chosen = (0..cores).min_by_key(|&core| (occupied(core, &local), core)).expect("a core");
                if occupied(chosen, &local) >= room {
                    break;
                }
                local[chosen].extend(central.pop_front());
            }
        }
        for core in 0..cores {
            if serving[core].is_none() {
                serving[core] = local[core].pop_front().map(|job| {
                    let is_over = left[job] <= rules.quantum;
                    (job, now + left[job].min(rules.quantum) + if is_over { 0 } else { rules.switch_out })
                });
            }
        }
    }
    done
}

/// Notes when each packet is done.
#[derive(Clone, Debug, Default)]
struct Ends(std::sync::Arc<std::sync::Mutex<Vec<u64>>>);

impl Observer for Ends {
    fn on_arrival(&mut self, _: Time, _: &Packet, _: Arrival) {
        self.0.lock().unwrap().push(0);
    }
    fn on_dispatch(&mut self, _: Time, _: CoreId, _: &Dispatch) {}
    fn on_completion(&mut self, _: CoreId, _: humpyard_core::id::Slot, completed: &Completed, finished: Time, _: Time) {
        self.0.lock().unwrap()[completed.packet.sequence as usize] = finished.as_ns();
    }
    fn on_drop(&mut self, _: &Dropped) {}
    fn on_switch(&mut self, _: &Switch) {}
    fn on_switched(&mut self, _: Time, _: CoreId) {}
}

/// Simulates a policy: returns when each packet is done, and the number of preemptions. Packets take their estimate,
/// and each is of one of these flows.
fn simulated(policy: &str, cores: usize, jobs: &[Job], flows: usize, switch_out: u64) -> (Vec<u64>, u64) {
    let config = SchedulerConfig {
        cores,
        clients: flows,
        flows,
        packets: jobs.len(),
        unit: WorkUnit::Nanoseconds,
        flow_order: FlowOrder::Free,
        estimates: vec![LinearCost { fixed: 1, per_byte_milli: 0, cold: 0 }],
        ..SchedulerConfig::default()
    };
    let packet = |(at, job): (usize, &Job)| Packet {
        arrival: Time::from_ns(job.0),
        length: 100,
        estimate: job.1,
        flow: FlowId((at % flows) as u32),
        client: ClientId((at % flows) as u32),
        ..Packet::default()
    };
    let spec: PolicySpec = format!("estimate=oracle/share={policy}").parse().expect("a policy");
    let scheduler = spec.build(&config).expect("a valid set-up");
    scheduler.check_preemption().expect("a composition that preempts");
    let (quantum, slots) = (scheduler.quantum(), scheduler.slots());
    let work: Vec<u64> = jobs.iter().map(|job| job.1).collect();
    let mut timed = TimedCores::new(cores, |now: Time, _, dispatch: &Dispatch<&Packet>| {
        let busy = Time::from_ns(work[dispatch.packet.sequence as usize]);
        Span { finished: now + busy, busy }
    });
    if let Some(quantum) = quantum {
        timed = timed.with_quantum(quantum, Time::from_ns(switch_out), slots);
    }
    let ends = Ends::default();
    let measured = Measured::new(scheduler, Measurements::new(&config)).with_observer(Box::new(ends.clone()));
    let packets: Vec<Packet> = jobs.iter().enumerate().map(packet).collect();
    let driven = Driver::new(measured, Packets::new(packets, Feed::Arrivals), timed).drive().expect("a run");
    driven.measured.scheduler().check();
    assert_eq!(driven.measured.account().processed, jobs.len() as u64);
    let summary = driven.measured.summary();
    let busy: f64 = summary.cores_detail.iter().map(|core| core.utilization * summary.duration_ns as f64).sum();
    let preemptions = summary.preemptions.unwrap_or(0);
    let worked = work.iter().sum::<u64>() + preemptions * switch_out;
    assert!((busy - worked as f64).abs() < worked as f64 * 1e-9 + 1.0, "cores were busy for {busy}, not for {worked}");
    let ends = ends.0.lock().unwrap().clone();
    (ends, preemptions)
}

/// Returns the finishing times of packets with this work that all arrive at 0.
fn at_once(policy: &str, cores: usize, work: &[u64]) -> Vec<u64> {
    let jobs: Vec<Job> = work.iter().map(|&work| (0, work)).collect();
    simulated(policy, cores, &jobs, jobs.len(), 0).0
}

#[test]
fn the_vectors_of_the_specification() {
    assert_eq!(at_once("jbsq:n=2", 2, &[10, 1, 1, 1, 1]), [10, 1, 11, 2, 3]);
    assert_eq!(at_once("jbsq:n=1", 2, &[10, 1, 1, 1, 1]), [10, 1, 2, 3, 4]);
    assert_eq!(at_once("ps:quantum=1ns,idle=yield", 1, &[3, 1, 2]), [6, 2, 5]);
    assert_eq!(at_once("shinjuku:quantum=2ns,idle=yield", 2, &[5, 5, 1]), [5, 6, 3]);
    assert_eq!(at_once("srpt:quantum=1ns", 1, &[4, 1, 2]), [7, 1, 3]);
    assert_eq!(at_once("concord:n=2,quantum=2ns,idle=yield", 2, &[5, 1, 1, 1]), [5, 1, 3, 2]);
}

/// Returns Poisson arrivals at this load of 16 cores. The work is drawn by `work`, and its mean is `mean`.
fn poisson(seed: u64, packets: usize, load: f64, mean: f64, work: impl Fn(f64) -> f64) -> Vec<Job> {
    let (mut gaps, mut works) = (Seed(seed).stream("gaps"), Seed(seed).stream("works"));
    let mut now = 0.0;
    let job = |_| {
        now += gaps.exponential(mean / (16.0 * load));
        (now as u64, (work(works.unit()) as u64).max(1))
    };
    (0..packets).map(job).collect()
}

const POLICIES: [(&str, Rules); 8] = [
    ("fcfs", Rules { queues: Queues::Central { room: 1 }, quantum: u64::MAX, switch_out: 0 }),
    ("jbsq:n=1", Rules { queues: Queues::Central { room: 1 }, quantum: u64::MAX, switch_out: 0 }),
    ("jbsq:n=2", Rules { queues: Queues::Central { room: 2 }, quantum: u64::MAX, switch_out: 0 }),
    ("jbsq:n=4", Rules { queues: Queues::Central { room: 4 }, quantum: u64::MAX, switch_out: 0 }),
    ("ps:idle=yield", Rules { queues: Queues::Own { quanta_count: true }, quantum: 1_000, switch_out: 0 }),
    ("ps:idle=yield,ties=lowest", Rules { queues: Queues::Own { quanta_count: false }, quantum: 1_000, switch_out: 0 }),
    ("shinjuku:idle=yield", Rules { queues: Queues::Central { room: 1 }, quantum: 5_000, switch_out: 0 }),
    ("concord:idle=yield", Rules { queues: Queues::Central { room: 2 }, quantum: 5_000, switch_out: 0 }),
];

/// Every packet is done at the same nanosecond as by the prototype, for exponential times and for times of two sizes.
#[test]
fn every_packet_is_done_when_the_prototype_says() {
    for load in [0.5, 0.8, 0.95] {
        let exponential = |draw: f64| -1_000.0 * (1.0 - draw).ln();
        let two = |draw: f64| if draw < 0.995 { 500.0 } else { 500_000.0 };
        let loads = [poisson(1, 20_000, load, 1_000.0, exponential), poisson(2, 20_000, load, 2_997.5, two)];
        for jobs in loads {
            for (policy, rules) in POLICIES {
                for switch_out in [0, 1_000] {
                    let rules = Rules { switch_out, ..rules };
                    let (found, _) = simulated(policy, 16, &jobs, jobs.len(), switch_out);
                    let expected = prototype(rules, 16, &jobs);
                    let first = (0..jobs.len()).find(|&at| found[at] != expected[at]);
                    assert_eq!(first, None, "{policy} at {load}: {:?}", first.map(|at| (found[at], expected[at])));
                }
            }
        }
    }
}

/// Packets of few flows exchange places; nothing is lost, and all cores together work as long.
#[test]
fn flows_with_many_packets_are_served_whole() {
    let two = |draw: f64| if draw < 0.9 { 500.0 } else { 20_000.0 };
    let jobs = poisson(3, 5_000, 0.9, 2_450.0, two);
    for (policy, _) in POLICIES {
        for flows in [1, 7, 100] {
            let (ends, _) = simulated(policy, 16, &jobs, flows, 100);
            assert!(ends.iter().zip(&jobs).all(|(&end, job)| end >= job.0 + job.1), "{policy}, {flows} flows");
        }
    }
}

/// A long packet is preempted by a short one that comes later, and goes on when nothing shorter waits.
#[test]
fn what_is_left_decides() {
    let jobs = [(0, 10), (1, 3), (2, 9)];
    assert_eq!(simulated("srpt:quantum=1ns", 1, &jobs, 3, 0), (vec![13, 5, 22], 1));
    assert_eq!(simulated("srpt", 1, &jobs, 3, 0), (vec![10, 13, 22], 0));
}

/// A policy whose core keeps its packet while nothing else waits does not pay for preemptions.
#[test]
fn a_core_keeps_its_packet_if_nothing_waits() {
    let jobs = [(0, 20_000), (100_000, 20_000)];
    let (ends, preemptions) = simulated("shinjuku:idle=stay", 1, &jobs, 2, 1_000);
    assert_eq!((ends, preemptions), (vec![20_000, 120_000], 0));
    let (ends, preemptions) = simulated("shinjuku:idle=yield", 1, &jobs, 2, 1_000);
    assert_eq!((ends, preemptions), (vec![23_000, 123_000], 6));
}
