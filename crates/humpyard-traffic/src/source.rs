//! Where frames come from.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;
use serde::{Deserialize, Serialize};

use crate::error::TrafficError;
use crate::header::Headers;
use crate::tunnel::Tunnels;

/// What a source has now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Polled {
    /// A frame.
    Frame,
    /// Nothing now; perhaps later.
    NotYet,
    /// Nothing any more.
    End,
}

/// A packet of a flow that has a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Numbered {
    /// When it was captured.
    pub time: Time,
    /// The number of its flow.
    pub flow: u64,
    /// Length on the wire, in bytes.
    pub length: u32,
}

/// Flows that have numbers. A generator knows the flow of a packet before the packet has headers.
pub trait NumberedFlows: Send + Sync {
    /// The headers of the packets of this flow, which are the same for all of them: none begins or ends a connection. Different
    /// numbers may have the same headers.
    fn headers(&self, flow: u64) -> Headers;
}

/// Gives frames, one after the other.
pub trait Source {
    /// Fills the frame with the next packet, reusing its buffer; false when there is none left.
    ///
    /// # Errors
    /// If the source is damaged beyond the packets it gave so far. After an error the source is at its end.
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError>;

    /// As [`Source::next`], without waiting where a frame may be long in coming: on a pipe.
    ///
    /// # Errors
    /// As [`Source::next`].
    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        Ok(if self.next(frame)? { Polled::Frame } else { Polled::End })
    }

    /// As [`Source::poll`], for several frames: fills them from the first on, as long as there are any. Returns how many it
    /// filled, and what it found then: [`Polled::Frame`] if it filled all.
    fn poll_burst(&mut self, frames: &mut [Frame]) -> (usize, Result<Polled, TrafficError>) {
        for (filled, frame) in frames.iter_mut().enumerate() {
            match self.poll(frame) {
                Ok(Polled::Frame) => {}
                other => return (filled, other),
            }
        }
        (frames.len(), Ok(Polled::Frame))
    }

    /// As [`Source::next`], for who needs no bytes: the frame has its time and its length on the wire, and perhaps its bytes;
    /// `headers` is what they say, inside these tunnels.
    ///
    /// # Errors
    /// As [`Source::next`].
    fn next_headers(
        &mut self,
        frame: &mut Frame,
        tunnels: Tunnels,
        headers: &mut Headers,
    ) -> Result<bool, TrafficError> {
        let there_is = self.next(frame)?;
        if there_is {
            *headers = Headers::parse_inside(frame, tunnels);
        }
        Ok(there_is)
    }

    /// Returns the flows of this source if it numbers them. Then [`Source::next_numbered`] gives its packets, too.
    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>> {
        None
    }

    /// Adds the next packets of a source with [`Source::numbered_flows`] to `packets`, at most `most` of them. Returns false when
    /// none is left.
    ///
    /// # Errors
    /// As [`Source::next`].
    fn next_numbered(&mut self, packets: &mut Vec<Numbered>, most: usize) -> Result<bool, TrafficError> {
        let _ = (packets, most);
        Ok(false)
    }

    /// What the source is, for messages: a file's name, or a generator's full specification.
    fn description(&self) -> &str;

    /// How much of the source has been given, from 0 to 1; none where that is not known.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// What becomes readable when [`Source::poll`] may have a frame again, for who sleeps until then. Empty where a source
    /// never keeps its reader waiting, or cannot tell.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Frames that have arrived at an interface and were not taken, in a ring of bounded size. `None` where the source is none, or
    /// cannot tell.
    fn waiting(&self) -> Option<u64> {
        None
    }

    /// Lets about `frames` wait, at most: an interface drops what comes beyond that, as soon and as cheaply as it can. They
    /// count as missed. Without it, as many wait as the ring has room for.
    fn hold(&mut self, frames: u64) {
        let _ = frames;
    }

    /// Gives up what was not taken, where somebody waits for it: nothing is read any more.
    ///
    /// # Errors
    /// If the system does not take it back.
    fn close(&mut self) -> Result<(), TrafficError> {
        Ok(())
    }

    /// What each interface has counted so far; empty where the source is none.
    ///
    /// # Errors
    /// If the system does not tell.
    fn received(&mut self) -> Result<Vec<Received>, TrafficError> {
        Ok(Vec::new())
    }
}

/// What came by an interface.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Received {
    /// The interface, as the run names it.
    pub port: String,
    /// Frames that were given to the run. One that the system had put together from several counts as so many.
    pub frames: u64,
    /// Frames that arrived and found no room in the ring, so that the system dropped them.
    pub missed: u64,
    /// Frames in the ring that nobody had taken when this was counted.
    pub left: u64,
    /// Frames that were no good: cut short by the system, or not to be cut up into packets.
    pub malformed: u64,
    /// Packets that passed without having been looked into, by a queue that fails open: they did not come in, and were not dropped.
    #[serde(default)]
    pub passed: u64,
}

impl Received {
    /// Packets that the interface has dropped so far, by the reason that results give.
    pub const fn dropped(&self) -> [(&'static str, u64); 3] {
        [("port_missed", self.missed), ("port_malformed", self.malformed), ("port_left", self.left)]
    }

    /// Adds what came by the same interface to another socket.
    pub fn add(&mut self, other: &Self) {
        let Self { port: _, frames, missed, left, malformed, passed } = other;
        self.frames += frames;
        self.missed += missed;
        self.left += left;
        self.malformed += malformed;
        self.passed += passed;
    }

    /// Packets lost so far. Those left in the ring are not among them: they wait, or the run has ended before they were served.
    pub const fn lost(&self) -> u64 {
        self.missed + self.malformed
    }
}

// A method that is not passed on would do nothing, unseen.
#[deny(clippy::missing_trait_methods)]
impl<S: Source + ?Sized> Source for Box<S> {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        (**self).next(frame)
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        (**self).poll(frame)
    }

    fn poll_burst(&mut self, frames: &mut [Frame]) -> (usize, Result<Polled, TrafficError>) {
        (**self).poll_burst(frames)
    }

    fn next_headers(
        &mut self,
        frame: &mut Frame,
        tunnels: Tunnels,
        headers: &mut Headers,
    ) -> Result<bool, TrafficError> {
        (**self).next_headers(frame, tunnels, headers)
    }

    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>> {
        (**self).numbered_flows()
    }

    fn next_numbered(&mut self, packets: &mut Vec<Numbered>, most: usize) -> Result<bool, TrafficError> {
        (**self).next_numbered(packets, most)
    }

    fn description(&self) -> &str {
        (**self).description()
    }

    fn progress(&self) -> Option<f64> {
        (**self).progress()
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        (**self).descriptors()
    }

    fn waiting(&self) -> Option<u64> {
        (**self).waiting()
    }

    fn hold(&mut self, frames: u64) {
        (**self).hold(frames);
    }

    fn close(&mut self) -> Result<(), TrafficError> {
        (**self).close()
    }

    fn received(&mut self) -> Result<Vec<Received>, TrafficError> {
        (**self).received()
    }
}

/// What the names of live interfaces begin with, by the way frames are taken from them.
pub const INTERFACES: [&str; 4] = ["iface:", "xdp:", "tun:", QUEUE];

/// What the name of a queue of the kernel begins with, whose packets leave by the verdicts on them.
pub const QUEUE: &str = "nfqueue:";

/// Whether this names a live interface rather than a capture or a generator.
pub fn is_interface(text: &str) -> bool {
    INTERFACES.iter().any(|prefix| text.starts_with(prefix))
}

/// Refuses a live interface where there is to be something that can be read at any time.
pub(crate) fn refuse_interface(text: &str) -> Result<(), TrafficError> {
    if is_interface(text) {
        return Err(TrafficError::usage(format!(
            "`{text}`: only `humpyard run` uses live interfaces; capture to a file and name that"
        )));
    }
    Ok(())
}
