//! Idle cores, as allocation policies look for them: who is idle longest, and who latest.

use humpyard_core::id::{CoreId, ServiceId};
use humpyard_core::policy::Machine;
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

/// The core that has been idle longest, and since when, of those of a service that has no packet for it to take.
pub(super) type Idle = (Time, CoreId);

/// The cores idle longest of the two services that have them.
#[derive(Clone, Copy)]
pub(super) struct LongestIdle {
    first: Option<(Idle, ServiceId)>,
    second: Option<Idle>,
}

impl LongestIdle {
    /// O(services).
    pub(super) fn of(machine: &Machine) -> Self {
        let mut longest = Self { first: None, second: None };
        for (id, idle) in longest_idle(machine) {
            match longest.first {
                Some((first, _)) if idle > first => {
                    longest.second = Some(longest.second.map_or(idle, |second| second.min(idle)));
                }
                first => longest = Self { first: Some((idle, id)), second: first.map(|(idle, _)| idle) },
            }
        }
        longest
    }

    /// The core of another service than this.
    pub(super) fn other_than(self, to: ServiceId) -> Option<Idle> {
        match self.first {
            Some((_, id)) if id == to => self.second,
            first => first.map(|(idle, _)| idle),
        }
    }
}

/// The core idle longest of each service that has one with no packet to take.
pub(super) fn longest_idle(machine: &Machine) -> impl Iterator<Item = (ServiceId, Idle)> {
    let spare = machine.services().ids().filter(|&id| machine.service(id).idle > machine.service(id).waiting);
    spare.filter_map(|id| {
        let core = machine.idle(id).next()?;
        Some((id, (machine.core(core).idle_since()?, core)))
    })
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
