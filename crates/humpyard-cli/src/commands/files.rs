//! Files that are written: none of them over an input, and no two under one name.

use std::path::{Path, PathBuf, absolute};

use humpyard::traffic::capture::destination;
use humpyard::traffic::source::is_interface;

use crate::failure::Failure;

/// Refuses an output, with the option that names it, that is also an input or another output.
pub(crate) fn distinct(inputs: &[String], outputs: &[(&str, Option<&str>)]) -> Result<(), Failure> {
    let is_file = |path: &str| !matches!(path, "-" | "null:") && !path.starts_with("gen:") && !is_interface(path);
    let read = inputs.iter().filter(|path| is_file(path));
    let read: Vec<PathBuf> =
        read.flat_map(|path| [Some(place(path)), Path::new(path).canonicalize().ok()]).flatten().collect();
    let mut written: Vec<(&str, PathBuf)> = Vec::new();
    for &(option, path) in outputs {
        let Some(path) = path.filter(|path| is_file(path)) else { continue };
        let place = place(path);
        if read.contains(&place) {
            return Err(Failure::new(format!("{option} would replace an input, `{path}`: name another file")));
        }
        if let Some((other, _)) = written.iter().find(|(_, other)| *other == place) {
            return Err(Failure::new(format!(
                "{option} and {other} are both `{path}`: name another file for one of them"
            )));
        }
        written.push((option, place));
    }
    Ok(())
}

/// Where a name leads to, through links.
fn place(path: &str) -> PathBuf {
    let path = destination(Path::new(path)).unwrap_or_else(|_| PathBuf::from(path));
    let path = absolute(&path).unwrap_or(path);
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(directory)), Some(name)) => directory.join(name),
        _ => path,
    }
}
