//! Frames from an interface.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;
use humpyard_traffic::source::{Polled, Received, Source};

use super::ring::{Consumer, Producer};
use super::socket;
use super::umem::Chunk;
use super::{ETHERNET_HEADER, Opened, link_header_bytes};
use crate::interface::{Interface, Presence};
use crate::offload::{Offload, Segmenter, fill_in_if_left};

/// Frames taken from one queue before the next has its turn, and after which their chunks go back to the kernel.
const TURN: u32 = 64;

/// A queue by which frames come.
pub(super) struct ReceiveQueue {
    arrived: Consumer<libc::xdp_desc>,
    fill: Producer<u64>,
    /// The first parts of a frame of which the rest is still to come.
    begun: Vec<u8>,
    /// Chunks that the kernel has had, and those that it is to have: it drops frames for which it has none.
    chunks: u64,
    most: u64,
    /// Chunks that it is not to have.
    kept: Vec<Chunk>,
}

impl ReceiveQueue {
    pub(super) fn new(arrived: Consumer<libc::xdp_desc>, fill: Producer<u64>) -> Self {
        Self { arrived, fill, begun: Vec::new(), chunks: 0, most: u64::MAX, kept: Vec::new() }
    }

    /// Gives the kernel chunks for what arrives, as many as the ring holds.
    pub(super) fn fill(&mut self, chunks: impl Iterator<Item = Chunk>) {
        for chunk in chunks {
            self.give(chunk);
            self.chunks += 1;
        }
        self.fill.publish();
    }

    /// Lets about `frames` wait: the kernel has no more chunks, once it has given the others back with a frame.
    fn hold(&mut self, frames: u64) {
        self.most = frames.max(u64::from(TURN));
    }

    /// Gives the kernel a chunk, which it sees after the next turn.
    fn give(&mut self, chunk: Chunk) {
        if self.chunks > self.most {
            self.chunks -= 1;
            return self.kept.push(chunk);
        }
        let has_room = self.fill.put(chunk.give());
        debug_assert!(has_room, "the ring holds every chunk twice");
    }

    /// Gives back what was taken, and looks for more.
    fn turn_over(&mut self) -> bool {
        // In this order a chunk that the kernel fills again finds a place to arrive at.
        self.arrived.release();
        self.fill.publish();
        self.arrived.look()
    }

    /// Puts the next frame into `data`, which is empty; false if there is none.
    fn take(&mut self, opened: &Opened, data: &mut Vec<u8>) -> bool {
        while let Some(part) = self.arrived.take() {
            // SAFETY: the kernel has just given this chunk by the ring, once.
            let chunk = unsafe { Chunk::given_back(part.addr, opened.umem.chunk_bytes()) };
            let is_last = part.options & libc::XDP_PKT_CONTD == 0;
            let is_only = is_last && self.begun.is_empty();
            let to = if is_only { &mut *data } else { &mut self.begun };
            opened.umem.read(&chunk, part.addr, part.len, to);
            self.give(chunk);
            if is_only {
                return true;
            }
            if is_last {
                data.append(&mut self.begun);
                return true;
            }
        }
        false
    }
}

/// The frames that arrive at an interface.
pub(crate) struct XdpSource {
    port: String,
    opened: Arc<Opened>,
    presence: Presence,
    queues: Vec<ReceiveQueue>,
    /// The queue whose turn it is, and for how many more frames.
    turn: usize,
    left: u32,
    /// When it was last looked what has come: the kernel does not say when it came.
    now: Time,
    /// Bytes of a packet above which it was put together from several.
    mtu: usize,
    /// Bytes of the packets that such a one is cut into, at most.
    cut_to: usize,
    fills_checksums: bool,
    /// Whether the kernel looks at the card only when asked.
    asks: bool,
    segmenter: Segmenter,
    /// What came so far, without the frames missed and left.
    received: Received,
}

impl XdpSource {
    pub(super) fn new(
        port: &str,
        interface: &Interface,
        opened: Arc<Opened>,
        queues: Vec<ReceiveQueue>,
        fills_checksums: bool,
        asks: bool,
    ) -> Self {
        Self {
            port: port.to_owned(),
            opened,
            presence: Presence::of(interface),
            queues,
            turn: 0,
            left: TURN,
            now: Time::default(),
            mtu: interface.mtu,
            cut_to: interface.mtu,
            fills_checksums,
            asks,
            segmenter: Segmenter::default(),
            received: Received { port: port.to_owned(), ..Received::default() },
        }
    }

    /// Cuts packets that were put together into packets of at most this many bytes, which the next link takes.
    pub(super) fn cut_to(self, bytes: usize) -> Self {
        Self { cut_to: bytes, ..self }
    }

    /// Puts the bytes of the next frame of any queue into `data`; false if there is none now.
    fn take(&mut self, data: &mut Vec<u8>) -> bool {
        data.clear();
        // Each queue is looked at, and that whose turn has just ended once more.
        for _ in 0..=self.queues.len() {
            let queue = &mut self.queues[self.turn];
            if self.left > 0 {
                if queue.take(&self.opened, data) {
                    self.left -= 1;
                    return true;
                }
                if queue.turn_over() {
                    self.now = now();
                    if queue.take(&self.opened, data) {
                        self.left -= 1;
                        return true;
                    }
                }
                self.wake(self.turn);
            } else {
                queue.turn_over();
            }
            self.turn = (self.turn + 1) % self.queues.len();
            self.left = TURN;
        }
        false
    }

    /// Asks the kernel to go on with an empty queue, where it waits to be asked.
    fn wake(&self, queue: usize) {
        if self.asks || self.queues[queue].fill.needs_wakeup() {
            socket::wake_receive(&self.opened.sockets[queue].first);
        }
    }

    /// Makes a packet of a frame that was taken; false if it is none.
    fn finish(&mut self, frame: &mut Frame) -> bool {
        frame.time = self.now;
        frame.link = LinkType::Ethernet;
        (frame.port, frame.answer) = (0, false);
        frame.wire_length = frame.data.len() as u32;
        if frame.data.len() > self.mtu + link_header_bytes(&frame.data) {
            core::mem::swap(self.segmenter.frame(), frame);
            let offload = Offload::of_big(self.segmenter.frame(), self.cut_to);
            return offload.is_some_and(|offload| self.segmenter.begin(offload)) && self.segmenter.next(frame);
        }
        if self.fills_checksums {
            fill_in_if_left(frame);
        }
        frame.data.len() >= ETHERNET_HEADER
    }
}

/// The time, since the Unix epoch.
fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_ns(since.as_nanos() as u64)
}

impl Source for XdpSource {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        loop {
            if self.poll(frame)? == Polled::Frame {
                return Ok(true);
            }
            crate::wait(&self.descriptors()).map_err(|error| TrafficError::unreadable(&self.port, error))?;
        }
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        let mut found = self.segmenter.next(frame);
        while !found {
            if !self.take(&mut frame.data) {
                self.presence.check(&self.port)?;
                return Ok(Polled::NotYet);
            }
            found = self.finish(frame);
            self.received.malformed += u64::from(!found);
        }
        self.received.frames += 1;
        Ok(Polled::Frame)
    }

    fn description(&self) -> &str {
        &self.port
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let sockets = self.opened.sockets.iter().take(self.queues.len()).map(|sockets| &sockets.first);
        sockets.inspect(|socket| self.presence.look(socket)).map(AsFd::as_fd).collect()
    }

    fn waiting(&self) -> Option<u64> {
        Some(self.queues.iter().map(|queue| u64::from(queue.arrived.waiting())).sum())
    }

    fn hold(&mut self, frames: u64) {
        let each = frames / self.queues.len().max(1) as u64;
        self.queues.iter_mut().for_each(|queue| queue.hold(each));
    }

    fn received(&mut self) -> Result<Vec<Received>, TrafficError> {
        let mut received = self.received.clone();
        for (queue, sockets) in self.queues.iter().zip(&self.opened.sockets) {
            let counted =
                socket::statistics(&sockets.first).map_err(|error| TrafficError::unreadable(&self.port, error))?;
            // A frame that finds the fill ring empty is one of those dropped.
            received.missed += counted.rx_dropped + counted.rx_ring_full;
            let is_last = |part: &libc::xdp_desc| part.options & libc::XDP_PKT_CONTD == 0;
            received.left += queue.arrived.inside().filter(is_last).count() as u64;
        }
        Ok(vec![received])
    }
}
