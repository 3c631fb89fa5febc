//! Help and version: there for every command, on the standard output, with an example, without colours in a pipe.

use std::path::Path;

use crate::support::{directory, document, good};

#[test]
fn every_command_helps() {
    let here = Path::new(".");
    let commands = [
        "",
        "demo",
        "run",
        "top",
        "sim",
        "compare",
        "admit",
        "recommend",
        "validate",
        "schedule",
        "trace",
        "trace info",
        "trace compose",
        "trace scale",
        "calibrate",
        "reproduce",
        "check",
        "replay",
        "completions",
        "man",
        "trace cut",
        "trace merge",
        "list",
        "explain",
        "topology",
        "help run",
    ];
    for command in commands {
        let flag = if command.starts_with("help") { "" } else { "--help" };
        let said = good(here, &format!("{command} {flag}"));
        assert!(said.out.contains("Usage: humpyard") && said.out.contains("Example"), "{command}: {}", said.out);
        assert!(!said.out.contains('\u{1b}'), "{command}: colours in a pipe");
    }
    let top = good(here, "--help").out;
    for command in commands {
        let command = command.split(' ').next().expect("a word");
        assert!(top.contains(&format!("  {command}")), "{command} is not in\n{top}");
    }
    assert!(good(here, "--version").out.starts_with("humpyard "));
    assert!(good(here, "sim --version").out.starts_with("humpyard"));
}

/// The examples of the help that need no more than a file run as they stand.
#[test]
fn examples_of_the_help_work() {
    let directory = directory();
    crate::support::make_capture(directory.path(), "in.pcap", 200);
    crate::support::make_capture(directory.path(), "in.pcapng.zst", 200);
    let mut tried = 0;
    for command in [
        "",
        "run",
        "sim",
        "compare",
        "schedule",
        "trace info",
        "trace compose",
        "trace scale",
        "trace cut",
        "trace merge",
        "list",
        "explain",
        "topology",
    ] {
        let help = good(directory.path(), &format!("{command} --help")).out;
        for example in help.lines().filter_map(|line| line.strip_prefix("  humpyard ")) {
            if example.contains(" - ")
                || example.starts_with("demo")
                || example.contains("--for")
                || example.contains("--flow")
                || example.contains("iface:")
                || example.contains("nfqueue:")
            {
                continue;
            }
            let example =
                example.replace('\'', "").replace("packets=1M", "packets=10k").replace("--draws 100", "--draws 1");
            good(directory.path(), &example);
            tried += 1;
        }
    }
    assert!(tried >= 15, "only {tried} examples were found");
    assert_eq!(document(directory.path(), "trace info in.pcapng.zst")["packets"], 200);
}
