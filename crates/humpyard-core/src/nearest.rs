//! The name someone meant.

/// The candidate most like `name`, if any is like it at all.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (candidate, likeness(name, candidate)))
        .filter(|&(_, likeness)| likeness >= 0.5)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(candidate, _)| candidate)
}

/// From 0 to 1; the beginning of a name is as like it as a slip of the pen.
fn likeness(name: &str, candidate: &str) -> f64 {
    let edits = strsim::normalized_damerau_levenshtein(name, candidate);
    if !name.is_empty() && candidate.starts_with(name) { edits.max(0.75) } else { edits }
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_slips_and_beginnings_only() {
        let names = ["drr", "sfq", "everest"];
        assert_eq!(nearest("dr", names), Some("drr"));
        assert_eq!(nearest("ever", names), Some("everest"));
        assert_eq!(nearest("sqf", names), Some("sfq"));
        assert_eq!(nearest("banana", names), None);
        assert_eq!(nearest("", names), None);
    }
}
