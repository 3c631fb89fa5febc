//! What services cost: a line belongs to a service with its parameters, and every result says who gave it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Said, directory, document, good, humpyard, make_capture, real, run};

/// Runs with the saved calibration in this file, which need not be there.
fn run_saved(at: &Path, saved: &str, words: &str) -> Said {
    let mut command = humpyard(at, &words.split_whitespace().collect::<Vec<_>>());
    Said::of(command.env("HUMPYARD_COSTS", at.join(saved)).output().expect("it starts"))
}

/// A result but for real times, and who says what services cost.
fn without_sources(mut result: Value) -> Value {
    let document = result.as_object_mut().expect("a document");
    document.remove("measured");
    document.remove("environment");
    document["options"].as_object_mut().expect("options").remove("costs");
    for cost in document["costs"].as_array_mut().expect("costs") {
        cost.as_object_mut().expect("a cost").remove("source");
    }
    result
}

/// Packets per second of one core that always has packets, and what it says of costs.
fn capacity(at: &Path, services: &str) -> (f64, Value) {
    let words = format!("sim --input in.pcap --policy fcfs --cores 1 --rate 1G --buffer 1000 --services {services}");
    let result = document(at, &words);
    (real(&result, "/throughput_pps"), result["costs"][0].clone())
}

#[test]
fn parameters_that_change_the_cost_change_the_result() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 500);
    let (plain, cost) = capacity(at, "encrypt");
    assert_eq!((&cost["spec"], &cost["source"]), (&json!("encrypt"), &json!("table:measured")));
    let (other, cost) = capacity(at, "encrypt:spi=300,cipher=cast-128");
    assert_eq!((&cost["service"], &cost["spec"]), (&json!("encrypt"), &json!("encrypt:cipher=cast-128")));
    assert!(plain > 5.0 * other, "{plain} {other}");
    assert_eq!(capacity(at, "encrypt:key=00112233445566778899aabbccddeeff").0, plain);
    let (fast, _) = capacity(at, "compress:codec=deflate");
    let (thorough, cost) = capacity(at, "other=compress:codec=deflate,level=6");
    assert_eq!((&cost["service"], &cost["spec"]), (&json!("other"), &json!("compress:codec=deflate,level=6")));
    assert!(fast > 1.5 * thorough, "{fast} {thorough}");
}

#[test]
fn a_line_that_is_missing_is_an_error() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 10);
    fs::write(at.join("bare.toml"), "version = 1\n[services.encrypt]\nfixed_ns = 5\n").expect("a file");
    let rules = "firewall:rules=deny+tcp";
    for words in [
        format!("sim --services {rules}"),
        format!("sim --services web={rules} --services rest=forward --rule port=80,service=web"),
        format!("sim --services one=forward --services two={rules} --chain one=two"),
        format!("compare --services {rules}"),
        format!("run --clock virtual --services {rules}"),
        format!("run --load 0.5 --services {rules}"),
    ] {
        let words = format!("{words} --input in.pcap --policy drr");
        let said = run(at, &words.split_whitespace().collect::<Vec<_>>());
        assert!(said.code == Some(2) && said.out.is_empty(), "{words}: {said:?}");
        said.assert_one_line(&[
            "costs `table:measured`: no line for `firewall:rules=deny+tcp`",
            "`firewall`",
            "--costs auto",
        ]);
    }
    let words = "sim --input in.pcap --policy drr --costs bare.toml --services encrypt:cipher=cast-128";
    let said = run_saved(at, "bare.toml", words);
    said.assert_one_line(&[
        "costs `bare.toml`: no line for `encrypt:cipher=cast-128`; there are: `encrypt`; measure it",
    ]);
    let said = run_saved(at, "bare.toml", &words.replace("bare.toml", "calibrated"));
    assert_eq!(said.code, Some(2), "{said:?}");
    said.assert_one_line(&["no line for `encrypt:cipher=cast-128`", "--costs auto"]);
}

/// On real cores costs are what policies reckon with.
#[test]
fn a_live_run_estimates_what_is_missing() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 10);
    let result = document(at, "run --input in.pcap --policy efq --services firewall:rules=deny+tcp");
    assert_eq!(result["costs"][0]["spec"], "firewall:rules=deny+tcp");
    assert_eq!(result["costs"][0]["source"], "table:measured, estimated by `firewall`");
}

#[test]
fn what_is_missing_is_measured_and_can_be_had_again() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 300);
    let sim =
        "sim --input in.pcap --policy drr --cores 2 --load 0.8 --link 1Gbit --services firewall:rules=deny+tcp --json";
    let auto = run_saved(at, "none.toml", &format!("{sim} --costs auto"));
    assert_eq!(auto.code, Some(0), "{auto:?}");
    let first = auto.json();
    assert_eq!(first["costs"][0]["source"], "measured now");
    assert_eq!(first["options"]["costs"], "auto");
    fs::write(at.join("here.toml"), &auto.err).expect("a file");
    let again = document(at, &format!("{} --costs here.toml", sim.replace(" --json", "")));
    assert_eq!(again["costs"][0]["source"], "here.toml");
    assert_eq!(without_sources(again), without_sources(first.clone()));
    // What is saved is not measured again.
    let saved = run_saved(at, "here.toml", &format!("{sim} --costs auto"));
    let second = saved.json();
    assert_eq!(second["costs"][0]["source"], "saved calibration");
    assert_eq!(without_sources(second), without_sources(first));
    fs::write(at.join("again.toml"), &saved.err).expect("a file");
    assert_eq!(
        without_sources(document(at, &format!("{} --costs again.toml", sim.replace(" --json", "")))),
        without_sources(saved.json())
    );
    let said = run_saved(at, "none.toml", "sim --input in.pcap --policy drr --services v4-v6-tcp --costs auto");
    assert_eq!(said.code, Some(2), "{said:?}");
    said.assert_one_line(&["nothing can be measured of `v4-v6-tcp`", "--costs table:everest"]);
}

/// They are measured when it matters how things are here.
#[test]
fn recommend_and_validate_take_the_saved_calibration_first() {
    let directory = directory();
    let at = directory.path();
    let line = "version = 1\nsource = 'by hand'\n[services.'encrypt:cipher=cast-128']\nfixed_ns = 9000\n";
    fs::write(at.join("saved.toml"), line).expect("a file");
    let services = "--input gen:poisson:packets=300 --services encrypt:cipher=cast-128";
    let words =
        format!("recommend --host ideal {services} --load 0.5 --workers 2 --candidate hrw --goal p99<1s --json");
    let said = run_saved(at, "saved.toml", &words);
    assert_eq!(said.code, Some(0), "{said:?}");
    let document = said.json();
    let cost = &document["costs"][0];
    assert_eq!((&cost["fixed_ns"], &cost["source"]), (&json!(9000), &json!("saved calibration")));
    let command = document["command"].as_str().expect("a command");
    assert!(command.contains(" --costs auto "), "{command}");
    let lines = document["cost_lines"].as_str().expect("lines");
    assert!(lines.contains("[services.\"encrypt:cipher=cast-128\"]\nfixed_ns = 9000\n"), "{lines}");
    let words = format!("validate --host server-16 --costs auto {services} --policy hrw --workers 1 --rate 10k --json");
    let said = run_saved(at, "saved.toml", &words);
    assert!(matches!(said.code, Some(0 | 1)), "{said:?}");
    let line = &said.json()["policies"][0]["costs"][0];
    assert_eq!((&line["fixed_ns"], &line["source"]), (&json!(9000), &json!("saved calibration")));
}

#[test]
fn check_measures_nothing() {
    let directory = directory();
    let at = directory.path();
    let file =
        "input = 'gen:poisson'\npolicy = 'drr'\ncores = 2\ncosts = 'auto'\nservices = 'firewall:rules=deny+tcp'\n";
    fs::write(at.join("run.toml"), file).expect("a file");
    let checked = run_saved(at, "none.toml", "check run.toml --json").json();
    let cost = &checked["commands"][0]["costs"][0];
    assert_eq!((&cost["spec"], &cost["source"]), (&json!("firewall:rules=deny+tcp"), &json!("to be measured")));
    let said = run_saved(at, "none.toml", "check run.toml");
    assert!(
        said.out.contains("firewall: firewall:rules=deny+tcp ") && said.out.contains("(to be measured)"),
        "{said:?}"
    );
}

#[test]
fn what_changes_a_cost_is_told() {
    let directory = directory();
    let at = directory.path();
    let said = good(at, "explain compress").out;
    assert!(said.contains("changes the cost: another value has a line of its own"), "{said}");
    assert!(said.contains("changes the cost with codec=deflate"), "{said}");
    let said = good(at, "explain measured").out;
    assert!(said.contains("compress:codec=deflate,level=6") && said.contains("encrypt:cipher=cast-128"), "{said}");
    let services = document(at, "list services");
    let encrypt = services.as_array().into_iter().flatten().find(|service| service["name"] == "encrypt");
    assert_eq!(encrypt.expect("it is there")["parameters"][0]["changes_cost"], "always");
}

#[test]
fn admit_goes_by_parameters() {
    let directory = directory();
    let at = directory.path();
    let engines = |service: &str| {
        let flow = format!("--flow name=one,service={service},rate=10Mbit,length=500,burst=8k");
        let admission = document(at, &format!("admit --cores 2 --cold none --margin 0 {flow}"));
        let cost = &admission["costs"][0];
        assert_eq!((&cost["spec"], &cost["source"]), (&json!(service), &json!("table:measured")));
        real(&admission, "/flows/0/engines")
    };
    assert!(engines("encrypt:cipher=cast-128") > 5.0 * engines("encrypt"));
}
