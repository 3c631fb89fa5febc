//! Everest's lower envelope (LES): moves cores early if a move is cheap, and late if it is expensive.
//!
//! **Idea.** When switching is cheap, eager moves to any queue are best; when it is expensive, those of
//! `everest` are. Three rules interpolate, using only switch cost, tolerance, queues and ages:
//! - Drain test: a service gets help early if its backlog outlives a switch.
//! - Ski rental: an early move takes only a core that has been idle for a switch time. So switches
//!   never cost more than the idle time already wasted.
//! - Slack: a service without a core waits for one that can be spared, until its latest start.
//!
//! **Algorithm.** Symbols as in `engine.rs`, which has Everest's own part: `find_core` takes back
//! marks, takes a marked core, or forces one. N is the number of all cores of i, marked or not. t_sw
//! is the time of a switch, T the idle time of a core. θ and φ are factors (1). μ is the longest time
//! for which a core given away may be busy.
//!
//! ```text
//! a packet of i arrives, or a core of i goes on to its next  on_queue, on_start, help
//!     if cores keep several services, and an idle one elsewhere keeps i: take it     kept_idle
//!     if i is eligible: find_core, with these rules where no mark of i is left:
//!         marked core: of the service with the least t_sw/D              pick_marked
//!             (before the latest start of i: only if that is not above i's own t_sw/D)
//!         none, N = 0, and before the latest start: wait                 if_none_marked: slack
//!         none, N = 0: the core idle longest                             longest_idle_but
//!         none, and a core has T ≥ cost²/D: take it                      idle_beyond
//!         none: force, as the engine does and `extra-reclaim` allows
//!     if that gave no core, q t > θ t_sw N, and no service with cores is eligible:   is_low
//!             (N = 0: q t + age of the oldest packet > θ t_sw)           drain test
//!         take back the marks of i                                       lend
//!         take the core idle longest, of those with T ≥ φ cost           lendable: ski rental
//!             and q t > θ cost N (N = 0: with the age, as above)
//!     if a packet of i came, no core was found, and N = 0: alarm at the latest start    arm
//!
//! a core has nothing to do                                   on_idle
//!     as `everest`, with the rules above
//!     if no service takes it, and no service with cores is eligible:     lend_to_longest
//!         i := of those that pass the drain test and may borrow a core, the one with the most
//!             q t/N (first those with N = 0, by q t);  it takes a core as above
//!
//! the alarm of i                                             on_urgent
//!     find_core: i no longer waits;  without success, `arm` again: after t_sw if the start has passed
//!
//! latest start of i = arrival of its oldest packet + D - t_sw - q t - μ
//! cost of a loan    = max(t_sw of the borrower, t_sw/D of the lender · D of the borrower)
//! ```
//!
//! If services differ in tolerance and switch cost, the way back counts too: hence this cost.
//!
//! **State.** That of the engine, and an alarm for each service without a core. C has none, and two
//! packets of 1.78 us. D = 500, t_sw = 200, μ = 18.22, so the alarm is at 278.22 us:
//!
//! ```text
//!           oldest packet of C          alarm (deadlines)         D is over
//!   time ────────┼────────────────────────────┼───────────────────────┼────►
//!                0  C may wait or borrow    278.22  then idle longest,  500
//!                                             │     or by force       │
//!                                             ├─ μ ─┼─ t_sw ─┼─ q t ──┤
//! ```
//!
//! **Source.** This project: an answer to the open question of Everest (paper everest, section
//! 5.3); docs/concepts/allocation.md.
//!
//! **Promises.** Isolation: a service that needs them has min(need, guarantee) cores after one
//! switch and one packet, whatever the other services do. For a service without a core, this counts
//! from its latest start.
//!
//! **Cost.** O(1) plus the marked cores passed over, while queues are short. O(services) when a
//! service seeks a core; O(services · log c) when one is forced.
//!
//! **Invariants.** Those of `everest`. Only services without a core have a deadline.
//!
//! **Departures.** After an urgent request without success, a service is considered again after
//! every switch time. Otherwise it could wait for an event that never comes. A service that
//! tolerates any delay has no latest start. An idle core that is about to take a packet is not
//! lent. Until its latest start, a service without a core does not take marked cores of services
//! with a greater t_sw/D than its own. Among equal values of t_sw/D, the core marked longest goes
//! first, as in the paper.

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::policy::{Allocate, Auto, Build, BuildError, Cause, Family, Info, Machine, Move, Policy, Promise};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;
use humpyard_core::{choice, params};

use super::deadlines::Deadlines;
use super::engine::{Engine, ExtraReclaim, Moment, NoneMarked, Rules, engine_handlers, packet_time};
use super::idle::{LongestIdle, longest_idle, longest_idle_but, longest_idle_elsewhere};

choice! {
    /// The rules that apply.
    pub enum RuleSet {
        /// All three.
        Les = "les",
        /// Drain test and ski rental.
        Le = "le",
        /// Slack.
        Evs = "evs",
    }
}

params! {
    /// Parameters of Everest's lower envelope.
    pub struct EverestEnvParams {
        /// The rules that hold: drain test and ski rental (`le`), slack (`evs`), or all three
        /// (`les`).
        rules: RuleSet = RuleSet::Les;
        /// A backlog that lasts longer than this many switch times is helped early.
        theta: f64 = 1.0, in 0.0..=1e6;
        /// A core that was idle for this many switch times is lent.
        phi: f64 = 1.0, in 0.0..=1e6;
        /// The longest time for which a core that is given away may be busy; services without a
        /// core allow for it. `auto` is the longest packet time.
        mu: Auto = Auto::Auto, unit "ns";
        /// When a service in overload may take a core beyond its need and guarantee.
        extra_reclaim: ExtraReclaim = ExtraReclaim::Never;
        /// The time over which the rate of arrivals is measured; `auto` is the switch cost.
        window: Auto = Auto::Auto, unit "ns";
    }
}

/// The limits of a service for the rules; times in ns.
#[derive(Clone, Copy, Debug)]
struct Limits {
    packet_time: u64,
    switch_cost: u64,
    tolerance: u64,
    /// t_sw/D in fixed point: how expensive it is to get back a core that was given away.
    dearness: u64,
    /// Whether it waits for its latest start while it has no core.
    may_wait: bool,
    /// The least backlog, in time of one core, that gets early help (θ·t_sw).
    drain: u64,
}

/// The three rules.
#[derive(Debug)]
struct Envelope {
    /// Whether drain test and ski rental apply.
    lends: bool,
    /// θ and φ in fixed point.
    theta: u64,
    phi: u64,
    limits: IdVec<ServiceId, Limits>,
    /// The longest time for which a core that is given away may be busy (μ).
    longest: u64,
}

/// Everest's lower envelope.
#[derive(Debug)]
pub struct EverestEnv {
    /// Eligible services, marked cores, and shares in overload.
    engine: Engine,
    rules: Envelope,
    /// The latest start of each service that waits for it without a core.
    deadlines: Deadlines,
}

impl Build for EverestEnv {
    type Params = EverestEnvParams;
    const INFO: Info = Info {
        name: "everest-env",
        family: Family::Allocate,
        summary: "everest that moves idle cores early where switching is cheap, and lets services without a core wait",
        source: "this project, for what Everest (paper everest, section 5.3) leaves open: docs/concepts/allocation.md",
        promises: &[Promise::Isolation],
        complexity: "O(1); O(services) when a core is sought",
    };
    const VARIANTS: &'static [&'static str] =
        &["rules=le", "rules=evs", "theta=0,phi=0", "extra-reclaim=literal,theta=0.1"];

    fn new(params: &EverestEnvParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self {
            engine: Engine::new("everest-env", params.extra_reclaim, params.window, config)?,
            rules: Envelope::new(params, config),
            deadlines: Deadlines::new(config),
        })
    }
}

impl Policy for EverestEnv {
    fn next_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    fn on_timeout(&mut self, now: Time) {
        self.deadlines.on_timeout(now);
    }

    fn check(&self) {
        self.engine.check();
        for id in self.rules.limits.ids() {
            assert!(
                self.rules.limits[id].may_wait || !self.deadlines.is_set(id),
                "service {id} has a deadline, and does not wait"
            );
        }
    }
}

impl Allocate for EverestEnv {
    // Handlers: cores start by guarantee, arrivals are counted, and the engine selects the idle
    // core that is asked first.
    engine_handlers!();

    #[inline]
    fn reassign(&mut self, now: Time, cause: Cause, machine: &Machine) -> Option<Move> {
        let moment = Moment::new(now, machine);
        let order = match cause {
            Cause::Arrival(service) => self.on_queue(moment, service),
            Cause::Completion(core) => self.on_start(moment, core),
            Cause::Idle(core) => self.on_idle(moment, core),
            Cause::Timeout => self.on_urgent(moment),
        };
        if let Some(Move { to, .. }) = order {
            self.deadlines.remove(to);
        }
        order
    }
}

impl EverestEnv {
    /// Handles a packet of this service that has arrived.
    #[inline]
    fn on_queue(&mut self, moment: Moment<'_>, id: ServiceId) -> Option<Move> {
        if moment.backlog(id) == 0 {
            self.engine.refresh(moment, id);
            return None;
        }
        let order = self.help(moment, id);
        if order.is_none() {
            self.arm(moment, id);
        }
        order
    }

    /// Handles a core that has completed a packet and continues with the next.
    #[inline]
    fn on_start(&mut self, moment: Moment<'_>, core: CoreId) -> Option<Move> {
        let id = moment.machine.core(core).service;
        let moment = Moment { starting: Some(id), ..moment };
        if !self.rules.lends || moment.backlog(id) == 0 {
            return None;
        }
        self.help(moment, id)
    }

    /// Finds a core for a service beyond its limit, or for one whose backlog would outlive a switch.
    #[inline]
    fn help(&mut self, moment: Moment<'_>, id: ServiceId) -> Option<Move> {
        if self.rules.lends
            && let Some(core) = self.engine.kept_idle(moment.machine, id)
        {
            return Some(self.engine.give(moment, core, id));
        }
        if !self.engine.note(moment, id, &self.rules) {
            return None;
        }
        let order = self.engine.find_core(moment, id, &self.rules);
        order.or_else(|| self.lend(moment, id))
    }

    /// Lends the core idle longest to a service that gets early help; removes the service's marks first.
    #[inline]
    fn lend(&mut self, moment: Moment<'_>, id: ServiceId) -> Option<Move> {
        if !self.rules.is_low(&self.engine, moment, id) {
            return None;
        }
        self.engine.unmark_all(id);
        let core = self.rules.lendable(moment, id)?;
        Some(self.engine.give(moment, core, id))
    }

    /// Sets the time at which a service without a core is considered again: its latest start, or,
    /// if that has passed, after a switch time.
    #[inline]
    fn arm(&mut self, moment: Moment<'_>, id: ServiceId) {
        if moment.machine.service(id).cores == 0 && self.rules.limits[id].may_wait {
            self.arm_waiting(moment, id);
        }
    }

    fn arm_waiting(&mut self, moment: Moment<'_>, id: ServiceId) {
        if let Some(latest) = self.rules.latest_start(moment, id).filter(|&latest| latest < Time::MAX) {
            self.deadlines.set(moment.now, id, latest);
        }
    }

    /// Handles a core without packets: first as `everest`, then it helps the longest backlog per
    /// core that may get early help.
    #[inline]
    fn on_idle(&mut self, moment: Moment<'_>, core: CoreId) -> Option<Move> {
        let order = self.engine.on_idle(moment, moment.machine.core(core).service, &self.rules);
        if order.is_some() || !self.rules.lends || self.engine.has_no_seekers() {
            return order;
        }
        self.lend_to_longest(moment)
    }

    fn lend_to_longest(&mut self, moment: Moment<'_>) -> Option<Move> {
        let rules = &self.rules;
        if rules.is_any_beyond(&self.engine, moment) {
            return None;
        }
        let low = self.engine.seekers().filter(|&id| rules.outlives_switch(moment, id));
        let idle = LongestIdle::of(moment.machine);
        let helped = low.filter(|&id| rules.may_borrow(moment, idle, id));
        let longest = helped.reduce(|longest, id| if rules.is_longer(moment, id, longest) { id } else { longest })?;
        self.lend(moment, longest)
    }

    /// Handles services whose latest start has come.
    fn on_urgent(&mut self, moment: Moment<'_>) -> Option<Move> {
        while let Some(id) = self.deadlines.due() {
            let order = self.engine.find_core(moment, id, &self.rules);
            if order.is_some() {
                return order;
            }
            self.deadlines.met(id);
            self.arm(moment, id);
        }
        None
    }
}

impl Rules for Envelope {
    #[inline]
    fn seeks(&self, engine: &Engine, moment: Moment<'_>, id: ServiceId) -> bool {
        if moment.backlog(id) == 0 {
            return false;
        }
        moment.machine.service(id).cores == 0 || self.outlives_switch(moment, id) || engine.is_eligible(moment, id)
    }

    fn pick_marked(&self, engine: &Engine, moment: Moment<'_>, to: ServiceId) -> Option<CoreId> {
        let most = if self.waits(moment, to) { self.limits[to].dearness } else { u64::MAX };
        let marked = engine.marked().map(|(core, from)| (self.limits[from].dearness, core));
        let cheapest = marked.filter(|&(dearness, _)| dearness <= most).min_by_key(|&(dearness, _)| dearness);
        cheapest.map(|(_, core)| core)
    }

    fn if_none_marked(&self, _: &Engine, moment: Moment<'_>, to: ServiceId) -> NoneMarked {
        if self.waits(moment, to) {
            return NoneMarked::Wait;
        }
        let core = if self.limits[to].may_wait && moment.machine.service(to).cores == 0 {
            longest_idle_but(moment.machine, to).map(|(_, core)| core)
        } else if self.lends {
            self.idle_beyond(moment, to)
        } else {
            None
        };
        core.map_or(NoneMarked::Force, NoneMarked::Take)
    }
}

impl Envelope {
    fn new(params: &EverestEnvParams, config: &SchedulerConfig) -> Self {
        let packet_time = |service: &ServiceConfig| packet_time(config, service);
        let longest = config.services.iter().map(packet_time).max().expect("at least one service");
        let [theta, phi] = [params.theta, params.phi].map(|factor| (factor * ONE as f64) as u64);
        let limits = |service: &ServiceConfig| {
            let (switch_cost, tolerance) = (service.switch_cost.as_ns(), service.tolerance.as_ns());
            Limits {
                packet_time: packet_time(service),
                switch_cost,
                tolerance,
                dearness: saturated(u128::from(switch_cost) * u128::from(ONE) / u128::from(tolerance.max(1))),
                may_wait: params.rules != RuleSet::Le && tolerance < u64::MAX,
                drain: times(theta, switch_cost),
            }
        };
        Self {
            lends: params.rules != RuleSet::Evs,
            theta,
            phi,
            limits: config.services.iter().map(limits).collect(),
            longest: if let Auto::Given(mu) = params.mu { mu } else { longest },
        }
    }

    /// Returns the time of one core for the backlog of a service, in ns.
    #[inline]
    fn work(&self, moment: Moment<'_>, id: ServiceId) -> u64 {
        u64::from(moment.backlog(id)).saturating_mul(self.limits[id].packet_time)
    }

    /// Whether a service without a core can still wait for one that is easily spared.
    #[inline]
    fn waits(&self, moment: Moment<'_>, id: ServiceId) -> bool {
        let can_wait = self.limits[id].may_wait && moment.machine.service(id).cores == 0;
        can_wait && self.latest_start(moment, id).is_none_or(|latest| moment.now < latest)
    }

    /// Returns the time at which a service without a core must receive one to serve its backlog in
    /// time. `None`: nothing waits.
    fn latest_start(&self, moment: Moment<'_>, id: ServiceId) -> Option<Time> {
        let Limits { switch_cost, tolerance, .. } = self.limits[id];
        let ahead = switch_cost.saturating_add(self.work(moment, id)).saturating_add(self.longest);
        let oldest = moment.machine.service(id).oldest?;
        Some(oldest + Time::from_ns(tolerance.saturating_sub(ahead)))
    }

    /// Returns the core that a service beyond its limit may take: one idle for cost²/D.
    fn idle_beyond(&self, moment: Moment<'_>, to: ServiceId) -> Option<CoreId> {
        let tolerance = u128::from(self.limits[to].tolerance.max(1));
        // Whether idle time is at least the quotient, rounded down. This avoids a division, which
        // would cost more than all the rest.
        let is_paid = |idle: u64, cost: u64| (u128::from(idle) + 1).saturating_mul(tolerance) > u128::from(cost).pow(2);
        self.longest_idle_of(moment, to, is_paid)
    }

    /// The drain test: whether the backlog of a service would outlive a switch while all cores
    /// serve in time what they must.
    #[inline]
    fn is_low(&self, engine: &Engine, moment: Moment<'_>, id: ServiceId) -> bool {
        self.outlives_switch(moment, id) && !self.is_any_beyond(engine, moment)
    }

    /// Whether a service that has cores needs more of them to serve its packets in time.
    #[inline]
    fn is_any_beyond(&self, engine: &Engine, moment: Moment<'_>) -> bool {
        engine.seekers().any(|id| moment.machine.service(id).cores > 0 && engine.is_eligible(moment, id))
    }

    /// Whether the backlog of a service keeps its cores busy for longer than a switch.
    #[inline]
    fn outlives_switch(&self, moment: Moment<'_>, id: ServiceId) -> bool {
        self.lends && self.outlives(moment, id, self.limits[id].drain)
    }

    /// Whether the backlog of a service keeps its cores busy for longer than `drain` ns.
    #[inline]
    fn outlives(&self, moment: Moment<'_>, id: ServiceId, drain: u64) -> bool {
        let (work, state) = (self.work(moment, id), moment.machine.service(id));
        if work == 0 {
            return false;
        }
        match (state.cores, state.oldest) {
            (0, Some(oldest)) => moment.now.since(oldest).as_ns().saturating_add(work) > drain,
            (cores, _) => work > drain.saturating_mul(u64::from(cores)),
        }
    }

    /// Returns the core that may be lent to a service: drain test and ski rental, by the cost of
    /// the loan. O(services).
    fn lendable(&self, moment: Moment<'_>, to: ServiceId) -> Option<CoreId> {
        self.longest_idle_of(moment, to, |idle, cost| self.is_worth(moment, to, idle, cost))
    }

    /// Whether a loan of this cost is worth it to a service, for a core that has been idle for
    /// `idle`; both in ns.
    #[inline]
    fn is_worth(&self, moment: Moment<'_>, to: ServiceId, idle: u64, cost: u64) -> bool {
        idle >= times(self.phi, cost) && self.outlives(moment, to, times(self.theta, cost))
    }

    /// Returns the core idle longest, of those whose idle time pays for their loan. `is_paid` takes
    /// the idle time and the cost, both in ns.
    ///
    /// If an idle time pays for a cost, a longer time pays for it too, and the same time pays for a lower cost.
    #[inline]
    fn longest_idle_of(&self, moment: Moment<'_>, to: ServiceId, is_paid: impl Fn(u64, u64) -> bool) -> Option<CoreId> {
        let ((since, core), from) = longest_idle_elsewhere(moment.machine, to)?;
        let longest = moment.now.since(since).as_ns();
        // No other core has been idle for longer, and no loan costs less than the way there.
        if !is_paid(longest, self.limits[to].switch_cost) {
            return None;
        }
        if is_paid(longest, self.cost(from, to)) {
            return Some(core);
        }
        self.longest_idle_paid(moment, to, is_paid)
    }

    /// As [`Self::longest_idle_of`], if the idle time of the core idle longest does not pay for its loan.
    #[cold]
    fn longest_idle_paid(
        &self,
        moment: Moment<'_>,
        to: ServiceId,
        is_paid: impl Fn(u64, u64) -> bool,
    ) -> Option<CoreId> {
        let others = longest_idle(moment.machine).filter(|&(from, _)| from != to);
        let paid = others.filter(|&(from, (since, _))| is_paid(moment.now.since(since).as_ns(), self.cost(from, to)));
        paid.map(|(_, idle)| idle).min().map(|(_, core)| core)
    }

    /// Returns the cost of a loan, in ns. It is the borrower's switch or the cost of the way back,
    /// whichever is more. The way back costs the part of the borrower's tolerance that the lender's
    /// switch is of the lender's tolerance. For a borrower that tolerates any delay, it costs the
    /// lender's switch.
    #[inline]
    fn cost(&self, from: ServiceId, to: ServiceId) -> u64 {
        let (from, to) = (&self.limits[from], &self.limits[to]);
        let back = if to.tolerance == u64::MAX { from.switch_cost } else { times(from.dearness, to.tolerance) };
        to.switch_cost.max(back)
    }

    /// Whether a service may borrow a core, as `lendable` finds it. O(1) if the way back costs no
    /// more than the way there, as among equal services.
    #[inline]
    fn may_borrow(&self, moment: Moment<'_>, idle: LongestIdle, to: ServiceId) -> bool {
        let Some(((since, _), from)) = idle.other_than(to) else { return false };
        let longest = moment.now.since(since).as_ns();
        // No other core has been idle for longer, and no loan costs less than the way there.
        longest >= times(self.phi, self.limits[to].switch_cost)
            && (self.is_worth(moment, to, longest, self.cost(from, to)) || self.lendable(moment, to).is_some())
    }

    /// Whether one service has a longer backlog per core than another; a service without cores has the longest.
    fn is_longer(&self, moment: Moment<'_>, one: ServiceId, other: ServiceId) -> bool {
        let cores = |id: ServiceId| u128::from(moment.machine.service(id).cores);
        let work = |id: ServiceId| u128::from(self.work(moment, id));
        let (ours, theirs) = (work(one) * cores(other), work(other) * cores(one));
        if cores(one) == 0 && cores(other) == 0 { work(one) > work(other) } else { ours > theirs }
    }
}

/// Returns `factor` times a span in ns; the factor is in fixed point.
#[inline]
fn times(factor: u64, ns: u64) -> u64 {
    saturated((u128::from(factor) * u128::from(ns)) >> 32)
}

fn saturated(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// One, in the fixed point of factors.
const ONE: u64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::everest::{Everest, EverestParams};
    use crate::allocate::testing::{
        Outcome, Scenario, TABLE_2, assert_a_guarantee_is_there_after_one_switch_and_one_packet, packets_wait, service,
        us,
    };
    use crate::testing::config;
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::policy::Params;
    use humpyard_core::random::Seed;

    const A: ServiceId = ServiceId(0);
    const B: ServiceId = ServiceId(1);

    /// A policy and a machine without a mechanism.
    struct Bench {
        policy: EverestEnv,
        machine: Machine,
    }

    impl Bench {
        /// Creates cores that belong to these services at the start, all idle since 0.
        fn new(params: &EverestEnvParams, services: &[ServiceConfig], cores: &[u16]) -> Self {
            let policy = EverestEnv::new(
                params,
                &SchedulerConfig { services: services.to_vec(), ..config(cores.len(), 1, &[]) },
            )
            .unwrap();
            let initial = cores.iter().copied().map(ServiceId).collect();
            Self { policy, machine: Machine::new(&initial, services.len()) }
        }

        fn busy(mut self, cores: &[u16]) -> Self {
            cores.iter().for_each(|&core| self.machine.on_dispatch(Time::ZERO, CoreId(core)));
            self
        }

        /// Reports an arrival now: `waiting` packets wait, and the first of them arrived at `oldest`.
        fn arrival(&mut self, now: Time, id: ServiceId, waiting: u32, oldest: Time) -> Option<Move> {
            packets_wait(&mut self.machine, id, waiting, oldest);
            self.policy.reassign(now, Cause::Arrival(id), &self.machine)
        }
    }

    fn params(rules: RuleSet) -> EverestEnvParams {
        EverestEnvParams { rules, ..EverestEnvParams::default() }
    }

    fn with_switch_cost(switch_cost: Time, service: ServiceConfig) -> ServiceConfig {
        ServiceConfig { switch_cost, ..service }
    }

    /// Service A with t = 18.22 us on three busy cores, B with one that has been idle since 0; D =
    /// 500 us, t_sw = 200 us.
    fn three_busy_and_one_idle(params: &EverestEnvParams) -> Bench {
        let service = |time| with_switch_cost(us(200), service(time, 500, 500_000));
        Bench::new(params, &[service(18_220), service(10_000)], &[0, 0, 0, 1]).busy(&[0, 1, 2])
    }

    /// Returns the smallest backlog of A for which a core comes at this time.
    fn first_help(params: &EverestEnvParams, now: Time) -> Option<u32> {
        (1..200).find(|&waiting| three_busy_and_one_idle(params).arrival(now, A, waiting, now).is_some())
    }

    #[test]
    fn thresholds_of_the_specification() {
        let to_a = Some(Move { core: CoreId(3), to: A });
        assert_eq!(three_busy_and_one_idle(&params(RuleSet::Les)).arrival(us(200), A, 33, us(200)), to_a);
        assert_eq!(first_help(&params(RuleSet::Les), us(200)), Some(33), "low");
        assert_eq!(first_help(&params(RuleSet::Le), us(200)), Some(33));
        assert_eq!(first_help(&params(RuleSet::Evs), us(200)), Some(79), "eligible");
        assert_eq!(first_help(&params(RuleSet::Les), Time::from_ns(199_999)), Some(79), "not idle for a switch time");
        assert_eq!(first_help(&EverestEnvParams { phi: 0.5, ..params(RuleSet::Les) }, us(100)), Some(33));
        assert_eq!(first_help(&EverestEnvParams { theta: 0.5, ..params(RuleSet::Les) }, us(200)), Some(17));
    }

    /// Two packets of 1.78 us, no core, D = 500 us, t_sw = 200 us, the longest packet 18.22 us.
    fn without_a_core() -> Bench {
        let service = |time| with_switch_cost(us(200), service(time, 500, 500_000));
        let services = [service(18_220), service(1_780)];
        let mut bench = Bench::new(&params(RuleSet::Les), &services, &[0, 0]).busy(&[0, 1]);
        // A needs both cores, so no core is marked, and none is idle.
        bench.policy.on_arrival(us(1_000), A);
        packets_wait(&mut bench.machine, A, 1, us(1_000));
        assert_eq!(bench.arrival(us(1_000), B, 1, us(1_000)), None);
        assert_eq!(bench.arrival(us(1_001), B, 2, us(1_000)), None);
        bench
    }

    #[test]
    fn the_latest_start_of_the_specification() {
        let mut bench = without_a_core();
        let latest = us(1_000) + Time::from_ns(278_220);
        assert_eq!(bench.policy.next_timeout(), Some(latest), "re-armed by the second packet, earlier");
        let early = Time::from_ns(latest.as_ns() - 1);
        bench.policy.on_timeout(early);
        assert_eq!(bench.policy.reassign(early, Cause::Timeout, &bench.machine), None);
        assert_eq!(bench.policy.next_timeout(), Some(latest));
        bench.policy.on_timeout(latest);
        let order = Move { core: CoreId(0), to: B };
        assert_eq!(bench.policy.reassign(latest, Cause::Timeout, &bench.machine), Some(order));
        bench.machine.on_move(order, false);
        assert_eq!(bench.policy.reassign(latest, Cause::Timeout, &bench.machine), None, "one core is enough");
        assert_eq!(bench.policy.next_timeout(), None);
        bench.policy.check();
    }

    /// A holds no more than its share and has packets for it: no service can be forced.
    #[test]
    fn a_service_urgent_in_vain_asks_again() {
        let mut bench = without_a_core();
        packets_wait(&mut bench.machine, A, 10, us(1_000));
        bench.machine.on_move(Move { core: CoreId(0), to: B }, true);
        bench.machine.on_switched(us(1_100), CoreId(0));
        bench.machine.on_move(Move { core: CoreId(0), to: A }, true);
        bench.machine.on_move(Move { core: CoreId(1), to: B }, false);
        bench.machine.on_leave(CoreId(1));
        bench.machine.on_switched(us(1_100), CoreId(1));
        bench.machine.on_move(Move { core: CoreId(1), to: A }, true);
        let latest = us(1_000) + Time::from_ns(278_220);
        bench.policy.on_timeout(latest);
        assert_eq!(bench.policy.reassign(latest, Cause::Timeout, &bench.machine), None, "both cores are switching");
        assert_eq!(bench.policy.next_timeout(), Some(latest + us(200)));
        bench.machine.on_switched(us(1_300), CoreId(0));
        bench.policy.on_timeout(latest + us(200));
        let order = bench.policy.reassign(latest + us(200), Cause::Timeout, &bench.machine);
        assert_eq!(order, Some(Move { core: CoreId(0), to: B }));
    }

    /// t_sw = 0: a packet that waits takes any idle core.
    #[test]
    fn without_switch_cost_it_is_eager() {
        let service = with_switch_cost(Time::ZERO, service(10_000, 500, 500_000));
        let mut bench = Bench::new(&params(RuleSet::Les), &[service.clone(), service], &[0, 1]).busy(&[0]);
        assert_eq!(bench.arrival(Time::ZERO, A, 1, Time::ZERO), Some(Move { core: CoreId(1), to: A }));
    }

    /// θ·t_sw ≥ D − t: a service that passes the drain test is beyond its limit too.
    #[test]
    fn with_dear_switches_it_is_everest() {
        for (time, tolerance_us, switch_us) in [(18_220, 500, 482), (10_000, 100, 90), (1_780, 500, 2_000)] {
            let service = with_switch_cost(us(switch_us), service(time, tolerance_us, 500_000));
            for cores in 1..4 {
                let initial: Vec<u16> = (0..4).map(|core| u16::from(core >= cores)).collect();
                let busy: Vec<u16> = (0..4).collect();
                let mut bench =
                    Bench::new(&params(RuleSet::Les), &[service.clone(), service.clone()], &initial).busy(&busy);
                for waiting in 0..2_000 {
                    packets_wait(&mut bench.machine, A, waiting, us(9));
                    let moment = Moment::new(us(10_000), &bench.machine);
                    let EverestEnv { engine, rules, .. } = &bench.policy;
                    assert!(!rules.is_low(engine, moment, A) || engine.is_eligible(moment, A), "{waiting} on {cores}");
                }
            }
        }
    }

    /// A service is eligible at Qlim + 1, not before. It removes a mark instead of switching a core.
    #[test]
    fn a_service_takes_its_mark_back_before_it_takes_a_core() {
        let service = service(10_000, 100, 500_000);
        let mut bench =
            Bench::new(&params(RuleSet::Evs), &[service.clone(), service], &[0, 0, 1, 1]).busy(&[0, 1, 2, 3]);
        for id in [A, B] {
            bench.policy.engine.refresh(Moment::new(us(500), &bench.machine), id);
        }
        // c = 9: both cores of A are marked, so one packet is beyond its limit; 10 need one core, 19 a third.
        for (waiting, marks, moves) in [(1, 3, 0), (9, 3, 0), (10, 2, 0), (18, 2, 0), (19, 1, 1)] {
            let order = bench.arrival(us(500), A, waiting, us(500));
            let left = bench.machine.cores().ids().filter(|&core| bench.policy.engine.is_marked(core)).count();
            assert_eq!((left, usize::from(order.is_some())), (marks, moves), "{waiting} packets");
        }
    }

    #[test]
    fn the_longest_backlog_per_core_is_helped_first() {
        let service = with_switch_cost(us(20), service(10_000, 10_000, 250_000));
        let initial = [0, 0, 0, 1, 1, 2];
        let mut bench = Bench::new(&params(RuleSet::Les), &vec![service; 3], &initial).busy(&[0, 1, 2, 3, 4]);
        for (id, waiting) in [(A, 12), (B, 9)] {
            assert_eq!(bench.arrival(us(5), id, waiting, us(5)), None);
        }
        let cause = Cause::Idle(CoreId(5));
        assert_eq!(bench.policy.reassign(us(19), cause, &bench.machine), None, "not idle for a switch time");
        let order = bench.policy.reassign(us(20), cause, &bench.machine);
        assert_eq!(order, Some(Move { core: CoreId(5), to: B }), "90/2 us against 120/3 us");
    }

    /// D = 1 ms, t_sw = 100 us and a core busy with 30 packets of 10 us. Lenders with other D and
    /// t_sw have been idle since 0.
    fn first_loan(lenders: &[(u64, u64)]) -> Option<(u64, CoreId)> {
        let lender =
            |&(tolerance_us, switch_us)| with_switch_cost(us(switch_us), service(10_000, tolerance_us, 250_000));
        let mut services = vec![with_switch_cost(us(100), service(10_000, 1_000, 250_000))];
        services.extend(lenders.iter().map(lender));
        let initial: Vec<u16> = (0..services.len() as u16).collect();
        (0..2_000).find_map(|at| {
            let mut bench = Bench::new(&params(RuleSet::Les), &services, &initial).busy(&[0]);
            // Each service has a packet in the window, so that no core is marked.
            (1..services.len() as u16).for_each(|id| bench.policy.on_arrival(us(at), ServiceId(id)));
            Some((at, bench.arrival(us(at), A, 30, us(at))?.core))
        })
    }

    /// D of the borrower is 1 ms: a loan costs the lender's t_sw/D times that, or the borrower's own t_sw.
    #[test]
    fn the_way_back_counts() {
        assert_eq!(first_loan(&[(1_000, 100)]), Some((100, CoreId(1))), "as the borrower: a switch time");
        assert_eq!(first_loan(&[(1_000, 25)]), Some((100, CoreId(1))), "no less");
        assert_eq!(first_loan(&[(1_000, 200)]), Some((200, CoreId(1))), "t_sw of the lender");
        assert_eq!(first_loan(&[(500, 100)]), Some((200, CoreId(1))), "that at half the tolerance");
        assert_eq!(first_loan(&[(250, 100)]), None, "the backlog of 300 us would not outlive 400 us");
        assert_eq!(first_loan(&[(1_000, 200), (4_000, 400)]), Some((100, CoreId(2))), "the cheaper one lends");
        assert_eq!(
            first_loan(&[(u64::MAX / 1_000, 200)]),
            Some((100, CoreId(1))),
            "who tolerates any delay is in no hurry"
        );
    }

    /// Marked cores of the service with the least t_sw/D go first, in any order of marks. A service
    /// that can wait does not take those of services with a greater t_sw/D than its own.
    #[test]
    fn marks_that_are_dear_go_last() {
        let kinds = [(1_000, 200), (1_000, 400), (1_000, 100), (1_000, 300)];
        let service =
            |(tolerance_us, switch_us)| with_switch_cost(us(switch_us), service(10_000, tolerance_us, 250_000));
        let services = kinds.map(service);
        let [waits, dear, cheap, between] = [0, 1, 2, 3].map(ServiceId);
        let taken = |marked: &[ServiceId], now: Time| {
            let mut bench = Bench::new(&params(RuleSet::Evs), &services, &[1, 2, 3, 1]).busy(&[0, 1, 2, 3]);
            // The services that must not be marked have arrivals.
            let kept = [dear, cheap, between].into_iter().filter(|id| !marked.contains(id));
            kept.for_each(|id| (0..100).for_each(|_| bench.policy.on_arrival(now, id)));
            marked.iter().for_each(|&id| bench.policy.engine.refresh(Moment::new(now, &bench.machine), id));
            let order = bench.arrival(now, waits, 1, us(10_000));
            bench.policy.check();
            order.map(|order| order.core.0)
        };
        let (early, latest) = (us(10_100), us(10_000 + 1_000 - 200 - 20));
        assert_eq!(taken(&[dear, between, cheap], early), Some(1));
        assert_eq!(taken(&[dear, between], early), None, "it can wait");
        assert_eq!(taken(&[dear, between], latest), Some(2), "it cannot");
        assert_eq!(taken(&[dear], latest), Some(0), "of equals the one marked longest");
    }

    /// If all services have the same D and t_sw, the rules are those of one t_sw: the core idle
    /// longest is lent after φ·t_sw, or t_sw²/D. The core marked longest goes first.
    #[test]
    fn with_equal_services_the_way_back_is_the_way_there() {
        let mut random = Seed(11).stream("test");
        for _ in 0..3_000 {
            let (tolerance, switch_cost) = (us(1 + random.below(3_000)), Time::from_ns(random.below(4_000_000)));
            let draw = |time| ServiceConfig { switch_cost, tolerance, ..service(time, 1, 166_666) };
            let services = TABLE_2.map(draw);
            let phi = random.below(9) as f64 / 4.0;
            let initial: Vec<u16> = (0..16).map(|_| random.below(6) as u16).collect();
            let mut bench = Bench::new(&EverestEnvParams { phi, ..params(RuleSet::Les) }, &services, &initial);
            let mut now = us(1);
            for _ in 0..24 {
                let core = CoreId(random.below(16) as u16);
                now += Time::from_ns(random.below(2 * switch_cost.as_ns().max(1)));
                bench.machine.on_dispatch(now, core);
                if random.below(3) > 0 {
                    bench.machine.on_idle(now, core);
                }
            }
            let ids: Vec<ServiceId> = bench.machine.services().ids().collect();
            ids.iter().for_each(|&id| {
                packets_wait(&mut bench.machine, id, random.below(3) as u32 * random.below(200) as u32, now);
            });
            let EverestEnv { engine, rules, .. } = &mut bench.policy;
            let moment = Moment::new(now, &bench.machine);
            ids.iter().for_each(|&id| engine.refresh(moment, id));
            for id in ids {
                let idle_for = |least: u64| {
                    let idle = longest_idle_but(&bench.machine, id);
                    idle.filter(|&(since, _)| now.since(since).as_ns() >= least).map(|(_, core)| core)
                };
                let switch_cost = switch_cost.as_ns();
                let rent = idle_for((phi * switch_cost as f64) as u64);
                assert_eq!(rules.lendable(moment, id), rent.filter(|_| rules.outlives_switch(moment, id)));
                let may_borrow = rules.may_borrow(moment, LongestIdle::of(&bench.machine), id);
                assert_eq!(may_borrow, rules.lendable(moment, id).is_some());
                let short = saturated(u128::from(switch_cost).pow(2) / u128::from(tolerance.as_ns()));
                assert_eq!(rules.idle_beyond(moment, id), idle_for(short));
                assert_eq!(rules.pick_marked(engine, moment, id), engine.marked().map(|(core, _)| core).next());
            }
        }
    }

    /// The worked example of `everest`: at most one core moves early, and no packet is later than
    /// with `everest`.
    #[test]
    fn the_worked_example() {
        let services = [service(10_000, 100, 666_667), service(10_000, 100, 333_333)];
        for packets in [18, 25, 26, 28, 30] {
            let scenario = Scenario { cores: 3, services: &services, arrivals: &vec![(Time::ZERO, A); packets] };
            let (envelope, everest) = (scenario.run::<EverestEnv>(), scenario.run::<Everest>());
            assert_eq!(envelope.late, everest.late, "{packets} packets");
            assert_eq!(envelope.completions.last(), everest.completions.last());
        }
    }

    #[test]
    fn a_guarantee_is_there_after_one_switch_and_one_packet() {
        assert_a_guarantee_is_there_after_one_switch_and_one_packet::<EverestEnv>();
    }

    /// A single packet of a sparse service is served in time, and not sooner than necessary: the
    /// service takes no core early.
    #[test]
    fn a_trickle_is_in_time() {
        let services = [service(10_000, 200, 500_000), service(10_000, 200, 500_000)];
        let mut arrivals = vec![(Time::ZERO, B); 600];
        arrivals.push((us(405), A));
        let outcome = Scenario { cores: 2, services: &services, arrivals: &arrivals }.run::<EverestEnv>();
        let (done, _) = outcome.completions.iter().copied().find(|&(_, service)| service == A).expect("it is served");
        // The latest start is 405 + 200 - 50 - 10 - 10 us. The core is busy until 540, and ready at 590.
        assert_eq!(done, us(600));
    }

    /// Returns the late packets in a hundred thousand, for `everest` and its envelope.
    fn late(arrivals: &[(Time, ServiceId)], services: &[ServiceConfig]) -> [f64; 2] {
        let scenario = Scenario { cores: 16, services, arrivals };
        let share = |outcome: Outcome| outcome.late as f64 * 1e5 / arrivals.len() as f64;
        let everest = scenario.run_with::<Everest>(&EverestParams::default(), false);
        let envelope = scenario.run_with::<EverestEnv>(&EverestEnvParams::default(), false);
        [share(everest), share(envelope)]
    }

    /// Returns the packets of all services. Two sources per service send at random times for 4 of 16 ms on
    /// average. Together they offer `load` to 16 cores, divided equally among the services.
    fn bursts(load: f64, end: Time, seed: Seed) -> Vec<(Time, ServiceId)> {
        let (on, off) = (4e6, 12e6);
        let sources = (0..2).flat_map(|_| (0..).map(ServiceId).zip(TABLE_2));
        let per_source = 16.0 * load / (2 * TABLE_2.len()) as f64 * (on + off) / on;
        let mut random = seed.stream("test");
        let mut arrivals = Vec::new();
        for (service, time) in sources {
            let mut now = random.exponential(off);
            while now < end.as_ns() as f64 {
                let pause = now + random.exponential(on);
                while now < pause {
                    arrivals.push((Time::from_ns(now as u64), service));
                    now += random.exponential(time as f64 / per_source);
                }
                now += random.exponential(off);
            }
        }
        arrivals.retain(|&(time, _)| time < end);
        arrivals.sort_unstable();
        arrivals
    }

    /// The envelope: at any switch cost, it is not later than `everest`, and much less late with
    /// cheap switches.
    #[test]
    fn it_is_late_no_more_often_than_everest() {
        for (switch_us, at_most) in [(5, 0.5), (50, 0.5), (500, 1.0)] {
            let services = TABLE_2.map(|time| with_switch_cost(us(switch_us), service(time, 500, 166_666)));
            let mut sums = [0.0; 2];
            for seed in 62..66 {
                let [everest, envelope] = late(&bursts(0.5, us(40_000), Seed(seed)), &services);
                let is_within = envelope <= everest * 1.25 || envelope <= everest + 20.0;
                assert!(is_within, "{envelope} after {everest} of 100,000 at {switch_us} us, seed {seed}");
                sums = [sums[0] + everest, sums[1] + envelope];
            }
            assert!(sums[1] < at_most * sums[0], "{} after {} at {switch_us} us", sums[1], sums[0]);
        }
    }

    #[test]
    fn parameters_that_make_no_sense_are_refused() {
        let mut params = EverestEnvParams::default();
        assert!(params.set("everest-env", "theta", "-1").is_err());
        assert!(params.set("everest-env", "rules", "everest").is_err());
        assert!(params.set("everest-env", "rules", "evs").is_ok());
    }
}
