//! Capture files: pcap and pcapng, plain or compressed, read and written as streams. The crate pcap-parser
//! handles both formats.

mod format;
mod input;
mod partial;
mod reader;
mod writer;

pub use format::RECORD_BYTES_MAX;
pub(crate) use format::link_number;
pub use partial::{PartialFile, destination, sync_directory};
pub use reader::CaptureReader;
pub use writer::CaptureWriter;
