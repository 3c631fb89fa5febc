//! Records a run as it is measured: when packets reached the scheduler, and what each took.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use humpyard_core::id::{CoreId, Id, Slot};
use humpyard_core::measure::Observer;
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Dropped, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;
use humpyard_sim::{MeasuredTimes, PacketTimes};

/// What was recorded of a run.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// By number among all that came: when it reached the scheduler; none if it was dropped there.
    pub(super) reached: Vec<Option<Time>>,
    /// By number among the accepted: when it reached the scheduler.
    accepted: Vec<Time>,
    /// By number among the accepted: when it was handed out last.
    dispatched: Vec<Time>,
    /// When each core was done with its last packet.
    done: Vec<Time>,
    pub(super) times: MeasuredTimes,
    busy: u128,
    begun: Option<Time>,
    ended: Time,
    completed: u64,
}

/// The figures of a run in which the hosts should agree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Observed {
    /// Packets per second, from the first that reached the scheduler to the last that was done.
    pub(super) throughput_pps: f64,
    /// Part of that time in which cores were busy, over all.
    pub(super) utilization: f64,
}

impl Record {
    pub(super) fn new(cores: usize, packets: usize) -> Self {
        Self {
            reached: Vec::with_capacity(packets),
            accepted: Vec::with_capacity(packets),
            dispatched: Vec::with_capacity(packets),
            done: vec![Time::ZERO; cores],
            times: MeasuredTimes::new(cores),
            busy: 0,
            begun: None,
            ended: Time::ZERO,
            completed: 0,
        }
    }

    /// The figures.
    pub(super) fn observed(&self) -> Observed {
        let lasted = self.ended.since(self.begun.unwrap_or(self.ended)).as_ns().max(1) as f64;
        Observed {
            throughput_pps: self.completed as f64 * 1e9 / lasted,
            utilization: self.busy as f64 / (lasted * self.done.len() as f64),
        }
    }

    fn on_completion(&mut self, core: CoreId, completed: &Completed, finished: Time, busy: Time) {
        let packet = &completed.packet;
        let at = packet.sequence as usize;
        let (Some(&handed), Some(&reached)) = (self.dispatched.get(at), self.accepted.get(at)) else { return };
        let before = core::mem::replace(&mut self.done[core.index()], finished);
        let began = Time::from_ns(finished.as_ns().saturating_sub(busy.as_ns()));
        // What comes to its first hop was there since it came; a later one begins when it is handed out.
        let there = if packet.hop == 0 { reached } else { handed };
        let wait = began.since(there.max(before).min(began));
        self.times.add(packet.hop, packet.sequence, PacketTimes { wait, busy });
        self.busy += u128::from(busy.as_ns());
        if completed.onward.is_none() {
            self.completed += 1;
            self.ended = self.ended.max(finished);
        }
    }
}

/// Hears of a run, and keeps the record of it for who made it.
#[derive(Clone, Debug)]
pub(super) struct Recorder(Arc<Mutex<Record>>);

impl Recorder {
    /// Returns a record of this many cores, with room for this many packets.
    pub(super) fn new(cores: usize, packets: usize) -> Self {
        Self(Arc::new(Mutex::new(Record::new(cores.max(1), packets))))
    }

    /// The record so far.
    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Recorder {
    fn on_arrival(&mut self, now: Time, _: &Packet, arrival: Arrival) {
        let mut record = self.record();
        record.begun.get_or_insert(now);
        let is_accepted = matches!(arrival, Arrival::Queued(_));
        record.reached.push(is_accepted.then_some(now));
        if is_accepted {
            record.accepted.push(now);
            record.dispatched.push(now);
        }
    }

    fn on_dispatch(&mut self, now: Time, _: CoreId, dispatch: &Dispatch) {
        if let Some(place) = self.record().dispatched.get_mut(dispatch.packet.sequence as usize) {
            *place = now;
        }
    }

    fn on_completion(&mut self, core: CoreId, _: Slot, completed: &Completed, finished: Time, busy: Time) {
        self.record().on_completion(core, completed, finished, busy);
    }

    fn on_drop(&mut self, _: &Dropped) {}

    fn on_switch(&mut self, _: &Switch) {}

    fn on_switched(&mut self, _: Time, _: CoreId) {}
}
