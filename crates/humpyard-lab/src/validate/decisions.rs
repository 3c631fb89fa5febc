//! Whether a live run and a simulation decide alike: both have the same packets, and each decision of
//! one is held against that of the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use humpyard_core::id::{CoreId, Id, Slot};
use humpyard_core::measure::Observer;
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Dropped, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;
use serde::Serialize;

use crate::figures::{counted, percent};

/// The decisions of a live run and of a simulation of the same packets.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecisionsCompared {
    /// Number of packets that arrived in both runs.
    pub packets: u64,
    /// Fraction of the packets, from 0 to 1, that were served in both runs or dropped in both.
    pub fate_alike: f64,
    /// Fraction, from 0 to 1, of the packets served in both runs that the same core served.
    pub core_alike: f64,
    /// Fraction, from 0 to 1, of the packets served in both runs that the same core served after
    /// the same packet.
    pub order_alike: f64,
    /// The first packet about which the runs decide differently. `None`: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstDifference>,
}

/// The first packet about which the two runs decide differently.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FirstDifference {
    /// Number of the packet, from 1.
    pub packet: u64,
    /// What each run decided, and the reason for the difference, in words.
    pub says: String,
}

/// What was decided about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct PacketDecision {
    /// The core that served it first, and the packet that this core had before. `None`: it was dropped.
    served: Option<(usize, Option<usize>)>,
    /// Packets that waited when it came.
    waiting: usize,
}

/// What was decided in a run.
#[derive(Clone, Debug, Default)]
struct Decisions {
    packets: Vec<PacketDecision>,
    /// The packet in each slot.
    slots: Vec<usize>,
    /// The last packet of each core.
    last: Vec<Option<usize>>,
    waiting: usize,
}

/// Hears what is decided.
#[derive(Clone, Debug, Default)]
pub(super) struct DecisionRecorder(Arc<Mutex<Decisions>>);

impl DecisionRecorder {
    fn lock(&self) -> MutexGuard<'_, Decisions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares what was decided live with a simulation.
    pub(super) fn compare(&self, simulated: &Self) -> DecisionsCompared {
        compare(&self.lock().packets, &simulated.lock().packets)
    }
}

/// Returns the place for this index, which it makes if there is none yet.
fn place<T: Clone + Default>(all: &mut Vec<T>, index: usize) -> &mut T {
    if all.len() <= index {
        all.resize(index + 1, T::default());
    }
    &mut all[index]
}

impl Observer for DecisionRecorder {
    fn on_arrival(&mut self, _: Time, _: &Packet, arrival: Arrival) {
        let decisions = &mut *self.lock();
        let number = decisions.packets.len();
        decisions.packets.push(PacketDecision { served: None, waiting: decisions.waiting });
        if let Arrival::Queued(slot) = arrival {
            *place(&mut decisions.slots, slot.index()) = number;
            decisions.waiting += 1;
        }
    }

    fn on_dispatch(&mut self, _: Time, core: CoreId, dispatch: &Dispatch) {
        let decisions = &mut *self.lock();
        decisions.waiting = decisions.waiting.saturating_sub(1);
        let number = *place(&mut decisions.slots, dispatch.slot.index());
        let before = place(&mut decisions.last, core.index()).replace(number);
        if let Some(packet) = decisions.packets.get_mut(number)
            && packet.served.is_none()
        {
            packet.served = Some((core.index(), before));
        }
    }

    fn on_completion(&mut self, _: CoreId, _: Slot, completed: &Completed, _: Time, _: Time) {
        if completed.onward.is_some() {
            self.lock().waiting += 1;
        }
    }

    fn on_drop(&mut self, _: &Dropped) {
        let decisions = &mut *self.lock();
        decisions.waiting = decisions.waiting.saturating_sub(1);
    }

    fn on_switch(&mut self, _: &Switch) {}
    fn on_switched(&mut self, _: Time, _: CoreId) {}
}

fn compare(live: &[PacketDecision], simulated: &[PacketDecision]) -> DecisionsCompared {
    let pairs = || live.iter().zip(simulated);
    let both: Vec<_> = pairs().filter_map(|(live, simulated)| live.served.zip(simulated.served)).collect();
    let part = |count: usize, of: usize| if of == 0 { 1.0 } else { count as f64 / of as f64 };
    let packets = pairs().count();
    let same_fate = pairs().filter(|(live, simulated)| live.served.is_some() == simulated.served.is_some()).count();
    DecisionsCompared {
        packets: packets as u64,
        fate_alike: part(same_fate, packets),
        core_alike: part(both.iter().filter(|(live, simulated)| live.0 == simulated.0).count(), both.len()),
        order_alike: part(both.iter().filter(|(live, simulated)| live == simulated).count(), both.len()),
        first: pairs().position(|(live, simulated)| live.served != simulated.served).map(|number| FirstDifference {
            packet: number as u64 + 1,
            says: difference(&live[number], &simulated[number]),
        }),
    }
}

/// Says how two decisions about a packet differ, and why.
fn difference(live: &PacketDecision, simulated: &PacketDecision) -> String {
    let waiting = match (live.waiting, simulated.waiting) {
        (live, simulated) if live == simulated => {
            format!(
                "{} waited in both, so the times of the threads made the difference",
                counted(live as u64, "packet")
            )
        }
        (live, simulated) => {
            format!("{} waited live when it came, and {simulated} simulated", counted(live as u64, "packet"))
        }
    };
    format!("live {}, simulated {}; {waiting}", described(live), described(simulated))
}

fn described(decided: &PacketDecision) -> String {
    match decided.served {
        None => "it was dropped".to_owned(),
        Some((core, None)) => format!("core {core} served it first of all"),
        Some((core, Some(before))) => format!("core {core} served it after packet {}", before + 1),
    }
}

impl DecisionsCompared {
    /// Says it in a sentence or two.
    pub fn says(&self) -> String {
        let alike = format!(
            "Of {} packets, live and simulated runs decide alike about the core of {}, the order of {} and the fate of {}.",
            self.packets,
            percent(self.core_alike),
            percent(self.order_alike),
            percent(self.fate_alike)
        );
        match &self.first {
            None => alike,
            Some(first) => format!("{alike} The first difference is packet {}: {}.", first.packet, first.says),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(core: usize, before: Option<usize>) -> PacketDecision {
        PacketDecision { served: Some((core, before)), waiting: 2 }
    }

    #[test]
    fn decisions_are_compared_packet_by_packet() {
        let live = [served(0, None), served(1, None), served(0, Some(0)), PacketDecision::default()];
        assert_eq!(compare(&live, &live).first, None);
        assert_eq!(compare(&live, &live).order_alike, 1.0);
        let mut simulated = live;
        (simulated[2], simulated[3]) = (served(1, Some(1)), served(0, Some(0)));
        simulated[2].waiting = 5;
        let compared = compare(&live, &simulated);
        assert_eq!((compared.packets, compared.fate_alike), (4, 0.75));
        assert_eq!((compared.core_alike, compared.order_alike), (2.0 / 3.0, 2.0 / 3.0));
        let first = compared.first.unwrap();
        assert_eq!(first.packet, 3);
        assert_eq!(
            first.says,
            "live core 0 served it after packet 1, simulated core 1 served it after packet 2; \
             2 packets waited live when it came, and 5 simulated"
        );
    }
}
