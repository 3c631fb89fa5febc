//! Where frames go.

use humpyard_core::frame::Frame;
use serde::{Deserialize, Serialize};

use crate::capture::CaptureWriter;
use crate::error::TrafficError;
use crate::source::refuse_interface;

/// Takes frames, one after the other.
pub trait Sink {
    /// Takes a frame; it is copied, not kept.
    ///
    /// # Errors
    /// If the sink cannot hold it.
    fn write(&mut self, frame: &Frame) -> Result<(), TrafficError>;

    /// As [`Sink::write`], for who has no use for the frame any more: it may be kept, and another, with anything in it, left in its
    /// place.
    ///
    /// # Errors
    /// As [`Sink::write`].
    fn take(&mut self, frame: &mut Frame) -> Result<(), TrafficError> {
        self.write(frame)
    }

    /// Hears that a frame will not be written: it was dropped, or its service has consumed it.
    ///
    /// # Errors
    /// If that cannot be passed on to whoever waits for it.
    fn discard(&mut self, _frame: &Frame) -> Result<(), TrafficError> {
        Ok(())
    }

    /// Passes on what was written so far, where somebody may wait for it: on a pipe.
    ///
    /// # Errors
    /// If it cannot be written.
    fn flush(&mut self) -> Result<(), TrafficError> {
        Ok(())
    }

    /// Sends what was held back to go together with more: a driver says so whenever it has done a round of work.
    ///
    /// # Errors
    /// If it cannot be sent.
    fn send(&mut self) -> Result<(), TrafficError> {
        Ok(())
    }

    /// Waits for what is on its way out, and gives up what cannot leave: nothing is written any more, and from then on
    /// [`Sink::sent`] stays as it is.
    ///
    /// # Errors
    /// If it cannot be sent.
    fn close(&mut self) -> Result<(), TrafficError> {
        self.flush()
    }

    /// What went out by each interface so far; empty where the sink is none.
    fn sent(&self) -> Vec<Sent> {
        Vec::new()
    }

    /// Completes what was written and answers how many packets it is. A sink that is dropped instead leaves no file.
    ///
    /// # Errors
    /// If the rest cannot be written.
    fn finish(self: Box<Self>) -> Result<u64, TrafficError>;
}

/// What went out by an interface, and what did not. A frame that a sink took and has not yet sent is in neither.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sent {
    /// The interface, as the run names it.
    pub port: String,
    /// Frames that the system took.
    pub frames: u64,
    /// Frames that it had no room for.
    pub full: u64,
    /// Frames longer than the interface passes on.
    pub too_long: u64,
    /// Frames that found the interface down.
    pub down: u64,
    /// Frames that services made, where nothing goes out but what came in: by the verdicts of a queue.
    #[serde(default)]
    pub made: u64,
    /// Packets whose verdict was to drop them, because the run did not forward them; of a queue.
    #[serde(default)]
    pub discarded: u64,
}

impl Sent {
    /// Adds what went out by the same interface by another socket.
    pub fn add(&mut self, other: &Self) {
        let Self { port: _, frames, full, too_long, down, made, discarded } = other;
        self.frames += frames;
        self.full += full;
        self.too_long += too_long;
        self.down += down;
        self.made += made;
        self.discarded += discarded;
    }

    /// Packets lost so far: the system did not take them.
    pub const fn lost(&self) -> u64 {
        self.full + self.too_long + self.down
    }
}

/// Takes frames, counts them, and keeps nothing.
#[derive(Clone, Debug, Default)]
pub struct NullSink {
    packets: u64,
}

impl Sink for NullSink {
    #[inline]
    fn write(&mut self, _frame: &Frame) -> Result<(), TrafficError> {
        self.packets += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64, TrafficError> {
        Ok(self.packets)
    }
}

/// Opens a destination: a capture file by its extension, `-` for a pcap on the standard output, or `null:`.
///
/// # Errors
/// If the text names none of these, or the file cannot be made.
pub fn create(destination: &str) -> Result<Box<dyn Sink + Send>, TrafficError> {
    if destination == "null:" {
        return Ok(Box::new(NullSink::default()));
    }
    refuse_interface(destination)?;
    if destination.is_empty() {
        return Err(TrafficError::usage("the destination is empty; name a capture file, `-`, or `null:`"));
    }
    Ok(Box::new(CaptureWriter::create(destination)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_sink_counts() {
        let mut sink = create("null:").unwrap();
        sink.write(&Frame::default()).unwrap();
        assert_eq!(sink.finish().unwrap(), 1);
    }

    #[test]
    fn interfaces_and_strange_extensions_are_refused_clearly() {
        let error = create("xdp:eth0").err().unwrap().to_string();
        assert!(error.contains("only `humpyard run` uses live interfaces"), "{error}");
        let error = create("out.txt").err().unwrap().to_string();
        assert!(error.contains("use .pcap or .pcapng"), "{error}");
    }
}
