//! The paper, its policies, and how much is run.

/// The paper.
pub(super) const PAPER: &str =
    "Kokku, Shevade, Shah, Mahimkar, Cho, Vin. Processor scheduler for multi-service routers (Everest).";

/// The policies of the paper's figures; for Everest its text, too, which moves extra cores back and forth.
pub(super) const EVEREST: &str = "everest";
pub(super) const LITERAL: &str = "everest:extra-reclaim=literal";
pub(super) const WITHOUT_EXTRAS: &str = "everest:extra-reclaim=never";
pub(super) const LATE: &str = "everest-ld";
pub(super) const ENVELOPE: &str = "everest-env";
pub(super) const STATIC: &str = "static";
pub(super) const AE: &str = "everest-ae";
pub(super) const AE_WITHOUT_FORCE: &str = "everest-ae:force=false";
pub(super) const COHORT_E: &str = "cohort-e";
/// Those that move a core to any queue.
pub(super) const EAGER: [&str; 5] = ["quantum:quantum=10000000", "quantum:quantum=40000000", "cohort", COHORT_E, AE];

/// Cores of the paper's router.
pub(super) const CORES: usize = 16;
/// How often traffic is drawn.
pub(super) const DRAWS: (usize, usize) = (3, 10);
/// Draws of a full run of what is no claim of the paper.
pub(super) const DRAWS_WITHOUT_CLAIMS: usize = 3;
/// Packets of a draw of a full run: a twentieth of those of the paper's trace UNC-2.5, so that ten draws have half of
/// them. All of them would take days.
pub(super) const PACKETS: u64 = 30_000_000 / 20;
