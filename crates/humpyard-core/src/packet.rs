//! A packet as policies see it: what is known of it, without its bytes.

use serde::{Deserialize, Serialize};

use crate::id::{ChainId, ClientId, FlowId, ServiceId};
use crate::unit::{Time, Work};

/// Which part of a longer unit this packet is: a network card that cuts frames into cells of 64 bytes marks them so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// Its start (SOP).
    First,
    /// Neither start nor end (MOP).
    Middle,
    /// Its end (EOP).
    Last,
}

/// What is known of one packet. The bytes stay with the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Packet {
    /// When it arrived at this hop of its chain: at the first hop, when it came in.
    pub arrival: Time,
    /// When it came in; set by the mechanism.
    pub entered: Time,
    /// Its number among the accepted packets, from 0; set by the mechanism.
    pub sequence: u64,
    /// A keyed hash of its connection: the same in both directions. Steering hashes this.
    pub key: u64,
    /// The work it is believed to be; set by the mechanism's estimator. A driver that knows the work beforehand puts it here,
    /// for an oracle.
    pub estimate: Work,
    /// Its flow.
    pub flow: FlowId,
    /// Whose share it is charged to.
    pub client: ClientId,
    /// Length on the wire, in bytes.
    pub length: u32,
    /// The Toeplitz hash of its connection, as a network card computes it.
    pub rss: u32,
    /// What is to be done to it at this hop of its chain.
    pub service: ServiceId,
    /// The services it goes through, the first of which is [`Packet::service`] when it comes in; 0 where there are no chains.
    pub chain: ChainId,
    /// Which hop of its chain it is at, from 0; set by the mechanism.
    pub hop: u8,
    /// Which part of a longer unit it is.
    pub part: Part,
    /// Whether it changes the state of its connection: a TCP packet with SYN, FIN or RST, of another protocol the first of its flow.
    #[serde(default)]
    pub changes_connection: bool,
}

impl Packet {
    /// A packet of which nothing is known.
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
        part: Part::Whole,
        changes_connection: false,
    };
}
