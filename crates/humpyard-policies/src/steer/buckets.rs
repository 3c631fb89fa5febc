//! Indirection tables: they assign each bucket of connections to a core while cores come and go.

use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{mix, salt, score};
use humpyard_core::id::{CoreId, Id, IdVec, ServiceId};

use super::bid::{Exact, highest};
use super::tree::same;

/// The table of one service.
#[derive(Debug)]
struct Table {
    /// The cores that share its buckets, ascending.
    cores: Vec<CoreId>,
    /// The core of each bucket.
    owners: Vec<CoreId>,
}

/// An indirection table for each service.
///
/// The home of bucket b is core b mod N, of all N cores. If its home may not serve the service, the
/// bucket is on the eligible core with the highest random weight. So when a core goes, only its
/// buckets move; when a core comes, buckets move only to it. The same cores always give the same
/// table, unless the policy has moved buckets.
#[derive(Debug)]
pub(super) struct Buckets {
    /// The salt of each core.
    salts: Vec<u64>,
    tables: IdVec<ServiceId, Table>,
}

impl Buckets {
    /// Creates tables of `buckets` buckets for each service, spread over all cores.
    pub(super) fn new(buckets: usize, config: &SchedulerConfig) -> Self {
        let cores: Vec<CoreId> = (0..config.cores).map(CoreId::from_index).collect();
        let owners: Vec<CoreId> = (0..buckets).map(|bucket| cores[bucket % config.cores]).collect();
        Self {
            salts: (0..config.cores as u64).map(salt).collect(),
            tables: IdVec::from_fn(config.services.len(), |_| Table { cores: cores.clone(), owners: owners.clone() }),
        }
    }

    /// Returns the owners of a service's buckets, given the cores, ascending, that may serve it.
    /// The number of buckets is a power of two.
    #[inline]
    pub(super) fn owners(&mut self, service: ServiceId, eligible: &[CoreId]) -> &mut [CoreId] {
        let planted = &self.tables[service].cores;
        let all = self.salts.len();
        let is_unchanged = planted.len() == all && eligible.len() == all || same(planted, eligible);
        if !is_unchanged {
            self.adapt(service, eligible);
        }
        &mut self.tables[service].owners
    }

    /// Returns the cores that may serve a service and the owners of its buckets, as of its last packet.
    pub(super) fn table(&mut self, service: ServiceId) -> (&[CoreId], &mut [CoreId]) {
        let Table { cores, owners } = &mut self.tables[service];
        (cores, owners)
    }

    /// Moves the buckets whose owner has gone, and those that belong to a new core.
    #[cold]
    fn adapt(&mut self, service: ServiceId, eligible: &[CoreId]) {
        let Self { salts, tables } = self;
        let Table { cores, owners } = &mut tables[service];
        let is_eligible = |core: &CoreId| eligible.binary_search(core).is_ok();
        for (bucket, owner) in owners.iter_mut().enumerate() {
            let rightful = rightful_owner(salts, bucket, eligible);
            if !is_eligible(owner) || cores.binary_search(&rightful).is_err() {
                *owner = rightful;
            }
        }
        cores.clear();
        cores.extend_from_slice(eligible);
    }
}

/// Returns the core of a bucket that no policy has moved.
fn rightful_owner(salts: &[u64], bucket: usize, eligible: &[CoreId]) -> CoreId {
    let home = CoreId::from_index(bucket % salts.len());
    if eligible.binary_search(&home).is_ok() {
        return home;
    }
    let key = mix(bucket as u64);
    let bids = eligible.iter().map(|&core| (core, Exact::new(score(key, salts[core.index()]), 1)));
    highest(bids).expect("at least one core is eligible")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::cores_of;
    use crate::testing::config;
    use humpyard_core::random::Seed;

    const SERVICE: ServiceId = ServiceId(0);

    fn all(cores: u16) -> Vec<CoreId> {
        (0..cores).map(CoreId).collect()
    }

    #[test]
    fn at_home_buckets_repeat_the_cores() {
        let mut buckets = Buckets::new(16, &config(3, 1, &[]));
        let expected: Vec<CoreId> = (0..16).map(|bucket| CoreId(bucket % 3)).collect();
        assert_eq!(buckets.owners(SERVICE, &all(3)), expected);
    }

    /// Cores come and go at random. All buckets of the cores that went move, some move to the cores
    /// that came, and no others move.
    #[test]
    fn no_bucket_moves_that_need_not() {
        let mut random = Seed(11).stream("test");
        let mut buckets = Buckets::new(256, &config(16, 1, &[]));
        let mut eligible = all(16);
        for _ in 0..300 {
            let before = buckets.owners(SERVICE, &eligible).to_vec();
            let mut changed: Vec<CoreId> = all(16).into_iter().filter(|_| random.below(3) > 0).collect();
            if changed.is_empty() {
                changed = cores_of([4]);
            }
            let after = buckets.owners(SERVICE, &changed).to_vec();
            for (before, after) in before.iter().zip(&after) {
                let (went, came) = (!changed.contains(before), !eligible.contains(after));
                assert!(changed.contains(after));
                assert_eq!(before != after, went || came, "from {before} to {after}");
            }
            let mut fresh = Buckets::new(256, &config(16, 1, &[]));
            assert_eq!(fresh.owners(SERVICE, &changed), after, "the past does not matter");
            eligible = changed;
        }
    }

    #[test]
    fn a_bucket_that_was_moved_stays_until_its_core_goes() {
        let mut buckets = Buckets::new(8, &config(4, 1, &[]));
        buckets.owners(SERVICE, &all(4))[0] = CoreId(2);
        assert_eq!(buckets.owners(SERVICE, &cores_of([0, 1, 2]))[0], CoreId(2));
        assert_eq!(buckets.owners(SERVICE, &cores_of([0, 1]))[0], CoreId(0));
        assert_eq!(buckets.owners(SERVICE, &all(4))[0], CoreId(0));
    }
}
