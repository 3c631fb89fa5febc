//! Measures how well `l7-filter` recognizes the protocols of real captures: recall per protocol, wrong marks,
//! and confusions.
//!
//! For each file, the set of captures gives the number of flows per label, but not the label of each flow. So
//! marks and labels are paired within a file; a file with a single label is certain. First, marks are paired
//! with labels of the same protocol. Then, marks are paired with labels of sites that the protocol may carry,
//! then the rest. A mark beyond the flows of a file's labels is false.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::Path;

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_services::l7_filter::signatures;
use humpyard_services::{Context, Generated, Service, prepare};
use humpyard_traffic::{CaptureReader, Classifier, ClassifierConfig, Source};

/// The protocol that a label stands for.
#[derive(Clone, Debug)]
enum Meaning {
    Is(String),
    May(BTreeSet<String>),
    Anything,
    NoSignature,
}

/// The results for the flows of one protocol.
#[derive(Clone, Default, Debug)]
pub(crate) struct Row {
    /// Flows with the label of this protocol and a payload.
    pub(crate) flows: u64,
    /// Flows marked as this protocol.
    pub(crate) right: u64,
    /// Flows marked as another protocol, by mark.
    pub(crate) taken_for: BTreeMap<String, u64>,
    /// Marks of this protocol on flows of other labels, by label.
    pub(crate) wrong: BTreeMap<String, u64>,
}

/// The result over all captures.
#[derive(Clone, Default, Debug)]
pub(crate) struct Accuracy {
    /// The results by protocol.
    pub(crate) rows: BTreeMap<String, Row>,
    /// Flows that were marked.
    pub(crate) marks: u64,
    /// Marks that fit no label of their capture.
    pub(crate) wrong: u64,
    /// Marks on flows whose label is unknown.
    pub(crate) neutral: u64,
    /// Labelled flows without captured payload.
    pub(crate) empty: u64,
    /// Captures read.
    pub(crate) files: usize,
}

impl Accuracy {
    /// Returns the part of the flows labelled with a protocol that was marked as that protocol.
    pub(crate) fn recall(&self) -> f64 {
        let (right, flows) =
            self.rows.values().fold((0, 0), |(right, flows), row| (right + row.right, flows + row.flows));
        right as f64 / flows as f64
    }

    /// Returns the mean recall over all protocols that have labelled flows.
    pub(crate) fn mean_recall(&self) -> f64 {
        let recalls = self.rows.values().filter(|row| row.flows > 0).map(|row| row.right as f64 / row.flows as f64);
        let (sum, count) = recalls.fold((0.0, 0), |(sum, count), recall| (sum + recall, count + 1));
        sum / f64::from(count)
    }

    /// Returns the part of the marks that is wrong.
    pub(crate) fn false_marks(&self) -> f64 {
        self.wrong as f64 / self.marks as f64
    }

    /// Returns the confusion table, in Markdown.
    pub(crate) fn table(&self) -> String {
        let list = |counts: &BTreeMap<String, u64>| {
            let items: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            if items.is_empty() { "–".to_owned() } else { items.join(", ") }
        };
        let mut text = String::from(
            "| protocol | labelled flows | marked so | recall | marked otherwise, or not | false marks, by label |\n|---|---|---|---|---|---|\n",
        );
        for (name, row) in &self.rows {
            let recall = if row.flows == 0 {
                "–".into()
            } else {
                format!("{:.0} %", 100.0 * row.right as f64 / row.flows as f64)
            };
            let Row { flows, right, taken_for, wrong } = row;
            let _ = writeln!(text, "| {name} | {flows} | {right} | {recall} | {} | {} |", list(taken_for), list(wrong));
        }
        text
    }
}

/// Reads all captures of the set in this directory of traces.
pub(crate) fn accuracy(traces: &Path) -> Accuracy {
    let meanings = meanings(include_str!("labels.txt"));
    let mut result = Accuracy::default();
    for (file, labels) in labels(&traces.join("protocols.csv")) {
        let found = verdicts(&traces.join("protocols").join(&file));
        result.files += 1;
        result.add(&labels, &found, &meanings);
        if std::env::var_os("L7_FILES").is_some() {
            explain(&file, &labels, &found);
        }
    }
    result
}

/// Prints the labels of a capture and the marks found, for corrections of the table.
#[expect(clippy::print_stderr, reason = "it was asked for")]
fn explain(file: &str, labels: &BTreeMap<String, u64>, found: &Found) {
    eprintln!("{file}: {labels:?} found {:?} unknown {} empty {}", found.marks, found.unknown, found.empty);
}

/// The results for one capture, in connections.
struct Found {
    marks: BTreeMap<String, u64>,
    unknown: u64,
    /// Connections without payload.
    empty: u64,
}

impl Accuracy {
    fn add(&mut self, labels: &BTreeMap<String, u64>, found: &Found, meanings: &HashMap<String, Meaning>) {
        let mut left = found.marks.clone();
        let all_marks = left.values().sum::<u64>();
        self.marks += all_marks;
        let mut take = |protocol: &str, most: u64| {
            let there = left.entry(protocol.to_owned()).or_default();
            let taken = most.min(*there);
            *there -= taken;
            taken
        };
        // If a file has a single label, all its marked flows have it, even more than were counted: here
        // fragments count as flows, for example.
        let alone = |flows: u64| if labels.len() == 1 { flows.max(all_marks) } else { flows };
        let meaning = |label: &str| meanings.get(label).unwrap_or_else(|| panic!("no meaning of the label {label}"));
        let mut missed: Vec<(String, u64)> = Vec::new();
        for (label, &flows) in labels {
            if let Meaning::Is(protocol) = meaning(label) {
                let right = take(protocol, alone(flows));
                let flows = flows.max(right);
                let row = self.rows.entry(protocol.clone()).or_default();
                (row.flows, row.right) = (row.flows + flows, row.right + right);
                missed.push((protocol.clone(), flows - right));
            }
        }
        for (label, &flows) in labels {
            if let Meaning::May(protocols) = meaning(label) {
                let mut most = alone(flows);
                for protocol in protocols {
                    most -= take(protocol, most);
                }
            }
        }
        for (label, &flows) in labels {
            if let Meaning::Anything = meaning(label) {
                let mut most = flows;
                for protocol in found.marks.keys() {
                    let taken = take(protocol, most);
                    most -= taken;
                    self.neutral += taken;
                }
            }
        }
        let all: Vec<&str> = labels.keys().map(String::as_str).collect();
        for (protocol, count) in left.into_iter().filter(|&(_, count)| count > 0) {
            self.wrong += count;
            *self.rows.entry(protocol.clone()).or_default().wrong.entry(all.join("+")).or_default() += count;
            let mut count = count;
            for (own, missed) in missed.iter_mut().filter(|(_, missed)| *missed > 0) {
                let taken = count.min(*missed);
                (count, *missed) = (count - taken, *missed - taken);
                let row = self.rows.entry(own.clone()).or_default();
                *row.taken_for.entry(protocol.clone()).or_default() += taken;
            }
        }
        let mut empty = found.empty;
        for (own, missed) in missed.into_iter().filter(|&(_, missed)| missed > 0) {
            let row = self.rows.entry(own).or_default();
            let taken = empty.min(missed);
            (empty, row.flows, self.empty) = (empty - taken, row.flows - taken, self.empty + taken);
            if missed > taken {
                *row.taken_for.entry("none".into()).or_default() += missed - taken;
            }
        }
    }
}

/// Returns the verdict on each connection of a capture.
fn verdicts(file: &Path) -> Found {
    let names = protocols();
    let weights = names.iter().enumerate().map(|(number, name)| format!("{name}={}", number + 1));
    let spec = format!("l7-filter:weight={}", weights.collect::<Vec<_>>().join(";"));
    let mut service = prepare(&spec.parse().expect("a specification")).expect("a service").make();
    let mut connections: HashMap<u64, (Option<u32>, bool)> = HashMap::new();
    let config = ClassifierConfig { flows: 1 << 16, seed: Seed(1), ..ClassifierConfig::default() };
    let mut classifier = Classifier::new(config).expect("a classifier");
    let mut reader = CaptureReader::open(file).expect("a capture");
    let (mut frame, mut generated) = (Frame::default(), Generated::default());
    let (mut known, mut examined) = (0, 0);
    // A damaged capture ends at the damage.
    while let Ok(true) = reader.next(&mut frame) {
        let packet = classifier.classify(&frame).expect("room").packet;
        classifier.release(&packet);
        service.process(&mut frame, &Context::of(Time::ZERO, &packet), &mut generated);
        let count = |name: &str| counter(&*service, name);
        let (now_known, now_examined) = (count("connections"), count("examined_packets"));
        if now_known > known {
            connections.insert(packet.key, (None, false));
        }
        if let Some(connection) = connections.get_mut(&packet.key) {
            connection.1 |= now_examined > examined;
            connection.0 =
                generated.take_mark().and_then(|mark| mark.weight).map(|weight| weight.get()).or(connection.0);
        }
        (known, examined) = (now_known, now_examined);
    }
    let mut found = Found { marks: BTreeMap::new(), unknown: 0, empty: 0 };
    for (weight, spoke) in connections.into_values() {
        match weight {
            Some(weight) => *found.marks.entry(names[weight as usize - 1].clone()).or_default() += 1,
            None if spoke => found.unknown += 1,
            None => found.empty += 1,
        }
    }
    found
}

fn counter(service: &dyn Service, name: &str) -> u64 {
    service.counters().into_iter().find(|counter| counter.name == name).map_or(0, |counter| counter.count)
}

/// Returns the protocols with signatures, in the order of their numbers here.
fn protocols() -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for signature in signatures() {
        if names.last().is_none_or(|last| last != signature.protocol) {
            names.push(signature.protocol.into());
        }
    }
    names
}

/// Returns the labels of each capture, with their flows.
fn labels(file: &Path) -> BTreeMap<String, BTreeMap<String, u64>> {
    let text = std::fs::read_to_string(file).expect("protocols.csv beside the captures");
    let mut labels: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let &[file, label, _, _, flows] = &fields[..] else { panic!("{line}") };
        labels.entry(file.into()).or_default().insert(label.into(), flows.parse().expect("a number of flows"));
    }
    labels
}

fn meanings(text: &str) -> HashMap<String, Meaning> {
    let protocols: BTreeSet<String> = protocols().into_iter().collect();
    let mut web = BTreeSet::new();
    let mut meanings = HashMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let label = words.next().expect("a line is not empty");
        if label == "web" {
            web.extend(words.map(str::to_owned));
            continue;
        }
        let kind = words.next().unwrap_or_else(|| panic!("{line}"));
        let all: BTreeSet<String> =
            words.flat_map(|word| if word == "web" { web.clone() } else { [word.to_owned()].into() }).collect();
        assert!(all.is_subset(&protocols), "{line}");
        let meaning = match kind {
            "=" => Meaning::Is(all.into_iter().next().unwrap_or_else(|| panic!("{line}"))),
            ":" => Meaning::May(all),
            "?" => Meaning::Anything,
            "-" => Meaning::NoSignature,
            _ => panic!("{line}"),
        };
        assert!(meanings.insert(label.to_owned(), meaning).is_none(), "{line}: twice");
    }
    meanings
}
