//! `schedule`: the sequences of the specification, and the shape of the document.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{directory, document, files, good, run};

fn schedule(words: &str) -> Value {
    document(Path::new("."), &format!("schedule {words}"))
}

/// A sequence as a string of digits.
fn digits(schedule: &Value) -> String {
    schedule["slots"].as_array().expect("slots").iter().map(Value::to_string).collect()
}

#[test]
fn sequences_of_the_specification() {
    for (policy, weights, expected, least, greatest) in [
        ("drr", "12,3,3,2,2,2", "111111111111222333445566", "-15/8", "6"),
        ("drr:surplus=true", "12,3,3,2,2,2", "111111111111222333445566", "-15/8", "6"),
        ("sfq", "12,3,3,2,2,2", "123456111123114561123111", "-2", "3/4"),
        ("drr", "3,2,1", "111223111223", "-1", "3/2"),
        ("sfq", "3,2,1", "123121123121", "-1/2", "1/2"),
    ] {
        let document = schedule(&format!("--policy {policy} --weights {weights} --slots {}", expected.len()));
        assert_eq!(digits(&document), expected, "{policy}");
        assert_eq!(document["policy"], policy);
        assert_eq!(document["weights"].to_string(), format!("[{weights}]"));
        assert_eq!(document["processors"], 1);
        let exact = (&document["error_min_exact"], &document["error_max_exact"]);
        assert_eq!(exact, (&json!(least), &json!(greatest)), "{policy} {weights}");
        for (value, text) in [("error_min", least), ("error_max", greatest)] {
            let (above, below) = text.split_once('/').unwrap_or((text, "1"));
            let exact = above.parse::<f64>().unwrap() / below.parse::<f64>().unwrap();
            assert_eq!(document[value].as_f64(), Some(exact), "{policy}");
        }
        let keys = document.as_object().expect("an object").len();
        assert_eq!(keys, 8, "{document}");
        let text =
            good(Path::new("."), &format!("schedule --policy {policy} --weights {weights} --slots {}", expected.len()));
        assert_eq!(text.out, format!("{expected}\nservice error from {least} to {greatest}\n"));
    }
}

#[test]
fn the_order_of_arrival_and_ties_decide() {
    assert_eq!(digits(&schedule("--policy drr --weights 1,1,1 --slots 6 --order 3,1,2")), "312312");
    assert_eq!(digits(&schedule("--policy drr --weights 3,2,1 --slots 6 --order 2,3,1")), "223111");
    assert_eq!(digits(&schedule("--policy sfq --weights 1,1,1 --slots 6")), "123123");
    assert_eq!(digits(&schedule("--policy sfq --weights 1,1,1 --slots 6 --ties highest")), "321321");
}

#[test]
fn several_processors_have_a_list_each_slot() {
    let document = schedule("--policy sfq --weights 1,1 --slots 2 --processors 3");
    assert_eq!((&document["slots"], &document["processors"]), (&json!([[1, 2, null], [1, 2, null]]), &json!(3)));
    let document = schedule("--policy sfq --weights 1 --slots 3 --processors 2");
    assert_eq!(document["slots"], json!([[1, null], [1, null], [1, null]]));
    for policy in ["drr", "sfq"] {
        let document = schedule(&format!("--policy {policy} --weights 5,3,2,1 --slots 400 --processors 2"));
        let mut served = [0; 5];
        for slot in document["slots"].as_array().expect("slots") {
            let slot: Vec<usize> =
                slot.as_array().expect("a list").iter().map(|client| client.as_u64().expect("busy") as usize).collect();
            assert!(slot.len() == 2 && slot[0] != slot[1], "{policy}: {slot:?}");
            slot.iter().for_each(|&client| served[client] += 1);
        }
        assert!(served.is_sorted_by(|a, b| *a == 0 || a >= b), "{policy}: {served:?}");
        assert_eq!(served.iter().sum::<u32>(), 800);
    }
    let text = good(Path::new("."), "schedule --policy sfq --weights 1,1 --slots 2 --processors 3").out;
    assert!(text.starts_with("11\n22\n--\nservice error from"), "{text}");
}

#[test]
fn a_plot_has_a_line_for_each_client() {
    let directory = directory();
    for (slots, weights, shown) in
        [(24, "12,3,3,2,2,2", 6), (20_000, "3,2,1", 3), (50, &["1"; 20].join(","), 16), (1, "5", 0)]
    {
        let words = format!("schedule --policy wrr --weights {weights} --slots {slots} --plot wrr.svg --json");
        let document = good(directory.path(), &words).json();
        let text = std::fs::read_to_string(directory.path().join("wrr.svg")).expect("it was written");
        let plot = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let said = |name: &str| -> Vec<String> {
            let found = plot.descendants().filter(|node| node.tag_name().name() == name);
            found.filter_map(|node| node.text()).map(|text| text.trim().to_owned()).collect()
        };
        let legend = said("text").iter().filter(|text| text.starts_with("client ")).count();
        assert_eq!(legend, shown, "{weights}");
        assert!(said("title")[0].starts_with("Service error under wrr"));
        let errors = format!(
            "from {} to {}",
            document["error_min_exact"].as_str().unwrap(),
            document["error_max_exact"].as_str().unwrap()
        );
        assert!(said("desc")[0].contains(&errors), "{errors}: {:?}", said("desc"));
        assert!(text.len() < 2_000_000, "{} bytes", text.len());
    }
    assert_eq!(files(directory.path()), ["wrr.svg"]);
    let said =
        run(directory.path(), &["schedule", "--policy", "wrr", "--weights", "1", "--slots", "1", "--plot", "no/a.svg"]);
    assert_eq!(said.code, Some(2));
    said.assert_one_line(&["cannot write `no/a.svg`"]);
}

/// PROPORTIONAL_SHARE section 5.1: the heavy client of `wrr` is ahead by exactly w (1 - w / W), and where it goes last behind by
/// as much.
#[test]
fn random_weights_have_exact_extremes() {
    let words = "schedule --policy wrr --clients 32 --total 4096 --draws 5";
    let first = document(Path::new("."), words);
    assert_eq!((&first["heaviest"], &first["slots"], &first["draws"]), (&json!(410), &json!(4096), &json!(5)));
    // 410 * (4096 - 410) / 4096
    assert_eq!(first["error_max_exact"], "377815/1024");
    assert_eq!(first["error_max_at"], json!({ "draw": 1, "client": 1, "weight": 410, "slots": 410 }));
    assert_eq!(first["error_max"].as_f64(), Some(377_815.0 / 1024.0));
    let last = document(Path::new("."), &format!("{words} --heavy last"));
    assert_eq!(last["error_min_exact"], "-377815/1024");
    assert_eq!(last["error_min_at"], json!({ "draw": 1, "client": 32, "weight": 410, "slots": 3686 }));
    let text = good(Path::new("."), words).out;
    assert!(
        text.starts_with("wrr: 32 clients, weights add up to 4096, the heavy one has 410; 5 draws of 4096 slots\n")
    );
    assert!(text.contains("377815/1024: client 1 of weight 410 after 410 slots of draw 1\n"), "{text}");
    let keys = first.as_object().expect("an object").len();
    assert_eq!(keys, 17, "{first}");
}

#[test]
fn random_weights_are_the_same_on_any_number_of_threads() {
    let words = "schedule --policy gr3mp --clients 64 --total 4096 --draws 12 --processors 4 --json --threads";
    let one = good(Path::new("."), &format!("{words} 1"));
    assert_eq!(one.out, good(Path::new("."), &format!("{words} 2")).out);
    assert_eq!(one.out, good(Path::new("."), &format!("{words} 5")).out);
    let document = one.json();
    assert_eq!((&document["slots"], &document["processors"]), (&json!(1024), &json!(4)));
    assert!((1..=7).contains(&document["queue_draws_max"].as_u64().expect("gr3mp counts them")), "{document}");
    let seeded = good(Path::new("."), &format!("{words} 2 --seed 2")).json();
    assert_ne!(seeded["error_max_exact"], document["error_max_exact"]);
    let short = good(Path::new("."), &format!("{words} 2 --slots 3")).json();
    assert_eq!(short["slots"], 3);
    assert!(short["error_max_at"]["slots"].as_u64().expect("a number") <= 3);
}

#[test]
fn ties_decide_what_the_heavy_client_gets() {
    let least = |words: &str| {
        let words = format!("schedule --policy sfq --clients 32 --total 2048 --draws 3 {words}");
        document(Path::new("."), &words)["error_min"].as_f64().expect("a number")
    };
    assert!(least("--ties highest") < least("--ties lowest"));
    assert_eq!(least("--ties highest"), least("--ties lowest --heavy last"));
}

#[test]
fn clients_that_are_entitled_to_more_than_a_processor_are_told() {
    let told = |words: &str| {
        let words = format!("schedule --slots 4 {words}");
        let said = run(Path::new("."), &words.split(' ').collect::<Vec<_>>());
        assert_eq!(said.code, Some(0), "{words}: {said:?}");
        said.err
    };
    assert_eq!(told("--policy sfs --weights 3,2,1 --processors 2"), "");
    assert_eq!(
        told("--policy sfs --weights 100,60,3,3,2,2,1,1 --processors 4"),
        "humpyard: warning: of 4 processors clients 1 (of weight 100), 2 (of weight 60) cannot have more than one, as with \
         weight 6; errors are by the weights as given\n"
    );
    assert_eq!(told("--policy drr --weights 1,1 --processors 3"), "");
    assert!(told("--policy drr --weights 7,5 --processors 3").contains("each can have a processor of its own"));
    assert_eq!(told("--policy sfs --weights 100,1,1 --processors 2 --json"), "");
    let draws = "--policy sfs --clients 9 --total 999 --draws 1 --processors 4 --skew";
    assert!(told(&format!("{draws} 0.3")).contains("the heavy client cannot have more than one"));
    assert_eq!(told(&format!("{draws} 0.2")), "");
    let text = good(Path::new("."), &format!("schedule --slots 4 {draws} 0.2")).out;
    assert!(text.contains("; 1 draw of 4 slots on 4 processors"), "{text}");
}
