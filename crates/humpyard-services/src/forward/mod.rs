//! IPv4 and IPv6 forwarding: the work of a router on a packet between its arrival and its departure.
//!
//! # Work
//! The service finds and checks the IP header. It drops packets that a router must not forward. It finds the
//! longest prefix that covers the destination, decrements the time to live, updates the checksum, and writes
//! the next hop's link address. For a dropped packet whose sender should know, it makes an ICMP error. That
//! includes packets longer than the next link's MTU: the error gives the MTU, for path MTU discovery.
//!
//! # Source
//! RFC 791, RFC 1191, RFC 1812 (sections 4.3.2, 5.2, 5.3), RFC 1624; RFC 8200, RFC 8201, RFC 4291, RFC 4443.
//!
//! # Departures
//! * A router knows its interfaces; this service sees only frames. It has no directed broadcast (RFC 1812,
//!   section 5.3.5), no check of the source against an interface (5.3.8), and no redirect.
//! * No packet is fragmented. An IPv4 packet without DF that exceeds the next link's MTU is dropped as
//!   `too_big`, without an ICMP error. RFC 1812, section 4.2.2.7 requires fragmentation.
//! * IPv4 options and IPv6 hop-by-hop options pass unchanged. RFC 8200, section 4 allows that; RFC 1812,
//!   section 5.2.4.1 requires that routers record routes. A packet at the end of a source route counts as this
//!   router's own.
//! * The rate of ICMP errors is limited by packets, not by time, because a service has no clock. Errors beyond
//!   the limit are not counted; the dropped packets are, by reason.
//! * IP is found only behind Ethernet II and VLAN tags: in LLC/SNAP, MPLS or PPPoE it counts as `not_ip`.
//! * With `checksum=fill`, an IPv4 header checksum of zero is filled in before the checks. In a capture taken
//!   on the sender, the network card had not filled it in yet. Any other wrong checksum drops the packet.

pub(crate) mod icmp;
pub(crate) mod ipv4;
pub(crate) mod ipv6;
mod parameter;
mod route;

use core::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use humpyard_core::frame::Frame;

use self::icmp::{Problem, Reporter};
pub use self::parameter::{Checksum, ForwardParams, Host, LinkMtu, Routes};
pub use self::route::{Next, RouteError, RouteTable};
use crate::link::{self, IpVersion, Mac, Network};
use crate::service::{Build, Context, DropReason, Generated, Info, Service, ServiceError, Verdict};

/// The addresses of the router.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Router {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
    pub(crate) mac: Mac,
}

impl Router {
    const fn new(params: &ForwardParams) -> Self {
        Self { v4: params.router_v4.0, v6: params.router_v6.0, mac: params.router_mac }
    }
}

/// Returns the reporter of ICMP errors for these parameters.
const fn reporter(params: &ForwardParams) -> Reporter {
    Reporter::new(Router::new(params), params.icmp_interval, params.icmp_burst)
}

/// IPv4 and IPv6 forwarding; see the [module](self).
#[derive(Clone, Debug)]
pub struct Forward {
    table: Arc<RouteTable>,
    router: Router,
    checksum: Checksum,
    reporter: Reporter,
    /// The MTU of the next link, in bytes.
    mtu: usize,
}

impl Build for Forward {
    type Params = ForwardParams;

    const INFO: Info = Info {
        name: "forward",
        summary: "IPv4 and IPv6 forwarding: header checks, longest prefix match, time to live, ICMP errors",
        source: "RFC 1812 sections 4.3.2, 5.2, 5.3; RFC 1624; RFC 8200; RFC 4291; RFC 4443",
    };

    fn new(params: &ForwardParams) -> Result<Self, ServiceError> {
        let table = RouteTable::parse(&params.routes.0)
            .map_err(|why| ServiceError::new(format!("{}: `routes`: {why}", Self::INFO.name)))?;
        Ok(Self::with_table(Arc::new(table), params))
    }
}

impl Forward {
    /// Returns a router with this table instead of the one in `params`.
    pub fn with_table(table: Arc<RouteTable>, params: &ForwardParams) -> Self {
        Self {
            table,
            router: Router::new(params),
            checksum: params.checksum,
            reporter: reporter(params),
            mtu: params.mtu.0.map_or(usize::MAX, usize::from),
        }
    }

    /// Checks the packet and looks up its route. A packet that fails a check is dropped without an ICMP error.
    #[inline]
    fn decide(&self, frame: &Frame, network: Network) -> Result<Decision, DropReason> {
        if network.group {
            // RFC 1812, section 5.3.4: a link-layer broadcast or multicast is not forwarded.
            return Err(DropReason::LinkGroup);
        }
        let packet = &frame.data[network.offset..];
        let room = (frame.wire_length as usize).max(frame.data.len()) - network.offset;
        let (next, hops_left) = match network.version {
            IpVersion::V4 => {
                let header = ipv4::read(packet, room)?;
                (self.next_v4(header.destination), header.time_to_live)
            }
            IpVersion::V6 => {
                let header = ipv6::read(packet, room)?;
                (self.next_v6(header.destination), header.hop_limit)
            }
        };
        let decision = Decision::of(next, hops_left);
        Ok(if room > self.mtu { self.heed_mtu(packet, network.version, decision) } else { decision })
    }

    /// Returns the decision on a packet that may exceed the next link's MTU; `decision` is that of all other
    /// checks.
    #[cold]
    #[inline(never)]
    fn heed_mtu(&self, packet: &[u8], version: IpVersion, decision: Decision) -> Decision {
        let word = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        let (length, may_fragment) = match version {
            IpVersion::V4 => (word(2), packet[6] & ipv4::DO_NOT_FRAGMENT == 0),
            IpVersion::V6 => (word(4) + ipv6::HEADER_BYTES, false),
        };
        if length > self.mtu { decision.but_too_big(self.mtu, may_fragment) } else { decision }
    }

    #[inline]
    fn next_v4(&self, destination: Ipv4Addr) -> Option<Next> {
        if destination == self.router.v4 { Some(Next::Local) } else { self.table.lookup_v4(destination) }
    }

    #[inline]
    fn next_v6(&self, destination: Ipv6Addr) -> Option<Next> {
        if destination == self.router.v6 { Some(Next::Local) } else { self.table.lookup_v6(destination) }
    }

    #[inline]
    fn send(&self, frame: &mut Frame, network: Network, station: Option<Mac>) {
        let packet = &mut frame.data[network.offset..];
        match network.version {
            IpVersion::V4 => ipv4::count_down(packet),
            IpVersion::V6 => ipv6::count_down(packet),
        }
        if let Some(station) = station {
            link::readdress(frame, station, self.router.mac);
        }
    }
}

impl Service for Forward {
    fn process(&mut self, frame: &mut Frame, _: &Context, generated: &mut Generated) -> Verdict {
        self.reporter.on_packet();
        let network = match Network::find(frame) {
            Ok(network) => network,
            Err(reason) => return Verdict::Drop(reason),
        };
        if self.checksum == Checksum::Fill && network.version == IpVersion::V4 {
            ipv4::fill_checksum(&mut frame.data[network.offset..]);
        }
        match self.decide(frame, network) {
            Ok(Decision::Send(station)) => {
                self.send(frame, network, station);
                Verdict::Forward
            }
            Ok(Decision::Deliver) => Verdict::Consume,
            Ok(Decision::Report(reason, problem)) => {
                self.reporter.report(problem, frame, network, generated);
                Verdict::Drop(reason)
            }
            Err(reason) | Ok(Decision::Discard(reason)) => Verdict::Drop(reason),
        }
    }
}

/// The decision on a packet that passed the checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Decision {
    /// Forward it, to this station if there is one.
    Send(Option<Mac>),
    /// Deliver it to this router.
    Deliver,
    /// Drop it without an ICMP error.
    Discard(DropReason),
    /// Drop it, and report the problem to its sender.
    Report(DropReason, Problem),
}

impl Decision {
    #[inline]
    const fn of(next: Option<Next>, hops_left: u8) -> Self {
        let station = match next {
            Some(Next::Out) => None,
            Some(Next::Station(mac)) => Some(mac),
            // Before the check of the time to live: a delivered packet is not forwarded (RFC 1812, section
            // 5.3.1).
            Some(Next::Local) => return Self::Deliver,
            Some(Next::Discard) => return Self::Discard(DropReason::RouteDiscard),
            Some(Next::Unreachable) => return Self::Report(DropReason::RouteUnreachable, Problem::Unreachable),
            None => return Self::Report(DropReason::NoRoute, Problem::NoRoute),
        };
        if hops_left <= 1 {
            return Self::Report(DropReason::TtlExpired, Problem::TimeExceeded);
        }
        Self::Send(station)
    }

    /// Returns the decision on a packet that exceeds the next link's MTU. Routers fragment no packet that
    /// forbids it (RFC 1191, section 4), and none in IPv6 (RFC 8200, section 4.5).
    const fn but_too_big(self, mtu: usize, may_fragment: bool) -> Self {
        match self {
            Self::Send(_) if may_fragment => Self::Discard(DropReason::TooBig),
            Self::Send(_) => Self::Report(DropReason::TooBig, Problem::TooBig(mtu as u16)),
            other => other,
        }
    }
}
