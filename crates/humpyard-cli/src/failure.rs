//! Why a command was not done, in one line.

use core::any::Any;
use core::error::Error;
use core::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use humpyard::lab::LabError;

use crate::moved::moved;
use crate::visible::visible;

/// Why a command was not done, in one line.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// Words of clap and of the standard library, and plainer ones.
const WORDS: [(&str, &str); 5] = [
    (" tip: ", "; "),
    ("invalid digit found in string", "not a whole number"),
    ("number too large to fit in target type", "too large a number"),
    ("invalid float literal", "not a number"),
    ("cannot parse integer from empty string", "empty"),
];

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// What clap says in a paragraph, in one line.
    pub(crate) fn usage(error: &clap::Error) -> Self {
        if let (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) =
            (error.kind(), error.get(ContextKind::InvalidArg))
            && let Some(instead) = moved(option.trim_start_matches('-'))
        {
            return Self(format!("no option `{option}`; use {instead}"));
        }
        let text = error.render().to_string();
        let said =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("For more information"));
        let said: Vec<&str> = said.take_while(|line| !line.starts_with("Usage:")).collect();
        let said = WORDS.iter().fold(said.join(" "), |said, (of_clap, plain)| said.replace(of_clap, plain));
        let said = in_range(said.strip_prefix("error: ").unwrap_or(&said));
        Self(format!("{said}; see `--help`"))
    }
}

/// Rewrites `7 is not in 1..=3`, as clap says it, to `it takes 1 to 3`.
fn in_range(said: &str) -> String {
    let found = said.split_once(" is not in ").and_then(|(before, range)| {
        let (first, _) = before.rsplit_once(": ")?;
        let (least, most) = range.split_once("..=")?;
        Some(format!("{first}: it takes {least} to {most}"))
    });
    found.unwrap_or_else(|| said.to_owned())
}

/// Characters of a message that are shown.
const SHOWN: usize = 1 << 12;

impl fmt::Display for Failure {
    /// Writes one line of bounded length. Ends of lines and control characters, which names may contain, become escapes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, rest) = match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => (&self.0[..end], format!("... ({} more bytes)", self.0.len() - end)),
            None => (self.0.as_str(), String::new()),
        };
        write!(f, "{}{rest}", visible(shown).replace('\n', "\\n"))
    }
}

impl<E: Error + 'static> From<E> for Failure {
    /// Names options as they are typed.
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref() {
            Some(LabError::Option(of_option)) => Self(of_option.spelled("--")),
            _ => Self(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn numbers_that_are_none_are_refused_in_plain_words() {
        let said = |typed: &str| {
            let typed = ["humpyard"].into_iter().chain(typed.split(' '));
            Failure::usage(&crate::arguments::Arguments::try_parse_from(typed).unwrap_err()).to_string()
        };
        for (typed, expected) in [
            ("sim --input a --policy rr --cores x", "not a whole number"),
            ("sim --input a --policy rr --cores 99999999999", "99999999999"),
            ("sim --input a --policy rr --loop 0", "0 is less than 1"),
            ("sim --input a --policy rr --loop 99999999999G", "too large a number"),
            ("sim --input a --policy rr --packets 1.5", "not a whole number, such as 200000 or 200k"),
            ("demo --packets 2G", "it takes 1 to 1000000000"),
            ("sim --input a --policy rr --cores 1000000000", "for '--cores <N>': it takes 0 to 16384; see `--help`"),
            ("sim --input a --policy rr --load x", "not a number, such as 0.9 or 90%"),
        ] {
            let said = said(typed);
            assert!(said.contains(expected) && !said.contains("target type") && !said.contains("18446744"), "{said}");
        }
    }

    #[test]
    fn a_failure_is_one_line_of_bounded_length() {
        assert_eq!(Failure::new("a\nb.pcap: no such file").to_string(), "a\\nb.pcap: no such file");
        let long = Failure::new("x".repeat(100_000)).to_string();
        assert!(long.len() < SHOWN + 40 && long.ends_with("... (95904 more bytes)"), "{}", long.len());
    }
}
