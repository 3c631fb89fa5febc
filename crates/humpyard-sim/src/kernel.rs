//! The kernel of a router that hands packets to processors: by a program (`cpumap`), or by RPS.
//!
//! The processor that the card interrupts receives a packet and gives it to the processor that the
//! policy chooses. There the packet waits until that processor takes it through the rest of the
//! kernel. Receiving has priority on every processor, as a soft interrupt does: a processor that
//! receives all the time serves nothing.

use core::mem;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use humpyard_core::cost::CostModel;
use humpyard_core::id::{CoreId, Id, IdVec, Slot};
use humpyard_core::measure::{Histogram, Measured};
use humpyard_core::mechanism::{Arrival, Effect};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::Time;

use crate::agenda::Agenda;
use crate::cores::Doing;
use crate::driver::{Driven, SimulationError};
use crate::workload::Workload;

/// Most packets that a processor receives before it hands them on, as in the kernel
/// (`NAPI_POLL_WEIGHT`).
const POLL: usize = 64;

/// Says which processor the card interrupts for a packet.
pub trait Receiver: Send + Sync + core::fmt::Debug {
    /// Returns that processor.
    fn receiver(&self, packet: &Packet) -> CoreId;
}

/// How packets get to processors.
#[derive(Clone, Debug)]
pub struct Kernel {
    receiver: Arc<dyn Receiver>,
    /// Time that receiving a packet and giving it to a processor takes.
    receive: Time,
    /// Time until a processor that has received serves again.
    resume: Time,
    /// Packets that may wait to be received by a processor.
    ring: usize,
    found: Received,
}

impl Kernel {
    /// Returns a kernel whose processors take this time to receive a packet and give it to another.
    /// At most `ring` packets may wait to be received by each processor.
    pub fn new(receiver: Arc<dyn Receiver>, receive: Time, ring: usize) -> Self {
        Self { receiver, receive, resume: Time::ZERO, ring: ring.max(1), found: Received::default() }
    }

    /// Sets the time that a processor takes to go back from receiving to serving: its caches have
    /// other data by then.
    #[must_use]
    pub fn with_resume(self, resume: Time) -> Self {
        Self { resume, ..self }
    }

    /// Returns the counts, which are updated while the kernel runs.
    pub fn received(&self) -> Received {
        self.found.clone()
    }
}

/// The packets that the processors received. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Received(Arc<Mutex<Counts>>);

#[derive(Clone, Debug, Default)]
struct Counts {
    lost: u64,
    time: Vec<Time>,
}

impl Received {
    /// Returns the packets that found too many waiting to be received. No policy saw them.
    pub fn lost(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lost
    }

    /// Returns the time in which a processor received packets.
    pub fn time(&self, processor: CoreId) -> Time {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.time.get(processor.index()).copied().unwrap_or(Time::ZERO)
    }
}

/// A processor.
#[derive(Debug, Default)]
struct Processor {
    /// Packets that wait to be received.
    ring: VecDeque<Packet>,
    /// Packets that are being received.
    polled: Vec<Packet>,
    /// The packet that it serves next when there is nothing to receive, and the time that this
    /// takes.
    next: Option<(Slot, Time)>,
    is_busy: bool,
    /// Whether it has received since it last served.
    has_received: bool,
    received: Time,
}

/// The processors at work.
struct Running<S, Q, A, W> {
    kernel: Kernel,
    costs: CostModel,
    measured: Measured<S, Q, A>,
    workload: W,
    processors: IdVec<CoreId, Processor>,
    agenda: Agenda,
    taken: u64,
    lost: u64,
}

/// Runs a workload on the processors of a kernel.
///
/// # Errors
/// The error of the workload.
pub(crate) fn drive<S: Steer, Q: Share, A: Allocate, W: Workload<S, Q, A>>(
    kernel: Kernel,
    processors: usize,
    costs: CostModel,
    measured: Measured<S, Q, A>,
    workload: W,
) -> Result<Driven<S, Q, A, W, ()>, SimulationError> {
    let mut running = Running {
        kernel,
        costs,
        measured,
        workload,
        processors: IdVec::from_fn(processors, |_| Processor::default()),
        agenda: Agenda::new(processors),
        taken: 0,
        lost: 0,
    };
    let end = running.run()?;
    let account = running.measured.account();
    assert!(account.balances(), "packets are unaccounted for: {account:?}");
    assert_eq!(running.taken, account.arrived + running.lost, "what came was received or lost");
    *running.kernel.found.0.lock().unwrap_or_else(PoisonError::into_inner) =
        Counts { lost: running.lost, time: running.processors.iter().map(|one| one.received).collect() };
    Ok(Driven {
        measured: running.measured,
        workload: running.workload,
        cores: (),
        end,
        taken_over: Vec::new(),
        swap_pause_max: core::time::Duration::ZERO,
        decision: Histogram::new(),
    })
}

impl<S: Steer, Q: Share, A: Allocate, W: Workload<S, Q, A>> Running<S, Q, A, W> {
    /// Runs to the end, and returns the time of the end.
    fn run(&mut self) -> Result<Time, SimulationError> {
        let (mut now, mut packet) = (Time::ZERO, Packet::default());
        loop {
            let timeout = self.measured.next_timeout().unwrap_or(Time::MAX);
            let next = self.workload.next_event().min(self.agenda.next());
            let is_empty = self.measured.scheduler().is_empty() || timeout == Time::MAX;
            if next == Time::MAX && is_empty && !self.workload.awaits() {
                return Ok(now);
            }
            now = now.max(next.min(timeout));
            self.finish(now);
            if timeout <= now {
                self.measured.on_timeout(now);
                self.follow_up(now);
            }
            while self.workload.next_packet(now, &mut packet, &mut self.measured)? {
                self.come(now, &packet);
            }
            self.begin(now);
        }
    }

    /// Puts a packet into the ring of the processor that the card interrupts.
    fn come(&mut self, now: Time, packet: &Packet) {
        self.taken += 1;
        let ring = &mut self.processors[self.kernel.receiver.receiver(packet)].ring;
        if ring.len() < self.kernel.ring {
            ring.push_back(*packet);
        } else {
            self.lost += 1;
            self.workload.on_loss(now, packet, &mut self.measured);
        }
    }

    /// Completes the tasks that processors have finished by now.
    fn finish(&mut self, now: Time) {
        while let Some((core, doing)) = self.agenda.next_done(now) {
            self.processors[core].is_busy = false;
            match doing {
                Doing::Packet(slot, busy) => {
                    let completed = self.measured.on_completion(now, core, slot, now, busy);
                    if completed.onward.is_none() && completed.exit.is_none() {
                        self.workload.on_departure(now, &completed.packet, &mut self.measured);
                    }
                    self.follow_up(now);
                }
                // Only receiving stands in the agenda so: a processor does not go over to other services.
                Doing::Switch => self.hand_on(now, core),
            }
        }
    }

    /// Hands the packets that a processor has received to the processors that the policy chooses.
    fn hand_on(&mut self, now: Time, core: CoreId) {
        let mut polled = mem::take(&mut self.processors[core].polled);
        for packet in polled.drain(..) {
            let arrival = self.measured.on_arrival(now, &packet);
            self.follow_up(now);
            if let Arrival::Dropped(_) = arrival {
                self.workload.on_loss(now, &packet, &mut self.measured);
            }
        }
        self.processors[core].polled = polled;
    }

    /// Gives every idle processor a task: receiving first, else serving.
    fn begin(&mut self, now: Time) {
        while let Some(core) = self.measured.next_core(now) {
            if let Some(dispatch) = self.measured.lend_next(now, core) {
                let work = self.costs.serve(now, core, &dispatch).busy;
                self.processors[core].next = Some((dispatch.slot, work));
            }
            self.follow_up(now);
        }
        for core in (0..self.processors.len()).map(CoreId::from_index) {
            if !self.processors[core].is_busy {
                self.begin_on(now, core);
            }
        }
    }

    fn begin_on(&mut self, now: Time, core: CoreId) {
        let processor = &mut self.processors[core];
        let polled = processor.ring.len().min(POLL);
        if polled > 0 {
            processor.polled.extend(processor.ring.drain(..polled));
            let time = Time::from_ns(self.kernel.receive.as_ns() * polled as u64);
            processor.received += time;
            processor.has_received = true;
            self.agenda.begin(core, now + time, Doing::Switch);
        } else if let Some((slot, work)) = processor.next.take() {
            let work = if mem::take(&mut processor.has_received) { work + self.kernel.resume } else { work };
            self.agenda.begin(core, now + work, Doing::Packet(slot, work));
        } else {
            return;
        }
        processor.is_busy = true;
    }

    /// Handles the effects of the last call of the mechanism.
    fn follow_up(&mut self, now: Time) {
        while let Some(effect) = self.measured.next_effect(now) {
            match &effect {
                Effect::Dropped(dropped) => self.workload.on_loss(now, &dropped.packet, &mut self.measured),
                Effect::Left(exit) => self.workload.on_departure(now, &exit.packet, &mut self.measured),
                Effect::Switch(switch) => self.measured.on_switched(now, switch.core),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::config::SchedulerConfig;
    use humpyard_core::cost::LinearCost;
    use humpyard_core::id::FlowId;
    use humpyard_core::measure::{Measurements, Observer};
    use humpyard_core::mechanism::{Completed, Dispatch, Dropped, Switch};
    use humpyard_core::policy::{Policy, Target, View};
    use humpyard_policies::own::OwnPolicy;
    use humpyard_policies::spec::PolicySpec;

    use super::*;
    use crate::workload::{Feed, Packets};

    /// Every packet comes to the first processor.
    #[derive(Debug)]
    struct First;

    impl Receiver for First {
        fn receiver(&self, _: &Packet) -> CoreId {
            CoreId(0)
        }
    }

    /// Sends each flow to the processor of its number.
    #[derive(Debug)]
    struct ByNumber;

    impl Policy for ByNumber {}

    impl Steer for ByNumber {
        fn steer(&mut self, _: Time, packet: &Packet, _: &View<'_>) -> Target {
            Target::Core(CoreId(packet.flow.0 as u16))
        }
    }

    /// Flows and delays in ns, in the order in which packets were done.
    #[derive(Clone, Debug, Default)]
    struct Delays(Arc<Mutex<Vec<(u32, u64)>>>);

    impl Observer for Delays {
        fn on_completion(&mut self, _: CoreId, _: Slot, completed: &Completed, finished: Time, _: Time) {
            let packet = &completed.packet;
            self.0.lock().unwrap().push((packet.flow.0, finished.since(packet.arrival).as_ns()));
        }
        fn on_arrival(&mut self, _: Time, _: &Packet, _: Arrival) {}
        fn on_dispatch(&mut self, _: Time, _: CoreId, _: &Dispatch) {}
        fn on_drop(&mut self, _: &Dropped) {}
        fn on_switch(&mut self, _: &Switch) {}
        fn on_switched(&mut self, _: Time, _: CoreId) {}
    }

    /// The results for the packets.
    struct KernelRun {
        delays: Vec<(u32, u64)>,
        dropped: u64,
        lost: u64,
        /// By processor, in ns.
        receiving: [u64; 2],
    }

    /// Runs packets of these flows, which come at these times: 100 ns to receive one, 500 ns to serve
    /// it on the processor of its flow.
    fn came(ring: usize, queue: u32, resume: u64, packets: &[(u32, u64)]) -> KernelRun {
        let mut config = SchedulerConfig { flows: 2, in_flight: 1, ..SchedulerConfig::new(2) };
        config.limits.queue = queue;
        let packet = |&(flow, at)| Packet { arrival: Time::from_ns(at), flow: FlowId(flow), ..Packet::default() };
        let packets: Vec<Packet> = packets.iter().map(packet).collect();
        let line = LinearCost { fixed: 500, per_byte_milli: 0, cold: 0 };
        let costs = CostModel::new(&config, IdVec::from_fn(1, |_| line), &[]);
        let policy = PolicySpec::from(OwnPolicy::steer("by-number", |_| Ok(ByNumber)).unwrap());
        let delays = Delays::default();
        let measured = Measured::new(policy.build(&config).unwrap(), Measurements::new(&config));
        let measured = measured.with_observer(Box::new(delays.clone()));
        let kernel = Kernel::new(Arc::new(First), Time::from_ns(100), ring).with_resume(Time::from_ns(resume));
        let found = kernel.received();
        let driven = drive(kernel, 2, costs, measured, Packets::new(packets, Feed::Arrivals)).unwrap();
        let delays = delays.0.lock().unwrap().clone();
        KernelRun {
            delays,
            dropped: driven.measured.account().dropped_total(),
            lost: found.lost(),
            receiving: [0, 1].map(|processor| found.time(CoreId(processor)).as_ns()),
        }
    }

    #[test]
    fn a_packet_is_received_and_then_served_where_the_policy_sends_it() {
        let came = came(8, 8, 0, &[(1, 1_000), (0, 5_000)]);
        assert_eq!(came.delays, [(1, 600), (0, 600)]);
        assert_eq!((came.dropped, came.lost, came.receiving), (0, 0, [200, 0]));
    }

    #[test]
    fn a_processor_receives_before_it_serves() {
        // The first packet is served from 1,100 to 1,600. Three that have come since are received
        // by 1,900. Then the second packet of the first processor is served until 2,400, as the
        // other processor's is.
        let came = came(8, 8, 0, &[(0, 1_000), (1, 1_200), (0, 1_300), (1, 1_400)]);
        assert_eq!(came.delays, [(0, 600), (0, 1_100), (1, 1_200), (1, 1_500)]);
        assert_eq!(came.receiving, [400, 0]);
    }

    #[test]
    fn a_processor_that_has_received_takes_longer_for_the_next_packet() {
        // The second comes while the first is served, and is served without another in between.
        let came = came(8, 8, 50, &[(1, 1_000), (0, 5_000), (0, 5_000)]);
        assert_eq!(came.delays, [(1, 600), (0, 750), (0, 1_250)]);
    }

    #[test]
    fn a_full_ring_loses_packets_and_a_full_queue_drops_them() {
        let at_once: Vec<(u32, u64)> = (0..8).map(|_| (1, 1_000)).collect();
        let lost = came(3, 8, 0, &at_once);
        assert_eq!((lost.delays.len(), lost.dropped, lost.lost), (3, 0, 5));
        let dropped = came(8, 2, 0, &at_once);
        assert_eq!((dropped.delays.len(), dropped.dropped, dropped.lost), (2, 6, 0), "all are handed on at once");
    }

    #[test]
    fn a_processor_that_receives_all_the_time_serves_nothing() {
        let flood: Vec<(u32, u64)> = (0..1_000).map(|packet| (0, 1_000 + 90 * packet)).collect();
        let came = came(16, 8, 0, &flood);
        let first_done = came.delays[0].1;
        assert!(first_done > 80_000, "it receives until none comes any more: {first_done}");
        assert!(came.lost > 50 && came.dropped > 800, "{} {}", came.lost, came.dropped);
    }
}
