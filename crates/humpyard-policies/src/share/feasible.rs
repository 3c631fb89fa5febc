//! Feasible weights: no client is entitled to more than one processor.
//!
//! Some clients can never have their share: their weight exceeds that of all lighter clients,
//! divided by the processors left to them. There are fewer such clients than processors. Each is
//! entitled to one processor, so its weight becomes what the others have on average for each of the
//! processors left.
//!
//! Clients are in groups by the order of their weight, so clients need not be sorted by weight. A
//! whole group is too heavy or is not. In the one group that may have both, the median shows on
//! which side of it the last too heavy client is. This takes O(P) comparisons for P processors, for
//! any number of clients.
//!
//! **Source.** Caprita, Chan, Nieh, Stein, Zheng. Group ratio round-robin: O(1) proportional share
//! scheduling for uniprocessor and multiprocessor systems. USENIX ATC 2005, section 3.2.
//! PROPORTIONAL_SHARE section 4.3.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem;

use humpyard_core::id::{ClientId, IdVec};
use humpyard_core::storage::IdCircles;

/// The number of orders: the bits of a weight.
const ORDERS: usize = 32;

/// A weight as a ratio: the first number over the second.
pub type Ratio = (u64, u64);

/// Clients of weights from 2^order to 2^(order+1) − 1.
#[derive(Clone, Copy, Debug)]
struct Group {
    members: usize,
    /// Sum of their weights.
    weight: u64,
    /// One of its clients.
    first: ClientId,
}

/// The weights of some clients, and the clients that are too heavy. Only [`Self::new`] allocates.
#[derive(Debug)]
pub struct FeasibleWeights {
    /// The groups by order of the given weight.
    groups: Box<[Group; ORDERS]>,
    /// The members of the groups.
    rings: IdCircles<ClientId>,
    /// The given weights.
    weights: IdVec<ClientId, u32>,
    /// Sum of the weights of all members.
    total: u64,
    /// The members that are too heavy, ascending.
    heavy: Vec<ClientId>,
    /// The weight of a client that is too heavy.
    ceiling: Ratio,
    /// The members that were too heavy before the last change.
    before: Vec<ClientId>,
    /// The members of one group, some of which may be too heavy.
    candidates: Vec<(u32, ClientId)>,
}

impl FeasibleWeights {
    /// Creates clients of these weights, from 1, none of them a member, on up to `processors`
    /// processors. O(clients).
    pub fn new(processors: usize, clients: usize, weight: impl Fn(ClientId) -> u32) -> Self {
        Self {
            groups: Box::new([Group { members: 0, weight: 0, first: ClientId(0) }; ORDERS]),
            rings: IdCircles::new(clients),
            weights: IdVec::from_fn(clients, weight),
            total: 0,
            heavy: Vec::with_capacity(processors),
            ceiling: (1, 1),
            before: Vec::with_capacity(processors),
            candidates: Vec::with_capacity(2 * processors),
        }
    }

    /// Panics unless the groups agree with the weights.
    pub(super) fn check(&self) {
        for (order, group) in (0..).zip(self.groups.iter()).filter(|(_, group)| group.members > 0) {
            let members = || self.rings.iter(group.first);
            assert!(members().all(|id| self.weights[id].ilog2() == order), "members of group {order}");
            assert_eq!(members().count(), group.members, "members of group {order}");
            assert_eq!(members().map(|id| u64::from(self.weights[id])).sum::<u64>(), group.weight, "group {order}");
        }
        assert_eq!(self.groups.iter().map(|group| group.weight).sum::<u64>(), self.total, "all weights");
    }

    /// Returns the given weight of a client.
    pub fn weight(&self, id: ClientId) -> u32 {
        self.weights[id]
    }

    /// Whether this client is a member and was too heavy at the last readjustment. O(log processors).
    pub fn is_heavy(&self, id: ClientId) -> bool {
        self.heavy.binary_search(&id).is_ok()
    }

    /// Makes the client a member; it must not be one. The heavy members are not known until
    /// [`Self::readjust`]. O(1).
    pub fn join(&mut self, id: ClientId) {
        let weight = self.weights[id];
        let group = &mut self.groups[weight.ilog2() as usize];
        if group.members == 0 {
            group.first = id;
        } else {
            self.rings.insert_before(group.first, id);
        }
        group.members += 1;
        group.weight += u64::from(weight);
        self.total += u64::from(weight);
    }

    /// Removes the client from the members; it must be one. O(processors).
    pub fn leave(&mut self, id: ClientId) {
        self.unlink(id);
        self.heavy.retain(|&heavy| heavy != id);
    }

    /// Gives a client another weight. `is_member` tells whether it is a member. O(1).
    pub fn set_weight(&mut self, id: ClientId, weight: u32, is_member: bool) {
        if is_member {
            self.unlink(id);
        }
        self.weights[id] = weight;
        if is_member {
            self.join(id);
        }
    }

    fn unlink(&mut self, id: ClientId) {
        let weight = self.weights[id];
        let group = &mut self.groups[weight.ilog2() as usize];
        if group.first == id {
            group.first = self.rings.next(id);
        }
        self.rings.remove(id);
        group.members -= 1;
        group.weight -= u64::from(weight);
        self.total -= u64::from(weight);
    }

    /// Finds the members that are too heavy for one of `processors` processors. Calls `change` for
    /// each member whose heaviness or weight has changed, with its present weight. There must be at
    /// least one processor and no more than `new` received. O(processors), apart from sorting the
    /// few heavy members by id.
    pub fn readjust(&mut self, processors: usize, change: impl FnMut(ClientId, Ratio)) {
        self.readjust_by(processors, Ord::cmp, change);
    }

    /// As [`Self::readjust`] with a function that compares weights, for example to count
    /// comparisons: O(processors) of them.
    pub fn readjust_by(
        &mut self,
        processors: usize,
        mut compare: impl FnMut(&u32, &u32) -> Ordering,
        mut change: impl FnMut(ClientId, Ratio),
    ) {
        mem::swap(&mut self.heavy, &mut self.before);
        self.heavy.clear();
        let rest = self.find_heavy(processors, &mut compare);
        self.heavy.sort_unstable();
        let ceiling = if rest > 0 { (rest, (processors - self.heavy.len()) as u64) } else { (1, 1) };
        for &id in self.before.iter().filter(|id| self.heavy.binary_search(id).is_err()) {
            change(id, (u64::from(self.weights[id]), 1));
        }
        for &id in &self.heavy {
            if ceiling != self.ceiling || self.before.binary_search(&id).is_err() {
                change(id, ceiling);
            }
        }
        self.ceiling = ceiling;
    }

    /// Finds the members that are too heavy. Returns the weight of the others.
    fn find_heavy(&mut self, processors: usize, compare: &mut impl FnMut(&u32, &u32) -> Ordering) -> u64 {
        let mut rest = self.total;
        for (order, group) in self.groups.iter().enumerate().rev().filter(|(_, group)| group.members > 0) {
            let left = processors - self.heavy.len();
            let lighter = rest - group.weight;
            let members = self.rings.iter(group.first);
            if group.members < left && ((left - group.members) as u64) << order > lighter {
                self.heavy.extend(members);
                rest = lighter;
                continue;
            }
            // A group with at least twice as many members as processors left has no member that is
            // too heavy: weights differ by less than a factor of two.
            if group.members < 2 * left {
                self.candidates.clear();
                self.candidates.extend(members.map(|id| (self.weights[id], id)));
                let (count, weight) = heaviest(&mut self.candidates, left as u64, rest, compare);
                self.heavy.extend(self.candidates[..count].iter().map(|candidate| candidate.1));
                rest -= weight;
            }
            break;
        }
        rest
    }
}

/// Moves the candidates to the front that are too heavy for one of `processors` processors. All
/// clients, apart from those known to be too heavy, weigh `rest`. Returns the number of these
/// candidates and their weight. O(candidates).
///
/// A client is too heavy only if all heavier ones are. So the median shows on which side of it the
/// last of them is.
fn heaviest(
    mut candidates: &mut [(u32, ClientId)],
    mut processors: u64,
    mut rest: u64,
    compare: &mut impl FnMut(&u32, &u32) -> Ordering,
) -> (usize, u64) {
    let (mut count, before) = (0, rest);
    while !candidates.is_empty() {
        let middle = candidates.len() / 2;
        let order = |a: &(u32, ClientId), b: &(u32, ClientId)| compare(&b.0, &a.0).then(a.1.cmp(&b.1));
        let (heavier, median, lighter) = candidates.select_nth_unstable_by(middle, order);
        let weight = u64::from(median.0);
        let of_heavier: u64 = heavier.iter().map(|candidate| u64::from(candidate.0)).sum();
        if weight * (processors - heavier.len() as u64) <= rest - of_heavier {
            candidates = heavier;
        } else {
            count += heavier.len() + 1;
            processors -= heavier.len() as u64 + 1;
            rest -= of_heavier + weight;
            candidates = lighter;
        }
    }
    (count, before - rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cmp::Reverse;
    use humpyard_core::id::Id;
    use humpyard_core::random::{Random, Seed};

    fn all(processors: usize, weights: &[u32]) -> FeasibleWeights {
        let mut feasible = FeasibleWeights::new(processors, weights.len(), |id| weights[id.index()]);
        feasible.weights.ids().for_each(|id| feasible.join(id));
        feasible.check();
        feasible
    }

    /// Returns the weights after the first readjustment.
    fn readjusted(processors: usize, weights: &[u32]) -> Vec<Ratio> {
        let mut readjusted: Vec<Ratio> = weights.iter().map(|&weight| (u64::from(weight), 1)).collect();
        all(processors, weights).readjust(processors, |id, weight| readjusted[id.index()] = weight);
        readjusted
    }

    /// Computes the weights by definition: the heaviest clients are cut, up to the least k whose
    /// weight is at most the sum from k on, divided by the processors left.
    fn by_definition(processors: usize, weights: &[u32]) -> Vec<Ratio> {
        let mut sorted: Vec<u64> = weights.iter().map(|&weight| u64::from(weight)).collect();
        sorted.sort_unstable_by_key(|&weight| Reverse(weight));
        let sum = |k: usize| sorted[k..].iter().sum::<u64>();
        let feasible = |k: usize| sorted[k] * (processors - k) as u64 <= sum(k);
        let threshold = (0..sorted.len().min(processors)).find(|&k| feasible(k)).unwrap_or(sorted.len());
        let of = |weight: u32| match threshold {
            0 => (u64::from(weight), 1),
            k if u64::from(weight) < sorted[k - 1] => (u64::from(weight), 1),
            k if k == sorted.len() => (1, 1),
            k => (sum(k), (processors - k) as u64),
        };
        weights.iter().map(|&weight| of(weight)).collect()
    }

    /// The recursion of SFS on weights in descending order: a client that is too heavy gets the
    /// mean of the others.
    fn by_recursion(processors: usize, sorted: &mut [f64]) {
        let Some((&mut heaviest, rest)) = sorted.split_first_mut() else { return };
        if processors > 1 && heaviest * processors as f64 > heaviest + rest.iter().sum::<f64>() {
            by_recursion(processors - 1, rest);
            sorted[0] = sorted[1..].iter().sum::<f64>() / (processors - 1) as f64;
        }
    }

    /// Returns weights of several distributions, for more clients than processors.
    fn mix(random: &mut Random, processors: usize) -> Vec<u32> {
        let clients = processors + 1 + random.below(4 * processors as u64) as usize;
        let (most, bits) = (1 + random.below(1000), 1 + random.below(20));
        let wide = random.below(2) == 0;
        let draw = |random: &mut Random| {
            let bits = if wide { random.below(bits) } else { 0 };
            ((1 + random.below(most)) << bits) as u32
        };
        (0..clients).map(|_| draw(random)).collect()
    }

    #[test]
    fn example_of_the_specification() {
        let weights = readjusted(4, &[100, 60, 3, 3, 2, 2, 1, 1]);
        assert_eq!(weights, [(12, 2), (12, 2), (3, 1), (3, 1), (2, 1), (2, 1), (1, 1), (1, 1)]);
    }

    #[test]
    fn feasible_weights_stay() {
        assert_eq!(readjusted(2, &[3, 2, 1]), [(3, 1), (2, 1), (1, 1)]);
        assert_eq!(readjusted(1, &[100, 1]), [(100, 1), (1, 1)]);
    }

    #[test]
    fn no_more_clients_than_processors_weigh_the_same() {
        assert_eq!(readjusted(3, &[7, 5]), [(1, 1), (1, 1)]);
        assert_eq!(readjusted(3, &[7, 5, 2]), [(2, 1), (2, 1), (2, 1)]);
        assert_eq!(readjusted(4, &[]), []);
    }

    #[test]
    fn random_mixes_are_readjusted_as_defined() {
        let mut random = Seed(1).stream("feasible/definition");
        for _ in 0..20_000 {
            let processors = 1 + random.below(16) as usize;
            let mut weights = mix(&mut random, processors);
            weights.truncate(1 + random.below(weights.len() as u64) as usize);
            assert_eq!(readjusted(processors, &weights), by_definition(processors, &weights), "{weights:?}");
        }
    }

    #[test]
    fn random_mixes_are_readjusted_as_by_sfs() {
        let mut random = Seed(1).stream("feasible/sfs");
        for _ in 0..20_000 {
            let processors = 2 + random.below(15) as usize;
            let mut weights = mix(&mut random, processors);
            weights.sort_unstable_by_key(|&weight| Reverse(weight));
            let mut expected: Vec<f64> = weights.iter().map(|&weight| f64::from(weight)).collect();
            by_recursion(processors, &mut expected);
            for ((above, below), expected) in readjusted(processors, &weights).into_iter().zip(expected) {
                let found = above as f64 / below as f64;
                assert!((found / expected - 1.0).abs() < 1e-9, "{found} for {expected}: {weights:?}");
            }
        }
    }

    /// Each readjustment reports all weights that have changed, and no others.
    #[test]
    fn changes_add_up() {
        let mut random = Seed(1).stream("feasible/changes");
        let weights = [1; 12];
        let (mut feasible, mut members) = (FeasibleWeights::new(8, 12, |_| 1), [false; 12]);
        let mut known: Vec<Ratio> = weights.iter().map(|&weight| (weight, 1)).collect();
        for _ in 0..20_000 {
            let client = random.below(12) as usize;
            let id = ClientId::from_index(client);
            let is_member = members[client];
            match random.below(3) {
                0 if is_member => {
                    feasible.leave(id);
                    members[client] = false;
                    known[client] = (u64::from(feasible.weight(id)), 1);
                }
                1 if !is_member => {
                    feasible.join(id);
                    members[client] = true;
                }
                2 => {
                    let was_heavy = feasible.is_heavy(id);
                    feasible.set_weight(id, 1 << random.below(12), is_member);
                    if !was_heavy {
                        known[client] = (u64::from(feasible.weight(id)), 1);
                    }
                }
                _ => {}
            }
            let processors = 1 + random.below(8) as usize;
            feasible.readjust(processors, |id, weight| known[id.index()] = weight);
            feasible.check();
            let members: Vec<ClientId> = feasible.weights.ids().filter(|id| members[id.index()]).collect();
            let weights: Vec<u32> = members.iter().map(|&id| feasible.weight(id)).collect();
            let found: Vec<Ratio> = members.iter().map(|&id| known[id.index()]).collect();
            assert_eq!(found, by_definition(processors, &weights), "{weights:?} on {processors}");
        }
    }

    /// PROPORTIONAL_SHARE section 4.3: the mean number of comparisons per processor.
    #[test]
    fn comparisons_are_as_many_as_processors() {
        let mut random = Seed(1).stream("feasible/comparisons");
        for processors in 2..=16 {
            let mut comparisons = 0u32;
            for _ in 0..2000 {
                let compare = |a: &u32, b: &u32| {
                    comparisons += 1;
                    a.cmp(b)
                };
                all(processors, &mix(&mut random, processors)).readjust_by(processors, compare, |_, _| ());
            }
            let mean = f64::from(comparisons) / 2000.0 / processors as f64;
            assert!(mean <= 2.8, "{mean} for each of {processors} processors");
        }
    }
}
