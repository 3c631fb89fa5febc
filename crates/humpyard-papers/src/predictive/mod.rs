//! The paper on predictive scheduling: fair queueing by estimates (EFQ), cores that stay with a program (LAP),
//! and both together.

mod costs;
mod fairness;
mod figure4;
mod figure9;
mod kernels;
mod locality;
mod machine;
mod open;
pub(super) mod paper;

use crate::harness::{Experiment, family};

/// Every experiment of the paper.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    [
        family(&kernels::EXPERIMENTS),
        family(&[figure4::Figure4]),
        family(&fairness::EXPERIMENTS),
        family(&[figure9::Figure9]),
        family(&locality::EXPERIMENTS),
        family(&open::EXPERIMENTS),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    /// Short experiments have their expected outcomes.
    #[test]
    fn short_ones_are_as_expected() {
        let short = ["predictive-fig4", "predictive-fig9"];
        for experiment in experiments().into_iter().filter(|one| short.contains(&one.about().id)) {
            let data = quick(experiment);
            assert_expected(experiment, &data);
            assert!(!experiment.plots(&data).is_empty());
        }
    }

    #[test]
    fn every_name_is_that_of_the_paper_or_of_its_policies() {
        let is_known = |id: &str| ["predictive-", "efq-", "lap-"].iter().any(|prefix| id.starts_with(prefix));
        assert!(experiments().iter().all(|one| is_known(one.about().id)));
        assert_eq!(experiments().len(), 16);
    }
}
