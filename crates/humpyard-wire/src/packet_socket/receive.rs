//! Frames from an interface.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;
use humpyard_traffic::source::{Polled, Received, Source};

use super::ring::{self, Ring};
use super::{FanOut, PacketSocketParams, bind, fan_out, listen_to_all};
use crate::interface::{Interface, Presence, refused};
use crate::offload::{Offload, Segmenter};
use crate::system::{option, set_option, socket};

/// Least bytes of a ring that is one of several.
const RING_MIN: u64 = 2 << 20;
/// Bytes of the two addresses that begin an Ethernet frame; a VLAN tag comes behind them.
const ADDRESSES: usize = 12;

/// The frames that arrive at an interface.
pub(crate) struct PacketSource {
    port: String,
    socket: OwnedFd,
    ring: Ring,
    presence: Presence,
    segmenter: Segmenter,
    /// The VLAN tag of the frame that was taken last.
    vlan: Option<(u16, u16)>,
    /// What came so far, without the frames left.
    received: Received,
}

impl PacketSource {
    /// Opens an interface; `port` is how the user names it.
    ///
    /// # Errors
    /// If there is no such interface, it is down, or the privilege is missing.
    pub(crate) fn open(port: &str, name: &str, params: &PacketSocketParams) -> Result<Self, TrafficError> {
        Self::open_one(port, name, params.ring, params, None)
    }

    /// Opens an interface `sources` times; each source receives the frames of some connections. They
    /// divide the ring's bytes, but each has at least 2 MiB.
    ///
    /// # Errors
    /// As [`PacketSource::open`], and if the kernel fans nothing out.
    pub(crate) fn open_fanned_out(
        port: &str,
        name: &str,
        params: &PacketSocketParams,
        fan_out: &mut FanOut,
        sources: usize,
    ) -> Result<Vec<Self>, TrafficError> {
        let ring = (params.ring / sources as u64).max(RING_MIN);
        fan_out.begin_interface();
        let open = |_| Self::open_one(port, name, ring, params, Some(&mut *fan_out));
        let opened: Vec<Self> = (0..sources).map(open).collect::<Result<_, _>>()?;
        // Not before the last has joined: the number of sockets decides, too, which of them the kernel chooses.
        for source in &opened {
            fan_out::let_in(&source.socket).map_err(|error| refused(port, "letting frames in", &error))?;
        }
        Ok(opened)
    }

    fn open_one(
        port: &str,
        name: &str,
        ring: u64,
        params: &PacketSocketParams,
        fan_out: Option<&mut FanOut>,
    ) -> Result<Self, TrafficError> {
        let interface = Interface::ready(port, name)?;
        let refuse = |doing: &'static str| move |error| refused(port, doing, &error);
        // Of no protocol, so that nothing comes before the ring is there.
        let socket = socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(refuse("opening a packet socket"))?;
        let set = |option, value: i32| set_option(&socket, libc::SOL_PACKET, option, &value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V3 as i32).map_err(refuse("asking for blocks"))?;
        set(libc::PACKET_VNET_HDR, 1).map_err(refuse("asking what the system left undone"))?;
        set(libc::PACKET_IGNORE_OUTGOING, 1).map_err(refuse("leaving out what goes out"))?;
        let ring = Ring::new(&socket, ring as usize, params.timeout as u32)
            .map_err(refuse("making the ring (ring=BYTES makes it smaller)"))?;
        if params.promiscuous {
            listen_to_all(&socket, &interface).map_err(refuse("taking frames for others"))?;
        }
        if fan_out.is_some() {
            fan_out::keep_out(&socket).map_err(refuse("keeping frames out"))?;
        }
        bind(&socket, &interface, libc::ETH_P_ALL as u16).map_err(refuse("listening to the interface"))?;
        if let Some(fan_out) = fan_out {
            fan_out.join(&socket).map_err(refuse("sharing the interface among workers (--dispatchers 1 does not)"))?;
        }
        let received = Received { port: port.to_owned(), ..Received::default() };
        let presence = Presence::of(&interface);
        Ok(Self {
            port: port.to_owned(),
            socket,
            ring,
            presence,
            segmenter: Segmenter::default(),
            vlan: None,
            received,
        })
    }

    /// Fills `frame` with the next packet; false if there is none now.
    fn take(&mut self, frame: &mut Frame) -> bool {
        if self.segmenter.next(frame) {
            insert_tag(frame, self.vlan);
            return true;
        }
        while let Some(received) = self.ring.next() {
            self.vlan = received.vlan;
            let is_whole = received.wire_length as usize == received.data.len();
            let taken = match Offload::parse(received.offload) {
                Some(offload) if offload.is_big() => {
                    fill(self.segmenter.frame(), &received);
                    is_whole && self.segmenter.begin(offload) && self.segmenter.next(frame)
                }
                Some(offload) => {
                    fill(frame, &received);
                    frame.data.len() >= ADDRESSES && (!is_whole || offload.fill_in(&mut frame.data))
                }
                None => false,
            };
            if taken {
                insert_tag(frame, self.vlan);
                return true;
            }
            self.received.malformed += 1;
        }
        false
    }
}

/// Copies a frame out of the ring.
fn fill(frame: &mut Frame, received: &ring::Received<'_>) {
    frame.time = Time::from_ns(received.time_ns);
    frame.link = LinkType::Ethernet;
    (frame.port, frame.answer) = (0, false);
    frame.data.clear();
    frame.data.extend_from_slice(received.data);
    frame.wire_length = received.wire_length;
}

/// Puts the VLAN tag back that the kernel took out.
fn insert_tag(frame: &mut Frame, vlan: Option<(u16, u16)>) {
    let Some((protocol, tag)) = vlan else { return };
    let [a, b] = protocol.to_be_bytes();
    let [c, d] = tag.to_be_bytes();
    frame.data.splice(ADDRESSES..ADDRESSES, [a, b, c, d]);
    frame.wire_length += 4;
}

impl Source for PacketSource {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        loop {
            if self.poll(frame)? == Polled::Frame {
                return Ok(true);
            }
            crate::wait(&[self.socket.as_fd()]).map_err(|error| TrafficError::unreadable(&self.port, error))?;
        }
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        if !self.take(frame) {
            self.presence.check(&self.port)?;
            return Ok(Polled::NotYet);
        }
        self.received.frames += 1;
        Ok(Polled::Frame)
    }

    fn description(&self) -> &str {
        &self.port
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.presence.look(&self.socket);
        vec![self.socket.as_fd()]
    }

    fn waiting(&self) -> Option<u64> {
        Some(self.ring.waiting())
    }

    fn hold(&mut self, frames: u64) {
        self.ring.hold(frames);
    }

    fn received(&mut self) -> Result<Vec<Received>, TrafficError> {
        // Reading the kernel's counters sets them to zero.
        let counted: libc::tpacket_stats_v3 = option(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)
            .map_err(|error| TrafficError::unreadable(&self.port, error))?;
        self.received.missed += u64::from(counted.tp_drops);
        let missed = self.received.missed + self.ring.passed_over();
        Ok(vec![Received { missed, left: self.ring.waiting(), ..self.received.clone() }])
    }
}
