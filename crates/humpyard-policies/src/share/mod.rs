//! Sharing: which client does an idle core serve?

pub mod concord;
pub mod darc;
pub mod drr;
pub mod eevdf;
pub mod efq;
pub mod efq_lap;
pub mod efq_warm;
pub mod fcfs;
pub mod feasible;
pub mod gr3;
pub mod gr3mp;
pub mod jbsq;
pub mod lap;
pub mod linux24;
pub mod linux_o1;
pub mod lottery;
pub mod ps;
pub mod qfq;
pub mod qfq_plus;
pub mod sfq;
pub mod sfs;
pub mod shinjuku;
pub mod srr;
pub mod stride;
pub mod strr;
pub mod t_opt;
pub mod virtual_clock;
pub mod vtrr;
pub mod wf2q_plus;
pub mod wfq;
pub mod wrr;

mod bucket_groups;
mod by_weight;
mod central_queue;
mod columns;
mod eligible;
mod fenwick;
mod finish_order;
mod group_balance;
mod group_client;
mod group_list;
mod group_ratio;
mod offered;
mod partition;
mod ready_queue;
mod slot;
mod sorted_list;
mod surplus_tree;
mod tag;
mod tagged;
mod tournament;
mod virtual_time;
mod window;

#[cfg(test)]
mod testing;
