//! The O(1) scheduler of Linux 2.6: queues by priority, in two arrays.
//!
//! **Idea.** An *active* array has a queue of clients for each priority, and a bit for each queue
//! that is not empty. The first client of the highest priority is served until its time slice is
//! used up. Then it gets another slice, and waits in the *expired* array. When the active array is
//! empty, the arrays are exchanged. The choice takes one instruction for any number of clients.
//!
//! **Source.** Linux 2.6 until 2.6.22, kernel/sched.c (Molnar); compared in Caprita, Chan, Nieh,
//! Stein, Zheng. Group ratio round-robin. USENIX ATC 2005.
//!
//! **Promises.** Work conserving. With slices of s_i quanta, on one core: |W_i/s_i − W_j/s_j| ≤ 2
//! quanta + longest_i/s_i + longest_j/s_j while both are backlogged. Slices are whole quanta from 1
//! to 160, but not all of these values: see below.
//!
//! **Cost.** O(1) for all operations, if no client owes more than a slice.
//!
//! **Invariants.** A client whose head may be served is in the queue of its priority. It is in the
//! expired array if its slice was used up since the last exchange, else in the active one. A bit is
//! set for each queue that is not empty.
//!
//! **Departures.**
//! - The weight gives the nice value. Its slice is the kernel's in units of 5 ms: 20 − nice for
//!   nice 0 to 19, four times that for nice −20 to −1. So weights up to 20, and from 84 to 160 in
//!   steps of 4, have slices of as many quanta; others have the nearest.
//! - A slice is work, and overruns are carried.
//! - There are only the 40 priorities of nice values, not the kernel's other 100 for real time.
//! - Sleeping does not change priorities; the kernel uses it to guess which clients are
//!   interactive.
//! - A client that used up its slice stays expired if it pauses; in the kernel, sleeping makes it
//!   active again.
//! - All cores share one queue, where a core continues with its client. The kernel has one queue
//!   per core and balances them. For one queue per core, add a steering policy.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::storage::IdRings;
use humpyard_core::unit::{Time, Weight, Work};

use super::slot::{quantum, signed};

params! {
    /// Parameters of the O(1) scheduler.
    pub struct LinuxO1Params {
        /// Work of the shortest slice; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
    }
}

/// The number of nice values; −20 is the highest priority.
const PRIORITIES: usize = 40;
/// The weight of nice 0, the greatest weight with the slice of a positive or zero nice value.
const PLAIN_MAX: u32 = 20;
/// The greatest weight whose nearest slice is that of nice 0, not of nice −1.
const PLAIN_NEAREST: u32 = 52;

/// Returns the priority for a weight: the nice value plus 20; 0 is the highest.
fn priority(weight: Weight) -> usize {
    let weight = weight.get();
    let above = if weight <= PLAIN_NEAREST {
        weight.min(PLAIN_MAX)
    } else {
        (weight.saturating_add(2) / 4).clamp(PLAIN_MAX + 1, 2 * PLAIN_MAX)
    };
    PRIORITIES - above as usize
}

/// Returns the slice for a weight, in quanta.
fn slice(weight: Weight) -> i64 {
    let above = (PRIORITIES - priority(weight)) as i64;
    if above <= i64::from(PLAIN_MAX) { above } else { 4 * above }
}

/// A queue of one of the two arrays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Level(u8);

impl Level {
    fn new(array: usize, priority: usize) -> Self {
        Self::from_index(array * PRIORITIES + priority)
    }
}

impl Id for Level {
    fn from_index(index: usize) -> Self {
        Self(u8::try_from(index).expect("there are 80"))
    }

    fn index(self) -> usize {
        self.0.into()
    }
}

/// The state of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// Work left of its slice; negative is debt.
    left: i64,
    /// The number of exchanges of the arrays when its slice was used up.
    expired: u64,
    weight: Weight,
    /// Whether it gets another slice at its next turn.
    spent: bool,
    /// Whether it was served and its slice is not used up: it goes before others of its priority.
    running: bool,
    /// Whether its head may be served.
    offered: bool,
}

/// The O(1) scheduler of Linux 2.6.
#[derive(Debug)]
pub struct LinuxO1 {
    /// Work of the shortest slice.
    quantum: i64,
    /// The number of exchanges of the arrays, from 1; its last bit is the index of the active array.
    changes: u64,
    /// For each array, the priorities that have clients.
    filled: [u64; 2],
    queues: IdRings<Level, ClientId>,
    clients: IdVec<ClientId, Client>,
    /// The client that each core served last.
    last: IdVec<CoreId, Option<ClientId>>,
}

impl Build for LinuxO1 {
    type Params = LinuxO1Params;
    const INFO: Info = Info {
        name: "linux-o1",
        family: Family::Share,
        summary: "a time slice by weight, highest priority first; who has used it up waits until all have",
        source: "Linux 2.6 until 2.6.22, kernel/sched.c",
        promises: &[
            Promise::WorkConserving,
            Promise::Fair(
                "with slices of s quanta, s = w to 20: |W_i/s_i - W_j/s_j| <= 2 quanta + longest_i/s_i + longest_j/s_j on one core",
            ),
        ],
        complexity: "O(1)",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=20000"];

    fn new(params: &LinuxO1Params, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self {
            quantum: quantum(Self::INFO.name, params.quantum, config)?,
            changes: 1,
            filled: [0; 2],
            queues: IdRings::new(2 * PRIORITIES, config.clients),
            clients: IdVec::from_fn(config.clients, |id| Client::new(config.weight(id))),
            last: IdVec::from_fn(config.cores, |_| None),
        })
    }
}

impl Client {
    /// Creates a client that is new: it has its first slice at its first turn.
    fn new(weight: Weight) -> Self {
        Self { left: 0, expired: 0, weight, spent: true, running: false, offered: false }
    }
}

impl Policy for LinuxO1 {
    fn check(&self) {
        let mut queued = 0;
        for (array, filled) in self.filled.iter().enumerate() {
            for priority in 0..PRIORITIES {
                let level = Level::new(array, priority);
                let is_filled = filled >> priority & 1 == 1;
                assert_eq!(is_filled, self.queues.front(level).is_some(), "the bit of {level:?}");
                for id in self.queues.iter(level) {
                    assert!(self.clients[id].offered && self.level(id) == level, "client {id} in {level:?}");
                    queued += 1;
                }
            }
        }
        assert_eq!(self.clients.iter().filter(|client| client.offered).count(), queued, "heads on offer");
        for client in self.clients.iter() {
            assert!(client.expired <= self.changes && (client.spent || client.left > 0), "{client:?}");
        }
    }
}

impl Share for LinuxO1 {
    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.on_head(now, id, head);
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.clients[id].offered = true;
        self.enqueue(id);
    }

    fn pick(&mut self, _: Time, core: CoreId) -> Option<ClientId> {
        loop {
            let active = self.active();
            if self.filled[active] == 0 {
                if self.filled[1 - active] == 0 {
                    return None;
                }
                self.changes += 1;
                continue;
            }
            let level = Level::new(active, self.filled[active].trailing_zeros() as usize);
            let goes_on = self.last[core].filter(|&last| self.goes_on(last, level));
            let id = goes_on.or(self.queues.front(level)).expect("a queue whose bit is set");
            if self.has_slice(id) {
                return Some(id);
            }
        }
    }

    fn on_dispatch(&mut self, _: Time, core: CoreId, id: ClientId, sent: &Packet) {
        self.dequeue(id);
        self.last[core] = Some(id);
        let client = &mut self.clients[id];
        client.offered = false;
        client.running = true;
        self.charge(id, signed(sent.estimate));
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        if used == sent.estimate {
            return;
        }
        let is_offered = self.clients[id].offered;
        if is_offered {
            self.dequeue(id);
        }
        self.charge(id, signed(used).saturating_sub(signed(sent.estimate)));
        if is_offered {
            self.enqueue(id);
        }
    }

    fn on_idle(&mut self, _: Time, id: ClientId) {
        self.clients[id].running = false;
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.clients[id] = Client::new(self.clients[id].weight);
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        let is_offered = self.clients[id].offered;
        if is_offered {
            self.dequeue(id);
        }
        self.clients[id].weight = weight;
        if is_offered {
            self.enqueue(id);
        }
    }
}

impl LinuxO1 {
    /// Returns the index of the active array.
    fn active(&self) -> usize {
        (self.changes % 2) as usize
    }

    /// Returns the queue of a client while its head may be served.
    fn level(&self, id: ClientId) -> Level {
        let client = &self.clients[id];
        let is_expired = client.spent && client.expired == self.changes;
        let array = if is_expired { 1 - self.active() } else { self.active() };
        Level::new(array, priority(client.weight))
    }

    /// Whether a client that a core served last is at its front level with slice left, so that it
    /// continues before others.
    fn goes_on(&self, id: ClientId, level: Level) -> bool {
        let client = &self.clients[id];
        client.running && client.offered && self.level(id) == level
    }

    fn enqueue(&mut self, id: ClientId) {
        let level = self.level(id);
        if self.clients[id].running {
            self.queues.push_front(level, id);
        } else {
            self.queues.push_back(level, id);
        }
        self.filled[level.index() / PRIORITIES] |= 1 << (level.index() % PRIORITIES);
    }

    fn dequeue(&mut self, id: ClientId) {
        let level = self.level(id);
        self.queues.remove(level, id);
        if self.queues.front(level).is_none() {
            self.filled[level.index() / PRIORITIES] &= !(1 << (level.index() % PRIORITIES));
        }
    }

    /// Whether the client, which is active, has work left in a slice. It gets another slice if its
    /// last was used up. If that does not cover its debt, it is expired again.
    fn has_slice(&mut self, id: ClientId) -> bool {
        let client = &self.clients[id];
        if !client.spent {
            return true;
        }
        let left = client.left.saturating_add(slice(client.weight) * self.quantum);
        if left > 0 {
            let client = &mut self.clients[id];
            (client.left, client.spent) = (left, false);
            return true;
        }
        self.dequeue(id);
        let client = &mut self.clients[id];
        (client.left, client.expired) = (left, self.changes);
        self.enqueue(id);
        false
    }

    /// Subtracts work from the slice of a client that is in no queue.
    fn charge(&mut self, id: ClientId, work: i64) {
        let client = &mut self.clients[id];
        client.left = client.left.saturating_sub(work);
        if client.left > 0 {
            // The packet used less than estimated, and the slice is not used up after all.
            let goes_on = client.spent && client.expired == self.changes;
            client.running |= goes_on;
            client.spent &= !goes_on;
        } else if !client.spent {
            client.spent = true;
            client.expired = self.changes;
            client.running = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{
        A, B, Desk, V, random_weights, sequence, unit_errors, unit_sequence, unit_ticks, v_work,
    };
    use alloc::vec::Vec;

    const O1: LinuxO1Params = LinuxO1Params { quantum: Auto::Auto };

    /// The kernel's slices by nice value, in units of 5 ms: 100 ms for nice 0, 5 ms for 19, 800 ms for -20.
    #[test]
    fn weights_are_nice_values() {
        let nice = |weight| priority(Weight::new(weight).unwrap()) as i64 - 20;
        let slice = |weight| slice(Weight::new(weight).unwrap());
        for weight in 1..=1000 {
            let kernel = if nice(weight) < 0 { 4 } else { 1 } * (20 - nice(weight));
            assert_eq!(slice(weight), kernel, "weight {weight}");
            let all = (1..=20).chain((21..=40).map(|above| 4 * above));
            let nearest = all.map(|slice: i64| slice.abs_diff(i64::from(weight))).min().unwrap();
            assert_eq!(kernel.abs_diff(i64::from(weight)), nearest, "weight {weight}");
        }
        assert_eq!([1, 20, 52, 53, 84, 160, 9999, u32::MAX].map(nice), [19, 0, 0, -1, -1, -20, -20, -20]);
    }

    #[test]
    fn heavy_clients_use_their_slices_first() {
        assert_eq!(unit_sequence::<LinuxO1>(&O1, &A, 12), "111223111223");
        assert_eq!(unit_sequence::<LinuxO1>(&O1, &B, 24), "111111111111222333445566");
        assert_eq!(unit_sequence::<LinuxO1>(&O1, &[1, 2, 3], 12), "333221333221");
        // Slices of 20, 10, 10: client 1 uses up its slice with 4 packets; client 2 then owes 5.
        assert_eq!(sequence::<LinuxO1>(&O1, &V, 14, 10, v_work), "11112223111122");
    }

    /// With clients sorted by weight, heaviest first, it is `wrr`, and its bounds are reached.
    #[test]
    fn unit_errors_are_those_of_wrr() {
        for mut weights in random_weights("linux-o1", 200, 12, 20) {
            weights.sort_unstable_by(|a, b| b.cmp(a));
            let total: i128 = weights.iter().map(|&weight| i128::from(weight)).sum();
            let (mut before, mut behind, mut ahead) = (0, 0, 0);
            for &weight in &weights {
                let weight = i128::from(weight);
                behind = behind.max(weight * before);
                ahead = ahead.max(weight * (total - before - weight));
                before += weight;
            }
            assert_eq!(unit_errors::<LinuxO1>(&O1, &weights, total as usize), (-behind, ahead), "{weights:?}");
        }
    }

    #[test]
    fn who_wakes_is_active_and_goes_by_priority() {
        let mut desk = Desk::<LinuxO1>::new(&O1, &[3, 2, 1, 3]);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(4), "1112");
        desk.wake(&[4]);
        // Client 2 keeps the slice that it has begun.
        assert_eq!(desk.serve(5 + 9), "44423111444223");
    }

    /// The rest of a slice outlasts a pause, and so does the state that it is used up.
    #[test]
    fn pausing_gains_nothing() {
        let mut desk = Desk::<LinuxO1>::new(&O1, &[2, 2]);
        desk.wake(&[1, 2]);
        assert_eq!(desk.serve(1), "1");
        desk.block(1);
        assert_eq!(desk.serve(1), "2");
        desk.wake(&[1]);
        // Client 2 has begun and continues; then client 1 is served with its rest.
        assert_eq!(desk.serve(2), "21");
        desk.block(1);
        desk.wake(&[1]);
        assert_eq!(desk.serve(4), "2211");
    }

    #[test]
    fn a_debt_lasts_for_slices() {
        let work = |client: ClientId, number: u64| (1, if (client.0, number) == (0, 0) { 7 } else { 1 });
        let mut desk = Desk::<LinuxO1>::with_work(&O1, &[2, 1], 1, work);
        desk.wake(&[1, 2]);
        // With a debt of 5, it misses two slices, and has 1 of the third.
        assert_eq!(desk.serve(8), "12221211");
    }

    #[test]
    fn what_was_estimated_too_high_does_not_end_a_slice() {
        let mut desk = Desk::<LinuxO1>::with_work(&O1, &[1, 1], 10, |_, _| (10, 5));
        desk.wake(&[1, 2]);
        assert_eq!(desk.serve(8), "11221122");
    }

    #[test]
    fn another_weight_is_another_priority_at_once() {
        let mut desk = Desk::<LinuxO1>::new(&O1, &A);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(1), "1");
        desk.set_weight(3, 4);
        assert_eq!(desk.serve(8 + 9), "33331122333311122");
    }

    /// By hand: client 3 gets the core that is free first, and the arrays are exchanged while
    /// clients are in service.
    #[test]
    fn two_processors_share_the_arrays() {
        let ticks = unit_ticks::<LinuxO1>(&O1, &[2, 2, 2], 2, 600);
        let first: Vec<[u32; 2]> = ticks[..6].iter().map(|served| [served[0].0 + 1, served[1].0 + 1]).collect();
        assert_eq!(first, [[1, 2], [1, 2], [3, 1], [3, 1], [2, 3], [2, 3]]);
        let mut service = [0u32; 3];
        ticks.iter().flatten().for_each(|client| service[client.index()] += 1);
        assert_eq!(service, [400; 3]);
    }
}
