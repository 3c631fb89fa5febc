//! Minimal disruption: when a core goes, only its own flows move; when one comes, flows move only to it.

use alloc::collections::BTreeMap;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, FlowId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{BuildError, CoreView, Steer, View};
use humpyard_core::unit::Time;

use crate::{Event, History};

/// Checks the flows of a history, for every core that may go and come back; `steer` makes a fresh
/// policy.
///
/// # Panics
/// If another flow moves, or the flow of a removed core does not.
pub(super) fn verify<S: Steer>(history: &History, steer: impl Fn(&SchedulerConfig) -> Result<Option<S>, BuildError>) {
    let all: Vec<CoreId> = (0..history.cores).map(CoreId::from_index).collect();
    let fresh = || steer(&history.config()).expect("it was made before").expect("it steers");
    let before = targets(fresh(), history, &all);
    for &gone in &all {
        let left: Vec<CoreId> = all.iter().copied().filter(|&core| core != gone).collect();
        let after = targets(fresh(), history, &left);
        for ((flow, before), after) in before.iter().zip(after.values()) {
            let moved = before != after;
            assert_eq!(moved, *before == gone, "without core {gone} flow {flow} goes from {before} to {after}");
        }
    }
}

/// Returns where the first packet of each flow goes; each packet is complete before the next comes.
fn targets<S: Steer>(mut steer: S, history: &History, eligible: &[CoreId]) -> BTreeMap<FlowId, CoreId> {
    let idle = IdVec::from_fn(history.cores, |_| CoreView::default());
    let mut targets = BTreeMap::new();
    for (time, event) in &history.events {
        if let Event::Arrive { packet, .. } = event
            && !targets.contains_key(&packet.flow)
        {
            targets
                .insert(packet.flow, serve(&mut steer, *time, packet, &View { as_of: *time, cores: &idle, eligible }));
        }
    }
    targets
}

fn serve<S: Steer>(steer: &mut S, now: Time, packet: &Packet, view: &View<'_>) -> CoreId {
    let target = steer.steer(now, packet, view);
    let core = target.core().expect("a flow that must not move has a core");
    steer.on_enqueue(now, target, packet);
    steer.on_dispatch(now, core, target, packet);
    steer.on_completion(now, core, packet, u64::from(packet.length));
    core
}
