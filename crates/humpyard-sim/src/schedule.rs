//! The bare sequence of a sharing policy on always-ready clients, with its service error.

use humpyard_core::id::{ClientId, Id};
use humpyard_core::mechanism::AlwaysReady;
use humpyard_core::policy::{BuildError, Setup, Ties};
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_policies::spec::PolicySpec;

/// What is to be scheduled.
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
    /// Which of two equals goes first.
    pub ties: Ties,
    /// Where random policies draw from.
    pub seed: Seed,
}

/// A sequence of decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// For each step what each processor served; none where it was idle.
    pub slots: Vec<Vec<Option<ClientId>>>,
    /// The furthest any client was behind its share.
    pub error_min: Fraction,
    /// The furthest any client was ahead of it.
    pub error_max: Fraction,
}

/// An exact quotient in lowest terms, with a positive denominator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fraction {
    /// Above the line.
    pub numerator: i128,
    /// Below the line.
    pub denominator: i128,
}

impl Fraction {
    fn new(numerator: i128, denominator: i128) -> Self {
        let divisor = greatest_common_divisor(numerator.unsigned_abs(), denominator.unsigned_abs()) as i128;
        Self { numerator: numerator / divisor, denominator: denominator / divisor }
    }

    /// As a real number.
    pub fn value(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

impl core::fmt::Display for Fraction {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.denominator == 1 {
            write!(f, "{}", self.numerator)
        } else {
            write!(f, "{}/{}", self.numerator, self.denominator)
        }
    }
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a.max(1) } else { greatest_common_divisor(b, a % b) }
}

/// Asks a sharing policy for the sequence of its decisions on always-ready clients with packets of one unit of work.
///
/// The service error of a client is its service less its weight's share of all service so far, looked at between steps.
///
/// # Errors
/// A policy that is not a sharing policy alone, or that refuses the set-up.
pub fn schedule(request: &ScheduleRequest) -> Result<Schedule, BuildError> {
    if !request.policy.is_share_alone() {
        return Err(BuildError::new(format!(
            "`schedule` asks a sharing policy alone, not `{}`: see `humpyard list policies`",
            request.policy
        )));
    }
    let clients = request.weights.len();
    let setup = Setup {
        cores: request.processors,
        clients,
        packets: 3 * clients + request.processors,
        longest: 1,
        weights: &request.weights,
        ties: request.ties,
        seed: request.seed,
        ..Setup::default()
    };
    let mut ready =
        AlwaysReady::new(&setup, request.order.iter().copied(), |_, _| 1, || request.policy.build_share(&setup))?;
    let mut errors = Errors::new(&request.weights);
    let slots = (0..request.slots)
        .map(|_| {
            let served: Vec<Option<ClientId>> = ready.step().map(|served| served.map(|served| served.client)).collect();
            errors.on_step(&served);
            served
        })
        .collect();
    let (error_min, error_max) = errors.extremes();
    Ok(Schedule { slots, error_min, error_max })
}

/// Exact service errors, all multiplied by the total weight. A client's error falls while others are served and rises when
/// it is, so it is least just before a service and greatest just after.
struct Errors {
    weights: Vec<i128>,
    total_weight: i128,
    service: Vec<i128>,
    total_service: i128,
    least: i128,
    greatest: i128,
}

impl Errors {
    fn new(weights: &[Weight]) -> Self {
        let weights: Vec<i128> = weights.iter().map(|weight| i128::from(weight.get())).collect();
        let total_weight = weights.iter().sum();
        let service = vec![0; weights.len()];
        Self { weights, total_weight, service, total_service: 0, least: 0, greatest: 0 }
    }

    fn of(&self, client: usize) -> i128 {
        self.service[client] * self.total_weight - self.total_service * self.weights[client]
    }

    fn on_step(&mut self, served: &[Option<ClientId>]) {
        let served = || served.iter().flatten().map(|client| client.index());
        self.least = served().map(|client| self.of(client)).fold(self.least, i128::min);
        for client in served() {
            self.service[client] += 1;
            self.total_service += 1;
        }
        self.greatest = served().map(|client| self.of(client)).fold(self.greatest, i128::max);
    }

    fn extremes(&self) -> (Fraction, Fraction) {
        let at_the_end = || (0..self.service.len()).map(|client| self.of(client));
        let least = at_the_end().fold(self.least, i128::min);
        let greatest = at_the_end().fold(self.greatest, i128::max);
        (Fraction::new(least, self.total_weight), Fraction::new(greatest, self.total_weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(range("sfq"), ("-2".into(), "3/4".into()));
        assert_eq!(range("wf2q+"), ("-11/12".into(), "3/4".into()));
        assert_eq!(range("eevdf"), ("-11/12".into(), "3/4".into()));
        assert_eq!(range("vtrr"), ("-2".into(), "1".into()));
        assert_eq!(range("gr3"), ("-5/6".into(), "11/8".into()));
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

    /// Who is entitled to more than one processor has one to itself, and the others share what is left.
    #[test]
    fn a_client_too_heavy_for_a_processor_is_always_served() {
        for policy in ["wrr", "drr", "sfq", "wf2q+", "eevdf", "vtrr", "gr3", "gr3mp"] {
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
