//! Habits of this repository that no linter knows. Counts may fall but not rise: a change that lowers one lowers its limit here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// `rustfmt` breaks code at this width; comments and texts are left to their writers.
const WIDE_RUST: Limit = Limit { what: "lines of Rust over 120 columns", most: 643 };
/// Tables, commands and links may be wider.
const WIDE_MARKDOWN: Limit = Limit { what: "lines of Markdown prose over 100 columns", most: 13 };
const LONG_FILES: Limit = Limit { what: "files over 700 lines before their tests", most: 1 };
const LONG_FUNCTIONS: Limit = Limit { what: "functions over 70 lines", most: 8 };
const SHARED_NAMES: Limit = Limit { what: "types whose name another type of the crate has", most: 254 };
/// The one that is left is in the text of a generated payload, which must not change.
const ODD_PHRASES: Limit = Limit { what: "phrases that have to be read twice", most: 1 };

/// Phrases that have to be read twice, each with plainer words.
const PHRASES: [(&str, &str); 14] = [
    ("so many ", "up to N, or the number itself"),
    ("so much ", "up to N, or the amount itself"),
    ("is told ", "returns, reports, prints"),
    ("are told ", "return, report, print"),
    ("comes of it", "the result"),
    ("came of it", "the result"),
    ("none is never", "`None`: never"),
    ("none where ", "`None`: ..."),
    ("nothing hangs", "cannot fail the run"),
    ("is what it is", "name it"),
    ("what is typed", "options on the command line"),
    ("and who says so", "and their source"),
    ("whoever ", "name the subject"),
    ("of which nothing is left", "drop it"),
];

/// The most that there may be of something.
struct Limit {
    what: &'static str,
    most: usize,
}

impl Limit {
    /// Panics if there are more, or so few that the limit is too high.
    fn hold(&self, found: &[String]) {
        let (count, Self { what, most }) = (found.len(), self);
        assert!(count <= *most, "{count} {what}, at most {most}:\n{}", found.join("\n"));
        assert!(count + 10 + most / 20 >= *most, "only {count} {what} are left: lower the limit from {most}");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the source tree")
}

/// Returns the files of the source tree with this extension: their paths from its root, and their
/// texts.
fn files(extension: &str) -> Vec<(String, String)> {
    let (root, mut found) = (root(), Vec::new());
    let mut left: Vec<PathBuf> = ["crates", "docs", "examples"].iter().map(|part| root.join(part)).collect();
    let mut paths: Vec<PathBuf> = entries(&root);
    while let Some(directory) = left.pop() {
        let (directories, files): (Vec<PathBuf>, Vec<PathBuf>) =
            entries(&directory).into_iter().partition(|path| path.is_dir());
        left.extend(directories.into_iter().filter(|path| !path.ends_with("target")));
        paths.extend(files);
    }
    for path in paths.into_iter().filter(|path| path.extension().is_some_and(|found| found == extension)) {
        let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        found.push((name, fs::read_to_string(&path).expect("text")));
    }
    found.sort();
    found
}

/// Returns the entries of a directory, without hidden names.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).map(|entry| entry.path()).collect()
}

/// The text of a file before its tests.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

/// Returns the Rust files that are no tests, benchmarks or examples, each without its tests.
fn sources() -> Vec<(String, String)> {
    let is_source =
        |path: &str| !["/tests/", "/tests.rs", "/benches/", "/examples/"].iter().any(|part| path.contains(part));
    let files = files("rs").into_iter().filter(|(path, _)| is_source(path));
    files.map(|(path, text)| (path, code(&text).to_owned())).collect()
}

/// Returns the matching lines, each with its file and number.
fn lines(files: &[(String, String)], is_found: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files {
        let numbered = (1..).zip(text.lines()).filter(|(_, line)| is_found(line));
        found.extend(numbered.map(|(number, line)| format!("{path}:{number}: {}", line.trim())));
    }
    found
}

#[test]
fn lines_fit() {
    WIDE_RUST.hold(&lines(&files("rs"), |line| line.chars().count() > 120));
    let is_prose = |line: &str| !line.starts_with('|') && !line.starts_with("    ") && !line.contains("](");
    WIDE_MARKDOWN.hold(&lines(&files("md"), |line| line.chars().count() > 100 && is_prose(line)));
}

#[test]
fn files_and_functions_are_short() {
    let files = sources();
    let long = files.iter().map(|(path, text)| (path, text.lines().count())).filter(|(_, lines)| *lines > 700);
    LONG_FILES.hold(&long.map(|(path, lines)| format!("{path}: {lines} lines")).collect::<Vec<_>>());
    let functions = files.iter().flat_map(|(path, text)| long_functions(path, text));
    LONG_FUNCTIONS.hold(&functions.collect::<Vec<_>>());
}

/// Returns the functions of a formatted file with more than 70 lines: from `fn` to the closing
/// brace with the same indent.
fn long_functions(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_function = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || *word == "const");
        words.next() == Some("fn") && !line.ends_with(';') && !line.ends_with('}')
    };
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate().filter(|(_, line)| is_function(line)) {
        let is_end = |other: &str| indent(other) == indent(line) && other.trim() == "}";
        let length = lines[start..].iter().position(|other| is_end(other)).map_or(0, |end| end + 1);
        if length > 70 {
            found.push(format!("{path}:{}: {length} lines: {}", start + 1, line.trim()));
        }
    }
    found
}

/// The type that a line declares.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split([' ', '<', '(', '{', ';', ':']).filter(|word| !word.is_empty());
    let is_visibility = |word: &&str| word.starts_with("pub") || ["crate)", "super)"].contains(word);
    let keyword = words.by_ref().find(|word| !is_visibility(word))?;
    ["struct", "enum", "trait"].contains(&keyword).then(|| words.next()).flatten()
}

#[test]
fn a_name_means_one_thing_in_a_crate() {
    let mut names: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (path, text) in sources() {
        let part = path.split('/').nth(1).unwrap_or_default();
        for name in text.lines().filter_map(|line| declared(line.trim_start())) {
            names.entry((part.to_owned(), name.to_owned())).or_default().push(path.clone());
        }
    }
    let shared = names.into_iter().filter(|(_, paths)| paths.len() > 1);
    let shared = shared.flat_map(|((_, name), paths)| paths.into_iter().map(move |path| format!("{name}: {path}")));
    SHARED_NAMES.hold(&shared.collect::<Vec<_>>());
}

#[test]
fn sentences_are_plain() {
    let mut all = files("rs");
    all.extend(files("md"));
    all.retain(|(path, _)| !path.ends_with("tidy.rs"));
    let odd = |line: &str| PHRASES.iter().any(|(phrase, _)| line.to_lowercase().contains(phrase));
    ODD_PHRASES.hold(&lines(&all, odd));
}

#[test]
fn links_lead_somewhere() {
    let root = root();
    let mut dead = Vec::new();
    for (path, text) in files("md") {
        let directory = root.join(&path).parent().expect("a directory").to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let is_elsewhere = file.is_empty() || file.contains("://") || file.contains(' ');
            if !is_elsewhere && !directory.join(file).exists() {
                dead.push(format!("{path}: {link}"));
            }
        }
    }
    assert!(dead.is_empty(), "links to nothing:\n{}", dead.join("\n"));
}
