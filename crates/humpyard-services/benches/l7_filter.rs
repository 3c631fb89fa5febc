//! Compares the throughput of `l7-filter` with that of bare Vectorscan on the same bytes, in streams, in
//! alternating rounds.
//!
//! The bytes are those that the service inspects. Generated traffic has connections of eight packets that match
//! nothing. Of captures of protocols, if there are any, it inspects the packets before each verdict.
//!
//! - Bare Vectorscan gets payloads extracted beforehand, and the same patterns. TCP goes into streams opened
//!   beforehand, which are reset for each connection; datagrams go into blocks.
//! - The service gets frames. It finds payloads and connections, orders the streams, and decides.
//!
//! `cargo bench --package humpyard-services --features vectorscan --bench l7_filter`
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use etherparse::{NetHeaders, PacketBuilder, PacketHeaders, PayloadSlice, TransportHeader};
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::hash::mix;
use humpyard_core::random::Seed;
use humpyard_services::l7_filter::signatures;
use humpyard_services::{Context, Factory, Generated, Service, prepare};
use humpyard_traffic::test_captures::{manifest, traces_directory};
use humpyard_traffic::{CaptureReader, Classifier, ClassifierConfig, Source};
use humpyard_vectorscan::{Database, Mode, Scratch, Stream};

const ROUNDS: usize = 31;

/// A packet, and its payload for bare Vectorscan.
struct Packet {
    frame: Frame,
    context: Context,
    payload: Vec<u8>,
    /// The stream of its side of its connection, and whether it begins that stream. `None`: a datagram.
    stream: Option<(usize, bool)>,
}

/// The inspected packets, and the number of their streams.
#[derive(Default)]
struct Load {
    packets: Vec<Packet>,
    streams: HashMap<(u64, bool), usize>,
}

impl Load {
    /// Adds an inspected packet, if it has a payload.
    fn add(&mut self, frame: &Frame, context: Context) {
        let Ok(headers) = PacketHeaders::from_ethernet_slice(&frame.data) else { return };
        let (Some(transport), Some(net)) = (headers.transport, headers.net) else { return };
        let source = match net {
            NetHeaders::Ipv4(header, _) => header.source.to_vec(),
            NetHeaders::Ipv6(header, _) => header.source.to_vec(),
            NetHeaders::Arp(_) => return,
        };
        let (payload, stream) = match (transport, headers.payload) {
            (TransportHeader::Tcp(tcp), PayloadSlice::Tcp(payload)) => {
                let side = (&source[..], tcp.source_port) > (&[127; 4], 0);
                let next = self.streams.len();
                let stream = *self.streams.entry((context.connection, side)).or_insert(next);
                (payload.to_vec(), Some((stream, stream == next)))
            }
            (TransportHeader::Udp(_), PayloadSlice::Udp(payload)) => (payload.to_vec(), None),
            _ => return,
        };
        let context = Context { sequence: self.packets.len() as u64, ..context };
        self.packets.push(Packet { frame: frame.clone(), context, payload, stream });
    }

    fn bytes(&self) -> usize {
        self.packets.iter().map(|packet| packet.payload.len()).sum()
    }
}

/// Generates connections of eight packets of this many bytes, interleaved; half are text and half are noise.
fn made(bytes: usize) -> Load {
    let mut random = Seed(1).stream("payloads");
    let mut load = Load::default();
    for packet in 0..8_u32 {
        for connection in 0..256_u16 {
            let text = b"what nobody has a signature of, said again and again; ";
            let payload: Vec<u8> = match connection % 2 {
                0 => text.iter().copied().cycle().take(bytes).collect(),
                _ => (0..bytes).map(|at| if at == 0 { 0xee } else { random.below(256) as u8 }).collect(),
            };
            let builder = PacketBuilder::ethernet2([2; 6], [2; 6]).ipv4([198, 51, 100, 1], [203, 0, 113, 1], 64);
            let mut data = Vec::new();
            let builder = builder.tcp(20_000 + connection, 40_000, 1 + packet * bytes as u32, 1000);
            builder.write(&mut data, &payload).expect("a vector takes everything");
            let frame = Frame { wire_length: data.len() as u32, link: LinkType::Ethernet, data, ..Frame::default() };
            load.add(&frame, Context { connection: mix(u64::from(connection)), ..Context::default() });
        }
    }
    load
}

/// Reads the packets that the service inspects from the captures of protocols. `None`: there are no captures.
fn captured() -> Option<Load> {
    let directory = traces_directory()?;
    let mut load = Load::default();
    for (number, entry) in manifest(&directory).into_iter().enumerate() {
        if !entry.file.starts_with("protocols/") {
            continue;
        }
        let Ok(mut reader) = CaptureReader::open(directory.join(entry.file)) else { continue };
        let mut service = factory("regex").make();
        let mut classifier =
            Classifier::new(ClassifierConfig { seed: Seed(number as u64), ..ClassifierConfig::default() }).ok()?;
        let (mut frame, mut generated) = (Frame::default(), Generated::default());
        let mut examined = 0;
        while let Ok(true) = reader.next(&mut frame) {
            let packet = classifier.classify(&frame).ok()?.packet;
            classifier.release(&packet);
            let context = Context { connection: packet.key, ..Context::default() };
            service.process(&mut frame, &context, &mut generated);
            let counters = service.counters();
            let now =
                counters.iter().find(|counter| counter.name == "examined_packets").map_or(0, |counter| counter.count);
            if now > examined && frame.link == LinkType::Ethernet {
                load.add(&frame, context);
            }
            examined = now;
        }
    }
    Some(load)
}

fn factory(engine: &str) -> Factory {
    prepare(&format!("l7-filter:engine={engine}").parse().expect("a specification")).expect("a service")
}

/// Bare Vectorscan, with its databases, streams and scratch space.
struct Bare {
    block: Database,
    streams: Vec<Stream>,
    scratch: Scratch,
}

impl Bare {
    fn new(streams: usize) -> Self {
        let patterns = |transport: &str| -> Vec<String> {
            let own = signatures().filter(|signature| signature.transport == transport);
            own.map(|signature| format!("^(?:{})", signature.pattern)).collect()
        };
        let compile = |transport: &str, mode| {
            let patterns = patterns(transport);
            Database::new(&patterns.iter().map(String::as_str).collect::<Vec<_>>(), mode).expect("the table's patterns")
        };
        let stream = Arc::new(compile("tcp", Mode::Stream));
        let block = compile("udp", Mode::Block);
        let scratch = Scratch::new([&*stream, &block]).expect("memory");
        println!("a stream of Vectorscan takes {} bytes", stream.stream_bytes().expect("it is for streams"));
        Self { block, streams: (0..streams).map(|_| Stream::new(&stream).expect("memory")).collect(), scratch }
    }

    /// Returns the time to scan everything, in ns.
    fn time(&mut self, load: &Load) -> f64 {
        let mut matches = 0_u64;
        let started = Instant::now();
        for Packet { payload, stream, .. } in &load.packets {
            match *stream {
                Some((stream, begins)) => {
                    let stream = &mut self.streams[stream];
                    if begins {
                        stream.reset().expect("an open stream");
                    }
                    stream.scan(payload, &mut self.scratch, |_| matches += 1).expect("its own scratch space");
                }
                None => self.block.scan(payload, &mut self.scratch, |_| matches += 1).expect("its own scratch space"),
            }
        }
        black_box(matches);
        started.elapsed().as_nanos() as f64
    }
}

/// Returns the time that the service needs for everything, in ns. Each call needs a new instance, which knows
/// no connection.
fn time(service: &mut dyn Service, load: &mut Load) -> f64 {
    let mut generated = Generated::default();
    let started = Instant::now();
    for Packet { frame, context, .. } in &mut load.packets {
        black_box(service.process(frame, context, &mut generated));
    }
    started.elapsed().as_nanos() as f64
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn compare(name: &str, mut load: Load) {
    let mut bare = Bare::new(load.streams.len());
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        times[0].push(bare.time(&load));
        for (engine, times) in ["regex", "vectorscan"].into_iter().zip(&mut times[1..]) {
            // The instance allocates and touches its memory before the timing starts.
            let mut service = factory(engine).make();
            times.push(time(&mut *service, &mut load));
        }
    }
    let (bytes, packets) = (load.bytes() as f64, load.packets.len() as f64);
    let medians = times.map(|mut times| median(&mut times));
    println!("{name}: {packets} packets, {:.0} bytes each", bytes / packets);
    for (what, time) in ["bare Vectorscan", "l7-filter, regex", "l7-filter, vectorscan"].into_iter().zip(medians) {
        println!(
            "  {what:22} {:6.0} ns a packet, {:7.0} MB/s, {:.2} of the bare one's throughput",
            time / packets,
            bytes * 1000.0 / time,
            medians[0] / time
        );
    }
}

fn main() {
    for bytes in [64, 512, 1400] {
        compare(&format!("made, {bytes} bytes"), made(bytes));
    }
    match captured() {
        Some(load) => compare("captures of protocols", load),
        None => println!("captures of protocols: there are none; set HUMPYARD_TRACES to their directory"),
    }
}
