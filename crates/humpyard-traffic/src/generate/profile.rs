//! The interface of profiles.

use humpyard_core::policy::Params;
use humpyard_core::random::Seed;

use crate::error::TrafficError;
use crate::source::Source;

/// A kind of traffic to generate.
pub(super) trait Profile {
    const NAME: &'static str;
    /// Its description, in one line.
    const SUMMARY: &'static str;
    /// The traffic that it models, and the method.
    const SOURCE: &'static str;
    type Params: Params;

    /// Returns the source; `description` is its full name, and `open` opens the sources that it uses.
    fn open(params: &Self::Params, seed: Seed, description: String, open: Opener) -> OpenedSource;
}

/// A source, or the error of opening it.
pub(crate) type OpenedSource = Result<Box<dyn Source + Send>, TrafficError>;

/// Opens a source by its name.
pub(crate) type Opener = fn(&str, Seed) -> OpenedSource;
