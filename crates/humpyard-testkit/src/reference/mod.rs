//! Reference policies: written to be obviously correct, not fast.

mod arbitrary;
mod naive_eevdf;
mod naive_efq;
mod naive_linux24;
mod naive_qfq;
mod naive_sfq;
mod naive_sfs;
mod naive_virtual_clock;

pub use arbitrary::Arbitrary;
pub use naive_eevdf::NaiveEevdf;
pub use naive_efq::NaiveEfq;
pub use naive_linux24::NaiveLinux24;
pub use naive_qfq::NaiveQfq;
pub use naive_sfq::NaiveSfq;
pub use naive_sfs::NaiveSfs;
pub use naive_virtual_clock::NaiveVirtualClock;
