//! Measures how fast captures are read and classified: `reading_speed [CAPTURE ...]`.
//!
//! Each capture is read several times from the page cache and the fastest pass counts. Without arguments, a capture of a
//! million packets of 64 bytes in a thousand flows is made first, once as pcap and once as pcapng.
#![allow(clippy::print_stdout, reason = "a measurement is for people to read")]

use core::time::Duration;
use std::path::Path;
use std::time::Instant;

use humpyard_core::{frame::Frame, random::Seed};
use humpyard_traffic::{Classifier, ClassifierConfig, Granularity, TrafficError, create, open};

const PASSES: usize = 9;
const GENERATED: &str = "gen:poisson:packets=1M,flows=1000,length=64,version=mixed";

fn main() -> Result<(), TrafficError> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    if !named.is_empty() {
        return named.iter().try_for_each(|path| measure(path));
    }
    let directory = std::env::temp_dir();
    for format in ["pcap", "pcapng"] {
        let path = directory.join(format!("humpyard-reading-speed-{}.{format}", std::process::id()));
        let measured = generate(&path).and_then(|()| measure(&path.to_string_lossy()));
        // Whatever the measurement says, the capture goes.
        let _ = std::fs::remove_file(&path);
        measured?;
    }
    measure(GENERATED)
}

fn generate(path: &Path) -> Result<(), TrafficError> {
    let mut source = open(GENERATED, Seed(1))?;
    let mut sink = create(&path.to_string_lossy())?;
    let mut frame = Frame::default();
    while source.next(&mut frame)? {
        sink.write(&frame)?;
    }
    sink.finish().map(|_| ())
}

fn measure(source: &str) -> Result<(), TrafficError> {
    let mut fastest = [Duration::MAX; 2];
    let mut packets = 0;
    for pass in 0..2 * PASSES {
        let classified = pass % 2 == 1;
        let start = Instant::now();
        packets = if classified { read_and_classify(source)? } else { read(source)? };
        let taken = start.elapsed();
        fastest[pass % 2] = fastest[pass % 2].min(taken);
    }
    let rate = |taken: Duration| packets as f64 / taken.as_secs_f64() / 1e6;
    println!(
        "{source}: {packets} packets, read {:.2} M/s, read and classified {:.2} M/s",
        rate(fastest[0]),
        rate(fastest[1])
    );
    Ok(())
}

fn read(source: &str) -> Result<u64, TrafficError> {
    let mut source = open(source, Seed(1))?;
    let mut frame = Frame::default();
    let mut packets = 0;
    while source.next(&mut frame)? {
        packets += 1;
    }
    Ok(packets)
}

fn read_and_classify(source: &str) -> Result<u64, TrafficError> {
    let mut source = open(source, Seed(1))?;
    let config = ClassifierConfig { granularity: Granularity::Connection, ..ClassifierConfig::default() };
    let mut classifier = Classifier::new(config)?;
    let mut frame = Frame::default();
    let mut packets = 0;
    while source.next(&mut frame)? {
        let packet = classifier.classify(&frame)?.packet;
        classifier.release(&packet);
        packets += 1;
    }
    Ok(packets)
}
