//! The steering paper: proportional share highest random weight (PS-HRW) and its rivals, on a model of the paper's
//! machine.

mod beta;
mod claims;
mod figures;
mod gop_costs;
mod gps;
mod live;
mod machine;
mod overhead;
mod paper;
mod shown;
mod theorem1;
#[cfg(feature = "transcode")]
mod transcode;
mod tree_cost;
mod workload;

use crate::harness::{Experiment, family};

/// Every experiment of the paper.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    [
        family(&[theorem1::Theorem1]),
        family(&[gps::Promises]),
        family(&[tree_cost::TreeCost]),
        family(&[beta::BetaSweep]),
        family(&figures::COMPARISONS),
        family(&overhead::FIGURES),
        family(&live::FIGURES),
        #[cfg(feature = "transcode")]
        transcode::experiments(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Scale;
    use crate::harness::testing::{assert_holds, parts};

    #[test]
    fn multipliers_give_every_core_its_share() {
        let data = parts(&theorem1::Theorem1, 0..4);
        assert_holds(&theorem1::Theorem1, &data);
        assert_eq!(theorem1::Theorem1.plots(&data).len(), 2);
    }

    /// The plots and claims of every figure come of a first part alone, whose claims hold.
    #[test]
    fn figures_come_of_their_parts() {
        for figure in family(&figures::COMPARISONS)
            .into_iter()
            .filter(|figure| ["ps-hrw-fig8", "ps-hrw-fig10"].contains(&figure.about().id))
        {
            let kinds = figure.parts(Scale::Quick) / paper::DRAWS.0;
            let data = parts(figure, 0..kinds);
            assert_holds(figure, &data);
            assert_eq!(figure.plots(&data).len(), 1);
        }
    }

    #[test]
    fn every_name_is_that_of_the_paper() {
        assert!(experiments().iter().all(|experiment| experiment.about().id.starts_with("ps-hrw-")));
    }
}
