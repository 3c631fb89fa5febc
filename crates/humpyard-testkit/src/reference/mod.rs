//! Policies to compare with: written to be obviously right, not fast.

mod arbitrary;
mod naive_eevdf;
mod naive_efq;
mod naive_sfq;

pub use arbitrary::Arbitrary;
pub use naive_eevdf::NaiveEevdf;
pub use naive_efq::NaiveEfq;
pub use naive_sfq::NaiveSfq;
