//! `steer` at one end of a virtual cable, on whose other end many flows and a heavy one are sent.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Output, Stdio};
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
/// in all.
fn while_sending(here: &Namespace, there: &Namespace, words: &str) -> (Output, u64, u64) {
    sending(here, there, || here.command(HUMPYARD).args(words.split_whitespace()).output().expect("`ip` runs it"))
}

/// Works while `there` sends to `here`, and returns the result, with how many packets were sent and received in all. Each packet is sent when the one before has arrived.
fn sending<T>(here: &Namespace, there: &Namespace, work: impl FnOnce() -> T) -> (T, u64, u64) {
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
        // On a busy machine a packet may take longer than the socket waits: late is not lost.
        receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        while received.load(Ordering::Relaxed) < sent.load(Ordering::Relaxed) && receiver.recv(&mut room).is_ok() {
            received.fetch_add(1, Ordering::Relaxed);
        }
    };
    let result = thread::scope(|scope| {
        scope.spawn(exchange);
        let result = catch_unwind(AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    });
    (result, sent.into_inner(), received.into_inner())
}

fn document(output: &Output) -> Value {
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
    assert_eq!(policies, ["now", "rps", "hrw", "rss++"]);
    assert!(found["buckets_used"].as_u64().unwrap() >= u64::from(FLOWS) / 2);

    let mut again = here.command(HUMPYARD);
    let page = directory.path().join("here.html");
    again.args(["steer", "--from", record, "--policy", "hrw", "--policy", "rss++", "--json", "--report"]).arg(&page);
    assert_eq!(document(&again.output().unwrap()), found, "a record has all that a diagnosis is made of");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("here: where its packets go") && page.contains("<svg"), "{page}");
    let words = format!("compare --input {record} --policy hrw --policy drr --cores 2 --json --quiet");
    let compared = document(&here.run(&format!("{HUMPYARD} {words}")));
    let arrived = |at: usize| compared["runs"][at]["packets"]["in"].as_u64().unwrap();
    assert_eq!([arrived(0), arrived(1)], [packets; 2], "a record is an input");
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
    let handed = &found["handed_over"];
    assert_eq!(handed["packets"], found["packets"], "both are of the same time: {found}");
    assert_eq!((&handed["passed"], &handed["dropped"]), (&handed["packets"], &0.into()), "{found}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("here is steered by rss++") && said.contains("is as before"), "{said}");
    assert!(!here.ip("link show dev here").contains("xdp"), "the program is still there");
}

/// Begins to steer in `here`, and waits until it does.
fn steering(here: &Namespace, target: &str) -> Child {
    let words = format!("steer --apply {target} --policy hrw --for 300ms --quiet");
    let mut child = here
        .command(HUMPYARD)
        .args(words.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("`ip` runs it");
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = said.next().expect("it says that it steers").unwrap();
    assert!(line.contains(&format!("{target} is steered by hrw")), "{line}");
    thread::spawn(move || said.for_each(drop));
    child
}

fn mask(here: &Namespace) -> String {
    let output = here.command("cat").arg("/sys/class/net/here/queues/rx-0/rps_cpus").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn receive_packet_steering_has_sets_of_processors_and_is_then_as_before() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    here.command("sh").args(["-c", "echo 2 > /sys/class/net/here/queues/rx-0/rps_cpus"]).status().unwrap();
    let before = mask(&here);
    let words = "steer --apply rps:here --policy rss++ --for 500ms --until 2s --json --quiet";
    let (output, sent, received) = while_sending(&here, &there, words);
    let found = document(&output);
    assert_eq!(sent, received, "packets are lost");
    assert_eq!((&found["target"], &found["rolled_back"]), (&"rps:here".into(), &Value::Null));
    let changed = found["changed"][0].as_str().unwrap();
    assert!(changed.contains(&format!("rps_cpus of receive queue 0: {before} -> ")), "{changed}");
    assert_eq!(mask(&here), before);
}

#[test]
fn metrics_are_those_of_a_run() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    here.ip("link set lo up");
    let (found, screen) = metrics(&here, &there, "cpumap:here");
    assert_eq!((&found["input"], &found["policy"]), (&"cpumap:here".into(), &"hrw".into()));
    let packets = &found["packets"];
    assert!(packets["in"].as_u64().unwrap() > 100 && packets["in"] == packets["processed"], "{packets}");
    assert!(found["bucket_moves"].is_number() && found["cores"].as_array().unwrap().len() > 1, "{found}");
    assert_eq!(found["kernel"], serde_json::json!({ "packets_by": "steered_processor", "order": true }));
    assert!(screen.contains("processors, packets that the table gives each"), "{screen}");
    assert!(screen.contains("behind a later one of their bucket") && !screen.contains("services"), "{screen}");
    let (found, screen) = metrics(&here, &there, "rps:here");
    assert_eq!(found["kernel"], serde_json::json!({ "packets_by": "receiving_processor", "order": false }));
    assert!(screen.contains("processors, packets that each takes from the interface"), "{screen}");
    assert!(!["delay", "late", "held", "in flight"].iter().any(|word| screen.contains(word)), "{screen}");
}

/// What `top` says of steering this target, as a document and as a screen.
fn metrics(here: &Namespace, there: &Namespace, target: &str) -> (Value, String) {
    let words = format!("steer --apply {target} --policy hrw --for 300ms --until 4s --quiet --metrics 127.0.0.1:9464");
    let (found, ..) = sending(here, there, || {
        let mut child = here.command(HUMPYARD).args(words.split_whitespace()).stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_secs(2));
        let found = document(&here.run(&format!("{HUMPYARD} top --json")));
        let screen = here.run(&format!("{HUMPYARD} top --once --interval 500ms"));
        assert!(child.wait().unwrap().success());
        (found, String::from_utf8(screen.stdout).unwrap())
    });
    found
}

/// The packets of one flow are estimated by its bucket, of which it has all.
#[test]
fn a_flow_that_is_alone_has_all_packets() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let receiver = here.within(|| UdpSocket::bind((Ipv4Addr::new(10, 9, 0, 1), 9000)).unwrap());
    let sender = there.within(|| UdpSocket::bind((Ipv4Addr::new(10, 9, 0, 2), 20_000)).unwrap());
    let over = AtomicBool::new(false);
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                sender.send_to(&[7; 300], (Ipv4Addr::new(10, 9, 0, 1), 9000)).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let words = "steer --observe here --for 2500ms --policy hrw --json --quiet";
        let output = here.command(HUMPYARD).args(words.split_whitespace()).output().unwrap();
        over.store(true, Ordering::Relaxed);
        output
    });
    drop(receiver);
    let found = document(&output);
    let (all, flow) = (found["packets"].as_u64().unwrap(), &found["heavy_flows"][0]);
    assert_eq!(flow["flow"], "10.9.0.2:20000 > 10.9.0.1:9000 udp");
    let packets = flow["packets"].as_u64().unwrap();
    // The neighbours find each other by a few packets, too.
    assert!(packets <= all && packets + 20 >= all, "{packets} of {all}");
}

/// Threads of the kernel take the packets: their time is that of packets.
#[test]
fn threads_that_take_packets_are_found() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let on = ["-c", "ethtool -K here gro on && echo 1 > /sys/class/net/here/threaded"];
    if !here.command("sh").args(on).stderr(Stdio::null()).status().unwrap().success() {
        return;
    }
    let words = "steer --observe here --for 1500ms --policy hrw --json --quiet";
    let (output, ..) = while_sending(&here, &there, words);
    let found = document(&output);
    assert!(found["napi_threads"].as_u64().unwrap() >= 1, "{found}");
}

#[test]
fn what_a_killed_command_has_changed_is_undone_by_another() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let before = mask(&here);
    sending(&here, &there, || {
        let mut child = steering(&here, "rps:here");
        child.kill().unwrap();
        child.wait().unwrap();
    });
    assert_ne!(mask(&here), before, "nobody was there to undo it");
    let said =
        sending(&here, &there, || refusal(&here, HUMPYARD, "steer --apply cpumap:here --policy hrw --for 100ms"));
    assert!(said.0.contains("ended without undoing it: `humpyard steer --undo here` does"), "{}", said.0);
    let undone = document(&here.command(HUMPYARD).args(["steer", "--undo", "here", "--json"]).output().unwrap());
    assert_eq!((&undone["target"], &undone["ended"]), (&"rps:here".into(), &Value::Null));
    assert!(undone["restored"][0].as_str().unwrap().ends_with(&format!("-> {before}")), "{undone}");
    assert_eq!(mask(&here), before);
    let said = refusal(&here, HUMPYARD, "steer --undo here");
    assert!(said.contains("there is nothing to undo"), "{said}");
}

#[test]
fn an_interface_that_goes_away_is_noticed() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let (child, ..) = sending(&here, &there, || steering(&here, "rps:here"));
    here.ip("link del dev here");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = refusal(&here, HUMPYARD, "steer --undo here");
    assert!(said.contains("there is nothing to undo"), "{said}");
}

#[test]
fn a_command_that_steers_is_ended_by_another() {
    let Some(_turn) = turn() else { return };
    let (here, there) = pair_with_checksums();
    let (mut child, ..) = sending(&here, &there, || {
        let child = steering(&here, "cpumap:here");
        let said = refusal(&here, HUMPYARD, "steer --apply rps:here --policy hrw --for 100ms");
        assert!(said.contains("`here` is steered by another command already"), "{said}");
        child
    });
    let undone = document(&here.command(HUMPYARD).args(["steer", "--undo", "here", "--json"]).output().unwrap());
    assert_eq!(undone["ended"], child.id(), "{undone}");
    assert!(child.wait().unwrap().success());
    assert!(!here.ip("link show dev here").contains("xdp"), "the program is still there");
}

#[test]
fn a_table_for_a_fan_out_group_is_written_and_stays() {
    let Some(_turn) = turn() else { return };
    let (here, _there) = pair_with_checksums();
    let directory = tempfile::tempdir().unwrap();
    let (maps, object) = (directory.path().join("maps"), directory.path().join("lb.o"));
    std::fs::create_dir(&maps).unwrap();
    let words = format!(
        "steer --apply fanout:{} --maps {} --sockets 3 --policy rss++ --json --quiet",
        object.display(),
        maps.display()
    );
    let said = refusal(&here, HUMPYARD, &words);
    assert!(said.contains("is in no BPF file system") && !object.exists(), "{said}");
    let said = refusal(&here, HUMPYARD, &words.replace("--sockets 3", ""));
    assert!(said.contains("--sockets 4"), "{said}");
    std::fs::write(&object, "notes").unwrap();
    let said = refusal(&here, HUMPYARD, &words);
    assert!(said.contains("which is not an object file"), "{said}");
    std::fs::remove_file(&object).unwrap();
    let mount = |words: &str| {
        std::process::Command::new("sh").args(["-c", words]).arg("sh").arg(&maps).status().unwrap().success()
    };
    assert!(mount("mount -t bpf none $1"));
    let found = here.run(&format!("{HUMPYARD} {words} --until 500ms"));
    let again = here.run(&format!("{HUMPYARD} {words} --until 500ms"));
    assert!(mount("umount $1"));
    let changed = document(&found)["changed"][1].as_str().unwrap().to_owned();
    assert!(changed.contains("a table, which stays"), "{changed}");
    assert!(document(&again)["changed"][1].as_str().unwrap().ends_with("the table there is used"));
    assert!(std::fs::read(&object).unwrap().starts_with(b"\x7fELF"));
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
        ("--observe here --every 1ms", "--every: give 10ms at least; not `1ms`"),
        ("--observe here --for 0s", "--for: give the time of a sample at least, --every 100ms; not `0s`"),
        ("--observe here:0", "--observe: give the name of an interface, such as eth0; not `here:0`"),
        ("--observe cpumap:here", "--observe: give the name of an interface"),
        ("--apply cpumap:here:0 --policy hrw", "has the name of an interface behind its colon"),
        ("--apply cpumap:here --policy hrw --until 0s", "--until: give a time above 0, such as 30s; not `0s`"),
        ("--apply cpumap:here --policy hrw --rollback 0s", "--rollback: give a time above 0"),
        ("--apply cpumap:here --policy hrw --apply-if -5%", "give a part below 100%, such as 20%"),
        ("--apply cpumap:here --policy hrw --cost 8us", "--cost: only fanout:FILE has readers"),
        ("--apply cpumap:here --policy hrw --maps /tmp", "--maps: only fanout:FILE has readers"),
        ("--apply fanout:/tmp/lb.o --policy hrw --sockets 0", "it takes 1 to 65535"),
        ("--apply fanout:/tmp/lb.o --policy hrw --sockets 4 --cost 0s", "--cost: give a time above 0"),
        ("--observe here --record /dev/full", "`/dev/full` cannot be written: there is a device or a pipe"),
        ("--observe here --record /tmp", "`/tmp` cannot be written: this is no name of a file"),
        ("--from /tmp", "/tmp: this is a directory"),
        ("--observe here --buckets 100", "give a power of two, such as 128"),
        ("--observe here --policy hwr", "did you mean `hrw`"),
        ("--apply here --policy hrw", "unknown target `here`"),
        ("--apply rss:here --policy hrw", "the driver of `here` has no indirection table"),
        ("--apply rps:here --policy hrw --inner", "the hash of rps:here is not humpyard's"),
        ("--apply cpumap:here --policy hrw --sockets 3", "--sockets: only fanout:FILE has readers"),
        ("--observe here --until 1s", "cannot be used with"),
        ("--apply cpumap:here --policy drr", "`drr` does not steer packets to cores"),
        ("--observe here --policy drr", "`drr` does not steer packets to cores"),
        ("--apply rps:nowhere --policy hrw", "no interface `nowhere`"),
        ("--undo here", "there is nothing to undo"),
        ("--undo ../x", "--undo: give the name of an interface"),
        ("--apply cpumap:here", "steers by one policy"),
        ("--apply cpumap:here --policy hrw --guard 3s", "--guard: give at most 2s"),
        ("--from nowhere.jsonl --guard 3s", "--guard: give at most 2s"),
        ("--from nowhere.jsonl --hand-over 2ms", "--hand-over: give at most 1ms"),
        ("--from nowhere.jsonl --resume soon", "--resume: "),
        ("--from /etc/hostname", "line 1: this is no record"),
        ("--from /nowhere", "cannot be read"),
        ("--from /etc/hostname --report /etc/hostname", "would replace an input"),
    ] {
        let said = refusal(&here, HUMPYARD, &format!("steer {words}"));
        assert!(said.contains(expected), "{words}: {said}");
    }
    let words = format!("--inh-caps=-all --bounding-set=-all {HUMPYARD} steer --observe here");
    let said = refusal(&here, "setpriv", &words);
    assert!(said.contains("run it as root") && said.contains("CAP_NET_ADMIN"), "{said}");
}
