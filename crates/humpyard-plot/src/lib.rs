//! What people look at: plots, pages, figures with units, and statistics of repetitions.
//!
//! Plots are SVG: lines, distributions and bars, with error bars, surfaces, and maps of values, shaped like those of papers.
//!
//! They can be told apart without colours (by dashes, markers and labels), follow a light or dark background, and say what
//! they show to those who do not see them: a title, and a description that the caller writes.

#![forbid(unsafe_code)]

mod axis;
mod bar;
mod bound;
pub mod figures;
mod heat;
mod line;
mod page;
pub mod statistics;
mod style;
mod surface;
mod svg;

pub use axis::{Axis, Scale};
pub use bar::{Bar, BarGroup, BarPlot};
pub use bound::{BoundPlot, BoundRow};
pub use heat::HeatPlot;
pub use line::{Line, LinePlot, Point};
pub use page::page;
pub use style::STYLE_SHEET;
pub use surface::{Sheet, SurfacePlot};
pub use svg::Svg;
