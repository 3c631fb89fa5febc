//! Open vSwitch's receive queues: flows are hashed to queues, and queues are assigned to cores by measured load.
//!
//! **Idea.** The queue is the unit: all its packets are on one core. When a core has been busy
//! throughout an interval, the policy works out a new assignment by the work that was measured in
//! each queue. The new assignment counts only if it makes the loads of cores clearly more even.
//!
//! **Source.** Open vSwitch. Documentation of the userspace datapath's PMD threads. RIVALS.
//!
//! **Promises.** Minimal disruption: when a core goes, only the connections of its queues move;
//! when a core comes, connections move only to it. At the end of an interval queues move only if
//! the variance of the cores' loads falls by a quarter or more. No order at that moment.
//!
//! **Cost.** O(1) for a packet, O(N) six times in an interval. For each service, a new assignment
//! of Q queues takes O(Q log Q + Q N).
//!
//! **Invariants.** Every queue is on a core that may serve it. No core has been busy for longer
//! than the part of the interval.
//!
//! **Departures.** "Throughout" means in each sixth of the interval. Until loads are measured,
//! queues are dealt to cores in turn, whatever `assign` says. Each service has its own queues on its
//! own cores, and their loads add up on a core. A queue that did no work stays where it is. While
//! no packet arrives, nothing is measured.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::{Time, Work};
use humpyard_core::{choice, params};

use super::buckets::Buckets;
use super::interval::Interval;

choice! {
    /// How queues are assigned to cores.
    pub enum Assign {
        /// By number, dealt in turn.
        RoundRobin = "roundrobin",
        /// By load, descending, dealt up and down.
        Cycles = "cycles",
        /// By load, descending, each to the least loaded core.
        Group = "group",
    }
}

params! {
    /// Parameters of Open vSwitch's receive queues.
    pub struct OvsParams {
        /// How queues are assigned: by number in turn, or by descending load, dealt up and down or
        /// each to the least loaded core.
        assign: Assign = Assign::Group;
        /// Receive queues of each service; `auto` is four for each core.
        queues: Auto = Auto::Auto, unit "queues";
        /// Whether queues are ever assigned again; otherwise they stay as dealt in turn.
        autolb: bool = true;
        /// How often queues may be assigned again.
        interval: u64 = 60_000_000, in 1..=600_000_000, unit "us";
    }
}

/// Queues per core, unless the parameter says otherwise.
const QUEUES_PER_CORE: u64 = 4;

/// The most queues of a service.
const QUEUES_MAX: u64 = 1 << 20;

/// Parts of an interval in each of which an overloaded core is busy.
const PARTS: u32 = 6;

/// The fraction of a part from which a core counts as busy throughout, in percent.
const BUSY_PERCENT: u128 = 95;

/// The least reduction of the variance for which queues move, as a divisor of the variance.
const REDUCTION: u128 = 4;

/// How busy a core is.
#[derive(Clone, Copy, Debug)]
struct BusyTime {
    /// Packets in service.
    in_service: u32,
    /// Since when the time is to be added, if a packet is in service.
    since: Time,
    /// Time in this part of the interval in which packets were in service.
    busy: Time,
    /// The parts of this interval throughout which it was busy.
    full: u32,
}

impl BusyTime {
    const IDLE: Self = Self { in_service: 0, since: Time::ZERO, busy: Time::ZERO, full: 0 };

    /// Adds the time until now.
    fn advance(&mut self, now: Time) {
        if self.in_service > 0 {
            self.busy += now.since(self.since);
        }
        self.since = now;
    }
}

/// Open vSwitch's receive queues.
#[derive(Debug)]
pub struct Ovs {
    assign: Assign,
    balances: bool,
    /// A part of the interval after which queues may be assigned again.
    part: Interval,
    /// When this part began, and the parts of the interval that are over.
    begin: Time,
    parts: u32,
    queues: Buckets,
    /// The work done for each queue in this interval, by service.
    loads: IdVec<ServiceId, Vec<Work>>,
    cores: IdVec<CoreId, BusyTime>,
    /// Scratch space: the loads of cores as queues are and as they would be, the queues with work, and their
    /// new cores.
    before: IdVec<CoreId, u64>,
    after: IdVec<CoreId, u64>,
    order: Vec<u32>,
    planned: Vec<CoreId>,
    /// The number of queues that were assigned to another core.
    moved: u64,
}

impl Build for Ovs {
    type Params = OvsParams;
    const INFO: Info = Info {
        name: "ovs",
        family: Family::Steer,
        summary: "each connection by its receive queue; queues are assigned anew if a core is busy throughout",
        source: "Open vSwitch. Documentation of the userspace datapath's PMD threads",
        promises: &[Promise::MinimalDisruption],
        complexity: "O(1); O(Q log Q + Q N) when Q queues are assigned anew",
    };
    const VARIANTS: &'static [&'static str] =
        &["interval=60", "assign=cycles,interval=200", "assign=roundrobin,queues=5,interval=60", "autolb=false"];

    fn new(params: &OvsParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let queues = match params.queues {
            Auto::Auto => QUEUES_PER_CORE * config.cores as u64,
            Auto::Given(queues) if queues <= QUEUES_MAX => queues,
            Auto::Given(queues) => {
                let most = format!("ovs: `queues` must be at most {QUEUES_MAX}, not {queues}");
                return Err(BuildError::bad_value(most));
            }
        } as usize;
        Ok(Self {
            assign: params.assign,
            balances: params.autolb,
            part: Interval::new(Time::from_ns(1000 * params.interval / u64::from(PARTS))),
            begin: Time::ZERO,
            parts: 0,
            queues: Buckets::new(queues, config),
            loads: IdVec::from_fn(config.services.len(), |_| vec![0; queues]),
            cores: IdVec::from_fn(config.cores, |_| BusyTime::IDLE),
            before: IdVec::from_fn(config.cores, |_| 0),
            after: IdVec::from_fn(config.cores, |_| 0),
            order: Vec::with_capacity(queues),
            planned: vec![CoreId(0); queues],
            moved: 0,
        })
    }
}

impl Policy for Ovs {
    fn keeps_time(&self) -> bool {
        self.balances
    }

    fn next_timeout(&self) -> Option<Time> {
        self.part.end()
    }

    fn on_timeout(&mut self, now: Time) {
        if !self.part.is_over(now) {
            return;
        }
        self.end_part(now);
        if self.parts == PARTS {
            self.balance();
            self.begin_interval(now);
        }
    }

    fn check(&self) {
        for id in self.cores.ids() {
            let core = &self.cores[id];
            assert!(core.full <= self.parts && self.parts < PARTS, "core {id} was busy in {} parts", core.full);
            assert!(core.busy <= core.since.since(self.begin), "core {id} was busy for {:?}", core.busy);
        }
    }
}

impl Steer for Ovs {
    #[inline]
    fn steer(&mut self, _: Time, packet: &Packet, view: &View<'_>) -> Target {
        let owners = self.queues.owners(packet.service, view.eligible);
        Target::Core(owners[queue_of(packet, owners.len())])
    }

    #[inline]
    fn on_enqueue(&mut self, now: Time, _: Target, _: &Packet) {
        if self.balances {
            if self.part.end().is_none() {
                self.begin_interval(now);
            }
            self.part.on_packet(now);
        }
    }

    #[inline]
    fn on_dispatch(&mut self, now: Time, core: CoreId, _: Target, _: &Packet) {
        if self.balances {
            let core = &mut self.cores[core];
            core.advance(now);
            core.in_service += 1;
        }
    }

    #[inline]
    fn on_completion(&mut self, now: Time, core: CoreId, packet: &Packet, used: Work) {
        if self.balances {
            let core = &mut self.cores[core];
            core.advance(now);
            // Packets that were in service when the policy took over were never dispatched by it.
            core.in_service = core.in_service.saturating_sub(1);
            let loads = &mut self.loads[packet.service];
            let queue = queue_of(packet, loads.len());
            let load = &mut loads[queue];
            *load = load.saturating_add(used);
        }
    }

    fn explain(&self, packet: &Packet, _: &View<'_>) -> Option<String> {
        let loads = &self.loads[packet.service];
        let queue = queue_of(packet, loads.len());
        Some(format!("its receive queue {queue} has done {} of work in this interval", loads[queue]))
    }
}

/// Returns the receive queue of a packet.
fn queue_of(packet: &Packet, queues: usize) -> usize {
    (packet.rss % queues as u32) as usize
}

impl Ovs {
    /// Returns the number of queues that were assigned to another core because loads were not even.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Forgets what was measured, and measures anew.
    fn begin_interval(&mut self, now: Time) {
        self.parts = 0;
        self.loads.iter_mut().for_each(|loads| loads.fill(0));
        self.cores.iter_mut().for_each(|core| core.full = 0);
        self.begin_part(now);
    }

    fn begin_part(&mut self, now: Time) {
        self.begin = now;
        for core in self.cores.iter_mut() {
            core.since = now;
            core.busy = Time::ZERO;
        }
    }

    /// Counts the cores that were busy throughout this part of the interval, and begins the next.
    fn end_part(&mut self, now: Time) {
        let length = u128::from(now.since(self.begin).as_ns());
        for core in self.cores.iter_mut() {
            core.advance(now);
            let is_full = u128::from(core.busy.as_ns()) * 100 >= length * BUSY_PERCENT;
            core.full += u32::from(is_full);
        }
        self.parts += 1;
        self.begin_part(now);
    }

    /// Assigns the queues of each service that has an overloaded core, if that makes loads more even.
    fn balance(&mut self) {
        if self.cores.iter().all(|core| core.full < PARTS) {
            return;
        }
        self.before.iter_mut().for_each(|load| *load = 0);
        for service in self.loads.ids() {
            add_up(&mut self.before, self.queues.table(service).1, &self.loads[service]);
        }
        for service in self.loads.ids() {
            let cores = &self.cores;
            if self.queues.table(service).0.iter().any(|&core| cores[core].full == PARTS) {
                self.balance_service(service);
            }
        }
    }

    fn balance_service(&mut self, service: ServiceId) {
        self.plan(service);
        let (eligible, owners) = self.queues.table(service);
        let (before, after) = (variance(&self.before, eligible), variance(&self.after, eligible));
        if before.saturating_sub(after) < before.div_ceil(REDUCTION).max(1) {
            return;
        }
        self.moved += owners.iter().zip(&self.planned).filter(|(owner, planned)| owner != planned).count() as u64;
        owners.copy_from_slice(&self.planned);
        eligible.iter().for_each(|&core| self.before[core] = self.after[core]);
    }

    /// Plans an assignment of a service's queues, and works out the loads of its cores.
    fn plan(&mut self, service: ServiceId) {
        let Self { assign, queues, loads, before, after, order, planned, .. } = self;
        let loads = &loads[service];
        let (eligible, owners) = queues.table(service);
        planned.copy_from_slice(owners);
        eligible.iter().for_each(|&core| after[core] = before[core]);
        for (&owner, &load) in owners.iter().zip(loads) {
            after[owner] = after[owner].saturating_sub(load);
        }
        order.clear();
        order.extend((0..loads.len() as u32).filter(|&queue| loads[queue as usize] > 0));
        if *assign != Assign::RoundRobin {
            order.sort_unstable_by_key(|&queue| (Reverse(loads[queue as usize]), queue));
        }
        for (turn, &queue) in order.iter().enumerate() {
            let (queue, place) = (queue as usize, turn % eligible.len());
            let core = match assign {
                Assign::RoundRobin => eligible[queue % eligible.len()],
                Assign::Cycles if (turn / eligible.len()).is_multiple_of(2) => eligible[place],
                Assign::Cycles => eligible[eligible.len() - 1 - place],
                Assign::Group => eligible.iter().copied().min_by_key(|&core| after[core]).expect("at least one core"),
            };
            planned[queue] = core;
            after[core] = after[core].saturating_add(loads[queue]);
        }
    }
}

/// Adds the load of each queue to that of its core.
fn add_up(cores: &mut IdVec<CoreId, u64>, owners: &[CoreId], loads: &[Work]) {
    for (&owner, &load) in owners.iter().zip(loads) {
        cores[owner] = cores[owner].saturating_add(load);
    }
}

/// Returns the variance of the loads of these cores, times the square of their number. Loads count in
/// greater units if they sum to 2^56 or more, so that 128 bits hold the result.
fn variance(loads: &IdVec<CoreId, u64>, cores: &[CoreId]) -> u128 {
    let of = |core: &CoreId| u128::from(loads[*core]);
    let total: u128 = cores.iter().map(of).sum();
    let scale = (128 - total.leading_zeros()).saturating_sub(56);
    let squares: u128 = cores.iter().map(|core| (of(core) >> scale).pow(2)).sum();
    cores.len() as u128 * squares - cores.iter().map(|core| of(core) >> scale).sum::<u128>().pow(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{cores_of, views};
    use crate::testing::config;
    use alloc::string::ToString;
    use humpyard_core::config::ServiceConfig;
    use humpyard_core::id::Id;
    use humpyard_core::random::Seed;

    /// A part of the interval of a [`Port`], in ns.
    const PART: u64 = 100_000;
    /// Loads of receive queues in RIVALS.
    const LOADS: [u64; 6] = [80, 60, 50, 40, 20, 10];

    /// A policy without a machine around it, and a service for each row of loads.
    struct Port {
        policy: Ovs,
        now: u64,
    }

    impl Port {
        fn new(assign: Assign, cores: usize, queues: u64, services: usize) -> Self {
            let interval = u64::from(PARTS) * PART / 1000;
            let params = OvsParams { assign, queues: Auto::Given(queues), interval, ..OvsParams::default() };
            Self::with(&params, cores, services)
        }

        fn with(params: &OvsParams, cores: usize, services: usize) -> Self {
            let services = vec![ServiceConfig::default(); services];
            let config = SchedulerConfig { services, ..config(cores, 1, &[]) };
            Self { policy: Ovs::new(params, &config).unwrap(), now: 0 }
        }

        /// Lets a packet of this queue arrive, and goes on at once. Returns its core.
        fn arrive(&mut self, packet: &Packet) -> CoreId {
            let all: Vec<CoreId> = self.policy.cores.ids().collect();
            let (now, cores) = (Time::from_ns(self.now), views(&vec![0; all.len()]));
            let target = self.policy.steer(now, packet, &View { as_of: now, cores: &cores, eligible: &all });
            self.policy.on_enqueue(now, target, packet);
            self.policy.check();
            target.core().expect("a core")
        }

        /// Lets every queue do this work, and core 0 be busy for a percentage of each part of an
        /// interval. Then the interval ends.
        fn interval_of(&mut self, loads: &[&[u64]], busy_percent: [u64; PARTS as usize]) {
            for (service, loads) in loads.iter().enumerate() {
                for (rss, &used) in (0..).zip(*loads) {
                    let packet = Packet { rss, service: ServiceId::from_index(service), ..Packet::default() };
                    let core = self.arrive(&packet);
                    let now = Time::from_ns(self.now);
                    self.policy.on_dispatch(now, core, Target::Core(core), &packet);
                    self.policy.on_completion(now, core, &packet, used);
                }
            }
            for percent in busy_percent {
                let (core, packet) = (CoreId(0), Packet::default());
                self.arrive(&packet);
                self.policy.on_dispatch(Time::from_ns(self.now), core, Target::Core(core), &packet);
                self.policy.on_completion(Time::from_ns(self.now + percent * PART / 100), core, &packet, 0);
                self.now += PART;
                assert_eq!(self.policy.next_timeout(), Some(Time::from_ns(self.now)));
                self.policy.on_timeout(Time::from_ns(self.now));
                self.policy.check();
            }
        }

        fn interval(&mut self, loads: &[u64]) {
            self.interval_of(&[loads], [100; PARTS as usize]);
        }

        fn owners(&mut self, service: u16) -> Vec<u16> {
            self.policy.queues.table(ServiceId(service)).1.iter().map(|core| core.0).collect()
        }
    }

    /// Returns the load of each of two cores.
    fn loads_of_two(owners: &[u16], loads: &[u64]) -> [u64; 2] {
        [0, 1].map(|core| owners.iter().zip(loads).filter(|of| *of.0 == core).map(|of| of.1).sum())
    }

    #[test]
    fn vectors_of_the_specification() {
        for (assign, owners, loads) in [
            (Assign::RoundRobin, [0, 1, 0, 1, 0, 1], [150, 110]),
            (Assign::Cycles, [0, 1, 1, 0, 0, 1], [140, 120]),
            (Assign::Group, [0, 1, 1, 0, 1, 0], [130, 130]),
        ] {
            assert_eq!(loads_of_two(&owners, &LOADS), loads, "{assign:?}");
            for bits in [0, 56] {
                let mut port = Port::new(assign, 2, 6, 1);
                assert_eq!(loads_of_two(&port.owners(0), &LOADS), [150, 110], "dealt in turn");
                port.interval(&LOADS.map(|load| load << bits));
                assert_eq!(port.owners(0), owners, "{assign:?}, loads in units of 2^{bits}");
                assert_eq!(port.policy.moved() > 0, assign != Assign::RoundRobin);
            }
        }
    }

    /// Loads differ by 2000 at first. They would differ by 1732 or 1734: their squares are 74.996 % and
    /// 75.169 % of the first.
    #[test]
    fn queues_move_if_the_variance_falls_by_a_quarter() {
        for (loads, moved) in [([2866, 1000, 134], 1), ([2867, 1000, 133], 0)] {
            let mut port = Port::new(Assign::Group, 2, 3, 1);
            port.interval(&loads);
            assert_eq!((port.policy.moved(), port.owners(0)[2]), (moved, moved as u16), "{loads:?}");
        }
    }

    #[test]
    fn queues_move_if_a_core_was_busy_in_every_part() {
        for (busy, moves) in [
            ([95; 6], true),
            ([95, 100, 100, 95, 99, 94], false),
            ([94, 100, 100, 100, 100, 100], false),
            ([0; 6], false),
        ] {
            let mut port = Port::new(Assign::Group, 2, 6, 1);
            port.interval_of(&[&LOADS], busy);
            assert_eq!(port.policy.moved() > 0, moves, "{busy:?} percent");
        }
    }

    #[test]
    fn each_interval_is_measured_by_itself() {
        let mut port = Port::new(Assign::Group, 2, 6, 1);
        port.interval_of(&[&LOADS], [100, 100, 100, 100, 100, 0]);
        port.interval_of(&[&[0, 9, 0, 9, 0, 0]], [100; 6]);
        assert_eq!(port.owners(0), [0, 0, 0, 1, 0, 1], "of two queues with equal work, one moves");
        assert_eq!(port.policy.moved(), 1);
    }

    #[test]
    fn a_pause_ends_the_interval() {
        let mut port = Port::new(Assign::Group, 2, 6, 1);
        port.interval_of(&[&LOADS], [100, 100, 100, 100, 100, 0]);
        for _ in 0..2 {
            port.now += PART;
            port.policy.on_timeout(Time::from_ns(port.now));
        }
        assert_eq!(port.policy.next_timeout(), None, "no packet came");
        port.now += 3 * PART;
        port.interval(&LOADS);
        assert_eq!(loads_of_two(&port.owners(0), &LOADS), [130, 130]);
    }

    /// The heaviest queue of each service would be on core 0 if only its own service counted.
    #[test]
    fn the_loads_of_services_add_up() {
        let mut port = Port::new(Assign::Group, 2, 4, 2);
        port.interval_of(&[&[100, 0, 0, 0], &[100, 0, 0, 0]], [100; 6]);
        assert_eq!((port.owners(0), port.owners(1)), (vec![1, 1, 0, 1], vec![0, 1, 0, 1]));
    }

    #[test]
    fn without_auto_load_balance_queues_stay() {
        let mut port = Port::with(&OvsParams { autolb: false, ..OvsParams::default() }, 3, 1);
        assert!(!port.policy.keeps_time());
        let cores = (0..24).map(|rss| port.arrive(&Packet { rss, ..Packet::default() }).0);
        let in_turn: Vec<u16> = (0..12).chain(0..12).map(|queue| queue % 3).collect();
        assert_eq!(cores.collect::<Vec<_>>(), in_turn, "12 queues on 3 cores");
        assert_eq!(port.policy.next_timeout(), None);
    }

    /// Queues move only if the variance falls by a quarter. Those without work stay.
    #[test]
    fn random_loads_become_more_even_or_stay() {
        const CORES: usize = 5;
        const SUM: u64 = CORES as u64;
        let mut random = Seed(8).stream("test");
        let mut moves = 0;
        for round in 0..600 {
            let assign = [Assign::RoundRobin, Assign::Cycles, Assign::Group][round % 3];
            let mut port = Port::new(assign, CORES, 17, 1);
            for _ in 0..3 {
                let loads = [(); 17].map(|()| random.below(4) / 2 * random.below(1 << (round % 50)));
                let spread = |owners: &[u16]| -> u128 {
                    let of = |core| owners.iter().zip(&loads).filter(|of| *of.0 == core).map(|of| of.1).sum();
                    let cores: Vec<u64> = (0..CORES as u16).map(of).collect();
                    let total: u64 = cores.iter().sum();
                    cores.iter().map(|&load| u128::from((SUM * load).abs_diff(total)).pow(2)).sum()
                };
                let (before, moved) = (port.owners(0), port.policy.moved());
                port.interval(&loads);
                let (after, moved) = (port.owners(0), port.policy.moved() - moved);
                let changed = (0..17).filter(|&queue| before[queue] != after[queue]).inspect(|&queue| {
                    assert!(loads[queue] > 0, "queue {queue} had no work");
                });
                assert_eq!(changed.count() as u64, moved);
                if moved > 0 {
                    let (before, after) = (spread(&before), spread(&after));
                    assert!(after + before.div_ceil(4) <= before, "{assign:?}: {after} of {before}");
                    assert_ne!(assign, Assign::RoundRobin, "its plan is the assignment at the start");
                    moves += 1;
                }
            }
        }
        assert!(moves > 300, "{moves} assignments");
    }

    #[test]
    fn a_core_that_goes_loses_its_queues_and_no_other_does() {
        let mut policy = Ovs::new(&OvsParams::default(), &config(4, 1, &[])).unwrap();
        let cores = views(&[0; 4]);
        let mut targets = |eligible: &[CoreId]| -> Vec<CoreId> {
            let view = View { as_of: Time::ZERO, cores: &cores, eligible };
            let steered = |rss| policy.steer(Time::ZERO, &Packet { rss, ..Packet::default() }, &view);
            (0..16).map(steered).map(|target| target.core().expect("a core")).collect()
        };
        let all = targets(&cores_of([0, 1, 2, 3]));
        let left = targets(&cores_of([0, 1, 3]));
        assert!(all.iter().zip(&left).all(|(before, after)| (before != after) == (*before == CoreId(2))));
        assert_eq!(targets(&cores_of([0, 1, 2, 3])), all);
    }

    #[test]
    fn the_number_of_queues_has_a_limit() {
        let params = OvsParams { queues: Auto::Given(1 << 21), ..OvsParams::default() };
        let error = Ovs::new(&params, &config(2, 1, &[])).unwrap_err();
        assert_eq!(error.to_string(), "ovs: `queues` must be at most 1048576, not 2097152");
    }
}
