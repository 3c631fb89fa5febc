//! Plays a journal to another scheduler, and says where and why the two part.

use std::collections::HashMap;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, FlowId, Id, Slot};
use humpyard_core::mechanism::{Arrival, Divergence, Event, Given, Record};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{CoreView, Target};
use humpyard_core::unit::WorkUnit;
use humpyard_policies::spec::{AnyScheduler, PolicySpec};
use serde::Serialize;

use crate::LabError;
use crate::figures::{counted, time};

/// Where a replay parts from its journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct JournalDifference {
    /// The line of the journal, from 1.
    pub line: u64,
    /// When, in ns since the start.
    pub time_ns: u64,
    /// What the journal says.
    pub expected: String,
    /// What happened now.
    pub found: String,
    /// The first difference in sentences: which packet, what each policy chose, what each knew. Empty: the policies are
    /// those of the journal.
    pub words: Vec<String>,
}

/// A scheduler with the policies that it has now.
struct Player {
    scheduler: AnyScheduler,
    policy: PolicySpec,
}

impl Player {
    fn new(config: &SchedulerConfig, policy: &PolicySpec) -> Result<Self, LabError> {
        Ok(Self { scheduler: policy.build(config)?, policy: policy.clone() })
    }

    /// Does what a record says, and compares the answer.
    fn play(&mut self, config: &SchedulerConfig, record: &Record) -> Result<Result<(), Divergence>, LabError> {
        let Event::Swap(name) = &record.event else { return Ok(self.scheduler.replay(record)) };
        let next: PolicySpec = name.parse()?;
        next.take_over(record.now, &self.policy, config, &mut self.scheduler)?;
        self.policy = next;
        Ok(Ok(()))
    }

    /// Returns the name of the policy that steers, allocates or shares, whichever decides first.
    fn name(&self) -> String {
        let policy = &self.policy;
        policy.allocation().or(policy.steering()).unwrap_or(policy.sharing()).to_owned()
    }
}

/// A journal that is played.
pub(crate) struct Playing<'a> {
    config: &'a SchedulerConfig,
    player: Player,
    /// The policies of the journal, where others are asked.
    recorded: Option<Player>,
    /// The first packet that was steered otherwise.
    steered: Vec<String>,
    pub(crate) records: u64,
    named: Named,
    pub(crate) divergence: Option<JournalDifference>,
}

/// What flows and the packets in slots are called.
#[derive(Default)]
struct Named {
    /// By id; empty in journals that name none.
    flows: HashMap<FlowId, String>,
    /// The packet that had the slot last, with its number from 1.
    slots: HashMap<Slot, (u64, Packet)>,
    /// The flow of the packet that came last.
    last: Option<FlowId>,
    /// Packets that came.
    arrived: u64,
}

impl Named {
    /// An event that the scheduler may be asked about again.
    fn note(&mut self, event: &Event) {
        if let Event::Arrival { packet, answer } = event {
            self.last = Some(packet.flow);
            self.arrived += 1;
            if let Arrival::Queued(slot) = answer {
                self.slots.insert(*slot, (self.arrived, *packet));
            }
        }
    }

    /// The event, with the name of the flow that it is about, or of that of the packet that came before it.
    fn text(&self, event: &Event) -> String {
        let of_slot = |slot: &Slot| self.slots.get(slot).map(|(_, packet)| packet.flow);
        let flow = match event {
            Event::Arrival { packet, .. } => Some(packet.flow),
            Event::Next { answer: Some(Given { slot, .. }), .. }
            | Event::Completion { slot, .. }
            | Event::Preemption { slot, .. }
            | Event::Dropped(slot, _) => of_slot(slot),
            Event::FlowEnd(flow) => Some(*flow),
            _ => None,
        };
        let name = |flow: Option<FlowId>| self.flows.get(&flow?);
        match (name(flow), name(self.last)) {
            (Some(name), _) => format!("{event:?}, flow {name}"),
            (None, Some(name)) => format!("{event:?}, after a packet of flow {name}"),
            (None, None) => format!("{event:?}"),
        }
    }

    /// Names a packet.
    fn packet(&self, number: u64, packet: &Packet) -> String {
        let flow = self.flows.get(&packet.flow).cloned().unwrap_or_else(|| format!("flow {}", packet.flow));
        let length = counted(packet.length.into(), "byte");
        format!("packet {number} ({flow}, {length}, came at {})", instant(packet.arrival.as_ns()))
    }

    /// Names the packet in a slot.
    fn in_slot(&self, slot: Slot) -> String {
        let found = self.slots.get(&slot);
        found.map_or_else(|| format!("the packet in slot {slot}"), |(number, packet)| self.packet(*number, packet))
    }
}

/// Shows an instant to the nanosecond.
fn instant(ns: u64) -> String {
    format!("{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000)
}

impl<'a> Playing<'a> {
    /// Prepares to play the journal of `recorded` to `policy`.
    pub(crate) fn new(
        config: &'a SchedulerConfig,
        recorded: &PolicySpec,
        policy: &PolicySpec,
    ) -> Result<Self, LabError> {
        let is_other = recorded != policy;
        Ok(Self {
            config,
            player: Player::new(config, policy)?,
            recorded: is_other.then(|| Player::new(config, recorded)).transpose()?,
            steered: Vec::new(),
            records: 0,
            named: Named::default(),
            divergence: None,
        })
    }

    /// From now on this id names this flow.
    pub(crate) fn on_flow(&mut self, flow: FlowId, name: String) {
        self.named.flows.insert(flow, name);
    }

    /// Whether the answer was that of the journal.
    pub(crate) fn play(&mut self, line: u64, record: &Record) -> Result<bool, LabError> {
        if let Err(divergence) = self.player.play(self.config, record)? {
            let words = self.words(record, &divergence);
            let expected = self.named.text(&divergence.expected.event);
            let found = divergence.answer.map_or(divergence.found, |answer| self.named.text(&answer));
            self.divergence = Some(JournalDifference { line, time_ns: record.now.as_ns(), expected, found, words });
            return Ok(false);
        }
        self.named.note(&record.event);
        self.play_recorded(record)?;
        self.records += 1;
        Ok(true)
    }

    /// Plays a record to the policies that wrote it, if others are asked; notes the first packet that is steered
    /// otherwise.
    fn play_recorded(&mut self, record: &Record) -> Result<(), LabError> {
        let Some(recorded) = &mut self.recorded else { return Ok(()) };
        let Event::Arrival { packet, answer: Arrival::Queued(slot) } = &record.event else {
            // What it says now is what the journal has.
            let _ = recorded.play(self.config, record)?;
            return Ok(());
        };
        let before = self.steered.is_empty() && recorded.scheduler.core_views().is_some();
        let views: Vec<CoreView> = match recorded.scheduler.core_views() {
            Some(views) if before => views.as_slice().to_vec(),
            _ => Vec::new(),
        };
        let _ = recorded.play(self.config, record)?;
        let [then, now] = [&recorded.scheduler, &self.player.scheduler].map(|scheduler| scheduler.target(*slot));
        if let (true, Some(then), Some(now)) = (before && then != now, then, now) {
            let what = self.named.packet(self.named.arrived, packet);
            let [was, is] = [&*recorded, &self.player].map(Player::name);
            self.steered.push(format!(
                "The first difference is {what}: `{was}` steered it to {}, `{is}` steers it to {}.",
                place(then),
                place(now)
            ));
            let backlogs = [then, now].into_iter().filter_map(|target| backlog(&views, target, self.config.unit));
            let backlogs: Vec<String> = backlogs.collect();
            if !backlogs.is_empty() {
                self.steered.push(format!("When it came, {}.", backlogs.join(", ")));
            }
            for player in [&*recorded, &self.player] {
                if let Some(words) = player.scheduler.explain_steering(packet) {
                    self.steered.push(format!("`{}` went by {words}.", player.name()));
                }
            }
        }
        Ok(())
    }

    /// Returns the first difference in sentences.
    fn words(&self, record: &Record, divergence: &Divergence) -> Vec<String> {
        let Some(recorded) = &self.recorded else { return Vec::new() };
        if !self.steered.is_empty() {
            return self.steered.clone();
        }
        let at = instant(record.now.as_ns());
        let [was, is] = [recorded, &self.player].map(Player::name);
        let given = |event: &Event| match event {
            Event::Next { answer: Some(Given { slot, .. }), .. } => Some(*slot),
            _ => None,
        };
        match (&record.event, divergence.answer.as_deref()) {
            (Event::Next { core, .. }, Some(answer)) => {
                let slots = [given(&record.event), given(answer)];
                let [then, now] =
                    slots.map(|slot| slot.map_or_else(|| "nothing".to_owned(), |slot| self.named.in_slot(slot)));
                let mut words =
                    vec![format!("At {at} core {core} was free: `{was}` gave it {then}; `{is}` gives it {now}.")];
                let known = slots[0].and_then(|slot| recorded.scheduler.explain_sharing(slot));
                words.extend(known.map(|known| format!("`{was}` knew of the client of its choice: {known}.")));
                let known = slots[0].and_then(|slot| self.player.scheduler.explain_sharing(slot));
                words.extend(known.map(|known| format!("`{is}` knew of the same client: {known}.")));
                words
            }
            (Event::Core(then), Some(Event::Core(now))) => {
                vec![format!("At {at} `{was}` had a packet for core {then} first; `{is}` has one for core {now}.")]
            }
            (Event::Switch(then), Some(Event::Switch(now))) => vec![format!(
                "At {at} `{was}` moved core {} to service {}; `{is}` moves core {} to service {}.",
                then.core,
                self.service(then.to.index()),
                now.core,
                self.service(now.to.index())
            )],
            (Event::Switch(then), _) => vec![format!(
                "At {at} `{was}` moved core {} to service {}; `{is}` moves none.",
                then.core,
                self.service(then.to.index())
            )],
            (Event::Arrival { packet, .. }, Some(_)) => {
                let what = self.named.packet(self.named.arrived + 1, packet);
                vec![format!("The first difference is {what}: one policy queues it, the other has no room for it.")]
            }
            _ => Vec::new(),
        }
    }

    fn service(&self, index: usize) -> String {
        self.config.services.get(index).map_or_else(|| index.to_string(), |service| service.name.clone())
    }
}

/// Names a target.
fn place(target: Target) -> String {
    match target {
        Target::Core(core) => format!("core {core}"),
        Target::Element(element) => format!("element {element}"),
        Target::Shared => "the queue of all cores".to_owned(),
        Target::Hold => "no core yet".to_owned(),
    }
}

/// Says what the core of a target had. `None`: it is no core.
fn backlog(views: &[CoreView], target: Target, unit: WorkUnit) -> Option<String> {
    let core: CoreId = target.core()?;
    let view = views.get(core.index())?;
    let work = match unit {
        _ if view.packets == 0 => String::new(),
        WorkUnit::Nanoseconds => format!(" ({} of work)", time(view.backlog as f64)),
        WorkUnit::Bytes | WorkUnit::Packets => format!(" ({} {} of work)", view.backlog, unit.name()),
    };
    Some(format!("core {core} had {}{work}", counted(view.packets.into(), "packet")))
}
