//! Time of one packet in each service, for frames of 64, 576 and 1,500 bytes.
//!
//! Each size uses 4,096 packets with different payloads, in turn: with few packets, the branch predictor would
//! learn a compressor's input. Half of the payloads are text made of random words; the others are noise.
//!
//! The figures include copying the frame into a buffer, about 10 to 40 ns (`copy`). After the last size of a
//! service comes the least-squares line through the three sizes: a fixed time per packet, and a time per byte.
#![expect(clippy::print_stdout, reason = "the straight lines are what it is for")]

use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::hash::mix;
use humpyard_core::id::FlowId;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_services::{Context, Generated, Service, checksum, prepare};

const SIZES: [usize; 3] = [64, 576, 1500];
const PACKETS: usize = 4096;
/// Number of flows among the packets.
const FLOWS: usize = 64;

const WORDS: [&str; 16] = [
    "packet ",
    "flow ",
    "core ",
    "queue=",
    "the ",
    "HTTP/1.1\r\n",
    "Host: ",
    "GET /",
    "0.25, ",
    "of ",
    "yard ",
    "200 OK\r\n",
    "Content-Length: ",
    "and ",
    "train\n",
    "4711 ",
];

/// Each service, and the service that prepares its packets: its inverse. Empty: none.
const SERVICES: [(&str, &str); 17] = [
    ("forward", ""),
    ("encrypt:spi=256", ""),
    ("decrypt", "encrypt:spi=256"),
    ("encrypt:spi=256,cipher=cast-128", ""),
    ("decrypt:cipher=cast-128", "encrypt:spi=256,cipher=cast-128"),
    ("compress:codec=lz4", ""),
    ("compress:codec=deflate", ""),
    ("decompress", "compress:codec=lz4"),
    ("decompress", "compress:codec=deflate"),
    ("fec:code=8/7", ""),
    ("fec-decode", "fec:code=8/7"),
    ("fec:code=8+2", ""),
    ("dpi:packets=255", ""),
    ("l7-filter:packets=255", ""),
    ("firewall:rules=deny+tcp+dport=22;deny+udp+dport=53;deny+from=192.0.2.0/24;allow+udp+to=203.0.113.0/24", ""),
    ("portscan", ""),
    ("synflood", ""),
];

/// `nat64` for packets to a host with a fixed IPv4 address, and for the translated packets, to the IPv4 host
/// behind another prefix.
fn nat64() -> [(String, String); 2] {
    let hosts: Vec<String> = (0..FLOWS).map(|flow| format!("203.0.113.{flow}=2001:db9::203.0.113.{flow}")).collect();
    let to_v6 = format!("nat64:prefix=2001:db8:64::/96,map={}", hosts.join(";"));
    [(to_v6.clone(), String::new()), ("nat64:prefix=2001:db9::/96".to_owned(), to_v6)]
}

/// Returns frames of this size with different payloads, after the service `before` has processed them.
fn frames(size: usize, before: &str) -> Vec<Frame> {
    let mut random = Seed(1).stream("payloads");
    let mut before = (!before.is_empty()).then(|| service(before));
    let frame = |number: usize| {
        let mut data = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
        let flow = (number % FLOWS) as u8;
        data.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 51, 100, flow, 203, 0, 113, flow]);
        data.extend([0x80, flow, 0x20, flow, 0, 0, 0, 0]);
        while data.len() < size {
            if number.is_multiple_of(2) {
                data.extend_from_slice(WORDS[random.below(16) as usize].as_bytes());
            } else {
                data.extend(random.bits().to_be_bytes());
            }
        }
        data.truncate(size);
        data[16..18].copy_from_slice(&(size as u16 - 14).to_be_bytes());
        data[38..40].copy_from_slice(&(size as u16 - 34).to_be_bytes());
        let sum = checksum::checksum(&data[14..34]);
        data[24..26].copy_from_slice(&sum.to_be_bytes());
        let mut pseudo = data[26..34].to_vec();
        pseudo.extend([0, 17, data[38], data[39]]);
        pseudo.extend_from_slice(&data[34..]);
        data[40..42].copy_from_slice(&checksum::checksum(&pseudo).to_be_bytes());
        let mut frame = Frame { wire_length: size as u32, link: LinkType::Ethernet, data, ..Frame::default() };
        if let Some(before) = &mut before {
            before.process(&mut frame, &context(number, false), &mut Generated::default());
        }
        frame
    };
    (0..PACKETS).map(frame).collect()
}

/// Returns the context of a packet: of one of the flows, or, with `anew`, of a connection of its own.
fn context(number: usize, anew: bool) -> Context {
    let flow = number % FLOWS;
    let connection = if anew { number } else { flow } as u64;
    Context { now: Time::ZERO, connection: mix(connection), flow: FlowId(flow as u32), ..Context::default() }
}

fn service(spec: &str) -> Box<dyn Service> {
    prepare(&spec.parse().expect("a specification")).expect("a service").make()
}

/// Times a service, or no service, on packets.
struct Bench {
    service: Option<Box<dyn Service>>,
    /// Whether each packet has its own connection, so that the service inspects it.
    anew: bool,
    frames: Vec<Frame>,
    buffer: Frame,
    generated: Generated,
    next: usize,
}

impl Bench {
    fn new(spec: &str, frames: Vec<Frame>) -> Self {
        let service = (!spec.is_empty()).then(|| service(spec));
        let anew = spec.starts_with("dpi") || spec.starts_with("l7-filter");
        Self { service, anew, frames, buffer: Frame::with_capacity(4096), generated: Generated::default(), next: 0 }
    }

    fn step(&mut self) -> usize {
        let frame = &self.frames[self.next % PACKETS];
        self.buffer.wire_length = frame.wire_length;
        self.buffer.link = frame.link;
        self.buffer.data.clone_from(&frame.data);
        if let Some(service) = &mut self.service {
            service.process(&mut self.buffer, &context(self.next, self.anew), &mut self.generated);
            self.generated.clear();
        }
        self.next += 1;
        self.buffer.data.len()
    }

    /// Returns the least time per packet among several rounds over all packets, in ns.
    fn ns(&mut self) -> f64 {
        let round = |bench: &mut Self| {
            let started = Instant::now();
            for _ in 0..PACKETS {
                std::hint::black_box(bench.step());
            }
            started.elapsed().as_nanos() as f64 / PACKETS as f64
        };
        (0..7).map(|_| round(self)).fold(f64::INFINITY, f64::min)
    }
}

/// Returns the least-squares line: a fixed part, and a part per unit.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (mean_x, mean_y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let (above, below) = points.iter().fold((0.0, 0.0), |(above, below), &(x, y)| {
        (above + (x - mean_x) * (y - mean_y), below + (x - mean_x) * (x - mean_x))
    });
    (mean_y - above / below * mean_x, above / below)
}

fn services(criterion: &mut Criterion) {
    let nat64 = nat64();
    let listed = [("", "")].into_iter().chain(SERVICES);
    for (spec, before) in listed.chain(nat64.iter().map(|(spec, before)| (spec.as_str(), before.as_str()))) {
        let name = match (spec, before) {
            (spec, "") if spec.starts_with("nat64") => "nat64, IPv4 to IPv6".to_owned(),
            (spec, _) if spec.starts_with("nat64") => "nat64, IPv6 to IPv4".to_owned(),
            ("", _) => "copy".to_owned(),
            (spec, "") => spec.to_owned(),
            (spec, before) => format!("{spec} after {before}"),
        };
        let mut group = criterion.benchmark_group(&name);
        let mut points = Vec::new();
        for size in SIZES {
            let frames = frames(size, before);
            let mut bench = Bench::new(spec, frames.clone());
            let mut copy = Bench::new("", frames);
            points.push((size as f64, bench.ns() - copy.ns()));
            group.throughput(Throughput::Bytes(size as u64));
            group.bench_function(BenchmarkId::from_parameter(size), |bencher| bencher.iter(|| bench.step()));
        }
        group.finish();
        let (alpha, beta) = line(&points);
        let figures: Vec<String> = points.iter().map(|point| format!("{:.0}", point.1)).collect();
        println!("{name}: {} ns without the copy = {alpha:.0} ns + {beta:.2} ns/B\n", figures.join(" / "));
    }
}

criterion_group!(benches, services);
criterion_main!(benches);
