//! The paper of predictive scheduling: fair queueing by estimates (EFQ), cores that stay with a program (LAP), and both together.

mod costs;
mod fairness;
mod figure4;
mod kernels;
mod locality;
mod machine;
mod open;

use super::Experiment;

/// The paper.
pub(super) const PAPER: &str = "Wolf, Pappu, Franklin. Predictive scheduling of network processors (EFQ and LAP).";

/// How often traffic is drawn.
const DRAWS: (usize, usize) = (3, 10);

/// Every experiment here.
pub(super) fn all() -> impl Iterator<Item = &'static dyn Experiment> {
    let kernels = kernels::FIGURES.iter().map(|figure| figure as &dyn Experiment);
    let fairness = fairness::FIGURES.iter().map(|figure| figure as &dyn Experiment);
    let locality = locality::FIGURES.iter().map(|figure| figure as &dyn Experiment);
    let open = open::FIGURES.iter().map(|figure| figure as &dyn Experiment);
    kernels.chain([&figure4::Figure4 as _]).chain(fairness).chain([&locality::Figure9 as _]).chain(locality).chain(open)
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::super::{Outcome, Scale, Table};
    use super::*;

    /// Short ones hold, as they are run quickly.
    #[test]
    fn short_ones_hold() {
        for experiment in all().filter(|one| ["predictive-fig9", "predictive-table1"].contains(&one.about().id)) {
            let mut data = Table::new(experiment.columns());
            for part in 0..experiment.parts(Scale::Quick) {
                experiment.run(part, Scale::Quick, Seed(1)).unwrap().into_iter().for_each(|row| data.push(row));
            }
            let failed = experiment.verdicts(&data).into_iter().filter(|verdict| verdict.outcome == Outcome::Fail);
            assert_eq!(failed.collect::<Vec<_>>(), [], "{}", experiment.about().id);
            assert!(!experiment.plots(&data).is_empty());
        }
    }

    #[test]
    fn every_name_is_that_of_the_paper_or_of_its_policies() {
        assert!(
            all().all(|one| ["predictive-", "efq-", "lap-"].iter().any(|prefix| one.about().id.starts_with(prefix)))
        );
        assert_eq!(all().count(), 16);
    }
}
