//! `validate`: a policy live and in the simulator, on what was measured. How near delays are is the machine's business; work and
//! throughput are the same packets, whatever it does meanwhile.

use std::fs;

use serde_json::Value;

use crate::support::{directory, run};

const SHORT: &str =
    "validate --input gen:imix:packets=4k --rate 100k --policy hrw --policy fcfs --costs fitted --quiet";

/// The document of a validation, which may miss its aims here.
fn validated(words: &str) -> Value {
    let directory = directory();
    let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
    let document = said.json();
    let missed = document["shortfalls"].as_array().map_or(0, Vec::len);
    assert_eq!(said.code, Some(i32::from(missed > 0)), "{said:?}");
    assert_eq!(said.err.lines().count(), missed, "{said:?}");
    document
}

#[test]
fn the_same_packets_make_the_same_work() {
    for workers in [0, 1] {
        let document = validated(&format!("{SHORT} --workers {workers} --services encrypt --json"));
        let policies = document["policies"].as_array().expect("policies");
        assert_eq!(policies.len(), 2);
        for policy in policies {
            assert_eq!(policy["packets"], 4_000, "{policy:#}");
            let figures = policy["figures"].as_array().expect("figures");
            let names: Vec<&str> = figures.iter().filter_map(|figure| figure["figure"].as_str()).collect();
            assert_eq!(names, ["throughput", "utilization", "p50", "p90", "p99", "ooo"]);
            for figure in &figures[..2] {
                let error = figure["replayed_error"].as_f64().expect("an error");
                assert!(error.abs() < 0.1, "{workers} workers: {figure:#}");
            }
            let line = &policy["line"][0];
            assert!(line["fixed_ns"].as_f64().is_some_and(|fixed| fixed >= 0.0), "{line:#}");
            assert!(policy["lacking"].as_array().is_some_and(|lacking| !lacking.is_empty()), "{policy:#}");
        }
    }
}

#[test]
fn a_rate_is_found_and_a_page_written() {
    let directory = directory();
    let words = "validate --input gen:imix:packets=3k --policy rr --workers 1 --services dpi --costs table:measured --report v.html";
    let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
    assert!(matches!(said.code, Some(0 | 1)), "{said:?}");
    for word in ["offered", "as measured", "by line", "utilization", "Lines: dpi: 138 ns", "The model lacks"] {
        assert!(said.out.contains(word), "`{word}` is not in {}", said.out);
    }
    let page = fs::read_to_string(directory.path().join("v.html")).expect("a page");
    assert!(page.contains("Is the simulator true?") && page.contains("p99"), "{page}");
}

#[test]
fn handing_over_takes_time_in_the_simulator() {
    let directory = directory();
    let p50 = |more: &str| {
        let words = format!("sim --input gen:poisson:packets=500,pps=1000 --policy hrw --json {more}");
        run(directory.path(), &words.split_whitespace().collect::<Vec<_>>()).json()["delay_ns"]["p50"].as_u64()
    };
    let (at_once, later) = (p50("").expect("a delay"), p50("--hand-over 100us").expect("a delay"));
    assert!((99_000..=101_000).contains(&(later - at_once)), "{at_once} {later}");
}

#[test]
fn slips_are_told_in_a_line() {
    let directory = directory();
    for (words, expected) in [
        ("validate --input - --policy hrw --costs fitted", "use a file"),
        ("validate --input gen:poisson:packets=10 --policy hwr", "did you mean `hrw`"),
        ("validate --input gen:poisson:packets=10 --swap 1ms=hrw", "--swap"),
        ("validate --input nowhere.pcap", "nowhere.pcap"),
        ("validate --input gen:poisson:packets=10 --services nothing", "nothing"),
        ("sim --input gen:poisson:packets=10 --policy hrw --hand-over 3", "--hand-over"),
    ] {
        let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, Some(2), "{words}: {said:?}");
        said.assert_one_line(&[expected]);
    }
}
