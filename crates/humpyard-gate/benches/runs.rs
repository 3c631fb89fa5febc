//! Instructions of whole simulations and live runs by the released program, all threads together, held to limits.
//!
//! `make bench-instructions` builds the program, then runs this. Each run has few packets, then many. The difference of
//! instructions, divided by the difference of packets, leaves out the start of the program.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints a table")]

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use serde_json::Value;

/// A run and its limits, about 2 % above the instructions it took when they were set. Lower a limit when the
/// code becomes cheaper. Raise one only in a commit of its own that says why.
struct Run {
    name: &'static str,
    /// The arguments of the program. The number of packets replaces `N`, that of rounds `ROUNDS`, the path of the capture
    /// `CAPTURE`.
    command: &'static str,
    /// The limit of the run with [`FEW`] packets.
    few_max: u64,
    /// The limit of the run with [`MANY`] packets.
    many_max: u64,
    /// The limit of a packet.
    packet_max: u64,
}

const RUNS: [Run; 6] = [
    Run {
        name: "drr",
        command: "sim --input gen:poisson:flows=64,pps=14700000,packets=N --policy drr --cores 1 \
                  --costs table:measured --json",
        few_max: 40_300_000,
        many_max: 88_600_000,
        packet_max: 1_205,
    },
    Run {
        name: "hrw",
        command: "sim --input gen:poisson:flows=64,pps=14700000,packets=N --policy hrw --cores 8 \
                  --costs table:measured --json",
        few_max: 36_500_000,
        many_max: 83_100_000,
        packet_max: 1_160,
    },
    Run {
        name: "everest",
        command: "sim --input gen:onoff:packets=N,pps=709600 --policy everest --cores 16 \
                  --services tcp=forward,udp=forward,other=forward --costs table:measured --json",
        few_max: 50_900_000,
        many_max: 123_700_000,
        packet_max: 1_800,
    },
    // Live, from a capture, on one thread, without the work of a service.
    Run {
        name: "run",
        command: "run --input CAPTURE --loop ROUNDS --rate line --policy hrw --services pass --workers 0 --json",
        few_max: 86_500_000,
        many_max: 146_800_000,
        packet_max: 1_500,
    },
    // With the default service, which forwards as a router does.
    Run {
        name: "run_forward",
        command: "run --input CAPTURE --loop ROUNDS --rate line --policy hrw --workers 0 --json",
        few_max: 95_200_000,
        many_max: 172_600_000,
        packet_max: 1_960,
    },
    // From a generator, which makes each frame.
    Run {
        name: "run_generated",
        command: "run --input gen:poisson:flows=64,pps=14700000,packets=N --rate line --policy hrw --services pass \
                  --workers 0 --json",
        few_max: 49_000_000,
        many_max: 119_200_000,
        packet_max: 1_757,
    },
];

/// Packets of the capture, of 64 flows.
const CAPTURED: u64 = 10_000;

/// Packets of the short runs.
const FEW: u64 = 20_000;
/// Packets of the long runs.
const MANY: u64 = 60_000;
impl Run {
    /// The arguments of the run with this number of packets.
    fn arguments(&self, packets: u64) -> Vec<String> {
        let of_word = |word: &str| match word {
            "CAPTURE" => capture().display().to_string(),
            "ROUNDS" => (packets / CAPTURED).to_string(),
            word => word.replace("=N", &format!("={packets}")),
        };
        self.command.split(' ').map(of_word).collect()
    }
}

/// The environment variable with which this program starts itself to measure.
const MEASURE: &str = "HUMPYARD_GATE_MEASURE";

/// The runs as benchmarks of gungraun, whose macro makes a `main` that hands them to the runner.
mod measurement {
    use gungraun::prelude::*;
    use gungraun::{Bench, BinaryBenchmark, BinaryBenchmarkGroup, Callgrind, EventKind, Stdio};

    use super::{FEW, MANY, RUNS, program};

    fn add_runs(group: &mut BinaryBenchmarkGroup) {
        for run in RUNS {
            let mut benchmark = BinaryBenchmark::new(run.name);
            for (id, packets, max) in [("few", FEW, run.few_max), ("many", MANY, run.many_max)] {
                let command = Command::new(program()).args(run.arguments(packets)).stdout(Stdio::Null).build();
                let limit = Callgrind::with_args(["--cache-sim=no"]).hard_limits([(EventKind::Ir, max)]).clone();
                benchmark.bench(Bench::new(id).config(BinaryBenchmarkConfig::default().tool(limit)).command(command));
            }
            group.binary_benchmark(benchmark);
        }
    }

    binary_benchmark_group!(name = simulations, benchmarks = |group: &mut BinaryBenchmarkGroup| super::add_runs(group));
    main!(binary_benchmark_groups = simulations);

    /// Counts the instructions of all runs. Ends the program with an error if a limit is exceeded.
    pub(super) fn measure() {
        main();
    }
}

/// Returns the folder of the released program, in whose `deps` this benchmark is.
fn built() -> PathBuf {
    let benchmark = std::env::current_exe().expect("a benchmark is a file");
    benchmark.ancestors().nth(2).expect("it is in a folder of a folder").to_owned()
}

/// Returns the path of the released program.
fn program() -> PathBuf {
    built().join("humpyard")
}

/// Returns the path of the capture that live runs read.
fn capture() -> PathBuf {
    built().with_file_name("gungraun-runs.pcap")
}

/// Writes the capture. Returns whether that went well.
fn write_capture() -> bool {
    let source = format!("gen:poisson:flows=64,pps=14700000,packets={CAPTURED}");
    let mut command = Command::new(program());
    command.args(["trace", "cut", &source, "--packets", "1..", "--output"]).arg(capture());
    command.output().is_ok_and(|output| output.status.success())
}

/// Returns the folder that the runner writes to.
fn results() -> PathBuf {
    built().with_file_name("gungraun")
}

/// Returns the file to which the runner writes the counts of a run.
fn summary_file(run: &Run, id: &str) -> PathBuf {
    results().join("humpyard-gate/runs/measurement/simulations").join(format!("{}.{id}", run.name)).join("summary.json")
}

/// Returns the instructions of a run, of all its threads.
fn instructions(run: &Run, id: &str) -> Option<u64> {
    let summary: Value = serde_json::from_str(&std::fs::read_to_string(summary_file(run, id)).ok()?).ok()?;
    let values = summary.pointer("/profiles/0/data/total/metrics/Ir/values")?;
    // With an earlier run to compare with, both: the new one first.
    values.get("new").or_else(|| values.pointer("/both/0"))?.as_u64()
}

/// Prints the instructions that a packet of a run takes, and returns whether they are within the limit; `None`: the run
/// was not measured.
fn hold(run: &Run) -> Option<bool> {
    let (few, many) = (instructions(run, "few")?, instructions(run, "many")?);
    let (packet, max) = (many.saturating_sub(few) / (MANY - FEW), run.packet_max);
    println!("runs, {}: {packet} instructions a packet, limit {max}", run.name);
    if packet > max {
        eprintln!("runs, {}: a packet takes {packet} instructions, which exceeds the limit of {max}", run.name);
    }
    Some(packet <= max)
}

fn main() -> ExitCode {
    // The runner starts this program, too, with `--gungraun-run`.
    if std::env::var_os(MEASURE).is_some() || std::env::args().any(|argument| argument == "--gungraun-run") {
        measurement::measure();
        return ExitCode::SUCCESS;
    }
    if !program().is_file() {
        eprintln!("runs: there is no {}: `make bench-instructions` builds it first", program().display());
        return ExitCode::from(2);
    }
    if !write_capture() {
        eprintln!("runs: {} cannot be written", capture().display());
        return ExitCode::from(2);
    }
    for run in &RUNS {
        for id in ["few", "many"] {
            // The file of an earlier measurement, if there is one.
            let _ = std::fs::remove_file(summary_file(run, id));
        }
    }
    let benchmark = std::env::current_exe().expect("a benchmark is a file");
    let mut measurement = Command::new(benchmark);
    measurement.args(std::env::args_os().skip(1)).arg("--save-summary=json").arg("--home").arg(results());
    let status = measurement.env(MEASURE, "1").status().expect("a benchmark starts");
    // Cargo says `--bench`; any other word chooses runs.
    let are_chosen = std::env::args().skip(1).any(|argument| argument != "--bench");
    let mut holds = status.success();
    for run in &RUNS {
        holds &= hold(run).unwrap_or_else(|| {
            eprintln!("runs, {}: not measured", run.name);
            are_chosen
        });
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
