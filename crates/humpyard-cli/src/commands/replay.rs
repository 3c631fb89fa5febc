//! `replay`: a journal played again.

use std::process::ExitCode;

use humpyard::lab::{self, Parting, Replayed};

use crate::arguments::ReplayArguments;
use crate::failure::Failure;
use crate::figures::counted;
use crate::output::Output;
use crate::progress::Progress;

/// `humpyard replay`.
pub(crate) fn replay(arguments: &ReplayArguments) -> Result<ExitCode, Failure> {
    let policy = arguments.policy.as_deref().map(str::parse).transpose()?;
    let progress = Progress::new("replay", arguments.common.quiet);
    let replayed =
        lab::replay(&arguments.journal, policy, &mut |records, part| progress.count(records, "records", part))?;
    drop(progress);
    Output::of(&arguments.common.output).answer(&replayed, || said(&replayed))?;
    Ok(ExitCode::from(u8::from(replayed.divergence.is_some())))
}

fn said(replayed: &Replayed) -> String {
    let Replayed { policy, records, .. } = replayed;
    let records = counted(*records, "record");
    match &replayed.divergence {
        None => format!("{policy}: {records} played, every answer the same\n"),
        Some(Parting { line, time_ns, expected, found }) => format!(
            "{policy}: {records} played with the same answers, then at {time_ns} ns, line {line}:\n  the journal: \
             {expected}\n  now:         {found}\n"
        ),
    }
}
