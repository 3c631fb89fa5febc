//! Truncated and bit-flipped captures: no panic, all valid packets first, and the place of the damage.
#![allow(clippy::print_stderr, reason = "a test that skips must say so")]

use std::io::Cursor;

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_traffic::test_captures::traces_directory;
use humpyard_traffic::{CaptureReader, Classifier, ClassifierConfig, ErrorKind, Source, TrafficError, create, open};

const SEED: Seed = Seed(20_240_607);

/// Returns captures to damage: generated ones of every format and compression, and a few real ones.
fn captures() -> Vec<(String, Vec<u8>)> {
    let directory = tempfile::tempdir().unwrap();
    let mut captures = Vec::new();
    for extension in ["pcap", "pcapng", "pcap.gz", "pcap.zst", "pcapng.gz", "pcapng.zst"] {
        let path = directory.path().join(format!("generated.{extension}"));
        let mut source = open("gen:messages:packets=60", SEED).unwrap();
        let mut sink = create(path.to_str().unwrap()).unwrap();
        let mut frame = Frame::default();
        while source.next(&mut frame).unwrap() {
            sink.write(&frame).unwrap();
        }
        sink.finish().unwrap();
        captures.push((format!("generated.{extension}"), std::fs::read(path).unwrap()));
    }
    match traces_directory() {
        None => eprintln!("SKIPPED real captures: there are none; set HUMPYARD_TRACES to their directory"),
        Some(traces) => {
            for file in ["protocols/sctp.cap", "devices/Aria-Setup-A-1-STA.pcap"] {
                captures.push((file.into(), std::fs::read(traces.join(file)).unwrap()));
            }
        }
    }
    captures
}

/// Returns a classifier for all reads: creating its hash tables takes longer than a read.
fn classifier() -> Classifier {
    Classifier::new(ClassifierConfig { flows: 64, ..ClassifierConfig::default() }).expect("a valid limit")
}

/// Reads and classifies a whole capture.
fn read(classifier: &mut Classifier, name: &str, bytes: Vec<u8>) -> Result<Vec<Frame>, (Vec<Frame>, TrafficError)> {
    let mut reader = CaptureReader::new(name, Cursor::new(bytes)).map_err(|error| (Vec::new(), error))?;
    let mut frames = Vec::new();
    let mut frame = Frame::default();
    loop {
        match reader.next(&mut frame) {
            Ok(false) => return Ok(frames),
            Err(error) => return Err((frames, error)),
            Ok(true) => {
                let packet = classifier.classify(&frame).expect("room for flows").packet;
                classifier.release(&packet);
                frames.push(frame.clone());
            }
        }
    }
}

fn assert_told(name: &str, length: usize, found: &[Frame], error: &TrafficError) {
    let text = error.to_string();
    assert!(text.contains(name), "{text}");
    match error.kind() {
        ErrorKind::Unusable => assert!(found.is_empty()),
        ErrorKind::Damaged => {
            assert_eq!(error.packets_before(), Some(found.len() as u64), "{text}");
            assert!(text.contains(&format!("byte {}", error.offset().unwrap())), "{text}");
            let compressed = name.ends_with("gz") || name.ends_with("zst");
            assert!(compressed || error.offset().unwrap() <= length as u64, "{text}");
        }
        other => panic!("{other:?}: {text}"),
    }
}

#[test]
fn a_capture_cut_at_any_byte_gives_its_whole_packets() {
    let mut classifier = classifier();
    for (name, bytes) in captures() {
        let whole = read(&mut classifier, &name, bytes.clone()).unwrap();
        // Every byte of the headers and the first packet, then samples at a stride that covers all alignments.
        let start = 300.min(bytes.len());
        for length in (0..start).chain((start..bytes.len()).step_by((bytes.len() / 2_000) | 1)) {
            match read(&mut classifier, &name, bytes[..length].to_vec()) {
                // Cut between two records.
                Ok(found) => assert!(whole.starts_with(&found), "{name} {length}"),
                Err((found, error)) => {
                    assert!(whole.starts_with(&found), "{name} {length}");
                    assert_told(&name, length, &found, &error);
                }
            }
        }
    }
}

#[test]
fn flipped_bytes_never_panic_and_are_told_where_they_break() {
    let mut classifier = classifier();
    for (name, bytes) in captures() {
        let mut random = SEED.stream(&name);
        for _ in 0..2_000 {
            let mut bytes = bytes.clone();
            for _ in 0..=random.below(4) {
                // Prefers the start, which has the most structure.
                let range = if random.below(2) == 0 { 200.min(bytes.len()) } else { bytes.len() };
                bytes[random.below(range as u64) as usize] ^= 1 << random.below(8);
            }
            let length = bytes.len();
            if let Err((found, error)) = read(&mut classifier, &name, bytes) {
                assert_told(&name, length, &found, &error);
            }
        }
    }
}
