//! Answers to names that do not exist.

use alloc::string::String;
use alloc::vec::Vec;

/// A sentence on an unknown name: the nearest valid one where one is near, and all of them.
pub(crate) fn unknown<'a>(what: &str, given: &str, valid: impl Iterator<Item = &'a str> + Clone) -> String {
    let nearest = valid
        .clone()
        .map(|name| (strsim::damerau_levenshtein(given, name), name))
        .filter(|&(distance, name)| distance <= 1 + name.len() / 3)
        .min_by_key(|&(distance, _)| distance);
    let hint = nearest.map_or_else(String::new, |(_, name)| format!("; did you mean `{name}`?"));
    let list: Vec<&str> = valid.collect();
    format!("there is no {what} `{given}`{hint} (there are: {})", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_only_listed() {
        let valid = ["poisson", "messages"];
        assert_eq!(
            unknown("profile", "poison", valid.into_iter()),
            "there is no profile `poison`; did you mean `poisson`? (there are: poisson, messages)"
        );
        assert_eq!(
            unknown("profile", "x", valid.into_iter()),
            "there is no profile `x` (there are: poisson, messages)"
        );
    }
}
