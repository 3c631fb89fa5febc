//! Journals: both drivers write the same, a run on real threads replays, and policies take over on the way.

use std::fs;

use crate::support::{assert_balanced, directory, document, files, good, refused, run};

/// Everything that the mechanism does beside: services one after the other, an exit, packets pushed out, elements.
const FEATURES: [&str; 4] = [
    "--policy hrw --swap 1ms=jsq --swap 2ms=rr",
    "--policy estimate=least-squares/share=efq --services tcp=forward,other=forward --chain tcp=other --buffer 60",
    "--policy steer=ml:full=element/share=drr --contexts 2 --stall 20ns --flow-order exit:packets=16,time=5us",
    "--policy everest --services tcp=forward,other=forward --when-full longest-queue --buffer 40 --swap 2ms=static",
];

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[test]
fn both_drivers_write_the_same_journal_byte_for_byte() {
    let directory = directory();
    let read = |name: &str| fs::read(directory.path().join(name)).expect("it was written");
    for features in FEATURES {
        let options = format!("--input gen:poisson:packets=10000,pps=3000000 {features}");
        document(directory.path(), &format!("sim {options} --cores 4 --journal sim.jsonl"));
        let live =
            document(directory.path(), &format!("run {options} --workers 4 --clock virtual --journal run.jsonl"));
        assert_balanced(&live);
        assert!(read("sim.jsonl") == read("run.jsonl"), "{features}");
        let replayed = document(directory.path(), "replay run.jsonl");
        assert!(
            replayed["records"].as_u64() > Some(20_000) && replayed["divergence"].is_null(),
            "{features}: {replayed}"
        );
    }
    assert_eq!(files(directory.path()), ["run.jsonl", "sim.jsonl"]);
}

#[test]
fn what_real_threads_did_replays_to_the_same_decisions() {
    let directory = directory();
    for policy in ["hrw", "drr --swap 10ms=gr3", "steer=ps-hrw/share=sfq --flow-order exit:time=1ms"] {
        let command = format!("run --input gen:messages:packets=20000 --rate 400k --policy {policy} --journal j.jsonl");
        let said = run(directory.path(), &words(&format!("{command} --json --quiet")));
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_balanced(&said.json());
        let replayed = document(directory.path(), "replay j.jsonl");
        assert!(replayed["divergence"].is_null(), "{policy}: {replayed}");
    }
}

#[test]
fn another_policy_is_told_where_it_decides_otherwise() {
    let directory = directory();
    good(directory.path(), "sim --input gen:messages:packets=2000 --policy hrw --cores 3 --journal j.jsonl --quiet");
    let said = run(directory.path(), &words("replay j.jsonl --policy conn"));
    assert_eq!(said.code, Some(1));
    assert!(
        said.out.starts_with("conn: ") && said.out.contains("the journal: ") && said.out.contains("line "),
        "{said:?}"
    );
    assert!(good(directory.path(), "replay j.jsonl").out.contains("every answer the same"));
}

#[test]
fn a_pause_is_reported() {
    let directory = directory();
    let live = document(
        directory.path(),
        "run --input gen:messages:packets=20000 --rate 1M --policy drr --swap 5ms=sfq --swap 10ms=wf2q+ --quiet",
    );
    assert_balanced(&live);
    assert!(live["measured"]["swap_pause_max_ns"].as_u64() > Some(0), "{}", live["measured"]);
    assert_eq!(live["options"]["swap"], "5000000ns=sfq,10000000ns=wf2q+");
}

#[test]
fn what_cannot_be_is_refused() {
    let directory = directory();
    let at = directory.path();
    good(at, "sim --input gen:messages:packets=100 --policy hrw --journal whole.jsonl --quiet");
    let whole = fs::read_to_string(at.join("whole.jsonl")).unwrap();
    fs::write(at.join("cut.jsonl"), &whole[..whole.len() - 20]).unwrap();
    let shorter: Vec<&str> = whole.lines().collect();
    fs::write(at.join("shorter.jsonl"), shorter[..shorter.len() - 1].join("\n")).unwrap();
    fs::write(
        at.join("fewer.jsonl"),
        [&shorter[..shorter.len() - 2], &shorter[shorter.len() - 1..]].concat().join("\n"),
    )
    .unwrap();
    let mut lines: Vec<&str> = whole.lines().collect();
    let back = format!("{{\"now\":0,{}", lines[40].split_once(',').unwrap().1);
    lines[40] = &back;
    fs::write(at.join("back.jsonl"), lines.join("\n")).unwrap();
    fs::write(at.join("stranger.jsonl"), whole.replacen("\"service\":0", "\"service\":7", 1)).unwrap();
    fs::write(
        at.join("crowd.jsonl"),
        whole.replacen("\"clients\":", "\"clients\":4294967295,\"x\":", 1).replace("\"x\":65536,", ""),
    )
    .unwrap();
    fs::write(at.join("words.jsonl"), whole.replacen("\"now\":", "\"word\":1,\"now\":", 1)).unwrap();
    fs::write(at.join("other.jsonl"), "{\"a\":1}\n").unwrap();
    fs::write(at.join("empty.jsonl"), "").unwrap();
    fs::write(at.join("later.jsonl"), whole.replacen("journal\":2", "journal\":3", 1)).unwrap();
    refused(at, "replay missing.jsonl", &["cannot read the journal `missing.jsonl`"]);
    refused(at, "replay cut.jsonl", &["`cut.jsonl`, line ", "cut or damaged"]);
    refused(at, "replay back.jsonl", &["`back.jsonl`, line 41: ", "time went back", "cut or damaged"]);
    refused(at, "replay stranger.jsonl", &["`stranger.jsonl`, line ", "what it says cannot have been", "damaged"]);
    refused(at, "replay crowd.jsonl", &["`crowd.jsonl`, line 1", "damaged"]);
    refused(at, "replay shorter.jsonl", &["`shorter.jsonl`: it ends after ", "the journal is cut"]);
    refused(at, "replay fewer.jsonl", &["records were written, and ", "cut or damaged"]);
    refused(at, "replay words.jsonl", &["`words.jsonl`, line 2: unknown field `word`"]);
    refused(at, "replay other.jsonl", &["`other.jsonl` is no journal of humpyard"]);
    refused(at, "replay empty.jsonl", &["`empty.jsonl` is no journal of humpyard"]);
    refused(at, "replay later.jsonl", &["a journal of version 3, and this is 2"]);
    refused(at, "replay whole.jsonl --policy hrv", &["did you mean `hrw`?"]);
    let sim = "sim --input gen:messages:packets=100 --cores 4";
    for (options, expected) in [
        ("--policy hrw --journal nowhere/j.jsonl", "cannot write the journal `nowhere/j.jsonl`"),
        ("--policy hrw --swap jsq", "--swap takes a time and policies, 2s=drr for example; not `jsq`"),
        ("--policy hrw --swap 1s=drr", "`drr` cannot take over from `hrw`"),
        ("--policy hrw --swap 1=jsq", "a time has a unit"),
        ("--policy hrw --swap 1ms=jssq", "did you mean `jsq`?"),
        ("--policy hrw --chain forward", "--chain takes a service and those after it"),
        ("--policy hrw --chain forward=encrypt", "no service of this run `encrypt`; there are: forward"),
        ("--policy hrw --contexts 3", "--contexts 3 does not divide 4 cores"),
        ("--policy hrw --contexts 0", "--contexts"),
        ("--policy hrw --speeds 1,0", "--speeds takes numbers from 0.001 to 1000"),
        ("--policy hrw --speeds 1,1,1,1,1", "--speeds names 5 cores, and there are 4"),
        ("--policy hrw --flow-order exit:time=1", "a time with its unit"),
        ("--policy hrw --flow-order exit:packets=0", "`packets` takes 1 to 16777216"),
        ("--policy hrw --when-full head", "--when-full"),
    ] {
        refused(at, &format!("{sim} {options}"), &[expected]);
    }
}
