//! A heat map: a darker cell is a greater value.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{INK, LABEL, font, text_width};
use super::svg::Svg;

/// Values by row and column.
#[derive(Clone, Debug)]
pub struct HeatPlot {
    /// The title, in a few words.
    pub title: String,
    /// A description of the plot for readers who cannot see it.
    pub description: String,
    /// What the rows and the columns stand for.
    pub label: String,
    /// The names of the rows, and of the columns.
    pub names: Vec<String>,
    /// The values, row by row. `None`: an empty cell.
    pub values: Vec<Vec<Option<f64>>>,
    /// Formats the value of a cell. Maps with many cells show no values.
    pub format: fn(f64) -> String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Most rows for which the cells show their values.
const WRITTEN: usize = 16;
/// Size of a cell with its value, and of a cell without, in pixels.
const CELLS: (u32, u32) = (56, 14);
/// Room above, for the label and the names of the columns, and below; in pixels.
const ROOM: u32 = 56;
/// The colours of the least and the greatest value.
const ENDS: (RGBColor, RGBColor) = (RGBColor(0xf1, 0xf5, 0xfa), RGBColor(0x00, 0x4a, 0x80));
/// Colours of text in light and in dark cells. Not [`INK`]: cells look the same on every background.
const TEXTS: (RGBColor, RGBColor) = (RGBColor(0, 0, 0), RGBColor(0xff, 0xff, 0xff));

impl HeatPlot {
    /// Draws the plot.
    pub fn svg(&self) -> Svg {
        let (rows, cell) = (self.names.len() as u32, self.cell());
        let left = self.left();
        let width = (left + rows * cell + 12).max(left + text_width(&self.label, LABEL) + 12);
        Svg::draw(&self.title, &self.description, (width, ROOM + rows * cell + 12), |area| self.draw(area))
    }

    fn cell(&self) -> u32 {
        if self.names.len() <= WRITTEN { CELLS.0 } else { CELLS.1 }
    }

    fn left(&self) -> u32 {
        self.names.iter().map(|name| text_width(name, LABEL)).max().unwrap_or(0) + 24
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
        let (left, top, cell) = (self.left() as i32, ROOM as i32, self.cell() as i32);
        let text = |at, h| font(at).color(&INK).pos(Pos::new(h, VPos::Center));
        area.draw(&Text::new(self.label.clone(), (left, 16), text(LABEL, HPos::Left)))?;
        // Small cells: every eighth row has a name.
        let named = if self.names.len() <= WRITTEN { 1 } else { 8 };
        for (at, name) in self.names.iter().enumerate().step_by(named) {
            let middle = at as i32 * cell + cell / 2;
            area.draw(&Text::new(name.clone(), (left + middle, top - 14), text(LABEL, HPos::Center)))?;
            area.draw(&Text::new(name.clone(), (left - 10, top + middle), text(LABEL, HPos::Right)))?;
        }
        let range = self.range();
        for (row, values) in self.values.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let Some(value) = value.filter(|value| value.is_finite()) else { continue };
                let (x, y) = (left + column as i32 * cell, top + row as i32 * cell);
                self.draw_cell(area, (x, y), value, range)?;
            }
        }
        Ok(())
    }

    fn draw_cell(
        &self,
        area: &Area<'_>,
        (x, y): (i32, i32),
        value: f64,
        (low, high): (f64, f64),
    ) -> Result<(), Box<dyn Error>> {
        let cell = self.cell() as i32;
        let part = if high > low { (value - low) / (high - low) } else { 0.0 };
        let colour = between(ENDS.0, ENDS.1, part);
        area.draw(&Rectangle::new([(x + 1, y + 1), (x + cell - 1, y + cell - 1)], colour.filled()))?;
        if self.names.len() <= WRITTEN {
            let ink = if part < 0.5 { TEXTS.0 } else { TEXTS.1 };
            let style = font(LABEL - 2).color(&ink).pos(Pos::new(HPos::Center, VPos::Center));
            area.draw(&Text::new((self.format)(value), (x + cell / 2, y + cell / 2), style))?;
        }
        Ok(())
    }

    /// Returns the least and the greatest value.
    fn range(&self) -> (f64, f64) {
        let values = self.values.iter().flatten().flatten().filter(|value| value.is_finite());
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)))
    }
}

/// Returns the colour at this part of the way between two.
fn between(from: RGBColor, to: RGBColor, part: f64) -> RGBColor {
    let mixed = |from: u8, to: u8| (f64::from(from) + part * (f64::from(to) - f64::from(from))).round() as u8;
    RGBColor(mixed(from.0, to.0), mixed(from.1, to.1), mixed(from.2, to.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(names: usize, value: impl Fn(usize, usize) -> Option<f64>) -> String {
        let values = (0..names).map(|row| (0..names).map(|column| value(row, column)).collect()).collect();
        let names = (0..names).map(|name| format!("<{name}>")).collect();
        let plot = HeatPlot {
            title: "t < u".to_owned(),
            description: "d".to_owned(),
            label: "from & to".to_owned(),
            names,
            values,
            format: |value| format!("{value:.0} ns"),
        };
        plot.svg().file()
    }

    #[test]
    fn cells_have_their_values_and_the_empty_none() {
        let file = plot(3, |row, column| (row != column).then_some(100.0 * (row + column) as f64));
        let document = roxmltree::Document::parse(&file).unwrap_or_else(|error| panic!("{error}: {file}"));
        let count = |name: &str| document.descendants().filter(|node| node.has_tag_name(name)).count();
        assert_eq!((count("rect"), count("text")), (6, 1 + 6 + 6), "{file}");
        assert!(file.contains("300 ns") && file.contains("#F1F5FA") && file.contains("#004A80"), "{file}");
    }

    #[test]
    fn any_values_make_a_picture() {
        for (names, value) in [(0, None), (1, None), (1, Some(5.0)), (2, Some(f64::NAN)), (40, Some(7.0))] {
            let file = plot(names, |_, _| value);
            roxmltree::Document::parse(&file).unwrap_or_else(|error| panic!("{error}: {file}"));
        }
        assert!(!plot(40, |_, _| Some(7.0)).contains("7 ns"));
    }
}
