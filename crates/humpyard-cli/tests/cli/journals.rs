//! Journals: both drivers write the same, a run on real threads replays, and policies take over on the way.

use std::fs;

use serde_json::Value;

use crate::support::{assert_balanced, directory, document, files, good, number, refused, run};

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
    assert!(said.out.contains("flow tcp ") || said.out.contains("flow udp "), "{said:?}");
    assert!(good(directory.path(), "replay j.jsonl").out.contains("every answer the same"));
}

/// Each dispatcher writes a journal of its own, and one file names them.
#[test]
fn journals_of_several_dispatchers_replay_as_one() {
    let directory = directory();
    let at = directory.path();
    let command = "run --input gen:messages:packets=20000 --rate 400k --policy steer=hrw/share=drr --workers 5 \
                 --dispatchers 2 --journal j.jsonl";
    let result = document(at, command);
    assert_balanced(&result);
    assert_eq!(files(at), ["j.jsonl", "j.jsonl.1", "j.jsonl.2"]);
    let manifest: Value = serde_json::from_str(&fs::read_to_string(at.join("j.jsonl")).unwrap()).unwrap();
    assert_eq!((&manifest["humpyard_journals"], &manifest["parted"]), (&1.into(), &"by-connection".into()));
    assert_eq!((number(&manifest, "/journals/0/workers"), number(&manifest, "/journals/1/workers")), (3, 2));
    let replayed = document(at, "replay j.jsonl");
    assert!(replayed["divergence"].is_null(), "{replayed}");
    let parts = replayed["journals"].as_array().expect("one each");
    let records: Vec<u64> = parts.iter().map(|part| number(part, "/records")).collect();
    assert_eq!(records.iter().sum::<u64>(), number(&replayed, "/records"));
    // Each is a journal by itself, and named flows are those of its dispatcher.
    for (name, &records) in ["j.jsonl.1", "j.jsonl.2"].iter().zip(&records) {
        assert_eq!(number(&document(at, &format!("replay {name}")), "/records"), records);
        assert!(fs::read_to_string(at.join(name)).unwrap().contains("{\"flow\":"));
    }
    let said = good(at, "replay j.jsonl");
    assert!(said.out.contains("of 2 journals played, every answer the same"), "{said:?}");
    // Another policy decides otherwise in each.
    let said = run(at, &words("replay j.jsonl --policy steer=conn/share=drr"));
    assert!(said.code == Some(1) && said.out.contains("drr, j.jsonl.2: "), "{said:?}");
    // A second run replaces them; a file of something else is not replaced.
    document(at, command);
    fs::write(at.join("j.jsonl.2"), "notes").unwrap();
    refused(at, command, &["`j.jsonl.2`, which is no journal"]);
    assert_eq!(fs::read_to_string(at.join("j.jsonl.2")).unwrap(), "notes");
}

#[test]
fn damaged_lists_of_journals_are_refused() {
    let directory = directory();
    let at = directory.path();
    document(at, "run --input gen:messages:packets=500 --policy hrw --workers 2 --dispatchers 2 --journal j.jsonl");
    let manifest = fs::read_to_string(at.join("j.jsonl")).unwrap();
    let records = serde_json::from_str::<Value>(&manifest).unwrap()["journals"][0]["records"].to_string();
    for (from, to, expected) in [
        ("\"humpyard_journals\":1", "\"humpyard_journals\":2", "version 2, and this reads 1"),
        ("\"j.jsonl.1\"", "\"../j.jsonl.1\"", "`../j.jsonl.1` is no name of a file in the same directory"),
        ("\"j.jsonl.1\"", "\"j.jsonl.7\"", "`j.jsonl.7`: there is no such file"),
        ("\"j.jsonl.1\"", "\"bad.jsonl\"", "`bad.jsonl` is no journal"),
        ("\"by-connection\"", "\"by-luck\"", "unknown variant `by-luck`"),
        (records.as_str(), "7", "says 7: it is of another run"),
    ] {
        assert!(manifest.contains(from), "{manifest}");
        fs::write(at.join("bad.jsonl"), manifest.replacen(from, to, 1)).unwrap();
        refused(at, "replay bad.jsonl", &[expected]);
    }
    let same = "run --input gen:messages:packets=500 --policy hrw --workers 2 --dispatchers 2 --journal b.pcap \
                --output ./b.pcap.2";
    refused(at, same, &["`b.pcap.2` for dispatcher 1, and the run writes another file of that name"]);
    // A run that fails leaves none of its files.
    fs::remove_file(at.join("bad.jsonl")).unwrap();
    let before = files(at);
    let fails = "run --input gen:messages:packets=500 --policy hrw --workers 2 --dispatchers 2 --journal new.jsonl \
                 --output missing/out.pcap";
    refused(at, fails, &["missing/out.pcap"]);
    assert_eq!(files(at), before);
}

/// A journal as the versions before the fourth wrote it: the configuration stands beside the version.
fn flat(journal: &str, version: u32) -> String {
    let (header, records) = journal.split_once('\n').expect("a header");
    let mut header: Value = serde_json::from_str(header).expect("an object");
    let mut fields = header["config"].take();
    fields["humpyard_journal"] = version.into();
    fields["policy"] = header["policy"].take();
    format!("{fields}\n{records}")
}

/// A journal that names no flow, as those of version 2.
fn nameless(journal: &str) -> String {
    let lines: Vec<&str> = journal.lines().filter(|line| !line.starts_with("{\"flow\":")).collect();
    flat(&(lines.join("\n") + "\n"), 2)
}

/// A program that wrote journals of version 3 wrote this one.
#[test]
fn a_journal_of_an_earlier_version_replays() {
    let directory = directory();
    fs::write(directory.path().join("3.jsonl"), include_str!("version3.jsonl")).unwrap();
    let replayed = document(directory.path(), "replay 3.jsonl");
    assert!(replayed["records"] == 28 && replayed["divergence"].is_null(), "{replayed}");
}

/// A line names each flow that begins; journals of version 2 name none.
#[test]
fn journals_name_flows_by_their_addresses_and_ports() {
    let directory = directory();
    let at = directory.path();
    // With room for few flows, ids are used again.
    let words = "sim --input gen:messages:packets=3000 --policy hrw --cores 3 --buffer 8 --flows 9 --journal j.jsonl";
    let result = document(at, words);
    let journal = fs::read_to_string(at.join("j.jsonl")).unwrap();
    let names: Vec<Value> = journal
        .lines()
        .filter(|line| line.starts_with("{\"flow\":"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(names.len() as u64, number(&result, "/flows"));
    assert!(names.iter().all(|name| name["flow"].as_u64() < Some(9)), "ids are used again");
    let top = result["top_flows"][0]["flow"].as_str().expect("a flow");
    assert!(names.iter().any(|name| name["is"] == top), "{top}");
    assert!(document(at, "replay j.jsonl")["divergence"].is_null());
    for (name, before) in [("2.jsonl", nameless(&journal)), ("3.jsonl", flat(&journal, 3))] {
        fs::write(at.join(name), before).unwrap();
        assert!(document(at, &format!("replay {name}"))["divergence"].is_null(), "{name}");
    }
    // What is `hold` now had another name.
    document(at, "sim --input gen:messages:packets=300 --policy drr --cores 3 --flow-order hold --journal hold.jsonl");
    let hold = fs::read_to_string(at.join("hold.jsonl")).unwrap();
    let keep = nameless(&hold);
    assert_eq!(keep.matches("\"flow_order\":\"hold\"").count(), 1);
    fs::write(at.join("keep.jsonl"), keep.replace("\"hold\"", "\"keep\"")).unwrap();
    assert!(document(at, "replay keep.jsonl")["divergence"].is_null());
    fs::write(at.join("bad.jsonl"), journal.replacen("\"is\":", "\"was\":", 1)).unwrap();
    refused(at, "replay bad.jsonl", &["`bad.jsonl`, line 2: unknown field `was`"]);
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
    assert_eq!(live["options"]["swap"], "5ms=sfq,10ms=wf2q+");
}

/// A result names the policies in force at the end, and all that were, with their times.
#[test]
fn results_name_the_policies_that_took_over() {
    let directory = directory();
    let input = "--input gen:poisson:packets=20000,pps=1000000 --policy hrw";
    for host in ["sim --cores 3", "run --workers 3 --clock virtual", "run --workers 2 --rate 1M"] {
        let words = format!("{host} {input} --swap 5ms=jsq --swap 10ms=rr --swap 99s=conn");
        let result =
            run(directory.path(), &[&words.split_whitespace().collect::<Vec<_>>()[..], &["--json"]].concat()).json();
        assert_eq!(result["policy"], "rr", "{host}");
        let policies = result["policies"].as_array().expect("a list");
        let names: Vec<&str> = policies.iter().map(|one| one["policy"].as_str().expect("a name")).collect();
        assert_eq!(names, ["hrw", "jsq", "rr"], "{host}");
        let times: Vec<u64> = policies.iter().map(|one| number(one, "/from_ns")).collect();
        assert!(times[0] == 0 && times[1] >= 5_000_000 && times[2] >= 10_000_000, "{host}: {times:?}");
        assert!(!host.starts_with("sim") || times == [0, 5_000_000, 10_000_000], "{times:?}");
        let text = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>()).out;
        assert!(text.contains("hrw from 0 ns, jsq from 5.00 ms, rr from 10.0 ms") || host.ends_with("1M"), "{text}");
    }
    let result = document(directory.path(), &format!("sim --cores 3 {input}"));
    assert!(result["policy"] == "hrw" && result.get("policies").is_none(), "{result}");
    let report = format!("compare --cores 3 {input} --swap 5ms=jsq --report r.html");
    let text = good(directory.path(), &report).out;
    assert!(text.contains("hrw, then jsq"), "{text}");
    let page = fs::read_to_string(directory.path().join("r.html")).unwrap();
    assert!(page.contains("hrw, then jsq") && page.contains("hrw from 0 ns, jsq from 5.00 ms"));
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
    // A record that goes by the time, not the name of a flow.
    let at_back = (40..lines.len()).find(|&at| lines[at].contains("\"next\":")).unwrap();
    let back = format!("{{\"now\":0,{}", lines[at_back].split_once(',').unwrap().1);
    lines[at_back] = &back;
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
    fs::write(at.join("later.jsonl"), whole.replacen("journal\":4", "journal\":5", 1)).unwrap();
    refused(at, "replay missing.jsonl", &["cannot read the journal `missing.jsonl`"]);
    refused(at, "replay cut.jsonl", &["`cut.jsonl`, line ", "cut or damaged"]);
    refused(
        at,
        "replay back.jsonl",
        &[&format!("`back.jsonl`, line {}: ", at_back + 1), "time went back", "cut or damaged"],
    );
    refused(at, "replay stranger.jsonl", &["`stranger.jsonl`, line ", "what it says cannot have been", "damaged"]);
    refused(at, "replay crowd.jsonl", &["`crowd.jsonl`, line 1", "damaged"]);
    refused(at, "replay shorter.jsonl", &["`shorter.jsonl`: it ends after ", "the journal is cut"]);
    refused(at, "replay fewer.jsonl", &["records were written, and ", "cut or damaged"]);
    refused(at, "replay words.jsonl", &["`words.jsonl`, line 3: unknown field `word`"]);
    refused(at, "replay other.jsonl", &["`other.jsonl` is no journal of humpyard"]);
    refused(at, "replay empty.jsonl", &["`empty.jsonl` is no journal of humpyard"]);
    refused(at, "replay later.jsonl", &["a journal of version 5, and this reads 2 to 4: record it again"]);
    refused(at, "replay whole.jsonl --policy hrv", &["did you mean `hrw`?"]);
    let sim = "sim --input gen:messages:packets=100 --cores 4";
    for (options, expected) in [
        ("--policy hrw --journal nowhere/j.jsonl", "cannot write the journal `nowhere/j.jsonl`"),
        ("--policy hrw --swap jsq", "--swap takes a time and policies, 2s=drr for example; not `jsq`"),
        ("--policy hrw --swap 1s=drr", "`drr` cannot take over from `hrw`"),
        ("--policy hrw --swap 1=jsq", "a time has a unit"),
        ("--policy hrw --swap 1ms=jsk", "did you mean `jsq`?"),
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
