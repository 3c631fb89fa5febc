//! Live runs of every policy on real threads: nothing is lost, flows keep their order, and every end is an orderly one.

mod accounts;
mod delay;
mod ends;
mod link;
mod marks;
mod order;
mod panics;
mod several;
mod support;
mod watching;
