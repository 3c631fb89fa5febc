//! The link behind the cores, in simulations and live.

use serde_json::Value;

use crate::simulated::figures;
use crate::support::{assert_balanced, captures, directory, document, good, number, packets_in, run};

const SIM: &str = "sim --input gen:poisson:packets=20000,pps=100000 --policy efq --cores 2 --costs table:predictive";

#[test]
fn results_tell_what_came_of_the_link() {
    let directory = directory();
    let at = directory.path();
    let free = document(at, &format!("{SIM} --services forward"));
    assert!(free.get("link").is_none());
    for (link, share) in [("20Mbit:queue=8", "wf2q+"), ("20Mbit:queue=4,share=drr:quantum=3000", "drr:quantum=3000")] {
        let result = document(at, &format!("{SIM} --services forward --link {link}"));
        let (packets, link) = (&result["packets"], &result["link"]);
        let number = |value: &Value| value.as_u64().expect("a number");
        let dropped: u64 = link["dropped"].as_object().expect("reasons").values().map(&number).sum();
        assert_eq!(number(&link["in"]), number(&packets["processed"]));
        assert_eq!(number(&link["in"]), number(&link["sent"]) + number(&link["held"]) + dropped);
        assert_eq!((&packets["forwarded"], &packets["dropped_out"]), (&link["sent"], &link["dropped"]));
        assert_eq!((link["policy"].as_str(), &link["rate_bps"]), (Some(share), &20_000_000.into()));
        assert!(link["utilization"].as_f64().expect("a part") > 0.9, "it is overloaded: {link}");
        assert!(number(&link["withheld"]) > 0);
        assert!(number(&link["in_all_ns"]["p50"]) >= number(&link["delay_ns"]["p50"]));
    }
    // What waits at the link grows, and so who comes later is later, in all and there.
    let delays = |warm_up: &str| {
        let result = document(at, &format!("{SIM} --services forward --link 20Mbit:queue=none --warmup {warm_up}"));
        assert_balanced(&result);
        ["delay_ns", "in_all_ns"].map(|delay| result["link"][delay]["mean"].as_f64().expect("a number"))
    };
    let (all, later) = (delays("0ns"), delays("20ms"));
    assert!(later[0] > all[0] && later[1] > all[1], "{later:?} after {all:?}");
    let said = good(at, &format!("{SIM} --services forward --link 10Gbit")).out;
    assert!(said.contains("link        20000 in = 20000 sent + 0 held + 0 dropped"), "{said}");
}

/// The figures of a result, without what only services know.
fn without_counters(result: &Value) -> Value {
    let mut figures = figures(result);
    for service in figures["services"].as_array_mut().expect("services") {
        service.as_object_mut().expect("a service").remove("counters");
    }
    figures
}

/// Flows of UDP have one weight at the cores, and another at the link.
const WEIGHED: &str =
    "--services dpi --rate 20k --clients flow --rule protocol=udp,weight=2,link-weight=5 --rule protocol=any";

/// By a virtual clock a run sends, withholds and drops what its simulation does, at the same times. (These services drop nothing.)
#[test]
fn a_run_by_a_virtual_clock_has_the_figures_of_its_simulation() {
    let Some(traces) = captures("a_run_by_a_virtual_clock_has_the_figures_of_its_simulation") else { return };
    let directory = directory();
    let at = directory.path();
    let (mut withheld, mut dropped) = (0, 0);
    for capture in ["video/video_call_0.pcap", "elephants/mb2.pcap", "elephants/melsoft_variant_clean.pcap"] {
        let input = traces.join(capture);
        for (policy, rest, link) in [
            ("efq", WEIGHED, "40Mbit:queue=4"),
            ("drr", "--services ipv4=encrypt,other=dpi --rate 30k", "20Mbit:share=sfq"),
            ("hrw", "--services l7-filter:weight=http=9 --rate 50k --buffer 100", "30Mbit:queue=none,share=drr"),
            (
                "hrw/wfq",
                "--services dpi --rate 20k --flow-order exit:time=5ms --when-full longest-queue --buffer 60",
                "10Mbit:queue=16",
            ),
        ] {
            let words = format!("--input {} --policy {policy} {rest} --link {link}", input.display());
            let live = document(at, &format!("run {words} --workers 2 --clock virtual --output out.pcap"));
            let simulated = document(at, &format!("sim {words} --cores 2"));
            assert_balanced(&live);
            assert_eq!(without_counters(&live), without_counters(&simulated), "{words}");
            for key in ["forwarded", "held_out", "dropped_out"] {
                assert_eq!(live["packets"][key], simulated["packets"][key], "{words}");
            }
            assert_eq!(packets_in(at, "out.pcap"), number(&live, "/link/sent"), "{words}");
            withheld += number(&live, "/link/withheld");
            dropped += live["link"]["dropped"]["buffer_full"].as_u64().unwrap_or(0);
        }
    }
    assert!(withheld > 100 && dropped > 100, "{withheld} withheld, {dropped} dropped");
}

/// The link withholds and lets go by calls that are in the journal.
#[test]
fn journals_of_runs_with_a_link_play_again() {
    let directory = directory();
    let at = directory.path();
    good(at, &format!("{SIM} --services forward --link 20Mbit:queue=2 --journal run.jsonl"));
    let journal = std::fs::read_to_string(at.join("run.jsonl")).expect("a journal");
    assert!(journal.contains("\"withhold\"") && journal.contains("\"end_withholding\""));
    good(at, "replay run.jsonl");
}

#[test]
fn slips_are_told_in_one_line() {
    let directory = directory();
    let at = directory.path();
    for (command, said) in [
        ("run --input gen:poisson:packets=9 --policy hrw --link 1Gbit", "name a sharing policy, hrw/efq for example"),
        (
            "run --input gen:poisson:packets=9 --policy drr --link 0",
            "bits per second from 1 to 1e13, 1Gbit for example, not `0`",
        ),
        (
            "run --input gen:poisson:packets=9 --policy drr --link 1G:queue=0",
            "`queue` takes packets from 1, or none, not `0`",
        ),
        ("run --input gen:poisson:packets=9 --policy drr --link 1G:share=wf3q", "did you mean `wfq`?"),
        (
            "run --input gen:poisson:packets=9 --policy drr --link 1G --dispatchers 2 --workers 2",
            "--dispatchers 2 do not go with --link: one link has one sender",
        ),
        (
            "run --input gen:poisson:packets=9 --policy drr --link 1G --buffer 4096 --flows 8192",
            "--flows (8192) must be greater than --buffer (4096) twice",
        ),
        ("sim --input gen:poisson:packets=9 --policy hrw --link 1Gbit", "name a sharing policy, hrw/efq for example"),
        ("sim --input gen:poisson:packets=9 --policy drr --link quick", "--link: a link has bits per second"),
        ("sim --input gen:poisson:packets=9 --policy drr --link 1G:share=hrw", "`hrw` is none"),
    ] {
        let answer = run(at, &command.split_whitespace().collect::<Vec<_>>());
        assert_eq!((answer.code, answer.out.as_str()), (Some(2), ""), "{command}: {answer:?}");
        answer.assert_one_line(&[said]);
    }
}
