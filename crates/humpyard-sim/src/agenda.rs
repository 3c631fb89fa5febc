//! What cores are doing: who is done first, with what.

use std::collections::VecDeque;

use humpyard_core::id::{CoreId, IdVec, Slot};
use humpyard_core::storage::IndexedHeap;
use humpyard_core::unit::Time;

/// What a core is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    /// Serving the packet in this slot, which keeps it busy for so long.
    Packet(Slot, Time),
    /// Going over to another service.
    Switch,
}

/// What each core is doing and will do, in order.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// The cores that do something, by when they are done with it.
    until: IndexedHeap<CoreId, Time>,
    /// What each of them does.
    doing: IdVec<CoreId, Doing>,
    /// What each core does after that, with the time at which it is done: seldom anything.
    later: IdVec<CoreId, VecDeque<(Time, Doing)>>,
}

impl Agenda {
    /// So many cores, which do nothing.
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            until: IndexedHeap::new(cores),
            doing: IdVec::from_fn(cores, |_| Doing::Switch),
            later: IdVec::from_fn(cores, |_| VecDeque::new()),
        }
    }

    /// When the first of the cores is done that do something.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        self.until.peek().map(|(time, _)| time)
    }

    /// A core that is done by now, and with what: the earliest, of several the lowest.
    #[inline]
    pub(crate) fn next_done(&mut self, now: Time) -> Option<(CoreId, Doing)> {
        let (_, core) = self.until.peek().filter(|&(time, _)| time <= now)?;
        let done = self.doing[core];
        match self.later[core].pop_front() {
            None => self.until.remove(core),
            Some((until, doing)) => {
                self.doing[core] = doing;
                self.until.set(core, until);
            }
        }
        Some((core, done))
    }

    /// The core does this until then: after all that it is to do already, and not before that is done.
    #[inline]
    pub(crate) fn begin(&mut self, core: CoreId, until: Time, doing: Doing) {
        let Some(present) = self.until.key(core) else {
            self.doing[core] = doing;
            return self.until.set(core, until);
        };
        let later = &mut self.later[core];
        let before = later.back().map_or(present, |&(before, _)| before);
        later.push_back((until.max(before), doing));
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
