//! Opens sources by name: captures, generators, and sources made from others.

use core::sync::atomic::AtomicBool;
use std::io;

use humpyard_core::random::Seed;

use crate::background::Background;
use crate::capture::CaptureReader;
use crate::error::TrafficError;
use crate::generate::{self, ComposeOptions};
use crate::source::{Source, refuse_interface};
use crate::steer_record::{RecordSource, is_record};

/// Opens a source: a capture file, `-` for a capture on the standard input, a record of `humpyard steer`
/// (`.jsonl`), or `gen:PROFILE:name=value,...`.
///
/// The seed determines the output of a generator, and the arrival times of a record's packets. A capture does
/// not depend on it.
///
/// # Errors
/// If the text names none of these, or the capture is unusable.
pub fn open(source: &str, seed: Seed) -> Result<Box<dyn Source + Send>, TrafficError> {
    refuse_interface(source)?;
    if source.is_empty() {
        return Err(TrafficError::usage("the source is empty; name a capture file, `-`, or `gen:PROFILE`"));
    }
    if let Some(specification) = source.strip_prefix("gen:") {
        return generate::open(specification, seed, open);
    }
    if source == "-" {
        return Ok(Box::new(Background::new(CaptureReader::new("standard input", io::stdin())?)));
    }
    if is_record(source) {
        return Ok(Box::new(RecordSource::open(source, seed)?));
    }
    let reader = CaptureReader::open(source)?;
    Ok(if reader.is_file() { Box::new(reader) } else { Box::new(Background::new(reader)) })
}

/// Composes traffic: every arrival is the next packet of one of the active flows.
///
/// # Errors
/// If a source or the law cannot be opened, or the payloads contain no IP packet. Damaged payloads are used up
/// to the damage, which is reported at the end.
pub fn compose(options: &ComposeOptions, seed: Seed) -> Result<Box<dyn Source + Send>, TrafficError> {
    Ok(Box::new(generate::composed(options, seed, open)?))
}

/// Scales the traffic of a capture file, or of a generated source, by its number of flows. `stop` ends the
/// first reading of the input.
///
/// # Errors
/// - The factor is not from 0.0001 to 256.
/// - The input cannot be read, or cannot be read twice.
/// - There are too few addresses for the copies; that needs a capture with a large part of the Internet's
///   addresses.
/// - The reading was stopped.
///
/// Damage is returned as an error after all packets before it.
pub fn scale(input: &str, factor: f64, seed: Seed, stop: &AtomicBool) -> Result<Box<dyn Source + Send>, TrafficError> {
    Ok(Box::new(generate::scaled(input, factor, seed, stop, open)?))
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
