//! What the map knows of traffic like the input. Candidates that were near the best there go through all rounds of the
//! search, whatever a round on little of the input says.

use humpyard_policies::spec::PolicySpec;

use crate::LabError;
use crate::choice::order::OrderChoice;
use crate::config::RunConfig;
use crate::map::{KnownMap, TrafficFigures};
use crate::offered::Offered;
use crate::recorded::Recorded;

/// Candidates that are likely to be good, at most, where the order of flows counts and where it does not.
const LIKELY: usize = 3;

/// Returns the candidates, by number, that were near the best on traffic like this. Empty: the load is unknown.
///
/// # Errors
/// A configuration without classifier or costs.
pub(super) fn likely(
    config: &RunConfig,
    recorded: &Recorded,
    offered: &Offered,
    candidates: &[PolicySpec],
) -> Result<Vec<usize>, LabError> {
    let Some(load) = offered.load else { return Ok(Vec::new()) };
    let figures = TrafficFigures::of(config, &mut recorded.whole())?;
    let figures = figures.features(load.value, load.cores, config.assumed.is_some());
    let orders: &[bool] = match config.flow_order {
        OrderChoice::Hold => &[true],
        OrderChoice::Free => &[false],
        OrderChoice::Exit(_) => &[true, false],
    };
    let names = orders.iter().flat_map(|&keeps_order| KnownMap::whole().likely(&figures, keeps_order, LIKELY));
    let policies = names.filter_map(|name| name.parse::<PolicySpec>().ok());
    let mut likely: Vec<usize> =
        policies.filter_map(|policy| candidates.iter().position(|candidate| *candidate == policy)).collect();
    likely.sort_unstable();
    likely.dedup();
    Ok(likely)
}
