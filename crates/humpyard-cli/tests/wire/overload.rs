//! More than the workers can do: memory stays bounded, drops have names, and services keep the share that their weight says.

use std::fs;
use std::thread;
use std::time::Duration;

use humpyard_testkit::network::{Line, turn};
use serde_json::Value;

use crate::data_plane::{DataPlane, number};

/// The most memory that a process has had, in bytes.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the system counts memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// Packets that a service has served.
fn served(document: &Value, service: &str) -> u64 {
    let services = document["services"].as_array().expect("services");
    let service = services.iter().find(|counted| counted["name"] == service).expect("it is one of the run's");
    number(service, "packets")
}

#[test]
fn services_keep_their_shares_under_overload() {
    let Some(_turn) = turn() else { return };
    let line = Line::make();
    line.left.silence();
    let plane = DataPlane::start(
        &line.middle,
        "--input iface:ma --output null: --policy drr --workers 1 --clients service --weights 3,1 --unit packets \
         --when-full longest-queue --buffer 2048 --services ipv4=encrypt:cipher=cast-128,other=encrypt:cipher=cast-128",
    );
    let flood = DataPlane::start(
        &line.left,
        "--input gen:imix:packets=1G,ipv6=0.5,lengths=1400*1 --output iface:va --services pass --policy fcfs --workers 0 --rate line",
    );
    thread::sleep(Duration::from_secs(3));
    let memory = peak(plane.id());
    let document = plane.end();
    flood.end();
    let packets = &document["packets"];
    let missed = number(&document["ports"]["received"][0], "missed");
    let reasons = packets["dropped"].as_object().expect("reasons");
    let dropped: u64 = reasons.values().filter_map(Value::as_u64).sum();
    assert!(dropped > number(packets, "processed") / 2, "no overload: {packets}");
    assert_eq!(reasons.get("port_missed").and_then(Value::as_u64).unwrap_or(0), missed, "{packets}");
    // What was still in the ring when the run was ended came in, and is not late.
    let left = number(&document["ports"]["received"][0], "left");
    let late = &document["late"];
    assert_eq!(number(late, "lost"), dropped - left, "{late} {packets}");
    assert_eq!(number(late, "packets"), number(packets, "in") - left, "{late} {packets}");
    assert!(memory < 256 << 20, "{memory} bytes");
    let (heavy, light) = (served(&document, "ipv4"), served(&document, "other"));
    assert!((2.4..3.6).contains(&(heavy as f64 / light as f64)), "{heavy} to {light} is not 3 to 1");
}

/// A packet that is read and dropped would take the time of one that is forwarded.
#[test]
fn what_there_is_no_room_for_is_left_to_the_kernel() {
    let Some(_turn) = turn() else { return };
    for options in ["--policy drr --workers 0", "--policy hrw --workers 2 --dispatchers 1", "--policy hrw --workers 2"]
    {
        let line = Line::make();
        line.left.silence();
        let service = "--services encrypt:cipher=cast-128 --buffer 512";
        let plane = DataPlane::start(&line.middle, &format!("--input iface:ma --output null: {service} {options}"));
        let flood = DataPlane::start(
            &line.left,
            "--input gen:imix:packets=1G,lengths=1000*1 --output iface:va --services pass --policy fcfs --workers 0 --rate line",
        );
        thread::sleep(Duration::from_secs(1));
        let document = plane.end();
        flood.end();
        let packets = &document["packets"];
        let reasons = packets["dropped"].as_object().expect("reasons");
        assert!(number(&packets["dropped"], "port_missed") > number(packets, "processed") / 2, "{options}: {packets}");
        assert_eq!(reasons.get("buffer_full"), None, "{options}: {packets}");
    }
}
