//! SIGHUP: a run reads its configuration file again, and goes on as it says, with nothing lost and no flow reordered.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::signals::{signal, start};
use crate::support::{assert_balanced, directory, document, number};

/// Writes the configuration of a run.
fn configure(directory: &Path, policy: &str, workers: u32, rest: &str) {
    let text = format!(
        "input = \"gen:poisson:packets=1G,flows=100\"\nrate = \"line\"\npolicy = \"{policy}\"\nworkers = {workers}\n{rest}\n"
    );
    fs::write(directory.join("run.toml"), text).unwrap();
}

/// Sends SIGHUP, and gives the line that the run says to it.
fn reload(child: &Child, lines: &mut impl Iterator<Item = std::io::Result<String>>) -> String {
    signal(child, "HUP");
    lines.next().expect("it reports the outcome").expect("text")
}

/// Ends a run, and gives its document.
fn end(child: Child) -> Value {
    signal(&child, "TERM");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("a document")
}

#[test]
fn policies_weights_and_workers_change_under_way() {
    let directory = directory();
    configure(directory.path(), "hrw", 2, "");
    let mut child = start(directory.path(), "run --config run.toml --metrics 127.0.0.1:0 --quiet --json");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let said = lines.next().expect("where the metrics are").expect("text");
    let address = said.strip_prefix("humpyard: metrics at http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("no address: {said}"));
    let changes = [
        ("drr", 2, ""),
        ("steer=conn/share=wfq", 3, "weights = [3, 1, 4]"),
        ("static", 1, "weights = [3, 1]"),
        ("everest", 3, ""),
        ("gr3", 0, ""),
        ("gr3", 2, "in-flight = 4"),
        ("gr3", 2, "in-flight = 1000"),
        ("hrw", 2, ""),
    ];
    for (policy, workers, rest) in changes {
        sleep(Duration::from_millis(200));
        configure(directory.path(), policy, workers, rest);
        let said = reload(&child, &mut lines);
        assert!(said.contains("is in force"), "{policy}: {said}");
        // Metrics are published ten times a second; on a busy machine later.
        let mut seen = (0..100).map(|_| {
            sleep(Duration::from_millis(100));
            document(directory.path(), &format!("top {address} --once"))
        });
        let seen = seen.find(|seen| seen["policy"] == policy);
        assert!(seen.is_some(), "{policy} is never shown");
    }
    sleep(Duration::from_millis(200));
    let document = end(child);
    assert_eq!(number(&document, "/reloads"), changes.len() as u64);
    // Other workers or packets in flight alone are no other policies.
    let in_force = document["policies"].as_array().expect("a list").iter().map(|one| one["policy"].as_str());
    let expected = ["hrw", "drr", "steer=conn/share=wfq", "static", "everest", "gr3", "hrw"].map(Some);
    assert!(in_force.eq(expected) && document["policy"] == "hrw", "{}", document["policies"]);
    assert!(number(&document, "/packets/in") > 1000);
    assert_eq!(document["packets"]["dropped"], serde_json::json!({}));
    assert_balanced(&document);
}

/// Clients that are withheld for the link are so from the policies that take over, too.
#[test]
fn a_link_stays_behind_the_policies_that_take_over() {
    let directory = directory();
    let link = "link = \"200Mbit:queue=4\"";
    configure(directory.path(), "efq", 2, link);
    let mut child = start(directory.path(), "run --config run.toml --quiet --json");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    for (policy, workers) in [("drr", 3), ("hrw/wfq", 2), ("sfq", 0), ("efq", 2)] {
        sleep(Duration::from_millis(200));
        configure(directory.path(), policy, workers, link);
        let said = reload(&child, &mut lines);
        assert!(said.contains("is in force"), "{said}");
    }
    configure(directory.path(), "hrw", 2, link);
    let said = reload(&child, &mut lines);
    assert!(said.contains("name a sharing policy") && said.contains("goes on as it was"), "{said}");
    sleep(Duration::from_millis(200));
    let document = end(child);
    assert_eq!((number(&document, "/reloads"), &document["packets"]["dropped_out"]), (4, &serde_json::json!({})));
    assert!(number(&document, "/link/withheld") > 10, "{}", document["link"]);
    assert_eq!((number(&document, "/link/held"), number(&document, "/link/sent")), (0, number(&document, "/link/in")));
    assert_balanced(&document);
}

#[test]
fn flows_keep_their_order_when_policies_that_keep_it_take_over() {
    let directory = directory();
    configure(directory.path(), "hrw", 1, "");
    let mut child = start(directory.path(), "run --config run.toml --quiet --json");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    for (policy, workers) in [("drr", 3), ("conn", 2), ("wfq", 2), ("hrw", 3)] {
        sleep(Duration::from_millis(200));
        configure(directory.path(), policy, workers, "");
        assert!(reload(&child, &mut lines).contains("is in force"));
    }
    sleep(Duration::from_millis(200));
    let document = end(child);
    assert_eq!(number(&document, "/order/out_of_order"), 0, "{}", document["order"]);
    assert_balanced(&document);
}

#[test]
fn what_cannot_change_is_told_and_the_run_goes_on() {
    let directory = directory();
    configure(directory.path(), "hrw", 1, "");
    let mut child = start(directory.path(), "run --config run.toml --quiet --json");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    for (policy, rest, expected) in [
        ("hrv", "", "did you mean `hrw`?"),
        ("hrw", "buffer = 100", "`buffer` cannot"),
        ("hrw", "bufer = 100", "run.toml"),
        ("ps", "", "`ps` has a quantum"),
    ] {
        configure(directory.path(), policy, 1, rest);
        let said = reload(&child, &mut lines);
        assert!(said.contains(expected) && said.contains("goes on as it was"), "{said}");
    }
    assert_eq!(number(&end(child), "/reloads"), 0);
}

#[test]
fn all_of_several_dispatchers_take_over() {
    let directory = directory();
    let configure = |policy: &str, workers, rest: &str| {
        configure(directory.path(), policy, workers, &format!("dispatchers = 2\n{rest}"));
    };
    configure("hrw", 3, "");
    let mut child = start(directory.path(), "run --config run.toml --quiet --json");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    for (policy, workers, rest, expected) in [
        ("drr", 3, "", "is in force"),
        ("steer=conn/share=wfq", 3, "in-flight = 4", "is in force"),
        ("drr", 4, "", "--dispatchers 2 keeps its 3 workers, and 4 are wanted"),
        ("drr", 3, "weights = [3, 1]", "do not go with --weights"),
        ("everest", 3, "services = [\"tcp=forward\", \"other=forward\"]", "`services` cannot"),
        ("hrw", 3, "", "is in force"),
    ] {
        sleep(Duration::from_millis(200));
        configure(policy, workers, rest);
        let said = reload(&child, &mut lines);
        assert!(said.contains(expected), "{policy}: {said}");
        assert!(expected == "is in force" || said.ends_with("; the run goes on as it was"), "{said}");
    }
    sleep(Duration::from_millis(200));
    let document = end(child);
    assert_balanced(&document);
    assert_eq!((number(&document, "/reloads"), number(&document, "/dispatchers")), (3, 2));
    let in_force = document["policies"].as_array().expect("a list").iter().map(|one| one["policy"].as_str());
    assert!(in_force.eq(["hrw", "drr", "steer=conn/share=wfq", "hrw"].map(Some)), "{}", document["policies"]);
    assert!(number(&document, "/measured/swap_pause_max_ns") > 0);
    // Both have packets at the end, and no flow has been overtaken.
    for part in document["dispatchers_detail"].as_array().expect("one each") {
        assert!(number(part, "/packets/in") > 1000, "{part}");
    }
    assert_eq!(number(&document, "/order/out_of_order"), 0, "{}", document["order"]);
}
