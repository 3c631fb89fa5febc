//! The results of experiments in Markdown: the table by paper, and the most interesting findings.

use std::fmt::Write;

use humpyard_plot::figures::wrapped;

use super::directory::TITLE;
use super::findings::{Finding, findings};
use super::options::Missing;
use super::page::{INTRODUCTION, Shown, groups, interrupted, unexpected};
use super::standing::{Standing, standings};

/// Longest line of text, in columns.
const WIDTH: usize = 100;

/// Writes the summary, which is the same for equal seeds and scales.
pub(crate) fn summary(shown: &[Shown], missing: &[Missing]) -> String {
    let mut text = format!("# {TITLE}\n\n");
    if let Some(said) = interrupted(missing) {
        paragraph(&mut text, &format!("**{said}**"));
    }
    paragraph(&mut text, INTRODUCTION);
    if let Some(said) = unexpected(shown) {
        paragraph(&mut text, &format!("**{said}**"));
    }
    table_of_papers(&mut text, shown);
    paragraph(&mut text, "The pages, for a browser, have each claim with what was found, plots, and why:");
    text.push_str("- [all papers](index.html)\n");
    for group in groups(shown) {
        let _ = writeln!(text, "- [{}]({}): {}", group.name, group.file(), group.title());
    }
    text.push('\n');
    let findings = findings(shown);
    if !findings.is_empty() {
        text.push_str("## The most interesting findings\n\n");
    }
    for (number, finding) in (1_usize..).zip(&findings) {
        item(&mut text, number, finding);
    }
    commands(&mut text, shown);
    format!("{}\n", text.trim_end())
}

fn table_of_papers(text: &mut String, shown: &[Shown]) {
    let _ = writeln!(text, "| {} |\n|{}", Standing::HEAD.join(" | "), "---|".repeat(Standing::HEAD.len()));
    for Standing { paper, counts } in standings(shown) {
        let _ = writeln!(text, "| {paper} | {} |", counts.map(|count| count.to_string()).join(" | "));
    }
    text.push('\n');
}

fn item(text: &mut String, number: usize, finding: &Finding) {
    let outcomes: Vec<String> =
        finding.outcomes.iter().map(|(claim, outcome)| format!("`{claim}` {outcome}")).collect();
    let words = format!("**{}** {} ({})", finding.title, finding.text, outcomes.join(", "));
    for (line, words) in wrapped(&words, WIDTH - 4).into_iter().enumerate() {
        let before = if line == 0 { format!("{number}. ") } else { " ".repeat(number.to_string().len() + 2) };
        let _ = writeln!(text, "{before}{words}");
    }
    text.push('\n');
}

/// Writes the commands: the experiments of each scale and seed.
fn commands(text: &mut String, shown: &[Shown]) {
    text.push_str("## How it was made\n\n");
    let mut runs: Vec<(&'static str, u64, usize, f64)> = Vec::new();
    for one in shown {
        let (scale, seed) = (one.scale(), one.document.seed);
        match runs.iter_mut().find(|run| (run.0, run.1) == (scale, seed)) {
            Some(run) => (run.2, run.3) = (run.2 + 1, run.3 + one.document.measured_seconds),
            None => runs.push((scale, seed, 1, one.document.measured_seconds)),
        }
    }
    for (scale, seed, count, seconds) in runs {
        let hours = seconds / 3600.0;
        let _ =
            writeln!(text, "- {count} experiments: {scale}, seed {seed}, {hours:.1} hours, one part after the other");
    }
    text.push('\n');
    paragraph(
        text,
        "`humpyard reproduce all --full --out reproduction` makes all of it again, and goes on where it was ended. \
            `humpyard reproduce all --full --out reproduction --judge` judges the data that are there. Each \
            experiment has its data as CSV and Parquet in a directory of its own.",
    );
}

fn paragraph(text: &mut String, words: &str) {
    let _ = writeln!(text, "{}\n", wrapped(words, WIDTH).join("\n"));
}
