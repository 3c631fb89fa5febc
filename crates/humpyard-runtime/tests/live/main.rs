//! Live runs of every policy on real threads: no packet is lost, flows keep their order, and every
//! run ends in an orderly way.

mod accounts;
mod delay;
mod ends;
mod link;
mod marks;
mod order;
mod panics;
mod several;
mod support;
mod turns;
mod watching;
