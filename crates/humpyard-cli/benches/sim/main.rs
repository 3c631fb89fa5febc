//! Simulation of 64 and of a million Poisson flows through deficit round robin: `humpyard sim`, a
//! bare loop and, for 64, ns-2, in turn.
//!
//! `make bench-sim` runs it, and installs ns-2. The bare loop is `floor/floor.rs` in the directory
//! of the environment variable `HUMPYARD_PEERS`, by default `../shared/peers` beside the checkout:
//! it does what such a simulation must do, and nothing else. `docs/speed/simulations.md` shows the results.
//!
//! Each simulator runs with few packets and with many. The difference of the two least wall-clock
//! times, divided by the difference of the packets, is the time of a packet: start-up does not
//! count.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it exists to print the table")]

use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const HELP: &str = "make bench-sim ARGUMENTS=\"[--rounds 5] [--packets 60000000]\"

--rounds N   Sets how often each simulator runs; the least time counts (default 5)
--packets N  Sets the packets of the long run whose memory is measured; 0 leaves it out (default 60000000)

HUMPYARD_PEERS is the directory that holds the bare loop (default ../shared/peers beside the checkout).";

/// The flows of the second comparison.
const MANY_FLOWS: u64 = 1_000_000;
/// The most memory that the long run should take, in MB.
const MEMORY_AIM: f64 = 64.0;
/// How often the memory of a run is read.
const MEMORY_INTERVAL: Duration = Duration::from_millis(20);

/// One simulator.
struct Simulator {
    name: &'static str,
    /// Returns the command that simulates this number of packets.
    command: Box<dyn Fn(u64) -> Command>,
    /// The packets of a short and of a long run.
    packets: [u64; 2],
    /// The ratio of our rate to that of this one that is aimed at.
    aim: Option<f64>,
}

impl Simulator {
    fn ours(flows: u64, packets: [u64; 2]) -> Self {
        let command = move |packets| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_humpyard"));
            command.arg("sim").arg(format!("--input=gen:poisson:flows={flows},pps=14700000,packets={packets}"));
            command.args(["--policy=drr", "--cores=1", "--costs=table:measured"]);
            command.arg(format!("--flows={}", (2 * flows).max(65_536)));
            command
        };
        Self { name: "humpyard sim", command: Box::new(command), packets, aim: None }
    }

    fn floor(program: &Path, flows: u64, packets: [u64; 2], aim: f64) -> Self {
        let program = program.to_owned();
        let command = move |packets: u64| {
            let mut command = Command::new(&program);
            command.arg(packets.to_string()).arg(flows.to_string());
            command
        };
        Self { name: "bare loop", command: Box::new(command), packets, aim: Some(aim) }
    }

    fn ns2() -> Self {
        let command = |packets: u64| {
            let mut command = Command::new("ns");
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/sim/drr.tcl");
            command.arg(script).arg(packets.to_string());
            command
        };
        Self { name: "ns-2", command: Box::new(command), packets: [500_000, 3_000_000], aim: Some(3.0) }
    }

    /// Returns the wall-clock time of one run.
    fn time(&self, packets: u64) -> Result<Duration, String> {
        let begun = Instant::now();
        run(&mut (self.command)(packets))?;
        Ok(begun.elapsed())
    }
}

/// What is asked of a run.
struct Options {
    rounds: usize,
    /// The packets of the run whose memory is measured; 0: no such run.
    packets: u64,
}

impl Options {
    /// Reads the words of the command line; `None`: help is wanted.
    fn parse(words: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self { rounds: 5, packets: 60_000_000 };
        let mut words = words.filter(|word| word != "--bench");
        while let Some(option) = words.next() {
            if matches!(option.as_str(), "--help" | "-h") {
                return Ok(None);
            }
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            let wrong = || format!("{option} does not take `{value}`");
            match option.as_str() {
                "--rounds" => options.rounds = value.parse().ok().filter(|&rounds| rounds > 0).ok_or_else(wrong)?,
                "--packets" => options.packets = value.parse().map_err(|_| wrong())?,
                _ => return Err(format!("no option {option}\n\n{HELP}")),
            }
        }
        Ok(Some(options))
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Without `--bench` it is a test run: ours works, nothing is measured.
    let is_bench = words.iter().any(|word| matches!(word.as_str(), "--bench" | "--help"));
    let result = if is_bench {
        Options::parse(words.into_iter()).and_then(|options| match options {
            None => {
                println!("{HELP}");
                Ok(())
            }
            Some(options) => bench(&options),
        })
    } else {
        Simulator::ours(64, [1_000, 2_000]).time(1_000).map(drop)
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-sim: {error}");
            ExitCode::from(2)
        }
    }
}

fn bench(options: &Options) -> Result<(), String> {
    let floor = build_floor()?;
    let few = [
        Simulator::ours(64, [1_000_000, 5_000_000]),
        Simulator::floor(&floor, 64, [2_000_000, 14_000_000], 0.35),
        Simulator::ns2(),
    ];
    compare("64 flows", &few, options.rounds)?;
    let lengths = [MANY_FLOWS * 3, MANY_FLOWS * 9];
    let many = [Simulator::ours(MANY_FLOWS, lengths), Simulator::floor(&floor, MANY_FLOWS, lengths, 0.5)];
    compare("a million flows", &many, options.rounds)?;
    if options.packets > 0 {
        say_progress(&format!("{} packets: memory", options.packets));
        let memory = peak_memory(&mut (few[0].command)(options.packets))?;
        say_progress("");
        println!("peak memory of {} packets of 64 flows: {memory:.1} MB, aim under {MEMORY_AIM:.0}", options.packets);
    }
    Ok(())
}

/// Times simulators in turn, ours first, and prints a table.
fn compare(flows: &str, simulators: &[Simulator], rounds: usize) -> Result<(), String> {
    let mut least = vec![[Duration::MAX; 2]; simulators.len()];
    for round in 1..=rounds {
        for (simulator, least) in simulators.iter().zip(&mut least) {
            say_progress(&format!("{flows}, {}: round {round} of {rounds}", simulator.name));
            for (packets, least) in simulator.packets.into_iter().zip(least) {
                *least = simulator.time(packets)?.min(*least);
            }
        }
    }
    say_progress("");
    let rates: Vec<f64> =
        simulators.iter().zip(least).map(|(simulator, times)| rate(simulator.packets, times)).collect();
    println!("{flows}, deficit round robin, load .835; least times of {rounds} rounds");
    println!("| simulator | M packets/s | ns a packet | ours by it | aim |");
    println!("|---|--:|--:|--:|--:|");
    for (simulator, rate) in simulators.iter().zip(&rates) {
        let aim = simulator.aim.map_or_else(String::new, |aim| format!("{aim:.2}"));
        let (millions, ns) = (rate / 1e6, 1e9 / rate);
        println!("| {} | {millions:.2} | {ns:.0} | {:.2} | {aim} |", simulator.name, rates[0] / rate);
    }
    Ok(())
}

/// Returns packets per second by the difference of two runs.
fn rate([few, many]: [u64; 2], [short, long]: [Duration; 2]) -> f64 {
    (many - few) as f64 / long.saturating_sub(short).as_secs_f64()
}

/// Compiles the bare loop.
///
/// # Errors
/// Reports that there is none, or what the compiler says.
fn build_floor() -> Result<PathBuf, String> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/peers");
    let source = std::env::var_os("HUMPYARD_PEERS").map_or(beside, PathBuf::from).join("floor/floor.rs");
    if !source.is_file() {
        return Err(format!(
            "there is no {}: set HUMPYARD_PEERS to the directory that holds the bare loop",
            source.display()
        ));
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("floor");
    run(Command::new("rustc").arg("-O").arg("-o").arg(&program).arg(source))?;
    Ok(program)
}

/// Runs a command to its end.
///
/// # Errors
/// Reports that it is missing or failed, with what it says.
fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    let Output { status, stderr, .. } = output;
    if status.success() {
        return Ok(());
    }
    Err(format!("{name} failed ({status}): {}", String::from_utf8_lossy(&stderr).trim()))
}

/// Runs a command to its end and returns the most memory that it had in MB, as the kernel counts
/// it.
fn peak_memory(command: &mut Command) -> Result<f64, String> {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().map_err(|error| format!("humpyard: {error}"))?;
    let file = format!("/proc/{}/status", child.id());
    let mut peak = None;
    loop {
        // A process that has ended has no such line.
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes: Option<f64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = kilobytes.or(peak);
        match child.try_wait().map_err(|error| error.to_string())? {
            None => sleep(MEMORY_INTERVAL),
            Some(status) if status.success() => break,
            Some(status) => return Err(format!("humpyard sim failed ({status})")),
        }
    }
    peak.map(|kilobytes| kilobytes * 1024.0 / 1e6).ok_or_else(|| format!("{file} does not say the peak memory"))
}

/// Shows progress on a terminal.
fn say_progress(what: &str) {
    if stderr().is_terminal() {
        eprint!("\r{what}\u{1b}[K");
    }
}
