//! Services through the program: a capture in, a capture out, and the inverse gives it back.

use std::fs;
use std::path::Path;

use humpyard::frame::Frame;
use humpyard::traffic::{CaptureReader, Source};
use serde_json::Value;

use crate::simulated::figures;
use crate::support::{assert_balanced, captures, directory, document, good, number, run};

/// The frames of a capture.
fn frames(directory: &Path, name: &str) -> Vec<Frame> {
    let mut reader = CaptureReader::open(directory.join(name)).expect("a capture");
    let (mut frames, mut frame) = (Vec::new(), Frame::default());
    while reader.next(&mut frame).expect("a good capture") {
        frames.push(frame.clone());
    }
    frames
}

/// The bytes of frames, in an order of their own: workers finish when they finish.
fn sorted(frames: &[Frame]) -> Vec<&[u8]> {
    let mut data: Vec<&[u8]> = frames.iter().map(|frame| &frame.data[..]).collect();
    data.sort_unstable();
    data
}

const PAIRS: [(&str, &str); 6] = [
    ("encrypt", "decrypt"),
    ("encrypt:cipher=cast-128,spi=300", "decrypt:cipher=cast-128"),
    ("compress:codec=lz4", "decompress"),
    ("compress:codec=deflate,level=6", "decompress"),
    ("fec", "fec-decode"),
    ("fec:code=8+2,wait=1000", "fec-decode"),
];

/// From file to file to file, with any number of workers there and back.
#[test]
fn what_a_service_did_its_inverse_undoes() {
    let directory = directory();
    let directory = directory.path();
    good(
        directory,
        "run --input gen:messages:packets=3000,expiring=0 --output in.pcap --policy fcfs --workers 0 --quiet",
    );
    let input = frames(directory, "in.pcap");
    for (there, back) in PAIRS {
        for workers in [0, 2] {
            let made =
                format!("run --input in.pcap --output made.pcap --policy hrw --workers {workers} --services {there}");
            let result = document(directory, &made);
            assert_balanced(&result);
            assert_eq!(number(&result, "/packets/forwarded"), 3000 + number(&result, "/packets/generated"), "{made}");
            assert_ne!(sorted(&frames(directory, "made.pcap")), sorted(&input), "{there} does something");
            let undone =
                format!("run --input made.pcap --output out.pcapng --policy hrw --workers {workers} --services {back}");
            let result = document(directory, &undone);
            assert_balanced(&result);
            let output = frames(directory, "out.pcapng");
            assert_eq!(sorted(&output), sorted(&input), "{made}; {undone}");
            if workers == 0 {
                let recovered =
                    result.pointer("/services/0/counters/recovered").map_or(0, |count| count.as_u64().unwrap());
                assert_eq!(recovered, 0, "nothing was lost, and parity comes behind its packets: {there}");
                assert_eq!(output, input, "in order, and with their times: {there}");
            }
        }
    }
}

/// The same in one run: every packet goes through one service and then the other.
#[test]
fn a_chain_of_a_service_and_its_inverse_changes_nothing() {
    let directory = directory();
    let directory = directory.path();
    good(directory, "run --input gen:poisson:packets=2000 --output in.pcap --policy fcfs --workers 0 --quiet");
    let input = frames(directory, "in.pcap");
    for (there, back) in &PAIRS[..5] {
        for options in ["--workers 2", "--workers 0", "--workers 3 --clock virtual"] {
            let words = format!(
                "run --input in.pcap --output out.pcap --policy hrw --services ipv4={there},ipv6={there},other={back} \
                 --chain ipv4=other --chain ipv6=other {options}"
            );
            let result = document(directory, &words);
            assert_balanced(&result);
            assert_eq!(sorted(&frames(directory, "out.pcap")), sorted(&input), "{words}");
        }
    }
}

/// Two services side by side, each with its counts in the result, which all workers add up to.
#[test]
fn services_count_in_the_result() {
    let directory = directory();
    let directory = directory.path();
    let words = "run --input gen:messages:packets=5000,expiring=0 --output out.pcap --policy hrw --workers 3 \
                 --services tcp=encrypt,other=forward";
    let result = document(directory, words);
    assert_balanced(&result);
    let encrypted = number(&result, "/services/0/counters/encrypted");
    assert_eq!(encrypted, number(&result, "/services/0/packets"));
    assert!(encrypted > 1000);
    let (before, after) = ("/services/0/counters/bytes_in", "/services/0/counters/bytes_out");
    assert!(number(&result, after) > number(&result, before));
    assert_eq!(result.pointer("/services/1/counters"), None, "forward counts nothing itself");
    let said = good(directory, &format!("{words} --quiet")).out;
    assert!(said.contains(&format!("{encrypted} encrypted")), "{said}");
    let simulated = document(directory, "sim --input out.pcap --policy hrw --services tcp=encrypt,other=forward");
    assert_eq!(simulated.pointer("/services/0/counters"), None, "a simulation does no service's work");
}

#[test]
fn real_traffic_is_inspected_and_filtered() {
    let Some(traces) = captures("real_traffic_is_inspected_and_filtered") else { return };
    let directory = directory();
    let capture = traces.join("protocols/wa_voice.pcap").display().to_string();
    for workers in [0, 2] {
        let words = format!("run --input {capture} --policy conn --workers {workers} --services dpi");
        let result = document(directory.path(), &words);
        assert_balanced(&result);
        let counted = |name: &str| number(&result, &format!("/services/0/counters/protocol_{name}"));
        assert_eq!((counted("dhcp"), counted("mdns"), counted("ssdp"), counted("stun")), (1, 2, 5, 7), "{words}");
    }
    let words = format!("run --input {capture} --policy conn --services firewall:rules=deny+udp+port=1900;allow+any");
    let result = document(directory.path(), &words);
    assert_balanced(&result);
    let denied = number(&result, "/packets/dropped_out/rule_denied");
    assert_eq!(denied, number(&result, "/services/0/counters/rule_1 deny+udp+port=1900"));
    assert_eq!(denied, 8);
}

/// The commands of the tutorial that say what verdicts do, by the virtual clock, where they do the same every time.
#[test]
fn verdicts_drop_weigh_and_redirect() {
    let Some(traces) = captures("verdicts_drop_weigh_and_redirect") else { return };
    let directory = directory();
    let capture = traces.join("protocols/alexa-app.pcapng").display().to_string();
    let services = "any=l7-filter:drop=dhcp,weight=dns=8;http=4,service=tls=1,rest=forward";
    let words = format!(
        "run --input {capture} --policy drr --clients flow --clock virtual --workers 4 --load 0.9 --services {services} --journal it.journal"
    );
    let result = document(directory.path(), &words);
    assert_balanced(&result);
    assert_eq!(number(&result, "/packets/dropped_out/protocol_denied"), 3);
    for (name, count) in [("dhcp", 2), ("dns", 31), ("http", 19), ("tls", 88)] {
        assert_eq!(number(&result, &format!("/services/0/counters/protocol_{name}")), count, "{name}");
    }
    assert!(number(&result, "/services/1/packets") > 200);
    let journal = fs::read_to_string(directory.path().join("it.journal")).expect("a journal");
    let weighed =
        |weight: &str| journal.lines().filter(|line| line.contains("{\"weight\":[") && line.ends_with(weight)).count();
    assert!(weighed(",8]}}") > 30 && weighed(",4]}}") > 15, "{} {}", weighed(",8]}}"), weighed(",4]}}"));
    // The journal replays: the scheduler answers the same.
    good(directory.path(), "replay it.journal");
    // The simulation follows marks too: it does the work of services that give some.
    let words = words.replacen("run", "sim", 1).replace("--clock virtual --workers", "--cores");
    let simulated = document(directory.path(), &words.replace("it.journal", "sim.journal"));
    assert_eq!(simulated["host"], "sim");
    assert_eq!(figures(&simulated), figures(&result));
    assert!(journal == fs::read_to_string(directory.path().join("sim.journal")).expect("a journal"));
    let compared = words.replace("--journal it.journal", "--policy hrw").replacen("sim", "compare", 1);
    assert_eq!(figures(&document(directory.path(), &compared)["runs"][0]), figures(&result));
}

/// What a command that goes well says on the standard error.
fn told(directory: &Path, words: &str) -> String {
    let said = run(directory, &words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(said.code, Some(0), "{said:?}");
    said.err
}

/// A capture cut by its snap length is told, where a service looks into what is missing.
#[test]
fn packets_that_were_cut_off_are_told() {
    let Some(traces) = captures("packets_that_were_cut_off_are_told") else { return };
    let directory = directory();
    let capture = traces.join("protocols/alexa-app.pcapng").display().to_string();
    good(directory.path(), &format!("trace cut {capture} --snap 80 --output cut.pcapng"));
    for service in ["l7-filter", "dpi", "portscan"] {
        let said =
            |input: &str| told(directory.path(), &format!("run --input {input} --policy hrw --services {service}"));
        let warning = format!("of the packets that `{service}` looks into were cut off when they were captured");
        assert_eq!(said("cut.pcapng").contains(&warning), service != "portscan", "{service}");
        assert!(!said(&capture).contains("cut off"), "{service}");
    }
    let words = "sim --input cut.pcapng --policy drr --clients flow --services l7-filter:weight=tls=3";
    assert!(told(directory.path(), words).contains("cut off when they were captured"));
}

/// What marks do not do is told, and what is wrong with them refused, by every command.
#[test]
fn marks_without_effect_are_told() {
    let directory = directory();
    let input = "--input gen:poisson:packets=9";
    for command in ["run --workers 0", "sim"] {
        for (options, words) in [
            (
                "--policy hrw --services l7-filter:weight=tls=3",
                "weights by marks of `l7-filter` do nothing under `hrw`",
            ),
            (
                "--policy drr --clients service --services udp=forward,any=l7-filter:weight=tls=3",
                "do nothing where clients are those of `--clients service`",
            ),
            ("--policy hrw --services-per-core 2", "--services-per-core does nothing under `hrw`"),
            ("--policy drr --switch-cost 9us", "--switch-cost does nothing under `drr`"),
        ] {
            let said = told(directory.path(), &format!("{command} {input} {options}"));
            assert!(said.contains(words), "{command} {options}: {said}");
        }
        for options in
            ["--policy drr --clients flow --services l7-filter:weight=tls=3", "--policy everest --switch-cost 9us"]
        {
            let said = told(directory.path(), &format!("{command} {input} {options}"));
            assert!(!said.contains("do nothing") && !said.contains("does nothing"), "{command} {options}: {said}");
        }
    }
    for command in ["sim", "compare --policy rr"] {
        let words = format!("{command} {input} --policy hrw --services l7-filter:service=http=4");
        let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, Some(2), "{said:?}");
        said.assert_one_line(&["l7-filter: marks send packets to service 4", "the last of this run is service 0"]);
    }
    let words = format!("sim {input} --policy hrw --services any=l7-filter,rest=forward");
    let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(said.code, Some(2), "{said:?}");
    said.assert_one_line(&[
        "no packet gets the service `rest`: add a rule with service=rest, or a mark such as l7-filter:service=http=1",
    ]);
}

/// The protocols that marks can name are listed.
#[test]
fn protocols_are_listed() {
    let directory = directory();
    let protocols = document(directory.path(), "list protocols");
    let names: Vec<&str> =
        protocols.as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.len() > 150 && names.contains(&"tls"), "{names:?}");
    let said = run(
        directory.path(),
        &["run", "--input", "gen:poisson", "--policy", "hrw", "--services", "l7-filter:drop=TLS"],
    );
    assert_eq!(said.code, Some(2));
    said.assert_one_line(&["no protocol `TLS`; did you mean `tls`?", "`humpyard list protocols` has all"]);
    assert!(said.err.len() < 160, "{}", said.err);
}

/// Alarms are in the result, and what they are about can be dropped; by any number of workers.
#[test]
fn scans_and_floods_are_told_and_dropped() {
    let Some(traces) = captures("scans_and_floods_are_told_and_dropped") else { return };
    let directory = directory();
    for workers in [0, 2] {
        let capture = traces.join("protocols/synscan.pcap").display().to_string();
        let run = format!("run --input {capture} --policy hrw --workers {workers} --services");
        let result = document(directory.path(), &format!("{run} portscan"));
        assert_balanced(&result);
        assert_eq!(number(&result, "/services/0/counters/alarms"), 1);
        let counters = result.pointer("/services/0/counters").and_then(Value::as_object).expect("counters");
        let alarm = counters
            .iter()
            .find(|(name, _)| name.starts_with("alarm_01 vertical 172.16.0.8 to 64.13.134.52 at 12782750"));
        assert_eq!(alarm.expect("an alarm").1, 1994, "{counters:?}");
        // The 64th port is the 104th attempt: that one and all that follow.
        let result = document(directory.path(), &format!("{run} portscan:drop=true"));
        assert_balanced(&result);
        assert!(workers > 0 || number(&result, "/packets/dropped_out/scan") == 1994 - 103);
        let capture = traces.join("attacks/pkt.TCP.synflood.spoofed.pcap").display().to_string();
        let run = format!("run --input {capture} --policy hrw --workers {workers} --services");
        let result = document(directory.path(), &format!("{run} synflood:drop=true"));
        assert_balanced(&result);
        // By two workers it depends on who is how far when the first period ends.
        let flood = number(&result, "/packets/dropped_out/flood");
        assert!(if workers == 0 { flood == 14_140 } else { flood > 0 }, "{workers} workers: {flood}");
    }
}

#[test]
fn every_service_explains_itself_and_runs() {
    let directory = directory();
    let services = document(directory.path(), "list services");
    let names: Vec<&str> = services.as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "forward",
            "encrypt",
            "decrypt",
            "compress",
            "decompress",
            "fec",
            "fec-decode",
            "dpi",
            "l7-filter",
            "firewall",
            "portscan",
            "synflood",
            "nat64",
            "pass"
        ]
    );
    for name in names {
        let text = good(directory.path(), &format!("explain {name}")).out;
        // What does no work follows nobody.
        assert!(text.contains("(service)") && (text.contains("RFC") || name == "pass"), "{text}");
        let words = format!("run --input gen:poisson:packets=500 --policy drr --services {name} --workers 2");
        assert_balanced(&document(directory.path(), &words));
        let words = format!("sim --input gen:poisson:packets=500 --policy drr --services {name}");
        assert_balanced(&document(directory.path(), &words));
    }
}

#[test]
fn slips_in_parameters_are_told_in_one_line() {
    let directory = directory();
    for (services, words) in [
        ("encrypt:cipher=des", &["`cipher` takes one of aes-128-gcm cast-128"][..]),
        ("encrypt:key=1234", &["`key` takes 32 hexadecimal digits"]),
        ("fec:code=9+1", &["`code` takes one of 8/7 8+2"]),
        ("l7-filter:drop=bitorrent", &["no protocol `bitorrent`", "did you mean `bittorrent`"]),
        (
            "l7-filter:service=http=4",
            &["l7-filter: marks send packets to service 4", "the last of this run is service 0"],
        ),
        ("dpi:deny=htp", &["no protocol `htp`", "did you mean `http`"]),
        ("firewall:rules=deny+from=10.0.0", &["`10.0.0` is no prefix"]),
        ("firewall:file=no-such-file", &["`file`", "cannot read `no-such-file`"]),
    ] {
        let said = run(
            directory.path(),
            &["run", "--input", "gen:poisson:packets=9", "--policy", "hrw", "--services", services],
        );
        assert_eq!(said.code, Some(2), "{said:?}");
        said.assert_one_line(words);
    }
}
