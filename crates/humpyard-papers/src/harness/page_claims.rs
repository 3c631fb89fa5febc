//! The claims of papers on the pages: how many there are of each outcome, and each of them.

use std::collections::BTreeSet;
use std::fmt::Write;

use maud::{Markup, html};

use super::claim::claims;
use super::experiment::Note;
use super::judged::ClaimVerdict;
use super::outcome::Outcome;
use super::page::{Shown, head};

/// The head of the table of papers.
const PAPERS: [&str; 7] =
    ["paper", "claims", "holds", "contradicted", "depends on the seed", "not testable here", "not run"];
/// The head of the tables of claims.
const CLAIMS: [&str; 5] = ["claim", "paper", "demanded", "found", "outcome"];
/// The head of the tables of notes.
const NOTES: [&str; 3] = ["beside the claims", "said", "found"];

/// Counts the claims of each paper whose claims are judged: all, those of each outcome, and those not run.
fn papers(shown: &[Shown]) -> Vec<(&'static str, Vec<usize>)> {
    let judged: Vec<&ClaimVerdict> = shown.iter().flat_map(|one| &one.document.claims).collect();
    let is_judged = |paper: &str| judged.iter().any(|verdict| verdict.paper == paper);
    let known: Vec<&'static str> = claims().iter().map(|claim| claim.paper.as_str()).collect();
    let mut names = known.clone();
    names.dedup();
    let line = |paper: &'static str| {
        let of_paper = || judged.iter().filter(|verdict| verdict.paper == paper);
        let all = known.iter().filter(|&&name| name == paper).count();
        let there: BTreeSet<&str> = of_paper().map(|verdict| verdict.claim.as_str()).collect();
        let outcomes = Outcome::ALL.map(|outcome| of_paper().filter(|verdict| verdict.outcome == outcome).count());
        (paper, [&[all][..], &outcomes, &[all.saturating_sub(there.len())]].concat())
    };
    names.into_iter().filter(|paper| is_judged(paper)).map(line).collect()
}

/// Says which outcomes are not the expected ones. `None`: all are.
fn odd(shown: &[Shown]) -> Option<String> {
    let odd: Vec<String> =
        shown.iter().flat_map(|one| &one.document.claims).filter(|verdict| verdict.differs()).map(unexpected).collect();
    (!odd.is_empty()).then(|| format!("Outcomes that are not the expected ones: {}.", odd.join("; ")))
}

/// Names a claim with its outcome and the expected one.
fn unexpected(verdict: &ClaimVerdict) -> String {
    let expected = verdict.expected.map_or("nothing", Outcome::name);
    format!("{} ({}, expected: {expected})", verdict.claim, verdict.outcome)
}

/// Where the paper says it.
fn place(verdict: &ClaimVerdict) -> String {
    let figure = if verdict.figure.is_empty() { String::new() } else { format!(", {}", verdict.figure) };
    format!("section {}{figure}", verdict.section)
}

/// What the paper demands, with the unit.
fn demanded(verdict: &ClaimVerdict) -> String {
    format!("{} {}", verdict.demanded, verdict.unit).trim_end().to_owned()
}

/// The outcome, the expected one where it differs, why it does not hold, and the command that shows it.
fn outcome(verdict: &ClaimVerdict) -> String {
    let expected = match verdict.expected {
        None => " (no outcome is expected yet)".to_owned(),
        Some(expected) if expected != verdict.outcome => format!(" (expected: {expected})"),
        Some(_) => String::new(),
    };
    // The reason is of the expected outcome.
    let why = verdict.why.as_ref().filter(|_| !verdict.differs());
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    let run = verdict.run.as_ref().filter(|_| !verdict.differs());
    let run = run.map_or_else(String::new, |run| format!(" (`{run}`)"));
    format!("{}{expected}{why}{run}", verdict.outcome)
}

/// The counts by paper, in HTML.
pub(super) fn counts_page(shown: &[Shown]) -> Markup {
    let papers = papers(shown);
    html! {
        @if !papers.is_empty() {
            p { (INTRODUCTION) }
            @if let Some(odd) = odd(shown) { p { strong { (odd) } } }
            div.scroll {
                table.verdicts {
                    thead { tr { @for word in PAPERS { th { (word) } } } }
                    tbody {
                        @for (paper, counts) in papers { tr { td { (paper) } @for count in counts { td { (count) } } } }
                    }
                }
            }
        }
    }
}

/// The counts by paper, in Markdown.
pub(super) fn counts_summary(text: &mut String, shown: &[Shown]) {
    let papers = papers(shown);
    if papers.is_empty() {
        return;
    }
    let _ = write!(text, "{INTRODUCTION}\n\n");
    if let Some(odd) = odd(shown) {
        let _ = write!(text, "**{odd}**\n\n");
    }
    head(text, &PAPERS);
    for (paper, counts) in papers {
        let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "| {paper} | {} |", counts.join(" | "));
    }
    text.push('\n');
}

const INTRODUCTION: &str = "The claims of each paper, each counted once. A claim holds if it meets the paper's bound \
    with 9 of 10 seeds or more, or with all 3; it is contradicted if it does so with 2 of 10 or fewer, or with none. \
    Notes beside the claims have no outcome.";

/// The claims and notes of an experiment, in HTML.
pub(super) fn claims_page(claims: &[ClaimVerdict], notes: &[Note]) -> Markup {
    html! {
        @if !claims.is_empty() {
            table.verdicts {
                thead { tr { @for word in CLAIMS { th { (word) } } } }
                tbody {
                    @for verdict in claims {
                        tr {
                            td { (verdict.says) }
                            td { (place(verdict)) }
                            td { (demanded(verdict)) }
                            td { (verdict.found_text()) }
                            td { @if verdict.differs() { strong { (outcome(verdict)) } } @else { (outcome(verdict)) } }
                        }
                    }
                }
            }
        }
        @if !notes.is_empty() {
            table.verdicts {
                thead { tr { @for word in NOTES { th { (word) } } } }
                tbody { @for note in notes { tr { td { (note.about) } td { (note.said) } td { (note.found) } } } }
            }
        }
    }
}

/// The claims and notes of an experiment, in Markdown.
pub(super) fn claims_summary(text: &mut String, claims: &[ClaimVerdict], notes: &[Note]) {
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    if !claims.is_empty() {
        head(text, &CLAIMS);
    }
    for verdict in claims {
        let cells = [verdict.says.clone(), place(verdict), demanded(verdict), verdict.found_text(), outcome(verdict)];
        let _ = writeln!(text, "| {} |", cells.map(|text| cell(&text)).join(" | "));
    }
    if !notes.is_empty() {
        text.push_str(if claims.is_empty() { "" } else { "\n" });
        head(text, &NOTES);
    }
    for Note { about, said, found } in notes {
        let _ = writeln!(text, "| {} |", [about, said, found].map(|text| cell(text)).join(" | "));
    }
}
