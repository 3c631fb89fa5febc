//! Checks that written captures are read back, in every format and compression, and that no incomplete file
//! stays.

use std::fs;
use std::path::Path;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_traffic::{CaptureReader, CaptureWriter, ErrorKind, Source, TrafficError, create, open};
use proptest::prelude::*;

const EXTENSIONS: [&str; 6] = ["pcap", "pcap.gz", "pcap.zst", "pcapng", "pcapng.gz", "pcapng.zst"];

fn write(path: &Path, frames: &[Frame]) -> Result<u64, TrafficError> {
    let mut sink = create(path.to_str().unwrap())?;
    for frame in frames {
        sink.write(frame)?;
    }
    sink.finish()
}

fn read(path: &Path) -> Vec<Frame> {
    let mut source = open(path.to_str().unwrap(), Seed(0)).unwrap();
    let mut frames = Vec::new();
    let mut frame = Frame::default();
    while source.next(&mut frame).unwrap() {
        frames.push(frame.clone());
    }
    assert_eq!(source.progress(), Some(1.0), "{}", path.display());
    frames
}

fn generated() -> Vec<Frame> {
    let mut source = open("gen:messages:packets=3000", Seed(1)).unwrap();
    let mut frames = Vec::new();
    let mut frame = Frame::default();
    while source.next(&mut frame).unwrap() {
        frames.push(frame.clone());
    }
    frames
}

fn files(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

#[test]
fn every_format_and_compression_gives_back_what_it_took() {
    let directory = tempfile::tempdir().unwrap();
    let frames = generated();
    for extension in EXTENSIONS {
        let path = directory.path().join(format!("out.{extension}"));
        assert_eq!(write(&path, &frames).unwrap(), frames.len() as u64);
        assert!(read(&path) == frames, "{extension}");
        // The content alone determines the format.
        let renamed = directory.path().join("unnamed");
        fs::rename(&path, &renamed).unwrap();
        assert!(read(&renamed) == frames, "{extension}");
    }
}

#[test]
fn a_capture_without_packets_is_a_capture() {
    let directory = tempfile::tempdir().unwrap();
    for extension in EXTENSIONS {
        let path = directory.path().join(format!("none.{extension}"));
        assert_eq!(write(&path, &[]).unwrap(), 0);
        assert!(read(&path).is_empty());
    }
}

#[test]
fn lengths_on_the_wire_and_link_types_survive() {
    let directory = tempfile::tempdir().unwrap();
    let links = [
        LinkType::Ethernet,
        LinkType::RawIp,
        LinkType::LinuxCooked,
        LinkType::LinuxCooked2,
        LinkType::Loopback,
        LinkType::Other(104),
    ];
    let frame =
        |link| Frame { time: Time::from_ns(1), wire_length: 9_000, link, data: vec![7; 61], ..Frame::default() };
    let frames: Vec<Frame> = links.into_iter().chain(links).map(frame).collect();
    let path = directory.path().join("links.pcapng");
    write(&path, &frames).unwrap();
    assert_eq!(read(&path), frames);
    let error = write(&directory.path().join("links.pcap"), &frames).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Output);
    assert!(error.to_string().contains("packet 2") && error.to_string().contains("write a .pcapng"), "{error}");
    for frame in frames {
        let path = directory.path().join("one.pcap");
        write(&path, core::slice::from_ref(&frame)).unwrap();
        assert_eq!(read(&path), [frame]);
    }
}

#[test]
fn what_a_pcap_cannot_hold_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let late = Frame { time: Time::from_ns(5_000_000_000 * 1_000_000_000), ..Frame::default() };
    let error = write(&directory.path().join("late.pcap"), core::slice::from_ref(&late)).unwrap_err();
    assert!(error.to_string().contains("2106"), "{error}");
    let path = directory.path().join("late.pcapng");
    write(&path, core::slice::from_ref(&late)).unwrap();
    assert_eq!(read(&path), [late]);
    let long = Frame { wire_length: 300_000, data: vec![1; 300_000], ..Frame::default() };
    let error = write(&directory.path().join("long.pcap"), core::slice::from_ref(&long)).unwrap_err();
    assert!(error.to_string().contains("262144"), "{error}");
    let path = directory.path().join("long.pcapng");
    write(&path, core::slice::from_ref(&long)).unwrap();
    assert_eq!(read(&path), [long]);
}

#[test]
fn nothing_is_left_of_a_capture_that_was_not_finished() {
    let directory = tempfile::tempdir().unwrap();
    for extension in EXTENSIONS {
        let path = directory.path().join(format!("part.{extension}"));
        let mut writer = CaptureWriter::create(&path).unwrap();
        for frame in generated() {
            writer.write(&frame).unwrap();
        }
        assert!(!path.exists());
        drop(writer);
        assert_eq!(files(directory.path()), 0, "{extension}");
    }
}

#[test]
fn an_older_file_stays_until_the_new_one_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.pcap");
    fs::write(&path, "old").unwrap();
    let writer = CaptureWriter::create(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(writer.finish().unwrap(), 0);
    assert_eq!(fs::read(&path).unwrap().len(), 24);
    assert_eq!(files(directory.path()), 1);
}

#[cfg(unix)]
#[test]
fn permissions_are_those_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let (plain, capture) = (directory.path().join("plain"), directory.path().join("out.pcap"));
    fs::write(&plain, "").unwrap();
    write(&capture, &[]).unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&plain), mode(&capture));
}

#[test]
fn a_directory_that_is_missing_is_named() {
    let error = CaptureWriter::create("/no/such/directory/out.pcap").err().unwrap();
    assert_eq!(
        error.to_string(),
        "/no/such/directory/out.pcap: the directory /no/such/directory does not exist; make it, or name another"
    );
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let link = prop_oneof![
        Just(LinkType::Ethernet),
        Just(LinkType::RawIp),
        Just(LinkType::Loopback),
        (300u16..).prop_map(LinkType::Other)
    ];
    (0..u64::from(u32::MAX) * 1_000_000_000, 0u32..9_000, link, prop::collection::vec(any::<u8>(), 0..300)).prop_map(
        |(ns, missing, link, data)| Frame {
            time: Time::from_ns(ns),
            wire_length: data.len() as u32 + missing,
            link,
            data,
            ..Frame::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_frames_survive(frames in prop::collection::vec(any_frame(), 0..40), which in 0..6usize) {
        let directory = tempfile::tempdir().unwrap();
        let extension = EXTENSIONS[which];
        let link = frames.first().map(|frame| frame.link);
        // A classic capture has one link type.
        let frames: Vec<Frame> = frames
            .into_iter()
            .map(|frame| if which < 3 { Frame { link: link.unwrap_or_default(), ..frame } } else { frame })
            .collect();
        let path = directory.path().join(format!("any.{extension}"));
        prop_assert_eq!(write(&path, &frames).unwrap(), frames.len() as u64);
        prop_assert_eq!(read(&path), frames);
    }

    #[test]
    fn any_bytes_are_read_without_panic(start in 0..6usize, bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        const STARTS: [&[u8]; 6] = [
            &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0],
            &[0xa1, 0xb2, 0xcd, 0x34, 0, 2, 0, 4],
            &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 28, 0, 0, 0],
            &[0x1f, 0x8b],
            &[0x28, 0xb5, 0x2f, 0xfd],
            &[],
        ];
        let bytes = [STARTS[start], &bytes].concat();
        if let Ok(mut reader) = CaptureReader::new("bytes", std::io::Cursor::new(bytes)) {
            let mut frame = Frame::default();
            while let Ok(true) = reader.next(&mut frame) {}
        }
    }
}
