//! The page that `compare`, `demo` and `recommend` write.

use std::borrow::Cow;

use humpyard::lab::Comparison;
use humpyard::lab::plot::Svg;
use humpyard::lab::report::{Report, ReportFile};

use crate::caller;
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
        self.write_with(title, about, comparison, &[])
    }

    /// Writes it with these pictures at its beginning, if there is something to tell.
    pub(crate) fn write_with(
        self,
        title: &str,
        about: &str,
        comparison: &Comparison,
        pictures: &[Svg],
    ) -> Result<(), Failure> {
        let Some(file) = self.0.filter(|_| !comparison.runs.is_empty()) else { return Ok(()) };
        let command = command();
        Ok(file.write(&Report { title, about, command: &command, comparison, pictures }.html())?)
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
    let words = caller::typed();
    let arguments = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
    quoted(&["humpyard".to_owned()].into_iter().chain(arguments).collect::<Vec<_>>())
}

/// Joins words to a command that a shell takes apart again. A word with control characters is quoted as `$'...'`, in one line.
pub(super) fn quoted(words: &[String]) -> String {
    let word = |word: &String| {
        if !word.contains(char::is_control) {
            return shlex::try_quote(word).map_or_else(|_| word.clone(), Cow::into_owned);
        }
        let escaped = word.chars().map(|one| match one {
            '\n' => "\\n".to_owned(),
            '\'' | '\\' => format!("\\{one}"),
            one if one.is_control() => format!("\\u{:04x}", u32::from(one)),
            one => one.to_string(),
        });
        format!("$'{}'", escaped.collect::<String>())
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_line_whatever_its_words_hold() {
        let words = ["humpyard", "sim", "my in.pcap", "evil\n'name\u{1b}[31m.pcap"].map(str::to_owned);
        assert_eq!(quoted(&words), "humpyard sim 'my in.pcap' $'evil\\n\\'name\\u001b[31m.pcap'");
    }
}
