//! Capture files: pcap and pcapng, plain or compressed, read and written as streams.

mod format;
mod reader;
mod stream;
mod writer;

pub use format::RECORD_BYTES_MAX;
pub(crate) use format::link_number;
pub use reader::CaptureReader;
pub use writer::CaptureWriter;
