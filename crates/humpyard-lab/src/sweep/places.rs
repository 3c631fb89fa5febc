//! Where the file of a sweep has the options of its cells.

use std::collections::BTreeMap;

use humpyard_text::TomlFile;
use toml::de::{DeTable, DeValue};

use super::plan::Cell;
use crate::LabError;

/// Keys of a plan whose tables have options.
const TABLES: [&str; 4] = ["options", "axes", "zip", "sample"];

/// The places of options in the file of a plan, as `FILE:LINE:COLUMN`.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    path: String,
    /// By option: the place of its key under an empty text, then that of each of its texts.
    options: BTreeMap<String, Vec<(String, String)>>,
}

impl Places {
    /// Finds all options of a file.
    pub(super) fn of(file: TomlFile<'_>, root: &DeTable<'_>) -> Self {
        let mut places = Self { path: file.path.to_owned(), options: BTreeMap::new() };
        for value in TABLES.iter().filter_map(|key| root.get(*key)) {
            match value.get_ref() {
                DeValue::Table(table) => places.add(file, table),
                DeValue::Array(list) => {
                    for table in list.iter().filter_map(|one| one.get_ref().as_table()) {
                        places.add(file, table);
                    }
                }
                _ => {}
            }
        }
        places
    }

    fn add(&mut self, file: TomlFile<'_>, table: &DeTable<'_>) {
        for (name, value) in table.iter() {
            let found = self.options.entry(name.get_ref().replace('_', "-")).or_default();
            found.push((String::new(), file.place(name.span().start)));
            let texts = match value.get_ref() {
                DeValue::Array(list) => list.iter().collect(),
                _ => vec![value],
            };
            let texts = texts.into_iter().filter_map(|one| Some((one.get_ref().as_str()?, one.span().start)));
            found.extend(texts.map(|(text, start)| (text.to_owned(), file.place(start))));
        }
    }

    /// Returns the error with its cell and with the place of the option that it is of, or else with the file.
    pub(super) fn blame(&self, cell: &Cell<'_>, error: &LabError) -> LabError {
        let said = format!("{error:#}");
        let option = option_of(error).or_else(|| self.quoted_in(&said, cell));
        let value = option.and_then(|name| cell.settings.iter().find(|(varied, _)| *varied == name));
        let value = value.map_or_else(String::new, |(_, values)| values.join(","));
        let found = option.and_then(|name| self.options.get(name)).map_or(&[] as &[_], Vec::as_slice);
        let exact = found.iter().find(|(text, _)| !value.is_empty() && *text == value);
        let place = exact.or_else(|| found.first()).map_or(&self.path, |(_, place)| place);
        LabError::option(format!("{place}: {cell}: {said}"))
    }

    /// The option whose value in a cell, or else in all cells, a message quotes.
    fn quoted_in<'a>(&'a self, said: &str, cell: &Cell<'a>) -> Option<&'a str> {
        let is_quoted = |text: &str| !text.is_empty() && said.contains(&format!("`{text}`"));
        let varied = cell.settings.iter().find(|(_, values)| is_quoted(&values.join(",")));
        let given = || {
            let found = self.options.iter().find(|(_, places)| places.iter().any(|(text, _)| is_quoted(text)));
            found.map(|(name, _)| name.as_str())
        };
        varied.map(|&(name, _)| name).or_else(given)
    }
}

/// The option that an error is of, where it says so or can be of one alone.
fn option_of(error: &LabError) -> Option<&str> {
    match error {
        LabError::Option(error) => error.option(),
        LabError::Policy(_) => Some("policy"),
        LabError::Traffic(_) => Some("input"),
        LabError::Service(_) => Some("services"),
        _ => None,
    }
}
