//! The exit: packets of a flow leave in the order in which they came in, whatever the order of
//! their service.
//!
//! Every accepted packet is stamped with its place in its flow. A packet that is done before an
//! earlier one waits here. Both the time it waits and the number of waiting packets are limited. At
//! a limit the exit gives up the missing packets: it waits for them no longer, counts them, and
//! lets them leave when they come.

use alloc::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::id::{ExitSlot, FlowId, Id, IdVec};
use crate::packet::Packet;
use crate::unit::Time;

/// How packets are put back in order when they leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExitOrder {
    /// Most packets that may wait for earlier ones, from 1.
    pub packets: u32,
    /// The longest time that a packet waits for earlier ones.
    pub timeout: Time,
}

/// A packet that waited for earlier ones and leaves now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Exit {
    /// The place that it had.
    pub place: ExitSlot,
    /// The packet.
    pub packet: Packet,
}

/// The account of the packets at the exit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ExitAccount {
    /// Packets that now wait for earlier ones.
    pub held: u64,
    /// Packets that waited and then left.
    pub reordered: u64,
    /// Packets that left after later packets of their flow, because the exit had given them up.
    pub missed_turn: u64,
    /// Packets that the exit gave up because of the timeout or for lack of places.
    pub given_up: u64,
}

impl ExitAccount {
    /// Adds the account of another exit.
    pub const fn add(&mut self, other: Self) {
        self.held += other.held;
        self.reordered += other.reordered;
        self.missed_turn += other.missed_turn;
        self.given_up += other.given_up;
    }
}

const NONE: ExitSlot = ExitSlot(u32::MAX);

/// The state of one flow.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// Stamp of the next packet to come in.
    entering: u32,
    /// Stamp of the next packet to leave.
    leaving: u32,
    /// The first and the last packet of the flow that wait, by stamp.
    first: ExitSlot,
    last: ExitSlot,
}

/// One place: a waiting packet, or the note that a packet will never come.
#[derive(Clone, Copy, Debug)]
struct Place {
    packet: Packet,
    stamp: u32,
    /// Whether the place is only a note: its packet was dropped or consumed.
    gone: bool,
    deadline: Time,
    /// The next place of the flow by stamp, or of the free list.
    next: ExitSlot,
    /// The place before it of the flow, by stamp.
    previous: ExitSlot,
    /// The places that were taken just before and just after.
    older: ExitSlot,
    newer: ExitSlot,
}

/// The packets that wait for earlier ones of their flow.
#[derive(Debug)]
pub(super) struct ExitBuffer {
    timeout: Time,
    flows: IdVec<FlowId, Flow>,
    places: IdVec<ExitSlot, Place>,
    free: ExitSlot,
    oldest: ExitSlot,
    newest: ExitSlot,
    /// Most places that may be in the lines of flows, and how many are.
    waiting_max: usize,
    waiting: usize,
    /// Places whose packets leave, until the driver has fetched them.
    leaving: VecDeque<ExitSlot>,
    account: ExitAccount,
}

/// Whether `a` comes before `b`: stamps wrap around.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl ExitBuffer {
    pub(super) fn new(order: ExitOrder, flows: usize) -> Self {
        // One more, for the packet that comes when all are taken.
        let places = order.packets.max(1) as usize + 1;
        let place = |at: ExitSlot| Place {
            packet: Packet::EMPTY,
            stamp: 0,
            gone: false,
            deadline: Time::ZERO,
            next: if at.index() + 1 < places { ExitSlot(at.0 + 1) } else { NONE },
            previous: NONE,
            older: NONE,
            newer: NONE,
        };
        Self {
            timeout: order.timeout,
            flows: IdVec::from_fn(flows, |_| Flow { entering: 0, leaving: 0, first: NONE, last: NONE }),
            places: IdVec::from_fn(places, place),
            free: ExitSlot(0),
            oldest: NONE,
            newest: NONE,
            leaving: VecDeque::with_capacity(places),
            waiting_max: places - 1,
            waiting: 0,
            account: ExitAccount::default(),
        }
    }

    pub(super) fn account(&self) -> ExitAccount {
        self.account
    }

    /// Returns the places taken: by waiting packets, and by notes that a packet will never come.
    #[inline]
    pub(super) fn waiting(&self) -> u64 {
        self.waiting as u64
    }

    /// The stamp of a packet of this flow that comes in.
    #[inline]
    pub(super) fn on_enter(&mut self, flow: FlowId) -> u32 {
        let flow = &mut self.flows[flow];
        let stamp = flow.entering;
        flow.entering = stamp.wrapping_add(1);
        stamp
    }

    /// Lets a packet leave or be gone if it is its turn and none waits behind it. Returns whether
    /// this was the case, as for nearly all packets.
    #[inline(always)]
    pub(super) fn passes(&mut self, id: FlowId, stamp: u32) -> bool {
        let flow = &mut self.flows[id];
        if stamp != flow.leaving || flow.first != NONE {
            return false;
        }
        flow.leaving = stamp.wrapping_add(1);
        true
    }

    /// Takes a packet that is done. Returns the place where it must wait. `None`: it leaves now.
    #[inline]
    pub(super) fn on_done(&mut self, now: Time, packet: &Packet, stamp: u32) -> Option<ExitSlot> {
        if self.on_turn(packet.flow, stamp) {
            return None;
        }
        self.on_done_out_of_turn(now, packet, stamp)
    }

    /// Whether it is the turn of this packet, which leaves or is gone. True for nearly all packets.
    #[inline]
    fn on_turn(&mut self, id: FlowId, stamp: u32) -> bool {
        let flow = &mut self.flows[id];
        if stamp != flow.leaving {
            return false;
        }
        flow.leaving = stamp.wrapping_add(1);
        if flow.first != NONE {
            self.release_following(id);
        }
        true
    }

    #[inline(never)]
    fn on_done_out_of_turn(&mut self, now: Time, packet: &Packet, stamp: u32) -> Option<ExitSlot> {
        if before(stamp, self.flows[packet.flow].leaving) {
            self.account.missed_turn += 1;
            return None;
        }
        Some(self.keep(now, packet, stamp, false))
    }

    /// Records that a packet was dropped or consumed, so no packet waits for it.
    #[inline]
    pub(super) fn on_gone(&mut self, now: Time, packet: &Packet, stamp: u32) {
        if !self.on_turn(packet.flow, stamp) {
            self.on_gone_out_of_turn(now, packet, stamp);
        }
    }

    #[inline(never)]
    fn on_gone_out_of_turn(&mut self, now: Time, packet: &Packet, stamp: u32) {
        let flow = &mut self.flows[packet.flow];
        if before(stamp, flow.leaving) {
            // It missed its turn already.
        } else if stamp.wrapping_add(1) == flow.entering {
            // No packet came after it: the next one gets its stamp, and no note is necessary. So
            // packets that are pushed out never take places.
            flow.entering = stamp;
        } else if self.free == NONE {
            self.give_up(packet.flow, stamp);
            self.flows[packet.flow].leaving = stamp.wrapping_add(1);
            self.release_following(packet.flow);
        } else {
            self.keep(now, packet, stamp, true);
        }
    }

    /// Returns when the packet that has waited longest stops waiting.
    #[inline]
    pub(super) fn next_timeout(&self) -> Option<Time> {
        (self.oldest != NONE).then(|| self.places[self.oldest].deadline)
    }

    /// Releases packets that have waited too long.
    pub(super) fn on_timeout(&mut self, now: Time) {
        while self.next_timeout().is_some_and(|deadline| deadline <= now) {
            self.give_up_oldest();
        }
    }

    /// Whether no packet leaves.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.leaving.is_empty()
    }

    /// A packet that leaves after it has waited; its place is free from now on.
    #[inline]
    pub(super) fn next_exit(&mut self) -> Option<Exit> {
        let place = self.leaving.pop_front()?;
        let packet = self.places[place].packet;
        self.places[place].next = self.free;
        self.free = place;
        self.account.held -= 1;
        self.account.reordered += 1;
        Some(Exit { place, packet })
    }

    /// Panics unless the counts agree with the places.
    pub(super) fn check(&self) {
        let mut waiting = 0;
        let mut at = self.oldest;
        while at != NONE {
            let place = &self.places[at];
            waiting += u64::from(!place.gone);
            let flow = &self.flows[place.packet.flow];
            assert!(before(flow.leaving, place.stamp), "a packet waits though its turn has come");
            let follows = match place.previous {
                NONE => flow.first == at,
                previous => self.places[previous].next == at && before(self.places[previous].stamp, place.stamp),
            };
            assert!(follows && (place.next == NONE) == (flow.last == at), "the line of a flow is broken");
            at = place.newer;
        }
        assert_eq!(waiting + self.leaving.len() as u64, self.account.held, "packets held at the exit");
    }

    /// Keeps a packet, or the note that it is gone, until its turn comes.
    fn keep(&mut self, now: Time, packet: &Packet, stamp: u32, gone: bool) -> ExitSlot {
        let at = self.free;
        assert_ne!(at, NONE, "packets that leave are asked for after every event");
        self.free = self.places[at].next;
        let deadline = now + self.timeout;
        let place =
            Place { packet: *packet, stamp, gone, deadline, next: NONE, previous: NONE, older: NONE, newer: NONE };
        self.places[at] = Place { older: self.newest, ..place };
        match self.newest {
            NONE => self.oldest = at,
            newest => self.places[newest].newer = at,
        }
        self.newest = at;
        self.account.held += u64::from(!gone);
        self.waiting += 1;
        self.insert(at);
        if self.waiting > self.waiting_max {
            self.give_up_oldest();
        }
        at
    }

    /// Inserts a place into the line of its flow, by stamp. Searches from the end, because each
    /// core completes packets in order. From the front, one stuck core would make every other
    /// packet walk along all that wait for it.
    fn insert(&mut self, at: ExitSlot) {
        let Place { packet, stamp, .. } = self.places[at];
        let flow = &mut self.flows[packet.flow];
        let (mut previous, mut next) = (flow.last, NONE);
        while previous != NONE && before(stamp, self.places[previous].stamp) {
            (previous, next) = (self.places[previous].previous, previous);
        }
        (self.places[at].previous, self.places[at].next) = (previous, next);
        match previous {
            NONE => flow.first = at,
            previous => self.places[previous].next = at,
        }
        match next {
            NONE => flow.last = at,
            next => self.places[next].previous = at,
        }
    }

    /// Gives up the packets that the longest-waiting packet waits for.
    fn give_up_oldest(&mut self) {
        let Place { packet, stamp, .. } = self.places[self.oldest];
        self.give_up(packet.flow, stamp);
        self.release_following(packet.flow);
    }

    /// Gives up the missing packets of a flow before this stamp; it is then the turn of this stamp.
    fn give_up(&mut self, flow: FlowId, stamp: u32) {
        while before(self.flows[flow].leaving, stamp) {
            let Flow { leaving, first, .. } = self.flows[flow];
            let waits = first != NONE && before(self.places[first].stamp, stamp);
            let next = if waits { self.places[first].stamp } else { stamp };
            self.account.given_up += u64::from(next.wrapping_sub(leaving));
            self.flows[flow].leaving = next;
            if waits {
                self.release_following(flow);
            }
        }
    }

    /// Releases the packets of a flow whose turn has come.
    fn release_following(&mut self, flow: FlowId) {
        while self.flows[flow].first != NONE {
            let at = self.flows[flow].first;
            let Place { stamp, gone, next, older, newer, .. } = self.places[at];
            if stamp != self.flows[flow].leaving {
                return;
            }
            self.flows[flow].leaving = stamp.wrapping_add(1);
            self.flows[flow].first = next;
            match next {
                NONE => self.flows[flow].last = NONE,
                next => self.places[next].previous = NONE,
            }
            self.waiting -= 1;
            match older {
                NONE => self.oldest = newer,
                older => self.places[older].newer = newer,
            }
            match newer {
                NONE => self.newest = older,
                newer => self.places[newer].older = older,
            }
            if gone {
                self.places[at].next = self.free;
                self.free = at;
            } else {
                self.leaving.push_back(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;
    use alloc::vec::Vec;

    const FLOW: FlowId = FlowId(0);

    fn buffer(packets: u32, timeout: u64) -> ExitBuffer {
        ExitBuffer::new(ExitOrder { packets, timeout: Time::from_ns(timeout) }, 4)
    }

    fn packet(flow: u32, sequence: u64) -> Packet {
        Packet { flow: FlowId(flow), sequence, ..Packet::default() }
    }

    fn at(ns: u64) -> Time {
        Time::from_ns(ns)
    }

    /// The sequence numbers that leave after this packet is done.
    fn done(buffer: &mut ExitBuffer, now: u64, sequence: u64) -> Vec<u64> {
        let kept = buffer.on_done(at(now), &packet(0, sequence), sequence as u32);
        let mut left: Vec<u64> = if kept.is_none() { [sequence].into() } else { Vec::new() };
        left.extend(exits(buffer));
        buffer.check();
        left
    }

    fn exits(buffer: &mut ExitBuffer) -> Vec<u64> {
        core::iter::from_fn(|| buffer.next_exit()).map(|exit| exit.packet.sequence).collect()
    }

    #[test]
    fn packets_leave_in_the_order_in_which_they_came() {
        let mut buffer = buffer(8, 100);
        (0..4).for_each(|_| _ = buffer.on_enter(FLOW));
        assert_eq!(done(&mut buffer, 1, 2), [0_u64; 0]);
        assert_eq!(done(&mut buffer, 2, 1), [0_u64; 0]);
        assert_eq!(done(&mut buffer, 3, 0), [0, 1, 2]);
        assert_eq!(done(&mut buffer, 4, 3), [3]);
        assert_eq!(buffer.account(), ExitAccount { reordered: 2, ..ExitAccount::default() });
    }

    #[test]
    fn nobody_waits_for_what_was_dropped() {
        let mut buffer = buffer(8, 100);
        (0..4).for_each(|_| _ = buffer.on_enter(FLOW));
        assert_eq!(done(&mut buffer, 1, 3), [0_u64; 0]);
        buffer.on_gone(at(2), &packet(0, 1), 1);
        buffer.on_gone(at(2), &packet(0, 0), 0);
        assert_eq!(exits(&mut buffer), [0_u64; 0]);
        assert_eq!(done(&mut buffer, 3, 2), [2, 3]);
    }

    #[test]
    fn a_packet_waits_no_longer_than_the_timeout() {
        let mut buffer = buffer(8, 100);
        (0..5).for_each(|_| _ = buffer.on_enter(FLOW));
        assert_eq!(done(&mut buffer, 10, 1), [0_u64; 0]);
        assert_eq!(done(&mut buffer, 20, 4), [0_u64; 0]);
        assert_eq!(buffer.next_timeout(), Some(at(110)));
        buffer.on_timeout(at(110));
        assert_eq!(exits(&mut buffer), [1]);
        assert_eq!(done(&mut buffer, 111, 2), [2]);
        assert_eq!(done(&mut buffer, 112, 0), [0], "it missed its turn, and leaves");
        assert_eq!(done(&mut buffer, 113, 3), [3, 4]);
        assert_eq!(buffer.account(), ExitAccount { held: 0, reordered: 2, missed_turn: 1, given_up: 1 });
    }

    #[test]
    fn no_more_packets_wait_than_there_are_places() {
        let mut buffer = buffer(2, 1000);
        (0..6).for_each(|_| _ = buffer.on_enter(FLOW));
        assert_eq!(done(&mut buffer, 1, 5), [0_u64; 0]);
        assert_eq!(done(&mut buffer, 2, 3), [0_u64; 0]);
        assert_eq!(done(&mut buffer, 3, 1), [1, 3, 5], "the oldest waits no more, nor those before it");
        assert_eq!(done(&mut buffer, 4, 0), [0]);
        assert_eq!(buffer.account().given_up, 3);
    }

    #[test]
    fn every_packet_leaves_once_and_in_order_unless_given_up() {
        for seed in 0..200 {
            let mut random = Seed(seed).stream("exit");
            let mut buffer = buffer(1 + random.below(12) as u32, 1 + random.below(60));
            let mut under_way: Vec<(Packet, u32)> = Vec::new();
            let mut left: Vec<Packet> = Vec::new();
            let (mut entered, mut gone) = (0u64, 0usize);
            for now in 0..400u64 {
                if now < 300 && random.below(3) > 0 {
                    let packet = packet(random.below(4) as u32, entered);
                    entered += 1;
                    let stamp = buffer.on_enter(packet.flow);
                    under_way.push((packet, stamp));
                }
                if !under_way.is_empty() && (now >= 300 || random.below(2) == 0) {
                    let chosen = random.below(under_way.len().min(9) as u64) as usize;
                    let (packet, stamp) = under_way.remove(chosen);
                    if random.below(10) == 0 {
                        buffer.on_gone(at(now), &packet, stamp);
                        gone += 1;
                    } else if buffer.on_done(at(now), &packet, stamp).is_none() {
                        left.push(packet);
                    }
                }
                buffer.on_timeout(at(now));
                left.extend(core::iter::from_fn(|| buffer.next_exit()).map(|exit| exit.packet));
                buffer.check();
            }
            for (packet, stamp) in under_way {
                if buffer.on_done(at(400), &packet, stamp).is_none() {
                    left.push(packet);
                }
                left.extend(core::iter::from_fn(|| buffer.next_exit()).map(|exit| exit.packet));
            }
            buffer.on_timeout(at(1000));
            left.extend(core::iter::from_fn(|| buffer.next_exit()).map(|exit| exit.packet));
            assert_eq!(left.len() + gone, entered as usize, "seed {seed}");
            let late = (0..4).map(|flow| late_of(&left, flow)).sum::<u64>();
            // A packet that missed its turn may still leave first, if those after it were dropped.
            assert!(late <= buffer.account().missed_turn, "seed {seed}: only who missed its turn is out of order");
            assert_eq!(buffer.account().held, 0);
        }
    }

    /// Packets of a flow that left after a later one.
    fn late_of(left: &[Packet], flow: u32) -> u64 {
        let mut highest = None;
        let of_flow = left.iter().filter(|packet| packet.flow == FlowId(flow)).map(|packet| packet.sequence);
        of_flow
            .filter(|&sequence| {
                let late = highest.is_some_and(|highest| sequence < highest);
                highest = highest.max(Some(sequence));
                late
            })
            .count() as u64
    }
}
