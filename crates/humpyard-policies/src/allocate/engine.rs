//! The common part of the Everest policies: which services are eligible, which cores are marked, and
//! which service must give up a core.
//!
//! **Algorithm.** The symbols are the paper's. Of service i, q is the number of packets that wait and
//! for which no idle core is there. R is the rate of arrivals, t the time of a packet, D the
//! tolerance, and n the number of cores that are not marked. Qlim(n) = n c packets is the longest
//! queue that n cores serve in time (eq. 3), with c = max(⌊D/t⌋ - 1, 0) packets per core. i is
//! eligible if q > Qlim(n) and q > 0. The cores needed are the greater of ⌈q/c⌉ and ⌈R t⌉.
//!
//! ```text
//! a packet of i arrives                                      note, find_core
//!     if the queue of i is empty, as every packet found a core: refresh, as below
//!     if i is not eligible: return
//!     take back the marks of i, newest first, until q ≤ Qlim(n)
//!     if none is left and i is still eligible:               acquire
//!         each other service with an empty queue: mark the cores it can spare
//!         if another service has marked a core: i takes the one marked longest
//!         else force: a service that holds more than its share may have to give up a core
//!
//! a core of i has nothing to do                              on_idle
//!     if the queue of i is empty:                            refresh
//!         of its cores, exactly ⌊cores - R t⌋ are marked (eq. 6): too many: the newest lose it;
//!         too few: those idle longest get it, then those held longest            mark
//!     the eligible service furthest beyond its limit, then the next, looks for a core    choose
//!
//! a core is forced to i                                      force
//!     each service: share := min(cores needed, guarantee)    share_out
//!     if i has that share: go on only if `extra-reclaim` allows an extra core    may_take_extra
//!     each core that is left goes to the service with the greatest q - Qlim(share)
//!     if i has its share: no core
//!     else one core of the other service furthest beyond its share:              victim
//!         the one idle longest, or if none is idle, the one held longest
//! ```
//!
//! **State.** Two services share five cores. The queue of B is empty, and R t = .5, so it has
//! marked ⌊2 - .5⌋ = 1 core: 4, idle longer than 3. A takes it when an arrival makes A eligible.
//!
//! ```text
//!   cores       0  1  2  3  4            marks      4          longest marked first
//!   service     A  A  A  B  B            marks_of   A: -   B: 4
//!   owner       -  -  -  -  B            seekers    A          they seek a core, or did before
//! ```

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use humpyard_core::choice;
use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::id::{CoreId, Id, IdVec, ServiceId};
use humpyard_core::policy::{Auto, BuildError, Machine, Move};
use humpyard_core::storage::{IdRing, IdRings, IdSet};
use humpyard_core::unit::Time;

use super::demand::{Demand, WINDOW_MAX, packets_in_time};
use super::r#static::{check_cores, deal, guaranteed_cores};

choice! {
    /// When a service in overload may take a core beyond its need and guarantee.
    pub enum ExtraReclaim {
        /// Whenever its queue needs it: the paper's text.
        Literal = "literal",
        /// At most once per switch time.
        OncePerSwitchTime = "once-per-tsw",
        /// Never: cores are forced only up to the guarantee.
        Never = "never",
    }
}

choice! {
    /// When a service requests cores before its queue is too long.
    pub enum Proactive {
        /// Never.
        Never = "never",
        /// By a moving average of the arrivals, if a switch and a packet together take longer than
        /// the tolerance.
        Ewma = "ewma",
    }
}

/// The machine at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment<'a> {
    pub(super) now: Time,
    pub(super) machine: &'a Machine,
    /// The service of a core that is not idle and is about to take a packet. `None`: no core is.
    pub(super) starting: Option<ServiceId>,
}

impl<'a> Moment<'a> {
    pub(super) fn new(now: Time, machine: &'a Machine) -> Self {
        Self { now, machine, starting: None }
    }

    /// Returns q: the packets that still wait after every core with room has taken one.
    #[inline]
    pub(super) fn backlog(&self, id: ServiceId) -> u32 {
        self.machine.service(id).backlog().saturating_sub(u32::from(self.starting == Some(id)))
    }
}

/// The result for a service that needs a core when no marked core goes to it.
pub(super) enum NoneMarked {
    /// The service takes this core.
    Take(CoreId),
    /// The service takes a core by force, if another service holds more than its share.
    Force,
    /// The service waits.
    Wait,
}

/// The hooks that the policies override.
pub(super) trait Rules {
    /// Whether a service would accept a core: at least if it is eligible. A service starts to seek
    /// a core only at its own arrivals or when it loses a core.
    fn seeks(&self, engine: &Engine, moment: Moment<'_>, id: ServiceId) -> bool {
        engine.is_eligible(moment, id)
    }

    /// Returns the marked core that goes to `to`: the one marked longest.
    fn pick_marked(&self, engine: &Engine, _: Moment<'_>, _to: ServiceId) -> Option<CoreId> {
        engine.marks.front()
    }

    /// Decides for `to`, which needs a core when no marked core goes to it.
    fn if_none_marked(&self, engine: &Engine, moment: Moment<'_>, to: ServiceId) -> NoneMarked;
}

/// The rules of plain Everest: any marked core goes to a service in need. Without marks, it takes a
/// core by force or gets none.
pub(super) struct Forced;

impl Rules for Forced {
    fn if_none_marked(&self, _: &Engine, _: Moment<'_>, _: ServiceId) -> NoneMarked {
        NoneMarked::Force
    }
}

/// The state of one service.
#[derive(Clone, Debug)]
struct Service {
    demand: Demand,
    /// Its guarantee in whole cores.
    guaranteed: u32,
    switch_cost: Time,
    tolerance: Time,
    /// The time of a packet on a core of usual speed, in ns.
    packet_time: u64,
    /// The number of its marked cores.
    marked: u32,
    /// The time when it last took a core beyond its need and guarantee.
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
    /// The marked cores of each service, longest marked first.
    marks_of: IdRings<ServiceId, CoreId>,
    /// The services that seek a core, and some that did before.
    seekers: IdSet<ServiceId>,
    /// Scratch space for the shares in overload, by service.
    shares: Vec<u32>,
    /// The speeds of the cores, in thousandths. `None`: all are equal.
    speeds: Option<IdVec<CoreId, u32>>,
    /// Whether cores keep the code of several services, so that some moves are free.
    keeps_code: bool,
}

/// The handlers that the policies of this engine share, for their `impl Allocate`. They need a
/// field `engine`.
macro_rules! engine_handlers {
    () => {
        fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>) {
            self.engine.initial(allocation);
        }

        fn moves(&self) -> bool {
            true
        }

        #[inline]
        fn on_arrival(&mut self, now: Time, service: ServiceId) {
            self.engine.count_arrival(now, service);
        }

        #[inline]
        fn place(&mut self, service: ServiceId, idle: &IdSet<CoreId>, machine: &Machine) -> CoreId {
            self.engine.place(service, idle, machine)
        }
    };
}
pub(super) use engine_handlers;

impl Engine {
    pub(super) fn new(
        policy: &str,
        extra_reclaim: ExtraReclaim,
        window: Auto,
        config: &SchedulerConfig,
    ) -> Result<Self, BuildError> {
        check_cores(policy, config)?;
        if let Auto::Given(window) = window
            && window > WINDOW_MAX
        {
            return Err(BuildError::bad_value(format!(
                "{policy}: `window` must be at most {WINDOW_MAX} (ns), not {window}: give less, or auto"
            )));
        }
        let guaranteed = guaranteed_cores(config);
        let service = |(service, &guaranteed): (&ServiceConfig, &usize)| Service {
            demand: Demand::of_packets(service, packet_time(config, service), window, config.cores),
            guaranteed: guaranteed as u32,
            switch_cost: service.switch_cost,
            tolerance: service.tolerance,
            packet_time: service.packet_time.as_ns().max(1),
            marked: 0,
            latest_extra: None,
        };
        Ok(Self {
            extra_reclaim,
            services: config.services.iter().zip(&guaranteed).map(service).collect(),
            owner: IdVec::from_fn(config.cores, |_| None),
            marks: IdRing::new(config.cores),
            marks_of: IdRings::new(config.services.len(), config.cores),
            seekers: IdSet::new(config.services.len()),
            shares: vec![0; config.services.len()],
            speeds: uneven_speeds(config),
            keeps_code: config.services_per_core > 1,
        })
    }

    /// Enables the forecast for services for which a core would otherwise come too late.
    #[must_use]
    pub(super) fn looking_ahead(mut self, config: &SchedulerConfig) -> Self {
        for (service, known) in self.services.iter_mut().zip(&config.services) {
            service.demand.look_ahead(known);
        }
        self
    }

    pub(super) fn initial(&self, allocation: &mut IdVec<CoreId, ServiceId>) {
        let cores: Vec<usize> = self.services.iter().map(|service| service.guaranteed as usize).collect();
        deal(&cores, allocation);
    }

    #[inline]
    pub(super) fn count_arrival(&mut self, now: Time, id: ServiceId) {
        self.services[id].demand.count_arrival(now);
    }

    /// Returns the core that takes a packet. Of several idle cores, unmarked ones come before
    /// marked ones, then the one idle latest, which is most likely warm; ties go to the lowest id.
    /// Of busy cores with room, unmarked ones come first. An idle core has no room if its queue has
    /// no packet for it.
    #[inline]
    pub(super) fn place(&self, id: ServiceId, room: &IdSet<CoreId>, machine: &Machine) -> CoreId {
        if let Some(last) = machine.last_idle(id)
            && self.owner[last].is_none()
            && room.contains(last)
        {
            return last;
        }
        self.place_by_rank(id, room, machine)
    }

    #[inline(never)]
    fn place_by_rank(&self, id: ServiceId, room: &IdSet<CoreId>, machine: &Machine) -> CoreId {
        let rank = |core: CoreId| (self.owner[core].is_none(), machine.core(core).idle_since().unwrap_or(Time::ZERO));
        let mut latest = machine.latest_idle(id).filter(|&core| room.contains(core));
        let Some(mut best) = latest.next() else { return self.place_on_busy(room) };
        let mut best_rank = rank(best);
        for core in latest {
            let rank = rank(core);
            if best_rank.0 && rank.1 != best_rank.1 {
                break;
            }
            if rank >= best_rank {
                (best, best_rank) = (core, rank);
            }
        }
        best
    }

    /// Returns the core that takes a packet if no core with room is idle.
    #[cold]
    fn place_on_busy(&self, room: &IdSet<CoreId>) -> CoreId {
        let unmarked = room.iter().find(|&core| self.owner[core].is_none());
        unmarked.or_else(|| room.first()).expect("a core has room")
    }

    /// Updates whether a service seeks a core, after one of its packets arrived or left, and
    /// remembers it. Returns whether it does.
    #[inline]
    pub(super) fn note(&mut self, moment: Moment<'_>, id: ServiceId, rules: &impl Rules) -> bool {
        let seeks = rules.seeks(self, moment, id);
        if seeks {
            self.seekers.insert(id);
        }
        seeks
    }

    /// Removes marks from a service that needs its cores, or finds another core for it.
    #[inline(never)]
    pub(super) fn find_core(&mut self, moment: Moment<'_>, id: ServiceId, rules: &impl Rules) -> Option<Move> {
        while self.is_eligible(moment, id) {
            if !self.unmark_newest(id) {
                return self.acquire(moment, id, rules);
            }
        }
        None
    }

    /// Finds a core for a service without marked cores: one that another service has marked, else by the rules.
    pub(super) fn acquire(&mut self, moment: Moment<'_>, to: ServiceId, rules: &impl Rules) -> Option<Move> {
        for other in self.services.ids().filter(|&other| other != to) {
            self.refresh(moment, other);
        }
        let core = match self.kept_marked(moment.machine, to).or_else(|| rules.pick_marked(self, moment, to)) {
            Some(core) => core,
            None => match rules.if_none_marked(self, moment, to) {
                NoneMarked::Take(core) => core,
                NoneMarked::Force => self.force(moment, to)?,
                NoneMarked::Wait => return None,
            },
        };
        Some(self.give(moment, core, to))
    }

    /// Returns, of the marked cores that keep the code of the service, the one marked longest: its
    /// move is free.
    fn kept_marked(&self, machine: &Machine, to: ServiceId) -> Option<CoreId> {
        self.keeps_code.then(|| self.marks.iter().find(|&core| machine.keeps(core, to))).flatten()
    }

    /// Returns the marked cores, longest marked first, each with its service.
    pub(super) fn marked(&self) -> impl Iterator<Item = (CoreId, ServiceId)> + '_ {
        self.marks.iter().filter_map(|core| Some((core, self.owner[core]?)))
    }

    /// Returns an idle core of another service that has no packet to take and keeps the code of
    /// this one: its move is free.
    #[inline]
    pub(super) fn kept_idle(&self, machine: &Machine, to: ServiceId) -> Option<CoreId> {
        if self.keeps_code { self.find_kept_idle(machine, to) } else { None }
    }

    fn find_kept_idle(&self, machine: &Machine, to: ServiceId) -> Option<CoreId> {
        let spare = |id: ServiceId| machine.service(id).idle > machine.service(id).waiting;
        let others = machine.services().ids().filter(|&id| id != to && spare(id));
        others.flat_map(|id| machine.idle(id)).find(|&core| machine.keeps(core, to))
    }

    /// Returns the move of a core to a service.
    pub(super) fn give(&mut self, moment: Moment<'_>, core: CoreId, to: ServiceId) -> Move {
        self.unmark(core);
        self.seekers.insert(moment.machine.core(core).service);
        Move { core, to }
    }

    /// Handles an idle core of this service: the neediest other service may take one.
    #[inline(always)]
    pub(super) fn on_idle(&mut self, moment: Moment<'_>, idle: ServiceId, rules: &impl Rules) -> Option<Move> {
        self.refresh(moment, idle);
        if self.has_no_seekers() { None } else { self.choose(moment, rules) }
    }

    /// Finds a core for the neediest service that seeks one.
    #[inline(never)]
    fn choose(&mut self, moment: Moment<'_>, rules: &impl Rules) -> Option<Move> {
        let mut next = self.seekers.first();
        while let Some(id) = next {
            next = self.seekers.after(id);
            if !rules.seeks(self, moment, id) {
                self.seekers.remove(id);
            }
        }
        // Each service is tried once, the furthest beyond its limit first; a service without
        // success drops out.
        let mut bound = None;
        loop {
            let eligible = self.seekers.iter().filter(|&id| self.is_eligible(moment, id));
            let ranked = eligible.map(|id| (self.excess(moment, id), Reverse(id)));
            let neediest = ranked.filter(|&rank| bound.is_none_or(|bound| rank < bound)).max()?;
            bound = Some(neediest);
            let taken = self.find_core(moment, neediest.1.0, rules);
            if taken.is_some() {
                return taken;
            }
        }
    }

    /// Marks the cores of a service with an empty queue that its arrivals do not need (equation 6).
    #[inline(always)]
    pub(super) fn refresh(&mut self, moment: Moment<'_>, id: ServiceId) {
        if moment.backlog(id) > 0 {
            return;
        }
        if self.speeds.is_some() {
            return self.mark_by_speed(moment, id);
        }
        let service = &mut self.services[id];
        let spare = service.demand.spare(moment.now, moment.machine.service(id).cores);
        if service.marked != spare {
            self.mark(moment.machine, id, spare);
        }
    }

    /// Marks `cores` cores of a service, or as many as possible: first the idle ones, longest idle
    /// first, then those held longest.
    #[inline(never)]
    fn mark(&mut self, machine: &Machine, id: ServiceId, cores: u32) {
        while self.services[id].marked > cores {
            self.unmark_newest(id);
        }
        while self.services[id].marked < cores {
            let unmarked = |core: &CoreId| self.owner[*core].is_none();
            let core = machine.idle(id).find(unmarked).or_else(|| machine.held(id).find(unmarked));
            let Some(core) = core else { break };
            self.mark_one(id, core);
        }
    }

    fn mark_one(&mut self, id: ServiceId, core: CoreId) {
        self.owner[core] = Some(id);
        self.marks.push_back(core);
        self.marks_of.push_back(id, core);
        self.services[id].marked += 1;
    }

    /// Applies equation 6 to cores of unequal speed: the unmarked cores together are as fast as the
    /// arrivals need.
    #[inline(never)]
    fn mark_by_speed(&mut self, moment: Moment<'_>, id: ServiceId) {
        let machine = moment.machine;
        let service = &mut self.services[id];
        let (packets, window) = service.demand.latest(moment.now);
        let work = u128::from(packets) * u128::from(service.packet_time);
        let needed = (1000 * work).div_ceil(u128::from(window)) as u64;
        let mut left = self.unmarked_cores(machine, id).map(|core| self.speed(core)).sum::<u64>();
        while left < needed
            && let Some(core) = self.marks_of.back(id)
        {
            self.unmark(core);
            left += self.speed(core);
        }
        loop {
            let spare = |core: &CoreId| self.owner[*core].is_none() && left >= needed + self.speed(*core);
            let Some(core) = machine.idle(id).find(spare).or_else(|| machine.held(id).find(spare)) else { break };
            left -= self.speed(core);
            self.mark_one(id, core);
        }
    }

    /// Returns, in overload, the core that a service with more than its share must give up.
    pub(super) fn force(&mut self, moment: Moment<'_>, to: ServiceId) -> Option<CoreId> {
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

    /// Returns the cores that a service may take from others by force: its need, up to its guarantee.
    fn entitled(&mut self, moment: Moment<'_>, id: ServiceId) -> u32 {
        let service = &mut self.services[id];
        service.demand.needed(moment.now, moment.backlog(id)).min(service.guaranteed)
    }

    /// Computes the cores that each service should hold in overload: need up to the guarantee, the
    /// rest one by one to the queue furthest beyond its limit. Ties go to a service that already
    /// holds the cores, then to the lower id.
    ///
    /// Each core that a queue gets reduces its excess by c packets. So the result follows from the
    /// lowest excess at which queues still get cores.
    fn share_out(&mut self, moment: Moment<'_>) {
        for id in self.services.ids() {
            self.shares[id.index()] = self.entitled(moment, id);
        }
        let mut left = moment.machine.cores().len() as u32 - self.shares.iter().sum::<u32>();
        if left == 0 {
            return;
        }
        let level = self.level(moment, left);
        for id in self.services.ids() {
            let cores = self.cores_above(moment, id, level, left);
            self.shares[id.index()] += cores;
            left -= cores;
        }
        for holds in [true, false] {
            for id in self.services.ids() {
                let has_surplus = |share| moment.machine.service(id).cores > share;
                while left > 0 && self.residual(moment, id) == level && has_surplus(self.shares[id.index()]) == holds {
                    self.shares[id.index()] += 1;
                    left -= 1;
                }
            }
        }
    }

    /// Returns the least excess to which at most `left` cores can reduce all queues.
    fn level(&self, moment: Moment<'_>, left: u32) -> i64 {
        let most = self.services.ids().map(|id| self.residual(moment, id)).max().expect("at least one service");
        let step = self.services.iter().map(|service| service.demand.limit(1)).max().unwrap_or(0);
        let (mut low, mut high) = (most - step as i64 * (i64::from(left) + 1) - 1, most);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            let above = self.services.ids().map(|id| u64::from(self.cores_above(moment, id, middle, left)));
            if above.sum::<u64>() > u64::from(left) { low = middle } else { high = middle }
        }
        high
    }

    /// Returns the excess of a queue beyond the limit of its share.
    fn residual(&self, moment: Moment<'_>, id: ServiceId) -> i64 {
        i64::from(moment.backlog(id)) - self.demand(id).limit(self.shares[id.index()]) as i64
    }

    /// Returns the cores that reduce a queue to the excess `level`, at most one more than `left`.
    fn cores_above(&self, moment: Moment<'_>, id: ServiceId, level: i64, left: u32) -> u32 {
        let above = u64::try_from(self.residual(moment, id) - level).unwrap_or(0);
        let step = self.demand(id).limit(1);
        let cores = if above > 0 && step == 0 { u64::MAX } else { above.div_ceil(step.max(1)) };
        cores.min(u64::from(left) + 1) as u32
    }

    /// Returns the easiest core to take from the service furthest beyond its share.
    fn victim(&self, machine: &Machine, to: ServiceId) -> Option<CoreId> {
        let surplus = |id: ServiceId| machine.service(id).cores.saturating_sub(self.shares[id.index()]);
        let others = self.services.ids().filter(|&id| id != to && surplus(id) > 0);
        let victims = others.filter_map(|id| takeable(machine, id).map(|core| (surplus(id), Reverse(id), core)));
        victims.max_by_key(|&(surplus, id, _)| (surplus, id)).map(|(_, _, core)| core)
    }

    /// Returns q − Qlim over the unmarked cores.
    #[inline]
    pub(super) fn excess(&self, moment: Moment<'_>, id: ServiceId) -> i64 {
        let service = &self.services[id];
        let cores = moment.machine.service(id).cores - service.marked;
        let limit = match self.speeds {
            None => service.demand.limit(cores),
            Some(_) => self.limit_by_speed(moment.machine, id),
        };
        let queue = u64::from(moment.backlog(id)).saturating_add(service.demand.growth(moment.now, cores));
        queue as i64 - limit as i64
    }

    /// Whether a service has more packets waiting than its cores serve in time.
    #[inline]
    pub(super) fn is_eligible(&self, moment: Moment<'_>, id: ServiceId) -> bool {
        moment.backlog(id) > 0 && self.excess(moment, id) > 0
    }

    /// Returns the longest queue that the unmarked cores of a service serve in time: equations 2
    /// and 3 for unequal cores.
    fn limit_by_speed(&self, machine: &Machine, id: ServiceId) -> u64 {
        let Service { tolerance, packet_time, .. } = self.services[id];
        let in_time = |core| packets_in_time(tolerance, scaled_time(packet_time, self.speed(core)));
        self.unmarked_cores(machine, id).map(in_time).sum()
    }

    fn speed(&self, core: CoreId) -> u64 {
        self.speeds.as_ref().map_or(1000, |speeds| u64::from(speeds[core]))
    }

    /// Returns the unmarked cores of a service.
    fn unmarked_cores(&self, machine: &Machine, id: ServiceId) -> impl Iterator<Item = CoreId> {
        let cores = machine.cores();
        cores.ids().filter(move |&core| cores[core].service == id && self.owner[core].is_none())
    }

    #[inline]
    pub(super) fn demand(&self, id: ServiceId) -> &Demand {
        &self.services[id].demand
    }

    /// Returns the services that seek a core, and some that did before.
    #[inline]
    pub(super) fn seekers(&self) -> impl Iterator<Item = ServiceId> + '_ {
        self.seekers.iter()
    }

    /// Whether no service seeks a core.
    #[inline]
    pub(super) fn has_no_seekers(&self) -> bool {
        self.seekers.is_empty()
    }

    /// Whether no core is marked.
    pub(super) fn marks_nothing(&self) -> bool {
        self.marks.is_empty()
    }

    /// Whether a core is marked.
    #[cfg(test)]
    pub(super) fn is_marked(&self, core: CoreId) -> bool {
        self.owner[core].is_some()
    }

    /// Removes all marks of a service.
    pub(super) fn unmark_all(&mut self, id: ServiceId) {
        while self.unmark_newest(id) {}
    }

    /// Removes the newest mark of a service. Returns false if it has none.
    pub(super) fn unmark_newest(&mut self, id: ServiceId) -> bool {
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

    pub(super) fn check(&self) {
        assert_eq!(self.marks.len(), self.owner.iter().flatten().count(), "marked cores");
        for id in self.services.ids() {
            let marked = self.marks.iter().filter(|&core| self.owner[core] == Some(id));
            assert!(marked.eq(self.marks_of.iter(id)), "marked cores of service {id}");
            assert_eq!(self.marks_of.iter(id).count(), self.services[id].marked as usize, "marks of service {id}");
        }
    }
}

/// Returns the mean time of a packet of a service on the cores of this run, in ns.
pub(super) fn packet_time(config: &SchedulerConfig, service: &ServiceConfig) -> u64 {
    let all = (0..config.cores).map(|core| u64::from(config.speed(CoreId::from_index(core)))).sum::<u64>();
    scaled_time(service.packet_time.as_ns().max(1), all / config.cores as u64)
}

/// Returns the time at this speed, in thousandths of the usual speed, for `ns` at usual speed.
fn scaled_time(ns: u64, speed: u64) -> u64 {
    if speed == 1000 { ns } else { (ns.saturating_mul(1000) / speed.max(1)).max(1) }
}

/// Returns the speeds of the cores. `None`: all are equal.
fn uneven_speeds(config: &SchedulerConfig) -> Option<IdVec<CoreId, u32>> {
    let speeds: IdVec<CoreId, u32> = IdVec::from_fn(config.cores, |core| config.speed(core));
    let first = config.speed(CoreId(0));
    speeds.iter().any(|&speed| speed != first).then_some(speeds)
}

/// Returns the easiest core to take from a service: the one idle longest, or, without idle cores,
/// the one held longest.
fn takeable(machine: &Machine, id: ServiceId) -> Option<CoreId> {
    machine.idle(id).next().or_else(|| machine.held(id).next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing::{packets_wait, service, us};
    use crate::testing::config;
    use humpyard_core::random::Seed;

    fn engine(services: &[ServiceConfig], cores: usize) -> (Engine, Machine) {
        let window = Auto::Given(20_000_000);
        let config = SchedulerConfig { services: services.to_vec(), ..config(cores, 1, &[]) };
        let engine = Engine::new("test", ExtraReclaim::Literal, window, &config).unwrap();
        let mut initial = IdVec::from_fn(cores, |_| ServiceId(0));
        engine.initial(&mut initial);
        (engine, Machine::new(&initial, services.len()))
    }

    #[test]
    fn windows_beyond_all_use_are_refused() {
        let services = [service(18_220, 500, 400_000)];
        let config = SchedulerConfig { cores: 2, services: services.to_vec(), ..SchedulerConfig::default() };
        let built = |window| Engine::new("test", ExtraReclaim::Literal, Auto::Given(window), &config);
        assert!(built(1_000_000_000_000_000).is_ok());
        let said = built(u64::MAX).unwrap_err();
        assert!(
            format!("{said}")
                .starts_with("test: `window` must be at most 1000000000000000 (ns), not 18446744073709551615")
        );
    }

    /// Calculated by hand: shares in overload.
    #[test]
    fn shares_in_overload_of_the_specification() {
        let services = [service(18_220, 500, 400_000), service(10_090, 500, 400_000), service(9_720, 500, 200_000)];
        let (mut engine, mut machine) = engine(&services, 10);
        machine.cores().ids().for_each(|core| machine.on_dispatch(Time::ZERO, core));
        // The rates need 3.2, 2.1 and .3 cores.
        for (id, arrivals, waiting) in [(0, 3_513, 200), (1, 4_163, 20), (2, 617, 0)] {
            (0..arrivals).for_each(|_| engine.count_arrival(us(10_000), ServiceId(id)));
            packets_wait(&mut machine, ServiceId(id), waiting, us(10_000));
        }
        engine.share_out(Moment::new(us(10_000), &machine));
        assert_eq!(engine.shares, [6, 3, 1]);
    }

    /// As the specification defines it: one core after the other goes to the queue furthest beyond its limit.
    #[test]
    fn shares_in_overload_are_those_of_one_core_after_the_other() {
        let mut random = Seed(9).stream("test");
        for _ in 0..3_000 {
            let draw = |time| service(time, 50, 150_000);
            let services = [1_000, 7_000, 20_000, 30_000, 60_000].map(draw);
            let (mut engine, _) = engine(&services, 12);
            let initial = (0..12).map(|_| ServiceId(random.below(5) as u16)).collect();
            let mut machine = Machine::new(&initial, 5);
            initial.ids().for_each(|core| machine.on_dispatch(Time::ZERO, core));
            for id in engine.services.ids() {
                packets_wait(&mut machine, id, random.below(8) as u32 * random.below(20) as u32, us(1));
            }
            let moment = Moment::new(us(1), &machine);
            engine.share_out(moment);
            let found = engine.shares.clone();
            for id in engine.services.ids() {
                engine.shares[id.index()] = engine.entitled(moment, id);
            }
            while engine.shares.iter().sum::<u32>() < 12 {
                let rank = |id: ServiceId| {
                    let holds = machine.service(id).cores > engine.shares[id.index()];
                    (engine.residual(moment, id), holds, Reverse(id))
                };
                let neediest = engine.services.ids().max_by_key(|&id| rank(id)).unwrap();
                engine.shares[neediest.index()] += 1;
            }
            assert_eq!(found, engine.shares);
        }
    }

    /// D = 100 us, t = 10 us: a core of half the speed serves 5 in time, one of twice the speed 20,
    /// including the first.
    #[test]
    fn cores_of_unequal_speed() {
        let services = [service(10_000, 100, 1_000_000), service(10_000, 100, 0)];
        let speeds = [2000, 1000, 500, 500, 1000];
        let config = SchedulerConfig { services: services.to_vec(), speeds: speeds.to_vec(), ..config(5, 1, &[]) };
        let mut engine = Engine::new("test", ExtraReclaim::Literal, Auto::Given(100_000), &config).unwrap();
        let initial = [0, 0, 0, 0, 1].map(ServiceId).into_iter().collect();
        let mut machine = Machine::new(&initial, 2);
        assert_eq!(engine.limit_by_speed(&machine, ServiceId(0)), 19 + 9 + 4 + 4);
        assert_eq!(engine.demand(ServiceId(0)).packet_time, 10_000, "the mean is as usual");
        // 16 packets in 100 us need a speed of 1.6 of 4. The fast core comes first and is marked,
        // because the others without it are fast enough.
        (0..16).for_each(|_| engine.count_arrival(us(1), ServiceId(0)));
        engine.refresh(Moment::new(us(2), &machine), ServiceId(0));
        assert_eq!(engine.marks.iter().collect::<Vec<_>>(), [CoreId(0)]);
        (0..16).for_each(|_| engine.count_arrival(us(2), ServiceId(0)));
        engine.refresh(Moment::new(us(2), &machine), ServiceId(0));
        assert_eq!(engine.marks.iter().collect::<Vec<_>>(), [CoreId(2)], "3.2: half a core is spared");
        assert_eq!(engine.limit_by_speed(&machine, ServiceId(0)), 19 + 9 + 4);
        engine.refresh(Moment::new(us(200), &machine), ServiceId(0));
        assert_eq!(engine.marks.len(), 4, "silence");
        machine.on_dispatch(us(200), CoreId(0));
        engine.check();
    }

    /// If all cores have usual speed, the equations for unequal cores always give the same results
    /// as the plain ones.
    #[test]
    fn equal_speeds_are_the_plain_case() {
        let mut random = Seed(5).stream("test");
        let services = [service(10_000, 100, 600_000), service(3_000, 200, 400_000)];
        let (mut plain, mut machine) = engine(&services, 6);
        let (mut by_speed, _) = engine(&services, 6);
        by_speed.speeds = Some(IdVec::from_fn(6, |_| 1000));
        for step in 0..20_000 {
            let (now, id) = (us(step / 2), ServiceId(random.below(2) as u16));
            let core = CoreId(random.below(6) as u16);
            match random.below(4) {
                0 => {
                    plain.count_arrival(now, id);
                    by_speed.count_arrival(now, id);
                }
                1 => machine.on_dispatch(now, core),
                2 => machine.on_idle(now, core),
                _ => packets_wait(&mut machine, id, random.below(40) as u32, now),
            }
            let moment = Moment::new(now, &machine);
            assert_eq!(plain.excess(moment, id), by_speed.excess(moment, id));
            let orders = [&mut plain, &mut by_speed].map(|engine| {
                engine.refresh(moment, id);
                engine.find_core(moment, id, &Forced)
            });
            assert_eq!(orders[0], orders[1]);
            if let Some(order) = orders[0] {
                machine.on_move(order, true);
                machine.on_switched(now, order.core);
            }
            assert!(plain.marks.iter().eq(by_speed.marks.iter()));
        }
    }

    /// A marked core that keeps the service's code is chosen before the core marked longest.
    #[test]
    fn a_move_that_costs_nothing_goes_first() {
        let services = vec![service(10_000, 100, 500_000); 2];
        let mut config = SchedulerConfig { services, ..config(4, 1, &[]) };
        for (services_per_core, goes) in [(1, 2), (2, 3)] {
            config.services_per_core = services_per_core;
            let mut engine = Engine::new("test", ExtraReclaim::Literal, Auto::Auto, &config).unwrap();
            let initial = [0, 0, 1, 0].map(ServiceId).into_iter().collect();
            let mut machine = Machine::new(&initial, 2).keeping(services_per_core);
            machine.on_move(Move { core: CoreId(3), to: ServiceId(1) }, true);
            machine.on_switched(us(1), CoreId(3));
            packets_wait(&mut machine, ServiceId(0), 19, us(1_000));
            [CoreId(0), CoreId(1)].into_iter().for_each(|core| machine.on_dispatch(us(1), core));
            let order = engine.find_core(Moment::new(us(1_000), &machine), ServiceId(0), &Forced);
            assert_eq!(order, Some(Move { core: CoreId(goes), to: ServiceId(0) }), "{services_per_core} kept");
            let free = engine.kept_idle(&machine, ServiceId(0));
            assert_eq!(free, (services_per_core > 1).then_some(CoreId(3)));
        }
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
