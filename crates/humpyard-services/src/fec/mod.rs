//! Forward error correction by Reed-Solomon codes, and its inverse.
//!
//! # Work
//! Packets travel in tunnels between the same two addresses, behind a header of their own, as protocol 253.
//!
//! `code=8/7` protects each packet by itself: the packet is cut into seven parts, and the code adds an eighth.
//! `fec-decode` repairs any one damaged part. It drops a packet with more damage for `unrecoverable`. The
//! packet gets longer by the factor 8/7, and by its headers. This is the service of the EFQ and LAP paper.
//!
//! `code=8+2` protects against loss: eight packets of one flow form a group, and the code adds two parity
//! packets as long as the longest packet. Packets are forwarded at once; the service keeps copies for the
//! parity. If any two of the ten packets are lost, `fec-decode` restores them, link header included.
//!
//! A flow that ends or stalls leaves an incomplete group. Its parity is sent with the next packet of any flow
//! after `wait`, or when another group needs its place. A group that is open at the end of a run has no parity;
//! `uncovered` counts its packets.
//!
//! # Source
//! Reed and Solomon, "Polynomial Codes over Certain Finite Fields" (1960), in the form of Lin, Al-Naffouri, Han
//! and Chung, "Novel Polynomial Basis with Fast Fourier Transform" (2016), which the crate `reed-solomon-simd`
//! implements; RFC 6363 (FEC framework) for the fields of source and repair packets; RFC 3692 for the protocol
//! number.
//!
//! # Several workers
//! An instance groups the packets that it sees, and numbers its own groups, so that a sender is correct under
//! any steering. A receiver needs all packets of a group at one instance. Steer by flow there (`hrw`, `conn`),
//! or spread groups are not recovered.
//!
//! # Departures
//! * Packets that are not IP, or too long for a tunnel, pass unprotected: protection never drops a packet.
//! * A recovered packet is sent after the packets that came meanwhile. In a chain, frames that services make
//!   are sent at once. That includes recovered packets and parity: chain `fec` and `fec-decode` with `code=8/7`
//!   only.

mod group;
mod header;
mod single;
mod window;

use core::time::Duration;

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;
use humpyard_core::{choice, params};

use self::group::Groups;
use self::header::{Header, Kind};
use self::single::{Mender, Single};
use self::window::Window;
use crate::ip::protocol;
use crate::service::{Build, Context, Counter, DropReason, Generated, Info, Service, ServiceError, Verdict};
use crate::tunnel;

/// The protocol number of protected packets: one of the two for experiments.
const PROTOCOL: u8 = protocol::EXPERIMENT;

params! {
    /// Parameters of forward error correction.
    pub struct FecParams {
        /// The code: `8/7` over each packet, or `8+2` over eight packets of a flow.
        code: Code = Code::OverPacket, cost "always";
        /// Most groups open at once, each of one flow (8+2): copies of up to 8 packets each are held.
        groups: u64 = 256, in 1..=65_536, cost "code=8+2";
        /// How long a group waits to be full (8+2).
        wait: u64 = 100, in 1..=3_600_000, unit "ms";
    }
}

params! {
    /// Parameters of the inverse. The packets show how they are protected.
    pub struct FecDecodeParams {
        /// Most groups remembered at once (8+2): copies of up to 10 packets each are held.
        groups: u64 = 256, in 1..=65_536;
    }
}

choice! {
    /// The unit of protection.
    pub enum Code {
        /// Seven parts of one packet, protected by an eighth.
        OverPacket = "8/7",
        /// Eight packets of a flow, protected by two more.
        OverGroup = "8+2",
    }
}

/// Forward error correction; see the [module](self).
#[derive(Clone, Debug)]
pub struct Fec {
    code: Encoder,
}

#[derive(Clone, Debug)]
enum Encoder {
    OverPacket(Single),
    OverGroup(Box<Groups>),
}

impl Build for Fec {
    type Params = FecParams;

    const INFO: Info = Info {
        name: "fec",
        summary: "forward error correction by Reed-Solomon codes: 8/7 over each packet, or 8+2 over packets of a flow",
        source: "Reed, Solomon 1960; Lin, Al-Naffouri, Han, Chung 2016; RFC 6363; the EFQ and LAP paper (8/7)",
    };

    fn new(params: &FecParams) -> Result<Self, ServiceError> {
        let wait = Time::from_ns(Duration::from_millis(params.wait).as_nanos() as u64);
        let code = match params.code {
            Code::OverPacket => Encoder::OverPacket(Single::new()),
            Code::OverGroup => Encoder::OverGroup(Box::new(Groups::new(params.groups as usize, wait))),
        };
        Ok(Self { code })
    }
}

impl Service for Fec {
    fn process(&mut self, frame: &mut Frame, context: &Context, generated: &mut Generated) -> Verdict {
        let protected = match &mut self.code {
            Encoder::OverPacket(single) => single.protect(frame),
            Encoder::OverGroup(groups) => groups.protect(frame, context, generated),
        };
        protected.map_or_else(Verdict::Drop, |()| Verdict::Forward)
    }

    fn counters(&self) -> Vec<Counter> {
        match &self.code {
            Encoder::OverPacket(single) => single.counters(),
            Encoder::OverGroup(groups) => groups.counters(),
        }
    }
}

/// Decides on a frame that cannot be protected: `Ok` forwards it as it is, `Err` drops it for the reason.
fn passes_unprotected(reason: DropReason) -> Result<(), DropReason> {
    if reason == DropReason::Incomplete { Err(reason) } else { Ok(()) }
}

/// The inverse of forward error correction; see the [module](self).
#[derive(Clone, Debug)]
pub struct FecDecode {
    mender: Mender,
    window: Window,
    /// Packets without protection.
    unprotected: u64,
}

impl Build for FecDecode {
    type Params = FecDecodeParams;

    const INFO: Info = Info {
        name: "fec-decode",
        summary: "the inverse of fec: mends damaged packets and recovers lost ones; what is not protected passes",
        source: "Reed, Solomon 1960; Lin, Al-Naffouri, Han, Chung 2016; RFC 6363",
    };

    fn new(params: &FecDecodeParams) -> Result<Self, ServiceError> {
        Ok(Self { mender: Mender::new(), window: Window::new(params.groups as usize), unprotected: 0 })
    }
}

impl FecDecode {
    fn decode(&mut self, frame: &mut Frame, generated: &mut Generated) -> Result<Verdict, DropReason> {
        let outer = match tunnel::open(frame, PROTOCOL) {
            Ok(outer) => outer,
            Err(DropReason::Incomplete) => return Err(DropReason::Incomplete),
            Err(_) => {
                self.unprotected += 1;
                return Ok(Verdict::Forward);
            }
        };
        let header = Header::read(&frame.data[outer.payload.clone()])?;
        match header.kind {
            Kind::Single => self.mender.mend(frame, &outer).map(|()| Verdict::Forward),
            Kind::Source => self.window.source(frame, &outer, header, generated),
            Kind::Repair => self.window.repair(frame, &outer, header, generated),
        }
    }
}

impl Service for FecDecode {
    fn process(&mut self, frame: &mut Frame, _: &Context, generated: &mut Generated) -> Verdict {
        self.decode(frame, generated).unwrap_or_else(Verdict::Drop)
    }

    fn counters(&self) -> Vec<Counter> {
        let mut counters = self.mender.counters();
        counters.extend(self.window.counters());
        counters.push(Counter::new("unprotected", self.unprotected));
        counters
    }
}
