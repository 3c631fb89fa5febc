//! Steers an interface: the kernel's table follows a policy.

use core::sync::atomic::AtomicBool;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use humpyard_policies::spec::PolicySpec;
use humpyard_wire::{BucketCounters, FLOW_SAMPLE, Hashing};
use serde::Serialize;

use super::check_steers;
use super::observe::{Look, ObserveOptions, queues, wait};
use super::record::{RecordHead, SteerSample};
use super::twin::Twin;
use crate::LabError;

/// Samples that are looked at together.
const TOGETHER: usize = 10;

/// How an interface is steered.
#[derive(Clone, Debug)]
pub struct ApplyOptions {
    /// How it is looked at.
    pub observe: ObserveOptions,
    /// The policy.
    pub policy: PolicySpec,
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
}

/// What became of an interface that was steered.
#[derive(Clone, PartialEq, Serialize, Debug)]
#[non_exhaustive]
pub struct Applied {
    /// The interface.
    pub interface: String,
    /// The policy.
    pub policy: String,
    /// How long it was steered, in seconds.
    pub seconds: f64,
    /// Packets that came meanwhile.
    pub packets: u64,
    /// How often a bucket went to another processor.
    pub moves: u64,
    /// What the policy wanted to move and what was never empty long enough, at the end.
    pub pending: u64,
    /// Before.
    pub before: Strain,
    /// Meanwhile.
    pub meanwhile: Strain,
    /// Why it ended by itself, if it did.
    pub rolled_back: Option<String>,
}

/// What is to be seen of an interface that is steered.
#[derive(Debug)]
pub struct Steered<'a> {
    /// The interface.
    pub head: &'a RecordHead,
    /// What came last.
    pub sample: &'a SteerSample,
    /// How often a bucket went to another processor so far.
    pub moves: u64,
}

impl Strain {
    /// What these samples show.
    pub fn of<'a>(samples: impl IntoIterator<Item = &'a SteerSample>) -> Self {
        let (mut packets, mut dropped, mut busy) = (0, 0, std::collections::BTreeMap::<u32, (u64, u64)>::new());
        for one in samples.into_iter().flat_map(|sample| &sample.processors) {
            packets += one.packets;
            dropped += one.dropped;
            let (work, all) = busy.entry(one.processor).or_default();
            *work += one.softirq_ns + one.system_ns;
            *all += one.softirq_ns + one.system_ns + one.user_ns + one.idle_ns;
        }
        let parts = busy.values().map(|&(work, all)| work as f64 / all.max(1) as f64);
        Self {
            dropped_fraction: dropped as f64 / (packets + dropped).max(1) as f64,
            busiest_fraction: parts.fold(0.0, f64::max),
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
        let is_busier = self.busiest_fraction > before.busiest_fraction + time;
        let [now, then] = [self, before].map(|strain| 100.0 * strain.busiest_fraction);
        is_busier.then(|| format!("the busiest processor had {now:.0} % of its time to do, {then:.0} % before"))
    }
}

/// Steers an interface by a policy until `stop` is set, or has been worse than before for too long. Then the
/// interface is as it was.
///
/// # Errors
/// If the interface cannot be steered, and a policy that cannot steer.
pub fn apply(
    options: &ApplyOptions,
    stop: &AtomicBool,
    on_sample: &mut dyn FnMut(Steered<'_>),
) -> Result<Applied, LabError> {
    let ObserveOptions { interface, every, bucket_bits, seed, inner, .. } = &options.observe;
    let hashing = Hashing { bits: *bucket_bits, seed: *seed, inner: *inner };
    let numbers = online()?;
    check_steers(&options.policy, numbers.len())?;
    let cost_ns = (options.cost_ns.round() as u64).max(1);
    let mut twin = Twin::new(&options.policy, numbers.len(), hashing.buckets(), cost_ns, *seed)?;
    let wanted = |twin: &Twin| twin.table().iter().map(|&core| numbers[core as usize]).collect::<Vec<u32>>();
    let counters = BucketCounters::steer(interface, hashing, &wanted(&twin), options.guard)?;
    let mut head = RecordHead::new(interface, counters.processors(), hashing.buckets(), *every, FLOW_SAMPLE);
    (head.native, (head.queues, head.rps)) = (counters.is_native(), queues(interface));
    let begin = Instant::now();
    let (first, mut table, mut moves, mut packets) = (Look::at(&counters)?, wanted(&twin), 0, 0);
    let (mut last, mut samples, mut latest) = (first.clone(), 0, VecDeque::new());
    let (mut worse_since, mut rolled_back) = (None, None);
    while rolled_back.is_none() && wait(begin, &options.observe, samples, stop) {
        let look = Look::at(&counters)?;
        let sample = SteerSample { time_ns: begin.elapsed().as_nanos() as u64, ..look.since(&last, head.processors) };
        last = look;
        let length = sample.time_ns - latest.back().map_or(0, |last: &SteerSample| last.time_ns);
        twin.play(length, &sample.buckets);
        counters.set(&wanted(&twin))?;
        let now = counters.cores()?;
        moves += now.iter().zip(&table).filter(|(now, before)| now != before).count() as u64;
        packets += sample.buckets.iter().map(|bucket| bucket.packets).sum::<u64>();
        table = now;
        on_sample(Steered { head: &head, sample: &sample, moves });
        samples += 1;
        latest.push_back(sample);
        if latest.len() > TOGETHER {
            latest.pop_front();
        }
        rolled_back = worse(options, &latest, &mut worse_since);
    }
    Ok(Applied {
        interface: interface.clone(),
        policy: options.policy.to_string(),
        seconds: begin.elapsed().as_secs_f64(),
        packets,
        moves,
        pending: table.iter().zip(wanted(&twin)).filter(|(now, wanted)| *now != wanted).count() as u64,
        before: options.before,
        meanwhile: Strain::of([&last.since(&first, head.processors)]),
        rolled_back,
    })
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
