//! The few numbers from which a history is drawn.

use humpyard_core::mechanism::{ExitOrder, FlowOrder, Limits, Split};
use humpyard_core::unit::WorkUnit;

/// What a history is drawn from. Small in every number means a small history, so that a failing one can be shrunk; with
/// fewer `events` and all else equal a history is a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Where all chance comes from.
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
    /// By how much the cost of a packet may differ from its estimate, in thousandths of the estimate; at most 1000.
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
    /// Whether flows that are too much for one core go to several; needs an exit, and nanoseconds.
    pub split: Option<Split>,
    /// Whether clients keep their order on several cores.
    pub flow_order: FlowOrder,
    /// The unit of work. Costs differ from estimates only in nanoseconds.
    pub unit: WorkUnit,
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
