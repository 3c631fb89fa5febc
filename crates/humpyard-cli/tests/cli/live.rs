//! `run`: real captures through real threads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{
    Said, assert_balanced, captures, directory, document, files, good, humpyard, make_capture, number, packets_in,
    real, run, sum,
};

#[test]
fn every_policy_forwards_a_real_capture_with_any_number_of_workers() {
    let Some(traces) = captures("every_policy_forwards_a_real_capture") else { return };
    let directory = directory();
    let capture = traces.join("industrial/right.pcap").display().to_string();
    let policies = document(directory.path(), "list policies");
    let policies = policies.as_array().expect("a list");
    assert!(policies.len() >= 7);
    // Only a simulation knows all packets beforehand, or adds the work of a history.
    let names = policies
        .iter()
        .map(|policy| policy["name"].as_str().expect("a name"))
        .filter(|&name| !["t-opt", "scr"].contains(&name));
    for policy in names {
        for workers in 0..=3 {
            let words =
                format!("run --input {capture} --output out.pcap --policy {policy} --workers {workers} --quiet");
            let result = document(directory.path(), &words);
            assert_balanced(&result);
            assert_eq!(number(&result, "/packets/in"), 35_067);
            assert_eq!((number(&result, "/packets/held"), sum(&result, "/packets/dropped")), (0, 0), "{words}");
            let forwarded = number(&result, "/packets/forwarded");
            assert!(forwarded > 20_000, "{words}");
            assert_eq!(packets_in(directory.path(), "out.pcap"), forwarded, "{words}");
            let cores = result["cores_detail"].as_array().expect("cores");
            assert_eq!(cores.len(), workers.max(1));
            assert_eq!(result["environment"]["threads"].as_array().expect("threads").len(), workers + 1);
            if ["hrw", "conn", "drr", "sfq"].contains(&policy) {
                assert_eq!(number(&result, "/order/out_of_order"), 0, "{words}");
            }
        }
    }
    assert_eq!(files(directory.path()), ["out.pcap"]);
}

/// The smallest capture of each link type, of some packets.
pub(crate) fn by_link_type(traces: &Path) -> BTreeMap<String, PathBuf> {
    let manifest = fs::read_to_string(traces.join("MANIFEST.csv")).expect("a manifest");
    let mut smallest: BTreeMap<String, (u64, PathBuf)> = BTreeMap::new();
    for line in manifest.lines().skip(1) {
        let (Some((file, _)), Some((_, link))) = (line.split_once(','), line.rsplit_once(',')) else { continue };
        let file = traces.join(file);
        let bytes = file.metadata().expect("a file of the manifest").len();
        if bytes > 1000 && smallest.get(link).is_none_or(|(known, _)| bytes < *known) {
            smallest.insert(link.to_owned(), (bytes, file));
        }
    }
    smallest.into_iter().map(|(link, (_, file))| (link, file)).collect()
}

#[test]
fn captures_of_every_link_type_are_accounted_for() {
    let Some(traces) = captures("captures_of_every_link_type_are_accounted_for") else { return };
    let directory = directory();
    let by_link = by_link_type(&traces);
    assert!(by_link.len() >= 5, "{by_link:?}");
    for (link, capture) in by_link {
        let arrived = packets_in(directory.path(), &capture.display().to_string());
        for output in ["out.pcap", "out.pcapng", "out.pcap.gz", "out.pcapng.zst"] {
            let words = format!("run --input {} --output {output} --policy conn", capture.display());
            let result = document(directory.path(), &words);
            assert_balanced(&result);
            assert_eq!(number(&result, "/packets/in"), arrived, "link type {link}: {words}");
            assert_eq!(packets_in(directory.path(), output), number(&result, "/packets/forwarded"), "{words}");
        }
    }
}

#[test]
fn a_pipe_goes_in_and_a_pipe_comes_out() {
    let directory = directory();
    make_capture(directory.path(), "in.pcap", 2000);
    let input = fs::File::open(directory.path().join("in.pcap")).unwrap();
    let words = ["run", "--policy", "hrw", "--input", "-", "--output", "-", "--quiet"];
    let output = humpyard(directory.path(), &words).stdin(input).output().unwrap();
    fs::write(directory.path().join("out.pcap"), &output.stdout).unwrap();
    let said = Said::of(output);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("2000 in = 2000 processed + 0 held + 0 dropped"), "the summary goes elsewhere: {said:?}");
    assert_eq!(packets_in(directory.path(), "out.pcap"), 2000);
    assert_eq!(files(directory.path()), ["in.pcap", "out.pcap"]);
}

#[test]
fn what_is_dropped_has_its_reason() {
    let directory = directory();
    let base = "run --input gen:messages:packets=30000 --policy";
    let result = document(directory.path(), &format!("{base} drr --rate 1G --buffer 4 --workers 1"));
    assert_balanced(&result);
    assert!(number(&result, "/packets/dropped/buffer_full") > 0);
    let result = document(directory.path(), &format!("{base} drr --rate 1G --buffer 4 --workers 1 --overload wait"));
    assert_eq!(sum(&result, "/packets/dropped"), 0);
    let result = document(directory.path(), &format!("{base} fcfs --rate 1G --queue-limit 3"));
    assert!(number(&result, "/packets/dropped/queue_full") > 0);
    let result = document(directory.path(), &format!("{base} drr --rate 1G --client-limit 1"));
    assert!(number(&result, "/packets/dropped/client_full") > 0);
    let result =
        document(directory.path(), &format!("{base} hrw --services forward:routes=0.0.0.0/0=discard;::/0=local"));
    assert_balanced(&result);
    assert!(number(&result, "/packets/dropped_out/route_discard") > 10_000);
    assert!(number(&result, "/packets/consumed") > 5_000);
    assert_eq!(number(&result, "/packets/forwarded"), 0);
}

/// `forward` does not panic, so the quarantine is a capture of nothing; the tests of the live driver fill it.
#[test]
fn a_quarantine_is_a_capture() {
    let directory = directory();
    for quarantine in ["bad.pcap", "bad.pcapng", "bad.pcapng.zst"] {
        let words = "run --input gen:messages:packets=2000 --policy hrw --output out.pcap --quarantine";
        let result = document(directory.path(), &format!("{words} {quarantine}"));
        assert_balanced(&result);
        assert_eq!((&result["options"]["quarantine"], &result["panic"]), (&quarantine.into(), &Value::Null));
        assert_eq!(packets_in(directory.path(), quarantine), 0);
    }
    assert_eq!(files(directory.path()), ["bad.pcap", "bad.pcapng", "bad.pcapng.zst", "out.pcap"]);
}

#[test]
fn services_by_kind_of_packet_are_counted_apart() {
    let directory = directory();
    let words = "run --input gen:messages:packets=20000,expiring=0 --policy static --workers 3 \
                 --services tcp=forward,udp=forward:checksum=fill,icmp-burst=8,other=forward --guarantee tcp=0.5 \
                 --tolerance 5ms --tolerance udp=1s";
    let result = document(directory.path(), words);
    let names: Vec<&Value> = result["services"].as_array().expect("services").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["tcp", "udp", "other"]);
    let packets = |index| number(&result, &format!("/services/{index}/packets"));
    assert_eq!(packets(0) + packets(1), 20_000);
    assert!(packets(0) > 5_000 && packets(1) > 2_000);
    assert_eq!(number(&result, "/services/0/tolerance_ns"), 5_000_000);
    assert_eq!(number(&result, "/services/1/tolerance_ns"), 1_000_000_000);
}

#[test]
fn a_run_can_be_repeated_paced_and_limited_in_time() {
    let directory = directory();
    make_capture(directory.path(), "in.pcap", 500);
    let result = document(directory.path(), "run --input in.pcap --loop 4 --policy hrw");
    assert_eq!(number(&result, "/packets/processed"), 2000);
    let result = document(directory.path(), "run --input in.pcap --policy hrw --rate 5k");
    assert!(number(&result, "/duration_ns") >= 99_000_000);
    let result = document(directory.path(), "run --input gen:poisson:packets=1G --policy hrw --for 300ms");
    assert_balanced(&result);
    assert!(real(&result, "/measured/wall_ns") < 20e9);
    assert_eq!(result["interrupted"], false);
}

#[test]
fn a_live_comparison_gives_all_the_same_packets() {
    let directory = directory();
    let words = "compare --live --input gen:messages:packets=20000 --policy rr --policy hrw --policy drr --workers 2";
    let comparison = document(directory.path(), words);
    let runs = comparison["runs"].as_array().expect("runs");
    let policies: Vec<&Value> = runs.iter().map(|run| &run["policy"]).collect();
    assert_eq!(policies, ["rr", "hrw", "drr"]);
    for run in runs {
        assert_balanced(run);
        assert_eq!((&run["packets"]["in"], &run["bytes"]), (&runs[0]["packets"]["in"], &runs[0]["bytes"]));
        assert_eq!(run["environment"]["threads"], runs[0]["environment"]["threads"], "each has the same processors");
    }
}

#[test]
fn a_summary_for_people_is_on_the_standard_output() {
    let directory = directory();
    let said = good(directory.path(), "run --input gen:poisson:packets=1000 --policy hrw");
    for word in ["policy", "hrw (live, 2 workers)", "1000 in = 1000 processed", "dispatcher", "worker 1"] {
        assert!(said.out.contains(word), "`{word}` is not in:\n{}", said.out);
    }
    let said = run(directory.path(), &["demo", "--packets", "5000", "--workers", "1", "--quiet"]);
    assert!(said.code == Some(0) && said.err.is_empty(), "{said:?}");
}

/// Where there are no counters, or they are not permitted, one line says so, and the run goes on.
#[test]
fn hardware_counts_or_says_why_not() {
    let directory = directory();
    let run = "run --input gen:poisson:packets=2k --policy hrw --workers 2 --quiet";
    let result = document(directory.path(), &format!("{run} --counters"));
    let hardware = &result["measured"]["hardware"];
    let threads = hardware["threads"].as_array().expect("threads");
    let names: Vec<&str> = threads.iter().filter_map(|thread| thread["thread"].as_str()).collect();
    // A worker on the dispatcher's processor, or on that of another worker, has no thread of its own.
    let all = ["dispatcher", "worker 0", "worker 1"];
    assert!(names.first() == Some(&"dispatcher") && names == all[..names.len()], "{names:?}");
    let missing = hardware["missing"].as_str().unwrap_or_default();
    for (key, name) in [("cycles", "cycles"), ("instructions", "instructions"), ("cache_misses", "cache misses")] {
        for thread in threads {
            assert!(thread[key].is_u64() || missing.contains(name), "{key}: {hardware}");
        }
    }
    let said = good(directory.path(), &format!("{run} --counters")).out;
    assert!(said.lines().any(|line| line.starts_with("hardware ")), "{said}");
    assert_eq!(document(directory.path(), run)["measured"]["hardware"], Value::Null);
    let alone = document(directory.path(), &format!("{run} --counters").replace("--workers 2", "--workers 0"));
    assert_eq!(alone["measured"]["hardware"]["threads"].as_array().map(Vec::len), Some(1));
}
