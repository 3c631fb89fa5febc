//! What the tests of sharing policies share.

use alloc::string::String;
use alloc::vec::Vec;

use humpyard_core::id::{ClientId, Id};
use humpyard_core::mechanism::AlwaysReady;
use humpyard_core::policy::{Build, Setup, Share};
use humpyard_core::unit::Weight;

use crate::testing::setup;

/// PROPORTIONAL_SHARE section 1, set A.
pub(crate) const A: [u32; 3] = [3, 2, 1];
/// Set B: the six clients of the GR3 paper.
pub(crate) const B: [u32; 6] = [12, 3, 3, 2, 2, 2];
/// Set V, with the work of [`v_work`].
pub(crate) const V: [u32; 3] = [2, 1, 1];

/// The work of the nth packet of a client of set V.
pub(crate) fn v_work(client: ClientId, number: u64) -> u32 {
    const WORK: [[u32; 4]; 3] = [[4, 6, 2, 8], [5, 1, 9, 3], [10, 10, 10, 10]];
    WORK[client.index()][number as usize % 4]
}

pub(crate) fn weights_of(weights: &[u32]) -> Vec<Weight> {
    weights.iter().map(|&weight| Weight::new(weight).expect("a positive weight")).collect()
}

/// Whom a policy serves, on one processor with always-ready clients, as a string of numbers from 1.
pub(crate) fn sequence<Q: Share + Build>(
    params: &Q::Params,
    weights: &[u32],
    slots: usize,
    longest: u64,
    work: impl FnMut(ClientId, u64) -> u32,
) -> String {
    let weights = weights_of(weights);
    let setup = Setup { longest, ..setup(1, weights.len(), &weights) };
    let clients = (0..weights.len()).map(ClientId::from_index);
    let mut ready = AlwaysReady::new(&setup, clients, work, || Q::new(params, &setup)).expect("valid parameters");
    (0..slots)
        .map(|_| {
            let served = ready.step().next().flatten().expect("work conserving");
            char::from_digit(served.client.0 + 1, 36).expect("few clients")
        })
        .collect()
}

/// As [`sequence`], with packets of work 1.
pub(crate) fn unit_sequence<Q: Share + Build>(params: &Q::Params, weights: &[u32], slots: usize) -> String {
    sequence::<Q>(params, weights, slots, 1, |_, _| 1)
}
