//! Workers that need no dispatcher: the kernel gives each the packets of its own connections.

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
