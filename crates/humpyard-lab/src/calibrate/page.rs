//! The page of a calibration: what was measured here, beside what the papers measured there.

use maud::{Markup, PreEscaped, html};

use super::plots::{line_text, plots};
use super::{Calibration, EVICTED, ServiceCalibration};
use crate::costs::Costs;
use crate::figures::time;
use humpyard_plot::page as framed;

pub(super) fn page(calibration: &Calibration, command: &str) -> Markup {
    let contents = html! {
        p { (machine(calibration)) " Made by " code { (command) } "." }
        @if !calibration.services.is_empty() {
            h2 { "Measured" }
            (measured(calibration))
            h2 { "The papers' table" }
            (papers())
        }
        h2 { "Plots" }
        @for (index, (name, svg)) in plots(calibration).iter().enumerate() {
            figure { (PreEscaped(svg.inline(&format!("plot-{index}")))) figcaption { (name) } }
        }
    };
    framed("What services cost here", &contents)
}

fn machine(calibration: &Calibration) -> String {
    let environment = &calibration.environment;
    let processor = environment.threads.first().and_then(|seat| seat.processor);
    format!(
        "humpyard {}, {}, {}, kernel {}.",
        environment.version,
        environment.cpu.as_deref().unwrap_or("an unknown processor"),
        processor.map_or("on any core".to_owned(), |processor| format!("pinned to processor {processor}")),
        environment.kernel.as_deref().unwrap_or("unknown")
    )
}

fn measured(calibration: &Calibration) -> Markup {
    let row = |service: &ServiceCalibration| {
        html! {
            tr {
                th { (service.specification) }
                td { (line_text(service)) }
                td { (format!("{:.3}", service.fit.r_squared)) }
                td { (time(service.cold_ns)) }
                @for evicted in &service.evicted { td { (time(evicted.penalty_ns)) } }
                td { (format!("{:.3}", service.expansion)) }
            }
        }
    };
    html! {
        table {
            thead {
                tr {
                    th { "service" } th { "work" } th { "R²" } th { "after another service" }
                    @for bytes in EVICTED { th { "after " (bytes >> 10) " KiB" } }
                    th { "bytes out / in" }
                }
            }
            tbody { @for service in &calibration.services { (row(service)) } }
        }
        @if let Some(switch) = calibration.switch_upper_ns {
            p { "Going over to another service takes a core at most about " (time(switch)) ": everything cold, 90 % of the packets of the worst service." }
        }
    }
}

/// The cost table of the paper, as it stands.
fn papers() -> Markup {
    let Ok(Costs { source, lines, .. }) = Costs::table("predictive") else { return html! {} };
    html! {
        table {
            thead { tr { th { "service" } th { "fixed" } th { "per byte" } th { "cold" } } }
            tbody {
                @for (name, line) in lines {
                    tr {
                        th { (name) }
                        td { (time(line.fixed_ns)) }
                        td { (time(line.per_byte_ns)) }
                        td { (time(line.cold_ns)) }
                    }
                }
            }
        }
        p { "Cost table " code { "predictive" } ": " (source) "." }
    }
}
