//! Frames to an interface.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use humpyard_core::frame::{Frame, LinkType};
use humpyard_services::link::{IpVersion, Network};
use humpyard_traffic::TrafficError;
use humpyard_traffic::sink::{Sent, Sink};

use super::ring::{Consumer, Producer};
use super::socket;
use super::umem::Chunk;
use super::{ETHERNET_HEADER, Opened, TAG, link_header_bytes};
use crate::carrier::Carrier;
use crate::interface::Interface;

/// Frames that wait for others, at most, before the kernel hears of them.
const BATCH: u32 = 64;
/// How often the kernel is asked in vain to go on with a full ring.
const TRIES: u32 = 64;
/// How long the last frames have to leave.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(100);
/// A queue by which frames leave.
pub(super) struct SendQueue {
    leaving: Producer<libc::xdp_desc>,
    completed: Consumer<u64>,
    /// Of each part in the ring whether it is the last of its frame; not kept where frames have one part.
    ends: VecDeque<bool>,
    /// Chunks that the kernel has.
    away: u32,
    /// Whether the interface was down when it was last asked.
    is_down: bool,
}

/// What became of frames that were in a ring.
#[derive(Clone, Copy, Default)]
struct Outcome {
    taken: u64,
    lost: u64,
}

impl SendQueue {
    pub(super) fn new(leaving: Producer<libc::xdp_desc>, completed: Consumer<u64>) -> Self {
        Self { leaving, completed, ends: VecDeque::new(), away: 0, is_down: false }
    }

    /// Takes back the chunks of frames that have left.
    fn take_back(&mut self, chunk_bytes: u32, free: &mut Vec<Chunk>) {
        if self.away > 0 && self.completed.look() {
            while let Some(address) = self.completed.take() {
                // SAFETY: the kernel has just given this chunk back by the ring, once for each time that it was given away.
                free.push(unsafe { Chunk::given_back(address, chunk_bytes) });
                self.away -= 1;
            }
            self.completed.release();
        }
    }

    /// Asks the kernel to go on with what is in the ring.
    fn offer(&mut self, socket: &OwnedFd, opened: &Opened) -> io::Result<Outcome> {
        self.leaving.publish();
        let result = if self.leaving.needs_wakeup() { socket::wake_transmit(socket) } else { Ok(()) };
        self.is_down = false;
        let mut lost = 0;
        if let Err(error) = result {
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {}
                // Said of the last frame taken, where the kernel copies: the interface did not want it.
                Some(libc::EBUSY) => lost = u64::from(!opened.is_zero_copy),
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => self.is_down = true,
                _ => return Err(error),
            }
        }
        let parts = self.leaving.look();
        let frames =
            if opened.has_parts { self.ends.drain(..parts as usize).map(u64::from).sum() } else { u64::from(parts) };
        Ok(Outcome { taken: frames.saturating_sub(lost), lost })
    }
}

/// The frames that leave by an interface.
pub(crate) struct XdpSink {
    port: String,
    opened: Arc<Opened>,
    queues: Vec<SendQueue>,
    /// Chunks that are ours.
    free: Vec<Chunk>,
    interface: Interface,
    carrier: Carrier,
    sent: Sent,
    /// Whether what had not left was given up.
    is_closed: bool,
}

impl XdpSink {
    pub(super) fn new(
        port: &str,
        interface: &Interface,
        opened: Arc<Opened>,
        queues: Vec<SendQueue>,
        free: Vec<Chunk>,
    ) -> io::Result<Self> {
        Ok(Self {
            port: port.to_owned(),
            opened,
            queues,
            free,
            interface: interface.clone(),
            carrier: Carrier::new()?,
            sent: Sent { port: port.to_owned(), ..Sent::default() },
            is_closed: false,
        })
    }

    /// The count of frames that a queue does not take: an interface whose other end is down refuses them as a full
    /// one does.
    fn refused(&mut self, queue: usize) -> &mut u64 {
        let is_down = self.queues[queue].is_down || !self.carrier.is_on(&self.interface);
        if is_down { &mut self.sent.down } else { &mut self.sent.full }
    }

    /// Whether the interface passes on a frame of this length.
    fn passes(&self, frame: &Frame) -> bool {
        // The system allows for one tag.
        let bytes_max = self.interface.mtu + link_header_bytes(&frame.data).min(ETHERNET_HEADER + TAG);
        let chunk_bytes = self.opened.umem.chunk_bytes() as usize;
        (ETHERNET_HEADER..=bytes_max).contains(&frame.data.len())
            && (self.opened.has_parts || frame.data.len() <= chunk_bytes)
    }

    /// The queue by which a frame leaves: one for all frames between two addresses, so that they stay in order.
    fn queue_of(&self, frame: &Frame) -> usize {
        if self.queues.len() == 1 {
            return 0;
        }
        let addresses = Network::find(frame).ok().and_then(|network| {
            let range = match network.version {
                IpVersion::V4 => network.offset + 12..network.offset + 20,
                IpVersion::V6 => network.offset + 8..network.offset + 40,
            };
            frame.data.get(range)
        });
        let sum = addresses.unwrap_or_default().chunks_exact(4).fold(0_u32, |sum, word| {
            let word = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
            (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9)
        });
        ((u64::from(sum) * self.queues.len() as u64) >> 32) as usize
    }

    /// Whether a queue takes this number of parts now.
    fn has_room(&self, queue: usize, parts: u32) -> bool {
        self.free.len() >= parts as usize && self.queues[queue].leaving.has_room(parts)
    }

    /// Makes room for this number of parts; `false`: there is not enough.
    fn make_room(&mut self, queue: usize, parts: u32) -> Result<bool, TrafficError> {
        for _ in 0..TRIES {
            self.take_back();
            self.offer(queue)?;
            if self.has_room(queue, parts) {
                return Ok(true);
            }
            if self.free.len() < parts as usize {
                // Others may have them.
                (0..self.queues.len()).filter(|&other| other != queue).try_for_each(|other| self.offer(other))?;
            }
        }
        self.take_back();
        Ok(self.has_room(queue, parts))
    }

    fn take_back(&mut self) {
        let chunk_bytes = self.opened.umem.chunk_bytes();
        self.queues.iter_mut().for_each(|queue| queue.take_back(chunk_bytes, &mut self.free));
    }

    /// Asks the kernel to go on with a queue, if there is anything in it.
    fn offer(&mut self, queue: usize) -> Result<(), TrafficError> {
        let Self { opened, queues, .. } = self;
        if queues[queue].leaving.inside() > 0 {
            let outcome = queues[queue]
                .offer(opened.sockets[queue].sender(), opened)
                .map_err(|error| TrafficError::unwritable(&self.port, error))?;
            self.sent.frames += outcome.taken;
            if outcome.lost > 0 {
                *self.refused(queue) += outcome.lost;
            }
        }
        Ok(())
    }

    /// Asks the kernel to go on with a queue until it is empty, or the kernel will not. A card goes on by itself.
    fn offer_all(&mut self, queue: usize) -> Result<(), TrafficError> {
        let mut tries = 0;
        while self.queues[queue].leaving.inside() > 0 && tries < TRIES {
            let before = self.queues[queue].leaving.inside();
            self.offer(queue)?;
            let SendQueue { leaving, is_down, .. } = &self.queues[queue];
            if self.opened.is_zero_copy || *is_down {
                break;
            }
            tries = if leaving.inside() < before { 0 } else { tries + 1 };
        }
        Ok(())
    }

    /// Whether everything that was written has left.
    fn has_left(&self) -> bool {
        self.queues.iter().all(|queue| queue.leaving.inside() == 0 && queue.away == 0)
    }

    /// Counts the frames that the kernel has not taken as not sent.
    fn give_up(&mut self) {
        for number in 0..self.queues.len() {
            let queue = &self.queues[number];
            let parts = queue.leaving.inside();
            let frames =
                if self.opened.has_parts { queue.ends.iter().filter(|&&end| end).count() as u64 } else { parts.into() };
            if frames > 0 {
                *self.refused(number) += frames;
            }
        }
    }

    /// Puts the frame, which fits, into the ring of a queue.
    fn put(&mut self, queue: usize, frame: &Frame) {
        let chunk_bytes = self.opened.umem.chunk_bytes() as usize;
        let SendQueue { leaving, ends, away, .. } = &mut self.queues[queue];
        let mut parts = frame.data.chunks(chunk_bytes).peekable();
        while let Some(part) = parts.next() {
            let mut chunk = self.free.pop().expect("there is room");
            self.opened.umem.write(&mut chunk, part);
            let is_last = parts.peek().is_none();
            let options = if is_last { 0 } else { libc::XDP_PKT_CONTD };
            leaving.put(libc::xdp_desc { addr: chunk.give(), len: part.len() as u32, options });
            *away += 1;
            if self.opened.has_parts {
                ends.push_back(is_last);
            }
        }
    }
}

impl Sink for XdpSink {
    fn write(&mut self, frame: &Frame) -> Result<(), TrafficError> {
        if frame.link != LinkType::Ethernet {
            return Err(TrafficError::output(
                &self.port,
                "the packets have no Ethernet header, which this interface needs; use tun:NAME",
            ));
        }
        if !self.passes(frame) {
            self.sent.too_long += 1;
            return Ok(());
        }
        let queue = self.queue_of(frame);
        let parts = frame.data.len().div_ceil(self.opened.umem.chunk_bytes() as usize) as u32;
        if !self.has_room(queue, parts) && !self.make_room(queue, parts)? {
            *self.refused(queue) += 1;
            return Ok(());
        }
        self.put(queue, frame);
        if self.queues[queue].leaving.unpublished() >= BATCH { self.offer(queue) } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), TrafficError> {
        (0..self.queues.len()).try_for_each(|queue| self.offer_all(queue))?;
        self.take_back();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TrafficError> {
        self.send()
    }

    fn sent(&self) -> Vec<Sent> {
        vec![self.sent.clone()]
    }

    fn close(&mut self) -> Result<(), TrafficError> {
        if self.is_closed {
            return Ok(());
        }
        let until = Instant::now() + PATIENCE;
        self.send()?;
        while !self.has_left() && Instant::now() < until {
            thread::sleep(PAUSE);
            self.send()?;
        }
        self.give_up();
        self.is_closed = true;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<u64, TrafficError> {
        self.close()?;
        Ok(self.sent.frames)
    }
}
