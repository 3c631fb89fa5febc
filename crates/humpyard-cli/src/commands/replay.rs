//! `replay`: a journal played again.

use std::process::ExitCode;

use humpyard::lab::{self, JournalDifference, Replayed, ReplayedJournal};

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
    let Replayed { policy, records, journals, .. } = replayed;
    let played = counted(*records, "record");
    if journals.is_empty() {
        return said_of(policy, *records, replayed.divergence.as_ref());
    }
    if replayed.divergence.is_none() {
        let journals = counted(journals.len() as u64, "journal");
        return format!("{policy}: {played} of {journals} played, every answer the same\n");
    }
    let of = |one: &ReplayedJournal| said_of(&format!("{policy}, {}", one.file), one.records, one.divergence.as_ref());
    journals.iter().map(of).collect()
}

/// Returns what came of one journal, in words.
fn said_of(what: &str, records: u64, divergence: Option<&JournalDifference>) -> String {
    let records = counted(records, "record");
    match divergence {
        None => format!("{what}: {records} played, every answer the same\n"),
        Some(JournalDifference { line, time_ns, expected, found, words }) => {
            let words: String = words.iter().map(|sentence| format!("  {sentence}\n")).collect();
            format!(
                "{what}: {records} played with the same answers, then at {time_ns} ns, line {line}:\n  the journal: \
                 {expected}\n  now:         {found}\n{words}"
            )
        }
    }
}
