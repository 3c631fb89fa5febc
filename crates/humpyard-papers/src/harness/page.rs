//! Pages with the results of experiments: an index, and one page for each paper.

use maud::{Markup, html};

use super::claim::{Claim, claims};
use super::directory::{Reproduced, TITLE};
use super::experiment::{About, Note, Scale};
use super::findings::{Finding, findings};
use super::judged::ClaimVerdict;
use super::options::Missing;
use super::outcome::Outcome;
use super::standing::{Standing, standings};
use humpyard_plot::page as framed;

/// An experiment that was run at some time, with its current description.
pub(crate) struct Shown {
    /// The description.
    pub(crate) about: About,
    /// The result.
    pub(crate) document: Reproduced,
}

impl Shown {
    /// Returns the scale of the run as text, in two or three words.
    pub(super) fn scale(&self) -> &'static str {
        match self.document.scale {
            Scale::Quick => "a part (quick)",
            Scale::Full => "all (full)",
        }
    }

    /// Returns the passage of the paper and the method as text, without the common setting if that is on the
    /// page already.
    fn description(&self, setting_is_told: bool) -> String {
        let About { figure, description, .. } = self.about;
        let description = if setting_is_told { description.to_owned() } else { self.about.whole_description() };
        let (first, rest) = figure.split_at(figure.chars().next().map_or(0, char::len_utf8));
        format!("{}{rest}. {description}", first.to_uppercase())
    }
}

/// The name of the page of experiments without a paper.
const OWN: &str = "own";

/// The experiments of one paper, or those without a paper.
pub(crate) struct Group<'a> {
    /// The paper's name in `claims.toml`, which is also the page's.
    pub(super) name: &'static str,
    /// The paper.
    pub(super) paper: &'static str,
    shown: Vec<&'a Shown>,
}

impl Group<'_> {
    /// Returns the name of its page.
    pub(crate) fn file(&self) -> String {
        format!("{}.html", self.name)
    }

    /// Returns its entry in the list of papers.
    pub(super) fn title(&self) -> &'static str {
        if self.name == OWN { "This project's own experiments, of no paper" } else { self.paper }
    }
}

/// Returns the names of all possible pages of papers.
pub(crate) fn page_names() -> Vec<String> {
    let mut names: Vec<&str> = claims().iter().map(|claim| claim.paper.as_str()).collect();
    names.dedup();
    names.into_iter().chain([OWN]).map(|name| format!("{name}.html")).collect()
}

/// Groups experiments by paper, in the order of `claims.toml`; those without a paper come last.
pub(crate) fn groups(shown: &[Shown]) -> Vec<Group<'_>> {
    let paper_of = |experiment: &str| claims().iter().find(|claim| claim.experiment == experiment);
    let mut names: Vec<&'static str> = claims().iter().map(|claim| claim.paper.as_str()).collect();
    names.dedup();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for of_paper in shown.chunk_by(|one, next| one.about.paper == next.about.paper) {
        let name = of_paper.iter().find_map(|one| paper_of(one.about.id)).map(|claim| claim.paper.as_str());
        // Experiments that test no claim of their paper are grouped with those that do.
        let known = groups.iter().find(|group| group.paper == of_paper[0].about.paper).map(|group| group.name);
        let name = name.or(known).unwrap_or(OWN);
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.shown.extend(of_paper),
            None => groups.push(Group { name, paper: of_paper[0].about.paper, shown: of_paper.iter().collect() }),
        }
    }
    groups.sort_by_key(|group| names.iter().position(|name| *name == group.name).unwrap_or(names.len()));
    groups
}

/// The introduction: what a claim is, and when it holds.
pub(super) const INTRODUCTION: &str = "Each claim is a number, a ranking or a trend that a paper states, and is counted once. It holds if it meets the \
    paper's bound with 9 of 10 seeds or more, or with all 3: a number within a tenth, a ranking strictly, an order \
    of magnitude at least tenfold. It is contradicted if it does so with 2 of 10 seeds or fewer, or with none of 3. \
    One seed contradicts what the paper proves. Bounds are from the papers, never from what was found. Where a \
    paper's text lost a number, the claim says where it is from. Figures are medians over the seeds; in parentheses \
    stands their interval by order statistics, with 10 seeds from the second smallest to the second largest.";

/// Returns a text with the unfinished parts of the run that wrote the pages. `None`: it was not interrupted.
pub(super) fn interrupted(missing: &[Missing]) -> Option<String> {
    let texts: Vec<String> = missing.iter().map(Missing::text).collect();
    (!texts.is_empty()).then(|| {
        format!(
            "The run that wrote this page was interrupted. Missing: {}. What the page shows of these experiments, if \
                anything, is from an earlier run. The same command does the rest.",
            texts.join("; ")
        )
    })
}

/// Returns a text with the unexpected outcomes. `None`: all outcomes are expected.
pub(super) fn unexpected(shown: &[Shown]) -> Option<String> {
    let one = |verdict: &ClaimVerdict| {
        let expected = verdict.expected.map_or("nothing", Outcome::name);
        format!("{} ({}, expected: {expected})", verdict.claim, verdict.outcome)
    };
    let claims = shown.iter().flat_map(|one| &one.document.claims);
    let odd: Vec<String> = claims.filter(|verdict| verdict.differs()).map(one).collect();
    (!odd.is_empty()).then(|| format!("Outcomes that are not the expected ones: {}.", odd.join("; ")))
}

/// Writes the index page.
pub(crate) fn index(shown: &[Shown], missing: &[Missing]) -> Markup {
    let (groups, standings) = (groups(shown), standings(shown));
    let contents = html! {
        @if let Some(said) = interrupted(missing) { p { strong { (said) } } }
        p { (INTRODUCTION) }
        @if let Some(said) = unexpected(shown) { p { strong { (said) } } }
        div.scroll { (table_of_papers(&groups, &standings)) }
        @let findings = findings(shown);
        @if !findings.is_empty() {
            h2 { "The most interesting findings" }
            ol { @for finding in &findings { (finding_item(finding)) } }
        }
        @for group in &groups {
            h2 { (group.title()) }
            ul {
                @for one in &group.shown {
                    @let place = format!("{}#{}", group.file(), one.about.id);
                    li { a href=(place) { (one.about.id) } ": " (one.about.title) }
                }
            }
        }
    };
    framed(TITLE, &contents)
}

fn table_of_papers(groups: &[Group<'_>], standings: &[Standing]) -> Markup {
    html! {
        table {
            thead { tr { @for word in Standing::HEAD { th { (word) } } } }
            tbody {
                @for standing in standings {
                    tr {
                        td {
                            @match groups.iter().find(|group| group.name == standing.paper) {
                                Some(group) => { a href=(group.file()) { (standing.paper) } }
                                None => { (standing.paper) }
                            }
                        }
                        @for count in standing.counts { td { (count) } }
                    }
                }
            }
        }
    }
}

fn finding_item(finding: &Finding) -> Markup {
    html! {
        li {
            strong { (finding.title) } " " (prose(finding.text)) " "
            small { @for (claim, outcome) in &finding.outcomes { (claim) ": " (outcome) ". " } }
        }
    }
}

/// Writes the page of a paper.
pub(crate) fn paper(group: &Group<'_>) -> Markup {
    let settings =
        group.shown.chunk_by(|one, next| !one.about.setting.is_empty() && one.about.setting == next.about.setting);
    let contents = html! {
        p { a href="index.html" { "All papers" } }
        p { (group.title()) }
        ul { @for one in &group.shown { li { a href=(format!("#{}", one.about.id)) { (one.about.title) } } } }
        @for family in settings {
            @let common = common(family);
            @if let Some((heading, setting)) = &common { h2 { (heading) } p { (prose(setting)) } }
            @for one in family { (experiment(one, common.is_some())) }
        }
        (untested(group))
    };
    framed(&format!("{TITLE}: {}", group.name), &contents)
}

/// Writes a text; words between backticks are commands.
fn prose(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Lists the claims of a paper that no experiment on the page has tested.
fn untested(group: &Group<'_>) -> Markup {
    let verdicts = || group.shown.iter().flat_map(|one| &one.document.claims);
    let is_shown = |claim: &Claim| verdicts().any(|verdict| verdict.claim == claim.id);
    let missing: Vec<&Claim> = claims().iter().filter(|claim| claim.paper == group.name && !is_shown(claim)).collect();
    html! {
        @if !missing.is_empty() {
            h2 { "Claims without an outcome here" }
            ul {
                @for claim in missing {
                    li {
                        (claim.says) " " small { (claim.id) } ": "
                        @match &claim.untestable {
                            Some(why) => { "not testable here: " (why) }
                            None => { code { "humpyard reproduce " (claim.experiment) " --full" } " was not run yet" }
                        }
                    }
                }
            }
        }
    }
}

/// Returns a heading for experiments with the same setting, and that setting. `None`: the experiment has no
/// related ones.
fn common(family: &[&Shown]) -> Option<(String, &'static str)> {
    let names: Vec<&str> = family.iter().map(|one| one.about.id).collect();
    (names.len() > 1).then(|| (format!("What is common to {}", names.join(", ")), family[0].about.setting))
}

fn experiment(one: &Shown, setting_is_told: bool) -> Markup {
    let is_plot = |file: &&String| file.ends_with(".svg");
    let document = &one.document;
    html! {
        section id=(one.about.id) {
            h2 { (one.about.id) ": " (one.about.title) }
            p { (prose(&one.description(setting_is_told))) }
            (table_of_claims(&document.claims))
            @for file in document.files.iter().filter(is_plot) {
                figure { object type="image/svg+xml" data=(file) { (one.about.title) } }
            }
            @if !document.notes.is_empty() {
                details { summary { "Beside the claims" } (table_of_notes(&document.notes)) }
            }
            p {
                (one.scale()) ", seeds from " (document.seed) ": " code { (document.command()) } ". Data: "
                @for file in document.files.iter().filter(|file| !is_plot(file)) { a href=(file) { (file) } " " }
                (format!("({:.1} s, one part after the other", document.measured_seconds))
                @if !document.version.is_empty() { "; humpyard " (document.version) }
                ")"
            }
        }
    }
}

/// The heads of the tables of claims and of notes.
const CLAIMS: [&str; 5] = ["the paper says", "where", "demanded", "found", "outcome"];
const NOTES: [&str; 3] = ["about", "said", "found"];

/// Writes a cell with its heading, which narrow screens show.
fn cell(heading: &str, contents: &Markup) -> Markup {
    html! { td data-label=(heading) { (contents) } }
}

fn table_of_claims(claims: &[ClaimVerdict]) -> Markup {
    let row = |verdict: &ClaimVerdict| {
        let source = verdict.value_source.as_ref().map(|source| format!(" Value: {source}."));
        let cells = [
            html! { (prose(&verdict.says)) (source.unwrap_or_default()) " " small { (verdict.claim) } },
            html! { (verdict.place()) },
            html! { (verdict.demanded_text()) },
            html! { (verdict.found_text()) },
            outcome(verdict),
        ];
        html! { tr { @for (heading, contents) in CLAIMS.iter().zip(&cells) { (cell(heading, contents)) } } }
    };
    html! {
        @if !claims.is_empty() {
            table.verdicts {
                thead { tr { @for word in CLAIMS { th { (word) } } } }
                tbody { @for verdict in claims { (row(verdict)) } }
            }
        }
    }
}

/// Writes the outcome, the expected one if it differs, the reason of a failure, and the command that shows it.
fn outcome(verdict: &ClaimVerdict) -> Markup {
    html! {
        @match verdict.expected {
            Some(expected) if expected != verdict.outcome => {
                strong { (verdict.outcome) " (expected: " (expected) ")" }
            }
            _ => {
                (verdict.outcome)
                @if let Some(why) = &verdict.why { ": " (prose(why)) }
                @if let Some(run) = &verdict.run { " " code { (run) } }
            }
        }
    }
}

fn table_of_notes(notes: &[Note]) -> Markup {
    let row = |note: &Note| {
        let cells = [&note.about, &note.said, &note.found].map(|text: &String| prose(text));
        html! { tr { @for (heading, contents) in NOTES.iter().zip(&cells) { (cell(heading, contents)) } } }
    };
    html! {
        table.verdicts {
            thead { tr { @for word in NOTES { th { (word) } } } }
            tbody { @for note in notes { (row(note)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn what_is_typed_is_shown_as_code() {
        let shown = prose("As `share=drr` does, 1 < 2; `odd").into_string();
        assert_eq!(shown, "As <code>share=drr</code> does, 1 &lt; 2; <code>odd</code>");
    }
}
