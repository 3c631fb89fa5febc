//! Where frames come from.

use std::io;
use std::os::fd::BorrowedFd;

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use serde::{Deserialize, Serialize};

use crate::background::Background;
use crate::capture::CaptureReader;
use crate::error::TrafficError;
use crate::generate;
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

    /// Packets lost so far. Those left in the ring are not among them: they wait, or the run has ended before they were served.
    pub const fn lost(&self) -> u64 {
        self.missed + self.malformed
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        (**self).next(frame)
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        (**self).poll(frame)
    }

    fn next_headers(
        &mut self,
        frame: &mut Frame,
        tunnels: Tunnels,
        headers: &mut Headers,
    ) -> Result<bool, TrafficError> {
        (**self).next_headers(frame, tunnels, headers)
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

    fn close(&mut self) -> Result<(), TrafficError> {
        (**self).close()
    }

    fn received(&mut self) -> Result<Vec<Received>, TrafficError> {
        (**self).received()
    }
}

/// Opens a source: a capture file, `-` for a capture on the standard input, or `gen:PROFILE:name=value,...`.
///
/// The seed rules what a generator draws; a capture does not depend on it.
///
/// # Errors
/// If the text names none of these, or the capture is unusable.
pub fn open(source: &str, seed: Seed) -> Result<Box<dyn Source + Send>, TrafficError> {
    refuse_interface(source)?;
    if source.is_empty() {
        return Err(TrafficError::usage("the source is empty; name a capture file, `-`, or `gen:PROFILE`"));
    }
    if let Some(specification) = source.strip_prefix("gen:") {
        return generate::open(specification, seed);
    }
    if source == "-" {
        return Ok(Box::new(Background::new(CaptureReader::new("standard input", io::stdin())?)));
    }
    let reader = CaptureReader::open(source)?;
    Ok(if reader.is_file() { Box::new(reader) } else { Box::new(Background::new(reader)) })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn error_of(source: &str) -> TrafficError {
        open(source, Seed(1)).err().expect("this source must be refused")
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        let error = error_of("iface:eth0");
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("only `humpyard run` uses live interfaces"), "{error}");
        let error = error_of("/no/such/file.pcap");
        assert_eq!(error.kind(), ErrorKind::Unusable);
        assert_eq!(error.to_string(), "/no/such/file.pcap: there is no such file");
        let error = error_of(env!("CARGO_MANIFEST_DIR"));
        assert!(error.to_string().contains("directory"), "{error}");
        let error = error_of(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        assert!(error.to_string().contains("no capture"), "{error}");
    }
}
