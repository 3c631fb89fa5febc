//! `--timeline`: what the file says is what the document says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use humpyard::lab::timeline::format::{EventType, Trace, TrackEvent};
use prost::Message;
use serde_json::Value;

use crate::support::{assert_balanced, directory, document, files, number, run, sum};

/// Something that took a core a while.
#[derive(Debug)]
struct Slice {
    name: String,
    began: u64,
    ended: u64,
    /// What is known of it: numbers, and 0 or 1.
    about: BTreeMap<String, u64>,
}

/// A timeline, read.
#[derive(Debug, Default)]
struct Timeline {
    /// By the name of their track, in the order of the file.
    slices: BTreeMap<String, Vec<Slice>>,
    counters: BTreeMap<String, Vec<i64>>,
    instants: BTreeMap<String, Vec<(u64, String)>>,
}

impl Timeline {
    fn read(path: &Path) -> Self {
        let trace = Trace::decode(&fs::read(path).expect("the timeline was written")[..]).expect("it is a trace");
        let (mut tracks, mut timeline) = (BTreeMap::new(), Self::default());
        let mut open: BTreeMap<String, (u64, TrackEvent)> = BTreeMap::new();
        for packet in trace.packet {
            assert_eq!(packet.trusted_packet_sequence_id, Some(1));
            if let Some(track) = packet.track_descriptor {
                assert!(tracks.insert(track.uuid, track.name.expect("a name")).is_none(), "one descriptor a track");
                continue;
            }
            let (at, event) = (packet.timestamp.expect("a time"), packet.track_event.expect("an event"));
            let track = tracks.get(&event.track_uuid).expect("a track that was named before").clone();
            match event.r#type() {
                EventType::SliceBegin => assert!(open.insert(track, (at, event)).is_none(), "slices do not nest"),
                EventType::SliceEnd => {
                    let (began, event) = open.remove(&track).expect("it began");
                    timeline.slices.entry(track).or_default().push(slice(began, at, event));
                }
                EventType::Counter => {
                    timeline.counters.entry(track).or_default().push(event.counter_value.expect("a value"));
                }
                EventType::Instant => {
                    timeline.instants.entry(track).or_default().push((at, event.name.expect("a name")));
                }
                EventType::Unspecified => panic!("{event:?}"),
            }
        }
        assert!(open.is_empty(), "{open:?}");
        timeline
    }

    fn on_core(&self, core: usize) -> &[Slice] {
        self.slices.get(&format!("core {core}")).map_or(&[], Vec::as_slice)
    }

    fn instants(&self, track: &str) -> Vec<&str> {
        self.instants.get(track).into_iter().flatten().map(|(_, name)| name.as_str()).collect()
    }

    /// What is on a core does not overlap, and is as much as the document says.
    fn assert_is_of(&self, result: &Value) {
        let duration = number(result, "/duration_ns") as f64;
        for (core, detail) in result["cores_detail"].as_array().expect("cores").iter().enumerate() {
            let slices = self.on_core(core);
            for pair in slices.windows(2) {
                assert!(pair[0].ended <= pair[1].began, "core {core}: {pair:?}");
            }
            let (switches, packets): (Vec<&Slice>, Vec<&Slice>) =
                slices.iter().partition(|slice| slice.name.starts_with("switch to "));
            assert_eq!(packets.len() as u64, number(detail, "/packets"), "core {core}");
            assert_eq!(switches.len() as u64, number(detail, "/switches"), "core {core}");
            let cold = packets.iter().filter(|slice| slice.about["cold"] == 1).count();
            assert_eq!(cold as u64, number(detail, "/cold"), "core {core}");
            let busy: u64 = packets.iter().map(|slice| slice.ended - slice.began).sum();
            let expected = detail["utilization"].as_f64().expect("a number") * duration;
            assert!((busy as f64 - expected).abs() < 1.0, "core {core}: {busy} ns, not {expected}");
        }
        for service in result["services"].as_array().expect("services") {
            let name = service["name"].as_str().expect("a name");
            let served = self.slices.values().flatten().filter(|slice| slice.name == name);
            let (count, bytes) =
                served.fold((0, 0), |(count, bytes), slice| (count + 1, bytes + slice.about["length"]));
            assert_eq!((count, bytes), (number(service, "/packets"), number(service, "/bytes")), "{name}");
            let waiting = self.counters.get(&format!("waiting: {name}")).map_or(&[][..], Vec::as_slice);
            assert_eq!(waiting.iter().max().copied().unwrap_or(0) as u64, number(service, "/queue_max"), "{name}");
            assert!(waiting.last().is_none_or(|&last| last == 0) && waiting.iter().all(|&waiting| waiting >= 0));
        }
        assert_eq!(self.instants("drops").len() as u64, sum(result, "/packets/dropped"));
    }
}

fn slice(began: u64, ended: u64, event: TrackEvent) -> Slice {
    assert!(began <= ended);
    let value = |annotation: humpyard::lab::timeline::format::DebugAnnotation| {
        let name = annotation.name.expect("a name");
        let value = annotation.uint_value.or(annotation.bool_value.map(u64::from));
        if value.is_none() {
            assert!(name == "flow" && annotation.string_value.expect("a text").contains(" > "), "{name}");
        }
        Some((name, value?))
    };
    Slice {
        name: event.name.expect("a name"),
        began,
        ended,
        about: event.debug_annotations.into_iter().filter_map(value).collect(),
    }
}

/// Everything that a timeline shows: drops, pushed-out packets, switches, chains, contexts, policies that take over.
const FEATURES: [&str; 5] = [
    "--policy hrw --load 0.9",
    "--policy everest --services tcp=forward,other=forward --costs table:everest --load 0.7 --switch-cost 5us --tolerance 100us",
    "--policy drr --load 1.5 --buffer 30 --when-full longest-queue --swap 1ms=sfq --swap 2ms=wf2q+",
    "--policy fcfs --services tcp=forward,other=forward --chain tcp=other --load 0.7 --flow-order exit:time=5us",
    "--policy hrw --contexts 2 --stall 20ns --speeds 1,0.5 --load 0.8",
];

#[test]
fn a_timeline_is_what_the_document_says() {
    let directory = directory();
    let path = directory.path().join("t.perfetto-trace");
    for features in FEATURES {
        let words = format!("--input gen:messages:packets=5000 {features} --timeline t.perfetto-trace");
        let simulated = document(directory.path(), &format!("sim {words} --cores 4"));
        let timeline = Timeline::read(&path);
        timeline.assert_is_of(&simulated);
        let written = fs::read(&path).expect("it is there");
        document(directory.path(), &format!("sim {words} --cores 4"));
        assert!(fs::read(&path).expect("it is there") == written, "{features}: not the same again");
        let live = document(directory.path(), &format!("run {words} --workers 4 --clock virtual"));
        assert_balanced(&live);
        Timeline::read(&path).assert_is_of(&live);
        if features.contains("--chain") {
            // Some packets end at their first service, which a simulation does not know.
            continue;
        }
        assert!(fs::read(&path).expect("it is there") == written, "{features}: not the same by a virtual clock");
    }
    assert_eq!(files(directory.path()), ["t.perfetto-trace"]);
}

#[test]
fn features_show() {
    let directory = directory();
    let timeline = |features: &str| {
        let words = format!("sim --input gen:messages:packets=5000 {features} --cores 4 --timeline t.perfetto-trace");
        document(directory.path(), &words);
        Timeline::read(&directory.path().join("t.perfetto-trace"))
    };
    let switching = timeline(FEATURES[1]);
    assert!(switching.slices.values().flatten().any(|slice| slice.name == "switch to tcp"));
    let swapped = timeline(&FEATURES[2].replace("1ms", "20us").replace("2ms", "40us"));
    assert_eq!(swapped.instants("policies"), ["policy drr", "policy sfq", "policy wf2q+"]);
    assert_eq!(swapped.instants["policies"][1].0, 20_000);
    assert!(swapped.instants("drops").contains(&"pushed_out"));
}

#[test]
fn real_threads_have_a_timeline() {
    let directory = directory();
    for policy in ["hrw", "drr", "everest"] {
        let words = format!(
            "run --input gen:messages:packets=5000 --services tcp=forward,other=forward --policy {policy} --rate 500k \
             --workers 2 --timeline t.perfetto-trace"
        );
        let result = document(directory.path(), &words);
        Timeline::read(&directory.path().join("t.perfetto-trace")).assert_is_of(&result);
    }
}

#[test]
fn a_timeline_ends_at_its_limits() {
    let directory = directory();
    let path = directory.path().join("t.perfetto-trace");
    let words = "sim --input gen:messages:packets=5000 --policy drr --cores 2 --load 0.8 --timeline t.perfetto-trace";
    for (limit, expected) in [("--timeline-packets 100", 100), ("--timeline-for 10us", 0)] {
        let arguments: Vec<&str> = words.split(' ').chain(limit.split(' ')).collect();
        let said = run(directory.path(), &arguments);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.assert_one_line(&["the timeline ends before the run"]);
        let timeline = Timeline::read(&path);
        let served: Vec<&Slice> = timeline.slices.values().flatten().collect();
        let (option, _) = limit.split_once(' ').expect("an option and its value");
        assert_eq!(
            timeline.instants("policies"),
            ["policy drr".to_owned(), format!("the timeline ends here: {option}")]
        );
        if expected > 0 {
            assert_eq!(served.len(), expected);
        } else {
            assert!(!served.is_empty() && served.iter().all(|slice| slice.ended <= 10_000));
        }
    }
    let whole = document(directory.path(), &format!("{words} --timeline-packets 5000"));
    assert_eq!(number(&whole, "/packets/processed"), 5000);
}

#[test]
fn timelines_that_cannot_be_are_refused() {
    let directory = directory();
    for (words, expected) in [
        (
            "sim --input gen:poisson:packets=9 --policy drr --timeline nowhere/t",
            "cannot write the timeline `nowhere/t`",
        ),
        ("sim --input gen:poisson:packets=9 --policy drr --timeline -", "--timeline takes the name of a file"),
        ("sim --input gen:poisson:packets=9 --policy drr --timeline-packets 5", "--timeline"),
        ("run --input gen:poisson:packets=9 --policy drr --timeline t --timeline-for 5", "a time has a unit"),
        ("run --input missing.pcap --policy drr --timeline t", "there is no such file"),
    ] {
        let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
        assert!(said.code == Some(2) && said.out.is_empty(), "{words}: {said:?}");
        said.assert_one_line(&[expected]);
        assert!(files(directory.path()).is_empty(), "{words}");
    }
}

/// A packet that was given back has a slice for each of its turns, and waits in between.
#[test]
fn every_turn_of_a_packet_is_a_slice() {
    let directory = directory();
    let at = directory.path();
    let sim = "sim --input gen:poisson:packets=2000,pps=1000000 --cores 1 \
               --policy shinjuku:quantum=20,idle=yield --switch-out 5ns";
    let result = document(at, &format!("{sim} --timeline t.pftrace"));
    let timeline = Timeline::read(&at.join("t.pftrace"));
    let slices: u64 = timeline.slices.values().map(|slices| slices.len() as u64).sum();
    assert!(number(&result, "/preemptions") > 1_000, "{result:#}");
    assert_eq!(slices, number(&result, "/packets/processed") + number(&result, "/preemptions"));
}
