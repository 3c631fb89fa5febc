//! Forwarding between two interfaces under more load than can be forwarded: what is delivered and
//! how late, over the load, by humpyard with every number of workers, DPDK's testpmd and the
//! kernel, in turn.
//!
//! `make bench-overload` runs it, and installs what it needs; it takes root, `ip`, `taskset`,
//! `sysctl`, `dpdk-testpmd` and four minutes a turn. `docs/speed/overload.md` says what is measured and
//! what came out.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a measurement tells what came out")]

#[path = "../wire/bed.rs"]
mod bed;
mod contender;
mod measurement;
mod receiver;
mod report;

use std::process::ExitCode;

use humpyard_testkit::network::why_not;

use self::bed::Bed;
use self::contender::{Contender, WORKS, Work};
use self::measurement::measure_curve;
use self::receiver::Receiver;

/// What is asked of a run.
struct Options {
    /// Turns of every contender.
    turns: usize,
    /// How long frames are sent at each rate, in seconds.
    seconds: f64,
    /// Where a document of everything measured goes.
    json: Option<String>,
    /// Where plots go, by the beginning of their names.
    plots: Option<String>,
    /// Contenders whose name has this in it take turns.
    only: String,
}

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { turns: 7, seconds: 0.5, json: None, plots: None, only: String::new() };
        let mut words = words.filter(|word| word != "--bench");
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            let wrong = || format!("{option} does not take `{value}`");
            match option.as_str() {
                "--turns" => options.turns = value.parse().ok().filter(|&turns| turns > 0).ok_or_else(wrong)?,
                "--seconds" => {
                    options.seconds =
                        value.parse().ok().filter(|&time| (0.1..=60.0).contains(&time)).ok_or_else(wrong)?;
                }
                "--json" => options.json = Some(value),
                "--plots" => options.plots = Some(value),
                "--only" => options.only = value,
                _ => {
                    return Err(format!(
                        "no option {option}: there are --turns N, --seconds S, --json FILE, --plots PREFIX and --only PART \
                         of a name"
                    ));
                }
            }
        }
        Ok(options)
    }

    fn contenders(&self, work: &Work) -> Vec<Contender> {
        work.contenders().into_iter().filter(|contender| contender.name.contains(&self.only)).collect()
    }
}

fn measure(options: &Options) -> Result<(), String> {
    if let Some(why_not) = why_not() {
        return Err(format!("the measurement needs network namespaces: {why_not}"));
    }
    let bed = Bed::new()?;
    let mut receiver = Receiver::start(&bed)?;
    let mut measured = Vec::new();
    for turn in 0..options.turns {
        for work in &WORKS {
            let contenders = options.contenders(work);
            for place in 0..contenders.len() {
                // Nobody is always behind the same.
                let contender = &contenders[(place + turn) % contenders.len()];
                let curve = measure_curve(&bed, &mut receiver, contender, work, turn, options.seconds)?;
                report::line(&curve);
                measured.extend(curve);
            }
        }
    }
    report::tables(&measured);
    if let Some(prefix) = &options.plots {
        report::plots(&measured, prefix)?;
    }
    options.json.as_ref().map_or(Ok(()), |path| report::document(&measured, path))
}

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| measure(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-overload: {error}");
            ExitCode::from(2)
        }
    }
}
