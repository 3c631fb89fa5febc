//! Surfaces: a figure over two others, seen at a slant from above, as in papers.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::style::{BAR, GRID, INK, LABEL, LineStyle, font};
use super::svg::Svg;

/// Surfaces over a common grid.
#[derive(Clone, Debug)]
pub struct SurfacePlot {
    /// The title, in a few words.
    pub title: String,
    /// A description of the plot for readers who cannot see it.
    pub description: String,
    /// The label of the axis to the right, and the names of its places.
    pub x: (String, Vec<String>),
    /// The label of the axis to the back, and the names of its places.
    pub y: (String, Vec<String>),
    /// The vertical axis.
    pub z: Axis,
    /// The surfaces. The first is drawn first, so later ones should lie above it.
    pub sheets: Vec<Sheet>,
}

/// One surface.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Its name in the legend.
    pub name: String,
    /// The heights, by place along `x`, then along `y`. Heights that are not finite are left out.
    pub heights: Vec<Vec<f64>>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Size of the plot, in pixels.
const SIZE: (u32, u32) = (660, 420);
/// The place of the nearest corner of the floor, in pixels.
const CORNER: (f64, f64) = (92.0, 330.0);
/// The vectors from there to the right end, to the back, and to the top, in pixels.
const ALONG_X: (f64, f64) = (330.0, 24.0);
const ALONG_Y: (f64, f64) = (170.0, -96.0);
const ALONG_Z: (f64, f64) = (0.0, -206.0);

/// Projects a point of the box around the surfaces, whose sides have length 1.
fn projected((x, y, z): (f64, f64, f64)) -> (i32, i32) {
    let along = |corner: f64, x_part: f64, y_part: f64, z_part: f64| {
        (corner + x * x_part + y * y_part + z * z_part).round() as i32
    };
    (along(CORNER.0, ALONG_X.0, ALONG_Y.0, ALONG_Z.0), along(CORNER.1, ALONG_X.1, ALONG_Y.1, ALONG_Z.1))
}

/// Returns the place `index` of `count` on a side of length 1.
fn part(index: usize, count: usize) -> f64 {
    if count > 1 { index as f64 / (count - 1) as f64 } else { 0.5 }
}

impl SurfacePlot {
    /// Draws the plot.
    pub fn svg(&self) -> Svg {
        Svg::draw(&self.title, &self.description, SIZE, |area| {
            let heights = self.sheets.iter().flat_map(|sheet| sheet.heights.iter().flatten().copied());
            let places = self.z.places(heights);
            let (low, high) = places.ends;
            let height = |value: f64| self.z.place(value).map(|place| (place - low) / (high - low));
            self.draw_box(area, &places.ticks, &|place| (place - low) / (high - low))?;
            for (index, sheet) in self.sheets.iter().enumerate() {
                draw_sheet(area, sheet, LineStyle::new(index), &height)?;
            }
            self.draw_legend(area)
        })
    }

    /// Draws the walls behind, the floor, and their labels.
    fn draw_box(&self, area: &Area<'_>, ticks: &[f64], height: &dyn Fn(f64) -> f64) -> Result<(), Box<dyn Error>> {
        let line = |from, to, style: ShapeStyle| PathElement::new([projected(from), projected(to)], style);
        let grid = GRID.stroke_width(1);
        for &tick in ticks {
            let z = height(tick);
            area.draw(&line((0.0, 0.0, z), (0.0, 1.0, z), grid))?;
            area.draw(&line((0.0, 1.0, z), (1.0, 1.0, z), grid))?;
            write(area, &self.z.text(tick), projected((0.0, 0.0, z)), (-8, 0), HPos::Right)?;
        }
        let (xs, ys) = (self.x.1.len(), self.y.1.len());
        for (index, label) in self.x.1.iter().enumerate() {
            let x = part(index, xs);
            area.draw(&line((x, 0.0, 0.0), (x, 1.0, 0.0), grid))?;
            write(area, label, projected((x, 0.0, 0.0)), (0, 12), HPos::Center)?;
        }
        for (index, label) in self.y.1.iter().enumerate() {
            let y = part(index, ys);
            area.draw(&line((0.0, y, 0.0), (1.0, y, 0.0), grid))?;
            write(area, label, projected((1.0, y, 0.0)), (14, -3), HPos::Left)?;
        }
        let ink = INK.stroke_width(1);
        for (from, to) in
            [((0.0, 0.0, 0.0), (1.0, 0.0, 0.0)), ((1.0, 0.0, 0.0), (1.0, 1.0, 0.0)), ((0.0, 0.0, 0.0), (0.0, 0.0, 1.0))]
        {
            area.draw(&line(from, to, ink))?;
        }
        write(area, &self.x.0, projected((0.5, 0.0, 0.0)), (-20, 40), HPos::Center)?;
        write(area, &self.y.0, projected((1.0, 0.5, 0.0)), (48, 26), HPos::Left)?;
        write(area, &self.z.label, (12, 14), (0, 0), HPos::Left)
    }

    fn draw_legend(&self, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
        for (index, sheet) in self.sheets.iter().enumerate() {
            let (style, y) = (LineStyle::new(index), 14 + 20 * index as i32);
            area.draw(&(EmptyElement::at((470, y)) + style.marker()))?;
            write(area, &sheet.name, (484, y), (0, 0), HPos::Left)?;
        }
        Ok(())
    }
}

/// Draws the meshes from back to front, so that near ones cover far ones, and a marker at each place.
fn draw_sheet(
    area: &Area<'_>,
    sheet: &Sheet,
    style: LineStyle,
    height: &dyn Fn(f64) -> Option<f64>,
) -> Result<(), Box<dyn Error>> {
    let xs = sheet.heights.len();
    let ys = sheet.heights.first().map_or(0, Vec::len);
    let at = |x: usize, y: usize| {
        let value = *sheet.heights.get(x)?.get(y)?;
        height(value).map(|z| projected((part(x, xs), part(y, ys), z)))
    };
    for y in (0..ys.saturating_sub(1)).rev() {
        for x in 0..xs.saturating_sub(1) {
            let corners = [at(x, y), at(x + 1, y), at(x + 1, y + 1), at(x, y + 1)].into_iter().flatten();
            let corners: Vec<(i32, i32)> = corners.collect();
            if corners.len() == 4 {
                area.draw(&Polygon::new(corners.clone(), BAR.mix(0.35).filled()))?;
                let outline: Vec<(i32, i32)> = corners.iter().copied().chain([corners[0]]).collect();
                area.draw(&PathElement::new(outline, style.stroke().stroke_width(1)))?;
            }
        }
    }
    for (x, y) in (0..xs).flat_map(|x| (0..ys).map(move |y| (x, y))) {
        if let Some(place) = at(x, y) {
            area.draw(&(EmptyElement::at(place) + style.marker()))?;
        }
    }
    Ok(())
}

fn write(
    area: &Area<'_>,
    text: &str,
    (x, y): (i32, i32),
    (right, down): (i32, i32),
    side: HPos,
) -> Result<(), Box<dyn Error>> {
    let style = font(LABEL).color(&INK).pos(Pos::new(side, VPos::Center));
    Ok(area.draw(&Text::new(text.to_owned(), (x + right, y + down), style))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(sheets: Vec<Sheet>) -> SurfacePlot {
        SurfacePlot {
            title: "a < b".to_owned(),
            description: "d".to_owned(),
            x: ("clients".to_owned(), vec!["32".to_owned(), "64".to_owned()]),
            y: ("sum of weights".to_owned(), vec!["16k".to_owned()]),
            z: Axis::linear("service error", |value| format!("{value:.0}")),
            sheets,
        }
    }

    #[test]
    fn surfaces_are_well_formed_whatever_is_in_them() {
        let sheet = |heights: Vec<Vec<f64>>| Sheet { name: "greatest & least".to_owned(), heights };
        let odd = vec![vec![0.0, f64::NAN], vec![5.0, 7.0], vec![-3.0]];
        for sheets in [vec![], vec![sheet(vec![])], vec![sheet(vec![vec![1.0]; 2]), sheet(odd)]] {
            let file = plot(sheets).svg().file();
            let document = roxmltree::Document::parse(&file).unwrap();
            let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).map(str::trim).collect();
            assert!(texts.contains(&"a < b") && texts.contains(&"sum of weights"), "{texts:?}");
        }
    }

    #[test]
    fn up_is_up_and_the_back_is_behind() {
        let (origin, top, back) = (projected((0.0, 0.0, 0.0)), projected((0.0, 0.0, 1.0)), projected((0.0, 1.0, 0.0)));
        assert!(top.1 < origin.1 && top.0 == origin.0);
        assert!(back.1 < origin.1 && back.0 > origin.0);
    }
}
