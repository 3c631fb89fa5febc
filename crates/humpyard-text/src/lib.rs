//! Files of text that people write, read up to a limit, with errors that name line and column.
//!
//! The other crates of humpyard read costs, topologies and configurations by it. [`TomlFile`] is a file in TOML,
//! [`TextError`] an error in one line, and [`quantity`] has times, rates and shares with units.
//!
//! ```
//! use std::time::Duration;
//!
//! use humpyard_text::TomlFile;
//! use humpyard_text::quantity::{parse_bit_rate, parse_duration};
//!
//! let file = TomlFile { path: "costs.toml", text: "source = \"measured\"\nfixd_ns = 12\n" };
//! let table = file.table()?;
//! let error = file.keys(table.get_ref(), "key", &["source", "fixed_ns"]).unwrap_err();
//! assert!(error.to_string().starts_with("costs.toml:2:1: "), "{error}");
//!
//! assert_eq!(parse_duration("250us")?, Duration::from_micros(250));
//! assert_eq!(parse_bit_rate("10Mbit"), Some(1e7));
//! # Ok::<(), humpyard_text::TextError>(())
//! ```

#![forbid(unsafe_code)]

pub mod quantity;

use std::fs::File;
use std::io::{self, Read};

use humpyard_core::name::unknown;
use humpyard_core::policy::BuildError;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The most bytes that are read of a file of text.
pub const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Reads a file of text: a configuration, costs, a topology, rules.
///
/// # Errors
/// As [`std::fs::read_to_string`], and [`io::ErrorKind::FileTooLarge`] for more than [`TEXT_BYTES_MAX`], which a device may have without end.
pub fn read_text(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        let said = format!("it is longer than {} MiB, the most that is read", TEXT_BYTES_MAX >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, said));
    }
    Ok(text)
}

/// Why a file of text is refused, in one line: where it is wrong, and what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TextError(String);

impl TextError {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl From<BuildError> for TextError {
    fn from(error: BuildError) -> Self {
        Self(error.to_string())
    }
}

/// A file in TOML whose errors name line and column.
#[derive(Clone, Copy, Debug)]
pub struct TomlFile<'a> {
    /// Its name.
    pub path: &'a str,
    /// What it says.
    pub text: &'a str,
}

impl<'a> TomlFile<'a> {
    /// Returns the whole file.
    ///
    /// # Errors
    /// Text that is no TOML.
    pub fn table(&self) -> Result<Spanned<DeTable<'a>>, TextError> {
        DeTable::parse(self.text).map_err(|error| {
            let said = error.message().lines().collect::<Vec<_>>().join("; ");
            self.slip(error.span().map_or(0, |span| span.start), &format!("this is no TOML: {said}"))
        })
    }

    /// Returns the value of `source`, empty where it is left out.
    ///
    /// # Errors
    /// A source that is no text.
    pub fn source(&self, table: &DeTable<'_>) -> Result<String, TextError> {
        let Some(source) = table.get("source") else { return Ok(String::new()) };
        let DeValue::String(said) = source.get_ref() else {
            return Err(self.slip(source.span().start, "`source` is a text, in quotes"));
        };
        Ok(said.to_string())
    }

    /// Returns the error of what is wrong at this byte.
    pub fn slip(&self, start: usize, said: &str) -> TextError {
        TextError::new(format!("{}: {said}", self.place(start)))
    }

    /// Returns the place of this byte, as `FILE:LINE:COLUMN`.
    pub fn place(&self, start: usize) -> String {
        let before = &self.text.as_bytes()[..start.min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        format!("{}:{line}:{column}", self.path)
    }

    /// Rejects keys that are not among these.
    ///
    /// # Errors
    /// Another key; the message names the nearest.
    pub fn keys(&self, table: &DeTable<'_>, what: &str, known: &[&str]) -> Result<(), TextError> {
        match table.iter().find(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
            Some((key, _)) => Err(self.slip(key.span().start, &unknown(what, key.get_ref(), known.iter().copied()))),
            None => Ok(()),
        }
    }

    /// Returns a number from 0 to 1e12. `None`: the key is left out.
    ///
    /// # Errors
    /// Anything else.
    pub fn number(&self, table: &DeTable<'_>, key: &str) -> Result<Option<f64>, TextError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        match number(value.get_ref()) {
            Some(number) => Ok(Some(number)),
            None => {
                Err(self.slip(value.span().start, &format!("`{key}` takes a number from 0 to 1e12, 12.5 for example")))
            }
        }
    }
}

/// More than any figure may be: a quarter of an hour, in ns.
const LARGEST: f64 = 1e12;

/// Returns the value as a number from 0 to 1e12. `None`: it is none.
pub fn number(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        DeValue::Integer(number) => number.as_str().parse::<f64>().ok(),
        DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
        _ => None,
    };
    number.filter(|number| (0.0..=LARGEST).contains(number))
}

/// Writes a text in quotes as TOML takes it.
pub fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|one| match one {
        '"' | '\\' => format!("\\{one}"),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        one if one.is_control() => format!("\\u{:04x}", u32::from(one)),
        one => one.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_has_no_end_is_refused() {
        let said = read_text("/dev/zero").unwrap_err();
        assert_eq!(said.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(said.to_string(), "it is longer than 64 MiB, the most that is read");
    }

    #[test]
    fn what_is_quoted_is_read_as_it_was() {
        for text in ["", "a \"b\" \\ c", "tab\tline\nbell\u{7}", "Grüße"] {
            let file = format!("source = {}", quoted(text));
            let file = TomlFile { path: "a.toml", text: &file };
            assert_eq!(file.source(file.table().unwrap().get_ref()).unwrap(), text);
        }
    }

    #[test]
    fn a_file_is_read_as_it_is() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all("policy = \"drr\"\n".as_bytes()).unwrap();
        assert_eq!(read_text(file.path().to_str().unwrap()).unwrap(), "policy = \"drr\"\n");
        assert_eq!(read_text("/no/such").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
