//! Two hosts that know nothing of the humpyard between them: their kernels find each other and talk.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use humpyard_testkit::network::{Line, Namespace, join, turn};
use serde_json::Value;

use crate::data_plane::{DataPlane, frames, number};

const PAYLOAD: usize = 100_000_000;

/// Whether a ping of this address comes back, each of three times.
fn pings(from: &Namespace, to: &str) -> bool {
    from.run(&format!("ping -c 3 -i 0.2 -W 20 {to}")).status.success()
}

/// Bytes that are not the same anywhere nearby.
fn fill(block: &mut [u8], state: &mut u64) {
    for word in block.chunks_exact_mut(8) {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word.copy_from_slice(&(*state ^ *state >> 29).to_le_bytes());
    }
}

/// Sends this number of bytes by TCP from one host to another, and checks every byte that arrives.
pub(crate) fn transfer(from: &Namespace, to: &Namespace, address: &str, bytes: usize) {
    let address: IpAddr = address.parse().expect("an address");
    let listener = to.within(|| TcpListener::bind((address, 0)).expect("a port is free"));
    let port = listener.local_addr().expect("it is bound").port();
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody calls");
        let (mut state, mut expected, mut found) = (1, vec![0; 1 << 16], vec![0; 1 << 16]);
        let mut left = bytes;
        while left > 0 {
            let block = left.min(expected.len());
            fill(&mut expected, &mut state);
            stream.read_exact(&mut found[..block]).expect("all of it comes");
            assert_eq!(found[..block], expected[..block], "{left} bytes before the end");
            left -= block;
        }
        stream.write_all(b"all").expect("the way back is open");
    });
    let mut stream = from.within(|| TcpStream::connect((address, port)).expect("the host answers"));
    let (mut state, mut block, mut left) = (1, vec![0; 1 << 16], bytes);
    while left > 0 {
        fill(&mut block, &mut state);
        stream.write_all(&block[..left.min(1 << 16)]).expect("the connection lasts");
        left -= left.min(1 << 16);
    }
    stream.shutdown(Shutdown::Write).expect("the connection lasts");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    assert_eq!(answer, b"all");
    receiver.join().expect("the receiver is content");
}

/// Everything that was taken in went out by the other interface. Hosts greet their neighbours at any time, so frames may wait when
/// the run ends: they are counted as left.
fn assert_all_passed(document: &Value, one: &str, other: &str) {
    let packets = &document["packets"];
    let left = packets["dropped"]["port_left"].as_u64().unwrap_or(0);
    assert_eq!(number(packets, "in"), number(packets, "forwarded") + left, "{packets}");
    let ((one_in, one_out), (other_in, other_out)) = (frames(document, one), frames(document, other));
    assert_eq!((one_in, other_in), (other_out, one_out));
    assert!(one_in > 0 && other_in > 0);
}

#[test]
fn hosts_reach_each_other_through_packet_sockets() {
    let Some(_turn) = turn() else { return };
    for policy in [
        "--policy hrw --workers 2",
        "--policy hrw --workers 2 --dispatchers 1",
        "--policy steer=conn/share=drr --workers 0",
        "--policy hrw --workers 3 --dispatchers 2",
    ] {
        let line = Line::with_addresses();
        let plane = DataPlane::start(&line.middle, &format!("--input iface:ma --output iface:mb --both-ways {policy}"));
        assert!(pings(&line.left, "10.9.0.2") && pings(&line.right, "fd00::1"));
        transfer(&line.left, &line.right, "10.9.0.2", PAYLOAD);
        transfer(&line.right, &line.left, "fd00::1", PAYLOAD);
        assert_all_passed(&plane.end(), "iface:ma", "iface:mb");
    }
}

#[test]
fn hosts_reach_each_other_through_xdp_sockets() {
    let Some(_turn) = turn() else { return };
    for (ports, policy) in [
        ("--input xdp:ma --output xdp:mb", "--policy hrw --workers 2"),
        ("--input xdp:ma:mode=generic --output xdp:mb:mode=generic", "--policy gr3 --workers 0"),
        ("--input xdp:ma --output iface:mb", "--policy drr --workers 1"),
        ("--input xdp:ma --output xdp:mb", "--policy hrw --workers 2 --dispatchers 2"),
    ] {
        let line = Line::with_addresses();
        let plane = DataPlane::start(&line.middle, &format!("{ports} --both-ways {policy}"));
        assert!(pings(&line.left, "10.9.0.2") && pings(&line.right, "fd00::1"), "{ports}");
        transfer(&line.left, &line.right, "10.9.0.2", PAYLOAD / 4);
        transfer(&line.right, &line.left, "fd00::1", PAYLOAD / 4);
        plane.end();
    }
}

#[test]
fn interfaces_may_go_down_and_come_up_again() {
    let Some(_turn) = turn() else { return };
    let line = Line::with_addresses();
    let plane =
        DataPlane::start(&line.middle, "--input iface:ma --output iface:mb --both-ways --policy rr --workers 1");
    assert!(pings(&line.left, "10.9.0.2"));
    for interface in ["ma", "mb"] {
        line.middle.ip(&format!("link set dev {interface} down"));
        assert!(!line.left.run("ping -c 1 -W 1 10.9.0.2").status.success());
        line.middle.ip(&format!("link set dev {interface} up"));
        assert!(pings(&line.left, "10.9.0.2"), "{interface} is up again");
    }
    plane.end();
}

/// Frames of 2,000 a second that leave by the interface `mb` of the line.
const STREAM: &str =
    "--input gen:poisson:packets=1M,pps=2k --rate trace --output iface:mb --services pass --policy fcfs --workers 0";

/// How many frames left by `iface:mb`, found it full, or found it down.
fn fates(document: &Value) -> [u64; 3] {
    let sent = &document["ports"]["sent"][0];
    ["frames", "full", "down"].map(|key| number(sent, key))
}

#[test]
fn a_peer_that_is_down_is_not_a_full_output() {
    let Some(_turn) = turn() else { return };
    for kind in ["iface:", "xdp:"] {
        let line = Line::make();
        let plane = DataPlane::start(&line.middle, &STREAM.replace("iface:", kind));
        line.right.ip("link set dev vb down");
        thread::sleep(Duration::from_millis(300));
        line.right.ip("link set dev vb up");
        thread::sleep(Duration::from_millis(200));
        let [sent, full, down] = fates(&plane.end());
        let found = format!("{kind} {sent} sent, {full} found it full, {down} found it down");
        assert!(sent > 100 && full == 0 && down > 100, "{found}");
    }
}

#[test]
fn an_output_that_was_removed_and_made_again_is_taken_up_again() {
    let Some(_turn) = turn() else { return };
    let line = Line::make();
    let plane = DataPlane::start(&line.middle, STREAM);
    line.middle.ip("link del dev mb");
    thread::sleep(Duration::from_millis(200));
    join(&line.middle, "mb", &line.right, "vb");
    line.right.silence();
    let receiver = DataPlane::start(&line.right, "--input iface:vb --policy fcfs --workers 0");
    thread::sleep(Duration::from_millis(300));
    let received = frames(&receiver.end(), "iface:vb").0;
    let [sent, full, down] = fates(&plane.end());
    assert!(received > 100, "{received} received, {sent} sent, {full} found it full, {down} found it down");
    assert!(down > 100 && full == 0, "{full} found it full, {down} found it down");
}

#[test]
fn two_in_a_row_are_no_different_from_one() {
    let Some(_turn) = turn() else { return };
    let (left, one, other, right) = (Namespace::make(), Namespace::make(), Namespace::make(), Namespace::make());
    // Who speaks before the second listens would be counted by the first alone.
    [&left, &one, &other, &right].into_iter().for_each(Namespace::silence);
    join(&left, "va", &one, "oa");
    join(&one, "ob", &other, "pa");
    join(&other, "pb", &right, "vb");
    left.ip("addr add 10.9.0.1/24 dev va");
    right.ip("addr add 10.9.0.2/24 dev vb");
    // More than TCP has under way: it sends until it loses something.
    let words = "--both-ways --workers 1 --buffer 16384";
    let first = DataPlane::start(&one, &format!("--input iface:oa --output iface:ob --policy gr3 {words}"));
    let second = DataPlane::start(&other, &format!("--input iface:pa --output iface:pb --policy hrw {words}"));
    assert!(pings(&left, "10.9.0.2"));
    transfer(&left, &right, "10.9.0.2", PAYLOAD / 4);
    let first = first.end();
    // What is under way arrives.
    thread::sleep(Duration::from_millis(300));
    let second = second.end();
    assert_all_passed(&first, "iface:oa", "iface:ob");
    assert_all_passed(&second, "iface:pa", "iface:pb");
    assert_eq!(frames(&first, "iface:ob").1, frames(&second, "iface:pa").0, "between the two nothing is lost");
}

#[test]
fn a_host_reaches_another_through_tun_devices() {
    let Some(_turn) = turn() else { return };
    let (left, right) = (Namespace::make(), Namespace::make());
    left.silence();
    let words = "--input tun:hya --output tun:hyb:mtu=1400 --both-ways --policy drr --workers 1";
    let plane = DataPlane::start(&left, words);
    left.give("hyb", &right);
    right.ip("addr add 10.9.0.2 peer 10.9.0.1 dev hyb");
    right.ip("link set dev hyb up");
    left.ip("addr add 10.9.0.1 peer 10.9.0.2 dev hya");
    left.ip("link set dev hya mtu 1400");
    assert!(pings(&left, "10.9.0.2"));
    transfer(&left, &right, "10.9.0.2", PAYLOAD / 4);
    assert_all_passed(&plane.end(), "tun:hya", "tun:hyb");
    assert!(!left.ip("-brief link").contains("hya"), "the device goes with the run");
}
