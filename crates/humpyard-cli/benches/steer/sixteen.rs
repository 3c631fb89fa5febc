//! A box of 16 processors that is made up, and what `humpyard steer --from` says of its record.

use std::fs;
use std::path::Path;
use std::process::Command;

use humpyard::lab::steer::{BucketSample, HeavyFlow, ProcessorSample, RecordHead, SteerSample};
use serde::Serialize;
use serde_json::Value;

const PROCESSORS: u32 = 16;
const BUCKETS: u32 = 1_024;
/// What a packet costs a processor.
const COST_NS: u64 = 10_000;
const EVERY_NS: u64 = 100_000_000;
const SAMPLES: u64 = 20;
/// Packets that a processor can take in a sample.
const FULL: u64 = EVERY_NS / COST_NS;

/// What a policy would have done.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Simulated {
    pub(crate) traffic: &'static str,
    pub(crate) cause: String,
    pub(crate) advice: String,
    /// As `humpyard steer --json` has them.
    pub(crate) policies: Vec<Value>,
}

/// Packets of a bucket in each sample, and the processor that they come to.
struct Home {
    bucket: u32,
    processor: u32,
    packets: u64,
}

/// A traffic by its buckets, and its heaviest flow: name, protocol, port, packets in each sample.
struct Case {
    traffic: &'static str,
    homes: Vec<Home>,
    heaviest: Option<(&'static str, u8, u16, u64)>,
}

/// Returns bucket and processor of a flow by its number: the same each time.
fn hashed(number: u32) -> (u32, u32) {
    let hash = humpyard::hash::mix(u64::from(number));
    ((hash % u64::from(BUCKETS)) as u32, (hash >> 32) as u32 % PROCESSORS)
}

fn home(number: u32, packets: u64) -> Home {
    let (bucket, processor) = hashed(number);
    Home { bucket, processor, packets }
}

/// Six flows of 60 % of a processor each, which the card sends to these processors, and 600 small ones: half of the
/// packets that there is time for.
fn elephants() -> Case {
    let half = u64::from(PROCESSORS) * FULL / 2;
    let elephant = 6 * FULL / 10;
    let mut homes: Vec<Home> = (0..600).map(|number| home(number, (half - 6 * elephant) / 600)).collect();
    let processors = [2, 2, 4, 5, 7, 7];
    homes.extend((10_000..).zip(processors).map(|(number, processor)| Home { processor, ..home(number, elephant) }));
    let heaviest = Some(("10.0.0.1:4000 > 10.0.0.2:443 tcp", 6, 443, elephant));
    Case { traffic: "elephants", homes, heaviest }
}

/// 400 equal flows, a quarter of which the hash of the card sends to one processor.
fn unlucky() -> Case {
    let packets = u64::from(PROCESSORS) * FULL / 2 / 400;
    let home = |number| {
        let home = home(number, packets);
        if number % 4 == 0 { Home { processor: 0, ..home } } else { home }
    };
    Case { traffic: "unlucky", homes: (0..400).map(home).collect(), heaviest: None }
}

/// 400 equal flows. 240 of them are in a tunnel, which the card sends to one processor; `humpyard` looks inside.
fn tunnel() -> Case {
    let packets = u64::from(PROCESSORS) * FULL / 2 / 400;
    let home = |number| {
        let home = home(number, packets);
        if number < 240 { Home { processor: 3, ..home } } else { home }
    };
    let heaviest = Some(("10.0.0.1:2152 > 10.0.0.2:2152 udp", 17, 2_152, 240 * packets));
    Case { traffic: "tunnel", homes: (0..400).map(home).collect(), heaviest }
}

impl Case {
    /// The record of the box, as `humpyard steer --record` would have written it.
    fn record(&self) -> Result<String, serde_json::Error> {
        let head = RecordHead {
            humpyard_steer: 1,
            interface: "eth0".to_owned(),
            native: true,
            queues: PROCESSORS as usize,
            rps: false,
            processors: PROCESSORS as usize,
            buckets: BUCKETS as usize,
            every_ns: EVERY_NS,
            flow_sample: 16,
        };
        let mut lines = vec![serde_json::to_string(&head)?];
        for number in 1..=SAMPLES {
            lines.push(serde_json::to_string(&self.sample(number))?);
        }
        Ok(lines.join("\n") + "\n")
    }

    fn sample(&self, number: u64) -> SteerSample {
        let bucket = |home: &Home| BucketSample {
            bucket: home.bucket,
            processor: home.processor,
            packets: home.packets,
            bytes: 500 * home.packets,
        };
        let flows = self.heaviest.map(|(flow, protocol, port, packets)| HeavyFlow {
            flow: flow.to_owned(),
            protocol,
            port,
            packets,
            bytes: 500 * packets,
        });
        SteerSample {
            time_ns: number * EVERY_NS,
            buckets: self.homes.iter().map(bucket).collect(),
            processors: (0..PROCESSORS).map(|processor| self.processor(processor)).collect(),
            flows: flows.into_iter().collect(),
            ..SteerSample::default()
        }
    }

    /// A processor takes what it has time for, and drops the rest.
    fn processor(&self, processor: u32) -> ProcessorSample {
        let came: u64 = self.homes.iter().filter(|home| home.processor == processor).map(|home| home.packets).sum();
        let packets = came.min(FULL);
        let softirq_ns = packets * COST_NS;
        ProcessorSample {
            processor,
            softirq_ns,
            system_ns: 0,
            user_ns: 0,
            idle_ns: EVERY_NS - softirq_ns,
            packets,
            dropped: came - packets,
        }
    }

    fn simulated(&self, directory: &Path) -> Result<Simulated, String> {
        let path = directory.join(format!("{}.jsonl", self.traffic));
        let text = self.record().map_err(|error| error.to_string())?;
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_humpyard"));
        let output = command.args(["steer", "--json", "--quiet", "--from"]).arg(&path).output();
        let output = output.map_err(|error| format!("humpyard: {error}"))?;
        let said = || format!("humpyard: {}", String::from_utf8_lossy(&output.stderr).trim());
        let document: Value = serde_json::from_slice(&output.stdout).map_err(|_| said())?;
        let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
        let policies = document["policies"].as_array().cloned().unwrap_or_default();
        Ok(Simulated { traffic: self.traffic, cause: text("cause"), advice: text("advice"), policies })
    }
}

/// Returns what the policies would have done on 16 processors.
pub(crate) fn simulate() -> Result<Vec<Simulated>, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    [elephants(), unlucky(), tunnel()].iter().map(|case| case.simulated(directory.path())).collect()
}
