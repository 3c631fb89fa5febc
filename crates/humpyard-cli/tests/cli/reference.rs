//! Pages of the book that the program writes, so that they say what it does.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::configuration::repository;
use crate::help::COMMANDS;
use crate::support::{Said, good, humpyard};

const HOW: &str = "The program writes this page: `HUMPYARD_RENEW=1 cargo test -p humpyard-cli --test cli reference`.";

/// Compares a page with its committed text, or writes it if `HUMPYARD_RENEW` is set.
fn is_committed(page: &str, text: &str) {
    let path = repository(page);
    if std::env::var_os("HUMPYARD_RENEW").is_some() {
        fs::write(&path, text).expect("the page can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{page} differs from the program. {HOW}");
}

/// Returns what a command prints in lines that a page holds.
fn printed(words: &str) -> String {
    let arguments: Vec<&str> = words.split_whitespace().collect();
    let output = humpyard(Path::new("."), &arguments).env("COLUMNS", "80").output().expect("the binary starts");
    let said = Said::of(output);
    assert!(said.code == Some(0) && said.err.is_empty(), "{words}: {said:?}");
    said.out
}

fn block(heading: &str, text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    format!("\n{heading}\n\n```text\n{}\n```\n", lines.join("\n"))
}

#[test]
fn the_reference_of_commands_is_the_help() {
    let mut page = format!(
        "# Every command and option\n\nFor everyone at the command line: what `humpyard COMMAND --help` prints, for \
         each command.\n\
         [Options together](options.md) says how options act on each other. {HOW}\n"
    );
    for command in COMMANDS {
        let help = printed(&format!("{command} --help"));
        page.push_str(&block(&format!("## {}", if command.is_empty() { "humpyard" } else { command }), &help));
    }
    is_committed("docs/reference/commands.md", &page);
}

#[test]
fn the_reference_of_names_is_what_is_explained() {
    let mut page = format!(
        "# Every policy, service and traffic model\n\nFor everyone who looks up a name: what `humpyard explain NAME` \
         prints, for each.\n{HOW}\n"
    );
    for (list, heading) in [("policies", "Policies"), ("services", "Services"), ("profiles", "Traffic models")] {
        let _ = write!(page, "\n## {heading}\n");
        let names = good(Path::new("."), &format!("list {list} --json")).json();
        for name in names.as_array().expect("a list").iter().filter_map(|entry| entry["name"].as_str()) {
            let explained = printed(&format!("explain {name}"));
            page.push_str(&block(&format!("### {name}"), &explained));
        }
    }
    is_committed("docs/reference/names.md", &page);
}

#[test]
fn the_reference_of_keys_is_what_is_explained() {
    let mut page = format!(
        "# Every key and metric\n\nFor everyone who processes results: what `humpyard explain NAME` prints for each \
         document of `--json`,\nand for the metrics of a run. `[]` is each element of a list, and `NAME` stands for a \
         name. With `--json`,\n`explain` prints the JSON schema of a document. What the figures mean together: \
         [results.md](results.md),\n[metrics.md](metrics.md). {HOW}\n"
    );
    let documents = good(Path::new("."), "list documents --json").json();
    for name in documents.as_array().expect("a list").iter().filter_map(|entry| entry["name"].as_str()) {
        page.push_str(&block(&format!("## {name}"), &printed(&format!("explain {name}"))));
    }
    is_committed("docs/reference/keys.md", &page);
}
