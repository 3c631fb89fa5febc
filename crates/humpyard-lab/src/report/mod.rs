//! A comparison as a page for readers who did not run it: what was run, the result in words, plots with their numbers beside,
//! and how to run it again. The page is one file, which fetches nothing and needs no script.

mod page;
mod plots;
mod ranks;

use std::io::Write;
use std::path::Path;

use humpyard_traffic::capture::PartialFile;

use crate::plot::Svg;
use crate::{Comparison, LabError};
pub(crate) use page::drawing;

/// A page that is to be written.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// Its title.
    pub title: &'a str,
    /// What else there is to say of what was run, a paragraph; may be empty.
    pub about: &'a str,
    /// What makes it again.
    pub command: &'a str,
    /// What it is about.
    pub comparison: &'a Comparison,
    /// Pictures at its beginning.
    pub pictures: &'a [Svg],
}

impl Report<'_> {
    /// The page, as HTML that is well-formed XML too.
    pub fn html(&self) -> String {
        page::page(self).into_string()
    }
}

/// A file that a report will be written to, under a hidden name until it is there: so a place that cannot be written is
/// known before the work is done.
#[derive(Debug)]
pub struct ReportFile {
    file: PartialFile,
    path: String,
}

impl ReportFile {
    /// Makes sure that there can be such a file.
    ///
    /// # Errors
    /// A place that cannot be written.
    pub fn create(path: &str) -> Result<Self, LabError> {
        let file = PartialFile::create(Path::new(path)).map_err(|error| unwritable(path, &error))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(mut self, text: &str) -> Result<(), LabError> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| unwritable(&self.path, &error))?;
        self.file.finish().map_err(|error| unwritable(&self.path, &error))
    }
}

fn unwritable(path: &str, error: &std::io::Error) -> LabError {
    LabError::option(format!("cannot write `{path}`: {error}"))
}
