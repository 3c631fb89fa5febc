//! The partition of the cores among applications: a core stays with the application whose program
//! it has, unless another application needs it sufficiently more.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt::Display;
use core::hint::select_unpredictable;

use humpyard_core::choice;
use humpyard_core::id::{CoreId, Id, IdVec};
use humpyard_core::policy::Ties;
use humpyard_core::steps;
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Work;

use super::tag::Tag;
use super::tournament::Tournament;

choice! {
    /// The application that an idle core takes.
    pub enum Rule {
        /// Its own application, unless another lacks more cores of its exact target by the
        /// hysteresis; else the one that lacks most.
        Deficit = "deficit",
        /// Its own application, unless that has more cores than its rounded target; else the one
        /// that lacks most of its target.
        Round = "round",
        /// As `round`, with targets rounded so that they sum to all cores: the largest remainders
        /// up, the others down.
        LargestRemainder = "largest-remainder",
        /// Its own application while it has packets; else the one that lacks most of its exact target.
        Exhaustive = "exhaustive",
    }
}

/// The head of an application without a packet that may be served.
const NO_HEAD: u64 = u64::MAX;

/// The state of one application.
#[derive(Clone, Copy, Debug)]
struct Application {
    /// The number, among the accepted packets, of its oldest packet that may be served.
    head: u64,
    /// Its work that waits.
    work: Work,
    /// The number of cores that are warm for it.
    cores: u32,
    /// Its index among the holders, if it has cores.
    place: u32,
}

impl Application {
    fn is_candidate(&self) -> bool {
        self.head != NO_HEAD && self.work > 0
    }
}

/// An application that has cores.
#[derive(Clone, Copy, Debug)]
struct Holder<I> {
    id: I,
    cores: u32,
    /// Its work if it is a candidate; else 0.
    work: Work,
}

/// The need of an application for a core, times the work of all: d = T - cores = N W_a / W - cores.
type Need = i128;

/// The greatest number of cores: their ids have 16 bits.
const CORES: u64 = 1 << 16;
/// If the work of all is below this, needs and their differences fit 64 bits.
const SHORT: Work = 1 << 46;

/// The application for which each core is warm, and the choice of the one for which it should be.
///
/// A candidate is an application with a packet that may be served and with work that waits.
/// `coreless` holds the candidates without cores; `holders` holds the applications with cores.
#[derive(Debug)]
pub(super) struct Partition<I> {
    rule: Rule,
    /// The number of cores by which the need of another application must exceed that of the own one.
    hysteresis: u64,
    applications: IdVec<I, Application>,
    /// The candidates without cores: most work first, then the oldest head.
    coreless: Tournament<I>,
    holders: Vec<Holder<I>>,
    /// The application of each core's last packet.
    warm: IdVec<CoreId, Option<I>>,
    /// The cores that ever took a packet from this queue.
    pulling: IdSet<CoreId>,
}

impl<I: Id + Display> Partition<I> {
    /// Creates a partition of `cores` cores among `applications` applications, none of which has cores.
    pub(super) fn new(rule: Rule, hysteresis: u64, cores: usize, applications: usize) -> Self {
        let nothing = Application { head: NO_HEAD, work: 0, cores: 0, place: 0 };
        Self {
            rule,
            hysteresis,
            applications: IdVec::from_fn(applications, |_| nothing),
            coreless: Tournament::new(applications, Ties::Lowest),
            holders: Vec::with_capacity(cores),
            warm: IdVec::from_fn(cores, |_| None),
            pulling: IdSet::new(cores),
        }
    }

    /// Returns the number of cores that ever took a packet.
    #[inline]
    pub(super) fn pulling(&self) -> usize {
        self.pulling.len()
    }

    /// Whether a packet of the application may be served and the application has waiting work.
    #[inline]
    pub(super) fn is_candidate(&self, id: I) -> bool {
        self.applications[id].is_candidate()
    }

    /// Whether the application has a packet that may be served.
    #[inline]
    pub(super) fn has_head(&self, id: I) -> bool {
        self.applications[id].head != NO_HEAD
    }

    /// Sets the number of its oldest packet that may be served. `None`: there is no such packet. A
    /// call of [`Partition::set_work`] must follow.
    #[inline]
    pub(super) fn set_head(&mut self, id: I, head: Option<u64>) {
        self.applications[id].head = head.unwrap_or(NO_HEAD);
    }

    /// Sets the waiting work of the application.
    #[inline]
    pub(super) fn set_work(&mut self, id: I, work: Work) {
        self.applications[id].work = work;
        self.file(id);
    }

    /// Returns the application that this core should serve. `None`: there is no candidate. `work`
    /// is the waiting work of all.
    pub(super) fn choose(&mut self, core: CoreId, work: Work) -> Option<I> {
        let own = self.warm[core].filter(|&id| self.is_candidate(id));
        match self.rule {
            Rule::Deficit => {
                let neediest = self.neediest(work)?;
                Some(own.filter(|&own| self.stays(own, neediest, work)).unwrap_or(neediest))
            }
            Rule::Exhaustive => own.or_else(|| self.neediest(work)),
            Rule::Round | Rule::LargestRemainder => self.by_target(own, work),
        }
    }

    /// Returns the idle core whose application has the oldest head; the first core if none of their
    /// applications is a candidate.
    pub(super) fn place(&self, idle: &IdSet<CoreId>) -> CoreId {
        let own_head = |core: CoreId| {
            let own = self.warm[core].map(|id| self.applications[id])?;
            own.is_candidate().then_some(own.head)
        };
        let warm = idle.iter().filter_map(|core| Some((own_head(core)?, core))).min();
        warm.map(|(_, core)| core).unwrap_or_else(|| idle.first().expect("a core is idle"))
    }

    /// Dispatches a packet of the application to the core, which becomes warm for it.
    pub(super) fn dispatch(&mut self, core: CoreId, id: I) {
        self.pulling.insert(core);
        if self.warm[core] != Some(id) {
            if let Some(before) = self.warm[core].replace(id) {
                self.release(before);
            }
            self.acquire(id);
        }
    }

    /// Makes all cores cold for the application.
    pub(super) fn forget(&mut self, id: I) {
        for core in self.warm.ids() {
            if self.warm[core] == Some(id) {
                self.warm[core] = None;
                self.release(id);
            }
        }
    }

    /// Returns the application that needs a core most; of equals, the one with the oldest head.
    fn neediest(&mut self, work: Work) -> Option<I> {
        let most = self.coreless.first().map(|(_, id)| id);
        let cores = self.pulling.len() as u64;
        if work < SHORT {
            self.neediest_by(most, i64::MIN, i64::MIN + 1, move |own, held| short_need(own, held, cores, work))
        } else {
            self.neediest_by(most, Need::MIN, Need::MIN + 1, move |own, held| need(own, held, cores, work))
        }
    }

    /// As [`Partition::neediest`], given the neediest candidate without cores. `least` is the need
    /// of a holder that is no candidate, and `nobody` a need just above it; both are below all real
    /// needs. The greatest need is not predictable, so no branch depends on it.
    #[inline]
    fn neediest_by<N: Ord + Copy>(
        &self,
        coreless: Option<I>,
        least: N,
        nobody: N,
        need: impl Fn(Work, u32) -> N + Copy,
    ) -> Option<I> {
        let need_of =
            move |holder: &Holder<I>| select_unpredictable(holder.work > 0, need(holder.work, holder.cores), least);
        let first = coreless.map_or(nobody, |id| need(self.applications[id].work, 0));
        let (mut most, mut place, mut tied) = (first, usize::MAX, false);
        steps::taken(self.holders.len());
        for (at, holder) in self.holders.iter().enumerate() {
            let need = need_of(holder);
            tied |= need == most;
            place = select_unpredictable(need > most, at, place);
            most = select_unpredictable(need > most, need, most);
        }
        if tied {
            let holders = self.holders.iter().filter(|holder| need_of(holder) == most).map(|holder| holder.id);
            let equals = coreless.filter(|_| first == most).into_iter().chain(holders);
            return equals.min_by_key(|&id| self.applications[id].head);
        }
        self.holders.get(place).map(|holder| holder.id).or(coreless)
    }

    /// Whether a core stays with the application for which it is warm: T - (cores - 1) + H is at
    /// least the other's need.
    fn stays(&self, own: I, other: I, work: Work) -> bool {
        let (own, other) = (&self.applications[own], &self.applications[other]);
        let (cores, more) = (self.pulling.len() as u64, 1 + self.hysteresis);
        if work < SHORT && more < CORES {
            let need = |application: &Application| short_need(application.work, application.cores, cores, work);
            return need(own) + (work * more) as i64 >= need(other);
        }
        let need = |application: &Application| need(application.work, application.cores, cores, work);
        need(own) + Need::from(work) * Need::from(more) >= need(other)
    }

    /// Returns the core's own application while it has no more cores than its target. Else returns
    /// the candidate that lacks most; of equals, the one with the oldest head.
    fn by_target(&mut self, own: Option<I>, work: Work) -> Option<I> {
        let rounded_up = self.rounded_up(work);
        let cores = self.pulling.len() as u128;
        let lack = |id: I| {
            let Application { work: own, cores: held, .. } = self.applications[id];
            let (whole, rest) =
                (u128::from(own) * cores / u128::from(work), u128::from(own) * cores % u128::from(work));
            let up = match self.rule {
                Rule::Round => 2 * rest >= u128::from(work),
                _ => rounded_up.is_some_and(|last| (Reverse(rest), id) <= last),
            };
            whole as i64 + i64::from(up) - i64::from(held)
        };
        if let Some(own) = own.filter(|&own| lack(own) >= 0) {
            return Some(own);
        }
        steps::taken(self.applications.len());
        let candidates = self.applications.ids().filter(|&id| self.is_candidate(id));
        candidates.min_by_key(|&id| (Reverse(lack(id)), self.applications[id].head))
    }

    /// Returns the last application whose remainder is rounded up, in order of remainders, so that
    /// targets sum to all cores.
    fn rounded_up(&self, work: Work) -> Option<(Reverse<u128>, I)> {
        if self.rule != Rule::LargestRemainder || work == 0 {
            return None;
        }
        let (cores, work) = (self.pulling.len() as u128, u128::from(work));
        let shares = || self.applications.iter().map(|application| u128::from(application.work) * cores);
        let left = (cores - shares().map(|share| share / work).sum::<u128>()) as usize;
        if left == 0 {
            return None;
        }
        // The greatest remainder that at least `left` shares reach, found by bisection, which needs no memory.
        let reach = |least: u128| shares().filter(|share| share % work >= least).count();
        let (mut reached, mut missed) = (0, work);
        while missed - reached > 1 {
            let middle = (reached + missed) / 2;
            if reach(middle) >= left {
                reached = middle
            } else {
                missed = middle
            }
            steps::taken(self.applications.len());
        }
        let above = reach(reached + 1);
        let mut equal = self.applications.ids().zip(shares()).filter(|(_, share)| share % work == reached);
        equal.nth(left - above - 1).map(|(id, _)| (Reverse(reached), id))
    }

    /// Files an application by its work and by whether its head may be served.
    #[inline]
    fn file(&mut self, id: I) {
        let application = self.applications[id];
        let candidate = application.is_candidate();
        if application.cores > 0 {
            self.holders[application.place as usize].work = if candidate { application.work } else { 0 };
        } else if candidate {
            self.coreless.set(id, rank(application.work, application.head));
        } else {
            self.coreless.remove(id);
        }
    }

    /// Counts one more core that is warm for the application.
    fn acquire(&mut self, id: I) {
        let application = &mut self.applications[id];
        application.cores += 1;
        if application.cores == 1 {
            application.place = self.holders.len() as u32;
            self.holders.push(Holder { id, cores: 1, work: 0 });
            self.coreless.remove(id);
            self.file(id);
        } else {
            self.holders[application.place as usize].cores += 1;
        }
    }

    /// Counts one core less that is warm for the application.
    fn release(&mut self, id: I) {
        let Application { cores, place, .. } = self.applications[id];
        self.applications[id].cores = cores - 1;
        if cores > 1 {
            self.holders[place as usize].cores -= 1;
            return;
        }
        self.holders.swap_remove(place as usize);
        if let Some(moved) = self.holders.get(place as usize) {
            self.applications[moved.id].place = place;
        }
        self.file(id);
    }

    /// Panics unless all counts agree, applications have the work `work_of`, and the sum is `total`.
    pub(super) fn check(&self, work_of: impl Fn(I) -> Work, total: Work) {
        assert_eq!(
            self.applications.iter().map(|application| application.work).sum::<Work>(),
            total,
            "work that waits"
        );
        assert!(self.holders.iter().map(|holder| holder.cores as usize).sum::<usize>() <= self.warm.len());
        for id in self.applications.ids() {
            let application = &self.applications[id];
            let work = work_of(id);
            assert_eq!(application.work, work, "work of application {id}");
            let cores = self.warm.iter().filter(|&&warm| warm == Some(id)).count();
            assert_eq!(application.cores as usize, cores, "cores of application {id}");
            let rank = (application.is_candidate() && cores == 0).then(|| rank(work, application.head));
            assert_eq!(self.coreless.tag(id), rank, "application {id} without cores");
            if cores > 0 {
                let holder = &self.holders[application.place as usize];
                assert_eq!((holder.id, holder.cores), (id, application.cores), "standing of application {id}");
                assert_eq!(holder.work, if application.is_candidate() { work } else { 0 }, "work of application {id}");
            }
        }
    }

    /// Returns the application for which a core is warm.
    #[cfg(test)]
    pub(super) fn warm(&self, core: CoreId) -> Option<I> {
        self.warm[core]
    }

    /// Returns the number of applications that have cores.
    #[cfg(test)]
    pub(super) fn holders(&self) -> usize {
        self.holders.len()
    }
}

/// As [`need`], if the work of all is below [`SHORT`].
#[inline]
fn short_need(own: Work, held: u32, cores: u64, work: Work) -> i64 {
    own as i64 * cores as i64 - i64::from(held) * work as i64
}

/// Returns the need for a core of an application that has the work `own` and holds `held` of the cores.
#[inline]
fn need(own: Work, held: u32, cores: u64, work: Work) -> Need {
    Need::from(own) * Need::from(cores) - Need::from(work) * Need::from(held)
}

/// The bits of a rank for the number of the head. It wraps after 2.8 * 10^14 packets; then one tie
/// may go to the younger head.
const HEAD: u32 = 48;

/// Returns the rank of an application among those without cores: more work comes first, then the
/// older head. Amounts above 2^48 of work, three days of one core in nanoseconds, count as equal.
fn rank(work: Work, head: u64) -> Tag {
    const MASK: u64 = (1 << HEAD) - 1;
    Tag::from(MASK - work.min(MASK)) << HEAD | Tag::from(head & MASK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::id::ClientId;
    use humpyard_core::random::Seed;

    const CORES: u64 = 5;
    const APPLICATIONS: u64 = 8;

    /// Examines every candidate: its own application if no other needs the core sufficiently more,
    /// else the neediest with the oldest head.
    fn chosen_by_a_scan(partition: &Partition<ClientId>, core: CoreId, work: Work) -> Option<ClientId> {
        let cores = partition.pulling.len() as i128;
        let need = |id: ClientId| {
            let application = &partition.applications[id];
            i128::from(application.work) * cores - i128::from(application.cores) * i128::from(work)
        };
        let candidates = partition.applications.ids().filter(|&id| partition.is_candidate(id));
        let neediest = candidates.min_by_key(|&id| (Reverse(need(id)), partition.applications[id].head))?;
        let own = partition.warm[core].filter(|&own| partition.is_candidate(own));
        let slack = i128::from(work) * i128::from(1 + partition.hysteresis);
        Some(own.filter(|&own| need(own) + slack >= need(neediest)).unwrap_or(neediest))
    }

    /// Few different amounts of work make needs often equal; some amounts make needs exceed 64 bits.
    #[test]
    fn the_neediest_is_that_of_a_scan() {
        for (hysteresis, unit) in [(0, 1), (1, 1), (1, 1 << 40), (1_000_000, 1), (0, 1 << 45)] {
            let mut partition = Partition::new(Rule::Deficit, hysteresis, CORES as usize, APPLICATIONS as usize);
            let mut random = Seed(7).stream("partition");
            let mut total = 0;
            for sequence in 0..20_000 {
                let id = ClientId(random.below(APPLICATIONS) as u32);
                if random.below(3) == 0 {
                    partition.set_head(id, (random.below(3) > 0).then_some(sequence));
                }
                total -= partition.applications[id].work;
                partition.set_work(id, random.below(4) * unit);
                total += partition.applications[id].work;
                let core = CoreId(random.below(CORES) as u16);
                let chosen = partition.choose(core, total);
                assert_eq!(chosen, chosen_by_a_scan(&partition, core, total), "step {sequence}, unit {unit}");
                if let Some(id) = chosen.filter(|_| random.below(2) == 0) {
                    partition.dispatch(core, id);
                }
                partition.check(|id| partition.applications[id].work, total);
            }
        }
    }
}
