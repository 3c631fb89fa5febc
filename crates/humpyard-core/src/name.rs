//! Names as people write them: finding the one that was meant, and reading `name:key=value,...`.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::policy::ParameterError;

/// Something called for by name, with parameters: `drr`, `drr:quantum=3000,surplus=true`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// The name; whether it is known is not looked at here.
    pub name: String,
    /// The parameters as pairs of name and value, in the order given.
    pub parameters: Vec<(String, String)>,
}

impl FromStr for Named {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, ParameterError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let pairs = rest.split(',').filter(|pair| !pair.trim().is_empty());
        let parameters = pairs.map(|pair| match pair.split_once('=') {
            Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
            None => Err(ParameterError::not_a_pair(name, pair)),
        });
        Ok(Self { name: name.to_owned(), parameters: parameters.collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, (key, value)) in self.parameters.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

/// Says that there is no `what` of this name, which one may have been meant, and which there are.
pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? There are: "),
        None => String::from("there are: "),
    };
    format!("no {what} `{name}`; {hint}{}", known.join(", "))
}

/// Says that there is no `what` of this name, which few may have been meant of too many to be named, and what names them all.
pub fn unknown_of_many<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>, list: &str) -> String {
    let mut like: Vec<(&str, f64)> = known.into_iter().map(|known| (known, likeness(name, known))).collect();
    let all = like.len();
    like.retain(|&(_, likeness)| likeness >= LIKE);
    like.sort_by(|a, b| b.1.total_cmp(&a.1));
    // One that is meant for sure leaves no question.
    let few = if like.first().is_some_and(|&(_, likeness)| likeness >= 1.0) { 1 } else { FEW };
    let near: Vec<String> = like.iter().take(few).map(|(known, _)| format!("`{known}`")).collect();
    let hint = if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(", ")) };
    format!("no {what} `{name}`; {hint}`{list}` has all {all}")
}

/// Names that are told at most of those that may have been meant.
const FEW: usize = 3;
/// From here on a name is like another.
const LIKE: f64 = 0.5;

/// The candidate most like `name`, if any is like it at all.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (candidate, likeness(name, candidate)))
        .filter(|&(_, likeness)| likeness >= LIKE)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(candidate, _)| candidate)
}

/// From 0 to 1, whatever the case; the beginning of a name is as like it as a slip of the pen.
fn likeness(name: &str, candidate: &str) -> f64 {
    // More than twice as many characters, of up to four bytes each, are more edits than characters stay.
    if name.len() > 8 * candidate.len() {
        return 0.0;
    }
    let (name, candidate) = (name.to_lowercase(), candidate.to_lowercase());
    let edits = strsim::normalized_damerau_levenshtein(&name, &candidate);
    if !name.is_empty() && candidate.starts_with(&name) { edits.max(0.75) } else { edits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn finds_slips_and_beginnings_only() {
        let names = ["drr", "sfq", "everest"];
        assert_eq!(nearest("dr", names), Some("drr"));
        assert_eq!(nearest("ever", names), Some("everest"));
        assert_eq!(nearest("sqf", names), Some("sfq"));
        assert_eq!(nearest("DRR", names), Some("drr"));
        assert_eq!(nearest("banana", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"everest".repeat(1 << 20), names), None);
    }

    #[test]
    fn named_reads_back_as_written() {
        for text in ["drr", "drr:quantum=3000", "a:b=c=d,e="] {
            assert_eq!(text.parse::<Named>().unwrap().to_string(), text);
        }
        assert_eq!("drr:".parse::<Named>().unwrap().to_string(), "drr");
        let error = "drr:quantum".parse::<Named>().unwrap_err().to_string();
        assert_eq!(error, "drr: a parameter reads name=value, not `quantum`");
    }

    #[test]
    fn unknown_names_those_there_are() {
        assert_eq!(
            unknown("fruit", "aple", ["apple", "pear"]),
            "no fruit `aple`; did you mean `apple`? There are: apple, pear"
        );
        assert_eq!(unknown("fruit", "kiwi", ["apple"]), "no fruit `kiwi`; there are: apple");
    }

    #[test]
    fn of_many_the_nearest_are_named() {
        let unknown =
            |name: &str| unknown_of_many("fruit", name, ["apple", "apples", "pear", "plea", "apply"], "fruits");
        assert_eq!(unknown("APPLE"), "no fruit `APPLE`; did you mean `apple`? `fruits` has all 5");
        assert_eq!(unknown("appl"), "no fruit `appl`; did you mean `apple`, `apply`, `apples`? `fruits` has all 5");
        assert_eq!(unknown("kiwi"), "no fruit `kiwi`; `fruits` has all 5");
    }
}
