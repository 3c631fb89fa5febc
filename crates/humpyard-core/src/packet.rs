//! A packet as policies see it: what is known of it, without its bytes.

use crate::id::{ClientId, FlowId, ServiceId};
use crate::unit::{Time, Work};

/// What is known of one packet. The bytes stay with the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Packet {
    /// When it arrived.
    pub arrival: Time,
    /// Its number among the accepted packets, from 0; set by the mechanism.
    pub sequence: u64,
    /// A keyed hash of its connection: the same in both directions. Steering hashes this.
    pub key: u64,
    /// The work it is believed to be; set by the mechanism from its estimator.
    pub estimate: Work,
    /// Its flow.
    pub flow: FlowId,
    /// Whose share it is charged to.
    pub client: ClientId,
    /// Length on the wire, in bytes.
    pub length: u32,
    /// The Toeplitz hash of its connection, as a network card computes it.
    pub rss: u32,
    /// What is to be done to it.
    pub service: ServiceId,
}
