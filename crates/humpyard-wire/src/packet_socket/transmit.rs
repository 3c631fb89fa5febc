//! Frames to an interface.

use core::mem;
use core::ptr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use humpyard_core::frame::{Frame, LinkType};
use humpyard_traffic::TrafficError;
use humpyard_traffic::sink::{Sent, Sink};

use super::bind;
use crate::carrier::Carrier;
use crate::interface::{Interface, refused};
use crate::system::{checked, set_option, socket};

/// Frames that go out with one call, at most.
const BATCH: usize = 64;
/// How often a frame is offered again that the interface has no room for: the time that its queue takes to empty.
const TRIES: u32 = 64;
/// Time between two lookups of an interface that was removed: it may have been made again.
const LOOKED_FOR_EVERY: Duration = Duration::from_millis(100);

/// The frames that leave by an interface.
pub(crate) struct PacketSink {
    port: String,
    socket: OwnedFd,
    interface: Interface,
    carrier: Carrier,
    /// When the interface was looked for last. `None`: it has been there all the time.
    looked_for: Option<Instant>,
    /// Copies of frames, of which the first `waiting` are to go out.
    frames: Vec<Vec<u8>>,
    waiting: usize,
    sent: Sent,
}

impl PacketSink {
    /// Opens an interface; `port` is how the user names it.
    ///
    /// # Errors
    /// If there is no such interface, it is down, or the privilege is missing.
    pub(crate) fn open(port: &str, name: &str) -> Result<Self, TrafficError> {
        let interface = Interface::ready(port, name)?;
        let refuse = |doing: &'static str| move |error| refused(port, doing, &error);
        let socket = socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(refuse("opening a packet socket"))?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)
            .map_err(refuse("passing by the queues"))?;
        // Of no protocol: it hears nothing.
        bind(&socket, &interface, 0).map_err(refuse("binding to the interface"))?;
        Ok(Self {
            port: port.to_owned(),
            socket,
            interface,
            carrier: Carrier::new().map_err(refuse("opening a socket to ask for the interface"))?,
            looked_for: None,
            frames: vec![Vec::new(); BATCH],
            waiting: 0,
            sent: Sent { port: port.to_owned(), ..Sent::default() },
        })
    }

    /// Offers what waits from the frame `first` on; answers how many were taken.
    fn offer(&self, first: usize) -> io::Result<usize> {
        let mut pieces = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: a message is numbers and pointers, which may all be zero: none is followed then.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        let waiting = &self.frames[first..self.waiting];
        for ((piece, message), frame) in pieces.iter_mut().zip(&mut messages).zip(waiting) {
            *piece = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
        }
        let count = waiting.len() as libc::c_uint;
        // SAFETY: `count` messages, each of one piece that is a frame of ours; the kernel only reads them, within the call.
        let sent = checked(unsafe {
            libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT)
        })?;
        Ok(sent as usize)
    }

    /// Binds the socket again if the interface was removed and another of its name is up. Returns whether it did. Looks for the
    /// interface at most once in [`LOOKED_FOR_EVERY`].
    #[cold]
    fn takes_up_again(&mut self) -> bool {
        if self.looked_for.is_some_and(|looked| looked.elapsed() < LOOKED_FOR_EVERY) {
            return false;
        }
        self.looked_for = Some(Instant::now());
        let Ok(interface) = Interface::ready(&self.port, &self.interface.name) else { return false };
        if interface.index == self.interface.index || bind(&self.socket, &interface, 0).is_err() {
            return false;
        }
        self.interface = interface;
        true
    }

    /// Sends what waits. What cannot go is counted, and gone.
    fn send_all(&mut self) -> Result<(), TrafficError> {
        let (mut first, mut tries) = (0, 0);
        while first < self.waiting {
            let error = match self.offer(first) {
                Ok(taken) => {
                    self.sent.frames += taken as u64;
                    first += taken;
                    tries = 0;
                    continue;
                }
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                Some(libc::EAGAIN | libc::ENOBUFS) if tries < TRIES => {
                    tries += 1;
                    continue;
                }
                Some(libc::EAGAIN | libc::ENOBUFS) => {
                    // A device whose other end is down refuses frames as one that is full does.
                    if !self.carrier.is_on(&self.interface) {
                        self.sent.down += (self.waiting - first) as u64;
                        break;
                    }
                    self.sent.full += 1;
                }
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                    if self.takes_up_again() {
                        continue;
                    }
                    // The error may be left over from a time at which the interface was down.
                    if tries == 0 && self.carrier.is_on(&self.interface) {
                        tries += 1;
                        continue;
                    }
                    self.sent.down += (self.waiting - first) as u64;
                    break;
                }
                Some(libc::EMSGSIZE | libc::EINVAL) => self.sent.too_long += 1,
                _ => return Err(TrafficError::unwritable(&self.port, error)),
            }
            first += 1;
        }
        self.waiting = 0;
        Ok(())
    }
}

impl Sink for PacketSink {
    fn write(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        if frame.link != LinkType::Ethernet {
            return Err(TrafficError::output(
                &self.port,
                "the packets have no Ethernet header, which this interface needs; use tun:NAME",
            ));
        }
        if frame.data.len() > self.interface.frame_bytes_max() {
            self.sent.too_long += 1;
            return Ok(());
        }
        let place = &mut self.frames[self.waiting];
        place.clear();
        place.extend_from_slice(&frame.data);
        self.waiting += 1;
        if self.waiting == BATCH { self.send_all() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), TrafficError> {
        if self.waiting == 0 { Ok(()) } else { self.send_all() }
    }

    fn flush(&mut self) -> Result<(), TrafficError> {
        self.send()
    }

    fn sent(&self) -> Vec<Sent> {
        vec![self.sent.clone()]
    }

    fn finish(mut self: Box<Self>) -> Result<u64, TrafficError> {
        self.send()?;
        Ok(self.sent.frames)
    }
}
