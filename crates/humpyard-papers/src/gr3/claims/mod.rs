//! Minor claims of the GR3 paper, and their consequences: PROPORTIONAL_SHARE sections 2.2, 2.11, 3.3, 4, 4.3
//! and 5.5.

mod churn_fairness;
mod deficit;
mod delay;
mod migrations;
mod readjustment;

use crate::harness::{Experiment, family};

/// Every experiment here.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    [
        family(&[delay::Delay]),
        family(&[deficit::Deficit]),
        family(&[migrations::Migrations]),
        family(&[readjustment::Readjustment]),
        family(&[churn_fairness::ChurnFairness]),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    /// A quick run of the experiments that take only seconds.
    #[test]
    fn outcomes_are_the_expected_ones() {
        for experiment in experiments().into_iter().filter(|one| !one.figures().is_empty()) {
            let data = quick(experiment);
            assert_expected(experiment, &data);
            assert_eq!(experiment.plots(&data).len(), 1);
        }
    }
}
