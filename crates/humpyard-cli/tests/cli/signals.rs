//! Ctrl-C and SIGTERM: reading ends, what is held is served and written, and the result says so.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Said, assert_balanced, directory, files, good, humpyard, number, packets_in};

/// More than enough for any machine.
const LONGEST: Duration = Duration::from_secs(30);

/// Starts a command that would take for ever, and waits until it takes signals.
pub(crate) fn start(directory: &Path, words: &str) -> Child {
    let mut command = humpyard(directory, &words.split_whitespace().collect::<Vec<_>>());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let started = Instant::now();
    while !takes_signals(child.id()) {
        assert!(started.elapsed() < LONGEST, "{words}: no handlers for signals");
        sleep(Duration::from_millis(5));
    }
    child
}

/// Whether SIGINT (2) and SIGTERM (15) have handlers.
fn takes_signals(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("a mask");
    caught & (1 << 1) != 0 && caught & (1 << 14) != 0
}

pub(crate) fn signal(child: &Child, name: &str) {
    let kill = format!("kill -s {name} {}", child.id());
    let status = Command::new("sh").args(["-c", &kill]).status().expect("there is a shell");
    assert!(status.success());
}

/// Lets a command run for a while, sends it a signal, and gives its document.
fn interrupted(directory: &Path, words: &str, name: &str) -> Value {
    let child = start(directory, &format!("{words} --json"));
    sleep(Duration::from_millis(500));
    let sent = Instant::now();
    signal(&child, name);
    let said = Said::of(child.wait_with_output().expect("it ends"));
    assert!(sent.elapsed() < LONGEST, "{words}: {:?} after the signal", sent.elapsed());
    assert!(said.code == Some(0) && said.err.is_empty(), "{words}: {said:?}");
    said.json()
}

#[test]
fn a_live_run_that_is_interrupted_writes_all_it_forwarded() {
    for (name, options) in [
        ("INT", "--policy hrw --workers 2"),
        ("TERM", "--policy drr --workers 0"),
        ("TERM", "--policy hrw --workers 2 --dispatchers 2"),
        ("INT", "--policy drr --workers 3 --dispatchers 2 --rate 1000"),
        ("INT", "--policy rr --workers 1 --rate 1000"),
        ("TERM", "--policy fcfs --workers 1 --rate 1G --overload drop"),
    ] {
        let directory = directory();
        let words = format!("run --input gen:poisson:packets=1000000000 --output out.pcap {options}");
        let result = interrupted(directory.path(), &words, name);
        assert_balanced(&result);
        assert_eq!((&result["interrupted"], number(&result, "/packets/held")), (&true.into(), 0), "{words}");
        let forwarded = number(&result, "/packets/forwarded");
        assert!(forwarded > 0, "{words}");
        assert_eq!(files(directory.path()), ["out.pcap"]);
        assert_eq!(packets_in(directory.path(), "out.pcap"), forwarded, "{words}");
    }
}

/// Lets a command run for a while, sends it a signal, and gives what it says with exit code 2.
fn given_up(directory: &Path, words: &str, name: &str) -> Said {
    let child = start(directory, words);
    sleep(Duration::from_millis(500));
    signal(&child, name);
    let said = Said::of(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, Some(2), "{words}: {said:?}");
    said
}

#[test]
fn simulations_that_are_interrupted_give_what_they_have() {
    let directory = directory();
    for name in ["INT", "TERM"] {
        let words = "sim --input gen:poisson:packets=1000000000 --policy drr";
        let result = interrupted(directory.path(), words, name);
        assert_balanced(&result);
        assert_eq!((&result["interrupted"], number(&result, "/packets/held")), (&true.into(), 0));
        assert!(number(&result, "/packets/processed") > 0);
    }
}

/// A run that is not whole is held against none that is.
#[test]
fn comparisons_that_are_interrupted_have_whole_runs_alone() {
    let directory = directory();
    for words in ["compare", "compare --live", "compare --load 0.5"] {
        let words = format!("{words} --policy rr --policy hrw --report r.html --input gen:poisson:packets=1000000000");
        let said = given_up(directory.path(), &format!("{words} --json"), "INT");
        said.assert_one_line(&["interrupted before a run was whole: there is nothing to compare"]);
        assert!(said.out.is_empty() && files(directory.path()).is_empty(), "{words}: {said:?}");
    }
    let words =
        "compare --policy rr --policy hrw --repeat 10000 --input gen:poisson:packets=2000 --report r.html --json";
    let said = given_up(directory.path(), words, "TERM");
    let document = said.json();
    let runs = document["runs"].as_array().expect("runs");
    said.assert_one_line(&[&format!("interrupted after {} of 20000 runs: these are kept", runs.len())]);
    assert!(runs.iter().all(|run| run["interrupted"] == false && number(run, "/packets/in") == 2000), "{said:?}");
    assert_eq!(files(directory.path()), ["r.html"]);
}

#[test]
fn a_search_whose_input_is_being_read_is_given_up() {
    let directory = directory();
    for words in [
        "recommend --host ideal --goal p99<1ms --packets 100000000 --input gen:poisson:packets=1000000000 --costs table:measured",
        "trace scale --factor 2 gen:poisson:packets=1000000000 out.pcap",
    ] {
        let child = start(directory.path(), words);
        signal(&child, "TERM");
        let said = Said::of(child.wait_with_output().expect("it ends"));
        assert!(said.code == Some(2) && said.out.is_empty(), "{words}: {said:?}");
        said.assert_one_line(&["interrupted while the input was read: nothing was done"]);
    }
}

#[test]
fn a_validation_that_is_interrupted_has_nothing_to_say() {
    let directory = directory();
    let words = "validate --input gen:poisson:packets=1000000000 --costs measured --host server-16 --workers 1";
    let child = start(directory.path(), words);
    signal(&child, "TERM");
    let said = Said::of(child.wait_with_output().expect("it ends"));
    assert!(said.code == Some(2) && said.out.is_empty(), "{said:?}");
    said.assert_one_line(&["interrupted before there was anything to compare"]);
}

/// The load is found before the run starts, by reading the input once.
#[test]
fn finding_the_load_can_be_interrupted() {
    let directory = directory();
    let words = "--policy drr --load 0.5 --input gen:poisson:packets=1000000000";
    let result = interrupted(directory.path(), &format!("run {words}"), "INT");
    assert_eq!((&result["interrupted"], number(&result, "/packets/in")), (&true.into(), 0));
    let said = given_up(directory.path(), &format!("sim {words} --json"), "INT");
    said.assert_one_line(&["interrupted before the first packet was simulated"]);
    assert!(said.out.is_empty(), "{said:?}");
}

/// `timeout` sends its signal to the process and to its group: both are one end.
#[test]
fn two_signals_at_once_end_a_run_as_one_does() {
    let directory = directory();
    let child = start(directory.path(), "run --policy drr --input gen:poisson:packets=1000000000 --json");
    sleep(Duration::from_millis(500));
    let kill = format!("kill -s TERM {0}; kill -s INT {0}; kill -s TERM {0}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().expect("there is a shell").success());
    let said = Said::of(child.wait_with_output().expect("it ends"));
    assert_eq!((said.code, &said.json()["interrupted"]), (Some(0), &true.into()));
}

/// What is done is kept, and the same command goes on from there.
#[test]
fn experiments_that_are_interrupted_go_on_by_the_same_command() {
    let directory = directory();
    let words = "reproduce gr3-fig2 gr3-fig4 gr3-fig5 gr3-fig7 --threads 1 --out there";
    let child = start(directory.path(), words);
    let is_begun = || directory.path().join("there/gr3-fig2/verdicts.json").is_file();
    while !is_begun() {
        sleep(Duration::from_millis(5));
    }
    signal(&child, "INT");
    let said = Said::of(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, Some(2), "{said:?}");
    let missing = "gr3-fig7 (all of it)";
    said.assert_one_line(&["interrupted: ", " of 19 parts are done; the same command continues, in there", missing]);
    assert!(said.out.contains("gr3-fig2") && !said.out.contains("gr3-fig7"), "{said:?}");
    for page in ["index.html", "REPRODUCTION.md"] {
        let page = fs::read_to_string(directory.path().join("there").join(page)).expect("a page");
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains("interrupted. Missing: ") && page.contains(missing), "{page}");
    }
    assert_eq!(
        files(&directory.path().join("there")),
        [".parts", "REPRODUCTION.md", "gr3-fig2", "gr3.html", "index.html"]
    );
    assert!(
        good(directory.path(), "reproduce gr3-fig2 --out there")
            .out
            .contains("Every outcome that is expected is found.")
    );
    // Parts of the others are still there, if one was done before the signal.
    let left = files(&directory.path().join("there")).into_iter().filter(|name| *name != ".parts");
    assert_eq!(left.collect::<Vec<_>>(), ["REPRODUCTION.md", "gr3-fig2", "gr3.html", "index.html"]);
}

/// The parts of this experiment take minutes.
#[test]
fn a_part_that_takes_long_is_given_up() {
    let directory = directory();
    let child = start(directory.path(), "reproduce gr3-fig11 --full --threads 1 --out there --quiet");
    sleep(Duration::from_millis(500));
    let sent = Instant::now();
    signal(&child, "TERM");
    let said = Said::of(child.wait_with_output().expect("it ends"));
    assert!(sent.elapsed() < LONGEST, "{:?} after the signal", sent.elapsed());
    assert_eq!(said.code, Some(2), "{said:?}");
    said.assert_one_line(&["interrupted: ", "missing: gr3-fig11 ("]);
}

/// A pipe that says nothing does not keep a run from ending, and what it wrote is complete.
#[test]
fn a_signal_ends_a_run_whose_input_is_silent() {
    let directory = directory();
    let mut command = humpyard(directory.path(), &["run", "--policy", "hrw", "--input", "-", "--output", "out.pcap"]);
    let (reader, writer) = std::io::pipe().unwrap();
    // A header, and then nothing for ever.
    let header = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    std::io::Write::write_all(&mut &writer, &header).unwrap();
    let mut child = command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !takes_signals(child.id()) {
        sleep(Duration::from_millis(5));
    }
    // Until it waits for a packet: an end that comes before is noticed at once.
    sleep(Duration::from_millis(500));
    let sent = Instant::now();
    signal(&child, "INT");
    let status = loop {
        sleep(Duration::from_millis(20));
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(sent.elapsed() < LONGEST, "it does not end"),
        }
    };
    assert_eq!(status.code(), Some(0));
    assert_eq!(files(directory.path()), ["out.pcap"]);
    drop(writer);
}
