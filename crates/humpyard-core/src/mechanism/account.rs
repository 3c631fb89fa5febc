//! The account of every packet.

use serde::{Deserialize, Serialize};

/// Why the mechanism dropped a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    #[default]
    /// As many packets were held as the run allows.
    BufferFull,
    /// The queue it was to join held as many packets as a queue may.
    QueueFull,
    /// Its client had as many packets waiting as a client may.
    ClientFull,
    /// Another packet was given its room, because its client had the most packets waiting.
    PushedOut,
}

impl DropReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::BufferFull, Self::QueueFull, Self::ClientFull, Self::PushedOut];

    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BufferFull => "buffer_full",
            Self::QueueFull => "queue_full",
            Self::ClientFull => "client_full",
            Self::PushedOut => "pushed_out",
        }
    }
}

/// What became of the packets that came in: `arrived = processed + held + dropped`, always.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Account {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets whose service is complete.
    pub processed: u64,
    /// Packets waiting or in service now.
    pub held: u64,
    dropped: [u64; DropReason::ALL.len()],
}

impl Account {
    /// Packets dropped for this reason.
    pub const fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Packets dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Whether every packet that arrived is accounted for.
    pub fn balances(&self) -> bool {
        self.arrived == self.processed + self.held + self.dropped_total()
    }

    /// Adds the packets of another account.
    pub fn add(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.processed += other.processed;
        self.held += other.held;
        self.dropped.iter_mut().zip(&other.dropped).for_each(|(sum, other)| *sum += other);
    }

    pub(super) fn on_drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }
}
