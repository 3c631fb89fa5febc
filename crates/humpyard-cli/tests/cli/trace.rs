//! `trace cut` and `trace merge`, several inputs, timeouts of flows, tunnels, warm-ups, clocks that jump.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::support::{
    Said, assert_balanced, directory, document, files, good, humpyard, make_capture, number, packets_in, real, run,
};

#[test]
fn long_captures_have_dates_and_a_length_in_days() {
    let directory = directory();
    let at = directory.path();
    // Two empty packets of raw IP, whose times are 1d 2h 3min apart.
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
    for seconds in [1_400_000_000u32, 1_400_093_780] {
        capture.extend([seconds, 5, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
    }
    fs::write(at.join("in.pcap"), capture).unwrap();
    let text = good(at, "trace info in.pcap").out;
    assert!(text.contains("\nduration    1d 2h 3min, "), "{text}");
    let dates = "\nfirst       2014-05-13T16:53:20.000005Z\nlast        2014-05-14T18:56:20.000005Z\n";
    assert!(text.contains(dates), "{text}");
    assert_eq!(document(at, "trace info in.pcap")["first_time_ns"], 1_400_000_000_000_005_000u64);
    assert!(!good(at, "trace info gen:poisson:packets=10").out.contains("1970"));
}

#[test]
fn parts_of_a_capture() {
    let directory = directory();
    let here = directory.path();
    good(here, "trace cut gen:messages:packets=1000 --output in.pcap");
    let whole = document(here, "trace info in.pcap");
    assert_eq!(number(&whole, "/packets"), 1000);
    let cut = document(here, "trace cut in.pcap --output part.pcapng.zst --packets 10..19 --snap 60");
    assert_eq!((number(&cut, "/packets"), number(&cut, "/packets_read")), (10, 19));
    let part = document(here, "trace info part.pcapng.zst");
    assert_eq!(number(&part, "/packets"), 10);
    assert_eq!(number(&part, "/bytes"), number(&cut, "/bytes"));
    assert_eq!(number(&part, "/captured_bytes"), number(&cut, "/captured_bytes"));
    assert!(number(&part, "/captured_bytes") <= 600 && number(&part, "/bytes") > 600);
    // A cut in time, in two, is the whole, to the ns.
    let middle = number(&whole, "/duration_ns") / 2;
    good(here, &format!("trace cut in.pcap --output a.pcap --to {middle}ns"));
    good(here, &format!("trace cut in.pcap --output b.pcapng --from {middle}ns"));
    assert_eq!(packets_in(here, "a.pcap") + packets_in(here, "b.pcapng"), 1000);
    good(here, "trace merge b.pcapng a.pcap --output both.pcap");
    assert_eq!(fs::read(here.join("both.pcap")).unwrap(), fs::read(here.join("in.pcap")).unwrap());
    // By kind and by flow, as `trace info` names it.
    let tcp = document(here, "trace cut in.pcap --output tcp.pcap --match tcp");
    assert_eq!(number(&tcp, "/packets"), number(&whole, "/protocols/tcp"));
    let top = whole["top_flows"][0]["flow"].as_str().expect("a flow");
    let words = ["trace", "cut", "in.pcap", "--output", "top.pcap", "--flow", top, "--json"];
    assert_eq!(run(here, &words).json()["packets"], whole["top_flows"][0]["packets"]);
    // A capture is never lost to its own part.
    let said = run(here, &["trace", "cut", "in.pcap", "--output", "./in.pcap", "--packets", "..5"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    said.assert_one_line(&["--output would replace an input", "in.pcap", "name another"]);
    assert_eq!(packets_in(here, "in.pcap"), 1000);
}

#[test]
fn parts_through_pipes() {
    let directory = directory();
    make_capture(directory.path(), "in.pcap.gz", 100);
    let input = fs::File::open(directory.path().join("in.pcap.gz")).unwrap();
    let words = ["trace", "cut", "-", "--output", "-", "--packets", "91.."];
    let output = humpyard(directory.path(), &words).stdin(input).stdout(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    fs::write(directory.path().join("out.pcap"), &output.stdout).unwrap();
    assert_eq!(packets_in(directory.path(), "out.pcap"), 10);
    assert!(String::from_utf8_lossy(&output.stderr).contains("10 of 100 packets"));
    // A pipe is merged with a file, as it comes.
    let input = fs::File::open(directory.path().join("in.pcap.gz")).unwrap();
    let words = ["run", "--input", "-", "--input", "out.pcap", "--policy", "hrw", "--workers", "1", "--json"];
    let said = Said::of(humpyard(directory.path(), &words).stdin(input).output().unwrap());
    assert_eq!((said.code, number(&said.json(), "/packets/processed")), (Some(0), 110), "{said:?}");
}

#[test]
fn what_cannot_be_cut_or_merged_is_refused_and_leaves_nothing() {
    let directory = directory();
    make_capture(directory.path(), "in.pcap", 10);
    let raw: Vec<u8> = {
        let mut bytes = fs::read(directory.path().join("in.pcap")).unwrap();
        bytes[20] = 101;
        bytes
    };
    fs::write(directory.path().join("raw.pcap"), raw).unwrap();
    let before = files(directory.path());
    for (words, expected) in [
        ("trace cut in.pcap", "--output"),
        ("trace cut in.pcap --output out.txt", "use .pcap or .pcapng"),
        ("trace cut missing.pcap --output out.pcap", "no such file"),
        ("trace cut in.pcap --output out.pcap --packets 5..4", "--packets takes numbers from 1"),
        ("trace cut in.pcap --output out.pcap --packets 0..4", "--packets takes numbers from 1"),
        ("trace cut in.pcap --output out.pcap --packets 7", "--packets takes numbers from 1"),
        ("trace cut in.pcap --output out.pcap --from 2s --to 2s", "--to must be later than --from"),
        ("trace cut in.pcap --output out.pcap --from 2", "a time has a unit"),
        ("trace cut in.pcap --output out.pcap --match tpc", "did you mean `tcp`?"),
        ("trace cut in.pcap --output out.pcap --flow udp", "as `trace info` shows it"),
        ("trace cut in.pcap --output out.pcap --inner gr", "did you mean `gre`?"),
        ("trace cut in.pcap --output out.pcap --snap 0", "--snap"),
        ("trace cut in.pcap --output - --json", "--output - and --json"),
        ("trace merge in.pcap --output out.pcap", "<SRC>"),
        ("trace merge in.pcap missing.pcap --output out.pcap", "no such file"),
        ("trace merge - - --output out.pcap", "once only"),
        ("trace merge in.pcap raw.pcap --output out.pcap", "write a .pcapng"),
        ("run --input in.pcap --input - --loop 2 --policy hrw", "once only"),
        ("sim --input in.pcap --policy drr --flow-timeout 0s", "above 0"),
        ("sim --input in.pcap --policy drr --flow-timeout 25min --inner vlan", "no tunnel `vlan`"),
        ("sim --input in.pcap --policy drr --warmup 3", "a time has a unit"),
    ] {
        let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
        assert!(said.code == Some(2) && said.out.is_empty(), "{words}: {said:?}");
        said.assert_one_line(&[expected]);
        assert_eq!(files(directory.path()), before, "{words}");
    }
    good(directory.path(), "trace merge in.pcap raw.pcap --output out.pcapng");
    assert_eq!(packets_in(directory.path(), "out.pcapng"), 20);
}

#[test]
fn what_comes_before_damage_is_cut_and_merged() {
    let directory = directory();
    let here = directory.path();
    make_capture(here, "in.pcap", 100);
    let whole = fs::read(here.join("in.pcap")).unwrap();
    fs::write(here.join("cut.pcap"), &whole[..whole.len() - 1]).unwrap();
    for (words, packets) in [
        ("trace cut cut.pcap --output out.pcap", 99),
        ("trace merge cut.pcap in.pcap --output out.pcap", 199),
        ("trace merge in.pcap cut.pcap --output out.pcap", 199),
    ] {
        let words = format!("{words} --json");
        let said = run(here, &words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, Some(1), "{said:?}");
        said.assert_one_line(&["cut.pcap: damaged at byte", "in record 100"]);
        assert_eq!((number(&said.json(), "/packets"), packets_in(here, "out.pcap")), (packets, packets));
    }
    let said = run(here, &["sim", "--input", "cut.pcap", "--input", "in.pcap", "--policy", "drr", "--json"]);
    assert_eq!((said.code, number(&said.json(), "/packets/processed")), (Some(1), 199));
    assert_eq!(number(&said.json(), "/damage/packets_before"), 99);
}

#[test]
fn several_inputs_are_one_by_the_times_of_their_packets() {
    let directory = directory();
    let here = directory.path();
    for (name, pps) in [("a.pcap", 1000), ("b.pcapng", 700)] {
        good(here, &format!("trace cut gen:messages:packets=2000,pps={pps} --output {name} --seed {pps}"));
    }
    good(here, "trace merge a.pcap b.pcapng --output both.pcap");
    for rounds in [1, 3] {
        let figures = |input: &str| {
            let mut document = document(here, &format!("sim {input} --policy drr --cores 2 --loop {rounds}"));
            for key in ["input", "measured", "environment"] {
                assert!(document.as_object_mut().unwrap().remove(key).is_some());
            }
            document
        };
        assert_eq!(figures("--input a.pcap --input b.pcapng"), figures("--input both.pcap"), "{rounds}");
    }
    let result = document(here, "sim --input a.pcap --input gen:poisson:packets=100 --policy drr --load 0.5");
    assert_eq!((&result["input"], number(&result, "/packets/in")), (&"a.pcap + gen:poisson:packets=100".into(), 2100));
}

#[test]
fn idle_flows_end_with_their_clients() {
    // Four flows, whose packets come every 4 ms on average.
    let flows = |words: &str| {
        let mut seen = Vec::new();
        for command in ["sim --cores 2", "run --clock virtual --workers 2", "sim --rate 100k"] {
            let words = format!("{command} --input gen:poisson:packets=4000,flows=4,pps=1000 --policy drr {words}");
            let result = document(Path::new("."), &words);
            assert_balanced(&result);
            seen.push(number(&result, "/flows"));
        }
        let info = document(Path::new("."), &format!("trace info gen:poisson:packets=4000,flows=4,pps=1000 {words}"));
        seen.push(number(&info, "/flows"));
        seen
    };
    assert_eq!(flows(""), [4; 4]);
    assert_eq!(flows("--flow-timeout 1s"), [4; 4]);
    let ended = flows("--flow-timeout 5ms");
    // By the times of the packets, and not by the time of the run, which is shorter at a rate.
    assert!(ended[0] > 500 && ended.iter().all(|&flows| flows == ended[0]), "{ended:?}");
    let words = "run --input gen:poisson:packets=4000,flows=4,pps=1000 --policy drr --flow-timeout 5ms --rate 100k";
    let live = document(Path::new("."), words);
    assert_balanced(&live);
    assert!(number(&live, "/flows") >= 4);
    for clients in ["flow", "connection", "service"] {
        let words =
            "sim --input gen:messages:packets=20000 --policy steer=ps-hrw/share=sfq --flow-timeout 100us --clients";
        assert_balanced(&document(Path::new("."), &format!("{words} {clients}")));
    }
}

#[test]
fn flows_are_those_inside_tunnels_on_request() {
    let directory = directory();
    // Two flows in one tunnel of IP in IP: raw IPv4, protocol 4, then UDP.
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
    let ip = |protocol: u8, length: u8| {
        let mut header = vec![0x45, 0, 0, length, 0, 0, 0, 0, 64, protocol, 0, 0];
        header.extend([198, 18, 0, 1, 198, 18, 0, 2]);
        header
    };
    for n in 0..10u8 {
        capture.extend([0, 0, 0, 0, n, 0, 0, 0, 48, 0, 0, 0, 48, 0, 0, 0]);
        capture.extend(ip(4, 48));
        capture.extend(ip(17, 28));
        capture.extend([0, n % 2, 0, 53, 0, 8, 0, 0]);
    }
    fs::write(directory.path().join("in.pcap"), capture).unwrap();
    for (inner, flows) in [("none", 1), ("gre,vxlan,gtp-u", 1), ("ip-in-ip", 2), ("all", 2)] {
        for words in ["sim --policy drr --input", "run --policy hrw --workers 0 --input", "trace info"] {
            let found = document(directory.path(), &format!("{words} in.pcap --inner {inner}"));
            assert_eq!(number(&found, "/flows"), flows, "{words} {inner}");
        }
    }
    let cut = document(directory.path(), "trace cut in.pcap --output out.pcap --match udp --inner all");
    assert_eq!(number(&cut, "/packets"), 10);
}

#[test]
fn a_warm_up_is_in_the_counts_and_in_no_figure() {
    let directory = directory();
    // A thousand packets at once, then one every ms.
    let inputs = "--input gen:poisson:packets=1000,pps=1G --input gen:poisson:packets=1000,pps=1000 --tolerance 1us";
    for command in ["sim --cores 1", "run --clock virtual --workers 1"] {
        let result = |words: &str| {
            let words = format!("{command} {inputs} --policy fcfs --costs table:measured {words}");
            document(directory.path(), &words)
        };
        let (cold, warm) = (result(""), result("--warmup 10ms"));
        for result in [&cold, &warm] {
            assert_balanced(result);
            assert_eq!(number(result, "/packets/processed"), 2000);
            assert_eq!(number(result, "/services/0/packets"), 2000);
            assert_eq!(number(result, "/cores_detail/0/packets"), 2000);
        }
        assert_eq!((number(&cold, "/warm_up/packets"), number(&warm, "/warm_up/time_ns")), (0, 10_000_000));
        let left_out = number(&warm, "/warm_up/packets");
        assert!((1001..1050).contains(&left_out), "{left_out}");
        assert!(number(&cold, "/late/count") > 900 && number(&cold, "/delay_ns/max") > 30_000, "{cold:#}");
        assert!(number(&warm, "/late/count") < 5 && number(&warm, "/delay_ns/max") < 1_000, "{warm:#}");
        assert!(number(&warm, "/services/0/late/count") < 5, "{warm:#}");
        assert!(real(&warm, "/fairness/service_error_max") < real(&cold, "/fairness/service_error_max"));
        assert_eq!(cold["bytes"], warm["bytes"]);
        // All of it may be warm-up.
        let none = result("--warmup 1min");
        assert_eq!((number(&none, "/warm_up/packets"), number(&none, "/delay_ns/max")), (2000, 0));
        assert_eq!(number(&none, "/fairness/clients"), 0, "{none:#}");
    }
    let text = good(directory.path(), &format!("sim --cores 1 {inputs} --policy fcfs --warmup 10ms")).out;
    assert!(text.contains("without the 10") && text.contains("of the first 10.0 ms"), "{text}");
}

#[test]
fn jumps_of_a_clock_are_told_and_take_no_time() {
    let directory = directory();
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    // In s: two days forward, a day back, a wild one, and on.
    for seconds in [1_000_000u32, 1_000_001, 1_172_801, 1_172_802, 1_086_402, 4_000_000_000, 1_086_403, 1_086_404] {
        capture.extend(seconds.to_le_bytes());
        capture.extend([0, 0, 0, 0, 16, 0, 0, 0, 16, 0, 0, 0]);
        capture.extend([7; 16]);
    }
    fs::write(directory.path().join("in.pcap"), capture).unwrap();
    for words in ["sim", "run --clock virtual", "sim --load 0.1"] {
        let words = format!("{words} --input in.pcap --policy drr --json");
        let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, Some(0), "no packet is lost: {said:?}");
        said.assert_one_line(&["in.pcap: its clock jumps 2 times back", "2 times forward"]);
        let result = said.json();
        assert_eq!(number(&result, "/packets/processed"), 8);
        assert_eq!(number(&result, "/damage/clock_jumps_back"), 2);
        assert_eq!(number(&result, "/damage/clock_jumps_forward"), 2);
        assert!(result["damage"]["offset"].is_null());
        if !words.contains("load") {
            // 0, 1, 1, 2, 2, 2, 2, 3.
            assert_eq!(number(&result, "/duration_ns") / 1_000_000_000, 3, "{result:#}");
        }
    }
    // Where arrivals do not follow it, it does not matter.
    let even = document(directory.path(), "sim --input in.pcap --policy drr --rate 1000");
    assert!(even["damage"].is_null());
}
