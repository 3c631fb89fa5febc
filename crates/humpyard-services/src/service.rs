//! The service interface: work on one frame, in place, and a verdict.

use core::fmt;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::id::{FlowId, ServiceId};
use humpyard_core::packet::{Packet, Part};
use humpyard_core::policy::{ParameterError, Params};
use humpyard_core::unit::{Time, Weight};

use crate::turn::Turn;

/// A network service: real work on packets.
///
/// Each worker thread has its own instance, so that no lock is needed. Tables that instances share are
/// read-only. An instance remembers only the packets that it has seen: if a policy spreads a flow over workers,
/// each instance sees some of them.
///
/// Building a service can fail; running it cannot. For any bytes of a frame, the result is a [`Verdict`]. A
/// service that panics has a defect. A driver that catches the panic drops the frame for
/// [`DropReason::ServicePanicked`] and continues with a new instance, because the old one may be inconsistent.
pub trait Service: Send {
    /// Processes one frame, in place. Frames that the service makes (an ICMP error, say) go to `generated`.
    ///
    /// If the verdict is not to forward the frame, its bytes have no meaning afterwards.
    fn process(&mut self, frame: &mut Frame, context: &Context, generated: &mut Generated) -> Verdict;

    /// Works on one frame for a turn. `None`: the turn is over before the work is done, and `turn` keeps what was
    /// done. The frame is then as it came, and nothing was generated. A driver that preempts calls this instead of
    /// [`Service::process`], turn after turn, at any instance of the service.
    ///
    /// A service without yield points does all of its work in one turn.
    fn process_turn(
        &mut self,
        frame: &mut Frame,
        context: &Context,
        generated: &mut Generated,
        _turn: &mut Turn<'_>,
    ) -> Option<Verdict> {
        Some(self.process(frame, context, generated))
    }

    /// Returns the service's own counters: names in snake case, and counts that add up over instances.
    ///
    /// A driver calls it once, after the instance has done all its work.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }
}

/// One counter of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counter {
    /// The counted thing, in snake case.
    pub name: String,
    /// The count.
    pub count: u64,
}

impl Counter {
    /// Returns a counter with this name and count.
    pub fn new(name: impl Into<String>, count: u64) -> Self {
        Self { name: name.into(), count }
    }
}

/// The driver's information about the packet in a frame. A driver that knows no flows may use the default: then
/// all packets belong to one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Context {
    /// When a core took the packet, by the clock of the run.
    pub now: Time,
    /// A keyed hash of its connection, the same in both directions. A run may compute it from addresses alone.
    /// Services that need it to be the connection's own say so: [`Build::follows_connections`].
    pub connection: u64,
    /// Its flow: one direction of the connection. After a flow ends, another flow may get its id.
    pub flow: FlowId,
    /// The part of a longer unit that the frame is.
    pub part: Part,
    /// Its number among the packets that came in. On several workers, packets of one connection may reach a
    /// service out of order; the numbers restore the order. A driver that always keeps the order may use 0.
    pub sequence: u64,
}

impl Context {
    /// Returns the context of this packet.
    pub const fn of(now: Time, packet: &Packet) -> Self {
        Self { now, connection: packet.key, flow: packet.flow, part: packet.part, sequence: packet.sequence }
    }
}

/// The description of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// The name, in kebab case.
    pub name: &'static str,
    /// The work, in one line.
    pub summary: &'static str,
    /// The standards that it follows, with sections.
    pub source: &'static str,
}

/// Builds a service. This trait is separate from [`Service`] so that [`Service`] allows trait objects.
///
/// A clone of a new service is another instance, which shares its read-only tables.
pub trait Build: Service + Clone + Sync + 'static {
    /// Its parameters.
    type Params: Params;
    /// Its name and description.
    const INFO: Info;

    /// Returns the service, with the tables that its clones share.
    ///
    /// # Errors
    /// If a value is rejected; the message names the values that are accepted.
    fn new(params: &Self::Params) -> Result<Self, ServiceError>;

    /// Returns the services that its marks name ([`Generated::mark`]).
    fn refers_to(&self) -> Vec<ServiceId> {
        Vec::new()
    }

    /// Returns whether its marks may set weights.
    fn weighs(&self) -> bool {
        false
    }

    /// Returns whether it keeps state for each [`Context::connection`], so that no two connections may have the
    /// same one.
    fn follows_connections(&self) -> bool {
        false
    }
}

/// Why a service could not be built: the rejected value, and the accepted ones.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ServiceError {
    message: String,
}

impl ServiceError {
    /// Returns an error with this message, one line.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl From<ParameterError> for ServiceError {
    fn from(error: ParameterError) -> Self {
        Self::new(error.to_string())
    }
}

/// The verdict of a service on a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The frame goes on: to the next service, or out.
    Forward,
    /// The frame ends here as intended: it was for this machine, or the service keeps it.
    Consume,
    /// The frame ends here because it is faulty, or because a rule drops it.
    Drop(DropReason),
}

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Why a service dropped a frame.
        ///
        /// Names are stable. Indices are dense from 0, for an array of [`DropReason::COUNT`] counters, and may
        /// differ between versions.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum DropReason {
            $($(#[$doc])* $variant,)*
        }

        impl DropReason {
            /// All reasons, by index.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the stable name, in snake case: a key of result documents.
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
    /// The link-layer destination is a group of stations, not the router alone.
    LinkGroup = "link_group",
    /// The version field differs from the link header's.
    BadVersion = "bad_version",
    /// The IPv4 header length is less than 20 bytes.
    BadHeaderLength = "bad_header_length",
    /// The IP length is less than its header's length, or more than the bytes on the wire.
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
    /// The action of its route is `discard`.
    RouteDiscard = "route_discard",
    /// The action of its route is `unreachable`.
    RouteUnreachable = "route_unreachable",
    /// The time to live or hop limit is used up.
    TtlExpired = "ttl_expired",
    /// The capture kept fewer bytes than were on the wire, and the service needs them all.
    Incomplete = "incomplete",
    /// The service's output would be longer than an IP packet can be.
    TooLong = "too_long",
    /// It is a fragment, and the service needs the whole packet.
    Fragment = "fragment",
    /// The inverse of the service did not make it.
    NotEncapsulated = "not_encapsulated",
    /// Its integrity check value is wrong: it is forged, damaged, or made with another key.
    NotAuthentic = "not_authentic",
    /// The inverse of the service made it, but its content is invalid.
    Malformed = "malformed",
    /// It has more damage than its code can repair.
    Unrecoverable = "unrecoverable",
    /// The instance has used all its sequence numbers, or there are more instances than number ranges.
    SequenceExhausted = "sequence_exhausted",
    /// Neither the translator's prefix nor a mapping covers its destination.
    NotTranslated = "not_translated",
    /// Its source address represents an IPv4 host, and only the translator itself may send from it.
    SourceTranslated = "source_translated",
    /// No mapping leads to its destination host.
    NoBinding = "no_binding",
    /// Its destination host has not sent a packet to its sender.
    SenderUnknown = "sender_unknown",
    /// The table of connections has no room for a new one.
    TableFull = "table_full",
    /// No address and port is left to represent its sender.
    PoolExhausted = "pool_exhausted",
    /// It is an ICMP message without counterpart in the other version of IP.
    IcmpUntranslatable = "icmp_untranslatable",
    /// It has no UDP checksum, and the service cannot compute one.
    ChecksumMissing = "checksum_missing",
    /// It is source routed, and has not visited all hops of its route.
    SourceRouted = "source_routed",
    /// It is longer than the next link's MTU, and is not fragmented.
    TooBig = "too_big",
    /// A rule denies it.
    RuleDenied = "rule_denied",
    /// No rule matches it, and the default is to deny.
    DefaultDenied = "default_denied",
    /// It is part of a longer unit whose start was not seen.
    StartMissing = "start_missing",
    /// Its protocol is denied.
    ProtocolDenied = "protocol_denied",
    /// It is part of a port scan with an alarm.
    Scan = "scan",
    /// It is part of a flood with an alarm.
    Flood = "flood",
    /// The service panicked while processing it. Only drivers use this.
    ServicePanicked = "service_panicked",
    /// Its output interface had no room. Only drivers use this.
    OutputFull = "output_full",
    /// It is longer than its output interface accepts. Only drivers use this.
    OutputTooLong = "output_too_long",
    /// Its output interface was down. Only drivers use this.
    OutputDown = "output_down",
    /// A service made it, and its output accepts only packets that came in. Only drivers use this.
    OutputMade = "output_made",
}

impl DropReason {
    /// Number of reasons: one more than the largest index.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the index of this reason, from 0 and below [`DropReason::COUNT`].
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

/// A service's findings about the flow of a packet, for the driver to act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// The new weight of the flow's client, if flows or connections are clients.
    pub weight: Option<Weight>,
    /// The service for the flow's packets that are classified from now on. They go through that service's
    /// chain.
    pub service: Option<ServiceId>,
    /// The mark for other programs of the machine (a firewall mark). This packet and later ones leave with it,
    /// if their output port can mark packets.
    pub fwmark: Option<u32>,
}

/// The additional output of a service: the frames that it makes, and a mark for the packet's flow. The
/// collection of frames is bounded and keeps its buffers.
///
/// The driver empties it after each call or each batch. If it is full, a service drops its own frame, as a full
/// queue would. The driver may swap a frame for an empty one ([`Generated::frames_mut`]). If the frames it puts
/// in have room, nothing is allocated in the steady state.
#[derive(Clone, Debug)]
pub struct Generated {
    /// All frames: first those in use, then the spare ones.
    frames: Vec<Frame>,
    /// Frames in use.
    used: usize,
    mark: Option<Mark>,
}

impl Generated {
    /// Returns an empty collection of at most `frames_max` frames, each with room for `frame_bytes` bytes.
    pub fn new(frames_max: usize, frame_bytes: usize) -> Self {
        Self { frames: (0..frames_max).map(|_| Frame::with_capacity(frame_bytes)).collect(), used: 0, mark: None }
    }

    /// Marks the flow of the current packet. The last of several marks counts.
    pub const fn mark(&mut self, mark: Mark) {
        self.mark = Some(mark);
    }

    /// Takes the mark that the service set since the last call.
    pub const fn take_mark(&mut self) -> Option<Mark> {
        self.mark.take()
    }

    /// Adds an empty frame to the collection, and returns it. `None`: the collection is full.
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

    /// Returns the frames made since the collection was cleared, in order.
    pub fn frames(&self) -> &[Frame] {
        &self.frames[..self.used]
    }

    /// Returns the frames made since the collection was cleared, in order, to change or to swap.
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        &mut self.frames[..self.used]
    }

    /// Returns the number of frames in use.
    pub const fn len(&self) -> usize {
        self.used
    }

    /// Returns whether no frame is in use.
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns the most frames that it holds.
    pub const fn frames_max(&self) -> usize {
        self.frames.len()
    }

    /// Makes all frames spare again, and keeps their buffers.
    pub const fn clear(&mut self) {
        self.used = 0;
    }
}

impl Default for Generated {
    /// Returns room for 32 frames (a burst of packets, each answered) of 1,600 bytes (an ICMPv6 error with its
    /// link header, and more).
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
