//! XDP sockets on one end of a virtual cable, a packet socket on the other.
//!
//! The tests make network namespaces of their own, for which they need root and `ip`. Where they cannot they say so and pass,
//! unless HUMPYARD_REQUIRE_NETNS is 1.

mod namespace;
mod tags;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use humpyard_core::frame::Frame;
use humpyard_traffic::TrafficError;
use humpyard_traffic::sink::{self, Sent, Sink};
use humpyard_traffic::source::{Polled, Received, Source};
use humpyard_wire::Ports;

use self::namespace::{End, Pair};

/// How long frames may be under way.
const PATIENCE: Duration = Duration::from_secs(20);
/// Lengths of frames, in bytes.
const LENGTHS: [usize; 7] = [60, 61, 127, 512, 1000, 1513, 1514];
/// Pairs of addresses that frames are between.
const FLOWS: u32 = 8;
/// Where the running number of a frame is: behind the headers of Ethernet, IPv4 and UDP.
const NUMBER: usize = 14 + 20 + 8;

/// Gives nothing.
struct Nothing;

impl Source for Nothing {
    fn next(&mut self, _frame: &mut Frame) -> Result<bool, TrafficError> {
        Ok(false)
    }

    fn description(&self) -> &str {
        "nothing"
    }
}

fn open(input: Option<&str>, output: &str) -> Result<Ports, TrafficError> {
    let inputs: Vec<String> = input.iter().map(|&input| input.to_owned()).collect();
    humpyard_wire::open(&inputs, output, false, || Ok(Box::new(Nothing)), sink::create)
}

/// Takes frames from an interface.
fn source(input: &str) -> Box<dyn Source + Send> {
    open(Some(input), "null:").unwrap().source
}

/// Gives frames to an interface.
fn sink(output: &str) -> Box<dyn Sink + Send> {
    open(None, output).unwrap().sink
}

/// Why a port is refused.
fn refusal(port: &str) -> String {
    let error = open(Some(port), "null:").err().expect("it must be refused").to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

/// A good UDP packet with its number in it.
fn frame(number: u32, length: usize) -> Frame {
    let flow = number % FLOWS;
    let mut data = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    data.extend((length as u16 - 14).to_be_bytes());
    data.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, flow as u8 + 1, 10, 0, 1, 1]);
    let sum: u32 = data[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    data[24..26].copy_from_slice(&sum.to_be_bytes());
    data.extend([0x10 + flow as u8, 7, 0, 9]);
    data.extend((length as u16 - 34).to_be_bytes());
    // No checksum: there need be none in UDP over IPv4.
    data.extend([0, 0]);
    data.extend(number.to_be_bytes());
    data.extend((NUMBER + 4..length).map(|at| (at as u32 * 31 + number) as u8));
    Frame { wire_length: length as u32, data, ..Frame::default() }
}

/// The frame with this number, of one of several lengths.
fn any_frame(number: u32) -> Frame {
    frame(number, LENGTHS[number as usize % LENGTHS.len()])
}

fn number_of(frame: &Frame) -> u32 {
    u32::from_be_bytes(frame.data[NUMBER..NUMBER + 4].try_into().unwrap())
}

/// Counts frames that came, and holds them against those that were sent.
struct Expected {
    make: fn(u32) -> Frame,
    /// By flow, the number that comes next.
    next: [u32; FLOWS as usize],
    came: u32,
}

impl Expected {
    fn new(make: fn(u32) -> Frame) -> Self {
        Self { make, next: core::array::from_fn(|flow| flow as u32), came: 0 }
    }

    fn check(&mut self, came: &Frame) {
        let number = number_of(came);
        assert_eq!(number, self.next[(number % FLOWS) as usize], "in order, and none twice");
        let sent = (self.make)(number);
        assert_eq!(came.data, sent.data);
        assert_eq!(came.wire_length, sent.wire_length);
        assert!(came.time.as_ns() > 0, "it has a time");
        self.next[(number % FLOWS) as usize] += FLOWS;
        self.came += 1;
    }

    /// Takes frames until `count` have come in all.
    fn take(&mut self, source: &mut dyn Source, count: u32) {
        let (mut frame, until) = (Frame::default(), Instant::now() + PATIENCE);
        while self.came < count {
            match source.poll(&mut frame).unwrap() {
                Polled::Frame => self.check(&frame),
                Polled::NotYet => assert!(Instant::now() < until, "{} of {count} frames came", self.came),
                Polled::End => panic!("an interface has no end"),
            }
        }
    }
}

/// Sends `count` frames from one end to the other, some at a time.
fn pass(from: &mut dyn Sink, to: &mut dyn Source, make: fn(u32) -> Frame, count: u32) {
    let mut expected = Expected::new(make);
    for number in 0..count {
        from.write(&make(number)).unwrap();
        if number % 50 == 49 || number + 1 == count {
            from.send().unwrap();
            expected.take(to, number + 1);
        }
    }
    assert_eq!(to.poll(&mut Frame::default()).unwrap(), Polled::NotYet, "nothing else comes");
    let sent = from.sent().remove(0);
    assert_eq!((sent.frames, sent.full, sent.too_long, sent.down), (count.into(), 0, 0, 0));
    let received = to.received().unwrap().remove(0);
    assert_eq!((received.frames, received.missed, received.left, received.malformed), (count.into(), 0, 0, 0));
}

/// The port that sends by this number of queues. A packet socket has a queue for each processor that it runs on, so it keeps
/// flows in order by one queue only.
const fn sender(queues: u32) -> &'static str {
    if queues == 1 { "iface:b" } else { "xdp:b" }
}

/// Frames come in by XDP, with these queues and parameters.
fn comes_in(queues: u32, parameters: &str) {
    let Some(pair) = Pair::new(queues) else { return };
    let mut to = pair.within(End::A, || source(&format!("xdp:a:{parameters}")));
    let mut from = pair.within(End::B, || sink(sender(queues)));
    pass(&mut *from, &mut *to, any_frame, 5000);
}

/// Frames go out by XDP.
fn goes_out(queues: u32, parameters: &str) {
    let Some(pair) = Pair::new(queues) else { return };
    let mut to = pair.within(End::B, || source("iface:b"));
    let mut from = pair.within(End::A, || sink(&format!("xdp:a:{parameters}")));
    pass(&mut *from, &mut *to, any_frame, 5000);
    assert_eq!(from.finish().unwrap(), 5000);
}

#[test]
fn frames_come_in_natively() {
    comes_in(1, "mode=native");
}

#[test]
fn frames_come_in_natively_by_two_queues() {
    comes_in(2, "mode=native");
}

#[test]
fn frames_come_in_behind_the_driver() {
    comes_in(1, "mode=generic");
}

#[test]
fn frames_come_in_behind_the_driver_by_two_queues() {
    comes_in(2, "mode=generic");
}

#[test]
fn frames_of_other_queues_stay_with_the_system() {
    let Some(pair) = Pair::new(2) else { return };
    // Behind the driver, a virtual cable gives everything by the first queue.
    let mut to = pair.within(End::A, || source("xdp:a:mode=native,queues=1"));
    let mut from = pair.within(End::B, || sink("xdp:b"));
    (0..64).for_each(|number| from.write(&any_frame(number)).unwrap());
    from.send().unwrap();
    let (mut frame, mut flows, until) = (Frame::default(), BTreeSet::new(), Instant::now() + PATIENCE);
    while flows.is_empty() {
        assert!(Instant::now() < until, "nothing comes");
        while to.poll(&mut frame).unwrap() == Polled::Frame {
            flows.insert(number_of(&frame) % FLOWS);
        }
    }
    assert!(flows.len() < FLOWS as usize, "{flows:?}");
}

#[test]
fn frames_come_in_with_few_chunks_and_busy_polling() {
    comes_in(1, "frames=256,busy=64");
}

#[test]
fn frames_go_out() {
    goes_out(1, "frames=300");
}

#[test]
fn frames_go_out_by_two_queues() {
    goes_out(2, "queues=2");
}

#[test]
fn frames_go_out_where_others_go_by_without_a_socket() {
    goes_out(2, "queues=1");
}

#[test]
fn frames_of_several_chunks_come_in_and_go_out() {
    for mode in ["native", "generic"] {
        let Some(pair) = Pair::new(1) else { return };
        for end in [End::A, End::B] {
            pair.link(end, "mtu 9000");
        }
        let make = |number| frame(number, [60, 4096, 4097, 9014, 8192][number as usize % 5]);
        let name = format!("xdp:a:mode={mode}");
        let mut ports = pair.within(End::A, || open(Some(&name), &name)).unwrap();
        let (mut from, mut to) = pair.within(End::B, || (sink("iface:b"), source("iface:b")));
        pass(&mut *from, &mut *ports.source, make, 500);
        pass(&mut *ports.sink, &mut *to, make, 500);
    }
}

#[test]
fn what_comes_in_goes_out_again() {
    for (queues, mode) in [(1, "native"), (2, "native"), (1, "generic"), (2, "generic")] {
        let Some(pair) = Pair::new(queues) else { return };
        let name = format!("xdp:a:mode={mode}");
        let mut here = pair.within(End::A, || open(Some(&name), &name)).unwrap();
        let (mut from, mut to) = pair.within(End::B, || (sink(sender(queues)), source("iface:b")));
        let mut expected = Expected::new(any_frame);
        for number in 0..3000 {
            from.write(&any_frame(number)).unwrap();
            if number % 100 == 99 {
                from.send().unwrap();
                let (mut frame, mut left, until) = (Frame::default(), 100, Instant::now() + PATIENCE);
                while left > 0 {
                    assert!(Instant::now() < until, "{left} frames have not come");
                    if here.source.poll(&mut frame).unwrap() == Polled::Frame {
                        here.sink.write(&frame).unwrap();
                        left -= 1;
                    }
                }
                here.sink.send().unwrap();
                expected.take(&mut *to, number + 1);
            }
        }
        assert_eq!(here.sink.finish().unwrap(), 3000);
    }
}

/// Bytes of a transfer.
const TRANSFER: usize = 20 << 20;

/// The bytes of a transfer.
fn transfer() -> Vec<u8> {
    (0..TRANSFER as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Is set when this is dropped, also by a test that fails.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Carries frames between two ports until `stop` is set, and returns what both have counted.
fn carry(mut left: Ports, mut right: Ports, stop: &AtomicBool) -> [Received; 2] {
    let mut frame = Frame::default();
    let mut carry = |source: &mut dyn Source, sink: &mut dyn Sink| {
        for _ in 0..64 {
            if source.poll(&mut frame).unwrap() != Polled::Frame {
                break;
            }
            frame.port = 0;
            sink.write(&frame).unwrap();
        }
        sink.send().unwrap();
    };
    while !stop.load(Ordering::Relaxed) {
        carry(&mut *left.source, &mut *right.sink);
        carry(&mut *right.source, &mut *left.sink);
        std::thread::yield_now();
    }
    [left, right].map(|mut ports| ports.source.received().unwrap().remove(0))
}

#[test]
fn the_systems_own_stacks_speak_tcp_through_it() {
    for mode in ["native", "generic"] {
        let (Some(here), Some(there)) = (Pair::new(1), Pair::new(1)) else { return };
        for (pair, host) in [(&here, 1), (&there, 2)] {
            pair.address(End::B, &format!("10.9.0.{host}/24"));
            pair.address(End::B, &format!("fd09::{host}/64"));
        }
        let name = format!("xdp:a:mode={mode}");
        let [left, right] = [&here, &there].map(|pair| pair.within(End::A, || open(Some(&name), &name)).unwrap());
        let stop = AtomicBool::new(false);
        let received = std::thread::scope(|scope| {
            let carrying = scope.spawn(|| carry(left, right, &stop));
            let stop = SetAtEnd(&stop);
            for address in ["10.9.0.2:5001", "[fd09::2]:5001"] {
                let listener = there.within(End::B, || TcpListener::bind(address).unwrap());
                let to = address.parse().unwrap();
                let mut from = here.within(End::B, || TcpStream::connect_timeout(&to, PATIENCE).unwrap());
                from.set_write_timeout(Some(PATIENCE)).unwrap();
                let sending = scope.spawn(move || from.write_all(&transfer()));
                let mut came = Vec::new();
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let ended = stream.read_to_end(&mut came);
                let sent = sending.join().unwrap();
                let is_same = came == transfer();
                assert!(is_same, "{mode} {address}: {} bytes came, {ended:?}, {sent:?}", came.len());
            }
            drop(stop);
            carrying.join().unwrap()
        });
        let least = 2 * TRANSFER as u64 / 1500;
        assert!(received[0].frames > least && received[0].malformed == 0, "{mode}: {received:?}");
    }
}

#[test]
fn a_sleeper_is_woken() {
    let Some(pair) = Pair::new(1) else { return };
    let mut to = pair.within(End::A, || source("xdp:a"));
    let mut from = pair.within(End::B, || sink("iface:b"));
    let mut came = Frame::default();
    for number in 0..20 {
        let sent = any_frame(number);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| to.next(&mut came));
            std::thread::sleep(Duration::from_millis(5));
            from.write(&sent).unwrap();
            from.send().unwrap();
            assert!(waiting.join().unwrap().unwrap());
        });
        assert_eq!(came.data, sent.data);
    }
}

#[test]
fn frames_that_nobody_takes_are_counted() {
    for mode in ["native", "generic"] {
        let Some(pair) = Pair::new(1) else { return };
        let mut to = pair.within(End::A, || source(&format!("xdp:a:frames=256,mode={mode}")));
        let mut from = pair.within(End::B, || sink("iface:b"));
        for number in 0..3000 {
            from.write(&any_frame(number)).unwrap();
            from.send().unwrap();
            if number % 32 == 0 {
                // The other end takes what comes in between, so that nothing is lost on the cable.
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        let sent = from.sent().remove(0);
        assert_eq!((sent.frames, sent.full), (3000, 0));
        let until = Instant::now() + PATIENCE;
        let seen = |to: &mut dyn Source| {
            let received = to.received().unwrap().remove(0);
            (received.frames, received.missed, received.left)
        };
        while seen(&mut *to) != (0, 2744, 256) {
            assert!(Instant::now() < until, "{:?}", seen(&mut *to));
        }
        Expected::new(any_frame).take(&mut *to, 256);
        assert_eq!(seen(&mut *to), (256, 2744, 0));
    }
}

#[test]
fn frames_that_the_interface_does_not_pass_on_are_counted() {
    let Some(pair) = Pair::new(1) else { return };
    let mut to = pair.within(End::B, || source("iface:b"));
    let mut from = pair.within(End::A, || sink("xdp:a"));
    from.write(&frame(0, 1515)).unwrap();
    from.write(&frame(0, 1514)).unwrap();
    from.send().unwrap();
    Expected::new(|number| frame(number, 1514)).take(&mut *to, 1);
    let sent = from.sent().remove(0);
    assert_eq!((sent.frames, sent.too_long), (1, 1));
}

#[test]
fn an_interface_that_goes_down_and_up_again_goes_on() {
    let Some(pair) = Pair::new(1) else { return };
    let mut here = pair.within(End::A, || open(Some("xdp:a:frames=256"), "xdp:a:frames=256")).unwrap();
    let (mut from, mut to) = pair.within(End::B, || (sink("iface:b"), source("iface:b")));
    let mut expected = Expected::new(any_frame);
    let write = |sink: &mut dyn Sink, numbers: core::ops::Range<u32>| {
        numbers.for_each(|number| sink.write(&any_frame(number)).unwrap());
        sink.send().unwrap();
    };
    write(&mut *here.sink, 0..10);
    expected.take(&mut *to, 10);
    pair.link(End::A, "down");
    write(&mut *here.sink, 10..400);
    let sent = here.sink.sent().remove(0);
    assert_eq!((sent.frames, sent.full, sent.down), (10, 0, 134), "256 wait");
    pair.link(End::A, "up");
    write(&mut *here.sink, 400..400);
    expected.take(&mut *to, 266);
    assert_eq!(here.sink.sent()[0].frames, 266);
    write(&mut *from, 0..50);
    Expected::new(any_frame).take(&mut *here.source, 50);
}

#[test]
fn frames_that_find_nobody_at_the_other_end_are_counted() {
    let Some(pair) = Pair::new(1) else { return };
    let mut from = pair.within(End::A, || sink("xdp:a"));
    pair.link(End::B, "down");
    (0..100).for_each(|number| from.write(&any_frame(number)).unwrap());
    from.send().unwrap();
    let sent = from.sent().remove(0);
    assert_eq!((sent.frames, sent.full, sent.down), (0, 0, 100));
    pair.link(End::B, "up");
    let mut to = pair.within(End::B, || source("iface:b"));
    (0..100).for_each(|number| from.write(&any_frame(number)).unwrap());
    from.send().unwrap();
    Expected::new(any_frame).take(&mut *to, 100);
    assert_eq!(from.sent().remove(0), Sent { frames: 100, ..sent });
}

#[test]
fn one_program_has_an_interface_and_leaves_it_as_it_was() {
    let Some(pair) = Pair::new(2) else { return };
    let before = pair.show(End::A);
    pair.within(End::A, || {
        for (first, second) in [("native", "native"), ("generic", "auto"), ("native", "generic"), ("auto", "auto")] {
            let name = format!("xdp:a:mode={first}");
            let open = open(Some(&name), &name).unwrap();
            assert!(pair.show(End::A).contains("xdp"), "{}", pair.show(End::A));
            let refused = refusal(&format!("xdp:a:mode={second}"));
            assert!(refused.contains("another XDP program is on `a`"), "{refused}");
            drop(open.source);
            assert!(pair.show(End::A).contains("xdp"), "the other half is still there");
            drop(open.sink);
            // A process that another test is about to start has what was open for a moment.
            let until = Instant::now() + PATIENCE;
            while pair.show(End::A).contains("xdp") {
                assert!(Instant::now() < until, "{}", pair.show(End::A));
            }
        }
        // A queue can have one socket, even if there is no program.
        let sending = sink("xdp:a");
        let refused = refusal("xdp:a");
        assert!(refused.contains("queue 0 of `a` belongs to another program"), "{refused}");
        drop(sending);
        drop(source("xdp:a"));
    });
    assert_eq!(pair.show(End::A).lines().next(), before.lines().next());
}

#[test]
fn what_cannot_be_opened_says_why() {
    let Some(pair) = Pair::new(2) else { return };
    pair.within(End::A, || {
        let refused = refusal("xdp:a:queues=3");
        assert!(refused.contains("queues=3: `a` has 2"), "{refused}");
        let refused = refusal("xdp:a:copy=zero");
        assert!(refused.contains("the driver of `a` has no zero copy; use copy=auto"), "{refused}");
        let refused = refusal("xdp:a:frames=100");
        assert!(refused.contains("`frames` takes 256 to 65536"), "{refused}");
        let refused = refusal("xdp:b");
        assert!(refused.contains("no interface `b`"), "{refused}");
    });
    pair.link(End::A, "down");
    let refused = pair.within(End::A, || refusal("xdp:a"));
    assert!(refused.contains("`a` is down"), "{refused}");
    pair.link(End::A, "mtu 65535 up");
    pair.within(End::A, || {
        humpyard_wire::drop_privileges(&[]).unwrap();
        let refused = refusal("xdp:a");
        assert!(refused.contains("needs a privilege") && refused.contains("CAP_NET_RAW"), "{refused}");
    });
}
