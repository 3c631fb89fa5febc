//! Completions and manual pages: there for every command, and well-formed by the judgement of those who read them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{directory, files, good, run};

const COMMANDS: [&str; 20] = [
    "demo",
    "run",
    "sim",
    "compare",
    "admit",
    "recommend",
    "sweep",
    "map",
    "validate",
    "schedule",
    "calibrate",
    "check",
    "completions",
    "man",
    "replay",
    "why",
    "trace",
    "list",
    "explain",
    "topology",
];

/// What a program says of a text on its standard input; none, and a loud word, if there is no such program.
#[expect(clippy::print_stderr, reason = "a test that skips must say so")]
fn judged(program: &str, arguments: &[&str], text: &str) -> Option<(bool, String)> {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("SKIPPED: there is no {program}");
        return None;
    };
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn shells_accept_their_completions() {
    for (shell, check) in [
        ("bash", Some(["bash", "-n"])),
        ("zsh", Some(["zsh", "-n"])),
        ("fish", Some(["fish", "--no-execute"])),
        ("elvish", None),
        ("powershell", None),
    ] {
        let text = good(Path::new("."), &format!("completions {shell}")).out;
        for word in COMMANDS.into_iter().chain(["config", "when-full"]) {
            assert!(text.contains(word), "{shell}: {word}");
        }
        if let Some((ok, said)) = check.and_then(|[program, flag]| judged(program, &[flag], &text)) {
            assert!(ok && said.is_empty(), "{shell}: {said}");
        }
    }
}

/// Bash completes as asked: with the completions loaded, `humpyard comp` can only become two commands.
#[test]
fn bash_completes() {
    let script = good(Path::new("."), "completions bash").out;
    let asked =
        "\nCOMP_WORDS=(humpyard comp); COMP_CWORD=1; _humpyard humpyard comp humpyard; echo \"${COMPREPLY[*]}\"\n";
    if let Some((ok, said)) = judged("bash", &["--norc"], &(script + asked)) {
        assert!(ok && said == "compare completions\n", "{said}");
    }
}

#[test]
fn manual_pages_are_well_formed() {
    let directory = directory();
    let top = good(directory.path(), "man").out;
    assert!(top.contains(".TH humpyard 1") && top.contains("humpyard demo"), "{top}");
    good(directory.path(), "man --output pages/man1");
    let pages = files(&directory.path().join("pages/man1"));
    for command in COMMANDS.into_iter().chain(["trace-info"]) {
        assert!(pages.contains(&format!("humpyard-{command}.1")), "{command}: {pages:?}");
    }
    for page in &pages {
        let text = std::fs::read_to_string(directory.path().join("pages/man1").join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS") && text.contains("xample"), "{page}");
        if let Some((ok, said)) = judged("mandoc", &["-Tlint", "-Wwarning"], &text) {
            assert!(ok, "{page}: {said}");
        } else if let Some((ok, said)) = judged("groff", &["-man", "-ww", "-z", "-rLL=100n"], &text) {
            assert!(ok && said.is_empty(), "{page}: {said}");
        }
    }
    assert_eq!(std::fs::read_to_string(directory.path().join("pages/man1/humpyard.1")).unwrap(), top);
}

#[test]
fn pages_that_cannot_be_written() {
    let directory = directory();
    std::fs::write(directory.path().join("file"), "").unwrap();
    for (output, expected) in
        [("file", "file: this is a file; name a directory"), ("/proc/pages", "/proc/pages: the pages cannot")]
    {
        let said = run(directory.path(), &["man", "--output", output]);
        assert!(said.code == Some(2) && said.out.is_empty(), "{said:?}");
        said.assert_one_line(&[expected]);
    }
    assert_eq!(files(directory.path()), ["file"]);
}
