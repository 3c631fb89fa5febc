//! `--split`: an elephant has several cores, and leaves in order.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{assert_balanced, captures, directory, document, good, number, real, run, sum};

/// Captures of one connection that has nearly all packets.
const ELEPHANTS: [&str; 2] = ["elephants/EIP-FirmwareChange.pcap", "elephants/melsoft_variant_clean.pcap"];

/// Figures of the result by which splitting is seen.
fn split(result: &Value, what: &str) -> u64 {
    number(result, &format!("/split/{what}"))
}

/// Figures of the result by which it is seen how packets left.
fn exit(result: &Value, what: &str) -> u64 {
    number(result, &format!("/exit/{what}"))
}

fn assert_in_order(result: &Value) {
    assert_balanced(result);
    assert_eq!(number(result, "/order/out_of_order"), 0, "{result:#}");
    assert_eq!((exit(result, "missed_turn"), exit(result, "given_up")), (0, 0), "{result:#}");
}

/// Everything but which driver it was, and what that alone is told.
fn without_hosts(mut result: Value) -> Value {
    let keys = result.as_object_mut().expect("an object");
    for key in ["measured", "environment", "host", "options"] {
        assert!(keys.remove(key).is_some(), "{key}");
    }
    result
}

#[test]
fn elephants_of_real_captures_have_several_cores_in_order() {
    let Some(traces) = captures("elephants_of_real_captures_have_several_cores_in_order") else { return };
    let directory = directory();
    for (capture, service) in ELEPHANTS.into_iter().zip(["encrypt", "forward"]) {
        // Twice as much as one core can do, and the connection has one.
        let capture = traces.join(capture).display().to_string();
        let words = format!("sim --input {capture} --policy conn --services {service} --cores 4 --load 0.5");
        let alone = document(directory.path(), &words);
        assert!(alone.get("split").is_none() && alone["options"].get("split").is_none());
        for cores in [2, 4] {
            let result = document(directory.path(), &format!("{words} --split share=0.3,cores={cores},window=100us"));
            assert_in_order(&result);
            assert!(split(&result, "elephants") > 0 && exit(&result, "waited") > 0, "{result:#}");
            assert!(real(&result, "/delay_ns/mean") < real(&alone, "/delay_ns/mean"), "{capture}");
            assert!(number(&result, "/packets/processed") >= number(&alone, "/packets/processed"), "{capture}");
        }
    }
}

/// No flow is measured in a run that ends before the window does, and the run says so.
#[test]
fn a_run_shorter_than_the_window_is_told() {
    let said = |words: &str| {
        let words = format!("sim --input gen:poisson:packets=2k,flows=2 --policy hrw --cores 4 --load 0.5 {words}");
        run(Path::new("."), &words.split(' ').collect::<Vec<_>>())
    };
    let short = said("--split share=0.3,cores=2");
    let expected = [
        "warning: --split splits no flow: the run takes 6",
        "less than the window of 1.00 ms",
        "(--split window=10us), or more packets",
    ];
    assert_eq!(short.code, Some(0));
    short.assert_one_line(&expected);
    assert_eq!(said("--split share=0.3,cores=2,window=10us").err, "");
}

/// Elephants have the names that `trace info` gives them, in documents, words, reports and timelines.
#[test]
fn elephants_have_names() {
    let Some(traces) = captures("elephants_have_names") else { return };
    let directory = directory();
    let at = directory.path();
    for capture in ELEPHANTS {
        let capture = traces.join(capture).display().to_string();
        let info = document(at, &format!("trace info {capture}"));
        // With room for all packets, so that all leave.
        let words = format!(
            "--input {capture} --policy conn --cores 4 --load 0.5 --buffer 50000 --split share=0.3,window=100us"
        );
        let result = document(at, &format!("sim {words}"));
        let heaviest = |path: &str| {
            let flow = result.pointer(path).unwrap_or_else(|| panic!("{path}: {result:#}"));
            (flow["flow"].clone(), number(flow, "/packets"), real(flow, "/fraction"))
        };
        let of_all = heaviest("/top_flows/0");
        let expected = (info["top_flows"][0]["flow"].clone(), number(&info, "/top_flows/0/packets"));
        assert_eq!(sum(&result, "/packets/dropped"), 0, "{capture}");
        assert_eq!((&of_all.0, of_all.1), (&expected.0, expected.1), "{capture}");
        assert!((of_all.2 - real(&info, "/top_flows/0/packet_share")).abs() < 1e-9);
        let elephants = result["split"]["flows"].as_array().expect("a list");
        let packets: u64 = elephants.iter().map(|flow| number(flow, "/packets")).sum();
        assert!(elephants.len() <= 16 && packets <= split(&result, "packets") && packets > 0, "{result:#}");
        let name = elephants[0]["flow"].as_str().expect("a name");
        assert!(name.contains(" > "), "{name}");
        let text = good(at, &format!("sim {words} --timeline t.perfetto-trace --timeline-packets 1000000")).out;
        assert!(text.contains(name), "{name} is not in\n{text}");
        let timeline = fs::read(at.join("t.perfetto-trace")).expect("a timeline");
        assert!(timeline.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "{name}");
        good(at, &format!("compare {words} --report r.html"));
        let page = fs::read_to_string(at.join("r.html")).expect("a page");
        assert!(page.contains(&name.replace('>', "&gt;")), "{name}");
    }
}

#[test]
fn live_and_simulated_runs_split_alike() {
    let directory = directory();
    let words = "--input gen:onoff:packets=20k --policy ps-hrw --load 0.9 --split share=0.2,cores=3,window=50us";
    let simulated = document(directory.path(), &format!("sim --cores 4 {words}"));
    assert_in_order(&simulated);
    assert!(split(&simulated, "elephants") > 0 && exit(&simulated, "waited") > 0, "{simulated:#}");
    let live = document(directory.path(), &format!("run --workers 4 --clock virtual {words}"));
    assert_eq!(number(&live, "/packets/in"), number(&simulated, "/packets/in"));
    assert_eq!(without_hosts(live), without_hosts(simulated));
}

/// On threads every flow goes out as it came in, byte for byte.
#[test]
fn flows_on_two_workers_go_out_as_they_came_in() {
    let directory = directory();
    let at = directory.path();
    let flows = "--flows constant:packets=20000 --concurrent 1 --payloads gen:messages:packets=1000";
    good(at, &format!("trace compose --arrivals gen:poisson:packets=20k {flows} --output few.pcap --quiet"));
    // Split, and sprayed packet by packet by a policy that keeps no order.
    for options in ["--policy conn --split share=0", "--policy rr"] {
        let words = "run --input few.pcap --services pass --workers 2 --flow-order exit:time=60s --output out.pcap";
        let result = document(at, &format!("{words} {options}"));
        assert_in_order(&result);
        let served = |core: usize| number(&result, &format!("/cores_detail/{core}/packets"));
        assert_eq!(served(0) + served(1), 20_000, "{result:#}");
        assert!(served(0) > 0 && served(1) > 0, "{result:#}");
        assert_eq!(flows_of(at, "few.pcap"), flows_of(at, "out.pcap"));
    }
}

/// The packets of each flow in a capture of IPv4, by addresses and ports.
fn flows_of(directory: &Path, capture: &str) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    let bytes = fs::read(directory.join(capture)).expect("it was written");
    let mut rest = &bytes[24..];
    let mut flows: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
        let packet = &rest[16..16 + length];
        flows.entry(packet[26..38].to_vec()).or_default().push(packet.to_vec());
        rest = &rest[16 + length..];
    }
    flows
}

#[test]
fn what_was_split_is_told_in_words() {
    let directory = directory();
    let words = "sim --input gen:poisson:packets=1000 --policy conn --load 0.1 --split";
    let never = good(directory.path(), &format!("{words} share=16,window=10us")).out;
    assert!(
        never.contains("split       0 packets of 0 elephants")
            && never.contains("exit        0 packets waited for earlier ones, 0 missed their turn"),
        "{never}"
    );
    let always = good(directory.path(), &format!("{words} share=0,window=1s")).out;
    assert!(always.contains("split       1000 packets of 64 elephants"), "{always}");
}
