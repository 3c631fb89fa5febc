//! The page.

use humpyard_core::measure::CoreSummary;
use maud::{Markup, PreEscaped, html};

use super::Report;
use super::{plots, ranks};
use crate::figures::{bit_rate, figure, percent, time};
use crate::findings::{self, glued};
use crate::plot::Svg;
use crate::statistics::{FIGURES, Figure, Statistic};
use crate::{Comparison, RunResult, SplitCounts, TopFlow};
use humpyard_plot::page as framed;

/// The figures that have a plot.
const PLOTTED: [&str; 7] = [
    "throughput_pps",
    "delay_p99_ns",
    "late_fraction",
    "out_of_order_fraction",
    "jain",
    "cold_fraction",
    "dropped_fraction",
];

pub(super) fn page(report: &Report<'_>) -> Markup {
    let comparison = report.comparison;
    let contents = html! {
        section id="findings" {
            h2 { "Findings" }
            @if comparison.statistics.is_empty() {
                p { "Nothing was run." }
            }
            @let found = findings::of_comparison(comparison);
            @if let Some(first) = found.first() { p { strong { (glued(&first.text)) } } }
            @if found.len() > 1 { ul { @for finding in &found[1..] { li { (glued(&finding.text)) } } } }
            @if let Some(subject) = subject(comparison) { p { (subject) } }
        }
        @for (at, picture) in report.pictures.iter().enumerate() { (drawing(picture, &format!("picture{at}"))) }
        (overview(comparison))
        @if !comparison.statistics.is_empty() {
            (delay(comparison))
            (figures(comparison))
            (utilization(comparison))
            (services(comparison))
        }
        (heaviest(comparison))
        (what_was_run(report))
        (words())
    };
    framed(report.title, &contents)
}

/// What was compared.
fn subject(comparison: &Comparison) -> Option<String> {
    let run = comparison.runs.first()?;
    let policies: Vec<&str> = comparison.statistics.iter().map(|policy| policy.policy.as_str()).collect();
    let repeated = match comparison.repetitions {
        1 => String::new(),
        repetitions => format!(", in each of {repetitions} repetitions"),
    };
    let (packets, flows) = (run.packets.arrived, run.flows);
    Some(format!("The same packets ({packets} of {flows} flows) went to: {}{repeated}.", policies.join(", ")))
}

/// A number for people, with the exact one for programs.
fn number(text: &str, exact: f64) -> Markup {
    html! { data value=(exact) { (text) } }
}

pub(crate) fn drawing(svg: &Svg, id: &str) -> Markup {
    html! { figure { div.scroll { (PreEscaped(svg.inline(id))) } } }
}

/// Median, and the range below it if there is one.
fn cell(of: &Figure, statistic: &Statistic) -> Markup {
    let text = |value| figure(of.kind, value);
    html! {
        td {
            (number(&text(statistic.median), statistic.median))
            @if statistic.min < statistic.max {
                small { (text(statistic.min)) " to " (text(statistic.max)) }
            }
        }
    }
}

/// The head of a table with a column for each policy.
fn policies_head(comparison: &Comparison) -> Markup {
    html! {
        thead { tr {
            th scope="col" { "figure" }
            @for policy in &comparison.statistics { th scope="col" { (policy.policy) } }
        } }
    }
}

fn overview(comparison: &Comparison) -> Markup {
    let repeated = comparison.repetitions > 1;
    html! {
        section id="overview" {
            h2 { "At a glance" }
            div.scroll { table {
                caption {
                    @if repeated { "Median of " (comparison.repetitions) " repetitions, and below it their range." }
                    @else { "One run of each policy." }
                }
                (policies_head(comparison))
                tbody {
                    @for of in told(comparison) {
                        tr {
                            th scope="row" { (of.name) }
                            @for policy in &comparison.statistics { (cell(of, &policy.figures[of.key])) }
                        }
                    }
                }
            } }
        }
    }
}

/// The headline figures of which all runs tell.
fn told(comparison: &Comparison) -> impl Iterator<Item = &'static Figure> + '_ {
    FIGURES.iter().filter(|of| comparison.statistics.iter().all(|policy| policy.figures.contains_key(of.key)))
}

/// A column of the tables of delays: its heading, and how to find it.
type DelayColumn = (&'static str, fn(&humpyard_core::measure::Delay) -> f64);

const DELAYS: [DelayColumn; 6] = [
    ("mean", |delay| delay.mean),
    ("p50", |delay| delay.p50 as f64),
    ("p90", |delay| delay.p90 as f64),
    ("p99", |delay| delay.p99 as f64),
    ("p99.9", |delay| delay.p999 as f64),
    ("max", |delay| delay.max as f64),
];

/// The median over the runs of a policy.
fn median(comparison: &Comparison, policy: usize, of: impl Fn(&RunResult) -> Option<f64>) -> f64 {
    let values = comparison.runs_of(policy).filter_map(of).collect();
    Statistic::of(values).map_or(0.0, |statistic| statistic.median)
}

fn delay(comparison: &Comparison) -> Markup {
    html! {
        section id="delay" {
            h2 { "Delay" }
            p { "What part of the packets was done within which time after it came. Further to the left is faster; a line that \
                 bends to the right near the top is a policy under which a few packets wait long." }
            (drawing(&plots::delay(comparison).svg(), "plot-delay"))
            div.scroll { table {
                caption { "Delay of all packets" @if comparison.repetitions > 1 { ", medians of the repetitions" } "." }
                thead { tr { th scope="col" { "policy" } @for (name, _) in DELAYS { th scope="col" { (name) } } } }
                tbody {
                    @for (index, policy) in comparison.statistics.iter().enumerate() {
                        tr {
                            th scope="row" { (policy.policy) }
                            @for (_, of) in DELAYS {
                                @let value = median(comparison, index, |run| Some(of(&run.summary.delay_ns)));
                                td { (number(&time(value), value)) }
                            }
                        }
                    }
                }
            } }
        }
    }
}

fn figures(comparison: &Comparison) -> Markup {
    let policies = &comparison.statistics;
    let plotted = PLOTTED.map(Figure::find);
    let zero: Vec<&str> = plotted.iter().filter(|of| plots::bars(policies, of).is_none()).map(|of| of.name).collect();
    let level = policies[0].figures["throughput_pps"].confidence.map(|interval| percent(interval.level));
    html! {
        section id="figures" {
            h2 { "Figure by figure" }
            p {
                @if let Some(level) = &level {
                    "A bar is the median of " (policies[0].repetitions) " repetitions; the thin line on it is the confidence \
                     interval of the median, which has the true one in it with " (level) " probability. "
                } @else {
                    "A bar is the figure of the one run that each policy had. "
                }
                @if !zero.is_empty() { "Not drawn, because 0 everywhere: " (zero.join(", ")) "." }
            }
            div.grid {
                @for of in plotted {
                    @if let Some(plot) = plots::bars(policies, of) {
                        div { h3 { (of.name) } (drawing(&plot.svg(), &format!("plot-{}", of.key))) }
                    }
                }
            }
            @if level.is_some() { (confidence(comparison)) }
        }
    }
}

fn confidence(comparison: &Comparison) -> Markup {
    html! {
        div.scroll { table {
            caption { "Confidence intervals of the medians, by order statistics: no distribution is assumed." }
            (policies_head(comparison))
            tbody {
                tr {
                    th scope="row" { "probability" }
                    @for policy in &comparison.statistics {
                        td { (policy.figures["jain"].confidence.map_or("-".to_owned(), |interval| percent(interval.level))) }
                    }
                }
                @for of in told(comparison) {
                    tr {
                        th scope="row" { (of.name) }
                        @for policy in &comparison.statistics {
                            @if let Some(interval) = policy.figures[of.key].confidence {
                                @let (low, high) = (figure(of.kind, interval.low), figure(of.kind, interval.high));
                                td { (low) @if low != high { " to " (high) } }
                            } @else { td { "-" } }
                        }
                    }
                }
            }
        } }
    }
}

/// A column of the table of cores: its heading, and its figure.
type CoreColumn = (&'static str, fn(&CoreSummary) -> f64);

const CORES: [CoreColumn; 3] = [
    ("packets", |core| core.packets as f64),
    ("cold", |core| core.cold as f64),
    ("switches", |core| core.switches as f64),
];

fn utilization(comparison: &Comparison) -> Markup {
    let repeated = comparison.repetitions > 1;
    html! {
        section id="cores" {
            h2 { "Cores" }
            (drawing(&plots::utilization(comparison).svg(), "plot-cores"))
            details {
                summary { "The numbers, from the busiest core" }
                div.scroll { table {
                    caption {
                        "Cores, from the busiest of a run"
                        @if repeated { ": medians of the repetitions, in which that need not be the same core" } "."
                    }
                    thead { tr {
                        @for name in ["policy", if repeated { "rank" } else { "core" }, "busy"] { th scope="col" { (name) } }
                        @for (name, _) in CORES { th scope="col" { (name) } }
                    } }
                    tbody {
                        @for (index, policy) in comparison.statistics.iter().enumerate() { (core_rows(comparison, index, &policy.policy)) }
                    }
                } }
            }
        }
    }
}

fn core_rows(comparison: &Comparison, index: usize, policy: &str) -> Markup {
    let first = comparison.runs_of(index).next().map(ranks::cores).unwrap_or_default();
    let figures = CORES.map(|(_, of)| ranks::by_rank(comparison, index, of));
    html! {
        @for (rank, busy) in ranks::utilization(comparison, index).iter().enumerate() {
            tr {
                th scope="row" { (policy) }
                td { @if comparison.repetitions > 1 { (rank + 1) } @else if let Some((core, _)) = first.get(rank) { (core) } }
                td { (number(&percent(busy.median), busy.median)) }
                @for of in &figures { td { (number(&format!("{:.0}", of[rank].median), of[rank].median)) } }
            }
        }
    }
}

fn services(comparison: &Comparison) -> Markup {
    let Some(first) = comparison.runs.first() else { return html! {} };
    let services = &first.summary.services;
    html! {
        section id="services" {
            h2 { "Services" }
            @if services.len() > 1 {
                @for (number, service) in services.iter().enumerate() {
                    h3 { (service.name) }
                    (drawing(&plots::service_delay(comparison, number, &service.name).svg(), &format!("plot-service-{number}")))
                }
            }
            div.scroll { table {
                caption { "Services" @if comparison.repetitions > 1 { ", medians of the repetitions" } "." }
                thead { tr {
                    @for name in ["policy", "service", "packets", "throughput", "delay p50", "delay p99", "delay max", "tolerance", "late", "most waiting"] {
                        th scope="col" { (name) }
                    }
                } }
                tbody {
                    @for (index, policy) in comparison.statistics.iter().enumerate() {
                        @for (at, service) in services.iter().enumerate() {
                            @let of = |of: fn(&humpyard_core::measure::ServiceSummary) -> f64| {
                                median(comparison, index, |run| run.summary.services.get(at).map(of))
                            };
                            @let seconds = median(comparison, index, |run| Some(run.summary.duration_ns as f64 / 1e9));
                            tr {
                                th scope="row" { (policy.policy) }
                                td { (service.name) }
                                @let packets = of(|service| service.packets as f64);
                                td { (number(&format!("{packets:.0}"), packets)) }
                                td { (bit_rate(of(|service| service.bytes as f64) * 8.0 / seconds.max(1e-9))) }
                                @for delay in [
                                    of(|service| service.delay_ns.p50 as f64),
                                    of(|service| service.delay_ns.p99 as f64),
                                    of(|service| service.delay_ns.max as f64),
                                    service.tolerance_ns as f64,
                                ] {
                                    td { (number(&time(delay), delay)) }
                                }
                                @let late = of(|service| service.late.fraction);
                                td { (number(&percent(late), late)) }
                                @let waiting = of(|service| f64::from(service.queue_max));
                                td { (number(&format!("{waiting:.0}"), waiting)) }
                            }
                        }
                    }
                }
            } }
        }
    }
}

/// The heaviest flows, and those that were split, of the first run of each policy that has any.
fn heaviest(comparison: &Comparison) -> Markup {
    let Some(first) = comparison.runs.first().filter(|run| !run.top_flows.is_empty()) else { return html! {} };
    let split = comparison.runs[..comparison.statistics.len()].iter();
    let split: Vec<(&RunResult, &SplitCounts)> =
        split.filter_map(|run| run.split.as_ref().map(|split| (run, split))).collect();
    html! {
        section id="flows" {
            h2 { "Flows" }
            (flow_table(&format!("The heaviest of {} flows, by packets that left, under {}.", first.flows, first.policies_text()), &first.top_flows))
            @for (run, split) in split.iter().filter(|(_, split)| !split.flows.is_empty()) {
                (flow_table(&format!("Split flows, by packets that were split, under {}.", run.policies_text()), &split.flows))
            }
        }
    }
}

fn flow_table(caption: &str, flows: &[TopFlow]) -> Markup {
    html! {
        div.scroll { table {
            caption { (caption) }
            thead { tr { @for name in ["flow", "packets", "part"] { th scope="col" { (name) } } } }
            tbody {
                @for top in flows {
                    tr {
                        th scope="row" { (top.flow) }
                        td { (top.packets) }
                        td { (number(&percent(top.fraction), top.fraction)) }
                    }
                }
            }
        } }
    }
}

fn what_was_run(report: &Report<'_>) -> Markup {
    let comparison = report.comparison;
    let Some(run) = comparison.runs.first() else { return html! {} };
    let live = run.host == "live";
    let host = match run.options.get("clock").map(String::as_str) {
        Some("virtual") => "real services by a virtual clock",
        _ if live => "real services on real threads, in real time",
        _ => "simulated: virtual time, cores whose work is a cost table",
    };
    let seeds = match comparison.repetitions {
        1 => run.seed.to_string(),
        n => format!("{} to {}", run.seed, run.seed.wrapping_add(u64::from(n) - 1)),
    };
    let policies: Vec<&str> = comparison.statistics.iter().map(|policy| policy.policy.as_str()).collect();
    let unknown = || "unknown".to_owned();
    html! {
        section id="run" {
            h2 { "What was run" }
            @if !report.about.is_empty() { p { (report.about) } }
            dl {
                dt { "input" } dd { code { (run.input) } }
                @if let Some(sha256) = &run.environment.trace_sha256 { dt { "SHA-256" } dd { code { (sha256) } } }
                dt { "packets" } dd { (run.packets.arrived) " of " (run.flows) " flows, " (run.summary.bytes) " bytes" }
                dt { "policies" } dd { (policies.join(", ")) }
                @for run in comparison.runs.iter().filter(|run| !run.policies.is_empty()) {
                    dt { "in force, seed " (run.seed) } dd { (run.in_force_text()) }
                }
                dt { "host" } dd { (host) ", " (run.cores) @if live { " worker threads" } @else { " cores" } }
                dt { "repetitions" } dd { (comparison.repetitions) ", in turn; seed " (seeds) }
                dt { "machine" } dd {
                    (run.environment.cpu.clone().unwrap_or_else(unknown)) ", kernel "
                    (run.environment.kernel.clone().unwrap_or_else(unknown))
                }
                dt { "costs" } @for cost in &run.costs { dd { (cost) } }
                dt { "version" } dd { "humpyard " (run.environment.version) }
                dt { "again" } dd { pre { code { (report.command) } } }
            }
            details {
                summary { "Every option" }
                table {
                    caption { "What was asked for, and what else holds unless asked for." }
                    thead { tr { th scope="col" { "option" } th scope="col" { "value" } } }
                    tbody { @for (option, value) in &run.options { tr { th scope="row" { (option) } td { (value) } } } }
                }
            }
        }
    }
}

const WORDS: [(&str, &str); 12] = [
    (
        "delay",
        "from the arrival of a packet to its completion; half of the packets had at most p50, 99 in 100 at most p99",
    ),
    ("late", "packets delayed beyond the tolerance of their service, or lost"),
    ("out of order", "packets that left after a later packet of their flow, of all that left"),
    ("jitter", "how unevenly the packets of a flow leave: standard deviation of the gaps, mean over flows"),
    ("fairness (Jain)", "of the clients' service per weight: 1 if all have the same, 1/n if one of n has all"),
    ("busiest dispatcher", "the part of the time that the busiest dispatcher did something rather than wait"),
    ("cold", "packets served on a core whose previous packet had another service, of all"),
    ("moved", "packets served by another core than the one before of their flow, of all"),
    ("bytes away", "bytes of packets whose core does not share the second cache with that core, of all"),
    ("switches", "how often cores were given to another service"),
    ("dropped", "before service or by it, of all packets that came in"),
    ("most waiting", "most packets of the service that waited at once"),
];

fn words() -> Markup {
    html! {
        section id="words" {
            h2 { "What the words mean" }
            dl { @for (word, meaning) in WORDS { dt { (word) } dd { (meaning) } } }
        }
    }
}
