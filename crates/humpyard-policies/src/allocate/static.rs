//! Static: each service always holds its guaranteed cores.
//!
//! **Idea.** Divide the cores once, in proportion to the guarantees, and never move one.
//!
//! **Source.** The baseline of Everest (paper everest), section 5.1 and table 4; equation 7 for guarantees.
//!
//! **Promises.** Isolation: each service has the cores of its guarantee (within one, and at least one),
//! whatever the other services do. Not work conserving: a core may idle while another service is behind.
//!
//! **Cost.** O(1): it decides once.

use alloc::format;
use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, Id, IdVec, ServiceId};
use humpyard_core::params;
use humpyard_core::policy::{Allocate, Build, BuildError, Family, Info, Policy, Promise};

params! {
    /// Parameters of the static allocation: none. The guarantees belong to the services.
    pub struct StaticParams {}
}

/// The static allocation.
#[derive(Debug)]
pub struct Static {
    /// The number of cores of each service.
    shares: Vec<usize>,
}

impl Build for Static {
    type Params = StaticParams;
    const INFO: Info = Info {
        name: "static",
        family: Family::Allocate,
        summary: "each service holds the cores of its guarantee for ever",
        source: "baseline of the Everest paper",
        promises: &[Promise::Isolation],
        complexity: "O(1)",
    };

    fn new(_: &StaticParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        check_cores("static", config)?;
        Ok(Self { shares: guaranteed_cores(config) })
    }
}

impl Policy for Static {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        assert!(self.shares.iter().all(|&cores| cores > 0), "a service without a core");
    }
}

impl Allocate for Static {
    fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>) {
        deal(&self.shares, allocation);
    }
}

/// Checks that there is a core for each service, and that the guarantees are feasible.
pub(crate) fn check_cores(policy: &str, config: &SchedulerConfig) -> Result<(), BuildError> {
    let services = config.services.len();
    if config.cores < services {
        return Err(BuildError::combination(format!(
            "{policy}: {services} services need at least {services} cores, not {}",
            config.cores
        )));
    }
    let guarantees = config.services.iter().map(|service| u64::from(service.guarantee_millionths));
    if guarantees.sum::<u64>() > 1_000_000 {
        return Err(BuildError::set_up(format!("{policy}: the guarantees of the services add up to more than 1")));
    }
    Ok(())
}

/// Returns the guarantee of each service in whole cores.
pub(crate) fn guaranteed_cores(config: &SchedulerConfig) -> Vec<usize> {
    let guarantees: Vec<u64> = config.services.iter().map(|service| u64::from(service.guarantee_millionths)).collect();
    integer_shares(&guarantees, config.cores)
}

/// Assigns cores to services, in order of both.
pub(crate) fn deal(shares: &[usize], allocation: &mut IdVec<CoreId, ServiceId>) {
    let owners = shares.iter().enumerate().flat_map(|(service, &cores)| core::iter::repeat_n(service, cores));
    for (core, service) in allocation.iter_mut().zip(owners) {
        *core = ServiceId::from_index(service);
    }
}

/// Returns whole cores in proportion to `weights`: by largest remainder (ties to the lower id),
/// then at least one each, taken from the largest. There must be a core for each weight; weights
/// that are all 0 count as equal.
pub(crate) fn integer_shares(weights: &[u64], cores: usize) -> Vec<usize> {
    let equal = weights.iter().all(|&weight| weight == 0);
    let weight = |service: usize| if equal { 1 } else { weights[service] };
    let total: u64 = (0..weights.len()).map(weight).sum();
    let exact = |service: usize| weight(service) * cores as u64;
    let mut shares: Vec<usize> = (0..weights.len()).map(|service| (exact(service) / total) as usize).collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|&service| core::cmp::Reverse(exact(service) % total));
    let left = cores - shares.iter().sum::<usize>();
    for &service in by_remainder.iter().take(left) {
        shares[service] += 1;
    }
    while let Some(empty) = shares.iter().position(|&cores| cores == 0) {
        let largest = (0..shares.len()).rev().max_by_key(|&service| shares[service]).expect("a service is empty");
        shares[largest] -= 1;
        shares[empty] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing;
    use crate::testing::config;
    use alloc::string::ToString;
    use alloc::vec;
    use humpyard_core::config::ServiceConfig;
    use humpyard_core::random::Seed;
    use humpyard_core::unit::Time;

    #[test]
    fn shares_of_the_specification() {
        assert_eq!(integer_shares(&[666_667, 333_333], 3), vec![2, 1]);
        assert_eq!(integer_shares(&[400_000, 400_000, 200_000], 10), vec![4, 4, 2]);
    }

    #[test]
    fn every_service_has_a_core() {
        assert_eq!(integer_shares(&[998, 1, 1], 16), vec![14, 1, 1]);
        assert_eq!(integer_shares(&[1, 0, 0], 3), vec![1, 1, 1]);
        assert_eq!(integer_shares(&[0, 0], 5), vec![3, 2]);
    }

    #[test]
    fn shares_are_within_one_of_the_guarantee() {
        for cores in 4..40 {
            let weights = [100, 300, 250, 350];
            let shares = integer_shares(&weights, cores);
            assert_eq!(shares.iter().sum::<usize>(), cores);
            for (&share, &weight) in shares.iter().zip(&weights) {
                let exact = weight as f64 * cores as f64 / 1000.0;
                assert!((share as f64 - exact).abs() < 1.0, "{share} for {exact} of {cores}");
            }
        }
    }

    #[test]
    fn cores_are_dealt_in_order() {
        let service = |name: &str, guarantee_millionths| ServiceConfig {
            name: name.into(),
            packet_time: Time::ZERO,
            switch_cost: Time::ZERO,
            tolerance: Time::MAX,
            guarantee_millionths,
        };
        let services = [service("a", 666_667), service("b", 333_333)];
        let mut policy =
            Static::new(&StaticParams {}, &SchedulerConfig { services: services.to_vec(), ..config(3, 1, &[]) })
                .unwrap();
        let mut allocation = IdVec::from_fn(3, |_| ServiceId(9));
        policy.initial(&mut allocation);
        assert_eq!(allocation.as_slice(), [ServiceId(0), ServiceId(0), ServiceId(1)]);
    }

    /// Each service has its own queue. All its packets take equally long, so on n cores each packet
    /// waits for the nth before it.
    #[test]
    fn it_is_a_queue_for_each_service() {
        let services = [testing::service(10_000, 100, 600_000), testing::service(3_000, 100, 400_000)];
        let mut random = Seed(3).stream("test");
        let mut now = Time::ZERO;
        let arrivals: Vec<(Time, ServiceId)> = (0..2_000)
            .map(|_| {
                now += Time::from_ns(random.exponential(1_500.0) as u64);
                (now, ServiceId(random.below(2) as u16))
            })
            .collect();
        let outcome = testing::Scenario { cores: 5, services: &services, arrivals: &arrivals }.run::<Static>();
        for (id, cores) in [(ServiceId(0), 3), (ServiceId(1), 2)] {
            let packet = services[id.index()].packet_time;
            let mut done = vec![Time::ZERO; cores];
            let own = arrivals.iter().filter(|&&(_, service)| service == id).enumerate();
            let expected = own.map(|(nth, &(arrival, _))| {
                done[nth % cores] = done[nth % cores].max(arrival) + packet;
                done[nth % cores]
            });
            let found = outcome.completions.iter().filter(|&&(_, service)| service == id).map(|&(time, _)| time);
            assert!(found.eq(expected), "service {id}");
        }
        assert_eq!(outcome.switches, 0);
    }

    #[test]
    fn too_few_cores_are_refused() {
        let service = ServiceConfig {
            name: "a".into(),
            packet_time: Time::ZERO,
            switch_cost: Time::ZERO,
            tolerance: Time::MAX,
            guarantee_millionths: 0,
        };
        let error = Static::new(&StaticParams {}, &SchedulerConfig { services: vec![service; 3], ..config(2, 1, &[]) })
            .unwrap_err();
        assert_eq!(error.to_string(), "static: 3 services need at least 3 cores, not 2");
    }
}
