//! Sharing: which client does an idle core serve?

pub mod drr;
pub mod fcfs;
pub mod sfq;

mod tag;

#[cfg(test)]
mod testing;
