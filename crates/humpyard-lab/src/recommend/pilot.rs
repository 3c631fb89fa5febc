//! Where in the input packets are delayed: found by a pilot run, so that every sample has the peaks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use humpyard_core::id::{CoreId, Slot};
use humpyard_core::measure::Observer;
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Dropped, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

/// Delays of the packets of each window.
#[derive(Debug)]
struct Delays {
    /// Packets up to the end of each window.
    ends: Vec<usize>,
    arrived: usize,
    /// By number among the accepted, the window of a packet.
    accepted: Vec<usize>,
    /// By window: packets dropped, and the sum of the delays of the others in ns.
    windows: Vec<(u64, u128)>,
}

impl Delays {
    fn on_arrival(&mut self, arrival: Arrival) {
        let window = self.ends.partition_point(|&end| end <= self.arrived);
        self.arrived += 1;
        match arrival {
            Arrival::Queued(_) => self.accepted.push(window),
            Arrival::Dropped(_) => self.windows[window].0 += 1,
        }
    }

    /// The window of an accepted packet.
    fn window(&mut self, packet: &Packet) -> &mut (u64, u128) {
        &mut self.windows[self.accepted[packet.sequence as usize]]
    }
}

/// Hears of a run, and adds up the delays of each window.
#[derive(Clone, Debug)]
pub(super) struct Pilot(Arc<Mutex<Delays>>);

impl Pilot {
    /// A pilot of windows with this many packets each, in the order in which they come.
    pub(super) fn new(windows: impl Iterator<Item = usize>) -> Self {
        let ends: Vec<usize> = windows.scan(0, |sum, packets| Some(add(sum, packets))).collect();
        let windows = vec![(0, 0); ends.len()];
        Self(Arc::new(Mutex::new(Delays { ends, arrived: 0, accepted: Vec::new(), windows })))
    }

    fn delays(&self) -> MutexGuard<'_, Delays> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the windows, the worst first: those with most packets dropped, then those with the longest delays.
    pub(super) fn peaks(&self) -> Vec<usize> {
        let windows = &self.delays().windows;
        let mut order: Vec<usize> = (0..windows.len()).collect();
        order.sort_by(|&one, &other| windows[other].cmp(&windows[one]));
        order
    }
}

fn add(sum: &mut usize, packets: usize) -> usize {
    *sum += packets;
    *sum
}

impl Observer for Pilot {
    fn on_arrival(&mut self, _: Time, _: &Packet, arrival: Arrival) {
        self.delays().on_arrival(arrival);
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, _: &Dispatch) {}

    fn on_completion(&mut self, _: CoreId, _: Slot, completed: &Completed, finished: Time, _: Time) {
        if completed.onward.is_none() {
            let delay = finished.since(completed.packet.entered);
            self.delays().window(&completed.packet).1 += u128::from(delay.as_ns());
        }
    }

    fn on_drop(&mut self, dropped: &Dropped) {
        self.delays().window(&dropped.packet).0 += 1;
    }

    fn on_switch(&mut self, _: &Switch) {}

    fn on_switched(&mut self, _: Time, _: CoreId) {}
}
