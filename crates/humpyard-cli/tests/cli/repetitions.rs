//! `--repeat`: policies in turn, on identical arrivals, and what the repetitions come to.

use serde_json::Value;

use crate::support::{directory, document, good, number, real, run};

const COMPARE: &str =
    "compare --input gen:messages:packets=5000 --policy rr --policy drr --cores 3 --load 0.8 --seed 11";

/// What differs from run to run is not in it.
fn stable(result: &Value) -> Value {
    let mut result = result.clone();
    let keys = result.as_object_mut().expect("an object");
    assert!(keys.remove("measured").is_some() && keys.remove("environment").is_some());
    result
}

#[test]
fn policies_take_turns_on_identical_arrivals() {
    let directory = directory();
    let comparison = document(directory.path(), &format!("{COMPARE} --repeat 3"));
    let runs = comparison["runs"].as_array().expect("runs");
    let order: Vec<(&str, u64)> =
        runs.iter().map(|run| (run["policy"].as_str().expect("a name"), number(run, "/seed"))).collect();
    assert_eq!(order, [("rr", 11), ("drr", 11), ("rr", 12), ("drr", 12), ("rr", 13), ("drr", 13)]);
    for pair in runs.chunks(2) {
        assert_eq!((&pair[0]["bytes"], &pair[0]["flows"]), (&pair[1]["bytes"], &pair[1]["flows"]));
    }
    assert_ne!(runs[0]["bytes"], runs[2]["bytes"], "another seed, other traffic");
    let alone = document(directory.path(), &COMPARE.replace("--seed 11", "--seed 13"));
    assert_eq!(stable(&alone["runs"][1]), stable(&runs[5]));
}

#[test]
fn statistics_are_those_of_the_runs() {
    let directory = directory();
    for repetitions in [1, 2, 3, 6] {
        let comparison = document(directory.path(), &format!("{COMPARE} --repeat {repetitions}"));
        assert_eq!(number(&comparison, "/repetitions"), repetitions as u64);
        let runs = comparison["runs"].as_array().expect("runs");
        for (policy, statistics) in comparison["statistics"].as_array().expect("policies").iter().enumerate() {
            assert_eq!(number(statistics, "/repetitions"), repetitions as u64);
            for (key, path) in [
                ("throughput_pps", "/throughput_pps"),
                ("delay_p99_ns", "/delay_ns/p99"),
                ("out_of_order_fraction", "/order/fraction"),
                ("jain", "/fairness/jain"),
            ] {
                let values: Vec<f64> = runs.iter().skip(policy).step_by(2).map(|run| real(run, path)).collect();
                let figure = &statistics["figures"][key];
                assert_eq!(figure["values"], Value::from(values.clone()), "{key}");
                let mut sorted = values;
                sorted.sort_by(f64::total_cmp);
                let n = sorted.len();
                assert_eq!((real(figure, "/min"), real(figure, "/max")), (sorted[0], sorted[n - 1]));
                let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
                // The parser of the tests rounds the last digit.
                assert!((real(figure, "/median") - median).abs() <= 1e-12 * median, "{key}");
                let level = figure.pointer("/confidence/level").and_then(Value::as_f64);
                assert_eq!(level.is_some(), n > 1, "{key}");
                let expected = 1.0 - 0.5f64.powi(n as i32 - 1);
                assert!(level.is_none_or(|level| (level - expected).abs() < 1e-12), "{key}, {n}: {level:?}");
            }
        }
    }
}

#[test]
fn tables_have_medians_and_ranges() {
    let directory = directory();
    let table = good(directory.path(), &format!("{COMPARE} --repeat 3")).out;
    for word in ["rr", "drr", "to ", "3 repetitions: of each figure the median"] {
        assert!(table.contains(word), "`{word}` is not in\n{table}");
    }
    let table = good(directory.path(), COMPARE).out;
    assert!(!table.contains("repetitions"), "{table}");
}

#[test]
fn real_threads_repeat_too() {
    let directory = directory();
    let words = "compare --live --input gen:messages:packets=3000 --policy hrw --policy drr --workers 1 --repeat 2";
    let comparison = document(directory.path(), words);
    assert_eq!(comparison["runs"].as_array().map(Vec::len), Some(4));
    let demo = document(directory.path(), "demo --packets 2000 --workers 1 --repeat 2 --quiet");
    assert_eq!((demo["runs"].as_array().map(Vec::len), number(&demo, "/repetitions")), (Some(6), 2));
    assert!(demo["calls"].as_array().is_some_and(|calls| calls.len() == 3) && demo["learnt"].is_string(), "{demo}");
}

#[test]
fn what_cannot_be_repeated_is_refused() {
    let directory = directory();
    for (words, expected) in [
        ("compare --input - --policy rr --repeat 2", "once per policy and repetition"),
        ("compare --input gen:poisson:packets=1 --policy rr --repeat 0", "--repeat"),
    ] {
        let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, Some(2), "{said:?}");
        said.assert_one_line(&[expected]);
    }
}
