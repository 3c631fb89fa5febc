//! What a record comes to: how busy each processor was, why, and what policies would have done.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::time::Duration;

use humpyard_core::random::Seed;
use humpyard_policies::spec::PolicySpec;
use serde::Serialize;

use super::cause::cause;
use super::check_steers;
use super::foresee::{Foreseen, Processors, Way};
use super::replay::{Replay, rps};
use super::tables;
use super::twin::Twin;
use crate::LabError;
use humpyard_traffic::steer_record::{HeavyFlow, SteerRecord};

/// What a packet is taken to cost where the kernel's time is too short to be measured, in ns.
const COST_NS: f64 = 1000.0;
/// Flows that a diagnosis names.
const HEAVY_FLOWS: usize = 8;

/// What came of a record.
#[derive(Clone, Serialize, Debug)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The interface.
    pub interface: String,
    /// The length of the record, in seconds.
    pub seconds: f64,
    /// Packets that arrived.
    pub packets: u64,
    /// Bytes of frames that arrived.
    pub bytes: u64,
    /// Buckets of connections.
    pub buckets: usize,
    /// Buckets that had packets.
    pub buckets_used: usize,
    /// Receive queues of the interface; 0: unknown.
    pub queues: usize,
    /// Whether the kernel hands packets on to other processors (RPS).
    pub rps: bool,
    /// Whether frames were counted in the driver.
    pub native: bool,
    /// The time of a sample, in ns: as long as was asked for, or longer where samples were merged.
    pub sample_ns: u64,
    /// Threads of the kernel that take packets from the interface (threaded NAPI); their time counts as softirq. 0:
    /// they are not visible, and time on packets is not known. `None`: there are none.
    pub napi_threads: Option<u32>,
    /// By processor.
    pub processors: Vec<ProcessorLoad>,
    /// By receive queue and the processor that took its packets.
    pub queue_loads: Vec<QueueLoad>,
    /// The heaviest flows.
    pub heavy_flows: Vec<HeavyFlow>,
    /// What a packet costs a processor in the replay, in ns.
    pub cost_ns: f64,
    /// Whether that was measured; if not, it is assumed.
    pub cost_measured: bool,
    /// What handing a packet to another processor is taken to cost the one that receives it, in ns.
    pub hand_over_ns: f64,
    /// What it is taken to cost a processor that has received packets to go on with those that were given to it, in ns.
    pub resume_ns: f64,
    /// One packet of the replay stands for this many.
    pub stands_for: u64,
    /// Why a processor is hot, in a sentence.
    pub cause: String,
    /// What there is (`now`) and what each policy would have done, as the simulator has it.
    pub policies: Vec<Foreseen>,
    /// What to do, in a sentence.
    pub advice: String,
}

/// How much a processor had to do.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
#[non_exhaustive]
pub struct ProcessorLoad {
    /// Its number.
    pub processor: u32,
    /// Packets of the interface that it took, as a part of all.
    pub share: f64,
    /// Time in interrupts, what they defer and threads that take packets (threaded NAPI), as a part of its time.
    pub softirq_fraction: f64,
    /// Time with any work, as a part of its time.
    pub busy_fraction: f64,
    /// Packets that the kernel dropped there, of all interfaces.
    pub dropped: u64,
}

/// How much came by a receive queue.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
#[non_exhaustive]
pub struct QueueLoad {
    /// The queue, from 0.
    pub queue: u32,
    /// The processor that took its packets.
    pub processor: u32,
    /// Packets, as a part of all.
    pub share: f64,
    /// Bytes of frames.
    pub bytes: u64,
}

/// What a record is replayed under.
#[derive(Clone, Copy, Debug)]
pub struct DiagnoseOptions<'a> {
    /// The policies.
    pub policies: &'a [PolicySpec],
    /// A bucket moves once it has had no packet for this long.
    pub guard: Duration,
    /// What handing a packet to another processor costs the one that receives it.
    pub hand_over: Duration,
    /// What it costs a processor that has received packets to go on with those that were given to it.
    pub resume: Duration,
    /// The seed of all randomness.
    pub seed: Seed,
}

/// Replays a record under what there is and under policies, on as many cores as there were processors. A policy decides
/// as [`Steering`](super::Steering) has it decide: by a table, which follows what came at the end of each sample.
///
/// # Errors
/// A policy that cannot steer these cores, and a record without packets.
pub fn diagnose(
    record: &SteerRecord,
    options: DiagnoseOptions<'_>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Diagnosis, LabError> {
    let DiagnoseOptions { policies, guard, hand_over, resume, seed } = options;
    let mut diagnosis = Diagnosis::measured(record);
    if diagnosis.packets == 0 {
        return Err(LabError::option(format!(
            "nothing arrived at `{}` in {:.1} s: there is nothing to steer",
            diagnosis.interface, diagnosis.seconds
        )));
    }
    let cores = diagnosis.processors.len();
    policies.iter().try_for_each(|policy| check_steers(policy, cores))?;
    let replay = Replay::of(record, seed)?;
    diagnosis.stands_for = replay.stands_for;
    (diagnosis.hand_over_ns, diagnosis.resume_ns) = (hand_over.as_nanos() as f64, resume.as_nanos() as f64);
    let Diagnosis { cost_ns, hand_over_ns, resume_ns, .. } = diagnosis;
    let processors = Processors { count: cores, cost_ns, hand_over_ns, resume_ns };
    // Where RPS is on already, what there is has it.
    let rps = (!record.head.rps).then(|| rps(seed)).transpose()?;
    let cost_ns = (cost_ns.round() as u64).max(1);
    let applied = |policy: &PolicySpec| {
        let twin = Twin::new(policy, cores, record.head.buckets, cost_ns, seed)?;
        tables::applied(record, &replay.flows, replay.stands_for, guard, twin)
    };
    let mut foresee = |name: String, policy: PolicySpec, way: Way| {
        progress(&name);
        let foreseen = processors.foreseen(&replay, policy, way, seed, stop)?;
        Ok::<_, LabError>(foreseen.map(|foreseen| {
            let before = diagnosis.policies.first().map_or(foreseen.p99_ns, |now| now.p99_ns);
            diagnosis.policies.push(Foreseen { policy: name, ..foreseen }.beside(before));
        }))
    };
    let as_they_are = core::iter::once((replay.now.clone(), Way::Stays)).chain(rps.map(|rps| (rps, Way::Backlog)));
    for (policy, way) in as_they_are {
        if foresee(policy.to_string(), policy, way)?.is_none() {
            break;
        }
    }
    for policy in policies {
        if stop.load(Ordering::Relaxed) || foresee(policy.to_string(), applied(policy)?, Way::CpuMap)?.is_none() {
            break;
        }
    }
    diagnosis.advice = advice(&diagnosis);
    Ok(diagnosis)
}

impl Diagnosis {
    /// What needs no simulator.
    fn measured(record: &SteerRecord) -> Self {
        let buckets = || record.samples.iter().flat_map(|sample| &sample.buckets);
        let mut packets_of: BTreeMap<u32, u64> = BTreeMap::new();
        buckets().for_each(|found| *packets_of.entry(found.processor).or_default() += found.packets);
        let packets: u64 = packets_of.values().sum();
        let processors = loads(record, &packets_of, packets.max(1));
        let (cost_ns, cost_measured) = cost(record);
        let used: std::collections::BTreeSet<u32> = buckets().map(|found| found.bucket).collect();
        let mut diagnosis = Self {
            interface: record.head.interface.clone(),
            seconds: record.length().as_secs_f64(),
            packets,
            bytes: buckets().map(|found| found.bytes).sum(),
            buckets: record.head.buckets,
            buckets_used: used.len(),
            queues: record.head.queues,
            rps: record.head.rps,
            native: record.head.native,
            sample_ns: record.head.every_ns,
            napi_threads: napi_threads(record),
            processors,
            queue_loads: queue_loads(record, packets.max(1)),
            heavy_flows: heavy_flows(record),
            cost_ns,
            cost_measured,
            hand_over_ns: 0.0,
            resume_ns: 0.0,
            stands_for: 1,
            cause: String::new(),
            policies: Vec::new(),
            advice: String::new(),
        };
        diagnosis.cause = cause(&diagnosis, record);
        diagnosis
    }
}

/// Returns how many threads take packets: the fewest that were visible. `None`: there were none.
fn napi_threads(record: &SteerRecord) -> Option<u32> {
    record.samples.iter().filter_map(|sample| sample.napi_threads).min()
}

fn loads(record: &SteerRecord, packets_of: &BTreeMap<u32, u64>, packets: u64) -> Vec<ProcessorLoad> {
    let ns = record.length().as_nanos().max(1) as f64;
    record
        .processors()
        .into_iter()
        .map(|number| {
            let of = || {
                record.samples.iter().flat_map(|sample| &sample.processors).filter(move |one| one.processor == number)
            };
            let (softirq, idle): (u64, u64) = (of().map(|one| one.softirq_ns).sum(), of().map(|one| one.idle_ns).sum());
            ProcessorLoad {
                processor: number,
                share: packets_of.get(&number).copied().unwrap_or(0) as f64 / packets as f64,
                softirq_fraction: (softirq as f64 / ns).min(1.0),
                busy_fraction: (1.0 - idle as f64 / ns).clamp(0.0, 1.0),
                dropped: of().map(|one| one.dropped).sum(),
            }
        })
        .collect()
}

fn queue_loads(record: &SteerRecord, packets: u64) -> Vec<QueueLoad> {
    let mut loads: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for found in record.samples.iter().flat_map(|sample| &sample.queues) {
        let (packets, bytes) = loads.entry((found.queue, found.processor)).or_default();
        (*packets, *bytes) = (*packets + found.packets, *bytes + found.bytes);
    }
    let load = |((queue, processor), (of_queue, bytes))| {
        let share = of_queue as f64 / packets as f64;
        QueueLoad { queue, processor, share, bytes }
    };
    loads.into_iter().map(load).collect()
}

/// Returns what a packet costs, in ns: the kernel's time for all packets, by their number. `false`: it was too short to
/// be measured, or is not known.
fn cost(record: &SteerRecord) -> (f64, bool) {
    let processors = || record.samples.iter().flat_map(|sample| &sample.processors);
    let (ns, packets): (u64, u64) =
        (processors().map(|one| one.softirq_ns).sum(), processors().map(|one| one.packets).sum());
    // The kernel counts its time in steps of 10 ms.
    const LEAST_NS: u64 = 200_000_000;
    let is_unknown = napi_threads(record) == Some(0);
    if ns < LEAST_NS || packets == 0 || is_unknown {
        (COST_NS, false)
    } else {
        ((ns as f64 / packets as f64).round(), true)
    }
}

fn heavy_flows(record: &SteerRecord) -> Vec<HeavyFlow> {
    let mut flows: BTreeMap<&str, HeavyFlow> = BTreeMap::new();
    for found in record.samples.iter().flat_map(|sample| &sample.flows) {
        let sum = flows.entry(&found.flow).or_insert_with(|| HeavyFlow { packets: 0, bytes: 0, ..found.clone() });
        sum.packets += found.packets;
        sum.bytes += found.bytes;
    }
    let mut flows: Vec<HeavyFlow> = flows.into_values().collect();
    flows.sort_by_key(|flow| core::cmp::Reverse(flow.packets));
    flows.truncate(HEAVY_FLOWS);
    flows
}

/// The name of receive packet steering, among policies.
pub const RPS: &str = "rps";
/// The margin of which it is worth to speak.
const MARGIN: f64 = 0.2;

/// Says what to do: nothing, unless a policy is better by a margin.
fn advice(diagnosis: &Diagnosis) -> String {
    let Some((now, others)) = diagnosis.policies.split_first() else { return String::new() };
    // Loss before order, order before delay, and among equals the one that moves least.
    let in_10000 = |part: f64| (part * 1e4).round() as u64;
    let order =
        |one: &Foreseen| (in_10000(one.dropped_fraction), in_10000(one.reordered_fraction), one.p99_ns, one.moves);
    let Some(best) = others.iter().min_by_key(|one| order(one)) else { return String::new() };
    let is_better = best.margin >= MARGIN && best.dropped_fraction <= now.dropped_fraction
        || best.dropped_fraction + 0.001 < now.dropped_fraction;
    if !is_better {
        if best.margin < 0.005 {
            return "Leave it: no policy makes 99 of 100 packets faster.".to_owned();
        }
        return format!(
            "Leave it: the best policy, {}, would change the time of 99 of 100 packets by {:+.0} % only.",
            best.policy,
            -100.0 * best.margin
        );
    }
    let loss = match in_10000(now.dropped_fraction) == in_10000(best.dropped_fraction) {
        true => String::new(),
        false => format!(
            ", and {:.2} % instead of {:.2} % would be dropped",
            100.0 * best.dropped_fraction,
            100.0 * now.dropped_fraction
        ),
    };
    let what = match best.policy == RPS {
        true => "Turn RPS on, for all processors".to_owned(),
        false => format!("Steer by {}", best.policy),
    };
    let change = if best.margin < 0.0 { "longer" } else { "less" };
    format!("{what}: 99 of 100 packets would take {:.0} % {change}{loss}.", 100.0 * best.margin.abs())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::replay::NOW;
    use super::*;
    use humpyard_traffic::steer_record::{BucketSample, ProcessorSample, RecordHead, SteerSample};

    /// A record of ten seconds on four processors: each of these buckets sends packets to a processor in each sample,
    /// and processors spend these parts of their time on packets.
    pub(in super::super) fn record(buckets: &[(u32, u32, u64)], softirq: [f64; 4]) -> SteerRecord {
        let (every, samples) = (Duration::from_millis(100), 100);
        let mut head = RecordHead::new("eth0", 4, 1024, every, 16);
        head.queues = 4;
        let every_ns = every.as_nanos() as u64;
        let packets = |processor| buckets.iter().filter(|bucket| bucket.1 == processor).map(|bucket| bucket.2).sum();
        let processor = |processor: u32| {
            let softirq_ns = (softirq[processor as usize] * every_ns as f64) as u64;
            let idle_ns = every_ns - softirq_ns;
            ProcessorSample {
                processor,
                softirq_ns,
                system_ns: 0,
                user_ns: 0,
                idle_ns,
                packets: packets(processor),
                dropped: 0,
            }
        };
        let bucket = |&(bucket, processor, packets): &(u32, u32, u64)| BucketSample {
            bucket,
            processor,
            packets,
            bytes: 500 * packets,
        };
        let sample = |number: u64| SteerSample {
            time_ns: number * every_ns,
            buckets: buckets.iter().map(bucket).collect(),
            processors: (0..4).map(processor).collect(),
            ..SteerSample::default()
        };
        SteerRecord { head, samples: (1..=samples).map(sample).collect() }
    }

    pub(in super::super) fn options(policies: &[PolicySpec], seed: u64) -> DiagnoseOptions<'_> {
        DiagnoseOptions {
            policies,
            guard: Duration::from_millis(1),
            hand_over: Duration::ZERO,
            resume: Duration::ZERO,
            seed: Seed(seed),
        }
    }

    /// Forty buckets of a hundred packets a sample, of which one processor has 28.
    fn unlucky() -> SteerRecord {
        let home = |bucket| if bucket < 28 { 0 } else { 1 + bucket % 3 };
        let buckets: Vec<_> = (0..40).map(|bucket| (25 * bucket, home(bucket), 100)).collect();
        record(&buckets, [0.9, 0.13, 0.13, 0.13])
    }

    fn diagnosed(record: &SteerRecord, policies: &[&str], seed: u64) -> Diagnosis {
        let policies: Vec<PolicySpec> = policies.iter().map(|policy| policy.parse().unwrap()).collect();
        diagnose(record, options(&policies, seed), &AtomicBool::new(false), &mut |_| {}).unwrap()
    }

    #[test]
    fn what_there_is_is_replayed_as_it_was() {
        let diagnosis = diagnosed(&unlucky(), &[], 1);
        assert_eq!((diagnosis.packets, diagnosis.buckets_used, diagnosis.stands_for), (400_000, 40, 1));
        // 1.29 of 4 processors' time for 40,000 packets a second.
        assert!((diagnosis.cost_ns - 32_250.0).abs() < 1.0 && diagnosis.cost_measured, "{}", diagnosis.cost_ns);
        let now = &diagnosis.policies[0];
        assert!((now.imbalance - 2.8).abs() < 0.05, "28 of 40 buckets where 10 would be even: {}", now.imbalance);
        assert_eq!((now.moves, now.reordered_fraction, now.margin), (0, 0.0, 0.0));
    }

    #[test]
    fn a_policy_that_evens_loads_is_advised() {
        let diagnosis = diagnosed(&unlucky(), &["hrw", "rss++"], 1);
        let [now, rps, hrw, rss] = &diagnosis.policies[..] else { panic!("four") };
        assert!(rps.policy == "rps" && rps.moves == 0 && rps.imbalance > 1.1, "{rps:?}");
        assert!(rss.imbalance < 1.1 && rss.imbalance < hrw.imbalance && rss.p99_ns < now.p99_ns / 2, "{rss:?}");
        assert!(rss.moves > 0 && hrw.moves == 0);
        assert!(diagnosis.advice.starts_with("Steer by "), "{}", diagnosis.advice);
    }

    /// Packets of a bucket are some 10 ms apart: with a guard above that hardly one moves, as in the kernel.
    #[test]
    fn a_bucket_that_never_rests_does_not_move() {
        let policies = ["rss++".parse().unwrap()];
        let moves = |guard| {
            let guard = Duration::from_millis(guard);
            let options = DiagnoseOptions { guard, ..options(&policies, 1) };
            let diagnosis = diagnose(&unlucky(), options, &AtomicBool::new(false), &mut |_| {}).unwrap();
            diagnosis.policies.last().unwrap().moves
        };
        let (free, held) = (moves(1), moves(100));
        assert!(free > 10 && held == 0, "{free} {held}");
    }

    /// Loss comes before delay: the table of the program lets twice as many packets wait, and drops fewer.
    #[test]
    fn a_policy_that_drops_less_is_advised_though_packets_wait_longer() {
        let foreseen = |policy: &str, p99_ns, dropped_fraction, margin| Foreseen {
            policy: policy.to_owned(),
            imbalance: 2.0,
            busy_fractions: vec![1.0, 0.5],
            p50_ns: 1_000,
            p99_ns,
            dropped_fraction,
            moves: 0,
            reordered_fraction: 0.0,
            margin,
        };
        let mut diagnosis = diagnosed(&unlucky(), &[], 1);
        diagnosis.policies = vec![foreseen(NOW, 10_000_000, 0.12, 0.0), foreseen("hrw", 20_000_000, 0.05, -1.0)];
        assert_eq!(
            advice(&diagnosis),
            "Steer by hrw: 99 of 100 packets would take 100 % longer, and 5.00 % instead of 12.00 % would be dropped."
        );
    }

    #[test]
    fn where_loads_are_even_there_is_nothing_to_do() {
        let buckets: Vec<_> = (0..400).map(|bucket| (bucket, bucket % 4, 10)).collect();
        let diagnosis = diagnosed(&record(&buckets, [0.2; 4]), &["hrw", "rss++"], 1);
        assert!(diagnosis.advice.starts_with("Leave it"), "{}", diagnosis.advice);
    }

    #[test]
    fn the_same_record_and_seed_give_the_same() {
        let text = |seed| serde_json::to_string(&diagnosed(&unlucky(), &["rss++", "ps-hrw"], seed)).unwrap();
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
    }

    #[test]
    fn a_record_of_nothing_is_refused() {
        let said = diagnose(&record(&[], [0.0; 4]), options(&[], 1), &AtomicBool::new(false), &mut |_| {}).unwrap_err();
        assert!(said.to_string().starts_with("nothing arrived at `eth0` in 10.0 s"), "{said}");
    }

    #[test]
    fn a_policy_that_does_not_steer_is_refused() {
        for policy in ["drr", "everest"] {
            let policies = [policy.parse().unwrap()];
            let said = diagnose(&unlucky(), options(&policies, 1), &AtomicBool::new(false), &mut |_| {}).unwrap_err();
            assert!(said.to_string().contains("does not steer packets to cores: name one of hrw"), "{said}");
        }
    }

    /// Numbers of processors need not be those of cores: the kernel may have room for more, and some may be offline.
    #[test]
    fn processors_that_are_not_there_are_no_cores() {
        let mut record = unlucky();
        record.head.processors = 64;
        for sample in &mut record.samples {
            sample.processors.iter_mut().for_each(|one| one.processor *= 10);
            sample.buckets.iter_mut().for_each(|bucket| bucket.processor *= 10);
        }
        let [found, expected] = [&record, &unlucky()].map(|record| diagnosed(record, &["rss++"], 1));
        assert_eq!(found.policies, expected.policies);
        assert_eq!(found.processors.iter().map(|one| one.processor).collect::<Vec<_>>(), [0, 10, 20, 30]);
    }
}
