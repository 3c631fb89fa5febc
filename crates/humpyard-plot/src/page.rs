//! The frame of every page: one file, which fetches no script or style, and follows a light or dark background.

use maud::{Markup, PreEscaped, html};

use crate::STYLE_SHEET;

const STYLE: &str = include_str!("page.css");

/// A page with this title, which is its heading too, and this in it; as HTML that is well-formed XML too.
pub fn page(title: &str, contents: &Markup) -> Markup {
    html! {
        (PreEscaped("<!DOCTYPE html>\n"))
        html lang="en" xmlns="http://www.w3.org/1999/xhtml" {
            head {
                (PreEscaped("<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width\"/>\n\
                             <meta name=\"color-scheme\" content=\"light dark\"/>\n"))
                title { (title) }
                // Nothing in it has a `<`.
                style { (PreEscaped(STYLE)) (PreEscaped(STYLE_SHEET)) }
            }
            body {
                main {
                    h1 { (title) }
                    (contents)
                }
            }
        }
    }
}
