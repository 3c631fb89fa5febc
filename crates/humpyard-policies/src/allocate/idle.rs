//! Searches for idle cores for allocation policies: the one idle longest, and the one idle latest.

use humpyard_core::id::{CoreId, ServiceId};
use humpyard_core::policy::Machine;
use humpyard_core::storage::IdSet;
use humpyard_core::unit::Time;

/// The core idle longest of a service, without a packet to take, and the time since when it has been idle.
pub(super) type Idle = (Time, CoreId);

/// Returns the core idle longest of each service that has an idle core without a packet to take. O(services).
#[inline]
pub(super) fn longest_idle(machine: &Machine) -> impl Iterator<Item = (ServiceId, Idle)> {
    let spare = machine.services().ids().filter(|&id| machine.service(id).idle > machine.service(id).waiting);
    spare.filter_map(|id| {
        let core = machine.idle(id).next()?;
        Some((id, (machine.core(core).idle_since()?, core)))
    })
}

/// The cores idle longest, of the two services whose cores have been idle longest.
#[derive(Clone, Copy)]
pub(super) struct LongestIdle {
    first: Option<(Idle, ServiceId)>,
    second: Option<(Idle, ServiceId)>,
}

impl LongestIdle {
    /// Finds these cores. O(services).
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

    /// Returns the core that belongs to another service than `to`, with its service.
    pub(super) fn other_than(self, to: ServiceId) -> Option<(Idle, ServiceId)> {
        self.first.filter(|&(_, id)| id != to).or(self.second)
    }
}

/// Returns the core idle longest of all services other than `to`.
#[inline]
pub(super) fn longest_idle_but(machine: &Machine, to: ServiceId) -> Option<Idle> {
    longest_idle_elsewhere(machine, to).map(|(idle, _)| idle)
}

/// Returns the core idle longest of all services other than `to`, with its service.
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

/// Returns, of a service's cores with room, the one idle latest, which is most likely warm; ties go
/// to the lowest id.
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
