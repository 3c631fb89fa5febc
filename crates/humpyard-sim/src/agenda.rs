//! What cores are doing: who is done first, with what.

use core::hint::select_unpredictable;
use std::collections::VecDeque;

use humpyard_core::id::{CoreId, Id, IdVec, Slot};
use humpyard_core::unit::Time;

/// What a core is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    /// Serving the packet in this slot, which keeps it busy for so long.
    Packet(Slot, Time),
    /// Going over to another service.
    Switch,
}

/// When a core is done, above its number, so that of several done at one instant the lowest comes first.
type Key = u128;

/// Bits of a key below its time.
const CORE_BITS: u32 = u16::BITS;

/// Of a core that does nothing: behind all that do something.
const NEVER: Key = Key::MAX;

const fn key(time: Time, core: CoreId) -> Key {
    (time.as_ns() as Key) << CORE_BITS | core.0 as Key
}

const fn time(key: Key) -> Time {
    Time::from_ns((key >> CORE_BITS) as u64)
}

/// What each core is doing and will do, in order.
///
/// Who is done first is found by a tournament: each node of a binary tree over the cores has the least key below it. A change is
/// carried to the root without a branch that could be predicted wrongly, which a heap has at each step. O(log n) in the cores.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// The root at 1, the children of n at 2n and 2n + 1, the leaves last.
    keys: Vec<Key>,
    doing: IdVec<CoreId, Doing>,
    /// What each core does after that, with the time at which it is done.
    later: IdVec<CoreId, VecDeque<(Time, Doing)>>,
}

impl Agenda {
    /// So many cores, which do nothing.
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            keys: vec![NEVER; 2 * cores.next_power_of_two()],
            doing: IdVec::from_fn(cores, |_| Doing::Switch),
            later: IdVec::from_fn(cores, |_| VecDeque::new()),
        }
    }

    /// When the first of the cores is done that do something.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        let first = self.keys[1];
        (first != NEVER).then_some(time(first))
    }

    /// A core that is done by now, and with what: the earliest, of several the lowest.
    #[inline]
    pub(crate) fn next_done(&mut self, now: Time) -> Option<(CoreId, Doing)> {
        self.next().filter(|&done| done <= now)?;
        let core = CoreId(self.keys[1] as u16);
        let done = self.doing[core];
        match self.later[core].pop_front() {
            None => self.set(core, NEVER),
            Some((until, doing)) => {
                self.doing[core] = doing;
                self.set(core, key(until, core));
            }
        }
        Some((core, done))
    }

    /// The core does this until then: after all that it is to do already, and not before that is done.
    #[inline]
    pub(crate) fn begin(&mut self, core: CoreId, until: Time, doing: Doing) {
        let present = self.keys[self.leaf(core)];
        if present == NEVER {
            self.doing[core] = doing;
            self.set(core, key(until, core));
            return;
        }
        let later = &mut self.later[core];
        let before = later.back().map_or(time(present), |&(before, _)| before);
        later.push_back((until.max(before), doing));
    }

    #[inline]
    fn leaf(&self, core: CoreId) -> usize {
        self.keys.len() / 2 + core.index()
    }

    /// Gives a core its key, and carries it up.
    #[inline]
    fn set(&mut self, core: CoreId, key: Key) {
        let mut at = self.leaf(core);
        let mut least = key;
        self.keys[at] = key;
        while at > 1 {
            let rival = self.keys[at ^ 1];
            least = select_unpredictable(rival < least, rival, least);
            at /= 2;
            self.keys[at] = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use humpyard_core::random::Seed;

    use super::*;

    /// Done in the order of time, then of cores, and on each core in the order in which it was begun.
    #[test]
    fn it_agrees_with_a_map() {
        for cores in [1, 2, 3, 16, 21] {
            let mut agenda = Agenda::new(cores);
            // By core: until when, and what; those that are to come later follow.
            let mut model: BTreeMap<u16, VecDeque<(Time, Doing)>> = BTreeMap::new();
            let mut random = Seed(cores as u64).stream("test");
            for step in 0..5_000u32 {
                let now = Time::from_ns(u64::from(step) / 2);
                let first = || model.iter().map(|(&core, doing)| (doing[0].0, core)).min();
                assert_eq!(agenda.next(), first().map(|(time, _)| time));
                let due = first().filter(|&(time, _)| time <= now);
                let expected = due.map(|(_, core)| {
                    let doing = model.get_mut(&core).expect("it does something");
                    let (_, done) = doing.pop_front().expect("it does something");
                    if doing.is_empty() {
                        model.remove(&core);
                    }
                    (CoreId(core), done)
                });
                assert_eq!(agenda.next_done(now), expected);
                if random.below(3) > 0 {
                    continue;
                }
                let core = random.below(cores as u64) as u16;
                let until = match random.below(20) {
                    0 => Time::MAX,
                    _ => now + Time::from_ns(random.below(30)),
                };
                let what = if random.below(4) == 0 { Doing::Switch } else { Doing::Packet(Slot(step), until) };
                agenda.begin(CoreId(core), until, what);
                let queue = model.entry(core).or_default();
                let before = queue.back().map_or(Time::ZERO, |&(before, _)| before);
                queue.push_back((until.max(before), what));
            }
        }
    }

    #[test]
    fn the_last_instant_comes_too() {
        let mut agenda = Agenda::new(3);
        agenda.begin(CoreId(2), Time::MAX, Doing::Switch);
        assert_eq!(agenda.next(), Some(Time::MAX));
        assert_eq!(agenda.next_done(Time::MAX), Some((CoreId(2), Doing::Switch)));
        assert_eq!((agenda.next(), agenda.next_done(Time::MAX)), (None, None));
    }
}
