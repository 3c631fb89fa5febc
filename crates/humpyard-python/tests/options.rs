//! The types of keyword arguments, made of the options of the laboratory: `HUMPYARD_RENEW=1` writes them anew.

use std::env;
use std::fs;
use std::path::Path;

use humpyard::lab::option::{RunCommand, Takes, Times};
use humpyard::lab::{OPTIONS, RunOption, spelled};

const HEAD: &str = r#""""The types of keyword arguments, made of the command line's options by `tests/options.rs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypedDict, Union

if TYPE_CHECKING:
    from .policies import PolicyLike

Text = Union[str, int, float, "PathLike[str]", timedelta]
"""A value as text, or what has one text."""
Texts = Union[Text, Sequence[Union[Text, Mapping[str, Text]]], Mapping[str, Text]]
"""One value or several. A dict is NAME=VALUE for each of its items."""
Swaps = Union[Texts, Mapping[str, "PolicyLike"]]
"""Times, each with the policies that take over."""
"#;

/// The type of the values of an option.
fn value(option: &RunOption) -> String {
    if option.name == "swap" {
        return "Swaps".to_owned();
    }
    match (option.takes, option.times) {
        (Takes::Nothing, _) => "bool".to_owned(),
        (Takes::Whole(..), _) => "int".to_owned(),
        (Takes::Number(_), _) => "float".to_owned(),
        (Takes::OneOf(names), _) => {
            format!("Literal[{}]", names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", "))
        }
        // Of texts with commas lists are taken, too.
        (Takes::Text(name), Times::Once) if !name.contains(',') => "Text".to_owned(),
        (Takes::Time(_), Times::Once) => "Text".to_owned(),
        _ => "Texts".to_owned(),
    }
}

fn class(name: &str, function: &str, command: RunCommand) -> String {
    let options = OPTIONS.iter().filter(|option| option.commands.contains(&command) && option.name != "input");
    let keys = options.map(|option| {
        let keyword = option.name.replace('-', "_");
        let keyword = if keyword == "for" { "for_".to_owned() } else { keyword };
        let help = in_code(&spelled(option.help, MARK));
        let lines = wrapped(&help).join("\n    ");
        format!("    {keyword}: {}\n    \"\"\"{lines}.\"\"\"\n", value(option))
    });
    format!(
        "\n\nclass {name}(TypedDict, total=False):\n    \"\"\"The options of `{function}`.\"\"\"\n\n{}",
        keys.collect::<String>()
    )
}

/// What no text has, before names of options.
const MARK: &str = "\u{1}";

/// A text with names of options, each behind a mark, as keywords in code.
fn in_code(text: &str) -> String {
    let mut parts = text.split(MARK);
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|next: char| !next.is_ascii_lowercase() && next != '-').unwrap_or(part.len());
        said.push_str(&format!("`{}`{}", part[..end].replace('-', "_"), &part[end..]));
    }
    said
}

/// A text in lines that are not too long.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if last.len() + word.len() > 105 {
            lines.push(word.to_owned());
        } else {
            last.push_str(if last.is_empty() { "" } else { " " });
            last.push_str(word);
        }
    }
    lines
}

#[test]
fn keyword_arguments_have_the_types_of_options() {
    let classes = [
        ("SimulateOptions", "simulate", RunCommand::Sim),
        ("RunOptions", "run", RunCommand::Run),
        ("CompareOptions", "compare", RunCommand::Compare),
    ];
    let wanted = classes.map(|(name, function, command)| class(name, function, command)).concat();
    let wanted = format!("{HEAD}{wanted}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/humpyard/_options.py");
    if env::var_os("HUMPYARD_RENEW").is_some() {
        fs::write(&path, &wanted).expect("the types are written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{} is not what the options are: HUMPYARD_RENEW=1 cargo test writes it", path.display());
}
