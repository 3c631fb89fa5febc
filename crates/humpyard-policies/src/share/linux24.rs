//! The scheduler of Linux 2.4: serves the ready client with the most goodness.
//!
//! **Idea.** Time is divided into epochs. A client begins an epoch with a number of ticks. Its
//! *goodness* is its remaining ticks plus its priority, and 0 when no tick remains. The client with
//! the most goodness is served. When no ready client has ticks left, the next epoch begins: every
//! client receives its ticks again. A client that was idle keeps half of its remaining ticks.
//!
//! **Source.** Linux 2.4, kernel/sched.c at 100 ticks a second; compared in Caprita, Chan, Nieh,
//! Stein, Zheng. Group ratio round-robin. USENIX ATC 2005.
//!
//! **Promises.** Work conserving. With t_i ticks per epoch, on one core: |W_i/t_i − W_j/t_j| ≤ 3
//! ticks + longest_i/t_i + longest_j/t_j while both are backlogged. A share is a whole number of
//! ticks from 1 to 11: weights above 11 get the service of 11.
//!
//! **Cost.** `pick` O(n) in the ready clients, as in the kernel; the events O(1).
//!
//! **Invariants.** `ready` holds exactly the clients whose head may be served. A client's remaining
//! ticks are those of its `epoch`, which is not after that of the policy.
//!
//! **Departures.**
//! - The weight w gives the nice value: t = min(w, 11) ticks are those of nice 20 − 4(t − 1), at
//!   most 19; nice 0 has 6.
//! - A tick is work, not time, and no work is lost between two clients: partly used ticks and
//!   overruns are carried.
//! - Epochs are counted, and a client that was idle is updated when it wakes. The kernel updates
//!   all clients when an epoch begins.
//! - Of equal goodness, the lower id is served; the kernel serves the client that woke last.
//! - A ready client is served when a packet is done, not before.
//! - All cores share one queue, as in the kernel. With several cores, a client has 15 more goodness
//!   on the core that served it last. It has 1 more if it was the last client there.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share, Ties};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::{Time, Weight, Work};

use super::slot::{quantum, signed};

params! {
    /// Parameters of the scheduler of Linux 2.4.
    pub struct Linux24Params {
        /// Work of one tick; `auto` is the longest packet.
        quantum: Auto = Auto::Auto, unit "work";
    }
}

/// The ticks of nice −20.
const TICKS_MAX: u32 = 11;
/// The bonus of a client on the core that served it last: the kernel's penalty for a change of processor.
const SAME_CORE: i64 = 15;
/// The bonus of the last client of a core: the kernel's advantage of the same memory.
const SAME_MEMORY: i64 = 1;
/// The epoch of a new client.
const NEVER: u64 = u64::MAX;

/// Returns the ticks of an epoch for a weight.
fn ticks(weight: Weight) -> i64 {
    i64::from(weight.get().min(TICKS_MAX))
}

/// Returns 20 minus the nice value for a weight.
fn priority(weight: Weight) -> i64 {
    (4 * (ticks(weight) - 1)).max(1)
}

/// The state of one client.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// The work left of its ticks, in `epoch`; negative is debt.
    left: i64,
    /// The epoch to which `left` belongs.
    epoch: u64,
    weight: Weight,
    /// The core that served it last.
    core: Option<CoreId>,
}

impl Client {
    /// Returns the remaining ticks, a partly used one included.
    fn counter(&self, tick: i64) -> i64 {
        if self.left > 0 { (self.left - 1) / tick + 1 } else { 0 }
    }

    /// Updates the remaining work to this epoch. O(log left), because the rest of former epochs is
    /// halved in each.
    #[inline]
    fn catch_up(&mut self, epoch: u64, tick: i64) {
        if self.epoch != epoch {
            self.begin_epochs(epoch, tick);
        }
    }

    #[cold]
    fn begin_epochs(&mut self, epoch: u64, tick: i64) {
        let gain = ticks(self.weight) * tick;
        if self.epoch == NEVER {
            *self = Self { left: gain, epoch, ..*self };
            return;
        }
        let mut epochs = epoch - self.epoch;
        self.epoch = epoch;
        let in_debt = epochs.min(self.left.min(0).unsigned_abs() / gain as u64);
        self.left += in_debt as i64 * gain;
        epochs -= in_debt;
        while epochs > 0 {
            let before = self.left;
            let counter = self.counter(tick);
            self.left += gain - (counter - counter / 2) * tick;
            if self.left == before {
                break;
            }
            epochs -= 1;
        }
    }

    /// Returns the number of epochs after which it has ticks again.
    fn epochs_of_debt(&self, tick: i64) -> u64 {
        self.left.min(0).unsigned_abs() / (ticks(self.weight) * tick) as u64 + 1
    }
}

/// The scheduler of Linux 2.4.
#[derive(Debug)]
pub struct Linux24 {
    /// Work of one tick.
    tick: i64,
    epoch: u64,
    /// The clients whose head may be served.
    ready: IdSet<ClientId>,
    clients: IdVec<ClientId, Client>,
    /// The client that each core served last.
    last: IdVec<CoreId, Option<ClientId>>,
    ties: Ties,
}

impl Build for Linux24 {
    type Params = Linux24Params;
    const INFO: Info = Info {
        name: "linux24",
        family: Family::Share,
        summary: "epochs of 1 to 11 ticks a client; the most ticks left and priority first, found among all",
        source: "Linux 2.4, kernel/sched.c",
        promises: &[
            Promise::WorkConserving,
            Promise::Fair(
                "with t = min(w, 11) ticks: |W_i/t_i - W_j/t_j| <= 3 ticks + longest_i/t_i + longest_j/t_j on one core",
            ),
        ],
        complexity: "O(n)",
    };
    const VARIANTS: &'static [&'static str] = &["quantum=20000"];

    fn new(params: &Linux24Params, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self {
            tick: quantum(Self::INFO.name, params.quantum, config)?,
            epoch: 0,
            ready: IdSet::new(config.clients),
            clients: IdVec::from_fn(config.clients, |id| Client {
                left: 0,
                epoch: NEVER,
                weight: config.weight(id),
                core: None,
            }),
            last: IdVec::from_fn(config.cores, |_| None),
            ties: config.ties,
        })
    }
}

impl Policy for Linux24 {
    fn check(&self) {
        for id in self.clients.ids() {
            let client = &self.clients[id];
            assert!(client.epoch == NEVER || client.epoch <= self.epoch, "epoch of client {id}");
            assert!(client.epoch != NEVER || !self.ready.contains(id), "client {id} is ready and was never there");
        }
    }
}

impl Share for Linux24 {
    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.on_head(now, id, head);
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.up_to_date(id);
        self.ready.insert(id);
    }

    fn pick(&mut self, _: Time, core: CoreId) -> Option<ClientId> {
        if self.ready.is_empty() {
            return None;
        }
        self.best(core)
            .or_else(|epochs| {
                self.epoch += epochs;
                self.best(core)
            })
            .ok()
    }

    fn on_dispatch(&mut self, _: Time, core: CoreId, id: ClientId, sent: &Packet) {
        self.ready.remove(id);
        self.last[core] = Some(id);
        let client = self.up_to_date(id);
        client.left = client.left.saturating_sub(signed(sent.estimate));
        client.core = Some(core);
    }

    fn on_completion(&mut self, _: Time, _: CoreId, id: ClientId, sent: &Packet, used: Work) {
        if used != sent.estimate {
            let client = self.up_to_date(id);
            client.left = client.left.saturating_add(signed(sent.estimate).saturating_sub(signed(used)));
        }
    }

    fn on_idle(&mut self, _: Time, _: ClientId) {}

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        let weight = self.clients[id].weight;
        self.clients[id] = Client { left: 0, epoch: NEVER, weight, core: None };
        for last in self.last.iter_mut().filter(|last| **last == Some(id)) {
            *last = None;
        }
    }

    fn set_weight(&mut self, _: Time, id: ClientId, weight: Weight) {
        if self.clients[id].epoch != NEVER {
            self.up_to_date(id);
        }
        self.clients[id].weight = weight;
    }
}

impl Linux24 {
    fn up_to_date(&mut self, id: ClientId) -> &mut Client {
        let client = &mut self.clients[id];
        client.catch_up(self.epoch, self.tick);
        client
    }

    /// Returns the ready client with the most goodness for a core. If none has ticks left, returns
    /// the number of epochs until the first one has.
    fn best(&mut self, core: CoreId) -> Result<ClientId, u64> {
        let (last, several) = (self.last[core], self.last.len() > 1);
        let (mut best, mut most, mut epochs) = (None, 0, u64::MAX);
        for id in self.ready.iter() {
            let client = &mut self.clients[id];
            client.catch_up(self.epoch, self.tick);
            if client.left <= 0 {
                epochs = epochs.min(client.epochs_of_debt(self.tick));
                continue;
            }
            let mut goodness = client.counter(self.tick) + priority(client.weight);
            goodness += if several && client.core == Some(core) { SAME_CORE } else { 0 };
            goodness += if last == Some(id) { SAME_MEMORY } else { 0 };
            if goodness > most || goodness == most && self.ties == Ties::Highest {
                (best, most) = (Some(id), goodness);
            }
        }
        best.ok_or(epochs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{
        A, B, Desk, V, random_weights, sequence, unit_errors, unit_sequence, unit_ticks, v_work,
    };
    use humpyard_core::id::Id;

    const LINUX24: Linux24Params = Linux24Params { quantum: Auto::Auto };

    /// Weights are the ticks of nice values, as the kernel counts them at 100 Hz: a quarter of 20 -
    /// nice, plus 1.
    #[test]
    fn weights_are_nice_values() {
        for weight in 1..=20 {
            let nice = 20 - priority(Weight::new(weight).unwrap());
            assert_eq!(ticks(Weight::new(weight).unwrap()), (20 - nice) / 4 + 1, "weight {weight}, nice {nice}");
            assert!((-20..=19).contains(&nice));
        }
        assert_eq!([1, 6, 11, 12].map(|weight| 20 - priority(Weight::new(weight).unwrap())), [19, 0, -20, -20]);
    }

    /// By hand: on A, goodness is 11, 6, 2 at first. On B, where 12 counts as 11, clients 2 and 3
    /// are equal (11). The client served last is 1 better, so they take turns of 2, 3 and 1; then
    /// follow 4, 5, 6, with 6.
    #[test]
    fn heavy_clients_use_their_ticks_first() {
        assert_eq!(unit_sequence::<Linux24>(&LINUX24, &A, 12), "111223111223");
        assert_eq!(unit_sequence::<Linux24>(&LINUX24, &B, 23), "11111111111223332445566");
        let one = "1".repeat(11);
        assert_eq!(unit_sequence::<Linux24>(&LINUX24, &B, 46)[23..34], one);
    }

    /// Ticks of 10: client 1 uses 4, 6, 2 and 8; the 19th unit begins its second tick.
    #[test]
    fn variable_costs() {
        assert_eq!(sequence::<Linux24>(&LINUX24, &V, 14, 10, v_work), "11112223111122");
    }

    /// An epoch is a round of `wrr` in which each client uses its ticks together, except at equal
    /// priorities. So its bounds are as wide, for weights up to 11.
    #[test]
    fn an_epoch_gives_exactly_the_ticks() {
        for weights in random_weights("linux24", 100, 12, 11) {
            let total: u32 = weights.iter().sum();
            let served = unit_sequence::<Linux24>(&LINUX24, &weights, total as usize);
            for (client, &weight) in weights.iter().enumerate() {
                let digit = char::from_digit(client as u32 + 1, 36).unwrap();
                assert_eq!(served.matches(digit).count(), weight as usize, "client {client} of {weights:?}");
            }
            let (least, greatest) = unit_errors::<Linux24>(&LINUX24, &weights, 3 * total as usize);
            let heaviest = i128::from(*weights.iter().max().unwrap());
            let bound = heaviest * i128::from(total);
            assert!(-bound < least && greatest < bound, "{weights:?}: {least} to {greatest}");
        }
    }

    /// An idle client keeps half of its ticks from epoch to epoch: with 4 ticks, it has 4 + 2 = 6,
    /// then at most 7.
    #[test]
    fn who_was_idle_has_up_to_twice_its_ticks() {
        let mut desk = Desk::<Linux24>::new(&LINUX24, &[4, 4]);
        desk.wake(&[2]);
        assert_eq!(desk.serve(1), "2");
        desk.block(2);
        desk.wake(&[1]);
        assert_eq!(desk.serve(4), "1111");
        // Client 2 has 3 ticks left, so client 1 begins the next epochs alone.
        assert_eq!(desk.serve(40), "1".repeat(40));
        desk.wake(&[2]);
        let served = desk.serve(15);
        assert_eq!(served.chars().filter(|&client| client == '2').count(), 7 + 4, "{served}");
    }

    /// More epochs change nothing: 4 plus the kept half of 7 is 7.
    #[test]
    fn epochs_are_caught_up_with_at_once() {
        let fresh = Client { left: 40, epoch: 0, weight: Weight::new(4).unwrap(), core: None };
        for (epochs, left) in [(0, 40), (1, 60), (2, 70), (3, 70), (u64::MAX - 1, 70)] {
            let mut client = fresh;
            client.catch_up(epochs, 10);
            assert_eq!((client.left, client.epoch), (left, epochs));
        }
        let mut debtor = Client { left: -95, ..fresh };
        assert_eq!(debtor.epochs_of_debt(10), 3);
        debtor.catch_up(2, 10);
        assert_eq!(debtor.left, -15);
        debtor.catch_up(3, 10);
        assert_eq!(debtor.left, 25);
    }

    /// A packet costs 1,000 times its estimate; a single pick pays off the epochs of debt.
    #[test]
    fn a_debt_lasts_for_epochs() {
        let work = |client: ClientId, number: u64| (1, if (client.0, number) == (0, 0) { 1000 } else { 1 });
        let mut desk = Desk::<Linux24>::with_work(&LINUX24, &[2, 1], 1, work);
        desk.wake(&[1]);
        assert_eq!(desk.serve(3), "111");
        desk.wake(&[2]);
        // Client 1 has used its ticks of epoch 500.
        assert_eq!(desk.serve(7), "2112112");
    }

    #[test]
    fn another_weight_holds_from_the_next_epoch() {
        let mut desk = Desk::<Linux24>::new(&LINUX24, &A);
        desk.wake(&[1, 2, 3]);
        assert_eq!(desk.serve(1), "1");
        desk.set_weight(2, 5);
        assert_eq!(desk.serve(5 + 9), "22113222221113");
    }

    /// Two cores, three clients: a client stays on its core while it has ticks, and all get equal service.
    #[test]
    fn clients_stay_on_their_cores() {
        let ticks = unit_ticks::<Linux24>(&LINUX24, &[6, 6, 6], 2, 600);
        assert!(ticks[..6].iter().all(|served| *served == [ClientId(0), ClientId(1)]));
        let mut service = [0u32; 3];
        let (mut moves, mut place) = (0, [None; 3]);
        for served in &ticks {
            assert_ne!(served[0], served[1]);
            for (core, client) in served.iter().enumerate() {
                service[client.index()] += 1;
                moves += u32::from(place[client.index()].replace(core).is_some_and(|before| before != core));
            }
        }
        assert!(service.iter().all(|service| (380..=420).contains(service)), "{service:?}");
        assert!(moves < 200, "{moves} moves in 1,200 packets");
    }
}
