//! Forwarding of real traffic: every packet of the captures at hand.
#![expect(clippy::print_stderr, reason = "what was counted, and why a test was skipped, are for a person to read")]

use std::path::PathBuf;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::unit::Time;
use humpyard_services::link::Network;
use humpyard_services::{DropReason, Generated, Verdict, checksum, prepare};

/// The directory of captures, or none (and a word about it) where there is none. In CI there must be one.
fn captures() -> Option<PathBuf> {
    let directory = std::env::var_os("HUMPYARD_TRACES")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"), PathBuf::from);
    if directory.is_dir() {
        return Some(directory);
    }
    let message = format!("no captures in {}; set HUMPYARD_TRACES to the directory of captures", directory.display());
    assert!(std::env::var_os("CI").is_none(), "{message}");
    eprintln!("SKIPPED: {message}");
    None
}

/// The frames of a classic capture file, little endian, in microseconds; or none if it is of another kind.
fn frames(file: &[u8]) -> Option<impl Iterator<Item = Frame>> {
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    if file.len() < 24 || number(file) != 0xa1b2_c3d4 {
        return None;
    }
    let link = match number(&file[20..]) {
        0 => LinkType::Loopback,
        1 => LinkType::Ethernet,
        12 | 14 | 101 | 228 | 229 => LinkType::RawIp,
        113 => LinkType::LinuxCooked,
        276 => LinkType::LinuxCooked2,
        other => LinkType::Other(other as u16),
    };
    let mut rest = &file[24..];
    Some(core::iter::from_fn(move || {
        let (record, after) = rest.split_at_checked(16)?;
        let (data, after) = after.split_at_checked(number(&record[8..]) as usize)?;
        rest = after;
        let time_us = u64::from(number(record)) * 1_000_000 + u64::from(number(&record[4..]));
        let time = Time::from_ns(time_us * 1000);
        Some(Frame { time, wire_length: number(&record[12..]), link, data: data.to_vec() })
    }))
}

/// What became of the frames of captures.
#[derive(Default)]
struct Counts {
    packets: usize,
    forwarded: usize,
    consumed: usize,
    errors: usize,
    dropped: [usize; DropReason::COUNT],
}

impl Counts {
    /// Forwards all frames, and checks each that went out.
    fn add(&mut self, frames: impl Iterator<Item = Frame>) {
        let mut forward = prepare(&"forward".parse().unwrap()).unwrap().make();
        let mut generated = Generated::default();
        for mut frame in frames {
            self.packets += 1;
            let before = frame.clone();
            match forward.process(&mut frame, &mut generated) {
                Verdict::Forward => {
                    check_forwarded(&before, &frame);
                    self.forwarded += 1;
                }
                Verdict::Consume => self.consumed += 1,
                Verdict::Drop(reason) => self.dropped[reason.index()] += 1,
            }
            self.errors += generated.len();
            generated.clear();
        }
    }

    /// Checks that no packet is lost, and says what was counted.
    fn close(&self) {
        assert_eq!(self.forwarded + self.consumed + self.dropped.iter().sum::<usize>(), self.packets);
        let Self { packets, forwarded, consumed, errors, .. } = self;
        eprintln!("packets {packets}, forwarded {forwarded}, consumed {consumed}, ICMP errors {errors}");
        for reason in DropReason::ALL.iter().filter(|reason| self.dropped[reason.index()] > 0) {
            eprintln!("dropped {reason}: {}", self.dropped[reason.index()]);
        }
    }
}

/// Only the time to live and the checksum have changed, and the checksum of the header is right.
fn check_forwarded(before: &Frame, after: &Frame) {
    let mut expected = before.clone();
    let at = Network::find(before).unwrap().offset;
    let packet = &after.data[at..];
    if packet[0] >> 4 == 4 {
        assert!(checksum::is_valid(&packet[..usize::from(packet[0] & 15) * 4]));
        expected.data[at + 8] -= 1;
        expected.data[at + 10..at + 12].copy_from_slice(&packet[10..12]);
    } else {
        expected.data[at + 7] -= 1;
    }
    assert_eq!(after, &expected);
}

#[test]
fn an_industrial_network() {
    let Some(directory) = captures() else { return };
    let file = std::fs::read(directory.join("industrial/right.pcap")).unwrap();
    let mut counts = Counts::default();
    counts.add(frames(&file).unwrap());
    counts.close();
    assert_eq!(counts.packets, 35_067);
    // Known from counting EtherTypes and destination addresses apart from this crate.
    let dropped = |reason: DropReason| counts.dropped[reason.index()];
    assert_eq!((counts.forwarded, dropped(DropReason::NotIp), dropped(DropReason::LinkGroup)), (21_742, 12_171, 1_154));
}

/// Attacks, fuzzed files and some two hundred protocols, on every link type.
#[test]
fn every_capture() {
    let Some(directory) = captures() else { return };
    let mut counts = Counts::default();
    let folders = std::fs::read_dir(directory).unwrap().map(|folder| folder.unwrap().path());
    for folder in folders.filter(|path| path.is_dir()) {
        for file in std::fs::read_dir(folder).unwrap() {
            if let Some(frames) = frames(&std::fs::read(file.unwrap().path()).unwrap()) {
                counts.add(frames);
            }
        }
    }
    counts.close();
    assert!(counts.forwarded > 0);
}
