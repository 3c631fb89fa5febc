//! The shape of the result documents: the keys that DESIGN promises, and that nothing else is on the standard output.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{directory, document, good};

/// Keys of the result of `run`, `sim`, and each run of `compare`: those promised first, then those of this version.
const RESULT: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "policy",
            "input",
            "seed",
            "cores",
            "duration_ns",
            "packets",
            "bytes",
            "throughput_pps",
            "throughput_bps",
            "delay_ns",
            "delay_offered_ns",
            "late",
            "order",
            "jitter_ns",
            "fairness",
            "cores_detail",
            "services",
            "cold_fraction",
            "switches",
            "measured",
            "options",
            "costs",
            "environment",
            "host",
            "unit",
            "flows",
            "top_flows",
            "interrupted",
            "panic",
            "damage",
            "warm_up",
            "ports",
            "reloads",
            "cache",
            "offered",
            "exit",
        ],
    ),
    ("/costs/0", &["service", "spec", "fixed_ns", "per_byte_ns", "cold_ns", "expansion", "source"]),
    ("/ports", &["received", "sent"]),
    ("/offered", &["packets_per_second", "bits_per_second", "load"]),
    ("/top_flows/0", &["flow", "packets", "fraction"]),
    (
        "/packets",
        &["in", "processed", "forwarded", "held", "dropped", "generated", "consumed", "held_out", "dropped_out"],
    ),
    ("/delay_ns", &["mean", "p50", "p90", "p99", "p999", "max"]),
    ("/delay_offered_ns", &["p50", "p90", "p99", "p999"]),
    ("/late", &["count", "lost", "packets", "fraction"]),
    ("/warm_up", &["time_ns", "packets"]),
    ("/order", &["promised", "out_of_order", "fraction", "displacement_std"]),
    ("/exit", &["waited", "missed_turn", "given_up"]),
    ("/fairness", &["jain", "service_error_min", "service_error_max", "clients"]),
    ("/cores_detail/0", &["utilization", "packets", "switches", "cold"]),
    ("/services/0", &["name", "packets", "delay_ns", "delay_offered_ns", "late", "queue_max", "bytes", "tolerance_ns"]),
    ("/services/0/delay_ns", &["mean", "p50", "p90", "p99", "p999", "max"]),
    ("/services/0/delay_offered_ns", &["p50", "p90", "p99", "p999"]),
    ("/services/0/late", &["count", "lost", "packets", "fraction"]),
    (
        "/measured",
        &[
            "wall_ns",
            "decision_ns",
            "overdue_max_ns",
            "overhead_fraction",
            "packets_per_second",
            "swap_pause_max_ns",
            "hardware",
            "dispatchers",
        ],
    ),
    ("/measured/decision_ns", &["mean", "p50", "p99"]),
    ("/environment", &["version", "cpu", "kernel", "trace_sha256", "threads"]),
];

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap_or_else(|| panic!("no object: {value}")).keys().map(String::as_str).collect()
}

fn assert_shape(result: &Value) {
    for (path, expected) in RESULT {
        let found = keys(result.pointer(path).unwrap_or_else(|| panic!("nothing at {path}")));
        assert_eq!(found, expected.iter().copied().collect(), "{path}");
    }
}

#[test]
fn results_have_their_keys() {
    let directory = directory();
    let input = "--input gen:messages:packets=2000 --policy drr --quiet";
    assert_shape(&document(directory.path(), &format!("run {input}")));
    assert_shape(&document(directory.path(), &format!("sim {input}")));
    let comparison = document(directory.path(), &format!("compare {input} --policy rr"));
    assert_eq!(keys(&comparison), BTreeSet::from(["runs", "repetitions", "statistics"]));
    comparison["runs"].as_array().expect("runs").iter().for_each(assert_shape);
}

/// A live run has dispatchers, which are busy for some of the time; a simulation has none.
#[test]
fn live_results_say_how_busy_dispatchers_were() {
    let directory = directory();
    for (words, count) in [
        ("run --workers 0", 1),
        ("run --workers 2", 1),
        ("run --workers 2 --dispatchers 2", 2),
        ("run --clock virtual --rate 1k", 0),
        ("sim", 0),
    ] {
        let result = document(directory.path(), &format!("{words} --input gen:messages:packets=5000 --policy drr"));
        let dispatchers = result["measured"]["dispatchers"].as_array().expect("a list");
        assert_eq!(dispatchers.len(), count, "{words}");
        for dispatcher in dispatchers {
            assert_eq!(keys(dispatcher), BTreeSet::from(["busy_fraction", "workers_utilization"]), "{words}");
            for key in ["busy_fraction", "workers_utilization"] {
                let part = dispatcher[key].as_f64().expect("a number");
                assert!(part > 0.0 && part <= 1.0, "{words}: {key} {part}");
            }
        }
    }
    let said = good(directory.path(), "run --input gen:messages:packets=5000 --policy drr --workers 0 --quiet");
    assert!(said.out.contains("\ndispatcher  ") && said.out.contains("% with the services' work"), "{said:?}");
}

#[test]
fn every_key_is_explained() {
    let page = crate::configuration::repository("docs/reference/results.md");
    let page = std::fs::read_to_string(page).expect("the page");
    for (path, keys) in RESULT {
        for key in *keys {
            assert!(page.contains(&format!("`{key}`")), "`{key}` of `{path}` is not in docs/reference/results.md");
        }
    }
}

/// Whether a value is as its schema says: types, keys that must be there, and no other keys.
/// (The package `jsonschema` does the same with 50 packages more.)
fn conform(at: &str, value: &Value, schema: &Value, root: &Value) {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        return conform(at, value, &root["$defs"][name], root);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let choice = choices.iter().find(|choice| (choice["type"] == "null") == value.is_null());
        return conform(at, value, choice.unwrap_or_else(|| panic!("{at}: {value}")), root);
    }
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(value.get(key).is_some(), "{at} has no `{key}`");
    }
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let of = schema["properties"].get(key).or_else(|| schema.get("additionalProperties"));
                conform(&format!("{at}.{key}"), value, of.unwrap_or_else(|| panic!("{at} has `{key}`")), root);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let of = schema["prefixItems"].get(index).or_else(|| schema.get("items"));
                conform(&format!("{at}[{index}]"), item, of.unwrap_or_else(|| panic!("{at}: {value}")), root);
            }
        }
        _ => {}
    }
    let is_type = |name: &str| match name {
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    assert!(types.is_empty() || types.into_iter().any(is_type), "{at}: {value}, not {}", schema["type"]);
}

/// What `explain` says of a document is so.
#[test]
fn documents_conform_to_their_schemas() {
    let directory = directory();
    let at = directory.path();
    let input = "--input gen:messages:packets=2000 --quiet";
    let plain = good(at, "sim --input gen:messages:packets=2000 --policy drr --host server-16 --quiet --json").json();
    assert!(plain["assumed"]["host"]["turn_ns"].is_number(), "{plain}");
    for (name, command) in [
        ("result", format!("run {input} --policy drr --flow-order exit --counters")),
        (
            "result",
            format!(
                "sim {input} --policy hrw --split share=0.3,cores=2 --link 100Mbit:queue=none --topology 2x2x2 --cores 8 --load 1.2"
            ),
        ),
        ("result", format!("sim {input} --policy drr --host server-16")),
        ("result", format!("sim {input} --policy drr --contexts 2 --swap 1ms=sfq")),
        ("comparison", format!("compare {input} --policy drr --policy rr --repeat 3 --load 0.8")),
        ("admission", "admit --flow service=fec,rate=1M,length=500,burst=4k --costs predictive".to_owned()),
        ("explanation", format!("why {input} --policy drr --load 0.9")),
        (
            "recommendation",
            format!("recommend {input} --host ideal --costs predictive --services fec --load 0.7 --goal late<1%@2ms"),
        ),
    ] {
        let said = crate::support::run(at, &command.split(' ').chain(["--json"]).collect::<Vec<_>>());
        assert!(matches!(said.code, Some(0 | 1)), "{command}: {said:?}");
        let schema = good(at, &format!("explain {name} --json")).json();
        conform(name, &said.json(), &schema, &schema);
    }
}

#[test]
fn results_say_what_was_run() {
    let directory = directory();
    crate::support::make_capture(directory.path(), "in.pcap", 10);
    let result =
        document(directory.path(), "sim --input in.pcap --policy drr:quantum=9999 --cores 3 --seed 77 --unit bytes");
    assert_eq!(result["policy"], "drr:quantum=9999");
    assert_eq!((&result["input"], &result["host"]), (&"in.pcap".into(), &"sim".into()));
    assert_eq!((&result["seed"], &result["cores"], &result["unit"]), (&77.into(), &3.into(), &"bytes".into()));
    assert_eq!(result["environment"]["trace_sha256"].as_str().map(str::len), Some(64));
    assert_eq!(result["damage"], Value::Null);
    let result = document(directory.path(), "run --input gen:poisson:packets=10 --policy hrw --workers 0");
    assert_eq!((&result["host"], &result["cores"]), (&"live".into(), &0.into()));
    assert_eq!((&result["panic"], &result["options"]["quarantine"]), (&Value::Null, &"none".into()));
    assert_eq!(result["environment"]["trace_sha256"], Value::Null);
}

#[test]
fn lists_describe_themselves() {
    let directory = directory();
    let policies = document(directory.path(), "list policies");
    let names: Vec<&str> = policies.as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    for known in ["rr", "conn", "hrw", "fcfs", "drr", "sfq", "static", "everest"] {
        assert!(names.contains(&known), "{known}");
    }
    for policy in policies.as_array().expect("a list") {
        let expected = ["name", "family", "summary", "source", "parameters", "promises", "complexity"];
        let mut found = keys(policy);
        let is_mapped = found.remove("near_best");
        assert_eq!(found, BTreeSet::from(expected));
        let name = policy["name"].as_str().expect("a name");
        let is_unmapped = policy["family"] == "estimate" || ["t-opt", "scr", "batch"].contains(&name);
        assert_eq!(is_mapped, !is_unmapped, "{name}");
    }
    for (what, least) in [("policies", 7), ("services", 1), ("profiles", 15), ("costs", 3)] {
        let entries = document(directory.path(), &format!("list {what}"));
        let entries = entries.as_array().expect("a list");
        assert!(entries.len() >= least, "{what}");
        let table = good(directory.path(), &format!("list {what}")).out;
        for entry in entries {
            let name = entry["name"].as_str().expect("a name");
            assert!(entry["family"].is_string() && entry["summary"].is_string(), "{entry}");
            assert!(table.contains(name), "{name} is not in\n{table}");
            if what != "costs" {
                assert_eq!(&document(directory.path(), &format!("explain {name}")), entry);
                let text = good(directory.path(), &format!("explain {name}")).out;
                assert!(text.starts_with(name) && text.contains("Use it as: humpyard"), "{text}");
            }
        }
    }
}
