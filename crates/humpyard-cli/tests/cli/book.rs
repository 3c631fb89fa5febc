//! The commands of the book: each runs in a shell as its page prints it, but with less traffic.
//!
//! A command that needs a network interface is given one that does not exist, and must be refused
//! for that alone: all else in it is then right.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::configuration::repository;
use crate::support::{Said, directory, good, make_capture};

/// Pages whose commands other tests run, or whose commands have a part that the reader chooses.
const NOT_HERE: [&str; 3] = ["commands.md", "tour.md", "add-an-experiment.md"];

/// Parts of commands that do not run here, and why.
const SKIPPED: [(&str, &str); 15] = [
    ("humpyard top ", "it shows a run beside it; tests of its own"),
    ("nfqueue:", "it takes packets from the kernel; tests in namespaces"),
    ("tun:", "it makes a device; tests in namespaces"),
    ("fanout:", "it needs a BPF file system; tests in namespaces"),
    ("--dask", "it needs a cluster; tests in Python"),
    ("--save", "it writes beside the user's other files"),
    ("calibrated", "it reads what `--save` wrote"),
    ("--host here", "it reads what `--save` wrote"),
    ("calibrate ", "it times the machine; tests of its own"),
    ("--costs here.toml", "it reads what `calibrate` wrote"),
    ("recommend ", "it times the machine; tests of its own"),
    ("validate ", "it times the machine; tests of its own"),
    ("reproduce ", "it takes minutes; tests of its own"),
    ("humpyard map", "it takes minutes; tests of its own"),
    (" --flow '", "it names a flow of the reader's capture"),
];

/// Interfaces of the examples, and names that no machine has.
const INTERFACES: [(&str, &str); 6] = [
    ("eth0", "nosuch0"),
    ("eth1", "nosuch1"),
    ("wan", "nosuch0"),
    ("n3", "nosuch0"),
    ("iface:left", "iface:nosuch0"),
    ("iface:right", "iface:nosuch1"),
];

/// Less traffic.
const SHORTENED: [(&str, &str); 12] = [
    ("packets=6000000", "packets=2k"),
    ("packets=100000", "packets=2k"),
    ("packets=20000", "packets=2k"),
    ("packets=200k", "packets=2k"),
    ("packets=100k", "packets=2k"),
    ("packets=20k", "packets=2k"),
    ("packets=1M", "packets=2k"),
    ("packets=3M", "packets=2k"),
    ("gen:onoff ", "gen:onoff:packets=2k "),
    ("gen:flow ", "gen:flow:packets=2k "),
    ("gen:poisson ", "gen:poisson:packets=2k "),
    ("--draws 100", "--draws 1"),
];

fn pages() -> Vec<PathBuf> {
    let children = |path: &Path| -> Vec<PathBuf> {
        fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry").path()).collect()
    };
    let folders = children(&repository("docs")).into_iter().filter(|path| path.is_dir());
    let mut pages: Vec<PathBuf> = folders.flat_map(|folder| children(&folder)).collect();
    pages.retain(|page| page.extension().is_some_and(|end| end == "md"));
    pages.retain(|page| NOT_HERE.iter().all(|name| page.file_name() != Some(name.as_ref())));
    pages.sort();
    pages
}

/// The commands of a page: indented lines that begin with the program's name, with their continuations.
fn commands(page: &str) -> Vec<String> {
    let whole = page.replace("\\\n", " ");
    whole.lines().filter(|line| line.starts_with("    humpyard ")).map(|line| line.trim().to_owned()).collect()
}

/// Writes the files that the pages name.
fn prepare(at: &Path, page: &str) {
    make_capture(at, "in.pcap", 300);
    good(at, "sim --input gen:poisson:packets=300 --policy drr --journal run.jsonl --quiet");
    fs::create_dir(at.join("examples")).expect("a directory");
    for example in fs::read_dir(repository("examples")).expect("examples") {
        let example = example.expect("an example").path();
        fs::copy(&example, at.join("examples").join(example.file_name().expect("a name"))).expect("a copy");
    }
    let sweep = "[options]\ninput = \"gen:poisson:packets=500\"\n[axes]\npolicy = [\"hrw\", \"drr\"]\ncores = [4]\nload = [0.5, 0.9]\n";
    fs::write(at.join("loads.toml"), sweep).expect("a sweep");
    if page.contains("sweep plot") {
        good(at, "sweep loads.toml --out loads --quiet");
        good(at, "sweep loads.toml --out loads-of-yesterday --quiet");
    }
    let written = [
        ("flows.toml", "toml", "[[flow]]"),
        ("network.toml", "toml", "[[node]]"),
        ("flows.csv", "csv", "service,rate"),
        ("batch.toml", "toml", "per_batch_ns"),
    ];
    for (name, language, has) in written {
        if let Some(text) = blocks(page, language).find(|block| block.contains(has)) {
            fs::write(at.join(name), text).expect("a file of the page");
        }
    }
}

/// The blocks of a page in one language.
fn blocks<'a>(page: &'a str, language: &str) -> impl Iterator<Item = &'a str> {
    let fence = format!("```{language}\n");
    let starts: Vec<usize> = page.match_indices(&fence).map(|(at, _)| at + fence.len()).collect();
    starts.into_iter().filter_map(|at| page[at..].split("```").next())
}

fn shell(at: &Path, command: &str) -> Said {
    let program = Path::new(env!("CARGO_BIN_EXE_humpyard")).parent().expect("a directory");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(program.to_owned()).chain(std::env::split_paths(&path));
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(at).stdin(Stdio::null()).env_remove("RUST_BACKTRACE");
    // What the user saved on this machine changes nothing.
    shell.env("PATH", std::env::join_paths(paths).expect("a path")).env("HOME", at).env_remove("XDG_DATA_HOME");
    Said::of(shell.output().expect("a shell starts"))
}

#[test]
fn the_commands_of_the_book_run() {
    let (mut ran, mut refused, mut wrong) = (0, 0, Vec::new());
    let mut unused: Vec<&str> = SKIPPED.iter().map(|&(part, _)| part).collect();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let commands = commands(&text);
        if commands.is_empty() {
            continue;
        }
        let directory = directory();
        prepare(directory.path(), &text);
        for command in commands {
            if let Some((part, _)) = SKIPPED.iter().find(|(part, _)| command.contains(part)) {
                unused.retain(|other| other != part);
                continue;
            }
            let needs_interface = INTERFACES.iter().any(|(name, _)| command.contains(name));
            let mut tried = command.clone();
            for (from, to) in INTERFACES.iter().chain(&SHORTENED) {
                tried = tried.replace(from, to);
            }
            let said = shell(directory.path(), &tried);
            let right = if needs_interface {
                refused += 1;
                said.code == Some(2) && said.err.contains("no interface `nosuch")
            } else {
                ran += 1;
                said.code == Some(0)
            };
            if !right {
                let name = page.file_name().expect("a name").display();
                wrong.push(format!("{name}: {command}\n  {:?} {}", said.code, said.err));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(unused, [""; 0], "no command has these parts");
    assert!(ran >= 70 && refused >= 10, "{ran} commands ran, {refused} were refused for their interface");
}
