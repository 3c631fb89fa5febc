//! The steering paper: proportional share highest random weight (PS-HRW) and its rivals, on a model of the paper's
//! machine.

mod beta;
mod claims;
mod figures;
mod found;
mod gop_costs;
mod gps;
mod live;
mod machine;
mod notes;
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
        family(&overhead::OVERHEADS),
        family(&live::LIVE),
        #[cfg(feature = "transcode")]
        transcode::experiments(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_the_paper() {
        assert!(experiments().iter().all(|experiment| experiment.about().id.starts_with("ps-hrw-")));
    }
}
