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

impl Compared {
    /// Shows a value of this figure.
    pub fn shown(&self, value: f64) -> String {
        match self.figure {
            "throughput" => packet_rate(value),
            "p50" | "p99" => time(value),
            _ => percent(value),
        }
    }
}

fn contents(said: &Validation, command: &str) -> Markup {
    html! {
        p { strong { (said.finding) } }
        p {
            code { (said.input) } ", workers: " (said.workers)
            @if said.dispatchers > 1 { ", dispatchers: " (said.dispatchers) }
            @if let Some(rate) = said.offered_pps { ", " (packet_rate(rate)) " offered" } ". Made by " code { (command) } "."
        }
        p {
            "Live: the median of " (said.runs) " runs, and how far one of them is from it. Predicted: by the traffic, the costs of services, and \
             the host `" (said.host) "`."
        }
        @for warning in &said.warnings { p { strong { (warning) "." } } }
        @for one in &said.policies {
            section {
                h2 { (one.policy) }
                @if let Some(damage) = &one.damage { p { strong { (damage) "." } } }
                @if let Some(decisions) = &one.decisions { p { (decisions.says()) } }
                p { "Costs: " @for (at, line) in one.costs.iter().enumerate() { @if at > 0 { "; " } (line) } "." }
                div.scroll { table {
                    thead { tr { th { "figure" } th { "live" } th { "between runs" } th { "predicted" } th { "error" } th { "bound" } } }
                    tbody { @for figure in &one.figures { (row(figure)) } }
                } }
            }
        }
    }
}

fn row(figure: &Compared) -> Markup {
    html! {
        tr {
            th scope="row" { (figure.figure) }
            td { (figure.shown(figure.live)) }
            td { (percent(figure.spread)) }
            td { (figure.shown(figure.predicted)) }
            td { (signed(figure.error)) }
            td { (percent(figure.bound)) @if figure.holds { ", kept" } @else { ", missed" } }
        }
    }
}
