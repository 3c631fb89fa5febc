//! Why a run cannot be.

use humpyard_core::policy::{BuildError, ParameterError};
use humpyard_runtime::RunError;
use humpyard_services::ServiceError;
use humpyard_sim::SimulationError;
use humpyard_traffic::TrafficError;

/// Why a run cannot be, in one line: what was given, what is accepted, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A policy or the set-up.
    #[error(transparent)]
    Policy(#[from] BuildError),
    /// A parameter.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A source, a sink, or the classifier.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// A service.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The simulator.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// The live driver.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An option.
    #[error("{0}")]
    Option(String),
}

impl LabError {
    pub(crate) fn option(message: impl Into<String>) -> Self {
        Self::Option(message.into())
    }
}
