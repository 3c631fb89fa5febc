//! Numbers beside their bounds, a line for each bound.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{Axis, Places};
use super::style::{BAR, GRID, INK, LABEL, MISSED, font, text_width};
use super::svg::Svg;

/// Numbers over one axis, each line with its own bound.
#[derive(Clone, Debug)]
pub struct BoundPlot {
    /// The title, in a few words.
    pub title: String,
    /// A description of the plot for readers who cannot see it.
    pub description: String,
    /// The axis of the numbers.
    pub value: Axis,
    /// A value that a vertical line marks through all rows.
    pub mark: f64,
    /// The lines, from the top down.
    pub rows: Vec<BoundRow>,
}

/// Numbers with one common bound.
#[derive(Clone, Debug)]
pub struct BoundRow {
    /// The name before the numbers.
    pub name: String,
    /// The least and the greatest number that meet the bound; either may be infinite.
    pub bound: (f64, f64),
    /// The numbers. Those that the axis cannot show are left out.
    pub values: Vec<f64>,
    /// The text behind the numbers.
    pub said: String,
}

/// Width of the part with the numbers, in pixels.
const WIDTH: u32 = 320;
/// Height of a line, in pixels.
const ROW: u32 = 22;
/// Height of the axis and of the room above the lines, in pixels.
const AXIS: u32 = 50;

impl BoundPlot {
    /// Draws the plot. Bands show the bounds. A full dot is a number that meets its bound; a circle is one that
    /// does not.
    pub fn svg(&self) -> Svg {
        let widest = |texts: &mut dyn Iterator<Item = &String>| {
            texts.map(|text| text_width(text, LABEL)).max().unwrap_or(0) + 14
        };
        let left = widest(&mut self.rows.iter().map(|row| &row.name));
        let right = widest(&mut self.rows.iter().map(|row| &row.said));
        let height = self.rows.len().max(1) as u32 * ROW + AXIS + 8;
        Svg::draw(&self.title, &self.description, (left + WIDTH + right, height), |area| self.draw(area, left, right))
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>, left: u32, right: u32) -> Result<(), Box<dyn Error>> {
        let values = self.rows.iter().flat_map(|row| row.values.iter().copied().chain([row.bound.0, row.bound.1]));
        let places = self.value.places(values.filter(|value| value.is_finite()).chain([self.mark]));
        let (first, last) = places.ends;
        let down = self.rows.len().max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .margin_top(6)
            .margin_left(left)
            .margin_right(right)
            .x_label_area_size(AXIS)
            .build_cartesian_2d(places, Places { ends: (down, 0.0), ticks: Vec::new() })?;
        chart
            .configure_mesh()
            .x_desc(&self.value.label)
            .x_label_formatter(&|place| self.value.text(*place))
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .label_style(font(LABEL).color(&INK))
            .axis_desc_style(font(LABEL).color(&INK))
            .draw()?;
        let rows = || (0..).map(|row| f64::from(row) + 0.5).zip(&self.rows);
        let end = |value: f64, open: f64| self.value.place(value).unwrap_or(open);
        chart.draw_series(rows().map(|(at, row)| {
            let ends = [(end(row.bound.0, first), at - 0.4), (end(row.bound.1, last), at + 0.4)];
            Rectangle::new(ends, BAR.mix(0.35).filled())
        }))?;
        if let Some(mark) = self.value.place(self.mark) {
            chart.draw_series([PathElement::new([(mark, 0.0), (mark, down)], INK.stroke_width(1))])?;
        }
        let dots = || {
            rows().flat_map(|(at, row)| {
                row.values.iter().filter_map(move |&value| Some((self.value.place(value)?, at, row.meets(value))))
            })
        };
        chart.draw_series(dots().filter(|dot| dot.2).map(|(x, at, _)| Circle::new((x, at), 4, INK.filled())))?;
        let missed = MISSED.stroke_width(2);
        chart.draw_series(dots().filter(|dot| !dot.2).map(|(x, at, _)| Circle::new((x, at), 4, missed)))?;
        for (at, row) in rows() {
            let style = |side| font(LABEL).color(&INK).pos(Pos::new(side, VPos::Center));
            let ((x_first, y), (x_last, _)) = (chart.backend_coord(&(first, at)), chart.backend_coord(&(last, at)));
            area.draw(&Text::new(row.name.clone(), (x_first - 6, y), style(HPos::Right)))?;
            area.draw(&Text::new(row.said.clone(), (x_last + 6, y), style(HPos::Left)))?;
        }
        Ok(())
    }
}

impl BoundRow {
    /// Returns whether a number meets the bound.
    fn meets(&self, value: f64) -> bool {
        (self.bound.0..=self.bound.1).contains(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_full_where_they_meet_the_bound() {
        let row = |bound, values: &[f64]| BoundRow {
            name: "a claim".to_owned(),
            bound,
            values: values.to_vec(),
            said: "holds".to_owned(),
        };
        let plot = BoundPlot {
            title: "bounds".to_owned(),
            description: String::new(),
            value: Axis::logarithmic("times", |value| format!("{value:.2}")),
            mark: 1.0,
            rows: vec![
                row((0.9, 1.1), &[1.0, 1.05, 3.0]),
                row((1.0, f64::INFINITY), &[2.0, f64::NAN, -1.0]),
                row((f64::NEG_INFINITY, 1.0), &[]),
            ],
        };
        let svg = plot.svg().file();
        let of = |fill: &str| svg.matches(&format!("r=\"4\" {fill}")).count();
        assert_eq!((of("fill=\"#111111\""), of("fill=\"none\"")), (3, 1), "{svg}");
        assert_eq!(svg.matches("a claim").count(), 3);
        roxmltree::Document::parse(&svg).unwrap();
    }

    #[test]
    fn nothing_can_be_drawn() {
        let plot = BoundPlot {
            title: String::new(),
            description: String::new(),
            value: Axis::logarithmic("", |value| value.to_string()),
            mark: 1.0,
            rows: Vec::new(),
        };
        assert!(plot.svg().file().contains("</svg>"));
    }
}
