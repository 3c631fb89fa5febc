//! Configuration files: the options of `run`, `sim` and `compare`, as TOML.
//!
//! A key is the long name of an option, and a value becomes the text that the option takes: names, values, defaults and
//! checks are declared once, in [`crate::arguments`]. A list or a table becomes an option that is given several times.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use clap::{Arg, ArgAction, CommandFactory};
use humpyard::lab::{OPTIONS, RuleChoice};
use humpyard::name::unknown;
use humpyard::text::read_text;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::moved::moved;

/// The commands that take a configuration.
pub(crate) const COMMANDS: [&str; 3] = ["run", "sim", "compare"];

/// Those that take the same file, where it says anything that they know.
const ALSO: [&str; 3] = ["recommend", "validate", "why"];

/// Options that are no part of a configuration: how to be told of the result.
const NOT_KEYS: [&str; 5] = ["config", "help", "json", "quiet", "version"];

/// A configuration file.
#[derive(Debug)]
pub(crate) struct ConfigurationFile {
    path: String,
    /// Where its lines start, in bytes.
    lines: Vec<usize>,
    items: Vec<Item>,
}

/// One option of a file, as often as it is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Item {
    /// The long name of the option.
    pub(crate) key: String,
    /// Its value; none if it is a flag.
    text: Option<String>,
    /// Where it is, in bytes.
    start: usize,
    /// What a rule says, each with its place.
    parts: Vec<(String, usize)>,
}

impl Item {
    fn new(key: &str, text: Option<String>, start: usize) -> Self {
        Self { key: key.to_owned(), text, start, parts: Vec::new() }
    }
}

impl ConfigurationFile {
    /// Reads a file.
    pub(crate) fn read(path: &str) -> Result<Self, Failure> {
        let unreadable = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => Failure::new(format!("{path}: there is no such configuration file")),
            std::io::ErrorKind::InvalidData => {
                Failure::new(format!("{path}: this is no text, so no configuration file"))
            }
            std::io::ErrorKind::IsADirectory => Failure::new(format!("{path}: this is a directory; name a file in it")),
            _ => Failure::new(format!("{path}: the configuration file cannot be read: {error}")),
        };
        Self::parse(path, &read_text(path).map_err(unreadable)?)
    }

    fn parse(path: &str, text: &str) -> Result<Self, Failure> {
        let lines = core::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut file = Self { path: path.to_owned(), lines, items: Vec::new() };
        let table = DeTable::parse(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let said = error.message().lines().collect::<Vec<_>>().join("; ");
            file.slip(start, &format!("this is no TOML: {said}"))
        })?;
        let options = options();
        let mut entries: Vec<_> = table.get_ref().iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            file.add(&options, key.get_ref(), key.span().start, value)?;
        }
        file.items.sort_by_key(|item| item.start);
        Ok(file)
    }

    /// Adds what a key says.
    fn add(&mut self, options: &[Arg], key: &str, start: usize, value: &Spanned<DeValue<'_>>) -> Result<(), Failure> {
        let name = key.replace('_', "-");
        let Some(option) = options.iter().find(|option| option.get_long() == Some(&name)) else {
            let unknown = || unknown("key", key, options.iter().filter_map(Arg::get_long));
            let said = moved(&name).map_or_else(unknown, |instead| format!("no key `{key}`; use {instead}"));
            return Err(self.slip(start, &said));
        };
        let at = value.span().start;
        let several = matches!(option.get_action(), ArgAction::Append);
        match value.get_ref() {
            DeValue::Boolean(set) if is_flag(option) => {
                if *set {
                    self.items.push(Item::new(&name, None, at));
                }
                return Ok(());
            }
            _ if is_flag(option) => return Err(self.slip(at, &format!("`{key}` is true or false"))),
            DeValue::Array(list) if several => {
                for element in list {
                    let (text, parts) = self.occurrence(&name, element)?;
                    self.items.push(Item { parts, ..Item::new(&name, Some(text), element.span().start) });
                }
            }
            DeValue::Table(table) if several && takes_pairs(option) && name != RULE => {
                for (entry, value) in table.iter() {
                    let text = format!("{}={}", entry.get_ref(), self.text(key, value, "+")?);
                    self.items.push(Item::new(&name, Some(text), entry.span().start));
                }
            }
            _ => {
                let (text, parts) = if name == RULE {
                    self.occurrence(&name, value)?
                } else {
                    (self.text(key, value, ",")?, Vec::new())
                };
                self.items.push(Item { parts, ..Item::new(&name, Some(text), at) });
            }
        }
        Ok(())
    }

    /// One of the several times that an option is given: for a rule a table of what it says, with the places of that.
    fn occurrence(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<(String, Vec<(String, usize)>), Failure> {
        let DeValue::Table(table) = value.get_ref() else { return Ok((self.text(key, value, "+")?, Vec::new())) };
        if key != RULE {
            return Ok((self.text(key, value, "+")?, Vec::new()));
        }
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let mut rule = RuleChoice::any();
        let (mut parts, mut places) = (Vec::with_capacity(entries.len()), Vec::with_capacity(entries.len()));
        for (name, value) in entries {
            let text = match value.get_ref() {
                DeValue::Boolean(yes) => (if *yes { "yes" } else { "no" }).to_owned(),
                _ => self.text(name.get_ref(), value, "+")?,
            };
            rule.set(name.get_ref(), &text).map_err(|error| self.slip(name.span().start, &error.to_string()))?;
            if text.contains(',') {
                let said = format!("`{}` has a comma in it: several values are a list, [\"a\", \"b\"]", name.get_ref());
                return Err(self.slip(value.span().start, &said));
            }
            parts.push(format!("{}={text}", name.get_ref()));
            places.push((text, name.span().start));
        }
        Ok((parts.join(","), places))
    }

    /// A value as the text that an option takes; the parts of a list are joined.
    fn text(&self, key: &str, value: &Spanned<DeValue<'_>>, join: &str) -> Result<String, Failure> {
        let slip = |said: &str| self.slip(value.span().start, &format!("`{key}` {said}"));
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Ok(number.to_string()),
                Err(_) => Err(slip("is too large a number")),
            },
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(yes) => Ok(yes.to_string()),
            DeValue::Datetime(_) => Err(slip("takes no date; quote it if it is text")),
            DeValue::Array(list) => {
                let parts: Result<Vec<String>, Failure> = list.iter().map(|part| self.text(key, part, "+")).collect();
                Ok(parts?.join(join))
            }
            DeValue::Table(_) => Err(slip("takes a value, not a table")),
        }
    }

    /// The line of the file in which this key is first given, from 1.
    pub(crate) fn line_of(&self, key: &str) -> Option<usize> {
        self.items.iter().find(|item| item.key == key).map(|item| self.position(item.start).0)
    }

    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How often this key is given.
    pub(crate) fn count(&self, key: &str) -> usize {
        self.items.iter().filter(|item| item.key == key).count()
    }

    fn position(&self, start: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|&line| line <= start);
        (line, start - self.lines[line - 1] + 1)
    }

    fn slip(&self, start: usize, said: &str) -> Failure {
        let (line, column) = self.position(start);
        Failure::new(format!("{}:{line}:{column}: {said}", self.path))
    }

    /// The command line that this file and what was typed make together: what was typed counts, and an option of the file
    /// that does not go with it is left out. `kept` says which items count at all.
    pub(crate) fn merged(&self, typed: &[OsString], kept: &dyn Fn(usize) -> bool) -> Result<Vec<OsString>, Failure> {
        let root = Arguments::command();
        let command = typed.get(1).and_then(|name| root.find_subcommand(name)).expect("a command with a configuration");
        let typed_names = names(typed);
        let is_typed = |long: &str| typed_names.contains(long);
        let live = is_typed("live") || self.items.iter().any(|item| item.key == "live");
        // The option of a key, unless what was typed or the other host leaves it out.
        let option_of = |key: &str| -> Option<&Arg> {
            let option = command.get_arguments().find(|option| option.get_long() == Some(key))?;
            let conflicts = |typed: &Arg| {
                let of = |one: &Arg, other: &Arg| {
                    command.get_arg_conflicts_with(one).iter().any(|arg| arg.get_id() == other.get_id())
                };
                of(typed, option) || of(option, typed)
            };
            let mut others = command.get_arguments().filter(|other| other.get_long().is_some_and(is_typed));
            let is_overridden = others.any(|other| other.get_id() == option.get_id() || conflicts(other));
            let is_left_out = is_overridden || (command.get_name() == "compare" && is_of_other_host(key, live));
            (!is_left_out).then_some(option)
        };
        let mut known: BTreeMap<&str, Option<&Arg>> = BTreeMap::new();
        let mut merged = typed[..2].to_vec();
        for (_, item) in self.items.iter().enumerate().filter(|(at, _)| kept(*at)) {
            let Some(option) = *known.entry(&item.key).or_insert_with(|| option_of(&item.key)) else { continue };
            if !matches!(option.get_action(), ArgAction::Append) && self.count(&item.key) > 1 {
                let said = format!(
                    "`{}` has several values, and `{}` takes one: give --{}",
                    item.key,
                    command.get_name(),
                    item.key
                );
                return Err(self.slip(item.start, &said));
            }
            let value = item.text.as_ref().map_or(String::new(), |text| format!("={text}"));
            merged.push(format!("--{}{value}", item.key).into());
        }
        merged.extend_from_slice(&typed[2..]);
        Ok(merged)
    }

    /// Says where in the file the cause of a failure is. `attempt` tries a command line, and answers how it fails.
    pub(crate) fn blame(
        &self,
        typed: &[OsString],
        failure: Failure,
        attempt: &dyn Fn(Vec<OsString>) -> Result<(), Failure>,
    ) -> Failure {
        let said = failure.to_string();
        // What names an option that was typed is not of the file.
        if names(typed).iter().any(|option| said.strip_prefix("--").is_some_and(|said| said.starts_with(option))) {
            return failure;
        }
        let with = |kept: &dyn Fn(usize) -> bool| {
            let merged = self.merged(typed, kept).map(|merged| with_required(&merged));
            merged.and_then(attempt).err().map(|failure| failure.to_string())
        };
        if with(&|_| true).as_ref() != Some(&said) || with(&|_| false).as_ref() == Some(&said) {
            return failure;
        }
        let found = if let Some(rule) = self.rule_of(&said) {
            Some(rule)
        } else if self.items.len() > FEW {
            Some(self.first_with(&|end| with(&|at| at < end).as_ref() == Some(&said)))
        } else {
            let places = || 0..self.items.len();
            let alone = |at: &usize| with(&|kept| kept == *at).as_ref() == Some(&said);
            let without = |at: usize| with(&|kept| kept != at);
            let found = places().find(alone).or_else(|| places().find(|&at| without(at).is_none()));
            found.or_else(|| places().find(|&at| without(at).as_ref() != Some(&said)))
        };
        match found {
            Some(at) => {
                let item = &self.items[at];
                let said = said.strip_prefix(&format!("--{}: ", item.key)).unwrap_or(&said);
                self.slip(item.place_of(said), &format!("`{}`: {said}", item.key))
            }
            None => Failure::new(format!("{}: {said}", self.path)),
        }
    }
}

impl Item {
    /// The place of what a message is about: of a rule, the part whose value the message names behind the rule itself.
    fn place_of(&self, said: &str) -> usize {
        let about = said.split_once("`: ").map_or("", |(_, about)| about);
        let is_named = |text: &str| text.split('+').any(|one| about.contains(&format!("`{one}`")));
        self.parts.iter().find(|(text, _)| is_named(text)).map_or(self.start, |&(_, start)| start)
    }
}

impl ConfigurationFile {
    /// The item of the rule whose number a message begins with. Rules of the file come before those that were typed.
    fn rule_of(&self, said: &str) -> Option<usize> {
        let (number, _) = said.strip_prefix("--rule: ").unwrap_or(said).strip_prefix("rule ")?.split_once(',')?;
        let number: usize = number.parse().ok()?;
        let mut rules = (0..self.items.len()).filter(|&at| self.items[at].key == RULE);
        rules.nth(number.checked_sub(1)?)
    }

    /// An item with which a failure comes, found by halving: `fails` says whether the items before this place have it.
    fn first_with(&self, fails: &dyn Fn(usize) -> bool) -> usize {
        let (mut without, mut with) = (0, self.items.len());
        while with - without > 1 {
            let middle = without + (with - without) / 2;
            *(if fails(middle) { &mut with } else { &mut without }) = middle;
        }
        with - 1
    }
}

/// Up to this many items, each is tried, for the best place. Of more, the one with the failure is found by halving.
const FEW: usize = 100;

/// The option whose values are tables of their own.
pub(crate) const RULE: &str = "rule";

/// A comparison is of one host: options of the other do not count.
fn is_of_other_host(key: &str, live: bool) -> bool {
    let is_live_only = || OPTIONS.iter().any(|option| option.name == key && option.is_live_only());
    if live { key == "cores" } else { key == "workers" || is_live_only() }
}

/// What is required and not there, so that the rest can be looked at.
pub(crate) fn with_required(merged: &[OsString]) -> Vec<OsString> {
    let there = names(merged);
    let mut whole = merged.to_vec();
    for (name, value) in [("input", "gen:poisson:packets=2"), ("policy", "fcfs")] {
        if !there.contains(name) {
            whole.push(format!("--{name}={value}").into());
        }
    }
    whole
}

/// The long names of the options that were typed.
fn names(typed: &[OsString]) -> BTreeSet<String> {
    let options = typed.iter().filter_map(|argument| argument.to_str()?.strip_prefix("--"));
    options.map(|option| option.split('=').next().unwrap_or_default().to_owned()).collect()
}

/// The file that was typed as `--config`, with a command that takes one.
pub(crate) fn typed_file(typed: &[OsString]) -> Option<String> {
    let command = typed.get(1)?.to_str()?;
    let takes_one = COMMANDS.contains(&command) || ALSO.contains(&command);
    if !takes_one || typed.iter().any(|argument| argument == "--help" || argument == "-h") {
        return None;
    }
    let mut arguments = typed.iter().filter_map(|argument| argument.to_str());
    arguments.find_map(|argument| Some(argument.strip_prefix("--config")?.to_owned())).and_then(|rest| {
        match rest.strip_prefix('=') {
            Some(path) => Some(path.to_owned()),
            None => {
                let at = typed.iter().position(|argument| argument == "--config")?;
                typed.get(at + 1)?.to_str().map(str::to_owned)
            }
        }
    })
}

/// Every option that can be a key, by name. One that a command takes several times can be given so.
pub(crate) fn options() -> Vec<Arg> {
    let mut root = Arguments::command();
    root.build();
    let mut options: Vec<Arg> = Vec::new();
    for command in COMMANDS.iter().filter_map(|name| root.find_subcommand(name)) {
        for option in command.get_arguments() {
            let Some(long) = option.get_long().filter(|long| !NOT_KEYS.contains(long)) else { continue };
            match options.iter_mut().find(|known| known.get_long() == Some(long)) {
                Some(known) if matches!(option.get_action(), ArgAction::Append) => *known = option.clone(),
                Some(_) => {}
                None => options.push(option.clone()),
            }
        }
    }
    options.sort_by(|a, b| a.get_long().cmp(&b.get_long()));
    options
}

pub(crate) fn is_flag(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::SetTrue)
}

/// Whether its values read NAME=VALUE.
pub(crate) fn takes_pairs(option: &Arg) -> bool {
    option.get_value_names().is_some_and(|names| names.iter().any(|name| name.contains('=')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> ConfigurationFile {
        ConfigurationFile::parse("a.toml", text).unwrap()
    }

    fn slip(text: &str) -> String {
        ConfigurationFile::parse("a.toml", text).unwrap_err().to_string()
    }

    fn merged(text: &str, typed: &str) -> String {
        let typed: Vec<OsString> = ["humpyard"].into_iter().chain(typed.split(' ')).map(OsString::from).collect();
        let merged = file(text).merged(&typed, &|_| true).unwrap();
        merged.iter().skip(1).map(|argument| argument.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    const FILE: &str = "input = \"a.pcap\"
policy = [\"rr\", \"hrw\"]
cores = 0x4
load = 0.9
weights = [3, 2]
workers = 3
in-flight = 2

[services]
web = \"forward\"
rest = \"forward:icmp-burst=8\"

[chain]
web = [\"rest\", \"rest\"]

[[rule]]
port = [80, \"8000-8099\"]
fragment = false
service = \"web\"
";

    #[test]
    fn values_become_what_options_take() {
        let rest = "--services=web=forward --services=rest=forward:icmp-burst=8 --chain=web=rest+rest \
                    --rule=port=80+8000-8099,fragment=no,service=web";
        assert_eq!(
            merged(FILE, "sim --policy drr"),
            format!("sim --input=a.pcap --cores=4 --load=0.9 --weights=3,2 {rest} --policy drr")
        );
        assert_eq!(
            merged(FILE, "compare"),
            format!("compare --input=a.pcap --policy=rr --policy=hrw --cores=4 --load=0.9 --weights=3,2 {rest}")
        );
        assert!(merged(FILE, "compare --live").contains("--weights=3,2 --workers=3 --in-flight=2"));
        // What was typed counts, and what does not go with it does not.
        let typed = merged(FILE, "compare --rate=10 --weights 1 --services forward");
        assert!(!typed.contains("--load") && !typed.contains("3,2") && !typed.contains("web=forward "), "{typed}");
    }

    #[test]
    fn slips_are_told_with_their_place() {
        for (text, expected) in [
            ("cores = 2\nplicy = 1", "a.toml:2:1: no key `plicy`; did you mean `policy`? There are: "),
            ("config = 1", "a.toml:1:1: no key `config`"),
            ("cores = ", "a.toml:1:"),
            ("input = {a = 1}", "a.toml:1:9: `input` takes a value, not a table"),
            ("live = 3", "a.toml:1:8: `live` is true or false"),
            ("\n[[rule]]\nprot = 6", "a.toml:3:1: no key of a rule `prot`"),
            ("[[rule]]\nport = \"80,443\"", "a.toml:2:1: `port` takes 1 to 65535"),
            ("[[rule]]\nclient = \"a,b\"", "a.toml:2:10: `client` has a comma in it"),
            ("input = 1979-05-27", "a.toml:1:9: `input` takes no date"),
            ("cores = 99999999999999999999", "a.toml:1:9: `cores` is too large"),
        ] {
            let said = slip(text);
            assert!(said.starts_with(expected) && !said.contains('\n'), "{text}: {said}");
        }
        let typed = ["humpyard", "run"].map(OsString::from);
        let said = file("policy = [\"a\", \"b\"]").merged(&typed, &|_| true).unwrap_err().to_string();
        assert!(said.contains("a.toml:1:11: `policy` has several values, and `run` takes one"), "{said}");
    }

    #[test]
    fn the_file_that_was_typed_is_found() {
        let typed = |text: &str| typed_file(&text.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(typed("humpyard sim --config a.toml"), Some("a.toml".to_owned()));
        assert_eq!(typed("humpyard run --json --config=a.toml"), Some("a.toml".to_owned()));
        for none in ["humpyard", "humpyard list --config a", "humpyard sim --config", "humpyard sim --config a --help"]
        {
            assert_eq!(typed(none), None, "{none}");
        }
    }

    #[test]
    fn every_option_has_one_form() {
        let options = options();
        assert!(options.len() > 30);
        for pair in options.windows(2) {
            assert!(pair[0].get_long() < pair[1].get_long());
        }
    }
}
