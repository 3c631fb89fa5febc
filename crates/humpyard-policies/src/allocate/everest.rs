//! Everest: a service gets a core only when it will need it, and from whoever can spare one.
//!
//! **Idea.** Moving a core costs time, so a service asks for one only when its queue is longer than its cores can serve in
//! time. A service whose queue is empty marks the cores that its arrivals do not need; a marked core goes on serving until
//! another service takes it, and the mark is taken back first if its own service needs it. With no mark anywhere, cores are
//! forced from the services that hold more than their need and their guarantee.
//!
//! **Source.** Everest (paper everest). ALLOCATION sections 1 to 4; equations 2, 3 and 6; slips and choices in section 10.
//!
//! **Promises.** Isolation: a service that needs them has min(need, guarantee) cores after one switch and one packet, whatever
//! the others do.
//!
//! **Cost.** O(1) an arrival that finds its queue short; O(services + cores) when cores are sought; O(services · cores) in
//! overload.
//!
//! **Invariants.** `marks` holds the marked cores, longest marked first; each counts in its service's `marked`, which is at
//! most the service's cores.
//!
//! **Departures.** The paper's busy loop is event driven here. Need is the larger of what the queue and what the rate asks for;
//! the paper gives no formula. In overload a service takes an extra core at most once per switch time, or two long queues
//! would move it back and forth: `extra-reclaim=literal` is the paper's text.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::id::{CoreId, Id, IdVec, ServiceId};
use humpyard_core::policy::{
    Activity, Allocate, Auto, Build, BuildError, Cause, Family, Info, Machine, Move, Policy, Promise, Setup,
};
use humpyard_core::storage::{IdRing, IdSet};
use humpyard_core::unit::Time;
use humpyard_core::{choice, params};

use super::r#static::{check_cores, guaranteed_cores};

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

params! {
    /// Parameters of Everest.
    pub struct EverestParams {
        /// When a service in overload may take a core beyond its need and guarantee.
        extra_reclaim: ExtraReclaim = ExtraReclaim::OncePerSwitchTime;
        /// Over how long the rate of arrivals is measured; `auto` is the switch cost.
        window: Auto = Auto::Auto, unit "ns";
    }
}

/// What is known of one service.
#[derive(Clone, Debug)]
struct Service {
    /// Time of a packet (t), in ns.
    packet_time: u64,
    /// Packets that a core serves in time behind the first (c = floor(D/t) − 1).
    in_time: u64,
    /// Its guarantee in whole cores.
    guaranteed: u32,
    switch_cost: Time,
    /// Over how long arrivals are counted (Δ), in ns.
    window: u64,
    /// The arrivals of the latest window: as many as tell that every core is needed, at most.
    arrivals: VecDeque<Time>,
    /// Its marked cores.
    marked: u32,
    /// When it last took a core beyond its need and guarantee.
    latest_extra: Option<Time>,
}

/// Everest.
#[derive(Debug)]
pub struct Everest {
    extra_reclaim: ExtraReclaim,
    services: IdVec<ServiceId, Service>,
    /// The service of each core, if it is marked.
    owner: IdVec<CoreId, Option<ServiceId>>,
    /// The marked cores, longest marked first.
    marks: IdRing<CoreId>,
    /// Scratch for the shares in overload, by service.
    shares: Vec<u32>,
}

impl Build for Everest {
    type Params = EverestParams;
    const INFO: Info = Info {
        name: "everest",
        family: Family::Allocate,
        summary: "a service gets a core when its queue outgrows its tolerance, from whoever can spare one",
        source: "Everest (paper everest), with the choices of ALLOCATION section 10",
        promises: &[Promise::Isolation],
        complexity: "O(N + services)",
    };

    fn new(params: &EverestParams, setup: &Setup<'_>) -> Result<Self, BuildError> {
        check_cores("everest", setup)?;
        let guaranteed = guaranteed_cores(setup);
        let services: IdVec<ServiceId, Service> = setup
            .services
            .iter()
            .zip(&guaranteed)
            .map(|(service, &cores)| {
                let packet_time = service.packet_time.as_ns().max(1);
                let window = match params.window {
                    Auto::Auto => service.switch_cost.as_ns(),
                    Auto::Given(window) => window,
                };
                let window = window.max(WINDOW_MIN);
                let all_needed = (setup.cores as u64).saturating_mul(window).div_ceil(packet_time) + 1;
                Service {
                    packet_time,
                    in_time: packets_in_time(service.tolerance, packet_time),
                    guaranteed: cores as u32,
                    switch_cost: service.switch_cost,
                    window,
                    arrivals: VecDeque::with_capacity(all_needed.min(ARRIVALS_MAX) as usize),
                    marked: 0,
                    latest_extra: None,
                }
            })
            .collect();
        Ok(Self {
            extra_reclaim: params.extra_reclaim,
            shares: vec![0; services.len()],
            services,
            owner: IdVec::from_fn(setup.cores, |_| None),
            marks: IdRing::new(setup.cores),
        })
    }
}

impl Policy for Everest {
    fn check(&self) {
        assert_eq!(self.marks.len(), self.owner.iter().flatten().count(), "marked cores");
        for id in self.services.ids() {
            let marked = self.owner.iter().filter(|&&owner| owner == Some(id)).count();
            assert_eq!(marked, self.services[id].marked as usize, "marked cores of service {id}");
        }
    }
}

impl Allocate for Everest {
    fn initial(&mut self, allocation: &mut IdVec<CoreId, ServiceId>) {
        let cores: Vec<usize> = self.services.iter().map(|service| service.guaranteed as usize).collect();
        super::r#static::deal(&cores, allocation);
    }

    fn moves(&self) -> bool {
        true
    }

    fn on_arrival(&mut self, now: Time, service: ServiceId) {
        self.services[service].count_arrival(now);
    }

    fn reassign(&mut self, now: Time, cause: Cause, machine: &Machine<'_>) -> Option<Move> {
        match cause {
            Cause::Arrival(service) if machine.services[service].backlog() == 0 => {
                self.refresh(now, service, machine);
                None
            }
            Cause::Arrival(service) => self.need(now, service, machine),
            Cause::Idle(core) => self.on_idle(now, machine.cores[core].service, machine),
            Cause::Completion(_) | Cause::Timeout => None,
        }
    }

    /// Unmarked before marked, the latest idle first: it is the one most likely to be warm.
    fn place(&mut self, _: ServiceId, idle: &IdSet<CoreId>, machine: &Machine<'_>) -> CoreId {
        let since = |core: CoreId| match machine.cores[core].activity {
            Activity::Idle(since) => Some(since),
            Activity::Busy(_) | Activity::Switching => None,
        };
        let rank = |&core: &CoreId| (self.owner[core].is_none(), since(core), core::cmp::Reverse(core));
        idle.iter().max_by_key(rank).expect("a core is idle")
    }
}

impl Everest {
    /// A core of this service has nothing to do: the neediest of the others may take one.
    fn on_idle(&mut self, now: Time, idle: ServiceId, machine: &Machine<'_>) -> Option<Move> {
        self.refresh(now, idle, machine);
        // Each service is asked once, the furthest beyond its limit first; those asked in vain drop out.
        let mut asked = 0;
        let mut bound = None;
        while asked < self.services.len() {
            let excess = |id: ServiceId| (self.excess(id, machine), core::cmp::Reverse(id));
            let below = |id: &ServiceId| bound.is_none_or(|bound| excess(*id) < bound);
            let neediest = self.services.ids().filter(|&id| id != idle && self.is_eligible(id, machine)).filter(below);
            let service = neediest.max_by_key(|&id| excess(id))?;
            bound = Some(excess(service));
            asked += 1;
            let taken = self.need(now, service, machine);
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// Takes back marks of a service that needs its cores, or finds it another core.
    fn need(&mut self, now: Time, service: ServiceId, machine: &Machine<'_>) -> Option<Move> {
        while self.is_eligible(service, machine) {
            if !self.unmark_newest(service) {
                return self.acquire(now, service, machine);
            }
        }
        None
    }

    fn acquire(&mut self, now: Time, to: ServiceId, machine: &Machine<'_>) -> Option<Move> {
        for other in self.services.ids().filter(|&other| other != to) {
            self.refresh(now, other, machine);
        }
        let marked = self.marks.iter().find(|&core| self.owner[core] != Some(to));
        let core = match marked {
            Some(core) => core,
            None => self.overload(now, to, machine)?,
        };
        self.unmark(core);
        Some(Move { core, to })
    }

    /// With no mark anywhere: the core to be forced from a service that holds more than its share.
    fn overload(&mut self, now: Time, to: ServiceId, machine: &Machine<'_>) -> Option<CoreId> {
        self.share_out(now, machine);
        let held = |id: ServiceId| machine.services[id].cores;
        if held(to) >= self.shares[to.index()] || !self.may_take(now, to, machine) {
            return None;
        }
        let surplus = |id: ServiceId| held(id).saturating_sub(self.shares[id.index()]);
        let others = self.services.ids().filter(|&id| id != to && surplus(id) > 0);
        let victims =
            others.filter_map(|id| takeable(id, machine).map(|core| (surplus(id), core::cmp::Reverse(id), core)));
        victims.max_by_key(|&(surplus, id, _)| (surplus, id)).map(|(_, _, core)| core)
    }

    /// Whether a service in overload may have another core now; if that is an extra, it is noted.
    fn may_take(&mut self, now: Time, to: ServiceId, machine: &Machine<'_>) -> bool {
        let needed = self.services[to].needed(now, machine.services[to].backlog(), machine.cores.len());
        let service = &mut self.services[to];
        if machine.services[to].cores < needed.min(service.guaranteed) {
            return true;
        }
        let allowed = match self.extra_reclaim {
            ExtraReclaim::Literal => true,
            ExtraReclaim::OncePerSwitchTime => {
                service.latest_extra.is_none_or(|latest| now.since(latest) >= service.switch_cost)
            }
            ExtraReclaim::Never => false,
        };
        if allowed {
            service.latest_extra = Some(now);
        }
        allowed
    }

    /// The cores that each service should hold in overload: need up to the guarantee, the rest one by one to the queue
    /// furthest beyond its limit; ties to a service that holds them already, then to the lower id.
    fn share_out(&mut self, now: Time, machine: &Machine<'_>) {
        let cores = machine.cores.len();
        for id in self.services.ids() {
            let needed = self.services[id].needed(now, machine.services[id].backlog(), cores);
            self.shares[id.index()] = needed.min(self.services[id].guaranteed);
        }
        let left = cores as u32 - self.shares.iter().sum::<u32>();
        for _ in 0..left {
            let rank = |id: ServiceId| {
                let share = self.shares[id.index()];
                let state = &machine.services[id];
                let excess = i64::from(state.backlog()) - self.services[id].limit(share) as i64;
                (excess, state.cores > share, core::cmp::Reverse(id))
            };
            let neediest = self.services.ids().max_by_key(|&id| rank(id)).expect("at least one service");
            self.shares[neediest.index()] += 1;
        }
    }

    /// Marks as many cores of a service with an empty queue as its arrivals do not need (equation 6).
    fn refresh(&mut self, now: Time, id: ServiceId, machine: &Machine<'_>) {
        let state = &machine.services[id];
        if state.backlog() > 0 {
            return;
        }
        let spare = self.services[id].spare(now, state.cores);
        while self.services[id].marked > spare {
            self.unmark_newest(id);
        }
        while self.services[id].marked < spare {
            let owner = &self.owner;
            let Some(core) = best(id, machine, |core| owner[core].is_none()) else { break };
            self.owner[core] = Some(id);
            self.marks.push_back(core);
            self.services[id].marked += 1;
        }
    }

    /// q − Qlim over the cores that are not marked.
    fn excess(&self, id: ServiceId, machine: &Machine<'_>) -> i64 {
        let state = &machine.services[id];
        let service = &self.services[id];
        i64::from(state.backlog()) - service.limit(state.cores - service.marked) as i64
    }

    fn is_eligible(&self, id: ServiceId, machine: &Machine<'_>) -> bool {
        machine.services[id].backlog() > 0 && self.excess(id, machine) > 0
    }

    /// Takes back the newest mark of a service; false if it has none.
    fn unmark_newest(&mut self, id: ServiceId) -> bool {
        if self.services[id].marked == 0 {
            return false;
        }
        let newest = self.marks.iter().filter(|&core| self.owner[core] == Some(id)).last();
        self.unmark(newest.expect("a marked core is among the marks"));
        true
    }

    fn unmark(&mut self, core: CoreId) {
        if let Some(owner) = self.owner[core].take() {
            self.marks.remove(core);
            self.services[owner].marked -= 1;
        }
    }
}

impl Service {
    fn count_arrival(&mut self, now: Time) {
        self.forget_before(now);
        if self.arrivals.len() == self.arrivals.capacity() {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(now);
    }

    /// Only arrivals in (now − Δ, now] count.
    fn forget_before(&mut self, now: Time) {
        while self.arrivals.front().is_some_and(|&first| now.since(first).as_ns() >= self.window) {
            self.arrivals.pop_front();
        }
    }

    /// Work that arrived in the latest window, in ns.
    fn work(&mut self, now: Time) -> u64 {
        self.forget_before(now);
        self.arrivals.len() as u64 * self.packet_time
    }

    /// Cores of so many that the rate does not need: floor(cores − R·t).
    fn spare(&mut self, now: Time, cores: u32) -> u32 {
        let capacity = u64::from(cores) * self.window;
        (capacity.saturating_sub(self.work(now)) / self.window) as u32
    }

    /// Cores that queue and rate ask for, at most all.
    fn needed(&mut self, now: Time, backlog: u32, cores: usize) -> u32 {
        let for_rate = self.work(now).div_ceil(self.window);
        let for_queue = match (backlog, self.in_time) {
            (0, _) => 0,
            (_, 0) => cores as u64,
            (backlog, in_time) => u64::from(backlog).div_ceil(in_time),
        };
        for_rate.max(for_queue).min(cores as u64) as u32
    }

    /// The longest queue that so many cores serve in time (equation 3).
    fn limit(&self, cores: u32) -> u64 {
        u64::from(cores) * self.in_time
    }
}

/// c = floor(D/t) − 1, at least 0.
fn packets_in_time(tolerance: Time, packet_time: u64) -> u64 {
    (tolerance.as_ns() / packet_time).saturating_sub(1).min(u64::from(u32::MAX))
}

/// The core that a service parts with most easily.
fn takeable(service: ServiceId, machine: &Machine<'_>) -> Option<CoreId> {
    best(service, machine, |_| true)
}

/// The idle core of a service that is idle longest, else the busy one held longest; ties to the lower id.
fn best(service: ServiceId, machine: &Machine<'_>, also: impl Fn(CoreId) -> bool) -> Option<CoreId> {
    let of_service = |&core: &CoreId| {
        let state = &machine.cores[core];
        state.service == service && state.is_movable() && also(core)
    };
    let rank = |&core: &CoreId| match machine.cores[core].activity {
        Activity::Idle(since) => (0, since, core),
        Activity::Busy(_) | Activity::Switching => (1, machine.cores[core].held_since, core),
    };
    machine.cores.ids().filter(of_service).min_by_key(rank)
}

/// The shortest window, in ns.
const WINDOW_MIN: u64 = 1_000;
/// Most arrivals remembered per service; beyond that the rate is taken for at most this many per window.
const ARRIVALS_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::testing::{Outcome, Scenario, service, us};
    use crate::testing::setup;
    use humpyard_core::policy::{CoreState, ServiceSetup, ServiceState};

    /// Packet times of the paper's table 2, in the order of ALLOCATION section 2.
    const TABLE_2: [u64; 6] = [18_220, 13_270, 4_640, 10_090, 9_720, 1_780];

    #[test]
    fn packets_in_time_of_the_specification() {
        assert_eq!(TABLE_2.map(|time| packets_in_time(us(500), time)), [26, 36, 106, 48, 50, 279]);
        assert_eq!(TABLE_2.map(|time| packets_in_time(us(2000), time)), [108, 149, 430, 197, 204, 1122]);
        assert_eq!(packets_in_time(us(1), 18_220), 0);
    }

    /// Equation 6: 200,000 packets a second of 18.22 us need 3.644 cores; of six two can be spared.
    #[test]
    fn spare_cores_of_the_specification() {
        let services = [service(18_220, 2_000, 1_000_000)];
        let params = EverestParams { window: Auto::Given(2_000_000), ..EverestParams::default() };
        let mut everest = Everest::new(&params, &Setup { services: &services, ..setup(16, 1, &[]) }).unwrap();
        let service = &mut everest.services[ServiceId(0)];
        for arrival in 1..=400 {
            service.count_arrival(Time::from_ns(arrival * 5_000));
        }
        assert_eq!(service.spare(us(2000), 6), 2);
        assert_eq!(service.spare(us(2000), 3), 0);
        // A trickle keeps its last core, silence does not.
        assert_eq!(service.spare(us(3999), 1), 0);
        assert_eq!(service.spare(us(4000), 1), 1);
    }

    /// The example of ALLOCATION section 4.
    #[test]
    fn shares_in_overload_of_the_specification() {
        let services = [service(18_220, 500, 400_000), service(10_090, 500, 400_000), service(9_720, 500, 200_000)];
        let mut everest =
            Everest::new(&EverestParams::default(), &Setup { services: &services, ..setup(10, 1, &[]) }).unwrap();
        // Rates that need 3.2, 2.1 and .3 cores.
        for (id, arrivals) in [(0, 3_513), (1, 4_163), (2, 617)] {
            let service = &mut everest.services[ServiceId(id)];
            service.window = 20_000_000;
            service.arrivals = (0..arrivals).map(|_| us(10_000)).collect();
        }
        let state = |waiting, cores| ServiceState { waiting, oldest: None, cores, idle: 0 };
        let idle = Activity::Busy(Time::ZERO);
        let core = |service| CoreState { service, activity: idle, leaving: false, held_since: Time::ZERO };
        let machine = Machine {
            cores: &IdVec::from_fn(10, |core_id: CoreId| {
                core(ServiceId([0, 0, 0, 0, 1, 1, 1, 1, 2, 2][core_id.index()]))
            }),
            services: &[state(200, 4), state(20, 4), state(0, 2)].into_iter().collect(),
        };
        everest.share_out(us(10_000), &machine);
        assert_eq!(everest.shares, [6, 3, 1]);
    }

    const A: ServiceId = ServiceId(0);
    const B: ServiceId = ServiceId(1);

    /// n packets of A arrive together at 0; A holds two of three cores, B the third.
    fn burst(packets: usize, tolerance_us: u64, switch_cost_us: u64) -> Outcome {
        let service =
            |guarantee| ServiceSetup { switch_cost: us(switch_cost_us), ..service(10_000, tolerance_us, guarantee) };
        let services = [service(666_667), service(333_333)];
        Scenario { cores: 3, services: &services, arrivals: &vec![(Time::ZERO, A); packets] }.run::<Everest>()
    }

    /// ALLOCATION section 6: so many are late, the last is done then.
    #[test]
    fn the_worked_example() {
        for (packets, late, last_us) in [(25, 0, 100), (26, 1, 110), (28, 3, 110), (30, 5, 120)] {
            let outcome = burst(packets, 100, 50);
            let last = outcome.completions.last().map(|&(time, _)| time);
            assert_eq!((outcome.late, last, outcome.switches), (late, Some(us(last_us)), 1), "{packets} packets");
        }
    }

    /// Equations 4 and 5: the packet that makes a service fetch a core is in time if and only if D ≥ t_sw + t.
    #[test]
    fn the_last_moment_to_fetch_a_core() {
        let outcome = burst(21, 100, 90);
        assert_eq!((outcome.late, outcome.switches), (0, 1));
        assert_eq!(burst(18, 100, 50).switches, 0, "no core is fetched for a short queue");
    }

    /// Isolation: B has flooded every core for a while when A, silent so far, needs its two. One switch and one packet later
    /// they serve it, whatever B still has waiting.
    #[test]
    fn a_guarantee_is_there_after_one_switch_and_one_packet() {
        let services = [service(10_000, 100, 500_000), service(10_000, 100, 500_000)];
        for (begin_us, packets) in [(200, 19), (205, 40), (333, 25), (1000, 60), (1001, 33)] {
            let mut arrivals = vec![(Time::ZERO, B); 600];
            arrivals.extend(vec![(us(begin_us), A); packets]);
            let outcome = Scenario { cores: 4, services: &services, arrivals: &arrivals }.run::<Everest>();
            let of_a = outcome.completions.iter().filter(|&&(_, service)| service == A);
            for (nth, &(time, _)) in of_a.enumerate() {
                let two_cores = us(begin_us + 50 + 10 + 10 * (nth as u64 / 2 + 1));
                assert!(time <= two_cores, "packet {nth} of {packets} from {begin_us} us is done at {time:?}");
            }
        }
    }
}
