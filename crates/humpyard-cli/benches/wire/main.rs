//! Forwarding between two interfaces: humpyard against DPDK's testpmd and the kernel, in turn, pair by pair.
//!
//! `make bench-wire` runs it, and installs what it needs; it takes root, `ip`, `taskset`, `sysctl`, `dpdk-testpmd` and a minute for each
//! two pairs. `docs/speed/interfaces.md` says what is measured and what came out.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a measurement tells what came out")]

mod bed;
mod contender;
mod measurement;
mod report;

use std::process::ExitCode;

use humpyard_testkit::network::why_not;

use self::bed::Bed;
use self::contender::Contender;
use self::measurement::Measurement;

/// Frames without their check sum, in bytes.
const LENGTHS: [usize; 2] = [64, 1_514];

/// What is asked of a run.
struct Options {
    /// Turns of every contender.
    pairs: usize,
    /// How long frames are sent in each, in seconds.
    seconds: f64,
    /// Where a document of everything measured goes.
    json: Option<String>,
    /// Who takes turns.
    contenders: Vec<Contender>,
}

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { pairs: 20, seconds: 2.0, json: None, contenders: Contender::ALL.to_vec() };
        let mut words = words.filter(|word| word != "--bench");
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            let wrong = || format!("{option} does not take `{value}`");
            match option.as_str() {
                "--pairs" => options.pairs = value.parse().ok().filter(|&pairs| pairs > 0).ok_or_else(wrong)?,
                "--seconds" => {
                    options.seconds =
                        value.parse().ok().filter(|&time| (0.1..=60.0).contains(&time)).ok_or_else(wrong)?;
                }
                "--json" => options.json = Some(value),
                "--only" => {
                    let named = |name: &str| Contender::ALL.into_iter().find(|contender| contender.name() == name);
                    options.contenders = value.split(',').map(named).collect::<Option<_>>().ok_or_else(wrong)?;
                }
                _ => {
                    return Err(format!(
                        "no option {option}: there are --pairs N, --seconds S, --json FILE and --only NAME,... of the table"
                    ));
                }
            }
        }
        Ok(options)
    }
}

fn measure(options: &Options) -> Result<(), String> {
    if let Some(why_not) = why_not() {
        return Err(format!("the measurement needs network namespaces: {why_not}"));
    }
    let bed = Bed::new()?;
    let mut measured = Vec::new();
    for pair in 0..options.pairs {
        for length in LENGTHS {
            let contenders = &options.contenders;
            for turn in 0..contenders.len() {
                // Nobody is always behind the same.
                let contender = contenders[(turn + pair) % contenders.len()];
                let measurement = Measurement::take(&bed, contender, pair, length, options.seconds)?;
                report::line(&measurement);
                measured.push(measurement);
            }
        }
    }
    report::tables(&measured);
    options.json.as_ref().map_or(Ok(()), |path| report::document(&measured, path))
}

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| measure(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-wire: {error}");
            ExitCode::from(2)
        }
    }
}
