//! What `everest` and `everest-env` have in common: who is eligible, who marks which cores, and who is forced to part with one.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use humpyard_core::choice;
use humpyard_core::id::{CoreId, Id, IdVec, ServiceId};
use humpyard_core::policy::{Auto, BuildError, Machine, Move, Setup};
use humpyard_core::storage::{IdRing, IdRings, IdSet};
use humpyard_core::unit::Time;

use super::demand::{Demand, WINDOW_MAX};
use super::r#static::{check_cores, deal, guaranteed_cores};

choice! {
    /// When a service in overload may take a core beyond its need and guarantee.
    pub enum ExtraReclaim {
        /// Whenever its queue asks for it: the paper's text.
        Literal = "literal",
        /// At most once per switch time.
        OncePerSwitchTime = "once-per-tsw",
        /// Never: cores are forced only up to the guarantee.
        Never = "never",
    }
}

/// The machine at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment<'a> {
    pub(super) now: Time,
    pub(super) machine: &'a Machine,
    /// A service of which a core that is not idle is about to take a packet.
    pub(super) starting: Option<ServiceId>,
}

impl<'a> Moment<'a> {
    pub(super) fn new(now: Time, machine: &'a Machine) -> Self {
        Self { now, machine, starting: None }
    }

    /// q: packets that wait although every core that has room takes one.
    #[inline]
    pub(super) fn backlog(&self, id: ServiceId) -> u32 {
        self.machine.service(id).backlog().saturating_sub(u32::from(self.starting == Some(id)))
    }
}

/// What becomes of a service that needs a core while none is marked.
pub(super) enum Unmarked {
    /// It takes this one.
    Take(CoreId),
    /// It has one by force, if another service holds more than its share.
    Force,
    /// It waits.
    Wait,
}

/// In what the policies differ.
pub(super) trait Rules {
    /// Whether a service would have a core if one came: at least if it is eligible. Only an arrival of its own, or the loss of a
    /// core, makes a service seek one.
    fn seeks(&self, engine: &Engine, moment: Moment<'_>, id: ServiceId) -> bool {
        engine.is_eligible(moment, id)
    }

    /// What becomes of `to`, which needs a core while none is marked.
    fn unmarked(&self, engine: &Engine, moment: Moment<'_>, to: ServiceId) -> Unmarked;
}

/// What is known of one service.
#[derive(Clone, Debug)]
struct Service {
    demand: Demand,
    /// Its guarantee in whole cores.
    guaranteed: u32,
    switch_cost: Time,
    /// Its marked cores.
    marked: u32,
    /// When it last took a core beyond its need and guarantee.
    latest_extra: Option<Time>,
}

/// Eligible services, marked cores, and shares in overload.
#[derive(Debug)]
pub(super) struct Engine {
    extra_reclaim: ExtraReclaim,
    services: IdVec<ServiceId, Service>,
    /// The service of each core, if it is marked.
    owner: IdVec<CoreId, Option<ServiceId>>,
    /// The marked cores, longest marked first.
    marks: IdRing<CoreId>,
    /// Those of each service, longest marked first.
    marks_of: IdRings<ServiceId, CoreId>,
    /// The services that seek a core, and some that did.
    seekers: IdSet<ServiceId>,
    /// Scratch for the shares in overload, by service.
    shares: Vec<u32>,
}

impl Engine {
    pub(super) fn new(
        policy: &str,
        extra_reclaim: ExtraReclaim,
        window: Auto,
        setup: &Setup<'_>,
    ) -> Result<Self, BuildError> {
        check_cores(policy, setup)?;
        if let Auto::Given(window) = window
            && window > WINDOW_MAX
        {
            return Err(BuildError::new(format!(
                "{policy}: `window` must be at most {WINDOW_MAX} (ns), not {window}: give less, or auto"
            )));
        }
        let guaranteed = guaranteed_cores(setup);
        let service = |(service, &guaranteed)| Service {
            demand: Demand::new(service, window, setup.cores),
            guaranteed: guaranteed as u32,
            switch_cost: service.switch_cost,
            marked: 0,
            latest_extra: None,
        };
        Ok(Self {
            extra_reclaim,
            services: setup.services.iter().zip(&guaranteed).map(service).collect(),
            owner: IdVec::from_fn(setup.cores, |_| None),
            marks: IdRing::new(setup.cores),
            marks_of: IdRings::new(setup.services.len(), setup.cores),
            seekers: IdSet::new(setup.services.len()),
            shares: vec![0; setup.services.len()],
        })
    }

    pub(super) fn check(&self) {
        assert_eq!(self.marks.len(), self.owner.iter().flatten().count(), "marked cores");
        for id in self.services.ids() {
            let marked = self.marks.iter().filter(|&core| self.owner[core] == Some(id));
            assert!(marked.eq(self.marks_of.iter(id)), "marked cores of service {id}");
            assert_eq!(self.marks_of.iter(id).count(), self.services[id].marked as usize, "marks of service {id}");
        }
    }

    pub(super) fn initial(&self, allocation: &mut IdVec<CoreId, ServiceId>) {
        let cores: Vec<usize> = self.services.iter().map(|service| service.guaranteed as usize).collect();
        deal(&cores, allocation);
    }

    #[inline]
    pub(super) fn count_arrival(&mut self, now: Time, id: ServiceId) {
        self.services[id].demand.count_arrival(now);
    }

    #[inline]
    pub(super) fn demand(&self, id: ServiceId) -> &Demand {
        &self.services[id].demand
    }

    /// The services that seek a core, and some that did.
    #[inline]
    pub(super) fn seekers(&self) -> impl Iterator<Item = ServiceId> + '_ {
        self.seekers.iter()
    }

    /// Whether no service seeks a core.
    #[inline]
    pub(super) fn is_sated(&self) -> bool {
        self.seekers.is_empty()
    }

    /// Of several idle cores: unmarked before marked, the latest idle first, for it is the one most likely to be warm, and of
    /// equals the lowest. Of cores that have room though they are not idle: unmarked before marked.
    #[inline]
    pub(super) fn place(&self, id: ServiceId, room: &IdSet<CoreId>, machine: &Machine) -> CoreId {
        let mut best: Option<(bool, Option<Time>, CoreId)> = None;
        for core in machine.latest_idle(id) {
            let (unmarked, since) = (self.owner[core].is_none(), machine.core(core).idle_since());
            match best {
                Some((true, latest, _)) if latest != since => break,
                Some((best, latest, _)) if (best, latest) > (unmarked, since) => {}
                _ => best = Some((unmarked, since, core)),
            }
        }
        match best {
            Some((_, _, core)) => core,
            None => {
                let unmarked = room.iter().find(|&core| self.owner[core].is_none());
                unmarked.or_else(|| room.first()).expect("a core has room")
            }
        }
    }

    /// A core of this service has nothing to do: the neediest of the others may take one.
    #[inline]
    pub(super) fn on_idle(&mut self, moment: Moment<'_>, idle: ServiceId, rules: &impl Rules) -> Option<Move> {
        self.refresh(moment, idle);
        if self.is_sated() { None } else { self.choose(moment, rules) }
    }

    /// A core for the neediest of those who seek one.
    #[inline(never)]
    fn choose(&mut self, moment: Moment<'_>, rules: &impl Rules) -> Option<Move> {
        let mut next = self.seekers.first();
        while let Some(id) = next {
            next = self.seekers.after(id);
            if !rules.seeks(self, moment, id) {
                self.seekers.remove(id);
            }
        }
        // Each service is asked once, the furthest beyond its limit first; those asked in vain drop out.
        let mut bound = None;
        loop {
            let eligible = self.seekers.iter().filter(|&id| self.is_eligible(moment, id));
            let ranked = eligible.map(|id| (self.excess(moment, id), Reverse(id)));
            let neediest = ranked.filter(|&rank| bound.is_none_or(|bound| rank < bound)).max()?;
            bound = Some(neediest);
            let taken = self.need(moment, neediest.1.0, rules);
            if taken.is_some() {
                return taken;
            }
        }
    }

    /// Whether a service seeks a core, now that a packet of its own has come or gone; it is remembered if so.
    #[inline]
    pub(super) fn note(&mut self, moment: Moment<'_>, id: ServiceId, rules: &impl Rules) -> bool {
        let seeks = rules.seeks(self, moment, id);
        if seeks {
            self.seekers.insert(id);
        }
        seeks
    }

    /// Takes back marks of a service that needs its cores, or finds it another core.
    #[inline(never)]
    pub(super) fn need(&mut self, moment: Moment<'_>, id: ServiceId, rules: &impl Rules) -> Option<Move> {
        while self.is_eligible(moment, id) {
            if !self.unmark_newest(id) {
                return self.acquire(moment, id, rules);
            }
        }
        None
    }

    /// A core for a service that has none marked: the one of another service marked longest, else as the rules say.
    fn acquire(&mut self, moment: Moment<'_>, to: ServiceId, rules: &impl Rules) -> Option<Move> {
        for other in self.services.ids().filter(|&other| other != to) {
            self.refresh(moment, other);
        }
        let core = match self.marks.front() {
            Some(core) => core,
            None => match rules.unmarked(self, moment, to) {
                Unmarked::Take(core) => core,
                Unmarked::Force => self.force(moment, to)?,
                Unmarked::Wait => return None,
            },
        };
        Some(self.give(moment, core, to))
    }

    /// The order that a core goes to a service.
    pub(super) fn give(&mut self, moment: Moment<'_>, core: CoreId, to: ServiceId) -> Move {
        self.unmark(core);
        self.seekers.insert(moment.machine.core(core).service);
        Move { core, to }
    }

    /// In overload: the core to be forced from a service that holds more than its share.
    fn force(&mut self, moment: Moment<'_>, to: ServiceId) -> Option<CoreId> {
        let held = moment.machine.service(to).cores;
        let is_extra = held >= self.entitled(moment, to);
        if is_extra && !self.may_take_extra(moment.now, to) {
            return None;
        }
        self.share_out(moment);
        if held >= self.shares[to.index()] {
            return None;
        }
        let core = self.victim(moment.machine, to)?;
        if is_extra {
            self.services[to].latest_extra = Some(moment.now);
        }
        Some(core)
    }

    fn may_take_extra(&self, now: Time, to: ServiceId) -> bool {
        let Service { latest_extra, switch_cost, .. } = self.services[to];
        match self.extra_reclaim {
            ExtraReclaim::Literal => true,
            ExtraReclaim::OncePerSwitchTime => latest_extra.is_none_or(|latest| now.since(latest) >= switch_cost),
            ExtraReclaim::Never => false,
        }
    }

    /// The core that the service furthest beyond its share parts with most easily.
    fn victim(&self, machine: &Machine, to: ServiceId) -> Option<CoreId> {
        let surplus = |id: ServiceId| machine.service(id).cores.saturating_sub(self.shares[id.index()]);
        let others = self.services.ids().filter(|&id| id != to && surplus(id) > 0);
        let victims = others.filter_map(|id| takeable(machine, id).map(|core| (surplus(id), Reverse(id), core)));
        victims.max_by_key(|&(surplus, id, _)| (surplus, id)).map(|(_, _, core)| core)
    }

    /// The cores of a service that may be forced from others: its need, up to its guarantee.
    fn entitled(&mut self, moment: Moment<'_>, id: ServiceId) -> u32 {
        let service = &mut self.services[id];
        service.demand.needed(moment.now, moment.backlog(id)).min(service.guaranteed)
    }

    /// The cores that each service should hold in overload: need up to the guarantee, the rest one by one to the queue
    /// furthest beyond its limit; ties to a service that holds them already, then to the lower id.
    fn share_out(&mut self, moment: Moment<'_>) {
        for id in self.services.ids() {
            self.shares[id.index()] = self.entitled(moment, id);
        }
        let left = moment.machine.cores().len() as u32 - self.shares.iter().sum::<u32>();
        for _ in 0..left {
            let rank = |id: ServiceId| {
                let share = self.shares[id.index()];
                let excess = i64::from(moment.backlog(id)) - self.demand(id).limit(share) as i64;
                (excess, moment.machine.service(id).cores > share, Reverse(id))
            };
            let neediest = self.services.ids().max_by_key(|&id| rank(id)).expect("at least one service");
            self.shares[neediest.index()] += 1;
        }
    }

    /// Marks as many cores of a service with an empty queue as its arrivals do not need (equation 6).
    #[inline]
    pub(super) fn refresh(&mut self, moment: Moment<'_>, id: ServiceId) {
        if moment.backlog(id) > 0 {
            return;
        }
        let spare = self.services[id].demand.spare(moment.now, moment.machine.service(id).cores);
        if self.services[id].marked != spare {
            self.mark(moment.machine, id, spare);
        }
    }

    /// Marks so many cores of a service, or all that can be: the idle ones first, longest idle, then those held longest.
    #[inline(never)]
    fn mark(&mut self, machine: &Machine, id: ServiceId, cores: u32) {
        while self.services[id].marked > cores {
            self.unmark_newest(id);
        }
        while self.services[id].marked < cores {
            let unmarked = |core: &CoreId| self.owner[*core].is_none();
            let core = machine.idle(id).find(unmarked).or_else(|| machine.held(id).find(unmarked));
            let Some(core) = core else { break };
            self.owner[core] = Some(id);
            self.marks.push_back(core);
            self.marks_of.push_back(id, core);
            self.services[id].marked += 1;
        }
    }

    /// q − Qlim over the cores that are not marked.
    #[inline]
    fn excess(&self, moment: Moment<'_>, id: ServiceId) -> i64 {
        let service = &self.services[id];
        let cores = moment.machine.service(id).cores - service.marked;
        i64::from(moment.backlog(id)) - service.demand.limit(cores) as i64
    }

    /// Whether a service has more packets waiting than its cores serve in time.
    #[inline]
    pub(super) fn is_eligible(&self, moment: Moment<'_>, id: ServiceId) -> bool {
        moment.backlog(id) > 0 && self.excess(moment, id) > 0
    }

    /// Whether a core is marked.
    #[cfg(test)]
    pub(super) fn is_marked(&self, core: CoreId) -> bool {
        self.owner[core].is_some()
    }

    /// Takes back all marks of a service.
    pub(super) fn unmark_all(&mut self, id: ServiceId) {
        while self.unmark_newest(id) {}
    }

    /// Takes back the newest mark of a service; false if it has none.
    fn unmark_newest(&mut self, id: ServiceId) -> bool {
        let newest = self.marks_of.back(id);
        newest.is_some_and(|core| {
            self.unmark(core);
            true
        })
    }

    fn unmark(&mut self, core: CoreId) {
        if let Some(owner) = self.owner[core].take() {
            self.marks.remove(core);
            self.marks_of.remove(owner, core);
            self.services[owner].marked -= 1;
        }
    }
}

/// The core that a service parts with most easily: the one idle longest, else, with none idle, the one held longest.
fn takeable(machine: &Machine, id: ServiceId) -> Option<CoreId> {
    machine.idle(id).next().or_else(|| machine.held(id).next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing::{packets_wait, service, us};
    use crate::testing::setup;

    fn engine(services: &[humpyard_core::policy::ServiceSetup<'_>], cores: usize) -> (Engine, Machine) {
        let window = Auto::Given(20_000_000);
        let setup = Setup { services, ..setup(cores, 1, &[]) };
        let engine = Engine::new("test", ExtraReclaim::Literal, window, &setup).unwrap();
        let mut initial = IdVec::from_fn(cores, |_| ServiceId(0));
        engine.initial(&mut initial);
        (engine, Machine::new(&initial, services.len()))
    }

    #[test]
    fn windows_beyond_all_use_are_refused() {
        let services = [service(18_220, 500, 400_000)];
        let setup = Setup { cores: 2, services: &services, ..Setup::default() };
        let built = |window| Engine::new("test", ExtraReclaim::Literal, Auto::Given(window), &setup);
        assert!(built(1_000_000_000_000_000).is_ok());
        let said = built(u64::MAX).unwrap_err();
        assert!(
            format!("{said}")
                .starts_with("test: `window` must be at most 1000000000000000 (ns), not 18446744073709551615")
        );
    }

    /// The example of ALLOCATION section 4.
    #[test]
    fn shares_in_overload_of_the_specification() {
        let services = [service(18_220, 500, 400_000), service(10_090, 500, 400_000), service(9_720, 500, 200_000)];
        let (mut engine, mut machine) = engine(&services, 10);
        machine.cores().ids().for_each(|core| machine.on_dispatch(Time::ZERO, core));
        // Rates that need 3.2, 2.1 and .3 cores.
        for (id, arrivals, waiting) in [(0, 3_513, 200), (1, 4_163, 20), (2, 617, 0)] {
            (0..arrivals).for_each(|_| engine.count_arrival(us(10_000), ServiceId(id)));
            packets_wait(&mut machine, ServiceId(id), waiting, us(10_000));
        }
        engine.share_out(Moment::new(us(10_000), &machine));
        assert_eq!(engine.shares, [6, 3, 1]);
    }

    #[test]
    fn the_latest_idle_core_that_is_not_marked_is_asked_first() {
        let (mut engine, mut machine) = engine(&[service(10_000, 100, 1_000_000)], 5);
        let mut room = IdSet::new(5);
        machine.cores().ids().for_each(|core| room.insert(core));
        let place = |engine: &Engine, machine: &Machine| engine.place(ServiceId(0), &room, machine).0;
        assert_eq!(place(&engine, &machine), 0, "of equals the lowest");
        for core in [3, 1, 4] {
            machine.on_dispatch(us(1), CoreId(core));
            machine.on_idle(us(2), CoreId(core));
        }
        assert_eq!(place(&engine, &machine), 1);
        engine.mark(&machine, ServiceId(0), 3);
        assert_eq!(engine.marks.iter().collect::<Vec<_>>(), [0, 2, 1].map(CoreId), "longest idle first");
        assert_eq!(place(&engine, &machine), 3);
        engine.mark(&machine, ServiceId(0), 5);
        assert_eq!(place(&engine, &machine), 1, "all are marked");
        machine.cores().ids().for_each(|core| machine.on_dispatch(us(3), core));
        assert_eq!(place(&engine, &machine), 0, "all are busy, and have room for another packet");
        engine.mark(&machine, ServiceId(0), 4);
        assert_eq!(place(&engine, &machine), 4, "the one whose mark was the newest");
        engine.check();
    }
}
