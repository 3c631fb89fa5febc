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
        real skew = place.skew, integer heaviest = weights.heaviest(), integer draws = place.draws,
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
    /// The heavy client's part of the weights.
    pub(super) skew: f64,
    pub(super) processors: usize,
    pub(super) ties: Ties,
    pub(super) draws: u32,
}

impl Place {
    /// Draws weights and measures the schedules. Returns a row of [`COLUMNS`].
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

/// Returns the places along both axes, ascending.
pub(super) fn axes(data: &Table) -> (Vec<f64>, Vec<f64>) {
    let values = |column| ascending(data.rows().numbers(column));
    (values("clients"), values("total"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Place =
        Place { policy: "", clients: 128, total: 1 << 14, skew: 0.1, processors: 1, ties: Ties::Lowest, draws: 5 };
    const CORNER: Place = Place { clients: 8192, total: 1 << 18, draws: 1, ..SMALL };

    /// Returns the least and the greatest error.
    fn ends(place: Place) -> (f64, f64) {
        let data = Table::of(COLUMNS, [place.found(Seed(1)).unwrap()]);
        let row = data.rows().next().unwrap();
        (row.number("error_min"), row.number("error_max"))
    }

    /// The heaviest client gets all of its weight at once.
    #[test]
    fn weighted_round_robin_strays_by_the_heaviest_client() {
        for (skew, draws) in [(0.1, 5), (0.5, 2)] {
            let found = Place { policy: "wrr", skew, draws, ..SMALL }.found(Seed(1)).unwrap();
            let data = Table::of(COLUMNS, [found]);
            let row = data.rows().next().unwrap();
            let (heaviest, total) = (row.number("heaviest") as i128, row.number("total") as i128);
            let exact = row.text("error_max_exact");
            let (above, below) = exact.split_once('/').unwrap_or((exact, "1"));
            let (above, below): (i128, i128) = (above.parse().unwrap(), below.parse().unwrap());
            assert_eq!(above * total, heaviest * (total - heaviest) * below, "{exact}");
        }
    }

    #[test]
    fn fair_queueing_strays_with_the_clients() {
        let (least, greatest) = ends(Place { policy: "wfq", ..SMALL });
        assert!(least > -1.0 && (11.6..=12.8).contains(&greatest), "{least} to {greatest}");
        let (least, greatest) = ends(Place { policy: "sfq", ties: Ties::Highest, ..SMALL });
        assert!(greatest <= 1.0 && (-12.8..=-11.6).contains(&least), "{least} to {greatest}");
    }

    #[test]
    fn group_ratios_stray_by_a_few_slots() {
        for (policy, processors) in [("gr3", 1), ("gr3mp", 8)] {
            let (least, greatest) = ends(Place { policy, processors, ..SMALL });
            assert!((-3.0..-0.5).contains(&least) && (0.5..3.5).contains(&greatest), "{policy}: {least} to {greatest}");
        }
    }

    #[test]
    fn at_the_corner_vtrr_strays_by_thousands_and_srr_both_ways_alike() {
        let (least, greatest) = ends(Place { policy: "vtrr", ..CORNER });
        assert!((-2400.0..-1800.0).contains(&least) && (5000.0..20_000.0).contains(&greatest), "{least} to {greatest}");
        let (least, greatest) = ends(Place { policy: "srr", ..CORNER });
        assert!((350.0..400.0).contains(&greatest) && (greatest + least).abs() <= 1.0, "{least} to {greatest}");
    }
}
