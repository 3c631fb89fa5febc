//! Admission: who is, who is not and why, and what would fit.

use std::fs;
use std::path::Path;

use crate::support::{Said, directory, document, good, run};

const ROUTER: &str = "admit --costs table:predictive --margin 0 --cold none";
const FLOW: &str = "service=encrypt,rate=10Mbit,length=500,burst=8k";

fn words(directory: &Path, words: &str) -> Said {
    run(directory, &words.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn the_papers_flow_takes_a_quarter_of_an_engine() {
    let directory = directory();
    let at = directory.path();
    let said = good(at, &format!("{ROUTER} --cores 1 --link 20Mbit --flow name=video,{FLOW}"));
    let link = "--link 20000000bit:queue=64,share=efq:total=1000000,clock=work";
    for part in ["video", "0.2425", "10.0 Mb/s", "6.40 ms", "242500", "500000", "50.0 %", "efq:total=1000000", link] {
        assert!(said.out.contains(part), "{part}\n{}", said.out);
    }
    let one = words(at, &format!("{ROUTER} --cores 1 --speeds 0.1 --flow-order free --json --flow {FLOW}"));
    assert_eq!((one.code, &one.json()["flows"][0]["admitted"]), (Some(1), &false.into()));
    let slow = document(at, &format!("{ROUTER} --cores 3 --speeds 0.1,0.1,0.1 --flow-order free --flow {FLOW}"));
    assert!((slow["flows"][0]["engines"].as_f64().unwrap() - 2.425).abs() < 1e-9);
}

/// Costs that say what their machine adds.
const MACHINE: &str = "version = 1\n[services.encrypt]\nfixed_ns = 50000\n\
    [machine]\nhand_over_ns = 2000\ntaken = [[0, 9000000], [0.05, 700000], [0.2, 100000]]\n\
    worker_runs = [[4000000, 3]]\nworker_stops = [[2000, 2], [900000, 1]]\n";

#[test]
fn bounds_know_of_the_machine() {
    let directory = directory();
    let at = directory.path();
    fs::write(at.join("here.toml"), MACHINE).unwrap();
    let flow = format!("--margin 0.1 --cold none --flow {FLOW}");
    let bound = |more: &str| {
        let said = document(at, &format!("admit --cores 1 --costs here.toml {flow} {more}"));
        let bound = |part: &str| said["flows"][0]["bound_ns"][part].as_f64().unwrap();
        ["packet", "machine", "engines"].map(bound)
    };
    let measured = bound("");
    // A packet of the flow, estimated 5 % too short, and its handing over; while the machine takes 5 %.
    assert!((measured[0] - (1.05 * 50_000.0 + 2_000.0) / 0.95).abs() < 1e-6, "{measured:?}");
    assert!((measured[1] - 700_000.0 / 0.95).abs() < 1e-6, "{measured:?}");
    let three = bound("--in-flight 3");
    assert!((three[0] - 3.0 * measured[0]).abs() < 1e-6 && three[1] == measured[1], "{three:?}");
    let alone = bound("--hand-over 0ns --taken 0:0ns");
    assert_eq!(alone[..2], [1.05 * 50_000.0, 0.0]);
    assert!(alone[2] < measured[2]);
    let said = good(at, &format!("admit --cores 1 --costs here.toml {flow}"));
    let options = "efq:total=1000000,clock=work,charge-most=1.05 --hand-over 2us, live with --in-flight 1,";
    assert!(said.out.contains(options), "{}", said.out);
}

#[test]
fn simulated_cores_are_interrupted_as_measured() {
    let directory = directory();
    let at = directory.path();
    fs::write(at.join("here.toml"), MACHINE).unwrap();
    let sim = "sim --input gen:poisson:packets=2k --policy drr --services encrypt --load 0.5 --cores 1";
    let delay = |more: &str| document(at, &format!("{sim} --costs here.toml {more}"))["delay_ns"].clone();
    let (alone, interrupted) = (delay(""), delay("--interrupted"));
    assert!(alone["max"].as_u64() < interrupted["max"].as_u64(), "{alone} {interrupted}");
    assert_eq!(interrupted, delay("--interrupted"));
    assert_ne!(interrupted, delay("--interrupted --seed 2"));
    let slip = words(at, &format!("{sim} --costs table:measured --interrupted"));
    slip.assert_one_line(&["--interrupted: `table:measured` does not say how cores are interrupted"]);
}

#[test]
fn a_flow_that_is_refused_hears_what_would_fit() {
    let directory = directory();
    let at = directory.path();
    let two = format!("{ROUTER} --cores 1 --link 45Mbit --flow {FLOW}");
    let said = words(at, &format!("{two} --flow {}", FLOW.replace("10M", "40M")));
    assert_eq!((said.code, said.err.as_str()), (Some(1), ""));
    let line = "flow2 refused: it needs 0.9700 engines of router, where 0.7575 are free and needs 40.0 Mb/s of the link, \
                where 35.0 Mb/s are free; a rate of 31237113 bit/s would fit, or 2 cores there and a link of 50000000 bit/s";
    assert!(said.out.contains(line), "{}", said.out);
    good(at, &format!("{two} --flow {}", FLOW.replace("10Mbit", "31237113")));
    let said = words(at, &format!("{two} --flow {}", FLOW.replace("10Mbit", "31237115")));
    assert_eq!(said.code, Some(1));
}

#[test]
fn what_is_said_to_do_does() {
    let directory = directory();
    let at = directory.path();
    let fast = FLOW.replace("10M", "1G");
    let said = words(at, &format!("admit --costs table:predictive --flow-order hold --flow {fast}"));
    let line = "flow1 refused: it needs 28.5000 engines of router, where 1.9000 are free and keeps its order, so it has one \
                at a time; a rate of 35087719 bit/s would fit, or --flow-order exit and 30 cores there, or engines of speed \
                28.5 there\n";
    assert!(said.out.contains(line), "{}", said.out);
    for more in ["--flow-order exit --cores 30", "--cores 30", "--flow-order hold --speeds 28.5,28.5"] {
        good(at, &format!("admit --costs table:predictive --flow {fast} {more}"));
    }
    let less = fast.replace("1Gbit", "35087719");
    good(at, &format!("admit --costs table:predictive --flow-order hold --flow {less}"));
    // As many cores, or as fast, as there cannot be.
    let said = words(at, &format!("admit --costs table:predictive --margin 0.999999 --flow {FLOW}"));
    let line = "where 0.0000 are free; a rate of 70 bit/s would fit\n";
    assert!(said.out.contains(line), "{}", said.out);
}

const NETWORK: &str = r#"
[[node]]
name = "a"
[[node]]
name = "b"
engines = 2
[[node]]
name = "c"
[[link]]
from = "a"
to = "b"
rate = "100Mbit"
delay = "1ms"
[[link]]
from = "b"
to = "c"
rate = "100Mbit"
both-ways = false
"#;

#[test]
fn files_say_flows_and_networks() {
    let directory = directory();
    let at = directory.path();
    fs::write(at.join("net.toml"), NETWORK).unwrap();
    fs::write(
        at.join("flows.csv"),
        "name,service,rate,length,burst,from,to\none,fec,5M,500,4k,a,c\ntwo,fec,5M,500,4k,c,a\n",
    )
    .unwrap();
    let said = words(at, "admit --topology net.toml --costs predictive --flows flows.csv");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("two refused: no path leads there through a node with engines"), "{}", said.out);
    // A first line of names says that it is CSV, whatever the file is called.
    fs::rename(at.join("flows.csv"), at.join("flows.txt")).unwrap();
    let said = words(at, "admit --topology net.toml --costs predictive --flows flows.txt --json");
    let admission = said.json();
    assert_eq!((&admission["admitted"], &admission["refused"]), (&1.into(), &1.into()));
    assert_eq!(admission["flows"][0]["path"], serde_json::json!(["a", "b", "c"]));
    let link = admission["flows"][0]["link_bps"].as_f64().unwrap();
    assert!((link - 5.7e6).abs() < 1.0, "{link}");
    assert!(admission["flows"][0]["bound_ns"]["links"].as_f64().unwrap() > 1e6);
}

#[test]
fn slips_are_told_in_one_line() {
    let directory = directory();
    let at = directory.path();
    fs::write(at.join("bad.toml"), "[[flow]]\nservice = \"dpi\"\nrate = \"1M\"\nlength = 100\n").unwrap();
    for (command, said) in [
        ("admit", "there is no flow to admit: --flow service=encrypt"),
        (&format!("admit --flow {FLOW} --margin 1"), "--margin takes a part of the engines from 0 to below 1, not 1"),
        (&format!("admit --flow {FLOW} --cold often"), "--cold takes `worst`, `none` or a part"),
        (&format!("admit --flow {FLOW} --error dpi=2"), "--error takes a part of the estimate from 0 to 1"),
        (
            &format!("admit --flow {FLOW} --error compres=0.9"),
            "--error: no service of these flows `compres`; there are: encrypt",
        ),
        (&format!("admit --flow {FLOW} --error 0.1,0.2"), "--error `0.2`: what holds for all others is given twice"),
        (&format!("admit --flow name=,{FLOW}"), "`name` is empty: give it a value, or leave it out"),
        (&format!("admit --flow {FLOW} --link fast"), "--link takes bits per second, 1Gbit for example, not `fast`"),
        (&format!("admit --flow {FLOW} --cores 1 --speeds 1,1"), "--speeds names 2 cores, and there are 1"),
        (&format!("admit --flow {FLOW} --topology none.toml"), "--topology: there is no file `none.toml`"),
        (&format!("admit --flow {FLOW} --costs none.toml"), "--costs: none.toml: there is no such cost file"),
        (&format!("admit --flow {FLOW} --taken 0.02"), "--taken takes PART:TIME, 0.02:500us for example, not `0.02`"),
        (
            &format!("admit --flow {FLOW} --taken 0.1:1ms"),
            "the machine takes 10.0 % of its engines, and the margin is 5.00 %",
        ),
        (&format!("admit --flow {FLOW} --hand-over 3"), "--hand-over"),
        (&format!("admit --flow {FLOW} --in-flight 2 --flow-order hold"), "--in-flight 1, or --flow-order exit"),
        ("admit --flow service=dpi,rate=1M,length=9", "a flow has a `burst`"),
        ("admit --flows bad.toml", "bad.toml:1:1: a flow has a `burst`"),
        ("admit --flows none.toml", "--flows: there is no file `none.toml`"),
    ] {
        let answer = words(at, command);
        assert_eq!((answer.code, answer.out.as_str()), (Some(2), ""), "{command}: {answer:?}");
        answer.assert_one_line(&[said]);
    }
}
