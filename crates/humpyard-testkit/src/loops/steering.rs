//! The loop of a steering policy.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::mix;
use humpyard_core::id::{CoreId, FlowId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, CoreView, Steer, Target, View};
use humpyard_core::unit::Time;

/// A steering policy, and connections that each hold eight packets at all times.
pub struct Steering<S> {
    policy: S,
    views: IdVec<CoreId, CoreView>,
    eligible: Vec<CoreId>,
    held: Vec<(CoreId, Packet)>,
    /// The position in `held` of the oldest packet.
    oldest: usize,
    /// The packets that arrive, in turn.
    packets: Vec<Packet>,
    next: usize,
    sequence: u64,
}

impl<S: Steer + Build> Steering<S> {
    /// Makes a host whose packets have all arrived. They have one length, so that a policy which
    /// steers in proportion keeps its sets of cores. With `uneven` they have many lengths.
    ///
    /// # Panics
    /// If the policy rejects its parameters or the configuration.
    pub fn new(params: &S::Params, config: &SchedulerConfig, connections: u64, uneven: bool) -> Self {
        let packet = |i: u64| {
            let flow = i % connections;
            let length = if uneven { 64 + (mix(i) % 1451) as u32 } else { 1000 };
            Packet { key: mix(flow), rss: mix(flow) as u32, flow: FlowId(flow as u32), length, ..Packet::default() }
        };
        let mut host = Self {
            policy: S::new(params, config).expect("valid parameters"),
            views: IdVec::from_fn(config.cores, |_| CoreView::default()),
            eligible: (0..config.cores).map(CoreId::from_index).collect(),
            held: Vec::new(),
            oldest: 0,
            packets: (0..connections * 64).map(packet).collect(),
            next: 0,
            sequence: 0,
        };
        for _ in 0..8 * connections {
            let joined = host.arrive();
            host.held.push(joined);
        }
        host
    }

    #[inline]
    fn arrive(&mut self) -> (CoreId, Packet) {
        let packet = Packet { sequence: self.sequence, ..self.packets[self.next] };
        self.next = if self.next + 1 < self.packets.len() { self.next + 1 } else { 0 };
        self.sequence += 1;
        let view = View { as_of: Time::ZERO, cores: &self.views, eligible: &self.eligible };
        let core = self.policy.steer(Time::ZERO, &packet, &view).core().expect("a core");
        self.policy.on_enqueue(Time::ZERO, Target::Core(core), &packet);
        self.views[core].packets += 1;
        (core, packet)
    }

    /// Steers a packet that arrives, completes the oldest one, and returns the core of the new one.
    pub fn step(&mut self) -> CoreId {
        let joined = self.arrive();
        let (core, oldest) = std::mem::replace(&mut self.held[self.oldest], joined);
        self.oldest = if self.oldest + 1 < self.held.len() { self.oldest + 1 } else { 0 };
        self.policy.on_completion(Time::ZERO, core, &oldest, oldest.estimate);
        self.views[core].packets -= 1;
        joined.0
    }
}
