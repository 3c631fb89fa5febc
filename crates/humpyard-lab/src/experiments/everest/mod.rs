//! The allocation paper: Everest and its rivals on the six services of a gateway between IPv4 and IPv6.

mod claims;
mod figures;
mod live;
mod prototype;
mod traces;
mod trial;

use super::Experiment;

/// The paper.
const PAPER: &str =
    "Kokku, Shevade, Shah, Mahimkar, Cho, Vin. Processor scheduler for multi-service routers (Everest).";

/// The policies of the paper's figures; for Everest its text, too, which moves extra cores back and forth.
const EVEREST: &str = "everest";
const LITERAL: &str = "everest:extra-reclaim=literal";
const WITHOUT_EXTRAS: &str = "everest:extra-reclaim=never";
const LATE: &str = "everest-ld";
const ENVELOPE: &str = "everest-env";
const STATIC: &str = "static";
const AE: &str = "everest-ae";
const AE_WITHOUT_FORCE: &str = "everest-ae:force=false";
const COHORT_E: &str = "cohort-e";
/// Those that move a core to any queue.
const EAGER: [&str; 5] = ["quantum:quantum=10000000", "quantum:quantum=40000000", "cohort", COHORT_E, AE];

/// Cores of the paper's router.
const CORES: usize = 16;
/// How often traffic is drawn.
const DRAWS: (usize, usize) = (3, 10);
/// Packets of a run.
const PACKETS: (u64, u64) = (60_000, 3_000_000);

/// Every experiment here.
pub(super) fn all() -> impl Iterator<Item = &'static dyn Experiment> {
    let alone: [&dyn Experiment; 3] = [&prototype::Figure6, &live::Figure6Live, &traces::Traces];
    figures::FIGURES.iter().map(|figure| figure as _).chain(alone)
}
