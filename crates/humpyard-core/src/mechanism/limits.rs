//! Limits on the packets held, and the packet to drop at a limit.

use serde::{Deserialize, Serialize};

/// The packet to drop if there is no room for an arriving one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// The arriving packet.
    #[default]
    Tail,
    /// The newest packet of the client with the most packets waiting, or the arriving packet if its
    /// own client has the most. So a heavy client cannot keep light ones out. A client's head is
    /// never pushed out. O(log n) in the clients for every packet.
    LongestQueue,
}

impl WhenFull {
    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tail => "tail",
            Self::LongestQueue => "longest-queue",
        }
    }
}

/// Limits on the packets held, in addition to the limit
/// [`SchedulerConfig::packets`](crate::config::SchedulerConfig::packets) of the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// Most packets waiting in one queue.
    pub queue: u32,
    /// Most packets waiting of one client in one queue.
    pub client: u32,
    /// The packet to drop when a queue, or the whole run, has no room.
    pub when_full: WhenFull,
}

impl Default for Limits {
    /// No limit except that of the run.
    fn default() -> Self {
        Self { queue: u32::MAX, client: u32::MAX, when_full: WhenFull::Tail }
    }
}

impl Limits {
    /// Sets the most packets waiting in one queue.
    #[must_use]
    pub const fn with_queue(self, queue: u32) -> Self {
        Self { queue, ..self }
    }

    /// Sets the most packets waiting of one client in one queue.
    #[must_use]
    pub const fn with_client(self, client: u32) -> Self {
        Self { client, ..self }
    }

    /// Sets which packet to drop when there is no room.
    #[must_use]
    pub const fn with_when_full(self, when_full: WhenFull) -> Self {
        Self { when_full, ..self }
    }
}
