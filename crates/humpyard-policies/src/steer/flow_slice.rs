//! Flow slices: a flow may change its core after a pause so long that no earlier packet of it still waits.
//!
//! **Idea.** Packets of a flow in close succession form a slice and go to one core. After a pause
//! longer than δ, the next slice goes to the core with the least backlog. If δ is at least the
//! difference of queueing delays, no packet of the new slice overtakes one of the old.
//!
//! **Source.** Shi, Liu, Zhang. Load balancing by flow slices: INFOCOM 2009 and IEEE Transactions
//! on Computers 61, 2012, as described in MODERN.
//!
//! **Promises.** Packets of a flow leave in order of arrival while δ is at least the difference of
//! two cores' queueing delays. The default δ ensures this if estimates are times and no packet
//! takes longer than its estimate.
//!
//! **Cost.** O(N) with the default δ, or after a pause; else O(1). 16 bytes for each flow.
//!
//! **Departures.** By default δ is the largest backlog of any core if the unit of work is time, else 100 µs. It
//! is computed when the flow's last packet arrives, because later backlogs can be smaller while that packet
//! still waits. The paper takes the delay of multistage switches as given.

use alloc::vec;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, FlowId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Steer, Target, View};
use humpyard_core::unit::{Time, WorkUnit};

params! {
    /// Parameters of flow slices.
    pub struct FlowSliceParams {
        /// A flow that pauses for this time may change its core; `auto` is the largest backlog of
        /// any core if the unit of work is time, else 100000.
        delta: Auto = Auto::Auto, unit "ns";
    }
}

/// The pause after which a flow may change its core if backlogs are not times.
const DELTA: Time = Time::from_ns(100_000);

/// The minimum pause.
#[derive(Clone, Copy, Debug)]
enum Delta {
    Given(Time),
    /// The largest backlog, which is in ns.
    Backlog,
}

impl Delta {
    /// Returns δ for a packet that joins this core.
    fn after(self, packet: &Packet, core: CoreId, view: &View<'_>) -> Time {
        match self {
            Self::Given(delta) => delta,
            Self::Backlog => {
                let largest = view.cores.iter().map(|core| core.backlog).max().unwrap_or_default();
                Time::from_ns(largest.max(view.cores[core].backlog + packet.estimate))
            }
        }
    }
}

/// The state of a flow.
#[derive(Clone, Copy, Debug)]
struct Slice {
    /// The time until which packets belong to its slice: δ after its last packet.
    until: Time,
    core: CoreId,
    /// Whether there is a slice.
    is_open: bool,
}

impl Slice {
    const NONE: Self = Self { until: Time::ZERO, core: CoreId(0), is_open: false };
}

/// Flow slices.
#[derive(Debug)]
pub struct FlowSlice {
    delta: Delta,
    slices: IdVec<FlowId, Slice>,
}

impl Build for FlowSlice {
    type Params = FlowSliceParams;
    const INFO: Info = Info {
        name: "flow-slice",
        family: Family::Steer,
        summary: "each flow on one core until it pauses, then on the core with the least backlog",
        source: "Shi, Liu, Zhang. Load balancing by flow slices. INFOCOM 2009",
        promises: &[Promise::Fair("no packet overtakes while delta is at least the difference of queueing delays")],
        complexity: "O(N)",
    };
    const VARIANTS: &'static [&'static str] = &["delta=1", "delta=20000"];

    fn new(params: &FlowSliceParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let delta = match params.delta {
            Auto::Given(ns) => Delta::Given(Time::from_ns(ns)),
            Auto::Auto if config.unit == WorkUnit::Nanoseconds => Delta::Backlog,
            Auto::Auto => Delta::Given(DELTA),
        };
        Ok(Self { delta, slices: vec![Slice::NONE; config.flows].into_iter().collect() })
    }
}

impl Policy for FlowSlice {
    fn keeps_time(&self) -> bool {
        false
    }
}

impl Steer for FlowSlice {
    fn steer(&mut self, now: Time, packet: &Packet, view: &View<'_>) -> Target {
        let slice = &mut self.slices[packet.flow];
        if !slice.is_open || now > slice.until || !view.is_eligible(slice.core) {
            slice.core = least_loaded(view);
        }
        slice.is_open = true;
        slice.until = now + self.delta.after(packet, slice.core, view);
        Target::Core(slice.core)
    }

    fn on_flow_end(&mut self, _: Time, flow: FlowId) {
        self.slices[flow] = Slice::NONE;
    }
}

/// Returns the eligible core with the least backlog.
fn least_loaded(view: &View<'_>) -> CoreId {
    let least = view.eligible.iter().copied().min_by_key(|&core| view.cores[core].backlog);
    least.expect("at least one core is eligible")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;
    use alloc::vec::Vec;
    use humpyard_core::id::Id;
    use humpyard_core::policy::CoreView;
    use humpyard_core::random::Seed;
    use proptest::prelude::*;

    /// Cores that serve packets for exactly their estimates, one after the other.
    struct Exact {
        policy: FlowSlice,
        views: IdVec<CoreId, CoreView>,
        eligible: Vec<CoreId>,
        /// When each core will have completed all its packets.
        done: Vec<u64>,
        /// Packets that are not done: completion time, core and estimate.
        held: Vec<(u64, CoreId, u64)>,
    }

    impl Exact {
        fn new(params: &FlowSliceParams, cores: usize, unit: WorkUnit) -> Self {
            let config = SchedulerConfig { flows: 8, unit, ..config(cores, 1, &[]) };
            Self {
                policy: FlowSlice::new(params, &config).unwrap(),
                views: IdVec::from_fn(cores, |_| CoreView::default()),
                eligible: (0..cores).map(CoreId::from_index).collect(),
                done: vec![0; cores],
                held: Vec::new(),
            }
        }

        /// Lets a packet arrive. Returns its core and its completion time.
        fn arrive(&mut self, now: u64, flow: u32, work: u64) -> (CoreId, u64) {
            let views = &mut self.views;
            self.held.retain(|&(done, core, work)| {
                let stays = done > now;
                if !stays {
                    views[core].packets -= 1;
                    views[core].backlog -= work;
                }
                stays
            });
            let view = View { as_of: Time::ZERO, cores: &self.views, eligible: &self.eligible };
            let packet = Packet { flow: FlowId(flow), estimate: work, ..Packet::default() };
            let core = self.policy.steer(Time::from_ns(now), &packet, &view).core().expect("a core");
            let done = self.done[core.index()].max(now) + work;
            self.done[core.index()] = done;
            self.held.push((done, core, work));
            self.views[core].packets += 1;
            self.views[core].backlog += work;
            (core, done)
        }
    }

    fn given(delta: u64) -> FlowSliceParams {
        FlowSliceParams { delta: Auto::Given(delta) }
    }

    #[test]
    fn a_slice_ends_with_a_pause_of_more_than_delta() {
        let mut cores = Exact::new(&given(100), 3, WorkUnit::Bytes);
        assert_eq!(cores.arrive(0, 0, 1000).0, CoreId(0), "all are idle");
        assert_eq!(cores.arrive(10, 1, 500).0, CoreId(1), "the next flow goes where there is less");
        assert_eq!(cores.arrive(100, 0, 1000).0, CoreId(0), "a pause of delta is none");
        assert_eq!(cores.arrive(201, 0, 10).0, CoreId(2), "one more is");
        assert_eq!(cores.arrive(205, 0, 9000).0, CoreId(2));
    }

    #[test]
    fn by_default_a_pause_is_longer_than_any_backlog_in_time() {
        let mut cores = Exact::new(&FlowSliceParams::default(), 2, WorkUnit::Nanoseconds);
        assert_eq!(cores.arrive(0, 0, 1000).0, CoreId(0));
        assert_eq!(cores.arrive(900, 0, 1000).0, CoreId(0), "its first packet is still there");
        assert_eq!(cores.arrive(1901, 0, 10).0, CoreId(0), "core 0 had 2000 when its last packet came");
        assert_eq!(cores.arrive(2912, 1, 5000).0, CoreId(0), "all are idle");
        assert_eq!(cores.arrive(2912, 0, 10).0, CoreId(1), "core 0 had 1010 when its last packet came");
    }

    #[test]
    fn without_times_a_pause_is_100_us() {
        let mut cores = Exact::new(&FlowSliceParams::default(), 2, WorkUnit::Bytes);
        cores.arrive(0, 0, 1_000_000);
        assert_eq!(cores.arrive(100_000, 0, 1).0, CoreId(0));
        assert_eq!(cores.arrive(200_001, 0, 1).0, CoreId(1));
    }

    #[test]
    fn a_flow_that_ended_begins_anew() {
        let mut cores = Exact::new(&given(100), 2, WorkUnit::Bytes);
        cores.arrive(0, 0, 1000);
        cores.policy.on_flow_end(Time::ZERO, FlowId(0));
        assert_eq!(cores.arrive(0, 0, 1000).0, CoreId(1));
    }

    #[test]
    fn a_core_that_may_not_serve_it_is_left_at_once() {
        let mut cores = Exact::new(&given(100), 2, WorkUnit::Bytes);
        cores.arrive(0, 0, 1000);
        cores.eligible = vec![CoreId(1)];
        assert_eq!(cores.arrive(1, 0, 1000).0, CoreId(1));
    }

    proptest! {
        /// Packets leave in order of arrival, with the default δ, or with a given δ as large as any backlog.
        #[test]
        fn no_packet_overtakes(seed in 0..u64::MAX, cores in 1..9_usize, load in 1..12_u64, auto in any::<bool>()) {
            let mut random = Seed(seed).stream("test");
            let params = if auto { FlowSliceParams::default() } else { given(400 * 2000) };
            let unit = if auto { WorkUnit::Nanoseconds } else { WorkUnit::Bytes };
            let mut host = Exact::new(&params, cores, unit);
            let mut last = [0; 8];
            let (mut now, mut used) = (0, vec![false; cores]);
            for _ in 0..400 {
                now += random.below(10_000 / load / cores as u64 + 1) * if random.below(20) == 0 { 50 } else { 1 };
                let flow = random.below(8) as u32;
                let (core, done) = host.arrive(now, flow, 1 + random.below(2000));
                prop_assert!(done >= last[flow as usize], "a packet of flow {} overtakes at {}", flow, now);
                last[flow as usize] = done;
                used[core.index()] = true;
            }
        }
    }
}
