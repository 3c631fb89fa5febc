//! What the simulator foresees, beside what happens.
//!
//! Costs come from runs with other traffic than is compared: many flows on one processor, one flow
//! that goes to the other, and one that is handed to the processor that receives it. The buckets of
//! each traffic come from a record at a low rate, whose packets are multiplied. So nothing is fitted
//! to what is compared.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use humpyard::lab::statistics::Statistic;
use humpyard::lab::steer::{ProcessorSample, SteerRecord, SteerSample};
use serde::Serialize;
use serde_json::Value;

use crate::bed::Bed;
use crate::contender::{Contender, Way};
use crate::measurement::Measurement;
use crate::sender::{Sent, send};
use crate::traffic::Traffic;

/// The rate at which records are taken, of that which one processor forwards alone.
const LOW: f64 = 0.4;
/// Flows that are tried until `hrw` sends one to the second processor.
const FLOWS_TRIED: u32 = 16;
/// As in `validate`: throughput and utilization within a tenth, loss within 2 points.
const RATIO: f64 = 0.1;
const POINTS: f64 = 0.02;
/// Where the live run strays from itself by more, that is the bound, at most doubled.
const WIDEST: f64 = 2.0;

/// What a packet costs, in ns.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Costs {
    /// The first processor, which sends, receives and forwards.
    pub(crate) alone: f64,
    /// The first processor, which sends, receives and hands over.
    pub(crate) hand_over: f64,
    /// The second processor, which forwards.
    pub(crate) forward: f64,
    /// The first processor, to go back from receiving to forwarding.
    pub(crate) resume: f64,
}

/// A figure of a contender: live, by simulation, and how far apart they may be.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) live: f64,
    pub(crate) foreseen: f64,
    pub(crate) bound: f64,
}

/// A contender with a traffic, live and foreseen.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Beside {
    pub(crate) traffic: &'static str,
    pub(crate) contender: &'static str,
    pub(crate) figures: Vec<Figure>,
}

impl Figure {
    pub(crate) fn is_within(&self) -> bool {
        (self.foreseen - self.live).abs() <= self.bound
    }
}

impl Costs {
    /// Measures them where processors have as much to do as they can: each packet takes longer when they often wake.
    fn measure(bed: &Bed, alone: f64, due: f64, seconds: f64) -> Result<Self, String> {
        let (mut goes, mut stays) = (None, None);
        for flow in 0..FLOWS_TRIED {
            let measured = Measurement::take(bed, &Traffic::one(flow), &Contender::HRW, 0, due, seconds)?;
            let is_second = measured.busy[1] > measured.busy[0];
            *(if is_second { &mut goes } else { &mut stays }) = Some(measured);
            if let (Some(goes), Some(stays)) = (&goes, &stays) {
                return Ok(Self::of(alone, goes, stays));
            }
        }
        Err("hrw sends all flows to the same processor".to_owned())
    }

    /// Returns the costs that show when a flow goes to the second processor, and when it stays on the first.
    fn of(alone: f64, goes: &Measurement, stays: &Measurement) -> Self {
        let hand_over = 1e9 * goes.taken[0] / goes.sent;
        let forward = 1e9 * goes.taken[1] / goes.received;
        // What the first processor has left, for each packet that it forwards.
        let left = (1e9 - hand_over * stays.sent) / stays.received;
        Self { alone: 1e9 / alone, hand_over, forward, resume: (left - forward).max(0.0) }
    }
}

/// Takes a record of a traffic at the low rate.
fn record(bed: &Bed, traffic: &Traffic, rate: f64, inner: bool, path: &Path) -> Result<SteerRecord, String> {
    let (sent, over) = (Sent::default(), AtomicBool::new(false));
    let said = thread::scope(|scope| {
        let sender = scope.spawn(|| send(bed, &traffic.frames, rate, &sent, &over));
        sleep(Duration::from_millis(500));
        let mut command = bed.middle().command(env!("CARGO_BIN_EXE_humpyard"));
        command.args(["steer", "--observe", "ma", "--for", "2s", "--policy", "hrw", "--quiet", "--record"]).arg(path);
        command.args(inner.then_some("--inner"));
        let output = command.stdout(Stdio::null()).output();
        over.store(true, Ordering::Relaxed);
        sender.join().map_err(|_| "the sender failed".to_owned())??;
        output.map_err(|error| format!("humpyard: {error}"))
    })?;
    if !said.status.success() {
        return Err(format!("humpyard: {}", String::from_utf8_lossy(&said.stderr).trim()));
    }
    SteerRecord::read(&path.display().to_string()).map_err(|error| error.to_string())
}

/// Multiplies the packets of a record, for it to have this many a second, and has each cost this.
fn multiplied(record: &SteerRecord, rate: f64, cost_ns: f64) -> SteerRecord {
    let packets: u64 = record.samples.iter().flat_map(|sample| &sample.buckets).map(|bucket| bucket.packets).sum();
    let factor = rate * record.length().as_secs_f64() / packets.max(1) as f64;
    let times = |count: u64| (factor * count as f64).round() as u64;
    let sample = |sample: &SteerSample| {
        let mut sample = sample.clone();
        for bucket in &mut sample.buckets {
            (bucket.packets, bucket.bytes) = (times(bucket.packets), times(bucket.bytes));
        }
        let packets: u64 = sample.buckets.iter().map(|bucket| bucket.packets).sum();
        let of_first = |one: &mut ProcessorSample| {
            one.packets = packets;
            one.softirq_ns = (cost_ns * packets as f64) as u64;
        };
        sample.processors.iter_mut().for_each(|one| (one.packets, one.softirq_ns) = (0, 0));
        sample.processors.iter_mut().take(1).for_each(of_first);
        sample
    };
    SteerRecord { head: record.head.clone(), samples: record.samples.iter().map(sample).collect() }
}

/// Writes a record and returns what `humpyard steer --from` says of one policy.
fn foresee(record: &SteerRecord, way: Way, costs: Costs, path: &Path) -> Result<Value, String> {
    let mut lines = vec![serde_json::to_string(&record.head).map_err(|error| error.to_string())?];
    for sample in &record.samples {
        lines.push(serde_json::to_string(sample).map_err(|error| error.to_string())?);
    }
    std::fs::write(path, lines.join("\n") + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_humpyard"));
    let [hand_over, resume] = [costs.hand_over, costs.resume].map(|cost| format!("{cost:.0}ns"));
    command.args(["steer", "--json", "--quiet", "--hand-over", &hand_over, "--resume", &resume, "--from"]).arg(path);
    let name = match way {
        Way::Steer(policy, options) => {
            let guard = options.split_whitespace().filter(|&option| option != "--inner");
            command.args(["--policy", policy]).args(guard);
            policy
        }
        Way::None | Way::Rps => {
            command.args(["--policy", "hrw"]);
            "now"
        }
    };
    let output = command.output().map_err(|error| format!("humpyard: {error}"))?;
    let said = || format!("humpyard: {}", String::from_utf8_lossy(&output.stderr).trim());
    let document: Value = serde_json::from_slice(&output.stdout).map_err(|_| said())?;
    let policies = document["policies"].as_array().cloned().unwrap_or_default();
    policies.into_iter().find(|one| one["policy"] == name).ok_or_else(|| format!("{name} is not foreseen"))
}

/// Foresees each contender that was measured. RPS is left out: its hash is the kernel's alone.
pub(crate) fn foreseen(
    bed: &Bed,
    alone: f64,
    due: f64,
    seconds: f64,
    measured: &[Measurement],
) -> Result<(Costs, Vec<Beside>), String> {
    let costs = Costs::measure(bed, alone, due, seconds)?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = |name: &str| directory.path().join(name);
    let mut all = Vec::new();
    for traffic in Traffic::all(bed, &|name| name != "tcp" && measured.iter().any(|turn| turn.traffic == name))? {
        let mut records = Vec::new();
        for (name, inner) in [("outer.jsonl", false), ("inner.jsonl", true)] {
            let is_wanted = !inner || traffic.name == "tunnel";
            let file = path(&format!("{}-{name}", traffic.name));
            records.extend(is_wanted.then(|| record(bed, &traffic, LOW * alone, inner, &file)).transpose()?);
        }
        for contender in traffic.contenders().iter().filter(|contender| !matches!(contender.how, Way::Rps)) {
            let inner = matches!(contender.how, Way::Steer(_, options) if options.contains("--inner"));
            let cost = if matches!(contender.how, Way::None) { costs.alone } else { costs.forward };
            let record = multiplied(&records[usize::from(inner)], due, cost);
            let said = foresee(&record, contender.how, costs, &path("replayed.jsonl"))?;
            let turns: Vec<&Measurement> = measured
                .iter()
                .filter(|turn| turn.traffic == traffic.name && turn.contender == contender.name)
                .collect();
            all.push(Beside { traffic: traffic.name, contender: contender.name, figures: figures(&turns, due, &said) });
        }
    }
    Ok((costs, all))
}

fn figures(turns: &[&Measurement], due: f64, foreseen: &Value) -> Vec<Figure> {
    let number = |key: &str| foreseen.pointer(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let figure = |name, of: &dyn Fn(&Measurement) -> f64, foreseen: f64, bound: &dyn Fn(f64) -> f64| {
        let values: Vec<f64> = turns.iter().map(|turn| of(turn)).collect();
        let (low, high) =
            values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &one| (low.min(one), high.max(one)));
        let live = Statistic::of(values).map_or(f64::NAN, |statistic| statistic.median);
        let least = bound(live);
        Figure { name, live, foreseen, bound: least.max((high - low).min(WIDEST * least)) }
    };
    let ratio = |live: f64| RATIO * live;
    let dropped = number("/dropped_fraction");
    vec![
        figure("received k/s", &|turn| turn.received / 1e3, due * (1.0 - dropped) / 1e3, &ratio),
        figure("dropped %", &|turn| 100.0 * turn.dropped, 100.0 * dropped, &|_| 100.0 * POINTS),
        figure("utilization %", &|turn| 50.0 * (turn.busy[0] + turn.busy[1]), utilization(foreseen), &ratio),
    ]
}

/// The mean over both processors, in %.
fn utilization(foreseen: &Value) -> f64 {
    let busy = foreseen["busy_fractions"].as_array().into_iter().flatten().filter_map(Value::as_f64);
    50.0 * busy.map(|busy| busy.min(1.0)).sum::<f64>()
}
