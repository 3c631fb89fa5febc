//! The page that `compare`, `demo` and `recommend` write.

use std::env;

use humpyard::lab::Comparison;
use humpyard::lab::report::{Report, ReportFile};

use crate::failure::Failure;

/// A page that will be written. Made before the work is done, so that a bad name is known then.
pub(crate) struct Page(Option<ReportFile>);

impl Page {
    /// The page in this file; `null:` is none.
    pub(crate) fn create(path: Option<&str>) -> Result<Self, Failure> {
        if path == Some("-") {
            return Err(Failure::new("--report takes the name of a file, report.html for example, not `-`"));
        }
        Ok(Self(path.filter(|&path| path != "null:").map(ReportFile::create).transpose()?))
    }

    /// Writes it, if there is something to tell.
    pub(crate) fn write(self, title: &str, about: &str, comparison: &Comparison) -> Result<(), Failure> {
        let Some(file) = self.0.filter(|_| !comparison.runs.is_empty()) else { return Ok(()) };
        let command = command();
        Ok(file.write(&Report { title, about, command: &command, comparison }.html())?)
    }
}

impl Page {
    /// Writes this document, if there is a page.
    pub(crate) fn write_html(self, html: impl FnOnce(&str) -> String) -> Result<(), Failure> {
        let Some(file) = self.0 else { return Ok(()) };
        Ok(file.write(&html(&command()))?)
    }
}

/// The command that is running, as one would type it.
pub(super) fn command() -> String {
    let arguments: Vec<String> = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let words = ["humpyard"].into_iter().chain(arguments.iter().map(String::as_str));
    shlex::try_join(words).unwrap_or_default()
}
