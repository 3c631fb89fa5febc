//! Sharing: which client does an idle core serve?

pub mod drr;
pub mod eevdf;
pub mod efq;
pub mod efq_warm;
pub mod fcfs;
pub mod gr3;
pub mod gr3mp;
pub mod lap;
pub mod sfq;
pub mod vtrr;
pub mod wf2q_plus;
pub mod wrr;

mod eligible;
mod feasible;
mod group_ratio;
mod slot;
mod tag;
mod tournament;
mod window;

#[cfg(test)]
mod testing;
