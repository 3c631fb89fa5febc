//! Lines: one figure over another, and distributions.

use std::error::Error;

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::axis::{Axis, Places};
use super::style::{GRID, INK, LABEL, LineStyle, font, text_width};
use super::svg::Svg;

/// Lines over common axes.
#[derive(Clone, Debug)]
pub struct LinePlot {
    /// The title, in a few words.
    pub title: String,
    /// A description of the plot for readers who cannot see it.
    pub description: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

/// One point of a line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// The horizontal value.
    pub x: f64,
    /// The vertical value.
    pub y: f64,
    /// The two ends of a vertical error bar. `None`: no error bar.
    pub error: Option<(f64, f64)>,
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self { x, y, error: None }
    }
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Places, Places>>;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Size of the plot without its legend, in pixels.
const SIZE: (u32, u32) = (620, 340);
/// Most markers on a line. A line with at most this many points has a marker at each.
const MARKERS: usize = 12;
/// Most points of a drawn distribution for each doubling of the value.
const STEPS_PER_DOUBLING: f64 = 16.0;

impl LinePlot {
    /// Returns an empty plot for distribution functions of counts by value (`Histogram::counts`), over a
    /// logarithmic axis. The height at a value is the part of all counts up to that value.
    pub fn distributions(title: impl Into<String>, description: impl Into<String>, x: Axis) -> Self {
        let percent = |part: f64| format!("{:.0} %", 100.0 * part);
        let y = Axis::linear("of packets have at most this", percent).from_to(0.0, 1.0);
        Self { title: title.into(), description: description.into(), x, y, lines: Vec::new() }
    }

    /// Adds a distribution.
    pub fn add_distribution(&mut self, name: impl Into<String>, counts: &[(u64, u64)]) {
        let all: u64 = counts.iter().map(|&(_, count)| count).sum();
        let mut points: Vec<Point> = Vec::new();
        let (mut seen, mut part) = (0, 0.0);
        for (index, &(value, count)) in counts.iter().enumerate() {
            seen += count;
            // A logarithmic axis has no place for 0.
            let x = value.max(1) as f64;
            let near = points.last().is_some_and(|last| (x / last.x).log2() < 1.0 / STEPS_PER_DOUBLING);
            if !near || index + 1 == counts.len() {
                points.push((x, part).into());
                part = seen as f64 / all as f64;
                points.push((x, part).into());
            }
        }
        self.lines.push(Line { name: name.into(), points });
    }

    /// Draws the plot.
    pub fn svg(&self) -> Svg {
        let legend = self.lines.iter().map(|line| text_width(&line.name, LABEL)).max().unwrap_or(0);
        let legend = if self.lines.len() > 1 { legend + 60 } else { 0 };
        let height = SIZE.1.max(self.lines.len() as u32 * ROW as u32 + 60);
        Svg::draw(&self.title, &self.description, (SIZE.0 + legend, height), |area| {
            let (left, right) = area.split_horizontally(SIZE.0);
            self.draw_chart(&left)?;
            if legend > 0 { self.draw_legend(&right) } else { Ok(()) }
        })
    }

    fn draw_chart(&self, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = self.x.places(points().map(|point| point.x));
        let y = self.y.places(points().flat_map(|point| {
            let (low, high) = point.error.unwrap_or((point.y, point.y));
            [point.y, low, high]
        }));
        let cap = 0.006 * (x.ends.1 - x.ends.0);
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .margin_right(28)
            .x_label_area_size(46)
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|place| self.x.text(*place))
            .y_label_formatter(&|place| self.y.text(*place))
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .label_style(font(LABEL).color(&INK))
            .axis_desc_style(font(LABEL).color(&INK))
            .draw()?;
        for (index, line) in self.lines.iter().enumerate() {
            self.draw_line(&mut chart, LineStyle::new(index), line, cap)?;
        }
        Ok(())
    }

    fn draw_line(
        &self,
        chart: &mut Chart<'_, '_>,
        style: LineStyle,
        line: &Line,
        cap: f64,
    ) -> Result<(), Box<dyn Error>> {
        let place = |point: &Point| Some((self.x.place(point.x)?, self.y.place(point.y)?));
        let placed: Vec<(f64, f64)> = line.points.iter().filter_map(place).collect();
        match style.dash() {
            None => chart.draw_series(LineSeries::new(placed.iter().copied(), style.stroke()))?,
            Some((dash, gap)) => {
                chart.draw_series(DashedLineSeries::new(placed.iter().copied(), dash, gap, style.stroke()))?
            }
        };
        let every = placed.len().div_ceil(MARKERS).max(1);
        chart.draw_series(
            placed.iter().skip(every / 2).step_by(every).map(|&at| EmptyElement::at(at) + style.marker()),
        )?;
        let error = |point: &Point| {
            let (low, high) = point.error?;
            let (at, low, high) = (self.x.place(point.x)?, self.y.place(low)?, self.y.place(high)?);
            Some([
                vec![(at, low), (at, high)],
                vec![(at - cap, low), (at + cap, low)],
                vec![(at - cap, high), (at + cap, high)],
            ])
        };
        let bars = line.points.iter().filter_map(error).flatten();
        chart.draw_series(bars.map(|path| PathElement::new(path, style.stroke().stroke_width(1))))?;
        Ok(())
    }

    fn draw_legend(&self, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
        for (index, line) in self.lines.iter().enumerate() {
            let (style, y) = (LineStyle::new(index), 24 + index as i32 * ROW);
            match style.dash() {
                None => area.draw(&PathElement::new([(0, y), (34, y)], style.stroke()))?,
                Some((dash, gap)) => {
                    area.draw(&DashedPathElement::new([(0, y), (34, y)], dash, gap, style.stroke()))?;
                }
            }
            area.draw(&(EmptyElement::at((17, y)) + style.marker()))?;
            area.draw(&Text::new(line.name.clone(), (42, y - 7), font(LABEL).color(&INK)))?;
        }
        Ok(())
    }
}

/// Height of a row of the legend, in pixels.
const ROW: i32 = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(value: f64) -> String {
        format!("{value:.0}")
    }

    fn texts(svg: &Svg) -> Vec<String> {
        let file = svg.file();
        let document = roxmltree::Document::parse(&file).unwrap_or_else(|error| panic!("{error}: {file}"));
        let texts = document.descendants().filter(|node| node.has_tag_name("text") || node.has_tag_name("title"));
        texts.filter_map(|node| node.text()).map(|text| text.trim().to_owned()).collect()
    }

    #[test]
    fn a_distribution_rises_to_one_at_its_greatest_value() {
        let mut plot = LinePlot::distributions("t", "d", Axis::logarithmic("x", plain));
        plot.add_distribution("one", &[(0, 1), (100, 1), (101, 1), (400, 1)]);
        let points: Vec<(f64, f64)> = plot.lines[0].points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(points, [(1.0, 0.0), (1.0, 0.25), (100.0, 0.25), (100.0, 0.5), (400.0, 0.5), (400.0, 1.0)]);
        plot.add_distribution("none", &[]);
        assert!(plot.lines[1].points.is_empty());
    }

    #[test]
    fn plots_are_well_formed_whatever_is_in_them() {
        let line = |name: &str, points: &[(f64, f64)]| Line {
            name: name.to_owned(),
            points: points
                .iter()
                .map(|&point| Point { error: Some((point.1 * 0.5, f64::NAN)), ..point.into() })
                .collect(),
        };
        let mut plot = LinePlot {
            title: "a < b & c".to_owned(),
            description: "d > e".to_owned(),
            x: Axis::linear("x", plain),
            y: Axis::logarithmic("y <&>", plain),
            lines: Vec::new(),
        };
        assert!(texts(&plot.svg()).contains(&"a < b & c".to_owned()));
        for index in 0..30 {
            plot.lines
                .push(line(&format!("line <{index}>"), &[(0.0, 0.0), (1.0, 10.0), (2.0, f64::INFINITY), (3.0, 5.0)]));
        }
        plot.lines.push(line("none", &[]));
        let texts = texts(&plot.svg());
        assert!(texts.contains(&"line <29>".to_owned()) && texts.contains(&"y <&>".to_owned()), "{texts:?}");
    }
}
