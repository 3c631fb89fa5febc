//! The order of two equals.

use serde::{Deserialize, Serialize};

/// The order of two equals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// The lower id.
    #[default]
    Lowest,
    /// The higher id: for the experiments in which the heavy first client must lose ties.
    Highest,
}
