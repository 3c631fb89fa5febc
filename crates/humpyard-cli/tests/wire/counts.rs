//! Packets are counted equal wherever they are counted.

use std::thread;
use std::time::{Duration, Instant};

use humpyard_testkit::network::{Line, turn};

use crate::data_plane::{DataPlane, frames, number, run};

const PACKETS: u64 = 20_000;

#[test]
fn generator_data_plane_and_receiver_count_the_same() {
    let Some(_turn) = turn() else { return };
    let line = Line::make();
    line.left.silence();
    line.right.silence();
    let receiver =
        DataPlane::start(&line.right, "--input iface:vb:ring=67108864 --policy fcfs --workers 0 --overload wait");
    let plane = DataPlane::start(
        &line.middle,
        "--input iface:ma:ring=67108864 --output iface:mb --policy hrw --workers 2 --overload wait",
    );
    let sent = run(
        &line.left,
        &format!(
            "--input gen:imix:packets={PACKETS},pps=20k,lengths=64*7/576*4/1514*1 --rate trace --overload wait --output iface:va --services pass --policy fcfs"
        ),
    );
    assert_eq!(frames(&sent, "iface:va"), (0, PACKETS));
    // What is under way arrives.
    thread::sleep(Duration::from_millis(300));
    let (passed, received) = (plane.end(), receiver.end());
    assert_eq!((frames(&passed, "iface:ma").0, frames(&passed, "iface:mb").1), (PACKETS, PACKETS));
    assert_eq!(frames(&received, "iface:vb").0, PACKETS);
    assert_eq!(number(&received, "bytes"), number(&sent, "bytes"));
}

#[test]
fn a_run_that_is_ended_at_full_rate_loses_nothing_it_took() {
    let Some(_turn) = turn() else { return };
    for options in [
        "--policy drr --workers 2 --dispatchers 1",
        "--policy drr --workers 2 --dispatchers 2",
        "--policy hrw --workers 3 --dispatchers 0",
    ] {
        let line = Line::make();
        line.left.silence();
        let plane = DataPlane::start(&line.middle, &format!("--input iface:ma --output iface:mb {options}"));
        assert_nothing_is_lost(&line, plane);
    }
}

/// Ends it at full rate.
fn assert_nothing_is_lost(line: &Line, plane: DataPlane) {
    let flood = DataPlane::start(
        &line.left,
        "--input gen:poisson:packets=1G,flows=256 --output iface:va --services pass --policy fcfs --workers 0 --rate line",
    );
    let started = Instant::now();
    while line.middle.received("ma") < 100_000 {
        assert!(started.elapsed() < Duration::from_secs(60), "no flood");
        thread::sleep(Duration::from_millis(20));
    }
    let passed = plane.end();
    flood.end();
    let packets = &passed["packets"];
    assert!(number(packets, "in") > 10_000, "{packets}");
    assert_eq!((number(packets, "held"), number(packets, "held_out")), (0, 0), "{packets}");
}

#[test]
fn frames_that_are_too_long_are_dropped_by_that_name() {
    let Some(_turn) = turn() else { return };
    let line = Line::make();
    let words = "--input gen:imix:packets=1200 --output iface:ma --services encrypt --policy fcfs --workers 0";
    let packets = run(&line.middle, words)["packets"].clone();
    let too_long = number(&packets["dropped_out"], "output_too_long");
    assert!(too_long > 0, "{packets}");
    assert_eq!(number(&packets, "forwarded") + too_long, 1200, "{packets}");
}
