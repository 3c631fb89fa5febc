//! Split flows: the packets of an elephant go to several cores, and leave in the order in which they came in.
//!
//! A flow becomes an elephant with the packet with which its estimated work in one window reaches a
//! share of a core. It stops being one after a window with less than half of that work. The
//! steering policy is informed of its packets but not asked. Each packet joins the shortest queue
//! of the flow's cores, the first in the order of rendezvous hashing. These cores stay the same
//! while they exist; the first is the core that `hrw` would choose.
//!
//! The exit puts all flows back in order, not only elephants. A packet gets its stamp before its
//! flow is known to be an elephant, and nothing needs to be drained when that changes. If the
//! policy keeps flows in order, the packets of other flows never wait.

use serde::{Deserialize, Serialize};

use crate::hash::{salt, score};
use crate::id::{CoreId, FlowId, IdVec};
use crate::packet::{Packet, Part};
use crate::policy::View;
use crate::unit::{Time, Work};

/// Which flows are split, and over how many cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Split {
    /// Cores of one elephant, from 2 to [`Split::CORES_MAX`]; all cores if there are fewer.
    pub cores: u16,
    /// The share of a core, in millionths, at which a flow becomes an elephant; 0 makes every flow
    /// one.
    pub share_millionths: u32,
    /// The time over which the share is measured, from 1 ns.
    pub window: Time,
}

impl Split {
    /// Most cores of one elephant.
    pub const CORES_MAX: u16 = 16;

    /// The work of a whole core in one window, times this split's share.
    fn threshold(&self) -> Work {
        let work = u128::from(self.window.as_ns()) * u128::from(self.share_millionths) / 1_000_000;
        Work::try_from(work).unwrap_or(Work::MAX)
    }
}

impl Default for Split {
    /// The default: two cores, and half of a core in 1 ms. Any two flows below that fit on one
    /// core, and two flows above it do not. The window is longer than a core takes for a burst of a
    /// connection (0.2 ms for a megabyte of encryption). It is short compared with the life of an
    /// elephant.
    fn default() -> Self {
        Self { cores: 2, share_millionths: 500_000, window: Time::from_ns(1_000_000) }
    }
}

/// The account of split flows so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SplitAccount {
    /// How often a flow became an elephant.
    pub elephants: u64,
    /// Packets that joined a queue so, each once.
    pub packets: u64,
}

impl SplitAccount {
    /// Adds the account of another splitter.
    pub const fn add(&mut self, other: Self) {
        self.elephants += other.elephants;
        self.packets += other.packets;
    }
}

/// The state of one flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// When its window began.
    began: Time,
    /// Estimated work of the packets that came since.
    work: Work,
    elephant: bool,
    /// Its packets that were split.
    packets: u64,
}

/// Finds elephants, and steers them.
#[derive(Debug)]
pub(super) struct Splitter {
    cores: usize,
    window: Time,
    /// Work in one window from which a flow is an elephant.
    begins: Work,
    /// Work in one window below which the flow stops being an elephant.
    ends: Work,
    flows: IdVec<FlowId, Flow>,
    account: SplitAccount,
}

impl Splitter {
    pub(super) fn new(split: Split, flows: usize) -> Self {
        let begins = split.threshold();
        Self {
            cores: usize::from(split.cores),
            window: split.window,
            begins,
            ends: begins / 2,
            flows: IdVec::from_fn(flows, |_| Flow::default()),
            account: SplitAccount::default(),
        }
    }

    pub(super) fn account(&self) -> SplitAccount {
        self.account
    }

    /// Records that a packet comes in.
    pub(super) fn on_arrival(&mut self, now: Time, packet: &Packet) {
        let flow = &mut self.flows[packet.flow];
        let age = now.since(flow.began);
        if age >= self.window {
            // If a window passed without a packet, the last window had no work.
            let work = if age.since(self.window) < self.window { flow.work } else { 0 };
            flow.elephant &= work >= self.ends;
            (flow.began, flow.work) = (now, 0);
        }
        flow.work = flow.work.saturating_add(packet.estimate);
        if !flow.elephant && flow.work >= self.begins {
            flow.elephant = true;
            self.account.elephants += 1;
        }
    }

    /// Returns the core for the packet if its flow is an elephant. Parts of a unit stay with the
    /// policy, because they belong together.
    pub(super) fn steer(&self, packet: &Packet, view: &View<'_>) -> Option<CoreId> {
        self.splits(packet).then(|| shortest(packet.key, self.cores, view))
    }

    /// Records that the packet has joined a queue.
    pub(super) fn on_enqueue(&mut self, packet: &Packet) {
        let split = u64::from(packet.hop == 0 && self.splits(packet));
        self.account.packets += split;
        self.flows[packet.flow].packets += split;
    }

    /// Returns the packets of this flow that were split so far.
    pub(super) fn packets(&self, flow: FlowId) -> u64 {
        self.flows[flow].packets
    }

    fn splits(&self, packet: &Packet) -> bool {
        self.flows[packet.flow].elephant && packet.part == Part::Whole
    }

    pub(super) fn on_flow_end(&mut self, flow: FlowId) {
        self.flows[flow] = Flow::default();
    }
}

/// Returns the core with the fewest packets among the first `count` in the order of the flow's
/// hashes; the first of equals. It compares all of them, not two random ones: they are few and
/// already ranked.
fn shortest(key: u64, count: usize, view: &View<'_>) -> CoreId {
    let mut ranked = [(0, CoreId(0)); Split::CORES_MAX as usize];
    let mut length = 0;
    for &core in view.eligible {
        let bid = score(key, salt(u64::from(core.0)));
        let place = ranked[..length].iter().position(|&(other, _)| bid > other).unwrap_or(length);
        if place < count {
            length = (length + 1).min(count);
            ranked[place..length].rotate_right(1);
            ranked[place] = (bid, core);
        }
    }
    let (_, core) =
        ranked[..length].iter().min_by_key(|(_, core)| view.cores[*core].packets).expect("a core is eligible");
    *core
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::CoreView;
    use alloc::vec::Vec;

    const SPLIT: Split = Split { cores: 2, share_millionths: 500_000, window: Time::from_ns(1000) };

    fn packet(estimate: Work) -> Packet {
        Packet { estimate, ..Packet::default() }
    }

    /// Whether the flow is an elephant after each of these arrivals.
    fn marks(splitter: &mut Splitter, arrivals: &[(u64, Work)]) -> Vec<bool> {
        let mark = |&(now, work): &(u64, Work)| {
            splitter.on_arrival(Time::from_ns(now), &packet(work));
            splitter.flows[FlowId(0)].elephant
        };
        arrivals.iter().map(mark).collect()
    }

    fn with_view<T>(lengths: &[u32], eligible: &[u16], body: impl FnOnce(&View<'_>) -> T) -> T {
        let cores = lengths.iter().map(|&packets| CoreView { packets, backlog: 0 }).collect();
        let eligible: Vec<CoreId> = eligible.iter().map(|&core| CoreId(core)).collect();
        body(&View { as_of: Time::ZERO, cores: &cores, eligible: &eligible })
    }

    #[test]
    fn a_flow_is_an_elephant_once_a_window_has_the_work() {
        let mut splitter = Splitter::new(SPLIT, 1);
        let found = marks(&mut splitter, &[(0, 300), (400, 199), (999, 1), (1000, 1)]);
        assert_eq!(found, [false, false, true, true]);
        assert_eq!(splitter.account().elephants, 1);
    }

    #[test]
    fn work_of_two_windows_is_not_added_up() {
        let mut splitter = Splitter::new(SPLIT, 1);
        assert_eq!(marks(&mut splitter, &[(0, 499), (1000, 499), (2000, 499)]), [false; 3]);
    }

    #[test]
    fn it_stays_one_until_a_window_has_less_than_half_of_that() {
        let mut splitter = Splitter::new(SPLIT, 1);
        let found = marks(&mut splitter, &[(0, 500), (1000, 250), (2000, 249), (3000, 1), (4000, 500)]);
        assert_eq!(found, [true, true, true, false, true]);
        assert_eq!(splitter.account().elephants, 2, "it became one again");
    }

    #[test]
    fn it_stays_none_after_a_window_without_a_packet() {
        let mut splitter = Splitter::new(SPLIT, 1);
        assert_eq!(marks(&mut splitter, &[(0, 500), (1999, 10)]), [true, true]);
        let mut splitter = Splitter::new(SPLIT, 1);
        assert_eq!(marks(&mut splitter, &[(0, 500), (2000, 10)]), [true, false]);
    }

    #[test]
    fn a_share_of_nothing_splits_every_flow() {
        let mut splitter = Splitter::new(Split { share_millionths: 0, ..SPLIT }, 1);
        assert_eq!(marks(&mut splitter, &[(0, 0), (99_000, 0)]), [true; 2]);
    }

    #[test]
    fn the_greatest_share_and_window_do_not_overflow() {
        let split = Split { cores: 16, share_millionths: u32::MAX, window: Time::MAX };
        let mut splitter = Splitter::new(split, 1);
        assert_eq!(marks(&mut splitter, &[(0, Work::MAX - 1), (u64::MAX - 1, 1)]), [false, true]);
    }

    #[test]
    fn a_flow_that_is_over_leaves_nothing_to_the_next() {
        let mut splitter = Splitter::new(SPLIT, 1);
        assert_eq!(marks(&mut splitter, &[(0, 500)]), [true]);
        splitter.on_flow_end(FlowId(0));
        assert_eq!(marks(&mut splitter, &[(1, 1)]), [false]);
    }

    #[test]
    fn a_packet_joins_the_shortest_queue_of_the_flows_cores() {
        // Key 12345 ranks them 3, 4, 2, 5, 1, 0, 6, 7.
        let choose = |count, lengths: &[u32; 8], eligible: &[u16]| {
            with_view(lengths, eligible, |view| shortest(12345, count, view).0)
        };
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        assert_eq!(choose(2, &[0; 8], &all), 3, "of equals the first");
        assert_eq!(choose(2, &[0, 0, 0, 2, 1, 0, 0, 0], &all), 4, "others may be shorter");
        assert_eq!(choose(3, &[0, 0, 0, 2, 1, 0, 0, 0], &all), 2);
        assert_eq!(choose(2, &[0, 0, 0, 2, 1, 9, 8, 0], &[5, 6]), 6, "only the eligible");
        assert_eq!(choose(16, &[1, 1, 1, 1, 1, 1, 1, 0], &all), 7, "more than there are is all");
        assert_eq!(choose(2, &[9; 8], &[6]), 6);
    }

    #[test]
    fn parts_of_a_unit_and_other_flows_are_left_to_the_policy() {
        let mut splitter = Splitter::new(SPLIT, 1);
        let steer = |splitter: &mut Splitter, packet: &Packet| {
            splitter.on_enqueue(packet);
            with_view(&[0, 0], &[0, 1], |view| splitter.steer(packet, view).is_some())
        };
        assert!(!steer(&mut splitter, &packet(1)));
        marks(&mut splitter, &[(0, 500)]);
        assert!(!steer(&mut splitter, &Packet { part: Part::First, ..packet(1) }));
        assert!(steer(&mut splitter, &packet(1)));
        assert!(steer(&mut splitter, &Packet { hop: 1, ..packet(1) }));
        assert_eq!(
            splitter.account(),
            SplitAccount { elephants: 1, packets: 1 },
            "a packet counts at its first service"
        );
        assert_eq!(splitter.packets(FlowId(0)), 1);
        splitter.on_flow_end(FlowId(0));
        assert_eq!((splitter.packets(FlowId(0)), splitter.account().packets), (0, 1));
    }
}
