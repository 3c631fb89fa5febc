//! Traffic that is made: profiles as inputs, captures composed and scaled, and what `trace info` says of them.

use std::path::Path;

use serde_json::Value;

use crate::support::{assert_balanced, captures, directory, document, files, good, make_capture, number, real, run};

#[test]
fn every_profile_can_be_simulated_looked_at_and_explained() {
    let directory = directory();
    let profiles = document(directory.path(), "list profiles");
    for profile in profiles.as_array().expect("a list") {
        let name = profile["name"].as_str().expect("a name");
        let has_packets = profile["parameters"].as_array().expect("a list").iter().any(|one| one["name"] == "packets");
        let input = if has_packets { format!("gen:{name}:packets=3000") } else { format!("gen:{name}") };
        let result = document(directory.path(), &format!("sim --input {input} --policy hrw --cores 3 --quiet"));
        assert_balanced(&result);
        if has_packets {
            assert_eq!(number(&result, "/packets/in"), 3_000, "{name}");
        }
        let text = good(directory.path(), &format!("explain {name}")).out;
        assert!(text.contains("source") && text.contains(&format!("gen:{name}")), "{text}");
    }
}

#[test]
fn profiles_run_live_and_their_packets_are_forwarded() {
    let directory = directory();
    for name in ["onoff", "mmpp", "flow", "flowb", "mit", "imix", "ffmpeg", "spc", "spc-apps"] {
        let result =
            document(directory.path(), &format!("run --input gen:{name}:packets=2000 --policy drr --workers 0"));
        assert_balanced(&result);
        assert_eq!(number(&result, "/packets/forwarded"), 2_000, "{name}: {:#}", result["packets"]);
    }
}

fn info(directory: &Path, input: &str) -> Value {
    document(directory, &format!("trace info {input}"))
}

#[test]
fn a_capture_is_scaled_by_its_flows() {
    let directory = directory();
    let at = directory.path();
    good(
        at,
        "trace compose --arrivals gen:poisson:packets=30k --flows geometric:mean=15 --payloads gen:messages --output in.pcap",
    );
    let before = info(at, "in.pcap");
    assert_eq!(number(&before, "/packets"), 30_000);
    for (factor, output) in [("2.5", "more.pcap"), ("0.3", "less.pcapng.zst")] {
        let said = document(at, &format!("trace scale --factor {factor} in.pcap {output} --quiet"));
        let after = info(at, output);
        assert_eq!((&said["packets"], &said["output"]), (&after["packets"], &output.into()));
        let factor: f64 = factor.parse().unwrap();
        for path in ["/packets", "/connections", "/mean_rate_pps"] {
            let found = real(&after, path) / real(&before, path);
            // Connections under way where a copy was cut count twice.
            assert!((found / factor - 1.0).abs() < 0.12, "{path}: {found} {factor}");
        }
        assert_eq!(number(&after, "/backward_jumps"), 0);
        let forwarded = document(at, &format!("run --input {output} --policy hrw --workers 0"));
        assert_eq!(forwarded["packets"]["in"], after["packets"]);
    }
    // The same twice, and as an input.
    good(at, "trace scale --factor 2.5 in.pcap again.pcap --quiet");
    assert_eq!(std::fs::read(at.join("more.pcap")).unwrap(), std::fs::read(at.join("again.pcap")).unwrap());
    let simulated = document(at, "sim --input gen:scale:factor=2.5,input=in.pcap --policy hrw");
    assert_eq!(simulated["packets"]["in"], info(at, "more.pcap")["packets"]);
}

#[test]
fn real_captures_are_composed_and_scaled() {
    let Some(traces) = captures("real_captures_are_composed_and_scaled") else { return };
    let directory = directory();
    let at = directory.path();
    let capture = traces.join("uniform/echo-connections.pcap").display().to_string();
    good(at, &format!("trace scale --factor 2 {capture} twice.pcap --quiet"));
    let (before, after) = (info(at, &capture), info(at, "twice.pcap"));
    assert_eq!(2 * number(&before, "/packets"), number(&after, "/packets"));
    for file in ["uniform/echo-connections.pcap", "elephants/mb2.pcap", "video/video_call_0.pcap"] {
        let payloads = traces.join(file).display().to_string();
        let composed = "trace compose --arrivals gen:onoff:packets=20k --flows pareto:mean=12 --output composed.pcapng";
        good(at, &format!("{composed} --payloads {payloads} --quiet"));
        let found = info(at, "composed.pcapng");
        assert_eq!(number(&found, "/packets"), 20_000, "{file}");
        assert!(number(&found, "/connections") > 800, "{file}: {found:#}");
        let (shortest, longest) = (number(&found, "/lengths/minimum"), number(&found, "/lengths/maximum"));
        let original = info(at, &payloads);
        assert!(shortest >= number(&original, "/lengths/minimum") && longest <= number(&original, "/lengths/maximum"));
    }
}

#[test]
fn info_tells_how_bursty_traffic_is() {
    let directory = directory();
    let at = directory.path();
    let poisson = info(at, "gen:poisson:packets=300k,pps=100k");
    assert!((real(&poisson, "/burstiness/mean_packets") - 100.0).abs() < 2.0);
    assert!((real(&poisson, "/burstiness/relative_deviation") - 0.1).abs() < 0.005);
    assert!((real(&poisson, "/burstiness/hurst/estimate") - 0.5).abs() < 0.12);
    assert!((real(&poisson, "/flow_sizes/mean") - 300_000.0 / 64.0).abs() < 1.0);
    let onoff = info(at, "gen:onoff:packets=300k,pps=100k");
    assert!(real(&onoff, "/burstiness/hurst/estimate") > 0.65, "{:#}", onoff["burstiness"]);
    let heavy = info(at, "gen:mit:packets=100k");
    assert!(real(&heavy, "/flow_sizes/heaviest_tenth_share") > 0.4, "{:#}", heavy["flow_sizes"]);
    let text = good(at, "trace info gen:onoff:packets=300k,pps=100k").out;
    for word in ["flow sizes", "burstiness", "hurst", "variance-time over 1.00 ms to", "packets/ms"] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    let text = good(at, "trace info gen:poisson:packets=10k").out;
    assert!(text.contains("too short to say: "), "{text}");
    assert_eq!(info(at, "gen:poisson:packets=3")["burstiness"], Value::Null);
}

#[test]
fn what_cannot_be_made_leaves_no_file() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 100);
    let before = files(at);
    for (words, expected) in [
        ("trace scale --factor 0 in.pcap out.pcap", "the factor lies between 0.0001 and 256"),
        ("trace scale --factor two in.pcap out.pcap", "--factor"),
        ("trace scale --factor 2 - out.pcap", "a pipe cannot be; write it to a file first"),
        ("trace scale --factor 2 missing.pcap out.pcap", "missing.pcap: there is no such file"),
        ("trace scale --factor 2 in.pcap out.txt", "use .pcap or .pcapng"),
        ("trace scale --factor 2 in.pcap - --json", "both need the standard output"),
        ("trace compose --payloads in.pcap --flows pareti --output out.pcap", "did you mean `pareto`?"),
        ("trace compose --payloads in.pcap --arrivals gen:onof --output out.pcap", "did you mean `onoff`?"),
        ("trace compose --payloads missing.pcap --output out.pcap", "missing.pcap: there is no such file"),
        ("trace compose --output out.pcap", "--payloads <SRC>"),
        ("sim --policy hrw --input gen:scale:factor=2,input=-", "a pipe cannot be"),
    ] {
        let said = run(at, &words.split_whitespace().collect::<Vec<_>>());
        assert!(said.code == Some(2) && said.out.is_empty(), "{words}: {said:?}");
        said.assert_one_line(&[expected]);
        assert_eq!(files(at), before, "{words}");
    }
}

#[test]
fn a_damaged_capture_is_scaled_and_composed_as_far_as_it_is_good() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 1_000);
    let whole = std::fs::read(at.join("in.pcap")).unwrap();
    std::fs::write(at.join("cut.pcap"), &whole[..whole.len() - 30]).unwrap();
    let said = run(at, &["trace", "scale", "--factor", "2", "cut.pcap", "out.pcap", "--json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    said.assert_one_line(&["damaged at byte"]);
    assert_eq!(number(&said.json(), "/packets"), 2 * 999);
    assert_eq!(number(&info(at, "out.pcap"), "/packets"), 2 * 999);
    let arrivals = "gen:poisson:packets=300";
    let said = run(
        at,
        &["trace", "compose", "--payloads", "cut.pcap", "--arrivals", arrivals, "--output", "out.pcap", "--json"],
    );
    assert_eq!(said.code, Some(1), "{said:?}");
    said.assert_one_line(&["cut.pcap", "damaged at byte"]);
    assert_eq!(number(&info(at, "out.pcap"), "/packets"), 300);
}

/// A linear hash of addresses and ports spreads generated flows as a keyed one does: no core has many times its part.
#[test]
fn cores_have_like_parts_of_generated_flows_whatever_hashes_them() {
    let directory = directory();
    for input in ["gen:poisson:packets=20000,flows=256", "gen:mit:packets=20000", "gen:imix:packets=20000,flows=256"] {
        for policy in ["conn", "hrw", "rss++"] {
            let words = format!("sim --input {input} --policy {policy} --cores 8 --load 0.8 --buffer 30000");
            let result = document(directory.path(), &words);
            let cores = result["cores_detail"].as_array().expect("cores");
            let most = cores.iter().map(|core| number(core, "/packets")).max().expect("a core");
            // Of 256 flows a core has 32, and with a chance of one in a million more than 61.
            assert!(most < 2 * 20_000 / 8, "{words}: {most}");
        }
    }
}

/// Returns a capture of two hosts that have 100 connections over UDP, with ten packets of each in both directions.
fn two_hosts() -> Vec<u8> {
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
    let (client, server) = ([198, 18, 0, 1], [198, 18, 0, 2]);
    for n in 0..1000u32 {
        let port = [19, (n / 2 % 100) as u8];
        let (ends, ports) =
            if n % 2 == 0 { ([client, server], [port, [0, 53]]) } else { ([server, client], [[0, 53], port]) };
        capture.extend([0, 10 * n, 28, 28].iter().flat_map(|word| word.to_le_bytes()));
        capture.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
        capture.extend(ends.concat());
        capture.extend([&ports.concat()[..], &[0, 8, 0, 0]].concat());
    }
    capture
}

#[test]
fn two_hosts_have_one_core_by_the_hash_of_their_addresses() {
    let directory = directory();
    let at = directory.path();
    std::fs::write(at.join("in.pcap"), two_hosts()).unwrap();
    let used = |result: &Value| {
        assert_balanced(result);
        // Flows stay flows.
        assert_eq!((number(result, "/packets/in"), number(result, "/flows")), (1000, 200));
        let cores = result["cores_detail"].as_array().expect("cores");
        cores.iter().filter(|core| number(core, "/packets") > 0).count()
    };
    for words in [
        "sim --cores 4 --policy hrw",
        "sim --cores 4 --policy conn",
        "run --workers 4 --policy conn",
        "run --workers 4 --policy hrw --dispatchers 2",
    ] {
        let of = |hash: &str| document(at, &format!("{words} --input in.pcap {hash}"));
        let (by_default, by_ports, by_addresses) = (of(""), of("--hash ports"), of("--hash addresses"));
        assert_eq!((used(&by_default), used(&by_ports), used(&by_addresses)), (4, 4, 1), "{words}");
        let shown = [&by_default, &by_ports, &by_addresses].map(|result| result["options"].get("hash").cloned());
        assert_eq!(shown, [None, None, Some("addresses".into())], "{words}");
    }
    let compared = document(at, "compare --input in.pcap --cores 4 --policy hrw --policy conn --hash addresses");
    assert!(compared["runs"].as_array().expect("runs").iter().all(|run| used(run) == 1), "{compared:#}");
    std::fs::write(at.join("run.toml"), "input = \"in.pcap\"\npolicy = \"hrw\"\ncores = 4\nhash = \"addresses\"\n")
        .unwrap();
    assert_eq!(used(&document(at, "sim --config run.toml")), 1);
    assert!(good(at, "check run.toml --for sim").out.contains("addresses"));
    let warned = run(at, &["sim", "--config", "run.toml", "--policy", "jsq"]);
    warned.assert_one_line(&["warning", "--hash addresses does nothing under `jsq`"]);
}
