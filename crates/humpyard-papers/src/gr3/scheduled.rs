//! Schedules of clients that always want another slot.

use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_sim::{Schedule, ScheduleRequest, schedule};

use humpyard_lab::LabError;

/// Asks a policy for this many slots of each processor. Clients come in the order of their numbers, and the
/// lowest number wins ties.
///
/// # Errors
/// If the policy rejects the configuration.
pub(super) fn scheduled(
    policy: &str,
    weights: &[Weight],
    processors: usize,
    slots: usize,
    seed: Seed,
) -> Result<Schedule, LabError> {
    let order = (0..weights.len()).map(ClientId::from_index).collect();
    let (policy, weights) = (policy.parse()?, weights.to_vec());
    Ok(schedule(&ScheduleRequest { policy, weights, order, processors, slots, ties: Ties::Lowest, seed })?)
}

/// Converts numbers to weights.
pub(super) fn weights(weights: impl IntoIterator<Item = u32>) -> Vec<Weight> {
    weights.into_iter().map(|weight| Weight::new(weight).expect("1 or more")).collect()
}

/// Returns the sum of the weights: the slots of a period, in which each client is served its weight.
pub(super) fn total(weights: &[Weight]) -> u64 {
    weights.iter().map(|weight| u64::from(weight.get())).sum()
}
