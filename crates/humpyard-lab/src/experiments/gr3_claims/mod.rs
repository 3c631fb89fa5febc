//! What the GR3 paper says in passing, and what follows from it: PROPORTIONAL_SHARE sections 2.2, 2.11, 3.3, 4, 4.3 and 5.5.

mod churn_fairness;
mod deficit;
mod delay;
mod migrations;
mod readjustment;

use super::gr3_schedules::PAPER;
use super::{About, Column, Experiment, Row, Scale, Table, TableRow, Verdict};

/// All of them.
pub(super) fn all() -> [&'static dyn Experiment; 5] {
    [
        &delay::Delay,
        &deficit::Deficit,
        &migrations::Migrations,
        &readjustment::Readjustment,
        &churn_fairness::ChurnFairness,
    ]
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::super::Outcome;
    use super::*;

    /// A quick run of those that take no more than some seconds.
    #[test]
    fn claims_hold() {
        let experiments: [&dyn Experiment; 4] =
            [&delay::Delay, &deficit::Deficit, &readjustment::Readjustment, &churn_fairness::ChurnFairness];
        for experiment in experiments {
            let mut data = Table::new(experiment.columns());
            for part in 0..experiment.parts(Scale::Quick) {
                experiment.run(part, Scale::Quick, Seed(1)).unwrap().into_iter().for_each(|row| data.push(row));
            }
            let verdicts = experiment.verdicts(&data);
            let failed: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Fail).collect();
            assert!(failed.is_empty(), "{}: {failed:?}", experiment.about().id);
            assert_eq!(experiment.plots(&data).len(), 1);
        }
    }
}
