//! Colours, dashes and markers.

use plotters::prelude::*;
use plotters::style::FontDesc;

/// Text and axes.
pub(super) const INK: RGBColor = RGBColor(0x11, 0x11, 0x11);
/// Lines behind the data.
pub(super) const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
/// Bars.
pub(super) const BAR: RGBColor = RGBColor(0x56, 0xb4, 0xe9);
/// Values that miss their bound.
pub(super) const MISSED: RGBColor = RGBColor(0xd5, 0x5e, 0x00);

/// The style sheet with which an [`Svg`](super::Svg) follows a dark background. A page with plots needs it
/// once.
pub const STYLE_SHEET: &str = "\
.plot text{font-family:system-ui,sans-serif}\
@media (prefers-color-scheme:dark){\
.plot [fill=\"#111111\"]{fill:#e8e8e8}.plot [stroke=\"#111111\"]{stroke:#e8e8e8}\
.plot [stroke=\"#DDDDDD\"]{stroke:#444}}";

/// The colours of Okabe and Ito that are visible on white and on black. Neighbours differ in grey, too.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x80, 0x80, 0x80),
];

/// Length of dashes and of the gaps between them, in pixels. `None`: a solid line.
const DASHES: [Option<(i32, i32)>; 4] = [None, Some((8, 4)), Some((2, 3)), Some((14, 5))];

/// The look of a line. The first 16 differ even without colours.
#[derive(Clone, Copy)]
pub(super) struct LineStyle {
    index: usize,
}

impl LineStyle {
    pub(super) const fn new(index: usize) -> Self {
        Self { index }
    }

    pub(super) fn stroke(self) -> ShapeStyle {
        COLOURS[self.index % COLOURS.len()].stroke_width(2)
    }

    pub(super) const fn dash(self) -> Option<(i32, i32)> {
        DASHES[(self.index + self.index / 4) % DASHES.len()]
    }

    /// Returns the marker around (0, 0).
    pub(super) fn marker(self) -> Polygon<(i32, i32)> {
        let outline: &[(i32, i32)] = match self.index % 4 {
            0 => &[(-2, -4), (2, -4), (4, -2), (4, 2), (2, 4), (-2, 4), (-4, 2), (-4, -2)],
            1 => &[(0, -5), (5, 4), (-5, 4)],
            2 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
            _ => &[(0, -6), (5, 0), (0, 6), (-5, 0)],
        };
        Polygon::new(outline, self.stroke().filled())
    }
}

pub(super) fn font(size: u32) -> FontDesc<'static> {
    ("sans-serif", size).into_font()
}

/// Returns the approximate width of a text of this size, in pixels.
pub(super) fn text_width(text: &str, size: u32) -> u32 {
    (text.chars().count() as f64 * f64::from(size) * 0.47).ceil() as u32
}

/// Size of labels, as plotters counts it: about 1.24 pixels of the page to each.
pub(super) const LABEL: u32 = 16;
