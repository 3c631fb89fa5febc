//! A finished drawing.

use std::fmt::Write;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::style::STYLE_SHEET;

/// A plot as SVG.
#[derive(Clone, Debug)]
pub struct Svg {
    title: String,
    description: String,
    size: (u32, u32),
    /// The contents of the `svg` element.
    body: String,
}

impl Svg {
    pub(super) fn draw(
        title: &str,
        description: &str,
        size: (u32, u32),
        draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Box<dyn std::error::Error>>,
    ) -> Self {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
            draw(&area).and_then(|()| Ok(area.present()?)).expect("drawing in memory does not fail");
        }
        let body = text.split_once('>').map_or("", |(_, body)| body).trim_end().trim_end_matches("</svg>");
        Self { title: title.to_owned(), description: description.to_owned(), size, body: body.to_owned() }
    }

    /// Returns an element for a page that holds [`STYLE_SHEET`]. `id` must be unique in the page.
    pub fn inline(&self, id: &str) -> String {
        self.element(id, "")
    }

    /// Returns the text of an SVG file.
    pub fn file(&self) -> String {
        let background = "@media (prefers-color-scheme:dark){:root{background:#16181c}}";
        self.element("plot", &format!("<style>{STYLE_SHEET}{background}</style>"))
    }

    fn element(&self, id: &str, style: &str) -> String {
        let (width, height) = self.size;
        let mut text = String::new();
        let _ = write!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 \
             {width} {height}\" role=\"img\" aria-labelledby=\"{id}-title {id}-description\">\n<title \
             id=\"{id}-title\">{}</title>\n<desc id=\"{id}-description\">{}</desc>\n{style}",
            escaped(&self.title),
            escaped(&self.description)
        );
        text.push_str(&self.body);
        text.push_str("</svg>\n");
        text
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
