//! A packet as policies see it: its metadata, without its bytes.

use serde::{Deserialize, Serialize};

use crate::id::{ChainId, ClientId, FlowId, ServiceId};
use crate::unit::{Time, Work};

/// The part of a longer unit that this packet is. A network card that cuts frames into cells of 64
/// bytes sets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The whole unit.
    #[default]
    Whole,
    /// The start of the unit (SOP).
    First,
    /// Neither start nor end (MOP).
    Middle,
    /// The end of the unit (EOP).
    Last,
}

/// The metadata of one packet. The driver keeps the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Packet {
    /// When the packet arrived at this hop of its chain; at the first hop, when it came in.
    pub arrival: Time,
    /// When the packet came in; set by the mechanism.
    pub entered: Time,
    /// Its number among the accepted packets, from 0; set by the mechanism.
    pub sequence: u64,
    /// A keyed hash of its connection: the same in both directions. Steering hashes this.
    pub key: u64,
    /// Estimated work of the packet; set by the mechanism's estimator. A driver that knows the work
    /// beforehand puts it here, for an oracle.
    pub estimate: Work,
    /// Its flow.
    pub flow: FlowId,
    /// The client whose share the packet is charged to.
    pub client: ClientId,
    /// Length on the wire, in bytes.
    pub length: u32,
    /// The Toeplitz hash of its connection, as a network card computes it.
    pub rss: u32,
    /// The service that the packet needs at this hop of its chain.
    pub service: ServiceId,
    /// The chain of services that the packet goes through; 0 without chains. When the packet comes
    /// in, [`Packet::service`] is the first service of the chain.
    pub chain: ChainId,
    /// The hop of the chain at which the packet is, from 0; set by the mechanism.
    pub hop: u8,
    /// Whether it continues a batch of its service that its core has begun; set by the mechanism.
    #[serde(default, skip_serializing_if = "is_false")]
    pub batched: bool,
    /// The part of a longer unit that the packet is.
    pub part: Part,
    /// Whether the packet changes the state of its connection: a TCP packet with SYN, FIN or RST,
    /// or the first packet of a flow of another protocol.
    #[serde(default)]
    pub changes_connection: bool,
}

/// Whether a field need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Packet {
    /// A packet with default metadata.
    pub(crate) const EMPTY: Self = Self {
        arrival: Time::ZERO,
        entered: Time::ZERO,
        sequence: 0,
        key: 0,
        estimate: 0,
        flow: FlowId(0),
        client: ClientId(0),
        length: 0,
        rss: 0,
        service: ServiceId(0),
        chain: ChainId(0),
        hop: 0,
        batched: false,
        part: Part::Whole,
        changes_connection: false,
    };
}
