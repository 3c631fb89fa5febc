//! The harness: runs experiments, keeps finished parts, writes data, verdicts and pages. Also the building
//! blocks of experiments.

mod claim;
mod comparison;
mod cost;
mod directory;
mod elsewhere;
mod expected;
mod experiment;
mod findings;
mod judged;
mod kept;
mod options;
mod outcome;
mod page;
mod parts;
mod plot;
mod reproduce;
mod row;
mod run;
mod scratch;
mod select;
mod standing;
mod statistics;
mod summary;

#[cfg(test)]
pub(crate) mod testing;
mod timing;
mod watch;

#[cfg(test)]
pub(crate) use claim::{claim, claims};
pub use cost::Cost;
pub(crate) use cost::cost;
pub use directory::Reproduced;
pub(crate) use elsewhere::{keep_part, missing_parts, run_part};
#[cfg(test)]
pub(crate) use expected::expected;
pub(crate) use experiment::family;
pub use experiment::{About, Experiment, Figure, Note, Plots, Scale};
use humpyard_lab::table;
pub use humpyard_lab::table::{Column, Kind, Row, Table, TableRow, Value};
pub use judged::ClaimVerdict;
pub use options::{Missing, ReproduceOptions, Reproduction};
pub use outcome::Outcome;
#[cfg(test)]
pub(crate) use page::{Shown, groups, paper};
pub(crate) use parts::split;
pub(crate) use plot::{bar, bar_of, group, line, logarithmic, whole};
pub(crate) use reproduce::{find, reproduce};
pub(crate) use row::{columns, rows};
pub(crate) use run::{held_order, unstopped};
pub(crate) use scratch::create as scratch_directory;
pub(crate) use select::Rows;
pub use statistics::short;
pub(crate) use statistics::{Range, ascending, listed, mean, rank_correlation};
#[cfg(test)]
pub(crate) use summary::summary;
#[cfg(test)]
pub(crate) use timing::BRIEF;
pub(crate) use timing::{EFFORT, Effort, Timing, measure, summary as summary_of_batches, thread_time};
pub(crate) use watch::{Sees, Watched};
