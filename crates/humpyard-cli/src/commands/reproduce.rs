//! `reproduce`: figures, tables and claims of the papers, done again.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;

use humpyard::papers::{Missing, Outcome, ReproduceOptions, Reproduced, Reproduction, Scale, find, reproduce as run};
use humpyard::random::Seed;

use crate::arguments::ReproduceArguments;
use crate::failure::Failure;
use crate::layout::Sheet;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::stop;

/// `humpyard reproduce`.
pub(crate) fn reproduce(arguments: &ReproduceArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.common;
    let threads = arguments.threads.and_then(|threads| NonZeroUsize::new(threads.into()));
    let options = ReproduceOptions {
        experiments: find(&arguments.names)?,
        scale: if arguments.full { Scale::Full } else { Scale::Quick },
        seed: Seed(common.seed),
        directory: arguments.out.clone().into(),
        threads: threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN),
    };
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
        [one] if !ended => output.answer(one, || text(&experiments, &arguments.out))?,
        several => output.answer(&several, || text(several, &arguments.out))?,
    }
    for path in unreadable {
        let path = path.display();
        output::say(&format!("humpyard: `{path}` cannot be read, so the pages leave it out: move its directory away"));
    }
    if ended {
        let missing: Vec<String> = missing.iter().map(Missing::text).collect();
        return Err(Failure::new(format!(
            "interrupted: {done} of {all} parts are done; the same command continues, in {}; missing: {}",
            arguments.out,
            missing.join("; ")
        )));
    }
    Ok(ExitCode::from(u8::from(!experiments.iter().all(Reproduced::holds))))
}

fn text(done: &[Reproduced], directory: &str) -> String {
    let mut table = Sheet::of_text(&["experiment", "claim", "expected", "found", "verdict"]);
    for run in done {
        for verdict in &run.verdicts {
            let word = match verdict.outcome {
                Outcome::Pass => "pass",
                Outcome::Fail => "FAIL",
                Outcome::Measured => "measured",
            };
            table.add_row([run.experiment.as_str(), &verdict.claim, &verdict.expected, &verdict.measured, word]);
        }
    }
    let failed = done.iter().flat_map(|run| &run.verdicts).filter(|verdict| verdict.pass == Some(false)).count();
    let said = match failed {
        0 => "Every claim that can fail holds.".to_owned(),
        1 => "One claim fails.".to_owned(),
        failed => format!("{failed} claims fail."),
    };
    format!("{table}\n{said} Data, plots and verdicts, for a browser: {directory}/index.html\n")
}
