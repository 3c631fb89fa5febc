//! Indirection tables: which core has each bucket of connections, whatever cores come and go.

use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::{mix, salt, score};
use humpyard_core::id::{CoreId, Id, IdVec, ServiceId};

use super::bid::{Exact, highest};
use super::tree::same;

/// The table of one service.
#[derive(Debug)]
struct Table {
    /// The cores among which its buckets are, ascending.
    cores: Vec<CoreId>,
    /// By bucket.
    owners: Vec<CoreId>,
}

/// An indirection table for each service.
///
/// At home bucket b is on core b mod N, of all N cores. Where that may not serve the service, the bucket is on the core of highest
/// random weight of those that may. So when a core goes its buckets move and no others, when one comes buckets move to it and
/// nowhere else, and the same cores have the same buckets, unless somebody has given them others.
#[derive(Debug)]
pub(super) struct Buckets {
    /// By core.
    salts: Vec<u64>,
    tables: IdVec<ServiceId, Table>,
}

impl Buckets {
    /// So many buckets for each service, on all cores.
    pub(super) fn new(buckets: usize, config: &SchedulerConfig) -> Self {
        let cores: Vec<CoreId> = (0..config.cores).map(CoreId::from_index).collect();
        let owners: Vec<CoreId> = (0..buckets).map(|bucket| cores[bucket % config.cores]).collect();
        Self {
            salts: (0..config.cores as u64).map(salt).collect(),
            tables: IdVec::from_fn(config.services.len(), |_| Table { cores: cores.clone(), owners: owners.clone() }),
        }
    }

    /// The owners of a service's buckets, of which as many are a power of two, where these cores, ascending, may serve it.
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

    /// The cores that may serve a service, and the owners of its buckets, as of its last packet.
    pub(super) fn table(&mut self, service: ServiceId) -> (&[CoreId], &mut [CoreId]) {
        let Table { cores, owners } = &mut self.tables[service];
        (cores, owners)
    }

    /// Moves buckets whose owner has gone, and those that are a new core's.
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

/// The core of a bucket that nobody has moved.
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

    /// Cores come and go at random: of those that went all buckets move, to those that came some, and no others.
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
