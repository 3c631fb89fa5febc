//! Finds the real captures that tests of every crate read.

use std::env;
use std::path::PathBuf;

/// Returns the directory of real captures, with its `MANIFEST.csv`: that of the environment variable
/// `HUMPYARD_TRACES`, else `../shared/traces` beside the checkout. `None`: it does not exist; tests then skip
/// with a message.
///
/// # Panics
/// If the directory is missing and the environment variable `CI` is `true`: there it must exist.
pub fn traces_directory() -> Option<PathBuf> {
    let directory = env::var_os("HUMPYARD_TRACES")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"), PathBuf::from);
    if directory.join("MANIFEST.csv").is_file() {
        return Some(directory);
    }
    let ci = env::var("CI").is_ok_and(|value| value == "true");
    assert!(!ci, "no real captures in {}; set HUMPYARD_TRACES to their directory", directory.display());
    None
}

/// One capture of the directory, as its manifest describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManifestEntry {
    /// Path below the directory.
    pub file: String,
    /// Packets that can be read from it.
    pub packets: u64,
}

/// Reads the manifest of a directory of captures.
///
/// # Panics
/// If there is none, or it is invalid.
pub fn manifest(directory: &std::path::Path) -> Vec<ManifestEntry> {
    let path = directory.join("MANIFEST.csv");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines();
    let header = fields(lines.next().unwrap_or_default());
    let column = |name: &str| {
        header.iter().position(|field| field == name).unwrap_or_else(|| panic!("{}: no column {name}", path.display()))
    };
    let (file, packets) = (column("file"), column("packets"));
    lines
        .map(fields)
        .map(|row| ManifestEntry {
            file: row[file].clone(),
            packets: row[packets].parse().unwrap_or_else(|error| panic!("{}: {row:?}: {error}", path.display())),
        })
        .collect()
}

/// Splits a line of comma-separated values, some in quotes.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().expect("there is always one field").push(other),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_keep_their_commas() {
        assert_eq!(fields("a,\"b,c\",,d"), ["a", "b,c", "", "d"]);
    }
}
