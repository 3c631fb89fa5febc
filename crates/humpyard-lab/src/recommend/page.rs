//! The page of a recommendation.

use maud::{Markup, html};

use super::{Confidence, Finalist, Measure, Recommendation, Variation, margin_text, shown};
use crate::costs::cost_sources;
use crate::figures::{figure, percent};
use crate::page::page as framed;

pub(super) fn page(said: &Recommendation, command: &str) -> Markup {
    let contents = html! {
        section id="advice" {
            h2 { "Advice" }
            p { (said.reason) "." }
            @for remark in &said.remarks { p { (remark) "." } }
            @if let Some(run) = &said.command { pre { (run) } }
        }
        section id="finalists" {
            h2 { "The last of the search" }
            (finalists(&said.finalists))
            @if let (Some(other), Some(confidence)) = (&said.runner_up, &said.confidence) {
                p { (sureness(&said.winner.policy, &other.policy, confidence)) "." }
            }
        }
        section id="loads" { h2 { "With another load" } (variations(&said.loads, |varied| percent(varied.load))) }
        section id="cores" {
            h2 { "With other cores" }
            @if let Some(needed) = &said.cores_needed {
                p { "The least that was found to keep the goal: " (needed.cores) " cores, with " code { (needed.policy) } "." }
            }
            (variations(&said.other_cores, |varied| varied.cores.to_string()))
        }
        section id="search" {
            h2 { "How it was found" }
            p {
                "Goal " code { (said.goal) } ", " (said.packets) " packets of " code { (said.input) } ", " (said.cores)
                " cores, costs " code { (cost_sources(&said.costs)) } ", seed " (said.seed) ". Made by " code { (command) } "."
            }
            div.scroll { table {
                thead { tr { th { "part of the input" } th { "candidates" } th { "best" } } }
                tbody {
                    @for round in &said.search.rounds {
                        tr { td { (percent(round.part)) } td { (round.candidates) } td { (round.best) } }
                    }
                }
            } }
            @if !said.search.skipped.is_empty() {
                p { "Not tried:" }
                ul { @for skipped in &said.search.skipped { li { code { (skipped.policy) } ": " (skipped.because) } } }
            }
        }
    };
    framed("Which scheduling policy", &contents)
}

/// The figures of which tables tell.
const FIGURES: [Measure; 7] =
    [Measure::Late, Measure::P50, Measure::P99, Measure::P999, Measure::OutOfOrder, Measure::Loss, Measure::Fairness];

fn finalists(finalists: &[Finalist]) -> Markup {
    html! {
        div.scroll { table {
            caption { "Of each figure the worst of all seeds." }
            thead { tr { th { "policy" } th { "margin" } @for of in FIGURES { th { (of.name()) } } } }
            tbody {
                @for one in finalists {
                    tr {
                        th scope="row" { (one.policy) }
                        td { (margin_text(one.margin)) }
                        @for of in FIGURES { td { (shown(of, one.figures.of_measure(of))) } }
                    }
                }
            }
        } }
    }
}

fn variations(variations: &[Variation], place: impl Fn(&Variation) -> String) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "" } th { "policy" } th { "goal" } th { "margin" } @for of in FIGURES { th { (of.name()) } } } }
            tbody {
                @for one in variations {
                    tr {
                        th scope="row" { (place(one)) }
                        td { (one.policy) }
                        td { @if one.holds { "kept" } @else { "broken" } }
                        td { (margin_text(one.margin)) }
                        @for of in FIGURES { td { (shown(of, one.figures.of_measure(of))) } }
                    }
                }
            }
        } }
    }
}

/// How sure it is that the winner is better.
pub(super) fn sureness(winner: &str, other: &str, confidence: &Confidence) -> String {
    let of = Measure::ALL.into_iter().find(|measure| measure.name() == confidence.figure).unwrap_or(Measure::P99);
    let text = |value: f64| if value.is_finite() { figure(of.kind(), value) } else { "beyond measure".to_owned() };
    let difference = &confidence.difference;
    let interval = difference.confidence.map_or(String::new(), |interval| {
        format!(" ({} to {} with {} confidence)", text(interval.low), text(interval.high), percent(interval.level))
    });
    format!(
        "{} of `{other}` is worse than that of `{winner}` by {}{interval}, median of {} blocks of the input, each from empty queues on and \
         with a seed of its own: {}; the goal is kept in {} of them, by `{other}` in {}",
        confidence.figure,
        text(difference.median),
        confidence.blocks,
        if confidence.is_clear { "a clear difference" } else { "no clear difference, either will do" },
        confidence.winner_holds,
        confidence.runner_up_holds
    )
}

impl Recommendation {
    /// How sure the difference between winner and runner-up is, in words.
    pub fn sureness(&self) -> Option<String> {
        let (other, confidence) = (self.runner_up.as_ref()?, self.confidence.as_ref()?);
        Some(sureness(&self.winner.policy, &other.policy, confidence))
    }
}
