//! `steer` at one end of a virtual cable, on whose other end many flows and a heavy one are sent.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use humpyard_testkit::network::{Namespace, pair_with_checksums, turn};
use serde_json::Value;

use crate::refusals::refusal;

const HUMPYARD: &str = env!("CARGO_BIN_EXE_humpyard");
/// Flows, of which the first has every other packet.
const FLOWS: u16 = 60;

/// Runs humpyard in `here` while `there` sends, and returns what it says, with how many packets were sent and received
/// in all. Each packet is sent when the one before has arrived.
fn while_sending(here: &Namespace, there: &Namespace, words: &str) -> (std::process::Output, u64, u64) {
    let (over, sent, received) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let receiver = here.within(|| UdpSocket::bind((Ipv4Addr::new(10, 9, 0, 1), 9000)).unwrap());
    receiver.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let senders: Vec<UdpSocket> = there.within(|| {
        (0..FLOWS).map(|flow| UdpSocket::bind((Ipv4Addr::new(10, 9, 0, 2), 20_000 + flow)).unwrap()).collect()
    });
    let exchange = || {
        let mut room = [0; 400];
        for number in 0_usize.. {
            if over.load(Ordering::Relaxed) {
                break;
            }
            let flow = if number.is_multiple_of(2) { 0 } else { number / 2 % usize::from(FLOWS) };
            senders[flow].send_to(&[7; 300], (Ipv4Addr::new(10, 9, 0, 1), 9000)).unwrap();
            sent.fetch_add(1, Ordering::Relaxed);
            received.fetch_add(u64::from(receiver.recv(&mut room).is_ok()), Ordering::Relaxed);
        }
    };
    let output = thread::scope(|scope| {
        scope.spawn(exchange);
        let output = here.command(HUMPYARD).args(words.split_whitespace()).output().expect("`ip` runs it");
        over.store(true, Ordering::Relaxed);
        output
    });
    (output, sent.into_inner(), received.into_inner())
}

fn document(output: &std::process::Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    serde_json::from_slice(&output.stdout).expect("a document")
}

#[test]
fn an_interface_is_observed_recorded_and_diagnosed_again() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("here.jsonl");
    let record = record.to_str().unwrap();
    let words =
        format!("steer --observe here --for 1500ms --policy hrw --policy rss++ --record {record} --json --quiet");
    let (output, sent, received) = while_sending(&here, &there, &words);
    let found = document(&output);
    assert_eq!(sent, received, "observation changes nothing");
    let packets = found["packets"].as_u64().unwrap();
    assert!(packets > 100 && packets <= sent + 10, "{packets} of {sent}");
    let heaviest = found["heavy_flows"][0]["flow"].as_str().unwrap();
    assert_eq!(heaviest, "10.9.0.2:20000 > 10.9.0.1:9000 udp");
    let policies: Vec<&str> =
        found["policies"].as_array().unwrap().iter().map(|one| one["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["now", "hrw", "rss++"]);
    assert!(found["buckets_used"].as_u64().unwrap() >= u64::from(FLOWS) / 2);

    let mut again = here.command(HUMPYARD);
    again.args(["steer", "--from", record, "--policy", "hrw", "--policy", "rss++", "--json"]);
    assert_eq!(document(&again.output().unwrap()), found, "a record has all that a diagnosis is made of");
    let said = refusal(&here, HUMPYARD, &format!("steer --observe here --record {record}"));
    assert!(said.contains("exists"), "{said}");
    let other = directory.path().join("other.jsonl");
    refusal(&here, HUMPYARD, &format!("steer --observe nowhere --record {}", other.display()));
    refusal(&here, HUMPYARD, "steer --observe here --for 100ms --record /nowhere/here.jsonl");
    assert!(!other.exists(), "an interface that is refused leaves no record");
}

#[test]
fn an_interface_is_steered_loses_nothing_and_is_then_as_before() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let words = "steer --apply cpumap:here --policy rss++:interval=20000 --for 500ms --until 2s --json --quiet";
    let (output, sent, received) = while_sending(&here, &there, words);
    let found = document(&output);
    assert_eq!(sent, received, "packets are lost");
    assert!(found["packets"].as_u64().unwrap() > 100, "{found}");
    assert_eq!((&found["policy"], &found["rolled_back"]), (&"rss++:interval=20000".into(), &Value::Null));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("here is steered by rss++") && said.contains("is as before"), "{said}");
    assert!(!here.ip("link show dev here").contains("xdp"), "the program is still there");
}

#[test]
fn what_is_not_worth_it_is_not_applied() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let words = "steer --apply cpumap:here --policy hrw --for 500ms --apply-if 99% --quiet";
    let (output, ..) = while_sending(&here, &there, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("humpyard: not steered: by hrw 99 of 100 packets") && said.lines().count() == 1, "{said}");
}

#[test]
fn what_cannot_be_steered_is_refused_in_one_line() {
    let Some(_turn) = turn() else { return };
    let (here, _there) = pair_with_checksums();
    for (words, expected) in [
        ("", "name an interface"),
        ("--observe nowhere", "humpyard: nowhere: no interface `nowhere`"),
        ("--observe here --for 100ms", "nothing arrived at `here`"),
        ("--observe here --every 1ms", "give 10ms at least"),
        ("--observe here --buckets 100", "give a power of two, such as 128"),
        ("--observe here --policy hwr", "did you mean `hrw`"),
        ("--apply here --policy hrw", "unknown target `here`"),
        ("--apply cpumap:here", "steers by one policy"),
        ("--apply cpumap:here --policy hrw --guard 3s", "--guard: give at most 2s"),
        ("--from /etc/hostname", "line 1: this is no record"),
        ("--from /nowhere", "cannot be read"),
    ] {
        let said = refusal(&here, HUMPYARD, &format!("steer {words}"));
        assert!(said.contains(expected), "{words}: {said}");
    }
    let words = format!("--inh-caps=-all --bounding-set=-all {HUMPYARD} steer --observe here");
    let said = refusal(&here, "setpriv", &words);
    assert!(said.contains("run it as root") && said.contains("CAP_NET_ADMIN"), "{said}");
}
