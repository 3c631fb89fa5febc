//! The cost of a packet: a linear function of its length, and the effects of the machine.

use core::borrow::Borrow;

use serde::{Deserialize, Serialize};

use crate::config::SchedulerConfig;
use crate::id::{CoreId, ElementId, Id, IdVec, ServiceId};
use crate::mechanism::Dispatch;
use crate::packet::Packet;
use crate::policy::CoreDistance;
use crate::unit::{Time, WorkUnit};

/// The work of a packet: a fixed part, a part per byte, and the extra work of a cold core.
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

    /// Returns the default estimate of an unknown service: a unit for each packet or byte, or a
    /// nanosecond for each byte.
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

    /// The work of a packet of `length` bytes on a cold or warm core. It saturates at `u64::MAX`.
    #[inline]
    pub const fn total(&self, length: u32, cold: bool) -> u64 {
        self.work(length).saturating_add(if cold { self.cold } else { 0 })
    }
}

/// The extra work of a packet whose flow was last served by another core: it fetches data from that
/// core's caches. In thousandths of its work on a warm core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MovePenalties {
    /// The other core shares the cache of the second level.
    pub shared_l2: u32,
    /// The other core is in the same socket.
    pub same_socket: u32,
    /// The other core is in another socket.
    pub other_socket: u32,
}

impl MovePenalties {
    /// Moves without cost.
    pub const NONE: Self = Self { shared_l2: 0, same_socket: 0, other_socket: 0 };

    /// Returns the penalty of a move over this distance.
    #[inline]
    pub const fn permille(&self, apart: CoreDistance) -> u32 {
        match apart {
            CoreDistance::SharedL2 => self.shared_l2,
            CoreDistance::SameSocket => self.same_socket,
            CoreDistance::OtherSocket => self.other_socket,
        }
    }

    /// Returns the extra work of a packet with this work.
    #[inline]
    const fn work(&self, work: u64, moved: Option<CoreDistance>) -> u64 {
        match moved {
            Some(apart) => (work as u128 * self.permille(apart) as u128 / 1000) as u64,
            None => 0,
        }
    }
}

/// The cores of a simulated machine: how long each is busy with a packet. For drivers of virtual
/// time.
///
/// A packet takes the cost of its service, divided by the speed of its core. The contexts of an
/// element take turns computing, in the order in which they get packets. While one context waits
/// for memory (its stall), the next computes.
#[derive(Clone, Debug)]
pub struct CostModel {
    costs: IdVec<ServiceId, LinearCost>,
    /// How long a packet of each service waits for memory after it was computed.
    stalls: IdVec<ServiceId, Time>,
    /// The part of the cost of each service that packets of a batch pay once.
    batches: IdVec<ServiceId, u64>,
    moves: MovePenalties,
    /// Time from the decision until an idle core has the packet.
    hand_over: Time,
    /// In thousandths.
    speeds: IdVec<CoreId, u32>,
    element: IdVec<CoreId, ElementId>,
    /// When each core has finished all its packets.
    free: IdVec<CoreId, Time>,
    /// When each element has finished computing the packets of all its contexts.
    computed: IdVec<ElementId, Time>,
    /// Whether all cores are alike, each is an element of its own, and there are no stalls, move penalties or costs
    /// of batches.
    plain: bool,
}

/// The time that a packet takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// When the core finished the packet.
    pub finished: Time,
    /// How long the core was busy with the packet.
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
            batches: IdVec::from_fn(costs.len(), |_| 0),
            costs,
            moves: MovePenalties::NONE,
            hand_over: Time::ZERO,
            speeds,
            element: cores().iter().map(|&core| config.element(core)).collect(),
            free: IdVec::from_fn(config.cores, |_| Time::ZERO),
            computed: IdVec::from_fn(config.elements(), |_| Time::ZERO),
        }
    }

    /// Sets the penalties for packets whose flow moves. They need a topology ([`Dispatch::moved`]).
    #[must_use]
    pub fn with_moves(self, moves: MovePenalties) -> Self {
        Self { plain: self.plain && moves == MovePenalties::NONE, moves, ..self }
    }

    /// Sets what a batch of each service costs, in ns, whatever its packets. It is a part of what a packet alone
    /// costs, and the other packets of a batch do not pay it ([`Packet::batched`]).
    #[must_use]
    pub fn with_batches(self, batches: IdVec<ServiceId, u64>) -> Self {
        assert_eq!(batches.len(), self.costs.len(), "a service has a cost of a batch");
        Self { plain: self.plain && batches.iter().all(|&batch| batch == 0), batches, ..self }
    }

    /// Sets the time that it takes to hand a packet to an idle core. A busy core overlaps it with
    /// its work.
    #[must_use]
    pub fn with_hand_over(self, hand_over: Time) -> Self {
        Self { hand_over, ..self }
    }

    /// Adds to the time that it takes to hand a packet to a core.
    #[must_use]
    pub fn with_further_hand_over(self, further: Time) -> Self {
        Self { hand_over: self.hand_over + further, ..self }
    }

    /// Adds to the work of every packet, whatever its service.
    #[must_use]
    pub fn with_further_work(mut self, further: Time) -> Self {
        self.costs.iter_mut().for_each(|cost| cost.fixed = cost.fixed.saturating_add(further.as_ns()));
        self
    }

    /// Returns the work of the packet on a warm core of full speed: for an oracle.
    #[inline(always)]
    pub fn work(&self, packet: &Packet) -> u64 {
        self.costs[packet.service].work(packet.length)
    }

    /// Gives a packet to a core; the core starts it at `now` or later.
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
        // The packet cannot finish before it starts.
        Span { finished, busy: Time::from_ns(finished.as_ns() - start.as_ns()) }
    }

    /// Returns how long a core with one context and no other packet is busy with the packet.
    pub fn time(&self, core: CoreId, dispatch: &Dispatch<&Packet>) -> Time {
        let packet = dispatch.packet;
        Time::from_ns(self.work_at(core, packet, dispatch.cold, dispatch.moved)) + self.stalls[packet.service]
    }

    /// Returns the time that a core computes for the packet, in ns.
    fn work_at(&self, core: CoreId, packet: &Packet, cold: bool, moved: Option<CoreDistance>) -> u64 {
        let cost = self.costs[packet.service];
        let moving = self.moves.work(cost.work(packet.length), moved);
        let paid = if packet.batched { self.batches[packet.service] } else { 0 };
        let work = cost.total(packet.length, cold).saturating_add(moving).saturating_sub(paid).max(1);
        let speed = self.speeds[core];
        if speed == 1000 { work } else { (u128::from(work) * 1000).div_ceil(u128::from(speed)) as u64 }
    }

    #[inline(never)]
    fn serve_in_detail(
        &mut self,
        now: Time,
        core: CoreId,
        packet: &Packet,
        cold: bool,
        moved: Option<CoreDistance>,
    ) -> Span {
        let work = self.work_at(core, packet, cold, moved);
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
    fn further_work_is_work_of_every_packet() {
        let mut model = model(2, 1, &[1000, 500], 0).with_further_work(Time::from_ns(70));
        assert_eq!([0, 1].map(|core| finished(&mut model, 10, core)), [180, 350]);
        assert_eq!(model.work(&DISPATCH.packet), 170);
    }

    /// RIVALS: a batch costs 800 ns and a packet 100: 900 alone, 125 each in 32.
    #[test]
    fn packets_of_a_batch_pay_for_it_once() {
        let cost = LinearCost { fixed: 900, ..LinearCost::default() };
        let config = SchedulerConfig { cores: 1, ..SchedulerConfig::default() };
        let model = CostModel::new(&config, IdVec::from_iter([cost]), &[]).with_batches(IdVec::from_iter([800]));
        let time = |packets: u64| {
            let mut model = model.clone();
            let serve = |at| {
                model
                    .serve(
                        Time::ZERO,
                        CoreId(0),
                        &Dispatch { packet: Packet { batched: at > 0, ..DISPATCH.packet }, ..DISPATCH },
                    )
                    .finished
            };
            (0..packets).map(serve).last().unwrap().as_ns() / packets
        };
        assert_eq!([1, 32].map(time), [900, 125]);
    }

    #[test]
    fn a_packet_that_moves_takes_longer() {
        let moves = MovePenalties { shared_l2: 50, same_socket: 250, other_socket: 450 };
        let mut model = model(1, 1, &[500], 0).with_moves(moves);
        let mut time = |moved| {
            let span = model.serve(Time::ZERO, CoreId(0), &Dispatch { moved, ..DISPATCH });
            span.finished.as_ns()
        };
        // A core of half the speed also takes twice as long for the penalty.
        assert_eq!([None, Some(CoreDistance::SharedL2)].map(&mut time), [200, 410]);
        assert_eq!([CoreDistance::SameSocket, CoreDistance::OtherSocket].map(|apart| time(Some(apart))), [660, 950]);
    }

    #[test]
    fn contexts_compute_in_turn_and_wait_for_memory_together() {
        let mut model = model(4, 2, &[], 30);
        assert_eq!([0, 1, 2].map(|core| finished(&mut model, 0, core)), [130, 230, 130]);
        let span = model.serve(Time::from_ns(150), CoreId(0), &DISPATCH);
        assert_eq!(span, Span { finished: Time::from_ns(330), busy: Time::from_ns(180) }, "after its neighbour");
    }
}
