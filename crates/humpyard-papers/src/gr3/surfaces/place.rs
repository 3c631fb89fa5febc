//! One place of a surface of service errors.

use core::num::NonZeroUsize;

use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_sim::{Draws, DrawsRequest, Heavy, SkewedWeights, draws};

use crate::harness::{Row, Rows, Table, ascending, rows};
use humpyard_lab::LabError;

rows! {
    pub(super) COLUMNS, fn row(place: &Place, weights: SkewedWeights, found: &Draws) {
        let half_interval = |deviation: f64| 1.96 * deviation / f64::from(place.draws).sqrt();
    } => {
        text policy = place.policy, integer clients = place.clients, integer total = place.total,
        integer heaviest = weights.heaviest(), integer draws = place.draws,
        real error_min = found.least.error.value(), real error_max = found.greatest.error.value(),
        text error_min_exact = found.least.error.to_string(), text error_max_exact = found.greatest.error.to_string(),
        real draw_min_mean = found.least_spread.mean,
        real draw_min_half_interval_95 = half_interval(found.least_spread.deviation),
        real draw_max_mean = found.greatest_spread.mean,
        real draw_max_half_interval_95 = half_interval(found.greatest_spread.deviation),
        integer processors = place.processors, integer queue_draws_max = found.queue_draws_max.unwrap_or(0),
    }
}

/// One place of a surface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) policy: &'static str,
    pub(super) clients: usize,
    pub(super) total: u32,
    /// The part of the heavy client.
    pub(super) skew: f64,
    pub(super) processors: usize,
    pub(super) ties: Ties,
    pub(super) draws: u32,
}

impl Place {
    /// Draws weights and looks at the schedules: a row of [`COLUMNS`].
    pub(super) fn found(&self, seed: Seed) -> Result<Row, LabError> {
        let weights = SkewedWeights::new(self.clients, self.total, self.skew, Heavy::First)?;
        let request = DrawsRequest {
            policy: self.policy.parse()?,
            weights,
            draws: self.draws,
            processors: self.processors,
            slots: None,
            ties: self.ties,
            seed,
            threads: NonZeroUsize::MIN,
        };
        let found = draws(&request, |_| ())?;
        Ok(row(self, weights, &found))
    }
}

/// The places along both axes, ascending.
pub(super) fn axes(data: &Table) -> (Vec<f64>, Vec<f64>) {
    let values = |column| ascending(data.rows().numbers(column));
    (values("clients"), values("total"))
}
