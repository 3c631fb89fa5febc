//! The agenda of the cores: which core finishes first, and with what.

use std::collections::VecDeque;
use std::mem;

use humpyard_core::id::{CoreId, Id, IdVec};
use humpyard_core::unit::Time;

use crate::cores::Doing;

/// The present and later tasks of each core, in order.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// The core that finishes first, and when; at equal times, the lowest core. [`Time::MAX`]: no
    /// core has a task.
    first: (Time, CoreId),
    /// The times of the other cores.
    others: Others,
    /// The present task of each of them.
    present: IdVec<CoreId, Present>,
    /// The later tasks of each core, with the times at which they finish; rarely any.
    later: IdVec<CoreId, VecDeque<(Time, Doing)>>,
    /// Number of later tasks of all cores.
    later_count: usize,
}

/// The present task of a core, and when it finishes. [`Time::MAX`]: the core has none.
#[derive(Clone, Copy, Debug)]
struct Present {
    until: Time,
    doing: Doing,
}

/// When the cores are done that are not the first.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one in a run, and the larger is used at every event")]
enum Others {
    /// Up to [`FEW`] cores.
    Few(Line),
    /// The first is among them.
    Many(Winner),
}

impl Agenda {
    /// Returns the agenda of `cores` cores without tasks.
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            first: NEVER,
            others: if cores <= FEW { Others::Few(Line::new()) } else { Others::Many(Winner::new(cores)) },
            present: IdVec::from_fn(cores, |_| Present { until: Time::MAX, doing: Doing::Switch }),
            later: IdVec::from_fn(cores, |_| VecDeque::new()),
            later_count: 0,
        }
    }

    /// Returns the number of cores.
    pub(crate) fn cores(&self) -> usize {
        self.present.len()
    }

    /// Returns the task of each core that has one, and when it ends.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (Time, CoreId, Doing)> {
        let present = self.present.ids().map(|core| (self.present[core].until, core, self.present[core].doing));
        present.filter(|(until, ..)| *until < Time::MAX)
    }

    /// Returns when the first core finishes its task; [`Time::MAX`] if no core has one.
    #[inline(always)]
    pub(crate) fn next(&self) -> Time {
        self.first.0
    }

    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.first.0 == Time::MAX
    }

    /// Returns a core that has finished by now, and its task: the earliest; of several the lowest.
    #[inline(always)]
    pub(crate) fn next_done(&mut self, now: Time) -> Option<(CoreId, Doing)> {
        let (time, core) = self.first;
        if time > now {
            return None;
        }
        if time == Time::MAX {
            return Self::none_at_last();
        }
        let present = &mut self.present[core];
        present.until = Time::MAX;
        let done = present.doing;
        self.first = match &mut self.others {
            Others::Few(line) => line.pop(),
            Others::Many(winner) => winner.remove_first(core),
        };
        if self.later_count > 0 {
            self.go_on(core);
        }
        Some((core, done))
    }

    /// At the last instant, `now` equals [`Time::MAX`], so that case needs a test. A cold function keeps it a branch.
    #[cold]
    #[inline(never)]
    fn none_at_last() -> Option<(CoreId, Doing)> {
        None
    }

    /// Starts the next task of the core, which has finished one.
    #[cold]
    fn go_on(&mut self, core: CoreId) {
        if let Some((until, doing)) = self.later[core].pop_front() {
            self.later_count -= 1;
            self.present[core] = Present { until, doing };
            self.add((until, core));
        }
    }

    /// Gives the core a task that lasts until then. It comes after the core's earlier tasks, and
    /// does not finish before them. [`Time::MAX`] means never, so a task that would finish then
    /// finishes just before.
    #[inline(always)]
    pub(crate) fn begin(&mut self, core: CoreId, until: Time, doing: Doing) {
        let until = until.min(LAST);
        let present = &mut self.present[core];
        if present.until < Time::MAX {
            let until = until.max(present.until);
            return self.begin_later(core, until, doing);
        }
        *present = Present { until, doing };
        self.add((until, core));
    }

    /// Adds the time of a core that has none.
    #[inline(always)]
    fn add(&mut self, entry: (Time, CoreId)) {
        let is_idle = self.is_idle();
        match &mut self.others {
            Others::Few(_) if is_idle => self.first = entry,
            Others::Few(line) if entry < self.first => line.push_first(mem::replace(&mut self.first, entry)),
            Others::Few(line) => line.add(entry),
            Others::Many(winner) => {
                winner.add(entry);
                self.first = self.first.min(entry);
            }
        }
    }

    #[cold]
    fn begin_later(&mut self, core: CoreId, until: Time, doing: Doing) {
        let later = &mut self.later[core];
        let before = later.back().map_or(Time::ZERO, |&(before, _)| before);
        later.push_back((until.max(before), doing));
        self.later_count += 1;
    }
}

/// The instant before never.
const LAST: Time = Time::from_ns(u64::MAX - 1);
/// The entry of no core.
const NEVER: (Time, CoreId) = (Time::MAX, CoreId(0));

/// Times of a few cores, in order; at equal times the lowest core is first. Removing the earliest
/// takes one step. Adding a time takes a step for each later one. These are few: tasks that begin
/// last mostly finish last.
#[derive(Debug)]
struct Line {
    entries: [(Time, CoreId); FEW],
    /// The place of the earliest time. It grows without limit; only its last bits count.
    head: usize,
    len: usize,
}

/// Cores of a line: a power of two.
const FEW: usize = 16;

impl Line {
    const fn new() -> Self {
        Self { entries: [NEVER; FEW], head: 0, len: 0 }
    }

    /// Removes and returns the earliest time; [`NEVER`] if there is none.
    #[inline(always)]
    fn pop(&mut self) -> (Time, CoreId) {
        if self.len == 0 {
            return NEVER;
        }
        let first = self.entries[self.head % FEW];
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        first
    }

    /// Adds a time before all others.
    #[inline(always)]
    fn push_first(&mut self, entry: (Time, CoreId)) {
        self.head = self.head.wrapping_sub(1);
        self.entries[self.head % FEW] = entry;
        self.len += 1;
    }

    /// Adds the time of a core that has none.
    #[inline]
    fn add(&mut self, entry: (Time, CoreId)) {
        let mut at = self.head.wrapping_add(self.len);
        while at != self.head {
            let before = self.entries[at.wrapping_sub(1) % FEW];
            if before < entry {
                break;
            }
            self.entries[at % FEW] = before;
            at = at.wrapping_sub(1);
        }
        self.entries[at % FEW] = entry;
        self.len += 1;
    }
}

/// The times of cores, and the earliest of them; at equal times, that of the lowest core. The times
/// are in a tree of groups of eight: each time in an upper group is the earliest of a group below.
/// Adding a time climbs while it is the earliest of its group. Removing the earliest time searches
/// two groups on each of the log8(cores) levels.
#[derive(Debug)]
struct Winner {
    /// The groups, level by level, the root first: the groups below place `p` of group `g` is group
    /// `8 g + p + 1`.
    groups: Vec<[Time; GROUP]>,
    /// The first of the groups whose members are cores.
    cores: usize,
}

/// Members of a group.
const GROUP: usize = 8;

impl Winner {
    fn new(cores: usize) -> Self {
        let (mut first, mut groups) = (0, 1);
        while groups * GROUP < cores {
            first += groups;
            groups *= GROUP;
        }
        let groups = vec![[Time::MAX; GROUP]; first + cores.div_ceil(GROUP)];
        Self { groups, cores: first }
    }

    /// Sets the time of a core that has none.
    fn add(&mut self, (time, core): (Time, CoreId)) {
        let (mut group, mut place) = (self.cores + core.index() / GROUP, core.index() % GROUP);
        loop {
            let known = &mut self.groups[group][place];
            if *known <= time {
                return;
            }
            *known = time;
            if group == 0 {
                return;
            }
            (group, place) = ((group - 1) / GROUP, (group - 1) % GROUP);
        }
    }

    /// Takes the earliest time away, which is that of this core; returns the earliest that is left.
    fn remove_first(&mut self, core: CoreId) -> (Time, CoreId) {
        let (mut group, mut place) = (self.cores + core.index() / GROUP, core.index() % GROUP);
        let mut time = Time::MAX;
        loop {
            let members = &mut self.groups[group];
            members[place] = time;
            if group == 0 {
                break;
            }
            (time, _) = earliest(members);
            (group, place) = ((group - 1) / GROUP, (group - 1) % GROUP);
        }
        self.find()
    }

    /// The earliest time, from the root down.
    #[inline]
    fn find(&self) -> (Time, CoreId) {
        let mut group = 0;
        loop {
            let (time, place) = earliest(&self.groups[group]);
            if time == Time::MAX {
                return NEVER;
            }
            if group >= self.cores {
                return (time, CoreId::from_index((group - self.cores) * GROUP + place));
            }
            group = GROUP * group + place + 1;
        }
    }
}

/// Returns the earliest of these times, and its place; the first of equals.
#[inline]
fn earliest(members: &[Time; GROUP]) -> (Time, usize) {
    let mut earliest = (members[0], 0);
    for (place, &time) in members.iter().enumerate().skip(1) {
        if time < earliest.0 {
            earliest = (time, place);
        }
    }
    earliest
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use humpyard_core::id::Slot;
    use humpyard_core::random::Seed;

    use super::*;

    /// Tasks finish in the order of time, then of cores, and on each core in the order in which
    /// they began.
    #[test]
    fn it_agrees_with_a_map() {
        for cores in [1, 2, 3, 8, 9, 15, 16, 17, 21, 64, 70, 600] {
            let mut agenda = Agenda::new(cores);
            // For each core the present task and its end; later tasks follow.
            let mut model: BTreeMap<u16, VecDeque<(Time, Doing)>> = BTreeMap::new();
            let mut random = Seed(cores as u64).stream("test");
            for step in 0..5_000u32 {
                let now = Time::from_ns(u64::from(step) / 2);
                let first = || model.iter().map(|(&core, doing)| (doing[0].0, core)).min();
                assert_eq!(agenda.next(), first().map_or(Time::MAX, |(time, _)| time));
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
                    0 => LAST,
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
        assert_eq!(agenda.next(), LAST);
        assert_eq!(agenda.next_done(Time::MAX), Some((CoreId(2), Doing::Switch)));
        assert_eq!((agenda.next(), agenda.next_done(Time::MAX)), (Time::MAX, None));
    }
}
