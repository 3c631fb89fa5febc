//! The decisions of every policy and of every feature, each as a hash in `runs.txt`: a change of the code that changes one cannot pass
//! unseen. `HUMPYARD_RENEW=1 cargo test -p humpyard-cli --all-features --test cli decisions` writes the hashes anew.
//!
//! Each run is made a second time without its journal, and must have the same result. Runs are made in this process:
//! hundreds of starts of the program would take longer than the runs.
//!
//! A line is two hashes and a command. The first hash is that of the decisions: which packet was accepted or dropped, which core
//! served it when, which cores changed service, in which order packets left. It does not depend on the format of journals, nor on how the
//! scheduler numbers its slots. The second is that of the result, without `measured` and `environment`. Costs, order of flows and seed
//! are given, so that other defaults change nothing.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use humpyard_cli::{Caller, call};
use serde_json::{Map, Value};

use crate::support::{directory, document};

const RUNS: &str = include_str!("runs.txt");
const COSTS: &str = include_str!("costs.toml");
/// What a part of a layout begins with.
const FAMILIES: [&str; 4] = ["steer=", "share=", "allocate=", "estimate="];
/// What every run is given unless its line says otherwise.
const ORDER: &str = "--flow-order exit:packets=4096,time=1s";

/// Fowler, Noll and Vo's hash of 64 bits, form 1a: the same on every machine and in every version.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// One line of `runs.txt`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Line {
    decisions: u64,
    result: u64,
    command: String,
}

impl Line {
    fn parse(line: &str) -> Self {
        let mut words = line.splitn(3, ' ');
        let mut hash = || u64::from_str_radix(words.next().expect("a hash"), 16).expect("a hash of 16 digits");
        Self { decisions: hash(), result: hash(), command: words.next().expect("a command").to_owned() }
    }

    fn text(&self) -> String {
        format!("{:016x} {:016x} {}\n", self.decisions, self.result, self.command)
    }

    /// Runs the command, and gives the line as it is now.
    fn run(&self, directory: &Path) -> Self {
        let Self { command, .. } = self;
        if command.starts_with("schedule ") {
            let schedule = fnv(&answer(directory, &format!("{command} --json")));
            return Self { decisions: schedule, result: schedule, command: command.clone() };
        }
        let order = if command.contains("--flow-order") { "" } else { ORDER };
        let in_directory = directory.display();
        let given = format!("{command} {order} --costs {in_directory}/costs.toml --seed 7 --quiet --json");
        let result = result(&answer(directory, &format!("{given} --journal {in_directory}/run.journal")));
        let journal = fs::read_to_string(directory.join("run.journal")).expect("a journal");
        // Without a journal the mechanism takes a shorter path, and common policies have a loop of their own.
        let unrecorded = self::result(&answer(directory, &given));
        assert_eq!(unrecorded, result, "the result depends on whether a journal is kept: {command}");
        Self { decisions: fnv(&decisions(&journal)), result: fnv(&result), command: command.clone() }
    }
}

/// Calls the commands of this process.
struct Test;

impl Caller for Test {
    fn stop(&self) -> Arc<AtomicBool> {
        Arc::default()
    }

    fn progress(&self, _: u64, _: Option<f64>, _: &str) {}
}

/// Runs a command of words with nothing but spaces between them, which must go well and quietly. Returns its document,
/// in which files of this directory have their names alone.
fn answer(directory: &Path, words: &str) -> String {
    let answer = call(words.split_whitespace().map(str::to_owned), Rc::new(Test));
    let answer = answer.unwrap_or_else(|error| panic!("{words}: {error}"));
    assert!(answer.is_success && answer.said.is_empty(), "{words}: {:?}", answer.said);
    answer.document.replace(&format!("{}/", directory.display()), "")
}

/// The result without what a machine adds to it.
fn result(document: &str) -> String {
    let mut document: Map<String, Value> = serde_json::from_str(document).expect("a document");
    for key in ["measured", "environment"] {
        document.remove(key);
    }
    Value::Object(document).to_string()
}

/// The decisions of a journal, a line each, with packets numbered as they arrived.
fn decisions(journal: &str) -> String {
    let mut decided = Decided::default();
    for line in journal.lines().skip(1) {
        let record: Value = serde_json::from_str(line).expect("a record");
        if let Some(event) = record.get("event") {
            decided.add(&record["now"], event);
        }
    }
    decided.text
}

#[derive(Default)]
struct Decided {
    text: String,
    arrived: u64,
    /// The packet in each slot, and at each place of the exit.
    slots: HashMap<u64, u64>,
    places: HashMap<u64, u64>,
}

impl Decided {
    fn add(&mut self, now: &Value, event: &Value) {
        let (kind, value) = match event {
            // A call without arguments: its effects show in the other events.
            Value::String(_) => return,
            Value::Object(event) => event.iter().next().expect("an event"),
            other => panic!("no event: {other}"),
        };
        let said = match kind.as_str() {
            "arrival" => self.arrival(value),
            "next" => value["answer"].as_object().map(|given| self.given(&value["core"], given)),
            "completion" => Some(self.completion(value)),
            "dropped" => {
                let packet = self.slots.remove(&number(&value[0]));
                packet.map(|packet| format!("packet {packet} for {}", value[1]))
            }
            "exit" => self.places.remove(&number(value)).map(|packet| format!("packet {packet}")),
            // Which core to ask next: its answer is the decision.
            "core" => None,
            _ => Some(value.to_string()),
        };
        if let Some(said) = said {
            writeln!(self.text, "{now} {kind} {said}").expect("memory");
        }
    }

    fn arrival(&mut self, value: &Value) -> Option<String> {
        let (packet, answer) = (self.arrived, &value["answer"]);
        self.arrived += 1;
        let of = |key: &str| &value["packet"][key];
        let said =
            format!("packet {packet} of flow {}, client {}, service {}", of("flow"), of("client"), of("service"));
        let accepted = answer.get("queued").and_then(Value::as_u64);
        let fate = accepted.map_or_else(|| answer.to_string(), |_| "queued".to_owned());
        if let Some(slot) = accepted {
            self.slots.insert(slot, packet);
        }
        Some(format!("{said}: {fate}"))
    }

    fn given(&self, core: &Value, given: &Map<String, Value>) -> String {
        format!("packet {} to core {core}, cold {}", self.slots[&number(&given["slot"])], given["cold"])
    }

    fn completion(&mut self, value: &Value) -> String {
        let slot = number(&value["slot"]);
        let packet = self.slots[&slot];
        if value["onward"].is_null() {
            self.slots.remove(&slot);
        }
        if let Some(place) = value["exit"].as_u64() {
            self.places.insert(place, packet);
        }
        format!("packet {packet} after {}, used {}, then {}", value["busy"], value["used"], value["onward"])
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Runs all lines, those of each half by a thread of its own.
fn run_all(lines: &[Line]) -> Vec<Line> {
    let run = |lines: &[Line]| -> Vec<Line> {
        let directory = directory();
        fs::write(directory.path().join("costs.toml"), COSTS).expect("a file");
        lines.iter().map(|line| line.run(directory.path())).collect()
    };
    let (first, second) = lines.split_at(lines.len() / 2);
    thread::scope(|scope| {
        let first = scope.spawn(|| run(first));
        let second = run(second);
        [first.join().expect("no panic"), second].concat()
    })
}

#[test]
fn every_decision_and_every_result_is_as_before() {
    let lines: Vec<Line> = RUNS.lines().map(Line::parse).collect();
    let now = run_all(&lines);
    if std::env::var_os("HUMPYARD_RENEW").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/decisions/runs.txt");
        fs::write(path, now.iter().map(Line::text).collect::<String>()).expect("the source tree");
        return;
    }
    let changed = lines.iter().zip(&now).filter(|(before, now)| before != now);
    let changed: Vec<String> = changed.map(|(before, now)| format!("- {}+ {}", before.text(), now.text())).collect();
    assert!(changed.is_empty(), "{} of {} runs changed:\n{}", changed.len(), lines.len(), changed.concat());
}

/// Every policy has a line, and every choice of its parameters that has a name.
#[test]
fn no_policy_and_no_variant_is_left_out() {
    let directory = directory();
    let policies = document(directory.path(), "list policies");
    let named = RUNS.lines().filter_map(|line| line.split(" --policy ").nth(1)?.split(' ').next());
    // A layout such as steer=hrw/share=drr names two.
    let specs: BTreeSet<&str> = named
        .flat_map(|layout| layout.split('/'))
        .map(|spec| FAMILIES.iter().find_map(|family| spec.strip_prefix(family)).unwrap_or(spec))
        .collect();
    for policy in policies.as_array().expect("a list") {
        let name = policy["name"].as_str().expect("a name");
        assert!(specs.contains(name), "{name} has no line");
        for parameter in policy["parameters"].as_array().expect("a list") {
            let text = |key: &str| parameter[key].as_str().expect("text");
            let accepts = if text("accepts") == "true or false" { "one of true false" } else { text("accepts") };
            let choices = accepts.strip_prefix("one of ").into_iter().flat_map(|choices| choices.split(' '));
            for choice in choices.filter(|&choice| choice != text("default")) {
                let spec = format!("{name}:{}={choice}", text("name"));
                assert!(specs.contains(spec.as_str()), "{spec} has no line");
            }
        }
    }
}
