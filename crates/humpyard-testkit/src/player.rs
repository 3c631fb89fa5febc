//! The driver: plays a history to a scheduler in virtual time.

use alloc::collections::VecDeque;

use humpyard_core::id::{CoreId, Id, Slot};
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, DropReason, Effect, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Share, Steer};
use humpyard_core::unit::{Time, Work, WorkUnit};

use crate::history::{Event, History};
use crate::observer::Observer;

/// A packet went to a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// When.
    pub time: Time,
    /// Which core.
    pub core: CoreId,
    /// The arrival: its place among the events of the history.
    pub arrival: usize,
}

/// Everything that was decided in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Log {
    /// The packet and core of each decision, in order.
    pub decisions: Vec<Decision>,
    /// The dropped arrivals, and the reasons.
    pub drops: Vec<(usize, DropReason)>,
}

/// The place of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Outside,
    Waiting(Packet),
    InService(Packet),
    /// Done, and waiting for earlier packets of its flow.
    AtExit,
    Done,
    Dropped,
}

#[derive(Clone, Copy, Debug)]
struct InService {
    slot: Slot,
    done: Time,
}

/// Plays one history. Each instant brings all completions, then arrivals, then the requests of
/// cores with room, in ascending order. All memory is allocated before the first event.
#[derive(Debug)]
pub struct Player<'h> {
    history: &'h History,
    checks: bool,
    /// Whether cores ask for packets.
    asks: bool,
    next_event: usize,
    accepted: u64,
    /// By place among the events.
    places: Vec<Place>,
    /// The arrival in each slot.
    slots: Vec<Option<usize>>,
    /// The arrival at each place of the exit.
    exits: Vec<Option<usize>>,
    /// The packets in service on each core, in the order in which it serves them.
    cores: Vec<VecDeque<InService>>,
    /// When each core's switch to another service ends, if it is switching.
    switching: Vec<Option<Time>>,
    held: Vec<u32>,
    log: Log,
}

impl<'h> Player<'h> {
    /// A player of this history that calls [`Scheduler::check`] after every event.
    pub fn new(history: &'h History) -> Self {
        let arrivals = history.arrivals();
        let hops = history.chains.iter().map(Vec::len).max().unwrap_or(1);
        Self {
            history,
            checks: true,
            asks: true,
            next_event: 0,
            accepted: 0,
            places: vec![Place::Outside; history.events.len()],
            slots: vec![None; history.packets + 1],
            exits: vec![None; history.exit.map_or(0, |exit| exit.packets as usize + 1)],
            cores: (0..history.cores).map(|_| VecDeque::with_capacity(history.in_flight)).collect(),
            switching: vec![None; history.cores],
            held: vec![0; history.weights.len()],
            log: Log { decisions: Vec::with_capacity(arrivals * hops), drops: Vec::with_capacity(arrivals) },
        }
    }

    /// Skips [`Scheduler::check`], which is slow and may allocate.
    #[must_use]
    pub fn without_checks(self) -> Self {
        Self { checks: false, ..self }
    }

    /// Plays the history, lets all packets finish, and verifies that every packet was accounted
    /// for.
    ///
    /// # Panics
    /// If the scheduler breaks a rule.
    pub fn run<S: Steer, Q: Share, A: Allocate>(
        mut self,
        scheduler: &mut Scheduler<S, Q, A>,
        observer: &mut impl Observer,
    ) -> Log {
        self.play_until(Time::MAX, scheduler, observer);
        self.verify_drained(scheduler);
        self.log
    }

    /// Plays the history. After a number of its events it runs a function on the scheduler, after
    /// which the policies must need no more room than before.
    ///
    /// # Panics
    /// If the scheduler breaks a rule.
    pub fn run_with<S: Steer, Q: Share, A: Allocate>(
        mut self,
        scheduler: &mut Scheduler<S, Q, A>,
        observer: &mut impl Observer,
        events: usize,
        intervene: impl FnOnce(Time, &mut Scheduler<S, Q, A>),
    ) -> Log {
        let (now, _) = self.history.events[events.min(self.history.events.len() - 1)];
        self.play_until(now, scheduler, observer);
        intervene(now, scheduler);
        self.settle(now, scheduler, observer);
        self.ask(now, scheduler, observer);
        self.play_until(Time::MAX, scheduler, observer);
        self.verify_drained(scheduler);
        self.log
    }

    /// Plays the history. After a number of its events it lets the cores finish their packets, and
    /// replaces the scheduler, which may then have other cores.
    ///
    /// # Panics
    /// If the scheduler breaks a rule.
    pub fn run_replacing<S: Steer, Q: Share, A: Allocate>(
        mut self,
        scheduler: &mut Scheduler<S, Q, A>,
        observer: &mut impl Observer,
        events: usize,
        replace: impl FnOnce(Time, &mut Scheduler<S, Q, A>),
    ) -> Log {
        let (mut now, _) = self.history.events[events.min(self.history.events.len() - 1)];
        self.play_until(now, scheduler, observer);
        self.asks = false;
        while self.cores.iter().any(|core| !core.is_empty()) {
            now = self.next_instant(scheduler.next_timeout()).expect("what is in service will be done");
            self.play_until(now, scheduler, observer);
        }
        replace(now, scheduler);
        observer.on_cores(scheduler.cores());
        self.asks = true;
        self.cores.resize_with(scheduler.cores(), || VecDeque::with_capacity(self.history.in_flight));
        self.switching = vec![None; scheduler.cores()];
        self.settle(now, scheduler, observer);
        self.ask(now, scheduler, observer);
        self.play_until(Time::MAX, scheduler, observer);
        self.verify_drained(scheduler);
        self.log
    }

    /// Plays the history up to `end`, and stops there; packets may be waiting and in service.
    ///
    /// # Panics
    /// If the scheduler breaks a rule.
    pub fn run_until<S: Steer, Q: Share, A: Allocate>(
        mut self,
        end: Time,
        scheduler: &mut Scheduler<S, Q, A>,
        observer: &mut impl Observer,
    ) -> Log {
        self.play_until(end, scheduler, observer);
        self.log
    }

    fn play_until<S: Steer, Q: Share, A: Allocate>(
        &mut self,
        end: Time,
        scheduler: &mut Scheduler<S, Q, A>,
        observer: &mut impl Observer,
    ) {
        while let Some(now) = self.next_instant(scheduler.next_timeout()).filter(|&now| now <= end) {
            self.complete(now, scheduler, observer);
            if scheduler.next_timeout().is_some_and(|timeout| timeout <= now) {
                scheduler.on_timeout(now);
                assert!(
                    scheduler.next_timeout().is_none_or(|timeout| timeout > now),
                    "a timeout that stays is no timeout"
                );
                self.settle(now, scheduler, observer);
            }
            self.deliver(now, scheduler, observer);
            if self.asks {
                self.ask(now, scheduler, observer);
            }
            observer.on_settled(now);
        }
    }

    /// Returns the next instant at which something happens. A timeout alone does not count if no
    /// packet is held or to come.
    fn next_instant(&self, timeout: Option<Time>) -> Option<Time> {
        let completion = self.cores.iter().filter_map(|core| core.front()).map(|packet| packet.done).min();
        let switch = self.switching.iter().flatten().min().copied();
        let event = self.history.events.get(self.next_event).map(|(time, _)| *time);
        let timeout = timeout.filter(|_| event.is_some() || self.held.iter().any(|&held| held > 0));
        [completion, switch, event, timeout].into_iter().flatten().min()
    }

    /// Notes everything that follows from the last call: packets dropped, packets that leave, switches that have begun.
    fn settle<S: Steer, Q: Share, A: Allocate>(
        &mut self,
        now: Time,
        scheduler: &mut Scheduler<S, Q, A>,
        observer: &mut impl Observer,
    ) {
        self.check(scheduler);
        while let Some(effect) = scheduler.next_effect() {
            match effect {
                Effect::Dropped(dropped) => {
                    let arrival = self.slots[dropped.slot.index()].take().expect("a dropped packet had a slot");
                    let Place::Waiting(_) = self.places[arrival] else { panic!("only a waiting packet is dropped") };
                    self.places[arrival] = Place::Dropped;
                    self.held[dropped.packet.client.index()] -= 1;
                    self.log.drops.push((arrival, dropped.reason));
                    observer.on_drop(now, &dropped.packet);
                }
                Effect::Left(exit) => {
                    let arrival = self.exits[exit.place.index()].take().expect("a packet leaves its place");
                    assert_eq!(self.places[arrival], Place::AtExit, "only what waits at the exit leaves it");
                    self.places[arrival] = Place::Done;
                    self.held[exit.packet.client.index()] -= 1;
                    observer.on_exit(now, &exit.packet);
                }
                Effect::Switch(switch) => {
                    assert!(self.cores[switch.core.index()].is_empty(), "core {} leaves its packets", switch.core);
                    let before = self.switching[switch.core.index()].replace(now + switch.cost);
                    assert_eq!(before, None, "core {} is switching already", switch.core);
                }
            }
        }
        self.check(scheduler);
    }

    fn complete<S: Steer, Q: Share, A: Allocate>(
        &mut self,
        now: Time,
        scheduler: &mut Scheduler<S, Q, A>,
        observer: &mut impl Observer,
    ) {
        for core in (0..self.cores.len()).map(CoreId::from_index) {
            while let Some(&InService { slot, done }) = self.cores[core.index()].front().filter(|next| next.done <= now)
            {
                assert_eq!(done, now, "a completion was missed");
                self.cores[core.index()].pop_front();
                let arrival = self.slots[slot.index()].take().expect("a packet is in the slot");
                let busy = self.busy(arrival);
                let ends = self.ends(arrival);
                let completed =
                    if ends { scheduler.on_end(now, slot, busy) } else { scheduler.on_completion(now, slot, busy) };
                self.verify_completed(now, arrival, slot, &completed);
                observer.on_completion(now, core, &completed, busy);
                self.settle(now, scheduler, observer);
            }
            while self.switching[core.index()].is_some_and(|done| done <= now) {
                self.switching[core.index()] = None;
                scheduler.on_switched(now, core);
                self.settle(now, scheduler, observer);
            }
        }
    }

    fn deliver<S: Steer, Q: Share, A: Allocate>(
        &mut self,
        now: Time,
        scheduler: &mut Scheduler<S, Q, A>,
        observer: &mut impl Observer,
    ) {
        while let Some((_, event)) = self.history.events.get(self.next_event).filter(|(time, _)| *time <= now) {
            let number = self.next_event;
            self.next_event += 1;
            match *event {
                Event::Arrive { packet, .. } => match scheduler.on_arrival(now, &packet) {
                    Arrival::Queued(slot) => {
                        // A packet that was pushed out for it has left its slot, which this packet
                        // may have now.
                        self.settle(now, scheduler, observer);
                        observer.on_accept(now, &self.accept(number, slot, packet));
                    }
                    Arrival::Dropped(reason) => self.log.drops.push((number, reason)),
                },
                Event::SetWeight(client, weight) => {
                    scheduler.set_weight(now, client, weight);
                    observer.on_weight(now, client, weight);
                }
                Event::EndClient(client) if self.held[client.index()] == 0 => {
                    scheduler.on_client_end(now, client);
                    for flow in self.history.flows_of(client) {
                        scheduler.on_flow_end(now, flow);
                    }
                    observer.on_client_end(now, client);
                }
                Event::EndClient(_) => {}
            }
            self.settle(now, scheduler, observer);
        }
    }

    fn ask<S: Steer, Q: Share, A: Allocate>(
        &mut self,
        now: Time,
        scheduler: &mut Scheduler<S, Q, A>,
        observer: &mut impl Observer,
    ) {
        // For half of the histories, the cores that the scheduler names ask; for the others, every
        // core.
        while let Some(core) = self.history.seed.0.is_multiple_of(2).then(|| scheduler.next_core(now)).flatten() {
            self.ask_core(now, core, scheduler, observer);
        }
        for core in (0..self.cores.len()).map(CoreId::from_index) {
            while self.cores[core.index()].len() < self.history.in_flight
                && self.ask_core(now, core, scheduler, observer)
            {
                let named = self.history.seed.0.is_multiple_of(2) && self.history.in_flight == 1;
                assert!(!named, "core {core} could have more than it was named for");
            }
        }
    }

    /// Whether the core was given a packet.
    fn ask_core<S: Steer, Q: Share, A: Allocate>(
        &mut self,
        now: Time,
        core: CoreId,
        scheduler: &mut Scheduler<S, Q, A>,
        observer: &mut impl Observer,
    ) -> bool {
        let Some(dispatch) = scheduler.next(now, core) else {
            assert!(scheduler.next(now, core).is_none(), "core {core} was refused a packet, then given one");
            return false;
        };
        self.dispatch(now, core, &dispatch);
        self.settle(now, scheduler, observer);
        let used = self.used(&dispatch.packet, self.log.decisions.last().expect("just made").arrival);
        observer.on_dispatch(now, core, &dispatch, used);
        self.check(scheduler);
        true
    }

    /// Records that an arrival was accepted, and returns the packet as the mechanism should have
    /// completed it.
    fn accept(&mut self, number: usize, slot: Slot, packet: Packet) -> Packet {
        let estimate = self.history.estimates[packet.service.index()].work(packet.length);
        let packet = Packet { sequence: self.accepted, estimate, entered: packet.arrival, ..packet };
        self.accepted += 1;
        self.held[packet.client.index()] += 1;
        self.places[number] = Place::Waiting(packet);
        let before = self.slots[slot.index()].replace(number);
        assert_eq!(before, None, "slot {slot} was given twice");
        packet
    }

    fn dispatch(&mut self, now: Time, core: CoreId, dispatch: &Dispatch) {
        let arrival = self.slots[dispatch.slot.index()].expect("a dispatched packet has a slot");
        let Place::Waiting(accepted) = self.places[arrival] else { panic!("only a waiting packet is dispatched") };
        // The estimate of the table, or of the scheduler's own estimator; and what the sharing policy decides.
        let Packet { estimate, batched, .. } = dispatch.packet;
        let expected = Packet { estimate, batched, ..accepted };
        assert_eq!(dispatch.packet, expected, "a packet is dispatched as it is");
        self.places[arrival] = Place::InService(dispatch.packet);
        assert_eq!(self.switching[core.index()], None, "core {core} is switching");
        let busy = self.busy(arrival);
        let queue = &mut self.cores[core.index()];
        let start = queue.back().map_or(now, |before| before.done);
        queue.push_back(InService { slot: dispatch.slot, done: start + busy });
        self.log.decisions.push(Decision { time: now, core, arrival });
    }

    fn busy(&self, arrival: usize) -> Time {
        match self.history.events[arrival].1 {
            Event::Arrive { busy, .. } => busy,
            _ => unreachable!("only arrivals have slots"),
        }
    }

    fn used(&self, packet: &Packet, arrival: usize) -> Work {
        match self.history.unit {
            WorkUnit::Nanoseconds => self.busy(arrival).as_ns(),
            WorkUnit::Bytes => u64::from(packet.length),
            WorkUnit::Packets => 1,
        }
    }

    fn check<S: Steer, Q: Share, A: Allocate>(&self, scheduler: &Scheduler<S, Q, A>) {
        if self.checks {
            scheduler.check();
            for (core, queue) in self.cores.iter().enumerate() {
                assert_eq!(
                    scheduler.in_service(CoreId::from_index(core)) as usize,
                    queue.len(),
                    "in service on {core}"
                );
            }
        }
    }

    /// Whether a service consumes the packet: for some packets, in histories where that matters.
    fn ends(&self, arrival: usize) -> bool {
        let Event::Arrive { packet, .. } = self.history.events[arrival].1 else { unreachable!("only packets end") };
        packet.length % 5 == 0 && (!self.history.chains.is_empty() || self.history.exit.is_some())
    }

    fn verify_completed(&mut self, now: Time, arrival: usize, slot: Slot, completed: &Completed) {
        let packet = completed.packet;
        assert_eq!(self.places[arrival], Place::InService(packet), "only a packet in service completes, as it is");
        assert_eq!(completed.used, self.used(&packet, arrival), "what a packet is charged");
        let chain = self.history.chains.get(packet.chain.index()).filter(|_| !self.ends(arrival));
        let onward = chain.and_then(|chain| chain.get(usize::from(packet.hop) + 1)).copied();
        assert_eq!(completed.onward, onward, "where the packet goes on to");
        if let Some(service) = onward {
            self.slots[slot.index()] = Some(arrival);
            self.places[arrival] = Place::Waiting(Packet { service, hop: packet.hop + 1, arrival: now, ..packet });
        } else if let Some(place) = completed.exit {
            assert!(!self.ends(arrival), "what does not leave does not wait at the exit");
            let before = self.exits[place.index()].replace(arrival);
            assert_eq!(before, None, "a place at the exit was given twice");
            self.places[arrival] = Place::AtExit;
        } else {
            self.places[arrival] = Place::Done;
            self.held[packet.client.index()] -= 1;
        }
    }

    fn verify_drained<S: Steer, Q: Share, A: Allocate>(&self, scheduler: &Scheduler<S, Q, A>) {
        let account = scheduler.account();
        assert!(account.balances(), "the account does not balance: {account:?}");
        assert_eq!(account.held, 0, "packets wait and no core is given them");
        assert_eq!(account.arrived, self.history.arrivals() as u64, "packets that arrived");
        assert_eq!(scheduler.exit_account().held, 0, "packets wait at the exit for ever");
        for reason in DropReason::ALL {
            let dropped = self.log.drops.iter().filter(|(_, why)| *why == reason).count();
            assert_eq!(account.dropped(reason), dropped as u64, "packets dropped: {}", reason.name());
        }
        let done = self.places.iter().filter(|place| **place == Place::Done).count();
        assert_eq!(account.processed, done as u64, "packets that were processed");
        let dropped = self.places.iter().filter(|place| **place == Place::Dropped).count();
        assert_eq!((done + dropped) as u64, self.accepted, "accepted packets that completed, or were dropped");
    }
}
