//! What a service is: work on one frame, in place, and a verdict.

use core::fmt;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::id::{FlowId, ServiceId};
use humpyard_core::packet::{Packet, Part};
use humpyard_core::policy::{ParameterError, Params};
use humpyard_core::unit::{Time, Weight};

/// A network service: real work done on packets.
///
/// There is one instance per worker thread, so that no lock is needed; tables that instances share are read only. What an
/// instance remembers it knows of the packets it has seen: where a policy spreads a flow over workers, each instance sees some.
///
/// Building a service can fail, running it cannot: whatever the bytes of a frame are, the answer is a [`Verdict`]. A service
/// that panics all the same has a defect: a driver that catches that drops the frame for [`DropReason::ServicePanicked`] and
/// goes on with another instance, for this one may have been left in the middle of something.
pub trait Service: Send {
    /// Does the work on one frame, in place. Frames it makes itself (an ICMP error, say) go to `generated`.
    ///
    /// A frame that is not forwarded may have been changed; its bytes mean nothing any more.
    fn process(&mut self, frame: &mut Frame, context: &Context, generated: &mut Generated) -> Verdict;

    /// What it has counted, beside what became of packets: names in snake case and counts that add up over instances.
    ///
    /// Asked once, when the instance has done all its work.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }
}

/// One thing that a service counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counter {
    /// What was counted, in snake case.
    pub name: String,
    /// How often.
    pub count: u64,
}

impl Counter {
    /// So many of this.
    pub fn new(name: impl Into<String>, count: u64) -> Self {
        Self { name: name.into(), count }
    }
}

/// What a driver knows of the packet in a frame, beside its bytes. A driver that knows no flows may leave it as it is by
/// default: then all packets are of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Context {
    /// When the packet was handed out, by the clock of the run.
    pub now: Time,
    /// A keyed hash of its connection, the same in both directions.
    pub connection: u64,
    /// Its flow: one direction of the connection. The id of a flow that has ended is used again.
    pub flow: FlowId,
    /// Which part of a longer unit the frame is.
    pub part: Part,
    /// Its number among the packets that came in. Packets of one connection may come to a service, on several workers, in another
    /// order than they came in: by this they can be put in order. A driver that always keeps the order may leave it at 0.
    pub sequence: u64,
}

impl Context {
    /// What a service is told of this packet.
    pub const fn of(now: Time, packet: &Packet) -> Self {
        Self { now, connection: packet.key, flow: packet.flow, part: packet.part, sequence: packet.sequence }
    }
}

/// What a service says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// The name to build it by, in kebab case.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What it follows: standards, with sections.
    pub source: &'static str,
}

/// How a service comes to be. Apart from [`Service`], so that that makes trait objects.
///
/// A clone of a service that has seen no frame is another instance of it, which shares its read-only tables.
pub trait Build: Service + Clone + Sync + 'static {
    /// Its parameters, self-describing.
    type Params: Params;
    /// What it is called and what it does.
    const INFO: Info;

    /// Makes the service, and the tables that its clones share.
    ///
    /// # Errors
    /// A value that is not accepted; the message says what would be.
    fn new(params: &Self::Params) -> Result<Self, ServiceError>;

    /// The services that its marks name ([`Generated::mark`]).
    fn refers_to(&self) -> Vec<ServiceId> {
        Vec::new()
    }

    /// Whether its marks give weights.
    fn weighs(&self) -> bool {
        false
    }
}

/// Why a service could not be made: what was given, and what is accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ServiceError {
    message: String,
}

impl ServiceError {
    /// An error with this message, one line.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl From<ParameterError> for ServiceError {
    fn from(error: ParameterError) -> Self {
        Self::new(error.to_string())
    }
}

/// What becomes of a frame after a service has worked on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on: to the next service, or out.
    Forward,
    /// It ends here as it should: it was for this machine, or the service keeps it.
    Consume,
    /// It ends here because something is wrong with it, or a rule says so.
    Drop(DropReason),
}

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Why a service dropped a frame.
        ///
        /// Names are stable; indices are dense from 0, for counting in an array of [`DropReason::COUNT`], and may differ
        /// between versions.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum DropReason {
            $($(#[$doc])* $variant,)*
        }

        impl DropReason {
            /// All reasons, by index.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable name, in snake case: a key of result documents.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

drop_reasons! {
    /// No IP header follows the link header.
    NotIp = "not_ip",
    /// The captured bytes end before the last header that the service needs.
    Truncated = "truncated",
    /// The link layer addressed it to a group of stations, not to the router alone.
    LinkGroup = "link_group",
    /// The version field is not the one that the link header announces.
    BadVersion = "bad_version",
    /// The IPv4 header length is less than 20 bytes.
    BadHeaderLength = "bad_header_length",
    /// The IP length is less than its header's, or more than there was on the wire.
    BadTotalLength = "bad_total_length",
    /// The IPv4 header checksum is wrong.
    BadChecksum = "bad_checksum",
    /// The source is 0.0.0.0/8 or `::`.
    SourceUnspecified = "source_unspecified",
    /// The source is 127.0.0.0/8 or `::1`.
    SourceLoopback = "source_loopback",
    /// The source is 169.254.0.0/16 or fe80::/10.
    SourceLinkLocal = "source_link_local",
    /// The source is 224.0.0.0/4 or ff00::/8.
    SourceMulticast = "source_multicast",
    /// The source is 255.255.255.255.
    SourceBroadcast = "source_broadcast",
    /// The source is in 240.0.0.0/4 or an IPv4-mapped IPv6 address.
    SourceReserved = "source_reserved",
    /// The destination is 0.0.0.0/8 or `::`.
    DestinationUnspecified = "destination_unspecified",
    /// The destination is 127.0.0.0/8 or `::1`.
    DestinationLoopback = "destination_loopback",
    /// The destination is 169.254.0.0/16 or fe80::/10.
    DestinationLinkLocal = "destination_link_local",
    /// The destination is 224.0.0.0/4 or ff00::/8.
    DestinationMulticast = "destination_multicast",
    /// The destination is 255.255.255.255.
    DestinationBroadcast = "destination_broadcast",
    /// The destination is in 240.0.0.0/4 or an IPv4-mapped IPv6 address.
    DestinationReserved = "destination_reserved",
    /// No route covers the destination.
    NoRoute = "no_route",
    /// Its route says `discard`.
    RouteDiscard = "route_discard",
    /// Its route says `unreachable`.
    RouteUnreachable = "route_unreachable",
    /// The time to live or hop limit is used up.
    TtlExpired = "ttl_expired",
    /// The capture kept fewer bytes than were on the wire, and the service needs them all.
    Incomplete = "incomplete",
    /// What the service would make of it is longer than an IP packet can be.
    TooLong = "too_long",
    /// It is a fragment, and the service needs the whole packet.
    Fragment = "fragment",
    /// It is not what the inverse of the service makes.
    NotEncapsulated = "not_encapsulated",
    /// Its integrity check value is wrong: it is forged, damaged, or made with another key.
    NotAuthentic = "not_authentic",
    /// It is what the inverse of the service makes, but its content is not as it should be.
    Malformed = "malformed",
    /// More of it is damaged than its code can mend.
    Unrecoverable = "unrecoverable",
    /// The instance has used all its sequence numbers, or there are more instances than numbers for them.
    SequenceExhausted = "sequence_exhausted",
    /// The translator's prefix does not cover its destination, nor does a mapping.
    NotTranslated = "not_translated",
    /// Its source is an address that stands for an IPv4 host, and only the translator itself may send from there.
    SourceTranslated = "source_translated",
    /// No mapping leads to the host that it is for.
    NoBinding = "no_binding",
    /// The host that it is for has not spoken to its sender.
    SenderUnknown = "sender_unknown",
    /// The table of connections has no room for a new one.
    TableFull = "table_full",
    /// No address and port is left to stand for its sender.
    PoolExhausted = "pool_exhausted",
    /// It is an ICMP message that the other version of IP has none for.
    IcmpUntranslatable = "icmp_untranslatable",
    /// It has no UDP checksum, and none can be made.
    ChecksumMissing = "checksum_missing",
    /// Its sender prescribes hops on the way, and has not been to all.
    SourceRouted = "source_routed",
    /// It is longer than the next link takes, and is not fragmented.
    TooBig = "too_big",
    /// A rule says that it may not pass.
    RuleDenied = "rule_denied",
    /// No rule matches, and what no rule matches may not pass.
    DefaultDenied = "default_denied",
    /// It is part of a longer unit whose start was not seen.
    StartMissing = "start_missing",
    /// It belongs to a protocol that may not pass.
    ProtocolDenied = "protocol_denied",
    /// It is part of a port scan that there is an alarm about.
    Scan = "scan",
    /// It is part of a flood that there is an alarm about.
    Flood = "flood",
    /// The service panicked at it. For drivers to say, not for services.
    ServicePanicked = "service_panicked",
    /// The interface by which it was to go had no room. For drivers to say.
    OutputFull = "output_full",
    /// It is longer than the interface by which it was to go takes. For drivers to say.
    OutputTooLong = "output_too_long",
    /// The interface by which it was to go was down. For drivers to say.
    OutputDown = "output_down",
    /// A service made it, and where it was to go nothing goes out but what came in. For drivers to say.
    OutputMade = "output_made",
}

impl DropReason {
    /// Number of reasons: one more than the largest index.
    pub const COUNT: usize = Self::ALL.len();

    /// The index of this reason, from 0 and below [`DropReason::COUNT`].
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a service has found out about the flow of a packet, for the driver to act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// The weight of the flow's client from now on, where flows or connections are clients.
    pub weight: Option<Weight>,
    /// The service of the flow's packets that are classified from now on, which go on by that service's chain.
    pub service: Option<ServiceId>,
    /// The mark for other programs of the machine (a firewall mark) that this packet and those that follow leave with, where they
    /// leave by a port that can mark packets.
    pub fwmark: Option<u32>,
}

/// What a service hands over beside its verdict: the frames that it makes itself, a bounded collection that keeps its buffers,
/// and a mark for the packet's flow.
///
/// The driver empties it after each call or each batch. When it is full a service does without its frame, as it would
/// when a queue is full. The driver may swap a frame for an empty one of its own ([`Generated::frames_mut`]); as long as
/// the frames it puts in have room, the steady state allocates nothing.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Every frame there is: first those in use, then the spare ones.
    frames: Vec<Frame>,
    /// How many are in use.
    used: usize,
    mark: Option<Mark>,
}

impl Generated {
    /// An empty collection of at most `frames_max` frames, each with room for `frame_bytes` bytes from the start.
    pub fn new(frames_max: usize, frame_bytes: usize) -> Self {
        Self { frames: (0..frames_max).map(|_| Frame::with_capacity(frame_bytes)).collect(), used: 0, mark: None }
    }

    /// Marks the flow of the packet in work; of several marks the last counts.
    pub const fn mark(&mut self, mark: Mark) {
        self.mark = Some(mark);
    }

    /// The mark that the service gave since this was asked last.
    pub const fn take_mark(&mut self) -> Option<Mark> {
        self.mark.take()
    }

    /// A cleared frame to fill, which is then part of the collection; or none if the collection is full.
    pub fn add(&mut self) -> Option<&mut Frame> {
        let frame = self.frames.get_mut(self.used)?;
        self.used += 1;
        frame.time = Time::ZERO;
        frame.wire_length = 0;
        frame.link = LinkType::default();
        frame.port = 0;
        frame.answer = false;
        (frame.queued, frame.mark) = (None, None);
        frame.data.clear();
        Some(frame)
    }

    /// The frames made since the collection was cleared, in order.
    pub fn frames(&self) -> &[Frame] {
        &self.frames[..self.used]
    }

    /// The frames made since the collection was cleared, in order, to change or to swap out.
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        &mut self.frames[..self.used]
    }

    /// How many frames are in use.
    pub const fn len(&self) -> usize {
        self.used
    }

    /// Whether no frame is in use.
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The most frames it holds.
    pub const fn frames_max(&self) -> usize {
        self.frames.len()
    }

    /// Makes all frames spare again; their buffers stay.
    pub const fn clear(&mut self) {
        self.used = 0;
    }
}

impl Default for Generated {
    /// Room for 32 frames (a burst of packets, each answered) of 1,600 bytes (an ICMPv6 error with its link header, and more).
    fn default() -> Self {
        Self::new(32, 1600)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_dense_and_their_names_are_distinct_snake_case() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert!(reason.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{reason}");
            assert!(DropReason::ALL[..index].iter().all(|other| other.name() != reason.name()), "{reason}");
        }
    }

    #[test]
    fn generated_is_bounded_and_keeps_its_buffers() {
        let mut generated = Generated::new(2, 100);
        for _ in 0..3 {
            assert!(generated.is_empty());
            for byte in [1, 2] {
                let frame = generated.add().unwrap();
                assert_eq!((frame.data.len(), frame.wire_length), (0, 0));
                frame.data.extend([byte; 100]);
                frame.wire_length = 100;
            }
            assert!(generated.add().is_none());
            assert_eq!(generated.frames()[1].data, [2; 100]);
            assert_eq!(generated.frames()[1].data.capacity(), 100);
            generated.clear();
        }
    }
}
