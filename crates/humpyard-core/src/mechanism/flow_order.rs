//! Whether a client is held to one packet in service.

use serde::{Deserialize, Serialize};

/// Whether the packets of one client may be in service on several cores at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowOrder {
    /// No: the sharing policy is offered a client's next packet when the one before it is complete.
    /// Packets of a client stay in order, except under a policy that treats all clients as one.
    // The name in journals of version 2.
    #[serde(alias = "keep")]
    #[default]
    Hold,
    /// Yes: several cores may serve one client, and packets may overtake each other. An exit
    /// ([`SchedulerConfig::exit`](crate::config::SchedulerConfig::exit)) puts them back in order.
    Free,
}
