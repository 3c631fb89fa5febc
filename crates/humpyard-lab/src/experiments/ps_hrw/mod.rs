//! The steering paper: proportional share highest random weight (PS-HRW) and its rivals, on a model of the paper's machine.

mod beta;
mod claims;
mod figures;
mod gop_costs;
mod gps;
mod live;
mod machine;
mod overhead;
mod theorem1;
#[cfg(feature = "transcode")]
mod transcode;
mod tree_cost;
mod workload;

use super::Experiment;

/// The paper.
const PAPER: &str = "Guo, Bhuyan. A QoS aware multicore hash scheduler for network applications.";

/// The machine, two sockets of two caches of two cores, by its name.
const TOPOLOGY: &str = "e5355";
/// The costs of moving a connection on it, by the name of their table.
const COSTS: &str = "ps-hrw";
/// Its cores.
const CORES: usize = 8;
/// Packets on a core for which the dispatcher of a saturated machine waits.
const FULL: u32 = 64;
/// Part of the time that cores would be busy if no connection ever moved.
const LOAD: f64 = 0.8;
/// How often traffic is drawn.
const DRAWS: (usize, usize) = (3, 5);
/// Packets of a quick run, and of one that says nothing of order.
const QUICK_PACKETS: u64 = 100_000;
const QUICK_SATURATED: u64 = 50_000;

/// Every experiment here.
pub(super) fn all() -> impl Iterator<Item = &'static dyn Experiment> {
    let alone: [&dyn Experiment; 4] = [&theorem1::Theorem1, &gps::Promises, &tree_cost::TreeCost, &beta::BetaSweep];
    alone
        .into_iter()
        .chain(figures::all())
        .chain(overhead::FIGURES.iter().map(|figure| figure as _))
        .chain(live::FIGURES.iter().map(|figure| figure as _))
        .chain(transcoding())
}

/// Those that need libav.
#[cfg(feature = "transcode")]
fn transcoding() -> impl Iterator<Item = &'static dyn Experiment> {
    transcode::all()
}

/// Without libav there are none of these.
#[cfg(not(feature = "transcode"))]
fn transcoding() -> impl Iterator<Item = &'static dyn Experiment> {
    core::iter::empty()
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::super::{Outcome, Scale, Table, Verdict};
    use super::*;

    /// The data of these parts of a quick run.
    fn data(experiment: &dyn Experiment, parts: impl IntoIterator<Item = usize>) -> Table {
        let mut data = Table::new(experiment.columns());
        for part in parts {
            experiment.run(part, Scale::Quick, Seed(1)).unwrap().into_iter().for_each(|row| data.push(row));
        }
        data
    }

    #[test]
    fn multipliers_give_every_core_its_share() {
        let data = data(&theorem1::Theorem1, 0..4);
        let verdicts = theorem1::Theorem1.verdicts(&data);
        let failed: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Fail).collect();
        assert!(failed.is_empty(), "{failed:#?}");
        assert_eq!(theorem1::Theorem1.plots(&data).len(), 2);
    }

    /// The plots and claims of every figure come of a first part alone, whose claims hold.
    #[test]
    fn figures_come_of_their_parts() {
        for figure in figures::all().filter(|figure| ["ps-hrw-fig8", "ps-hrw-fig10"].contains(&figure.about().id)) {
            let kinds = figure.parts(Scale::Quick) / DRAWS.0;
            let data = data(figure, 0..kinds);
            let failed = figure.verdicts(&data).into_iter().filter(|verdict| verdict.outcome == Outcome::Fail);
            assert_eq!(failed.collect::<Vec<_>>(), [], "{}", figure.about().id);
            assert_eq!(figure.plots(&data).len(), 1);
        }
    }

    #[test]
    fn every_name_is_that_of_the_paper() {
        let mut of_paper = all().filter(|experiment| experiment.about().paper == PAPER);
        assert!(of_paper.all(|experiment| experiment.about().id.starts_with("ps-hrw-")));
    }
}
