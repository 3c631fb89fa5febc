//! Tests handmade captures of every variant of the formats.

use std::io::{Cursor, Read, Write};

use flate2::write::GzEncoder;
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::random::Seed;
use humpyard_traffic::{CaptureReader, ErrorKind, Source, TrafficError};

/// Converts words to bytes in one byte order.
#[derive(Clone, Copy)]
struct Order {
    big: bool,
}

const ORDERS: [Order; 2] = [Order { big: false }, Order { big: true }];

impl Order {
    fn halves(self, halves: &[u16]) -> Vec<u8> {
        halves.iter().flat_map(|half| if self.big { half.to_be_bytes() } else { half.to_le_bytes() }).collect()
    }

    fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| if self.big { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
    }

    fn classic(self, magic: u32, link: u32) -> Vec<u8> {
        [self.words(&[magic]), self.halves(&[2, 4]), self.words(&[0, 0, 65_535, link])].concat()
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let length = body.len().next_multiple_of(4) + 12;
        let mut block = self.words(&[kind, length as u32]);
        block.extend_from_slice(body);
        block.resize(length - 4, 0);
        block.extend(self.words(&[length as u32]));
        block
    }

    fn section(self) -> Vec<u8> {
        self.block(0x0a0d_0d0a, &[self.words(&[0x1a2b_3c4d]), self.halves(&[1, 0]), vec![0xff; 8]].concat())
    }

    fn interface(self, link: u16, snapshot: u32, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = [self.halves(&[link, 0]), self.words(&[snapshot])].concat();
        for (code, value) in options {
            body.extend(self.halves(&[*code, value.len() as u16]));
            body.extend_from_slice(value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &body)
    }

    fn packet(self, interface: u32, ticks: u64, wire: u32, data: &[u8]) -> Vec<u8> {
        let head = self.words(&[interface, (ticks >> 32) as u32, ticks as u32, data.len() as u32, wire]);
        self.block(6, &[&head, data].concat())
    }
}

fn read(bytes: Vec<u8>) -> (Vec<Frame>, Option<TrafficError>) {
    let mut reader = CaptureReader::new("test.pcap", Cursor::new(bytes)).unwrap();
    let mut frames = Vec::new();
    let mut frame = Frame::default();
    loop {
        match reader.next(&mut frame) {
            Ok(true) => frames.push(frame.clone()),
            Ok(false) => return (frames, None),
            Err(error) => {
                // An error comes once; then the source has ended.
                assert!(!reader.next(&mut frame).unwrap());
                return (frames, Some(error));
            }
        }
    }
}

fn good(bytes: Vec<u8>) -> Vec<Frame> {
    let (frames, error) = read(bytes);
    assert!(error.is_none(), "{error:?}");
    frames
}

fn unusable(bytes: &[u8]) -> String {
    let error = CaptureReader::new("test.pcap", Cursor::new(bytes.to_vec())).err().expect("it must be unusable");
    assert_eq!(error.kind(), ErrorKind::Unusable);
    assert_eq!(error.packets_before(), None);
    let text = error.to_string();
    assert!(text.starts_with("test.pcap: "), "{text}");
    text
}

#[test]
fn classic_captures_of_both_byte_orders_and_all_magics() {
    for order in ORDERS {
        for (magic, unit_ns, more) in [(0xa1b2_c3d4, 1_000, 0), (0xa1b2_3c4d, 1, 0), (0xa1b2_cd34, 1_000, 2)] {
            if order.big && more > 0 {
                assert!(unusable(&order.classic(magic, 1)).contains("no capture"));
                continue;
            }
            let mut bytes = order.classic(magic, 1);
            for n in 0..3u32 {
                bytes.extend(order.words(&[n, 7, 4, 60]));
                bytes.extend(order.words(&vec![0xdead_beef; more]));
                bytes.extend_from_slice(&[n as u8; 4]);
            }
            let frames = good(bytes);
            assert_eq!(frames.len(), 3);
            assert_eq!(frames[2].time.as_ns(), 2_000_000_000 + 7 * unit_ns);
            assert_eq!((frames[2].wire_length, &frames[2].data[..]), (60, &[2; 4][..]));
        }
    }
}

#[test]
fn link_types_are_told_by_their_numbers() {
    let links = [
        (1, LinkType::Ethernet),
        (113, LinkType::LinuxCooked),
        (276, LinkType::LinuxCooked2),
        (12, LinkType::RawIp),
        (14, LinkType::RawIp),
        (101, LinkType::RawIp),
        (228, LinkType::RawIp),
        (229, LinkType::RawIp),
        (0, LinkType::Loopback),
        (108, LinkType::Loopback),
        (192, LinkType::Other(192)),
        // With a frame checksum of 4 bytes.
        (0x4400_0001, LinkType::Ethernet),
    ];
    for (number, link) in links {
        let order = ORDERS[0];
        let bytes = [order.classic(0xa1b2_c3d4, number), order.words(&[1, 2, 0, 0])].concat();
        assert_eq!(good(bytes)[0].link, link);
    }
}

#[test]
fn sections_interfaces_units_and_kinds_of_packets() {
    for order in ORDERS {
        // Times are shifted in little-endian sections only.
        let offset_s = if order.big { 0i64 } else { 10 };
        let bytes = [
            order.section(),
            order.interface(1, 0, &[]),
            order.block(0x0bad, &[1, 2, 3]),
            order.interface(101, 6, &[(2, b"eth0"), (9, &[9]), (14, &offset_s.to_le_bytes()), (0, &[])]),
            order.packet(0, 5_000_000, 70, &[1; 5]),
            order.packet(1, 6, 0, &[2; 6]),
            // Another section, in the other byte order, with one interface that limits packets to 4 bytes.
            Order { big: !order.big }.section(),
            Order { big: !order.big }.interface(113, 4, &[(9, &[0x80])]),
            Order { big: !order.big }.packet(0, 3, 2, &[4; 2]),
            Order { big: !order.big }.block(3, &[&Order { big: !order.big }.words(&[100])[..], &[5; 8]].concat()),
        ]
        .concat();
        let frames = good(bytes);
        let found: Vec<_> =
            frames.iter().map(|frame| (frame.time.as_ns(), frame.link, frame.wire_length, frame.data.len())).collect();
        assert_eq!(
            found,
            [
                (5_000_000_000, LinkType::Ethernet, 70, 5),
                (offset_s as u64 * 1_000_000_000 + 6, LinkType::RawIp, 6, 6),
                (3_000_000_000, LinkType::LinuxCooked, 2, 2),
                (3_000_000_000, LinkType::LinuxCooked, 100, 4),
            ]
        );
    }
}

#[test]
fn blocks_without_packets_may_hold_anything() {
    let order = ORDERS[0];
    let bytes = [
        order.section(),
        order.interface(1, 0, &[]),
        // Names without an end, statistics and secrets that are too short, unknown kinds.
        order.block(4, &[1, 0, 200, 0, 1]),
        order.block(5, &[]),
        order.block(10, &[0xff; 8]),
        order.block(0x8000_0001, &[]),
        order.block(0x4000_0bad, &[]),
        order.block(77, &[7; 1_000]),
        order.packet(0, 1, 4, &[1; 4]),
    ];
    assert_eq!(good(bytes.concat()).len(), 1);
}

#[test]
fn packets_of_any_length_around_that_of_the_buffer() {
    let order = ORDERS[0];
    for length in ((64 << 10) - 40..(64 << 10) + 40).step_by(4) {
        let data = vec![7; length];
        let ng =
            [order.section(), order.interface(1, 0, &[]), order.packet(0, 1, 0, &data), order.packet(0, 2, 0, &data)];
        let mut header = order.classic(0xa1b2_c3d4, 1);
        header[16..20].copy_from_slice(&(1u32 << 20).to_le_bytes());
        let record = [order.words(&[1, 2, length as u32, 0]), data].concat();
        for bytes in [ng.concat(), [header, record.clone(), record].concat()] {
            let frames = good(bytes);
            assert_eq!(frames.iter().map(|frame| frame.data.len()).collect::<Vec<_>>(), [length; 2]);
        }
    }
}

#[test]
fn an_input_may_come_a_byte_at_a_time() {
    struct Slowly(Cursor<Vec<u8>>);
    impl Read for Slowly {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let end = buffer.len().min(1);
            self.0.read(&mut buffer[..end])
        }
    }
    let order = ORDERS[0];
    let classic = [order.classic(0xa1b2_c3d4, 1), order.words(&[1, 2, 4, 4]), vec![9; 4]].concat();
    let ng = [order.section(), order.interface(1, 0, &[]), order.packet(0, 1, 4, &[1; 4])].concat();
    for bytes in [classic, ng] {
        let mut reader = CaptureReader::new("test.pcap", Slowly(Cursor::new(bytes))).unwrap();
        let mut frame = Frame::default();
        assert!(reader.next(&mut frame).unwrap());
        assert!(!reader.next(&mut frame).unwrap());
    }
}

#[test]
fn what_is_no_capture_is_unusable() {
    assert!(unusable(b"").contains("empty"));
    assert!(unusable(b"\xd4\xc3").contains("ends after 2 bytes"));
    assert!(unusable(&ORDERS[0].classic(0xa1b2_c3d4, 1)[..23]).contains("header"));
    assert!(unusable(b"PK\x03\x04 and so on").contains("no capture"));
    assert!(unusable(&ORDERS[0].section()[..20]).contains("pcapng header"));
    assert!(unusable(b"\xfd7zXZ\0....").contains("xz"));
    assert!(unusable(b"BZh91AY").contains("bzip2"));
    assert!(unusable(b"\x1f\x8b\x08\x00").contains("cannot be read"));
    let future = [ORDERS[0].words(&[0xa1b2_c3d4]), ORDERS[0].halves(&[3, 0]), vec![0; 16]].concat();
    assert!(unusable(&future).contains("version 3"));
    // A compressed file without contents.
    let nothing = GzEncoder::new(Vec::new(), flate2::Compression::fast()).finish().unwrap();
    assert!(unusable(&nothing).contains("empty"));
}

#[test]
fn damage_is_told_after_the_good_packets() {
    let order = ORDERS[0];
    let start = [order.classic(0xa1b2_c3d4, 1), order.words(&[1, 2, 4, 4]), vec![9; 4]].concat();
    for (rest, reason) in [
        (order.words(&[1, 2, 300_000, 4]), "300000 bytes"),
        (order.words(&[1, 2, u32::MAX, 4]), "4294967295 bytes"),
        (order.words(&[1, 2, 100, 100]), "ends after 16 of the record's 116 bytes"),
        (vec![1; 15], "ends after 15 of the record's 16 bytes"),
    ] {
        let (frames, error) = read([start.clone(), rest].concat());
        let error = error.unwrap();
        assert_eq!(frames.len(), 1);
        assert!(error.is_damage() && error.kind() == ErrorKind::Damaged);
        assert_eq!((error.packets_before(), error.offset()), (Some(1), Some(44)));
        let text = error.to_string();
        assert!(text.starts_with("test.pcap: damaged at byte 44, in record 2: ") && text.contains(reason), "{text}");
    }
}

#[test]
fn damage_of_blocks_is_told_too() {
    let order = ORDERS[0];
    let start = [order.section(), order.interface(1, 0, &[]), order.packet(0, 1, 4, &[1; 4])].concat();
    let mut unequal = order.packet(0, 1, 4, &[1; 4]);
    *unequal.last_mut().unwrap() = 1;
    let lying = order.block(6, &order.words(&[0, 0, 0, 100, 100]));
    for (rest, reason) in [
        (order.packet(7, 1, 4, &[1; 4]), "interface 7"),
        (unequal, "at its end"),
        (lying, "a block of 32 bytes is too short for what it claims to hold"),
        ([order.words(&[6, 14]), vec![0; 2], order.words(&[14])].concat(), "of 14 bytes; lengths are multiples of 4"),
        (order.words(&[6, 8, 0]), "below 12 bytes; lengths are multiples of 4"),
        (order.words(&[6, 1 << 30, 0]), "or more; lengths are multiples of 4"),
        (order.block(2, &[0; 24]), "obsolete kind 2"),
        (order.block(6, &[0; 8]), "too short"),
        (order.words(&[0x0a0d_0d0a, 28, 5, 0, 0, 0, 28]), "byte order"),
        (order.packet(0, 1, 4, &[1; 4])[..20].to_vec(), "ends after 20"),
    ] {
        let (frames, error) = read([start.clone(), rest].concat());
        let text = error.as_ref().unwrap().to_string();
        assert_eq!((frames.len(), error.unwrap().offset()), (1, Some(start.len() as u64)), "{text}");
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn compressed_streams_may_have_several_parts() {
    let order = ORDERS[0];
    let record = [order.words(&[1, 2, 4, 4]), vec![9; 4]].concat();
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let (header, half) = (order.classic(0xa1b2_c3d4, 1), record.len() / 2);
    assert_eq!(good([gzip(&header), gzip(&record[..half]), gzip(&record[half..]), gzip(&record)].concat()).len(), 2);
    assert_eq!(good([zstd(&header), zstd(&record[..half]), zstd(&record[half..]), zstd(&record)].concat()).len(), 2);
}

#[test]
fn a_compressed_stream_that_is_cut_gives_what_it_holds() {
    let order = ORDERS[0];
    let mut random = Seed(1).stream("test");
    let mut plain = order.classic(0xa1b2_c3d4, 1);
    for _ in 0..2_000 {
        plain.extend(order.words(&[1, 2, 800, 800]));
        // Incompressible bytes.
        plain.extend((0..100).flat_map(|_| random.bits().to_le_bytes()));
    }
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&plain).unwrap();
    for mut compressed in [encoder.finish().unwrap(), zstd::encode_all(&plain[..], 1).unwrap()] {
        compressed.truncate(compressed.len() / 2);
        let (frames, error) = read(compressed);
        assert!((800..=1_000).contains(&frames.len()), "{}", frames.len());
        let error = error.unwrap();
        assert_eq!(error.offset(), Some(24 + 816 * frames.len() as u64));
        let text = error.to_string();
        assert!(text.contains("of the uncompressed data") && text.contains("cannot be read on"), "{text}");
    }
}

#[test]
fn memory_follows_the_largest_record_and_not_the_claims() {
    let order = ORDERS[0];
    let big = vec![7; 3 << 20];
    let bytes =
        [order.section(), order.interface(1, 0, &[]), order.packet(0, 1, 0, &big), order.packet(0, 2, 4, &[1; 4])];
    let frames = good(bytes.concat());
    assert_eq!((frames[0].data.len(), frames[1].data.len()), (3 << 20, 4));
}

#[test]
fn jumbo_frames_cut_short_or_not_in_both_orders_and_units() {
    for order in ORDERS {
        for (magic, unit_ns) in [(0xa1b2_c3d4, 1_000), (0xa1b2_3c4d, 1)] {
            // A snapshot length of 96 in the header, which packets may exceed.
            let mut bytes = order.classic(magic, 1);
            bytes[16..20].copy_from_slice(&order.words(&[96]));
            for (captured, wire) in [(96, 9_018), (9_018, 9_018), (65_549, 65_549), (64, 64), (0, 1_500), (200, 60)] {
                // A fraction above one second adds whole seconds.
                bytes.extend(order.words(&[7, 3_000_000_000, captured, wire]));
                bytes.extend(vec![5; captured as usize]);
            }
            let frames = good(bytes);
            let found: Vec<_> = frames.iter().map(|frame| (frame.data.len(), frame.wire_length)).collect();
            // All captured bytes were on the wire, whatever the record's length.
            assert_eq!(found, [(96, 9_018), (9_018, 9_018), (65_549, 65_549), (64, 64), (0, 1_500), (200, 200)]);
            assert!(frames.iter().all(|frame| frame.time.as_ns() == 7_000_000_000 + 3_000_000_000 * unit_ns));
        }
        let bytes = [
            order.section(),
            order.interface(1, 96, &[]),
            order.interface(1, 0, &[]),
            order.packet(0, 1, 9_018, &[1; 96]),
            order.packet(1, 1, 65_549, &[1; 65_549]),
            order.packet(0, 1, 9_018, &[1; 9_018]),
        ];
        let found: Vec<_> = good(bytes.concat()).iter().map(|frame| (frame.data.len(), frame.wire_length)).collect();
        assert_eq!(found, [(96, 9_018), (65_549, 65_549), (9_018, 9_018)]);
    }
}

#[test]
fn interfaces_of_every_resolution_give_one_time() {
    // 1.5 s in ms, us, ns, 10^-12 s, and in 2^-1, 2^-10, 2^-30 s.
    let resolutions: [(u8, u64); 7] = [
        (3, 1_500),
        (6, 1_500_000),
        (9, 1_500_000_000),
        (12, 1_500_000_000_000),
        (0x81, 3),
        (0x80 | 10, 1_536),
        (0x80 | 30, 3 << 29),
    ];
    for order in ORDERS {
        let mut bytes = order.section();
        for (number, (resolution, _)) in (0u16..).zip(resolutions) {
            bytes.extend(order.interface([1, 101, 113][usize::from(number % 3)], 0, &[(9, &[resolution])]));
            // Blocks of unknown kinds, between any two others.
            bytes.extend(order.block(0x8bad_0000 | u32::from(number), &vec![0xff; usize::from(number) * 7]));
        }
        for (number, (_, ticks)) in (0u32..).zip(resolutions) {
            bytes.extend(order.packet(number, ticks, 60, &[0; 60]));
            bytes.extend(order.block(5, &order.words(&[number, 0, 0])));
        }
        let frames = good(bytes);
        assert_eq!(frames.len(), resolutions.len());
        assert!(frames.iter().all(|frame| frame.time.as_ns() == 1_500_000_000), "{frames:?}");
        assert_eq!(frames[1].link, LinkType::RawIp);
    }
}

#[test]
fn a_clock_that_jumps_is_read_as_it_is_and_paced_without_the_jumps() {
    use humpyard_traffic::pace::{ClockJumps, Pace, Pacer};
    let order = ORDERS[0];
    let mut bytes = [order.section(), order.interface(1, 0, &[(9, &[9])])].concat();
    let day = 86_400_000_000_000u64;
    let times = [20_000 * day, 20_000 * day + 5, 20_001 * day, 20_001 * day + 7, 19_000 * day, 19_000 * day + 2];
    for time in times {
        bytes.extend(order.packet(0, time, 60, &[0; 60]));
    }
    let frames = good(bytes);
    let mut pacer = Pacer::new(Pace::Trace);
    let paced: Vec<u64> = frames.iter().map(|frame| pacer.arrival(frame.time).as_ns()).collect();
    assert!(frames.iter().map(|frame| frame.time.as_ns()).eq(times));
    assert_eq!(paced, [0, 5, 5, 12, 12, 14]);
    assert_eq!(pacer.jumps(), ClockJumps { backward: 1, forward: 1 });
}
