//! What the tests of steering policies share.

use alloc::vec::Vec;

use humpyard_core::hash::mix;
use humpyard_core::id::{CoreId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, CoreView, Steer, View};
use humpyard_core::unit::Time;

use crate::testing::setup;

pub(crate) fn cores_of<const N: usize>(cores: [u16; N]) -> Vec<CoreId> {
    cores.into_iter().map(CoreId).collect()
}

/// `count` connection keys, each as good as random.
pub(crate) fn keys(count: u64) -> Vec<u64> {
    (0..count).map(|i| mix(i ^ 0x5eed)).collect()
}

/// Where a fresh policy sends packets with these keys (and as Toeplitz hash the key's low bits) on so many idle cores.
pub(crate) fn targets<S: Steer + Build>(params: &S::Params, cores: usize, keys: &[u64]) -> Vec<CoreId> {
    let eligible: Vec<CoreId> = (0..cores).map(CoreId::from_index).collect();
    targets_among::<S>(params, &eligible, keys)
}

/// As [`targets`], with only these cores eligible.
pub(crate) fn targets_among<S: Steer + Build>(params: &S::Params, eligible: &[CoreId], keys: &[u64]) -> Vec<CoreId> {
    let cores = eligible.iter().map(|core| core.index() + 1).max().expect("at least one core");
    targets_in_view::<S>(params, &IdVec::from_fn(cores, |_| CoreView::default()), eligible, keys)
}

/// As [`targets`], with so many packets on each core.
pub(crate) fn targets_behind<S: Steer + Build>(params: &S::Params, lengths: &[u32], keys: &[u64]) -> Vec<CoreId> {
    let eligible: Vec<CoreId> = (0..lengths.len()).map(CoreId::from_index).collect();
    targets_in_view::<S>(params, &views(lengths), &eligible, keys)
}

fn targets_in_view<S: Steer + Build>(
    params: &S::Params,
    views: &IdVec<CoreId, CoreView>,
    eligible: &[CoreId],
    keys: &[u64],
) -> Vec<CoreId> {
    let mut policy = S::new(params, &setup(views.len(), 1, &[])).expect("default parameters");
    keys.iter()
        .map(|&key| {
            let packet = Packet { key, rss: key as u32, ..Packet::default() };
            let view = View { as_of: Time::ZERO, cores: views, eligible };

            policy.steer(Time::ZERO, &packet, &view).core().expect("a core")
        })
        .collect()
}

/// What is seen of cores with so many packets.
pub(crate) fn views(lengths: &[u32]) -> IdVec<CoreId, CoreView> {
    lengths.iter().map(|&packets| CoreView { packets, backlog: 0 }).collect()
}

/// The fraction of `targets` on each of so many cores.
pub(crate) fn shares(targets: &[CoreId], cores: usize) -> Vec<f64> {
    let on = |core| targets.iter().filter(|&&target| target == core).count();
    (0..cores).map(|core| on(CoreId::from_index(core)) as f64 / targets.len() as f64).collect()
}

/// The fraction of `after` that differs from `before`.
pub(crate) fn moved(before: &[CoreId], after: &[CoreId]) -> f64 {
    let moved = before.iter().zip(after).filter(|(a, b)| a != b).count();
    moved as f64 / before.len() as f64
}
