//! `sim` and `compare`: the same again is the same, and the load is what was asked for.

use std::path::Path;

use serde_json::Value;

use crate::support::{assert_balanced, captures, document, good, number, real};

/// A result without what differs from run to run.
fn stable(mut result: Value) -> Value {
    let keys = result.as_object_mut().expect("an object");
    assert!(keys.remove("measured").is_some() && keys.remove("environment").is_some());
    result
}

#[test]
fn a_seed_gives_one_result_byte_for_byte() {
    for input in ["gen:messages:packets=20000", "gen:poisson:packets=20000,flows=100"] {
        for policy in ["rr", "hrw", "steer=conn/share=drr", "sfq", "static"] {
            let text = |seed: u64| {
                let words = format!("sim --input {input} --policy {policy} --cores 3 --seed {seed} --json");
                let text = good(Path::new("."), &words).out;
                // What differs from run to run comes last.
                let stable = text.split_once("\"measured\"").expect("it is there").0.to_owned();
                assert!(!stable.contains("environment"));
                stable
            };
            assert_eq!(text(5), text(5), "{input} {policy}");
            assert_ne!(text(5).replace("\"seed\": 5", ""), text(6).replace("\"seed\": 6", ""), "{input} {policy}");
        }
    }
}

#[test]
fn a_comparison_is_its_simulations_side_by_side() {
    let options = "--input gen:messages:packets=20000 --cores 4 --load 0.8 --weights 5,4,3 --seed 9";
    let policies = ["rr", "conn", "hrw", "fcfs", "drr", "sfq", "static", "steer=hrw/share=drr"];
    let words: String = policies.iter().map(|policy| format!(" --policy {policy}")).collect();
    let comparison = document(Path::new("."), &format!("compare {options} {words}"));
    let runs = comparison["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), policies.len());
    for (run, policy) in runs.iter().zip(policies) {
        assert_balanced(run);
        assert_eq!((&run["packets"]["in"], &run["bytes"]), (&runs[0]["packets"]["in"], &runs[0]["bytes"]), "{policy}");
        let alone = document(Path::new("."), &format!("sim {options} --policy {policy}"));
        assert_eq!(stable(run.clone()), stable(alone), "{policy}");
    }
    let table = good(Path::new("."), &format!("compare {options} {words}")).out;
    assert!(policies.iter().all(|policy| table.contains(policy)), "{table}");
}

fn utilization(result: &Value) -> f64 {
    let cores = result["cores_detail"].as_array().expect("cores");
    cores.iter().map(|core| core["utilization"].as_f64().expect("a number")).sum::<f64>() / cores.len() as f64
}

fn assert_load(words: &str, load: f64) {
    let result = document(Path::new("."), &format!("sim {words} --load {load}"));
    assert!((utilization(&result) / load - 1.0).abs() < 0.01, "{words} at {load}: {}", utilization(&result));
}

#[test]
fn a_load_is_the_utilization_of_the_cores() {
    for input in ["gen:poisson:packets=50000", "gen:messages:packets=50000,pps=1000"] {
        for (policy, cores) in [("fcfs", 1), ("drr", 4), ("rr", 8)] {
            for costs in ["table:measured", "table:everest"] {
                for load in [0.2, 0.7, 0.9] {
                    // Free, for one flow may be more than one core can do.
                    let words = format!("--input {input} --policy {policy} --cores {cores} --costs {costs}");
                    assert_load(&format!("{words} --flow-order free --buffer 60000"), load);
                }
            }
        }
    }
    assert_load("--input gen:poisson:packets=10000 --loop 3 --policy fcfs --cores 2", 0.5);
}

#[test]
fn a_load_of_a_real_capture_is_the_utilization_of_the_cores() {
    let Some(traces) = captures("a_load_of_a_real_capture_is_the_utilization_of_the_cores") else { return };
    let capture = traces.join("industrial/right.pcap");
    // Low, for it ends with a burst, and the cores are busy for a while when the last packet has come.
    for load in [0.01, 0.05] {
        assert_load(&format!("--input {} --policy hrw --cores 2 --buffer 40000", capture.display()), load);
    }
}

#[test]
fn an_overload_drops_what_it_must() {
    let result = document(Path::new("."), "sim --input gen:poisson:packets=50000 --policy fcfs --load 2 --buffer 100");
    assert_balanced(&result);
    assert!((real(&result, "/packets/dropped/buffer_full") / 25_000.0 - 1.0).abs() < 0.02);
    assert!(utilization(&result) > 0.99);
}

#[test]
fn tolerances_and_clients_count() {
    let late = |tolerance| {
        let words = format!("sim --input gen:poisson:packets=10000 --policy fcfs --load 0.9 --tolerance {tolerance}");
        number(&document(Path::new("."), &words), "/late/count")
    };
    assert_eq!((late("0ns"), late("1s")), (10_000, 0));
    assert!(late("200ns") > late("400ns") && late("400ns") > 0);
    let clients = |kind| {
        let words = format!("sim --input gen:messages:packets=10000 --policy drr --clients {kind}");
        number(&document(Path::new("."), &words), "/fairness/clients")
    };
    let (flows, connections, services) = (clients("flow"), clients("connection"), clients("service"));
    assert!(flows > connections && connections > 100 && services == 1, "{flows} {connections} {services}");
}

#[test]
fn rates_that_last_for_ages_are_simulated() {
    for rate in ["--rate 1e-12", "--rate 1e-300", "--load 1e-300", "--rate 1e12", "--load 1000"] {
        let words = format!("sim --input gen:poisson:packets=100 --policy drr {rate}");
        assert_eq!(number(&document(Path::new("."), &words), "/packets/processed"), 100, "{rate}");
    }
}
