//! Idle cores, as allocation policies look for them: who is idle longest, and who latest.

use humpyard_core::id::{CoreId, ServiceId};
use humpyard_core::policy::Machine;
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

/// The core that has been idle longest, and since when, of those of a service that has no packet for it to take.
pub(super) type Idle = (Time, CoreId);

/// The core idle longest of each service that has one with no packet to take. O(services).
#[inline]
pub(super) fn longest_idle(machine: &Machine) -> impl Iterator<Item = (ServiceId, Idle)> {
    let spare = machine.services().ids().filter(|&id| machine.service(id).idle > machine.service(id).waiting);
    spare.filter_map(|id| {
        let core = machine.idle(id).next()?;
        Some((id, (machine.core(core).idle_since()?, core)))
    })
}

/// The cores idle longest of the two services that have them.
#[derive(Clone, Copy)]
pub(super) struct LongestIdle {
    first: Option<(Idle, ServiceId)>,
    second: Option<(Idle, ServiceId)>,
}

impl LongestIdle {
    /// O(services).
    pub(super) fn of(machine: &Machine) -> Self {
        let mut longest = Self { first: None, second: None };
        for (id, idle) in longest_idle(machine) {
            let next = Some((idle, id));
            match longest.first {
                Some((first, _)) if idle > first => {
                    longest.second = Some(longest.second.map_or((idle, id), |second| second.min((idle, id))));
                }
                first => longest = Self { first: next, second: first },
            }
        }
        longest
    }

    /// The core of another service than this, and whose it is.
    pub(super) fn other_than(self, to: ServiceId) -> Option<(Idle, ServiceId)> {
        self.first.filter(|&(_, id)| id != to).or(self.second)
    }
}

/// The core idle longest of the services other than this.
#[inline]
pub(super) fn longest_idle_but(machine: &Machine, to: ServiceId) -> Option<Idle> {
    longest_idle_elsewhere(machine, to).map(|(idle, _)| idle)
}

/// The core idle longest of the services other than this, and whose it is.
#[inline]
pub(super) fn longest_idle_elsewhere(machine: &Machine, to: ServiceId) -> Option<(Idle, ServiceId)> {
    let mut longest: Option<(Idle, ServiceId)> = None;
    for (id, state) in machine.services().ids().zip(machine.services()) {
        if state.idle > state.waiting
            && id != to
            && let Some(core) = machine.idle(id).next()
            && let Some(since) = machine.core(core).idle_since()
            && longest.is_none_or(|(idle, _)| (since, core) < idle)
        {
            longest = Some(((since, core), id));
        }
    }
    longest
}

/// Of a service's cores that have room, the one idle latest, for it is the one most likely to be warm; of equals the lowest.
#[inline]
pub(super) fn latest_idle(id: ServiceId, room: &IdSet<CoreId>, machine: &Machine) -> CoreId {
    let since = |core: CoreId| machine.core(core).idle_since();
    let mut latest = machine.latest_idle(id).filter(|&core| room.contains(core));
    match latest.next() {
        Some(first) => {
            latest.take_while(|&core| since(core) == since(first)).min().map_or(first, |core| core.min(first))
        }
        None => room.first().expect("a core has room"),
    }
}
