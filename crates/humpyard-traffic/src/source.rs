//! Sources of frames.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;
use serde::{Deserialize, Serialize};

use crate::error::TrafficError;
use crate::header::Headers;
use crate::tunnel::Tunnels;

/// The result of polling a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Polled {
    /// A frame.
    Frame,
    /// No frame now, perhaps later.
    NotYet,
    /// No more frames.
    End,
}

/// A packet whose flow has a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Numbered {
    /// Capture time.
    pub time: Time,
    /// The number of its flow.
    pub flow: u64,
    /// Length on the wire, in bytes.
    pub length: u32,
}

/// Flows with numbers. A generator knows the flow of a packet before the packet has headers.
pub trait NumberedFlows: Send + Sync {
    /// Returns the headers of the packets of this flow, which all have the same headers; no packet begins or
    /// ends a connection. Different numbers may have the same headers.
    fn headers(&self, flow: u64) -> Headers;
}

/// Returns frames, one after the other.
pub trait Source {
    /// Fills the frame with the next packet, and reuses its buffer. Returns false if there is no more packet.
    ///
    /// # Errors
    /// If the source is damaged behind the packets returned up to now. After an error, the source has ended.
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError>;

    /// Like [`Source::next`], but does not wait for a frame that may take long: on a pipe.
    ///
    /// # Errors
    /// Those of [`Source::next`].
    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        Ok(if self.next(frame)? { Polled::Frame } else { Polled::End })
    }

    /// Like [`Source::poll`], for several frames: fills them in order while there are packets. Returns the
    /// number filled, and the result of the last poll: [`Polled::Frame`] if all were filled.
    fn poll_burst(&mut self, frames: &mut [Frame]) -> (usize, Result<Polled, TrafficError>) {
        for (filled, frame) in frames.iter_mut().enumerate() {
            match self.poll(frame) {
                Ok(Polled::Frame) => {}
                other => return (filled, other),
            }
        }
        (frames.len(), Ok(Polled::Frame))
    }

    /// Like [`Source::next`], for callers that need no bytes. The frame has its time and its length on the
    /// wire, and may have its bytes. `headers` are its headers inside these tunnels.
    ///
    /// # Errors
    /// Those of [`Source::next`].
    fn next_headers(
        &mut self,
        frame: &mut Frame,
        tunnels: Tunnels,
        headers: &mut Headers,
    ) -> Result<bool, TrafficError> {
        let there_is = self.next(frame)?;
        if there_is {
            headers.set_inside(frame, tunnels);
        }
        Ok(there_is)
    }

    /// Returns the flows of this source if it numbers them. Then [`Source::next_numbered`] gives its packets, too.
    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>> {
        None
    }

    /// Adds the next packets of a source with [`Source::numbered_flows`] to `packets`, at most `most`. Returns
    /// false if there is no more packet.
    ///
    /// # Errors
    /// Those of [`Source::next`].
    fn next_numbered(&mut self, packets: &mut Vec<Numbered>, most: usize) -> Result<bool, TrafficError> {
        let _ = (packets, most);
        Ok(false)
    }

    /// Returns a description for messages: a file's name, or a generator's full specification.
    fn description(&self) -> &str;

    /// Returns the part of the source already returned, from 0 to 1. `None`: it is not known.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// Returns the most packets that are still to come. `None`: it is not known.
    fn packets_left(&self) -> Option<u64> {
        None
    }

    /// Returns descriptors that become readable when [`Source::poll`] may have a frame again, for callers that
    /// sleep. Empty if the source never blocks, or has none.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Returns the number of frames that wait in an interface's ring. `None`: the source is not an interface,
    /// or does not know.
    fn waiting(&self) -> Option<u64> {
        None
    }

    /// Limits the waiting frames to about `frames`: an interface drops further ones as early and cheaply as it
    /// can, and counts them as missed. Without this limit, as many frames wait as fit into the ring.
    fn hold(&mut self, frames: u64) {
        let _ = frames;
    }

    /// Gives up frames that were not taken, if another party waits for them. No frame may be read afterwards.
    ///
    /// # Errors
    /// If the system refuses to take them back.
    fn close(&mut self) -> Result<(), TrafficError> {
        Ok(())
    }

    /// Returns the counts of each interface up to now; empty if the source is not an interface.
    ///
    /// # Errors
    /// If the system does not return them.
    fn received(&mut self) -> Result<Vec<Received>, TrafficError> {
        Ok(Vec::new())
    }
}

/// The counts of frames received by an interface.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Received {
    /// Name of the interface, as given to the run.
    pub port: String,
    /// Frames given to the run. If the system merged several frames into one, each of them counts.
    pub frames: u64,
    /// Frames that the system dropped because the ring of the interface was full.
    pub missed: u64,
    /// Frames still in the ring of the interface, which the run had not taken when this was
    /// counted.
    pub left: u64,
    /// Invalid frames: cut short by the system, or impossible to split into packets.
    pub malformed: u64,
    /// Packets that a kernel queue let pass without the run, because it fails open. They count
    /// neither as received nor as dropped.
    #[serde(default)]
    pub passed: u64,
}

impl Received {
    /// Returns the packets that the interface dropped up to now, with the names used in results.
    pub const fn dropped(&self) -> [(&'static str, u64); 3] {
        [("port_missed", self.missed), ("port_malformed", self.malformed), ("port_left", self.left)]
    }

    /// Adds the counts of the same interface at another socket.
    pub fn add(&mut self, other: &Self) {
        let Self { port: _, frames, missed, left, malformed, passed } = other;
        self.frames += frames;
        self.missed += missed;
        self.left += left;
        self.malformed += malformed;
        self.passed += passed;
    }

    /// Returns the packets lost up to now. Those left in the ring do not count: they wait, or the run ended
    /// before they were served.
    pub const fn lost(&self) -> u64 {
        self.missed + self.malformed
    }
}

// A method missing here would silently do nothing.
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

    fn packets_left(&self) -> Option<u64> {
        (**self).packets_left()
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

/// Prefixes of the names of live interfaces, by the way to take frames from them.
pub const INTERFACES: [&str; 4] = ["iface:", "xdp:", "tun:", QUEUE];

/// Prefix of the name of a kernel queue, whose packets leave by verdicts.
pub const QUEUE: &str = "nfqueue:";

/// Returns whether the text names a live interface, instead of a capture or a generator.
pub fn is_interface(text: &str) -> bool {
    INTERFACES.iter().any(|prefix| text.starts_with(prefix))
}

/// Rejects a live interface, where the input must be readable at any time.
pub(crate) fn refuse_interface(text: &str) -> Result<(), TrafficError> {
    if is_interface(text) {
        return Err(TrafficError::usage(format!(
            "`{text}`: only `humpyard run` uses live interfaces; capture to a file and name that"
        )));
    }
    Ok(())
}
