//! `validate`: policies live, beside what the simulator predicts. How near predictions are is the machine's
//! business, which no test here is about.

use std::fs;

use humpyard::topology::processors;
use serde_json::Value;

use crate::support::{directory, make_capture, refused, run};

/// A host whose figures are those of no machine, so that nothing is measured.
const HOST: &str = "version = 1\nsource = \"by hand\"\n[machine]\nprocessors = 2\nturn_ns = 100\ntake_in_ns = 200\n";

const SHORT: &str = "validate --input gen:imix:packets=4k --rate 100k --policy hrw --policy fcfs --costs measured \
                     --host host.toml --quiet";

/// The document of a validation, which may miss its bounds here.
fn validated(words: &str) -> Value {
    let directory = directory();
    fs::write(directory.path().join("host.toml"), HOST).expect("a file");
    let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
    let document = said.json();
    let count = |key: &str| document[key].as_array().map_or(0, Vec::len);
    let missed = count("shortfalls");
    assert_eq!(said.code, Some(i32::from(missed > 0)), "{said:?}");
    // `validate` warns if other tests keep the processors busy meanwhile.
    assert_eq!(said.err.lines().count(), missed + count("warnings"), "{said:?}");
    document
}

#[test]
fn figures_stand_beside_their_predictions() {
    for workers in [0, 1] {
        let document = validated(&format!("{SHORT} --workers {workers} --services encrypt --json"));
        assert_eq!(document["host"], "host.toml");
        let policies = document["policies"].as_array().expect("policies");
        assert_eq!(policies.len(), 2);
        for policy in policies {
            assert_eq!(policy["packets"], 4_000, "{policy:#}");
            assert_eq!(policy["host"]["source"], "by hand");
            // There is one core at most, so both serve by it what they serve.
            assert_eq!(policy["decisions"]["core_alike"], 1.0, "{policy:#}");
            assert_eq!(policy["decisions"]["packets"], 4_000, "{policy:#}");
            let figures = policy["figures"].as_array().expect("figures");
            let names: Vec<&str> = figures.iter().filter_map(|figure| figure["figure"].as_str()).collect();
            assert_eq!(names, ["throughput", "utilization", "p50", "p99", "loss"]);
            // Packets come at their rate, whatever the machine does meanwhile.
            let throughput = figures[0]["predicted"].as_f64().expect("a rate");
            assert!((99e3..101e3).contains(&throughput), "{figures:#?}");
            for figure in figures {
                let of = |key: &str| figure[key].as_f64().expect("a number");
                assert!(of("bound") >= of("aim") && of("bound") <= 2.0 * of("aim"), "{figure:#}");
                assert_eq!(figure["holds"], of("error").abs() <= of("bound"), "{figure:#}");
            }
        }
    }
}

#[test]
fn several_dispatchers_are_predicted_and_told_where_their_threads_share_processors() {
    let document = validated(&format!("{SHORT} --workers 2 --dispatchers 2 --json"));
    assert_eq!((&document["workers"], &document["dispatchers"]), (&2.into(), &2.into()));
    for policy in document["policies"].as_array().expect("policies") {
        assert_eq!(policy["packets"], 4_000, "{policy:#}");
        assert_eq!(policy["decisions"], Value::Null, "{policy:#}");
        let throughput = policy["figures"][0]["predicted"].as_f64().expect("a rate");
        assert!((99e3..101e3).contains(&throughput), "{policy:#}");
    }
    let share = "a reader, 2 dispatchers and 2 workers share ";
    let warnings = document["warnings"].as_array();
    let is_told = warnings.is_some_and(|all| all[0].as_str().is_some_and(|says| says.starts_with(share)));
    assert_eq!(is_told, processors().len() < 5, "{document:#}");
}

#[test]
fn live_figures_are_held_against_saved_ones() {
    let directory = directory();
    fs::write(directory.path().join("host.toml"), HOST).expect("a file");
    let validate = |more: &str| {
        let words = format!("{SHORT} --workers 0 --json {more}");
        run(directory.path(), &words.split_whitespace().collect::<Vec<_>>())
    };
    let mut saved = validate("").json();
    let write = |saved: &Value| fs::write(directory.path().join("saved.json"), saved.to_string()).expect("a file");
    // A machine that took a tenth of the packets has drifted.
    let throughput = &mut saved["policies"][0]["figures"][0]["live"];
    *throughput = (throughput.as_f64().expect("a rate") / 10.0).into();
    write(&saved);
    let now = validate("--against saved.json");
    let document = now.json();
    assert_eq!(document["drifts"].as_array().map(Vec::len), Some(10), "{document:#}");
    let warned = "the machine has drifted: live throughput under hrw differs by +";
    assert!(document["warnings"][0].as_str().is_some_and(|says| says.starts_with(warned)), "{document:#}");
    assert!(now.err.contains(warned), "{now:?}");
    saved["input"] = "other.pcap".into();
    write(&saved);
    let refused = validate("--against saved.json");
    assert_eq!(refused.code, Some(2));
    refused.assert_one_line(&["--against", "other.pcap"]);
    let refused = validate("--against host.toml");
    assert_eq!(refused.code, Some(2));
    refused.assert_one_line(&["--against host.toml", "validate --json"]);
    fs::write(directory.path().join("capture.json"), [0xd4, 0xc3, 0xb2, 0xa1]).expect("a file");
    validate("--against capture.json").assert_one_line(&["--against capture.json", "no saved validation"]);
    validate("--against none.json").assert_one_line(&["--against none.json: there is no such file"]);
}

#[test]
fn another_load_than_the_saved_one_is_refused() {
    let directory = directory();
    let at = directory.path();
    fs::write(at.join("host.toml"), HOST).expect("a file");
    let found =
        "validate --input gen:imix:packets=3k --policy hrw --workers 0 --costs measured --host host.toml --quiet";
    let saved = run(at, &format!("{found} --json").split_whitespace().collect::<Vec<_>>()).json();
    fs::write(at.join("saved.json"), saved.to_string()).expect("a file");
    refused(at, &format!("{found} --against saved.json --rate 1k"), &["--against", "found its rate", "omit --rate"]);
    refused(at, &format!("{found} --against saved.json --services encrypt"), &["services forward, not encrypt"]);
    for (key, value) in
        [("offered_pps", Value::from(1e300)), ("offered_pps", 0.into()), ("policies", Value::Array(vec![]))]
    {
        let mut saved = saved.clone();
        saved[key] = value;
        fs::write(at.join("saved.json"), saved.to_string()).expect("a file");
        refused(at, &format!("{found} --against saved.json"), &["--against saved.json", "not what"]);
    }
}

#[test]
fn what_has_no_prediction_is_refused_and_damage_is_told() {
    let directory = directory();
    let at = directory.path();
    fs::write(at.join("host.toml"), HOST).expect("a file");
    make_capture(at, "whole.pcap", 3_000);
    let whole = fs::read(at.join("whole.pcap")).expect("a capture");
    fs::write(at.join("cut.pcap"), &whole[..whole.len() - 10]).expect("a file");
    let more = "--rate 100k --workers 0 --costs measured --host host.toml --quiet";
    let words = format!("validate --input cut.pcap --policy hrw {more} --json");
    let said = run(at, &words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("cut.pcap: damaged at byte"), "{said:?}");
    let document = said.json();
    assert_eq!(document["policies"][0]["packets"], 2_999);
    assert!(document["policies"][0]["damage"].as_str().is_some_and(|damage| damage.contains("in record 3000")));
    let empty = format!("validate --input gen:poisson:packets=0 --policy hrw {more}");
    refused(at, &empty, &["there is no packet in `gen:poisson:packets=0`"]);
    let quantum = format!("validate --input whole.pcap --policy shinjuku {more}");
    refused(at, &quantum, &["`shinjuku` gives packets back", "nothing predicts its live runs"]);
}

#[test]
fn a_rate_is_found_and_a_page_written() {
    let directory = directory();
    fs::write(directory.path().join("host.toml"), HOST).expect("a file");
    let words = "validate --input gen:imix:packets=3k --policy rr --workers 1 --services dpi --costs table:measured --host host.toml \
                 --report v.html";
    let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
    assert!(matches!(said.code, Some(0 | 1)), "{said:?}");
    for word in
        ["offered", "predicted", "between runs", "utilization", "Costs: dpi: 138 ns", "host `host.toml` (by hand)"]
    {
        assert!(said.out.contains(word), "`{word}` is not in {}", said.out);
    }
    let page = fs::read_to_string(directory.path().join("v.html")).expect("a page");
    assert!(page.contains("Is the simulator true?") && page.contains("p99"), "{page}");
}

#[test]
fn a_host_takes_time_around_the_services() {
    let directory = directory();
    fs::write(directory.path().join("host.toml"), HOST).expect("a file");
    let p50 = |more: &str| {
        let words = format!("sim --input gen:poisson:packets=500,pps=1000 --policy hrw --json {more}");
        let document = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>()).json();
        (document["delay_ns"]["p50"].as_u64().expect("a delay"), document["assumed"]["source"].clone())
    };
    let ((ideal, nobody), (hosted, source)) = (p50(""), p50("--cores 0 --host host.toml"));
    assert_eq!((nobody, source), (Value::Null, Value::from("by hand")));
    assert_eq!(hosted - ideal, 300, "a turn of 100 and 200 for the packet");
    let words = "sim --input gen:poisson:packets=500,pps=1000 --policy hrw --cores 0 --host host.toml";
    let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
    assert!(said.out.contains("host.toml, 2 processors, dispatcher "), "{}", said.out);
    let why = words.replace("sim ", "why ");
    let document = run(directory.path(), &format!("{why} --json").split_whitespace().collect::<Vec<_>>()).json();
    let packet = &document["packet"];
    assert_eq!(packet["blame"]["total_ns"], packet["delay_ns"], "{packet:#}");
    let dispatcher = packet["blame"]["parts"]["dispatcher_ns"].as_u64().expect("a part");
    assert!((200..=300).contains(&dispatcher), "{packet:#}");
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
        ("validate --input - --policy hrw --costs measured", "use a file"),
        ("validate --input gen:poisson:packets=10 --policy hrw --host ideal", "use --host here"),
        ("sim --input gen:poisson:packets=10 --policy hrw --host sever-16", "did you mean `server-16`"),
        ("sim --input gen:poisson:packets=10 --policy hrw --host server-16 --link 1Gbps", "--link"),
        ("validate --input gen:poisson:packets=10 --policy hwr", "did you mean `hrw`"),
        ("validate --input gen:poisson:packets=10 --policy hrw --workers 1000", "--workers 1000: the host `here` has"),
        (
            "sim --input gen:poisson:packets=10 --policy hrw --host here --hand-over 1us",
            "--hand-over is simulated on an ideal",
        ),
        ("recommend --input gen:poisson:packets=10 --goal p99<1ms --workers 1000 --verify", "by simulation alone"),
        ("validate --input gen:poisson:packets=10 --swap 1ms=hrw", "--swap"),
        ("validate --input gen:poisson:packets=10 --dispatchers 0", "use --dispatchers 1 or more"),
        ("validate --input gen:poisson:packets=10 --dispatchers 2 --workers 1", "have 2 workers, or fewer"),
        ("validate --input gen:poisson:packets=10 --dispatchers 2 --topology 2:2", "--topology"),
        ("validate --input nowhere.pcap", "nowhere.pcap"),
        ("validate --input gen:poisson:packets=10 --services nothing", "nothing"),
        ("sim --input gen:poisson:packets=10 --policy hrw --hand-over 3", "--hand-over"),
    ] {
        let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, Some(2), "{words}: {said:?}");
        said.assert_one_line(&[expected]);
    }
}
