//! The answer in words.

use super::candidates::HASHING;
use super::evidence::CoresNeeded;
use super::figures::Measure;
use super::goal::Goal;
use super::limits::{BrokenAt, Limits};
use super::search::Ranked;
use super::vacuous::Vacuous;
use super::workload::ElephantFlow;
use super::{Advice, Recommendation};
use crate::figures::{counted, figure, percent};

/// The packets on which policies were tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    /// Their number.
    pub(super) packets: usize,
    /// Whether they are all of the input.
    pub(super) is_whole: bool,
    /// Where they come from.
    pub(super) from: Origin,
}

/// Where packets come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A capture.
    Capture,
    /// A traffic model.
    Model,
    /// A table of the program.
    Table,
}

impl Tried {
    /// Says that traffic is too short, and how it lasts this many times as long.
    fn too_short(self, times: u64) -> String {
        let Self { packets, is_whole, from } = self;
        let enough = (packets as u64).saturating_mul(times);
        let fix = match from {
            Origin::Capture if !is_whole => {
                format!("read more of it (--packets {enough}, and --loop {times} if it has fewer)")
            }
            _ if !is_whole => format!("read more of it (--packets {enough})"),
            Origin::Capture => {
                format!("give a longer one, or play it {times} times (--loop {times} --packets {enough})")
            }
            Origin::Model => format!("make {enough} packets (packets={enough} in --input, and --packets {enough})"),
            Origin::Table => format!("give {enough} packets"),
        };
        let what = if from == Origin::Capture { "capture" } else { "traffic" };
        let packets = counted(packets as u64, "packet");
        format!("the {what} is too short ({packets}) to tell policies apart: {fix}, or ask for a smaller bound")
    }
}

/// The reason, behind what says nothing of the goal.
pub(super) fn with_vacuous(vacuous: &[Vacuous], tried: Tried, reason: String) -> String {
    if vacuous.is_empty() {
        return reason;
    }
    let said = vacuous.iter().map(|one| format!("the bound on {} is vacuous here: {}", one.figure, one.because));
    let said = said.collect::<Vec<_>>().join("; ");
    let fix = match vacuous.iter().filter_map(|one| one.longer).max() {
        Some(times) => tried.too_short(times),
        None => "ask for a smaller bound, or offer more (--multiplier, --load)".to_owned(),
    };
    format!("{said}; {fix}. {}", capital(&reason))
}

/// The text with its first letter as at the start of a sentence.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Why, in words.
pub(super) fn reason(
    goal: &Goal,
    advice: Advice,
    winner: &Ranked<'_>,
    hashing: Option<&Ranked<'_>>,
    candidates: usize,
    (cores, dispatchers): (usize, usize),
    needed: Option<&CoresNeeded>,
) -> String {
    let figures = |ranked: &Ranked<'_>| {
        let said = goal.figures().into_iter().map(|figure| format!("{figure} {}", figure.shown(&ranked.figures)));
        said.collect::<Vec<_>>().join(", ")
    };
    let of = format!("of {candidates} candidates `{}` is best ({})", winner.policy, figures(winner));
    let beside = hashing.filter(|hashing| hashing.policy != winner.policy);
    match (advice, hashing) {
        (Advice::HashingIsEnough, Some(hashing)) => {
            let spare = margin_text(goal.margin(&hashing.figures));
            let best = beside.map_or(String::new(), |_| format!(". {}", capital(&of)));
            format!(
                "plain hashing is enough: `{HASHING}` keeps {goal} with {spare} to spare ({}){best}",
                figures(hashing)
            )
        }
        (Advice::NoPolicyHolds, _) => {
            let would = needed.map_or_else(
                || format!("nor would {} cores be enough", cores * 8),
                |needed| format!("{} would, with `{}`", counted(needed.cores as u64, "core"), needed.policy),
            );
            let here = counted(cores as u64, "core");
            let tightest = goal.tightest(&winner.figures);
            let of = format!("{}, and breaks {tightest}", capital(&of));
            match winner.figures.full_dispatcher() {
                Some(busy) => format!(
                    "no policy meets {goal} here: {} busy all the time ({}). {}. With {here} no policy keeps the goal; \
                     {would}. {of}",
                    brings_packets(dispatchers),
                    percent(busy),
                    capital(&remedy_in_recommend(dispatchers))
                ),
                None => format!("no policy keeps {goal} with {here}: {would}. {of}"),
            }
        }
        _ => {
            let spare = margin_text(goal.margin(&winner.figures));
            let said = match beside {
                Some(hashing) if !goal.holds(&hashing.figures) => {
                    format!(". Plain hashing does not keep the goal ({})", figures(hashing))
                }
                Some(hashing) => format!(". Plain hashing keeps the goal, and is not as good ({})", figures(hashing)),
                None => String::new(),
            };
            format!("{of}, {spare} inside the bounds{said}")
        }
    }
}

/// What helps against a dispatcher without time left, in the options of `recommend`.
pub(super) fn remedy_in_recommend(dispatchers: usize) -> String {
    let more =
        if dispatchers == 1 { "several dispatchers or none" } else { "none, or more if the reader has time left" };
    format!(
        "offer fewer packets (--load, --multiplier), name a faster host (--host FILE), have {more} (--dispatchers), \
         or run to completion (humpyard run --workers 0)"
    )
}

/// Returns the threads that bring packets to cores, as the beginning of a sentence.
pub(super) fn brings_packets(dispatchers: usize) -> &'static str {
    if dispatchers == 1 { "the dispatcher is" } else { "a dispatcher, or the reader of all, is" }
}

/// A figure as people read it.
pub fn shown(measure: Measure, value: f64) -> String {
    if value.is_finite() { figure(measure.kind(), value) } else { "dropped".to_owned() }
}

/// A margin as people read it: a part of what is allowed, or how many times the bound the figure is.
pub fn margin_text(margin: f64) -> String {
    match margin {
        margin if !margin.is_finite() => "-".to_owned(),
        margin if margin <= -1.0 => format!("{:.0} times", 1.0 - margin),
        margin if margin < 0.0 => format!("-{}", percent(-margin)),
        margin => percent(margin),
    }
}

impl Limits {
    /// Returns what breaks the goal on this many cores, in words: what comes first, first.
    fn breaks(&self, asked: usize) -> String {
        if let Some(BrokenAt { multiplier, by }) = self.broken_at.as_ref().filter(|at| at.multiplier <= 1.0) {
            let kept =
                self.kept_at.map_or("less traffic was not tried".to_owned(), |kept| format!("x{kept:.2} keeps it"));
            return format!("with these cores {multiplier:.2} times the traffic breaks the goal ({by}); {kept}");
        }
        let times = |multiplier: f64| format!("{multiplier:.2} times the traffic");
        let (headroom, load) = match (&self.broken_at, self.kept_at) {
            (Some(BrokenAt { multiplier, by }), Some(kept)) => {
                (*multiplier, format!("{} ({by}; x{kept:.2} keeps the goal)", times(*multiplier)))
            }
            _ => (f64::INFINITY, String::new()),
        };
        let (spare, cores) = match (self.cores, &self.broken_with_fewer) {
            (Some(cores), Some(by)) => {
                let fewer = counted(cores as u64 - 1, "core");
                (asked as f64 / (cores - 1) as f64, format!("{fewer} of {asked} ({by})"))
            }
            _ => (f64::INFINITY, String::new()),
        };
        let parts = if headroom <= spare { [load, cores] } else { [cores, load] };
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let beside = match (&self.broken_at, self.cores) {
            (None, _) => "; three times the traffic does not",
            (_, Some(1)) => "; fewer cores do not, for one is enough",
            _ => "",
        };
        match parts.is_empty() {
            true => "neither three times the traffic nor a single core breaks the goal".to_owned(),
            false => format!("what breaks it first: {}{beside}", parts.join(", or ")),
        }
    }
}

impl ElephantFlow {
    /// Returns the flow and its share in words, and whether it fills a core before the goal breaks there.
    fn in_words(&self, broken_at: Option<f64>) -> String {
        let Self { flow, work_fraction, .. } = self;
        let share = format!("the flow with most work is {flow}, with {} of all", percent(*work_fraction));
        let (Some(cores), Some(fills)) = (self.cores, self.fills_core_at) else { return share };
        let beside = match broken_at {
            Some(multiplier) if fills <= multiplier => ", before the goal breaks",
            Some(_) => ", after the goal breaks",
            None => "",
        };
        let busy = if cores < 1.0 { percent(cores) + " of a core" } else { format!("{cores:.2} cores") };
        let fills = if fills < 10.0 { format!("{fills:.2}") } else { format!("{fills:.0}") };
        format!("{share}; it keeps {busy} busy, and fills one at {fills} times the traffic{beside}")
    }
}

impl Recommendation {
    /// Returns what breaks the goal first, in words.
    pub fn breaks(&self) -> String {
        self.limits.breaks(self.cores)
    }

    /// Returns the flow with most work, in words.
    pub fn elephant(&self) -> Option<String> {
        let broken_at = self.limits.broken_at.as_ref().map(|at| at.multiplier);
        Some(self.heaviest_flow.as_ref()?.in_words(broken_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(kept_at: Option<f64>, broken_at: Option<f64>, cores: Option<usize>) -> Limits {
        Limits {
            policy: "drr".to_owned(),
            kept_at,
            broken_at: broken_at.map(|multiplier| BrokenAt { multiplier, by: "p99 9.00 us".to_owned() }),
            cores,
            broken_with_fewer: cores.filter(|&cores| cores > 1).map(|_| "p99 7.00 us".to_owned()),
        }
    }

    #[test]
    fn traffic_that_is_too_short_is_not_offered_faster() {
        let said = |longer, is_whole, from| {
            let one = Vacuous { figure: "p99".to_owned(), because: "why".to_owned(), longer };
            with_vacuous(&[one], Tried { packets: 500, is_whole, from }, "the rest".to_owned())
        };
        let short = |is_whole, from| {
            let said = said(Some(30), is_whole, from);
            let rest = said.strip_prefix("the bound on p99 is vacuous here: why; ").expect("the bound first");
            assert!(rest.ends_with(", or ask for a smaller bound. The rest") && !rest.contains("--load"), "{rest}");
            rest.to_owned()
        };
        let capture = "the capture is too short (500 packets) to tell policies apart: ";
        assert!(
            short(true, Origin::Capture)
                .starts_with(&format!("{capture}give a longer one, or play it 30 times (--loop 30 --packets 15000)"))
        );
        assert!(
            short(false, Origin::Capture)
                .starts_with(&format!("{capture}read more of it (--packets 15000, and --loop"))
        );
        assert!(short(true, Origin::Model).contains("packets=15000 in --input"));
        let slow = said(None, true, Origin::Capture);
        assert!(
            slow.contains("why; ask for a smaller bound, or offer more (--multiplier, --load). The rest"),
            "{slow}"
        );
    }

    #[test]
    fn what_is_nearest_breaks_it_first() {
        let said = limits(Some(1.25), Some(1.28125), Some(7)).breaks(8);
        let load = "1.28 times the traffic (p99 9.00 us; x1.25 keeps the goal)";
        assert_eq!(said, format!("what breaks it first: {load}, or 6 cores of 8 (p99 7.00 us)"));
        let said = limits(Some(1.25), Some(1.5), Some(8)).breaks(8);
        assert!(said.starts_with("what breaks it first: 7 cores of 8 (p99 7.00 us), or 1.50 times"), "{said}");
        let said = limits(Some(3.0), None, Some(2)).breaks(8);
        assert_eq!(said, "what breaks it first: 1 core of 8 (p99 7.00 us); three times the traffic does not");
        assert!(limits(Some(1.25), Some(1.5), Some(1)).breaks(8).ends_with("; fewer cores do not, for one is enough"));
        assert!(limits(Some(3.0), None, Some(1)).breaks(8).starts_with("neither"));
        let said = limits(Some(0.5), Some(0.75), None).breaks(8);
        assert_eq!(said, "with these cores 0.75 times the traffic breaks the goal (p99 9.00 us); x0.50 keeps it");
        assert!(limits(None, Some(0.25), None).breaks(8).ends_with("; less traffic was not tried"));
    }

    #[test]
    fn an_elephant_has_its_share_and_its_limit() {
        let flow = |cores: f64| ElephantFlow {
            flow: "UDP a > b".to_owned(),
            packets: 7,
            work_fraction: 0.25,
            cores: Some(cores),
            fills_core_at: Some(1.0 / cores),
        };
        let said = flow(0.5).in_words(Some(1.5));
        let share = "the flow with most work is UDP a > b, with 25.0 % of all; it keeps 50.0 % of a core busy";
        assert_eq!(said, format!("{share}, and fills one at 2.00 times the traffic, after the goal breaks"));
        assert!(flow(0.5).in_words(Some(2.0)).ends_with(", before the goal breaks"));
        assert!(flow(2.0).in_words(None).ends_with("keeps 2.00 cores busy, and fills one at 0.50 times the traffic"));
        let at_once = ElephantFlow { cores: None, fills_core_at: None, ..flow(1.0) };
        assert!(at_once.in_words(None).ends_with("25.0 % of all"));
    }
}
