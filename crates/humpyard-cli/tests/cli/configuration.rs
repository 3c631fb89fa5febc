//! Configuration files: what they say is what options say, and errors name their place.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{assert_balanced, directory, document, files, good, make_capture, number, refused, run};

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn without_measured(mut result: Value) -> Value {
    for key in ["measured", "environment"] {
        result.as_object_mut().expect("a document").remove(key);
    }
    result
}

const FILE: &str = "input = \"in.pcap\"
policy = \"static\"
cores = 4
workers = 3
load = 0.8
seed = 9
clients = \"rule\"
journal = \"run.jsonl\"

[services]
web = \"forward\"
rest = \"forward:checksum=fill\"

[tolerance]
web = \"5us\"

[[rule]]
protocol = \"tcp\"
port = [80, \"1024-65535\"]
service = \"web\"
guarantee = 0.75
weight = 3

[[rule]]
protocol = 17
service = \"rest\"
chain = [\"web\"]

[[rule]]
service = \"rest\"
client = \"others\"
";

#[test]
fn a_file_says_what_options_say() {
    let directory = directory();
    let at = directory.path();
    good(at, "run --input gen:messages:packets=3000 --output in.pcap --policy fcfs --workers 0 --quiet");
    fs::write(at.join("run.toml"), FILE).unwrap();
    let by_file = document(at, "sim --config run.toml");
    let journal = fs::read(at.join("run.jsonl")).unwrap();
    let typed = "sim --input in.pcap --policy static --cores 4 --load 0.8 --seed 9 --clients rule --journal run.jsonl \
                 --services web=forward,rest=forward:checksum=fill --tolerance web=5us \
                 --rule protocol=tcp,port=80+1024-65535,service=web,guarantee=0.75,weight=3 \
                 --rule protocol=17,service=rest,chain=web --rule service=rest,client=others";
    assert_eq!(without_measured(by_file.clone()), without_measured(document(at, typed)));
    assert_eq!(journal, fs::read(at.join("run.jsonl")).unwrap());
    assert_eq!(by_file["options"]["guarantee"], "web=0.75");
    // Packets are where the rules say: TCP has one service, UDP both, one after the other.
    let packets = |result: &Value, service: usize| number(result, &format!("/services/{service}/packets"));
    let udp = number(&document(at, "trace info in.pcap"), "/protocols/udp");
    assert!(udp > 100 && packets(&by_file, 1) >= udp);
    assert_eq!(packets(&by_file, 0), 3000 - (packets(&by_file, 1) - udp));
    assert_eq!(by_file["fairness"]["clients"], 3);
}

#[test]
fn what_is_typed_counts() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 500);
    fs::write(at.join("run.toml"), FILE).unwrap();
    let result = document(at, "sim --config run.toml --cores=7 --rate 1M --seed 2");
    assert_eq!((&result["cores"], &result["seed"]), (&7.into(), &2.into()));
    assert_eq!((&result["options"]["rate"], &result["options"]["load"]), (&"1000000".into(), &Value::Null));
    let result = document(at, "run --config run.toml --policy hrw --journal other.jsonl --overload wait");
    assert_eq!((&result["policy"], &result["cores"]), (&"hrw".into(), &3.into()));
    // A comparison takes neither the journal nor, in virtual time, the workers.
    let comparison = document(at, "compare --config run.toml --policy rr --policy static");
    assert_eq!(comparison["runs"].as_array().map(Vec::len), Some(2));
    assert_eq!(comparison["runs"][1]["cores"], 4);
}

#[test]
fn slips_are_told_with_file_line_and_column() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 100);
    fs::write(at.join("folder.toml"), "").unwrap();
    fs::create_dir(at.join("folder")).unwrap();
    let change = |from: &str, to: &str| {
        assert!(FILE.contains(from), "{from}");
        FILE.replacen(from, to, 1)
    };
    for (text, expected) in [
        (change("policy", "plicy"), "bad.toml:2:1: no key `plicy`; did you mean `policy`?"),
        (change("\"static\"", "\"statik\""), "bad.toml:2:10: `policy`: no policy `statik`; did you mean `static`?"),
        (change("\"static\"", "\"static:x=1\""), "bad.toml:2:10: `policy`: static: no parameter `x`"),
        (change("\"static\"", "[\"rr\", \"hrw\"]"), "bad.toml:2:11: `policy` has several values"),
        (change("cores = 4", "cores = 20000"), "bad.toml:3:9: `cores`: invalid value '20000'"),
        (change("cores = 4", "cores = 0"), "a simulation needs at least one core"),
        (change("cores = 4", "cores = "), "bad.toml:3:"),
        (change("load = 0.8", "load = 0"), "bad.toml:5:8: `load`: --load takes a number from 0.000001"),
        (change("load = 0.8", "load = 1\nrate = 5"), "bad.toml:5:8: `load`: the argument '--load <X>' cannot be used"),
        (change("load = 0.8", "rate = \"line\""), "bad.toml:5:8: `rate`: a simulation cannot use --rate line"),
        (
            change("load = 0.8", "topology = \"2x4\""),
            "bad.toml:5:12: `topology`: --topology has 8 cores, and there are 4",
        ),
        (change("\"in.pcap\"", "\"no.pcap\""), "bad.toml:1:9: `input`: no.pcap: there is no such file"),
        (change("run.jsonl", "no/run.jsonl"), "bad.toml:8:11: `journal`: cannot write the journal `no/run.jsonl`"),
        (change("\"5us\"", "5"), "bad.toml:15:1: `tolerance`: a time has a unit"),
        (change("web = \"5us\"", "wep = \"5us\""), "bad.toml:15:1: `tolerance`: no service of this run `wep`"),
        (change("web = \"forward\"", "web = \"forwart\""), "bad.toml:11:1: `services`: "),
        (change("port = [80", "port = [0"), "bad.toml:19:1: `port` takes 1 to 65535"),
        (
            change("service = \"web\"", "servce = \"web\""),
            "bad.toml:20:1: no key of a rule `servce`; did you mean `service`?",
        ),
        (change("service = \"web\"", "service = \"wep\""), "bad.toml:20:1: `rule`: rule 1, `protocol=tcp"),
        (change("weight = 3", "weight = 0"), "bad.toml:22:1: `weight` takes a whole number from 1"),
        (change("guarantee = 0.75", "direction = \"in\""), "bad.toml:17:1: `rule`: rule 1, `protocol=tcp"),
        (change("protocol = 17", "protocol = 17\nip = 6\nsource = \"10.0.0.1\""), "no packet can match"),
        (change("[tolerance]", "[guarantee]\nrest = 0.5\n[tolerance]"), "the guarantees add up to 1.25"),
    ] {
        fs::write(at.join("bad.toml"), &text).unwrap();
        let before = files(at);
        for command in ["sim --config bad.toml", "sim --json --config=bad.toml", "check bad.toml --for sim"] {
            let said = run(at, &command.split(' ').collect::<Vec<_>>());
            assert!(said.code == Some(2) && said.out.is_empty(), "{command}: {expected}: {said:?}");
            said.assert_one_line(&["bad.toml", expected]);
            assert_eq!(files(at), before, "{command}");
        }
    }
    // What was typed is not blamed on the file.
    fs::write(at.join("run.toml"), FILE).unwrap();
    let said = run(at, &["sim", "--config", "run.toml", "--policy", "nope"]);
    said.assert_one_line(&["humpyard: no policy `nope`"]);
    for (words, expected) in [
        ("sim --config missing.toml", "missing.toml: there is no such configuration file"),
        ("sim --config folder", "folder: this is a directory"),
        ("sim --config in.pcap", "in.pcap: this is no text"),
        ("sim --config folder.toml", "--input <SRC>"),
        ("sim --config", "a value is required"),
        ("check", "FILE.toml"),
        ("check missing.toml", "missing.toml: there is no such configuration file"),
        ("check --schema run.toml", "cannot be used with"),
        ("check run.toml --for demo", "run, sim, compare"),
    ] {
        let said = run(at, &words.split(' ').collect::<Vec<_>>());
        assert!(said.code == Some(2) && said.out.is_empty(), "{words}: {said:?}");
        said.assert_one_line(&[expected]);
    }
}

/// Thousands of rules are no burden, and a slip among them is found.
/// Other rules and services change what is said of a rule, and are not to blame.
#[test]
fn a_rule_with_an_unknown_service_is_found_among_others() {
    let directory = directory();
    let at = directory.path();
    let file = "input = \"gen:poisson:packets=9\"\npolicy = \"hrw\"\nservices = { web = \"forward\", rest = \"encrypt\" }\n\
                [[rule]]\nprotocol = \"tcp\"\nservice = \"web\"\n[[rule]]\nprotocol = \"udp\"\nservice = \"wbe\"\n\
                [[rule]]\nservice = \"rst\"\n";
    fs::write(at.join("rules.toml"), file).unwrap();
    for words in ["sim --config rules.toml", "check rules.toml --for sim"] {
        refused(at, words, &["rules.toml:9:1: `rule`: rule 2, ", "no service of this run `wbe`; did you mean `web`?"]);
    }
}

#[test]
fn files_may_be_long() {
    let directory = directory();
    let at = directory.path();
    let rule = |n: u32| format!("[[rule]]\nsource = \"10.{}.{}.0/24\"\nservice = \"forward\"\n", n / 250, n % 250);
    let rules: String = (0..1500).map(rule).collect();
    let text = format!("input = \"gen:messages:packets=300\"\npolicy = \"hrw\"\n{rules}");
    fs::write(at.join("long.toml"), &text).unwrap();
    assert_eq!(document(at, "sim --config long.toml")["packets"]["in"], 300);
    // Rules are three lines each, from line 3 on: rule 1000 says something else.
    let broken = text.replace("10.3.249.0/24\"\nservice = \"forward\"", "10.3.249.0/24\"\nservice = \"forwart\"");
    assert_ne!(broken, text);
    fs::write(at.join("long.toml"), broken).unwrap();
    let said = run(at, &["sim", "--config", "long.toml"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    said.assert_one_line(&["long.toml:3002:1: `rule`: rule 1000, ", "did you mean `forward`?"]);
}

#[test]
fn check_says_what_a_file_means() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 100);
    let odd = FILE.replace(
        "[[rule]]\nprotocol = 17",
        "[[rule]]\nprotocol = \"tcp\"\nport = 80\nservice = \"rest\"\n[[rule]]\nprotocol = 17",
    );
    fs::write(at.join("run.toml"), odd.replace("journal", "#journal")).unwrap();
    let before = files(at);
    let text = good(at, "check run.toml").out;
    for part in [
        "good for `humpyard run`",
        "good for `humpyard sim`",
        "set by",
        "line 5",
        "default",
        "packets that match",
        "remark",
        "never reached",
        "warning: rule 2",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let report = document(at, "check run.toml --for sim");
    let [sim] = report["commands"].as_array().expect("commands").as_slice() else { panic!("{report:#}") };
    assert_eq!((&sim["command"], &sim["cores"], &sim["seed"]), (&"sim".into(), &4.into(), &9.into()));
    let reached: Vec<bool> = sim["rules"].as_array().unwrap().iter().map(|rule| rule["reached"] == true).collect();
    assert_eq!(reached, [true, false, true, true]);
    let warnings: Vec<&str> = sim["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(warnings[0].starts_with("rule 2, `protocol=tcp,port=80,service=rest`, is never reached"), "{warnings:?}");
    assert!(warnings[1].starts_with("weights do nothing under `static`"), "{warnings:?}");
    // 5 us are less than a switch takes.
    assert!(warnings[2].contains("service `web`: its tolerance of 5µs is less than a switch (50µs)"), "{warnings:?}");
    assert_eq!(warnings.len(), 3);
    // A file may leave input and policies to the command line.
    fs::write(at.join("half.toml"), "cores = 3\nload = 0.5").unwrap();
    assert_eq!(document(at, "check half.toml")["missing"], serde_json::json!(["input", "policy"]));
    assert!(good(at, "check half.toml").out.contains("(to be given)"));
    fs::remove_file(at.join("half.toml")).unwrap();
    assert_eq!(files(at), before);
}

/// A configuration may be for another machine.
#[test]
fn an_interface_that_is_not_here_is_noted_and_the_rest_is_checked() {
    let directory = directory();
    let at = directory.path();
    let write = |text: &str| fs::write(at.join("run.toml"), text).unwrap();
    let ports = "input = \"iface:nosuch0\"\noutput = \"iface:nosuch1\"\n";
    write(&format!("{ports}policy = \"drr\"\n"));
    let said = good(at, "check run.toml --for run");
    assert!(said.out.contains("good for `humpyard run`"), "{said:?}");
    let note = |port: &str| format!("note: {port}: this machine has no such interface: no interface was opened\n");
    assert!(said.out.contains(&note("iface:nosuch0")) && said.out.contains(&note("iface:nosuch1")), "{said:?}");
    let notes = &document(at, "check run.toml --for run")["commands"][0]["notes"];
    assert_eq!(notes.as_array().map(Vec::len), Some(2), "{notes}");
    for (more, expected) in [
        ("policy = \"drv\"", "run.toml:3:10: `policy`: "),
        ("policy = \"drr\"\nrate = \"1000\"", "--rate does not apply to live interfaces"),
        ("policy = \"drr\"\nservices = \"encript\"", "did you mean `encrypt`?"),
    ] {
        write(&format!("{ports}{more}\n"));
        let said = run(at, &["check", "run.toml", "--for", "run"]);
        assert_eq!(said.code, Some(2), "{more}: {said:?}");
        said.assert_one_line(&[expected]);
    }
    write(&format!("{ports}policy = \"drr\"\n"));
    let said = run(at, &["run", "--config", "run.toml"]);
    assert_eq!(said.code, Some(2));
    said.assert_one_line(&["run.toml:1:9: `input`: iface:nosuch0: no interface `nosuch0`"]);
}

/// The committed schema is that of the program; `HUMPYARD_RENEW=1` writes it anew.
#[test]
fn the_schema_is_published() {
    let path = repository("docs/reference/humpyard.schema.json");
    let schema = good(Path::new("."), "check --schema").out;
    if std::env::var_os("HUMPYARD_RENEW").is_some() {
        fs::write(&path, &schema).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == schema,
        "docs/reference/humpyard.schema.json differs from the options: \
         HUMPYARD_RENEW=1 cargo test -p humpyard-cli --test cli schema"
    );
    let schema: Value = serde_json::from_str(&schema).unwrap();
    for key in ["input", "policy", "workers", "cores", "rule", "clock", "live"] {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
    assert_eq!(schema["properties"]["buffer"]["default"], 4096);
    assert!(schema["properties"]["config"].is_null() && schema["properties"]["json"].is_null());
}

/// Every option of the three commands can be in a file, in the form in which its help names it.
#[test]
fn every_option_is_a_key() {
    let here = Path::new(".");
    let schema: Value = serde_json::from_str(&good(here, "check --schema").out).unwrap();
    for command in ["run", "sim", "compare"] {
        let help = good(here, &format!("{command} --help")).out;
        let options = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
        for option in options.map(|line| line.split([' ', '<']).next().expect("a word")) {
            let is_key = schema["properties"][option].is_object();
            assert_eq!(is_key, !["config", "json", "quiet"].contains(&option), "{option}");
        }
    }
}

#[test]
fn examples_are_good_and_run() {
    let directory = directory();
    let mut tried = 0;
    for entry in fs::read_dir(repository("examples")).unwrap() {
        let path = entry.unwrap().path().canonicalize().unwrap();
        let path = path.to_str().expect("a plain path");
        let text = good(directory.path(), &format!("check {path}")).out;
        assert!(!text.contains("warning"), "{text}");
        let policies = &document(directory.path(), &format!("check {path}"))["commands"][0]["policies"];
        let command = if policies.as_array().map(Vec::len) == Some(1) { "sim" } else { "compare" };
        let result =
            document(directory.path(), &format!("{command} --config {path} --input gen:messages:packets=4000"));
        let first = result.pointer("/runs/0").unwrap_or(&result);
        assert_eq!(first["packets"]["in"], 4000, "{path}");
        let idle = first["services"].as_array().unwrap().iter().find(|service| service["packets"] == 0);
        assert!(idle.is_none(), "{path}: {idle:?}");
        tried += 1;
    }
    assert!(tried >= 3, "only {tried} examples were found");
}

#[test]
fn the_configuration_of_the_page_is_good() {
    let page = fs::read_to_string(repository("docs/reference/configuration.md")).unwrap();
    let directory = directory();
    let file = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a configuration");
    fs::write(directory.path().join("page.toml"), file).unwrap();
    let report = document(directory.path(), "check page.toml");
    assert_eq!(report["commands"][0]["rules"].as_array().map(Vec::len), Some(3));
    assert_eq!(report["commands"][0]["warnings"], serde_json::json!([]));
    // What rules can say is explained, all of it.
    let explained = good(directory.path(), "explain rule").out;
    for key in ["protocol", "destination-port", "vlan", "direction", "fragment", "weight", "chain"] {
        assert!(explained.contains(&format!("  {key}\n")), "{key} is not in\n{explained}");
    }
}

/// The tour's commands run as they stand, in its order, on a capture of that name.
#[test]
fn the_tour_can_be_walked() {
    let tour = fs::read_to_string(repository("docs/start/tour.md")).unwrap();
    let directory = directory();
    let at = directory.path();
    good(at, "run --input gen:messages:packets=2000 --output in.pcap --policy fcfs --workers 0 --quiet");
    let file = tour.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a configuration");
    fs::write(at.join("yard.toml"), file).unwrap();
    let commands: Vec<&str> = tour.lines().filter_map(|line| line.strip_prefix("    humpyard ")).collect();
    for command in &commands {
        good(at, command.split(" #").next().expect("a command").trim());
    }
    assert!(commands.len() >= 8, "{commands:?}");
    for step in ["trace info", "sim ", "compare ", "check ", "run --config"] {
        assert!(commands.iter().any(|command| command.starts_with(step)), "{step}");
    }
}

#[test]
fn what_a_file_does_not_say_must_be_given() {
    let directory = directory();
    fs::write(directory.path().join("empty.toml"), "").unwrap();
    fs::write(directory.path().join("policy.toml"), "policy = \"drr\"\n").unwrap();
    let text = good(directory.path(), "check empty.toml --for sim").out;
    assert!(text.contains("good for `humpyard sim` with --input and --policy on the command line\n"), "{text}");
    let text = good(directory.path(), "check policy.toml --for sim").out;
    assert!(text.contains("good for `humpyard sim` with --input on the command line\n"), "{text}");
}

/// Tens of thousands of rules are read, checked for unreachable ones, and matched.
#[test]
fn many_rules() {
    let directory = directory();
    let mut text = String::from("policy = \"sfq\"\ninput = \"gen:messages:packets=2000\"\n");
    for rule in 0..10_000 {
        text += &format!(
            "[[rule]]\ndestination = \"10.{}.{}.0/24\"\nport = {}\n",
            rule / 256,
            rule % 256,
            1 + rule % 7_000
        );
    }
    text += "[[rule]]\ndestination = \"10.0.7.9\"\nport = 8\n[[rule]]\nprotocol = \"tcp\"\nclient = \"tcp\"\n";
    fs::write(directory.path().join("many.toml"), text).unwrap();
    let checked = document(directory.path(), "check many.toml");
    let rules = checked["commands"][0]["rules"].as_array().expect("rules");
    let unreached: Vec<usize> = (0..rules.len()).filter(|&at| rules[at]["reached"] == false).collect();
    assert_eq!(unreached, [10_000]);
    let result = document(directory.path(), "sim --config many.toml");
    assert_balanced(&result);
}
