//! Everest-LD: as `everest`, but a service requests a core after packets have been late, not before.
//!
//! **Idea.** This is the behaviour of schedulers that observe delays. A service whose latest packet
//! was late gets one core, and no other before that core can have had an effect. The rules of
//! `everest` decide which service gives up a core.
//!
//! **Source.** Everest (paper everest), section 5.1 and table 4: its variant that adapts late.
//!
//! **Promises.** A service with packets waiting is served eventually, even if it has lost all its cores. No
//! isolation in time: its guarantee comes one core at a time, and only after packets were late.
//!
//! **Cost.** O(1); O(services) when a service seeks a core; O(services · log c) when one is forced.
//!
//! **Invariants.** Those of `everest`.
//!
//! **Departures.** An arriving packet is a trigger too, if the first waiting packet is already
//! late: a service without cores completes no packet. Without an arrival, such a service is
//! considered when its first packet becomes late, or after a switch time if it tolerates any delay.
//! A service without waiting packets requests no core, even if its last packet was late.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::params;
use humpyard_core::policy::{Allocate, Auto, Build, BuildError, Cause, Family, Info, Machine, Move, Policy, Promise};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

use super::deadlines::Deadlines;
use super::engine::{Engine, ExtraReclaim, Forced, Moment, engine_handlers};

params! {
    /// Parameters of Everest-LD.
    pub struct EverestLdParams {
        /// When a service in overload may take a core beyond its need and guarantee.
        extra_reclaim: ExtraReclaim = ExtraReclaim::OncePerSwitchTime;
        /// The time over which the rate of arrivals is measured; `auto` is the switch cost.
        window: Auto = Auto::Auto, unit "ns";
    }
}

/// The state of one service.
#[derive(Clone, Copy, Debug)]
struct Service {
    tolerance: Time,
    switch_cost: Time,
    /// The longest time that a packet may wait: the tolerance, or a switch time if any delay is tolerated.
    patience: Time,
    /// The time when it last got a core or removed a mark.
    latest: Option<Time>,
}

/// Everest-LD.
#[derive(Debug)]
pub struct EverestLd {
    /// Marked cores, and shares in overload.
    engine: Engine,
    services: IdVec<ServiceId, Service>,
    /// The services that had a late packet and have received no core since.
    late: IdSet<ServiceId>,
    /// The time when the first packet of each service without a core becomes late.
    deadlines: Deadlines,
}

impl Build for EverestLd {
    type Params = EverestLdParams;
    const INFO: Info = Info {
        name: "everest-ld",
        family: Family::Allocate,
        summary: "everest that gives a service a core after packets were late, one in a switch time",
        source: "Everest-LD of the Everest paper, section 5.1 and table 4",
        promises: &[Promise::Served],
        complexity: "O(1); O(services) when a core is sought",
    };
    const VARIANTS: &'static [&'static str] = &["extra-reclaim=literal", "extra-reclaim=never"];

    fn new(params: &EverestLdParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let services = config.services.iter().map(|service| Service {
            tolerance: service.tolerance,
            switch_cost: service.switch_cost,
            patience: if service.tolerance < Time::MAX { service.tolerance } else { service.switch_cost },
            latest: None,
        });
        Ok(Self {
            engine: Engine::new("everest-ld", params.extra_reclaim, params.window, config)?,
            services: services.collect(),
            late: IdSet::new(config.services.len()),
            deadlines: Deadlines::new(config),
        })
    }
}

impl Policy for EverestLd {
    fn next_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    fn on_timeout(&mut self, now: Time) {
        self.deadlines.on_timeout(now);
    }

    fn check(&self) {
        self.engine.check();
    }
}

impl Allocate for EverestLd {
    // Handlers: cores start by guarantee, arrivals are counted, and the engine selects the idle
    // core that is asked first.
    engine_handlers!();

    #[inline]
    fn on_completion(&mut self, _: Time, _: CoreId, service: ServiceId, delay: Time) {
        if delay > self.services[service].tolerance {
            self.late.insert(service);
        } else if !self.late.is_empty() {
            self.late.remove(service);
        }
    }

    #[inline]
    fn reassign(&mut self, now: Time, cause: Cause, machine: &Machine) -> Option<Move> {
        let moment = Moment::new(now, machine);
        match cause {
            Cause::Arrival(service) => self.on_queue(moment, service),
            Cause::Completion(core) => self.help(moment, machine.core(core).service),
            Cause::Idle(core) => self.on_idle(moment, machine.core(core).service),
            Cause::Timeout => self.on_late(moment),
        }
    }
}

impl EverestLd {
    /// Handles a packet of this service that has arrived.
    #[inline]
    fn on_queue(&mut self, moment: Moment<'_>, id: ServiceId) -> Option<Move> {
        if moment.backlog(id) == 0 {
            self.engine.refresh(moment, id);
            return None;
        }
        let order = self.look(moment, id);
        if order.is_none() && moment.machine.service(id).cores == 0 {
            self.arm(moment, id);
        }
        order
    }

    /// Finds a core for a service whose first waiting packet or latest completed packet is late.
    fn look(&mut self, moment: Moment<'_>, id: ServiceId) -> Option<Move> {
        let oldest = moment.machine.service(id).oldest;
        let has_cause = self.services[id].latest.is_none_or(|latest| moment.now > latest);
        if has_cause && oldest.is_some_and(|oldest| moment.now.since(oldest) > self.services[id].patience) {
            self.late.insert(id);
        }
        self.help(moment, id)
    }

    /// Finds a core for a service that had a late packet: one of its own that is marked, else one
    /// of another service.
    #[inline]
    fn help(&mut self, moment: Moment<'_>, id: ServiceId) -> Option<Move> {
        if self.late.is_empty() || !self.is_eligible(moment, id) {
            return None;
        }
        let order = if self.engine.unmark_newest(id) { None } else { Some(self.engine.acquire(moment, id, &Forced)?) };
        if let Some(Move { core, .. }) = order {
            self.on_loss(moment, moment.machine.core(core).service);
        }
        self.late.remove(id);
        self.deadlines.remove(id);
        self.services[id].latest = Some(moment.now);
        order
    }

    #[inline]
    fn is_eligible(&self, moment: Moment<'_>, id: ServiceId) -> bool {
        let Service { latest, switch_cost, .. } = self.services[id];
        self.late.contains(id)
            && moment.backlog(id) > 0
            && latest.is_none_or(|latest| moment.now.since(latest) >= switch_cost)
    }

    /// Handles an idle core of this service: the neediest service with late packets may take one.
    #[inline]
    fn on_idle(&mut self, moment: Moment<'_>, idle: ServiceId) -> Option<Move> {
        self.engine.refresh(moment, idle);
        if self.late.is_empty() { None } else { self.choose(moment, idle) }
    }

    fn choose(&mut self, moment: Moment<'_>, idle: ServiceId) -> Option<Move> {
        let mut bound = None;
        loop {
            let eligible = self.late.iter().filter(|&id| id != idle && self.is_eligible(moment, id));
            let ranked = eligible.map(|id| (self.engine.excess(moment, id), core::cmp::Reverse(id)));
            let neediest = ranked.filter(|&rank| bound.is_none_or(|bound| rank < bound)).max()?;
            bound = Some(neediest);
            let taken = self.help(moment, neediest.1.0);
            if taken.is_some() {
                return taken;
            }
        }
    }

    /// Handles services without a core whose first packet is late.
    fn on_late(&mut self, moment: Moment<'_>) -> Option<Move> {
        while let Some(id) = self.deadlines.due() {
            self.deadlines.met(id);
            let state = moment.machine.service(id);
            if state.cores > 0 || state.waiting == 0 {
                continue;
            }
            let order = self.look(moment, id);
            if order.is_some() {
                return order;
            }
            self.arm(moment, id);
        }
        None
    }

    /// Handles the loss of a core. If it was the last and packets wait, the service needs a
    /// deadline, because possibly no more packet of it arrives or completes.
    fn on_loss(&mut self, moment: Moment<'_>, id: ServiceId) {
        let state = moment.machine.service(id);
        if state.cores == 1 && state.waiting > 0 {
            self.arm(moment, id);
        }
    }

    /// Sets the time at which a service without a core is considered: when its first packet is late.
    fn arm(&mut self, moment: Moment<'_>, id: ServiceId) {
        if let Some(oldest) = moment.machine.service(id).oldest {
            self.deadlines.set(moment.now, id, oldest + self.services[id].patience + Time::from_ns(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::everest::Everest;
    use crate::allocate::testing::{Bench, Scenario, service, us};
    use alloc::vec;
    use alloc::vec::Vec;

    fn bench(cores: &[u16]) -> Bench<EverestLd> {
        let busy: Vec<u16> = (0..cores.len() as u16).collect();
        let services = vec![service(10_000, 100, 500_000); 2];
        Bench::new(&EverestLdParams::default(), &services, cores).busy(&busy)
    }

    #[test]
    fn a_late_packet_gets_one_core_in_a_switch_time() {
        let mut bench = bench(&[0, 1, 1, 1]);
        assert_eq!(bench.arrival(us(1_000), 0, 50), [], "a long queue is no cause");
        assert_eq!(bench.completion(us(1_001), 0, us(100)), [], "in time");
        assert_eq!(bench.completion(us(1_002), 0, us(101)), [(1, 0)], "B, silent, needs none");
        assert_eq!(bench.completion(us(1_010), 0, us(109)), [], "it has had one");
        assert_eq!(bench.completion(us(1_052), 0, us(150)), [(2, 0)], "50 us later");
        assert_eq!(bench.arrival(us(1_101), 0, 60), [], "the first that waits is late, and the core on its way");
        assert_eq!(bench.arrival(us(1_102), 0, 61), [(3, 0)]);
    }

    #[test]
    fn a_service_without_a_core_is_asked_for_when_its_first_packet_is_late() {
        let mut bench = bench(&[1, 1]);
        assert_eq!(bench.arrival(us(500), 0, 1), []);
        assert_eq!(bench.arrival(us(510), 0, 2), []);
        let late = us(600) + Time::from_ns(1);
        assert_eq!(bench.policy.next_timeout(), Some(late));
        assert_eq!(bench.timeout(late), [(0, 0)]);
        assert_eq!(bench.policy.next_timeout(), None);
    }

    #[test]
    fn marks_are_taken_back_first() {
        let mut bench = bench(&[0, 0, 1, 1]);
        bench.idle(us(500), 0);
        assert!(bench.policy.engine.is_marked(CoreId(0)) && bench.policy.engine.is_marked(CoreId(1)));
        bench.machine.on_dispatch(us(501), CoreId(0));
        bench.arrival(us(501), 0, 3);
        assert_eq!(bench.completion(us(700), 0, us(150)), []);
        assert!(bench.policy.engine.is_marked(CoreId(0)) && !bench.policy.engine.is_marked(CoreId(1)));
    }

    /// It reacts later than `everest`, so more packets are late.
    #[test]
    fn it_is_later_than_everest() {
        let services = [service(10_000, 100, 666_667), service(10_000, 100, 333_333)];
        for packets in [26, 30, 60] {
            let arrivals = vec![(Time::ZERO, ServiceId(0)); packets];
            let scenario = Scenario { cores: 3, services: &services, arrivals: &arrivals };
            let (late, everest) = (scenario.run::<EverestLd>().late, scenario.run::<Everest>().late);
            assert!(late > everest, "{late} after {everest} of {packets}");
        }
    }
}
