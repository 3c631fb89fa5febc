//! Steers an interface: the kernel's table follows a policy.

use core::fmt::{self, Debug};
use core::sync::atomic::AtomicBool;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use humpyard_policies::spec::PolicySpec;
use humpyard_wire::{FLOW_SAMPLE, HandOver, Hashing, NapiThreads};
use serde::Serialize;

use super::change::{Change, ChangeFile};
use super::check_steers;
use super::observe::{HeavyFlows, ObserveOptions, check_there, index_of, queues, wait};
use super::target::{SteerTarget, SteeringTable};
use super::twin::Twin;
use crate::LabError;
use humpyard_traffic::steer_record::{RecordHead, SteerSample};

/// Samples that are looked at together.
const TOGETHER: usize = 10;

/// How an interface is steered.
#[derive(Clone, Debug)]
pub struct ApplyOptions {
    /// Where the policy is carried out.
    pub target: SteerTarget,
    /// How it is looked at.
    pub observe: ObserveOptions,
    /// The policy.
    pub policy: PolicySpec,
    /// The sockets of a fan-out group; not used for interfaces.
    pub sockets: usize,
    /// The directory of the BPF file system in which the table of a fan-out group is; not used for interfaces.
    pub maps: PathBuf,
    /// What a packet costs a processor, in ns: see [`Diagnosis::cost_ns`](super::Diagnosis::cost_ns).
    pub cost_ns: f64,
    /// A bucket moves once it has had no packet for this long.
    pub guard: Duration,
    /// How long it may be worse than before until it ends by itself. `None`: it never does.
    pub rollback: Option<Duration>,
    /// What it was like before.
    pub before: Strain,
}

/// How hard it is for processors.
#[derive(Clone, Copy, PartialEq, Serialize, Debug, Default)]
#[non_exhaustive]
pub struct Strain {
    /// Packets that the kernel dropped, as a part of those that it took.
    pub dropped_fraction: f64,
    /// Time of the busiest processor in interrupts and the kernel, as a part of its time.
    pub busiest_fraction: f64,
    /// Packets that the kernel took, a second.
    pub packets_per_second: f64,
}

/// What became of an interface that was steered.
#[derive(Clone, PartialEq, Serialize, Debug)]
#[non_exhaustive]
pub struct Applied {
    /// The interface.
    pub interface: String,
    /// Where the policy was carried out, such as `cpumap:eth0`.
    pub target: String,
    /// The policy.
    pub policy: String,
    /// How long it was steered, in seconds.
    pub seconds: f64,
    /// Packets that came meanwhile. Where packets are handed over, the same as there: all from when the program was put
    /// on the interface until it was taken off.
    pub packets: u64,
    /// How often a bucket went to another processor; with `rps:`, how often a queue had another set of them.
    pub moves: u64,
    /// What was changed, and is undone.
    pub changed: Vec<String>,
    /// What the policy wanted to move and what was never empty long enough, at the end.
    pub pending: u64,
    /// Before.
    pub before: Strain,
    /// Meanwhile.
    pub meanwhile: Strain,
    /// Why it ended by itself, if it did.
    pub rolled_back: Option<String>,
    /// What became of packets that were handed to other processors. `None`: none were.
    pub handed_over: Option<HandedOver>,
}

/// What became of packets that were handed to other processors: `packets = passed + dropped`.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[non_exhaustive]
pub struct HandedOver {
    /// Packets that were handed over.
    pub packets: u64,
    /// Packets that came there.
    pub passed: u64,
    /// Packets that did not: too many waited for the processor.
    pub dropped: u64,
    /// Packets that came behind a later one of their bucket.
    pub overtaken: u64,
}

impl HandedOver {
    /// What became of them once none waits any more.
    fn of(HandOver { handed, passed, overtaken, .. }: HandOver) -> Self {
        Self { packets: handed, passed, dropped: handed - passed, overtaken }
    }
}

/// What is to be seen of an interface that is steered.
#[derive(Debug)]
pub struct Steered<'a> {
    /// The interface.
    pub head: &'a RecordHead,
    /// What came last.
    pub sample: &'a SteerSample,
    /// By bucket, the processor that its packets are to go to. `None`: the kernel divides connections by itself.
    pub table: Option<&'a [u32]>,
    /// How often a bucket went to another processor so far.
    pub moves: u64,
}

impl Strain {
    /// What these samples show.
    pub fn of<'a>(samples: impl IntoIterator<Item = &'a SteerSample>) -> Self {
        let (mut packets, mut dropped, mut busy) = (0, 0, std::collections::BTreeMap::<u32, (u64, u64)>::new());
        for sample in samples {
            dropped += sample.handed.map_or(0, |handed| handed.missing);
            for one in &sample.processors {
                packets += one.packets;
                dropped += one.dropped;
                let (work, all) = busy.entry(one.processor).or_default();
                *work += one.softirq_ns + one.system_ns;
                *all += one.softirq_ns + one.system_ns + one.user_ns + one.idle_ns;
            }
        }
        let parts = busy.values().map(|&(work, all)| work as f64 / all.max(1) as f64);
        Self {
            dropped_fraction: dropped as f64 / (packets + dropped).max(1) as f64,
            busiest_fraction: parts.fold(0.0, f64::max),
            packets_per_second: packets as f64 * 1e9
                / busy.values().map(|&(_, all)| all).max().unwrap_or(0).max(1) as f64,
        }
    }

    /// Says what is clearly worse than before.
    fn worse_than(&self, before: &Self) -> Option<String> {
        // A tenth of a percent of loss, a tenth of a processor.
        let (loss, time) = (0.001, 0.1);
        if self.dropped_fraction > before.dropped_fraction + loss {
            let [now, then] = [self, before].map(|strain| 100.0 * strain.dropped_fraction);
            return Some(format!("{now:.2} % of the packets were dropped, {then:.2} % before"));
        }
        // More packets make a processor busier, however they are steered.
        let growth = (self.packets_per_second / before.packets_per_second.max(1.0)).max(1.0);
        let is_busier = self.busiest_fraction > growth * before.busiest_fraction + time;
        let [now, then] = [self, before].map(|strain| 100.0 * strain.busiest_fraction);
        is_busier.then(|| format!("the busiest processor had {now:.0} % of its time to do, {then:.0} % before"))
    }
}

/// An interface that is steered. When this is dropped, the interface is as before.
pub struct Steering {
    options: ApplyOptions,
    /// Numbers of the processors that are cores of the policy.
    numbers: Vec<u32>,
    twin: Twin,
    head: RecordHead,
    table: Box<dyn SteeringTable>,
    /// Goes after the table: what it notes is undone by then. `None`: nothing is to be undone.
    _change: Option<ChangeFile>,
}

impl Steering {
    /// Begins to steer an interface by a policy.
    ///
    /// # Errors
    /// If the interface cannot be steered, or is already; a policy that cannot steer.
    pub fn begin(options: ApplyOptions) -> Result<Self, LabError> {
        let ObserveOptions { every, bucket_bits, seed, inner, .. } = &options.observe;
        let bits = options.target.bucket_bits()?.unwrap_or(*bucket_bits);
        let hashing = Hashing { bits, seed: *seed, inner: *inner };
        let interface = options.target.interface();
        let numbers = numbers(&options)?;
        check_steers(&options.policy, numbers.len())?;
        let cost_ns = (options.cost_ns.round() as u64).max(1);
        let twin = Twin::new(&options.policy, numbers.len(), hashing.buckets(), cost_ns, *seed)?;
        let (queues, rps) = interface.map_or((0, false), queues);
        let change = interface.map(|interface| noted(interface, &options)).transpose()?;
        let table = options.target.begin(hashing, &wanted(&twin, &numbers), options.guard, &options.maps)?;
        let name = options.target.name();
        let mut head = RecordHead::new(&name, table.processors(), hashing.buckets(), *every, FLOW_SAMPLE);
        (head.native, head.queues, head.rps) = (table.is_native(), queues, rps);
        Ok(Self { numbers, twin, head, table, options, _change: change })
    }

    /// Says what was changed, in lines. All of it is undone at the end.
    pub fn changed(&self) -> Vec<String> {
        self.table.changed()
    }

    /// Steers until `stop` is set, or has been worse than before for too long. Then the interface is as it was.
    ///
    /// # Errors
    /// If the kernel refuses something.
    pub fn run(mut self, stop: &AtomicBool, on_sample: &mut dyn FnMut(Steered<'_>)) -> Result<Applied, LabError> {
        let mut threads = NapiThreads::of(self.options.target.interface().unwrap_or_default());
        let (begin, first) = (Instant::now(), self.table.look()?.with(&mut threads));
        let (mut last, mut samples, mut latest) = (first.clone(), 0, VecDeque::new());
        let (mut moves, mut packets, mut worse_since, mut rolled_back) = (0, 0, None, None);
        let mut flows = HeavyFlows::new(&first, self.head.processors);
        let interface = self.options.target.interface().map(|name| (name.to_owned(), index_of(name)));
        while rolled_back.is_none() && wait(begin, &self.options.observe, samples, stop) {
            interface.iter().try_for_each(|(name, index)| check_there(name, *index))?;
            let look = self.table.look()?.with(&mut threads);
            let elapsed = begin.elapsed();
            let flows = flows.read(&look, elapsed, false, |most| self.table.heavy_flows(most))?;
            let time_ns = elapsed.as_nanos() as u64;
            let sample = SteerSample { time_ns, flows, ..look.since(&last, self.head.processors) };
            last = look;
            let length = sample.time_ns - latest.back().map_or(0, |last: &SteerSample| last.time_ns);
            self.twin.play(length, &sample.buckets);
            let table = wanted(&self.twin, &self.numbers);
            moves += self.table.set(&table, &sample)?;
            packets += sample.buckets.iter().map(|bucket| bucket.packets).sum::<u64>();
            let table = self.table.is_by_bucket().then_some(&table[..]);
            on_sample(Steered { head: &self.head, sample: &sample, table, moves });
            samples += 1;
            latest.push_back(sample);
            if latest.len() > TOGETHER {
                latest.pop_front();
            }
            rolled_back = worse(&self.options, &latest, &mut worse_since);
        }
        let (seconds, pending) =
            (begin.elapsed().as_secs_f64(), self.table.pending(&wanted(&self.twin, &self.numbers))?);
        let changed = self.table.changed();
        let handed = self.table.end()?.map(HandedOver::of);
        Ok(Applied {
            interface: self.head.interface.clone(),
            target: self.options.target.to_string(),
            policy: self.options.policy.to_string(),
            seconds,
            // What was handed over came from the moment that the program was there until it was not: that is more than
            // the samples have.
            packets: handed.map_or(packets, |handed| handed.packets),
            moves,
            pending,
            changed,
            before: self.options.before,
            meanwhile: Strain::of([&last.since(&first, self.head.processors)]),
            rolled_back,
            handed_over: handed,
        })
    }
}

impl Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Steering({} by {})", self.options.target, self.options.policy)
    }
}

/// Takes an interface, and notes what is to be changed: before it is done, for a process can end at any moment.
fn noted(interface: &str, options: &ApplyOptions) -> Result<ChangeFile, LabError> {
    let mut change = ChangeFile::take(interface)?;
    change.note(&Change {
        target: options.target.to_string(),
        policy: options.policy.to_string(),
        index: index_of(interface),
        process: std::process::id() as i32,
        before: options.target.before()?,
    })?;
    Ok(change)
}

/// Returns the processor that each bucket is to go to.
fn wanted(twin: &Twin, numbers: &[u32]) -> Vec<u32> {
    twin.table().iter().map(|&core| numbers[core as usize]).collect()
}

/// Rejects policies that cannot steer this machine.
///
/// # Errors
/// The first that cannot.
pub fn check_policies(policies: &[PolicySpec]) -> Result<(), LabError> {
    let cores = online()?.len();
    policies.iter().try_for_each(|policy| check_steers(policy, cores))
}

/// Returns the numbers of what the policy has as cores: processors, receive queues or sockets.
fn numbers(options: &ApplyOptions) -> Result<Vec<u32>, LabError> {
    match &options.target {
        SteerTarget::CpuMap(_) | SteerTarget::Rps(_) => online(),
        SteerTarget::Rss(interface) => Ok((0..queues(interface).0 as u32).collect()),
        SteerTarget::Fanout(_) => Ok((0..options.sockets as u32).collect()),
    }
}

/// Returns the numbers of the processors that are online.
fn online() -> Result<Vec<u32>, LabError> {
    let all = humpyard_wire::processors()
        .map_err(|error| LabError::option(format!("the kernel does not tell what processors do: {error}")))?;
    Ok(all.iter().map(|count| count.processor).collect())
}

/// Says why to end: it has been worse than before for as long as that is borne.
fn worse(options: &ApplyOptions, latest: &VecDeque<SteerSample>, since: &mut Option<Instant>) -> Option<String> {
    let bears = options.rollback?;
    if latest.len() < TOGETHER {
        return None;
    }
    let what = Strain::of(latest).worse_than(&options.before);
    let Some(what) = what else {
        *since = None;
        return None;
    };
    (since.get_or_insert_with(Instant::now).elapsed() >= bears).then_some(what)
}
