//! Names as people write them: suggests a name for a misspelt one, and reads `name:key=value,...`.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::policy::ParameterError;

/// A name with parameters: `drr`, `drr:quantum=3000,surplus=true`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// The name; this type does not check whether it is known.
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

/// Returns the message that no `what` has this name, with the nearest known name and the list of
/// known names.
pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? There are: "),
        None => String::from("there are: "),
    };
    format!("no {what} `{name}`; {hint}{}", known.join(", "))
}

/// Returns the message that no `what` has this name, with the few nearest names and the command
/// `list` that lists all.
pub fn unknown_of_many<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>, list: &str) -> String {
    let mut like: Vec<(&str, f64)> = known.into_iter().map(|known| (known, likeness(name, known))).collect();
    let all = like.len();
    like.retain(|&(_, likeness)| likeness >= LIKE);
    like.sort_by(|a, b| b.1.total_cmp(&a.1));
    // A certain match makes the other suggestions unnecessary.
    let few = if like.first().is_some_and(|&(_, likeness)| likeness >= 1.0) { 1 } else { FEW };
    let near: Vec<String> = like.iter().take(few).map(|(known, _)| format!("`{known}`")).collect();
    let hint = if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(", ")) };
    format!("no {what} `{name}`; {hint}`{list}` has all {all}")
}

/// Most names that a message suggests.
const FEW: usize = 3;
/// The least likeness of a name worth suggesting.
const LIKE: f64 = 0.5;

/// Returns the candidate most like `name`. `None`: no candidate is similar.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (candidate, likeness(name, candidate)))
        .filter(|&(_, likeness)| likeness >= LIKE)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(candidate, _)| candidate)
}

/// Returns the likeness from 0 to 1, ignoring case. A beginning of a name counts like a typing
/// error: 0.75 or more.
fn likeness(name: &str, candidate: &str) -> f64 {
    // If `name` has more than twice as many characters, of up to four bytes each, the likeness is
    // below one half.
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
