//! What a profile of generated traffic is.

use humpyard_core::policy::Params;
use humpyard_core::random::Seed;

use crate::error::TrafficError;
use crate::source::Source;

/// A kind of traffic that can be generated.
pub(super) trait Profile {
    const NAME: &'static str;
    /// What it is, in one line.
    const SUMMARY: &'static str;
    /// What it models, and how.
    const SOURCE: &'static str;
    type Params: Params;

    /// Makes the source; `description` names it in full. Sources that it is made of are opened by `open`.
    fn open(params: &Self::Params, seed: Seed, description: String, open: Opener) -> OpenedSource;
}

/// A source, or why there is none.
pub(crate) type OpenedSource = Result<Box<dyn Source + Send>, TrafficError>;

/// Opens a source by its name.
pub(crate) type Opener = fn(&str, Seed) -> OpenedSource;
