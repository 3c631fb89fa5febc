//! The frame of every page: one file, without other scripts or styles, for a light or dark background.

use maud::{Markup, PreEscaped, html};

use crate::STYLE_SHEET;

const STYLE: &str = include_str!("page.css");

/// Returns a page with these contents and this title, which is also its heading. The HTML is well-formed XML.
pub fn page(title: &str, contents: &Markup) -> Markup {
    html! {
        (PreEscaped("<!DOCTYPE html>\n"))
        html lang="en" xmlns="http://www.w3.org/1999/xhtml" {
            head {
                (PreEscaped("<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width\"/>\n\
                             <meta name=\"color-scheme\" content=\"light dark\"/>\n"))
                title { (title) }
                // The styles contain no `<`.
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
