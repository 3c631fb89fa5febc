//! The few numbers from which a history is drawn.

use humpyard_core::mechanism::{ExitOrder, FlowOrder, Limits, Split, WhenFull};
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, WorkUnit};

/// The parameters from which a history is drawn. Small numbers give a small history, so that a
/// failing one can be shrunk. With fewer `events` and all else equal, a history is a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The seed of all random choices.
    pub seed: u64,
    /// Number of cores.
    pub cores: usize,
    /// Contexts of each element; divides the cores.
    pub contexts: usize,
    /// Number of clients; each has two flows.
    pub clients: usize,
    /// Number of services; each flow has one.
    pub services: usize,
    /// Number of events: arrivals, changes of weight, ends of clients.
    pub events: usize,
    /// Most packets that a core is handed before it has finished the first.
    pub in_flight: usize,
    /// The largest difference of a packet's cost from its estimate, in thousandths of it; at most 1000.
    pub error_permille: u32,
    /// The greatest weight.
    pub weight_max: u32,
    /// Whether weights change on the way.
    pub weights_change: bool,
    /// The longest packet, in bytes.
    pub length_max: u32,
    /// Most packets held.
    pub packets: usize,
    /// Limits of queues and clients.
    pub limits: Limits,
    /// Whether packets go through chains of services, of up to three each.
    pub chains: bool,
    /// Whether packets are put back in order when they leave.
    pub exit: Option<ExitOrder>,
    /// Whether flows that are too much for one core are split over several; needs an exit, and
    /// nanoseconds.
    pub split: Option<Split>,
    /// Whether clients keep their order on several cores.
    pub flow_order: FlowOrder,
    /// The unit of work. Costs differ from estimates only in nanoseconds.
    pub unit: WorkUnit,
}

impl Shape {
    /// Draws a shape with every feature of the mechanism except split flows: cores, limits, units,
    /// orders, errors of all sizes, changing weights, contexts, chains, exits, and packets that are
    /// pushed out.
    pub fn drawn(seed: u64) -> Self {
        let mut random = Seed(seed).stream("testkit/shape");
        let mut one_in = |many| random.below(many) == 0;
        let unit = if one_in(3) { WorkUnit::Bytes } else { WorkUnit::Nanoseconds };
        let (weights_change, chains, exits) = (one_in(2), one_in(2), one_in(4));
        let flow_order = if one_in(2) { FlowOrder::Free } else { FlowOrder::Hold };
        let when_full = if one_in(2) { WhenFull::LongestQueue } else { WhenFull::Tail };
        let is_limited = [one_in(2), one_in(2), one_in(2)];
        let mut from = |least: u64, most: u64| least + random.below(most - least + 1);
        let limit = |is_limited, most| if is_limited { most } else { u32::MAX };
        let cores = from(1, 4) as usize;
        let limits = Limits::default()
            .with_queue(limit(is_limited[0], from(1, 20) as u32))
            .with_client(limit(is_limited[1], from(1, 10) as u32))
            .with_when_full(when_full);
        Self {
            seed,
            cores,
            contexts: if cores.is_multiple_of(2) { from(1, 2) as usize } else { 1 },
            clients: from(1, 8) as usize,
            services: from(1, cores.min(3) as u64) as usize,
            events: from(1, 200) as usize,
            in_flight: from(1, 3) as usize,
            error_permille: if unit == WorkUnit::Nanoseconds { 500 * from(0, 2) as u32 } else { 0 },
            weight_max: [1, 10, 1000][from(0, 2) as usize],
            weights_change,
            packets: if is_limited[2] { from(1, 40) as usize } else { 4096 },
            limits,
            chains,
            exit: exits.then(|| ExitOrder { packets: from(1, 40) as u32, timeout: Time::from_ns(from(0, 200_000)) }),
            flow_order,
            unit,
            ..Self::default()
        }
    }
}

impl Default for Shape {
    /// One core, one packet at a time, exact estimates, no limits.
    fn default() -> Self {
        Self {
            seed: 0,
            cores: 1,
            contexts: 1,
            clients: 4,
            services: 1,
            events: 200,
            in_flight: 1,
            error_permille: 0,
            weight_max: 1000,
            weights_change: false,
            length_max: 1500,
            packets: 4096,
            limits: Limits::default(),
            chains: false,
            exit: None,
            split: None,
            flow_order: FlowOrder::Hold,
            unit: WorkUnit::Nanoseconds,
        }
    }
}
