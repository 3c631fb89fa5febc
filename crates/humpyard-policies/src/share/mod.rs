//! Sharing: which client does an idle core serve?

pub mod drr;
pub mod efq;
pub mod efq_warm;
pub mod fcfs;
pub mod gr3;
pub mod gr3mp;
pub mod lap;
pub mod lottery;
pub mod sfq;
pub mod srr;
pub mod strr;
pub mod vtrr;
pub mod wf2q_plus;
pub mod wrr;

mod by_weight;
mod columns;
mod feasible;
mod fenwick;
mod group_ratio;
mod slot;
mod tag;
mod tournament;
mod window;

#[cfg(test)]
mod testing;
