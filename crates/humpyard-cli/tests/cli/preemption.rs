//! Policies with a quantum: results, and journals of simulations and live runs.

use serde_json::Value;

use crate::support::{directory, document, good};

const SIM: &str = "sim --input gen:poisson:packets=20000,flows=50,mix=services \
                   --services tcp=forward,udp=encrypt,other=dpi --cores 2 --load 0.5";

#[test]
fn a_result_counts_preemptions_and_their_cost() {
    let directory = directory();
    let of = |words: &str| document(directory.path(), &format!("{SIM} {words}"));
    let utilization = |result: &Value| -> f64 {
        let cores = result["cores_detail"].as_array().expect("a list");
        cores.iter().map(|core| core["utilization"].as_f64().expect("a number")).sum()
    };
    let text = good(directory.path(), &format!("{SIM} --policy shinjuku:quantum=40")).out;
    assert!(text.contains(" preemptions\n"), "{text}");
    let whole = of("--policy fcfs");
    assert!(whole["preemptions"].is_null(), "{whole:#}");
    let free = of("--policy shinjuku:quantum=40,idle=yield");
    let paid = of("--policy shinjuku:quantum=40,idle=yield --switch-out 5ns");
    let stays = of("--policy shinjuku:quantum=40,idle=stay");
    let count = |result: &Value| result["preemptions"].as_u64().expect("a count");
    assert!(count(&free) > 1_000, "{free:#}");
    assert!(count(&paid).abs_diff(count(&free)) < count(&free) / 100, "a packet has about as many quanta");
    assert!(count(&stays) < count(&free) && count(&stays) > 0, "{stays:#}");
    assert!(utilization(&paid) > utilization(&free));
    let cold = |result: &Value| result["cold_fraction"].as_f64().expect("a number");
    assert!(
        cold(&free) < 1.0 && cold(&whole) < cold(&free),
        "a packet is cold once, and more often among turns of others"
    );
}

#[test]
fn a_journal_of_turns_replays_and_another_policy_differs() {
    let directory = directory();
    let at = directory.path();
    for policy in ["ps:quantum=40", "shinjuku:quantum=40,idle=yield", "concord:quantum=40", "srpt:quantum=40"] {
        good(at, &format!("{SIM} --policy {policy} --switch-out 5ns --journal j.jsonl"));
        let replayed = document(at, "replay j.jsonl");
        assert!(
            replayed["divergence"].is_null() && replayed["records"].as_u64() > Some(80_000),
            "{policy}: {replayed}"
        );
        let other = crate::support::run(at, &["replay", "j.jsonl", "--policy", "fcfs", "--json"]).json();
        assert!(!other["divergence"].is_null(), "{policy}: {other}");
        std::fs::remove_file(at.join("j.jsonl")).expect("a journal");
    }
}

/// Long payloads that DEFLATE takes its time over: several quanta of the shortest kind.
const RUN: &str = "run --input gen:poisson:packets=5000,flows=50,length=1400 --services compress:codec=deflate";

#[test]
fn cores_of_a_live_run_give_packets_back_at_yield_points() {
    let directory = directory();
    let at = directory.path();
    for policy in ["ps:quantum=1,idle=yield", "shinjuku:quantum=1,idle=yield", "concord:quantum=1,idle=yield"] {
        for workers in 0..=2 {
            let words = format!("{RUN} --policy {policy} --workers {workers} --journal j.jsonl --quiet");
            let result = document(at, &words);
            crate::support::assert_balanced(&result);
            assert_eq!(result["packets"]["forwarded"], 5_000, "{words}");
            assert_eq!(result["order"]["out_of_order"], 0, "{words}");
            // 1,366 bytes behind the IP header are six pieces.
            assert_eq!(result["preemptions"], 25_000, "{words}");
            let replayed = document(at, "replay j.jsonl");
            assert!(replayed["divergence"].is_null(), "{words}: {replayed}");
            let why = document(at, "why --journal j.jsonl --packet 100");
            assert!(why.to_string().contains("given back"), "{why}");
            std::fs::remove_file(at.join("j.jsonl")).expect("a journal");
        }
    }
    let whole = document(at, &format!("{RUN} --policy shinjuku:quantum=1000000000 --workers 1 --quiet"));
    assert!(whole["preemptions"].is_null(), "a second is enough for each packet: {whole:#}");
}
