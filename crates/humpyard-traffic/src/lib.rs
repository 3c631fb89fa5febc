//! Traffic for humpyard: captures in and out, flows, classification, generators.
//!
//! A [`Source`] returns frames one after the other, from a capture file or a generator. A [`Classifier`] finds
//! the flow, the client and the service of each frame. A [`Sink`] takes frames. All use bounded memory, for
//! traffic of any length.
//!
//! Generating, reading and classifying allocate nothing per packet, except for options of a pcapng packet. A
//! capture's [`Sink`] allocates during a write.
//!
//! ```
//! use humpyard_core::{frame::Frame, random::Seed};
//! use humpyard_traffic::{Classifier, ClassifierConfig, open};
//!
//! let mut source = open("gen:poisson:flows=4,packets=100", Seed(1))?;
//! let mut classifier = Classifier::new(ClassifierConfig::default())?;
//! let mut frame = Frame::default();
//! while source.next(&mut frame)? {
//!     let packet = classifier.classify(&frame)?.packet;
//!     // ... schedule the packet, then give its flow back:
//!     classifier.release(&packet);
//! }
//! assert_eq!(classifier.flows().seen(), 4);
//! # Ok::<(), humpyard_traffic::TrafficError>(())
//! ```
#![forbid(unsafe_code)]

mod background;
pub mod burstiness;
pub mod capture;
pub mod classify;
pub mod cut;
pub mod error;
pub mod first;
pub mod flow;
pub mod generate;
mod hash_fields;
pub mod header;
pub mod info;
mod matching;
pub mod merge;
mod opening;
pub mod pace;
pub mod repeat;
pub mod rule;
pub mod sink;
pub mod source;
pub mod spread;
pub mod steer_record;
pub mod steer_samples;
pub mod table;
pub mod test_captures;
pub mod tunnel;

pub use capture::{CaptureReader, CaptureWriter};
pub use classify::{Classified, Classifier, ClassifierConfig, Digest, Digester, Expired, Granularity, Match};
pub use cut::{Cut, FlowFilter, Part};
pub use error::{ErrorKind, TrafficError};
pub use first::First;
pub use flow::{FlowTable, Lookup};
pub use hash_fields::HashFields;
pub use header::{FlowKey, Headers};
pub use info::{Info, InfoOptions, info, info_with};
pub use merge::{Merge, open_all};
pub use opening::{compose, open, scale};
pub use rule::{Conditions, Outcome, Rule};
pub use sink::{NullSink, Sink, create};
pub use source::{Numbered, NumberedFlows, Polled, Source};
pub use spread::Spread;
pub use table::{Column, PacketTable, TableBatch, TableFlows};
pub use tunnel::Tunnels;
