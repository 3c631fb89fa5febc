//! What came of experiments, as a page and as a table in Markdown.

use std::fmt::Write;

use maud::{Markup, html};

use super::{Outcome, ReproduceOptions, Reproduced, Scale, Verdict};
use crate::page::page as framed;

/// What a verdict is called.
const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "fail",
        Outcome::Measured => "measured",
    }
}

/// How many verdicts there are of each kind.
fn counts(reproduced: &[Reproduced]) -> String {
    let count = |outcome| {
        let verdicts = reproduced.iter().flat_map(|run| &run.verdicts);
        verdicts.filter(|verdict| verdict.outcome == outcome).count()
    };
    format!(
        "{} claims hold, {} do not, {} are measured and nothing hangs on them",
        count(Outcome::Pass),
        count(Outcome::Fail),
        count(Outcome::Measured)
    )
}

fn how(options: &ReproduceOptions) -> String {
    let scale = match options.scale {
        Scale::Quick => "a fixed part of each experiment (--quick)",
        Scale::Full => "all of each experiment (--full)",
    };
    format!("humpyard {}, {scale}, seed {}", env!("CARGO_PKG_VERSION"), options.seed.0)
}

/// The page that leads to everything.
pub(super) fn index(reproduced: &[Reproduced], options: &ReproduceOptions) -> Markup {
    let contents = html! {
        p { (how(options)) ": " (counts(reproduced)) ". Made by " code { (options.command) } "." }
        ul {
            @for run in reproduced {
                li {
                    a href=(format!("#{}", run.experiment)) { (run.experiment) } ": " (run.title)
                    @if !run.holds() { " " strong { "(a claim fails)" } }
                }
            }
        }
        @for run in reproduced { (experiment(run)) }
    };
    framed("Experiments of the papers, done again", &contents)
}

fn experiment(run: &Reproduced) -> Markup {
    let is_plot = |file: &&String| file.ends_with(".svg");
    html! {
        section id=(run.experiment) {
            h2 { (run.experiment) ": " (run.title) }
            p { (run.paper) ", " (run.figure) ". " (run.description) }
            table.verdicts {
                thead { tr { th { "claim" } th { "expected" } th { "found" } th { "verdict" } } }
                tbody { @for verdict in &run.verdicts { (row(verdict)) } }
            }
            @for file in run.files.iter().filter(is_plot) {
                figure { object type="image/svg+xml" data=(file) { (run.title) } }
            }
            p {
                "Data: "
                @for file in run.files.iter().filter(|file| !is_plot(file)) { a href=(file) { (file) } " " }
                (format!("({:.1} s, one part after the other)", run.measured_seconds))
            }
        }
    }
}

fn row(verdict: &Verdict) -> Markup {
    html! {
        tr {
            td { (verdict.claim) }
            td { (verdict.expected) }
            td { (verdict.measured) }
            td { @if verdict.outcome == Outcome::Fail { strong { "fail" } } @else { (word(verdict.outcome)) } }
        }
    }
}

/// The verdicts as a table in Markdown, the same for the same seed and scale but for times.
pub(super) fn summary(reproduced: &[Reproduced], options: &ReproduceOptions) -> String {
    let mut text = format!(
        "# Experiments of the papers, done again\n\nMade by `{}` ({}): {}.\n",
        options.command,
        how(options),
        counts(reproduced)
    );
    for run in reproduced {
        let _ = write!(
            text,
            "\n## {}: {}\n\n{}, {}. {}\n\n| claim | expected | found | verdict |\n|---|---|---|---|\n",
            run.experiment, run.title, run.paper, run.figure, run.description
        );
        for Verdict { claim, expected, measured, outcome, .. } in &run.verdicts {
            let cells = [claim, expected, measured].map(|cell| cell.replace('|', "\\|").replace('\n', " "));
            let _ = writeln!(text, "| {} | {} | {} | {} |", cells[0], cells[1], cells[2], word(*outcome));
        }
    }
    text
}
