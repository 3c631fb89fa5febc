//! Helpers shared by the tests of steering policies.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::mix;
use humpyard_core::id::{ClientId, CoreId, ElementId, FlowId, Id, IdVec};
use humpyard_core::packet::{Packet, Part};
use humpyard_core::policy::{Build, CoreView, Steer, Target, View};
use humpyard_core::random::Random;
use humpyard_core::unit::{Time, Weight};

use crate::testing::config;

pub(crate) fn cores_of<const N: usize>(cores: [u16; N]) -> Vec<CoreId> {
    cores.into_iter().map(CoreId).collect()
}

/// Returns `count` connection keys, each as good as random.
pub(crate) fn keys(count: u64) -> Vec<u64> {
    (0..count).map(|i| mix(i ^ 0x5eed)).collect()
}

/// Returns the cores to which a fresh policy steers packets with these keys while all `cores` cores
/// are idle. The low bits of a key are its Toeplitz hash.
pub(crate) fn targets<S: Steer + Build>(params: &S::Params, cores: usize, keys: &[u64]) -> Vec<CoreId> {
    let eligible: Vec<CoreId> = (0..cores).map(CoreId::from_index).collect();
    targets_among::<S>(params, &eligible, keys)
}

/// As [`targets`], with only these cores eligible.
pub(crate) fn targets_among<S: Steer + Build>(params: &S::Params, eligible: &[CoreId], keys: &[u64]) -> Vec<CoreId> {
    let cores = eligible.iter().map(|core| core.index() + 1).max().expect("at least one core");
    targets_in_view::<S>(params, &IdVec::from_fn(cores, |_| CoreView::default()), eligible, keys)
}

/// As [`targets`], with these numbers of packets on the cores.
pub(crate) fn targets_behind<S: Steer + Build>(params: &S::Params, lengths: &[u32], keys: &[u64]) -> Vec<CoreId> {
    let eligible: Vec<CoreId> = (0..lengths.len()).map(CoreId::from_index).collect();
    targets_in_view::<S>(params, &views(lengths), &eligible, keys)
}

fn targets_in_view<S: Steer + Build>(
    params: &S::Params,
    views: &IdVec<CoreId, CoreView>,
    eligible: &[CoreId],
    keys: &[u64],
) -> Vec<CoreId> {
    let mut policy = S::new(params, &config(views.len(), 1, &[])).expect("default parameters");
    keys.iter()
        .map(|&key| {
            let packet = Packet { key, rss: key as u32, ..Packet::default() };
            let view = View { as_of: Time::ZERO, cores: views, eligible };

            policy.steer(Time::ZERO, &packet, &view).core().expect("a core")
        })
        .collect()
}

/// Returns the views of cores with these numbers of packets.
pub(crate) fn views(lengths: &[u32]) -> IdVec<CoreId, CoreView> {
    lengths.iter().map(|&packets| CoreView { packets, backlog: 0 }).collect()
}

/// Returns the fraction of `targets` on each of `cores` cores.
pub(crate) fn shares(targets: &[CoreId], cores: usize) -> Vec<f64> {
    let on = |core| targets.iter().filter(|&&target| target == core).count();
    (0..cores).map(|core| on(CoreId::from_index(core)) as f64 / targets.len() as f64).collect()
}

/// Returns the fraction of `after` that differs from `before`.
pub(crate) fn moved(before: &[CoreId], after: &[CoreId]) -> f64 {
    let moved = before.iter().zip(after).filter(|(a, b)| a != b).count();
    moved as f64 / before.len() as f64
}

/// Cores without a machine around them, their packets, and a policy that steers to them.
pub(crate) struct Cores<S> {
    pub(crate) policy: S,
    pub(crate) views: IdVec<CoreId, CoreView>,
    pub(crate) eligible: Vec<CoreId>,
    pub(crate) held: Vec<(CoreId, Packet)>,
    /// The seed of the keys of flows.
    pub(crate) seed: u64,
    /// Whether each flow is a separate client.
    clients: bool,
    accepted: u64,
}

impl<S: Steer + Build> Cores<S> {
    /// Creates `cores` cores, with room for `flows` flows.
    pub(crate) fn new(params: &S::Params, cores: usize, flows: usize) -> Self {
        Self::of(S::new(params, &SchedulerConfig { flows, ..config(cores, 1, &[]) }).expect("valid parameters"), cores)
    }

    /// As [`Cores::new`], with a separate client of the given weight for each flow.
    pub(crate) fn with_clients(params: &S::Params, cores: usize, flows: usize, weights: &[u32]) -> Self {
        let weights: Vec<Weight> = weights.iter().copied().filter_map(Weight::new).collect();
        let policy = S::new(params, &config(cores, flows, &weights)).expect("valid parameters");
        Self { clients: true, ..Self::of(policy, cores) }
    }

    /// Creates `cores` cores for this policy.
    pub(crate) fn of(policy: S, cores: usize) -> Self {
        Self {
            policy,
            views: IdVec::from_fn(cores, |_| CoreView::default()),
            eligible: (0..cores).map(CoreId::from_index).collect(),
            held: Vec::new(),
            seed: 0x5eed,
            clients: false,
            accepted: 0,
        }
    }

    pub(crate) fn key_of(&self, flow: u32) -> u64 {
        mix(u64::from(flow) ^ self.seed)
    }

    pub(crate) fn packet(&self, flow: u32, length: u32) -> Packet {
        Packet {
            key: self.key_of(flow),
            flow: FlowId(flow),
            client: ClientId(if self.clients { flow } else { 0 }),
            length,
            estimate: u64::from(length) / 2 + 7,
            sequence: self.accepted,
            ..Packet::default()
        }
    }

    /// Steers a packet that is then dropped.
    pub(crate) fn dropped(&mut self, flow: u32, length: u32) -> CoreId {
        let packet = self.packet(flow, length);
        let view = View { as_of: Time::ZERO, cores: &self.views, eligible: &self.eligible };
        let core = self.policy.steer(Time::ZERO, &packet, &view).core().expect("a core");
        assert!(self.eligible.contains(&core), "core {core} is not one of {:?}", self.eligible);
        self.policy.check();
        core
    }

    pub(crate) fn arrive(&mut self, flow: u32, length: u32) -> CoreId {
        let core = self.dropped(flow, length);
        self.join(core, flow, length);
        core
    }

    /// Lets a packet join a core without asking the policy.
    pub(crate) fn join(&mut self, core: CoreId, flow: u32, length: u32) {
        let packet = self.packet(flow, length);
        self.accepted += 1;
        self.views[core].packets += 1;
        self.views[core].backlog += packet.estimate;
        self.policy.on_enqueue(Time::ZERO, Target::Core(core), &packet);
        self.held.push((core, packet));
        self.policy.check();
    }

    /// Returns the core of the last packet.
    pub(crate) fn last_core(&self) -> CoreId {
        self.held[self.held.len() - 1].0
    }

    pub(crate) fn complete(&mut self, place: usize) {
        let (core, packet) = self.held.remove(place);
        self.views[core].packets -= 1;
        self.views[core].backlog -= packet.estimate;
        self.policy.on_completion(Time::ZERO, core, &packet, packet.estimate);
        self.policy.check();
    }

    /// Makes a random set of cores eligible, at least one.
    pub(crate) fn change_cores(&mut self, random: &mut Random) {
        let all = self.views.ids();
        self.eligible = all.filter(|_| random.below(4) > 0).collect();
        if self.eligible.is_empty() {
            self.eligible.push(CoreId::from_index(self.views.len() - 1));
        }
    }

    /// Runs arrivals, drops, completions and ends of six flows while cores come and go. `watch`
    /// sees every arrival.
    pub(crate) fn random(&mut self, random: &mut Random, events: usize, mut watch: impl FnMut(&Self, u32)) {
        for _ in 0..events {
            let flow = random.below(6) as u32;
            match random.below(16) {
                0 => _ = self.dropped(flow, 1 + random.below(1500) as u32),
                1 => self.change_cores(random),
                2 => self.eligible = self.views.ids().collect(),
                3..9 if !self.held.is_empty() => self.complete(random.below(self.held.len() as u64) as usize),
                9 if self.held.iter().all(|(_, packet)| packet.flow != FlowId(flow)) => {
                    self.policy.on_flow_end(Time::ZERO, FlowId(flow));
                }
                _ => {
                    self.arrive(flow, 1 + random.below(1500) as u32);
                    watch(self, flow);
                }
            }
            self.policy.check();
        }
    }
}

/// The threads of elements, each of which serves its packets in order, and a policy that steers to them.
pub(crate) struct Threads<S> {
    pub(crate) policy: S,
    pub(crate) eligible: Vec<CoreId>,
    contexts: usize,
    views: IdVec<CoreId, CoreView>,
    /// The packets of each thread, in service or waiting for it.
    packets: IdVec<CoreId, VecDeque<Packet>>,
    /// The packets that wait for an element, in order of arrival.
    pub(crate) waiting: VecDeque<(ElementId, Packet)>,
}

impl<S: Steer + Build> Threads<S> {
    pub(crate) fn new(params: &S::Params, elements: usize, contexts: usize) -> Self {
        let config = SchedulerConfig { contexts, ..config(elements * contexts, 1, &[]) };
        Self {
            policy: S::new(params, &config).expect("valid parameters"),
            eligible: (0..config.cores).map(CoreId::from_index).collect(),
            contexts,
            views: IdVec::from_fn(config.cores, |_| CoreView::default()),
            packets: IdVec::from_fn(config.cores, |_| VecDeque::new()),
            waiting: VecDeque::new(),
        }
    }

    pub(crate) fn steer(&mut self, packet: &Packet) -> Target {
        let view = View { as_of: Time::ZERO, cores: &self.views, eligible: &self.eligible };
        self.policy.steer(Time::ZERO, packet, &view)
    }

    /// Lets a packet arrive and join the target that the policy selects. A packet with target
    /// `Hold` is gone.
    pub(crate) fn arrive(&mut self, part: Part) -> Target {
        let packet = Packet { part, ..Packet::default() };
        let target = self.steer(&packet);
        match target {
            Target::Core(core) => self.join(core, packet),
            Target::Element(element) => self.waiting.push_back((element, packet)),
            Target::Shared | Target::Hold => return target,
        }
        self.policy.on_enqueue(Time::ZERO, target, &packet);
        target
    }

    /// As [`Threads::arrive`], for a packet that finds a thread. Returns the element of the thread.
    pub(crate) fn arrive_on_element(&mut self, part: Part) -> usize {
        self.arrive(part).core().expect("a thread").index() / self.contexts
    }

    /// Lets the thread take the first packet that waits for its element, if any.
    pub(crate) fn take(&mut self, core: CoreId) {
        let element = ElementId::from_index(core.index() / self.contexts);
        if let Some(first) = self.waiting.iter().position(|&(of, _)| of == element) {
            let (_, packet) = self.waiting.remove(first).expect("found there");
            self.join(core, packet);
            self.policy.on_dispatch(Time::ZERO, core, Target::Element(element), &packet);
        }
    }

    /// Completes the thread's first packet.
    pub(crate) fn complete(&mut self, core: CoreId) {
        let packet = self.packets[core].pop_front().expect("a packet is there");
        self.views[core].packets -= 1;
        self.policy.on_completion(Time::ZERO, core, &packet, 0);
    }

    fn join(&mut self, core: CoreId, packet: Packet) {
        self.packets[core].push_back(packet);
        self.views[core].packets += 1;
    }

    /// Returns every packet that is waiting or in service.
    pub(crate) fn held(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter().flatten().chain(self.waiting.iter().map(|(_, packet)| packet))
    }

    pub(crate) fn is_idle(&self, core: CoreId) -> bool {
        self.packets[core].is_empty()
    }

    /// Returns the first core, from this one on, that has a packet.
    pub(crate) fn busy_from(&self, core: CoreId) -> Option<CoreId> {
        self.packets.ids().find(|&busy| busy >= core && !self.packets[busy].is_empty())
    }
}
