//! Measures how many packets per second one core reads and classifies: `cargo bench -p humpyard-traffic --bench
//! reading [-- CAPTURE ... | FLOWS ...]`.
//!
//! Without arguments, it uses generated captures of 64-byte packets in memory, with different numbers of flows.
//! The table knows all flows beforehand, and has room for one in sixteen more. With arguments, it uses these
//! captures, from the page cache. The fastest of several passes counts.
#![allow(clippy::print_stdout, reason = "a measurement is for people to read")]

use core::time::Duration;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Instant;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::random::Seed;
use humpyard_traffic::{
    CaptureReader, Classifier, ClassifierConfig, FlowTable, Granularity, Source, TrafficError, Tunnels, open,
};

const PASSES: usize = 5;
const PACKETS: u64 = 2_000_000;
/// Bytes of every packet.
const LENGTH: usize = 64;

fn main() -> Result<(), TrafficError> {
    // Cargo passes `--bench`.
    let mut named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut table_sizes: Vec<u64> = named.iter().filter_map(|argument| argument.parse().ok()).collect();
    named.retain(|argument| argument.parse::<u64>().is_err());
    if named.is_empty() && table_sizes.is_empty() {
        table_sizes = vec![1_000, 100_000, 10_000_000];
    }
    if !named.is_empty() {
        return named.iter().try_for_each(|path| measure(path, 65_536, &|_| Ok(()), &|| open(path, Seed(1))));
    }
    println!("{} bytes of state for each flow", FlowTable::STATE_BYTES);
    for flows in table_sizes {
        let know_all = |classifier: &mut Classifier| {
            let mut frame = frame(0);
            (0..flows).try_for_each(|flow| {
                address(&mut frame.data, flow);
                let packet = classifier.classify(&frame)?.packet;
                classifier.release(&packet);
                Ok(())
            })
        };
        for ng in [false, true] {
            let capture = capture(flows, ng);
            let name = format!("{flows} flows, {}", if ng { "pcapng" } else { "pcap" });
            measure(&name, flows as usize + flows as usize / 16, &know_all, &|| {
                let input = Cursor::new(Arc::clone(&capture));
                CaptureReader::new("memory", input).map(|reader| Box::new(reader) as Box<dyn Source + Send>)
            })?;
        }
    }
    Ok(())
}

/// Returns a UDP packet over IPv4 of this flow.
fn frame(flow: u64) -> Frame {
    let mut data = vec![0; LENGTH];
    data[12..14].copy_from_slice(&[8, 0]);
    data[14..24].copy_from_slice(&[0x45, 0, 0, (LENGTH - 14) as u8, 0, 0, 0, 0, 64, 17]);
    data[30..34].copy_from_slice(&[198, 19, 0, 1]);
    data[36..40].copy_from_slice(&[0, 53, 0, (LENGTH - 34) as u8]);
    address(&mut data, flow);
    Frame { data, wire_length: LENGTH as u32, link: LinkType::Ethernet, ..Frame::default() }
}

/// Writes the addresses of this flow into a packet.
fn address(data: &mut [u8], flow: u64) {
    data[26..30].copy_from_slice(&((flow >> 8) as u32).to_be_bytes());
    data[34..36].copy_from_slice(&(1024 + (flow & 0xff) as u16).to_be_bytes());
}

/// Returns a capture of packets of random flows, out of this many.
fn capture(flows: u64, ng: bool) -> Arc<[u8]> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut bytes = if ng {
        words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28, 1, 20, 1, 0, 20])
    } else {
        words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, 1])
    };
    let mut random = Seed(1).stream("bench");
    let mut frame = frame(0);
    for n in 0..PACKETS as u32 {
        address(&mut frame.data, random.below(flows));
        let (length, block) = (LENGTH as u32, LENGTH as u32 + 32);
        if ng {
            bytes.extend(words(&[6, block, 0, 0, n, length, length]));
            bytes.extend_from_slice(&frame.data);
            bytes.extend(words(&[block]));
        } else {
            bytes.extend(words(&[0, n, length, length]));
            bytes.extend_from_slice(&frame.data);
        }
    }
    bytes.into()
}

/// This case reads frames in batches, and prefetches their flows.
const AHEAD: &str = "looking ahead";
/// Frames per batch.
const BATCH: usize = 32;

/// The work of a pass besides reading.
const KINDS: [(&str, Option<(Granularity, Tunnels)>); 5] = [
    ("read", None),
    ("by flow", Some((Granularity::Flow, Tunnels::NONE))),
    (AHEAD, Some((Granularity::Flow, Tunnels::NONE))),
    ("by connection", Some((Granularity::Connection, Tunnels::NONE))),
    ("into tunnels", Some((Granularity::Flow, Tunnels { gre: true, vxlan: true, gtp_u: true, ip_in_ip: true }))),
];

fn measure(
    name: &str,
    flows: usize,
    prepare: &dyn Fn(&mut Classifier) -> Result<(), TrafficError>,
    open: &dyn Fn() -> Result<Box<dyn Source + Send>, TrafficError>,
) -> Result<(), TrafficError> {
    let mut rates = Vec::new();
    for (kind, classified) in KINDS {
        let mut classifier = classified.map(|(granularity, tunnels)| {
            let mut classifier =
                Classifier::new(ClassifierConfig { flows, granularity, tunnels, ..ClassifierConfig::default() })?;
            prepare(&mut classifier)?;
            Ok::<_, TrafficError>(classifier)
        });
        let mut classifier = classifier.take().transpose()?;
        let mut fastest = Duration::MAX;
        let mut packets = 0;
        for _ in 0..PASSES {
            let mut source = open()?;
            let start = Instant::now();
            packets = match &mut classifier {
                Some(classifier) if kind == AHEAD => pass_ahead(&mut *source, classifier)?,
                classifier => pass(&mut *source, classifier.as_mut())?,
            };
            fastest = fastest.min(start.elapsed());
        }
        rates.push(format!("{kind} {:.2}", packets as f64 / fastest.as_secs_f64() / 1e6));
    }
    println!("{name}: {} M packets/s", rates.join(", "));
    Ok(())
}

fn pass(source: &mut dyn Source, mut classifier: Option<&mut Classifier>) -> Result<u64, TrafficError> {
    let mut frame = Frame::default();
    let mut packets = 0;
    while source.next(&mut frame)? {
        if let Some(classifier) = &mut classifier {
            while classifier.next_expired(frame.time).is_some() {}
            let packet = classifier.classify(&frame)?.packet;
            classifier.release(&packet);
        }
        packets += 1;
    }
    Ok(packets)
}

fn pass_ahead(source: &mut dyn Source, classifier: &mut Classifier) -> Result<u64, TrafficError> {
    let mut frames = vec![Frame::default(); BATCH];
    let mut packets = 0;
    loop {
        let mut read = 0;
        while read < BATCH && source.next(&mut frames[read])? {
            read += 1;
        }
        classifier.look_ahead(&frames[..read]);
        for frame in &frames[..read] {
            while classifier.next_expired(frame.time).is_some() {}
            let packet = classifier.classify(frame)?.packet;
            classifier.release(&packet);
        }
        packets += read as u64;
        if read < BATCH {
            return Ok(packets);
        }
    }
}
