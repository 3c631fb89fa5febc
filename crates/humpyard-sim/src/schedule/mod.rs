//! The bare sequence of a sharing policy on always-ready clients, with its service error.

mod direct;
mod draws;
mod errors;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::ClientId;
use humpyard_core::mechanism::AlwaysReady;
use humpyard_core::policy::{BuildError, Ties};
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_policies::spec::PolicySpec;

pub use draws::{Draws, DrawsRequest, Extreme, Heavy, SkewedWeights, Spread, WeightLaw, draws};
pub use errors::Fraction;
use errors::{Errors, check_bounds};

/// The clients and the policy to schedule.
#[derive(Clone, Debug)]
pub struct ScheduleRequest {
    /// A sharing policy.
    pub policy: PolicySpec,
    /// The weights of the clients.
    pub weights: Vec<Weight>,
    /// Clients in order of arrival: a permutation of the clients, numbered from 0.
    pub order: Vec<ClientId>,
    /// Processors.
    pub processors: usize,
    /// Steps; in each, every processor serves one unit of work.
    pub slots: usize,
    /// The order of two equals.
    pub ties: Ties,
    /// The seed of random policies.
    pub seed: Seed,
}

/// A sequence of decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Schedule {
    /// The client that each processor served, for each step. `None`: the processor was idle.
    pub slots: Vec<Vec<Option<ClientId>>>,
    /// The furthest any client was behind its share.
    pub error_min: Fraction,
    /// The greatest lead of any client over its share.
    pub error_max: Fraction,
}

/// Asks a sharing policy for the sequence of its decisions on always-ready clients with packets of one unit of work.
///
/// The service error of a client is its service minus its weight's share of all service so far,
/// taken between steps.
///
/// # Errors
/// The policy is not a sharing policy alone, or rejects the configuration, or there is too much
/// work for exact errors.
pub fn schedule(request: &ScheduleRequest) -> Result<Schedule, BuildError> {
    check_policy(&request.policy)?;
    let total_weight = request.weights.iter().map(|weight| u64::from(weight.get())).sum();
    check_bounds(total_weight, (request.slots as u64).saturating_mul(request.processors as u64))?;
    let setup = setup(&request.weights, request.processors, request.ties, request.seed);
    let mut ready =
        AlwaysReady::new(&setup, request.order.iter().copied(), |_, _| 1, || request.policy.build_share(&setup))?;
    let mut errors = Errors::new(&request.weights);
    let mut busy = Vec::with_capacity(request.processors);
    let slots = (0..request.slots)
        .map(|_| {
            let served: Vec<Option<ClientId>> = ready.step().map(|served| served.map(|served| served.client)).collect();
            busy.clear();
            busy.extend(served.iter().flatten());
            errors.on_slot(&busy);
            served
        })
        .collect();
    let [error_min, error_max] = errors.extremes().map(|peak| Errors::exact(peak.scaled, total_weight));
    Ok(Schedule { slots, error_min, error_max })
}

/// Checks that the policy is a sharing policy alone, for `schedule` and for random draws.
fn check_policy(policy: &PolicySpec) -> Result<(), BuildError> {
    if policy.is_share_alone() {
        return Ok(());
    }
    Err(BuildError::combination(format!(
        "`schedule` asks a sharing policy alone, not `{policy}`: see `humpyard list policies`"
    )))
}

/// Returns the configuration of clients with these weights that always have a packet of one unit of
/// work.
fn setup(weights: &[Weight], processors: usize, ties: Ties, seed: Seed) -> SchedulerConfig {
    let clients = weights.len();
    SchedulerConfig {
        cores: processors,
        clients,
        packets: 3 * clients + processors,
        longest: 1,
        weights: weights.to_vec(),
        ties,
        seed,
        ..SchedulerConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::id::Id;

    fn request(policy: &str, weights: &[u32], slots: usize) -> ScheduleRequest {
        ScheduleRequest {
            policy: policy.parse().unwrap(),
            weights: weights.iter().map(|&weight| Weight::new(weight).unwrap()).collect(),
            order: (0..weights.len()).map(ClientId::from_index).collect(),
            processors: 1,
            slots,
            ties: Ties::Lowest,
            seed: Seed(1),
        }
    }

    fn range(policy: &str) -> (String, String) {
        let schedule = schedule(&request(policy, &[12, 3, 3, 2, 2, 2], 24)).unwrap();
        (schedule.error_min.to_string(), schedule.error_max.to_string())
    }

    /// PROPORTIONAL_SHARE section 1, error range on B.
    #[test]
    fn error_ranges_of_the_specification() {
        assert_eq!(range("wrr"), ("-15/8".into(), "6".into()));
        assert_eq!(range("drr"), ("-15/8".into(), "6".into()));
        assert_eq!(range("drr:surplus=true"), ("-15/8".into(), "6".into()));
        assert_eq!(range("stride"), ("-11/12".into(), "5/2".into()));
        assert_eq!(range("virtual-clock"), ("-11/12".into(), "5/2".into()));
        assert_eq!(range("wfq"), ("-11/12".into(), "5/2".into()));
        assert_eq!(range("wfq-list"), ("-11/12".into(), "5/2".into()));
        assert_eq!(range("sfq"), ("-2".into(), "3/4".into()));
        assert_eq!(range("wf2q+"), ("-11/12".into(), "3/4".into()));
        assert_eq!(range("eevdf"), ("-11/12".into(), "3/4".into()));
        assert_eq!(range("qfq"), ("-7/8".into(), "1".into()));
        assert_eq!(range("vtrr"), ("-2".into(), "1".into()));
        assert_eq!(range("srr"), ("-3/2".into(), "3/2".into()));
        assert_eq!(range("strr"), ("-13/12".into(), "1".into()));
        assert_eq!(range("gr3"), ("-5/6".into(), "11/8".into()));
        assert_eq!(range("linux-o1"), ("-15/8".into(), "6".into()));
    }

    #[test]
    fn order_of_arrival_decides_turns() {
        let order = [2, 0, 1].map(ClientId).to_vec();
        let schedule = schedule(&ScheduleRequest { order, ..request("drr", &[1, 1, 1], 3) }).unwrap();
        let served: Vec<u32> = schedule.slots.iter().map(|slot| slot[0].unwrap().0).collect();
        assert_eq!(served, [2, 0, 1]);
    }

    #[test]
    fn two_processors_never_serve_one_client_together() {
        let schedule = schedule(&ScheduleRequest { processors: 2, ..request("sfq", &[3, 2, 1], 60) }).unwrap();
        for slot in &schedule.slots {
            assert_ne!(slot[0], slot[1]);
        }
    }

    /// A client entitled to more than one processor has one to itself, and the others share the
    /// rest.
    #[test]
    fn a_client_too_heavy_for_a_processor_is_always_served() {
        let policies = "wrr drr stride virtual-clock wfq wfq-list sfq wf2q+ eevdf vtrr srr strr gr3 gr3mp";
        for policy in policies.split(' ') {
            let schedule = schedule(&ScheduleRequest { processors: 2, ..request(policy, &[100, 1, 1], 1000) }).unwrap();
            let served =
                |client| schedule.slots.iter().flatten().filter(|&&slot| slot == Some(ClientId(client))).count();
            assert!(served(0) >= 990, "{policy}: {} of 1000", served(0));
            assert!(served(1).abs_diff(served(2)) <= 20, "{policy}: {} and {}", served(1), served(2));
        }
    }

    /// PROPORTIONAL_SHARE section 4.1, with client 1 first in its group.
    #[test]
    fn the_six_ticks_of_gr3mp() {
        let schedule = schedule(&ScheduleRequest { processors: 2, ..request("gr3mp", &[3, 2, 1], 6) }).unwrap();
        let served: Vec<[u32; 2]> =
            schedule.slots.iter().map(|slot| [0, 1].map(|processor: usize| slot[processor].unwrap().0 + 1)).collect();
        assert_eq!(served, [[1, 2], [1, 2], [1, 3], [1, 2], [1, 2], [1, 3]]);
        assert_eq!((schedule.error_min.to_string(), schedule.error_max.to_string()), ("-2/3".into(), "2/3".into()));
    }

    #[test]
    fn more_processors_than_clients_idle() {
        let schedule = schedule(&ScheduleRequest { processors: 3, ..request("drr", &[1, 1], 2) }).unwrap();
        assert_eq!(schedule.slots[0], [Some(ClientId(0)), Some(ClientId(1)), None]);
    }

    #[test]
    fn other_families_are_refused() {
        let error = schedule(&request("hrw", &[1], 1)).unwrap_err().to_string();
        assert_eq!(error, "`schedule` asks a sharing policy alone, not `hrw`: see `humpyard list policies`");
    }
}
