//! Horizontal bars, so that long names are readable.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{Axis, Places};
use super::style::{BAR, GRID, INK, LABEL, font, text_width};
use super::svg::Svg;

/// Groups of bars over one axis, from the top down.
#[derive(Clone, Debug)]
pub struct BarPlot {
    /// The title, in a few words.
    pub title: String,
    /// A description of the plot for readers who cannot see it.
    pub description: String,
    /// The axis of the values, which is linear.
    pub value: Axis,
    /// The groups.
    pub groups: Vec<BarGroup>,
}

/// A group of bars.
#[derive(Clone, Debug)]
pub struct BarGroup {
    /// The name of the group.
    pub name: String,
    /// The bars, from the top down.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The name before the bar; may be empty.
    pub name: String,
    /// The length of the bar.
    pub value: f64,
    /// The two ends of an error bar. `None`: no error bar.
    pub error: Option<(f64, f64)>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Width of the part with the bars, in pixels.
const WIDTH: u32 = 300;
/// Height of a bar with the room around it, in pixels.
const ROW: u32 = 20;
/// Room between groups, in bars.
const GAP: f64 = 0.6;
/// Height of the axis and of the room above the bars, in pixels.
const AXIS: u32 = 50;

impl BarPlot {
    /// Draws the plot.
    pub fn svg(&self) -> Svg {
        let widest =
            |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| text_width(text, LABEL)).max().unwrap_or(0);
        let groups = widest(&mut self.groups.iter().map(|group| &group.name)) + 14;
        let bars = widest(&mut self.groups.iter().flat_map(|group| &group.bars).map(|bar| &bar.name));
        let bars = if bars > 0 { bars + 10 } else { 0 };
        let values =
            widest(&mut self.bars().map(|(_, bar)| (self.value.format)(bar.value)).collect::<Vec<_>>().iter()) + 14;
        let height = (self.rows() * f64::from(ROW)) as u32 + AXIS + 8;
        let left = groups + bars;
        Svg::draw(&self.title, &self.description, (left + WIDTH + values, height), |area| {
            self.draw_chart(area, left, bars, values)
        })
    }

    /// Returns the height of all groups, in bars.
    fn rows(&self) -> f64 {
        self.groups.iter().map(|group| group.bars.len() as f64 + GAP).sum::<f64>().max(1.0)
    }

    /// Returns the bars, each with its place from the top.
    fn bars(&self) -> impl Iterator<Item = (f64, &Bar)> {
        self.tops().flat_map(|(top, group)| (0..).map(move |index| top + f64::from(index) + 0.5).zip(&group.bars))
    }

    /// Returns the groups, each with its upper edge.
    fn tops(&self) -> impl Iterator<Item = (f64, &BarGroup)> {
        self.groups.iter().scan(GAP / 2.0, |next, group| {
            let top = *next;
            *next += group.bars.len() as f64 + GAP;
            Some((top, group))
        })
    }

    fn draw_chart(&self, area: &Area<'_>, left: u32, bars: u32, values: u32) -> Result<(), Box<dyn Error>> {
        let ends = self.value.places(self.bars().flat_map(|(_, bar)| {
            let (low, high) = bar.error.unwrap_or((bar.value, bar.value));
            [bar.value, low, high]
        }));
        let mut chart = ChartBuilder::on(area)
            .margin_top(6)
            .margin_left(left)
            .margin_right(values)
            .x_label_area_size(AXIS)
            .build_cartesian_2d(ends, Places { ends: (self.rows(), 0.0), ticks: Vec::new() })?;
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
        let shown = || self.bars().filter_map(|(at, bar)| Some((at, self.value.place(bar.value)?, bar)));
        let bar =
            |(at, value, _): (f64, f64, &Bar)| Rectangle::new([(0.0, at - 0.36), (value, at + 0.36)], BAR.filled());
        chart.draw_series(shown().map(bar))?;
        let error = |(at, _, bar): (f64, f64, &Bar)| {
            let (low, high) = bar.error?;
            let (low, high) = (self.value.place(low)?, self.value.place(high)?);
            Some([
                vec![(low, at), (high, at)],
                vec![(low, at - 0.2), (low, at + 0.2)],
                vec![(high, at - 0.2), (high, at + 0.2)],
            ])
        };
        chart
            .draw_series(shown().filter_map(error).flatten().map(|path| PathElement::new(path, INK.stroke_width(1))))?;
        self.write(area, |x, y| chart.backend_coord(&(x, y)), bars)
    }

    /// Writes the names before the bars, and the values behind them.
    fn write(&self, area: &Area<'_>, place: impl Fn(f64, f64) -> (i32, i32), bars: u32) -> Result<(), Box<dyn Error>> {
        let style = |side| font(LABEL).color(&INK).pos(Pos::new(side, VPos::Center));
        for (at, bar) in self.bars() {
            let end = bar.error.map_or(bar.value, |(_, high)| high.max(bar.value));
            if let Some(end) = self.value.place(end) {
                let (x, y) = place(end, at);
                area.draw(&Text::new((self.value.format)(bar.value), (x + 6, y), style(HPos::Left)))?;
            }
            let (x, y) = place(0.0, at);
            area.draw(&Text::new(bar.name.clone(), (x - 6, y), style(HPos::Right)))?;
        }
        for (top, group) in self.tops() {
            let (x, y) = place(0.0, top + group.bars.len() as f64 / 2.0);
            area.draw(&Text::new(group.name.clone(), (x - bars as i32 - 8, y), style(HPos::Right)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(value: f64) -> String {
        format!("{value:.2} %")
    }

    fn plot(groups: usize, bars: usize) -> BarPlot {
        let bar = |index: usize| Bar {
            name: format!("core {index}"),
            value: index as f64 + 0.53,
            error: Some((index as f64, index as f64 + 1.0)),
        };
        let group = |index: usize| BarGroup {
            name: format!("steer=h-cahrw:form=log/share=drr:quantum={index}<>"),
            bars: (0..bars).map(bar).collect(),
        };
        BarPlot {
            title: "busy".to_owned(),
            description: "cores".to_owned(),
            value: Axis::linear("busy", percent),
            groups: (0..groups).map(group).collect(),
        }
    }

    #[test]
    fn every_bar_has_its_value_and_its_name() {
        for (groups, bars) in [(0, 0), (1, 1), (3, 4), (2, 0), (12, 32)] {
            let file = plot(groups, bars).svg().file();
            let document = roxmltree::Document::parse(&file).unwrap_or_else(|error| panic!("{error}: {file}"));
            let text: Vec<&str> = document
                .descendants()
                .filter(|node| node.has_tag_name("text"))
                .filter_map(|node| node.text())
                .map(str::trim)
                .collect();
            let count = |wanted: &str| text.iter().filter(|text| **text == wanted).count();
            assert_eq!(count("core 0"), groups * usize::from(bars > 0));
            assert_eq!(count("0.53 %"), groups * usize::from(bars > 0));
            assert!(groups == 0 || count("steer=h-cahrw:form=log/share=drr:quantum=0<>") == 1, "{text:?}");
        }
    }
}
