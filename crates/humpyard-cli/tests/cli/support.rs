//! Running the binary, and what must hold whatever it was asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use humpyard::traffic::test_captures::traces_directory;
use serde_json::Value;
use tempfile::TempDir;

/// The command, in this directory, with nothing to read. Its lines are as long as they come: `layout.rs` has those that fit.
pub(crate) fn humpyard(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_humpyard"));
    command
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .env_remove("RUST_BACKTRACE")
        .env("COLUMNS", "2000");
    command
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8(output.stderr).expect("messages are text"),
        }
    }

    /// The standard output as one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Panics unless the standard error is one line of this program with these words in it.
    pub(crate) fn assert_one_line(&self, words: &[&str]) {
        let line = self.err.strip_suffix('\n').unwrap_or_else(|| panic!("no line: {self:?}"));
        assert!(line.starts_with("humpyard: ") && !line.contains('\n'), "{self:?}");
        assert!(!line.contains("panicked") && !line.contains('\u{1b}'), "{self:?}");
        for word in words {
            assert!(line.contains(word), "`{word}` is not in: {line}");
        }
    }
}

/// Runs a command to its end.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Said {
    Said::of(humpyard(directory, arguments).output().expect("the binary starts"))
}

/// Runs a command that is refused: exit code 2, one line that has all of this, and no file more than before.
pub(crate) fn refused(directory: &Path, command: &str, expected: &[&str]) {
    let before = files(directory);
    let said = run(directory, &command.split_whitespace().collect::<Vec<_>>());
    assert!(said.code == Some(2) && said.out.is_empty(), "{command}: {said:?}");
    said.assert_one_line(expected);
    assert_eq!(files(directory), before, "{command}");
}

/// Runs a command of words with nothing but spaces between them, which must go well and quietly.
pub(crate) fn good(directory: &Path, words: &str) -> Said {
    let said = run(directory, &words.split_whitespace().collect::<Vec<_>>());
    assert!(said.code == Some(0) && said.err.is_empty(), "{words}: {said:?}");
    said
}

/// The document of a command that must go well.
pub(crate) fn document(directory: &Path, words: &str) -> Value {
    good(directory, &format!("{words} --json")).json()
}

/// A directory of its own for a test.
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// The names of the files in a directory, hidden ones too, in order.
pub(crate) fn files(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("readable").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Real captures, or none (and a loud word about it) where there are none. In CI there must be.
#[expect(clippy::print_stderr, reason = "a test that skips must say so")]
pub(crate) fn captures(test: &str) -> Option<PathBuf> {
    let directory = traces_directory();
    if directory.is_none() {
        eprintln!("SKIPPED {test}: there are no real captures; set HUMPYARD_TRACES to their directory");
    }
    directory.map(|directory| directory.canonicalize().expect("it is there"))
}

/// A number in a document; the path is that of its keys, with `/` before each.
pub(crate) fn number(document: &Value, path: &str) -> u64 {
    let found = document.pointer(path).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no whole number at {path}: {document:#}"))
}

/// A real number in a document.
pub(crate) fn real(document: &Value, path: &str) -> f64 {
    let found = document.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number at {path}: {document:#}"))
}

/// Sum of the counts by reason.
pub(crate) fn sum(document: &Value, path: &str) -> u64 {
    let counts = document.pointer(path).and_then(Value::as_object).unwrap_or_else(|| panic!("no counts at {path}"));
    counts.values().map(|count| count.as_u64().expect("a count")).sum()
}

/// Panics unless every packet of a result is accounted for.
pub(crate) fn assert_balanced(result: &Value) {
    let packets = |name: &str| number(result, &format!("/packets/{name}"));
    let (dropped, dropped_out) = (sum(result, "/packets/dropped"), sum(result, "/packets/dropped_out"));
    assert_eq!(packets("in"), packets("processed") + packets("held") + dropped, "{result:#}");
    let out = packets("forwarded") + packets("consumed") + packets("held_out") + dropped_out;
    assert_eq!(packets("processed") + packets("generated"), out, "{result:#}");
}

/// How many packets `trace info` finds in a capture.
pub(crate) fn packets_in(directory: &Path, capture: &str) -> u64 {
    number(&document(directory, &format!("trace info {capture}")), "/packets")
}

/// Makes a capture of this number of packets with `run` itself.
pub(crate) fn make_capture(directory: &Path, name: &str, packets: u64) {
    good(
        directory,
        &format!("run --input gen:poisson:packets={packets} --output {name} --policy fcfs --workers 0 --quiet"),
    );
}
