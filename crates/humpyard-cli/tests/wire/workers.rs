//! Workers that need no dispatcher: the kernel gives each the packets of its own connections.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use humpyard_testkit::network::{Line, turn};
use serde_json::Value;

use crate::data_plane::{DataPlane, frames, number, run};

const PACKETS: u64 = 20_000;

/// What a plane with these options has of traffic of both directions, some of it fragments, over both IPs.
fn passed(options: &str) -> Value {
    let line = Line::make();
    line.left.silence();
    line.right.silence();
    let words = "--input iface:ma:ring=67108864 --output iface:mb --policy steer=hrw/share=drr --clients connection \
                 --overload wait";
    let plane = DataPlane::start(&line.middle, &format!("{words} {options}"));
    let sent = run(
        &line.left,
        &format!(
            "--input gen:messages:packets={PACKETS} --rate 20000 --overload wait --output iface:va --services pass \
             --policy fcfs --workers 0"
        ),
    );
    assert_eq!(frames(&sent, "iface:va"), (0, PACKETS));
    thread::sleep(Duration::from_millis(300));
    let document = plane.end();
    assert_eq!((frames(&document, "iface:ma").0, frames(&document, "iface:mb").1), (PACKETS, PACKETS));
    document
}

#[test]
fn each_connection_is_with_one_worker() {
    let Some(_turn) = turn() else { return };
    let one = passed("--workers 0");
    let each = passed("--workers 3 --dispatchers 0");
    let clients = |document: &Value| number(&document["fairness"], "clients");
    // What two workers had would count twice.
    assert_eq!((number(&one, "flows"), clients(&one)), (number(&each, "flows"), clients(&each)));
    assert_eq!(number(&each["order"], "out_of_order"), 0, "{}", each["order"]);
    assert_eq!(number(&each, "dispatchers"), 0);
    let parts = each["dispatchers_detail"].as_array().expect("one for each worker");
    assert_eq!(parts.len(), 3);
    for part in parts {
        // A third each, if connections were alike.
        assert!(number(&part["packets"], "in") > PACKETS / 30, "{parts:?}");
    }
}

#[test]
fn without_being_asked_hash_policies_have_no_dispatcher() {
    let Some(_turn) = turn() else { return };
    let line = Line::make();
    for (options, dispatchers) in [
        ("--policy hrw --workers 2", 0),
        ("--policy conn --workers 2", 0),
        ("--policy hrw --workers 2 --dispatchers 1", 1),
        ("--policy rss++ --workers 2", 1),
        ("--policy drr --workers 2", 1),
        ("--policy hrw --workers 2 --inner gre", 1),
        ("--policy hrw --workers 2 --hash addresses", 1),
    ] {
        let document = run(&line.middle, &format!("--input iface:ma --output iface:mb --for 100ms {options}"));
        assert_eq!(document["dispatchers"].as_u64().unwrap_or(1), dispatchers, "{options}");
    }
    let said = line.middle.command(env!("CARGO_BIN_EXE_humpyard"));
    let output = { said }
        .args("run --input iface:ma --output iface:mb --policy drr --dispatchers 0".split_whitespace())
        .output()
        .expect("the binary starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("--dispatchers 0: drr needs a view of all cores") && error.lines().count() == 1, "{error}");
}

/// Sends traffic of 1,000 flows through a plane.
fn pass(line: &Line, packets: u64) {
    let words = format!(
        "--input gen:poisson:packets={packets},flows=1000 --rate 50000 --overload wait --output iface:va \
         --services pass --policy fcfs --workers 0"
    );
    assert_eq!(frames(&run(&line.left, &words), "iface:va"), (0, packets));
}

/// Writes a configuration of a plane with this policy.
fn configure(file: &Path, policy: &str, rest: &str) {
    let text = format!(
        "input = \"iface:ma:ring=67108864\"\noutput = \"iface:mb\"\noverload = \"wait\"\npolicy = \"{policy}\"\n{rest}\n"
    );
    fs::write(file, text).expect("a file");
}

/// Every worker takes over what the file says, and the kernel's table with it.
#[test]
fn workers_without_a_dispatcher_take_over_another_configuration() {
    let Some(_turn) = turn() else { return };
    let line = Line::make();
    line.left.silence();
    line.right.silence();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("run.toml");
    configure(&file, "hrw", "workers = 3");
    let mut plane = DataPlane::start(&line.middle, &format!("--config {} --quiet", file.display()));
    let mut sent = 0;
    for (policy, rest, expected) in [
        ("steer=hrw/share=wfq", "workers = 3", "is in force"),
        ("steer=conn/share=drr", "workers = 3\nin-flight = 3", "is in force"),
        ("rss++", "workers = 3", "this run has no dispatcher, and rss++ needs a view of all cores"),
        ("hrw", "workers = 2", "--dispatchers 0 keeps its 3 workers, and 2 are wanted"),
        ("hrw", "workers = 3\nbuffer = 100", "`buffer` cannot"),
        ("hrw:buckets=4096", "workers = 3", "is in force"),
    ] {
        pass(&line, 2000);
        sent += 2000;
        configure(&file, policy, rest);
        let said = plane.reload();
        assert!(said.contains(expected), "{policy}: {said}");
        assert!(expected == "is in force" || said.ends_with("; the run goes on as it was"), "{said}");
    }
    pass(&line, 2000);
    sent += 2000;
    thread::sleep(Duration::from_millis(300));
    let document = plane.end();
    assert_eq!((frames(&document, "iface:ma").0, frames(&document, "iface:mb").1), (sent, sent));
    assert_eq!((number(&document, "dispatchers"), number(&document, "reloads")), (0, 3));
    let in_force = document["policies"].as_array().expect("a list").iter().map(|one| one["policy"].as_str());
    let expected = ["hrw", "steer=hrw/share=wfq", "steer=conn/share=drr", "hrw:buckets=4096"].map(Some);
    assert!(in_force.eq(expected), "{}", document["policies"]);
    // A flow that another policy gives to another worker is seen by both.
    assert!(number(&document, "flows") > 1000, "{}", document["flows"]);
}

/// The table of the kernel stays where policies steer alike.
#[test]
fn no_flow_moves_where_policies_steer_alike() {
    let Some(_turn) = turn() else { return };
    let line = Line::make();
    line.left.silence();
    line.right.silence();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("run.toml");
    configure(&file, "steer=hrw/share=drr", "workers = 2");
    let mut plane = DataPlane::start(&line.middle, &format!("--config {} --quiet", file.display()));
    pass(&line, 20_000);
    configure(&file, "steer=hrw/share=wfq", "workers = 2");
    assert!(plane.reload().contains("is in force"));
    pass(&line, 20_000);
    thread::sleep(Duration::from_millis(300));
    let document = plane.end();
    assert_eq!((number(&document, "dispatchers"), number(&document, "reloads")), (0, 1));
    assert_eq!((number(&document, "flows"), number(&document["order"], "out_of_order")), (1000, 0));
}

/// Each worker writes a journal, and the list of them replays.
#[test]
fn workers_without_a_dispatcher_write_journals() {
    let Some(_turn) = turn() else { return };
    let line = Line::make();
    line.left.silence();
    let directory = tempfile::tempdir().expect("a directory");
    let journal = directory.path().join("run.jsonl");
    let words = format!(
        "--input iface:ma:ring=67108864 --output iface:mb --policy steer=hrw/share=drr --workers 3 --overload wait \
         --journal {}",
        journal.display()
    );
    let plane = DataPlane::start(&line.middle, &words);
    pass(&line, 5000);
    thread::sleep(Duration::from_millis(300));
    let document = plane.end();
    assert_eq!(number(&document, "dispatchers"), 0, "auto is none with a journal");
    let manifest: Value = serde_json::from_slice(&fs::read(&journal).expect("a file")).expect("a document");
    assert_eq!((&manifest["dispatchers"], &manifest["parted"]), (&0.into(), &"by-bucket".into()));
    let replay = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_humpyard"));
        let output = command.arg("replay").arg(&journal).args(more).arg("--json").output().expect("the binary starts");
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).expect("a document"))
    };
    let (code, replayed) = replay(&[]);
    assert_eq!((code, &replayed["divergence"]), (Some(0), &Value::Null));
    assert_eq!(replayed["journals"].as_array().map(Vec::len), Some(3));
    // An arrival, a dispatch and a completion at least of each packet.
    assert!(number(&replayed, "records") > 15_000, "{replayed}");
}
