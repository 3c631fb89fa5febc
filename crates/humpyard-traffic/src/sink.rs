//! Destinations of frames.

use humpyard_core::frame::Frame;
use serde::{Deserialize, Serialize};

use crate::capture::CaptureWriter;
use crate::error::TrafficError;
use crate::source::refuse_interface;

/// Takes frames, one after the other.
pub trait Sink {
    /// Writes a copy of a frame.
    ///
    /// # Errors
    /// If the sink cannot hold it.
    fn write(&mut self, frame: &Frame) -> Result<(), TrafficError>;

    /// Like [`Sink::write`], but the sink may keep the frame, and leave another one with any contents in its
    /// place.
    ///
    /// # Errors
    /// Those of [`Sink::write`].
    fn take(&mut self, frame: &mut Frame) -> Result<(), TrafficError> {
        self.write(frame)
    }

    /// Reports that a frame will not be written: it was dropped, or its service has consumed it.
    ///
    /// # Errors
    /// If the report cannot be passed on.
    fn discard(&mut self, _frame: &Frame) -> Result<(), TrafficError> {
        Ok(())
    }

    /// Passes on everything written up to now, if a reader may wait for it: on a pipe.
    ///
    /// # Errors
    /// If it cannot be written.
    fn flush(&mut self) -> Result<(), TrafficError> {
        Ok(())
    }

    /// Sends frames that were held back to form a batch. A driver calls this after each round of work.
    ///
    /// # Errors
    /// If they cannot be sent.
    fn send(&mut self) -> Result<(), TrafficError> {
        Ok(())
    }

    /// Waits for frames being sent, and gives up those that cannot leave. No frame may be written afterwards,
    /// and [`Sink::sent`] no longer changes.
    ///
    /// # Errors
    /// If they cannot be sent.
    fn close(&mut self) -> Result<(), TrafficError> {
        self.flush()
    }

    /// Returns the counts of each interface up to now; empty if the sink is not an interface.
    fn sent(&self) -> Vec<Sent> {
        Vec::new()
    }

    /// Completes the output, and returns the number of packets written. A sink that is dropped instead leaves
    /// no file.
    ///
    /// # Errors
    /// If the rest cannot be written.
    fn finish(self: Box<Self>) -> Result<u64, TrafficError>;
}

/// The counts of frames sent by an interface. A frame that the sink took and has not sent yet is not counted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sent {
    /// Name of the interface, as given to the run.
    pub port: String,
    /// Frames that the system accepted for sending.
    pub frames: u64,
    /// Frames lost because the system had no room.
    pub full: u64,
    /// Frames lost because they were longer than the interface accepts.
    pub too_long: u64,
    /// Frames lost because the interface was down.
    pub down: u64,
    /// Frames refused because services made them: a kernel queue accepts only packets that came
    /// from it.
    #[serde(default)]
    pub made: u64,
    /// Packets of a kernel queue that got the verdict to drop, because the run did not forward
    /// them.
    #[serde(default)]
    pub discarded: u64,
}

impl Sent {
    /// Adds the counts of the same interface at another socket.
    pub fn add(&mut self, other: &Self) {
        let Self { port: _, frames, full, too_long, down, made, discarded } = other;
        self.frames += frames;
        self.full += full;
        self.too_long += too_long;
        self.down += down;
        self.made += made;
        self.discarded += discarded;
    }

    /// Returns the packets lost up to now: the system did not accept them.
    pub const fn lost(&self) -> u64 {
        self.full + self.too_long + self.down
    }
}

/// Counts frames, and keeps nothing.
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
/// If the text names none of these, or the file cannot be created.
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
