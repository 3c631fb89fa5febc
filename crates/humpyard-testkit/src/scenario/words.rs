//! The words of one line.

use humpyard_core::name::unknown;
use humpyard_core::unit::Time;

/// The unread rest of a line.
#[derive(Debug)]
pub(super) struct Words<'a> {
    words: core::str::SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    /// Returns the words of a line without its comment.
    pub(super) fn of(line: &'a str) -> Self {
        Self { words: line.split('#').next().expect("a split has a first part").split_whitespace() }
    }

    pub(super) fn word(&mut self) -> Option<&'a str> {
        self.words.next()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.clone().next().is_none()
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> String {
        self.words.by_ref().collect::<Vec<_>>().join(" ")
    }

    /// Checks that nothing is left.
    pub(super) fn end(&mut self) -> Result<(), String> {
        match self.word() {
            None => Ok(()),
            Some(word) => Err(format!("`{word}` is one word too many: the line ends before it")),
        }
    }

    /// One of these names.
    pub(super) fn choice<T: Copy>(&mut self, what: &str, named: &[(&str, T)]) -> Result<T, String> {
        let word = self.word().unwrap_or_default();
        choose(what, word, named)
    }

    /// A whole number, the value of `owner`.
    pub(super) fn number(&mut self, owner: &str, range: core::ops::RangeInclusive<u64>) -> Result<u64, String> {
        let accepted = || format!("a whole number from {} to {}", range.start(), range.end());
        self.value(owner, accepted, |word| word.parse().ok().filter(|number| range.contains(number)))
    }

    /// Reads a time with its unit.
    pub(super) fn time(&mut self, owner: &str) -> Result<Time, String> {
        self.value(owner, || "a time such as 250ns, 3us, 10ms or 1s".into(), time)
    }

    /// A number in thousandths.
    pub(super) fn thousandths(&mut self, owner: &str) -> Result<u64, String> {
        let accepted = || "a number of at most 3 decimals such as 2 or 0.5".into();
        self.value(owner, accepted, |word| decimal(word, 3))
    }

    /// A percentage, in millionths.
    pub(super) fn percentage(&mut self, owner: &str) -> Result<u32, String> {
        let millionths = |word: &str| {
            let millionths = decimal(word.strip_suffix('%')?, 4)?;
            u32::try_from(millionths).ok().filter(|&millionths| millionths <= 1_000_000)
        };
        self.value(owner, || "a percentage such as 40% or 33.3%".into(), millionths)
    }

    fn value<T>(
        &mut self,
        owner: &str,
        accepted: impl FnOnce() -> String,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, String> {
        match self.word() {
            None => Err(format!("`{owner}` takes {}, and there is none", accepted())),
            Some(word) => read(word).ok_or_else(|| format!("`{owner}` takes {}, not `{word}`", accepted())),
        }
    }
}

/// The one of these names that the word is.
pub(super) fn choose<T: Copy>(what: &str, word: &str, named: &[(&str, T)]) -> Result<T, String> {
    let found = named.iter().find(|(name, _)| *name == word).map(|&(_, value)| value);
    found.ok_or_else(|| unknown(what, word, named.iter().map(|&(name, _)| name)))
}

fn time(word: &str) -> Option<Time> {
    let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &word[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).map(Time::from_ns)
}

/// Reads a number with up to `digits` decimals, multiplied by ten to the power of `digits`.
fn decimal(word: &str, digits: usize) -> Option<u64> {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    if fraction.len() > digits {
        return None;
    }
    format!("{whole}{fraction:0<digits$}").parse().ok()
}
