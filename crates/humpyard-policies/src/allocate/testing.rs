//! What the tests of allocation policies share: the smallest driver that knows switches.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::cost::LinearCost;
use humpyard_core::id::{CoreId, ServiceId, Slot};
use humpyard_core::mechanism::{Never, Options, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Build, ServiceSetup, Setup};
use humpyard_core::unit::{Time, WorkUnit};

use crate::share::fcfs::{Fcfs, FcfsParams};
use crate::testing::setup;

pub(crate) fn us(us: u64) -> Time {
    Time::from_ns(1000 * us)
}

/// A service with this packet time in ns, tolerance in us, and guarantee in millionths.
pub(crate) fn service(packet_time_ns: u64, tolerance_us: u64, guarantee_millionths: u32) -> ServiceSetup<'static> {
    ServiceSetup {
        name: "test",
        packet_time: Time::from_ns(packet_time_ns),
        switch_cost: us(50),
        tolerance: us(tolerance_us),
        guarantee_millionths,
    }
}

/// Packets of 10 us that arrive for services on some cores.
pub(crate) struct Scenario<'a> {
    pub(crate) cores: usize,
    pub(crate) services: &'a [ServiceSetup<'a>],
    /// In order of time.
    pub(crate) arrivals: &'a [(Time, ServiceId)],
}

/// What became of a scenario.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The completions, in order: when, and of which service.
    pub(crate) completions: Vec<(Time, ServiceId)>,
    pub(crate) late: u64,
    pub(crate) switches: u64,
}

/// What is under way, by its end: a packet in a slot, or a switch.
type UnderWay = BTreeSet<(Time, CoreId, Option<Slot>)>;

pub(crate) const PACKET: Time = Time::from_ns(10_000);

impl Scenario<'_> {
    /// Runs it: everything that ends at an instant, then arrivals one by one, each followed by what cores can have.
    pub(crate) fn run<A: Allocate + Build>(&self) -> Outcome {
        let unit = WorkUnit::Nanoseconds;
        let estimate = LinearCost { fixed: PACKET.as_ns(), per_byte_milli: 0, cold: 0 };
        let setup = Setup {
            services: self.services,
            estimates: &vec![estimate; self.services.len()],
            unit,
            packets: self.arrivals.len(),
            ..setup(self.cores, 1, &[])
        };
        let policy = A::new(&A::Params::default(), &setup).unwrap();
        let mut scheduler: Scheduler<Never, Fcfs, A> =
            Scheduler::new(&setup, Options::default(), None, Some(policy), || Fcfs::new(&FcfsParams {}, &setup))
                .unwrap();
        let mut outcome = Outcome::default();
        let mut under_way = UnderWay::new();
        let mut arrivals = self.arrivals.iter().peekable();
        loop {
            let next = [under_way.first().map(|&(time, ..)| time), arrivals.peek().map(|&&(time, _)| time)];
            let Some(now) = next.into_iter().flatten().min() else { break };
            while let Some(&(_, core, slot)) = under_way.first().filter(|&&(time, ..)| time == now) {
                under_way.pop_first();
                self.end(now, core, slot, &mut scheduler, &mut outcome);
            }
            hand_out(&mut scheduler, now, &mut under_way, &mut outcome);
            while let Some(&(_, service)) = arrivals.next_if(|&&(time, _)| time == now) {
                scheduler.on_arrival(now, Packet { arrival: now, service, ..Packet::default() });
                hand_out(&mut scheduler, now, &mut under_way, &mut outcome);
            }
            scheduler.check();
        }
        assert_eq!(scheduler.account().processed, self.arrivals.len() as u64);
        outcome
    }

    fn end<A: Allocate>(
        &self,
        now: Time,
        core: CoreId,
        slot: Option<Slot>,
        scheduler: &mut Scheduler<Never, Fcfs, A>,
        outcome: &mut Outcome,
    ) {
        let Some(slot) = slot else { return scheduler.on_switched(now, core) };
        let packet = scheduler.on_completion(now, slot, PACKET).packet;
        let tolerance = self.services[usize::from(packet.service.0)].tolerance;
        outcome.late += u64::from(now.since(packet.arrival) > tolerance);
        outcome.completions.push((now, packet.service));
    }
}

fn hand_out<A: Allocate>(
    scheduler: &mut Scheduler<Never, Fcfs, A>,
    now: Time,
    under_way: &mut UnderWay,
    outcome: &mut Outcome,
) {
    while let Some(core) = scheduler.next_core(now) {
        if let Some(dispatch) = scheduler.next(now, core) {
            under_way.insert((now + PACKET, core, Some(dispatch.slot)));
        }
    }
    while let Some(switch) = scheduler.next_switch() {
        outcome.switches += 1;
        under_way.insert((now + switch.cost, switch.core, None));
    }
}
