//! The paper, its policies, and the sizes of runs.

/// The paper.
pub(super) const PAPER: &str =
    "Kokku, Shevade, Shah, Mahimkar, Cho, Vin. Processor scheduler for multi-service routers (Everest).";

/// The policies of the paper's figures. Everest has a second form by the paper's text, which moves extra cores
/// back and forth.
pub(super) const EVEREST: &str = "everest";
pub(super) const LITERAL: &str = "everest:extra-reclaim=literal";
pub(super) const WITHOUT_EXTRAS: &str = "everest:extra-reclaim=never";
pub(super) const LATE: &str = "everest-ld";
pub(super) const ENVELOPE: &str = "everest-env";
pub(super) const STATIC: &str = "static";
pub(super) const AE: &str = "everest-ae";
pub(super) const AE_WITHOUT_FORCE: &str = "everest-ae:force=false";
pub(super) const COHORT_E: &str = "cohort-e";
/// The policies that move a core to any queue.
pub(super) const EAGER: [&str; 5] = ["quantum:quantum=10000000", "quantum:quantum=40000000", "cohort", COHORT_E, AE];

/// Number of cores of the paper's router.
pub(super) const CORES: usize = 16;
/// Draws of traffic (quick, full).
pub(super) const DRAWS: (usize, usize) = (3, 10);
/// Draws of a full run without claims of the paper.
pub(super) const DRAWS_WITHOUT_CLAIMS: usize = 3;
/// Packets per draw of a full run: a twentieth of the paper's trace UNC-2.5, so that ten draws have half of its
/// packets. All of them would take days.
pub(super) const PACKETS: u64 = 30_000_000 / 20;
