//! `reproduce`: figures, tables and claims of the papers, done again.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use humpyard::papers::{
    Cost, Missing, Outcome, ReproduceOptions, Reproduced, Reproduction, Scale, cost, find, reproduce as run,
};
use humpyard::random::Seed;

use crate::arguments::CommonOptions;
use crate::failure::Failure;
use crate::layout::Sheet;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::stop;

/// What `humpyard reproduce` takes.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArguments {
    /// Experiments by name, by pattern (`gr3-*`), or `all`
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
    /// A fixed part of each, within a minute or so [default]
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// All of each, with all seeds, which takes hours; a run that was ended goes on where it was
    #[arg(long)]
    pub(crate) full: bool,
    /// Run nothing: judge the data that are in the directory, and write the pages
    #[arg(long)]
    pub(crate) judge: bool,
    /// The directory for data, plots and pages [default: reproduction-quick, or reproduction with --full]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<String>,
    /// Threads; they change nothing but the time it takes [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

/// `humpyard reproduce`.
pub(crate) fn reproduce(arguments: &ReproduceArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.common;
    let threads = arguments.threads.and_then(|threads| NonZeroUsize::new(threads.into()));
    let scale = if arguments.full { Scale::Full } else { Scale::Quick };
    let out = arguments.out.as_deref().unwrap_or(scale.directory());
    let options = ReproduceOptions {
        experiments: find(&arguments.names)?,
        scale,
        seed: Seed(common.seed),
        directory: out.into(),
        threads: threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN),
        judges_only: arguments.judge,
    };
    if arguments.full && !arguments.judge && !common.quiet {
        output::say(&beforehand(&cost(&options), options.threads));
    }
    let stop = stop::on_signal()?;
    let progress = Progress::new("reproduce", common.quiet);
    let made = run(&options, &stop, &mut |done, all, experiment| {
        progress.count(done as u64, &format!("of {all} parts ({experiment})"), Some(done as f64 / all as f64));
    });
    drop(progress);
    let Reproduction { experiments, done, all, missing, unreadable } = made?;
    let ended = !missing.is_empty();
    let output = Output::of(&common.output);
    match experiments.as_slice() {
        [] if output.is_text() => {}
        [one] if !ended => output.answer(one, || text(&experiments, out))?,
        several => output.answer(&several, || text(several, out))?,
    }
    for path in unreadable {
        let path = path.display();
        output::say(&format!("humpyard: `{path}` cannot be read, so the pages leave it out: move its directory away"));
    }
    if ended {
        let missing: Vec<String> = missing.iter().map(Missing::text).collect();
        return Err(Failure::new(format!(
            "interrupted: {done} of {all} parts are done; the same command continues, in {out}; missing: {}",
            missing.join("; ")
        )));
    }
    Ok(ExitCode::from(u8::from(!experiments.iter().all(Reproduced::holds))))
}

/// Says what a full run costs.
fn beforehand(cost: &Cost, threads: NonZeroUsize) -> String {
    let hours = cost.seconds / 3600.0;
    let unknown = match cost.unknown.as_slice() {
        [] => String::new(),
        unknown => format!("; not known of {}", unknown.join(", ")),
    };
    format!(
        "humpyard: what is not done yet took {hours:.1} hours of one core on the machine where reproduction/ was \
            made; it runs on {threads} threads{unknown}"
    )
}

fn text(done: &[Reproduced], directory: &str) -> String {
    let mut table = Sheet::of_text(&["experiment", "claim", "expected", "found", "outcome"]);
    for run in done {
        let experiment = run.experiment.as_str();
        for claim in &run.claims {
            let expected = claim.expected.map_or("not decided", Outcome::name);
            table.add_row([experiment, &claim.claim, expected, &claim.found_text(), claim.outcome.name()]);
        }
    }
    format!("{table}\n{} Data, plots and verdicts, for a browser: {directory}/index.html\n", said(done))
}

/// Names the claims whose outcomes are not the expected ones, and those of which no outcome is expected.
fn said(done: &[Reproduced]) -> String {
    let claims = || done.iter().flat_map(|run| &run.claims);
    let mut said = Vec::new();
    for claim in claims().filter(|claim| claim.differs()) {
        let expected = claim.expected.map_or("not decided", Outcome::name);
        said.push(format!("{}: {}, but expected: {expected}.", claim.claim, claim.outcome));
    }
    if claims().count() > 0 && said.is_empty() {
        said.push("Every outcome that is expected is found.".to_owned());
    }
    let undecided: Vec<&str> =
        claims().filter(|claim| claim.expected.is_none()).map(|claim| claim.claim.as_str()).collect();
    if !undecided.is_empty() {
        said.push(format!("No outcome is expected yet of {}.", undecided.join(", ")));
    }
    said.join(" ")
}
