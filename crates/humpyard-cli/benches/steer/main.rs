//! `humpyard steer` beside no steering and RPS of the kernel, in turn, on two processors; what its program costs a
//! frame; and what policies would do on 16 processors, by simulation.
//!
//! `make bench-steer` runs it, and installs what it needs; it takes root, `ip`, `nft`, `ethtool`, `chrt`, `renice`
//! and three minutes a turn. `docs/speed/steering-a-box.md` says what is measured and what came out.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a measurement tells what came out")]

mod bed;
mod captured;
mod contender;
mod cost;
mod foreseen;
mod frames;
mod measurement;
mod probe;
mod receiver;
mod report;
mod sender;
mod sixteen;
mod streams;
mod traffic;

use std::process::ExitCode;

use humpyard_testkit::network::why_not;

use self::bed::Bed;
use self::measurement::Measurement;
use self::traffic::Traffic;

/// The packets a second that are due, of those that one processor forwards alone.
const LOAD: f64 = 1.5;

/// What is asked of a run.
struct Options {
    /// Turns of every contender.
    turns: usize,
    /// How long each is measured, in seconds.
    seconds: f64,
    /// Where a document of everything measured goes.
    json: Option<String>,
    /// Parts whose name begins with this are measured.
    only: String,
}

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { turns: 5, seconds: 2.0, json: None, only: String::new() };
        let mut words = words.filter(|word| word != "--bench");
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            let wrong = || format!("{option} does not take `{value}`");
            match option.as_str() {
                "--turns" => options.turns = value.parse().ok().filter(|&turns| turns > 0).ok_or_else(wrong)?,
                "--seconds" => {
                    options.seconds =
                        value.parse().ok().filter(|&time| (0.5..=60.0).contains(&time)).ok_or_else(wrong)?;
                }
                "--json" => options.json = Some(value),
                "--only" => options.only = value,
                _ => {
                    return Err(format!(
                        "no option {option}: there are --turns N, --seconds S, --json FILE and --only cost, \
                         simulation, elephants, unlucky, tunnel, tcp or foreseen (all but tcp, live and by simulation)"
                    ));
                }
            }
        }
        Ok(options)
    }

    fn wants(&self, part: &str) -> bool {
        let is_compared = self.only == "foreseen" && Traffic::NAMES.contains(&part) && part != "tcp";
        part.starts_with(&self.only) || is_compared
    }
}

/// Measures every contender with every traffic, in turn.
fn in_turn(bed: &Bed, options: &Options) -> Result<report::Document, String> {
    let all = Traffic::all(bed, &|name| options.wants(name))?;
    let alone = Measurement::alone(bed, options.seconds)?;
    let due = LOAD * alone;
    println!(
        "One processor forwards {:.1} thousand packets a second alone; {:.1} thousand are due.",
        alone / 1e3,
        due / 1e3
    );
    let mut measured = Vec::new();
    for turn in 0..options.turns {
        for traffic in &all {
            let contenders = traffic.contenders();
            for place in 0..contenders.len() {
                // Nobody is always behind the same.
                let contender = &contenders[(place + turn) % contenders.len()];
                let measurement = Measurement::take(bed, traffic, contender, turn, due, options.seconds)?;
                report::line(&measurement);
                measured.push(measurement);
            }
        }
    }
    report::tables(&measured);
    let mut document = report::Document::default();
    if options.wants("foreseen") {
        let (costs, beside) = foreseen::foreseen(bed, alone, due, options.seconds, &measured)?;
        report::foreseen(&costs, &beside);
        (document.foreseen, document.foreseen_costs) = (beside, Some(costs));
    }
    document.measurements = measured;
    Ok(document)
}

fn measure(options: &Options) -> Result<(), String> {
    if let Some(why_not) = why_not() {
        return Err(format!("the measurement needs network namespaces: {why_not}"));
    }
    let mut document = report::Document::default();
    if options.wants("cost") {
        document.costs = cost::measure(options.turns)?;
        report::costs(&document.costs);
    }
    if options.wants("simulation") {
        document.simulated = sixteen::simulate()?;
        report::simulated(&document.simulated);
    }
    if Traffic::NAMES.into_iter().any(|name| options.wants(name)) {
        let report::Document { costs, simulated, .. } = document;
        document = report::Document { costs, simulated, ..in_turn(&Bed::new()?, options)? };
    }
    options.json.as_ref().map_or(Ok(()), |path| document.write(path))
}

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| measure(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-steer: {error}");
            ExitCode::from(2)
        }
    }
}
