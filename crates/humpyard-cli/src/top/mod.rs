//! The screen of `humpyard top`: what is on it, and how it is drawn.

mod screen;
mod view;

pub(crate) use screen::{draw, plain};
pub(crate) use view::{Column, View};
