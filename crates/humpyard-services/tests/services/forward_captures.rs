//! Tests forwarding on every packet of the available captures.
#![expect(clippy::print_stderr, reason = "what was counted is for a person to read")]

use std::collections::BTreeMap;
use std::path::Path;

use humpyard_core::frame::Frame;
use humpyard_services::link::Network;
use humpyard_services::{DropReason, Generated, Verdict, checksum};

use crate::support::{captures, each_frame, files, service};

/// Counts of frames of captures, by result.
#[derive(Default)]
struct Counts {
    packets: usize,
    forwarded: usize,
    consumed: usize,
    errors: usize,
    dropped: BTreeMap<DropReason, usize>,
}

impl Counts {
    /// Forwards all frames of a file, and checks each forwarded one.
    fn add(&mut self, file: &Path) {
        let mut forward = service("forward");
        let mut generated = Generated::default();
        each_frame(file, |before, context| {
            self.packets += 1;
            let mut frame = before.clone();
            match forward.process(&mut frame, context, &mut generated) {
                Verdict::Forward => {
                    check_forwarded(before, &frame);
                    self.forwarded += 1;
                }
                Verdict::Consume => self.consumed += 1,
                Verdict::Drop(reason) => *self.dropped.entry(reason).or_default() += 1,
            }
            self.errors += generated.len();
            generated.clear();
        });
    }

    /// Checks that no packet is lost, and prints the counts.
    fn close(&self) {
        assert_eq!(self.forwarded + self.consumed + self.dropped.values().sum::<usize>(), self.packets);
        let Self { packets, forwarded, consumed, errors, .. } = self;
        eprintln!("packets {packets}, forwarded {forwarded}, consumed {consumed}, ICMP errors {errors}");
        for (reason, count) in &self.dropped {
            eprintln!("dropped {reason}: {count}");
        }
    }
}

/// Checks that only the time to live and the checksum changed, and that the header checksum is correct.
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
    let Some(directory) = captures("an_industrial_network") else { return };
    let mut counts = Counts::default();
    counts.add(&directory.join("industrial/right.pcap"));
    counts.close();
    assert_eq!(counts.packets, 35_067);
    // Counted independently of this crate, by EtherTypes and destination addresses.
    let dropped = |reason: DropReason| counts.dropped.get(&reason).copied().unwrap_or_default();
    assert_eq!((counts.forwarded, dropped(DropReason::NotIp), dropped(DropReason::LinkGroup)), (21_742, 12_171, 1_154));
}

/// Attacks, fuzzed files and about two hundred protocols, on every link type.
#[test]
fn every_capture() {
    let Some(directory) = captures("every_capture") else { return };
    let mut counts = Counts::default();
    for file in files(&directory, &[]) {
        counts.add(&file);
    }
    counts.close();
    assert!(counts.forwarded > 0);
}
