//! What the tests of allocation policies share: the smallest driver that knows switches.

use alloc::collections::BTreeSet;
use alloc::vec;

use humpyard_core::cost::LinearCost;
use humpyard_core::id::{CoreId, ServiceId, Slot};
use humpyard_core::mechanism::{FlowOrder, Limits, Never, Options, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Build, Params, ServiceSetup, Setup};
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

/// Packets of 10 us of the first of two services that arrive together at 0, one after the other; three cores, of which the
/// first service holds two.
pub(crate) struct Burst {
    pub(crate) packets: u64,
    pub(crate) tolerance: Time,
    pub(crate) switch_cost: Time,
}

/// What became of a burst.
pub(crate) struct Outcome {
    pub(crate) late: u64,
    pub(crate) last: Time,
    pub(crate) switches: u64,
}

const PACKET: Time = Time::from_ns(10_000);

impl Burst {
    pub(crate) fn run<A: Allocate + Build>(&self) -> Outcome {
        let service = |guarantee_millionths| ServiceSetup {
            tolerance: self.tolerance,
            switch_cost: self.switch_cost,
            ..service(PACKET.as_ns(), 0, guarantee_millionths)
        };
        let services = [service(666_667), service(333_333)];
        let setup = Setup { services: &services, unit: WorkUnit::Nanoseconds, packets: 64, ..setup(3, 1, &[]) };
        let options = Options {
            estimates: vec![LinearCost { fixed: PACKET.as_ns(), per_byte_milli: 0, cold: 0 }; 2],
            limits: Limits::default(),
            flow_order: FlowOrder::Keep,
        };
        let policy = A::new(&A::Params::from_pairs("test", &[]).unwrap(), &setup).unwrap();
        let mut scheduler: Scheduler<Never, Fcfs, A> =
            Scheduler::new(&setup, options, None, Some(policy), || Fcfs::new(&FcfsParams {}, &setup)).unwrap();
        let mut outcome = Outcome { late: 0, last: Time::ZERO, switches: 0 };
        // What is under way, by its end: a packet in a slot, or a switch.
        let mut under_way: BTreeSet<(Time, CoreId, Option<Slot>)> = BTreeSet::new();
        for _ in 0..self.packets {
            scheduler.on_arrival(Time::ZERO, Packet { service: ServiceId(0), ..Packet::default() });
            hand_out(&mut scheduler, Time::ZERO, &mut under_way, &mut outcome);
        }
        while let Some((now, core, slot)) = under_way.pop_first() {
            match slot {
                Some(slot) => {
                    let completed = scheduler.on_completion(now, slot, PACKET);
                    outcome.late += u64::from(now.since(completed.packet.arrival) > self.tolerance);
                    outcome.last = now;
                }
                None => scheduler.on_switched(now, core),
            }
            if under_way.first().is_none_or(|&(next, ..)| next > now) {
                hand_out(&mut scheduler, now, &mut under_way, &mut outcome);
            }
            scheduler.check();
        }
        assert_eq!(scheduler.account().processed, self.packets);
        outcome
    }
}

fn hand_out<A: Allocate>(
    scheduler: &mut Scheduler<Never, Fcfs, A>,
    now: Time,
    under_way: &mut BTreeSet<(Time, CoreId, Option<Slot>)>,
    outcome: &mut Outcome,
) {
    while let Some(core) = scheduler.next_core() {
        if let Some(dispatch) = scheduler.next(now, core) {
            under_way.insert((now + PACKET, core, Some(dispatch.slot)));
        }
    }
    while let Some(switch) = scheduler.next_switch() {
        outcome.switches += 1;
        under_way.insert((now + switch.cost, switch.core, None));
    }
}
