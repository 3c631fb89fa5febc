//! Captures that stop being good: exit code 1, what came before is processed and counted, one line says where it lies.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{assert_balanced, directory, make_capture, number, packets_in, run, sum};

/// Packets of a whole capture.
const PACKETS: u64 = 3000;
/// Bytes of a classic record: its header, and a packet of 64 bytes.
const RECORD: usize = 16 + 64;

/// Runs words that are given the damaged capture, and gives the document.
fn damaged(directory: &Path, words: &str, capture: &str) -> Value {
    let words = format!("{words} {capture} --json");
    let said = run(directory, &words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(said.code, Some(1), "{words}: {said:?}");
    said.assert_one_line(&[capture, "damaged at byte", "in record", "packets before it are good"]);
    said.json()
}

/// Checks every command on a damaged capture, and gives how many packets were good and where the damage lies.
fn check(directory: &Path, capture: &str) -> (u64, u64) {
    let info = damaged(directory, "trace info", capture);
    let good = number(&info, "/packets");
    let result = damaged(directory, "run --policy hrw --output out.pcap --input", capture);
    assert_balanced(&result);
    assert_eq!(sum(&result, "/packets/dropped_out"), 0, "it was written by a run, so all of it can be forwarded");
    assert_eq!(number(&result, "/packets/in"), good);
    assert_eq!(number(&result, "/damage/packets_before"), good);
    assert_eq!(packets_in(directory, "out.pcap"), good, "what came before the damage was written");
    let offset = number(&result, "/damage/offset");
    for words in [
        "run --policy drr --workers 0 --input",
        "run --policy drr --load 0.5 --loop 3 --input",
        "sim --policy drr --input",
        "sim --policy drr --load 0.5 --input",
    ] {
        let result = damaged(directory, words, capture);
        assert_balanced(&result);
        assert_eq!((number(&result, "/packets/in"), number(&result, "/damage/offset")), (good, offset), "{words}");
    }
    let both = damaged(directory, "compare --policy rr --policy hrw --input", capture);
    for run in both["runs"].as_array().expect("runs") {
        assert_eq!((number(run, "/packets/processed"), number(run, "/damage/offset")), (good, offset));
    }
    (good, offset)
}

#[test]
fn a_classic_capture_that_is_cut_or_lies() {
    let directory = directory();
    make_capture(directory.path(), "good.pcap", PACKETS);
    let whole = fs::read(directory.path().join("good.pcap")).unwrap();
    let start = |record: usize| 24 + RECORD * record;
    assert_eq!(whole.len(), start(PACKETS as usize));
    // Cut in the last packet, in the header of a record, in the first packet.
    for (length, good) in
        [(whole.len() - 1, PACKETS - 1), (start(1000) + 15, 1000), (start(1000) + 1, 1000), (start(0) + 20, 0)]
    {
        fs::write(directory.path().join("cut.pcap"), &whole[..length]).unwrap();
        assert_eq!(check(directory.path(), "cut.pcap"), (good, start(good as usize) as u64), "{length}");
    }
    // Cut between two records is not cut at all.
    fs::write(directory.path().join("cut.pcap"), &whole[..start(10)]).unwrap();
    assert_eq!(packets_in(directory.path(), "cut.pcap"), 10);
    // A length that no packet has, and one that reaches beyond the end.
    for length in [u32::MAX, 0x0100_0000, 200_000] {
        let mut lie = whole.clone();
        lie[start(2990) + 8..start(2990) + 12].copy_from_slice(&length.to_le_bytes());
        fs::write(directory.path().join("lie.pcap"), lie).unwrap();
        assert_eq!(check(directory.path(), "lie.pcap"), (2990, start(2990) as u64), "{length}");
    }
}

#[test]
fn other_formats_that_are_cut() {
    let directory = directory();
    for extension in ["pcapng", "pcap.gz", "pcap.zst", "pcapng.gz", "pcapng.zst"] {
        let (good, cut) = (format!("good.{extension}"), format!("cut.{extension}"));
        make_capture(directory.path(), &good, PACKETS);
        let whole = fs::read(directory.path().join(good)).unwrap();
        fs::write(directory.path().join(&cut), &whole[..whole.len() * 2 / 3]).unwrap();
        let (packets, offset) = check(directory.path(), &cut);
        assert!(packets < PACKETS && offset >= 24, "{extension}: {packets} {offset}");
    }
}

#[test]
fn a_damaged_pipe() {
    let directory = directory();
    make_capture(directory.path(), "good.pcap", 10);
    let whole = fs::read(directory.path().join("good.pcap")).unwrap();
    fs::write(directory.path().join("cut.pcap"), &whole[..whole.len() - 1]).unwrap();
    let cut = fs::File::open(directory.path().join("cut.pcap")).unwrap();
    let words = ["run", "--policy", "hrw", "--input", "-", "--json"];
    let output = crate::support::humpyard(directory.path(), &words).stdin(cut).output().unwrap();
    let said = crate::support::Said::of(output);
    assert_eq!(said.code, Some(1));
    said.assert_one_line(&["standard input: damaged at byte 744, in record 10", "the 9 packets before it are good"]);
    assert_eq!(number(&said.json(), "/packets/processed"), 9);
}
