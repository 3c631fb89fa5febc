//! The content-based paper: which thread of a network processor gets which cell of a frame.

mod figure2;
mod machine;

use crate::harness::{Experiment, family};

/// Every experiment of the paper.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    family(&[figure2::Figure2])
}
