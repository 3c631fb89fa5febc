//! Plots as SVG: lines, distributions and bars, with error bars, surfaces, and maps of values, shaped like those of papers.
//!
//! They can be told apart without colours (by dashes, markers and labels), follow a light or dark background, and say what
//! they show to those who do not see them: a title, and a description that the caller writes.

mod axis;
mod bar;
mod heat;
mod line;
mod style;
mod surface;
mod svg;

pub use axis::{Axis, Scale};
pub use bar::{Bar, BarGroup, BarPlot};
pub use heat::HeatPlot;
pub use line::{Line, LinePlot, Point};
pub use style::STYLE_SHEET;
pub use surface::{Sheet, SurfacePlot};
pub use svg::Svg;
