//! Load, rate and cores: what traffic a run is offered, and that the same options offer the same on any number of cores.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{directory, document, good, make_capture, number, real, run};

/// A document without what is different in every run, and without these keys of its options.
fn same(mut document: Value, but: &[&str]) -> Value {
    let object = document.as_object_mut().expect("an object");
    object.remove("measured");
    object.remove("environment");
    let options = object.get_mut("options").and_then(Value::as_object_mut).expect("options");
    but.iter().for_each(|name| drop(options.remove(*name)));
    document
}

fn rate(document: &Value) -> f64 {
    real(document, "/offered/packets_per_second")
}

fn assert_near(one: f64, other: f64) {
    assert!((one / other - 1.0).abs() < 1e-3, "{one} is not {other}");
}

#[test]
fn a_load_of_named_cores_is_the_same_traffic_on_any_number_of_cores() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 3_000);
    let sim = |words: &str| document(at, &format!("sim --input in.pcap --policy hrw --load 0.8 {words}"));
    let eight = sim("--cores 8");
    assert_eq!(number(&eight, "/offered/load/cores"), 8);
    assert_near(real(&eight, "/offered/load/value"), 0.8);
    assert_eq!(same(eight.clone(), &[]), same(sim("--cores 8 --of 8"), &["of"]));
    let ten = sim("--cores 10 --of 8");
    assert_eq!(ten["offered"], eight["offered"]);
    assert_eq!(ten["options"]["of"], "8");
    assert_near(rate(&sim("--cores 10")) / rate(&eight), 1.25);
    // Half as fast, and two to an element: 2.5 of 4 cores, then half of that.
    let slow = sim("--cores 8 --of 4 --speeds 0.5,0.5,0.5");
    assert_near(rate(&slow) / rate(&eight), 2.5 / 8.0);
    assert_near(real(&slow, "/offered/load/value"), 0.8);
    let contexts = sim("--cores 8 --of 4 --contexts 2");
    assert_near(rate(&contexts) / rate(&eight), 2.0 / 8.0);
    assert_near(real(&contexts, "/offered/load/value"), 0.8);
    let row = sim("--cores 8 --services dpi,encrypt");
    assert_near(real(&row, "/offered/load/value"), 0.8);
}

#[test]
fn a_live_load_is_of_the_workers() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 2_000);
    for (workers, cores) in [(0, 1), (2, 2)] {
        let words = format!("run --input in.pcap --policy drr --workers {workers} --load 0.01");
        let offered = &document(at, &words)["offered"];
        assert_eq!(number(offered, "/load/cores"), cores);
        assert_near(real(offered, "/load/value"), 0.01);
    }
    let one = "run --input in.pcap --policy drr --workers 2 --load 0.02 --of 1 --clock virtual";
    assert_eq!(number(&document(at, one), "/offered/load/cores"), 1);
    // What packets cost in real time is not known.
    assert_eq!(document(at, "run --input in.pcap --policy drr --rate 100k")["offered"]["load"], Value::Null);
}

#[test]
fn a_multiplier_keeps_the_bursts() {
    let directory = directory();
    let at = directory.path();
    good(at, "run --input gen:onoff:packets=5k --output in.pcap --policy fcfs --workers 0 --quiet");
    let sim = |words: &str| document(at, &format!("sim --input in.pcap --policy drr --cores 2 {words}"));
    let captured = sim("");
    assert_eq!(same(captured.clone(), &["rate"]), same(sim("--multiplier 1"), &["multiplier"]));
    let faster = sim("--multiplier 2.5");
    assert_near(rate(&faster) / rate(&captured), 2.5);
    assert_near(real(&faster, "/offered/bits_per_second") / real(&captured, "/offered/bits_per_second"), 2.5);
    assert_eq!(faster["options"]["multiplier"], "2.5");
    let evenly = sim(&format!("--rate {}", rate(&faster)));
    assert_near(rate(&evenly), rate(&faster));
    assert!(real(&faster, "/delay_ns/mean") > real(&evenly, "/delay_ns/mean"), "bursts wait");
    let live = "run --input in.pcap --policy drr --workers 2 --clock virtual --multiplier 2.5";
    assert_eq!(document(at, live)["offered"], faster["offered"]);
}

#[test]
fn packets_that_come_at_once_have_no_rate() {
    let result = document(Path::new("."), "sim --input gen:poisson:packets=1 --policy drr");
    assert_eq!(result["offered"]["packets_per_second"], Value::Null);
    assert_eq!(result["offered"]["load"], Value::Null);
    let said = good(Path::new("."), "sim --input gen:poisson:packets=1 --policy drr --quiet").out;
    assert!(said.contains("offered     all packets at once"), "{said}");
}

#[test]
fn tables_have_the_rate_and_the_load() {
    let said = |words: &str| good(Path::new("."), &format!("{words} --input gen:poisson:packets=2k --quiet")).out;
    let line = |text: &str| {
        let found = text.lines().find(|line| line.starts_with("offered "));
        found.unwrap_or_else(|| panic!("nothing is offered: {text}")).to_owned()
    };
    let sim = line(&said("sim --policy drr --load 0.5 --of 4 --cores 8"));
    assert!(sim.contains("pps, ") && sim.ends_with("b/s, 50.0 % of what 4 cores can do"), "{sim}");
    let compare = line(&said("compare --policy drr --policy hrw --cores 3 --load 0.5"));
    assert!(compare.ends_with("50.0 % of what 3 cores can do"), "{compare}");
    let repeated = line(&said("compare --policy drr --repeat 3 --rate 1M"));
    assert!(repeated.contains("1.00 Mpps, ") && repeated.ends_with("of what 2 cores can do"), "{repeated}");
    assert!(!line(&said("run --policy drr")).contains("can do"));
}

#[test]
fn the_first_packets_of_an_input_are_a_run_of_their_own() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 500);
    good(at, "trace cut in.pcap --output cut.pcap --packets 1..200");
    for command in ["sim --load 0.5", "run --clock virtual --rate trace", "compare --load 0.5"] {
        let of = |input: &str| {
            let document = document(at, &format!("{command} --policy drr {input}"));
            document.pointer("/runs/0").cloned().unwrap_or(document)
        };
        let (mut first, cut) = (of("--input in.pcap --packets 200"), of("--input cut.pcap"));
        assert_eq!(number(&first, "/packets/in"), 200);
        first["input"] = cut["input"].clone();
        assert_eq!(same(first, &["packets"]), same(cut, &[]));
    }
    let twice = document(at, "run --input in.pcap --policy drr --loop 2 --packets 700");
    assert_eq!(number(&twice, "/packets/in"), 700);
}

#[test]
fn files_have_the_keys_and_what_is_typed_counts() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 400);
    fs::write(at.join("run.toml"), "input = \"in.pcap\"\npolicy = \"drr\"\nload = 0.8\nof = 8\npackets = 300\n")
        .unwrap();
    let options = |words: &str| document(at, &format!("sim --config run.toml {words}"))["options"].clone();
    let told = |words: &str| {
        let options = options(words);
        ["rate", "multiplier", "load", "of"].map(|name| options[name].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(told("--cores 5"), ["", "", "0.8", "8"]);
    assert_eq!(told("--load 0.5"), ["", "", "0.5", "8"]);
    assert_eq!(told("--rate 1M"), ["1000000", "", "", ""]);
    assert_eq!(told("--multiplier 3"), ["", "3", "", ""]);
    assert_eq!(options("")["packets"], "300");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for (words, expected) in [
        ("sim --rate 100 --multiplier 2", &["--multiplier", "--rate"][..]),
        ("sim --load 0.5 --multiplier 2", &["--multiplier", "--load"]),
        ("sim --rate trace --load 0.5", &["--load", "--rate"]),
        ("run --rate line --multiplier 2", &["--multiplier", "--rate"]),
        ("sim --multiplier 2 --of 4", &["--of", "--multiplier"]),
        ("sim --of 4", &["--of says of how many cores --load is", "give --load"]),
        ("sim --load 0.5 --of 0", &["--of", "it takes 1 to 16384"]),
        ("sim --multiplier 0", &["--multiplier takes a number from 0.000001 to 1000000000"]),
        ("sim --multiplier nan", &["--multiplier takes a number"]),
        ("sim --multiplier -1", &["--multiplier takes a number", "-1"]),
        ("sim --packets 0", &["--packets"]),
    ] {
        let words = format!("{words} --policy hrw --input gen:poisson");
        let said = run(Path::new("."), &words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, Some(2), "{words}: {said:?}");
        said.assert_one_line(expected);
    }
    for (option, name) in
        [("--multiplier 2", "--multiplier"), ("--load 0.5 --of 2", "--load"), ("--packets 5", "--packets")]
    {
        let words = format!("run --policy hrw --input iface:lo {option}");
        let said = run(Path::new("."), &words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, Some(2), "{words}: {said:?}");
        said.assert_one_line(&[name, "interface"]);
    }
}
