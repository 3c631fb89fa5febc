//! Topologies: shown, written, read again, and what runs make of them.

use std::path::Path;

use serde_json::Value;

use crate::support::{directory, document, good, run};

/// What is said of a command that is refused.
fn refused(directory: &Path, words: &str) -> String {
    let said = run(directory, &words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(said.code, Some(2), "{words}: {said:?}");
    said.assert_one_line(&[]);
    said.err
}

#[test]
fn a_machine_by_name_is_shown() {
    let directory = directory();
    let at = directory.path();
    let said = good(at, "topology e5355").out;
    for line in ["e5355: 8 cores", "socket 1", "  l2 2", "    cores 4-5", "other_socket"] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    let shown = document(at, "topology e5355");
    assert_eq!(shown["matrix"][0], serde_json::json!([1.0, 1.1, 1.4, 1.4, 2.0, 2.0, 2.0, 2.0]));
    assert_eq!(shown["levels"][1]["groups"], serde_json::json!([0, 0, 1, 1, 2, 2, 3, 3]));
    assert_eq!(document(at, "topology epyc-2p")["cores"], 128);
    assert_eq!(document(at, "topology numa4x16")["levels"][0]["kind"], "node");
}

#[test]
fn this_machine_is_shown_by_its_processors() {
    if !Path::new("/sys/devices/system/cpu/cpu0/topology").is_dir() {
        return;
    }
    let directory = directory();
    let shown = document(directory.path(), "topology");
    let processors = shown["processors"].as_array().expect("processors");
    assert_eq!((shown["name"].as_str(), shown["cores"].as_u64()), (Some("machine"), Some(processors.len() as u64)));
}

#[test]
fn what_is_written_is_read_again() {
    let directory = directory();
    let at = directory.path();
    good(at, "topology 2x4:3.0,1.25 --output mine.toml --plot mine.svg");
    let (written, read) = (document(at, "topology 2x4:3.0,1.25"), document(at, "topology mine.toml"));
    assert_eq!((&written["matrix"], &written["levels"]), (&read["matrix"], &read["levels"]));
    let drawn = std::fs::read_to_string(at.join("mine.svg")).expect("a plot");
    let drawn = roxmltree::Document::parse(&drawn).expect("well-formed XML");
    let cells = drawn.descendants().filter(|node| node.has_tag_name("rect")).count();
    assert_eq!(cells, 64);
}

#[test]
fn errors_have_their_place_and_a_way_out() {
    let directory = directory();
    let at = directory.path();
    std::fs::write(at.join("bad.toml"), "version = 1\nlevels = [{ kind = \"core\" }]\ncores = [0, 0]\n")
        .expect("a file");
    for (command, said) in [
        ("topology e5356", "did you mean `e5355`?"),
        ("topology 2x", "2x4x2 for example"),
        ("topology flat", "name another, e5355 for example"),
        ("topology none.toml", "none.toml: there is no such topology; `humpyard topology machine --output none.toml`"),
        ("topology bad.toml", "bad.toml:3:13: processor 0 is named twice"),
        ("sim --input gen:poisson:packets=9 --policy rr --topology bad.toml", "--topology: bad.toml:3:13: processor 0"),
        ("sim --input gen:poisson:packets=9 --policy rr --topology e5355", "have as many (--cores 8)"),
        ("run --input gen:poisson:packets=9 --policy rr --topology e5355", "have as many (--workers 8)"),
    ] {
        let error = refused(at, command);
        assert!(error.contains(said), "{command}: {error}");
    }
}

/// Under `rr` flows go from core to core, under `hrw` they stay; a move costs what the table says.
#[test]
fn moves_between_caches_are_counted_and_charged() {
    let directory = directory();
    let input = "--input gen:poisson:packets=20k --cores 8 --load 0.5 --quiet";
    let of = |words: &str| document(directory.path(), &format!("sim {input} {words}"));
    let moving = of("--policy rr --topology e5355 --costs table:ps-hrw");
    let cache = &moving["cache"];
    let (moves, away) = (cache["moves_per_packet"].as_f64().unwrap(), cache["bytes_away_fraction"].as_f64().unwrap());
    assert!(moves > 0.5 && away > 0.3 && away < moves, "{cache}");
    let sum: u64 =
        ["shared_l2", "same_socket", "other_socket"].map(|key| cache[key]["packets"].as_u64().unwrap()).iter().sum();
    assert_eq!(cache["moves"].as_u64(), Some(sum));
    let busy = |result: &Value| -> f64 {
        result["cores_detail"].as_array().unwrap().iter().map(|core| core["utilization"].as_f64().unwrap()).sum()
    };
    let staying = of("--policy hrw --topology e5355 --costs table:ps-hrw");
    assert_eq!(staying["cache"]["moves"], 0);
    let free = of("--policy rr --costs table:ps-hrw");
    assert_eq!((&free["cache"], &free["options"]["topology"]), (&Value::Null, &"flat".into()));
    assert!(busy(&moving) > 1.1 * busy(&free), "{} {}", busy(&moving), busy(&free));
}

#[test]
fn a_comparison_shows_what_moved_where_there_is_a_topology() {
    let directory = directory();
    let compare = "compare --input gen:poisson:packets=5k --policy rr --policy hrw --cores 4 --load 0.5 --quiet";
    let with = good(directory.path(), &format!("{compare} --topology 2x2")).out;
    let again = good(directory.path(), &format!("{compare} --topology 2x2 --repeat 2")).out;
    for said in [&with, &again] {
        assert!(said.contains("bytes away") && said.contains("moved "), "{said}");
    }
    let without = good(directory.path(), compare).out;
    assert!(!without.contains("bytes away"), "{without}");
    let alone = format!("{compare} --costs table:ps-hrw").replace("--policy hrw", "");
    let said = run(directory.path(), &alone.split_whitespace().collect::<Vec<_>>()).err;
    assert!(said.contains("does nothing without a topology"), "{said}");
}

#[test]
fn live_workers_have_the_place_of_their_processor() {
    let directory = directory();
    let at = directory.path();
    let words = "run --input gen:poisson:packets=2k --policy h-cahrw --quiet";
    let machine = document(at, "topology");
    let result = document(at, words);
    assert_eq!(result["options"]["topology"], "machine");
    let processors = machine["processors"].as_array().expect("processors");
    for seat in result["environment"]["threads"].as_array().expect("threads") {
        assert!(processors.contains(&seat["processor"]), "{seat}");
    }
    let flat = document(at, &format!("{words} --topology flat"));
    assert_eq!((&flat["cache"], &flat["options"]["topology"]), (&Value::Null, &"flat".into()));
    assert!(document(at, &format!("{words} --workers 4 --topology 2x2"))["cache"].is_object());
    std::fs::write(at.join("away.toml"), "version = 1\nlevels = [{ kind = \"core\" }]\ncores = [900, 901]\n")
        .expect("a file");
    let error = refused(at, &format!("{words} --topology away.toml"));
    assert!(error.contains("it has no processor"), "{error}");
}
