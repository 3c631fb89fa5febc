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
        Self { title: title.to_owned(), description: description.to_owned(), size, body: compact(body) }
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

/// Joins lines that follow each other and look alike into one path, and leaves defaults out. A dashed line is drawn
/// as one element for each dash; so a plot takes half the bytes.
fn compact(body: &str) -> String {
    let body = body.replace(" opacity=\"1\"", "");
    let mut text = String::new();
    let mut open = None;
    for line in body.split_inclusive('\n') {
        let Some((look, points)) = polyline(line) else {
            text.push_str(if open.take().is_some() { "\"/>\n" } else { "" });
            text.push_str(line);
            continue;
        };
        if open != Some(look) {
            text.push_str(if open.is_some() { "\"/>\n" } else { "" });
            let _ = write!(text, "<path {look} d=\"");
            open = Some(look);
        }
        let _ = write!(text, "M{}", points.trim_end());
    }
    text.push_str(if open.is_some() { "\"/>\n" } else { "" });
    text
}

/// Returns the attributes of a line but its points, and its points, if this is a line with points.
fn polyline(line: &str) -> Option<(&str, &str)> {
    let (look, points) = line.strip_prefix("<polyline ")?.split_once(" points=\"")?;
    let (points, end) = points.split_once('"')?;
    (end.trim() == "/>" && !points.trim().is_empty()).then_some((look, points))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_of_a_line_become_one_path() {
        let dash = |points: &str, stroke: &str| {
            format!("<polyline opacity=\"1\" stroke=\"{stroke}\" points=\"{points} \"/>\n")
        };
        let body =
            ["<a/>\n", &dash("1,2 3,4", "red"), &dash("5,6 7,8", "red"), &dash("1,1 2,2", "blue"), "<b/>\n"].concat();
        let paths = "<path stroke=\"red\" d=\"M1,2 3,4M5,6 7,8\"/>\n<path stroke=\"blue\" d=\"M1,1 2,2\"/>\n";
        assert_eq!(compact(&body), format!("<a/>\n{paths}<b/>\n"));
        assert_eq!(compact(&dash("1,2 3,4", "red")), "<path stroke=\"red\" d=\"M1,2 3,4\"/>\n");
        let empty = "<polyline points=\"\"/>\n";
        assert_eq!(compact(empty), empty);
    }
}
