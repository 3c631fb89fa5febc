//! humpyard against DPDK's event devices: the same events, on the same two processors, in turn.
//!
//! ```text
//! cargo bench --package humpyard --bench dispatch -- [--pairs 20] [--milliseconds 300] [--json FILE]
//! ```
//!
//! 256 events of 1,024 flows circulate in a closed loop. In a hop an event is given to a worker,
//! which touches it and names its next flow. Then it is forwarded, and scheduled again. The peer is
//! DPDK's device behind a client of its public API (`eventdev.c`). Ours are a program that embeds
//! the scheduler, in two layouts, and the whole data plane. In every pair the peer runs first, then
//! each of ours. The ratio of each pair counts, because the machine's speed drifts.
#![expect(clippy::print_stdout, reason = "it exists to print the table")]
#![expect(clippy::print_stderr, reason = "what is missing is told")]

mod data_plane;
mod embedded;
mod handed_over;
mod peer;
mod per_core;
mod work;

use core::time::Duration;
use std::process::ExitCode;

use humpyard::lab::statistics::{Interval, Statistic};
use humpyard::runtime::processors;
use serde::Serialize;

use crate::peer::{Client, Device};
use crate::work::{Figures, Order, Work};

/// One of ours.
#[derive(Clone, Copy)]
struct Ours {
    name: &'static str,
    run: fn(Order, &Work) -> Figures,
}

const HANDED_OVER: Ours = Ours { name: "scheduler, worker", run: handed_over::run };
const PER_CORE: Ours = Ours { name: "scheduler per core", run: per_core::run };
const DATA_PLANE: Ours = Ours { name: "data plane", run: data_plane::run };

/// A peer's work, and our programs to compare with it.
struct Comparison {
    device: Device,
    order: Order,
    hop: u32,
    ours: &'static [Ours],
}

const ALL: &[Ours] = &[HANDED_OVER, PER_CORE, DATA_PLANE];
const EMBEDDED: &[Ours] = &[HANDED_OVER, PER_CORE];

const COMPARISONS: [Comparison; 6] = [
    Comparison { device: Device::Sw, order: Order::Atomic, hop: 1, ours: ALL },
    Comparison { device: Device::Sw, order: Order::Ordered, hop: 1, ours: ALL },
    Comparison { device: Device::Sw, order: Order::Parallel, hop: 1, ours: ALL },
    Comparison { device: Device::Sw, order: Order::Atomic, hop: 0, ours: EMBEDDED },
    Comparison { device: Device::Dsw, order: Order::Atomic, hop: 1, ours: EMBEDDED },
    Comparison { device: Device::Dsw, order: Order::Atomic, hop: 0, ours: EMBEDDED },
];

/// The result of a comparison.
#[derive(Serialize)]
struct Row {
    peer: &'static str,
    order: &'static str,
    policy: &'static str,
    /// The number added to an event's flow at each hop.
    hop: u32,
    ours: &'static str,
    /// Millions of events per second.
    peer_rate: Statistic,
    our_rate: Statistic,
    /// Ours by the peer's, pair by pair.
    ratio: Statistic,
}

/// All results, with the data needed to judge them.
#[derive(Serialize)]
struct Report {
    dpdk: String,
    processors: [usize; 2],
    pairs: usize,
    milliseconds: u64,
    in_flight: usize,
    flows: u32,
    burst: usize,
    depth: u32,
    rows: Vec<Row>,
}

struct Settings {
    pairs: usize,
    time: Duration,
    json: Option<String>,
}

impl Settings {
    fn parse(words: &[String]) -> Result<Self, String> {
        let mut settings = Self { pairs: 20, time: Duration::from_millis(300), json: None };
        let mut words = words.iter().filter(|word| *word != "--bench");
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} takes a value"));
            let number = |text: &String| {
                text.parse().ok().filter(|&n: &u64| n > 0).ok_or(format!("{word} {text}: not a number from 1"))
            };
            match word.as_str() {
                "--pairs" => settings.pairs = number(value()?)? as usize,
                "--milliseconds" => settings.time = Duration::from_millis(number(value()?)?),
                "--json" => settings.json = Some(value()?.clone()),
                other => return Err(format!("{other}: there are --pairs, --milliseconds and --json")),
            }
        }
        Ok(settings)
    }

    fn work(&self, hop: u32) -> Result<Work, String> {
        let [first, second, ..] = processors()[..] else { return Err("this needs two processors".to_owned()) };
        let (in_flight, flows, burst, depth) = (256, 1024, 32, 128);
        let (processors, warm_up) = ([first, second], Duration::from_millis(100));
        Ok(Work { processors, in_flight, flows, burst, depth, hop, warm_up, time: self.time })
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Without `--bench` it is a test run: all our programs run, nothing is measured.
    let result = if words.iter().any(|word| word == "--bench") { bench(&words) } else { test() };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dispatch: {error}");
            ExitCode::from(2)
        }
    }
}

fn test() -> Result<(), String> {
    let settings = Settings { pairs: 1, time: Duration::from_millis(5), json: None };
    let Ok(work) = settings.work(1) else {
        println!("skipped: it needs two processors");
        return Ok(());
    };
    for order in [Order::Atomic, Order::Ordered, Order::Parallel] {
        for ours in ALL {
            let figures = (ours.run)(order, &work);
            println!("{} {}: {} events", ours.name, order.name(), figures.events);
        }
    }
    Ok(())
}

fn bench(words: &[String]) -> Result<(), String> {
    let settings = Settings::parse(words)?;
    let Some(client) = Client::build()? else {
        println!("skipped: there is no DPDK to compare with; `make bench-dispatch` installs it");
        return Ok(());
    };
    let rows: Result<Vec<Vec<Row>>, String> =
        COMPARISONS.iter().map(|comparison| compare(comparison, &client, &settings)).collect();
    let work = settings.work(0)?;
    let report = Report {
        dpdk: client.version,
        processors: work.processors,
        pairs: settings.pairs,
        milliseconds: settings.time.as_millis() as u64,
        in_flight: work.in_flight,
        flows: work.flows,
        burst: work.burst,
        depth: work.depth,
        rows: rows?.into_iter().flatten().collect(),
    };
    print(&report);
    if let Some(path) = &settings.json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        std::fs::write(path, text + "\n").map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

/// Runs the pairs of a comparison: in each the peer, then each of ours.
fn compare(comparison: &Comparison, client: &Client, settings: &Settings) -> Result<Vec<Row>, String> {
    let Comparison { device, order, hop, ours } = *comparison;
    let work = settings.work(hop)?;
    let mut peer_rates = Vec::new();
    let mut our_rates: Vec<Vec<f64>> = vec![Vec::new(); ours.len()];
    for pair in 0..settings.pairs {
        eprint!("\r{} {}: pair {} of {}   ", device.name(), order.name(), pair + 1, settings.pairs);
        peer_rates.push(client.run(device, order, &work)?.rate());
        for (rates, ours) in our_rates.iter_mut().zip(ours) {
            rates.push((ours.run)(order, &work).rate());
        }
    }
    eprintln!();
    let row = |(ours, rates): (&Ours, Vec<f64>)| {
        let ratios = rates.iter().zip(&peer_rates).map(|(our, peer)| our / peer).collect();
        let statistic = |values| Statistic::of(values).expect("there are pairs");
        Row {
            peer: device.name(),
            order: order.name(),
            policy: order.policy(),
            hop,
            ours: ours.name,
            peer_rate: statistic(peer_rates.clone()),
            our_rate: statistic(rates),
            ratio: statistic(ratios),
        }
    };
    Ok(ours.iter().zip(our_rates).map(row).collect())
}

fn print(report: &Report) {
    let Report { dpdk, pairs, milliseconds, processors: [first, second], .. } = report;
    println!("DPDK {dpdk}, processors {first} and {second}, {pairs} pairs of {milliseconds} ms each; medians");
    println!("| peer | order | flow at each hop | ours | policy | peer, M/s | ours, M/s | ratio | confidence |");
    println!("|---|---|---|---|---|--:|--:|--:|--:|");
    for Row { peer, order, policy, hop, ours, peer_rate, our_rate, ratio } in &report.rows {
        let flow = if *hop == 0 { "stays" } else { "changes" };
        let exit = if *order == Order::Ordered.name() { ", put back in order" } else { "" };
        let (peer_rate, our_rate) = (peer_rate.median, our_rate.median);
        let confidence = ratio.confidence.map_or_else(
            || "-".to_owned(),
            |Interval { low, high, level }| format!("{low:.2} to {high:.2} ({:.0} %)", level * 100.0),
        );
        println!(
            "| `{peer}` | {order} | {flow} | {ours} | `{policy}`{exit} | {peer_rate:.1} | {our_rate:.1} | {:.2} | {confidence} |",
            ratio.median
        );
    }
}
