//! Help and version: there for every command, on the standard output, with an example, without colours in a pipe.

use std::path::Path;

use crate::support::{Said, directory, document, good, humpyard, run};

/// Every command; the first is the program itself.
pub(crate) const COMMANDS: [&str; 31] = [
    "",
    "demo",
    "run",
    "top",
    "sim",
    "compare",
    "admit",
    "recommend",
    "sweep",
    "sweep plot",
    "sweep diff",
    "map",
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
    "why",
    "steer",
    "completions",
    "man",
    "trace cut",
    "trace merge",
    "list",
    "explain",
    "topology",
];

#[test]
fn every_command_helps() {
    let here = Path::new(".");
    for command in COMMANDS.into_iter().chain(["help run"]) {
        let flag = if command.starts_with("help") { "" } else { "--help" };
        let said = good(here, &format!("{command} {flag}"));
        assert!(said.out.contains("Usage: humpyard") && said.out.contains("Example"), "{command}: {}", said.out);
        assert!(!said.out.contains('\u{1b}'), "{command}: colours in a pipe");
    }
    let top = good(here, "--help").out;
    for command in COMMANDS {
        let command = command.split(' ').next().expect("a word");
        assert!(top.contains(&format!("  {command}")), "{command} is not in\n{top}");
    }
    assert!(good(here, "--version").out.starts_with("humpyard "));
    assert!(good(here, "sim --version").out.starts_with("humpyard"));
}

/// What one needs first comes first, and the rest in groups.
#[test]
fn the_help_of_runs_begins_with_what_one_needs_first() {
    const GROUPS: [&str; 7] =
        ["Traffic:", "Policy:", "Services and costs:", "Cores:", "Order and buffers:", "Output and records:", "Live:"];
    for (command, first, groups) in [
        ("run", &["--input", "--output", "--policy", "--workers", "--services", "--rate"][..], &GROUPS[..]),
        ("sim", &["--input", "--policy", "--cores", "--services", "--rate"], &GROUPS[..6]),
        ("compare", &["--input", "--policy", "--cores", "--services", "--rate"], &GROUPS[..5]),
    ] {
        let help = good(Path::new("."), &format!("{command} --help")).out;
        let options = first.iter().map(|option| format!("\n      {option} "));
        let words: Vec<String> = options.chain(groups.iter().map(|group| format!("\n{group}\n"))).collect();
        let places: Vec<Option<usize>> = words.iter().map(|word| help.find(word.as_str())).collect();
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{command}: {places:?} of {words:?} in\n{help}"
        );
    }
}

#[test]
fn a_command_alone_says_what_it_lacks() {
    let here = Path::new(".");
    assert_eq!(run(here, &[]).out, good(here, "--help").out);
    assert_eq!((run(here, &[]).code, run(here, &[]).err.as_str()), (Some(0), ""));
    let said = run(here, &["trace"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    said.assert_one_line(&["an argument is missing: humpyard trace", "see `--help`"]);
    let all = good(here, "list").out;
    assert!(["rr ", "encrypt ", "poisson ", "measured ", "gr3-fig2 "].iter().all(|name| all.contains(name)), "{all}");
}

/// What reads the output may end before it has read all: `head` does.
#[test]
fn a_reader_that_has_had_enough_is_no_failure() {
    let directory = directory();
    crate::support::make_capture(directory.path(), "in.pcap", 100);
    for words in [
        "list",
        "list policies",
        "list services --json",
        "explain drr",
        "--help",
        "run --help",
        "--version",
        "run --input in.pcap --policy hrw",
        "run --input in.pcap --policy hrw --json",
        "completions bash",
        "man",
        "topology e5355",
        "trace info in.pcap",
        "schedule --policy drr --weights 2,1 --slots 9",
        "sim --input in.pcap --policy drr --json",
        "compare --input in.pcap --policy drr --policy hrw",
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = humpyard(directory.path(), &words.split(' ').collect::<Vec<_>>());
        let output = command.stdout(writer).output().expect("the binary starts");
        let said = Said::of(output);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{words}");
    }
}

/// The examples of the help that need no more than a file run as they stand.
#[test]
fn examples_of_the_help_work() {
    let directory = directory();
    crate::support::make_capture(directory.path(), "in.pcap", 2_000);
    crate::support::make_capture(directory.path(), "in.pcapng.zst", 2_000);
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
    assert_eq!(document(directory.path(), "trace info in.pcapng.zst")["packets"], 2_000);
}
