//! The account of every packet.

use serde::{Deserialize, Serialize};

/// Why the mechanism dropped a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    #[default]
    /// The run held its maximum number of packets.
    BufferFull,
    /// The packet's queue held its maximum number of packets; or a policy with backpressure let no packet of its chain
    /// in, because the queue of one of its services was almost full.
    QueueFull,
    /// The packet's client had its maximum number of packets waiting.
    ClientFull,
    /// The packet was removed to make room for another, because its client had the most packets
    /// waiting.
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

/// The account of the packets that came in: always `arrived = processed + held + dropped`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Account {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets whose service is complete.
    pub processed: u64,
    /// Packets waiting or in service now.
    pub held: u64,
    /// Packets dropped after a service had worked on them: the work was for nothing.
    pub wasted: u64,
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

    /// Whether the account covers every packet that arrived.
    pub fn balances(&self) -> bool {
        self.arrived == self.processed + self.held + self.dropped_total()
    }

    /// Adds the packets of another account.
    pub fn add(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.processed += other.processed;
        self.held += other.held;
        self.wasted += other.wasted;
        self.dropped.iter_mut().zip(&other.dropped).for_each(|(sum, other)| *sum += other);
    }

    pub(super) fn on_drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }
}
