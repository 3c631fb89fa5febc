//! `sim` and `compare`: the same again is the same, and the load is what was asked for.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{assert_balanced, captures, directory, document, good, number, packets_in, real, run, sum};

/// A result without what differs from run to run.
fn stable(mut result: Value) -> Value {
    let keys = result.as_object_mut().expect("an object");
    assert!(keys.remove("measured").is_some() && keys.remove("environment").is_some());
    result
}

#[test]
fn a_seed_gives_one_result_byte_for_byte() {
    for input in ["gen:messages:packets=20000", "gen:poisson:packets=20000,flows=100"] {
        for policy in ["rr", "hrw", "steer=conn/share=drr", "sfq", "static"] {
            let text = |seed: u64| {
                let words = format!("sim --input {input} --policy {policy} --cores 3 --seed {seed} --json");
                let text = good(Path::new("."), &words).out;
                // What differs from run to run comes last.
                let stable = text.split_once("\"measured\"").expect("it is there").0.to_owned();
                assert!(!stable.contains("environment"));
                stable
            };
            assert_eq!(text(5), text(5), "{input} {policy}");
            assert_ne!(text(5).replace("\"seed\": 5", ""), text(6).replace("\"seed\": 6", ""), "{input} {policy}");
        }
    }
}

/// The figures that are equal in simulation and live run: without options, and without what only services know.
pub(crate) fn figures(result: &Value) -> Value {
    let mut figures = stable(result.clone());
    let keys = figures.as_object_mut().expect("an object");
    for key in ["host", "options", "packets"] {
        assert!(keys.remove(key).is_some(), "{key}");
    }
    for key in ["in", "processed", "held", "dropped"] {
        keys.insert(key.to_owned(), result["packets"][key].clone());
    }
    figures
}

/// Packets that no service drops: of those a simulation does not know, and they do not leave the exit.
const KEPT: &str = "gen:messages:packets=5000,expiring=0";

/// More than the cores can do, where flows that move pay for it.
const MOVING: &str = "--rate 2M --buffer 60 --topology 3 --costs table:ps-hrw";

/// The policies that a simulation alone runs: they know all packets beforehand, add the work of a history, or
/// give packets back.
const SIMULATED: [&str; 5] = ["t-opt", "scr", "ps", "shinjuku", "concord"];

#[test]
fn a_run_by_a_virtual_clock_has_the_figures_of_its_simulation() {
    let directory = directory();
    let list = document(directory.path(), "list policies");
    let decides =
        |policy: &&Value| policy["family"] != "estimate" && !SIMULATED.iter().any(|name| policy["name"] == *name);
    for policy in list.as_array().expect("a list").iter().filter(decides) {
        let policy = policy["name"].as_str().expect("a name");
        for arrivals in ["", "--load 0.95 --costs table:everest", MOVING] {
            let words = format!("--input {KEPT} --policy {policy} {arrivals}");
            let run = format!("run {words} --workers 3 --clock virtual --output out.pcap");
            let live = document(directory.path(), &run);
            assert_balanced(&live);
            assert_eq!((&live["host"], &live["options"]["clock"]), (&"live".into(), &"virtual".into()));
            assert_eq!(live["environment"]["threads"].as_array().map(Vec::len), Some(1), "there are no workers");
            assert_eq!(packets_in(directory.path(), "out.pcap"), number(&live, "/packets/forwarded"));
            let simulated = document(directory.path(), &format!("sim {words} --cores 3"));
            assert_eq!(figures(&live), figures(&simulated), "{words}");
            let written = fs::read(directory.path().join("out.pcap")).unwrap();
            assert_eq!(stable(document(directory.path(), &run)), stable(live), "{run}");
            assert!(fs::read(directory.path().join("out.pcap")).unwrap() == written, "{run}");
        }
    }
}

/// A service by which packets are found, too: marks have a simulation do the work.
#[test]
fn handing_over_takes_as_long_by_a_virtual_clock() {
    let directory = directory();
    for (policy, more) in [
        ("efq", "--load 0.6 --hand-over 300ns"),
        ("hrw", "--load 0.9 --hand-over 300ns"),
        ("drr", "--load 0.6 --hand-over 300ns --services l7-filter:weight=dns=4"),
    ] {
        let words = format!("--input gen:onoff:packets=5000 --policy {policy} {more}");
        let live = document(directory.path(), &format!("run {words} --workers 4 --clock virtual"));
        let simulated = document(directory.path(), &format!("sim {words} --cores 4"));
        assert_eq!(figures(&live), figures(&simulated), "{words}");
        let at_once = words.replace("300ns", "0ns");
        assert_ne!(figures(&live), figures(&document(directory.path(), &format!("sim {at_once} --cores 4"))));
    }
}

/// Packets that go through several services are the work of all of them. These take a cold core no longer.
#[test]
fn a_load_counts_every_service_of_a_chain() {
    for services in [
        "--services v4-v6-tcp",
        "--services v4-v6-tcp,v6-v4-udp",
        "--services tcp=v4-v6-tcp,other=v6-v4-udp --chain tcp=other",
    ] {
        let costs = "--costs table:everest --load 0.3";
        let words = format!("sim --input gen:poisson:packets=20000 --policy rr --cores 4 {costs} {services}");
        let result = document(Path::new("."), &words);
        let cores = result["cores_detail"].as_array().expect("a list");
        let busy: f64 = cores.iter().map(|core| core["utilization"].as_f64().expect("a part")).sum();
        assert!((busy / 4.0 - 0.3).abs() < 0.01, "{words}: {busy}");
    }
}

#[test]
fn a_virtual_clock_can_be_told_more() {
    let directory = directory();
    let words = "run --input gen:poisson:packets=100000 --policy drr --clock virtual --rate 1k";
    let result = document(directory.path(), &format!("{words} --for 2s --in-flight 4"));
    assert_eq!((number(&result, "/packets/processed"), &result["options"]["in-flight"]), (2000, &"4".into()));
    let said = good(directory.path(), &format!("{words} --for 2s --workers 1")).out;
    assert!(said.contains("drr (live by a virtual clock, 1 workers)"), "{said}");
    let words = format!("compare --live --clock virtual --input {KEPT} --policy rr --policy drr --load 0.5");
    let comparison = document(directory.path(), &words);
    let alone = document(directory.path(), &format!("sim --input {KEPT} --policy drr --load 0.5"));
    assert_eq!(figures(&comparison["runs"][1]), figures(&alone));
}

#[test]
fn a_comparison_is_its_simulations_side_by_side() {
    let options = "--input gen:messages:packets=20000 --cores 4 --load 0.8 --weights 5,4,3 --seed 9";
    let policies = ["rr", "conn", "hrw", "fcfs", "drr", "sfq", "static", "steer=hrw/share=drr"];
    let words: String = policies.iter().map(|policy| format!(" --policy {policy}")).collect();
    let comparison = document(Path::new("."), &format!("compare {options} {words}"));
    let runs = comparison["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), policies.len());
    for (run, policy) in runs.iter().zip(policies) {
        assert_balanced(run);
        assert_eq!((&run["packets"]["in"], &run["bytes"]), (&runs[0]["packets"]["in"], &runs[0]["bytes"]), "{policy}");
        let alone = document(Path::new("."), &format!("sim {options} --policy {policy}"));
        assert_eq!(stable(run.clone()), stable(alone), "{policy}");
    }
    let table = good(Path::new("."), &format!("compare {options} {words}")).out;
    assert!(policies.iter().all(|policy| table.contains(policy)), "{table}");
}

fn utilization(result: &Value) -> f64 {
    let cores = result["cores_detail"].as_array().expect("cores");
    cores.iter().map(|core| core["utilization"].as_f64().expect("a number")).sum::<f64>() / cores.len() as f64
}

fn assert_load(words: &str, load: f64) {
    let result = document(Path::new("."), &format!("sim {words} --load {load}"));
    assert!((utilization(&result) / load - 1.0).abs() < 0.01, "{words} at {load}: {}", utilization(&result));
}

#[test]
fn a_load_is_the_utilization_of_the_cores() {
    for input in ["gen:poisson:packets=50000", "gen:messages:packets=50000,pps=1000"] {
        for (policy, cores) in [("fcfs", 1), ("drr", 4), ("rr", 8)] {
            for costs in ["table:measured", "table:everest"] {
                for load in [0.2, 0.7, 0.9] {
                    // Free, for one flow may be more than one core can do.
                    let words = format!("--input {input} --policy {policy} --cores {cores} --costs {costs}");
                    assert_load(&format!("{words} --flow-order free --buffer 60000"), load);
                }
            }
        }
    }
    assert_load("--input gen:poisson:packets=10000 --loop 3 --policy fcfs --cores 2", 0.5);
}

#[test]
fn a_load_of_a_real_capture_is_the_utilization_of_the_cores() {
    let Some(traces) = captures("a_load_of_a_real_capture_is_the_utilization_of_the_cores") else { return };
    let capture = traces.join("industrial/right.pcap");
    // Low, for it ends with a burst, and the cores are busy for a while when the last packet has come.
    for load in [0.01, 0.05] {
        assert_load(&format!("--input {} --policy hrw --cores 2 --buffer 40000", capture.display()), load);
    }
}

#[test]
fn an_overload_drops_what_it_must() {
    let result = document(Path::new("."), "sim --input gen:poisson:packets=50000 --policy fcfs --load 2 --buffer 100");
    assert_balanced(&result);
    assert!((real(&result, "/packets/dropped/buffer_full") / 25_000.0 - 1.0).abs() < 0.02);
    assert!(utilization(&result) > 0.99);
}

/// Most packets are dropped: each counts as late once, in the document and in the table.
#[test]
fn what_is_dropped_is_late() {
    let words = "sim --input gen:poisson:packets=50000,pps=200M --policy fcfs --buffer 100";
    let result = document(Path::new("."), words);
    let dropped = sum(&result, "/packets/dropped");
    assert!(dropped > 25_000, "{result:#}");
    assert_eq!((number(&result, "/late/lost"), number(&result, "/late/packets")), (dropped, 50_000));
    assert_eq!((number(&result, "/late/count"), real(&result, "/late/fraction")), (dropped, dropped as f64 / 5e4));
    assert_eq!(result["services"][0]["late"], result["late"]);
    assert_eq!(result["delay_offered_ns"]["p50"], Value::Null);
    assert!(number(&result, "/delay_ns/p999") < 1_000_000, "{result:#}");
    let all_late = document(Path::new("."), &format!("{words} --tolerance 0ns"));
    assert_eq!((number(&all_late, "/late/count"), number(&all_late, "/late/lost")), (50_000, dropped));
    let said = good(Path::new("."), &format!("{words} --quiet")).out;
    for words in
        ["of all offered: p50 lost, p90 lost", &format!("{dropped} of 50000 ("), &format!("), {dropped} of them lost")]
    {
        assert!(said.contains(words), "`{words}` is not in\n{said}");
    }
    let compared = "compare --input gen:poisson:packets=5000,pps=200M --policy fcfs --policy drr --buffer 100 --quiet";
    for more in ["", " --repeat 2"] {
        let said = good(Path::new("."), &format!("{compared}{more}")).out;
        assert!(said.contains("p99 of all") && said.contains(" lost "), "{said}");
    }
    let said =
        good(Path::new("."), "compare --input gen:poisson:packets=50 --policy fcfs --policy drr --load 0.1 --quiet")
            .out;
    assert!(!said.contains("p99 of all"), "{said}");
}

/// A drop within the warm-up is in the counts, and not measured.
#[test]
fn what_is_dropped_in_the_warm_up_is_not_late() {
    let result = |warm_up: &str| {
        let words = "sim --input gen:poisson:packets=50000,pps=200M --policy fcfs --buffer 100 --warmup";
        document(Path::new("."), &format!("{words} {warm_up}"))
    };
    let (some, none) = (result("125us"), result("1s"));
    assert_eq!(sum(&some, "/packets/dropped"), sum(&none, "/packets/dropped"));
    let (lost, dropped) = (number(&some, "/late/lost"), sum(&some, "/packets/dropped"));
    assert!(lost > dropped / 4 && lost < 3 * dropped / 4, "{some:#}");
    assert_eq!(number(&some, "/services/0/late/lost"), lost);
    assert_eq!((number(&none, "/late/count"), number(&none, "/late/packets")), (0, 0));
}

/// A packet that is dropped at the second service of its chain is lost there, and once in all.
#[test]
fn what_is_dropped_at_a_hop_is_lost_there() {
    let words = "sim --input gen:messages:packets=20000 --policy static --cores 2 --services tcp=forward,other=encrypt \
                 --rule service=tcp --chain tcp=other --queue-limit 8 --rate 10M";
    let result = document(Path::new("."), words);
    assert_balanced(&result);
    let [first, second] = [0, 1].map(|at| number(&result, &format!("/services/{at}/late/lost")));
    assert!(second > 1000, "{result:#}");
    let dropped = sum(&result, "/packets/dropped");
    assert_eq!((first + second, number(&result, "/late/lost")), (dropped, dropped));
    assert_eq!(number(&result, "/late/packets"), 20_000);
}

#[test]
fn tolerances_and_clients_count() {
    let late = |tolerance| {
        let words = format!("sim --input gen:poisson:packets=10000 --policy fcfs --load 0.9 --tolerance {tolerance}");
        number(&document(Path::new("."), &words), "/late/count")
    };
    assert_eq!((late("0ns"), late("1s")), (10_000, 0));
    assert!(late("200ns") > late("400ns") && late("400ns") > 0);
    let clients = |kind| {
        let words = format!("sim --input gen:messages:packets=10000 --policy drr --clients {kind}");
        number(&document(Path::new("."), &words), "/fairness/clients")
    };
    let (flows, connections, services) = (clients("flow"), clients("connection"), clients("service"));
    assert!(flows > connections && connections > 100 && services == 1, "{flows} {connections} {services}");
}

#[test]
fn rates_that_last_for_ages_are_simulated() {
    for rate in ["--rate 0.001", "--load 0.000001", "--rate 1e12", "--load 1000"] {
        let words = format!("sim --input gen:poisson:packets=100 --policy drr {rate}");
        assert_eq!(number(&document(Path::new("."), &words), "/packets/processed"), 100, "{rate}");
    }
}

/// Options that did nothing are named after the run, on the standard error.
#[test]
fn options_that_came_to_nothing_are_told() {
    let told = |words: &str| {
        let words = format!("sim --input gen:poisson:packets=10 --policy drr {words}");
        let said = run(Path::new("."), &words.split(' ').collect::<Vec<_>>());
        assert!(said.code == Some(0) && said.err.lines().count() <= 1, "{words}: {said:?}");
        said.err
    };
    assert_eq!(told("--swap 1us=sfq --warmup 1us"), "");
    assert!(told("--swap 100s=sfq").contains("`sfq` does not take over: the run ends before 100 s"));
    assert!(told("--warmup 100s").contains("--warmup leaves no packet for the figures"));
    assert_eq!(told("--warmup 100s --json"), "");
}

/// A simulation of a host names its dispatcher as the bottleneck, as a live run does, and says why nothing is timed.
#[test]
fn the_dispatcher_of_an_assumed_host_is_named_as_the_bottleneck() {
    let sim =
        |words: &str| good(Path::new("."), &format!("sim --input gen:poisson:packets=20k --policy hrw {words}")).out;
    let full = sim("--cores 4 --host server-16 --load 2");
    assert!(full.starts_with("the dispatcher is the bottleneck: busy 100.0 % of the time, its cores "), "{full}");
    let remedy = "fewer packets (--load, --multiplier), have --dispatchers 2 (0 for hrw or conn), or run to \
                  completion (--cores 0; live: run --workers 0)";
    assert!(full.contains(&format!("offer {remedy}\npolicy ")) && full.contains(&format!("Offer {remedy}.")), "{full}");
    assert!(!full.contains("The cores are overloaded"), "{full}");
    assert!(full.contains("not timed: on an assumed host decisions take the times of --host"), "{full}");
    let both = sim("--cores 4 --host server-16 --load 2 --dispatchers 2");
    assert!(both.starts_with("the reader is the bottleneck") && both.contains("--dispatchers 0"), "{both}");
    let both = sim("--cores 4 --host server-16 --rate 5M --dispatchers 2");
    assert!(both.starts_with("the busiest dispatcher is the bottleneck") && both.contains("--dispatchers 3"), "{both}");
    let alone = sim("--cores 0 --host server-16 --load 1.5");
    assert!(alone.starts_with("the dispatcher is the bottleneck") && !alone.contains("--cores 0"), "{alone}");
    let calm = sim("--cores 4 --host server-16 --rate 100k");
    assert!(calm.starts_with("policy ") && !calm.contains("bottleneck"), "{calm}");
    assert!(sim("--cores 4").contains("in real time\n"));
}

/// A capture without packets is named in one line.
#[test]
fn an_input_without_packets_is_told_in_one_line() {
    let directory = directory();
    let header = [0xa1b2_c3d4, 0x0002_0004, 0, 0, 65_535, 1u32];
    fs::write(directory.path().join("none.pcap"), header.map(u32::to_be_bytes).concat()).expect("a file");
    let said = |words: &str| good(directory.path(), words).out;
    let nothing = "none.pcap holds no packet: there is nothing to measure.\n";
    for words in ["sim --policy hrw", "run --policy hrw --workers 0", "compare --policy hrw --policy drr"] {
        assert_eq!(said(&format!("{words} --input none.pcap")), nothing, "{words}");
    }
    assert_eq!(said("trace info none.pcap"), "none.pcap holds no packet.\n");
    let result = document(directory.path(), "sim --policy hrw --input none.pcap");
    assert_eq!(number(&result, "/packets/in"), 0);
}

/// All packets are there at the start, so that services go one after the other: no core is cold but for the first of a service,
/// and all is done long before the last packet would have come.
#[test]
fn who_knows_all_packets_beforehand_has_them_at_the_start() {
    let of = |policy: &str| {
        let words =
            "--services udp=encrypt,other=forward --costs table:predictive --cores 2 --rate 1000 --flow-order free";
        document(
            Path::new("."),
            &format!("sim --policy {policy} --input gen:poisson:packets=2000,mix=services {words}"),
        )
    };
    let (best, in_order) = (of("t-opt"), of("fcfs"));
    assert!(number(&in_order, "/duration_ns") > 10 * number(&best, "/duration_ns"));
    assert!(real(&best, "/cold_fraction") <= 4.0 / 2000.0, "{best}");
    assert!(real(&in_order, "/cold_fraction") > 0.05, "{in_order}");
}

/// A switch may cost another time for each service, and who is late by it is told; parameters take units, as options do.
#[test]
fn options_of_services_take_commas() {
    let directory = directory();
    let services = "--services tcp=forward,other=forward --guarantee tcp=0.6,other=0.2 --chain tcp=other,other=tcp";
    let words = format!("sim --policy static --input gen:messages:packets=100 {services}");
    let result = document(directory.path(), &words);
    let options = &result["options"];
    assert_eq!(
        (&options["guarantee"], &options["chain"]),
        (&"tcp=0.6,other=0.2".into(), &"tcp=other,other=tcp".into())
    );
}

#[test]
fn switch_costs_are_of_services() {
    let words = "sim --input gen:messages:packets=3000 --cores 3 --services tcp=forward,other=forward";
    let switch_cost = |words: &str| document(Path::new("."), words)["options"]["switch-cost"].clone();
    assert_eq!(switch_cost(&format!("{words} --policy everest --switch-cost 3ms")), "3ms");
    let each = format!("{words} --policy everest --switch-cost other=1us,3ms --tolerance tcp=4ms,2ms --buffer 60000");
    assert_eq!(switch_cost(&each), "tcp=3ms,other=1us");
    let told = |words: &str| run(Path::new("."), &words.split(' ').collect::<Vec<_>>()).err;
    assert_eq!(told(&each), "");
    let late = told(&format!("{words} --policy quantum:quantum=10ms --switch-cost other=3ms"));
    assert!(late.lines().count() == 1 && late.contains("service `other`: its tolerance of 2ms is less"), "{late}");
}
