//! Every package that is built has a permissive licence, or is one of a few exceptions.
//!
//! `deny.toml` has the same rule for `cargo deny check licenses bans sources`, which also checks
//! the packages of other platforms.

use std::collections::BTreeSet;
use std::process::Command;

/// Licences that only require attribution.
const PERMISSIVE: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "WTFPL",
    "Zlib",
];

/// Packages with another licence, and why they may be used.
const EXCEPTIONS: [(&str, &str, &str); 1] =
    [("cbindgen", "MPL-2.0", "a test makes the C header with it; no library or program contains it")];

/// Returns whether an SPDX expression can be satisfied with licences for which `is_allowed` holds. A slash is an old
/// `OR`; operators may have small letters.
fn is_satisfied(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let operator = |word| match word {
        "or" => "OR",
        "and" => "AND",
        "with" => "WITH",
        other => other,
    };
    let words: Vec<&str> = spaced.split_whitespace().map(operator).collect();
    let mut rest = words.as_slice();
    let satisfied = any(&mut rest, is_allowed);
    assert!(rest.is_empty(), "`{expression}` is no licence expression from `{}` on", rest.join(" "));
    satisfied
}

/// Reads all alternatives; a true one does not end the reading.
fn any(words: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut satisfied = all(words, is_allowed);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        satisfied |= all(words, is_allowed);
    }
    satisfied
}

/// Reads licences that hold together.
fn all(words: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut satisfied = one(words, is_allowed);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        satisfied &= one(words, is_allowed);
    }
    satisfied
}

/// Reads a licence, or an expression in brackets.
fn one(words: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let satisfied = any(words, is_allowed);
            let [")", rest @ ..] = *words else { panic!("a bracket is not closed before `{}`", words.join(" ")) };
            *words = rest;
            satisfied
        }
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            is_allowed(&format!("{licence} WITH {exception}"))
        }
        [licence, rest @ ..] => {
            *words = rest;
            is_allowed(licence)
        }
        [] => panic!("a licence is missing"),
    }
}

#[test]
fn expressions_are_read_as_spdx_has_it() {
    let is_mit_or_isc = |licence: &str| matches!(licence, "MIT" | "ISC");
    for (expression, satisfied) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 or MIT", true),
        ("GPL-3.0 and MIT", false),
        ("GPL-3.0 AND MIT", false),
        ("MIT AND ISC", true),
        ("GPL-3.0 AND ISC OR MIT", true),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", false),
        ("(MIT OR GPL-3.0) AND ISC", true),
        ("MIT WITH LLVM-exception", false),
    ] {
        assert_eq!(is_satisfied(expression, &is_mit_or_isc), satisfied, "{expression}");
    }
}

#[test]
fn every_package_is_permissive_or_an_exception() {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--locked", "--offline", "--workspace", "--all-features", "--prefix", "none"]);
    let output = tree.args(["--format", "{l}|{p}"]).output().expect("cargo starts");
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    // A package is there for each that needs it; behind all but the first is a star.
    let packages: BTreeSet<(&str, &str)> =
        text.lines().filter_map(|line| line.trim_end_matches(" (*)").split_once('|')).collect();
    assert!(packages.len() > 200, "{packages:?}");
    let mut excepted = BTreeSet::new();
    for (licence, package) in packages {
        let name = package.split(' ').next().unwrap_or(package);
        let exception = EXCEPTIONS.iter().find(|(excepted, ..)| *excepted == name);
        excepted.extend(exception.map(|(name, ..)| *name));
        let is_allowed = |licence: &str| {
            PERMISSIVE.contains(&licence) || exception.is_some_and(|&(_, allowed, _)| allowed == licence)
        };
        assert!(!licence.is_empty(), "{package} says no licence");
        assert!(
            is_satisfied(licence, &is_allowed),
            "{package} is `{licence}`, which is not permissive: use another package, or say in EXCEPTIONS and \
             `deny.toml` why it may be used"
        );
    }
    assert_eq!(excepted.len(), EXCEPTIONS.len(), "an exception is not needed any more; there are {excepted:?}");
}
