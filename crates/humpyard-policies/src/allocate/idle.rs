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
        for id in machine.services().ids().filter(|&id| has_spare(machine, id)) {
            let Some(idle) = longest_idle_of(machine, id) else { continue };
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

    /// Whether that core has been idle for so long, in ns.
    pub(super) fn is_for_so_long(self, now: Time, to: ServiceId, least: u64) -> bool {
        self.other_than(to).is_some_and(|(since, _)| now.since(since).as_ns() >= least)
    }
}

/// As [`LongestIdle::other_than`], of the machine as it is.
#[inline]
pub(super) fn longest_idle_but(machine: &Machine, to: ServiceId) -> Option<Idle> {
    let others = machine.services().ids().filter(|&id| id != to && has_spare(machine, id));
    others.filter_map(|id| longest_idle_of(machine, id)).min()
}

/// Whether a service has more idle cores than packets for them.
#[inline]
fn has_spare(machine: &Machine, id: ServiceId) -> bool {
    machine.service(id).idle > machine.service(id).waiting
}

/// The core idle longest of a service.
#[inline]
fn longest_idle_of(machine: &Machine, id: ServiceId) -> Option<Idle> {
    let core = machine.idle(id).next()?;
    Some((machine.core(core).idle_since()?, core))
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
