//! Several dispatchers: the same packets, flows and findings as with one, and one line where there can be but one.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{
    assert_balanced, captures, directory, document, files, good, make_capture, number, packets_in, run, sum,
};

/// Panics unless the parts of the dispatchers add up to the whole.
fn assert_adds_up(result: &Value, dispatchers: u64) {
    assert_balanced(result);
    assert_eq!(number(result, "/dispatchers"), dispatchers);
    let parts = result["dispatchers_detail"].as_array().expect("one each");
    assert_eq!(parts.len() as u64, dispatchers);
    parts.iter().for_each(assert_balanced);
    for name in ["in", "processed", "forwarded", "generated", "consumed", "held"] {
        let path = format!("/packets/{name}");
        assert_eq!(parts.iter().map(|part| number(part, &path)).sum::<u64>(), number(result, &path), "{name}");
    }
    assert_eq!(parts.iter().map(|part| number(part, "/flows")).sum::<u64>(), number(result, "/flows"));
    let cores = result["cores_detail"].as_array().expect("one each");
    assert_eq!(parts.iter().map(|part| number(part, "/workers")).sum::<u64>(), cores.len() as u64);
    let served: u64 = cores.iter().map(|core| number(core, "/packets")).sum();
    assert_eq!(served, number(result, "/packets/processed"));
}

fn of_services(result: &Value, key: &str) -> Vec<u64> {
    result["services"].as_array().expect("services").iter().map(|service| number(service, key)).collect()
}

#[test]
fn real_captures_come_through_as_with_one() {
    let Some(traces) = captures("real_captures_come_through_as_with_one") else { return };
    let directory = directory();
    for (capture, policy) in [
        ("attacks/amp.dns.RRSIG.fragmented.pcap", "hrw"),
        ("attacks/amp.TCP.reflection.SYNACK.pcap", "drr"),
        ("protocols/6in6tunnel.pcap", "steer=ps-hrw/share=sfq"),
        ("protocols/443-firefox.pcap", "efq"),
        ("protocols/KakaoTalk_chat.pcap", "everest"),
    ] {
        let services = "--services tcp=forward,other=forward --output out.pcapng";
        let words = format!("run --input {} --policy {policy} --workers 4 {services}", traces.join(capture).display());
        let (one, two) =
            (document(directory.path(), &words), document(directory.path(), &format!("{words} --dispatchers 2")));
        assert_adds_up(&two, 2);
        assert!(one.get("dispatchers").is_none() && one.get("dispatchers_detail").is_none());
        assert_eq!(number(&two, "/order/out_of_order"), 0, "{words}");
        for path in ["/packets/in", "/packets/processed", "/flows", "/bytes"] {
            assert_eq!(number(&two, path), number(&one, path), "{words}: {path}");
        }
        assert_eq!(of_services(&two, "/packets"), of_services(&one, "/packets"), "{words}");
        assert_eq!(of_services(&two, "/bytes"), of_services(&one, "/bytes"), "{words}");
        assert_eq!(number(&two, "/fairness/clients"), number(&one, "/fairness/clients"), "{words}");
        assert_eq!(packets_in(directory.path(), "out.pcapng"), number(&two, "/packets/forwarded"), "{words}");
    }
}

/// What the detectors know they share, and what they are to find does not depend on who has which packet.
#[test]
fn detectors_find_what_they_find_with_one() {
    let Some(traces) = captures("detectors_find_what_they_find_with_one") else { return };
    let directory = directory();
    let found = |capture: &str, service: &str, dispatchers: u32| {
        let capture = traces.join(capture).display().to_string();
        let options = format!("--policy hrw --workers 2 --dispatchers {dispatchers} --services {service}");
        let result = document(directory.path(), &format!("run --input {capture} {options}"));
        assert_balanced(&result);
        result.pointer("/services/0/counters").cloned().expect("counters")
    };
    let alarms = |counters: &Value| number(counters, "/alarms");
    let (one, two) = (found("protocols/synscan.pcap", "portscan", 1), found("protocols/synscan.pcap", "portscan", 2));
    assert_eq!((alarms(&one), alarms(&two)), (1, 1), "{one} {two}");
    let counted = |counters: &Value| {
        let alarm = counters.as_object().expect("counters").iter().find(|(name, _)| name.starts_with("alarm_01"));
        alarm.and_then(|(_, count)| count.as_u64())
    };
    assert_eq!((counted(&one), counted(&two)), (Some(1994), Some(1994)));
    let flood = "attacks/pkt.TCP.synflood.spoofed.pcap";
    let (one, two) = (found(flood, "synflood", 1), found(flood, "synflood", 2));
    assert_eq!(alarms(&one), alarms(&two), "{one} {two}");
    assert!(alarms(&two) > 0, "{two}");
    let (one, two) =
        (found("protocols/443-chrome.pcap", "l7-filter", 1), found("protocols/443-chrome.pcap", "l7-filter", 2));
    assert_eq!(one, two);
}

#[test]
fn generators_pipes_and_several_inputs_are_dealt_out() {
    let directory = directory();
    make_capture(directory.path(), "in.pcap", 3000);
    for words in [
        "--input gen:messages:packets=20000 --policy gr3 --workers 3 --dispatchers 3",
        "--input in.pcap --input gen:poisson:packets=2000 --policy rr --workers 4 --dispatchers 2",
        "--input in.pcap --loop 5 --policy hrw --workers 5 --dispatchers 2 --rate 200k --flow-order exit:time=10ms",
        "--input gen:messages:packets=5000 --policy drr --workers 2 --dispatchers 2 --clients service --weights 2,1",
        "--input gen:messages:packets=5000 --policy conn --split share=0.5 --workers 4 --dispatchers 2 --rate trace --for 200ms",
        "--input in.pcap --policy static --guarantee tcp=0.5 --services tcp=forward,other=pass --workers 4 --dispatchers 2",
    ] {
        let result = document(directory.path(), &format!("run {words} --output out.pcap --seed 3"));
        assert_adds_up(&result, if words.contains("--dispatchers 3") { 3 } else { 2 });
        assert_eq!(packets_in(directory.path(), "out.pcap"), number(&result, "/packets/forwarded"), "{words}");
        if words.contains("--clients service") {
            assert_eq!(number(&result, "/fairness/clients"), 1, "a client of two dispatchers is one");
        }
        if words.contains("--loop") {
            assert_eq!(number(&result, "/packets/in"), 15_000);
        }
    }
}

#[test]
fn the_summary_says_how_many_there_are() {
    let directory = directory();
    let said =
        good(directory.path(), "run --input gen:poisson:packets=100 --policy hrw --workers 2 --dispatchers 2 --quiet");
    assert!(said.out.contains("(live, 2 workers of 2 dispatchers)"), "{said:?}");
    fs::write(
        directory.path().join("run.toml"),
        "dispatchers = 2\nworkers = 3\npolicy = \"hrw\"\ninput = \"gen:poisson:packets=100\"\n",
    )
    .unwrap();
    let result = document(directory.path(), "run --config run.toml");
    assert_eq!((number(&result, "/dispatchers"), &result["options"]["dispatchers"]), (2, &"2".into()));
    let checked = good(directory.path(), "check run.toml");
    assert!(checked.out.contains("dispatchers"), "{checked:?}");
}

/// Each dispatcher of a simulation gets the connections that it gets in a live run.
#[test]
fn a_simulation_deals_out_packets_as_a_live_run_does() {
    let directory = directory();
    let dealt = |words: &str, dispatchers| -> Vec<(u64, u64, u64)> {
        let result = document(directory.path(), words);
        assert_adds_up(&result, dispatchers);
        let parts = result["dispatchers_detail"].as_array().expect("one each");
        let of = |part: &Value| (number(part, "/workers"), number(part, "/packets/in"), number(part, "/flows"));
        parts.iter().map(of).collect()
    };
    for (input, policy) in [("gen:messages:packets=9000", "hrw"), ("gen:poisson:packets=9000,flows=90", "drr")] {
        let words = |command: &str| format!("{command} --input {input} --policy {policy} --dispatchers 2");
        let simulated = dealt(&(words("sim --cores 3 --host server-16") + " --journal sim.jsonl"), 2);
        assert_eq!(simulated, dealt(&words("run --workers 3 --rate line"), 2), "{input}");
        let replayed = good(directory.path(), "replay sim.jsonl");
        assert!(replayed.out.contains("records of 2 journals played, every answer the same"), "{replayed:?}");
    }
}

#[test]
fn cores_without_a_dispatcher_have_their_own_connections() {
    let directory = directory();
    let words = "sim --input gen:poisson:packets=20k,flows=2000 --policy hrw --cores 4 --host server-16 --load 0.5";
    let (one, none) =
        (document(directory.path(), words), document(directory.path(), &format!("{words} --dispatchers 0")));
    assert_eq!((number(&none, "/dispatchers"), number(&none, "/packets/in")), (0, 20_000));
    let parts = none["dispatchers_detail"].as_array().expect("one each");
    assert_eq!(parts.len(), 4);
    assert!(parts.iter().all(|part| part["utilization"].as_f64().is_some_and(|busy| busy > 0.2 && busy < 1.0)));
    // One dispatcher takes three million packets a second, and four cores are offered more.
    let pps = |result: &Value| result["throughput_pps"].as_f64().expect("a rate");
    assert!(pps(&none) > 2.0 * pps(&one), "{} {}", pps(&none), pps(&one));
    let said = good(directory.path(), &format!("{words} --dispatchers 0"));
    assert!(said.out.contains("no dispatcher, cores "), "{said:?}");
}

#[test]
fn recommend_tries_what_goes_with_the_dispatchers() {
    let directory = directory();
    let words = "recommend --input gen:messages:packets=4000 --workers 4 --load 0.5 --goal p99<1ms --host server-16 \
                 --costs table:measured --candidate hrw --candidate drr";
    let answer = document(directory.path(), &format!("{words} --dispatchers 0 --size"));
    assert_eq!(answer["search"]["skipped"][0]["policy"], "drr", "{answer:#}");
    assert!(answer["not_sure"].as_str().is_some_and(|why| why.contains("never held against live runs")));
    let remarks = answer["remarks"].to_string();
    assert!(remarks.contains("`drr` was not tried: dispatchers 0: drr needs a view of all cores"), "{remarks}");
    let sizes = answer["sizing"]["sizes"].as_array().expect("sizes");
    let command = sizes[0]["command"].as_str().expect("a command").trim_start_matches("humpyard ").replace('\'', "");
    assert!(command.contains("--dispatchers 0"), "{command}");
    let live = answer["command"].as_str().expect("a command");
    assert!(live.contains("--input iface:IN --output iface:OUT") && !live.contains("gen:"), "{live}");
    assert_eq!(number(&document(directory.path(), &command), "/dispatchers"), 0);
    // Windows of the input are looked for with one dispatcher, and all policies are tried.
    let all = "recommend --input gen:messages:packets=4000 --workers 4 --load 0.5 --goal p99<20us --host server-16 \
               --costs table:measured";
    // No policy keeps the goal with one dispatcher, which exits with 1.
    let of =
        |words: &str| run(directory.path(), &words.split_whitespace().chain(["--json"]).collect::<Vec<_>>()).json();
    let one = of(all);
    assert!(one["reason"].as_str().is_some_and(|why| why.contains("the dispatcher is busy all the time")), "{one:#}");
    let limits = |sized: &Value| -> Vec<String> {
        let sizes = sized["sizing"]["sizes"].as_array().expect("sizes");
        sizes.iter().filter_map(|size| size["limit"].as_str()).map(str::to_owned).collect()
    };
    let sized = of(&format!("{all} --candidate hrw --size"));
    let expected = "with 32 cores the dispatcher is busy ";
    assert!(limits(&sized).len() == 4 && limits(&sized).iter().all(|why| why.starts_with(expected)), "{sized:#}");
    let enough = of(&format!("{all} --candidate hrw --size --dispatchers 0"));
    assert!(limits(&enough).is_empty(), "{enough:#}");
    let none = of(&format!("{all} --dispatchers 0"));
    assert!(none.get("dispatcher_utilization").is_none());
    assert!(none["reason"].as_str().is_some_and(|why| !why.contains("dispatcher")), "{none:#}");
    assert!(none["winner"]["figures"]["delay_p99_ns"].as_f64() < one["winner"]["figures"]["delay_p99_ns"].as_f64());
    of(&format!("{all} --dispatchers 2"));
    let client = all.replace("p99<", "p99[client1]<") + " --dispatchers 2";
    assert_refused(directory.path(), &client, "names clients");
    // Fewer cores than dispatchers are not tried.
    let answer = document(directory.path(), &format!("{words} --dispatchers 3 --size"));
    let cores: Vec<u64> =
        answer["sizing"]["sizes"].as_array().expect("sizes").iter().map(|one| number(one, "/cores")).collect();
    assert!(cores.iter().all(|&cores| cores >= 3), "{cores:?}");
}

#[test]
fn an_ideal_host_has_no_dispatchers() {
    let directory = directory();
    for words in [
        "sim --input gen:poisson:packets=10 --policy hrw --dispatchers 2",
        "recommend --input gen:poisson:packets=2k --goal p99<1ms --host ideal --dispatchers 0",
    ] {
        assert_refused(directory.path(), words, "give --host");
    }
    let on_host = "sim --input gen:poisson:packets=10 --host server-16 --cores 2";
    assert_refused(
        directory.path(),
        &format!("{on_host} --policy drr --dispatchers 0"),
        "drr needs a view of all cores",
    );
    assert_refused(directory.path(), &format!("{on_host} --policy drr --dispatchers 3"), "have 3 cores");
    assert_refused(directory.path(), &format!("{on_host} --policy drr --dispatchers 2 --speeds 0.5"), "--speeds");
    let piped = "sim --input - --rate 1M --host server-16 --cores 2 --policy hrw --dispatchers 2";
    assert_refused(directory.path(), piped, "pipes and interfaces do not allow: use a file");
}

/// Panics unless these words are refused with a line that has this in it, and no file came.
fn assert_refused(directory: &Path, words: &str, expected: &str) {
    let before = files(directory);
    let said = run(directory, &words.split_whitespace().collect::<Vec<_>>());
    assert!(said.code == Some(2) && said.out.is_empty(), "{words}: {said:?}");
    said.assert_one_line(&["--dispatchers", expected]);
    assert_eq!(files(directory), before, "{words}");
}

#[test]
fn what_is_for_one_dispatcher_is_refused() {
    let directory = directory();
    for (words, expected) in [
        ("--dispatchers 0", "iface: alone, and the input is gen:poisson"),
        ("--dispatchers some", "takes auto or 0 to 1024, not `some`"),
        ("--dispatchers 1025", "takes auto or 0 to 1024"),
        ("--dispatchers 3", "--workers 2: have 3 workers"),
        ("--dispatchers 2 --workers 0", "--workers 0"),
        ("--dispatchers 2 --clock virtual", "--clock"),
        ("--dispatchers 2 --timeline run.perfetto-trace", "--timeline"),
        ("--dispatchers 2 --swap 1s=rr", "--swap"),
        ("--dispatchers 2 --workers 4 --contexts 2", "--contexts"),
        ("--dispatchers 2 --weights 3,1", "--weights"),
        ("--dispatchers 2 --topology 2x1", "names processors"),
    ] {
        let words = format!("run --input gen:poisson:packets=10 --policy hrw {words}");
        assert_refused(directory.path(), &words, expected);
    }
    // What was said, not the part of it that one of them has.
    let said = run(
        directory.path(),
        &"run --input gen:poisson:packets=10 --policy hrw --dispatchers 2 --flows 2".split(' ').collect::<Vec<_>>(),
    );
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    said.assert_one_line(&["--flows (2) must be greater than --buffer (4096)"]);
    assert_refused(directory.path(), "run --input nfqueue:7 --policy hrw --dispatchers 2", "--queue-balance");
    let of_services = "--services tcp=forward,udp=forward,other=forward --policy static --workers 4";
    let words = format!("run --input gen:poisson:packets=10 {of_services} --dispatchers 2");
    assert_refused(directory.path(), &words, "3 services need at least 3 cores");
    let result = document(directory.path(), "run --input gen:poisson:packets=10 --policy hrw --dispatchers 1");
    assert_eq!(sum(&result, "/packets/dropped"), 0);
}
