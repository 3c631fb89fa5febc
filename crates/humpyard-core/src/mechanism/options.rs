//! Options of the mechanism beside the policies' set-up, and checks of both.

use alloc::format;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::exit::ExitOrder;
use super::limits::Limits;
use super::split::Split;
use crate::id::{Id, ServiceId};
use crate::policy::{BuildError, Setup};
use crate::unit::{Time, WorkUnit};

/// Whether the packets of one client may be in service on several cores at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowOrder {
    /// No: the sharing policy is offered a client's next packet when the one before it is complete. Packets of a
    /// client stay in order, but under a policy that takes all clients as one.
    // As it is called in journals of version 2.
    #[serde(alias = "keep")]
    #[default]
    Hold,
    /// Yes: more cores for one client, and packets may overtake, unless an exit ([`Options::exit`]) puts them back in
    /// order.
    Free,
}

/// Options of the mechanism beside the policies' [`Setup`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Limits of queues and clients.
    pub limits: Limits,
    /// Whether a client is held to one packet in service where several cores pull from one queue.
    pub flow_order: FlowOrder,
    /// The services that packets go through, by chain. Empty: each packet has its own service alone.
    pub chains: Vec<Vec<ServiceId>>,
    /// The exit that puts packets back in the order of their flow. `None`: no exit. Packets that wait there count
    /// against [`Setup::packets`], so that cores which go on while one is stuck cannot overrun the exit.
    pub exit: Option<ExitOrder>,
    /// Whether flows that are too much for one core go to several. Needs a steering policy, work in ns, and order at
    /// the exit.
    pub split: Option<Split>,
    /// Time to hand a packet to its core beside the work, where work is time. Clients are charged for it, and
    /// estimates should include it.
    pub hand_over: Time,
}

impl Options {
    /// Sets the limits of queues and clients.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets whether a client is held to one packet in service.
    #[must_use]
    pub fn with_flow_order(self, flow_order: FlowOrder) -> Self {
        Self { flow_order, ..self }
    }

    /// Sets the services that packets go through, by chain.
    #[must_use]
    pub fn with_chains(self, chains: Vec<Vec<ServiceId>>) -> Self {
        Self { chains, ..self }
    }

    /// Sets whether packets leave in the order of their flow.
    #[must_use]
    pub fn with_exit(self, exit: impl Into<Option<ExitOrder>>) -> Self {
        Self { exit: exit.into(), ..self }
    }

    /// Sets whether flows that are too much for one core go to several.
    #[must_use]
    pub fn with_split(self, split: impl Into<Option<Split>>) -> Self {
        Self { split: split.into(), ..self }
    }

    /// Sets what handing a packet over takes its core.
    #[must_use]
    pub fn with_hand_over(self, hand_over: Time) -> Self {
        Self { hand_over, ..self }
    }
}

/// Rejects a set-up that describes no run.
pub(super) fn check_setup(setup: &Setup<'_>, options: &Options) -> Result<(), BuildError> {
    let refuse = |message| Err(BuildError::set_up(message));
    if setup.cores == 0 || setup.cores > usize::from(u16::MAX) {
        return refuse(format!("there must be 1 to {} cores, not {}", u16::MAX, setup.cores));
    }
    if setup.contexts == 0 || !setup.cores.is_multiple_of(setup.contexts) {
        return refuse(format!("{} cores are no elements of {} contexts each", setup.cores, setup.contexts));
    }
    if let Some(topology) = setup.topology.filter(|topology| topology.cores() != setup.cores) {
        return refuse(format!("the topology has {} cores, the run {}", topology.cores(), setup.cores));
    }
    if setup.packets == 0 || setup.packets >= u32::MAX as usize - 1 {
        return refuse(format!("there must be room for 1 to {} packets, not {}", u32::MAX - 2, setup.packets));
    }
    if setup.services.is_empty() || setup.services.len() != setup.estimates.len() {
        return refuse(format!("{} services with {} estimates", setup.services.len(), setup.estimates.len()));
    }
    let services = setup.services.len();
    if options.chains.iter().any(|chain| chain.is_empty() || chain.len() > usize::from(u8::MAX)) {
        return refuse(format!("a chain has 1 to {} services", u8::MAX));
    }
    if let Some(service) = options.chains.iter().flatten().find(|service| service.index() >= services) {
        return refuse(format!("a chain names service {service}, and there are {services}, from 0"));
    }
    if options.exit.is_some_and(|exit| exit.packets == 0 || exit.packets >= u32::MAX - 1) {
        return refuse(format!("1 to {} packets may wait at the exit", u32::MAX - 2));
    }
    Ok(())
}

/// Rejects split flows without a steering policy, work in ns and an exit.
pub(super) fn check_split(setup: &Setup<'_>, options: &Options, steers: bool) -> Result<(), BuildError> {
    let Some(split) = options.split else { return Ok(()) };
    let refuse = |message: &str| Err(BuildError::combination(message));
    if !(2..=Split::CORES_MAX).contains(&split.cores) || split.window == Time::ZERO {
        return Err(BuildError::set_up(format!(
            "a flow is split over 2 to {} cores, by its work in some time, not over {} by that in {} ns",
            Split::CORES_MAX,
            split.cores,
            split.window.as_ns()
        )));
    }
    if !steers {
        return refuse("flows are split where packets are steered to cores: name a steering policy, conn for example");
    }
    if setup.unit != WorkUnit::Nanoseconds {
        return refuse("a flow is split by its share of a core, which is a time: let the unit of work be ns");
    }
    if options.exit.is_none() {
        return refuse("flows that are split need order at the exit");
    }
    Ok(())
}
