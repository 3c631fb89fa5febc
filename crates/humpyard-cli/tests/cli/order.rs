//! `--flow-order`: flows leave in the order in which they came, under any policy and of any client.

use std::fs;

use serde_json::Value;

use crate::support::{assert_balanced, captures, directory, document, good, number, refused};

/// A connection in an elephant, web pages, and a call: each with packets of one flow close to each other.
const CAPTURES: [&str; 3] =
    ["elephants/EIP-FirmwareChange.pcap", "elephants/melsoft_variant_clean.pcap", "video/video_call_0.pcap"];

/// Rules that name clients, so that packets of one flow may be on several cores at once.
const RULES: &str = "--rule protocol=tcp,client=tcp,weight=3 --rule protocol=any,client=rest --policy drr";

/// On real threads the system may keep a worker from its processor for longer than a second.
const PATIENT: &str = "--flow-order exit:time=60s";

fn order(result: &Value, what: &str) -> u64 {
    number(result, &format!("/order/{what}"))
}

fn assert_in_order(result: &Value, what: &str) {
    assert_balanced(result);
    assert_eq!(result["order"]["promised"], "exit", "{what}");
    let exit = ["missed_turn", "given_up"].map(|key| number(result, &format!("/exit/{key}")));
    assert_eq!((order(result, "out_of_order"), exit), (0, [0, 0]), "{what}");
}

#[test]
fn clients_of_rules_keep_their_flows_in_order() {
    let Some(traces) = captures("clients_of_rules_keep_their_flows_in_order") else { return };
    let directory = directory();
    let at = directory.path();
    let mut disorder = 0;
    for capture in CAPTURES {
        let words = format!("--input {} {RULES} --services encrypt", traces.join(capture).display());
        let free = document(at, &format!("sim {words} --cores 2 --load 0.9 --flow-order free"));
        assert!(free.get("exit").is_none() && free["order"]["promised"] == "free");
        disorder += order(&free, "out_of_order");
        let simulated = document(at, &format!("sim {words} --cores 2 --load 0.9"));
        assert_in_order(&simulated, capture);
        assert_eq!(number(&simulated, "/packets/processed"), number(&free, "/packets/processed"), "{capture}");
        assert_in_order(&document(at, &format!("run {words} --workers 2 --clock virtual --rate 300k")), capture);
        assert_in_order(&document(at, &format!("run {words} --workers 2 {PATIENT}")), capture);
    }
    assert!(disorder > 100, "{disorder} packets out of order without an exit");
}

/// Packets at the exit take places of the buffer, so that a source that waits for room waits for cores, too.
#[test]
fn a_source_that_waits_goes_on_however_few_places_there_are() {
    let directory = directory();
    let input = "--input gen:messages:packets=1000,expiring=0 --services pass --overload wait";
    for buffer in [1, 2, 3, 40] {
        for (policy, clock) in [("rr", "real"), ("fcfs", "real"), ("drr --clients service", "real"), ("rr", "virtual")]
        {
            let words =
                format!("run {input} --policy {policy} --workers 3 --clock {clock} --buffer {buffer} {PATIENT}");
            let result = document(directory.path(), &words);
            assert_in_order(&result, &words);
            assert_eq!(number(&result, "/packets/forwarded"), 1000, "{words}");
        }
    }
}

#[test]
fn the_promise_is_told() {
    let directory = directory();
    let at = directory.path();
    let sim = "sim --input gen:poisson:packets=500 --policy drr --cores 2 --load 0.5";
    for (order, shown) in [
        ("", "exit:packets=4096,time=1s"),
        ("--buffer 99", "exit:packets=99,time=1s"),
        ("--flow-order exit:packets=64,time=5ms --buffer 99", "exit:packets=64,time=5ms"),
        ("--flow-order hold", "hold"),
        ("--flow-order free", "free"),
    ] {
        let words = format!("{sim} {order}");
        let result = document(at, &words);
        assert_eq!(result["options"]["flow-order"], shown);
        let promised = shown.split(':').next().expect("a name");
        assert_eq!(result["order"]["promised"], promised);
        assert_eq!(result.get("exit").is_some(), promised == "exit", "{words}");
        assert!(good(at, &words).out.contains(&format!("promised {promised}")), "{words}");
    }
    for (order, said) in [
        (
            "",
            "Order of flows: kept at the exit, where at most 4096 packets wait for earlier ones of their flow, each no longer than 1.00 s.",
        ),
        ("flow-order = \"hold\"\n", "Order of flows: kept: a client has one packet in service at a time."),
        ("flow-order = \"free\"\n", "Order of flows: not kept: packets leave as they are done."),
    ] {
        fs::write(at.join("run.toml"), format!("policy = \"drr\"\ninput = \"gen:poisson\"\n{order}"))
            .expect("it is written");
        let out = good(at, "check run.toml").out;
        assert!(out.contains(said), "{out}");
    }
}

#[test]
fn what_cannot_keep_its_promise_is_refused() {
    let directory = directory();
    let at = directory.path();
    let sim = "sim --input gen:poisson:packets=10 --cores 2";
    for (options, said) in [
        ("--policy fcfs --flow-order hold", "--flow-order hold: `fcfs` serves packets in order of arrival"),
        ("--policy rr --flow-order hold", "use --flow-order exit"),
        ("--policy drr --swap 1ms=fcfs --flow-order hold", "use --flow-order exit"),
        ("--policy hrw --split share=0.5 --flow-order free", "--flow-order free: packets of flows that are split"),
        ("--policy hrw --flow-order keep", "--flow-order: no order of flows `keep`; there are: exit, hold, free"),
        ("--policy hrw --reorder 1ms", "no option `--reorder`; use --flow-order exit:time=TIME"),
        ("--policy hrw --reorder-buffer 9", "no option `--reorder-buffer`; use --flow-order exit:packets=PACKETS"),
    ] {
        refused(at, &format!("{sim} {options}"), &[said]);
    }
    refused(at, "compare --input gen:poisson --policy drr --policy fcfs --flow-order hold", &["`fcfs` serves"]);
    fs::write(at.join("old.toml"), "policy = \"hrw\"\nreorder = \"1ms\"\n").expect("it is written");
    refused(at, "check old.toml", &["old.toml:2:1: no key `reorder`; use --flow-order exit:time=TIME"]);
    // One core keeps every order.
    good(at, "sim --input gen:poisson:packets=10 --cores 1 --policy fcfs --flow-order hold");
}
