//! The page of a recommendation.

use maud::{Markup, html};

use super::division::DIVISIBLE;
use super::{
    Confidence, Finalist, GoalFigure, LoadCurve, Measure, Recommendation, Sizing, Variation, Verification, capital,
    margin_text, shown,
};
use crate::costs::cost_sources;
use crate::figures::{figure, percent};
use crate::offered::Offered;
use crate::report::drawing;
use humpyard_plot::{LinePlot, page as framed};

pub(super) fn page(said: &Recommendation, command: &str) -> Markup {
    let contents = html! {
        section id="advice" {
            h2 { "Advice" }
            p { (said.reason) "." }
            @if let Some(why) = &said.not_sure { p { "Not sure that it is so live: " (why) "." } }
            @if let Some(close) = &said.close { p { "Close: " (close) ", so a live run may be on the other side." } }
            @for remark in &said.remarks { p { (remark) "." } }
            p { (capital(&said.breaks())) "." }
            @if let Some(elephant) = said.elephant() { p { (capital(&elephant)) "." } }
            @if let Some(verified) = &said.verified {
                p { (capital(&verified.finding)) "." }
                (verifications(said, verified))
                @for warning in &verified.warnings { p { strong { (capital(warning)) "." } } }
            }
            @if let Some(run) = said.command.as_ref().filter(|_| said.is_kept()) { pre { (run) } }
        }
        section id="load" {
            h2 { "Delay over load" }
            (drawing(&said.load_plot().svg(), "plot-load"))
            (curve(&said.load_curve))
        }
        @if let Some(sizing) = &said.sizing {
            section id="size" {
                h2 { "How many cores keep the goal" }
                (sizes(sizing))
            }
        }
        section id="finalists" {
            h2 { "The last of the search" }
            (finalists(said))
            @if let Some(sureness) = said.sureness() { p { (capital(&sureness)) "." } }
        }
        section id="loads" {
            h2 { "With more traffic" }
            p { "The same packets, but faster by the factor of each row; under the first seed." }
            (variations(said, &said.more_traffic, |varied| format!("x{}", varied.multiplier)))
        }
        section id="cores" {
            h2 { "With other cores" }
            p { "The same packets at the same times; under the first seed." }
            @if let Some(needed) = &said.cores_needed {
                p { "The least that was found to keep the goal: " (needed.cores) " cores, with " code { (needed.policy) } "." }
                @if let Some(command) = &needed.command { pre { (command) } }
            }
            (variations(said, &said.other_cores, |varied| varied.cores.to_string()))
        }
        (search(said, command))
    };
    framed("Which scheduling policy", &contents)
}

/// How it was found.
fn search(said: &Recommendation, command: &str) -> Markup {
    html! {
        section id="search" {
            h2 { "How it was found" }
            p {
                "Goal " code { (said.goal) } ", " (said.packets) " packets of " code { (said.input) } ", " (said.cores)
                " cores, costs " code { (cost_sources(&said.costs)) } ", seed " (said.seed) ". Made by " code { (command) } "."
            }
            p { "Offered: " (Offered::text(&[said.offered])) "." }
            @if let Some(baseline) = &said.baseline { p { (capital(&baseline.says())) "." } }
            @if let Some(lines) = &said.cost_lines {
                p { "Costs that were measured, as a file for " code { "--costs" } ":" }
                pre { (lines) }
            }
            div.scroll { table {
                thead { tr { th { "part of what was searched" } th { "candidates" } th { "best" } } }
                tbody {
                    @for round in &said.search.rounds {
                        tr { td { (percent(round.part)) } td { (round.candidates) } td { (round.best) } }
                    }
                }
            } }
            @if !said.search.likely.is_empty() {
                p {
                    "Tried in all rounds, because the map has them near the best on such traffic: "
                    (said.search.likely.join(", ")) "."
                }
            }
            @if !said.search.skipped.is_empty() {
                p { "Not tried:" }
                ul { @for skipped in &said.search.skipped { li { code { (skipped.policy) } ": " (skipped.because) } } }
            }
        }
    }
}

/// The figures of which tables tell.
const FIGURES: [Measure; 7] =
    [Measure::Late, Measure::P50, Measure::P99, Measure::P999, Measure::OutOfOrder, Measure::Loss, Measure::Fairness];

fn finalists(said: &Recommendation) -> Markup {
    let columns = said.columns(&FIGURES);
    html! {
        div.scroll { table {
            caption { "Of each figure the worst of all seeds." }
            thead { tr { th { "policy" } th { "margin" } @for of in &columns { th { (of) } } } }
            tbody {
                @for one in &said.finalists {
                    tr {
                        th scope="row" { (one.policy) @if let Some(alike) = one.alike() { br; small { (alike) } } }
                        td { (margin_text(one.margin)) }
                        @for of in &columns { td { (of.shown(&one.figures)) } }
                    }
                }
            }
        } }
    }
}

/// A row for what is promised of each policy, and one for what was measured.
fn verifications(said: &Recommendation, verified: &Verification) -> Markup {
    let columns = said.columns(&FIGURES);
    html! {
        div.scroll { table {
            thead { tr { th { "policy" } th { "" } th { "goal" } @for of in &columns { th { (of) } } } }
            tbody {
                @for one in &verified.policies {
                    @for (name, goal, figures) in one.rows() {
                        tr {
                            th scope="row" { (one.policy) }
                            td { (name) }
                            td { (goal) }
                            @for of in &columns { td { (of.shown(figures)) } }
                        }
                    }
                }
            }
        } }
    }
}

/// The numbers of the plot.
fn curve(curve: &LoadCurve) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "policy" } th { "traffic" } th { (curve.figure) } th { "goal" } } }
            tbody {
                @for point in &curve.points {
                    tr {
                        th scope="row" { (point.policy) }
                        td { "x" (point.multiplier) }
                        td { (shown(Measure::P99, point.delay_ns)) }
                        td { @if point.holds { "kept" } @else { "broken" } }
                    }
                }
            }
        } }
    }
}

/// The fewest cores, by policy and traffic.
fn sizes(sizing: &Sizing) -> Markup {
    html! {
        p { (capital(&sizing.about())) "." }
        div.scroll { table {
            thead { tr {
                @for name in ["policy", "traffic", "cores", "fewest", "most", "not sure", "limit", "command"] {
                    th { (name) }
                }
            } }
            tbody {
                @for one in &sizing.sizes {
                    tr {
                        th scope="row" { (one.policy) }
                        td { "x" (one.multiplier) }
                        @for cores in [one.cores, one.least, one.most] { td { (sizing.cores(cores)) } }
                        @for why in [&one.not_sure, &one.limit] { td { @if let Some(why) = why { (why) } } }
                        td { @if let Some(command) = &one.command { code { (command) } } }
                    }
                }
            }
        } }
    }
}

fn variations(said: &Recommendation, variations: &[Variation], place: impl Fn(&Variation) -> String) -> Markup {
    let columns = said.columns(&FIGURES);
    html! {
        div.scroll { table {
            thead { tr {
                th { "" } th { "policy" } th { "goal" } th { "margin" } @for of in &columns { th { (of) } } th { "command" }
            } }
            tbody {
                @for one in variations {
                    tr {
                        th scope="row" { (place(one)) }
                        td { (one.policy) }
                        td { @if one.holds { "kept" } @else { "broken" } }
                        td { (margin_text(one.margin)) }
                        @for of in &columns { td { (of.shown(&one.figures)) } }
                        td { @if let Some(command) = &one.command { code { (command) } } }
                    }
                }
            }
        } }
    }
}

/// How sure it is that the policy is better than the other.
fn sureness(confidence: &Confidence) -> String {
    let Confidence { policy, other, figure: name, blocks, packets, difference, .. } = confidence;
    let kind = name.parse().map_or(Measure::P99.kind(), |figure: GoalFigure| figure.kind());
    let text = |value: f64| if value.is_finite() { figure(kind, value) } else { "beyond measure".to_owned() };
    let than = |value: f64| match value {
        0.0 => "the same".to_owned(),
        value if value < 0.0 => format!("{} better", text(-value)),
        value => format!("{} worse", text(value)),
    };
    let interval = difference.confidence.map_or(String::new(), |interval| {
        let (low, high) = (than(interval.low), than(interval.high));
        let range = if low == high { low } else { format!("{low} to {high}") };
        format!(" ({range} with {} confidence)", percent(interval.level))
    });
    let verdict = match confidence {
        Confidence { is_clear: true, .. } => "a clear difference".to_owned(),
        Confidence { is_winner: true, .. } => "no clear difference".to_owned(),
        _ => format!("and on all of the input `{policy}` is not the best: no clear difference"),
    };
    format!(
        "{packets} packets in {blocks} blocks were held out of the search, in which `{policy}` was best. On them, each from empty queues on \
         and with a seed of its own, {name} of `{other}` is {} in the median{interval}: {verdict}. `{policy}` keeps the goal in {} of \
         them, `{other}` in {}",
        than(difference.median),
        confidence.policy_holds,
        confidence.other_holds
    )
}

impl Finalist {
    /// Returns the policies that decided alike, in words. `None`: none did.
    pub fn alike(&self) -> Option<String> {
        (!self.same_decisions.is_empty()).then(|| format!("same decisions: {}", self.same_decisions.join(", ")))
    }
}

impl Recommendation {
    /// Returns the figures of a table: these, and those of the goal that are not among them.
    pub fn columns(&self, figures: &[Measure]) -> Vec<GoalFigure> {
        let mut columns: Vec<GoalFigure> = figures.iter().map(|&measure| measure.into()).collect();
        for figure in self.goal.figures() {
            if !columns.contains(figure) {
                columns.push(figure.clone());
            }
        }
        columns
    }

    /// Returns how sure the choice is, in a sentence. `None`: there is one policy.
    pub fn sureness_in_short(&self) -> Option<String> {
        let other = &self.runner_up.as_ref()?.policy;
        let Some(confidence) = &self.confidence else {
            return Some(format!(
                "nothing says how sure that is: of fewer than {DIVISIBLE} packets no blocks are held out of the search"
            ));
        };
        let Confidence { policy, other: next, figure, blocks, .. } = confidence;
        Some(match confidence {
            Confidence { is_clear: true, .. } => {
                format!(
                    "on {blocks} blocks that were held out of the search, {figure} of `{policy}` is clearly better than \
                     that of `{next}`"
                )
            }
            Confidence { is_winner: true, .. } => {
                format!(
                    "on {blocks} blocks that were held out of the search, `{policy}` and `{next}` do not differ clearly in \
                     {figure}: either will do"
                )
            }
            _ => format!(
                "`{policy}` was best of what was searched, and is not on all of the input: `{}` and `{other}` do not \
                 differ clearly",
                self.winner.policy
            ),
        })
    }

    /// Draws the delay of the winner, the runner-up and plain hashing over the traffic.
    pub fn load_plot(&self) -> LinePlot {
        self.load_curve.plot(self.offered.load.map(|load| load.value))
    }

    /// How sure the choice is, in words; nothing of a single policy.
    pub fn sureness(&self) -> Option<String> {
        self.runner_up.as_ref()?;
        Some(self.confidence.as_ref().map_or_else(
            || {
                format!(
                    "the choice could not be checked: the input has fewer than {DIVISIBLE} packets, so none were kept out of the search"
                )
            },
            sureness,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Statistic;

    fn said(differences: &[f64], is_winner: bool) -> String {
        let difference = Statistic::of(differences.to_vec()).expect("blocks");
        let is_clear = is_winner && differences.iter().all(|difference| *difference > 0.0);
        sureness(&Confidence {
            policy: "drr".to_owned(),
            other: "hrw".to_owned(),
            is_winner,
            figure: "p99".to_owned(),
            blocks: differences.len(),
            packets: 2_000,
            policy_holds: 8,
            other_holds: 7,
            difference,
            is_clear,
        })
    }

    #[test]
    fn what_is_better_is_not_worse_by_less_than_nothing() {
        let worse = said(&[1e3, 2e3, 3e3, 4e3, 5e3, 6e3, 7e3, 8e3], true);
        assert!(
            worse.contains("p99 of `hrw` is 4.50 us worse in the median (1.00 us worse to 8.00 us worse with 99.2 %"),
            "{worse}"
        );
        assert!(worse.contains(": a clear difference. `drr` keeps the goal in 8 of them, `hrw` in 7"), "{worse}");
        let better = said(&[-1e3, -2e3, -3e3, 4e3, -5e3, -6e3, -7e3, -8e3], true);
        assert!(better.contains("is 4.00 us better in the median (8.00 us better to 4.00 us worse"), "{better}");
        assert!(better.contains("no clear difference") && !better.contains('-'), "{better}");
        let same = said(&[0.0; 8], true);
        assert!(same.contains("is the same in the median (the same with"), "{same}");
        assert!(said(&[f64::INFINITY; 8], true).contains("beyond measure worse"));
    }

    #[test]
    fn who_wins_on_part_of_the_input_alone_is_not_clearly_better() {
        let said = said(&[1e3; 8], false);
        assert!(said.contains("on all of the input `drr` is not the best: no clear difference"), "{said}");
    }
}
