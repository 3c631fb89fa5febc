//! Text of inputs that does nothing to a terminal.

use std::borrow::Cow;

/// Text in which control characters, and those that turn the direction of writing, are escapes such as `\u{1b}`: names in files and
/// captures cannot move a terminal's cursor. Ends of lines and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for one in text.chars() {
        if is_hidden(one) { shown.extend(one.escape_unicode()) } else { shown.push(one) }
    }
    shown.into()
}

/// Whether a character changes what a terminal shows beside itself.
fn is_hidden(one: char) -> bool {
    let turns = matches!(one, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || one.is_control() && !matches!(one, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_as_escapes() {
        for (text, expected) in [
            ("a\tb\n", "a\tb\n"),
            ("Grüße → 你好", "Grüße → 你好"),
            ("\u{1b}[2Jgone\r", "\\u{1b}[2Jgone\\u{d}"),
            ("\u{9b}31m\u{7f}\0", "\\u{9b}31m\\u{7f}\\u{0}"),
            ("\u{202e}txt.exe", "\\u{202e}txt.exe"),
        ] {
            assert_eq!(visible(text), expected);
        }
    }
}
