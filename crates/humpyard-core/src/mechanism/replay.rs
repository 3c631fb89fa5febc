//! Replay of a journal: a fresh scheduler repeats each recorded call, and its answers are compared.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use super::journal::{Event, Given, Record};
use super::scheduler::Scheduler;
use crate::policy::{Allocate, Share, Steer};
use crate::unit::Time;

/// The first record of a journal for which a scheduler gave a different answer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Divergence {
    /// The record in the journal.
    pub expected: Record,
    /// The scheduler's answer, as text.
    pub found: String,
    /// The scheduler's answer, if it gave one.
    pub answer: Option<Box<Event>>,
}

impl<S: Steer, Q: Share, A: Allocate> Scheduler<S, Q, A> {
    /// Repeats the recorded call, and compares the answer.
    ///
    /// # Errors
    /// The answer differs from the record's.
    ///
    /// # Panics
    /// At [`Event::Swap`]: to replay it, the caller must know policies by name.
    pub fn replay(&mut self, record: &Record) -> Result<(), Divergence> {
        let now = record.now;
        let found = match record.event.clone() {
            Event::Arrival { packet, .. } => {
                let answer = self.on_arrival(now, &packet);
                Event::Arrival { packet, answer }
            }
            Event::Core(expected) => match self.next_core(now) {
                Some(core) => Event::Core(core),
                None => return Err(self.no(record, &format!("no core, not core {expected}"))),
            },
            Event::Next { core, .. } => {
                let answer = self.next(now, core).map(|given| Given { slot: given.slot, cold: given.cold });
                Event::Next { core, answer }
            }
            Event::Completion { slot, .. } if !self.is_in_service(slot) => {
                return Err(self.no(record, "no packet in service in this slot"));
            }
            Event::Completion { slot, busy, ends, .. } => {
                let done = if ends { self.on_end(now, slot, busy) } else { self.on_completion(now, slot, busy) };
                Event::Completion { slot, busy, ends, used: done.used, onward: done.onward, exit: done.exit }
            }
            Event::Preemption { slot, served, saving } => {
                if !self.is_in_service(slot) || self.quantum().is_none() {
                    return Err(self.no(record, "no packet in service that may be put back"));
                }
                self.on_preemption(now, slot, served, saving);
                Event::Preemption { slot, served, saving }
            }
            Event::Switch(_) => match self.next_switch() {
                Some(switch) => Event::Switch(switch),
                None => return Err(self.no(record, "no core switches")),
            },
            Event::Dropped(..) => match self.next_dropped() {
                Some(dropped) => Event::Dropped(dropped.slot, dropped.reason),
                None => return Err(self.no(record, "no packet is dropped")),
            },
            Event::Exit(_) => match self.next_exit() {
                Some(exit) => Event::Exit(exit.place),
                None => return Err(self.no(record, "no packet leaves")),
            },
            event => self.repeat(now, event),
        };
        if found == record.event {
            return Ok(());
        }
        Err(Divergence { answer: Some(Box::new(found.clone())), ..self.no(record, &format!("{found:?}")) })
    }

    /// Repeats a call that has no answer. Returns its event.
    fn repeat(&mut self, now: Time, event: Event) -> Event {
        match &event {
            Event::Switched(core) => self.on_switched(now, *core),
            Event::Timeout => self.on_timeout(now),
            Event::ClientEnd(client) => self.on_client_end(now, *client),
            Event::FlowEnd(flow) => self.on_flow_end(now, *flow),
            Event::Weight(client, weight) => self.set_weight(now, *client, *weight),
            Event::Withhold(client) => self.withhold(now, *client),
            Event::EndWithholding(client) => self.end_withholding(now, *client),
            Event::Swap(policy) => panic!("`{policy}` takes over, which only its host can do"),
            _ => unreachable!("an event with an answer"),
        }
        event
    }

    fn no(&self, expected: &Record, found: &str) -> Divergence {
        Divergence { expected: expected.clone(), found: found.into(), answer: None }
    }
}
