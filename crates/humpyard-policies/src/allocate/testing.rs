//! Helpers shared by the tests of allocation policies: a minimal driver that models switches.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::cost::LinearCost;
use humpyard_core::id::{CoreId, ServiceId, Slot};
use humpyard_core::mechanism::{Effect, Never, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Build, Cause, Machine};
use humpyard_core::unit::{Time, WorkUnit};

use crate::share::fcfs::{Fcfs, FcfsParams};
use crate::testing::config;

pub(crate) fn us(us: u64) -> Time {
    Time::from_ns(1000 * us)
}

/// Returns a service with this packet time in ns, tolerance in us, and guarantee in millionths.
pub(crate) fn service(packet_time_ns: u64, tolerance_us: u64, guarantee_millionths: u32) -> ServiceConfig {
    ServiceConfig {
        name: "test".into(),
        packet_time: Time::from_ns(packet_time_ns),
        switch_cost: us(50),
        tolerance: us(tolerance_us),
        guarantee_millionths,
    }
}

/// Packet times of the paper's table 2 in ns, in its order.
pub(crate) const TABLE_2: [u64; 6] = [18_220, 13_270, 4_640, 10_090, 9_720, 1_780];

/// Sets the number of packets that wait for a service, and the arrival of the first.
pub(crate) fn packets_wait(machine: &mut Machine, service: ServiceId, waiting: u32, oldest: Time) {
    machine.set_waiting(service, waiting, (waiting > 0).then_some(oldest));
}

/// A policy and a machine without a mechanism; services and cores are numbers. Moves happen as soon
/// as they are ordered.
pub(crate) struct Bench<A> {
    pub(crate) policy: A,
    pub(crate) machine: Machine,
    waiting: Vec<u32>,
}

impl<A: Allocate + Build> Bench<A> {
    /// Creates cores that belong to these services at the start, all idle since 0.
    pub(crate) fn new(params: &A::Params, services: &[ServiceConfig], cores: &[u16]) -> Self {
        let policy =
            A::new(params, &SchedulerConfig { services: services.to_vec(), ..config(cores.len(), 1, &[]) }).unwrap();
        let initial = cores.iter().copied().map(ServiceId).collect();
        Self { policy, machine: Machine::new(&initial, services.len()), waiting: alloc::vec![0; services.len()] }
    }

    pub(crate) fn busy(mut self, cores: &[u16]) -> Self {
        cores.iter().for_each(|&core| self.machine.on_dispatch(Time::ZERO, CoreId(core)));
        self
    }

    /// Sets the number of packets that wait for a service. If none waited before, the first waits from now on.
    pub(crate) fn waits(&mut self, now: Time, service: u16, waiting: u32) {
        let before = core::mem::replace(&mut self.waiting[usize::from(service)], waiting);
        let oldest = self.machine.service(ServiceId(service)).oldest.filter(|_| before > 0).unwrap_or(now);
        packets_wait(&mut self.machine, ServiceId(service), waiting, oldest);
    }

    /// Reports an arrival after which `waiting` packets wait. Returns the cores that move, with
    /// their new services.
    pub(crate) fn arrival(&mut self, now: Time, service: u16, waiting: u32) -> Vec<(u16, u16)> {
        self.waits(now, service, waiting);
        self.policy.on_arrival(now, ServiceId(service));
        self.moves(now, Cause::Arrival(ServiceId(service)))
    }

    /// Reports that a core has completed a packet with this delay, and would continue with the next.
    pub(crate) fn completion(&mut self, now: Time, core: u16, delay: Time) -> Vec<(u16, u16)> {
        let core = CoreId(core);
        self.policy.on_completion(now, core, self.machine.core(core).service, delay);
        self.moves(now, Cause::Completion(core))
    }

    /// Reports that a core has no packet to serve.
    pub(crate) fn idle(&mut self, now: Time, core: u16) -> Vec<(u16, u16)> {
        self.machine.on_idle(now, CoreId(core));
        self.moves(now, Cause::Idle(CoreId(core)))
    }

    /// Reports that the time has come that the policy requested.
    pub(crate) fn timeout(&mut self, now: Time) -> Vec<(u16, u16)> {
        self.policy.on_timeout(now);
        self.moves(now, Cause::Timeout)
    }

    fn moves(&mut self, now: Time, cause: Cause) -> Vec<(u16, u16)> {
        let mut moves = Vec::new();
        while let Some(order) = self.policy.reassign(now, cause, &self.machine) {
            let is_empty = match cause {
                Cause::Completion(core) if core == order.core => true,
                _ => self.machine.core(order.core).idle_since().is_some(),
            };
            self.machine.on_move(order, is_empty);
            moves.push((order.core.0, order.to.0));
        }
        self.machine.check();
        self.policy.check();
        moves
    }
}

/// Packets that arrive for services on some cores; each takes the packet time of its service.
pub(crate) struct Scenario<'a> {
    pub(crate) cores: usize,
    pub(crate) services: &'a [ServiceConfig],
    /// The arrivals, in order of time.
    pub(crate) arrivals: &'a [(Time, ServiceId)],
}

/// The result of a scenario.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The completions, in order: time and service.
    pub(crate) completions: Vec<(Time, ServiceId)>,
    pub(crate) late: u64,
    pub(crate) switches: u64,
}

/// The current activities by their end: a packet in a slot, with its time on the core, or a switch.
type UnderWay = BTreeSet<(Time, CoreId, Option<(Slot, Time)>)>;

impl Scenario<'_> {
    /// Runs it under a policy with its defaults, and checks the mechanism at every instant.
    pub(crate) fn run<A: Allocate + Build>(&self) -> Outcome {
        self.run_with::<A>(&A::Params::default(), true)
    }

    /// Runs it. At each instant, first all activities end, then the timeout fires, then packets
    /// arrive one by one. After each step, cores take the packets that they can have.
    pub(crate) fn run_with<A: Allocate + Build>(&self, params: &A::Params, checks: bool) -> Outcome {
        let estimate =
            |service: &ServiceConfig| LinearCost { fixed: service.packet_time.as_ns(), per_byte_milli: 0, cold: 0 };
        let config = SchedulerConfig {
            services: self.services.to_vec(),
            estimates: self.services.iter().map(estimate).collect(),
            unit: WorkUnit::Nanoseconds,
            packets: self.arrivals.len(),
            ..config(self.cores, 1, &[])
        };
        let policy = A::new(params, &config).unwrap();
        let mut scheduler: Scheduler<Never, Fcfs, A> =
            Scheduler::new(&config, None, Some(policy), || Fcfs::new(&FcfsParams {}, &config)).unwrap();
        let mut outcome = Outcome::default();
        let mut under_way = UnderWay::new();
        let mut arrivals = self.arrivals.iter().peekable();
        loop {
            let timeout = scheduler.next_timeout().filter(|_| scheduler.account().held > 0);
            let next = [under_way.first().map(|&(time, ..)| time), arrivals.peek().map(|&&(time, _)| time), timeout];
            let Some(now) = next.into_iter().flatten().min() else { break };
            while let Some(&(_, core, packet)) = under_way.first().filter(|&&(time, ..)| time == now) {
                under_way.pop_first();
                self.end(now, core, packet, &mut scheduler, &mut outcome);
                begin_switches(&mut scheduler, now, &mut under_way, &mut outcome);
            }
            if scheduler.next_timeout().is_some_and(|timeout| timeout <= now) {
                scheduler.on_timeout(now);
                begin_switches(&mut scheduler, now, &mut under_way, &mut outcome);
            }
            self.hand_out(&mut scheduler, now, &mut under_way, &mut outcome);
            while let Some(&(_, service)) = arrivals.next_if(|&&(time, _)| time == now) {
                scheduler.on_arrival(now, &Packet { arrival: now, service, ..Packet::default() });
                begin_switches(&mut scheduler, now, &mut under_way, &mut outcome);
                self.hand_out(&mut scheduler, now, &mut under_way, &mut outcome);
            }
            if checks {
                scheduler.check();
            }
        }
        assert_eq!(scheduler.account().processed, self.arrivals.len() as u64);
        outcome
    }

    fn service(&self, id: ServiceId) -> &ServiceConfig {
        &self.services[usize::from(id.0)]
    }

    fn end<A: Allocate>(
        &self,
        now: Time,
        core: CoreId,
        packet: Option<(Slot, Time)>,
        scheduler: &mut Scheduler<Never, Fcfs, A>,
        outcome: &mut Outcome,
    ) {
        let Some((slot, busy)) = packet else { return scheduler.on_switched(now, core) };
        let packet = scheduler.on_completion(now, slot, busy).packet;
        let tolerance = self.service(packet.service).tolerance;
        outcome.late += u64::from(now.since(packet.arrival) > tolerance);
        outcome.completions.push((now, packet.service));
    }

    fn hand_out<A: Allocate>(
        &self,
        scheduler: &mut Scheduler<Never, Fcfs, A>,
        now: Time,
        under_way: &mut UnderWay,
        outcome: &mut Outcome,
    ) {
        while let Some(core) = scheduler.next_core(now) {
            if let Some(dispatch) = scheduler.next(now, core) {
                let busy = self.service(dispatch.packet.service).packet_time;
                under_way.insert((now + busy, core, Some((dispatch.slot, busy))));
                begin_switches(scheduler, now, under_way, outcome);
            }
        }
    }
}

fn begin_switches<A: Allocate>(
    scheduler: &mut Scheduler<Never, Fcfs, A>,
    now: Time,
    under_way: &mut UnderWay,
    outcome: &mut Outcome,
) {
    while let Some(Effect::Switch(switch)) = scheduler.next_effect() {
        outcome.switches += 1;
        under_way.insert((now + switch.cost, switch.core, None));
    }
}

/// Asserts isolation: B floods all four cores for a while when A, silent so far, needs its two. A
/// has them after one switch and one packet from its latest start, whatever B still has waiting.
pub(crate) fn assert_a_guarantee_is_there_after_one_switch_and_one_packet<P: Allocate + Build>() {
    const A: ServiceId = ServiceId(0);
    const B: ServiceId = ServiceId(1);
    let services = vec![service(10_000, 100, 500_000); 2];
    for (begin_us, packets) in [(200, 19), (205, 40), (333, 25), (1000, 60), (1001, 33)] {
        let mut arrivals = alloc::vec![(Time::ZERO, B); 600];
        arrivals.extend(alloc::vec![(us(begin_us), A); packets]);
        let outcome = Scenario { cores: 4, services: &services, arrivals: &arrivals }.run::<P>();
        let of_a = outcome.completions.iter().filter(|&&(_, service)| service == A);
        for (nth, &(time, _)) in of_a.enumerate() {
            let two_cores = us(begin_us + 50 + 10 + 10 * (nth as u64 / 2 + 1));
            assert!(time <= two_cores, "packet {nth} of {packets} from {begin_us} us is done at {time:?}");
        }
    }
}
