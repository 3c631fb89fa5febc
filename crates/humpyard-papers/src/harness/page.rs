//! What came of experiments, as a page and as tables in Markdown.

use std::fmt::Write;

use maud::{Markup, html};

use super::directory::{Reproduced, TITLE};
use super::experiment::{About, Scale};
use super::options::Missing;
use super::page_claims::{claims_page, claims_summary, counts_page, counts_summary};
use super::verdict::{Mark, Verdict};
use humpyard_plot::page as framed;

/// An experiment that was done, at some time, and what this program says of it.
pub(crate) struct Shown {
    /// What it is.
    pub(crate) about: About,
    /// What came of it.
    pub(crate) document: Reproduced,
}

impl Shown {
    /// How it was done, in two words or three.
    fn scale(&self) -> &'static str {
        match self.document.scale {
            Scale::Quick => "a part (quick)",
            Scale::Full => "all (full)",
        }
    }

    /// Which passage of the paper, and how it is done, but for what was told of several.
    fn description(&self, setting_is_told: bool) -> String {
        let About { figure, description, .. } = self.about;
        let description = if setting_is_told { description.to_owned() } else { self.about.whole_description() };
        let (first, rest) = figure.split_at(figure.chars().next().map_or(0, char::len_utf8));
        format!("{}{rest}. {description}", first.to_uppercase())
    }
}

/// What a verdict is called.
const fn word(outcome: Mark) -> &'static str {
    match outcome {
        Mark::Pass => "pass",
        Mark::Fail => "fail",
        Mark::Measured => "measured",
    }
}

/// The head of the table of all experiments.
const HEAD: [&str; 9] =
    ["experiment", "done", "seed", "claims", "not as expected", "pass", "fail", "measured", "made by"];
/// The head of the tables of verdicts.
const VERDICTS: [&str; 4] = ["claim", "expected", "found", "verdict"];

/// How many verdicts there are of each kind.
fn counts(shown: &[Shown]) -> String {
    let count = |outcome| shown.iter().map(|one| one.document.count(outcome)).sum::<usize>();
    let outside = shown.iter().flat_map(|one| &one.document.verdicts).filter(|verdict| verdict.is_outside()).count();
    format!(
        "Of the other verdicts {} hold (pass) and {} do not (fail). Measured are {} figures on which nothing hangs: \
            times, what the papers do not say enough of, and what is known not to be found again here; {outside} of them lie \
            outside of what was expected, or do not hold, and say so. Beside what the paper alone says the figure \
            stands without a verdict, whether it is like that or not.",
        count(Mark::Pass),
        count(Mark::Fail),
        count(Mark::Measured)
    )
}

/// Experiments in a row of the same paper.
fn papers(shown: &[Shown]) -> impl Iterator<Item = &[Shown]> {
    shown.chunk_by(|one, next| one.about.paper == next.about.paper)
}

/// Experiments in a row of the same setting.
fn settings(shown: &[Shown]) -> impl Iterator<Item = &[Shown]> {
    shown.chunk_by(|one, next| !one.about.setting.is_empty() && one.about.setting == next.about.setting)
}

/// A heading for experiments of the same setting, and what they have in common; none where one stands alone.
fn common(family: &[Shown]) -> Option<(String, &'static str)> {
    let names: Vec<&str> = family.iter().map(|one| one.about.id).collect();
    (names.len() > 1).then(|| (format!("What is common to {}", names.join(", ")), family[0].about.setting))
}

/// What the run that wrote the pages has not done; none if it was not interrupted.
fn interrupted(missing: &[Missing]) -> Option<String> {
    let texts: Vec<String> = missing.iter().map(Missing::text).collect();
    (!texts.is_empty()).then(|| {
        format!(
            "The run that wrote this page was interrupted. Missing: {}. What the page shows of these experiments, if \
                anything, is from an earlier run. The same command does the rest.",
            texts.join("; ")
        )
    })
}

/// The page that leads to everything.
pub(crate) fn index(shown: &[Shown], missing: &[Missing]) -> Markup {
    let contents = html! {
        @if let Some(said) = interrupted(missing) { p { strong { (said) } } }
        (counts_page(shown))
        p { (counts(shown)) }
        div.scroll {
            table.verdicts {
                thead { tr { @for word in HEAD { th { (word) } } } }
                tbody { @for one in shown { (line(one)) } }
            }
        }
        @for of_paper in papers(shown) {
            h2 { (of_paper[0].about.paper) }
            @for family in settings(of_paper) {
                @let common = common(family);
                @if let Some((heading, setting)) = &common { h3 { (heading) } p { (setting) } }
                @for one in family { (experiment(one, common.is_some())) }
            }
        }
    };
    framed(TITLE, &contents)
}

fn line(one: &Shown) -> Markup {
    let document = &one.document;
    let (failed, odd) = (document.count(Mark::Fail), document.unexpected());
    html! {
        tr {
            td { a href=(format!("#{}", one.about.id)) { (one.about.id) } ": " (one.about.title) }
            td { (one.scale()) }
            td { (document.seed) }
            td { (document.claims.len()) }
            td { @if odd > 0 { strong { (odd) } } @else { (odd) } }
            td { (document.count(Mark::Pass)) }
            td { @if failed > 0 { strong { (failed) } } @else { (failed) } }
            td { (document.count(Mark::Measured)) }
            td { code { (document.command()) } }
        }
    }
}

fn experiment(one: &Shown, setting_is_told: bool) -> Markup {
    let is_plot = |file: &&String| file.ends_with(".svg");
    let document = &one.document;
    html! {
        section id=(one.about.id) {
            h3 { (one.about.id) ": " (one.about.title) }
            p { (one.description(setting_is_told)) }
            (claims_page(&document.claims, &document.notes))
            @if !document.verdicts.is_empty() {
                table.verdicts {
                    thead { tr { @for word in VERDICTS { th { (word) } } } }
                    tbody { @for verdict in &document.verdicts { (row(verdict)) } }
                }
            }
            @for file in document.files.iter().filter(is_plot) {
                figure { object type="image/svg+xml" data=(file) { (one.about.title) } }
            }
            p {
                "Data: "
                @for file in document.files.iter().filter(|file| !is_plot(file)) { a href=(file) { (file) } " " }
                (format!("({:.1} s, one part after the other", document.measured_seconds))
                @if !document.version.is_empty() { "; humpyard " (document.version) }
                ")"
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
            td { @if verdict.outcome == Mark::Fail { strong { "fail" } } @else { (word(verdict.outcome)) } }
        }
    }
}

/// The verdicts as tables in Markdown, the same for the same seeds and scales but for times.
pub(crate) fn summary(shown: &[Shown], missing: &[Missing]) -> String {
    let note = interrupted(missing).map_or_else(String::new, |said| format!("**{said}**\n\n"));
    let mut text = format!("# {TITLE}\n\n{note}");
    counts_summary(&mut text, shown);
    let _ = write!(text, "{}\n\n", counts(shown));
    head(&mut text, &HEAD);
    for one in shown {
        let document = &one.document;
        let [pass, fail, measured] = [Mark::Pass, Mark::Fail, Mark::Measured].map(|kind| document.count(kind));
        let _ = writeln!(
            text,
            "| {}: {} | {} | {} | {} | {} | {pass} | {fail} | {measured} | `{}` |",
            one.about.id,
            one.about.title,
            one.scale(),
            document.seed,
            document.claims.len(),
            document.unexpected(),
            document.command()
        );
    }
    for of_paper in papers(shown) {
        let _ = write!(text, "\n## {}\n", of_paper[0].about.paper);
        for family in settings(of_paper) {
            let common = common(family);
            if let Some((heading, setting)) = &common {
                let _ = write!(text, "\n### {heading}\n\n{setting}\n");
            }
            for one in family {
                let description = one.description(common.is_some());
                let _ = write!(text, "\n### {}: {}\n\n{description}\n\n", one.about.id, one.about.title);
                claims_summary(&mut text, &one.document.claims, &one.document.notes);
                if !one.document.verdicts.is_empty() {
                    head(&mut text, &VERDICTS);
                }
                one.document.verdicts.iter().for_each(|verdict| verdict_line(&mut text, verdict));
            }
        }
    }
    text
}

pub(super) fn head(text: &mut String, words: &[&str]) {
    let _ = writeln!(text, "| {} |\n|{}", words.join(" | "), "---|".repeat(words.len()));
}

fn verdict_line(text: &mut String, verdict: &Verdict) {
    let Verdict { claim, expected, measured, outcome, .. } = verdict;
    let cells = [claim, expected, measured].map(|cell| cell.replace('|', "\\|").replace('\n', " "));
    let _ = writeln!(text, "| {} | {} | {} | {} |", cells[0], cells[1], cells[2], word(*outcome));
}
