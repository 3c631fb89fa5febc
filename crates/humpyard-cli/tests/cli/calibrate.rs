//! `calibrate`: what it measures, says and writes; and cost files on their way into `sim`. Nothing here depends on how fast
//! this machine is.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::{Said, directory, document, files, good, humpyard, make_capture, real, run};

const SHORT: &str = "calibrate --seconds 0.01 --quiet";

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap_or_else(|| panic!("no object: {value}")).keys().map(String::as_str).collect()
}

#[test]
fn everything_that_is_measured_has_a_key() {
    let directory = directory();
    let measured =
        document(directory.path(), &format!("{SHORT} --services forward,encrypt:cipher=cast-128,spi=300,fec"));
    let expected =
        ["seed", "wall_ns", "clock_ns", "packets", "services", "switch_upper_ns", "matrix", "machine", "environment"];
    assert_eq!(keys(&measured), BTreeSet::from(expected));
    assert_eq!((&measured["matrix"], &measured["machine"]), (&Value::Null, &Value::Null));
    let services = measured["services"].as_array().expect("services");
    let names: Vec<&str> = services.iter().filter_map(|service| service["specification"].as_str()).collect();
    assert_eq!(names, ["forward", "encrypt:cipher=cast-128,spi=300", "fec"]);
    for service in services {
        assert_eq!(
            keys(service),
            BTreeSet::from([
                "service",
                "specification",
                "cost_spec",
                "fixed_ns",
                "fixed_low_ns",
                "fixed_high_ns",
                "per_byte_ns",
                "per_byte_low_ns",
                "per_byte_high_ns",
                "r_squared",
                "points",
                "expansion",
                "forwarded_fraction",
                "cold_ns",
                "after",
                "evicted",
            ])
        );
        assert_eq!((real(service, "/points/0/length_bytes"), real(service, "/points/7/length_bytes")), (64.0, 1500.0));
        assert_eq!(
            (service["after"].as_array().map(Vec::len), service["evicted"].as_array().map(Vec::len)),
            (Some(13), Some(3))
        );
        assert_eq!(real(service, "/evicted/1/bytes"), 2_097_152.0);
        assert_eq!(real(service, "/forwarded_fraction"), 1.0);
    }
    assert_eq!(real(&services[0], "/expansion"), 1.0);
    assert!(real(&services[2], "/expansion") > 1.14, "{measured:#}");
    assert!(files(directory.path()).is_empty());
}

#[test]
fn costs_are_kept_for_the_user() {
    let directory = directory();
    let at = directory.path();
    let run = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut command = humpyard(at, &words);
        Said::of(
            command.env_remove("HUMPYARD_COSTS").env("XDG_DATA_HOME", at.join("data")).output().expect("it starts"),
        )
    };
    let sim = "sim --input gen:messages:packets=100 --policy everest --cores 2 --costs calibrated --json";
    let missing = run(sim);
    assert_eq!(missing.code, Some(2));
    missing.assert_one_line(&["nothing is calibrated yet", "humpyard calibrate --save"]);
    let said = run(&format!("{SHORT} --services forward --save"));
    assert!(said.code == Some(0) && said.out.contains("--costs calibrated"), "{said:?}");
    let file = at.join("data/humpyard/costs.toml");
    let text = fs::read_to_string(&file).expect("it is kept");
    fs::write(&file, text.replace("switch_upper_ns = ", "switch_upper_ns = 12345.0 # ")).expect("it is written");
    let options = run(sim).json()["options"].clone();
    assert_eq!(options["switch-cost"], "12345ns");
    assert_eq!(options["costs"], file.to_string_lossy().as_ref());
    assert_eq!(run(&format!("{sim} --switch-cost 7us")).json()["options"]["switch-cost"], "7us");
    // A relative directory counts for nothing: costs are in the home directory, where none are.
    let mut command = humpyard(at, &sim.split_whitespace().collect::<Vec<_>>());
    command.env_remove("HUMPYARD_COSTS").env("XDG_DATA_HOME", "data").env("HOME", at.join("home"));
    Said::of(command.output().expect("it starts")).assert_one_line(&["nothing is calibrated yet"]);
}

#[test]
fn a_file_of_costs_is_read_by_every_command() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 300);
    let said = good(
        at,
        &format!("{SHORT} --services forward,fec:code=8+2,decompress --output here.toml --plot plots/new --matrix"),
    )
    .out;
    for word in ["forward", "decompress", "--costs here.toml", "table:predictive", "calibration.html", "switch-cost"] {
        assert!(said.contains(word), "{word} is not in\n{said}");
    }
    let cores = cores_allowed();
    let mut expected = vec!["calibration.html", "decompress.svg", "fec-code-8-2.svg", "forward.svg"];
    expected.extend(["hand-over.svg", "matrix.svg"].into_iter().filter(|_| cores > 1));
    assert_eq!(files(&at.join("plots/new")), expected);
    for file in expected {
        let text = fs::read_to_string(at.join("plots/new").join(file)).expect("a file");
        let text = text.strip_prefix("<!DOCTYPE html>").unwrap_or(&text);
        roxmltree::Document::parse(text.trim_start()).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    let file = fs::read_to_string(at.join("here.toml")).expect("a file");
    let services: Vec<&str> = file.lines().filter(|line| line.starts_with("[services.")).collect();
    assert_eq!(services, ["[services.decompress]", "[services.\"fec:code=8+2\"]", "[services.forward]"], "{file}");
    for command in ["sim --cores 2", "run --clock virtual", "compare"] {
        let words = format!("{command} --input in.pcap --policy drr --load 0.5 --costs here.toml --quiet");
        let result = document(at, &words);
        let options = result.pointer("/runs/0/options").unwrap_or(&result["options"]);
        assert_eq!(options["costs"], "here.toml");
    }
    fs::write(at.join("run.toml"), "input = 'in.pcap'\npolicy = 'drr'\ncosts = 'here.toml'\n").expect("a file");
    assert_eq!(document(at, "sim --config run.toml")["options"]["costs"], "here.toml");
}

/// The processors that this process may use.
fn cores_allowed() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn the_costs_of_a_file_are_those_of_the_run() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 300);
    let costs = "version = 1\nsource = 'by hand'\n[services.forward]\nfixed_ns = 5100\n";
    fs::write(at.join("mine"), costs).expect("a file");
    let with = |costs: &str| document(at, &format!("sim --input in.pcap --policy fcfs --cores 1 --costs {costs}"));
    // Packets come faster than they are served.
    let ns = 1e9 / real(&with("mine"), "/throughput_pps");
    assert!((ns - 5100.0).abs() < 0.01, "{ns} ns a packet");
    assert!(1e9 / real(&with("table:measured"), "/throughput_pps") < 5000.0);
}

#[test]
fn cores_are_measured_in_pairs() {
    let directory = directory();
    let measured = document(directory.path(), &format!("{SHORT} --services none --matrix"));
    let processors = measured["matrix"]["processors"].as_array().expect("processors").len();
    let rows = measured["matrix"]["round_trip_ns"].as_array().expect("rows");
    assert_eq!(rows.len(), if processors > 1 { processors } else { 0 });
    for (row, times) in rows.iter().enumerate() {
        assert_eq!(times.as_array().map(Vec::len), Some(processors));
        assert_eq!(times[row], 0.0);
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that skips must say so")]
fn one_core_has_no_pairs() {
    let directory = directory();
    let plain = humpyard(directory.path(), &[]);
    let on_one_core = |more: &[&str]| {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", "0"]).arg(plain.get_program()).args(SHORT.split(' ')).current_dir(directory.path());
        command.args(["--services", "none", "--matrix"]).args(more).output().map(Said::of)
    };
    let Ok(said) = on_one_core(&["--plot", "plots"]) else {
        eprintln!("SKIPPED: there is no taskset");
        return;
    };
    if said.err.contains("taskset") {
        eprintln!("SKIPPED: processor 0 is not allowed: {}", said.err);
        return;
    }
    assert!(said.code == Some(0) && said.out.contains("Only one core is allowed"), "{said:?}");
    assert_eq!(files(&directory.path().join("plots")), ["calibration.html"]);
    let matrix = on_one_core(&["--json"]).expect("taskset").json()["matrix"].clone();
    assert_eq!(matrix, serde_json::json!({"processors": [0], "round_trip_ns": [], "hand_over_ns": []}));
}

#[test]
fn what_was_measured_between_cores_is_a_topology() {
    let directory = directory();
    let at = directory.path();
    let measured = document(at, &format!("{SHORT} --services none --matrix-output cores.toml"));
    let shown = document(at, "topology cores.toml");
    let hand_over = |one: usize, other: usize| {
        let place = |processor: &Value| {
            let processors = measured["matrix"]["processors"].as_array().expect("processors");
            processors.iter().position(|other| other == processor).expect("it was measured")
        };
        let [one, other] = [one, other].map(|core| place(&shown["processors"][core]));
        measured["matrix"]["hand_over_ns"][one][other].as_f64().expect("a time")
    };
    let cores = cores_allowed();
    for (one, other) in (0..cores).flat_map(|one| (0..cores).map(move |other| (one, other))) {
        let cost = shown["matrix"][one][other].as_f64().expect("a cost");
        let expected = if one == other { 1.0 } else { 1.0 + hand_over(one, other) / 1000.0 };
        // Files have tenths of ns.
        assert!((cost - expected).abs() < 0.0012, "{one} {other}: {cost} {expected}");
    }
    let capture = "run --input gen:poisson:packets=500 --policy h-cahrw --quiet --topology cores.toml";
    assert_eq!(document(at, capture)["options"]["topology"], "cores.toml");
}

#[test]
fn what_cannot_be_is_refused_before_the_work() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 10);
    fs::write(at.join("file"), "").expect("a file");
    for (name, text) in [
        ("other.toml", "version = 2\n"),
        ("key.toml", "version = 1\n\n[services.forward]\nfixed = 5\n"),
        ("negative.toml", "version = 1\n[services.forward]\nfixed_ns = -1\n"),
        ("dpi.toml", "version = 1\n[services.dpi]\nfixed_ns = 1\n"),
        ("no.toml", "version = \n"),
    ] {
        fs::write(at.join(name), text).expect("a file");
    }
    fs::write(at.join("run.toml"), "input = 'in.pcap'\npolicy = 'drr'\n\ncosts = 'key.toml'\n").expect("a file");
    let before = files(at);
    for (words, expected) in [
        ("calibrate --services forwrad", &["--services", "no service `forwrad`", "did you mean `forward`?"] as &[&str]),
        ("calibrate --services forward:route=x", &["did you mean `routes`?"]),
        ("calibrate --services encrypt,encrypt:spi=300", &["same line of costs as `encrypt`", "leave one of them out"]),
        ("calibrate --services=", &["--services"]),
        ("calibrate --output none/here.toml", &["cannot write `none/here.toml`", "name another"]),
        ("calibrate --output -", &["--output takes the name of a file"]),
        ("calibrate --services none --output here.toml", &["nothing to write without services"]),
        ("calibrate --services none", &["--services none leaves nothing to measure", "--matrix or --machine"]),
        ("calibrate --plot file", &["--plot", "`file`", "name another"]),
        ("calibrate --seconds 0", &["--seconds takes a number above 0"]),
        ("calibrate --seconds nan", &["--seconds takes a number above 0"]),
        ("calibrate --seconds 1 --quick", &["--seconds", "--quick"]),
        (
            "sim --input in.pcap --policy drr --costs none.toml",
            &["none.toml: there is no such cost file", "calibrate --output"],
        ),
        ("sim --input in.pcap --policy drr --costs mesured", &["did you mean `measured`?", "no file of this name"]),
        ("sim --input in.pcap --policy drr --costs other.toml", &["other.toml:1:11: `version` is 1 here"]),
        (
            "run --input in.pcap --policy drr --costs key.toml",
            &["key.toml:4:1: no key of a service `fixed`", "did you mean `fixed_ns`?"],
        ),
        (
            "compare --input in.pcap --policy drr --costs negative.toml",
            &["negative.toml:3:12: `fixed_ns` takes a number from 0"],
        ),
        (
            "sim --input in.pcap --policy drr --costs dpi.toml",
            &["costs `dpi.toml`: no service `forward`", "there are: dpi", "--costs auto"],
        ),
        ("sim --input in.pcap --policy drr --costs no.toml", &["no.toml:1:", "this is no TOML"]),
        ("sim --config run.toml", &["run.toml:4:9: `costs`: key.toml:4:1"]),
    ] {
        let said = run(at, &words.split_whitespace().collect::<Vec<_>>());
        assert!(said.code == Some(2) && said.out.is_empty(), "{words}: {said:?}");
        said.assert_one_line(expected);
        assert_eq!(files(at), before, "{words}");
    }
}

#[test]
fn the_list_of_costs_tells_of_files() {
    let directory = directory();
    let said = good(directory.path(), "list costs").out;
    assert!(said.contains("--costs table:NAME") && said.contains("calibrate --output"), "{said}");
}
