//! The page of a validation.

use maud::{Markup, html};

use super::{Compared, Validation, signed};
use crate::figures::{packet_rate, percent, time};
use humpyard_plot::page as framed;

impl Validation {
    /// The page of it, as HTML that is well-formed XML too; `command` makes it again.
    pub fn html(&self, command: &str) -> String {
        framed("Is the simulator true?", &contents(self, command)).into_string()
    }
}

fn contents(said: &Validation, command: &str) -> Markup {
    html! {
        p { strong { (said.finding) } }
        p {
            code { (said.input) } ", workers: " (said.workers)
            @if let Some(rate) = said.offered_pps { ", " (packet_rate(rate)) " offered" } ". Made by " code { (command) } "."
        }
        p {
            "The simulator hears of when each packet reached the scheduler, and of what it took: as it was measured, packet by packet; and by \
             a straight line for each service."
        }
        @for one in &said.policies {
            section {
                h2 { (one.policy) }
                p { "By line: " @for (at, line) in one.line.iter().enumerate() { @if at > 0 { "; " } (line) } "." }
                div.scroll { table {
                    thead { tr { th { "figure" } th { "live" } th { "as measured" } th { "error" } th { "by line" } th { "error" } th { "aim" } } }
                    tbody { @for figure in &one.figures { (row(figure)) } }
                } }
                @if !one.lacking.is_empty() { p { "What the model lacks:" } ul { @for lacks in &one.lacking { li { (lacks) } } } }
            }
        }
    }
}

fn row(figure: &Compared) -> Markup {
    let shown = |value: f64| match figure.figure {
        "throughput" => packet_rate(value),
        "p50" | "p90" | "p99" => time(value),
        _ => percent(value),
    };
    html! {
        tr {
            th scope="row" { (figure.figure) }
            td { (shown(figure.live)) }
            td { (shown(figure.replayed)) }
            td { (signed(figure.replayed_error)) }
            td { (shown(figure.by_line)) }
            td { (signed(figure.by_line_error)) }
            td {
                @match figure.aim {
                    Some(aim) => { (percent(aim)) @if figure.holds { ", kept" } @else { ", missed" } }
                    None => {}
                }
            }
        }
    }
}
