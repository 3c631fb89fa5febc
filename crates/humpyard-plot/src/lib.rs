//! Output for people: plots, pages, figures with units, and statistics of repetitions.
//!
//! Plots are SVG: lines, distributions, bars with error bars, surfaces, and maps of values.
//!
//! They need no colours: dashes, markers and labels tell lines apart. They follow a light or dark background.
//! Each has a title, and a description by the caller for readers who cannot see it.
//!
//! [`LinePlot`], [`BarPlot`], [`HeatPlot`] and [`SurfacePlot`] each draw an [`Svg`]; [`page()`] puts them on a
//! page.
//!
//! ```
//! use humpyard_plot::{Axis, Line, LinePlot, Scale, figures};
//!
//! let axis = |label: &str, format| Axis { label: label.to_owned(), scale: Scale::Linear, range: None, format };
//! let plot = LinePlot {
//!     title: "Delay by load".to_owned(),
//!     description: "The delay grows from 1 us at load 0.1 to 9 us at load 0.9.".to_owned(),
//!     x: axis("load", |load| format!("{load:.1}")),
//!     y: axis("delay", figures::time),
//!     lines: vec![Line {
//!         name: "drr".to_owned(),
//!         points: vec![(0.1, 1_000.0).into(), (0.5, 2_000.0).into(), (0.9, 9_000.0).into()],
//!     }],
//! };
//! let svg = plot.svg().inline("delay");
//! assert!(svg.starts_with("<svg") && svg.contains("Delay by load"));
//! assert_eq!(figures::time(9_000.0), "9.00 us");
//! ```

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
