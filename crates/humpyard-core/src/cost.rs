//! What a packet costs: a straight line in its length, and what the machine makes of it.

use core::borrow::Borrow;

use serde::{Deserialize, Serialize};

use crate::config::SchedulerConfig;
use crate::id::{CoreId, ElementId, Id, IdVec, ServiceId};
use crate::mechanism::Dispatch;
use crate::packet::Packet;
use crate::policy::Apart;
use crate::unit::{Time, WorkUnit};

/// The work of a packet: a fixed part, a part per byte, and what a cold core adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LinearCost {
    /// Work of a packet of no length.
    pub fixed: u64,
    /// Work per byte, in thousandths.
    pub per_byte_milli: u64,
    /// Work added when the core's previous packet had another service.
    pub cold: u64,
}

impl LinearCost {
    /// One unit of work per byte.
    pub const BYTES: Self = Self { fixed: 0, per_byte_milli: 1000, cold: 0 };
    /// One unit of work per packet.
    pub const PACKETS: Self = Self { fixed: 1, per_byte_milli: 0, cold: 0 };

    /// Returns the estimate of a service of which nothing is known: a unit for each packet or byte, or a nanosecond
    /// for each byte.
    pub const fn usual(unit: WorkUnit) -> Self {
        match unit {
            WorkUnit::Packets => Self::PACKETS,
            WorkUnit::Bytes | WorkUnit::Nanoseconds => Self::BYTES,
        }
    }

    /// The work of a packet of `length` bytes on a warm core, at least 1.
    #[inline]
    pub const fn work(&self, length: u32) -> u64 {
        let work = self.fixed + self.per_byte_milli * length as u64 / 1000;
        if work == 0 { 1 } else { work }
    }

    /// The work of a packet of `length` bytes on a core that is cold or not. It stops at the largest number there is.
    #[inline]
    pub const fn total(&self, length: u32, cold: bool) -> u64 {
        self.work(length).saturating_add(if cold { self.cold } else { 0 })
    }
}

/// What a packet takes longer that is served by another core than the one before of its flow, for what it has to fetch from
/// that core's caches: parts of its work on a warm core, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MovePenalties {
    /// By a core that shares its cache of the second level.
    pub shared_l2: u32,
    /// By another core of its socket.
    pub same_socket: u32,
    /// By a core of another socket.
    pub other_socket: u32,
}

impl MovePenalties {
    /// Moves cost nothing.
    pub const NONE: Self = Self { shared_l2: 0, same_socket: 0, other_socket: 0 };

    /// That of a move so far.
    #[inline]
    pub const fn permille(&self, apart: Apart) -> u32 {
        match apart {
            Apart::SharedL2 => self.shared_l2,
            Apart::SameSocket => self.same_socket,
            Apart::OtherSocket => self.other_socket,
        }
    }

    /// What a packet of so much work takes longer.
    #[inline]
    const fn work(&self, work: u64, moved: Option<Apart>) -> u64 {
        match moved {
            Some(apart) => (work as u128 * self.permille(apart) as u128 / 1000) as u64,
            None => 0,
        }
    }
}

/// The cores of a machine that is not there: how long each is busy with a packet. For drivers of virtual time.
///
/// A packet takes the cost of its service by the speed of its core. The contexts of an element take turns computing, in the
/// order in which they are given packets; while one waits for memory (its stall) the next computes.
#[derive(Clone, Debug)]
pub struct CostModel {
    costs: IdVec<ServiceId, LinearCost>,
    /// What a packet of each service waits for memory, after it was computed.
    stalls: IdVec<ServiceId, Time>,
    moves: MovePenalties,
    /// From the decision until a core that is idle has the packet.
    hand_over: Time,
    /// In thousandths.
    speeds: IdVec<CoreId, u32>,
    element: IdVec<CoreId, ElementId>,
    /// When each core is done with all that it was given.
    free: IdVec<CoreId, Time>,
    /// When each element is done with all that its contexts were given.
    computed: IdVec<ElementId, Time>,
    /// Whether every core is alike and an element of its own, and nothing stalls or costs to move.
    plain: bool,
}

/// The time that a packet takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// When it is done.
    pub finished: Time,
    /// How long it was busy with it.
    pub busy: Time,
}

impl CostModel {
    /// Returns the cores of this configuration, with these costs and stalls by service, in ns. Services beyond the last
    /// stall do not stall.
    ///
    /// # Panics
    /// If a speed is zero.
    pub fn new(config: &SchedulerConfig, costs: IdVec<ServiceId, LinearCost>, stalls: &[Time]) -> Self {
        let cores = || IdVec::from_fn(config.cores, |core: CoreId| core);
        let speeds: IdVec<CoreId, u32> = cores().iter().map(|&core| config.speed(core)).collect();
        assert!(speeds.iter().all(|&speed| speed > 0), "a core without speed is never done");
        let stalls_never = stalls.iter().all(|&stall| stall == Time::ZERO);
        Self {
            plain: config.contexts == 1 && stalls_never && speeds.iter().all(|&speed| speed == 1000),
            stalls: IdVec::from_fn(costs.len(), |service: ServiceId| {
                stalls.get(service.index()).copied().unwrap_or_default()
            }),
            costs,
            moves: MovePenalties::NONE,
            hand_over: Time::ZERO,
            speeds,
            element: cores().iter().map(|&core| config.element(core)).collect(),
            free: IdVec::from_fn(config.cores, |_| Time::ZERO),
            computed: IdVec::from_fn(config.elements(), |_| Time::ZERO),
        }
    }

    /// With these penalties for packets whose flow moves, which takes a topology ([`Dispatch::moved`]).
    #[must_use]
    pub fn with_moves(self, moves: MovePenalties) -> Self {
        Self { plain: self.plain && moves == MovePenalties::NONE, moves, ..self }
    }

    /// Where it takes so long to hand a packet to a core; one that has others does them meanwhile.
    #[must_use]
    pub fn with_hand_over(self, hand_over: Time) -> Self {
        Self { hand_over, ..self }
    }

    /// Where it takes so much longer to hand a packet to a core.
    #[must_use]
    pub fn with_further_hand_over(self, further: Time) -> Self {
        Self { hand_over: self.hand_over + further, ..self }
    }

    /// What the packet would take a warm core of full speed: for an oracle.
    #[inline(always)]
    pub fn work(&self, packet: &Packet) -> u64 {
        self.costs[packet.service].work(packet.length)
    }

    /// Gives a core a packet, not before `now`.
    #[inline(always)]
    pub fn serve<P: Borrow<Packet>>(&mut self, now: Time, core: CoreId, dispatch: &Dispatch<P>) -> Span {
        let packet = dispatch.packet.borrow();
        if !self.plain {
            return self.serve_in_detail(now, core, packet, dispatch.cold, dispatch.moved);
        }
        let work = self.costs[packet.service].total(packet.length, dispatch.cold);
        let free = &mut self.free[core];
        let start = (now + self.hand_over).max(*free);
        let finished = start + Time::from_ns(work);
        *free = finished;
        // It is not done before it starts.
        Span { finished, busy: Time::from_ns(finished.as_ns() - start.as_ns()) }
    }

    #[inline(never)]
    fn serve_in_detail(&mut self, now: Time, core: CoreId, packet: &Packet, cold: bool, moved: Option<Apart>) -> Span {
        let cost = self.costs[packet.service];
        let moving = self.moves.work(cost.work(packet.length), moved);
        let work = cost.total(packet.length, cold).saturating_add(moving);
        let speed = self.speeds[core];
        let work = if speed == 1000 { work } else { (u128::from(work) * 1000).div_ceil(u128::from(speed)) as u64 };
        let start = (now + self.hand_over).max(self.free[core]);
        let computed = &mut self.computed[self.element[core]];
        *computed = start.max(*computed) + Time::from_ns(work);
        let finished = *computed + self.stalls[packet.service];
        self.free[core] = finished;
        Span { finished, busy: finished.since(start) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_linear_and_never_free() {
        let cost = LinearCost { fixed: 320_000, per_byte_milli: 1_300_000, cold: 0 };
        assert_eq!(cost.work(500), 970_000);
        let cold = LinearCost { cold: 170_000, ..cost };
        assert_eq!((cold.total(500, false), cold.total(500, true)), (970_000, 1_140_000));
        assert_eq!(LinearCost { cold: u64::MAX, ..cost }.total(1, true), u64::MAX);
        assert_eq!(LinearCost::BYTES.work(64), 64);
        assert_eq!(LinearCost::PACKETS.work(64), 1);
        assert_eq!(LinearCost::default().work(64), 1);
    }

    const DISPATCH: Dispatch =
        Dispatch { slot: crate::id::Slot(0), packet: Packet { length: 100, ..Packet::EMPTY }, cold: true, moved: None };

    fn model(cores: usize, contexts: usize, speeds: &[u32], stall: u64) -> CostModel {
        let config = SchedulerConfig { cores, contexts, speeds: speeds.to_vec(), ..SchedulerConfig::default() };
        CostModel::new(&config, IdVec::from_iter([LinearCost::BYTES]), &[Time::from_ns(stall)])
    }

    fn finished(model: &mut CostModel, now: u64, core: u16) -> u64 {
        model.serve(Time::from_ns(now), CoreId(core), &DISPATCH).finished.as_ns()
    }

    #[test]
    fn a_core_of_half_the_speed_takes_twice_the_time() {
        let mut model = model(3, 1, &[1000, 500, 300], 0);
        assert_eq!([0, 1, 2].map(|core| finished(&mut model, 10, core)), [110, 210, 344]);
        assert_eq!(model.work(&DISPATCH.packet), 100);
    }

    #[test]
    fn a_packet_is_handed_over_while_the_core_has_others() {
        let mut model = model(1, 1, &[], 0).with_hand_over(Time::from_ns(30));
        assert_eq!([0, 0, 150, 400].map(|now| finished(&mut model, now, 0)), [130, 230, 330, 530]);
        let mut model = model.with_further_hand_over(Time::from_ns(12));
        assert_eq!(finished(&mut model, 600, 0), 742);
    }

    #[test]
    fn a_packet_that_moves_takes_longer() {
        let moves = MovePenalties { shared_l2: 50, same_socket: 250, other_socket: 450 };
        let mut model = model(1, 1, &[500], 0).with_moves(moves);
        let mut time = |moved| {
            let span = model.serve(Time::ZERO, CoreId(0), &Dispatch { moved, ..DISPATCH });
            span.finished.as_ns()
        };
        // A core of half the speed takes twice as long for it, too.
        assert_eq!([None, Some(Apart::SharedL2)].map(&mut time), [200, 410]);
        assert_eq!([Apart::SameSocket, Apart::OtherSocket].map(|apart| time(Some(apart))), [660, 950]);
    }

    #[test]
    fn contexts_compute_in_turn_and_wait_for_memory_together() {
        let mut model = model(4, 2, &[], 30);
        assert_eq!([0, 1, 2].map(|core| finished(&mut model, 0, core)), [130, 230, 130]);
        let span = model.serve(Time::from_ns(150), CoreId(0), &DISPATCH);
        assert_eq!(span, Span { finished: Time::from_ns(330), busy: Time::from_ns(180) }, "after its neighbour");
    }
}
