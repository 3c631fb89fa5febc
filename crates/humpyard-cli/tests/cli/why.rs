//! `why`: the story of a packet, from a simulation and from journals.

use std::fs;

use serde_json::Value;

use crate::support::{directory, document, good, make_capture, number, real, refused, run};

const SIM: &str = "--input gen:messages:packets=3000 --cores 3 --load 0.9";

/// Panics unless the parts of a table add up.
fn assert_adds_up(table: &Value) {
    let total = number(table, "/total_ns");
    let parts = ["waiting", "switching", "dispatcher", "service", "exit"];
    assert_eq!(parts.map(|part| number(table, &format!("/parts/{part}_ns"))).iter().sum::<u64>(), total, "{table:#}");
    let causes = table["causes"].as_array().expect("a list");
    assert_eq!(causes.iter().map(|cause| number(cause, "/total_ns")).sum::<u64>(), total, "{table:#}");
    let flows = table["flows"].as_array().expect("a list");
    assert!(flows.len() <= 8, "{table:#}");
    let behind: u64 = flows.iter().map(|flow| number(flow, "/total_ns")).sum();
    assert_eq!(behind + number(table, "/other_flows/total_ns"), number(table, "/parts/waiting_ns"), "{table:#}");
    let mean: f64 = causes.iter().map(|cause| real(cause, "/mean_ns")).sum();
    assert!((mean - real(table, "/mean_ns")).abs() < 1e-3, "{table:#}");
}

#[test]
fn a_run_explains_its_p99_and_says_whom_to_blame() {
    let directory = directory();
    let at = directory.path();
    for (policy, words) in [
        ("hrw", &["`hrw` steered it to core", "On core "][..]),
        ("drr", &["`drr`", "first come, first served"]),
        ("steer=jsq/share=drr", &["`jsq` steered it to core", "When it came the backlogs were: core "]),
        ("fcfs", &["in service", "rest of the run as it was"]),
        ("shinjuku:quantum=40,idle=yield", &["in service", "after a quantum, and had its last turn on core "]),
    ] {
        let why = document(at, &format!("why {SIM} --policy {policy}"));
        assert_eq!((&why["asked"], &why["policy"]), (&"p99".into(), &policy.into()));
        assert_eq!((&why["damage"], &why["flow"]), (&Value::Null, &Value::Null));
        assert_adds_up(&why["packet"]["blame"]);
        assert_adds_up(&why["blame"]);
        assert_eq!(number(&why, "/packet/delay_ns"), number(&why, "/packet/blame/total_ns"));
        assert_eq!(number(&why, "/packet/delay_ns"), number(&why, "/delay_ns/p99"));
        assert_eq!(number(&why, "/blame/from_ns"), number(&why, "/delay_ns/p99"));
        assert_eq!((number(&why, "/packets/arrived"), number(&why, "/packets/left")), (3000, 3000));
        assert!((30..=60).contains(&number(&why, "/blame/packets")), "{:#}", why["blame"]);
        let said = good(at, &format!("why {SIM} --policy {policy}")).out;
        assert!(said.contains("at the p99 of the run") && said.contains("The slowest packets: "), "{said}");
        for word in words {
            assert!(said.contains(word), "{policy}: `{word}` is not in\n{said}");
        }
        // The simulation is that of `sim`.
        let sim = document(at, &format!("sim {SIM} --policy {policy}"));
        assert_eq!(number(&sim, "/delay_ns/max"), number(&why, "/delay_ns/max"), "{policy}");
    }
}

#[test]
fn a_switch_is_blamed_on_the_allocation() {
    let directory = directory();
    let services = "--services tcp=forward,udp=encrypt,other=forward --switch-cost 1us --tolerance 5us";
    let words = format!("why {SIM} {services} --policy everest");
    let why = document(directory.path(), &words);
    assert_adds_up(&why["blame"]);
    assert!(number(&why, "/blame/parts/switching_ns") > 0, "{:#}", why["blame"]);
    assert!(good(directory.path(), &words).out.contains("`everest` had given its service"));
}

#[test]
fn flows_and_packets_are_chosen() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 2000);
    let options = "--input in.pcap --policy drr --load 0.95";
    let whole = document(at, &format!("why {options}"));
    let flow = whole["packet"]["flow"].as_str().expect("a flow").to_owned();
    let bare = flow.split_once(' ').expect("a protocol").1;
    let typed = |arguments: &[&str]| {
        let words: Vec<&str> = "why".split(' ').chain(options.split(' ')).chain(arguments.iter().copied()).collect();
        run(at, &words)
    };
    for named in [flow.as_str(), bare] {
        let why = typed(&["--flow", named, "--json"]).json();
        assert_eq!((&why["asked"], &why["flow"]["flow"]), (&"flow".into(), &flow.as_str().into()));
        assert_eq!(number(&why, "/packet/delay_ns"), number(&why, "/flow/delay_ns/max"));
        assert_adds_up(&why["flow"]["blame"]);
        assert_eq!(number(&why, "/flow/blame/packets"), number(&why, "/flow/packets/left"));
    }
    let said = typed(&["--flow", bare]);
    assert!(said.out.starts_with(&format!("Flow {flow}: ")) && said.code == Some(0), "{said:?}");
    assert!(!said.out.contains("One alone:"), "{said:?}");
    let there = typed(&["--flow", bare, "--json"]).json();
    let (from, to) = bare.split_once(" > ").expect("two sides");
    let both = typed(&["--flow", &format!("{from} <> {to}"), "--json"]).json();
    let arrived = |why: &Value| number(why, "/flow/packets/arrived");
    let other = both.pointer("/flow/other_flows/0").and_then(Value::as_str);
    match other {
        Some(other) => {
            let back = typed(&["--flow", other, "--json"]).json();
            assert_eq!(arrived(&both), arrived(&there) + arrived(&back));
        }
        None => assert_eq!(arrived(&both), arrived(&there), "it has one direction"),
    }
    let one = document(at, &format!("why {options} --packet 17"));
    assert_eq!((number(&one, "/packet/number"), &one["asked"]), (17, &"packet".into()));
    let missing = typed(&["--flow", "udp 1.2.3.4:5 > 6.7.8.9:10"]);
    assert!(missing.code == Some(2) && missing.out.is_empty(), "{missing:?}");
    missing.assert_one_line(&["--flow names no flow of this run", "`humpyard trace info in.pcap` lists"]);
    let near = typed(&["--flow", &flow[..flow.len() - 1]]);
    near.assert_one_line(&["did you mean `"]);
    for (words, expected) in [
        (format!("why {options} --packet 2001"), "--packet takes 1 to 2000, the packets of this run, not `2001`"),
        (format!("why {options} --packet 0"), "0 is less than 1"),
        (format!("why {options} --packet 1 --flow a"), "cannot be used with"),
        ("why --input in.pcap".to_owned(), "--policy"),
        ("why --policy drr".to_owned(), "--input"),
        ("why --input nowhere.pcap --policy drr".to_owned(), "nowhere.pcap"),
        (format!("why {options} --costs table:banana"), "banana"),
    ] {
        refused(at, &words, &[expected]);
    }
}

#[test]
fn dropped_packets_have_a_story_too() {
    let directory = directory();
    let words = "why --input gen:poisson:packets=2000 --policy fcfs --cores 1 --load 3 --buffer 16";
    let why = document(directory.path(), words);
    let dropped = number(&why, "/packets/dropped");
    assert!(dropped > 500 && dropped + number(&why, "/packets/left") == 2000, "{:#}", why["packets"]);
    let stories = (1500..1600).map(|packet| document(directory.path(), &format!("{words} --packet {packet}")));
    let story = stories.into_iter().find(|why| why["packet"]["fate"] == "buffer_full").expect("one is dropped");
    assert!(story["packet"]["delay_ns"].is_null(), "{:#}", story["packet"]);
    let heading = story["packet"]["words"]["heading"].as_str().expect("a sentence");
    assert!(heading.ends_with("and was dropped: buffer_full."), "{heading}");
}

#[test]
fn journals_are_read_instead() {
    let directory = directory();
    let at = directory.path();
    for policy in ["hrw", "drr", "steer=hrw/share=sfq"] {
        document(at, &format!("sim {SIM} --policy {policy} --journal j.jsonl"));
        let mut simulated = document(at, &format!("why {SIM} --policy {policy}"));
        let mut read = document(at, "why --journal j.jsonl");
        assert_eq!((&read["is_journal"], &read["input"]), (&true.into(), &"j.jsonl".into()));
        for key in ["is_journal", "input"] {
            (simulated[key], read[key]) = (Value::Null, Value::Null);
        }
        assert_eq!(simulated, read, "{policy}");
    }
    document(at, "run --input gen:messages:packets=3000 --rate 300k --policy hrw --workers 2 --journal live.jsonl");
    let live = document(at, "why --journal live.jsonl");
    assert_adds_up(&live["blame"]);
    assert_adds_up(&live["packet"]["blame"]);
    assert!(good(at, "why --journal live.jsonl --packet 5").out.contains("`hrw` steered it to core "));
    fs::write(at.join("bad.jsonl"), "{}\n").unwrap();
    let text = fs::read_to_string(at.join("j.jsonl")).unwrap();
    fs::write(at.join("cut.jsonl"), &text[..text.len() / 2]).unwrap();
    document(at, "run --input gen:messages:packets=500 --policy hrw --workers 2 --dispatchers 2 --journal two.jsonl");
    for (words, expected) in [
        ("why --journal missing.jsonl", "cannot read the journal `missing.jsonl`"),
        ("why --journal bad.jsonl", "`bad.jsonl` is no journal of humpyard"),
        ("why --journal cut.jsonl", "the journal is cut"),
        ("why --journal two.jsonl", "name one of them, `two.jsonl.1`, `two.jsonl.2`"),
        ("why --journal j.jsonl --packet 3001", "--packet takes 1 to 3000"),
        ("why --journal j.jsonl --flow nobody", "its lines that begin with {\"flow\": name all, "),
        ("why --journal j.jsonl --load 0.9", "leave out --load"),
        ("why --journal j.jsonl --policy drr", "cannot be used with"),
    ] {
        refused(at, words, &[expected]);
    }
    assert!(good(at, "why --journal two.jsonl.1").out.contains("Packet "));
}

/// The first difference of a replay stands in sentences behind the two answers.
#[test]
fn replays_say_in_words_how_policies_differ() {
    let directory = directory();
    let at = directory.path();
    for (recorded, other, words) in [
        ("hrw", "conn", &["`hrw` steered it to core ", "`conn` steers it to core ", "`hrw` went by "][..]),
        ("drr", "sfq", &["was free: `drr` gave it packet ", "`sfq` gives it packet ", "knew of the same client"]),
    ] {
        document(at, &format!("sim {SIM} --policy {recorded} --journal j.jsonl"));
        let said = run(at, &["replay", "j.jsonl", "--policy", other]);
        assert_eq!(said.code, Some(1), "{said:?}");
        for word in words {
            assert!(said.out.contains(word), "`{word}` is not in\n{}", said.out);
        }
        let parted = run(at, &["replay", "j.jsonl", "--policy", other, "--json"]).json();
        assert!(!parted["divergence"]["words"].as_array().expect("sentences").is_empty(), "{parted:#}");
    }
}

/// A configuration file of `sim` says what is simulated; the journal that it has written is not read.
#[test]
fn a_configuration_file_is_taken() {
    let directory = directory();
    let file = "input = \"gen:messages:packets=900\"\npolicy = \"drr\"\ncores = 3\nload = 0.8\njournal = \"j.jsonl\"\n";
    fs::write(directory.path().join("run.toml"), file).unwrap();
    let why = document(directory.path(), "why --config run.toml");
    assert_eq!((&why["is_journal"], &why["cores"], &why["policy"]), (&false.into(), &3.into(), &"drr".into()));
    assert_eq!(crate::support::files(directory.path()), ["run.toml"]);
}

/// Lines fit 120 columns.
#[test]
fn the_story_fits_the_terminal() {
    let directory = directory();
    let mut command =
        crate::support::humpyard(directory.path(), &format!("why {SIM} --policy drr").split(' ').collect::<Vec<_>>());
    let output = command.env("COLUMNS", "120").output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}
