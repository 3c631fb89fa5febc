//! Reads all real captures, and compares them with their manifest.
#![allow(clippy::print_stderr, reason = "a test that skips must say so")]

use std::fs;
use std::path::Path;

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_traffic::test_captures::{manifest, traces_directory};
use humpyard_traffic::{CaptureReader, Classifier, ClassifierConfig, Granularity, Headers, Source, TrafficError, info};
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

/// Returns the directory of captures. `None`, with a message: there is none.
fn captures(test: &str) -> Option<std::path::PathBuf> {
    let directory = traces_directory();
    if directory.is_none() {
        eprintln!("SKIPPED {test}: there are no real captures; set HUMPYARD_TRACES to their directory");
    }
    directory
}

fn count(path: &Path) -> (u64, Option<TrafficError>) {
    let mut reader = CaptureReader::open(path).unwrap_or_else(|error| panic!("{error}"));
    let mut frame = Frame::default();
    loop {
        match reader.next(&mut frame) {
            Ok(true) => assert!(frame.data.len() as u64 <= u64::from(frame.wire_length)),
            Ok(false) => return (reader.packets(), None),
            Err(error) => return (reader.packets(), Some(error)),
        }
    }
}

#[test]
fn every_capture_has_the_packets_of_its_manifest() {
    let Some(directory) = captures("every_capture_has_the_packets_of_its_manifest") else { return };
    let mut wrong = Vec::new();
    let entries = manifest(&directory);
    assert!(entries.len() > 100, "only {} captures in the manifest", entries.len());
    for entry in &entries {
        let (packets, damage) = count(&directory.join(&entry.file));
        if let Some(damage) = damage {
            eprintln!("{damage}");
            assert!(damage.is_damage(), "{damage}");
            assert_eq!(damage.packets_before(), Some(packets));
            assert!(damage.to_string().contains(&entry.file));
        }
        if packets != entry.packets {
            wrong.push(format!("{}: {packets} packets, and {} in the manifest", entry.file, entry.packets));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the captured bytes of each packet from pcap-parser's own iterator, up to its first error.
fn packets_by_iterator(path: &Path) -> Vec<Vec<u8>> {
    let file = fs::File::open(path).unwrap();
    let mut packets = Vec::new();
    let Ok(mut reader) = create_reader(1 << 20, file) else { return packets };
    loop {
        match reader.next() {
            Ok((length, block)) => {
                match block {
                    PcapBlockOwned::Legacy(packet) => packets.push(packet.data.to_vec()),
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        packets.push(packet.data[..packet.caplen as usize].to_vec());
                    }
                    _ => {}
                }
                reader.consume(length);
            }
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(_) => return packets,
        }
    }
}

#[test]
fn the_iterator_of_pcap_parser_finds_the_same_bytes() {
    let Some(directory) = captures("the_iterator_of_pcap_parser_finds_the_same_bytes") else { return };
    let mut compared = 0;
    for entry in manifest(&directory) {
        let path = directory.join(&entry.file);
        let theirs = packets_by_iterator(&path);
        let mut reader = CaptureReader::open(&path).unwrap();
        let mut frame = Frame::default();
        for (number, theirs) in theirs.iter().enumerate() {
            assert!(reader.next(&mut frame).unwrap(), "{}: they have more packets than {number}", entry.file);
            assert!(frame.data == *theirs, "{}: packet {}", entry.file, number + 1);
            compared += 1;
        }
        if (theirs.len() as u64) < entry.packets {
            eprintln!("{}: its iterator reads {} of {} packets", entry.file, theirs.len(), entry.packets);
        }
    }
    assert!(compared > 300_000, "{compared}");
}

#[test]
fn every_packet_is_classified_the_same_in_both_granularities() {
    let Some(directory) = captures("every_packet_is_classified_the_same_in_both_granularities") else { return };
    let classifier = |granularity| {
        let config = ClassifierConfig { flows: 1_024, granularity, seed: Seed(1), ..ClassifierConfig::default() };
        Classifier::new(config).unwrap()
    };
    let (mut by_flow, mut by_connection) = (classifier(Granularity::Flow), classifier(Granularity::Connection));
    let mut frame = Frame::default();
    for entry in manifest(&directory) {
        let mut reader = CaptureReader::open(directory.join(&entry.file)).unwrap();
        while reader.next(&mut frame).unwrap_or(false) {
            let (a, b) = (by_flow.classify(&frame).unwrap(), by_connection.classify(&frame).unwrap());
            assert_eq!((a.packet.flow, a.packet.key, a.packet.rss), (b.packet.flow, b.packet.key, b.packet.rss));
            let offset = Headers::parse(&frame).transport_offset.unwrap_or(0) as usize;
            assert!(offset <= frame.data.len(), "{}: transport header beyond the end", entry.file);
            by_flow.release(&a.packet);
            by_connection.release(&b.packet);
        }
    }
}

#[test]
fn statistics_agree_with_the_manifest() {
    let Some(directory) = captures("statistics_agree_with_the_manifest") else { return };
    for entry in manifest(&directory).iter().filter(|entry| entry.packets > 5_000) {
        let mut reader = CaptureReader::open(directory.join(&entry.file)).unwrap();
        let info = info(&mut reader, 100_000).unwrap();
        assert_eq!(info.packets, entry.packets);
        assert_eq!(info.ipv4_packets + info.ipv6_packets + info.other_packets, info.packets);
        assert_eq!(info.lengths.histogram.iter().map(|class| class.packets).sum::<u64>(), info.packets);
        assert!(info.flows_exact && info.connections <= info.flows);
    }
}
